"""The aligned table: one row an item of the label set, one column an option, in prompt order.

Everything that metrics need is here as plain arrays. Options are matched by id; a run may list them in
any order. The choice is the first option in prompt order among those with the highest probability.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalkit import rows
from evalkit.columns import Codes, LayoutTable
from evalkit.errors import AlignmentError, Problem, UsageError
from evalkit.labels import LabelSet
from evalkit.runs import Floats, Run

Bools = NDArray[np.bool_]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Slice:
    """The items that share a value of a field."""

    field: str
    """The field."""
    value: str
    """The value."""
    items: Places
    """The items, ascending."""


@dataclass(frozen=True)
class Decisions:
    """A run laid out along the items of a label set."""

    labels: LabelSet
    """The items."""
    run: Run
    """The run the decisions come from."""
    row: Places
    """Shape (items,): row of the run, -1 where the item is missing."""
    status: NDArray[np.uint8]
    """Shape (items,): OK, MISSING, INVALID or ERROR of :mod:`evalkit.rows`."""
    p: Floats
    """Shape (items, options): probabilities in prompt order; NaN where there are none."""
    low: Floats | None
    """Like p: lower bounds where a run has ranges (equal to p elsewhere); None where it has none."""
    high: Floats | None
    """Like p: upper bounds."""
    choice: NDArray[np.int32]
    """Shape (items,): place of the choice in prompt order, -1 where there is no usable decision."""
    tie: Bools
    """Shape (items,): several options share the top probability exactly."""

    @property
    def gold(self) -> NDArray[np.int32]:
        """Shape (items,): place of the label in prompt order, -1 where unlabelled."""
        return self.labels.gold

    @cached_property
    def usable(self) -> Bools:
        """Shape (items,): there is a decision."""
        return np.asarray(self.status == rows.OK)

    @cached_property
    def correct(self) -> Bools:
        """Shape (items,): the choice is the label; never where there is no decision."""
        return np.asarray((self.choice == self.gold) & (self.gold >= 0))

    @cached_property
    def has_points(self) -> Bools:
        """Shape (items,): every probability is known as a number."""
        return self.usable & ~np.isnan(self.p[:, 0])

    @cached_property
    def censored(self) -> Bools:
        """Shape (items,): at least one probability is known only as a range."""
        if self.low is None:
            return np.zeros(len(self.status), dtype=np.bool_)
        return self.usable & np.isnan(self.p[:, 0]) & ~np.isnan(self.low[:, 0])

    @cached_property
    def top(self) -> Floats:
        """Shape (items,): probability of the choice; NaN where it is not known as a number."""
        return np.where(self.has_points, _pick(self.p, self.choice), np.nan)

    def bounds_of(self, places: NDArray[np.int32]) -> tuple[Floats, Floats]:
        """Return lower and upper bounds of the probability of one option an item.

        Args:
            places: shape (items,), place of the option in prompt order, -1 for none.

        Returns:
            Two arrays (items,); NaN where no option was asked for or nothing is known of it.
        """
        if self.low is None or self.high is None:
            values = _pick(self.p, places)
            return values, values
        return _pick(self.low, places), _pick(self.high, places)

    @cached_property
    def choice_bounds(self) -> tuple[Floats, Floats]:
        """Lower and upper bounds of the probability of each item's choice, shape (items,) each."""
        return self.bounds_of(self.choice)

    def option(self, item: int, place: int) -> str | None:
        """Return the id of an item's option, None for place -1."""
        return self.labels.layouts[self.labels.layout[item]][place] if place >= 0 else None

    def reason(self, item: int) -> str:
        """Say why an item has no usable decision; empty where it has one."""
        return self.run.reasons.get(int(self.row[item]), "") if self.row[item] >= 0 else ""

    def line(self, item: int) -> int | None:
        """Return the line of an item's decision in the run file."""
        return int(self.run.lines[self.row[item]]) if self.row[item] >= 0 else None

    def subset(self, items: Places) -> Decisions:
        """Return the table with these items only (ascending places)."""
        return Decisions(
            self.labels.subset(items),
            self.run,
            self.row[items],
            self.status[items],
            self.p[items],
            None if self.low is None else self.low[items],
            None if self.high is None else self.high[items],
            self.choice[items],
            self.tie[items],
        )


def _pick(values: Floats, places: NDArray[np.int32]) -> Floats:
    picked = values[np.arange(len(values)), np.maximum(places, 0)]
    return np.where(places >= 0, picked, np.nan)


