"""What importers hand over: foreign records mapped to ours, before anything is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evalkit.errors import InputError, Problem, UsageError
from evalkit.importers.files import InputFile, Start
from evalkit.readings import Reading
from evalkit.values import at


@dataclass(frozen=True)
class Place:
    """Where a record stands."""

    file: str
    """The file as messages name it."""
    line: int | None = None
    """Its line, counted from 1, in files of lines."""
    path: str = ""
    """Its JSON path, in files that are one document."""

    def problem(self, what: str, remedy: str = "") -> Problem:
        """Return a problem at this place."""
        return Problem(what, self.file, self.line, self.path, remedy)

    def __str__(self) -> str:
        return ":".join(filter(None, (self.file, str(self.line or ""), self.path)))


@dataclass(frozen=True)
class Record:
    """One decision as the foreign file has it."""

    id: Any
    """The id as parsed: text or a number."""
    place: Place
    """Where it stands."""
    reading: Reading
    """What was recorded."""
    options: tuple[str, ...] = ()
    """Ids of the options, where the record says them."""
    repeat: int | None = None
    """Number of the repeat (epoch), where the record says it."""
    series: tuple[tuple[str, str], ...] = ()
    """What sets it apart from other records of the item, as pairs (option that picks it, value)."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings of the request."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of a run's row: model, input_tokens ..."""
    model: Mapping[str, Any] = field(default_factory=dict)
    """What the record says of the model, for the sidecar."""
    rule: str = ""
    """Name of a read-out rule other than the usual one for the reading."""
    basis: str = ""
    """What the probabilities are, where that needs saying."""


@dataclass(frozen=True)
class Item:
    """One item of a label set as the foreign file has it."""

    id: Any
    """The id as parsed."""
    place: Place
    """Where it stands."""
    label: Any
    """The label as written: an id, a text, an index."""
    options: tuple[Mapping[str, Any], ...] = ()
    """The options, `{id, description?}`; empty where the file does not say them."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of an item: evidence, criterion, family ..."""


@dataclass(frozen=True)
class ImportOptions:
    """What the user declares about a foreign file."""

    options: tuple[str, ...] = ()
    """Ids of every item's options, where neither file nor label set says them."""
    answers: str = ""
    """What answers name: `letters` by position, or option `ids`; empty for letters where both agree."""
    token_ids: Mapping[int, str] = field(default_factory=dict)
    """Names of token numbers."""
    text_choices: bool = False
    """Take the answer's text as a choice where no probabilities were recorded."""
    series: Mapping[str, str] = field(default_factory=dict)
    """What picks among several series of records: option to value."""
    epoch: int | None = None
    """The one repeat to import."""
    repeats: bool = False
    """Import every repeat, into a file of its own."""
    id_field: str = ""
    """Dotted path to the id inside a record."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Our field to the table's column."""
    delimiter: str = ","
    """What separates the cells of a CSV file."""
    index_base: int | None = None
    """Number of the first option, where labels are numbers."""


@dataclass(frozen=True)
class Format:
    """A foreign format: how to tell it, and how to map its records."""

    name: str
    """Its name."""
    what: str
    """What it is, in a few words."""
    recognises: Callable[[Start], bool]
    """Tells from the start of a file whether it has this format."""
    records: Callable[[InputFile, ImportOptions], Iterator[Record]] | None = None
    """Yields the decisions of a file; None where the format holds none."""
    items: Callable[[InputFile, ImportOptions], Iterator[Item]] | None = None
    """Yields the labelled items of a file; None where the format holds none."""


def described(ids: Sequence[str], texts: Sequence[Any], place: Place) -> tuple[dict[str, Any], ...]:
    """Return options as items have them: each text with the id at its place.

    Raises:
        InputError: there are texts without an id.
    """
    if len(texts) > len(ids):
        raise InputError(
            place.problem(
                f"{len(texts)} choices, but {len(ids)} option ids ({', '.join(ids)})",
                "name as many with --options as an item has choices",
            )
        )
    return tuple({"id": option, "description": text} for option, text in zip(ids, texts, strict=False))


def chosen_id(record: Mapping[str, Any], options: ImportOptions, *usual: tuple[str, ...]) -> Any:
    """Return a record's id: at the place that the user names, else at the first usual place that has one.

    Raises:
        UsageError: the record has nothing at the place that the user names.
    """
    if not options.id_field:
        return next((found for steps in usual if (found := at(record, *steps)) is not None), None)
    found = at(record, *options.id_field.split("."))
    if found is None:
        raise UsageError(f"--id-field {options.id_field}: a record has nothing there")
    return found
