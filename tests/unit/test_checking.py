"""Checking label sets and runs completely."""

from __future__ import annotations

from pathlib import Path

from evalkit.catalog import Catalog, RunFile
from evalkit.checking import check_labels, check_run
from tests.conftest import Maker

ITEMS = [Maker.item("q1", label="A"), Maker.item("q2", label="B")]
ROWS = [Maker.row("q1", {"A": 0.9, "B": 0.1}), Maker.row("q2", {"A": 0.2, "B": 0.8})]


def test_sound_label_set_has_a_line_a_version(make: Maker, tmp_path: Path) -> None:
    make.label_set(tmp_path, "demo", {"v1": ITEMS[:1], "v2": ITEMS})
    found = check_labels(Catalog.at(tmp_path), "demo")
    assert [line.rpartition("/")[2] for line in found.sound] == [
        "v1.jsonl: ok, 1 item",
        "v2.jsonl: ok, 2 items",
    ]
    assert not found.problems


def test_named_version_is_checked_alone(make: Maker, tmp_path: Path) -> None:
    make.label_set(tmp_path, "demo", {"v1": ITEMS[:1], "v2": ITEMS})
    assert len(check_labels(Catalog.at(tmp_path), "demo@v1").sound) == 1


def test_file_without_card_is_checked_alone(make: Maker) -> None:
    path = make.file(make.text(ITEMS), "labels.jsonl")
    assert check_labels(Catalog.at(), str(path)).sound[0].endswith("labels.jsonl: ok, 2 items")


def test_every_field_is_checked(make: Maker) -> None:
    path = make.file(make.text([Maker.item("q1", evidence=7), Maker.item("q2", tags="x")]), "labels.jsonl")
    found = check_labels(Catalog.at(), str(path))
    assert [(problem.line, problem.path) for problem in found.problems] == [(1, "$.evidence"), (2, "$.tags")]


def test_wrong_number_of_items_in_the_card_is_a_problem(make: Maker, tmp_path: Path) -> None:
    folder = make.label_set(tmp_path, "demo", {"v1": ITEMS})
    card = folder / "README.md"
    card.write_text(card.read_text("utf-8").replace("items: 2", "items: 3"), "utf-8")
    (problem,) = check_labels(Catalog.at(tmp_path), "demo").problems
    assert problem.what == "v1 has 2 items, but the card says 3"


def test_changed_released_file_is_a_problem(make: Maker, tmp_path: Path) -> None:
    folder = make.label_set(tmp_path, "demo", {"v1": ITEMS})
    (folder / "v1.jsonl").write_text(make.text(ITEMS[:1]), "utf-8")
    (problem,) = check_labels(Catalog.at(tmp_path), "demo").problems
    assert "but the card says" in problem.what


def test_unknown_label_set_is_a_problem(tmp_path: Path) -> None:
    (problem,) = check_labels(Catalog.at(tmp_path), "nowhere").problems
    assert problem.what.startswith("no label set of this name or path")


def test_sound_run_names_its_label_set(make: Maker, tmp_path: Path) -> None:
    make.label_set(tmp_path, "demo", {"v1": ITEMS})
    run = make.run_file(tmp_path, "demo/bf16", ROWS[:1])
    (line,) = check_run(Catalog.at(tmp_path), RunFile(run), "demo", strict=False).sound
    assert "ok, 1 decision on" in line
    assert line.endswith("(1 missing)")


def test_run_without_label_set_is_checked_for_itself(make: Maker, tmp_path: Path) -> None:
    path = make.file(make.text([Maker.row("only-here", {"A": 0.9, "B": 0.1})]))
    (line,) = check_run(Catalog.at(tmp_path), RunFile(path), None, strict=False).sound
    assert "no label set covers them" in line


def test_invalid_decision_is_a_problem_when_strict(make: Maker, tmp_path: Path) -> None:
    make.label_set(tmp_path, "demo", {"v1": ITEMS})
    run = make.run_file(tmp_path, "demo/bf16", [ROWS[0], Maker.row("q2", {"A": 95, "B": 5})])
    catalog = Catalog.at(tmp_path)
    assert "(1 invalid)" in check_run(catalog, RunFile(run), "demo", strict=False).sound[0]
    (problem,) = check_run(catalog, RunFile(run), "demo", strict=True).problems
    assert problem.line == 2
    assert "look like percent" in problem.what


def test_run_with_other_options_is_a_problem(make: Maker, tmp_path: Path) -> None:
    make.label_set(tmp_path, "demo", {"v1": ITEMS})
    run = make.run_file(tmp_path, "demo/bf16", [Maker.row("q1", {"A": 0.9, "C": 0.1})])
    (problem,) = check_run(Catalog.at(tmp_path), RunFile(run), "demo", strict=False).problems
    assert "its options are A, C in the run and A, B in the label set" in problem.what


def test_every_field_of_a_row_is_checked(make: Maker, tmp_path: Path) -> None:
    rows = [Maker.row("q1", {"A": 0.9, "B": 0.1}, total_seconds="1 s")]
    path = make.file(make.text(rows) + "\n")
    (problem,) = check_run(Catalog.at(tmp_path), RunFile(path), None, strict=False).problems
    assert (problem.line, problem.path) == (1, "$.total_seconds")


def test_rule_for_an_option_that_no_item_has_is_noticed(make: Maker, tmp_path: Path) -> None:
    extra = "  policy:\n    default: keep\n    rules: [{option: b, at_least: 0.5, action: drop}]\n"
    make.label_set(tmp_path, "demo", {"v1": [make.item("a", "AB", "A")]}, extra=extra)
    found = check_labels(Catalog((tmp_path,)), "demo")
    assert found.notices == ["the policy has rules for options that no item has: b"]
