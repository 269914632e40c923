r"""Strict reading and atomic writing of JSON Lines, plain or compressed.

A file is read in blocks of whole lines, so that memory stays bounded and blocks can be parsed in
parallel. Line numbers always count the lines of the (decompressed) file from 1, blank ones included;
only ``\\n`` ends a line, so U+2028 and its kin may stand inside strings.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from evalkit.errors import InputError, NotFoundError, Problem

BLOCK_BYTES = 8 << 20
"""Bytes read at a time."""
MAX_LINE_BYTES = 64 << 20
"""A longer line is refused: it is no record of one decision."""
MAX_DEPTH = 200
"""Deeper nested JSON is refused where a line has to be read by Python."""
MAX_OPTIONS = 1000
"""An item with more options is refused: a run is laid out with one column an option."""
MAX_DOCUMENT_BYTES = 256 << 20
"""A larger file is refused where it has to be read into memory as a whole."""

LONG_NUMBER = "a number has thousands of digits"
"""What is wrong where Python refuses to read a number; its own words are about an interpreter setting."""

_BOM = b"\xef\xbb\xbf"
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_SUFFIXES = {".gz": "gzip", ".zst": "zstd"}
_FOREIGN = {
    b"\x1f\x8b": "gzip inside its compression",
    b"\x28\xb5\x2f\xfd": "zstd inside its compression",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"PK\x03\x04": "a zip archive",
    b"PAR1": "Parquet",
}
"""How files start that are no text."""
_TOKENS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
"""Strings (the last one may be open) and brackets; nothing is looked at twice."""
_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]")


@dataclass(frozen=True)
class Block:
    """Whole consecutive lines of a file."""

    start: int
    """Number of the first line, counted from 1."""
    data: bytes
    """The lines as they stand in the file; the last may lack its newline."""

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield (line number, line without its line end), blank lines left out."""
        for number, raw in enumerate(self.data.split(b"\n"), self.start):
            line = raw.strip()
            if line.startswith(_BOM):
                line = line.removeprefix(_BOM).lstrip()
            if line:
                yield number, line


@dataclass
class Source:
    """A JSON Lines file while it is read; digest and notices are complete when the blocks are."""

    path: Path
    """Where the file is."""
    name: str
    """How messages call it."""
    notices: list[str] = field(default_factory=list)
    """What was tolerated on the way (a byte order mark, a misleading name)."""
    sha256: str = ""
    """Hex digest of the file as stored; set once all blocks have been read."""

    def blocks(self, size: int = BLOCK_BYTES) -> Iterator[Block]:
        """Yield the file as blocks of whole lines.

        Raises:
            NotFoundError: the file cannot be opened.
            InputError: it is UTF-16, a JSON array, damaged in compression, or has an endless line.
        """
        digest = hashlib.sha256()
        line, rest, first = 1, b"", True
        try:
            with self.path.open("rb") as file:
                for data in self._decompressed(_Hashing(file, digest), size):
                    if first:
                        self._check_start(data)
                        first = False
                    head, newline, tail = data.rpartition(b"\n")
                    if len(rest) + len(data.partition(b"\n")[0]) > MAX_LINE_BYTES:
                        what = f"a line is longer than {MAX_LINE_BYTES >> 20} MiB"
                        raise self._error(what, line, "write one record a line")
                    if not newline:
                        rest += data
                        continue
                    block = Block(line, rest + head + newline)
                    line += block.data.count(b"\n")
                    rest = tail
                    yield block
        except OSError as error:
            raise NotFoundError(
                Problem(
                    f"cannot be read ({error.strerror or error})",
                    self.name,
                    remedy="check path and permissions",
                )
            ) from error
        if rest:
            yield Block(line, rest)
        self.sha256 = digest.hexdigest()

    def _decompressed(self, file: _Hashing, size: int) -> Iterator[bytes]:
        start = file.read(size)
        codec = next((codec for magic, codec in _MAGIC.items() if start.startswith(magic)), None)
        wanted = _SUFFIXES.get(self.path.suffix)
        if codec is None:
            if wanted and start:
                self.notices.append(
                    f"{self.name}: named {self.path.suffix}, but it is not {wanted}; read as plain text"
                )
            while start:
                yield start
                start = file.read(size)
            return
        import pyarrow as pa

        with self.path.open("rb") as again, pa.CompressedInputStream(pa.PythonFile(again), codec) as stream:
            while data := self._inflated(stream, codec, size):
                yield data
        while file.read(size):
            pass

    def _inflated(self, stream: Any, codec: str, size: int) -> bytes:
        try:
            return bytes(stream.read(size))
        except OSError as error:
            kind = "truncated" if "runcated" in str(error) else "damaged"
            raise InputError(
                Problem(f"{kind} {codec} ({error})", self.name, remedy="copy or record the file again")
            ) from error

    def _check_start(self, data: bytes) -> None:
        if _is_utf16(data):
            raise self._error(_UTF16, 1, _AS_UTF8)
        if kind := next((kind for magic, kind in _FOREIGN.items() if data.startswith(magic)), None):
            raise self._error(f"the file is no text but {kind}", 1, "unpack it, or pack it with gzip or zstd")
        text = data.removeprefix(_BOM).lstrip()
        if text.startswith(b"["):
            quoted = excerpt(text.split(b"\n", 1)[0])
            raise self._error(
                f"this looks like a JSON array, expected one object a line (the first line is {quoted})",
                1,
                "write one record a line without brackets and commas, e.g. jq -c '.[]'",
            )

    def _error(self, what: str, line: int, remedy: str = "") -> InputError:
        return InputError(Problem(what, self.name, line, remedy=remedy))


