"""Verdicts: ends of intervals, p-values with Holm's correction, the items that would settle a rule."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import NormalIndPower

from evalkit.gate.evidence import items_needed, one_item, p_value
from evalkit.gate.metrics import Measure
from evalkit.gate.rules import GateRule
from evalkit.gate.verdict import RuleResult, apart, judge_rules
from evalkit.statistics import paired_sample_size

LEVEL = 0.95


def figure(
    value: float | None,
    low: float | None = None,
    high: float | None = None,
    path: str = "score.overall.accuracy",
    **more: int,
) -> Measure:
    return Measure(
        path, value, low, high, has_interval=True, n=more.get("n", 100), flips=more.get("flips", 10)
    )


def delta(value: float, low: float, high: float, **more: int) -> Measure:
    return figure(value, low, high, "diff.overall.accuracy_delta", **more)


def judged(rule: GateRule, found: Measure) -> RuleResult:
    return judge_rules([(rule, found)], LEVEL)[0]


@pytest.mark.parametrize(
    ("op", "value", "verdict"),
    [
        ("<=", 5, "pass"), ("<=", 4.9, "fail"), (">=", 5, "pass"), (">=", 5.1, "fail"), ("<", 5, "fail"),
        ("<", 5.1, "pass"), (">", 5, "fail"), (">", 4.9, "pass"), ("==", 5, "pass"), ("==", 4, "fail"),
    ],
)  # fmt: skip
def test_verdict_compares_the_estimate_as_it_is(op: str, value: float, verdict: str) -> None:
    found = Measure("score.counts.ties", 5.0, count=True)
    assert judged(GateRule("ties", op, value), found).verdict == verdict


@pytest.mark.parametrize(
    ("value", "wanted", "reason"),
    [
        (2 / 3, 0.667, "0.66667 < 0.667"),
        (0.5418, 0.54184, "0.54180 < 0.54184"),
        (0.66696, 0.66699, "0.66696 < 0.66699"),
        (0.666996, 0.66699999, "0.666996 < 0.66699999"),
        (0.3, 0.30000000000000004, "0.30000 < 0.30000000000000004"),
    ],
)
def test_verdict_reason_has_enough_digits(value: float, wanted: float, reason: str) -> None:
    assert judged(GateRule("accuracy", ">=", wanted), figure(value)).reason == reason


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_apart_shows_the_side_a_number_is_on(value: float, limit: float) -> None:
    shown = float(apart(value, limit))
    assert (shown < limit, shown > limit) == (value < limit, value > limit)


def test_apart_takes_as_many_digits_as_there_are() -> None:
    assert apart(1 / 3, 1 / 3) == "0.3333333333333333"
    assert apart(2e-20, 1e-20) == "2e-20"


def test_verdict_without_a_figure_is_a_fail() -> None:
    for op in ("<=", ">="):
        result = judged(
            GateRule("ece", op, 0.1), Measure("score.overall.ece", None, why_not="no item was scored")
        )
        assert (result.verdict, result.reason) == ("fail", "nothing to measure: no item was scored")
        assert result.fails_gate


def test_verdict_without_an_interval_is_a_fail() -> None:
    result = judged(GateRule("macro_f1", ">=", 0.5, use="low"), figure(1.0))
    assert (result.verdict, result.reason) == ("fail", "nothing to measure: the figure has no interval here")


@pytest.mark.parametrize(
    ("op", "use", "value", "verdict"),
    [
        # The interval is [0.72, 0.88] around 0.80. Rules that want proof:
        (">=", "low", 0.71, "pass"), (">=", "low", 0.75, "inconclusive"), (">=", "low", 0.85, "fail"),
        ("<=", "high", 0.89, "pass"), ("<=", "high", 0.85, "inconclusive"), ("<=", "high", 0.75, "fail"),
        # Rules that fail on proof only:
        (">=", "high", 0.75, "pass"), (">=", "high", 0.85, "pass"), (">=", "high", 0.89, "fail"),
        ("<=", "low", 0.85, "pass"), ("<=", "low", 0.75, "pass"), ("<=", "low", 0.71, "fail"),
    ],
)  # fmt: skip
def test_verdict_by_the_end_of_an_interval(op: str, use: str, value: float, verdict: str) -> None:
    assert judged(GateRule("accuracy", op, value, use=use), figure(0.80, 0.72, 0.88)).verdict == verdict


def test_verdict_inconclusive_fails_unless_the_rule_says_otherwise() -> None:
    found = figure(0.80, 0.72, 0.88)
    strict = judged(GateRule("accuracy", ">=", 0.75, use="low"), found)
    lenient = judged(GateRule("accuracy", ">=", 0.75, use="low", inconclusive="pass"), found)
    assert (strict.fails_gate, lenient.fails_gate) == (True, False)
    assert lenient.verdict == "inconclusive"
    failed = judged(GateRule("accuracy", ">=", 0.85, use="low", inconclusive="pass"), found)
    assert failed.fails_gate


def test_verdict_warning_never_fails_the_gate() -> None:
    result = judged(GateRule("accuracy", ">=", 0.9, severity="warning"), figure(0.8))
    assert (result.verdict, result.holds, result.fails_gate) == ("fail", False, False)


def test_verdict_difference_counts_as_equal_within_rounding() -> None:
    found = delta(0.75 - 0.80, -0.1, 0.0)
    assert found.value != -0.05
    result = judged(GateRule("accuracy_delta", ">=", -0.05), found)
    assert (result.verdict, result.reason) == ("pass", "-0.05000 >= -0.05")
    assert judged(GateRule("accuracy_delta", ">", -0.05), found).verdict == "fail"
    assert judged(GateRule("accuracy", ">=", 0.3), figure(0.1 + 0.2 - 1e-16)).verdict == "fail"


@pytest.mark.parametrize(("op", "use"), [(">=", "low"), (">=", "high"), ("<=", "low"), ("<=", "high")])
@given(
    value=st.floats(0.3, 0.7), below=st.floats(0.01, 0.3), above=st.floats(0.01, 0.3), limit=st.floats(0, 1)
)
def test_p_value_is_small_exactly_where_the_end_does_not_reach_the_value(
    op: str, use: str, value: float, below: float, above: float, limit: float
) -> None:
    rule = GateRule("accuracy", op, limit, use=use)
    found = figure(value, value - below, value + above)
    end = value - below if use == "low" else value + above
    beyond = end > limit if use == "low" else end < limit
    p = p_value(found, rule, LEVEL)
    assert p is not None
    if abs(end - limit) > 1e-9:
        assert (p < 0.025) == beyond


def test_p_value_of_a_normal_interval_is_that_of_its_z_test() -> None:
    # Against scipy: estimate 0.80, standard error 0.04, so the interval is 0.80 -+ 1.959964 x 0.04.
    half = float(norm.ppf(0.975)) * 0.04
    found = figure(0.80, 0.80 - half, 0.80 + half)
    for op, use, side in ((">=", "low", 1), ("<=", "low", 1), ("<=", "high", -1), (">=", "high", -1)):
        p = p_value(found, GateRule("accuracy", op, 0.75, use=use), LEVEL)
        assert p == pytest.approx(float(norm.sf(side * (0.80 - 0.75) / 0.04)), rel=1e-9)


def test_p_value_without_width_on_one_side_takes_the_other() -> None:
    found = figure(1.0, 0.8, 1.0)
    p = p_value(found, GateRule("accuracy", ">=", 1.1, use="high"), LEVEL)
    assert p == pytest.approx(float(norm.sf(0.1 / (0.2 / norm.ppf(0.975)))), rel=1e-9)


@pytest.mark.parametrize(("limit", "p"), [(0.4, 0.0), (0.6, 1.0)])
def test_p_value_without_any_width_is_certain(limit: float, p: float) -> None:
    assert p_value(figure(0.5, 0.5, 0.5), GateRule("accuracy", ">=", limit, use="low"), LEVEL) == p


def test_p_value_without_a_figure_is_none() -> None:
    assert p_value(figure(None), GateRule("accuracy", ">=", 0.5, use="low"), LEVEL) is None


def test_holm_adjusts_the_rules_that_want_proof_together() -> None:
    # One alone would pass (its low end is above the value); three together do not.
    one = figure(0.80, 0.751, 0.85)
    rules = [GateRule(f"m{place}", ">=", 0.75, use="low") for place in range(3)]
    assert judged(rules[0], one).verdict == "pass"
    found = judge_rules([(rule, one) for rule in rules], LEVEL)
    raw = [result.p for result in found]
    assert [result.p_adjusted for result in found] == pytest.approx(
        list(multipletests(raw, method="holm")[1])
    )
    assert {result.verdict for result in found} == {"inconclusive"}
    assert "but not with Holm's correction for several such rules" in found[0].reason


def test_holm_keeps_rules_that_fail_on_proof_from_false_alarms() -> None:
    one = delta(-0.03, -0.06, -0.001)
    rules = [GateRule(f"m{place}", ">=", 0, use="high") for place in range(2)]
    assert judged(rules[0], one).verdict == "fail"
    found = judge_rules([(rule, one) for rule in rules], LEVEL)
    assert {result.verdict for result in found} == {"pass"}
    assert "Holm" in found[0].reason


def test_holm_families_do_not_mix() -> None:
    good, bad = figure(0.80, 0.751, 0.85), delta(-0.03, -0.06, -0.001)
    found = judge_rules(
        [
            (GateRule("a", ">=", 0.75, use="low"), good),
            (GateRule("b", ">=", 0, use="high"), bad),
            (GateRule("c", ">=", 0.75, use="low", severity="warning"), good),
            (GateRule("d", ">=", 0.75), good),
        ],
        LEVEL,
    )
    assert [result.p_adjusted == result.p for result in found] == [True] * 4
    assert [result.verdict for result in found] == ["pass", "fail", "pass", "pass"]
    assert found[3].p is None


def test_items_needed_for_a_difference_is_the_paired_sample_size() -> None:
    found = delta(0.0, -0.04, 0.04, n=252, flips=20)
    needed = items_needed(found, GateRule("accuracy_delta", ">=", -0.02, use="low"), LEVEL)
    assert needed == paired_sample_size(0.02, 20 / 252)
    result = judged(GateRule("accuracy_delta", ">=", -0.02, use="low"), found)
    assert result.needed == needed
    assert f"about {needed} items would settle it ({(needed or 0) - 252} more)" in result.reason


def test_items_needed_for_a_proportion_is_the_usual_number() -> None:
    # Against statsmodels: one-sample z test of 0.80 against 0.75 with the standard error of 0.80.
    half = float(norm.ppf(0.975)) * math.sqrt(0.8 * 0.2 / 100)
    found = figure(0.80, 0.80 - half, 0.80 + half, n=100)
    needed = items_needed(found, GateRule("accuracy", ">=", 0.75, use="low"), LEVEL)
    usual = NormalIndPower(ddof=0).solve_power(0.05 / 0.4, alpha=0.05, power=0.8, ratio=0)
    assert needed == pytest.approx(usual, abs=1)


def test_items_needed_is_more_than_there_are() -> None:
    # Groups of alike items: the interval is wider than 252 single items would make it.
    found = delta(0.0, -0.06, 0.06, n=252, flips=5)
    assert (paired_sample_size(0.05, 0.05) or 0) < 252
    needed = items_needed(found, GateRule("accuracy_delta", ">=", -0.05, use="low"), LEVEL)
    assert needed is not None
    assert needed > 252


@pytest.mark.parametrize("found", [delta(0.0, -0.1, 0.1, n=0), figure(None), delta(-0.02, -0.1, 0.1)])
def test_items_needed_is_none_where_no_number_would_do(found: Measure) -> None:
    assert items_needed(found, GateRule("accuracy_delta", ">=", -0.02, use="low"), LEVEL) is None


@pytest.mark.parametrize(
    ("path", "value", "remark"),
    [
        ("diff.overall.accuracy_delta", -0.01, "a tolerance of 0.01 is less than one item (1/6 = 0.1667)"),
        ("diff.overall.changed_share", 0.1, "a tolerance of 0.1 is less than one item (1/6 = 0.1667)"),
        ("score.overall.accuracy", 0.9, "a tolerance of 0.1 is less than one item (1/6 = 0.1667)"),
        ("score.overall.recall.A", 0.95, "a tolerance of 0.05 is less than one item (1/6 = 0.1667)"),
        ("diff.overall.accuracy_delta", -0.2, ""),
        ("diff.overall.accuracy_delta", 0, ""),
        ("score.overall.accuracy", 1.0, ""),
        ("score.overall.accuracy", 0.5, ""),
        ("score.overall.nll", 0.01, ""),
        ("diff.overall.detectable_delta", 0.01, ""),
    ],
)
def test_one_item_is_pointed_out(path: str, value: float, remark: str) -> None:
    assert one_item(figure(0.5, path=path, n=6), GateRule("x", ">=", value)) == remark


def test_one_item_of_nothing_is_silent() -> None:
    assert one_item(figure(0.5, n=0), GateRule("x", ">=", 0.99)) == ""
