"""Laws that hold whatever the data are: order, sides, conservation, and two readers that agree."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

from evalkit.accuracy import FIGURES, Resampling
from evalkit.api import diff as diff_by_name
from evalkit.cards import Policy, Rule
from evalkit.catalog import shipped_root
from evalkit.comparing import DiffReport, diff
from evalkit.errors import InputError
from evalkit.jsonl import dumps
from evalkit.labels import LabelSet, load_label_file
from evalkit.runs import Run, load_run
from evalkit.scoring import Options, ScoreReport, score

if TYPE_CHECKING:
    from tests.conftest import Maker

Record = dict[str, Any]
OPTIONS = Options(
    by=[],
    policy=Policy((Rule("A", 0.7, "take"), Rule("B", 0.5, "drop"), Rule("B", 0.3, "look")), "keep"),
    resampling=Resampling(resamples=50),
)
LAYOUTS = ("AB", "BA", "ABC", "CXY")


# scenarios: a label set and two runs on it, with everything that may occur in a recording


@st.composite
def decisions(draw: st.DrawFn, name: str, options: str) -> Record | None:
    """Draw a row for an item: a distribution mostly, but also all that is none, or nothing."""
    listed = draw(st.permutations(options))
    kind = draw(st.sampled_from(["points"] * 5 + ["short", "range", "choice", "invalid", "error", "missing"]))
    # Few and coarse weights, so that ties and equal runs occur.
    weights = draw(st.lists(st.integers(0, 4), min_size=len(listed), max_size=len(listed)).filter(any))
    row: Record = {"id": name, "option_ids": listed}
    if kind == "missing":
        return None
    if kind == "error":
        return {**row, "status": "error", "error": "timeout"}
    if kind == "choice":
        return {**row, "choice": draw(st.sampled_from(listed))}
    if kind == "range":
        return {
            **row,
            "probability_range": {draw(st.sampled_from(listed)): [draw(st.sampled_from([0.5, 0.7, 0.9])), 1]},
        }
    scale = {"points": sum(weights), "short": 1.25 * sum(weights), "invalid": 0.01 * sum(weights)}[kind]
    return {**row, "probabilities": [weight / scale for weight in weights]}


@st.composite
def scenarios(draw: st.DrawFn) -> tuple[list[Record], list[Record], list[Record]]:
    """Draw the items of a label set and the rows of two runs."""
    items, runs = [], ([], [])  # type: tuple[list[Record], tuple[list[Record], list[Record]]]
    for number in range(draw(st.integers(1, 8))):
        options = draw(st.sampled_from(LAYOUTS))
        label = draw(st.sampled_from([*options, None]))
        fields = {
            name: draw(st.sampled_from(values))
            for name, values in (
                ("family", ["f", "g"]),
                ("part", ["p", "q", None]),
                ("group", ["u", "v", None]),
            )
        }
        items.append(
            {"id": f"q{number}", "options": [{"id": option} for option in options], "label": label, **fields}
        )
        for rows in runs:
            row = draw(decisions(f"q{number}", options))
            if row is not None:
                rows.append(row)
    for rows in runs:
        if not rows:
            rows.append({"id": "q0", "status": "error"})
    return items, *runs


Scenario = tuple[list[Record], list[Record], list[Record]]
SCENARIOS = scenarios()


def loaded(make: Maker, scenario: Scenario) -> tuple[LabelSet, Run, Run]:
    items, before, after = scenario
    return make.labels(items), make.run(before), make.run(after)


def scored(labels: LabelSet, run: Run, options: Options = OPTIONS) -> ScoreReport:
    return score(labels, run, options)


def compared(labels: LabelSet, before: Run, after: Run, options: Options = OPTIONS) -> DiffReport:
    return diff(labels, before, after, options)


def by_id(report: ScoreReport | DiffReport) -> dict[str, Record]:
    columns = report.item_columns()
    columns.pop("line", None)
    rows = (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
    return {row["id"]: row for row in rows}


def same(one: Any, other: Any) -> None:
    """Assert that two figures, or trees of them, are the same but for the rounding of sums."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            same(left, right)
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-12)
    else:
        assert one == other


