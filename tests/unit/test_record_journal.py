"""The run file while it grows: nothing is lost, nothing is half, nothing is changed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import InputError, UsageError
from evalkit.record.journal import Found, Journal, pending
from tests.unit.asking import ids_of


def anything(_: dict[str, Any]) -> str:
    """Let every row in."""
    return ""


def line(name: str, **fields: Any) -> str:
    """Return a row as a line."""
    return json.dumps({"id": name, "option_ids": ["A", "B"], "probabilities": [0.9, 0.1], **fields}) + "\n"


def failed_line(name: str) -> str:
    """Return the row of a failed request as a line."""
    return json.dumps({"id": name, "status": "error", "error": "gone"}) + "\n"


def read(path: Path) -> Found:
    """Read a run file."""
    with Journal(path, path.name) as journal:
        return journal.read(anything)


def test_append_writes_each_row_at_once(tmp_path: Path) -> None:
    path = tmp_path / "new" / "run.jsonl"
    with Journal(path, "run") as journal:
        journal.append({"id": "é"}, failed=False)
        assert path.read_text("utf-8") == '{"id": "é"}\n'
        journal.append({"id": "b"}, failed=True)
        assert path.read_text("utf-8") == '{"id": "é"}\n{"id": "b"}\n'
        assert journal.found.failed == {"b"}


def test_journal_in_which_nothing_was_recorded_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with Journal(path, "run"):
        assert path.exists()
    assert not path.exists()


def test_second_journal_on_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with Journal(path, "run") as journal:
        journal.append({"id": "a"}, failed=False)
        with pytest.raises(UsageError, match="another process is recording"), Journal(path, "run"):
            pass
        journal.append({"id": "b"}, failed=False)
    assert ids_of(path) == ["a", "b"]


def test_journal_where_nothing_can_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(UsageError, match="cannot be written"),
        Journal(tmp_path / "file" / "run.jsonl", "run"),
    ):
        pass


def test_read_finds_rows_failures_and_models(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(line("a", model="m") + "\n" + failed_line("b") + "  " + line("c").strip())
    found = read(path)
    assert (found.sequence, found.failed, found.models) == (["a", "b", "c"], {"b"}, {"m"})
    assert (found.fragment, found.needs_newline, found.end) == (b"", True, path.stat().st_size)


@pytest.mark.parametrize("end", ["", "\n", "\n\n \n"])
def test_half_a_row_at_the_end_is_set_aside(tmp_path: Path, end: str) -> None:
    path = tmp_path / "run.jsonl"
    whole = line("a") + line("b")
    path.write_text(whole + '{"id": "c", "probabilities": [0.3,' + end)
    with Journal(path, "run") as journal:
        assert journal.read(anything).sequence == ["a", "b"]
        assert journal.set_aside() == "run.jsonl.torn"
        assert path.read_text() == whole
        journal.append({"id": "c"}, failed=False)
    assert path.read_text() == whole + '{"id": "c"}\n'
    assert (tmp_path / "run.jsonl.torn").read_text() == '{"id": "c", "probabilities": [0.3,\n'


def test_half_a_row_that_cannot_be_set_aside_stays(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('{"id": ')
    (tmp_path / "run.jsonl.torn").mkdir()
    with Journal(path, "run") as journal:
        journal.read(anything)
        with pytest.raises(UsageError, match="cannot be written"):
            journal.set_aside()
    assert path.read_text() == '{"id": '


def test_damaged_row_in_the_middle_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(line("a") + '{"id": "b", "prob{"id": "c"}\n' + line("d"))
    with pytest.raises(InputError, match=r"^run.jsonl:2: "):
        read(path)


def test_rows_that_do_not_belong_are_all_named(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(line("a") + line("b"))
    with pytest.raises(InputError) as caught, Journal(path, "run.jsonl") as journal:
        journal.read(lambda row: f"{row['id']} is wrong")
    assert str(caught.value).splitlines() == [
        "run.jsonl:1: a is wrong: record into another file, or move this one away",
        "run.jsonl:2: b is wrong: record into another file, or move this one away",
    ]


def invalid_line(name: str) -> str:
    """Return the row of an answer that was no decision as a line."""
    return json.dumps({"id": name, "status": "invalid", "error": "garbage"}) + "\n"


@pytest.mark.parametrize(
    ("rows", "kept", "failed"),
    [
        ([failed_line, line], 1, False),
        ([line, failed_line], 0, False),
        ([line, invalid_line], 0, False),
        ([invalid_line, line], 1, False),
        ([failed_line, invalid_line], 1, False),
        ([invalid_line, failed_line], 0, False),
        ([failed_line, failed_line], 1, True),
        ([line, line], 1, False),
    ],
)
def test_usable_row_counts_where_an_item_has_two(
    tmp_path: Path, rows: list[Callable[[str], str]], kept: int, failed: bool
) -> None:
    path = tmp_path / "run.jsonl"
    lines = [make("a") for make in rows]
    path.write_text("".join(lines))
    found = read(path)
    place = found.places["a"]
    assert path.read_bytes()[place.start : place.start + place.length].decode() + "\n" == lines[kept]
    assert found.failed == ({"a"} if failed else set())
    assert pending(["a", "b"], found, retry_failed=True) == ({"a", "b"} if failed else {"b"})
    assert pending(["a", "b"], found, retry_failed=False) == {"b"}


@pytest.mark.parametrize(
    "other",
    [{"probabilities": [0.8, 0.2]}, {"option_ids": ["B", "A"]}, {"probabilities": None, "choice": "A"}],
)
def test_two_decisions_that_disagree_are_refused(tmp_path: Path, other: dict[str, Any]) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(failed_line("a") + line("a") + line("b") + line("a", model="m", **other))
    with pytest.raises(InputError, match=r"^run.jsonl:4: a has another decision in an earlier row"):
        read(path)


def test_failed_row_that_is_asked_again_gives_way(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with Journal(path, "run") as journal:
        journal.append({"id": "a", "status": "error"}, failed=True)
        journal.append({"id": "a"}, failed=False)
        journal.put_in_order(["a"])
    assert path.read_text() == '{"id": "a"}\n'


def test_row_without_newline_gets_one_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(line("b").rstrip())
    with Journal(path, "run") as journal:
        journal.read(anything)
        journal.append({"id": "a"}, failed=False)
        journal.put_in_order(["a", "b"])
    assert path.read_text() == '{"id": "a"}\n' + line("b")


def test_put_in_order_keeps_every_row_to_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    odd = '{"id":   "c", "option_ids": ["A","B"], "probabilities": [9e-1, 0.10]}\n'
    path.write_text(failed_line("b") + odd + line("b") + line("a"))
    with Journal(path, "run") as journal:
        journal.read(anything)
        journal.put_in_order(["a", "b", "c"])
    assert path.read_text() == line("a") + line("b") + odd
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["run.jsonl"]


def test_put_in_order_of_an_ordered_file_does_not_touch_it(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(line("a") + line("b"))
    before = path.stat().st_ino
    with Journal(path, "run") as journal:
        journal.read(anything)
        journal.put_in_order(["a", "b"])
    assert path.stat().st_ino == before


def test_put_in_order_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(line("b") + line("a"))

    def full(*_: object) -> bytes:
        raise OSError(28, "No space left on device")

    with Journal(path, "run") as journal:
        journal.read(anything)
        monkeypatch.setattr(os, "pread", full)
        with pytest.raises(UsageError, match=r"No space left on device.*every decision is in it"):
            journal.put_in_order(["a", "b"])
    assert path.read_text() == line("b") + line("a")
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.jsonl"]


def test_append_to_a_full_disk_leaves_no_half_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.jsonl"
    write = os.write
    with Journal(path, "run") as journal:
        journal.append({"id": "a"}, failed=False)
        monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:5]))
        with pytest.raises(UsageError, match=r"the disk is full.*1 decisions are in it"):
            journal.append({"id": "b"}, failed=False)
        monkeypatch.undo()
        assert path.read_text() == '{"id": "a"}\n'
        journal.append({"id": "b"}, failed=False)
    assert ids_of(path) == ["a", "b"]


def test_append_reads_nothing_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("".join(line(f"q{number}") for number in range(100)))

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("an append must not read")

    with Journal(path, "run") as journal:
        journal.read(anything)
        for name in ("read", "pread", "open"):
            monkeypatch.setattr(os, name, refuse)
        monkeypatch.setattr(Path, "open", refuse)
        for number in range(100, 110):
            journal.append({"id": f"q{number}"}, failed=False)
        monkeypatch.undo()
    assert len(ids_of(path)) == 110
