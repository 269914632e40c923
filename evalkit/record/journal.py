"""The run file while it grows: each decision is appended at once, and what is there is never lost.

Rows stand in order of arrival until the last one is in; then the file is put into label-set order, each row
byte for byte as it was. At every moment the file is a valid run, except that a machine that stops in the
middle of a write can leave half a row at the end, which is set aside at the next start.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

from evalkit import rows
from evalkit.errors import InputError, Problem, UsageError
from evalkit.jsonl import dumps, parse_object

try:
    import fcntl
except ImportError:  # pragma: no cover  (Windows has no advisory locks of this kind)
    fcntl = None  # type: ignore[assignment]

RowCheck = Callable[[dict[str, Any]], str]
"""Says what keeps a row out of a recording; nothing where it belongs there."""
DECISION = ("option_ids", "probabilities", "probability_range", "choice")
"""The fields of a row that make its decision."""
ASIDE = ".torn"
"""What is added to a run file's name for the file that keeps the fragments."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row stands in the file."""

    start: int
    """The first byte."""
    length: int
    """Bytes without the newline."""
    usable: bool = True
    """Whether it is a usable decision."""


@dataclass
class Found:
    """What a run file holds already."""

    places: dict[str, Place] = field(default_factory=dict)
    """By item: the row that counts, which is the first usable one, else the last one."""
    failed: set[str] = field(default_factory=set)
    """The items whose row says that the backend failed."""
    sequence: list[str] = field(default_factory=list)
    """The item of each row, in file order."""
    models: set[str] = field(default_factory=set)
    """The models that answered."""
    end: int = 0
    """Where the last whole row ends, after its newline."""
    fragment: bytes = b""
    """Half a row at the end."""
    needs_newline: bool = False
    """Whether the last row lacks its newline."""


