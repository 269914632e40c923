"""The commands that list, show, validate and compare what is there."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.acceptance.conftest import Evalkit
from tests.conftest import Maker

ITEMS = [Maker.item("q1", label="A", evidence="x"), Maker.item("q2", label="B", evidence="y")]


@pytest.mark.parametrize(
    "arguments",
    [
        ("labels", "list"),
        ("labels", "show", "semif-252"),
        ("labels", "diff", "graduate-18@v1", "graduate-18@v2"),
        ("labels", "diff", "graduate-18@v1", "graduate-18@v2", "--run", "vllm-awq"),
        ("labels", "lint", "graduate-18@v1"),
        ("runs", "list"),
        ("runs", "show", "semif-252/q4"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("name", ["text", "json", "markdown", "csv", "html"])
def test_listing_comes_in_every_format(
    evalkit: Evalkit, tmp_path: Path, arguments: tuple[str, ...], name: str
) -> None:
    done = evalkit([*arguments, "--format", name], tmp_path)
    assert (done.code, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) > 1
    if name == "json":
        assert done.json()["schema"].startswith("evalkit.")
    if name == "csv":
        assert len({len(row) for row in csv.reader(io.StringIO(done.stdout))}) == 1


def test_shipped_label_sets_and_runs_are_listed_anywhere(evalkit: Evalkit, tmp_path: Path) -> None:
    sets = evalkit(["labels", "list", "--format", "json"], tmp_path).json()["label_sets"]
    assert {"graduate-18", "semif-252"} <= {entry["name"] for entry in sets}
    runs = evalkit(["runs", "list", "--format", "json"], tmp_path).json()["runs"]
    assert {"bf16", "q8", "q4", "torch-bf16"} <= {
        entry["run"] for entry in runs if entry["label set"] == "semif-252"
    }


def test_listing_of_an_empty_root_says_so(evalkit: Evalkit, tmp_path: Path) -> None:
    assert (
        evalkit(["labels", "validate"], tmp_path).stderr
        == "evalkit: no label set under labels/ of the root\n"
    )
    assert evalkit(["runs", "validate"], tmp_path).stderr == "evalkit: no run under runs/ of the root\n"


def test_own_label_set_comes_before_a_shipped_one(evalkit: Evalkit, make: Maker, tmp_path: Path) -> None:
    make.label_set(tmp_path, "graduate-18", {"v9": ITEMS})
    shown = evalkit(["labels", "show", "graduate-18", "--format", "json"], tmp_path).json()
    assert (shown["version"], shown["items"]) == ("v9", 2)


def test_root_may_be_named_by_option_or_variable(evalkit: Evalkit, make: Maker, tmp_path: Path) -> None:
    root = tmp_path / "root"
    make.label_set(root, "demo", {"v1": ITEMS})
    by_option = evalkit(["labels", "show", "demo", "--root", str(root)], tmp_path)
    by_variable = evalkit(["labels", "show", "demo"], tmp_path, {"EVALKIT_ROOT": str(root)})
    assert by_option.out == by_variable.out
    assert by_option.code == 0
    assert evalkit(["labels", "list", "--root", str(tmp_path / "nowhere")], tmp_path).code == 3


def test_validate_takes_the_file_names_of_a_hook(evalkit: Evalkit, make: Maker, tmp_path: Path) -> None:
    folder = make.label_set(tmp_path, "demo", {"v1": ITEMS})
    done = evalkit(["labels", "validate", str(folder / "README.md"), str(folder / "v1.jsonl")], tmp_path)
    assert done.code == 0
    assert done.stdout.count("ok, 2 items") == 2


def test_validate_lists_the_problems_of_all_files(evalkit: Evalkit, tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text('{"id": 1}\n', "utf-8")
    (tmp_path / "two.jsonl").write_text("[]\n", "utf-8")
    done = evalkit(["labels", "validate", "one.jsonl", "two.jsonl"], tmp_path)
    assert done.code == 3
    assert "one.jsonl:1: $.id: " in done.stderr
    assert "two.jsonl:1: this looks like a JSON array" in done.stderr


def test_long_list_of_problems_is_capped_and_counted(evalkit: Evalkit, tmp_path: Path) -> None:
    (tmp_path / "labels.jsonl").write_text('{"id": 1, "options": []}\n' * 30, "utf-8")
    lines = evalkit(["labels", "validate", "labels.jsonl"], tmp_path).stderr.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "evalkit: ... and 40 more problems of the kind"


def test_quiet_validation_prints_nothing(evalkit: Evalkit, make: Maker, tmp_path: Path) -> None:
    make.label_set(tmp_path, "demo", {"v1": ITEMS})
    done = evalkit(["labels", "validate", "demo", "--quiet"], tmp_path)
    assert (done.code, done.out, done.err) == (0, b"", b"")


def test_lint_is_strict_on_demand(evalkit: Evalkit, tmp_path: Path) -> None:
    assert evalkit(["labels", "lint", "graduate-18@v1"], tmp_path).code == 0
    done = evalkit(["labels", "lint", "graduate-18@v1", "--strict"], tmp_path)
    assert done.code == 3
    assert "labels are unbalanced: A 5, B 13" in done.stderr


def test_labels_diff_scores_a_run_on_both(evalkit: Evalkit, make: Maker, tmp_path: Path) -> None:
    turned = [ITEMS[0], ITEMS[1] | {"label": "A"}]
    make.label_set(tmp_path, "demo", {"v1": ITEMS, "v2": turned})
    make.run_file(
        tmp_path, "demo/mine", [Maker.row("q1", {"A": 0.9, "B": 0.1}), Maker.row("q2", {"A": 0.1, "B": 0.9})]
    )
    found = evalkit(
        ["labels", "diff", "demo@v1", "demo@v2", "--run", "mine", "--format", "json"], tmp_path
    ).json()
    assert [item["id"] for item in found["changed"]] == ["q2"]
    assert [scores["value"] for scores in found["scores"]] == [1.0, 0.5]


def test_output_goes_to_a_file_whole_or_not_at_all(evalkit: Evalkit, tmp_path: Path) -> None:
    done = evalkit(["score", "semif-252/bf16", "--format", "json", "--output", "out/report.json"], tmp_path)
    assert (done.code, done.out) == (0, b"")
    assert json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))["schema"] == "evalkit.score/1"
    blocked = evalkit(["score", "semif-252/bf16", "--output", "out"], tmp_path)
    assert blocked.code == 2
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.json"]


def test_strict_score_refuses_invalid_decisions(evalkit: Evalkit, make: Maker, tmp_path: Path) -> None:
    (tmp_path / "labels.jsonl").write_text(make.text(ITEMS), "utf-8")
    (tmp_path / "run.jsonl").write_text(make.text([Maker.row("q1", {"A": 95, "B": 5})]), "utf-8")
    assert evalkit(["score", "run.jsonl", "--labels", "labels.jsonl"], tmp_path).code == 0
    done = evalkit(["score", "run.jsonl", "--labels", "labels.jsonl", "--strict"], tmp_path)
    assert done.code == 3
    assert done.stderr.startswith("evalkit: run.jsonl:1: q1: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("score", "bf16", "--only", "part"),
        ("score", "bf16", "--only", "part=nowhere"),
        ("score", "bf16", "--by", "colour"),
        ("score", "bf16", "--policy", "B=drop"),
        ("score", "bf16", "--policy", "B@1.5=drop"),
        ("score", "bf16", "--resamples", "1"),
        ("score", "bf16", "--no-such-option"),
        ("score",),
        ("no-such-command",),
    ],
    ids=" ".join,
)
def test_usage_errors_exit_with_2(evalkit: Evalkit, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = evalkit(list(arguments), tmp_path)
    assert done.code == 2
    assert done.out == b""
    assert "Traceback" not in done.stderr


def test_policy_option_replaces_that_of_the_card(evalkit: Evalkit, tmp_path: Path) -> None:
    arguments = [
        "score",
        "vllm-awq",
        "--policy",
        "B@0.78=skip",
        "--default-action",
        "ask",
        "--format",
        "json",
    ]
    assert evalkit(arguments, tmp_path).json()["policy"]["actions"] == {
        "skip": 11,
        "ask": 7,
        "undetermined": 0,
    }


def test_slices_can_be_chosen(evalkit: Evalkit, tmp_path: Path) -> None:
    found = evalkit(["diff", "bf16", "q4", "--by", "variant", "--format", "json"], tmp_path).json()
    assert list(found["by"]) == ["variant"]
    assert sum(one["changed_choices"] for one in found["by"]["variant"].values()) == 20


def test_diff_without_labels_measures_drift_only(evalkit: Evalkit, tmp_path: Path) -> None:
    found = evalkit(["diff", "bf16", "q4", "--no-labels", "--format", "json"], tmp_path).json()
    assert found["overall"]["changed_choices"] == 20
    assert (found["overall"]["mcnemar"], found["overall"]["accuracy_delta"], found["policy"]) == (
        None,
        None,
        None,
    )


def test_version_and_help_need_no_input(evalkit: Evalkit, tmp_path: Path) -> None:
    assert evalkit(["--version"], tmp_path).stdout.startswith("evalkit ")
    assert "Exit codes" in evalkit(["--help"], tmp_path).stdout
