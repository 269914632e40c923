"""Log loss, Brier score and calibration error, as pure functions of decisions.

They are means over the labelled items whose probabilities were recorded. Where only a range is known,
log loss and Brier score take the smallest value the range allows, so that the mean is a lower bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evalkit.decisions import Bools, Decisions, Places
from evalkit.runs import Floats

NLL_FLOOR = 1e-12
"""A label's probability counts as at least this in the log loss."""
ECE_BINS = 10
"""Equal-width bins of the calibration error."""
FEW = 100
"""With fewer items the calibration error is mostly noise, and reports say so."""


@dataclass(frozen=True)
class Losses:
    """Losses of each item; NaN where the item has none."""

    nll: Floats
    """Shape (items,): -log of the label's probability, in nats."""
    brier: Floats
    """Shape (items,): squared distance to the one-hot label, summed over the options."""
    bound: Bools
    """Shape (items,): the losses are lower bounds, since only ranges are known."""
    at_floor: Bools
    """Shape (items,): the label's probability is below the floor."""
    top: Floats
    """Shape (items,): probability of the choice."""
    correct: Bools
    """Shape (items,): the choice is the label."""


@dataclass(frozen=True)
class Calibration:
    """How well the probabilities of one slice fit the labels."""

    n: int
    """Items with a loss."""
    bounds: int
    """Items among them whose losses are lower bounds."""
    at_floor: int
    """Items whose label has a probability below the floor."""
    nll: float | None
    """Mean log loss in nats."""
    brier: float | None
    """Mean Brier score, 0 to 2."""
    ece: float | None
    """Expected calibration error of the top option."""
    ece_n: int
    """Items the calibration error rests on."""
    bins: tuple[Mapping[str, Any], ...]
    """The occupied bins: low, high, n, mean probability, accuracy."""

    def to_dict(self, *, bins: bool = False) -> dict[str, Any]:
        """Return the figures in the shape of a report, with the bins on demand."""
        result: dict[str, Any] = {
            "nll": self.nll,
            "brier": self.brier,
            "ece": self.ece,
            "losses": {
                "n": self.n,
                "lower_bounds": self.bounds,
                "at_floor": self.at_floor,
                "ece_n": self.ece_n,
            },
        }
        if bins:
            result["ece_bins"] = [dict(row) for row in self.bins]
        return result


def losses(decisions: Decisions) -> Losses:
    """Compute the losses of every item.

    Args:
        decisions: a run on (partly) labelled items.

    Returns:
        Per item: log loss -log(max(p(label), floor)) and Brier score sum over options of (p - y)^2
        (Brier, 1950, the original definition over all classes).
    """
    gold = decisions.gold
    known = (gold >= 0) & (decisions.has_points | decisions.censored)
    _, high = decisions.bounds_of(gold)
    reachable = np.where(known, high, np.nan)
    return Losses(
        nll=-np.log(np.maximum(reachable, NLL_FLOOR)),
        brier=np.where(known, _brier(decisions), np.nan),
        bound=known & decisions.censored,
        at_floor=known & (reachable < NLL_FLOOR),
        top=decisions.top,
        correct=decisions.correct,
    )


def _brier(decisions: Decisions) -> Floats:
    low = decisions.p if decisions.low is None else decisions.low
    high = decisions.p if decisions.high is None else decisions.high
    total = np.zeros(len(low))
    for place in range(low.shape[1]):
        target = (decisions.gold == place).astype(np.float64)
        nearest = np.minimum(np.maximum(target, low[:, place]), high[:, place])
        total += np.where(np.isnan(low[:, place]), 0.0, (nearest - target) ** 2)
    return total


def calibration(found: Losses, items: Places | None = None) -> Calibration:
    r"""Sum the losses of a slice up.

    The calibration error is that of the top option over equal-width bins (0, 0.1], ... (0.9, 1]:
    sum over bins of n_bin / n * |accuracy - mean probability| (Naeini et al., 2015; Guo et al., 2017).

    Args:
        found: the losses of all items.
        items: the items of the slice; all by default.

    Returns:
        Means over the items that have losses; None where there are none.
    """
    take = slice(None) if items is None else items
    nll, brier, top = found.nll[take], found.brier[take], found.top[take]
    bound, floor, correct = found.bound[take], found.at_floor[take], found.correct[take]
    known = ~np.isnan(nll)
    n = int(known.sum())
    points = known & ~np.isnan(top)
    bins = _bins(top[points], correct[points])
    total = int(points.sum())
    return Calibration(
        n=n,
        bounds=int(bound.sum()),
        at_floor=int(floor.sum()),
        nll=float(nll[known].mean()) if n else None,
        brier=float(brier[known].mean()) if n else None,
        ece=sum(row["n"] / total * abs(row["accuracy"] - row["mean_probability"]) for row in bins)
        if total
        else None,
        ece_n=total,
        bins=tuple(bins),
    )


def _bins(top: Floats, correct: Bools) -> list[dict[str, Any]]:
    edges = np.arange(ECE_BINS + 1) / ECE_BINS
    place = np.clip(np.searchsorted(edges, top, side="left") - 1, 0, ECE_BINS - 1)
    n = np.bincount(place, minlength=ECE_BINS)
    mass = np.bincount(place, weights=top, minlength=ECE_BINS)
    hits = np.bincount(place, weights=correct, minlength=ECE_BINS)
    return [
        {
            "low": float(edges[bin_]),
            "high": float(edges[bin_ + 1]),
            "n": int(n[bin_]),
            "mean_probability": float(mass[bin_] / n[bin_]),
            "accuracy": float(hits[bin_] / n[bin_]),
        }
        for bin_ in np.flatnonzero(n).tolist()
    ]


COVERAGE_LEVELS = (0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 0.99)
"""Thresholds of the coverage table."""


def coverage(found: Losses) -> list[dict[str, Any]]:
    """Tell how accurate a run is where it is sure enough, and how often that is.

    Args:
        found: the losses of all items.

    Returns:
        Per threshold: `at_least`, `n` labelled items whose choice has that probability, their share
        among those with probabilities, and their accuracy (None where there are none).
    """
    known = ~np.isnan(found.nll) & ~np.isnan(found.top)
    total = int(known.sum())
    table: list[dict[str, Any]] = []
    for threshold in COVERAGE_LEVELS:
        sure = known & (found.top >= threshold)
        n = int(sure.sum())
        table.append(
            {
                "at_least": threshold,
                "n": n,
                "share": n / total if total else None,
                "accuracy": float(found.correct[sure].mean()) if n else None,
            }
        )
    return table