def align(labels: LabelSet, run: Run) -> Decisions:
    """Lay a run out along the items of a label set.

    Args:
        labels: the items and their options.
        run: the recorded decisions, in any order.

    Returns:
        One row an item; items that the run lacks have status MISSING.

    Raises:
        AlignmentError: the run has ids or option sets that the label set does not know.
    """
    row = _rows(labels, run)
    recorded = row >= 0
    width = max(len(options) for options in labels.layouts)
    order = _option_order(labels, run, row, width)
    status = np.full(len(labels), rows.MISSING, dtype=np.uint8)
    status[recorded] = run.status[row[recorded]]
    p = _reordered(run.p, row, order)
    low = high = None
    if run.low is not None and run.high is not None:
        low, high = _reordered(run.low, row, order), _reordered(run.high, row, order)
    usable = status == rows.OK
    choice, tie = _choices(p, usable)
    if low is not None:
        ranged = usable & np.isnan(p[:, 0]) & ~np.isnan(low[:, 0])
        choice = np.where(ranged, _choices(low, ranged)[0], choice)
    named = usable & np.isnan(p[:, 0])
    named[named] = run.choice[row[named]] >= 0
    if named.any():
        choice[named] = _named_choices(run, row, order, named)
    return Decisions(labels, run, row, status, p, low, high, choice, tie)


def _rows(labels: LabelSet, run: Run) -> Places:
    """Find each item's row in the run."""
    if len(run) == len(labels) and run.ids.equals(labels.ids):
        return np.arange(len(labels), dtype=np.int64)
    places = pc.index_in(run.ids, value_set=labels.ids)
    if places.null_count:
        unknown = np.flatnonzero(np.asarray(places.is_null())).tolist()
        remedy = "score against the label set the run was recorded on (--labels)"
        if len(unknown) == len(run):
            first = run.ids[unknown[0]].as_py()
            what = f"none of its {len(run)} ids is in the label set {labels.file} (the first is {first!r})"
            raise AlignmentError(Problem(what, run.file, remedy=remedy))
        raise AlignmentError(
            Problem(
                f"the id {run.ids[place].as_py()!r} is not in the label set {labels.file}",
                run.file,
                int(run.lines[place]),
                remedy=remedy,
            )
            for place in unknown
        )
    row = np.full(len(labels), -1, dtype=np.int64)
    row[np.asarray(places)] = np.arange(len(run))
    return row


