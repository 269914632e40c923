"""How far a candidate's probabilities moved and which choices changed, as pure functions of decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalkit.decisions import Bools, Decisions, Places
from evalkit.runs import Floats
from evalkit.statistics import mcnemar_exact, mean_standard_error, quantile_ladder, wilson

KL_FLOOR = 1e-12
"""A candidate's probability counts as at least this in the KL divergence."""

EFFECTS = ("fixed", "broken", "wrong to wrong", "unlabelled")
"""What a changed choice does: wrong becomes right, right becomes wrong, neither, or nobody knows."""


@dataclass(frozen=True)
class ItemDrift:
    """What happened to each item between reference and candidate."""

    both: Bools
    """Shape (items,): usable decisions on both sides."""
    points: Bools
    """Shape (items,): probabilities on both sides."""
    changed: Bools
    """Shape (items,): both decided, but otherwise."""
    tie: Bools
    """Shape (items,): either side's choice rests on an exact tie."""
    effect: NDArray[np.int8]
    """Shape (items,): index into EFFECTS where changed, else -1."""
    lost: Bools
    """Shape (items,): right in the reference, without a decision in the candidate."""
    gained: Bools
    """Shape (items,): right in the candidate, without a decision in the reference."""
    shift: Floats
    """Shape (items,): max over options of |p_candidate - p_reference|; NaN without points."""
    option: NDArray[np.int32]
    """Shape (items,): place of the option that shifted most."""
    kl: Floats
    """Shape (items,): KL(reference || candidate) in nats; NaN without points."""
    js: Floats
    """Shape (items,): Jensen-Shannon divergence in nats; NaN without points."""
    at_floor: Bools
    """Shape (items,): the KL divergence would be infinite or rests on the floor."""
    labelled: Bools
    """Shape (items,): the item has a label."""
    groups: NDArray[np.int64] | None
    """Shape (items,): groups for clustered standard errors; None where items stand alone."""


def item_drift(reference: Decisions, candidate: Decisions) -> ItemDrift:
    """Compare two runs item by item.

    Args:
        reference: the run to compare with.
        candidate: the run that is judged; aligned to the same items.

    Returns:
        Per item the probability shift max_o |q_o - p_o|, KL(p || q) = sum_o p_o log(p_o / q_o) (Kullback
        and Leibler, 1951), with q floored and the result never below 0, and the Jensen-Shannon divergence
        (KL(p || m) + KL(q || m)) / 2 with m = (p + q) / 2 (Lin, 1991).
    """
    both = reference.usable & candidate.usable
    changed = both & (reference.choice != candidate.choice)
    points = reference.has_points & candidate.has_points
    shift, option = _shift(reference.p, candidate.p)
    kl, js, at_floor = _divergences(reference.p, candidate.p)
    return ItemDrift(
        both=both,
        points=points,
        changed=changed,
        tie=both & (reference.tie | candidate.tie),
        effect=_effects(reference, candidate, changed),
        lost=reference.correct & ~candidate.usable,
        gained=candidate.correct & ~reference.usable,
        shift=np.where(points, shift, np.nan),
        option=option,
        kl=np.where(points, kl, np.nan),
        js=np.where(points, js, np.nan),
        at_floor=points & at_floor,
        labelled=reference.gold >= 0,
        groups=reference.labels.groups,
    )


def _effects(reference: Decisions, candidate: Decisions, changed: Bools) -> NDArray[np.int8]:
    effect = np.full(len(changed), -1, dtype=np.int8)
    effect[changed] = EFFECTS.index("wrong to wrong")
    effect[changed & candidate.correct] = EFFECTS.index("fixed")
    effect[changed & reference.correct] = EFFECTS.index("broken")
    effect[changed & (reference.gold < 0)] = EFFECTS.index("unlabelled")
    return effect


def _shift(p: Floats, q: Floats) -> tuple[Floats, NDArray[np.int32]]:
    largest = np.full(len(p), -1.0)
    option = np.zeros(len(p), dtype=np.int32)
    for place in range(p.shape[1]):
        moved = np.abs(q[:, place] - p[:, place])
        greater = moved > largest
        option[greater] = place
        largest = np.where(greater, moved, largest)
    return largest, option


