"""Comparing a candidate with a reference: the steps in order, and the frozen report they fill."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from evalkit import rows
from evalkit.accuracy import FIGURES, CellTable, Resampling, accuracy_deltas, figures
from evalkit.decisions import Decisions, Places, align, default_fields, slices, unlabelled
from evalkit.drift import EFFECTS, ItemDrift, drift, item_drift
from evalkit.labels import LabelSet
from evalkit.notices import diff_notices, few_groups, settings_that_differ
from evalkit.parallel import together
from evalkit.policy import Actions, apply_policy, transitions, why
from evalkit.runs import Run
from evalkit.scoring import Options, counts, in_slices, refuse_invalid, restricted, unusable
from evalkit.signature import signature
from evalkit.statistics import detectable_difference


@dataclass(frozen=True)
class DiffReport:
    """What changed between two runs."""

    labels: LabelSet
    """The label set, restricted as asked; made up from the runs where none was named."""
    reference: Decisions
    """The reference."""
    candidate: Decisions
    """The candidate."""
    found: ItemDrift
    """What happened to each item."""
    signature: Mapping[str, Any]
    """How the figures were made."""
    counts: Mapping[str, Any]
    """How many items could be compared."""
    overall: Mapping[str, Any]
    """The figures of all items."""
    by: Mapping[str, Mapping[str, Mapping[str, Any]]]
    """Per field and value the figures of the slice."""
    actions: tuple[Actions, Actions] | None
    """What the policy does with reference and candidate; None without a policy."""
    policy: Mapping[str, Any] | None
    """What production would treat differently, counted."""
    settings: tuple[tuple[str, Any, Any], ...]
    """Settings of the recordings that differ: key, reference, candidate."""
    notices: tuple[str, ...]
    """What a reader should know."""

    def item_columns(self, items: Places | None = None) -> dict[str, list[Any]]:
        """Return one value an item and column for some items (default: all)."""
        take = np.arange(len(self.labels)) if items is None else items
        places = take.tolist()
        found, labels = self.found, self.labels
        columns: dict[str, list[Any]] = {
            "id": labels.ids.take(take).to_pylist(),
            "label": [self.reference.option(item, int(self.reference.gold[item])) for item in places],
        }
        for name, side in self._sides():
            columns[name] = [side.option(item, int(side.choice[item])) for item in places]
            columns[f"{name}_probability"] = [_number(side.top[item]) for item in places]
            columns[f"{name}_status"] = [rows.STATUS_NAMES[side.status[item]] for item in places]
        columns |= {
            "shift": [_number(found.shift[item]) for item in places],
            "shift_option": [
                self.reference.option(item, int(found.option[item])) if found.points[item] else None
                for item in places
            ],
            "kl": [_number(found.kl[item]) for item in places],
            "js": [_number(found.js[item]) for item in places],
            "changed": found.changed[take].tolist(),
            "tie": [self._tie(item) for item in places],
            "effect": [EFFECTS[effect] if effect >= 0 else None for effect in found.effect[take].tolist()],
        }
        if self.actions is not None:
            for (name, _), actions in zip(self._sides(), self.actions, strict=True):
                columns[f"{name}_action"] = [actions.names[code] for code in actions.code[take]]
        for field in ("part", "family", "variant"):
            if field in labels.fields:
                coded = labels.fields[field]
                columns[field] = [coded.names[code] if code >= 0 else None for code in coded.codes[take]]
        return columns

    def _sides(self) -> tuple[tuple[str, Decisions], tuple[str, Decisions]]:
        return (("reference", self.reference), ("candidate", self.candidate))

    def _tie(self, item: int) -> str | None:
        tied = [name for name, side in self._sides() if side.tie[item]]
        return "both" if len(tied) == 2 else tied[0] if tied else None

    def changed(self, limit: int | None = None) -> list[dict[str, Any]]:
        """List the (first) changed choices, largest probability shift first."""
        items = np.flatnonzero(self.found.changed)
        order = np.argsort(-np.nan_to_num(self.found.shift[items], nan=-1.0), kind="stable")
        return self._records(items[order][:limit])

    def treated_differently(self, limit: int | None = None) -> list[dict[str, Any]]:
        """List the (first) items on which the policy acts differently now."""
        if self.actions is None:
            return []
        before, after = self.actions
        items = np.flatnonzero(before.code != after.code)[:limit]
        records = self._records(items)
        for record, item in zip(records, items.tolist(), strict=True):
            record["reference_why"] = why(before, self.reference, item)
            record["candidate_why"] = why(after, self.candidate, item)
        return records

    def decided_once(self) -> dict[str, list[str]]:
        """List the ids with a usable decision on one side only: `only_reference`, `only_candidate`."""
        reference, candidate = self.reference.usable, self.candidate.usable
        return {
            "only_reference": self._ids(reference & ~candidate),
            "only_candidate": self._ids(candidate & ~reference),
        }

    def _records(self, items: Places) -> list[dict[str, Any]]:
        columns = self.item_columns(items)
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as the JSON document ``evalkit.diff/1``."""
        policy = None if self.policy is None else {**self.policy, "items": self.treated_differently()}
        return {
            "schema": "evalkit.diff/1",
            "signature": dict(self.signature),
            "label_set": {**self.labels.to_dict(), "headline": self.labels.headline},
            "reference": self.reference.run.to_dict(),
            "candidate": self.candidate.run.to_dict(),
            "counts": dict(self.counts),
            "overall": dict(self.overall),
            "by": {name: dict(values) for name, values in self.by.items()},
            "policy": policy,
            "changed": self.changed(),
            **self.decided_once(),
            "unusable": {name: unusable(side) for name, side in self._sides()},
            "settings": [
                {"setting": key, "reference": before, "candidate": after}
                for key, before, after in self.settings
            ],
            "notices": list(self.notices),
        }

    def _ids(self, mask: np.ndarray[Any, np.dtype[np.bool_]]) -> list[str]:
        ids: list[str] = self.labels.ids.take(np.flatnonzero(mask)).to_pylist()
        return ids

    def to_pandas(self) -> Any:
        """Return the items as a pandas DataFrame, one row an item (needs the extra ``pandas``)."""
        import pandas as pd

        return pd.DataFrame(self.item_columns())


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def diff(
    labels: LabelSet | None, reference: Run, candidate: Run, options: Options | None = None
) -> DiffReport:
    """Compare a candidate with a reference.

    Args:
        labels: the items; without them only drift is measured, over the ids of both runs.
        reference: the run to compare with.
        candidate: the run that is judged.
        options: what to measure.

    Raises:
        AlignmentError: a run has ids or option sets that the label set (or the other run) does not know.
        UsageError: an option names a field or value that no item has.
        InputError: with ``strict``, a run has invalid decisions.
    """
    options = options or Options()
    items = labels or unlabelled([reference, candidate])
    before, after = together([partial(_laid_out, items, run, options) for run in (reference, candidate)])
    if options.strict:
        refuse_invalid(before)
        refuse_invalid(after)
    items = before.labels
    found = item_drift(before, after)
    table = CellTable([before, after])
    fields = default_fields(items) if options.by is None else tuple(options.by)
    policy = options.policy or items.policy
    actions = (apply_policy(policy, before), apply_policy(policy, after)) if policy else None
    how = options.resampling
    parts = slices(items, fields)
    measure = partial(_figures, found, before, table, actions, how=how)
    overall, by = in_slices(measure, parts)
    return DiffReport(
        labels=items,
        reference=before,
        candidate=after,
        found=found,
        signature=signature(items, [reference, candidate], policy, how, dict(options.only)),
        counts=_counts(before, after),
        overall=overall,
        by=by,
        actions=actions,
        policy=_policy(actions) if actions else None,
        settings=tuple(settings_that_differ(reference.meta, candidate.meta)),
        notices=(*diff_notices(before, after, policy), *few_groups(items, how)),
    )


