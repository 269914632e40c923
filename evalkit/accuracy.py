"""Accuracy, balanced accuracy and their kin, with intervals, as pure functions of decisions.

Everything is computed from *cells*: a cell is one combination of family, label and choice (of both runs
in a diff), and a figure is a function of how many items each cell holds. The same functions give the
estimate (from the observed counts) and its bootstrap distribution (from resampled counts).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalkit.decisions import Decisions, Places
from evalkit.labels import LabelSet
from evalkit.runs import Floats
from evalkit.statistics import Interval, mover, percentile_interval, resample_counts, wilson

FIGURES = ("accuracy", "balanced_accuracy", "mean_family_balanced_accuracy", "macro_f1")

_Ints = NDArray[np.int64]
_STILL = 1e-12  # draws that differ by less are equal but for rounding


@dataclass(frozen=True)
class Resampling:
    """How bootstrap intervals are made."""

    resamples: int = 10_000
    """Number of resamples."""
    seed: int = 20260917
    """Seed of the generator."""
    level: float = 0.95
    """Level of every interval."""

    def to_dict(self) -> dict[str, Any]:
        """Return what a signature says of it."""
        return {
            "method": "percentile bootstrap of groups, stratified by family",
            "level": self.level,
            "resamples": self.resamples,
            "seed": self.seed,
        }


@dataclass(frozen=True)
class Cells:
    """The labelled items of one slice, sorted into cells; `sides` runs are looked at together."""

    code: _Ints
    """Shape (items,): cell of each item."""
    family: _Ints
    """Shape (cells,): family, -1 for none."""
    gold: _Ints
    """Shape (cells,): option number of the label."""
    chosen: tuple[_Ints, ...]
    """Per side, shape (cells,): option number of the choice, -1 where there is no decision."""
    groups: _Ints | None
    """Shape (items,): group of each item; None where every item stands alone."""
    options: tuple[str, ...]
    """Option ids by number."""

    @property
    def counts(self) -> Floats:
        """Shape (1, cells): how many items each cell holds."""
        return np.bincount(self.code, minlength=len(self.gold)).astype(np.float64)[None, :]

    def resampled(self, how: Resampling) -> Floats:
        """Shape (resamples, cells): counts under the bootstrap; the same draws whatever is computed."""
        return resample_counts(
            self.code,
            self.groups,
            self.family[self.code],
            len(self.gold),
            resamples=how.resamples,
            seed=how.seed,
        )


class CellTable:
    """Sorts the items of a label set into cells once, so that slices only have to count."""

    def __init__(self, sides: Sequence[Decisions]) -> None:
        labels = sides[0].labels
        # Numbered by name, so that the bootstrap draws the same whatever the order of the items is.
        names = sorted({option for options in labels.layouts for option in options})
        numbers = {name: number for number, name in enumerate(names)}
        width = max(len(options) for options in labels.layouts)
        table = np.full((len(labels.layouts), width + 1), -1, dtype=np.int64)
        for row, options in enumerate(labels.layouts):
            table[row, : len(options)] = [numbers[option] for option in options]
        columns = [
            _families(labels),
            table[labels.layout, sides[0].gold],
            *(table[labels.layout, side.choice] for side in sides),
        ]
        self._options = tuple(names)
        self._labelled = sides[0].gold >= 0
        self._code, self._cells = _numbered(columns)
        self._groups = labels.groups

    def cells(self, items: Places | None = None) -> Cells:
        """Return the labelled items of a slice (all items by default) in cells."""
        keep = np.flatnonzero(self._labelled) if items is None else items[self._labelled[items]]
        code = self._code if len(keep) == len(self._code) else self._code[keep]
        present = np.flatnonzero(np.bincount(code, minlength=len(self._cells[0])))
        new = np.zeros(len(self._cells[0]), dtype=np.int64)
        new[present] = np.arange(len(present))
        family, gold, *chosen = (column[present] for column in self._cells)
        groups = self._groups
        return Cells(
            new[code],
            family,
            gold,
            tuple(chosen),
            None if groups is None else groups[keep],
            self._options,
        )


def _families(labels: LabelSet) -> _Ints:
    coded = labels.fields.get("family")
    if coded is None:
        return np.full(len(labels), -1, dtype=np.int64)
    ranks = np.argsort(np.argsort(np.asarray(coded.names)))
    return np.append(ranks, -1)[coded.codes]


def _numbered(columns: Sequence[_Ints]) -> tuple[_Ints, list[_Ints]]:
    """Number the distinct rows of columns of codes >= -1."""
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        code = code * (int(column.max(initial=-1)) + 2) + (column + 1)
        limit = int(code.max(initial=0)) + 1
        if limit <= 4 * len(code) + 1024:
            present = np.flatnonzero(np.bincount(code, minlength=limit))
            new = np.zeros(limit, dtype=np.int64)
            new[present] = np.arange(len(present))
            code = new[code]
        else:
            code = np.unique(code, return_inverse=True)[1].reshape(-1)
    first = np.zeros(int(code.max(initial=-1)) + 1, dtype=np.int64)
    first[code] = np.arange(len(code))
    return code, [column[first] for column in columns]


def figures(cells: Cells, side: int, weights: Floats) -> dict[str, Floats]:
    r"""Compute the accuracies from counts of cells.

    - accuracy: correct / n.
    - balanced accuracy: mean over the labels present of recall = correct / support (Brodersen et al.,
      2010); a label that no item has does not count.
    - mean family balanced accuracy: plain mean over families of the balanced accuracy within each.
    - macro F1: mean over the labels that occur as label or choice of 2 TP / (support + chosen), the
      convention of scikit-learn's ``f1_score(average="macro")``.

    Args:
        cells: the items.
        side: which run.
        weights: shape (resamples, cells), how many items each cell holds.

    Returns:
        Per figure an array (resamples,); NaN where it is not defined.
    """
    chosen = cells.chosen[side]
    right = chosen == cells.gold
    everything = np.ones(len(right), dtype=np.bool_)
    drawn = np.ascontiguousarray(weights.T)  # a row a cell: sums over cells run along memory
    with np.errstate(invalid="ignore", divide="ignore"):
        result = {
            "accuracy": _held(drawn, [right])[0] / drawn.sum(axis=0),
            "balanced_accuracy": _balanced(cells.gold, right, drawn, everything),
            "mean_family_balanced_accuracy": _by_family(cells, right, drawn),
            "macro_f1": _macro_f1(cells.gold, chosen, drawn),
        }
    return result


def _held(drawn: Floats, masks: Sequence[NDArray[np.bool_]]) -> list[Floats]:
    """Count the items in sets of cells: per set an array (resamples,). Exact, since counts are whole."""
    # Not as a product of matrices: the threads of a BLAS would compete with those of the slices.
    return [drawn[mask].sum(axis=0) for mask in masks]


def _balanced(gold: _Ints, right: NDArray[np.bool_], drawn: Floats, inside: NDArray[np.bool_]) -> Floats:
    masks = [inside & (gold == label) for label in np.unique(gold[inside])]
    supports, hits = _held(drawn, masks), _held(drawn, [mask & right for mask in masks])
    total = np.zeros(drawn.shape[1])
    present = np.zeros(drawn.shape[1])
    for support, hit in zip(supports, hits, strict=True):
        total += np.where(support > 0, hit / support, 0.0)
        present += support > 0
    return total / present


def _by_family(cells: Cells, right: NDArray[np.bool_], drawn: Floats) -> Floats:
    families = np.unique(cells.family[cells.family >= 0])
    values = [_balanced(cells.gold, right, drawn, cells.family == family) for family in families]
    if not values:
        return np.full(drawn.shape[1], np.nan)
    # A family that a resample does not hold has no balanced accuracy there.
    stacked = np.asarray(values)
    known = ~np.isnan(stacked)
    return np.asarray(np.where(known, stacked, 0.0).sum(axis=0) / known.sum(axis=0))


def _macro_f1(gold: _Ints, chosen: _Ints, drawn: Floats) -> Floats:
    labels = np.union1d(gold, chosen[chosen >= 0])
    supports = _held(drawn, [gold == label for label in labels])
    choices = _held(drawn, [chosen == label for label in labels])
    hits = _held(drawn, [(gold == label) & (chosen == label) for label in labels])
    total = np.zeros(drawn.shape[1])
    present = np.zeros(drawn.shape[1])
    for support, choice, hit in zip(supports, choices, hits, strict=True):
        size = support + choice
        total += np.where(size > 0, 2 * hit / size, 0.0)
        present += size > 0
    return total / present


@dataclass(frozen=True)
class Figure:
    """A number with its interval."""

    value: float
    """The estimate."""
    low: float | None
    """Lower end; None where no interval can be given."""
    high: float | None
    """Upper end."""
    method: str
    """How the interval was made."""

    def to_dict(self) -> dict[str, Any]:
        """Return value, low, high and method."""
        return {"value": self.value, "low": self.low, "high": self.high, "method": self.method}


@dataclass(frozen=True)
class Accuracy:
    """How often a run is right, over the labelled items of one slice."""

    n: int
    """Labelled items."""
    correct: int
    """Items whose choice is the label."""
    figures: Mapping[str, Figure | None]
    """accuracy, balanced_accuracy, mean_family_balanced_accuracy, macro_f1; None where undefined."""
    recall: Mapping[str, Figure | None]
    """Recall per option that occurs as label or choice; None where no item has that label."""
    support: Mapping[str, int]
    """Items per label."""
    confusion: Mapping[str, Mapping[str, int]]
    """Label to choice to count; items without a decision under the choice ``(none)``."""

    def to_dict(self) -> dict[str, Any]:
        """Return the figures in the shape of a report."""
        return {
            "correct": self.correct,
            **{name: figure and figure.to_dict() for name, figure in self.figures.items()},
            "recall": {name: figure and figure.to_dict() for name, figure in self.recall.items()},
            "support": dict(self.support),
            "confusion": {label: dict(row) for label, row in self.confusion.items()},
        }


NO_CHOICE = "(none)"
"""Stands for the choice of an item without a usable decision."""


def accuracy(cells: Cells, how: Resampling) -> Accuracy:
    """Measure the accuracy of one run on one slice.

    Args:
        cells: the slice's items, sorted with one side.
        how: options of the bootstrap.

    Returns:
        The figures: accuracy and recalls with Wilson intervals, the others with a percentile bootstrap
        over groups; where every resample is equal (nothing or everything is correct) the bootstrap says
        nothing, and the interval comes from the recalls' Wilson intervals instead (square-and-add).
    """
    counts = cells.counts
    n = int(counts.sum())
    chosen = cells.chosen[0]
    right = int(counts[0, chosen == cells.gold].sum())
    names = _occurring(cells, chosen)
    support = {name: int(counts[0, cells.gold == number].sum()) for name, number in names.items()}
    hits = {
        name: int(counts[0, (cells.gold == number) & (chosen == number)].sum())
        for name, number in names.items()
    }
    values = figures(cells, 0, counts) if n else {}
    draws = figures(cells, 0, cells.resampled(how)) if n else {}
    measured = {name: _figure(cells, name, values, draws, how) for name in FIGURES}
    measured["accuracy"] = _wilson(right, n, how.level)
    return Accuracy(
        n=n,
        correct=right,
        figures=measured,
        recall={name: _wilson(hits[name], support[name], how.level) for name in names},
        support=support,
        confusion=_confusion(cells, counts[0], names),
    )


def _occurring(cells: Cells, chosen: _Ints) -> dict[str, int]:
    numbers = np.union1d(cells.gold, chosen[chosen >= 0]).tolist()
    return {cells.options[number]: number for number in numbers}


def _confusion(cells: Cells, counts: Floats, names: Mapping[str, int]) -> dict[str, dict[str, int]]:
    table: dict[str, dict[str, int]] = {name: {} for name in names}
    for gold, choice, count in zip(
        cells.gold.tolist(), cells.chosen[0].tolist(), counts.tolist(), strict=True
    ):
        row = table[cells.options[gold]]
        name = cells.options[choice] if choice >= 0 else NO_CHOICE
        row[name] = row.get(name, 0) + int(count)
    order = [*names, NO_CHOICE]
    return {label: {name: row[name] for name in order if name in row} for label, row in table.items()}


def _wilson(successes: int, n: int, level: float) -> Figure | None:
    interval = wilson(successes, n, level)
    return None if interval is None else Figure(interval.value, interval.low, interval.high, "wilson")


def _figure(
    cells: Cells, name: str, values: Mapping[str, Floats], draws: Mapping[str, Floats], how: Resampling
) -> Figure | None:
    if not values or np.isnan(values[name][0]):
        return None
    value = float(values[name][0])
    known = draws[name][~np.isnan(draws[name])]
    if len(known) and np.ptp(known) > _STILL:
        interval = percentile_interval(value, known, how.level)
        return Figure(value, interval.low, interval.high, "bootstrap")
    weights = recall_weights(cells, name)
    if weights is None:
        return Figure(value, None, None, "none: every resample is equal")
    counts = cells.counts[0]
    parts = [
        _known(
            wilson(
                int(counts[inside & (cells.chosen[0] == cells.gold)].sum()),
                int(counts[inside].sum()),
                how.level,
            )
        )
        for inside, _ in weights
    ]
    interval = mover(parts, [weight for _, weight in weights])
    return Figure(value, interval.low, interval.high, "wilson, square-and-add")


def _known(interval: Interval | None) -> Interval:
    if interval is None:
        raise ValueError("a stratum without items has no interval")
    return interval


def recall_weights(cells: Cells, name: str) -> list[tuple[NDArray[np.bool_], float]] | None:
    """Write a figure as a weighted sum of recalls.

    Args:
        cells: the items.
        name: one of FIGURES.

    Returns:
        Per stratum of items the mask over cells and the weight of its recall; None where the figure is
        no such sum (macro F1).
    """
    if name == "accuracy":
        return [(np.ones(len(cells.gold), dtype=np.bool_), 1.0)]
    if name == "balanced_accuracy":
        labels = np.unique(cells.gold)
        return [(cells.gold == label, 1 / len(labels)) for label in labels]
    if name == "mean_family_balanced_accuracy":
        families = np.unique(cells.family[cells.family >= 0])
        return [
            ((cells.family == family) & (cells.gold == label), 1 / (len(families) * len(labels)))
            for family in families
            for labels in [np.unique(cells.gold[cells.family == family])]
            for label in labels
        ]
    return None


def accuracy_deltas(cells: Cells, how: Resampling) -> dict[str, Figure | None]:
    """Measure candidate minus reference for every accuracy figure, on one slice.

    Both sides are resampled together (a paired bootstrap over groups, stratified by family). Where every
    resample is equal, in particular where no item changed between right and wrong, the bootstrap has no
    width; the interval then combines the Wilson intervals of the shares gained and lost by
    square-and-add (Newcombe 1998; Zou and Donner 2008).

    Args:
        cells: the slice's items, sorted with two sides: reference, candidate.
        how: options of the bootstrap.

    Returns:
        Per figure the delta with its interval, None where undefined.
    """
    counts = cells.counts
    if not counts.sum():
        return dict.fromkeys(FIGURES)
    drawn = cells.resampled(how)
    reference, candidate = (figures(cells, side, counts) for side in (0, 1))
    drawn_reference, drawn_candidate = (figures(cells, side, drawn) for side in (0, 1))
    deltas: dict[str, Figure | None] = {}
    for name in FIGURES:
        value = float(candidate[name][0] - reference[name][0])
        if np.isnan(value):
            deltas[name] = None
            continue
        draws = drawn_candidate[name] - drawn_reference[name]
        known = draws[~np.isnan(draws)]
        if len(known) and np.ptp(known) > _STILL:
            interval = percentile_interval(value, known, how.level)
            deltas[name] = Figure(value, interval.low, interval.high, "paired bootstrap")
        else:
            deltas[name] = _still_delta(cells, name, value, counts[0], how)
    return deltas


def _still_delta(cells: Cells, name: str, value: float, counts: Floats, how: Resampling) -> Figure:
    weights = recall_weights(cells, name)
    if weights is None:
        return Figure(value, None, None, "none: every resample is equal")
    before, after = cells.chosen[0] == cells.gold, cells.chosen[1] == cells.gold
    parts: list[Interval] = []
    signed: list[float] = []
    for inside, weight in weights:
        n = int(counts[inside].sum())
        for moved, sign in ((after & ~before, 1.0), (before & ~after, -1.0)):
            parts.append(_known(wilson(int(counts[inside & moved].sum()), n, how.level)))
            signed.append(sign * weight)
    interval = mover(parts, signed)
    return Figure(value, interval.low, interval.high, "wilson, square-and-add")


def chance(decisions: Decisions, items: Places | None = None) -> float | None:
    """Return the accuracy of guessing: the mean of 1 / (number of options) over the labelled items."""
    labels = decisions.labels
    sizes = np.asarray([len(options) for options in labels.layouts], dtype=np.float64)[labels.layout]
    keep = decisions.gold >= 0
    chosen = sizes[keep] if items is None else sizes[items][keep[items]]
    return float((1 / chosen).mean()) if len(chosen) else None


def by_position(decisions: Decisions, level: float) -> dict[str, dict[str, Any]]:
    """Measure the accuracy by the letter position of the label, which shows a position bias.

    Args:
        decisions: a run on labelled items.
        level: level of the Wilson intervals.

    Returns:
        Per letter (A is the first option in prompt order): `n` items with their label there, `chosen`
        items with their choice there, `accuracy` of those n.
    """
    result: dict[str, dict[str, Any]] = {}
    for place in range(decisions.p.shape[1]):
        here = decisions.gold == place
        chosen = int(np.count_nonzero((decisions.choice == place) & (decisions.gold >= 0)))
        if not here.any() and not chosen:
            continue
        figure = _wilson(int(decisions.correct[here].sum()), int(here.sum()), level)
        result[position_name(place)] = {
            "n": int(here.sum()),
            "chosen": chosen,
            "accuracy": figure and figure.to_dict(),
        }
    return result


def position_name(place: int) -> str:
    """Return the letter of a place in prompt order (A to Z, then 27, 28, ...)."""
    return chr(ord("A") + place) if place < 26 else str(place + 1)