def _option_order(labels: LabelSet, run: Run, row: Places, width: int) -> NDArray[np.int32] | None:
    """Per item, where the run has each option of the prompt; None where the order is the same everywhere.

    Shape (items, width): column in the run's row for each place in prompt order, -1 for none.
    """
    recorded = np.flatnonzero(row >= 0)
    pairs = labels.layout[recorded].astype(np.int64) * len(run.layouts) + run.layout[row[recorded]]
    distinct, first, which = np.unique(pairs, return_index=True, return_inverse=True)
    orders = np.full((len(distinct), width), -1, dtype=np.int32)
    problems: list[Problem] = []
    for place, pair in enumerate(distinct.tolist()):
        wanted, given = labels.layouts[pair // len(run.layouts)], run.layouts[pair % len(run.layouts)]
        if set(wanted) == set(given):
            orders[place, : len(wanted)] = [given.index(option) for option in wanted]
        elif given:
            item = int(recorded[first[place]])
            others = int(np.count_nonzero(which == place)) - 1
            problems.append(
                Problem(
                    f"{labels.ids[item].as_py()}: its options are {', '.join(given)} in the run and "
                    f"{', '.join(wanted)} in the label set"
                    + (f" (and {others} more items)" if others else ""),
                    run.file,
                    int(run.lines[row[item]]),
                    remedy=f"score it against the version it was recorded on ({labels.file} is another)",
                )
            )
    if problems:
        raise AlignmentError(problems)
    if all(_is_plain(order) for order in orders) and run.p.shape[1] == width:
        return None
    full = np.full((len(labels), width), -1, dtype=np.int32)
    full[recorded] = orders[which]
    return full


def _is_plain(order: NDArray[np.int32]) -> bool:
    return all(column in (place, -1) for place, column in enumerate(order.tolist()))


def _reordered(values: Floats, row: Places, order: NDArray[np.int32] | None) -> Floats:
    if order is None:
        if len(row) == len(values) and (row == np.arange(len(row))).all():
            return values
        return np.where((row >= 0)[:, None], values[row], np.nan)
    picked = values[row[:, None], np.maximum(order, 0)] if values.shape[1] else np.full(order.shape, np.nan)
    return np.where((order >= 0) & (row >= 0)[:, None], picked, np.nan)


def _choices(p: Floats, usable: Bools) -> tuple[NDArray[np.int32], Bools]:
    """Return the first option with the highest probability, and whether another one equals it."""
    best = np.where(np.isnan(p[:, 0]), -1.0, p[:, 0])
    choice = np.zeros(len(p), dtype=np.int32)
    count = np.ones(len(p), dtype=np.int32)
    for place in range(1, p.shape[1]):
        column = p[:, place]
        greater = column > best
        count += column == best
        count[greater] = 1
        choice[greater] = place
        best = np.where(greater, column, best)
    choice[~usable | (best < 0)] = -1
    return choice, usable & (count > 1) & (best >= 0)


def _named_choices(run: Run, row: Places, order: NDArray[np.int32] | None, items: Bools) -> NDArray[np.int32]:
    """Translate the choices that rows name without points into prompt order."""
    named = run.choice[row[items]]
    if order is None:
        return named
    return np.asarray(np.argmax(order[items] == named[:, None], axis=1), dtype=np.int32)


def unlabelled(runs: Sequence[Run]) -> LabelSet:
    """Make an item list without labels from the ids of runs, for a diff of production logs.

    The items stand in the order of the first run, followed by those that only a later one has; an
    item's options are in the order of the first run that names them.

    Args:
        runs: at least one run.

    Raises:
        AlignmentError: no run names the options of an item.
    """
    ids = runs[0].ids
    for run in runs[1:]:
        extra = run.ids.filter(pc.invert(pc.is_in(run.ids, value_set=ids)))
        ids = pa.concat_arrays([ids, extra])
    table = LayoutTable()
    layout = np.full(len(ids), -1, dtype=np.int32)
    for run in reversed(runs):
        own: Codes = np.asarray([table.number(options) for options in run.layouts], dtype=np.int32)
        places = np.asarray(pc.index_in(run.ids, value_set=ids))
        numbers = own[run.layout]
        known = np.asarray([bool(options) for options in run.layouts], dtype=np.bool_)[run.layout]
        layout[places[known]] = numbers[known]
    if (layout < 0).any():
        raise AlignmentError(
            Problem(
                f"{ids[int(place)].as_py()}: no run names its options",
                runs[0].file,
                remedy="name a label set",
            )
            for place in np.flatnonzero(layout < 0)
        )
    return LabelSet(
        name="(none)",
        version=None,
        path=None,
        file="(no label set)",
        sha256=None,
        headline="balanced_accuracy",
        policy=None,
        ids=ids,
        lines=np.zeros(len(ids), dtype=np.int64),
        layouts=table.layouts(),
        layout=layout,
        gold=np.full(len(ids), -1, dtype=np.int32),
        fields={},
        memberships={},
    )


def slices(labels: LabelSet, fields: Sequence[str]) -> dict[str, list[Slice]]:
    """Cut the items by fields.

    Args:
        labels: the items.
        fields: names of fields; `tags` puts an item into one slice for each of its tags.

    Returns:
        Per field its slices, in order of first appearance; items without a value are in none.

    Raises:
        UsageError: no item has such a field.
    """
    return {field: _field_slices(labels, field) for field in dict.fromkeys(fields)}


def _field_slices(labels: LabelSet, field: str) -> list[Slice]:
    if field in labels.memberships:
        return [Slice(field, value, items) for value, items in labels.memberships[field].items()]
    if field not in labels.fields:
        known = ", ".join([*labels.fields, *labels.memberships]) or "none"
        raise UsageError(
            f"no item of {labels.file} has a field {field!r} to slice by; fields that occur: {known}"
        )
    coded = labels.fields[field]
    order = np.argsort(coded.codes, kind="stable")
    starts = np.searchsorted(coded.codes[order], np.arange(len(coded.names) + 1))
    return [
        Slice(field, value, order[starts[code] : starts[code + 1]]) for code, value in enumerate(coded.names)
    ]


def default_fields(labels: LabelSet) -> tuple[str, ...]:
    """Return the fields that reports slice by unless told otherwise: part and family, where present."""
    return tuple(field for field in ("part", "family") if field in labels.fields)


def matching(labels: LabelSet, conditions: Mapping[str, str]) -> Places:
    """Return the items that have all the given values of fields, ascending.

    Raises:
        UsageError: no item has such a field, such a value, or all the values together.
    """
    keep = np.ones(len(labels), dtype=np.bool_)
    for field, value in conditions.items():
        found = {part.value: part.items for part in _field_slices(labels, field)}
        if value not in found:
            raise UsageError(
                f"no item of {labels.file} has {field}={value}; values that occur: {', '.join(found)}"
            )
        inside = np.zeros(len(labels), dtype=np.bool_)
        inside[found[value]] = True
        keep &= inside
    if not keep.any():
        together = " and ".join(f"{field}={value}" for field, value in conditions.items())
        raise UsageError(f"no item of {labels.file} has {together}")
    return np.flatnonzero(keep)
