"""Reading TOML, with a message that names the place."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from evalkit.errors import InputError, Problem
from evalkit.jsonl import MAX_DEPTH, without_hint
from evalkit.values import deeper_than

_PLACE = re.compile(r" \(at line (\d+), column (\d+)\)$")


def read_toml(raw: bytes, file: str) -> tuple[str, dict[str, Any]]:
    """Parse the bytes of a TOML file.

    Args:
        raw: the bytes.
        file: how messages name the file.

    Returns:
        The text, and what it says.

    Raises:
        InputError: it is not UTF-8 or not TOML.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            Problem(f"not UTF-8 at byte {error.start}", file, remedy="save it as UTF-8")
        ) from None
    try:
        found = tomllib.loads(text)
        if deeper_than(found, MAX_DEPTH):
            raise RecursionError
        return text, found
    except ValueError as error:  # a number of thousands of digits is one too
        message = str(error)
        place = _PLACE.search(message)
        what = without_hint(message[: place.start()] if place else message)
        raise InputError(Problem(f"not TOML ({what})", file, int(place[1]) if place else None)) from None
    except RecursionError:
        raise InputError(Problem("not TOML (nested too deeply)", file)) from None
