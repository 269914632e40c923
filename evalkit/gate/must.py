"""Item rules: these items must keep this choice or this action, whatever the averages say."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evalkit import rows
from evalkit.errors import InputError, Problem
from evalkit.gate.rules import Must, RuleSet
from evalkit.gate.verdict import FAIL, PASS
from evalkit.labels import LabelSet
from evalkit.policy import Actions
from evalkit.scoring import ScoreReport


@dataclass(frozen=True)
class MustResult:
    """An item rule, what it found, and its verdict."""

    must: Must
    """The rule; its kind is settled."""
    got: str | None
    """The item's choice or action; None where it has none."""
    verdict: str
    """pass or fail."""
    reason: str
    """What was found, in words."""
    label: str | None
    """The item's label."""
    line: int | None
    """The item's line in the label file."""

    @property
    def wanted(self) -> str:
        """What is asked of the item."""
        return f"{self.must.kind} {self.must.name}"

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a report writes it."""
        return {
            "id": self.must.id,
            "kind": self.must.kind,
            "wanted": self.must.name,
            "got": self.got,
            "label": self.label,
            "line": self.line,
            "verdict": self.verdict,
            "reason": self.reason,
        }


def judge_items(rules: RuleSet, labels: LabelSet, report: ScoreReport) -> list[MustResult]:
    """Judge the item rules.

    Args:
        rules: the rules file.
        labels: the whole label set; it tells an unknown item from one that is not judged this time.
        report: the score of the candidate.

    Raises:
        InputError: an item, option or action is unknown, or a name could be either of the two.
    """
    places = {name: place for place, name in enumerate(report.labels.ids.to_pylist())} if rules.must else {}
    known = {name: place for place, name in enumerate(labels.ids.to_pylist())} if rules.must else {}
    problems: list[Problem] = []
    results = []
    for must in rules.must:
        problem, settled = _settled(must, labels, known, report.actions)
        if problem:
            problems.append(_placed(problem, must, rules))
        else:
            results.append(_judged(settled, report, places.get(must.id), int(labels.lines[known[must.id]])))
    if problems:
        raise InputError(problems)
    return results


def _settled(
    must: Must, labels: LabelSet, known: dict[str, int], actions: Actions | None
) -> tuple[str, Must]:
    """Find out whether a rule names a choice or an action; or what is wrong with it."""
    if must.id not in known:
        close = difflib.get_close_matches(must.id, list(known), n=3, cutoff=0.5)
        return f"no such item{f'; did you mean {_either(close)}?' if close else ''}", must
    options = labels.layouts[labels.layout[known[must.id]]]
    policy = actions.policy if actions else None
    taken = {rule.action for rule in policy.rules} | {policy.default} if policy else set()
    kinds = [kind for kind, names in (("choice", options), ("action", taken)) if must.name in names]
    if must.kind is not None:
        kinds = [kind for kind in kinds if kind == must.kind]
    if len(kinds) > 1:
        return (
            f"{must.name!r} is an option and an action: write {{choice = {must.name!r}}} or "
            f"{{action = {must.name!r}}}",
            must,
        )
    if not kinds:
        found = f"its options are {', '.join(options)}"
        found += f", the actions {', '.join(sorted(taken))}" if taken else "; there is no policy"
        return f"{must.name!r} is no {must.kind or 'option of the item and no action'}; {found}", must
    return "", Must(must.id, must.name, kinds[0])


def _placed(what: str, must: Must, rules: RuleSet) -> Problem:
    return Problem(f"{must.id}: {what}", rules.file, rules.lines.get(must.id), "$.must")


def _either(names: Sequence[str]) -> str:
    return " or ".join(names)


def _judged(must: Must, report: ScoreReport, item: int | None, line: int) -> MustResult:
    at = line or None
    if item is None:
        return MustResult(must, None, FAIL, "not among the items that are judged", None, at)
    decisions = report.decisions
    label = decisions.option(item, int(decisions.gold[item]))
    if must.kind == "action" and report.actions is not None:
        got: str | None = report.actions.names[report.actions.code[item]]
    else:
        got = decisions.option(item, int(decisions.choice[item]))
    reason = f"{must.kind} {got}"
    if not decisions.usable[item]:
        reason = f"no usable decision ({rows.STATUS_NAMES[decisions.status[item]]})"
        return MustResult(must, got, FAIL, reason, label, at)
    if decisions.tie[item]:
        reason += ", on an exact tie"
    return MustResult(must, got, PASS if got == must.name else FAIL, reason, label, at)
