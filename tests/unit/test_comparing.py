"""Comparing two runs: counts, figures, slices, policy and notices of the report."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from evalkit.accuracy import FIGURES, Resampling
from evalkit.cards import Policy, Rule
from evalkit.comparing import DiffReport, diff
from evalkit.errors import AlignmentError, InputError, UsageError
from evalkit.jsonl import dumps
from evalkit.scoring import Options, score
from evalkit.statistics import detectable_difference

if TYPE_CHECKING:
    from tests.conftest import Maker

FAST = Resampling(resamples=100)
DROP = Policy((Rule("B", 0.85, "drop"),), "keep")
Record = dict[str, Any]

LABELS = "AABBAAA"
BEFORE = [(0.9, 0.1), (0.5, 0.5), (0.1, 0.9), (0.7, 0.3), None, (0.8, 0.2), (0.2, 0.8)]
AFTER = [(0.2, 0.8), (0.4, 0.6), (0.05, 0.95), (0.2, 0.8), (0.9, 0.1), None, None]
"""Items a to g: broken, broken from a tie, same, fixed, gained, lost, and wrong then missing."""


def items(make: Maker) -> list[Record]:
    return [
        make.item(name, "AB", label, part="p" if name in "abcd" else "q", family="f")
        for name, label in zip("abcdefg", LABELS, strict=True)
    ]


def rows(make: Maker, values: list[tuple[float, float] | None], **fields: Any) -> list[Record]:
    return [
        make.row(name, {"A": value[0], "B": value[1]}, **fields)
        for name, value in zip("abcdefg", values, strict=True)
        if value
    ]


def report(make: Maker, options: Options | None = None) -> DiffReport:
    return diff(
        make.labels(items(make)),
        make.run(rows(make, BEFORE), "before"),
        make.run(rows(make, AFTER), "after"),
        options or Options(resampling=FAST),
    )


def same_items(make: Maker, n: int, **fields: Any) -> list[Record]:
    return [make.row(str(number), {"A": 0.9, "B": 0.1}, **fields) for number in range(n)]


# counts and figures


def test_counts_tell_how_many_items_can_be_compared(make: Maker) -> None:
    found = report(make).counts
    expected = {"items": 7, "compared": 4, "only_reference": 2, "only_candidate": 1, "neither": 0}
    assert {name: found[name] for name in expected} == expected
    assert (found["reference"]["missing"], found["candidate"]["missing"], found["unlabelled"]) == (1, 2, 0)


def test_figures_of_all_items(make: Maker) -> None:
    overall = report(make).overall
    expected = {
        "changed_choices": 3,
        "changed_with_tie": 1,
        "fixed": 1,
        "broken": 2,
        "wrong_to_wrong": 0,
        "flips": 3,
        "lost": 1,
        "gained": 1,
    }
    assert {name: overall[name] for name in expected} == expected
    assert overall["same_choice"] == 0.25
    assert overall["mcnemar"] == {"reference_only": 3, "candidate_only": 2, "p": 1.0}
    assert overall["max_probability_shift"]["value"] == pytest.approx(0.7)
    assert overall["max_probability_shift"]["id"] == "a"
    assert overall["accuracy"] == {"reference": pytest.approx(4 / 7), "candidate": pytest.approx(3 / 7)}
    assert overall["accuracy_delta"]["value"] == pytest.approx(-1 / 7)
    assert overall["labelled"] == 7


def test_difference_that_could_be_seen_follows_from_items_and_flips(make: Maker) -> None:
    labels = make.labels([make.item(str(number), "AB", "A") for number in range(60)])
    right, wrong = {"A": 0.9, "B": 0.1}, {"A": 0.1, "B": 0.9}
    before = make.run([make.row(str(number), right) for number in range(60)])
    after = make.run([make.row(str(number), wrong if number < 12 else right) for number in range(60)])
    for level in (0.95, 0.8):
        found = diff(labels, before, after, Options(resampling=Resampling(resamples=100, level=level)))
        expected = detectable_difference(60, 12 / 60, level=level)
        assert expected is not None
        assert found.overall["detectable_delta"] == expected


def test_accuracies_of_both_sides_are_those_of_their_scores(make: Maker) -> None:
    found = report(make)
    for side, values in (("reference", BEFORE), ("candidate", AFTER)):
        alone = score(
            make.labels(items(make)), make.run(rows(make, values)), Options(resampling=FAST)
        ).overall
        for name in FIGURES:
            assert found.overall[name][side] == pytest.approx(alone[name]["value"]), name


def test_slices_are_by_part_and_family_unless_told_otherwise(make: Maker) -> None:
    by = report(make).by
    assert {
        field: {value: figures["n"] for value, figures in parts.items()} for field, parts in by.items()
    } == {
        "part": {"p": 4, "q": 3},
        "family": {"f": 7},
    }
    assert by["part"]["q"]["compared"] == 0
    assert by["part"]["q"]["max_probability_shift"] is None
    assert by["part"]["q"]["mcnemar"] == {"reference_only": 1, "candidate_only": 1, "p": 1.0}


def test_slice_by_a_field_that_no_item_has_is_a_usage_error(make: Maker) -> None:
    with pytest.raises(UsageError, match="has a field 'nope' to slice by"):
        report(make, Options(by=["nope"]))


def test_restriction_compares_only_its_items(make: Maker) -> None:
    found = report(make, Options(only={"part": "p"}, resampling=FAST))
    assert found.counts["items"] == found.counts["compared"] == 4
    whole = report(make).by["part"]["p"]
    assert {key: value for key, value in found.overall.items() if key != "transitions"} == {
        key: value for key, value in whole.items() if key != "transitions"
    }
    assert found.signature["only"] == "part=p"


def test_nothing_changed_is_no_difference(make: Maker) -> None:
    run = make.run(rows(make, BEFORE))
    found = diff(make.labels(items(make)), run, run, Options(resampling=FAST)).overall
    assert (found["changed_choices"], found["flips"], found["same_choice"]) == (0, 0, 1.0)
    assert (found["mean_kl"], found["mean_js"], found["max_probability_shift"]["value"]) == (0.0, 0.0, 0.0)
    assert found["mcnemar"]["p"] == 1.0
    assert found["accuracy_delta"]["value"] == 0.0
    assert found["accuracy_delta"]["low"] < 0 < found["accuracy_delta"]["high"]
    assert found["detectable_delta"] is None


# lists


def test_changed_choices_are_listed_largest_shift_first(make: Maker) -> None:
    found = report(make)
    listed = found.changed()
    assert [entry["id"] for entry in listed] == ["a", "d", "b"]
    assert listed == found.to_dict()["changed"]
    assert found.changed(1) == listed[:1]
    assert listed[2] == {
        "id": "b",
        "label": "A",
        "reference": "A",
        "reference_probability": 0.5,
        "reference_status": "ok",
        "candidate": "B",
        "candidate_probability": 0.6,
        "candidate_status": "ok",
        "shift": pytest.approx(0.1),
        "shift_option": "A",
        "kl": pytest.approx(float(found.found.kl[1])),
        "js": pytest.approx(float(found.found.js[1])),
        "changed": True,
        "tie": "reference",
        "effect": "broken",
        "part": "p",
        "family": "f",
    }


def test_items_decided_on_one_side_only_are_listed(make: Maker) -> None:
    document = report(make).to_dict()
    assert (document["only_reference"], document["only_candidate"]) == (["f", "g"], ["e"])
    assert [entry["id"] for entry in document["unusable"]["reference"]] == ["e"]
    assert [entry["id"] for entry in document["unusable"]["candidate"]] == ["f", "g"]


def test_ties_name_their_sides(make: Maker) -> None:
    labels = make.labels([make.item(name, "AB", "A") for name in "abcd"])
    tie, sure = {"A": 0.5, "B": 0.5}, {"A": 0.9, "B": 0.1}
    before = make.run([make.row(name, tie if name in "ab" else sure) for name in "abcd"])
    after = make.run([make.row(name, tie if name in "bc" else sure) for name in "abcd"])
    columns = diff(labels, before, after, Options(resampling=FAST)).item_columns()
    assert columns["tie"] == ["reference", "both", "candidate", None]


def test_items_as_a_frame(make: Maker) -> None:
    frame = report(make).to_pandas()
    assert list(frame["id"]) == list("abcdefg")
    assert frame["changed"].sum() == 3
    assert frame["shift"].isna().sum() == 3


def test_report_is_strict_json_and_names_both_runs(make: Maker) -> None:
    document = json.loads(dumps(report(make).to_dict()))
    assert document["schema"] == "evalkit.diff/1"
    assert (document["reference"]["name"], document["candidate"]["name"]) == ("before", "after")
    assert document["policy"] is None
    assert len(document["signature"]["runs"]) == 2


# policy


def test_policy_tells_what_production_would_treat_differently(make: Maker) -> None:
    found = report(make, Options(policy=DROP, resampling=FAST))
    document = found.to_dict()["policy"]
    assert document["transitions"] == {
        "drop->keep": 0,
        "drop->undetermined": 0,
        "keep->drop": 0,
        "keep->undetermined": 0,
        "undetermined->drop": 0,
        "undetermined->keep": 0,
    }
    strict = Options(policy=Policy((Rule("B", 0.75, "drop"),), "keep"), resampling=FAST)
    found = report(make, strict)
    document = found.to_dict()["policy"]
    moved = {pair: count for pair, count in document["transitions"].items() if count}
    assert moved == {"keep->drop": 2, "drop->keep": 1}
    assert document["treated_differently"] == 3
    assert document["actions"]["reference"] == {"drop": 2, "keep": 5, "undetermined": 0}
    assert document["actions"]["candidate"] == {"drop": 3, "keep": 4, "undetermined": 0}
    assert document["wrong_actions"] == {"reference": 1, "candidate": 1}
    assert [
        (entry["id"], entry["reference_action"], entry["candidate_action"]) for entry in document["items"]
    ] == [
        ("a", "keep", "drop"),
        ("d", "keep", "drop"),
        ("g", "drop", "keep"),
    ]
    assert document["items"][0]["reference_why"] == "no rule for A"
    assert document["items"][0]["candidate_why"] == "p(B) 0.8000 >= 0.75"
    assert document["items"][2]["candidate_why"] == "missing"
    assert len(found.treated_differently(1)) == 1
    assert found.by["part"]["p"]["transitions"]["keep->drop"] == 2
    assert found.by["part"]["q"]["transitions"]["keep->drop"] == 0


def test_without_a_policy_nothing_is_treated_differently(make: Maker) -> None:
    found = report(make)
    assert found.treated_differently() == []
    assert (found.policy, found.actions) == (None, None)
    assert found.overall["transitions"] is None


# without labels


def test_without_labels_only_drift_is_measured(make: Maker) -> None:
    before, after = make.run(rows(make, BEFORE), "before"), make.run(rows(make, AFTER), "after")
    found = diff(None, before, after, Options(resampling=FAST))
    assert found.labels.ids.to_pylist() == list("abcdfge")
    overall = found.overall
    assert (overall["changed_choices"], overall["changed_with_tie"]) == (3, 1)
    assert (overall["fixed"], overall["broken"], overall["mcnemar"]) == (0, 0, None)
    for name in FIGURES:
        assert overall[name] == {"reference": None, "candidate": None}
    assert {overall[f"{name}_delta"] for name in FIGURES} == {None}
    assert {entry["effect"] for entry in found.changed()} == {"unlabelled"}
    assert found.by == {}
    assert found.signature["labels"] == "(none)"
    assert found.notices == ()
    json.loads(dumps(found.to_dict()))


def test_without_labels_a_policy_can_be_applied(make: Maker) -> None:
    before, after = make.run(rows(make, BEFORE)), make.run(rows(make, AFTER))
    found = diff(
        None, before, after, Options(policy=Policy((Rule("B", 0.75, "drop"),), "keep"), resampling=FAST)
    )
    assert found.policy is not None
    assert found.policy["treated_differently"] == 3
    assert found.policy["wrong_actions"] == {"reference": 0, "candidate": 0}


# refusals


def test_runs_with_other_option_sets_are_refused(make: Maker) -> None:
    before, after = make.run([make.row("a", {"A": 1, "B": 0})]), make.run([make.row("a", {"A": 1, "C": 0})])
    for labels in (None, make.labels([make.item("a", "AB", "A")])):
        with pytest.raises(AlignmentError, match="a: its options are A, C in the run"):
            diff(labels, before, after)


@pytest.mark.parametrize("side", [0, 1])
def test_strict_refuses_invalid_decisions_on_either_side(make: Maker, side: int) -> None:
    runs = [make.run([make.row("a", {"A": 1, "B": 0})]), make.run([make.row("a", {"A": 95, "B": 5})])]
    labels = make.labels([make.item("a", "AB", "A")])
    with pytest.raises(InputError, match=r"run.jsonl:1: a: probabilities add up to 100"):
        diff(labels, runs[side], runs[1 - side], Options(strict=True))


# notices and settings


def notices(make: Maker, before: Record | None, after: Record | None, *fields: Record) -> tuple[str, ...]:
    first, second = fields or ({}, {"total_seconds": 1.0})
    labels = make.labels([make.item(str(number), "AB", "A") for number in range(30)])
    reference = make.run(same_items(make, 30, **first), "before", meta=before)
    rows = [*same_items(make, 29, **second), make.row("29", {"A": 0.8, "B": 0.2})]
    return diff(labels, reference, make.run(rows, "after", meta=after), Options(resampling=FAST)).notices


def meta(protocol: str = "p/1", **options: Any) -> Record:
    return {"protocol": protocol, "recorded": {"options": options}}


def test_settings_that_differ_are_noticed(make: Maker) -> None:
    before, after = (
        meta("p/1", temperature=1.0, top_p=1, other=1),
        meta("p/2", temperature=0.25, top_p=1, other=2),
    )
    assert notices(make, before, after) == tuple(
        f"the recordings differ in {what}; shifts may be the setting's, not the model's"
        for what in ("temperature: 1.0 against 0.25", "protocol: p/1 against p/2")
    )


@pytest.mark.parametrize("after", [None, {}, {"recorded": {}}, {"recorded": {"options": {}}}])
def test_settings_known_on_one_side_only_are_not_noticed(make: Maker, after: Record | None) -> None:
    assert notices(make, meta(temperature=1.0), after) == ()


def test_settings_that_differ_are_listed_in_the_report(make: Maker) -> None:
    labels = make.labels([make.item("0", "AB", "A")])
    runs = [make.run(same_items(make, 1), meta=meta(temperature=value)) for value in (1.0, 0.25)]
    found = diff(labels, runs[0], runs[1], Options(resampling=FAST))
    assert found.to_dict()["settings"] == [{"setting": "temperature", "reference": 1.0, "candidate": 0.25}]


def test_other_prompts_are_noticed(make: Maker) -> None:
    before, after = ({"prompt_sha256": text, "messages_sha256": text} for text in ("x", "y"))
    assert notices(make, None, None, before, after) == (
        "29 items were asked with another prompt, first 0",
        "29 items were asked with another messages, first 0",
    )
    assert notices(make, None, None, before, before) == ()
    assert notices(make, None, None, before, {}) == ()


def test_same_run_twice_is_noticed(make: Maker) -> None:
    labels = make.labels([make.item(str(number), "AB", "A") for number in range(31)])
    run = make.run(same_items(make, 30))
    expected = "identical probabilities in every row: probably the same run twice"
    assert diff(labels, run, run, Options(resampling=FAST)).notices == (expected,)
    fewer = make.run(same_items(make, 29), "after")
    assert expected not in diff(labels, run, fewer, Options(resampling=FAST)).notices
    named = make.run([make.row(str(n), option_ids=["A", "B"], choice="A") for n in range(30)], "named")
    assert expected not in diff(labels, named, named, Options(resampling=FAST)).notices


def test_notices_of_both_runs_are_passed_on_once(make: Maker) -> None:
    before, after = {"note": "by hand"}, {"note": "by machine"}
    assert notices(make, before, after) == ("before: by hand", "after: by machine")
    run = make.run(same_items(make, 30), meta={"note": "by hand"})
    labels = make.labels([make.item(str(number), "AB", "A") for number in range(30)])
    assert diff(labels, run, run, Options(resampling=FAST)).notices.count("run: by hand") == 1


def test_few_groups_are_noticed(make: Maker) -> None:
    assert "only 7 items to resample: 95 % bootstrap intervals are too narrow" in report(make).notices


def test_rows_in_another_order_are_compared_by_id(make: Maker) -> None:
    labels = make.labels(items(make))
    before, after = make.run(rows(make, BEFORE)[::-1]), make.run(rows(make, AFTER)[::-1])
    shuffled, straight = diff(labels, before, after, Options(resampling=FAST)), report(make)
    assert shuffled.overall == straight.overall
    np.testing.assert_array_equal(shuffled.found.shift, straight.found.shift)


def test_rule_for_an_option_that_no_item_has_is_noticed(make: Maker) -> None:
    labels = make.labels([make.item("a", "AB", "A")])
    run = make.run([make.row("a", {"A": 0.9, "B": 0.1})], "run")
    policy = Policy((Rule("b", 0.5, "drop"),), "keep")
    assert "the policy has rules for options that no item has: b" in (
        diff(labels, run, run, Options(policy=policy)).notices
    )
