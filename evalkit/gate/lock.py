"""The lock file: which run was accepted as the reference, and what it was worth then.

It is small on purpose and has one figure a line, so that a changed reference can be reviewed in a diff.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalkit import schema
from evalkit.catalog import Catalog, RunFile, read_run, shown
from evalkit.errors import ChecksumError, InputError, NotFoundError, Problem
from evalkit.gate.reports import COMPLETENESS
from evalkit.jsonl import dumps, read_document, write_atomic
from evalkit.labels import LabelSet
from evalkit.runs import Run
from evalkit.scoring import ScoreReport

LOCK_NAME = "evalkit.lock.json"
_DIGITS = 6
_FIGURES = ("accuracy", "balanced_accuracy", "mean_family_balanced_accuracy", "nll", "ece")
_REMEDY = "accept the reference anew: evalkit gate accept"


def accept(
    path: Path,
    key: str,
    found: RunFile,
    report: ScoreReport,
    *,
    only: Mapping[str, str] | None = None,
    reason: str = "",
) -> dict[str, Any]:
    """Record a run as the reference from now on.

    Args:
        path: the lock file; entries of other names in it are kept.
        key: the name of the entry.
        found: where the run is, and how it is named.
        report: its score.
        only: the restriction under which it was scored.
        reason: why it is accepted.

    Returns:
        The entry.

    Raises:
        InputError: an item has no usable decision, or the lock file that is there is damaged.
    """
    _refuse_incomplete(report)
    accepted = read_lock(path) if path.exists() else {}
    labels = report.labels
    entry: dict[str, Any] = {
        "label_set": {"name": labels.name, "version": labels.version, "sha256": labels.sha256},
        "reference": {"name": _name(found), "sha256": report.run.sha256},
        **({"only": dict(only)} if only else {}),
        "figures": figures(report),
        **({"reason": reason} if reason else {}),
    }
    accepted[key] = entry
    document = {"schema": "evalkit.lock/1", "accepted": {name: accepted[name] for name in sorted(accepted)}}
    write_atomic(path, dumps(document, indent=2) + "\n")
    return entry


def _name(found: RunFile) -> str:
    return f"{found.set_name}/{found.name}" if found.set_name else shown(found.path)


def _refuse_incomplete(report: ScoreReport) -> None:
    lacking = {name: report.counts[name] for name in COMPLETENESS if report.counts[name]}
    if lacking:
        what = ", ".join(f"{count} {name}" for name, count in lacking.items())
        raise InputError(
            Problem(
                f"cannot be a reference: of {report.counts['items']} items there are {what}",
                report.run.file,
                remedy="record them, or restrict the gate with --only",
            )
        )


def figures(report: ScoreReport) -> dict[str, Any]:
    """Return the figures of a score that a lock file keeps, rounded for reading."""
    found: dict[str, Any] = {"items": report.counts["items"], "ties": report.counts["ties"]}
    for name in _FIGURES:
        value = report.overall[name]
        value = value["value"] if isinstance(value, Mapping) else value
        if value is not None:
            found[name] = round(value, _DIGITS)
    if report.policy is not None:
        found["wrong_actions"] = report.policy["wrong_actions"]
        found["actions"] = dict(report.policy["actions"])
    return found


def read_lock(path: Path) -> dict[str, Any]:
    """Read the entries of a lock file.

    Raises:
        InputError: there is none, or it is damaged.
    """
    document = read_document(path, shown(path))
    problems = schema.check("lock", document, shown(path))
    if problems:
        raise InputError(problems)
    accepted: dict[str, Any] = document["accepted"]
    return accepted


def locked_reference(path: Path, key: str, labels: LabelSet, catalog: Catalog) -> Run:
    """Load the reference that a lock file names, and check that it is still the one that was accepted.

    Args:
        path: the lock file.
        key: the name of the entry.
        labels: the label set of the candidate.
        catalog: where the run's name is looked up.

    Raises:
        NotFoundError: no lock file, no such entry, or no such run.
        ChecksumError: the run or the label set is not the one that was accepted.
        InputError: the lock file or the run is damaged.
    """
    accepted = read_lock(path)
    if key not in accepted:
        known = ", ".join(accepted) or "none"
        raise NotFoundError(
            Problem(f"has no entry {key!r} (there are: {known})", shown(path), remedy=_REMEDY)
        )
    entry = accepted[key]
    ((found,), *_) = catalog.resolve([entry["reference"]["name"]])
    run = read_run(found)
    for what, now, then in (
        (run.file, run.sha256, entry["reference"]["sha256"]),
        (labels.file, labels.sha256, entry["label_set"]["sha256"]),
    ):
        if now != then:
            raise ChecksumError(
                Problem(f"sha256 is {now}, but {shown(path)} accepted {then}", what, remedy=_REMEDY)
            )
    return run
