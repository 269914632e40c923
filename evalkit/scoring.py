"""Scoring one run against a label set: the steps in order, and the frozen report they fill."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from evalkit import rows
from evalkit.accuracy import Accuracy, CellTable, Resampling, accuracy, by_position, chance
from evalkit.calibration import Calibration, Losses, calibration, coverage, losses
from evalkit.cards import Policy
from evalkit.decisions import Decisions, Places, Slice, align, default_fields, matching, slices
from evalkit.errors import InputError, Problem
from evalkit.labels import LabelSet
from evalkit.notices import few_groups, score_notices
from evalkit.parallel import together
from evalkit.policy import Actions, apply_policy, summary, why
from evalkit.runs import Run
from evalkit.signature import signature


@dataclass(frozen=True)
class Options:
    """What to measure; the same for score and diff."""

    by: Sequence[str] | None = None
    """Fields to slice by; part and family where present by default."""
    only: Mapping[str, str] = field(default_factory=dict)
    """Restrict to the items with these values."""
    policy: Policy | None = None
    """Replaces the policy of the label set's card."""
    resampling: Resampling = field(default_factory=Resampling)
    """How bootstrap intervals are made."""
    strict: bool = False
    """Refuse runs with invalid decisions."""


@dataclass(frozen=True)
class ScoreReport:
    """What a run is worth on a label set."""

    labels: LabelSet
    """The label set, restricted as asked."""
    run: Run
    """The run."""
    decisions: Decisions
    """The aligned decisions."""
    signature: Mapping[str, Any]
    """How the figures were made."""
    counts: Mapping[str, Any]
    """How many items there are of which kind."""
    overall: Mapping[str, Any]
    """The figures of all items."""
    by: Mapping[str, Mapping[str, Mapping[str, Any]]]
    """Per field and value the figures of the slice."""
    actions: Actions | None
    """What the policy does; None without a policy."""
    policy: Mapping[str, Any] | None
    """What the policy does, counted."""
    notices: tuple[str, ...]
    """What a reader should know."""

    def item_columns(self) -> dict[str, list[Any]]:
        """Return one value an item and column: id, label, choice, probability, correct, status, action ..."""
        decisions, actions = self.decisions, self.actions
        places = range(len(self.labels))
        columns = {
            "id": self.labels.ids.to_pylist(),
            "label": [decisions.option(item, int(decisions.gold[item])) for item in places],
            "choice": [decisions.option(item, int(decisions.choice[item])) for item in places],
            "correct": [
                bool(right) if gold >= 0 else None
                for right, gold in zip(decisions.correct, decisions.gold, strict=True)
            ],
            "probability": [None if np.isnan(p) else float(p) for p in decisions.top],
            "status": [rows.STATUS_NAMES[status] for status in decisions.status],
            "tie": decisions.tie.tolist(),
            "line": [decisions.line(item) for item in places],
        }
        if actions is not None:
            columns["action"] = [actions.names[code] for code in actions.code]
            columns["why"] = [why(actions, decisions, item) for item in places]
            columns["wrong_action"] = actions.wrong.tolist()
        return columns

    def to_dict(self) -> dict[str, Any]:
        """Return the report as the JSON document ``evalkit.score/1``."""
        columns = self.item_columns()
        policy = None
        if self.policy is not None:
            shown = ("id", "choice", "probability", "action", "why", "label")
            policy = {**self.policy, "items": _records({name: columns[name] for name in shown})}
        return {
            "schema": "evalkit.score/1",
            "signature": dict(self.signature),
            "label_set": {**self.labels.to_dict(), "headline": self.labels.headline},
            "run": self.run.to_dict(),
            "counts": dict(self.counts),
            "overall": dict(self.overall),
            "by": {name: dict(values) for name, values in self.by.items()},
            "policy": policy,
            "items": _records(columns),
            "unusable": unusable(self.decisions),
            "notices": list(self.notices),
        }

    def to_pandas(self) -> Any:
        """Return the items as a pandas DataFrame, one row an item (needs the extra ``pandas``)."""
        import pandas as pd

        return pd.DataFrame(self.item_columns())


