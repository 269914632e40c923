"""What an interval says for or against a rule: p-values, the items that would settle it, one item's worth."""

from __future__ import annotations

import math
from statistics import NormalDist

from evalkit.gate.metrics import Measure
from evalkit.gate.rules import GateRule, number_text
from evalkit.statistics import paired_sample_size

POWER = 0.8
"""The chance with which the number of items that is named would settle a rule."""

_BEST_AT_ONE = ("accuracy", "same_choice", "macro_f1", "headline", "recall")


def p_value(measure: Measure, rule: GateRule, level: float) -> float | None:
    """Give the one-sided p-value of what a rule on the end of an interval claims.

    A rule that wants proof (the low end of >=, the high end of <=) claims that the figure is on the right
    side of its value; one that fails only on proof (the high end of >=, the low end of <=) claims, where it
    fails, that the figure is on the wrong side.

    Formula: 1 - Phi(d / s), with d the distance from the value to the estimate, counted in the direction of
    the claim, and s = w / z, where w is the half-width of the interval between estimate and value and z the
    (1 + level)/2 quantile of the standard normal. So p <= (1 - level)/2 exactly where that end of the
    interval does not reach the value, whatever method made the interval.
    Source: Altman and Bland (2011), BMJ 343:d2304, "How to obtain the P value from a confidence interval",
    with the half-width of the side in question for intervals that are not symmetric.

    Args:
        measure: the figure with its interval.
        rule: the rule; its `use` is `low` or `high`.
        level: level of the interval.

    Returns:
        The p-value; None where the figure or its interval is missing.
    """
    if measure.value is None or measure.low is None or measure.high is None:
        return None
    claims_above = rule.upward == rule.strict
    distance = measure.value - rule.value if claims_above else rule.value - measure.value
    half = measure.value - measure.low if claims_above else measure.high - measure.value
    half = half or max(measure.value - measure.low, measure.high - measure.value)
    if half == 0:
        return 0.0 if distance > 0 else 1.0
    z = NormalDist().inv_cdf((1 + level) / 2)
    return NormalDist().cdf(-z * distance / half)


def items_needed(measure: Measure, rule: GateRule, level: float) -> int | None:
    """Give the number of items with which an undecided rule would be settled in 4 of 5 cases.

    For the difference of two runs it is the sample size of McNemar's test for the distance between the
    estimate and the value (:func:`evalkit.statistics.paired_sample_size`). Where that is no more than there
    are (groups of alike items make an interval wider than it assumes), and for every other figure, it
    follows from the width of the interval, which falls with the square root of the number of items:
    n ((z_a + z_b) w / (z_a d))^2, with w the half-width towards the value and d the distance to it.

    Args:
        measure: the figure; its estimate meets the rule and its interval does not.
        rule: the rule.
        level: level of the interval.

    Returns:
        The number of items in all, more than there are; None where none would do.
    """
    if measure.value is None or measure.low is None or measure.high is None or not measure.n:
        return None
    distance = abs(measure.value - rule.value)
    if distance == 0:
        return None
    half = measure.value - measure.low if rule.upward else measure.high - measure.value
    if measure.is_delta:
        share = min(1.0, max(measure.flips / measure.n, distance))
        pairs = paired_sample_size(min(distance, 1.0), share, level=level, power=POWER)
        if pairs is not None and pairs > measure.n:
            return pairs
    z_level, z_power = NormalDist().inv_cdf((1 + level) / 2), NormalDist().inv_cdf(POWER)
    ratio = (z_level + z_power) * half / (z_level * distance)
    return max(measure.n + 1, math.ceil(measure.n * ratio * ratio))


def one_item(measure: Measure, rule: GateRule) -> str:
    """Point out a tolerance that is smaller than what a single item makes.

    Args:
        measure: the figure and the number of items it rests on.
        rule: the rule.

    Returns:
        A remark with 1/n beside the tolerance; empty where the tolerance is wide enough, is 0 on purpose, or
        the figure is no share of items.
    """
    name = measure.path.rpartition("overall.")[2]
    if measure.is_delta or name in ("changed_share", "wrong_share"):
        tolerance = abs(rule.value)
    elif name.endswith(_BEST_AT_ONE) or name.startswith("recall."):
        tolerance = 1 - rule.value
    else:
        return ""
    if not measure.n or not 0 < tolerance < 1 / measure.n:
        return ""
    return (
        f"a tolerance of {number_text(round(tolerance, 12))} is less than one item "
        f"(1/{measure.n} = {1 / measure.n:.4f})"
    )
