"""JSON Lines blocks as columns: parsed by pyarrow where that is provably the same as line by line.

pyarrow's JSON reader is strict about what it reads, but it takes two objects on one line as two rows.
:func:`parse_block` therefore uses it only where every line is exactly one object; any other block is
left to the line-by-line reader, which is slower and can say what is wrong.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.json as pj
from numpy.typing import NDArray

from evalkit.jsonl import Block, Source

Result = TypeVar("Result")
Codes = NDArray[np.int32]
Layout = tuple[str, ...]

WORKERS = 2
"""Blocks parsed at the same time; more gain little, since reading is bound by memory."""


@dataclass(frozen=True)
class Parsed:
    """A block as an arrow table together with the places of its lines."""

    table: pa.Table
    """One row a line, in the columns asked for."""
    block: Block
    """The block it was parsed from."""
    starts: NDArray[np.int64]
    """Offset of each line in the block."""
    ends: NDArray[np.int64]
    """Offset of each line's newline."""

    def line(self, row: int) -> bytes:
        """Return the line a row was parsed from."""
        return self.block.data[self.starts[row] : self.ends[row]]


@dataclass(frozen=True)
class Categorical:
    """A column of names as codes."""

    names: tuple[str, ...]
    """The distinct names, in order of first appearance."""
    codes: Codes
    """Shape (items,): index into names, -1 where the item has none."""


def parse_block(block: Block, schema: pa.Schema) -> Parsed | None:
    """Parse a block into the columns of a schema, or return None where only line by line is safe.

    Fields outside the schema are ignored. None is returned for anything unusual: a blank line, a line
    that is not one whole object, text that is not UTF-8, a value of another type than the schema's.
    """
    data = block.data if block.data.endswith(b"\n") else block.data + b"\n"
    places = _line_places(data)
    if places is None or not _is_utf8(data):
        return None
    table = _read_narrow(data, schema)
    if table is None:
        table = _read_json(data, schema, "ignore")
    starts, ends = places
    if table is None or table.num_rows != len(starts):
        return None
    return Parsed(table.combine_chunks(), Block(block.start, data), starts, ends)


def first_object(data: bytes) -> dict[str, Any]:
    """Return the object on the first line; empty where there is none."""
    try:
        found = json.loads(data[: data.find(b"\n") + 1 or None])
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _read_narrow(data: bytes, schema: pa.Schema) -> pa.Table | None:
    # Columns that stay empty cost a third of the parsing. Those of the first line will do where no line has
    # another field, which the parser then checks; it cannot do so while it also skips fields.
    fields = first_object(data).keys()
    if not fields or not fields <= set(schema.names):
        return None
    table = _read_json(data, pa.schema([field for field in schema if field.name in fields]), "error")
    if table is None:
        return None
    columns = [
        table[field.name] if field.name in fields else pa.nulls(len(table), field.type) for field in schema
    ]
    return pa.table(columns, schema=schema)