def _laid_out(items: LabelSet, run: Run, options: Options) -> Decisions:
    return restricted(align(items, run), options)


def _counts(reference: Decisions, candidate: Decisions) -> dict[str, Any]:
    both = reference.usable & candidate.usable
    return {
        "items": len(reference.status),
        "compared": int(both.sum()),
        "only_reference": int((reference.usable & ~candidate.usable).sum()),
        "only_candidate": int((candidate.usable & ~reference.usable).sum()),
        "neither": int((~reference.usable & ~candidate.usable).sum()),
        "unlabelled": int((reference.gold < 0).sum()),
        "reference": counts(reference),
        "candidate": counts(candidate),
    }


def _figures(
    found: ItemDrift,
    reference: Decisions,
    table: CellTable,
    actions: tuple[Actions, Actions] | None,
    items: Places | None,
    how: Resampling,
) -> dict[str, Any]:
    moved = drift(found, reference, items, level=how.level).to_dict()
    cells = table.cells(items)
    observed = cells.counts
    labelled = bool(observed.sum())
    sides = [figures(cells, side, observed) if labelled else {} for side in (0, 1)]
    deltas = accuracy_deltas(cells, how)
    return {
        **moved,
        "labelled": int(observed.sum()),
        **{
            name: {side: _value(values, name) for side, values in zip(_SIDES, sides, strict=True)}
            for name in FIGURES
        },
        **{f"{name}_delta": delta and delta.to_dict() for name, delta in deltas.items()},
        "transitions": transitions(*actions, items) if actions else None,
        "detectable_delta": _detectable(moved, int(observed.sum()), how.level),
    }


_SIDES = ("reference", "candidate")


def _value(values: Mapping[str, Any], name: str) -> float | None:
    return _number(float(values[name][0])) if name in values else None


def _detectable(moved: Mapping[str, Any], n: int, level: float) -> float | None:
    """Return the accuracy difference that so many items with so many flips would show in 4 of 5 cases."""
    test = moved["mcnemar"]
    flips = test["reference_only"] + test["candidate_only"] if test else 0
    return detectable_difference(n, flips / n, level=level) if n and flips else None


def _policy(actions: tuple[Actions, Actions]) -> dict[str, Any]:
    before, after = actions
    sides = {"reference": before, "candidate": after}
    return {
        **before.policy.to_dict(),
        "transitions": transitions(before, after),
        "treated_differently": int(np.count_nonzero(before.code != after.code)),
        "actions": {
            side: dict(
                zip(found.names, np.bincount(found.code, minlength=len(found.names)).tolist(), strict=True)
            )
            for side, found in sides.items()
        },
        "wrong_actions": {side: int(found.wrong.sum()) for side, found in sides.items()},
    }
