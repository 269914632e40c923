"""How reports write numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NONE = "-"
"""Stands where there is nothing to measure."""


def number(value: float | None, digits: int = 4) -> str:
    """Write a figure."""
    return NONE if value is None else f"{value:.{digits}f}"


def signed(value: float | None, digits: int = 4) -> str:
    """Write a difference with its sign."""
    return NONE if value is None else f"{value:+.{digits}f}"


def share(part: int, whole: int) -> str:
    """Write a share in percent."""
    return f"{100 * part / whole:.1f} %" if whole else NONE


def figure(value: Mapping[str, Any] | None, *, sign: bool = False) -> str:
    """Write a figure with its interval."""
    if value is None:
        return NONE
    write = signed if sign else number
    if value["low"] is None:
        return write(value["value"])
    return f"{write(value['value'])} [{write(value['low'], 3)}, {write(value['high'], 3)}]"


def p_value(p: float) -> str:
    """Write a p-value; a tiny one as a bound, never as 0."""
    if p < 0.0001:
        return "p < 0.0001"
    return f"p = {p:.4f}" if p < 0.01 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def with_error(value: float | None, error: float | None) -> str:
    """Write a mean with its standard error."""
    if value is None:
        return NONE
    digits = 4 if value >= 0.01 or value == 0 else 6
    return f"{value:.{digits}f}" + ("" if error is None else f" ± {error:.{digits}f}")


def plural(count: int, noun: str, many: str = "") -> str:
    """Write a count with its noun."""
    return f"{count} {noun if count == 1 else many or noun + 's'}"