def _divergences(p: Floats, q: Floats) -> tuple[Floats, Floats, Bools]:
    kl, js = np.zeros(len(p)), np.zeros(len(p))
    at_floor = np.zeros(len(p), dtype=np.bool_)
    with np.errstate(divide="ignore", invalid="ignore"):
        for place in range(p.shape[1]):
            before, after = p[:, place], q[:, place]
            log_before, log_after = np.log(before), np.log(after)
            floored = (before > 0) & (after < KL_FLOOR)
            at_floor |= floored
            kl += np.where(
                before > 0, before * (log_before - np.where(floored, np.log(KL_FLOOR), log_after)), 0.0
            )
            middle = np.log((before + after) / 2)
            js += np.where(before > 0, before * (log_before - middle), 0.0) / 2
            js += np.where(after > 0, after * (log_after - middle), 0.0) / 2
    return np.maximum(kl, 0.0), np.clip(js, 0.0, np.log(2)), at_floor


@dataclass(frozen=True)
class Drift:
    """The drift of one slice, summed up; the keys are those of the report."""

    figures: Mapping[str, Any]
    """Counts, shifts, divergences, quantiles and the paired test."""

    def to_dict(self) -> dict[str, Any]:
        """Return the figures in the shape of a report."""
        return dict(self.figures)


def drift(
    found: ItemDrift, reference: Decisions, items: Places | None = None, *, level: float = 0.95
) -> Drift:
    """Sum the drift of a slice up.

    Args:
        found: what happened to each item.
        reference: the reference, for ids and options.
        items: the items of the slice; all by default.
        level: level of the interval of the share of changed choices.

    Returns:
        Counts over the items decided on both sides, means over those with probabilities on both sides.
        McNemar's exact test counts an item that was right and has no decision any more as broken, as the
        accuracy does (McNemar, 1947).
    """
    take = np.arange(len(found.both)) if items is None else items
    changed, effect, tie = found.changed[take], found.effect[take], found.tie[take]
    compared = int(found.both[take].sum())
    n_changed = int(changed.sum())
    fixed, broken, wrong = (int((effect == EFFECTS.index(name)).sum()) for name in EFFECTS[:3])
    lost, gained = int(found.lost[take].sum()), int(found.gained[take].sum())
    share = wilson(n_changed, compared, level)
    return Drift(
        {
            "n": len(take),
            "compared": compared,
            "changed_choices": n_changed,
            "changed_with_tie": int((changed & tie).sum()),
            "changed_share": share and {**asdict(share), "method": "wilson"},
            "same_choice": (compared - n_changed) / compared if compared else None,
            "fixed": fixed,
            "broken": broken,
            "wrong_to_wrong": wrong,
            "flips": fixed + broken,
            "lost": lost,
            "gained": gained,
            **_moved(found, reference, take),
            "mcnemar": {
                "reference_only": broken + lost,
                "candidate_only": fixed + gained,
                "p": mcnemar_exact(broken + lost, fixed + gained),
            }
            if found.labelled[take].any()
            else None,
        }
    )


def _moved(found: ItemDrift, reference: Decisions, take: Places) -> dict[str, Any]:
    """Sum the shifts and divergences of the items with probabilities on both sides up."""
    keep = take[found.points[take]]
    if not len(keep):
        return {
            "with_probabilities": 0,
            **dict.fromkeys(
                (
                    "max_probability_shift",
                    "mean_max_shift",
                    "rms_shift",
                    "mean_kl",
                    "mean_js",
                    "standard_errors",
                )
            ),
            "kl_at_floor": 0,
            "quantiles": {"kl": None, "shift": None},
        }
    shift, kl, js = found.shift[keep], found.kl[keep], found.js[keep]
    groups = None if found.groups is None else found.groups[keep]
    mean_shift, shift_error = mean_standard_error(shift, groups)
    mean_kl, kl_error = mean_standard_error(kl, groups)
    mean_js, js_error = mean_standard_error(js, groups)
    largest = int(keep[int(np.argmax(shift))])
    return {
        "with_probabilities": len(keep),
        "max_probability_shift": {
            "value": float(found.shift[largest]),
            "id": reference.labels.ids[largest].as_py(),
            "option": reference.option(largest, int(found.option[largest])),
        },
        "mean_max_shift": mean_shift,
        "rms_shift": float(np.sqrt(np.mean(shift**2))),
        "mean_kl": mean_kl,
        "mean_js": mean_js,
        "standard_errors": {"mean_max_shift": shift_error, "mean_kl": kl_error, "mean_js": js_error},
        "kl_at_floor": int(found.at_floor[keep].sum()),
        "quantiles": {"kl": quantile_ladder(kl), "shift": quantile_ladder(shift)},
    }