_UTF16 = "the file is UTF-16"
_AS_UTF8 = "save it as UTF-8 (PowerShell: Out-File -Encoding utf8)"


def _is_utf16(data: bytes) -> bool:
    """Tell whether a file starts with a mark of UTF-16 or an ASCII sign in it, as UTF-32 does too."""
    return data[:2] in (b"\xff\xfe", b"\xfe\xff") or (0 in data[:2] and any(data[:4]))


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


@dataclass
class _Hashing:
    """A binary file whose bytes go through a digest as they are read."""

    file: IO[bytes]
    digest: _Digest

    def read(self, size: int) -> bytes:
        data = self.file.read(size)
        self.digest.update(data)
        return data


def excerpt(raw: bytes, width: int = 60) -> str:
    r"""Quote the start of a line for a message, undecodable bytes as ``\\xNN``."""
    text = raw.decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= width else text[: width - 3] + "...")


def parse_object(raw: bytes, file: str, line: int, *, allow_nan: bool = False) -> dict[str, Any]:
    """Parse one line as a JSON object, strictly.

    Args:
        raw: the line without its line end.
        file: name of the file, for the message.
        line: number of the line, for the message.
        allow_nan: accept the bare words NaN and Infinity (as floats); otherwise they are an error.

    Raises:
        InputError: not UTF-8, not JSON, no object, a key twice, nested too deeply, an endless number.
    """

    def fail(what: str, remedy: str = "") -> InputError:
        return InputError(Problem(what, file, line, remedy=remedy))

    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise fail(
            f"invalid UTF-8 at byte {error.start} of the line (0x{raw[error.start]:02x})",
            "save the file as UTF-8",
        ) from None
    if _too_deep(text):
        raise fail(f"nested too deeply (more than {MAX_DEPTH} levels)", "leave the field out")
    try:
        value = _Strict(allow_nan).decode(text)
    except json.JSONDecodeError as error:
        place = line + error.lineno - 1
        raise InputError(
            Problem(_json_problem(text, error), file, place, remedy="one complete JSON object is expected")
        ) from None
    except _KeyTwiceError as error:
        raise fail(
            f"the key {error.args[0]!r} occurs twice in one object", "which of the two is meant?"
        ) from None
    except _BareNumberError as error:
        raise fail(f"{error.args[0]} is not JSON", "write null, or leave the field out") from None
    except RecursionError:
        raise fail(f"nested too deeply (more than {MAX_DEPTH} levels)", "leave the field out") from None
    except ValueError:
        raise fail(LONG_NUMBER, "leave the field out, or write it as text") from None
    if not isinstance(value, dict):
        raise fail(f"expected an object, found {excerpt(raw)}", "one complete JSON object is expected")
    return value