def _read_json(data: bytes, schema: pa.Schema, unexpected: str) -> pa.Table | None:
    try:
        return pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _line_places(data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    # A newline between } and { cannot lie inside a JSON value, so with as many values as lines
    # each line is exactly one value.
    octets = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(octets == ord("\n"))
    starts = np.concatenate(([0], ends[:-1] + 1))
    last = octets[ends - 1]
    if last[0] == ord("\r"):
        ends = ends - 1
        if not (octets[ends] == ord("\r")).all():
            return None
        last = octets[ends - 1]
    if (octets[starts] == ord("{")).all() and (last == ord("}")).all():
        return starts, ends
    return None


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def map_blocks(source: Source, function: Callable[[Block], Result]) -> Iterator[Result]:
    """Apply a function to the blocks of a file, a few at a time in threads, results in file order."""
    blocks = source.blocks()
    first, second = next(blocks, None), next(blocks, None)
    if first is None:
        return
    if second is None:  # a small file needs no threads
        yield function(first)
        return
    pending: list[Future[Result]] = []
    with ThreadPoolExecutor(WORKERS) as pool:
        try:
            for block in itertools.chain((first, second), blocks):
                pending.append(pool.submit(function, block))
                if len(pending) > WORKERS:
                    yield pending.pop(0).result()
            for future in pending:
                yield future.result()
        finally:
            for future in pending:
                future.cancel()


def code_lists(lists: pa.ListArray) -> tuple[list[Layout], Codes]:
    """Code lists of strings: the distinct lists and, per row, which one it is.

    Args:
        lists: n lists of non-null strings; a null list counts as an empty one.

    Returns:
        The distinct lists, and an int32 array (n,) of indices into them.
    """
    encoded = lists.flatten().dictionary_encode()
    names: list[str] = encoded.dictionary.to_pylist()
    lengths = np.asarray(lists.value_lengths().fill_null(0), dtype=np.int64)
    codes = np.asarray(encoded.indices, dtype=np.int64)
    width = int(lengths.max(initial=0))
    matrix = scatter_rows(codes, lengths, width, len(names))
    if len(matrix) and (matrix == matrix[0]).all():
        distinct, which = matrix[:1], np.zeros(len(matrix), dtype=np.int32)
    else:
        distinct, which = distinct_rows(matrix, len(names) + 1)
    layouts = [tuple(names[code] for code in row if code < len(names)) for row in distinct]
    return layouts, which


def scatter_rows(values: NDArray[Any], lengths: NDArray[np.int64], width: int, fill: float) -> NDArray[Any]:
    """Lay a flat array of rows of different lengths out as a matrix (rows, width), padded at the right."""
    if (lengths == width).all():
        return values.reshape(len(lengths), width)
    matrix = np.full((len(lengths), width), fill, dtype=values.dtype)
    matrix[np.arange(width) < lengths[:, None]] = values
    return matrix


def distinct_rows(matrix: NDArray[np.int64], base: int) -> tuple[NDArray[np.int64], Codes]:
    """Return the distinct rows of a matrix of codes in [0, base) and the index of each row's own."""
    if matrix.shape[1] * np.log2(max(base, 2)) < 62:
        keys = np.zeros(len(matrix), dtype=np.int64)
        for column in matrix.T:
            keys *= base
            keys += column
        first, inverse = _distinct_keys(keys)
    else:
        _, first, inverse = np.unique(matrix, axis=0, return_index=True, return_inverse=True)
    return matrix[first], inverse.reshape(-1).astype(np.int32)


def _distinct_keys(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a row of each distinct key >= 0, by ascending key, and the number of each row's key."""
    size = int(keys.max(initial=-1)) + 1
    if size > 4 * len(keys) + 1024:
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        return first, inverse
    present = np.flatnonzero(np.bincount(keys, minlength=size))
    new = np.zeros(size, dtype=np.int64)
    new[present] = np.arange(len(present))
    inverse = new[keys]
    first = np.zeros(len(present), dtype=np.int64)
    first[inverse] = np.arange(len(keys))
    return first, inverse


def categorical(column: pa.Array | Sequence[str | None]) -> Categorical:
    """Code a column of strings (null: no value)."""
    array = column if isinstance(column, pa.Array) else pa.array(column, pa.string())
    encoded = array.dictionary_encode()
    return Categorical(
        tuple(encoded.dictionary.to_pylist()),
        np.asarray(encoded.indices.fill_null(-1), dtype=np.int32),
    )


class LayoutTable:
    """Numbers the distinct option lists of many blocks."""

    def __init__(self) -> None:
        self._index: dict[Layout, int] = {}

    def renumber(self, layouts: Iterable[Layout], which: Codes) -> Codes:
        """Turn a block's own layout numbers into those of the whole file."""
        own = [self.number(layout) for layout in layouts]
        return np.asarray(own, dtype=np.int32)[which] if own else which

    def number(self, layout: Layout) -> int:
        """Return the number of a layout, a new one at first sight."""
        return self._index.setdefault(layout, len(self._index))

    def layouts(self) -> tuple[Layout, ...]:
        """Return the layouts in the order of their numbers."""
        return tuple(self._index)
