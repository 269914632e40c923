"""What a reader of a report should know about its inputs, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow.compute as pc

from evalkit.accuracy import Resampling
from evalkit.calibration import FEW, NLL_FLOOR, Calibration
from evalkit.cards import Policy
from evalkit.decisions import Decisions
from evalkit.labels import LabelSet
from evalkit.policy import unknown_options
from evalkit.settings import MOVING

LOW_MASS = 0.5
"""Below this mass on the options, the answer mostly went elsewhere."""

FEWEST_GROUPS = 20
"""A bootstrap over fewer groups gives intervals that are too narrow."""


def run_notices(decisions: Decisions) -> list[str]:
    """Say what is odd about a run or its fit to the label set."""
    run, labels = decisions.run, decisions.labels
    found = list(run.notices)
    found += _label_set_notices(decisions)
    recorded = decisions.row[decisions.row >= 0]
    mass = run.mass[recorded]
    low = int(np.count_nonzero(mass < LOW_MASS))
    if low:
        found.append(
            f"{run.name}: in {low} decisions the options hold less than {LOW_MASS:g} of the mass "
            f"(least {np.nanmin(mass):.2g}): the model wanted to say something else (thinking switched on, "
            "a leading space or newline, one token only?)"
        )
    if len(models := run.distinct("model")) > 1:
        found.append(f"{run.name}: more than one model answered: {', '.join(models)}")
    if len(prints := run.distinct("system_fingerprint")) > 1:
        found.append(f"{run.name}: more than one system fingerprint: {', '.join(prints)}")
    if run.cache_hits:
        found.append(f"{run.name}: {run.cache_hits} prompts were partly cached: timings are not comparable")
    found += [f"{run.name}: {text}" for text in (run.meta.get("note"), *run.meta.get("notices", ())) if text]
    if not decisions.usable.any():
        found.append(f"{run.name}: no item was scored: not one usable decision")
    return found + [notice for notice in labels.notices if notice not in found]


def _label_set_notices(decisions: Decisions) -> list[str]:
    run, labels = decisions.run, decisions.labels
    recorded = run.meta.get("label_set", {})
    digest = recorded.get("sha256")
    if labels.sha256 is None or digest in (None, labels.sha256):
        return []
    version = f" ({recorded.get('name')}@{recorded['version']})" if recorded.get("version") else ""
    return [
        f"{run.name}: recorded on another version of the label set{version}, sha256 {digest[:12]}..., "
        f"than the one it is scored against, {labels.sha256[:12]}..."
    ]


def score_notices(decisions: Decisions, found: Calibration, policy: Policy | None) -> list[str]:
    """Say what limits the figures of a score."""
    notices = run_notices(decisions)
    if 0 < found.ece_n < FEW:
        notices.append(f"the calibration error rests on {found.ece_n} items: mostly noise")
    if found.at_floor:
        items = "item" if found.at_floor == 1 else "items"
        notices.append(f"{found.at_floor} {items} at the floor {NLL_FLOOR:g} of the log loss")
    if found.bounds:
        notices.append(
            f"{found.bounds} decisions are censored (a probability known only as a range): "
            "log loss and Brier score are lower bounds"
        )
    return notices + policy_notices(policy, decisions.labels)


def policy_notices(policy: Policy | None, labels: LabelSet) -> list[str]:
    """Say which rules of a policy never hold."""
    options = unknown_options(policy, labels) if policy else []
    return [f"the policy has rules for options that no item has: {', '.join(options)}"] if options else []


def diff_notices(reference: Decisions, candidate: Decisions, policy: Policy | None) -> list[str]:
    """Say what, besides the model, differs between two runs."""
    notices = [
        f"the recordings differ in {key}: {before} against {after}; "
        "shifts may be the setting's, not the model's"
        for key, before, after in settings_that_differ(reference.run.meta, candidate.run.meta)
    ]
    for text, what in (("prompt_sha256", "prompt"), ("messages_sha256", "messages")):
        if differing := _differing(reference, candidate, text):
            notices.append(f"{len(differing)} items were asked with another {what}, first {differing[0]}")
    if _same_run(reference, candidate):
        notices.append("identical probabilities in every row: probably the same run twice")
    for notice in (*run_notices(reference), *run_notices(candidate)):
        if notice not in notices:
            notices.append(notice)
    return notices + policy_notices(policy, reference.labels)


def settings_that_differ(
    reference: Mapping[str, Any], candidate: Mapping[str, Any]
) -> list[tuple[str, Any, Any]]:
    """Return the settings recorded on both sides with different values: key, reference, candidate."""
    before = {**_options(reference), "protocol": reference.get("protocol")}
    after = {**_options(candidate), "protocol": candidate.get("protocol")}
    return [
        (key, before[key], after[key])
        for key in (*MOVING, "protocol")
        if before.get(key) is not None and after.get(key) is not None and before[key] != after[key]
    ]


def _options(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    options = meta.get("recorded", {}).get("options", {})
    return options if isinstance(options, dict) else {}


def _differing(reference: Decisions, candidate: Decisions, text: str) -> list[str]:
    one, other = reference.run.texts.get(text), candidate.run.texts.get(text)
    if one is None or other is None:
        return []
    both = np.flatnonzero((reference.row >= 0) & (candidate.row >= 0))
    unequal = pc.not_equal(one.take(reference.row[both]), other.take(candidate.row[both])).fill_null(False)
    ids = reference.labels.ids
    return [ids[int(item)].as_py() for item in both[np.asarray(unequal)]]


def _same_run(reference: Decisions, candidate: Decisions) -> bool:
    same = reference.has_points & candidate.has_points
    return bool(
        same.any()
        and (same == (reference.usable | candidate.usable)).all()
        and np.array_equal(reference.p[same], candidate.p[same], equal_nan=True)
    )


def few_groups(labels: LabelSet, how: Resampling) -> list[str]:
    """Warn where a bootstrap over very few groups makes intervals too narrow."""
    groups = len(labels) if labels.groups is None else len(np.unique(labels.groups))
    if groups >= FEWEST_GROUPS or not labels.labelled:
        return []
    what = "items" if labels.groups is None else "groups"
    return [f"only {groups} {what} to resample: {how.level * 100:g} % bootstrap intervals are too narrow"]
