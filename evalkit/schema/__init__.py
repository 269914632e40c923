"""The JSON Schemas of evalkit's files, and validation against them.

The schemas are package data and say what each field means; :func:`check` reports every violation as a
:class:`~evalkit.errors.Problem` with its JSON path. jsonschema itself is imported on first use.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from evalkit.errors import Problem

Kind = Literal[
    "label",
    "labelset",
    "run",
    "meta",
    "score",
    "diff",
    "reports",
    "rules",
    "checks",
    "gate",
    "lock",
]


@cache
def load(kind: Kind) -> dict[str, Any]:
    """Return one of the schemas as parsed JSON."""
    text = files(__name__).joinpath(f"{kind}.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


@cache
def _validator(kind: Kind) -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(load(kind))


def check(kind: Kind, value: object, file: str = "", line: int | None = None) -> list[Problem]:
    """Validate a parsed document and return what is wrong with it, in document order.

    Args:
        kind: which schema.
        value: the parsed JSON (or YAML) value.
        file: file name for the messages.
        line: line number for the messages.
    """
    errors = sorted(
        _validator(kind).iter_errors(value), key=lambda error: [str(step) for step in error.absolute_path]
    )
    return [Problem(_what(error), file, line, error.json_path) for error in errors]


def _what(error: Any) -> str:
    found = json.dumps(error.instance, ensure_ascii=True, default=str)
    if len(found) > 60:
        found = found[:57] + "..."
    if error.validator in ("minItems", "maxItems"):
        limit = "at least {} needed" if error.validator == "minItems" else "at most {} allowed"
        return f"{len(error.instance)} entries, {limit.format(error.validator_value)}"
    if error.validator in ("required", "additionalProperties"):
        return str(error.message) if len(error.message) < 200 else f"violates {error.validator}"
    if error.validator == "type":
        wanted = error.validator_value
        return f"expected {wanted if isinstance(wanted, str) else ' or '.join(wanted)}, found {found}"
    if error.validator == "oneOf":
        return f"{found} has none of the allowed forms"
    if error.validator == "enum":
        allowed = ("null" if value is None else str(value) for value in error.validator_value)
        return f"{found} is none of {', '.join(allowed)}"
    return f"{found} does not meet {error.validator} {json.dumps(error.validator_value)}"
