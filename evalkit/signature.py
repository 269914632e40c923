"""The signature of a report: everything that somebody else needs to get the same digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evalkit import __version__
from evalkit.accuracy import Resampling
from evalkit.calibration import ECE_BINS, NLL_FLOOR
from evalkit.cards import Policy
from evalkit.drift import KL_FLOOR
from evalkit.labels import LabelSet
from evalkit.runs import Run


def signature(
    labels: LabelSet,
    runs: Sequence[Run],
    policy: Policy | None,
    how: Resampling,
    conditions: dict[str, str],
) -> dict[str, Any]:
    """Describe how the figures of a report were made.

    Args:
        labels: the label set.
        runs: the run, or reference and candidate.
        policy: the policy that was applied.
        how: options of the bootstrap.
        conditions: the restriction to items with given values.

    Returns:
        The parts by name, and under `text` all of them in one line.
    """
    rules = [f"{rule.option}@{rule.at_least!r}={rule.action}" for rule in policy.rules] if policy else []
    parts: dict[str, Any] = {
        "evalkit": __version__,
        "labels": named(labels),
        "only": ",".join(f"{field}={value}" for field, value in conditions.items()) or "all items",
        "runs": [f"{run.name}:{run.sha256[:12]}" for run in runs],
        "choice": "first option in prompt order with the highest probability",
        "intervals": {
            **how.to_dict(),
            "proportions": "wilson",
            "degenerate bootstrap": "wilson, square-and-add",
            "generator": f"numpy {np.__version__} PCG64",
        },
        "nll_floor": NLL_FLOOR,
        "kl_floor": KL_FLOOR,
        "ece": f"{ECE_BINS} equal-width bins (low, high], top option",
        "quantiles": "linear",
        "mcnemar": "exact, two-sided",
        "policy": {"rules": rules, "default": policy.default} if policy else None,
    }
    return {"text": _one_line(parts, how), **parts}


def named(labels: LabelSet) -> str:
    """Return a label set's name, version and digest in short form."""
    version = f"@{labels.version}" if labels.version else ""
    digest = f":{labels.sha256[:12]}" if labels.sha256 else ""
    return f"{labels.name}{version}{digest}"


def _one_line(parts: dict[str, Any], how: Resampling) -> str:
    only = "" if parts["only"] == "all items" else f"|only:{parts['only']}"
    policy = parts["policy"]
    acting = f"|policy:{','.join([*policy['rules'], policy['default']])}" if policy else ""
    return (
        f"evalkit:{parts['evalkit']}|labels:{parts['labels']}{only}|runs:{','.join(parts['runs'])}"
        f"|ci:{how.level * 100:g}%,wilson,bootstrap(group/family,n={how.resamples},seed={how.seed})"
        f"|ece:{ECE_BINS}|nll-floor:{NLL_FLOOR:g}|kl-floor:{KL_FLOOR:g}{acting}"
    )