def _records(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def score(labels: LabelSet, run: Run, options: Options | None = None) -> ScoreReport:
    """Score a run against a label set.

    Args:
        labels: the items with their options and labels.
        run: the recorded decisions.
        options: what to measure.

    Raises:
        AlignmentError: the run has ids or option sets that the label set does not know.
        UsageError: an option names a field or value that no item has.
        InputError: with ``strict``, the run has invalid decisions.
    """
    options = options or Options()
    decisions = restricted(align(labels, run), options)
    if options.strict:
        refuse_invalid(decisions)
    labels = decisions.labels
    found = losses(decisions)
    table = CellTable([decisions])
    fields = default_fields(labels) if options.by is None else tuple(options.by)
    parts = slices(labels, fields)
    overall_calibration = calibration(found)
    measure = partial(_figures, decisions, table, found, options.resampling, overall_calibration)
    overall, by = in_slices(measure, parts)
    policy = options.policy or labels.policy
    actions = apply_policy(policy, decisions) if policy else None
    notices = score_notices(decisions, overall_calibration, policy)
    notices += few_groups(labels, options.resampling)
    return ScoreReport(
        labels=labels,
        run=run,
        decisions=decisions,
        signature=signature(labels, [run], policy, options.resampling, dict(options.only)),
        counts=counts(decisions),
        overall={
            **overall,
            "positions": by_position(decisions, options.resampling.level),
            "coverage": coverage(found),
        },
        by=by,
        actions=actions,
        policy=summary(actions, decisions, options.resampling.level) if actions else None,
        notices=tuple(notices),
    )


def restricted(decisions: Decisions, options: Options) -> Decisions:
    """Restrict aligned decisions to the items asked for."""
    return decisions.subset(matching(decisions.labels, options.only)) if options.only else decisions


def in_slices(
    measure: Callable[[Places | None], dict[str, Any]], parts: Mapping[str, Sequence[Slice]]
) -> tuple[dict[str, Any], dict[str, dict[str, dict[str, Any]]]]:
    """Measure all items and every slice, several at a time.

    Args:
        measure: returns the figures of some items (None: of all).
        parts: the slices by field.

    Returns:
        The figures of all items, and those of the slices by field and value.
    """
    every = [part.items for values in parts.values() for part in values]
    overall, *rest = together([partial(measure, items) for items in (None, *every)])
    left = iter(rest)
    return overall, {name: {part.value: next(left) for part in values} for name, values in parts.items()}


def _figures(
    decisions: Decisions,
    table: CellTable,
    found: Losses,
    how: Resampling,
    overall: Calibration,
    items: Places | None,
) -> dict[str, Any]:
    measured: Accuracy = accuracy(table.cells(items), how)
    size = len(decisions.labels) if items is None else len(items)
    fit = overall if items is None else calibration(found, items)
    return {
        "n": size,
        "labelled": measured.n,
        **measured.to_dict(),
        "chance": chance(decisions, items),
        **fit.to_dict(bins=items is None),
    }


def counts(decisions: Decisions) -> dict[str, Any]:
    """Count the items by what became of them; items = scored + missing + invalid + error."""
    status = np.bincount(decisions.status, minlength=len(rows.STATUS_NAMES))
    mass = decisions.run.mass[decisions.row[decisions.usable]]
    recorded = mass[~np.isnan(mass)]
    reasons = Counter(
        _kind(decisions.reason(item)) for item in np.flatnonzero(decisions.status == rows.INVALID).tolist()
    )
    return {
        "items": len(decisions.status),
        "scored": int(status[rows.OK]),
        "missing": int(status[rows.MISSING]),
        "invalid": int(status[rows.INVALID]),
        "error": int(status[rows.ERROR]),
        "ties": int(decisions.tie.sum()),
        "censored": int(decisions.censored.sum()),
        "without_probabilities": int((decisions.usable & ~decisions.has_points & ~decisions.censored).sum()),
        "unlabelled": int((decisions.gold < 0).sum()),
        "invalid_reasons": dict(sorted(reasons.items())),
        "allowed_token_mass": {
            "n": len(recorded),
            "least": float(recorded.min()) if len(recorded) else None,
            "mean": float(recorded.mean()) if len(recorded) else None,
        },
    }


def _kind(reason: str) -> str:
    """Reduce a reason to its kind, without the values."""
    return _VALUE.sub("...", _QUOTED.sub("", reason))


_QUOTED = re.compile(r" \([^()]*\)")
_VALUE = re.compile(r"'[^']*'|-?\d[\d.e+-]*")


def unusable(decisions: Decisions, limit: int | None = None) -> list[dict[str, Any]]:
    """List the (first) items without a usable decision: id, status, line in the run, reason."""
    return [
        {
            "id": decisions.labels.ids[item].as_py(),
            "status": rows.STATUS_NAMES[decisions.status[item]],
            "line": decisions.line(item),
            "reason": decisions.reason(item),
        }
        for item in np.flatnonzero(~decisions.usable)[:limit].tolist()
    ]


def refuse_invalid(decisions: Decisions) -> None:
    """Raise an InputError that lists the invalid decisions, if there are any."""
    problems = [
        Problem(f"{entry['id']}: {entry['reason']}", decisions.run.file, entry["line"])
        for entry in unusable(decisions)
        if entry["status"] == "invalid"
    ]
    if problems:
        raise InputError(problems)
