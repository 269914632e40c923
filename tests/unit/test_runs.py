"""Run files and their sidecars as columns."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from evalkit import rows
from evalkit.errors import ChecksumError, InputError, NoDecisionsError, NotFoundError
from evalkit.jsonl import Source, file_sha256
from evalkit.runs import Run, load_run, short_name, sidecar_path

if TYPE_CHECKING:
    from tests.conftest import Maker

A_ROW = '{"id":"a","option_ids":["A","B"],"probabilities":[0.9,0.1]}\n'


@pytest.fixture(params=["by columns", "line by line"])
def ending(request: pytest.FixtureRequest) -> str:
    """Return what to end a file with so that the one or the other reader takes it."""
    return "\n" if request.param == "line by line" else ""


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut files into many blocks."""
    blocks = Source.blocks
    monkeypatch.setattr(Source, "blocks", lambda self: blocks(self, 200))


def problems(path: Path) -> list[str]:
    with pytest.raises(InputError) as caught:
        load_run(path, file="run.jsonl")
    return str(caught.value).splitlines()


def reasons(run: Run) -> dict[str, str]:
    return {run.ids[place].as_py(): text for place, text in run.reasons.items()}


# names


@pytest.mark.parametrize("name", ["bf16.jsonl", "bf16.jsonl.gz", "bf16.jsonl.zst", "bf16"])
def test_short_name_leaves_folder_and_suffixes_out(name: str) -> None:
    path = Path("runs") / "set" / name
    assert short_name(path) == "bf16"
    assert sidecar_path(path) == Path("runs/set/bf16.meta.json")


def test_short_name_keeps_dots_inside() -> None:
    assert short_name(Path("q4.1-k_m.jsonl")) == "q4.1-k_m"


# one file


def test_run_holds_the_rows_in_file_order(make: Maker, ending: str) -> None:
    run = make.run(
        [
            make.row("a", {"A": 0.9, "B": 0.1}, model="m", allowed_token_mass=0.8),
            make.row("b", {"X": 0.2, "Y": 0.5, "Z": 0.3}, cached_tokens=3),
            make.row("c", {"B": 0.25, "A": 0.25}, prompt_sha256="p", cached_tokens=0),
            make.row("d", status="error", error="timeout", option_ids=["A", "B"]),
            make.row("e", {"A": 95, "B": 5}),
            make.row("f", option_ids=["A", "B"], choice="B"),
            make.row("g", option_ids=["A", "B"], probability_range={"A": [0.85, 1]}),
        ],
        ending=ending,
    )
    assert run.ids.to_pylist() == list("abcdefg")
    assert run.lines.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert run.status.tolist() == [rows.OK] * 3 + [rows.ERROR, rows.INVALID, rows.OK, rows.OK]
    assert [run.layouts[number] for number in run.layout] == [
        ("A", "B"), ("X", "Y", "Z"), ("B", "A"), *[("A", "B")] * 4,
    ]  # fmt: skip
    nan = [math.nan] * 3
    expected = [[0.9, 0.1, math.nan], [0.2, 0.5, 0.3], [0.5, 0.5, math.nan], nan, nan, nan, nan]
    np.testing.assert_array_equal(run.p, expected)
    np.testing.assert_array_equal(run.mass, [0.8, math.nan, 0.5, *[math.nan] * 4])
    assert run.choice.tolist() == [-1, -1, -1, -1, -1, 1, -1]
    assert reasons(run) == {
        "d": "timeout",
        "e": "probabilities add up to 100 (95, 5): they look like percent",
    }
    assert run.low is not None
    assert run.high is not None
    np.testing.assert_array_equal(run.low[:6], run.p[:6])
    np.testing.assert_allclose(run.low[6], [0.85, 0, math.nan])
    np.testing.assert_allclose(run.high[6], [1, 0.15, math.nan])
    assert run.texts["model"].to_pylist() == ["m", *[None] * 6]
    assert run.texts["prompt_sha256"].to_pylist() == [None, None, "p", *[None] * 4]
    assert run.texts.keys() == {"model", "prompt_sha256"}
    assert run.cache_hits == 1
    assert run.notices == ()
    assert len(run) == 7


def test_run_without_ranges_has_no_bounds(make: Maker, ending: str) -> None:
    run = make.run([make.row("a", {"A": 1, "B": 0})], ending=ending)
    assert (run.low, run.high, run.meta) == (None, None, {})