class Journal:
    """A run file, locked and open for appending; used as a context manager."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self.found = Found()
        self._descriptor = -1

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise UsageError(
                f"--output {self.name}: cannot be written ({error.strerror or error})"
            ) from error
        try:
            self._lock()
        except BaseException:
            os.close(self._descriptor)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
        if not self.found.sequence and self.path.exists() and not self.path.stat().st_size:
            # Nothing was recorded: an empty file would look like a run.
            self.path.unlink()

    def read(self, check: RowCheck) -> Found:
        """Go through the rows that are there, in one pass.

        Args:
            check: says what keeps a row out of this recording.

        Raises:
            InputError: a row is damaged (except half a row at the end), does not belong here, or decides
                otherwise than an earlier one on the same item.
        """
        found, problems = Found(), _Problems(self.name)
        with self.path.open("rb") as file:
            for row in _rows(file, self.name, found):
                problems.add(row.line, self._contradicted(found, row) or _take(found, row, check))
        problems.raise_any()
        self.found = found
        return found

    def set_aside(self) -> str:
        """Move half a row from the end of the file into a file beside it; return that file's name.

        Raises:
            UsageError: it cannot be written.
        """
        aside = self.path.with_name(self.path.name + ASIDE)
        try:
            with aside.open("ab") as file:
                file.write(self.found.fragment + b"\n")
            os.ftruncate(self._descriptor, self.found.end)
        except OSError as error:
            raise UsageError(f"{aside}: cannot be written ({error.strerror or error})") from error
        return aside.name

    def append(self, row: dict[str, Any], *, failed: bool) -> None:
        """Write a row at the end, at once and whole; or not at all.

        Args:
            row: the row.
            failed: whether it says that the backend failed.

        Raises:
            UsageError: the file cannot grow (a full disk).
        """
        found = self.found
        data = (b"\n" if found.needs_newline else b"") + dumps(row).encode("utf-8") + b"\n"
        try:
            written = os.write(self._descriptor, data)
            if written < len(data):
                raise OSError(0, "the disk is full")
        except OSError as error:
            os.ftruncate(self._descriptor, found.end)
            raise UsageError(
                f"{self.name}: cannot be written ({error.strerror or error}); {len(found.places)} decisions "
                "are in it, and the same command continues when there is room"
            ) from error
        start = found.end + int(found.needs_newline)
        found.needs_newline = False
        place = Place(start, found.end + len(data) - start - 1, row.get("status") is None)
        _count(found, str(row["id"]), place, failed)
        found.end += len(data)

    def put_in_order(self, order: Sequence[str]) -> None:
        """Bring the rows into an order, one row an item, each as it stands.

        Args:
            order: the items.

        Raises:
            UsageError: the new file cannot be written; the old one stays, whole.
        """
        found = self.found
        partial = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        try:
            os.fsync(self._descriptor)
            if found.sequence == list(order) and not found.needs_newline:
                return
            with partial.open("wb") as file:
                for name in order:
                    place = found.places[name]
                    file.write(os.pread(self._descriptor, place.length, place.start) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.path)
        except OSError as error:
            raise UsageError(
                f"{self.name}: cannot be put into the order of the label set ({error.strerror or error}); "
                "every decision is in it, and the same command tries again"
            ) from error
        finally:
            partial.unlink(missing_ok=True)

    def _contradicted(self, found: Found, row: FoundRow) -> str:
        before = found.places.get(row.row["id"])
        if before is None or not (before.usable and row.place.usable):
            return ""
        earlier = parse_object(os.pread(self._descriptor, before.length, before.start), self.name, 0)
        if all(earlier.get(key) == row.row.get(key) for key in DECISION):
            return ""
        return f"{row.row['id']} has another decision in an earlier row"

    def _lock(self) -> None:
        if fcntl is None:  # pragma: no cover
            return
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"--output {self.name}: another process is recording into this file") from None


@dataclass(frozen=True)
class FoundRow:
    """A row that is there already."""

    line: int
    """Its line, counted from 1."""
    row: dict[str, Any]
    """The parsed row."""
    failed: bool
    """Whether it says that the backend failed."""
    place: Place
    """Where it stands."""


@dataclass
class _Problems:
    name: str
    found: list[Problem] = field(default_factory=list)

    def add(self, line: int, what: str) -> None:
        if what:
            remedy = "record into another file, or move this one away"
            self.found.append(Problem(what, self.name, line, remedy=remedy))

    def raise_any(self) -> None:
        if self.found:
            raise InputError(self.found)


def _rows(file: IO[bytes], name: str, found: Found) -> Iterator[FoundRow]:
    """Yield the whole rows of a file; note where they end, and what half a row follows."""
    offset, torn = 0, None
    for line, raw in enumerate(file, 1):
        start, text = offset, raw.strip()
        offset += len(raw)
        if torn is not None and text:
            raise torn
        if torn is not None or not text:
            continue
        try:
            row = parse_object(text, name, line, allow_nan=True)
        except InputError as error:
            # Only the last row may be damaged: a write that did not get to its end.
            torn, found.fragment = error, raw.rstrip(b"\r\n")
            continue
        found.end, found.needs_newline = offset, not raw.endswith(b"\n")
        read = rows.read_row(row, name, line)
        lead = len(raw) - len(raw.lstrip())
        place = Place(start + lead, len(text), read.status == rows.OK)
        yield FoundRow(line, row, read.status == rows.ERROR, place)


def _take(found: Found, row: FoundRow, check: RowCheck) -> str:
    name = row.row["id"]
    what = check(row.row)
    if what:
        return what
    if isinstance(model := row.row.get("model"), str):
        found.models.add(model)
    _count(found, name, row.place, row.failed)
    return ""


def _count(found: Found, name: str, place: Place, failed: bool) -> None:
    found.sequence.append(name)
    before = found.places.get(name)
    if before is not None and (before.usable or (failed and name not in found.failed)):
        return
    found.places[name] = place
    if failed:
        found.failed.add(name)
    else:
        found.failed.discard(name)


def pending(order: Iterable[str], found: Found, *, retry_failed: bool) -> set[str]:
    """Return the items that have to be asked.

    Args:
        order: all items.
        found: what is recorded.
        retry_failed: whether to ask again about the items whose request failed.
    """
    return {name for name in order if name not in found.places or (retry_failed and name in found.failed)}
