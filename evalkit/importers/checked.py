"""What the checks make of foreign records: decisions with a sound row, and notices by kind."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evalkit import rows
from evalkit.errors import InputError
from evalkit.importers.records import Item, Place, Record
from evalkit.outcome import Notice

DECISION = ("option_ids", "probabilities", "probability_range", "choice")
"""The fields of a row that hold the decision."""


@dataclass(frozen=True)
class Decision:
    """A checked row with what is known of its origin."""

    row: dict[str, Any]
    """The row of the run."""
    place: Place
    """Where the record stood that it was made from."""
    status: int
    """OK, INVALID or ERROR of :mod:`evalkit.rows`."""
    reason: str
    """Why it is not usable."""
    rule: str
    """Name of the read-out rule; empty for rows that came with their decision."""
    repeat: int | None = None
    """Number of the repeat, where the record said it."""
    series: Mapping[str, str] = field(default_factory=dict)
    """What sets it apart from other decisions on the item: option that picks it to value."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings of the request."""
    model: Mapping[str, Any] = field(default_factory=dict)
    """What the record said of the model."""
    basis: str = ""
    """What the probabilities are, where that needs saying."""
    notices: tuple[Notice, ...] = ()
    """What a reader should know."""

    @property
    def id(self) -> str:
        """The item's id."""
        return str(self.row["id"])

    @property
    def usable(self) -> bool:
        """Whether it is a decision."""
        return self.status == rows.OK

    def same_as(self, other: Decision) -> bool:
        """Tell whether both say the same of the item."""
        return all(self.row.get(name) == other.row.get(name) for name in DECISION)


@dataclass
class Remarks:
    """Notices of single decisions, kept by kind."""

    found: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Kind to (id, detail) of every decision it happened to."""

    def add(self, item: str, notice: Notice) -> None:
        """Keep a notice of an item's decision."""
        self.found.setdefault(notice.kind, []).append((item, notice.detail))

    def texts(self) -> list[str]:
        """Return one line a kind: the first item, its detail, and how many more there are."""
        lines = []
        for kind, cases in self.found.items():
            item, detail = cases[0]
            more = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
            lines.append(f"item {item}{more}: {kind}" + (f" ({detail})" if detail else ""))
        return lines


def item_id(record: Record | Item) -> str:
    """Return a record's or item's id as text; a whole number is written without a sign or zeros of its own.

    Raises:
        InputError: there is no id, or it is neither text nor a whole number.
    """
    value = record.id
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value is None or value == "":
        raise InputError(record.place.problem("has no id", "say where the id stands with --id-field"))
    raise InputError(
        record.place.problem(f"the id {value!r} is neither text nor a whole number", "write ids as text")
    )


def finite(value: Any) -> Any:
    """Return the value with null for every NaN and infinity, which JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: finite(entry) for key, entry in value.items()}
    return [finite(entry) for entry in value] if isinstance(value, list) else value
