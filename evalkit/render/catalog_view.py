"""Lists and descriptions of label sets and runs as documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evalkit import rows
from evalkit.cards import Card
from evalkit.labelchanges import LabelChanges
from evalkit.labels import LabelSet
from evalkit.lint import Finding
from evalkit.render.document import Document, Table
from evalkit.render.numbers import NONE, figure, plural
from evalkit.runs import Run
from evalkit.scoring import ScoreReport


def label_sets(cards: Sequence[tuple[str, Card]]) -> Document:
    """List label sets."""
    table = Table(
        "",
        ["label set", "version", "items", "language", "licence", "title"],
        [
            [
                name,
                card.default,
                str(card.versions[card.default].items),
                ", ".join(card.languages),
                card.license,
                card.title,
            ]
            for name, card in cards
        ],
        left=6,
    )
    return Document("Label sets", [] if cards else ["No label set was found."], [table] if cards else [])


def label_set(labels: LabelSet, card: Card | None) -> Document:
    """Describe a label set."""
    counts = label_counts(labels)
    tables = [
        Table(
            "Versions",
            ["version", "items", "released", "sha256", "changes"],
            [
                [
                    version.name + (" (default)" if card and version.name == card.default else ""),
                    str(version.items),
                    version.released,
                    version.sha256[:12],
                    version.changes,
                ]
                for version in (card.versions.values() if card else ())
            ],
            left=5,
        ),
        Table("Labels", ["label", "items"], [[name, str(count)] for name, count in counts.items()]),
        Table(
            "Fields",
            ["field", "values"],
            [[name, field_summary(coded.names)] for name, coded in labels.fields.items()]
            + [[name, field_summary(tuple(values))] for name, values in labels.memberships.items()],
            left=2,
        ),
    ]
    if labels.policy is not None:
        rules = [[rule.option, repr(rule.at_least), rule.action] for rule in labels.policy.rules]
        tables.append(
            Table(
                "Policy",
                ["option", "at least", "action"],
                rules,
                left=3,
                note=f"otherwise {labels.policy.default}",
            )
        )
    version = f"@{labels.version}" if labels.version else ""
    summary = f"{plural(len(labels), 'item')} in {labels.file}, headline {labels.headline.replace('_', ' ')}."
    return Document(f"{labels.name}{version}", [summary], [table for table in tables if table.rows])


def label_counts(labels: LabelSet) -> dict[str, int]:
    """Count the items per label, those without one under ``(unlabelled)``."""
    pairs, counts = np.unique(np.stack([labels.layout, labels.gold]), axis=1, return_counts=True)
    found: dict[str, int] = {}
    for (layout, gold), count in zip(pairs.T.tolist(), counts.tolist(), strict=True):
        name = labels.layouts[layout][gold] if gold >= 0 else "(unlabelled)"
        found[name] = found.get(name, 0) + count
    return dict(sorted(found.items()))


def field_summary(names: Sequence[str], shown: int = 8) -> str:
    """Name the first values of a field."""
    more = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {more} more" if more > 0 else "")


def run_list(entries: Sequence[Mapping[str, Any]]) -> Document:
    """List runs."""
    columns = ["run", "label set", "model", "quantization", "runtime", "file"]
    table = Table(
        "", columns, [[str(entry[column] or NONE) for column in columns] for entry in entries], left=6
    )
    return Document("Runs", [] if entries else ["No run was found."], [table] if entries else [])


def run(found: Run) -> Document:
    """Describe a run."""
    counts = status_counts(found)
    tables = [
        Table("Decisions", ["status", "rows"], [[name, str(count)] for name, count in counts.items()]),
        Table("Sidecar", ["what", "value"], [[name, value] for name, value in _flat(found.meta)], left=2),
    ]
    models = found.distinct("model")
    answered = f" Answered by {', '.join(models)}." if models else ""
    return Document(
        found.name,
        [f"{plural(len(found), 'decision')} in {found.file}, sha256 {found.sha256[:12]}.{answered}"],
        [table for table in tables if table.rows],
        found.notices,
    )


def status_counts(found: Run) -> dict[str, int]:
    """Count the rows of a run per status."""
    counts = np.bincount(found.status, minlength=len(rows.STATUS_NAMES)).tolist()
    return {name: count for name, count in zip(rows.STATUS_NAMES, counts, strict=True) if name != "missing"}


def _flat(value: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for key, entry in value.items():
        if isinstance(entry, Mapping):
            pairs += _flat(entry, f"{prefix}{key}.")
        else:
            pairs.append((f"{prefix}{key}", str(entry)))
    return pairs


def with_scores(document: Document, names: Sequence[str], scores: Sequence[ScoreReport]) -> Document:
    """Add what a run scores on both versions."""
    table = Table(
        f"{scores[0].run.name} on both",
        ["", *names],
        [
            ["right", *(f"{report.overall['correct']} of {report.overall['labelled']}" for report in scores)],
            [
                scores[0].labels.headline.replace("_", " "),
                *(figure(report.overall[report.labels.headline]) for report in scores),
            ],
        ],
    )
    return replace(document, tables=[*document.tables, table])


def lint(found: Sequence[tuple[LabelSet, Sequence[Finding]]]) -> Document:
    """Show what makes label sets weak."""
    table = Table(
        "",
        ["label set", "check", "finding", "items"],
        [
            [labels.file, finding.kind, finding.what, field_summary(finding.items) or NONE]
            for labels, findings in found
            for finding in findings
        ],
        left=4,
    )
    summary = f"{plural(len(table.rows), 'finding')} in {plural(len(found), 'label set')}."
    return Document("Weaknesses of label sets", [summary], [table] if table.rows else [])


def changes(old: str, new: str, found: LabelChanges) -> Document:
    """Show what changed between two versions of a label set."""
    relabelled = [item for item in found.changed if item.label_before != item.label_after]
    summary = (
        f"{len(found.added)} added, {len(found.removed)} removed, {len(found.changed)} changed "
        f"({len(relabelled)} of them with another label), {found.unchanged} unchanged."
    )
    tables = [
        Table(
            "Changed items",
            ["id", "line", "fields", "label before", "label now"],
            [
                [
                    item.id,
                    str(item.line),
                    ", ".join(item.fields),
                    item.label_before or NONE,
                    item.label_after or NONE,
                ]
                for item in found.changed
            ],
            left=5,
        ),
        Table("Added", ["id"], [[item] for item in found.added]),
        Table("Removed", ["id"], [[item] for item in found.removed]),
    ]
    return Document(f"{old} -> {new}", [summary], [table for table in tables if table.rows])