def read_document(path: Path, file: str) -> dict[str, Any]:
    """Read a file that is one JSON object, as strictly as a line.

    Raises:
        NotFoundError: the file cannot be opened.
        InputError: it is not one JSON object.
    """
    raw = read_whole(path, file)
    if _is_utf16(raw):
        raise InputError(Problem(_UTF16, file, 1, remedy=_AS_UTF8))
    if not raw.strip():
        raise InputError(Problem("is empty", file, remedy="one JSON object is expected"))
    return parse_object(raw.removeprefix(_BOM), file, 1)


def read_whole(path: Path, file: str, remedy: str = "check path and permissions") -> bytes:
    """Return the bytes of a file that has to be read as a whole.

    Args:
        path: the file.
        file: how messages call it.
        remedy: what to do where it cannot be opened.

    Raises:
        NotFoundError: the file cannot be opened.
        InputError: it is too large for that.
    """
    try:
        with path.open("rb") as stored:
            raw = stored.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        what = f"cannot be read ({error.strerror or error})"
        raise NotFoundError(Problem(what, file, remedy=remedy)) from error
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise too_large(file)
    return raw


def without_hint(message: str) -> str:
    """Return the message of a parser, our own words in the place of Python's on a number that is too long."""
    return LONG_NUMBER if "set_int_max_str_digits" in message else message


def too_large(file: str) -> InputError:
    """Return the error for a file that has to be read as a whole and is too large for that."""
    what = f"larger than {MAX_DOCUMENT_BYTES >> 20} MiB, and has to be read as a whole"
    return InputError(Problem(what, file, remedy="split it"))


class _KeyTwiceError(ValueError):
    pass


class _BareNumberError(ValueError):
    pass


class _Strict(json.JSONDecoder):
    def __init__(self, allow_nan: bool) -> None:
        super().__init__(
            object_pairs_hook=_unique_pairs, parse_constant=float if allow_nan else _refuse_constant
        )


def _refuse_constant(word: str) -> float:
    raise _BareNumberError(word)


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        raise _KeyTwiceError(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return result


def _too_deep(text: str) -> bool:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    depth = deepest = 0
    for token in _TOKENS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        deepest = max(deepest, depth)
    return deepest > MAX_DEPTH


def _json_problem(text: str, error: json.JSONDecodeError) -> str:
    if error.msg == "Extra data":
        fused = "a carriage return ends no line" if "\r" in text else "two records fused?"
        return f"something follows the record at column {error.colno} ({fused})"
    if error.pos >= len(text) or "Unterminated string" in error.msg:
        return "unfinished record: the line ends in the middle of it"
    near = text[max(0, error.pos - 20) :][:60].encode("utf-8")
    return f"not JSON at column {error.colno} ({error.msg}): {excerpt(near)}"


def dumps(value: Any, *, indent: int | None = None, ascii_only: bool = False) -> str:
    r"""Return strict JSON: text as is, but control and direction characters as ``\\u`` escapes.

    Raises:
        ValueError: the value holds NaN or an infinity.
    """
    text = json.dumps(value, ensure_ascii=ascii_only, allow_nan=False, indent=indent)
    return text if ascii_only else _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def write_atomic(path: Path, text: str) -> None:
    """Write UTF-8 text to a file so that a reader sees the old file or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        partial.write_bytes(text.encode("utf-8"))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows as JSON Lines, atomically."""
    write_atomic(path, "".join(dumps(row) + "\n" for row in rows))


def file_sha256(path: Path) -> str:
    """Return the hex sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_number(value: object) -> bool:
    """Tell whether a parsed JSON value is a finite float64 (booleans are none)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False