def value_of(figure: Any) -> float | None:
    return None if figure is None else float(figure["value"])


def unordered(figures: Any) -> Record:
    """Leave out of a diff's figures what names the first of several equal items."""
    return {key: value for key, value in figures.items() if key != "max_probability_shift"}


# order


@given(SCENARIOS, st.data())
def test_order_of_the_rows_of_a_run_does_not_matter(
    make: Maker, scenario: Scenario, data: DataObject
) -> None:
    labels, before, after = loaded(make, scenario)
    shuffled = [make.run(data.draw(st.permutations(rows))) for rows in scenario[1:]]
    assert scored(labels, shuffled[0]).overall == scored(labels, before).overall
    one, other = compared(labels, before, after), compared(labels, shuffled[0], shuffled[1])
    assert one.overall == other.overall
    assert one.policy == other.policy
    assert one.changed() == other.changed()


@given(SCENARIOS, st.data())
def test_order_of_the_items_of_a_label_set_does_not_matter(
    make: Maker, scenario: Scenario, data: DataObject
) -> None:
    labels, before, after = loaded(make, scenario)
    shuffled = make.labels(data.draw(st.permutations(scenario[0])))
    one, other = scored(labels, before), scored(shuffled, before)
    same(one.overall, other.overall)
    assert one.counts == other.counts
    assert by_id(one) == by_id(other)
    one_diff, other_diff = compared(labels, before, after), compared(shuffled, before, after)
    same(unordered(one_diff.overall), unordered(other_diff.overall))
    assert by_id(one_diff) == by_id(other_diff)
    assert one_diff.policy == other_diff.policy


def test_order_of_the_items_does_not_move_the_intervals(make: Maker) -> None:
    # Enough cells and groups that other draws would show.
    root = shipped_root()
    text = (root / "labels" / "semif-252" / "v1.jsonl").read_text("utf-8")
    runs = [load_run(root / "runs" / "semif-252" / f"{name}.jsonl") for name in ("bf16", "q4")]
    lines = text.splitlines(keepends=True)
    one, other = (
        load_label_file(make.file("".join(order), "labels.jsonl")) for order in (lines, lines[::-1])
    )
    same(scored(one, runs[0]).overall, scored(other, runs[0]).overall)
    one_diff, other_diff = (compared(labels, runs[0], runs[1]).overall for labels in (one, other))
    same(unordered(one_diff), unordered(other_diff))


@given(SCENARIOS, st.data())
def test_order_of_the_options_in_a_run_does_not_matter(
    make: Maker, scenario: Scenario, data: DataObject
) -> None:
    def reordered(row: Record) -> Record:
        if "option_ids" not in row:
            return row
        order = data.draw(st.permutations(range(len(row["option_ids"]))))
        lists = [key for key in ("option_ids", "probabilities") if key in row]
        return {**row, **{key: [row[key][place] for place in order] for key in lists}}

    labels, before, after = loaded(make, scenario)
    moved = [make.run([reordered(row) for row in rows]) for rows in scenario[1:]]
    one, other = scored(labels, before), scored(labels, moved[0])
    same(one.overall, other.overall)
    assert one.item_columns()["choice"] == other.item_columns()["choice"]
    assert one.item_columns()["tie"] == other.item_columns()["tie"]
    one_diff, other_diff = compared(labels, before, after), compared(labels, moved[0], moved[1])
    same(unordered(one_diff.overall), unordered(other_diff.overall))
    assert one_diff.policy == other_diff.policy


@given(SCENARIOS)
def test_probabilities_as_objects_are_the_same_decisions(make: Maker, scenario: Scenario) -> None:
    labels, before, _ = loaded(make, scenario)
    objects = [
        {**row, "probabilities": dict(zip(row["option_ids"], row["probabilities"], strict=True))}
        if "probabilities" in row
        else row
        for row in scenario[1]
    ]
    nameless = [
        {key: value for key, value in row.items() if key != "option_ids" or "probabilities" not in row}
        for row in objects
    ]
    expected = scored(labels, before).overall
    assert scored(labels, make.run(objects)).overall == expected
    assert scored(labels, make.run(nameless)).overall == expected


