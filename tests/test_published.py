"""The shipped runs give the figures that were published for them, to 1e-9.

``data/published.json`` was computed from the same rows by an independent plain-Python program and agrees
with the figures that the SemIf project published in September 2026 (balanced accuracies, changed choices,
largest shifts, log loss and Brier score). ``data/published_graduate.json`` holds the published outcomes of
the 18 graduate-and-university cases.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalkit.accuracy import Resampling
from evalkit.api import diff, load_run, score
from evalkit.cards import Policy, Rule
from evalkit.catalog import shipped_root
from evalkit.comparing import DiffReport
from evalkit.scoring import Options, ScoreReport

DATA = Path(__file__).parent / "data"
PUBLISHED = json.loads((DATA / "published.json").read_text("utf-8"))
GRADUATE = json.loads((DATA / "published_graduate.json").read_text("utf-8"))
FAST = Resampling(resamples=100)


def near(value: float) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-9)


@cache
def scored(run: str, part: str) -> ScoreReport:
    return score(
        f"semif-252/{run}",
        options=Options(only={"part": part}, by=["family"], resampling=FAST),
        root=shipped_root(),
    )


@cache
def compared(reference: str, candidate: str, part: str | None) -> DiffReport:
    only = {"part": part} if part else {}
    return diff(
        f"semif-252/{reference}",
        f"semif-252/{candidate}",
        options=Options(only=only, by=[], resampling=FAST),
        root=shipped_root(),
    )


@cache
def graduate(run: str) -> dict[str, Any]:
    return score(f"graduate-18/{run}", options=Options(resampling=FAST), root=shipped_root()).to_dict()


SCORES = [
    (run, part, figure)
    for run, parts in PUBLISHED["score"].items()
    for part, figures in parts.items()
    for figure in figures
]
DIFFS = [
    (pair, part, figure)
    for pair, parts in PUBLISHED["diff"].items()
    for part, figures in parts.items()
    for figure in figures
]


def measured_score(report: ScoreReport, figure: str) -> Any:
    overall = report.overall
    if figure == "balanced_accuracy_by_family":
        return {
            family: figures["balanced_accuracy"]["value"] for family, figures in report.by["family"].items()
        }
    named = {
        "n": overall["n"],
        "accuracy": overall["accuracy"]["value"],
        "mean_family_balanced_accuracy": overall["mean_family_balanced_accuracy"]["value"],
        "pooled_balanced_accuracy": overall["balanced_accuracy"]["value"],
        "nll": overall["nll"],
        "brier": overall["brier"],
        "ece_10": overall["ece"],
        "top_ties": report.counts["ties"],
    }
    return named[figure]


def measured_diff(report: DiffReport, figure: str) -> Any:
    overall = report.overall
    p, q = report.reference.p, report.candidate.p
    named = {
        "n": overall["compared"],
        "changed_choices": overall["changed_choices"],
        "changed_ids": [entry["id"] for entry in report.changed()],
        "changed_with_a_tie": overall["changed_with_tie"],
        "max_probability_shift": overall["max_probability_shift"]["value"],
        "max_shift_id": overall["max_probability_shift"]["id"],
        "max_shift_option": overall["max_probability_shift"]["option"],
        "mean_row_max_shift": overall["mean_max_shift"],
        "broken": overall["broken"],
        "fixed": overall["fixed"],
        "wrong_to_wrong": overall["wrong_to_wrong"],
        "mcnemar_exact_p": overall["mcnemar"]["p"],
        "mean_kl_nats": overall["mean_kl"],
        "mean_js_nats": overall["mean_js"],
        "mean_tv": float((np.nansum(np.abs(q - p), axis=1) / 2).mean()),
    }
    return named[figure]


@pytest.mark.parametrize(("run", "part", "figure"), SCORES)
def test_score_gives_the_published_figure(run: str, part: str, figure: str) -> None:
    expected = PUBLISHED["score"][run][part][figure]
    assert measured_score(scored(run, part), figure) == near(expected)


@pytest.mark.parametrize(("pair", "part", "figure"), DIFFS)
def test_diff_gives_the_published_figure(pair: str, part: str, figure: str) -> None:
    expected = PUBLISHED["diff"][pair][part][figure]
    reference, candidate = pair.split(" -> ")
    measured = measured_diff(compared(reference, candidate, part), figure)
    if isinstance(expected, list):
        assert sorted(measured) == sorted(expected)
    elif isinstance(expected, float):
        assert measured == near(expected)
    else:
        assert measured == expected


@pytest.mark.parametrize("run", sorted(PUBLISHED["policy"]))
def test_policy_on_every_option_acts_as_often_as_published(run: str) -> None:
    expected = PUBLISHED["policy"][run]
    labels = scored(run, "authored").labels
    options = sorted({option for layout in labels.layouts for option in layout})
    rules = tuple(Rule(option, expected["threshold"], "act") for option in options)
    report = score(
        f"semif-252/{run}",
        options=Options(by=[], policy=Policy(rules, "leave"), resampling=FAST),
        root=shipped_root(),
    )
    assert report.policy is not None
    assert report.policy["acted"] == report.policy["actions"]["act"] == expected["at_or_above"]
    assert report.policy["wrong_actions"] == expected["of_which_wrong"]


@pytest.mark.parametrize(
    ("run", "part", "percent"),
    [
        ("bf16", "authored", "81.32"),
        ("bf16", "perturbations", "77.99"),
        ("q8", "authored", "81.85"),
        ("q8", "perturbations", "76.58"),
        ("q4", "authored", "78.92"),
        ("q4", "perturbations", "79.89"),
        ("llamacpp-q4_k_m", "authored", "79.65"),
    ],
)
def test_headline_figure_is_the_published_percentage(run: str, part: str, percent: str) -> None:
    report = scored(run, part)
    assert report.labels.headline == "mean_family_balanced_accuracy"
    assert f"{report.overall[report.labels.headline]['value']:.2%}" == f"{percent}%"


@pytest.mark.parametrize(
    ("candidate", "changed", "largest"), [("q8", (2, 4), "0.1761"), ("q4", (14, 6), "0.6776")]
)
def test_diff_headlines_are_the_published_ones(
    candidate: str, changed: tuple[int, int], largest: str
) -> None:
    parts = [compared("bf16", candidate, part) for part in ("authored", "perturbations")]
    assert tuple(part.overall["changed_choices"] for part in parts) == changed
    overall = compared("bf16", candidate, None).overall
    assert overall["changed_choices"] == sum(changed)
    assert f"{overall['max_probability_shift']['value']:.4f}" == largest


def test_four_of_the_six_choices_that_q8_changed_rest_on_a_tie() -> None:
    report = compared("bf16", "q8", None)
    assert (report.overall["changed_choices"], report.overall["changed_with_tie"]) == (6, 4)
    assert sum(entry["tie"] is not None for entry in report.changed()) == 4


@pytest.mark.parametrize(("run", "ties"), [("bf16", 2), ("q8", 5), ("q4", 1)])
def test_ties_of_the_shipped_runs_are_the_published_ones(run: str, ties: int) -> None:
    assert sum(scored(run, part).counts["ties"] for part in ("authored", "perturbations")) == ties


def test_paired_interval_agrees_with_the_published_one() -> None:
    # Published with 1,000 resamples: -0.0640 to +0.0219 around -0.0240.
    report = diff(
        "semif-252/bf16",
        "semif-252/q4",
        options=Options(only={"part": "authored"}, by=[], resampling=Resampling(resamples=10_000)),
        root=shipped_root(),
    )
    delta = report.overall["mean_family_balanced_accuracy_delta"]
    assert delta["value"] == pytest.approx(-0.0240, abs=5e-5)
    assert delta["low"] == pytest.approx(-0.0640, abs=0.01)
    assert delta["high"] == pytest.approx(0.0219, abs=0.01)
    assert delta["method"] == "paired bootstrap"


@pytest.mark.parametrize("run", ["llamacpp-q4_k_m", "vllm-awq"])
def test_graduate_outcomes_are_the_published_ones(run: str) -> None:
    expected, report = GRADUATE[run], graduate(run)
    assert report["counts"]["scored"] == report["counts"]["items"] == 18
    assert report["overall"]["correct"] == expected["correct"]
    assert report["overall"]["accuracy"]["value"] == near(expected["accuracy"])
    assert report["overall"]["balanced_accuracy"]["value"] == near(expected["balanced_accuracy"])
    assert report["policy"]["actions"] == {**expected["policy"], "undetermined": 0}
    dropped = [entry for entry in report["policy"]["items"] if entry["action"] == "drop"]
    kept = [entry for entry in report["policy"]["items"] if entry["action"] == "keep"]
    assert sum(entry["label"] != "B" for entry in dropped) == expected["wrongly_dropped"]
    assert report["policy"]["wrong_actions"] == expected["wrongly_dropped"]
    assert sum(entry["label"] == "B" for entry in kept) == expected["label_B_kept"]


def test_graduate_vllm_has_the_published_balanced_accuracy() -> None:
    report = graduate("vllm-awq")
    assert (report["overall"]["correct"], report["overall"]["n"]) == (16, 18)
    assert f"{report['overall']['balanced_accuracy']['value']:.4f}" == "0.9231"
    assert (report["policy"]["actions"]["drop"], report["policy"]["actions"]["keep"]) == (10, 8)


def test_graduate_diff_is_the_published_one() -> None:
    expected = GRADUATE["diff llamacpp-q4_k_m -> vllm-awq"]
    report = diff(
        "graduate-18/llamacpp-q4_k_m",
        "graduate-18/vllm-awq",
        options=Options(resampling=FAST),
        root=shipped_root(),
    ).to_dict()
    ids = [f"grad-{number:02}" for number in expected["changed_choices"]]
    assert sorted(entry["id"] for entry in report["changed"]) == ids == ["grad-16", "grad-17"]
    assert (report["overall"]["broken"], report["overall"]["fixed"]) == (
        expected["broken"],
        expected["fixed"],
    )
    assert report["overall"]["mcnemar"] == {"reference_only": 2, "candidate_only": 0, "p": 0.5}
    moved = {pair: count for pair, count in report["policy"]["transitions"].items() if count}
    assert moved == {pair: len(items) for pair, items in expected["policy_transitions"].items()}
    assert moved == {"drop->keep": 2}
    assert sorted(entry["id"] for entry in report["policy"]["items"]) == ids


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("semif-252/bf16", 252),
        ("semif-252/q8", 252),
        ("semif-252/q4", 252),
        ("semif-252/torch-bf16", 144),
        ("semif-252/llamacpp-q4_k_m", 144),
        ("graduate-18/llamacpp-q4_k_m", 18),
        ("graduate-18/vllm-awq", 18),
    ],
)
def test_shipped_run_is_the_file_its_sidecar_describes(name: str, rows: int) -> None:
    run = load_run(name, root=shipped_root())
    assert len(run) == rows
    assert run.meta["sha256"] == run.sha256  # a wrong one would not have loaded
    assert run.meta["label_set"]["name"] == name.split("/", maxsplit=1)[0]
    assert run.notices == ()
