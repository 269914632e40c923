"""Blocks of JSON Lines as columns, and coding lists and names as numbers."""

from __future__ import annotations

import json
from collections.abc import Generator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evalkit.columns import (
    LayoutTable,
    categorical,
    code_lists,
    distinct_rows,
    map_blocks,
    parse_block,
    scatter_rows,
)
from evalkit.errors import InputError
from evalkit.jsonl import Block, Source

if TYPE_CHECKING:
    from tests.conftest import Maker

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.float64()), ("list", pa.list_(pa.string()))])
NAMES = st.text(max_size=3)


def parsed_ids(data: bytes) -> list[Any] | None:
    parsed = parse_block(Block(1, data), SCHEMA)
    return None if parsed is None else parsed.table["id"].to_pylist()


# parse_block


def test_parse_block_reads_only_the_columns_asked_for() -> None:
    parsed = parse_block(Block(5, b'{"id":"a","n":1,"other":{"x":[1]}}\n{"list":["u"],"id":"b"}\n'), SCHEMA)
    assert parsed is not None
    assert parsed.table.to_pylist() == [
        {"id": "a", "n": 1.0, "list": None},
        {"id": "b", "n": None, "list": ["u"]},
    ]
    assert parsed.block.start == 5


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "\n"])
def test_parse_block_knows_the_place_of_each_line(ending: str, last: str) -> None:
    lines = ['{"id":"a"}', '{"id":"学\u2028"}', '{"id":"c","n":0.5}']
    data = ending.join(lines).encode() + (ending.encode() if last else b"")
    if not last and ending == "\r\n":
        assert parse_block(Block(1, data), SCHEMA) is None  # mixed line ends are read line by line
        return
    parsed = parse_block(Block(1, data), SCHEMA)
    assert parsed is not None
    assert [parsed.line(row).decode() for row in range(3)] == lines


@pytest.mark.parametrize(
    "data",
    [
        b'{"id":"a"}\n\n',
        b'\n{"id":"a"}\n',
        b'\r\n{"id":"a"}\r\n',
        b'{"id":"a"}\n{"id":"b"}\r\n',
        b'{"id":"a"}\r\n{"id":"b","x":{}}\n',
        b'{"id":"a"}\r\n{"id":"b"}\n',
        b' {"id":"a"}\n',
        b'{"id":"a"} \n',
        b'\xef\xbb\xbf{"id":"a"}\n',
        b'{"id":"a"}{"id":"b"}\n',
        b'{"id":"a"} {"id":"b"}\n',
        b'{"id":"a"}\n{"id":"b"}{"id":"c"}\n',
        b'{"id":"a","x":{}\n{}}\n',
        b'{"id":"a","x":[{}\n{}]}\n',
        b'{"id":"a\n{}"}\n',
        b'{"id":"a","x":"{}\n{}"}\n',
        b'{"id":\n"a"}\n',
        b'{"id":"a"\n',
        b'["a"]\n',
        b'"{}"\n',
        b'{"id":"\xff"}\n',
        b'{"other":"\xff"}\n',
        b'{"id":1}\n',
        b'{"id":"a","n":"1"}\n',
        b'{"id":"a","list":"u"}\n',
        b'{"id":"a","list":[1]}\n',
        b'{"id":"a","id":"b"}\n',
        b'{"id":"\\ud800"}\n',
        b'{"id":"a","other":"a\tb"}\n',
        b'{"id":"a","other":01}\n',
        b'{"id":"a",}\n',
        b"{'id':1}\n",
    ],
)
def test_parse_block_leaves_everything_unusual_to_the_reader_line_by_line(data: bytes) -> None:
    assert parse_block(Block(1, data), SCHEMA) is None


PIECES = st.lists(
    st.sampled_from(
        [
            '{"id":"a"}',
            '{"id":"b","x":{"y":[{}]}}',
            "{",
            "}",
            "\n",
            "\r\n",
            " ",
            '"',
            ",",
            "[",
            "]",
            '{"id":"}\\n{"}',
        ]
    ),
    max_size=8,
).map("".join)


@given(PIECES)
@example('{"id":"a"}\n{"id":"b"}')
@example('{"id":"a","x":[{"id":"b"}\n,{"id":"c"}]}')
def test_parse_block_reads_each_line_as_the_one_object_it_is(text: str) -> None:
    ids = parsed_ids(text.encode()) if text else None
    if ids is not None:
        lines = [line for line in text.split("\n") if line]
        assert ids == [json.loads(line).get("id") for line in lines]


# map_blocks