BAD_VALUES: dict[str, tuple[list[Any], str]] = {
    "null": ([0.9, None], "a probability is null"),
    "null beside a whole distribution": ([0.5, None, 0.5], "a probability is null"),
    "nan": ([float("nan"), 0.5], "a probability is not finite"),
    "nan beside a whole distribution": ([0.5, 0.5, float("nan")], "a probability is not finite"),
    "infinity": ([float("inf"), 0.5], "a probability is not finite"),
    "only nulls": ([None, None], "a probability is null"),
    "text": (["0.9", "0.1"], "probabilities are text"),
    "percent": ([95, 5], "they look like percent"),
    "percent as text": (["95%", "5%"], "they look like percent"),
    "decimal comma": (["0,9", "0,1"], "a decimal comma"),
    "logits": ([2.5, -1.0], "they look like logits"),
    "log-probabilities": ([-0.1, -2.4], "they look like log-probabilities"),
    "sum above one": ([0.7, 0.6], "sum to 1.3000"),
    "zeros": ([0, 0], "all probabilities are 0"),
    "booleans": ([True, False], "are not numbers"),
    "too few": ([1.0], "1 probabilities for 3 options"),
    "none": ([], "0 probabilities for 3 options"),
}


@pytest.mark.parametrize("kind", BAD_VALUES)
def test_values_that_are_no_probabilities_make_their_row_invalid_only(
    make: Maker, ending: str, kind: str
) -> None:
    values, reason = BAD_VALUES[kind]
    options = list("ABC"[: len(values)]) if len(values) > 1 else list("ABC")
    run = make.run(
        [
            make.row("before", {"A": 0.6, "B": 0.4}),
            {"id": "bad", "option_ids": options, "probabilities": values},
            make.row("after", {"A": 0.3, "B": 0.7}),
        ],
        ending=ending,
    )
    assert run.status.tolist() == [rows.OK, rows.INVALID, rows.OK]
    assert reason in run.reasons[1]
    assert np.isnan(run.p[1]).all()
    np.testing.assert_array_equal(run.p[[0, 2], :2], [[0.6, 0.4], [0.3, 0.7]])


@pytest.mark.parametrize("literal", ["1e400", "-1e400", "1" * 400])
def test_endless_numbers_make_their_row_invalid(make: Maker, ending: str, literal: str) -> None:
    text = f'{{"id":"a","option_ids":["A","B"],"probabilities":[{literal},0.1]}}\n{ending}'
    run = load_run(make.file(text))
    assert run.status.tolist() == [rows.INVALID]
    assert "a probability is not finite" in run.reasons[0]


@pytest.mark.parametrize(
    "row",
    [
        {"id": "a"},
        {"id": "a", "option_ids": [], "probabilities": []},
        {"id": "a", "option_ids": None, "probabilities": None},
        {"id": "a", "option_ids": [], "choice": "A"},
        {"id": "a", "option_ids": ["A"], "probabilities": [1.0]},
        {"id": "a", "status": "invalid"},
        {"id": "a", "status": "error"},
    ],
)
@pytest.mark.parametrize("others", [0, 2])
def test_row_with_few_or_no_options_is_kept_as_unusable(
    make: Maker, ending: str, row: dict[str, Any], others: int
) -> None:
    good = [make.row(f"good {number}", {"A": 0.6, "B": 0.4}) for number in range(others)]
    run = make.run([row, *good], ending=ending)
    assert run.status[0] in (rows.INVALID, rows.ERROR)
    assert run.status[1:].tolist() == [rows.OK] * others
    assert run.reasons.keys() == {0}


def test_mass_below_one_is_renormalised_and_kept(make: Maker, ending: str) -> None:
    run = make.run(
        [make.row("a", {"A": 0.5, "B": 0.2}), make.row("b", {"A": 0.5, "B": 0.4}, allowed_token_mass=0.99)],
        ending=ending,
    )
    np.testing.assert_allclose(run.p, [[0.5 / 0.7, 0.2 / 0.7], [0.5 / 0.9, 0.4 / 0.9]], rtol=1e-15)
    np.testing.assert_allclose(run.mass, [0.7, 0.9], rtol=1e-15)


