"""The regression gate: rules and reports in, a verdict out.

A gate never passes on no data. What it cannot measure fails, what it cannot read raises, and every item
without a usable decision fails unless a rule says how many there may be.
"""

from __future__ import annotations

from evalkit.gate.check import CheckReport, GateReport, Inputs, judge
from evalkit.gate.rules import GateRule, Must, RuleSet, load_rules, rules_from

__all__ = [
    "CheckReport",
    "GateReport",
    "GateRule",
    "Inputs",
    "Must",
    "RuleSet",
    "judge",
    "load_rules",
    "rules_from",
]
