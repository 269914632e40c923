"""Foreign files: their lines, their document, and how they start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from evalkit.errors import InputError, NotFoundError, Problem
from evalkit.jsonl import MAX_DOCUMENT_BYTES, Source, excerpt, file_sha256, parse_object, too_large

ZIP, PARQUET = b"PK\x03\x04", b"PAR1"
"""How these files start."""

_BOM = b"\xef\xbb\xbf"
_START_BYTES = 1 << 20


@dataclass(frozen=True)
class Start:
    """How a file starts, for telling its format."""

    magic: bytes
    """The first bytes of the file as stored."""
    first: dict[str, Any] | None
    """The first record, or the whole document; None where the file is no JSON."""
    line: str
    """The first line that is not blank, where the file is text."""


@dataclass
class InputFile:
    """A foreign file; notices tell what was tolerated while it was read."""

    path: Path
    """Where it is."""
    name: str
    """How messages call it."""
    notices: list[str] = field(default_factory=list)
    """What was tolerated."""

    @cached_property
    def sha256(self) -> str:
        """Hex digest of the file as stored."""
        return file_sha256(self.path)

    def lines(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield (line number, object) of a file of JSON lines; NaN and Infinity are read as floats.

        Raises:
            InputError: lists every line that is no JSON object, once the sound ones have been read.
        """
        problems: list[Problem] = []
        source = Source(self.path, self.name)
        for block in source.blocks():
            for number, raw in block.lines():
                try:
                    yield number, parse_object(raw, self.name, number, allow_nan=True)
                except InputError as error:
                    problems += error.problems
        self._note(source.notices)
        if problems:
            raise InputError(problems)

    @cached_property
    def document(self) -> dict[str, Any]:
        """The file as one JSON object; NaN and Infinity are read as floats.

        Raises:
            InputError: it is not one JSON object, or too large.
        """
        return parse_object(self.content.removeprefix(_BOM), self.name, 1, allow_nan=True)

    @cached_property
    def text(self) -> str:
        """The file as UTF-8 text, without a byte order mark.

        Raises:
            InputError: it is no UTF-8, or too large.
        """
        raw = self.content
        try:
            return raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            what = f"invalid UTF-8 at byte {error.start} (0x{raw[error.start]:02x})"
            raise InputError(Problem(what, self.name, line, remedy="save the file as UTF-8")) from None

    @cached_property
    def content(self) -> bytes:
        """The whole file, decompressed.

        Raises:
            InputError: it is too large for that, or damaged.
        """
        source = Source(self.path, self.name)
        parts: list[bytes] = []
        size = 0
        for block in source.blocks():
            parts.append(block.data)
            size += len(block.data)
            if size > MAX_DOCUMENT_BYTES:
                raise too_large(self.name)
        self._note(source.notices)
        return b"".join(parts)

    def _note(self, notices: list[str]) -> None:
        self.notices += [notice for notice in notices if notice not in self.notices]

    @cached_property
    def start(self) -> Start:
        """How the file starts.

        Raises:
            NotFoundError: it cannot be opened.
            InputError: it is empty, or its start is damaged.
        """
        magic = self._magic()
        if magic in (ZIP, PARQUET):
            return Start(magic, None, "")
        number, line = next(
            (entry for block in Source(self.path, self.name).blocks(_START_BYTES) for entry in block.lines()),
            (0, b""),
        )
        if not line:
            raise InputError(Problem("is empty", self.name, remedy="nothing was recorded, or the wrong file"))
        return Start(magic, self._first(line, number), line.decode("utf-8", "backslashreplace"))

    def _magic(self) -> bytes:
        try:
            with self.path.open("rb") as stored:
                return stored.read(len(ZIP))
        except OSError as error:
            what = f"cannot be read ({error.strerror or error})"
            raise NotFoundError(Problem(what, self.name, remedy="check path and permissions")) from error

    def _first(self, line: bytes, number: int) -> dict[str, Any] | None:
        if not line.startswith(b"{"):
            return None
        try:
            return parse_object(line, self.name, number, allow_nan=True)
        except InputError as error:
            if self.content.strip().count(b"\n") == 0:
                raise
            try:
                return self.document
            except InputError:
                raise error from None

    @property
    def first_line(self) -> str:
        """The first line as a message quotes it."""
        return excerpt(self.start.line.encode()) if self.start.line else "no text"
