"""Small helpers for parsed JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalkit.jsonl import is_number


def at(value: Any, *steps: str | int) -> Any:
    """Return what a path of keys and places leads to, None where a step leads nowhere."""
    for step in steps:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return None
    return value


def without_nones(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that say something."""
    return {key: value for key, value in fields.items() if value is not None}


def deeper_than(value: Any, levels: int) -> bool:
    """Tell whether objects and lists are nested more deeply than that."""
    layer = [value]
    for _ in range(levels + 1):
        nested = [entry for entry in layer if isinstance(entry, dict | list)]
        layer = [e for entry in nested for e in (entry.values() if isinstance(entry, dict) else entry)]
        if not nested:
            return False
    return True


def number(value: Any) -> float | None:
    """Return a value as a float where it is a finite number, else None; integers may be too long."""
    return float(value) if is_number(value) else None


def whole(value: Any) -> int | None:
    """Return a value where it is a whole number, else None; true and false are none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