def test_rounding_of_the_sum_is_left_as_it_is(make: Maker, ending: str) -> None:
    run = make.run(
        [make.row("a", {"A": 0.5, "B": 0.49995}), make.row("b", {"A": 0.5, "B": 0.50009})], ending=ending
    )
    np.testing.assert_array_equal(run.p, [[0.5, 0.49995], [0.5, 0.50009]])
    assert np.isnan(run.mass).all()


def test_sum_just_outside_the_tolerance_is_renormalised_or_refused(make: Maker, ending: str) -> None:
    run = make.run(
        [make.row("a", {"A": 0.5, "B": 0.49985}), make.row("b", {"A": 0.5, "B": 0.50011})], ending=ending
    )
    assert run.status.tolist() == [rows.OK, rows.INVALID]
    np.testing.assert_allclose(run.p[0], [0.5 / 0.99985, 0.49985 / 0.99985], rtol=1e-15)
    assert run.mass[0] == pytest.approx(0.99985)


def test_probability_above_one_by_rounding_counts_as_one(make: Maker, ending: str) -> None:
    run = make.run(
        [make.row("a", {"A": 1.00005, "B": 0}), make.row("b", {"A": 0.2, "B": 0.8})], ending=ending
    )
    np.testing.assert_array_equal(run.p, [[1.0, 0.0], [0.2, 0.8]])


def test_probabilities_as_objects_are_read_by_name(make: Maker, ending: str) -> None:
    run = make.run(
        [
            {"id": "a", "probabilities": {"B": 0.1, "A": 0.9}},
            {"id": "b", "option_ids": ["A", "B"], "probabilities": {"B": 0.4, "A": 0.6}},
        ],
        ending=ending,
    )
    assert [run.layouts[number] for number in run.layout] == [("B", "A"), ("A", "B")]
    np.testing.assert_array_equal(run.p, [[0.1, 0.9], [0.6, 0.4]])


def test_model_may_be_an_object_with_its_name_or_source(make: Maker, ending: str) -> None:
    models: list[Any] = ["m1", {"name": "m2", "source": "s"}, {"source": "m3"}, {}, None]
    run = make.run(
        [make.row(str(n), {"A": 0.6, "B": 0.4}, model=model) for n, model in enumerate(models)], ending=ending
    )
    assert run.texts["model"].to_pylist()[:3] == ["m1", "m2", "m3"]
    assert run.status.tolist() == [rows.OK] * 5


@pytest.mark.parametrize("model", [{}, {"name": 5}, {"source": None}, {"name": ["x"], "revision": "r"}])
def test_model_object_without_a_name_is_called_so(make: Maker, ending: str, model: dict[str, Any]) -> None:
    run = make.run([make.row("a", {"A": 0.6, "B": 0.4}, model=model)], ending=ending)
    assert run.distinct("model") == ["(unnamed)"]


def test_odd_choice_is_a_notice_with_its_line(make: Maker, ending: str) -> None:
    run = make.run([make.row("a", {"A": 0.6, "B": 0.4}, choice="B")], ending=ending)
    assert run.notices == (
        "run.jsonl:1: the recorded choice is not the most probable option; the probabilities count",
    )


def test_ids_are_kept_verbatim(make: Maker, ending: str) -> None:
    ids = ["007", "1e5", "20_31", "NA", "null", "true", " a ", "学", "a\u2028b", "a\u0000b", "\U0001f600"]
    run = make.run([make.row(name, {"A": 0.6, "B": 0.4}) for name in ids], ending=ending)
    assert run.ids.to_pylist() == ids


