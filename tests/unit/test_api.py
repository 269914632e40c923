"""The Python interface: names or objects in, reports out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import evalkit
from evalkit.accuracy import Resampling
from evalkit.errors import (
    AlignmentError,
    ChecksumError,
    EvalkitError,
    InputError,
    NoDecisionsError,
    NotFoundError,
    Problem,
    UsageError,
)
from evalkit.scoring import Options

if TYPE_CHECKING:
    from tests.conftest import Maker

FAST = Options(resampling=Resampling(resamples=100))


@pytest.fixture
def root(make: Maker, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a root with a label set of two versions and runs, away from the current folder."""
    folder = make.folder()
    items = [make.item(name, "AB", "A", part="p", topic=f"t{name}") for name in "ab"]
    make.label_set(folder, "demo", {"v1": items, "v2": [*items, make.item("c", "AB", "B")]})
    meta = {"label_set": {"name": "demo", "version": "v1"}}
    make.run_file(folder, "demo/one", [make.row(name, {"A": 0.9, "B": 0.1}) for name in "ab"], meta=meta)
    make.run_file(folder, "demo/two", [make.row(name, {"A": 0.4, "B": 0.6}) for name in "ab"])
    make.run_file(folder, "log/stray", [make.row(name, {"X": 0.4, "Y": 0.6}) for name in "xy"])
    make.run_file(folder, "other/one", [make.row("a", {"A": 0.9, "B": 0.1})], meta=meta)
    monkeypatch.chdir(make.folder())
    return folder


# loading


def test_load_labels_takes_name_version_and_path(root: Path) -> None:
    assert evalkit.load_labels("demo", root=root).version == "v2"
    assert evalkit.load_labels("demo@v1", root=str(root)).version == "v1"
    assert evalkit.load_labels(root / "labels" / "demo").version == "v2"
    assert len(evalkit.load_labels(root / "labels" / "demo" / "v1.jsonl")) == 2


def test_load_run_takes_name_and_path(root: Path) -> None:
    assert evalkit.load_run("two", root=root).name == "two"
    assert evalkit.load_run("demo/one", root=root).name == "one"
    assert len(evalkit.load_run(root / "runs" / "demo" / "one.jsonl")) == 2


def test_load_run_by_a_name_of_several_sets_is_a_usage_error(root: Path) -> None:
    with pytest.raises(UsageError, match="one means several runs: demo/one, other/one"):
        evalkit.load_run("one", root=root)


def test_shipped_sets_and_runs_are_found_from_everywhere(root: Path) -> None:
    assert len(evalkit.load_labels("semif-252")) == 252
    assert len(evalkit.load_run("bf16")) == 252
    assert len(evalkit.load_run("bf16", root=root)) == 252


@pytest.mark.usefixtures("root")
def test_unknown_names_are_not_found() -> None:
    with pytest.raises(NotFoundError, match="did you mean bf16"):
        evalkit.load_run("bf17")
    with pytest.raises(NotFoundError, match="did you mean semif-252"):
        evalkit.load_labels("semif")


# score


def test_score_takes_names_paths_and_objects(root: Path) -> None:
    run, labels = evalkit.load_run("demo/one", root=root), evalkit.load_labels("demo@v1", root=root)
    reports = [
        evalkit.score("demo/one", options=FAST, root=root),
        evalkit.score("demo/one", "demo@v1", FAST, root=root),
        evalkit.score(root / "runs/demo/one.jsonl", root / "labels/demo/v1.jsonl", FAST),
        evalkit.score(run, labels, FAST),
        evalkit.score(run, options=FAST, root=root),
    ]
    for report in reports:
        assert isinstance(report, evalkit.ScoreReport)
        assert report.overall == reports[0].overall
        assert (report.labels.name, report.labels.version) == ("demo", "v1")


def test_score_finds_the_one_label_set_that_covers_a_run_without_sidecar(root: Path) -> None:
    report = evalkit.score("two", options=FAST, root=root)
    assert (report.labels.version, report.counts["missing"]) == ("v2", 1)