@given(SCENARIOS)
def test_names_of_groups_and_families_do_not_matter(make: Maker, scenario: Scenario) -> None:
    names = {"f": "zz", "g": "aa", "u": "10", "v": "9", None: None}
    labels, before, after = loaded(make, scenario)
    renamed = make.labels(
        {**item, "family": names[item["family"]], "group": names[item["group"]]} for item in scenario[0]
    )
    one, other = scored(labels, before).overall, scored(renamed, before).overall
    one_diff, other_diff = (compared(chosen, before, after).overall for chosen in (labels, renamed))
    for figure in FIGURES:
        assert value_of(one[figure]) == value_of(other[figure])
        same(value_of(one_diff[f"{figure}_delta"]), value_of(other_diff[f"{figure}_delta"]))
    same(one_diff["standard_errors"], other_diff["standard_errors"])


# sides


@given(SCENARIOS)
def test_swapping_the_sides_turns_the_diff_round(make: Maker, scenario: Scenario) -> None:
    labels, before, after = loaded(make, scenario)
    there, back = compared(labels, before, after).to_dict(), compared(labels, after, before).to_dict()
    one, other = there["overall"], back["overall"]
    for key in (
        "n",
        "compared",
        "changed_choices",
        "changed_with_tie",
        "changed_share",
        "same_choice",
        "wrong_to_wrong",
        "flips",
        "with_probabilities",
        "mean_max_shift",
        "rms_shift",
        "mean_js",
        "detectable_delta",
        "labelled",
    ):
        same(one[key], other[key])
    same(one["quantiles"]["shift"], other["quantiles"]["shift"])
    same(value_of(one["max_probability_shift"]), value_of(other["max_probability_shift"]))
    assert (one["fixed"], one["broken"], one["lost"], one["gained"]) == (
        other["broken"], other["fixed"], other["gained"], other["lost"],
    )  # fmt: skip
    for figure in FIGURES:
        turned = value_of(other[f"{figure}_delta"])
        same(value_of(one[f"{figure}_delta"]), turned if turned is None else -turned)
        assert one[figure]["reference"] == other[figure]["candidate"]
    if one["mcnemar"] is not None:
        assert one["mcnemar"]["p"] == other["mcnemar"]["p"]
        assert one["mcnemar"]["reference_only"] == other["mcnemar"]["candidate_only"]
    pairs = {"->".join(reversed(pair.split("->"))): count for pair, count in one["transitions"].items()}
    assert pairs == other["transitions"]
    assert (there["only_reference"], there["only_candidate"]) == (
        back["only_candidate"], back["only_reference"],
    )  # fmt: skip


def test_swapping_the_sides_turns_the_intervals_round() -> None:
    # The draws differ, so that the ends agree only as well as two bootstraps do: one item is 1/144.
    options = Options(by=[], only={"part": "authored"}, resampling=Resampling(resamples=4000))
    there, back = (
        diff_by_name(f"semif-252/{one}", f"semif-252/{other}", options=options, root=shipped_root()).overall
        for one, other in (("bf16", "q4"), ("q4", "bf16"))
    )
    for figure in FIGURES:
        left, right = there[f"{figure}_delta"], back[f"{figure}_delta"]
        assert [left["low"], left["high"]] == pytest.approx([-right["high"], -right["low"]], abs=0.008)


@given(SCENARIOS)
def test_run_against_itself_shows_no_change(make: Maker, scenario: Scenario) -> None:
    labels, before, _ = loaded(make, scenario)
    report = compared(labels, before, before)
    overall = report.overall
    assert (overall["changed_choices"], overall["flips"], overall["lost"], overall["gained"]) == (0, 0, 0, 0)
    assert overall["mcnemar"] is None or overall["mcnemar"]["p"] == 1.0
    if overall["with_probabilities"]:
        assert overall["max_probability_shift"]["value"] == overall["mean_kl"] == overall["mean_js"] == 0.0
    for figure in FIGURES:
        delta = overall[f"{figure}_delta"]
        if delta is not None:
            assert delta["value"] == 0.0
            assert delta["low"] is None or delta["low"] < 0 < delta["high"]
    assert set(overall["transitions"].values()) == {0}
    assert report.changed() == report.treated_differently() == []


