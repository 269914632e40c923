"""What one recorded row says: a usable decision, or the reason why it is none.

This is the one place that knows what damaged probabilities look like. Nothing is repaired: a percentage
is not divided by 100, a log-probability not exponentiated.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

from evalkit import schema
from evalkit.errors import InputError, Problem
from evalkit.jsonl import MAX_OPTIONS, is_number

OK, MISSING, INVALID, ERROR = range(4)
"""Status codes: usable; not recorded; recorded but unusable; the backend failed."""
STATUS_NAMES = ("ok", "missing", "invalid", "error")

SUM_TOLERANCE = 1e-4
"""How far the probabilities of a row may add up from 1 (rounding in the recording)."""

TEXTS = ("prompt_sha256", "messages_sha256", "model", "system_fingerprint")
"""Recorded texts that are kept and compared between runs."""

NAMES = ("name", "source", "id")
"""The keys of an object that describes a model which may hold its name; the first one counts."""
UNNAMED = "(unnamed)"
"""Stands for the name of a model that has none."""

_NEEDED = re.compile(rf"\$(\.(id|option_ids|status|choice|error|cached_tokens|{'|'.join(TEXTS)})\b.*)?")


@dataclass(frozen=True)
class Row:
    """One recorded row, read."""

    id: str
    """The item's id."""
    status: int
    """One of OK, INVALID, ERROR."""
    options: tuple[str, ...] = ()
    """The options, as recorded; empty where the row names none."""
    probabilities: tuple[float, ...] | None = None
    """Conditional on the options, in their order; None where not recorded as points."""
    low: tuple[float, ...] | None = None
    """Lower bounds in the order of the options, where only ranges are known."""
    high: tuple[float, ...] | None = None
    """Upper bounds."""
    choice: int = -1
    """Index of the option named as choice where there are no points; -1 where none."""
    mass: float = math.nan
    """Mass on the options before renormalising, or as recorded."""
    reason: str = ""
    """Why the row is invalid, or what the backend's error said."""
    notice: str = ""
    """Something odd that does not make the row unusable."""


class _UnusableError(Exception):
    """The row is no usable decision; the message is the reason."""


def read_row(row: dict[str, Any], file: str, line: int) -> Row:
    """Read one parsed row of a run.

    Args:
        row: the parsed JSON object.
        file: name of the run file, for messages.
        line: line number, for messages.

    Returns:
        The decision; with status INVALID or ERROR and a reason where it is not usable.

    Raises:
        InputError: the row is not a row of a run at all (no id, fields of the wrong type).
    """
    listed = [row.get("option_ids"), row.get("probabilities")]
    count = max((len(value) for value in listed if isinstance(value, list | dict)), default=0)
    if count > MAX_OPTIONS:
        what = f"{count} options, at most {MAX_OPTIONS} are allowed"
        raise InputError(Problem(what, file, line, remedy="ask for fewer options in one decision"))
    problems = (
        [problem for problem in schema.check("run", row, file, line) if _NEEDED.fullmatch(problem.path)]
        if _needs_check(row)
        else []
    )
    problems += [
        Problem("holds half a surrogate pair, which no UTF-8 file can store", file, line, f"$.{field}")
        for field in ("id", "option_ids", *TEXTS)
        if not _encodable(text_of(row.get(field)) if field in TEXTS else row.get(field))
    ]
    if problems:
        raise InputError(_with_remedy(problem) for problem in problems)
    status = row.get("status") or "ok"
    options = tuple(row.get("option_ids") or ())
    text = row.get("error") or ""
    values = any(row.get(field) is not None for field in ("probabilities", "choice", "probability_range"))
    if status == "error" or (text and row.get("status") is None and not values):
        return Row(row["id"], ERROR, options, reason=text or "error without a message")
    if status != "ok":
        return Row(row["id"], INVALID, options, reason=text or f"recorded as {status}")
    try:
        if text:
            raise _UnusableError(f"holds both a decision and an error ({text})")
        return _decision(row, options)
    except _UnusableError as unusable:
        return Row(row["id"], INVALID, options, reason=str(unusable))