def test_score_of_a_run_that_no_set_covers_is_not_found(root: Path) -> None:
    with pytest.raises(
        NotFoundError, match="no label set covers the ids of this run: name one with --labels"
    ):
        evalkit.score("stray", options=FAST, root=root)


def test_score_reads_the_fields_that_its_options_name(root: Path) -> None:
    options = Options(by=["topic"], only={"topic": "ta"}, resampling=FAST.resampling)
    report = evalkit.score("demo/one", options=options, root=root)
    assert list(report.by["topic"]) == ["ta"]


# diff


def test_diff_takes_names_paths_and_objects(root: Path) -> None:
    runs = [evalkit.load_run(name, root=root) for name in ("demo/one", "demo/two")]
    labels = evalkit.load_labels("demo@v1", root=root)
    reports = [
        evalkit.diff("demo/one", "two", options=FAST, root=root),
        evalkit.diff("demo/one", "two", "demo@v1", FAST, root=root),
        evalkit.diff(runs[0], runs[1], labels, FAST),
        evalkit.diff(runs[0], runs[1], options=FAST, root=root),
    ]
    for report in reports:
        assert isinstance(report, evalkit.DiffReport)
        assert report.overall == reports[0].overall
        assert report.overall["broken"] == 2


def test_diff_without_a_label_set_that_covers_the_reference_measures_drift(root: Path) -> None:
    report = evalkit.diff("stray", "stray", options=FAST, root=root)
    assert (report.labels.name, report.overall["mcnemar"]) == ("(none)", None)


def test_diff_with_a_label_set_that_is_not_there_is_not_found(root: Path) -> None:
    with pytest.raises(NotFoundError, match="nope: no label set of this name or path"):
        evalkit.diff("two", "two", "nope", FAST, root=root)


def test_diff_of_a_run_whose_own_label_set_version_is_gone_is_not_found(root: Path, make: Maker) -> None:
    # Falling back to a diff without labels would hide that the accuracies are missing.
    meta = {"label_set": {"name": "demo", "version": "v9"}}
    make.run_file(root, "demo/old", [make.row("a", {"A": 0.9, "B": 0.1})], meta=meta)
    with pytest.raises(NotFoundError, match="demo has no version 'v9'"):
        evalkit.diff("old", "two", options=FAST, root=root)


def test_diff_of_a_run_that_several_label_sets_cover_asks_for_one(root: Path, make: Maker) -> None:
    make.label_set(root, "twin", {"v1": [make.item(name, "AB", "B") for name in "abc"]})
    with pytest.raises(NotFoundError, match="2 label sets cover the ids of this run"):
        evalkit.diff("two", "two", options=FAST, root=root)


def test_diff_reads_the_fields_that_its_options_name(root: Path) -> None:
    report = evalkit.diff(
        "demo/one", "two", options=Options(by=["topic"], resampling=FAST.resampling), root=root
    )
    assert list(report.by["topic"]) == ["ta", "tb"]


# errors


def test_errors_are_one_tree_with_an_exit_code_each() -> None:
    assert {error: error.exit_code for error in (EvalkitError, UsageError, InputError)} == {
        EvalkitError: 4,
        UsageError: 2,
        InputError: 3,
    }
    for error in (NotFoundError, ChecksumError, AlignmentError, NoDecisionsError):
        assert issubclass(error, InputError)
        assert error.exit_code == 3
    assert issubclass(UsageError, EvalkitError)
    assert issubclass(InputError, EvalkitError)
    assert not issubclass(UsageError, InputError)


def test_input_error_takes_a_text_a_problem_or_many() -> None:
    assert str(InputError("bad")) == "bad"
    assert str(InputError(Problem("bad", "f", 1))) == "f:1: bad"
    error = InputError(Problem(f"bad {number}") for number in range(3))
    assert str(error) == "bad 0\nbad 1\nbad 2"
    assert len(error.problems) == 3


@pytest.mark.parametrize(("count", "last"), [(20, "bad 19"), (21, "... and 1 more problems of the kind")])
def test_input_error_lists_twenty_problems_then_counts(count: int, last: str) -> None:
    lines = str(InputError([Problem(f"bad {number}") for number in range(count)])).splitlines()
    assert lines[19] == "bad 19"
    assert lines[-1] == last
