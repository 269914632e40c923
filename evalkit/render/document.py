"""A report on its way to a page: titles, sentences and tables, without any markup yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Table:
    """A table of texts."""

    title: str
    """What it shows."""
    header: Sequence[str]
    """Names of the columns."""
    rows: Sequence[Sequence[str]]
    """The cells."""
    left: int = 1
    """How many columns, from the first, are aligned to the left; the others are numbers."""
    hidden: int = 0
    """Rows that were left out."""
    fold: bool = False
    """A detail: folded away where the page can fold."""
    note: str = ""
    """A sentence below the table."""


@dataclass(frozen=True)
class Document:
    """A page."""

    title: str
    """Its title."""
    summary: Sequence[str]
    """The sentences that say it all."""
    tables: Sequence[Table] = ()
    """The details, in order."""
    notices: Sequence[str] = ()
    """What a reader should know."""
    signatures: Sequence[str] = field(default=())
    """How the figures were made."""
