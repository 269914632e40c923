"""Scoring one run: counts, figures, slices, policy, notices and signature of the report."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from evalkit import __version__
from evalkit.accuracy import Resampling
from evalkit.cards import Policy, Rule
from evalkit.errors import InputError, UsageError
from evalkit.jsonl import dumps
from evalkit.scoring import Options, ScoreReport, counts, score, unusable

if TYPE_CHECKING:
    from tests.conftest import Maker

FAST = Resampling(resamples=100)
DROP = Policy((Rule("B", 0.85, "drop"),), "keep")
Record = dict[str, Any]


def items(make: Maker) -> list[Record]:
    return [
        make.item("a", "AB", "A", part="p", family="f", topic="t"),
        make.item("b", "AB", "B", part="p", family="g"),
        make.item("c", "AB", "A", part="q", family="f", topic="t"),
        make.item("d", "AB", "B", part="q"),
        make.item("e", "AB", None, part="q"),
        make.item("f", "AB", "A"),
        make.item("g", "AB", "B"),
    ]


def rows(make: Maker) -> list[Record]:
    return [
        make.row("a", {"A": 0.5, "B": 0.5}),
        make.row("b", {"A": 0.1, "B": 0.5}),
        make.row("c", {"A": 0.05, "B": 0.95}),
        make.row("d", {"A": 95, "B": 5}),
        make.row("e", status="error", error="timeout"),
        make.row("f", option_ids=["A", "B"], probability_range={"A": [0.8, 1]}),
    ]


def report(make: Maker, options: Options | None = None, **run: Any) -> ScoreReport:
    fields = options.only.keys() | set(options.by or ()) if options else set()
    return score(
        make.labels(items(make), extra_fields=sorted(fields)),
        make.run(rows(make), **run),
        options or Options(resampling=FAST),
    )


def scored(make: Maker, records: list[Record], *, labels: int = 0, **run: Any) -> ScoreReport:
    """Score rows of which each answers an item with the options A and B and the label A."""
    return score(
        make.labels([make.item(str(number), "AB", "A") for number in range(max(labels, len(records)))]),
        make.run([{"id": str(number), **record} for number, record in enumerate(records)], **run),
        Options(resampling=FAST),
    )


def p(*values: float, **fields: Any) -> Record:
    return {"option_ids": ["A", "B"][: len(values)], "probabilities": list(values), **fields}


# counts


def test_every_item_is_counted_once(make: Maker) -> None:
    found = report(make).counts
    assert found == {
        "items": 7,
        "scored": 4,
        "missing": 1,
        "invalid": 1,
        "error": 1,
        "ties": 1,
        "censored": 1,
        "without_probabilities": 0,
        "unlabelled": 1,
        "invalid_reasons": {"probabilities add up to ...: they look like percent": 1},
        "allowed_token_mass": {"n": 1, "least": 0.6, "mean": 0.6},
    }


def test_counts_tell_choices_without_probabilities(make: Maker) -> None:
    found = scored(make, [{"option_ids": ["A", "B"], "choice": "A"}, p(0.9, 0.1)]).counts
    assert (found["scored"], found["without_probabilities"], found["censored"]) == (2, 1, 0)
    assert found["allowed_token_mass"] == {"n": 0, "least": None, "mean": None}


def test_mass_is_summed_up_over_the_usable_decisions(make: Maker) -> None:
    records = [
        p(0.9, 0.1, allowed_token_mass=0.25),
        p(9, 1, allowed_token_mass=0.1),
        p(0.9, 0.1, allowed_token_mass=0.75),
    ]
    found = scored(make, records, labels=5).counts
    assert (found["missing"], found["invalid"]) == (2, 1)
    assert found["allowed_token_mass"] == {"n": 2, "least": 0.25, "mean": 0.5}


def test_reasons_are_counted_by_kind_without_their_values(make: Maker) -> None:
    records = [
        p(2, -1),
        p(3, -2),
        p(-1, -2),
        {"option_ids": ["A", "B"]},
        {"status": "missing_option"},
        {"status": "missing_option"},
    ]
    assert scored(make, records).counts["invalid_reasons"] == {
        "a probability is negative: they look like logits": 2,
        "neither probabilities nor a choice were recorded": 1,
        "probabilities are negative: they look like log-probabilities": 1,
        "recorded as missing_option": 2,
    }


def test_unusable_items_are_listed_with_line_and_reason(make: Maker) -> None:
    found = report(make)
    listed = unusable(found.decisions)
    assert listed == found.to_dict()["unusable"]
    assert listed == [
        {
            "id": "d",
            "status": "invalid",
            "line": 4,
            "reason": "probabilities add up to 100 (95, 5): they look like percent",
        },
        {"id": "e", "status": "error", "line": 5, "reason": "timeout"},
        {"id": "g", "status": "missing", "line": None, "reason": ""},
    ]
    assert unusable(found.decisions, 1) == listed[:1]
    assert counts(found.decisions) == found.counts


# figures and slices


def test_figures_of_all_items(make: Maker) -> None:
    overall = report(make).overall
    assert (overall["n"], overall["labelled"], overall["correct"]) == (7, 6, 3)
    assert overall["accuracy"]["value"] == 0.5
    assert overall["chance"] == 0.5
    assert overall["confusion"] == {"A": {"A": 2, "B": 1}, "B": {"B": 1, "(none)": 2}}
    assert overall["losses"] == {"n": 4, "lower_bounds": 1, "at_floor": 0, "ece_n": 3}
    assert overall["nll"] == pytest.approx(-np.log([0.5, 0.5 / 0.6, 0.05, 1.0]).mean())
    assert sum(row["n"] for row in overall["ece_bins"]) == 3
    assert overall["positions"]["A"]["n"] == 3
    assert len(overall["coverage"]) == 7


def test_slices_are_by_part_and_family_unless_told_otherwise(make: Maker) -> None:
    by = report(make).by
    assert {
        field: {value: figures["n"] for value, figures in parts.items()} for field, parts in by.items()
    } == {
        "part": {"p": 2, "q": 3},
        "family": {"f": 2, "g": 1},
    }
    assert by["part"]["q"]["labelled"] == 2
    assert "ece_bins" not in by["part"]["q"]
    assert "positions" not in by["part"]["q"]


def test_slices_may_be_by_any_field_or_none(make: Maker) -> None:
    assert list(report(make, Options(by=["topic"], resampling=FAST)).by) == ["topic"]
    assert report(make, Options(by=[], resampling=FAST)).by == {}


def test_slice_has_the_figures_of_its_items_alone(make: Maker) -> None:
    whole = report(make)
    for value in ("p", "q"):
        alone = report(make, Options(only={"part": value}, by=[], resampling=FAST))
        part = {key: figure for key, figure in alone.overall.items() if key in whole.by["part"][value]}
        assert {k: v for k, v in part.items() if k != "losses"} == {
            k: v for k, v in whole.by["part"][value].items() if k != "losses"
        }


def test_restriction_counts_and_measures_only_its_items(make: Maker) -> None:
    found = report(make, Options(only={"part": "q", "topic": "t"}, resampling=FAST))
    assert (found.counts["items"], found.overall["n"], found.overall["correct"]) == (1, 1, 0)
    assert found.labels.ids.to_pylist() == ["c"]
    assert found.signature["only"] == "part=q,topic=t"
    assert "|only:part=q,topic=t|" in found.signature["text"]


def test_restriction_to_a_field_that_no_item_has_is_a_usage_error(make: Maker) -> None:
    for options in (Options(only={"nope": "x"}), Options(only={"part": "x"}), Options(by=["nope"])):
        with pytest.raises(UsageError, match=r"no item of labels.jsonl has"):
            report(make, options)


# policy and items


def test_without_a_policy_there_are_no_actions(make: Maker) -> None:
    found = report(make)
    assert (found.policy, found.actions) == (None, None)
    assert found.to_dict()["policy"] is None
    assert "action" not in found.to_dict()["items"][0]
    assert found.signature["policy"] is None


def test_policy_of_the_options_is_applied(make: Maker) -> None:
    found = report(make, Options(policy=DROP, resampling=FAST))
    assert found.policy is not None
    assert found.policy["actions"] == {"drop": 1, "keep": 6, "undetermined": 0}
    assert found.policy["wrong_actions"] == 1
    assert found.to_dict()["policy"]["items"][2] == {
        "id": "c",
        "choice": "B",
        "probability": 0.95,
        "action": "drop",
        "why": "p(B) 0.9500 >= 0.85",
        "label": "A",
    }
    assert found.signature["policy"] == {"rules": ["B@0.85=drop"], "default": "keep"}
    assert found.signature["text"].endswith("|policy:B@0.85=drop,keep")


def test_policy_of_the_options_replaces_that_of_the_card(make: Maker) -> None:
    root = make.folder()
    extra = "  policy:\n    default: keep\n    rules:\n      - {option: A, at_least: 0.5, action: pass}\n"
    make.label_set(root, "demo", {"v1": items(make)}, extra=extra)
    from evalkit.catalog import Catalog

    labels, run = Catalog((root,)).labels("demo"), make.run(rows(make))
    own = score(labels, run, Options(resampling=FAST))
    assert own.policy is not None
    assert own.policy["actions"] == {"pass": 2, "keep": 5, "undetermined": 0}
    other = score(labels, run, Options(policy=DROP, resampling=FAST))
    assert other.policy is not None
    assert "drop" in other.policy["actions"]
    assert own.signature["labels"].startswith("demo@v1:")


def test_items_are_listed_with_all_that_is_known_of_them(make: Maker) -> None:
    found = report(make, Options(policy=DROP, resampling=FAST)).to_dict()["items"]
    assert found[0] == {
        "id": "a",
        "label": "A",
        "choice": "A",
        "correct": True,
        "probability": 0.5,
        "status": "ok",
        "tie": True,
        "line": 1,
        "action": "keep",
        "why": "no rule for A",
        "wrong_action": False,
    }
    assert [entry["status"] for entry in found] == ["ok", "ok", "ok", "invalid", "error", "ok", "missing"]
    assert [entry["correct"] for entry in found] == [True, True, False, False, None, True, False]
    assert [entry["probability"] for entry in found] == [0.5, 0.5 / 0.6, 0.95, None, None, None, None]


def test_items_as_a_frame(make: Maker) -> None:
    frame = report(make).to_pandas()
    assert list(frame["id"]) == list("abcdefg")
    assert frame["correct"].sum() == 3


def test_report_is_strict_json_and_describes_its_inputs(make: Maker) -> None:
    found = report(make, meta={"model": {"name": "m"}, "note": "by hand"})
    document = json.loads(dumps(found.to_dict()))
    assert document["schema"] == "evalkit.score/1"
    assert document["label_set"] == {
        "name": "labels",
        "version": None,
        "sha256": found.labels.sha256,
        "items": 7,
        "headline": "balanced_accuracy",
    }
    assert document["run"]["model"] == {"name": "m"}
    assert document["notices"] == list(found.notices)


# strict


def test_strict_refuses_invalid_decisions_each_with_its_line(make: Maker) -> None:
    with pytest.raises(InputError) as caught:
        report(make, Options(strict=True))
    assert str(caught.value) == (
        "run.jsonl:4: d: probabilities add up to 100 (95, 5): they look like percent"
    )


def test_strict_lets_errors_and_missing_items_be(make: Maker) -> None:
    found = score(
        make.labels(items(make)),
        make.run([make.row("a", {"A": 1, "B": 0}), make.row("b", status="error")]),
        Options(strict=True, resampling=FAST),
    )
    assert found.counts["scored"] == 1


def test_strict_looks_only_at_the_items_asked_for(make: Maker) -> None:
    assert report(make, Options(strict=True, only={"part": "p"}, resampling=FAST)).counts["invalid"] == 0


# notices


def test_few_items_and_groups_are_noticed(make: Maker) -> None:
    assert scored(make, [p(0.9, 0.1)] * 3).notices == (
        "the calibration error rests on 3 items: mostly noise",
        "only 3 items to resample: 95 % bootstrap intervals are too narrow",
    )


def test_many_items_and_groups_are_not_noticed(make: Maker) -> None:
    assert scored(make, [p(0.9, 0.1)] * 100).notices == ()


def test_items_without_a_group_count_as_groups_of_their_own(make: Maker) -> None:
    labels = make.labels([make.item(str(n), "AB", "A", group="g" if n < 2 else None) for n in range(100)])
    run = make.run([make.row(str(n), {"A": 0.9, "B": 0.1}) for n in range(100)])
    assert score(labels, run, Options(resampling=FAST)).notices == ()


def test_ranges_and_floors_are_noticed(make: Maker) -> None:
    ranged = {"option_ids": ["A", "B"], "probability_range": {"A": [0.9, 1]}}
    found = scored(make, [p(0, 1), ranged, ranged, *[p(0.9, 0.1)] * 99]).notices
    assert found == (
        "1 item at the floor 1e-12 of the log loss",
        "2 decisions are censored (a probability known only as a range): "
        "log loss and Brier score are lower bounds",
    )
    assert "2 items at the floor" in " ".join(scored(make, [p(0, 1)] * 2).notices)


def test_little_mass_on_the_options_is_noticed(make: Maker) -> None:
    found = scored(make, [p(0.2, 0.1), p(0.3, 0.1), p(0.4, 0.3), *[p(0.9, 0.1)] * 97]).notices
    assert len(found) == 1
    assert found[0].startswith("run: in 2 decisions the options hold less than 0.5 of the mass (least 0.3): ")


def test_more_than_one_model_is_noticed(make: Maker) -> None:
    first, second = (
        p(0.9, 0.1, model="m1", system_fingerprint="f1"),
        p(0.9, 0.1, model="m2", system_fingerprint="f2"),
    )
    found = scored(make, [first, second] * 50)
    assert found.notices == (
        "run: more than one model answered: m1, m2",
        "run: more than one system fingerprint: f1, f2",
    )
    assert scored(make, [first] * 100).notices == ()


def test_cached_prompts_and_notes_of_the_sidecar_are_noticed(make: Maker) -> None:
    meta = {"note": "by hand", "notices": ["slow disk", "hot day"]}
    found = scored(make, [p(0.9, 0.1, cached_tokens=5)] * 2 + [p(0.9, 0.1, cached_tokens=0)] * 98, meta=meta)
    assert found.notices == (
        "run: 2 prompts were partly cached: timings are not comparable",
        "run: by hand",
        "run: slow disk",
        "run: hot day",
    )


def test_run_without_a_usable_decision_is_noticed(make: Maker) -> None:
    found = scored(make, [p(95, 5), {"status": "error"}])
    assert "run: no item was scored: not one usable decision" in found.notices
    assert found.overall["accuracy"]["value"] == 0
    assert (found.overall["nll"], found.overall["brier"], found.overall["ece"]) == (None, None, None)
    json.loads(dumps(found.to_dict()))


def test_run_recorded_on_another_version_is_noticed(make: Maker) -> None:
    for version, shown in (("v1", " (demo@v1)"), (None, "")):
        meta = {"label_set": {"name": "demo", "version": version, "sha256": "0" * 64}}
        found = scored(make, [p(0.9, 0.1)] * 100, meta=meta)
        assert found.labels.sha256 is not None
        assert found.notices == (
            f"run: recorded on another version of the label set{shown}, sha256 000000000000..., "
            f"than the one it is scored against, {found.labels.sha256[:12]}...",
        )
    same = {"label_set": {"name": "demo", "sha256": found.labels.sha256}}
    assert scored(make, [p(0.9, 0.1)] * 100, meta=same).notices == ()


def test_rules_for_options_that_no_item_has_are_noticed(make: Maker) -> None:
    policy = Policy((Rule("C", 0.5, "x"), Rule("B", 0.5, "x"), Rule("D", 0.5, "y")), "keep")
    found = report(make, Options(policy=policy, resampling=FAST))
    assert "the policy has rules for options that no item has: C, D" in found.notices


def test_notices_of_run_and_label_file_are_passed_on_once(make: Maker) -> None:
    labels_path = make.file(make.text([make.item("a", "AB", "A")]), "labels.jsonl.gz")
    from evalkit.labels import load_label_file

    labels = load_label_file(labels_path, file="labels.jsonl.gz")
    run = make.run([make.row("a", {"A": 0.9, "B": 0.1})] * 2)
    found = score(labels, run, Options(resampling=FAST)).notices
    assert "run.jsonl: a is recorded 2 times; one of the equal decisions of line 1 is used" in found
    assert found.count("labels.jsonl.gz: named .gz, but it is not gzip; read as plain text") == 1


# signature


def test_signature_holds_what_gives_the_same_digits(make: Maker) -> None:
    found = report(make, Options(resampling=Resampling(resamples=123, seed=7, level=0.9)))
    signature = found.signature
    assert signature["evalkit"] == __version__
    assert found.labels.sha256 is not None
    assert signature["labels"] == f"labels:{found.labels.sha256[:12]}"
    assert signature["runs"] == [f"run:{found.run.sha256[:12]}"]
    assert signature["only"] == "all items"
    intervals = signature["intervals"]
    assert (intervals["resamples"], intervals["seed"], intervals["level"]) == (123, 7, 0.9)
    assert intervals["generator"] == f"numpy {np.__version__} PCG64"
    assert signature["text"] == (
        f"evalkit:{__version__}|labels:{signature['labels']}|runs:{signature['runs'][0]}"
        "|ci:90%,wilson,bootstrap(group/family,n=123,seed=7)|ece:10|nll-floor:1e-12|kl-floor:1e-12"
    )


def test_options_of_the_intervals_are_used(make: Maker) -> None:
    wide = report(make, Options(resampling=Resampling(resamples=100, level=0.99))).overall["accuracy"]
    narrow = report(make, Options(resampling=Resampling(resamples=100, level=0.5))).overall["accuracy"]
    assert wide["low"] < narrow["low"] < narrow["high"] < wide["high"]
    assert (
        score(
            make.labels([make.item("a", "AB", "A")]), make.run([make.row("a", {"A": 1, "B": 0})])
        ).signature["intervals"]["resamples"]
        == 10_000
    )