# conservation


@given(SCENARIOS)
def test_every_item_is_counted_once_and_under_one_name(make: Maker, scenario: Scenario) -> None:
    labels, before, after = loaded(make, scenario)
    report = scored(labels, before)
    counts, overall = report.counts, report.overall
    assert counts["items"] == len(scenario[0])
    assert counts["items"] == counts["scored"] + counts["missing"] + counts["invalid"] + counts["error"]
    assert sum(counts["invalid_reasons"].values()) == counts["invalid"]
    assert counts["scored"] >= counts["censored"] + counts["without_probabilities"]
    assert counts["items"] == overall["labelled"] + counts["unlabelled"]
    cells = [count for row in overall["confusion"].values() for count in row.values()]
    assert sum(cells) == sum(overall["support"].values()) == overall["labelled"]
    assert (
        sum(row["n"] for row in overall["ece_bins"]) == overall["losses"]["ece_n"] <= overall["losses"]["n"]
    )
    assert sum(row["n"] for row in overall["positions"].values()) == overall["labelled"]
    assert report.policy is not None
    assert sum(report.policy["actions"].values()) == counts["items"]
    found = compared(labels, before, after)
    both = found.counts
    assert (
        both["items"] == both["compared"] + both["only_reference"] + both["only_candidate"] + both["neither"]
    )
    effects = [found.overall[name] for name in ("fixed", "broken", "wrong_to_wrong")]
    unlabelled = sum(entry["effect"] == "unlabelled" for entry in found.changed())
    assert found.overall["changed_choices"] == sum(effects) + unlabelled == len(found.changed())


@given(SCENARIOS)
def test_slices_of_a_partition_add_up(make: Maker, scenario: Scenario) -> None:
    options = Options(by=["family"], policy=OPTIONS.policy, resampling=OPTIONS.resampling)
    labels, before, after = loaded(make, scenario)
    report = scored(labels, before, options)
    parts = list(report.by["family"].values())
    for key in ("n", "labelled", "correct"):
        assert sum(part[key] for part in parts) == report.overall[key]
    for key in ("n", "lower_bounds", "at_floor", "ece_n"):
        assert sum(part["losses"][key] for part in parts) == report.overall["losses"][key]
    for figure in ("nll", "brier"):
        total = sum(part[figure] * part["losses"]["n"] for part in parts if part[figure] is not None)
        if report.overall[figure] is not None:
            assert total == pytest.approx(report.overall[figure] * report.overall["losses"]["n"])
    found = compared(labels, before, after, options)
    moved = list(found.by["family"].values())
    for key in (
        "n",
        "compared",
        "changed_choices",
        "changed_with_tie",
        "fixed",
        "broken",
        "wrong_to_wrong",
        "flips",
        "lost",
        "gained",
        "with_probabilities",
        "kl_at_floor",
        "labelled",
    ):
        assert sum(part[key] for part in moved) == found.overall[key]
    for pair, count in found.overall["transitions"].items():
        assert sum(part["transitions"][pair] for part in moved) == count


@given(SCENARIOS)
def test_figures_stay_in_their_ranges_and_fit_each_other(make: Maker, scenario: Scenario) -> None:
    labels, before, after = loaded(make, scenario)
    overall = scored(labels, before).overall
    for figure in FIGURES:
        found = overall[figure]
        if found is not None:
            assert 0 <= found["value"] <= 1
            assert found["low"] is None or 0 <= found["low"] <= found["high"] <= 1
    accuracy = overall["accuracy"]
    assert accuracy is None or accuracy["low"] <= accuracy["value"] <= accuracy["high"]
    assert overall["nll"] is None or 0 <= overall["nll"] <= -math.log(1e-12) + 1e-9
    assert overall["brier"] is None or 0 <= overall["brier"] <= 2 + 1e-12
    assert overall["ece"] is None or 0 <= overall["ece"] <= 1
    moved = compared(labels, before, after)
    points = moved.found.points
    assert (moved.found.kl[points] >= 0).all()
    assert np.isfinite(moved.found.kl[points]).all()
    assert (moved.found.shift[points] <= 1 + 1e-12).all()
    if moved.overall["labelled"]:
        test = moved.overall["mcnemar"]
        gained = test["candidate_only"] - test["reference_only"]
        assert moved.overall["accuracy_delta"]["value"] * moved.overall["labelled"] == pytest.approx(gained)


