"""What lint finds, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from evalkit.catalog import Catalog
from evalkit.errors import InputError
from evalkit.lint import Finding, lint
from tests.conftest import Maker

FILLER = (
    "The ferry to the island leaves at nine.",
    "Rain is expected in the hills on Tuesday.",
    "A new kiln was built behind the pottery.",
    "The orchard sold its apples by the crate.",
    "Two lamps in the corridor need new bulbs.",
    "Someone left a bicycle beside the fountain.",
    "Our library opens late in the winter term.",
    "The choir rehearses in the old granary now.",
    "Most tickets for the puppet show are gone.",
    "Fresh gravel covers the path to the mill.",
)


def _items(labels: str, **fields: Any) -> list[dict[str, Any]]:
    return [
        Maker.item(f"q{place}", "AB", label, evidence=FILLER[place % len(FILLER)], **fields)
        for place, label in enumerate(labels)
    ]


def _kinds(found: list[Finding]) -> list[str]:
    return [finding.kind for finding in found]


def test_lint_of_a_balanced_set_finds_nothing(make: Maker) -> None:
    assert lint(make.labels(_items("ABABABABAB"))) == []


def test_label_imbalance_is_counted(make: Maker) -> None:
    (found,) = lint(make.labels(_items("AAAAAAAAAB")))
    assert found.kind == "label balance"
    assert found.what == "labels are unbalanced: A 9, B 1"


def test_family_with_one_label_is_named(make: Maker) -> None:
    items = [item | {"family": "one" if place < 3 else "two"} for place, item in enumerate(_items("AAAAB"))]
    (found,) = lint(make.labels(items))
    assert found.what == "family one: every item has the label A"


def test_position_imbalance_is_seen_only_where_orders_vary(make: Maker) -> None:
    orders = ["AB", "BA"] * 5
    items = [
        Maker.item(f"q{place}", order, order[0], evidence=FILLER[place]) for place, order in enumerate(orders)
    ]
    (found,) = lint(make.labels(items))
    assert found.what == "letter positions of the label are unbalanced: A 10, B 0"


def test_near_duplicates_are_found_outside_a_group_only(make: Maker) -> None:
    text = "The committee met in March and approved the budget for the new bridge over the canal"
    pair = [
        Maker.item("a", "AB", "A", evidence=text + ".", group="x"),
        Maker.item("b", "AB", "B", evidence=text + "!", group="y"),
    ]
    (found,) = [finding for finding in lint(make.labels(pair)) if finding.kind == "near duplicates"]
    assert found.items == ("a", "b")
    together = [item | {"group": "x"} for item in pair]
    assert "near duplicates" not in _kinds(lint(make.labels(together)))


@pytest.mark.parametrize(
    "sentence",
    [
        "The text does not name anybody.",
        "文中没有提到任何人。",
        "本文只讲了家庭生活。",
        "nobody named graduates from any university here",
    ],
)
def test_conclusion_is_seen(make: Maker, sentence: str) -> None:
    options = [
        {"id": "A", "description": "somebody is named"},
        {"id": "B", "description": "nobody named graduates from any university"},
    ]
    items = [{"id": "q", "options": options, "label": "B", "evidence": f"A fair was held. {sentence}"}]
    assert ("q",) in [finding.items for finding in lint(make.labels(items)) if "conclusion" in finding.kind]


def test_contained_label_is_seen_as_a_whole_word_only(make: Maker) -> None:
    options = ["supported", "contradicted"]
    items = [
        Maker.item("said", options, "supported", evidence="The claim is Supported by the minutes."),
        Maker.item("part", options, "supported", evidence="It went unsupported for years."),
    ]
    (found,) = [finding for finding in lint(make.labels(items)) if finding.kind == "contains its label"]
    assert found.items == ("said",)


def test_group_over_parts_is_counted(make: Maker) -> None:
    items = [item | {"group": "g", "part": str(place)} for place, item in enumerate(_items("AB"))]
    (found,) = lint(make.labels(items))
    assert found.kind == "groups over parts"
    assert found.what.startswith("1 groups have items in several parts")


def test_length_as_give_away_has_its_auc(make: Maker) -> None:
    # Ten short and ten long texts: every long one is larger, so the AUC is 1.
    items = [
        Maker.item(
            f"q{place}", "AB", "AB"[place % 2], evidence=chr(97 + place) * (5 + place % 2 * 50 + place)
        )
        for place in range(20)
    ]
    found = [finding.what for finding in lint(make.labels(items)) if finding.kind == "length"]
    assert len(found) == 2
    assert "label A are shorter (AUC of the length 0.00" in found[0]
    assert "label B are longer (AUC of the length 1.00" in found[1]


def test_evidence_may_be_missing_or_structured(make: Maker) -> None:
    items = _items("ABABABABAB")
    items[0]["evidence"] = {"rows": [1, 2, 3]}
    items[1].pop("evidence")
    assert lint(make.labels(items)) == []


def test_lint_without_a_file_is_refused(make: Maker) -> None:
    from evalkit.decisions import unlabelled

    with pytest.raises(InputError, match="has no file to look at"):
        lint(unlabelled([make.run([Maker.row("q", {"A": 0.5, "B": 0.5})])]))


def test_first_version_of_graduate_18_lights_up_and_the_second_does_not() -> None:
    catalog = Catalog.at()
    first, second = (lint(catalog.labels(f"graduate-18@{version}")) for version in ("v1", "v2"))
    (told,) = [finding for finding in first if finding.kind == "states its conclusion"]
    assert len(told.items) >= 8
    assert "states its conclusion" not in _kinds(second)
