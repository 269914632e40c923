"""Making text from other people harmless for the page it goes into."""

from __future__ import annotations

import html
import re

_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufff9-\uffff]"
)
_MARKDOWN = re.compile(r"[\\`*_\[\]<>|~@#&$]|:(?=//|\w)|(?<=[wW]{3})\.")


def visible(text: str) -> str:
    """Write control and direction characters as escapes, so that a terminal does not act on them."""
    return _CONTROL.sub(lambda found: _escaped(ord(found[0])), text)


def _escaped(code: int) -> str:
    short = {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}
    return short.get(code) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def markdown(text: str) -> str:
    """Write text so that GitHub's markdown shows it as it is: no markup, no link, no mention."""
    return _MARKDOWN.sub(lambda found: f"&#{ord(found[0])};", visible(text))


def markup(text: str) -> str:
    """Write text for an HTML page."""
    return html.escape(visible(text), quote=True)
