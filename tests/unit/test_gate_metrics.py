"""From a metric's name to its number, in a small world where every number is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from evalkit.cards import Policy, Rule
from evalkit.errors import InputError, UsageError
from evalkit.gate.metrics import Measure, measure
from evalkit.gate.reports import Reports
from evalkit.gate.rules import GateRule
from evalkit.scoring import Options, score

if TYPE_CHECKING:
    from tests.conftest import Maker

POLICY = Policy((Rule("B", 0.85, "drop"),), "keep")
KEPT, DROPPED, UNSURE = {"A": 0.9, "B": 0.1}, {"A": 0.1, "B": 0.9}, {"A": 0.4, "B": 0.6}


@pytest.fixture(scope="module")
def small(make: Maker) -> dict[str, Any]:
    """Six items in two parts: the candidate breaks q2, fixes q3, and has an error on q6."""
    labels = make.labels(
        [
            make.item("q1", label="A", part="one", tags=["x"]),
            make.item("q2", label="A", part="one", tags=["x", "y"]),
            make.item("q3", label="B", part="one"),
            make.item("q4", label="B", part="v1.5"),
            make.item("q5", label="A", part="v1.5"),
            make.item("q6", label="A", part="v1.5"),
        ]
    )
    before = [KEPT, KEPT, KEPT, DROPPED, KEPT, KEPT]
    after = [KEPT, DROPPED, UNSURE, DROPPED, KEPT]
    return {
        "labels": labels,
        "reference": make.run([make.row(f"q{n}", p) for n, p in enumerate(before, 1)], "reference"),
        "candidate": make.run(
            [
                *(make.row(f"q{n}", p) for n, p in enumerate(after, 1)),
                make.row("q6", status="error", error="timeout"),
            ],
            "candidate",
        ),
    }


def reports(small: dict[str, Any], *, noise: tuple[Any, ...] = (), **changes: Any) -> Reports:
    options = changes.pop("options", Options(policy=POLICY))
    parts = {**small, **changes}
    return Reports(parts["labels"], parts["candidate"], parts["reference"], noise, options)


def found(small: dict[str, Any], metric: str, **rule: Any) -> Measure:
    return measure(GateRule(metric, "<=", 0, **rule), reports(small), "gate.toml")


@pytest.mark.parametrize(
    ("metric", "path", "value"),
    [
        ("accuracy", "score.overall.accuracy", 4 / 6),
        ("score.accuracy", "score.overall.accuracy", 4 / 6),
        ("score.overall.accuracy.value", "score.overall.accuracy.value", 4 / 6),
        ("headline", "score.overall.headline", (2 / 4 + 2 / 2) / 2),
        ("recall.A", "score.overall.recall.A", 2 / 4),
        ("confusion.A.B", "score.overall.confusion.A.B", 1),
        ("confusion.B.A", "score.overall.confusion.B.A", 0),
        ("error", "score.counts.error", 1),
        ("counts.missing", "score.counts.missing", 0),
        ("unusable", "score.counts.unusable", 1),
        ("policy.actions.drop", "score.policy.actions.drop", 2),
        ("policy.wrong_actions", "score.policy.wrong_actions", 1),
        ("changed_choices", "diff.overall.changed_choices", 2),
        ("broken", "diff.overall.broken", 1),
        ("flips", "diff.overall.flips", 2),
        ("lost", "diff.overall.lost", 1),
        ("accuracy_delta", "diff.overall.accuracy_delta", -1 / 6),
        ("headline_delta", "diff.overall.headline_delta", 0.75 - (1 + 0.5) / 2),
        ("max_probability_shift", "diff.overall.max_probability_shift", 0.8),
        ("only_reference", "diff.counts.only_reference", 1),
        ("diff.accuracy", "diff.overall.accuracy", 4 / 6),
        ("diff.counts.reference.error", "diff.counts.reference.error", 0),
        ("policy.transitions.keep->drop", "diff.policy.transitions.keep->drop", 1),
        ("policy.treated_differently", "diff.policy.treated_differently", 1),
        ("quantiles.shift.99.9", "diff.overall.quantiles.shift.99.9", None),
        ("mcnemar.p", "diff.overall.mcnemar.p", 1.0),
    ],
)
def test_metric_is_found_where_it_belongs(
    small: dict[str, Any], metric: str, path: str, value: float | None
) -> None:
    one = found(small, metric)
    assert one.path == path
    if value is not None:
        assert one.value == pytest.approx(value)
    assert one.value is not None


@pytest.mark.parametrize(
    ("metric", "value"),
    [("accuracy", 5 / 6), ("error", 0), ("diff.accuracy", 5 / 6), ("policy.actions.drop", 1)],
)
def test_metric_of_the_reference(small: dict[str, Any], metric: str, value: float) -> None:
    assert found(small, metric, run="reference").value == pytest.approx(value)


def test_metric_that_compares_is_none_of_the_reference(small: dict[str, Any]) -> None:
    with pytest.raises(
        InputError, match="'broken' compares two runs: it is not a figure of the reference alone"
    ):
        found(small, "broken", run="reference")


@pytest.mark.parametrize(
    ("metric", "part", "value"),
    [
        ("accuracy", ("part", "one"), 2 / 3),
        ("error", ("part", "v1.5"), 1),
        ("changed_choices", ("part", "v1.5"), 0),
        ("policy.actions.drop", ("part", "one"), 1),
        ("accuracy", ("tags", "y"), 0),
    ],
)
def test_metric_of_a_slice(small: dict[str, Any], metric: str, part: tuple[str, str], value: float) -> None:
    assert found(small, metric, slice=part).value == pytest.approx(value)


@pytest.mark.parametrize(
    ("metric", "value"),
    [("by.part.one.accuracy", 2 / 3), ("score.by.part.v1.5.accuracy", 2 / 3), ("diff.by.tags.y.broken", 1)],
)
def test_metric_by_the_path_of_a_slice(small: dict[str, Any], metric: str, value: float) -> None:
    assert found(small, metric).value == pytest.approx(value)


def test_metric_of_a_slice_is_that_of_the_report(small: dict[str, Any]) -> None:
    overall = score(small["labels"], small["candidate"], Options(by=["part"])).by["part"]["one"]
    one = found(small, "accuracy", slice=("part", "one"))
    assert (one.value, one.low, one.high) == tuple(
        overall["accuracy"][key] for key in ("value", "low", "high")
    )


def test_metric_that_only_the_whole_set_has_is_null_in_a_slice(small: dict[str, Any]) -> None:
    one = found(small, "recall.B", slice=("tags", "x"))
    assert (one.value, one.why_not) == (None, "no item has what it takes")


def test_metric_of_other_items_than_the_gate_is_null(small: dict[str, Any]) -> None:
    restricted = reports(small, options=Options(only={"part": "one"}))
    one = measure(GateRule("accuracy", ">=", 0, slice=("part", "v1.5")), restricted, "gate.toml")
    assert (one.value, one.why_not) == (None, "the gate is restricted to other items")
    same = measure(GateRule("accuracy", ">=", 0, slice=("part", "one")), restricted, "gate.toml")
    assert same.value == pytest.approx(2 / 3)


def test_metric_knows_the_items_it_rests_on(small: dict[str, Any]) -> None:
    assert found(small, "accuracy").n == 6
    assert found(small, "changed_share").n == 5
    one = found(small, "accuracy_delta")
    assert (one.n, one.flips, one.is_delta) == (6, 3, True)
    assert found(small, "max_probability_shift").place == "q2, option A"
    assert found(small, "error").count
    assert not found(small, "accuracy").count


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("acuracy", "gate.toml:7: there is no metric 'acuracy'; did you mean "),
        ("chnaged_choices", "did you mean changed_choices"),
        ("policy.actions.dropp", "did you mean policy.actions.drop"),
        ("policy.transitions.keep->keep", "there is no metric"),
        ("diff.ece", "there is no metric 'diff.ece'"),
        ("by.part.three.accuracy", "there is no metric"),
        ("accuracy.value.x", "there is no metric"),
        ("recall", "the metric 'recall' is a group of figures (A, B): name one figure in it"),
        ("accuracy.method", "the metric 'accuracy.method' is no number"),
        ("max_probability_shift.id", "is no number"),
    ],
)
def test_metric_that_is_none_is_refused(small: dict[str, Any], metric: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        found(small, metric, line=7)
    assert message in str(caught.value)


@pytest.mark.parametrize("metric", ["changed_choices", "ece", "policy.actions.drop"])
def test_metric_without_an_interval_has_no_end(small: dict[str, Any], metric: str) -> None:
    with pytest.raises(InputError, match="has no interval, so it has no low end: leave `use` out"):
        found(small, metric, use="low")


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (("prat", "one"), "no item has a field 'prat' to slice by; did you mean part?"),
        (("part", "onne"), "no item has part=onne; did you mean one?"),
        (("tags", "zzz"), "no item has tags=zzz; there are x, y"),
    ],
)
def test_slice_that_no_item_is_in_is_refused(
    small: dict[str, Any], part: tuple[str, str], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        found(small, "accuracy", slice=part, line=3)
    assert f"gate.toml:3: {message}" in str(caught.value)


@pytest.mark.parametrize(
    ("metric", "run", "needs"),
    [
        ("changed_choices", "candidate", "a reference; name one with --reference"),
        ("diff.mean_kl", "candidate", "a reference"),
        ("headline_delta", "candidate", "a reference"),
        ("only_reference", "candidate", "a reference"),
        ("policy.transitions.keep->drop", "candidate", "a reference"),
        ("changed_choices_beyond_noise", "candidate", "a reference"),
        ("accuracy", "reference", "a reference"),
    ],
)
def test_metric_that_needs_a_reference_says_so(
    small: dict[str, Any], metric: str, run: str, needs: str
) -> None:
    alone = reports(small, reference=None)
    with pytest.raises(UsageError, match=f"needs {needs}"):
        measure(GateRule(metric, "<=", 0, run=run), alone, "gate.toml")


@pytest.mark.parametrize("metric", ["changed_choices_beyond_noise", "noise.near_ties"])
def test_metric_of_noise_needs_noise_runs(small: dict[str, Any], metric: str) -> None:
    with pytest.raises(UsageError, match="needs noise runs; name further runs of the reference with --noise"):
        found(small, metric)


def test_metric_of_noise_is_found(small: dict[str, Any]) -> None:
    with_noise = reports(small, noise=(small["reference"],))
    one = measure(GateRule("changed_choices_beyond_noise", "<=", 0), with_noise, "gate.toml")
    assert (one.path, one.value) == ("noise.changed_choices_beyond_noise", 2)


def test_metric_of_noise_without_probabilities_is_null(make: Maker) -> None:
    labels = make.labels([make.item("q1", label="A")])
    reference, candidate, again = (
        make.run([make.row("q1", option_ids=["A", "B"], choice=choice, model=model)])
        for choice, model in (("A", "x"), ("B", "x"), ("A", "y"))
    )
    one = Reports(labels, candidate, reference, (again,), Options())
    found = measure(GateRule("max_probability_shift_beyond_noise", "<=", 1), one, "gate.toml")
    assert (found.value, found.why_not) == (None, "no noise run has probabilities to compare with")


def test_metric_over_no_items_is_null(make: Maker, small: dict[str, Any]) -> None:
    failed = make.run([make.row(f"q{n}", status="error", error="timeout") for n in range(1, 7)])
    nothing = reports(small, candidate=failed)
    for metric, why_not in (
        ("accuracy", "no item was scored"),
        ("ece", "no item was scored"),
        ("policy.wrong_actions", "no item was scored"),
        ("changed_choices", "no item has a decision on both sides"),
        ("accuracy_delta", "no item has a decision on both sides"),
        ("policy.transitions.keep->drop", "no item has a decision on both sides"),
    ):
        one = measure(GateRule(metric, "<=", 1), nothing, "gate.toml")
        assert (one.value, one.why_not) == (None, why_not)
    assert measure(GateRule("error", "<=", 0), nothing, "gate.toml").value == 6
    assert measure(GateRule("compared", ">=", 1), nothing, "gate.toml").value == 0


def test_metric_without_a_policy_is_null(small: dict[str, Any]) -> None:
    plain = reports(small, options=Options())
    for metric in ("policy.wrong_actions", "policy.transitions.keep->drop"):
        one = measure(GateRule(metric, "<=", 0), plain, "gate.toml")
        assert (one.value, one.why_not) == (None, "there is no policy, or no rule of it acted")


def test_metric_without_labels_is_null(small: dict[str, Any]) -> None:
    drift = reports(small, labels=None)
    for metric in ("accuracy", "accuracy_delta"):
        one = measure(GateRule(metric, "<=", 1), drift, "gate.toml")
        assert (one.value, one.why_not) == (None, "no item has a label")
    assert measure(GateRule("changed_choices", "<=", 0), drift, "gate.toml").value == 2


def test_confusion_of_a_label_that_no_item_has_is_null(make: Maker) -> None:
    labels = make.labels([make.item("q1", "ABC", "A")])
    run = make.run([make.row("q1", {"A": 0.5, "B": 0.3, "C": 0.2})])
    one = Reports(labels, run, None, (), Options())
    assert measure(GateRule("confusion.C.A", "<=", 0), one, "x").value is None
    assert measure(GateRule("confusion.A.C", "<=", 0), one, "x").value == 0


def test_reports_are_made_once(small: dict[str, Any]) -> None:
    one = reports(small)
    assert one.score() is one.score()
    assert one.diff() is one.diff()
    assert one.score() is not one.score("reference")


def test_reports_without_a_reference_refuse_to_compare(small: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="no reference to compare with"):
        reports(small, reference=None).diff()
