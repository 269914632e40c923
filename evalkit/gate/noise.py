"""The noise floor: what further runs of the reference change without any change of the model.

A *lead* is the probability of the reference's choice less that of the best other option. The noise runs
move it, and the floor is the movement that 19 of 20 items stay within: an item whose lead is no larger is a
near tie, which noise alone could turn; an exact tie has no lead at all and is always one. An item with a
larger lead turns by such noise in fewer than 1 of 20 cases. Not the largest movement counts, because then
one odd item in a noise run would excuse every change in the candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalkit.comparing import DiffReport
from evalkit.decisions import Bools, Decisions
from evalkit.runs import Floats

WITHIN = 0.95
"""The share of items whose lead moves no further than the floor."""

MARKS = ("", "near tie", "tie", "moves in noise")
"""What noise says of an item; the later one wins."""


@dataclass(frozen=True)
class NoiseFloor:
    """What noise runs do to the items, and what of a candidate goes beyond it."""

    figures: dict[str, Any]
    """The figures that rules can be written against; None where nothing could be measured."""
    mark: NDArray[np.int8]
    """Shape (items,): index into MARKS."""
    runs: tuple[str, ...]
    """Names of the noise runs."""

    def to_dict(self) -> dict[str, Any]:
        """Return the floor as a report writes it."""
        return {"runs": list(self.runs), **self.figures}


def noise_floor(candidate: DiffReport, noise: Sequence[DiffReport]) -> NoiseFloor:
    """Measure the floor, and what of the candidate goes beyond it.

    A changed choice lies within the noise where the item's choice also changes in a noise run, or where the
    item is a near tie. The largest shift beyond the noise is the candidate's largest probability shift
    less the largest of all noise runs, at least 0. Items that no noise run decides are judged by the floor
    of the others; they cannot be marked as moving.

    Args:
        candidate: the candidate against the reference.
        noise: each noise run against the same reference on the same items.
    """
    reference = candidate.reference
    lead = leads(reference, reference)
    compared = np.logical_or.reduce([one.found.both for one in noise])
    moved = np.logical_or.reduce([one.found.changed for one in noise])
    moves = np.stack([np.abs(leads(reference, one.candidate) - lead) for one in noise])
    floor = _within(moves)
    shift = _largest(np.stack([one.found.shift for one in noise]))
    mark = _marks(reference, lead, floor, moved)
    changed = candidate.found.changed
    beyond = int(np.count_nonzero(changed & (mark == 0)))
    return NoiseFloor(
        figures={
            "covered": int(np.count_nonzero(compared)),
            "items": len(compared),
            "changed_choices": int(np.count_nonzero(moved)) if compared.any() else None,
            "max_probability_shift": shift,
            "movement_of_a_lead": floor,
            "largest_movement_of_a_lead": _largest(moves),
            "near_ties": int(np.count_nonzero(lead <= floor)) if floor is not None else None,
            "changed_choices_beyond_noise": beyond if compared.any() and candidate.found.both.any() else None,
            "max_probability_shift_beyond_noise": _beyond(candidate, shift),
        },
        mark=mark,
        runs=tuple(one.candidate.run.name for one in noise),
    )


def leads(reference: Decisions, run: Decisions) -> Floats:
    """Return by how much a run prefers the reference's choice to the best other option.

    Args:
        reference: whose choices they are.
        run: whose probabilities are looked at; aligned to the same items.

    Returns:
        Shape (items,): in [-1, 1]; NaN where either has no probabilities.
    """
    known = reference.has_points & run.has_points
    place = np.maximum(reference.choice, 0)
    rows = np.arange(len(place))
    others = np.where(np.isnan(run.p), -1.0, run.p)
    chosen = others[rows, place]
    others[rows, place] = -1.0
    return np.where(known, chosen - others.max(axis=1), np.nan)


def _marks(reference: Decisions, lead: Floats, floor: float | None, moved: Bools) -> NDArray[np.int8]:
    mark = np.zeros(len(lead), dtype=np.int8)
    if floor is not None:
        mark[lead <= floor] = MARKS.index("near tie")
        mark[reference.tie] = MARKS.index("tie")
    mark[moved] = MARKS.index("moves in noise")
    return mark


def _largest(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else None


def _within(moves: Floats) -> float | None:
    known = moves[~np.isnan(moves)]
    return float(np.quantile(known, WITHIN, method="higher")) if len(known) else None


def _beyond(candidate: DiffReport, shift: float | None) -> dict[str, Any] | None:
    largest = candidate.overall["max_probability_shift"]
    if largest is None or shift is None:
        return None
    return {**largest, "value": max(0.0, largest["value"] - shift)}
