"""The use case: runs and rules in, a report with its verdict out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from evalkit import __version__
from evalkit.comparing import DiffReport
from evalkit.decisions import Places
from evalkit.errors import UsageError
from evalkit.gate.metrics import measure
from evalkit.gate.must import MustResult, judge_items
from evalkit.gate.noise import MARKS, NoiseFloor
from evalkit.gate.reports import COMPLETENESS, Reports
from evalkit.gate.rules import GateRule, RuleSet
from evalkit.gate.verdict import FAIL, INCONCLUSIVE, PASS, RuleResult, judge_rules
from evalkit.labels import LabelSet
from evalkit.policy import why
from evalkit.runs import Run
from evalkit.scoring import Options, ScoreReport, unusable

ERROR = "error"
"""The verdict where nothing could be judged."""


@dataclass(frozen=True)
class Inputs:
    """What one check of a gate looks at."""

    candidate: Run
    """The run that is judged."""
    rules: RuleSet
    """The rules."""
    labels: LabelSet | None = None
    """The label set; without one only drift can be judged."""
    reference: Run | None = None
    """The run to compare with."""
    noise: tuple[Run, ...] = ()
    """Further runs of the reference, which show what changes without any change of the model."""
    options: Options = field(default_factory=Options)
    """Restriction, policy and bootstrap; slices come from the rules."""
    name: str = ""
    """What the check is called; made up from runs and label set where it has no name."""


@dataclass(frozen=True)
class CheckReport:
    """The verdict of one check, with its evidence."""

    name: str
    """What the check is called."""
    inputs: Inputs
    """What was looked at."""
    rules: tuple[RuleResult, ...]
    """The rules in order, those of the gate itself last."""
    items: tuple[MustResult, ...]
    """The item rules."""
    score: ScoreReport
    """The score of the candidate."""
    diff: DiffReport | None
    """The diff against the reference, where there is one."""
    floor: NoiseFloor | None
    """The noise floor, where there are noise runs."""
    notices: tuple[str, ...]
    """What a reader should know."""

    @property
    def labels(self) -> LabelSet:
        """The label set, restricted as asked."""
        return self.score.labels

    @property
    def failing(self) -> tuple[RuleResult, ...]:
        """The rules that fail the gate."""
        return tuple(result for result in self.rules if result.fails_gate)

    @property
    def failing_items(self) -> tuple[MustResult, ...]:
        """The item rules that fail the gate."""
        return tuple(result for result in self.items if result.verdict != PASS)

    @property
    def verdict(self) -> str:
        """pass, fail, or inconclusive where nothing failed but something could not be settled."""
        if self.failing_items or any(result.verdict == FAIL for result in self.failing):
            return FAIL
        return INCONCLUSIVE if self.failing else PASS

    @cached_property
    def changes(self) -> list[dict[str, Any]]:
        """The items that changed: another choice, then another action, then a decision on one side only.

        Each is a record of the diff with `kind` (choice, action or decision), `noise` (a mark or None),
        `line` in the label file, and what the policy says now (`candidate_why`).
        """
        return [] if self.diff is None else _changes(self.diff, self.floor)

    def to_dict(self) -> dict[str, Any]:
        """Return the check as a report writes it."""
        reference = self.inputs.reference
        return {
            "name": self.name,
            "verdict": self.verdict,
            "rules_file": {"file": self.inputs.rules.file, "sha256": self.inputs.rules.sha256},
            "label_set": {**self.labels.to_dict(), "file": self.labels.file},
            "reference": None if reference is None else reference.to_dict(),
            "candidate": self.inputs.candidate.to_dict(),
            "only": dict(self.inputs.options.only),
            "signature": dict((self.diff or self.score).signature),
            "counts": dict(self.score.counts),
            "rules": [result.to_dict() for result in self.rules],
            "must": [result.to_dict() for result in self.items],
            "noise": None if self.floor is None else self.floor.to_dict(),
            "changes": self.changes,
            "unusable": unusable(self.score.decisions),
            "notices": list(self.notices),
        }


@dataclass(frozen=True)
class GateReport:
    """The verdict of all checks together."""

    checks: tuple[CheckReport, ...]
    """The checks, in order; at least one."""

    @property
    def verdict(self) -> str:
        """The worst verdict of all checks: fail, then inconclusive, then pass."""
        found = {check.verdict for check in self.checks}
        return next((verdict for verdict in (FAIL, INCONCLUSIVE) if verdict in found), PASS)

    @property
    def passed(self) -> bool:
        """Every check passed, and there is one."""
        return bool(self.checks) and self.verdict == PASS

    @property
    def exit_code(self) -> int:
        """0 where the gate passed, else 1."""
        return 0 if self.passed else 1

    def to_dict(self) -> dict[str, Any]:
        """Return the report as the JSON document ``evalkit.gate/1``."""
        return {
            "schema": "evalkit.gate/1",
            "evalkit": __version__,
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "error": None,
            "checks": [check.to_dict() for check in self.checks],
        }


def not_judged(message: str, exit_code: int) -> dict[str, Any]:
    """Return the JSON document ``evalkit.gate/1`` of a gate that could not judge.

    Args:
        message: why.
        exit_code: the exit code: 2 usage, 3 invalid input, 4 internal error.
    """
    return {
        "schema": "evalkit.gate/1",
        "evalkit": __version__,
        "verdict": ERROR,
        "exit_code": exit_code,
        "error": message,
        "checks": [],
    }


def judge(inputs: Inputs) -> CheckReport:
    """Judge a candidate by rules.

    Added to the rules of the file, unless it has one of its own on the same count, are: no item is missing,
    invalid or failed in the candidate, and none that the candidate decides is undecided in the reference.
    What nobody can override: at least one item is scored, and with a reference at least one is compared.

    Args:
        inputs: the runs, the label set, the rules.

    Raises:
        UsageError: a rule needs a reference or noise runs, and there are none.
        InputError: a rule names a metric, slice, item, option or action that does not exist, or runs and
            label set do not fit each other.
    """
    _refuse_self_noise(inputs)
    reports = Reports(inputs.labels, inputs.candidate, inputs.reference, inputs.noise, inputs.options)
    level = inputs.options.resampling.level
    score = reports.score()
    diff = reports.diff() if reports.compares else None
    floor = reports.floor() if diff and inputs.noise else None
    rules = [*inputs.rules.rules, *_builtin(inputs.rules.rules, reports)]
    found = [(rule, measure(rule, reports, inputs.rules.file)) for rule in rules]
    return CheckReport(
        name=inputs.name or _name(inputs, score),
        inputs=inputs,
        rules=tuple(judge_rules(found, level)),
        items=tuple(judge_items(inputs.rules, reports.labels, score)),
        score=score,
        diff=diff,
        floor=floor,
        notices=tuple(_notices(inputs, score, diff, floor)),
    )


def _refuse_self_noise(inputs: Inputs) -> None:
    if inputs.noise and inputs.reference is None:
        raise UsageError("--noise needs a reference to compare with; name one with --reference")
    for run in inputs.noise:
        if run.sha256 == inputs.candidate.sha256:
            raise UsageError(
                f"--noise {run.name}: the candidate cannot be its own noise; name other runs of the reference"
            )


def _builtin(rules: Sequence[GateRule], reports: Reports) -> list[GateRule]:
    """Make the rules of completeness that the file does not replace by its own."""
    own = {
        _PREFIX.sub("", rule.metric)
        for rule in rules
        if rule.slice is None and rule.run == "candidate" and not rule.upward
    }
    added = [GateRule(name, "<=", 0, builtin=True) for name in COMPLETENESS if not own & {name, "unusable"}]
    if not reports.score().counts["scored"]:
        added.insert(0, GateRule("scored", ">=", 1, builtin=True))
    if reports.compares:
        if "only_candidate" not in own:
            added.append(GateRule("only_candidate", "<=", 0, builtin=True))
        if not reports.diff().counts["compared"]:
            added.append(GateRule("compared", ">=", 1, builtin=True))
    return added


_PREFIX = re.compile(r"^(score\.|diff\.)?(counts\.)?")


def _name(inputs: Inputs, score: ScoreReport) -> str:
    labels = score.labels
    against = f"{inputs.reference.name} -> " if inputs.reference else ""
    version = f"@{labels.version}" if labels.version else ""
    only = ", ".join(f"{name}={value}" for name, value in inputs.options.only.items())
    return f"{against}{inputs.candidate.name} on {labels.name}{version}{f' ({only})' if only else ''}"


def _notices(
    inputs: Inputs, score: ScoreReport, diff: DiffReport | None, floor: NoiseFloor | None
) -> list[str]:
    found = list(diff.notices) if diff else []
    found += [notice for notice in score.notices if notice not in found]
    if floor is not None and floor.figures["covered"] < floor.figures["items"]:
        found.append(
            f"the noise runs decide {floor.figures['covered']} of {floor.figures['items']} items; "
            "their floor stands for the others as well"
        )
    found += [
        f"the noise run {run.name} is the reference itself: it shows no noise"
        for run in inputs.noise
        if inputs.reference is not None and run.sha256 == inputs.reference.sha256
    ]
    return found


def _changes(diff: DiffReport, floor: NoiseFloor | None) -> list[dict[str, Any]]:
    found = diff.found
    changed = np.flatnonzero(found.changed)
    changed = changed[np.argsort(-np.nan_to_num(found.shift[changed], nan=-1.0), kind="stable")]
    once = diff.reference.usable != diff.candidate.usable
    acted = np.zeros_like(once)
    if diff.actions is not None:
        acted = (diff.actions[0].code != diff.actions[1].code) & ~found.changed & ~once
    kinds = (("choice", changed), ("action", np.flatnonzero(acted)), ("decision", np.flatnonzero(once)))
    return [record for kind, items in kinds for record in _records(diff, floor, kind, items)]


def _records(diff: DiffReport, floor: NoiseFloor | None, kind: str, items: Places) -> list[dict[str, Any]]:
    columns = diff.item_columns(items)
    places = items.tolist()
    columns["line"] = [int(diff.labels.lines[item]) or None for item in places]
    columns["noise"] = [
        None if floor is None or not floor.mark[item] else MARKS[floor.mark[item]] for item in places
    ]
    if diff.actions is not None:
        columns["candidate_why"] = [why(diff.actions[1], diff.candidate, item) for item in places]
    return [
        {"kind": kind, **dict(zip(columns, values, strict=True))}
        for values in zip(*columns.values(), strict=True)
    ]
