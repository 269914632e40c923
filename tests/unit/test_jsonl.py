"""Strict reading and atomic writing of JSON Lines."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import lzma
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit import jsonl
from evalkit.errors import InputError, NotFoundError
from evalkit.jsonl import (
    MAX_DEPTH,
    Block,
    Source,
    dumps,
    excerpt,
    file_sha256,
    is_number,
    parse_object,
    read_document,
    write_atomic,
    write_lines,
)

if TYPE_CHECKING:
    from tests.conftest import Maker

BOM = b"\xef\xbb\xbf"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
)


def lines_of(path: Path, size: int = 1 << 20) -> list[tuple[int, bytes]]:
    return [line for block in Source(path, path.name).blocks(size) for line in block.lines()]


def problem_of(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        lines_of(path)
    return str(caught.value)


def parse_problem(raw: str | bytes, *, allow_nan: bool = False) -> str:
    with pytest.raises(InputError) as caught:
        parse_object(raw.encode() if isinstance(raw, str) else raw, "f", 7, allow_nan=allow_nan)
    return str(caught.value)


def zstd(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


# lines and blocks


def test_lines_number_the_lines_of_the_file_blank_ones_included(make: Maker) -> None:
    path = make.file(b'\n{"id":"a"}\r\n\r\n  {"id":"b"}\t\n \n{"id":"c"}')
    assert lines_of(path) == [(2, b'{"id":"a"}'), (4, b'{"id":"b"}'), (6, b'{"id":"c"}')]


def test_lines_lose_a_byte_order_mark_wherever_a_line_starts_with_one(make: Maker) -> None:
    path = make.file(BOM + b'{"id":"a"}\r\n' + BOM + b'{"id":"b"}\n' + BOM + b"\n")
    assert lines_of(path) == [(1, b'{"id":"a"}'), (2, b'{"id":"b"}')]


def test_lines_are_not_split_at_unicode_separators(make: Maker) -> None:
    path = make.file('{"id":"a\u2028b\u2029c\u0085d"}\n')
    assert lines_of(path) == [(1, '{"id":"a\u2028b\u2029c\u0085d"}'.encode())]


@given(
    st.lists(st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b"")), max_size=8), st.integers(5, 60)
)
def test_blocks_hold_whole_lines_and_the_whole_file(make: Maker, lines: list[bytes], size: int) -> None:
    content = b"x" * 12 + b"".join(b"\n" + line for line in lines)  # a start that is no magic number
    path = make.file(content)
    source = Source(path, "f")
    blocks = list(source.blocks(size))
    assert b"".join(block.data for block in blocks) == content
    assert all(block.data.endswith(b"\n") for block in blocks[:-1])
    starts = [1]
    for block in blocks:
        assert block.start == starts[-1]
        starts.append(block.start + block.data.count(b"\n"))
    assert source.sha256 == hashlib.sha256(content).hexdigest()


def test_blocks_of_an_empty_file_are_none_but_it_has_a_digest(make: Maker) -> None:
    source = Source(make.file(b""), "f")
    assert list(source.blocks()) == []
    assert source.sha256 == hashlib.sha256(b"").hexdigest()


def test_block_keeps_a_last_line_without_newline() -> None:
    assert list(Block(3, b'{"a":1}\n{"b":2}').lines()) == [(3, b'{"a":1}'), (4, b'{"b":2}')]


def test_blocks_refuse_an_endless_line(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "MAX_LINE_BYTES", 1 << 20)
    path = make.file(b'{"id":"a"}\n{"id":"' + b"x" * (2 << 20) + b'"}\n')
    with pytest.raises(InputError, match="f:2: a line is longer than 1 MiB"):
        list(Source(path, "f").blocks(1 << 16))


# what cannot be read


def test_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(
        NotFoundError, match=r"gone: cannot be read \(No such file or directory\): check path"
    ):
        list(Source(tmp_path / "gone.jsonl", "gone").blocks())


def test_folder_in_place_of_a_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="cannot be read"):
        list(Source(tmp_path, "folder").blocks())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_named_with_its_remedy(make: Maker, encoding: str) -> None:
    raw = '{"id":"学"}\n'.encode(encoding)
    if encoding == "utf-16-be":
        raw = b"\xfe\xff" + raw
    message = problem_of(make.file(raw))
    assert message.startswith("run.jsonl:1: the file is UTF-16: save it as UTF-8")


def test_json_array_is_one_problem_that_quotes_its_first_line(make: Maker) -> None:
    message = problem_of(make.file(BOM + b'\n [{"id":"a"},\n{"id":"b"}]\n'))
    assert message.startswith("run.jsonl:1: this looks like a JSON array, expected one object a line")
    assert """'[{"id":"a"},'""" in message
    assert len(message.splitlines()) == 1


# compression


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip.compress), ("zst", zstd)])
def test_compressed_file_is_read_and_hashed_as_stored(make: Maker, suffix: str, pack: Any) -> None:
    content = b"".join(b'{"id":"%d"}\n' % number for number in range(5000))
    path = make.file(pack(content), f"run.jsonl.{suffix}")
    source = Source(path, path.name)
    assert b"".join(block.data for block in source.blocks(1000)) == content
    assert source.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert source.notices == []


def test_compressed_file_is_recognised_whatever_its_name(make: Maker) -> None:
    path = make.file(gzip.compress(b'{"id":"a"}\n'), "run.jsonl")
    assert lines_of(path) == [(1, b'{"id":"a"}')]


def test_compressed_members_one_after_the_other_are_all_read(make: Maker) -> None:
    path = make.file(gzip.compress(b'{"id":"a"}\n') + gzip.compress(b'{"id":"b"}\n'), "run.jsonl.gz")
    assert lines_of(path) == [(1, b'{"id":"a"}'), (2, b'{"id":"b"}')]


@pytest.mark.parametrize(("codec", "suffix", "pack"), [("gzip", "gz", gzip.compress), ("zstd", "zst", zstd)])
@pytest.mark.parametrize("kept", [0.5, 0.999])
def test_truncated_compressed_file_is_refused(
    make: Maker, codec: str, suffix: str, pack: Any, kept: float
) -> None:
    whole = pack(b"".join(b'{"id":"%d","x":"%s"}\n' % (n, os.urandom(20).hex().encode()) for n in range(500)))
    path = make.file(whole[: int(len(whole) * kept)], f"run.jsonl.{suffix}")
    assert f"truncated {codec}" in problem_of(path)


def test_damaged_compressed_file_is_refused(make: Maker) -> None:
    whole = bytearray(gzip.compress(b'{"id":"a"}\n' * 500))
    whole[len(whole) // 2] ^= 0xFF
    message = problem_of(make.file(bytes(whole), "run.jsonl.gz"))
    assert "damaged gzip" in message
    assert message.endswith("copy or record the file again")


@pytest.mark.parametrize(("suffix", "codec"), [("gz", "gzip"), ("zst", "zstd")])
def test_plain_text_named_as_compressed_is_read_with_a_notice(make: Maker, suffix: str, codec: str) -> None:
    path = make.file(b'{"id":"a"}\n', f"run.jsonl.{suffix}")
    source = Source(path, "f")
    assert [line for block in source.blocks() for line in block.lines()] == [(1, b'{"id":"a"}')]
    assert source.notices == [f"f: named .{suffix}, but it is not {codec}; read as plain text"]


def test_empty_file_named_as_compressed_has_no_notice(make: Maker) -> None:
    source = Source(make.file(b"", "run.jsonl.gz"), "f")
    assert list(source.blocks()) == []
    assert source.notices == []


# parsing one line


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_parse_object_gives_what_was_written(value: dict[str, Any]) -> None:
    assert parse_object(dumps(value).encode("utf-8"), "f", 1) == value


@given(st.binary(max_size=30) | st.text(alphabet='{}[]":,\\0 e1.-ntfu', max_size=30).map(str.encode))
def test_parse_object_gives_an_object_or_an_input_error(raw: bytes) -> None:
    try:
        value = parse_object(raw, "f", 1)
    except InputError:
        return
    assert value == json.loads(raw)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ('{"id": "a"', "unfinished record"),
        ('{"id": "a', "unfinished record"),
        ('{"id":', "unfinished record"),
        ('{"id":"a"}{"id":"b"}', "something follows the record at column 11 (two records fused?)"),
        ('{"id":"a"} x', "something follows the record"),
        ("{'id': 1}", "not JSON at column 2"),
        ('{"id":"a",}', "not JSON at column"),
        ('{"id":"a\tb"}', "not JSON at column"),
        ('"a"', "expected an object, found '\"a\"'"),
        ("[1]", "expected an object"),
        ("null", "expected an object"),
        ('{"id":"a","id":"b"}', "the key 'id' occurs twice in one object"),
        ('{"x":{"k":1,"j":2,"k":1}}', "the key 'k' occurs twice in one object"),
        ('{"p": NaN}', "NaN is not JSON: write null, or leave the field out"),
        ('{"p": -Infinity}', "-Infinity is not JSON"),
        (b'{"id":"\xff"}', "invalid UTF-8 at byte 7 of the line (0xff): save the file as UTF-8"),
        ('{"id":"文学"}'.encode("gbk"), "invalid UTF-8 at byte 7 of the line"),
        ('{"n":' + "1" * 5000 + "}", "a number has thousands of digits: leave the field out"),
    ],
)
def test_parse_object_says_what_is_wrong(raw: str | bytes, message: str) -> None:
    found = parse_problem(raw)
    assert found.startswith("f:7: ")
    assert message in found


def test_parse_object_takes_bare_numbers_only_where_allowed() -> None:
    value = parse_object(b'{"p":[NaN,Infinity,-Infinity]}', "f", 1, allow_nan=True)["p"]
    assert [str(number) for number in value] == ["nan", "inf", "-inf"]
    assert "twice" in parse_problem('{"p":NaN,"p":1}', allow_nan=True)


@pytest.mark.parametrize("nest", ["[", '{"k":'])
def test_parse_object_refuses_deep_nesting_only_beyond_the_limit(nest: str) -> None:
    close = {"[": "]", '{"k":': "}"}[nest]

    def nested(levels: int) -> str:
        return '{"x":' + nest * levels + "1" + close * levels + "}"

    assert "x" in parse_object(nested(MAX_DEPTH - 1).encode(), "f", 1)
    for levels in (MAX_DEPTH, 100_000):
        assert f"nested too deeply (more than {MAX_DEPTH} levels)" in parse_problem(nested(levels))


def test_parse_object_does_not_count_brackets_in_strings_or_beside_each_other() -> None:
    raw = json.dumps({"s": '[{\\"' * 500, "flat": [[]] * 500})
    assert parse_object(raw.encode(), "f", 1) == json.loads(raw)


def test_parse_object_survives_a_recursion_limit_below_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def overflow(_: Any, text: str) -> Any:
        raise RecursionError(text)

    monkeypatch.setattr(json.JSONDecoder, "decode", overflow)
    assert "nested too deeply" in parse_problem('{"x":1}')


def test_excerpt_shortens_and_escapes() -> None:
    assert excerpt(b"ab\xffc") == r"'ab\\xffc'"
    assert excerpt(b"x" * 61) == repr("x" * 57 + "...")
    assert excerpt(b"x" * 60) == repr("x" * 60)


# documents


def test_read_document_takes_a_byte_order_mark_and_several_lines(make: Maker) -> None:
    assert read_document(make.file(BOM + b'{\n "a": 1\n}\n', "m.json"), "m.json") == {"a": 1}


def test_read_document_names_the_line_of_an_error(make: Maker) -> None:
    with pytest.raises(InputError, match=r"m.json:3: not JSON at column 2"):
        read_document(make.file(b'{\n "a": 1,\n }\n', "m.json"), "m.json")


def test_read_document_that_is_missing_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"m.json: cannot be read"):
        read_document(tmp_path / "m.json", "m.json")


# writing


@given(JSON)
def test_dumps_is_json_that_python_reads_back(value: Any) -> None:
    assert json.loads(dumps(value)) == value
    assert dumps(value, ascii_only=True).isascii()


@given(st.text(st.characters(min_codepoint=0, max_codepoint=0x10FFFF, exclude_categories=())))
def test_dumps_can_always_be_encoded_and_holds_no_control_character(text: str) -> None:
    written = dumps({"k": text})
    assert json.loads(written.encode("utf-8")) == {"k": text}
    hidden = {*range(32), *range(0x7F, 0xA0), 0x200E, 0x200F, 0x2028, 0x2029, 0xFEFF, *range(0x202A, 0x202F)}
    assert not hidden & set(map(ord, written))


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_dumps_refuses_what_is_no_json(number: float) -> None:
    with pytest.raises(ValueError, match="Out of range"):
        dumps([number])


def test_dumps_keeps_chinese_as_it_is() -> None:
    assert dumps({"文": "学"}) == '{"文": "学"}'


def test_write_lines_makes_the_folder_and_leaves_no_partial_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "run.jsonl"
    write_lines(path, [{"id": "学"}, {"id": "b"}])
    assert path.read_bytes() == '{"id": "学"}\n{"id": "b"}\n'.encode()
    assert [entry.name for entry in path.parent.iterdir()] == ["run.jsonl"]


def test_write_atomic_keeps_the_old_file_where_the_new_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.txt"
    write_atomic(path, "old")

    def full(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.txt"]


def test_file_sha256_is_that_of_the_bytes(make: Maker) -> None:
    path = make.file(b"abc", "x")
    # FIPS 180-2, appendix B.1
    assert file_sha256(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, True),
        (-1.5, True),
        (10**300, True),
        (10**400, False),
        (float("inf"), False),
        (float("nan"), False),
        (True, False),
        ("1", False),
        (None, False),
        ([1], False),
    ],
)
def test_is_number_knows_finite_numbers(value: object, expected: bool) -> None:
    assert is_number(value) is expected


# what other programs leave behind


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_every_kind_of_utf16_is_named(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_bytes('{"id": "q1"}\n'.encode(encoding))
    assert "labels.jsonl:1: the file is UTF-16: save it as UTF-8" in problem_of(path)
    with pytest.raises(InputError, match="the file is UTF-16"):
        read_document(path, "labels.jsonl")


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (bz2.compress(b"{}"), "bzip2"),
        (lzma.compress(b"{}"), "xz"),
        (gzip.compress(gzip.compress(b"{}")), "gzip inside its compression"),
        (b"PK\x03\x04", "a zip archive"),
        (b"PAR1", "Parquet"),
    ],
    ids=["bzip2", "xz", "gzip", "zip", "parquet"],
)
def test_file_that_is_no_text_is_named(tmp_path: Path, content: bytes, kind: str) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(content)
    assert problem_of(path) == (
        f"run.jsonl:1: the file is no text but {kind}: unpack it, or pack it with gzip or zstd"
    )


@pytest.mark.parametrize(
    ("raw", "quoted"),
    [
        (b"<html>", "'<html>'"),
        (b"<<<<<<< HEAD", "'<<<<<<< HEAD'"),
        (b"\0\0", r"'\x00\x00'"),
        (b'{"id": "q1", "probabilities": [00.9]}', "probabilities\": [00.9]}'"),
    ],
)
def test_text_that_is_no_json_is_quoted(raw: bytes, quoted: str) -> None:
    assert quoted in parse_problem(raw)


def test_carriage_return_that_ends_a_line_is_named() -> None:
    assert "a carriage return ends no line" in parse_problem(b'{"id":"a"}\r{"id":"b"}')


def test_line_is_measured_to_the_byte_wherever_blocks_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "MAX_LINE_BYTES", 100)
    path = tmp_path / "run.jsonl"
    for length, fits in ((100, True), (101, False)):
        path.write_bytes(b"{}\n" + b"x" * length + b"\n{}\n")
        for size in (7, 64):
            if fits:
                assert [len(raw) for _, raw in lines_of(path, size)] == [2, 100, 2]
            else:
                with pytest.raises(InputError, match="a line is longer than"):
                    lines_of(path, size)


def test_document_is_read_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "MAX_DOCUMENT_BYTES", 10)
    path = tmp_path / "run.meta.json"
    path.write_bytes(b'{"a": 12}')
    assert read_document(path, "m") == {"a": 12}
    path.write_bytes(b'{"a": 1234}')
    with pytest.raises(InputError, match="m: larger than 0 MiB, and has to be read as a whole: split it"):
        read_document(path, "m")


@pytest.mark.parametrize("tail", ['"' + '\\"' * 100_000, '"' + "x" * 1_000_000 + '"}', "\\" * 100_000])
def test_depth_of_a_long_text_is_measured_in_one_pass(tail: str) -> None:
    raw = '{"a": ' + "[]," * 201 + tail
    started = time.process_time()
    assert "nested too deeply" not in parse_problem(raw)
    assert time.process_time() - started < 5


def test_empty_document_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.meta.json"
    path.write_bytes(b" \n")
    with pytest.raises(InputError, match="m: is empty: one JSON object is expected"):
        read_document(path, "m")
