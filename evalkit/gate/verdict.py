"""Rules and figures in, verdicts out.

How the end of an interval decides. A rule on the far end (``use = "low"`` with >=, ``use = "high"`` with <=)
wants proof that the figure is good: it passes where that end meets the value, fails where the estimate does
not, and is inconclusive in between. A rule on the near end (``use = "high"`` with >=, ``use = "low"`` with
<=) fails only on proof that the figure is bad: where the whole interval lies on the wrong side.

Several such rules are several chances to be wrong by chance. Holm's method holds that chance: the rules that
want proof form one family, those that fail on proof another, warnings apart from errors. In each the
one-sided p-values are adjusted together, and a claim counts only where the adjusted p is at most
(1 - level)/2. So the chance that any rule of a family claims something that is not so stays at 2.5 % with
95 % intervals. With one rule in a family nothing changes. (That all rules which want proof must pass would
hold the chance for the gate as a whole anyway; the adjustment is there because each is read by itself, and
it errs on the side of failing.)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evalkit.gate.evidence import items_needed, one_item, p_value
from evalkit.gate.metrics import Measure
from evalkit.gate.rules import GateRule, number_text
from evalkit.policy import told_apart
from evalkit.statistics import holm

PASS, FAIL, INCONCLUSIVE = "pass", "fail", "inconclusive"

ROUNDING = 1e-12
"""A difference of two figures that is this close to the value counts as equal to it: 0.75 - 0.80 < -0.05."""

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
}
_OPPOSITE = {"<=": ">", ">=": "<", "<": ">=", ">": "<=", "==": "is not"}
_DIGITS = 5
_MOST_DIGITS = 17


@dataclass(frozen=True)
class RuleResult:
    """A rule, what it found, and its verdict."""

    rule: GateRule
    """The rule."""
    measure: Measure
    """The figure it found."""
    verdict: str
    """pass, fail or inconclusive."""
    reason: str
    """The comparison in words, with as many digits as it takes."""
    p: float | None = None
    """One-sided p-value of the rule's claim, for rules on an end of an interval."""
    p_adjusted: float | None = None
    """The same, adjusted by Holm's method."""
    needed: int | None = None
    """How many items in all would settle an inconclusive rule."""
    remark: str = ""
    """What a reader should know about the rule itself."""

    @property
    def holds(self) -> bool:
        """The rule does not stand in the way of a pass."""
        return self.verdict == PASS or (self.verdict == INCONCLUSIVE and self.rule.inconclusive == PASS)

    @property
    def fails_gate(self) -> bool:
        """The rule fails the gate."""
        return not self.holds and self.rule.severity == "error"

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a report writes it."""
        return {
            **self.rule.to_dict(),
            "path": self.measure.path,
            "got": self.measure.value,
            "low": self.measure.low,
            "high": self.measure.high,
            "n": self.measure.n,
            "place": self.measure.place or None,
            "verdict": self.verdict,
            "fails_gate": self.fails_gate,
            "reason": self.reason,
            "p": self.p,
            "p_adjusted": self.p_adjusted,
            "items_needed": self.needed,
            "remark": self.remark,
        }


def judge_rules(found: Sequence[tuple[GateRule, Measure]], level: float) -> list[RuleResult]:
    """Judge rules by what they found.

    Args:
        found: each rule with its figure.
        level: level of the intervals.

    Returns:
        One result a rule, in order.
    """
    raw = [p_value(one, rule, level) if rule.use != "value" else None for rule, one in found]
    adjusted = _adjusted([rule for rule, _ in found], raw)
    return [
        replace(_judged(rule, one, p, level), p=before, p_adjusted=p, remark=one_item(one, rule))
        for (rule, one), before, p in zip(found, raw, adjusted, strict=True)
    ]


def _adjusted(rules: Sequence[GateRule], raw: Sequence[float | None]) -> list[float | None]:
    adjusted: list[float | None] = [None] * len(raw)
    families: dict[tuple[bool, str], list[int]] = {}
    for place, (rule, p) in enumerate(zip(rules, raw, strict=True)):
        if p is not None:
            families.setdefault((rule.strict, rule.severity), []).append(place)
    for places in families.values():
        known = [p for place in places if (p := raw[place]) is not None]
        for place, p in zip(places, holm(known), strict=True):
            adjusted[place] = p
    return adjusted


def _judged(rule: GateRule, found: Measure, p: float | None, level: float) -> RuleResult:
    if found.value is None:
        return RuleResult(rule, found, FAIL, f"nothing to measure: {found.why_not}")
    if rule.use == "value":
        good = meets(found.value, rule, found)
        return RuleResult(rule, found, PASS if good else FAIL, compared(found.value, rule, found, good=good))
    end = found.low if rule.use == "low" else found.high
    if end is None or p is None:
        return RuleResult(rule, found, FAIL, "nothing to measure: the figure has no interval here")
    claimed = p <= (1 - level) / 2
    return (_wants_proof if rule.strict else _fails_on_proof)(rule, found, end, claimed, level)


def _wants_proof(rule: GateRule, found: Measure, end: float, claimed: bool, level: float) -> RuleResult:
    estimate = meets(found.value or 0.0, rule, found)
    good = meets(end, rule, found)
    reason = f"{rule.use} end {compared(end, rule, found, good=good)}"
    if not estimate:
        reason = f"{compared(found.value or 0.0, rule, found, good=False)} (the estimate itself)"
        return RuleResult(rule, found, FAIL, reason)
    if good and claimed:
        return RuleResult(rule, found, PASS, reason)
    if good:
        reason += ", but not with Holm's correction for several such rules"
    needed = items_needed(found, rule, level)
    more = f"; about {needed} items would settle it ({needed - found.n} more)" if needed else ""
    return RuleResult(
        rule, found, INCONCLUSIVE, f"{reason}: the interval straddles the value{more}", needed=needed
    )


def _fails_on_proof(rule: GateRule, found: Measure, end: float, claimed: bool, level: float) -> RuleResult:
    good = meets(end, rule, found)
    reason = f"{rule.use} end {compared(end, rule, found, good=good)}"
    if good:
        return RuleResult(rule, found, PASS, reason)
    if not claimed:
        reason += ", but not with Holm's correction for several such rules"
        return RuleResult(rule, found, PASS, reason)
    return RuleResult(rule, found, FAIL, f"{reason}: the whole {level * 100:g} % interval")


def meets(value: float, rule: GateRule, found: Measure) -> bool:
    """Tell whether a number meets a rule's value.

    Numbers are compared as float64 without slack, as they are and not as they are printed. Only differences
    of two figures, which are off by a rounding error, count as equal within ROUNDING.
    """
    if found.is_delta and abs(value - rule.value) <= ROUNDING:
        return rule.op in ("<=", ">=", "==")
    return _COMPARE[rule.op](value, rule.value)


def compared(value: float, rule: GateRule, found: Measure, *, good: bool) -> str:
    """Write a comparison with as many digits as it takes to see how it comes out."""
    sign = rule.op if good else _OPPOSITE[rule.op]
    if found.is_delta and abs(value - rule.value) <= ROUNDING:
        value = rule.value
    at = f" ({found.place})" if found.place else ""
    if found.count and value == found.value:
        return f"{int(value)} {sign} {number_text(rule.value)}{at}"
    return f"{apart(value, rule.value)} {sign} {number_text(rule.value)}{at}"


def apart(value: float, limit: float) -> str:
    """Write a number with at least as many digits as it takes to see on which side of another it is."""
    for digits in range(_DIGITS, _MOST_DIGITS + 1):
        shown, _ = told_apart(value, limit, digits)
        if (float(shown) < limit) == (value < limit) and (float(shown) > limit) == (value > limit):
            return shown
    return repr(value)