def test_map_blocks_keeps_the_order_of_the_file(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = Source.blocks
    monkeypatch.setattr(Source, "blocks", lambda self: blocks(self, 64))
    path = make.file("".join(f'{{"id":"{number}"}}\n' for number in range(300)))
    starts = list(map_blocks(Source(path, "f"), lambda block: block.start))
    assert len(starts) > 20
    assert starts == sorted(starts)
    assert starts[0] == 1


def test_map_blocks_passes_an_error_of_the_function_on(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = Source.blocks
    monkeypatch.setattr(Source, "blocks", lambda self: blocks(self, 64))
    path = make.file("".join(f'{{"id":"{number}"}}\n' for number in range(300)))

    def third(block: Block) -> int:
        if block.start > 10:
            raise InputError("third")
        return block.start

    with pytest.raises(InputError, match="third"):
        list(map_blocks(Source(path, "f"), third))


def test_map_blocks_may_be_left_early(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = Source.blocks
    monkeypatch.setattr(Source, "blocks", lambda self: blocks(self, 64))
    path = make.file("".join(f'{{"id":"{number}"}}\n' for number in range(300)))
    found = map_blocks(Source(path, "f"), lambda block: block.start)
    assert next(found) == 1
    assert isinstance(found, Generator)
    found.close()
    assert list(found) == []


# code_lists and its parts


@given(st.lists(st.none() | st.lists(NAMES, max_size=4), max_size=12))
@example([["a", "b"], ["b", "a"], ["a", "b"]])
@example([[], None])
@example([])
def test_code_lists_gives_every_row_its_own_list(lists: list[list[str] | None]) -> None:
    layouts, which = code_lists(pa.array(lists, pa.list_(pa.string())))
    assert [layouts[number] for number in which.tolist()] == [tuple(entry or ()) for entry in lists]
    assert len(set(layouts)) == len(layouts)


def test_code_lists_of_many_options_stay_distinct() -> None:
    # Too many codes for one 64-bit key.
    wide = [[f"option {place}" for place in range(70)], [f"option {place}" for place in range(69, -1, -1)]]
    layouts, which = code_lists(pa.array([wide[0], wide[1], wide[0]], pa.list_(pa.string())))
    assert [list(layouts[number]) for number in which.tolist()] == [wide[0], wide[1], wide[0]]


@given(st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=1, max_size=20))
def test_distinct_rows_are_the_same_with_a_key_and_without(rows: list[list[int]]) -> None:
    matrix = np.asarray(rows, dtype=np.int64)
    for base in (5, 1 << 40):
        found, which = distinct_rows(matrix, base)
        assert (found[which] == matrix).all()
        assert len({tuple(row) for row in found.tolist()}) == len(found)
        assert all(one < other for one, other in pairwise(found.tolist()))


def test_scatter_rows_pads_at_the_right() -> None:
    values = np.asarray([1.0, 2.0, 3.0])
    matrix = scatter_rows(values, np.asarray([1, 0, 2]), 2, -1.0)
    assert matrix.tolist() == [[1.0, -1.0], [-1.0, -1.0], [2.0, 3.0]]


def test_layout_table_numbers_layouts_over_blocks() -> None:
    table = LayoutTable()
    first = table.renumber([("A", "B"), ("C",)], np.asarray([0, 1, 0], dtype=np.int32))
    second = table.renumber([("C",), ("B", "A")], np.asarray([1, 0], dtype=np.int32))
    assert (first.tolist(), second.tolist()) == ([0, 1, 0], [2, 1])
    assert table.layouts() == (("A", "B"), ("C",), ("B", "A"))
    assert table.renumber([], np.zeros(0, dtype=np.int32)).tolist() == []


@given(st.lists(st.none() | NAMES, max_size=10))
def test_categorical_codes_names_in_order_of_appearance(names: list[str | None]) -> None:
    coded = categorical(names)
    assert [coded.names[code] if code >= 0 else None for code in coded.codes.tolist()] == names
    assert list(coded.names) == list(dict.fromkeys(name for name in names if name is not None))
    assert categorical(pa.array(names, pa.string())).names == coded.names


# fields that the first line does not have


@pytest.mark.parametrize(
    ("later", "n"), [('{"id":"b","n":2}', 2.0), ('{"id":"b","other":1}', None), ('{"id":"b"}', None)]
)
def test_a_field_that_only_a_later_line_has_is_read(later: str, n: float | None) -> None:
    parsed = parse_block(Block(1, f'{{"id":"a"}}\n{later}\n'.encode()), SCHEMA)
    assert parsed is not None
    assert parsed.table.schema == SCHEMA
    assert parsed.table.to_pylist() == [
        {"id": "a", "n": None, "list": None},
        {"id": "b", "n": n, "list": None},
    ]


def test_a_key_that_only_a_later_line_has_twice_is_left_to_the_line_reader() -> None:
    assert parsed_ids(b'{"id":"a"}\n{"id":"b","n":1,"n":2}\n') is None
