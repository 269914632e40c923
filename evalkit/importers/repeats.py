"""Series and repeats of a recording: one is chosen, or each gets a run of its own; ids become unique."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from evalkit.errors import InputError, Problem, UsageError
from evalkit.importers.checked import Decision, Remarks
from evalkit.importers.records import ImportOptions
from evalkit.outcome import Notice


def pick_series(decisions: Sequence[Decision], wanted: Mapping[str, str]) -> list[Decision]:
    """Keep the decisions of the chosen filter, provider or prompt.

    Args:
        decisions: all of them.
        wanted: what was chosen, by the option that chooses it.

    Raises:
        UsageError: a choice is needed and was not made, or nothing of that name is there.
    """
    kept = list(decisions)
    known = list(dict.fromkeys(option for decision in decisions for option in decision.series))
    if unknown := [option for option in wanted if option not in known]:
        raise UsageError(f"{unknown[0]} means nothing for this format")
    for option in known:
        present = list(dict.fromkeys(decision.series.get(option, "") for decision in kept))
        chosen = wanted.get(option)
        if chosen is None and len(present) > 1:
            raise UsageError(
                f"the file holds several series ({', '.join(present)}): choose one with {option}"
            )
        if chosen is not None and chosen not in present:
            raise UsageError(f"{option} {chosen}: the file has {', '.join(present)}")
        kept = [decision for decision in kept if chosen in (None, decision.series.get(option))]
    return kept


@dataclass
class Repeat:
    """The decisions of one repeat, one an item."""

    decisions: list[Decision] = field(default_factory=list)
    """The decisions, in the order of their items' first record."""
    remarks: Remarks = field(default_factory=Remarks)
    """What was merged, and what single decisions had to say."""


def by_repeat(decisions: Sequence[Decision], options: ImportOptions) -> dict[int, Repeat]:
    """Sort decisions into repeats and make ids unique within each.

    Args:
        decisions: in file order.
        options: whether repeats are wanted, or one of them.

    Returns:
        Number of the repeat to its decisions; without a wish for repeats, one entry 1 with all.

    Raises:
        UsageError: the repeat that was asked for is not there.
        InputError: two decisions of one item (and repeat) disagree.
    """
    if not options.repeats and options.epoch is None:
        return {1: _unique(decisions)}
    numbered: dict[int, list[Decision]] = {}
    for number, decision in _numbered(decisions):
        numbered.setdefault(number, []).append(decision)
    if options.epoch is not None:
        if options.epoch not in numbered:
            there = ", ".join(map(str, sorted(numbered)))
            raise UsageError(f"--epoch {options.epoch}: the file has the epochs {there}")
        return {options.epoch: _unique(numbered[options.epoch])}
    return {number: _unique(numbered[number]) for number in sorted(numbered)}


def _numbered(decisions: Sequence[Decision]) -> Iterable[tuple[int, Decision]]:
    """Number the repeats of each item: as recorded, else in file order, failed attempts left out."""
    items: dict[str, list[Decision]] = {}
    for decision in decisions:
        items.setdefault(decision.id, []).append(decision)
    for found in items.values():
        usable = [decision for decision in found if decision.usable]
        counted = usable or found[-1:]
        if any(decision.repeat is not None for decision in found):
            counted = found
        for place, decision in enumerate(counted, 1):
            yield place if decision.repeat is None else decision.repeat, decision


def _unique(decisions: Sequence[Decision]) -> Repeat:
    items: dict[str, list[Decision]] = {}
    for decision in decisions:
        items.setdefault(decision.id, []).append(decision)
    problems, repeat = [], Repeat()
    for item, found in items.items():
        usable = [decision for decision in found if decision.usable]
        best = usable[0] if usable else found[-1]
        repeat.decisions.append(best)
        for notice in best.notices:
            repeat.remarks.add(item, notice)
        if any(not best.same_as(other) for other in usable[1:]):
            problems.append(_disagreement(item, usable))
        elif len(found) > 1:
            what = "a usable decision" if 0 < len(usable) < len(found) else "one of the equal decisions"
            repeat.remarks.add(item, Notice(f"recorded more than once; {what} is used"))
    if problems:
        raise InputError(problems)
    return repeat


def _disagreement(item: str, usable: Sequence[Decision]) -> Problem:
    places = [decision.place for decision in usable]
    repeats = [decision.repeat for decision in usable]
    where = [f"line {place.line}" if place.line else place.path or place.file for place in places]
    if all(repeat is not None for repeat in repeats):
        pairs = zip(repeats, where, strict=True)
        shown = ", ".join(f"epoch {repeat} at {place}" for repeat, place in pairs)
    else:
        shown = " and ".join(where)
    return places[1].problem(
        f"{item}: {len(usable)} different decisions ({shown})",
        "choose one with --epoch N, or import them as repeats with --repeats",
    )