def test_run_of_many_blocks_is_the_run_of_one(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    content = make.text(
        [
            make.row("a", {"A": 0.9, "B": 0.1}, model="m1"),
            make.row("b", {"X": 0.2, "Y": 0.5, "Z": 0.3}),
            make.row("c", option_ids=["A", "B"], probability_range={"B": [0.85, 1]}),
            make.row("d", {"A": 95, "B": 5}),
            *[make.row(f"e{number}", {"B": 0.5, "A": 0.2}) for number in range(20)],
            make.row("f", status="error", error="timeout"),
            make.row("g", {"A": 0.9, "B": 0.1}, model="m2"),
        ]
    )
    path = make.file(content)
    whole = load_run(path)
    blocks = Source.blocks
    monkeypatch.setattr(Source, "blocks", lambda self: blocks(self, 200))
    cut = load_run(path)
    assert cut.ids.equals(whole.ids)
    assert cut.lines.tolist() == whole.lines.tolist() == list(range(1, 27))
    assert cut.reasons == whole.reasons
    assert [cut.layouts[number] for number in cut.layout] == [
        whole.layouts[number] for number in whole.layout
    ]
    assert cut.low is not None
    assert cut.high is not None
    for one, other in (
        (cut.p, whole.p),
        (cut.low, whole.low),
        (cut.high, whole.high),
        (cut.mass, whole.mass),
    ):
        np.testing.assert_array_equal(one, other)
    assert cut.texts["model"].to_pylist() == ["m1", *[None] * 24, "m2"]
    assert cut.distinct("model") == ["m1", "m2"]
    assert cut.sha256 == whole.sha256 == file_sha256(path)


@pytest.mark.usefixtures("small_blocks")
def test_problems_of_many_blocks_have_the_lines_of_the_file(make: Maker) -> None:
    lines = [f'{{"id":"{number}","option_ids":["A","B"],"choice":"A"}}\n' for number in range(40)]
    lines[11] = "oops\n"
    lines[37] = '{"id":38}\n'
    assert [line.split(": ")[0] for line in problems(make.file("".join(lines)))] == [
        "run.jsonl:12",
        "run.jsonl:38",
    ]


# files that are not what they say


@pytest.mark.parametrize("content", ["", "\n", " \r\n\n", "\ufeff"])
def test_file_without_a_row_holds_no_decision(make: Maker, content: str) -> None:
    with pytest.raises(NoDecisionsError, match=r"run.jsonl: holds no decision: record the run again"):
        load_run(make.file(content), file="run.jsonl")


def test_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"gone.jsonl: cannot be read"):
        load_run(tmp_path / "gone.jsonl")


def test_message_names_the_file_as_the_user_did(make: Maker) -> None:
    path = make.file("oops\n")
    with pytest.raises(InputError, match=r"^shown:1: "):
        load_run(path, file="shown")
    with pytest.raises(InputError) as caught:
        load_run(str(path))
    assert str(caught.value).startswith(f"{path}:1: ")


def test_all_problems_are_listed_first_twenty_then_a_count(make: Maker) -> None:
    found = problems(make.file("oops\n" * 23))
    assert [line.split(": ")[0] for line in found[:-1]] == [f"run.jsonl:{line}" for line in range(1, 21)]
    assert found[-1] == "... and 3 more problems of the kind"


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ('{"id":"b","option_ids":["A","B"],"probabil', "unfinished record"),
        ('{"id":"b","choice":"A"}{"id":"c","choice":"A"}', "something follows the record at column 24"),
        ('{"id":7,"choice":"A"}', "$.id: expected string, found 7"),
        ('{"id":"","choice":"A"}', '$.id: "" does not meet minLength 1'),
        ('{"choice":"A"}', "$: 'id' is a required property: every row needs the id of its item"),
        ("{}", "$: 'id' is a required property"),
        ('{"id":"b","id":"c"}', "the key 'id' occurs twice"),
        ('{"id":"b","status":"fine"}', '$.status: "fine" is none of'),
        ('{"id":"b","option_ids":["A",""],"probabilities":[1,0]}', '$.option_ids[1]: "" does not meet'),
        ('{"id":"b","option_ids":["A","A"],"probabilities":[1,0]}', "does not meet uniqueItems"),
        ('{"id":"b","option_ids":["A",null],"probabilities":[1,0]}', "$.option_ids[1]: expected string"),
        ('{"id":"b","model":5}', "$.model: expected string or object or null, found 5"),
        ('{"id":"b","cached_tokens":true}', "$.cached_tokens: expected integer or null, found true"),
        ('{"id":"\\ud83d"}', "$.id: holds half a surrogate pair"),
        ('{"id":"b","model":"\\ud83d"}', "$.model: holds half a surrogate pair"),
        ('{"id":"b","model":{"source":"\\ud83d"}}', "$.model: holds half a surrogate pair"),
        ("null", "expected an object"),
        ('"text"', "expected an object"),
    ],
)
def test_line_that_is_no_row_is_named(make: Maker, ending: str, bad: str, expected: str) -> None:
    found = problems(make.file(A_ROW + bad + "\n" + ending))
    assert len(found) == 1
    assert found[0].startswith("run.jsonl:2: ")
    assert expected in found[0]


