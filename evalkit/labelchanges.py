"""What changed between two versions of a label set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evalkit.errors import InputError, Problem
from evalkit.jsonl import Source, parse_object
from evalkit.labels import LabelSet


@dataclass(frozen=True)
class ChangedItem:
    """An item that both versions have, with other content."""

    id: str
    """The item."""
    fields: tuple[str, ...]
    """The fields that differ, in alphabetical order."""
    label_before: str | None
    """Its label in the old version."""
    label_after: str | None
    """Its label in the new version."""
    line: int
    """Its line in the new version's file."""


@dataclass(frozen=True)
class LabelChanges:
    """The difference between two label files."""

    added: tuple[str, ...]
    """Ids that only the new version has, in its order."""
    removed: tuple[str, ...]
    """Ids that only the old version has, in its order."""
    changed: tuple[ChangedItem, ...]
    """Items with other content, in the order of the new version."""
    unchanged: int
    """Items that are the same in both."""

    def to_dict(self) -> dict[str, Any]:
        """Return the changes as JSON values."""
        return {
            "added": list(self.added),
            "removed": list(self.removed),
            "changed": [vars(item) | {"fields": list(item.fields)} for item in self.changed],
            "unchanged": self.unchanged,
        }


def label_changes(old: LabelSet, new: LabelSet) -> LabelChanges:
    """Compare two label sets item by item, over every field of their files.

    Raises:
        InputError: one of them has no file to compare.
    """
    before, after = _items(old), _items(new)
    changed = [
        ChangedItem(
            item, _differing(before[item], row), before[item].get("label"), row.get("label"), row[_LINE]
        )
        for item, row in after.items()
        if item in before and _differing(before[item], row)
    ]
    common = sum(item in before for item in after)
    return LabelChanges(
        added=tuple(item for item in after if item not in before),
        removed=tuple(item for item in before if item not in after),
        changed=tuple(changed),
        unchanged=common - len(changed),
    )


_LINE = "\0line"  # no JSON file of ours has such a key


def _items(labels: LabelSet) -> dict[str, dict[str, Any]]:
    if labels.path is None:
        raise InputError(Problem("has no file to compare", labels.file))
    rows: dict[str, dict[str, Any]] = {}
    for block in Source(labels.path, labels.file).blocks():
        for number, raw in block.lines():
            row = parse_object(raw, labels.file, number)
            rows[row["id"]] = row | {_LINE: number}
    return rows


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    fields = (before.keys() | after.keys()) - {_LINE}
    return tuple(sorted(field for field in fields if before.get(field) != after.get(field)))
