"""What changed between two versions of a label set."""

from __future__ import annotations

import pytest

from evalkit.decisions import unlabelled
from evalkit.errors import InputError
from evalkit.labelchanges import ChangedItem, label_changes
from tests.conftest import Maker


def test_changes_name_fields_labels_and_lines(make: Maker) -> None:
    old = make.labels(
        [Maker.item("same", label="A"), Maker.item("gone"), Maker.item("turned", label="A", evidence="x")]
    )
    new = make.labels(
        [Maker.item("new"), Maker.item("turned", label="B", evidence="y"), Maker.item("same", label="A")]
    )
    found = label_changes(old, new)
    assert (found.added, found.removed, found.unchanged) == (("new",), ("gone",), 1)
    assert found.changed == (ChangedItem("turned", ("evidence", "label"), "A", "B", 2),)


def test_changes_as_dict_are_json_values(make: Maker) -> None:
    labels = make.labels([Maker.item("q", label="A")])
    other = make.labels([Maker.item("q", label="B")])
    assert label_changes(labels, other).to_dict() == {
        "added": [],
        "removed": [],
        "changed": [{"id": "q", "fields": ["label"], "label_before": "A", "label_after": "B", "line": 1}],
        "unchanged": 0,
    }


def test_changes_of_a_set_with_itself_are_none(make: Maker) -> None:
    labels = make.labels([Maker.item("q", label="A")])
    found = label_changes(labels, labels)
    assert (found.added, found.removed, found.changed, found.unchanged) == ((), (), (), 1)


def test_changes_of_items_without_a_file_are_refused(make: Maker) -> None:
    labels = unlabelled([make.run([Maker.row("q", {"A": 0.5, "B": 0.5})])])
    with pytest.raises(InputError, match="has no file to compare"):
        label_changes(labels, labels)