@given(SCENARIOS)
def test_same_input_gives_the_same_bytes_of_strict_json(make: Maker, scenario: Scenario) -> None:
    labels, before, after = loaded(make, scenario)
    texts = [dumps(scored(labels, before).to_dict()) for _ in range(2)]
    texts += [dumps(compared(labels, before, after).to_dict()) for _ in range(2)]
    assert texts[0] == texts[1]
    assert texts[2] == texts[3]
    assert json.loads(texts[0])["counts"]["items"] == len(scenario[0])


# two readers


WORDS = st.sampled_from(["a", "b", "1", "", "学", "A", "\u2028", "\u0000", "\ud83d", "ok", "error", "x" * 40])
NUMBERS = st.sampled_from([0, 1, -1, 0.1, 0.2, 0.3, 0.5, 0.7, 1e-9, 95, -0.0, 5e-324, 1.00005, 10**400])
ANYTHING: SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS | st.sampled_from([math.nan, math.inf, -math.inf]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)


def often(usual: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """Draw what is usual mostly, and anything at all now and then."""
    return st.integers(0, 30).flatmap(lambda dice: usual if dice else ANYTHING)


ROWS = st.fixed_dictionaries(
    {
        "id": often(st.integers(0, 30).map(lambda number: f"q{number}")),
        "option_ids": often(st.sampled_from([["A", "B"], ["B", "A"], ["A", "B", "C"], ["A"], []])),
        "probabilities": often(
            st.lists(NUMBERS, max_size=4)
            | st.lists(st.floats(0, 0.5), min_size=2, max_size=3)
            | st.sampled_from([[0.5, 0.5], [0.9, 0.1], [0.2, 0.3, 0.5], [0.1, 0.2, 0.3], [0.7, 0.1, 0.1]])
        ),
    },
    optional={
        "status": often(st.sampled_from(["ok", None, "error", "invalid", "missing_option"])),
        "choice": often(st.sampled_from(["A", "B", None])),
        "error": often(st.sampled_from(["timeout", "", None])),
        "probability_range": often(st.sampled_from([None, {}, {"A": [0.8, 1]}])),
        "allowed_token_mass": often(st.floats(0, 1)),
        "cached_tokens": often(st.integers(-1, 5)),
        "total_seconds": often(st.floats(0, 9)),
        "input_tokens": often(st.integers(0, 900)),
        "option_logits": often(st.lists(st.floats(-9, 9), max_size=3)),
        "model": often(st.sampled_from(["m1", "m2", {"name": "m3"}, None])),
        "prompt_sha256": often(st.sampled_from(["x", "y", None])),
        "anything": ANYTHING,
    },
)


def outcome(load: Callable[[Path], Any], fields: Callable[[Any], Any], path: Path) -> Any:
    try:
        return fields(load(path))
    except InputError as error:
        return str(error)


def run_outcome(path: Path) -> Any:
    return outcome(partial(load_run, file="f"), run_fields, path)


def run_fields(run: Run) -> Record:
    """Return all that a run holds, layouts by row, arrays as lists."""

    def cells(matrix: Any) -> Any:
        # NaN equals nothing; as text it does, and every other float keeps all its bits.
        return (
            None
            if matrix is None
            else [[repr(value) for value in row] for row in np.atleast_2d(matrix).tolist()]
        )

    return {
        "ids": run.ids.to_pylist(),
        "lines": run.lines.tolist(),
        "status": run.status.tolist(),
        "options": [run.layouts[number] for number in run.layout.tolist()],
        "p": cells(run.p),
        "low": cells(run.low),
        "high": cells(run.high),
        "choice": run.choice.tolist(),
        "mass": cells(run.mass),
        "reasons": dict(run.reasons),
        "texts": {name: column.to_pylist() for name, column in run.texts.items()},
        "cache_hits": run.cache_hits,
        "notices": run.notices,
    }


def label_fields(labels: LabelSet) -> Record:
    return {
        "ids": labels.ids.to_pylist(),
        "lines": labels.lines.tolist(),
        "options": [labels.layouts[number] for number in labels.layout.tolist()],
        "gold": labels.gold.tolist(),
        "fields": {name: (coded.names, coded.codes.tolist()) for name, coded in labels.fields.items()},
        "memberships": {
            name: {value: items.tolist() for value, items in values.items()}
            for name, values in labels.memberships.items()
        },
        "notices": labels.notices,
    }


def row(**fields: Any) -> Record:
    return {"id": "a", "option_ids": ["A", "B"], "probabilities": [0.9, 0.1], **fields}


@given(st.lists(ROWS, min_size=1, max_size=6))
@example([row(probabilities=[0.9, None])])
@example([row(probabilities=[math.nan, 0.5])])
@example([row(option_ids=[], probabilities=[])])
@example([row(option_ids=["A", "B", "C"], probabilities=[0.1, 0.2, 0.3])])
@example([row(model="\ud83d")])
@example([row(model={"name": "\ud83d"})])
@example([row(model={"source": "m"}), row(id="b", model="m")])
@example([row(total_seconds="1 s")])
@example([row(option_logits=5)])
@example([row(input_tokens=1.5)])
@example([row(), row(status="error")])
def test_both_readers_of_runs_agree(make: Maker, records: list[Record]) -> None:
    content = make.text(records)
    assert run_outcome(make.file(content)) == run_outcome(make.file(content + "\n"))


@given(st.lists(st.lists(st.floats(0, 1), min_size=2, max_size=5), min_size=1, max_size=8))
def test_both_readers_agree_to_the_last_bit(make: Maker, values: list[list[float]]) -> None:
    records = [
        {
            "id": str(number),
            "option_ids": list("ABCDE"[: len(row)]),
            "probabilities": [p / len(row) for p in row],
        }
        for number, row in enumerate(values)
    ]
    content = make.text(records)
    one, other = (run_fields(load_run(make.file(content + ending), file="f")) for ending in ("", "\n"))
    assert one == other


ITEMS = st.fixed_dictionaries(
    {
        "id": often(st.integers(0, 30).map(lambda number: f"q{number}")),
        "options": often(
            st.sampled_from(["AB", "BA", "ABC", "AA", "A"]).map(
                lambda names: [{"id": name} for name in names]
            )
        ),
    },
    optional={
        "label": often(st.sampled_from(["A", "B", None, "Z"])),
        "tags": often(st.lists(st.sampled_from(["x", "y"]), max_size=3)),
        "family": often(st.sampled_from(["f", "g", None])),
        "group": often(st.sampled_from(["u", "v", None])),
        "topic": ANYTHING,
        "criterion": often(st.just("?")),
        "evidence": often(st.just("text")),
        "source": often(st.just("text")),
        "anything": ANYTHING,
    },
)


@given(st.lists(ITEMS, min_size=1, max_size=6))
@example([{"id": "a", "options": [{"id": "A"}, {"id": "B"}], "tags": 5}])
@example([{"id": "a", "options": [{"id": "A"}, {"id": "B"}], "topic": "\ud83d"}])
@example([{"id": "a", "options": [{"id": "A"}, {"id": "B"}], "criterion": 5}])
@example([{"id": "a", "options": [{"id": "A"}, {"id": "B", "description": 5}]}])
def test_both_readers_of_label_sets_agree(make: Maker, records: list[Record]) -> None:
    content = make.text(records)
    by_columns, by_lines = make.file(content), make.file(content + "\n")
    for extra in ((), ("topic",)):
        load = partial(load_label_file, file="f", extra_fields=extra)
        assert outcome(load, label_fields, by_columns) == outcome(load, label_fields, by_lines)


@pytest.mark.parametrize("ending", ["\r\n", "\n"])
@given(st.lists(ROWS, min_size=1, max_size=4))
def test_line_ends_do_not_matter(make: Maker, ending: str, records: list[Record]) -> None:
    content = make.text(records)
    other = content.replace("\n", ending).removesuffix(ending)
    assert run_outcome(make.file(content)) == run_outcome(make.file(other))
