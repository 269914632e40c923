"""Findings: what is to be shown at a place in a file, as annotations and in SARIF."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evalkit.comparing import DiffReport
from evalkit.gate.check import CheckReport, GateReport
from evalkit.gate.verdict import PASS
from evalkit.labels import LabelSet
from evalkit.render.numbers import number
from evalkit.scoring import ScoreReport, unusable


@dataclass(frozen=True)
class Finding:
    """One thing to show."""

    kind: str
    """rule, must, changed, action, unusable or wrong."""
    level: str
    """error or warning."""
    title: str
    """A few words."""
    message: str
    """A sentence."""
    file: str = ""
    """The file it is about, relative to the working tree; empty where that is outside of it."""
    line: int | None = None
    """The line in that file."""


KINDS = {
    "rule": "A rule of the gate failed",
    "must": "An item did not keep the choice or action that it must keep",
    "changed": "The choice on an item changed",
    "action": "The policy treats an item differently",
    "unusable": "An item has no usable decision",
    "wrong": "The choice on an item is not its label",
}
"""What each kind of finding means."""


def inside(path: Path | None, tree: Path) -> str:
    """Return a path relative to the working tree, or nothing where it lies outside or is no file.

    Args:
        path: the file.
        tree: the working tree's folder.
    """
    if path is None:
        return ""
    try:
        return path.resolve().relative_to(tree.resolve()).as_posix()
    except ValueError:
        return ""


def of_gate(report: GateReport, tree: Path) -> list[Finding]:
    """List the findings of a gate: rules that failed, then items; items only where a check did not pass.

    Args:
        report: the gate report.
        tree: the working tree, to which files are relative.
    """
    return [
        finding
        for check in report.checks
        for finding in (*_rules(check, tree), *(_items(check, tree) if check.verdict != PASS else ()))
    ]


def _rules(check: CheckReport, tree: Path) -> Iterator[Finding]:
    file = inside(check.inputs.rules.path, tree)
    for result in check.rules:
        if not result.holds:
            yield Finding(
                "rule",
                result.rule.severity,
                f"evalkit gate: {result.verdict}",
                f"{check.name}: {result.rule.label}: {result.reason}",
                file if result.rule.line else "",
                result.rule.line,
            )


def _items(check: CheckReport, tree: Path) -> Iterator[Finding]:
    file, known = _label_file(check.labels, tree)
    for result in check.failing_items:
        message = f"{check.name}: {result.must.id} must keep {result.wanted}: {result.reason}"
        yield Finding(
            "must", "error", "evalkit gate: item rule", message, file, result.line if known else None
        )
    records = sorted(check.changes, key=lambda record: record["effect"] != "broken")
    for record in records:
        if record["kind"] != "decision":
            kind = "changed" if record["kind"] == "choice" else "action"
            line = record["line"] if known else None
            yield Finding(kind, "warning", f"evalkit gate: {effect(record)}", change(record), file, line)
    yield from _without_decision(check.score, tree)


def effect(record: Mapping[str, Any]) -> str:
    """Name what happened to an item in a few words."""
    if record.get("kind") == "action":
        return "treated differently"
    named = record["effect"] if record["label"] is not None else None
    return named or "changed choice"


def change(record: Mapping[str, Any]) -> str:
    """Say in a sentence what happened to an item: choices, probabilities, actions, label."""
    text = f"{record['id']}: {chosen(record, 'reference')} -> {chosen(record, 'candidate')}"
    if record["label"] is not None:
        text += f", label {record['label']}"
    if "candidate_action" in record:
        before, now = record["reference_action"], record["candidate_action"]
        text += f", policy {now}" if before == now else f", policy {before} -> {now}"
    return text + (f" ({record['noise']})" if record.get("noise") else "")


def chosen(record: Mapping[str, Any], side: str) -> str:
    """Write one side's choice with its probability; its status where it has no decision."""
    if record[side] is None:
        return str(record[f"{side}_status"])
    p = record[f"{side}_probability"]
    tie = " (tie)" if record["tie"] in (side, "both") else ""
    return f"{record[side]}{'' if p is None else ' ' + number(p)}{tie}"


def of_scores(reports: Sequence[ScoreReport], tree: Path) -> list[Finding]:
    """List the wrong items and the items without a usable decision."""
    return [finding for report in reports for finding in _wrong(report, tree)]


def _wrong(report: ScoreReport, tree: Path) -> Iterator[Finding]:
    decisions, labels = report.decisions, report.labels
    file, known = _label_file(labels, tree)
    for item in np.flatnonzero(decisions.usable & ~decisions.correct & (decisions.gold >= 0)).tolist():
        line = int(labels.lines[item]) if known else None
        yield Finding("wrong", "warning", "evalkit: wrong item", wrong(report, item), file, line)
    yield from _without_decision(report, tree)


def wrong(report: ScoreReport, item: int) -> str:
    """Say in a sentence what is wrong with an item."""
    decisions = report.decisions
    choice = decisions.option(item, int(decisions.choice[item]))
    p = f" {number(float(decisions.top[item]))}" if decisions.has_points[item] else ""
    tie = " on an exact tie" if decisions.tie[item] else ""
    label = decisions.option(item, int(decisions.gold[item]))
    return f"{report.labels.ids[item].as_py()}: {report.run.name} chose {choice}{p}{tie}, label {label}"


def _without_decision(report: ScoreReport, tree: Path) -> Iterator[Finding]:
    decisions, labels = report.decisions, report.labels
    file, known = _label_file(labels, tree)
    places = np.flatnonzero(~decisions.usable).tolist()
    for item, entry in zip(places, unusable(decisions), strict=True):
        reason = f" ({entry['reason']})" if entry["reason"] else ""
        message = f"{entry['id']}: {report.run.name} has no usable decision: {entry['status']}{reason}"
        line = int(labels.lines[item]) if known else None
        yield Finding("unusable", "warning", "evalkit: no usable decision", message, file, line)


def of_diffs(reports: Sequence[DiffReport], tree: Path) -> list[Finding]:
    """List the changed choices."""
    found = []
    for report in reports:
        file, known = _label_file(report.labels, tree)
        lines = dict(zip(report.labels.ids.to_pylist(), report.labels.lines.tolist(), strict=True))
        for record in report.changed():
            title = f"evalkit: {effect(record)}"
            message = f"{report.candidate.run.name}: {change(record)}"
            line = lines[record["id"]] if known else None
            found.append(Finding("changed", "warning", title, message, file, line))
    return found


def _label_file(labels: LabelSet, tree: Path) -> tuple[str, bool]:
    """Return the label file as annotations name it, and whether its lines can be pointed at."""
    file = inside(labels.path, tree)
    return file, file.endswith(".jsonl")