def field_problems(row: dict[str, Any], file: str, line: int) -> list[Problem]:
    """Return every violation of the schema ``evalkit.run/1`` in a row, in whatever field.

    The values that make a decision are left out: whether they are usable is for :func:`read_row` to say.
    """
    return [
        problem for problem in schema.check("run", row, file, line) if not problem.path.startswith(_JUDGED)
    ]


_JUDGED = ("$.probabilities", "$.probability_range", "$.allowed_token_mass")


def text_of(value: object) -> str | None:
    """Return a recorded text; of an object (a model with its details) its name."""
    if not isinstance(value, dict):
        return None if value is None else str(value)
    named = [value[key] for key in NAMES if isinstance(value.get(key), str)]
    return named[0] if named else UNNAMED


def _needs_check(row: dict[str, Any]) -> bool:
    # The common row is checked by hand; jsonschema costs a hundred times more.
    options = row.get("option_ids")
    plain = (
        row.keys() <= {"id", "option_ids", "probabilities", "probability_range", "choice"}
        and isinstance(row.get("id"), str)
        and row["id"] != ""
        and isinstance(row.get("choice", ""), str)
        and isinstance(options, list)
        and all(isinstance(option, str) and option for option in options)
        and len(set(options)) == len(options)
    )
    return not plain


def _encodable(value: object) -> bool:
    try:
        "".join(value if isinstance(value, list) else [value] if isinstance(value, str) else []).encode(
            "utf-8"
        )
    except UnicodeEncodeError:
        return False
    except TypeError:
        return True
    return True


def _with_remedy(problem: Problem) -> Problem:
    remedies = {
        "$.id": "ids are text: write the number in quotes, exactly as the label set has it",
        "$": "every row needs the id of its item",
    }
    remedy = remedies.get(problem.path, "")
    return Problem(problem.what, problem.file, problem.line, problem.path, remedy)


def _decision(row: dict[str, Any], options: tuple[str, ...]) -> Row:
    given = row.get("probabilities")
    if isinstance(given, dict):
        if options and set(options) != given.keys():
            raise _UnusableError(
                f"option_ids and probabilities name different options ({', '.join(map(repr, given))})"
            )
        options = options or tuple(given)
        given = [given[option] for option in options]
    ranges = row.get("probability_range")
    choice = row.get("choice")
    if not options:
        raise _UnusableError("option_ids are missing, so nobody knows which option a value belongs to")
    if choice is not None and choice not in options:
        raise _UnusableError(f"the choice {choice!r} is none of the options {', '.join(options)}")
    named = options.index(choice) if choice is not None else -1
    if given is not None and ranges is not None:
        raise _UnusableError("holds both probabilities and probability_range")
    if given is not None:
        return _points(row, options, given, named)
    if ranges is not None:
        return _ranged(row, options, ranges, named)
    if choice is None:
        raise _UnusableError("neither probabilities nor a choice were recorded")
    return Row(row["id"], OK, options, choice=named)


def _points(row: dict[str, Any], options: tuple[str, ...], given: object, named: int) -> Row:
    if not isinstance(given, list):
        raise _UnusableError(f"probabilities are neither a list nor an object but {type(given).__name__}")
    if len(given) != len(options):
        raise _UnusableError(f"{len(given)} probabilities for {len(options)} options")
    if len(options) < 2:
        raise _UnusableError("a decision needs at least two options")
    if reason := looks_like(given):
        raise _UnusableError(reason)
    values = [min(float(value), 1.0) for value in given]
    total = _added_up(values)
    if total == 0:
        raise _UnusableError("all probabilities are 0: no option got any mass")
    mass = _mass(row)
    if total < 1 - SUM_TOLERANCE:
        mass, values = total, [value / total for value in values]
    best = values.index(max(values))
    notice = ""
    if named >= 0 and values[named] < values[best]:
        notice = "the recorded choice is not the most probable option; the probabilities count"
    return Row(row["id"], OK, options, tuple(values), mass=mass, notice=notice)


