"""Reading evalkit's pages back as their readers see them: markdown rendered, HTML parsed, text measured."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser

from markdown_it import MarkdownIt
from wcwidth import wcswidth

ACTING = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
"""Characters that a terminal acts on, the line end aside."""
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_RULE = re.compile(r"-+(?:  -+)*")
_FOLD = re.compile(r"(?:</details>\s*)?(?:<details><summary>(?P<title>[^<]*)</summary>)?")
_SMALL = {("html_inline", "<sub>"), ("html_inline", "</sub>"), ("softbreak", "")}


@dataclass
class Grid:
    """A table: its title and its rows, the header first."""

    title: str
    rows: list[list[str]] = field(default_factory=list)


def markdown_tables(text: str) -> list[Grid]:
    """Render GitHub markdown and return its tables; markup that the page does not write itself is refused.

    The page writes folded sections and small print. Anything else (an image, a link, emphasis, code) can
    only come from the data.
    """
    tables: list[Grid] = []
    title, inside, heading = "", False, False
    github = MarkdownIt("gfm-like")
    assert github.linkify is not None
    github.linkify.set({"fuzzy_link": False})  # GitHub makes no links of bare names such as model.name ...
    assert not re.search(r"\bwww\.", text, re.IGNORECASE)  # ... unless they begin like this.
    for token in github.parse(text):
        if token.type == "html_block":
            fold = _FOLD.fullmatch(token.content.strip())
            assert fold, f"raw HTML: {token.content!r}"
            title = html.unescape(fold["title"] or "")
        elif token.type in ("heading_open", "heading_close"):
            heading = token.type == "heading_open" and token.tag == "h3"
        elif token.type in ("table_open", "table_close"):
            inside = token.type == "table_open"
            tables += [Grid(title)] if inside else []
            title = ""
        elif token.type == "tr_open":
            tables[-1].rows.append([])
        elif token.type == "inline":
            parts = [(child.type, child.content) for child in token.children or ()]
            assert all(kind == "text" or (kind, content) in _SMALL for kind, content in parts), parts
            seen = "".join(content for _, content in parts)
            if inside:
                tables[-1].rows[-1].append(seen)
            elif heading:
                title = seen
    return tables


def html_texts(page: str) -> set[str]:
    """Return the texts of an HTML page; what could run, load, link or hide something is refused."""
    texts: set[str] = set()

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert tag not in ("script", "img", "a", "b", "iframe", "object", "link", "svg", "form", "input")
            assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)

        def handle_data(self, data: str) -> None:
            texts.add(data)

        def handle_comment(self, data: str) -> None:
            raise AssertionError(f"a comment: {data}")

    reader = Reader(convert_charrefs=True)
    reader.feed(page)
    reader.close()
    return texts


def unstyled(text: str) -> str:
    """Return a text without colours and bold type."""
    return _STYLE.sub("", text)


def width(line: str) -> int:
    """Return how many columns a terminal needs for a line."""
    return wcswidth(unstyled(line))


def blocks(text: str) -> list[list[str]]:
    """Return the parts of a text page that empty lines separate."""
    return [part.splitlines() for part in text.rstrip("\n").split("\n\n")]


def is_table(block: Sequence[str]) -> bool:
    """Tell whether a part of a text page holds a table."""
    return any(_RULE.fullmatch(line) for line in block)


def squeezed(*texts: str) -> str:
    """Join texts without their white space, so that only what is written counts, not where lines break."""
    return "".join("".join(texts).split())


def matched_table(block: Sequence[str], wanted: Grid) -> list[str]:
    """Find the cells of a table in a text block, and return the lines that follow its rows.

    Cells may be broken over several lines. The rule below the header says where each column begins and
    ends; every cell must stand in its column, whole, and the gaps between columns must be empty.
    """
    place = next(number for number, line in enumerate(block) if _RULE.fullmatch(line))
    columns = [(found.start(), found.end()) for found in re.finditer("-+", block[place])]
    assert len(columns) == len(wanted.rows[0])
    above = list(block[:place])
    title = 0
    while squeezed(*above[:title]) != squeezed(wanted.title):
        title += 1
        assert title <= len(above), f"the title is not {wanted.title!r}"
    assert _by_column(above[title:], columns) == [squeezed(cell) for cell in wanted.rows[0]]
    below = list(block[place + 1 :])
    cells = [squeezed(*column) for column in zip(*wanted.rows[1:], strict=True)]
    end = 0
    while _by_column(below[:end], columns) != cells:
        end += 1
        assert end <= len(below), f"cells of {wanted.title!r} are lost or stand in another column"
    return below[end:]


def _by_column(lines: Sequence[str], columns: Sequence[tuple[int, int]]) -> list[str]:
    """Return what stands in each column, without white space; nothing may stand between columns."""
    inside: list[list[str]] = [[] for _ in columns]
    for line in lines:
        for number, sign in enumerate(line):
            at = wcswidth(line[:number])
            owner = [place for place, (start, end) in enumerate(columns) if start <= at < end]
            if owner:
                inside[owner[0]].append(sign)
            elif sign != " ":
                return []
    return [squeezed(*signs) for signs in inside]
