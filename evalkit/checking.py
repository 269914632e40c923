"""Checking label sets and runs completely, every problem listed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evalkit.api import find_labels
from evalkit.cards import CARD_NAME
from evalkit.catalog import Catalog, RunFile, read_run, shown
from evalkit.decisions import align, unlabelled
from evalkit.errors import InputError, Problem
from evalkit.labels import LabelSet, check_label_file, load_label_file
from evalkit.notices import policy_notices
from evalkit.runs import check_run_file
from evalkit.scoring import counts, refuse_invalid


@dataclass(frozen=True)
class Checked:
    """What a check found."""

    sound: Sequence[str]
    """A line for everything that is sound."""
    notices: Sequence[str]
    """What was tolerated."""
    problems: Sequence[Problem]
    """What is wrong."""


def check_labels(catalog: Catalog, name: str) -> Checked:
    """Check a label set: its card, its checksums, every field of every item, in all versions.

    Args:
        catalog: where names are looked up.
        name: the set; with `@version` or as a file, that version only.
    """
    try:
        path, card, version = catalog.label_file(name)
    except InputError as error:
        return Checked((), (), error.problems)
    files = [(path, version)]
    if card is not None and not Path(name).is_file() and "@" not in name:
        files = [(card.folder / f"{key}.jsonl", key) for key in card.versions]
    sound: list[LabelSet] = []
    problems: list[Problem] = []
    for file, key in files:
        try:
            check_label_file(file, file=shown(file))
            labels = load_label_file(file, file=shown(file), card=card, version=key)
        except InputError as error:
            problems += error.problems
            continue
        if card is not None and key is not None and card.versions[key].items != len(labels):
            what = f"{key} has {len(labels)} items, but the card says {card.versions[key].items}"
            problems.append(Problem(what, shown(card.folder / CARD_NAME)))
        else:
            sound.append(labels)
    return Checked(
        [f"{labels.file}: ok, {_count(len(labels), 'item')}" for labels in sound],
        [notice for labels in sound for notice in (*labels.notices, *policy_notices(labels.policy, labels))],
        problems,
    )


def check_run(catalog: Catalog, file: RunFile, labels: str | None, *, strict: bool) -> Checked:
    """Check a run: every row, its sidecar, and the fit to its label set, where one is known.

    Args:
        catalog: where names are looked up.
        file: the run.
        labels: the label set; by default the one the run belongs to.
        strict: count an invalid decision as a problem.
    """
    try:
        check_run_file(file.path, file=shown(file.path))
        run = read_run(file)
        found = find_labels(catalog, run, labels)
        decisions = align(found or unlabelled([run]), run)
        if strict:
            refuse_invalid(decisions)
    except InputError as error:
        return Checked((), (), error.problems)
    kinds = counts(decisions)
    unusable = [f"{kinds[kind]} {kind}" for kind in ("missing", "invalid", "error") if kinds[kind]]
    fit = f" on {found.file}" if found else ", no label set covers them"
    line = f"{run.file}: ok, {_count(kinds['scored'], 'decision')}{fit}" + (
        f" ({', '.join(unusable)})" if unusable else ""
    )
    return Checked([line], run.notices, [])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