def _mass(row: dict[str, Any]) -> float:
    mass = row.get("allowed_token_mass")
    if mass is None:
        return math.nan
    if not (is_number(mass) and 0 <= mass <= 1 + SUM_TOLERANCE):
        raise _UnusableError(f"allowed_token_mass {mass!r} is no probability")
    return float(mass)


def _ranged(row: dict[str, Any], options: tuple[str, ...], ranges: object, named: int) -> Row:
    if not isinstance(ranges, dict) or not ranges.keys() <= set(options):
        raise _UnusableError("probability_range must be an object from option id to [low, high]")
    low, high = [0.0] * len(options), [1.0] * len(options)
    for option, pair in ranges.items():
        if not (isinstance(pair, list) and len(pair) == 2 and all(map(is_number, pair))):
            raise _UnusableError(f"the range of {option!r} is no pair [low, high] of numbers")
        if not 0 <= pair[0] <= pair[1] <= 1:
            raise _UnusableError(f"the range of {option!r} is not within 0 <= low <= high <= 1")
        low[options.index(option)], high[options.index(option)] = map(float, pair)
    # What the others hold at least, this one cannot hold; and the reverse.
    lows, highs = math.fsum(low), math.fsum(high)
    if lows > 1 + SUM_TOLERANCE or highs < 1 - SUM_TOLERANCE:
        raise _UnusableError("no probabilities that add up to 1 fit into the ranges")
    tight_low = tuple(max(bottom, 1 - (highs - top)) for bottom, top in zip(low, high, strict=True))
    tight_high = tuple(min(top, 1 - (lows - bottom)) for bottom, top in zip(low, high, strict=True))
    mass = _mass(row)
    best = named if named >= 0 else tight_low.index(max(tight_low))
    if any(bottom > tight_high[best] + SUM_TOLERANCE for bottom in tight_low):
        raise _UnusableError(f"the choice {options[best]!r} contradicts the ranges")
    if named < 0 and any(
        tight_high[other] > tight_low[best] for other in range(len(options)) if other != best
    ):
        raise _UnusableError("the ranges do not tell which option is the choice; record it as `choice`")
    return Row(row["id"], OK, options, None, tight_low, tight_high, named, mass)


def _added_up(values: list[float]) -> float:
    # From left to right, as the columns are added up, so that both readers agree to the last bit.
    total = 0.0
    for value in values:
        total += value
    return total


def looks_like(values: list[Any]) -> str:
    """Say why values are no probabilities and what they look like instead; empty where they are fine."""
    shown = ", ".join(_shown(value) for value in values[:4]) + (", ..." if len(values) > 4 else "")
    if any(value is None for value in values):
        return f"a probability is null ({shown})"
    if any(isinstance(value, str) for value in values):
        return f"probabilities are text ({shown}): {_text_hint([v for v in values if isinstance(v, str)])}"
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return f"probabilities are not numbers ({shown})"
    if not all(map(is_number, values)):
        return f"a probability is not finite ({shown})"
    total = _added_up([float(value) for value in values])
    if min(values) < 0:
        if max(values) <= 0:
            return f"probabilities are negative ({shown}): they look like log-probabilities"
        rounding = abs(total - 1) <= SUM_TOLERANCE and max(values) <= 1 + SUM_TOLERANCE
        hint = "" if rounding else ": they look like logits"
        return f"a probability is negative ({shown}){hint}"
    if total <= 1 + SUM_TOLERANCE:
        return ""
    if max(values) > 1 and abs(total - 100) <= 1.5:
        return f"probabilities add up to {total:g} ({shown}): they look like percent"
    if max(values) > 1 + SUM_TOLERANCE:
        return f"a probability is above 1 ({shown}): they look like logits or counts"
    return f"the listed probabilities sum to {total:.4f}, above 1 + {SUM_TOLERANCE:g}"


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 24 else text[:21] + "..."


def _text_hint(texts: list[str]) -> str:
    joined = "".join(texts)
    if "%" in joined:
        return "they look like percent"
    if "," in joined:
        return "they look like numbers with a decimal comma"
    return "write numbers without quotes"