def test_torn_last_line_is_named(make: Maker) -> None:
    found = problems(make.file(A_ROW + '{"id":"b","option_ids":["A"'))
    assert found == [
        "run.jsonl:2: unfinished record: the line ends in the middle of it: "
        "one complete JSON object is expected"
    ]


def test_invalid_utf8_is_named(make: Maker) -> None:
    found = problems(make.file(A_ROW.encode() + b'{"id":"\xe5\xad"}\n'))
    assert found[0].startswith("run.jsonl:2: invalid UTF-8 at byte 7 of the line (0xe5)")


def test_truncated_gzip_is_refused_although_its_start_can_be_read(make: Maker) -> None:
    whole = gzip.compress("".join(A_ROW.replace('"a"', f'"{n}"') for n in range(3000)).encode())
    path = make.file(whole[: len(whole) - 200], "run.jsonl.gz")
    assert "truncated gzip" in problems(path)[0]


def test_byte_order_marks_carriage_returns_and_blank_lines_are_no_part_of_ids(make: Maker) -> None:
    mark = "\ufeff"
    run = load_run(make.file(f"{mark}{A_ROW[:-1]}\r\n\r\n{mark}{A_ROW[:-1]}\n".replace('"a"', '"b"', 1)))
    assert run.ids.to_pylist() == ["b", "a"]
    assert run.lines.tolist() == [1, 3]


# repeated ids


def test_equal_decisions_of_one_id_are_one(make: Maker, ending: str) -> None:
    run = make.run(
        [
            make.row("a", {"A": 0.9, "B": 0.1}),
            make.row("b", {"A": 0.4, "B": 0.6}),
            make.row("a", {"A": 0.9, "B": 0.1}),
        ],
        ending=ending,
    )
    assert run.ids.to_pylist() == ["a", "b"]
    assert run.lines.tolist() == [1, 2]
    assert run.notices == ("run.jsonl: a is recorded 2 times; one of the equal decisions of line 1 is used",)


@pytest.mark.parametrize("first", ["error", "ok"])
@pytest.mark.parametrize("failed", [{"status": "error", "error": "timeout"}, {"status": "missing_option"}])
def test_usable_decision_wins_over_a_failed_one(make: Maker, first: str, failed: dict[str, Any]) -> None:
    good, bad = make.row("a", {"A": 0.9, "B": 0.1}), make.row("a", **failed)
    run = make.run([make.row("x", {"A": 95, "B": 5}), *((bad, good) if first == "error" else (good, bad))])
    line = 3 if first == "error" else 2
    assert run.lines.tolist() == [1, line]
    assert run.status.tolist() == [rows.INVALID, rows.OK]
    assert run.reasons.keys() == {0}
    assert run.notices == (f"run.jsonl: a is recorded 2 times; the usable decision of line {line} is used",)


def test_several_failures_of_one_id_keep_the_last(make: Maker) -> None:
    run = make.run(
        [make.row("a", status="error", error="first"), make.row("a", status="error", error="last")]
    )
    assert (run.lines.tolist(), run.reasons) == ([2], {0: "last"})
    assert run.notices == ("run.jsonl: a is recorded 2 times; the last failure, line 2 is used",)


@pytest.mark.parametrize(
    "other",
    [
        {"option_ids": ["A", "B"], "probabilities": [0.8, 0.2]},
        {"option_ids": ["A", "B"], "choice": "A"},
        {"option_ids": ["A", "C"], "probabilities": [0.9, 0.1]},
        {"option_ids": ["A", "B"], "probability_range": {"A": [0.9, 1]}},
    ],
)
def test_decisions_of_one_id_that_disagree_are_refused(
    make: Maker, ending: str, other: dict[str, Any]
) -> None:
    content = make.text(
        [make.row("a", {"A": 0.9, "B": 0.1}), make.row("b", {"A": 0.9, "B": 0.1}), {"id": "a", **other}]
    )
    assert problems(make.file(content + ending)) == [
        "run.jsonl:3: a: 2 different decisions (lines 1, 3): "
        "keep one of them, or put repeats into files of their own"
    ]


def test_choices_of_one_id_that_disagree_are_refused(make: Maker) -> None:
    content = make.text([make.row("a", option_ids=["A", "B"], choice=choice) for choice in "AB"])
    assert "a: 2 different decisions (lines 1, 2)" in problems(make.file(content))[0]


def test_ranges_of_one_id_are_compared_too(make: Maker) -> None:
    def ranged(low: float) -> dict[str, Any]:
        return make.row("a", option_ids=["A", "B"], probability_range={"A": [low, 1]})

    assert len(make.run([ranged(0.9), ranged(0.9)])) == 1
    assert "different decisions" in problems(make.file(make.text([ranged(0.9), ranged(0.8)])))[0]


def test_equal_decisions_with_options_in_another_order_are_one(make: Maker) -> None:
    # Options are matched by id, never by position.
    run = make.run([make.row("a", {"A": 0.9, "B": 0.1}), make.row("a", {"B": 0.1, "A": 0.9})])
    assert len(run) == 1


# sidecars


def test_sidecar_is_read_and_described(make: Maker) -> None:
    meta = {"schema": "evalkit.meta/1", "model": {"name": "m"}, "label_set": {"name": "s"}, "extra": 1}
    run = make.run([make.row("a", {"A": 1, "B": 0}, model="served")], "bf16", meta=meta)
    assert run.meta == meta
    assert run.to_dict() == {
        "name": "bf16",
        "path": "bf16.jsonl",
        "sha256": run.sha256,
        "decisions": 1,
        "models": ["served"],
        "model": {"name": "m"},
        "label_set": {"name": "s"},
    }


def test_sidecar_with_the_right_checksum_is_fine(make: Maker) -> None:
    path = make.file(A_ROW, "q4.jsonl")
    path.with_name("q4.meta.json").write_text(json.dumps({"sha256": file_sha256(path)}), "utf-8")
    assert load_run(path).meta["sha256"] == file_sha256(path)


def test_sidecar_of_another_file_is_refused(make: Maker) -> None:
    path = make.file(A_ROW, "q4.jsonl")
    path.with_name("q4.meta.json").write_text(json.dumps({"sha256": "0" * 64}), "utf-8")
    with pytest.raises(ChecksumError) as caught:
        load_run(path, file="q4.jsonl")
    assert str(caught.value) == (
        f"q4.jsonl: the sidecar q4.meta.json describes another file (sha256 000000000000..., this file has "
        f"{file_sha256(path)[:12]}...): restore the recorded file, or record the run again"
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{", "q4.meta.json:1: unfinished record"),
        ("[]", "q4.meta.json:1: expected an object"),
        ('{"sha256": "abc"}', "q4.meta.json: $.sha256"),
        ('{"model": "m"}', 'q4.meta.json: $.model: expected object, found "m"'),
        ('{"label_set": {"version": 1}}', "q4.meta.json: $.label_set.version: expected string or null"),
        ('{"schema": "other"}', "q4.meta.json: $.schema"),
    ],
)
def test_damaged_sidecar_is_refused(make: Maker, content: str, expected: str) -> None:
    path = make.file(A_ROW, "q4.jsonl")
    path.with_name("q4.meta.json").write_text(content, "utf-8")
    with pytest.raises(InputError) as caught:
        load_run(path, file="runs/q4.jsonl")
    assert str(caught.value).startswith(f"runs/{expected}")


def test_distinct_of_a_field_that_never_occurs_is_empty(make: Maker) -> None:
    assert make.run([make.row("a", {"A": 1, "B": 0})]).distinct("model") == []


@pytest.mark.parametrize("form", ["list", "object"])
def test_row_with_too_many_options_is_refused_before_it_is_laid_out(
    make: Maker, ending: str, form: str
) -> None:
    few, many = ({str(n): 1 / count for n in range(count)} for count in (1000, 1001))

    def row(id_: str, shares: dict[str, float]) -> dict[str, Any]:
        if form == "object":
            return {"id": id_, "probabilities": shares}
        return {"id": id_, "option_ids": list(shares), "probabilities": list(shares.values())}

    assert len(load_run(make.file(make.text([row("a", few)]) + ending))) == 1
    (problem,) = problems(make.file(make.text([row("a", few), row("b", many)]) + ending))
    assert "2: 1001 options, at most 1000 are allowed: ask for fewer options" in problem
