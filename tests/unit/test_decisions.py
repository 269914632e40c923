"""The aligned table: one row an item, one column an option, in prompt order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit import rows
from evalkit.decisions import Decisions, align, default_fields, matching, slices, unlabelled
from evalkit.errors import AlignmentError, UsageError

if TYPE_CHECKING:
    from tests.conftest import Maker

NAN = math.nan


def table(decisions: Decisions) -> list[list[float]]:
    return [[float(value) for value in row] for row in decisions.p]


def choices(decisions: Decisions) -> list[str | None]:
    return [decisions.option(item, int(place)) for item, place in enumerate(decisions.choice)]


def refused(make: Maker, items: list[dict[str, Any]], records: list[dict[str, Any]]) -> str:
    with pytest.raises(AlignmentError) as caught:
        make.aligned(items, records)
    return str(caught.value)


# align


def test_options_are_matched_by_id_and_items_in_their_own_order(make: Maker) -> None:
    decisions = make.aligned(
        [
            make.item("a", "AB", "A"),
            make.item("b", "XYZ", "Z"),
            make.item("c", "BA", "A"),
            make.item("d", "AB"),
        ],
        [
            make.row("c", {"A": 0.25, "B": 0.75}),
            make.row("b", {"Z": 0.5, "X": 0.2, "Y": 0.3}),
            make.row("a", {"B": 0.1, "A": 0.9}),
        ],
    )
    np.testing.assert_array_equal(
        decisions.p, [[0.9, 0.1, NAN], [0.2, 0.3, 0.5], [0.75, 0.25, NAN], [NAN, NAN, NAN]]
    )
    assert choices(decisions) == ["A", "Z", "B", None]
    assert decisions.row.tolist() == [2, 1, 0, -1]
    assert decisions.status.tolist() == [rows.OK, rows.OK, rows.OK, rows.MISSING]
    assert decisions.gold.tolist() == [0, 2, 1, -1]
    assert decisions.correct.tolist() == [True, True, False, False]
    assert decisions.usable.tolist() == [True, True, True, False]
    np.testing.assert_array_equal(decisions.top, [0.9, 0.5, 0.75, NAN])
    assert [decisions.line(item) for item in range(4)] == [3, 2, 1, None]
    assert not decisions.tie.any()


def test_rows_in_the_order_of_the_items_are_taken_as_they_are(make: Maker) -> None:
    decisions = make.aligned(
        [make.item("a", "AB", "A"), make.item("b", "AB", "A")],
        [make.row("a", {"A": 0.9, "B": 0.1}), make.row("b", {"A": 0.4, "B": 0.6})],
    )
    assert table(decisions) == [[0.9, 0.1], [0.4, 0.6]]
    assert decisions.correct.tolist() == [True, False]


def test_unusable_rows_have_a_reason_and_no_choice(make: Maker) -> None:
    decisions = make.aligned(
        [make.item(name, "AB", "A") for name in "abcd"],
        [
            make.row("a", {"A": 95, "B": 5}),
            make.row("b", status="error", error="timeout"),
            make.row("c", {"A": 0.9, "B": 0.1}),
        ],
    )
    assert decisions.status.tolist() == [rows.INVALID, rows.ERROR, rows.OK, rows.MISSING]
    assert choices(decisions) == [None, None, "A", None]
    assert [decisions.reason(item) for item in range(4)] == [
        "probabilities add up to 100 (95, 5): they look like percent", "timeout", "", "",
    ]  # fmt: skip
    assert decisions.correct.tolist() == [False, False, True, False]
    assert decisions.has_points.tolist() == [False, False, True, False]


def test_run_without_any_option_is_aligned_as_unusable(make: Maker) -> None:
    decisions = make.aligned([make.item("a", "AB", "A")], [make.row("a", status="error", error="x")])
    assert decisions.status.tolist() == [rows.ERROR]
    assert table(decisions) == [[pytest.approx(NAN, nan_ok=True)] * 2]
    assert choices(decisions) == [None]


@pytest.mark.parametrize("order", ["AB", "BA"])
def test_tie_goes_to_the_first_option_in_prompt_order(make: Maker, order: str) -> None:
    decisions = make.aligned(
        [make.item("a", "AB", "B"), make.item("b", "BA", "B"), make.item("c", "AB", "B")],
        [make.row(name, dict.fromkeys(order, 0.5)) for name in "ab"] + [make.row("c", {"B": 0.6, "A": 0.4})],
    )
    assert choices(decisions) == ["A", "B", "B"]
    assert decisions.tie.tolist() == [True, True, False]


def test_equal_probabilities_below_the_top_are_no_tie(make: Maker) -> None:
    decisions = make.aligned(
        [make.item("a", "ABC"), make.item("b", "ABC"), make.item("c", "ABC")],
        [
            make.row("a", {"A": 0.3, "B": 0.3, "C": 0.4}),
            make.row("b", {"A": 0.2, "B": 0.4, "C": 0.4}),
            make.row("c", {"A": 1 / 3, "B": 1 / 3, "C": 1 / 3}),
        ],
    )
    assert choices(decisions) == ["C", "B", "A"]
    assert decisions.tie.tolist() == [False, True, True]


@given(st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3).filter(any), min_size=1, max_size=8))
def test_choice_and_tie_are_those_of_plain_python(make: Maker, weights: list[list[int]]) -> None:
    values = [[weight / sum(row) for weight in row] for row in weights]
    decisions = make.aligned(
        [make.item(str(number), "ABC") for number in range(len(values))],
        [make.row(str(number), dict(zip("ABC", row, strict=True))) for number, row in enumerate(values)],
    )
    assert decisions.choice.tolist() == [row.index(max(row)) for row in table(decisions)]
    assert decisions.tie.tolist() == [row.count(max(row)) > 1 for row in table(decisions)]


@pytest.mark.parametrize("order", ["AB", "BA"])
def test_named_choice_is_translated_into_prompt_order(make: Maker, order: str) -> None:
    decisions = make.aligned(
        [make.item("a", "AB", "B"), make.item("b", "XYZ", "Z")],
        [
            make.row("a", option_ids=list(order), choice="B"),
            make.row("b", option_ids=list("XYZ"), choice="Y"),
        ],
    )
    assert choices(decisions) == ["B", "Y"]
    assert decisions.correct.tolist() == [True, False]
    assert decisions.has_points.tolist() == [False, False]
    assert decisions.censored.tolist() == [False, False]
    assert np.isnan(decisions.choice_bounds[0]).all()


@pytest.mark.parametrize("order", ["AB", "BA"])
def test_ranges_are_laid_out_in_prompt_order(make: Maker, order: str) -> None:
    decisions = make.aligned(
        [make.item("a", "AB", "A"), make.item("b", "AB", "A"), make.item("c", "AB", "A")],
        [
            make.row("a", option_ids=list(order), probability_range={"B": [0.85, 1]}),
            make.row("b", {"A": 0.7, "B": 0.3}),
        ],
    )
    assert choices(decisions) == ["B", "A", None]
    assert decisions.censored.tolist() == [True, False, False]
    assert decisions.has_points.tolist() == [False, True, False]
    low, high = decisions.choice_bounds
    np.testing.assert_allclose(low, [0.85, 0.7, NAN])
    np.testing.assert_allclose(high, [1.0, 0.7, NAN])
    low, high = decisions.bounds_of(decisions.gold)
    np.testing.assert_allclose(low, [0.0, 0.7, NAN], atol=1e-12)
    np.testing.assert_allclose(high, [0.15, 0.7, NAN])
    np.testing.assert_array_equal(decisions.top, [NAN, 0.7, NAN])


@pytest.mark.parametrize("order", ["AB", "BA"])
def test_equal_ranges_go_to_the_first_option_in_prompt_order(make: Maker, order: str) -> None:
    ranges = {"A": [0.5, 0.5], "B": [0.5, 0.5]}
    decisions = make.aligned(
        [make.item("a", "AB", "B")], [make.row("a", option_ids=list(order), probability_range=ranges)]
    )
    assert choices(decisions) == ["A"]


def test_ids_that_the_label_set_does_not_know_are_refused_each_with_its_line(make: Maker) -> None:
    message = refused(
        make,
        [make.item("a", "AB")],
        [make.row(name, {"A": 0.9, "B": 0.1}) for name in ("x", "a", "y")],
    )
    assert message.splitlines() == [
        f"run.jsonl:{line}: the id {name!r} is not in the label set labels.jsonl: "
        "score against the label set the run was recorded on (--labels)"
        for line, name in ((1, "x"), (3, "y"))
    ]


@pytest.mark.parametrize("options", ["ABC", "A", "AC", "ab"])
def test_other_option_sets_are_refused_with_both_named(make: Maker, options: str) -> None:
    values = dict.fromkeys(options, 1 / len(options))
    items = [make.item(name, "AB", "A") for name in "abc"]
    message = refused(
        make, items, [make.row("a", {"B": 1, "A": 0}), make.row("b", values), make.row("c", values)]
    )
    assert message == (
        f"run.jsonl:2: b: its options are {', '.join(options)} in the run and A, B in the label set "
        "(and 1 more items): score it against the version it was recorded on (labels.jsonl is another)"
    )


def test_every_kind_of_other_option_sets_is_named(make: Maker) -> None:
    items = [make.item("a", "AB"), make.item("b", "AB")]
    message = refused(make, items, [make.row("a", {"A": 1, "C": 0}), make.row("b", {"A": 1, "D": 0})])
    assert [line.split(": its")[0] for line in message.splitlines()] == ["run.jsonl:1: a", "run.jsonl:2: b"]


def test_subset_is_the_table_of_the_items_alone(make: Maker) -> None:
    items = [make.item("a", "AB", "A"), make.item("b", "AB", "B"), make.item("c", "BA", "A")]
    records = [
        make.row("b", option_ids=["A", "B"], probability_range={"A": [0.85, 1]}),
        make.row("c", {"A": 0.5, "B": 0.5}),
        make.row("a", status="error", error="x"),
    ]
    whole = make.aligned(items, records)
    part = whole.subset(np.asarray([1, 2]))
    assert part.labels.ids.to_pylist() == ["b", "c"]
    for name in ("status", "choice", "tie", "gold", "correct", "censored", "row"):
        assert getattr(part, name).tolist() == getattr(whole, name)[1:].tolist(), name
    np.testing.assert_array_equal(part.p, whole.p[1:])
    np.testing.assert_array_equal(part.choice_bounds, np.asarray(whole.choice_bounds)[:, 1:])
    assert [part.line(0), part.option(1, 0)] == [1, "B"]
    plain = make.aligned(items, [make.row("a", {"A": 1, "B": 0})]).subset(np.asarray([0]))
    assert (plain.low, plain.high) == (None, None)


# unlabelled


def test_unlabelled_items_are_those_of_both_runs_in_order(make: Maker) -> None:
    runs = [
        make.run(
            [
                make.row("b", {"B": 0.9, "A": 0.1}),
                make.row("a", status="error"),
                make.row("c", {"X": 1, "Y": 0}),
            ]
        ),
        make.run(
            [
                make.row("d", {"A": 0.9, "B": 0.1}),
                make.row("b", {"A": 1, "B": 0}),
                make.row("a", {"A": 1, "B": 0}),
            ]
        ),
    ]
    labels = unlabelled(runs)
    assert labels.ids.to_pylist() == list("bacd")
    assert [labels.layouts[number] for number in labels.layout] == [
        ("B", "A"),
        ("A", "B"),
        ("X", "Y"),
        ("A", "B"),
    ]
    assert not labels.labelled
    assert (labels.name, labels.version, labels.sha256, labels.policy) == ("(none)", None, None, None)
    assert choices(align(labels, runs[1])) == ["A", "A", None, "A"]


def test_unlabelled_item_whose_options_nobody_names_is_refused(make: Maker) -> None:
    runs = [make.run([make.row("a", {"A": 1, "B": 0}), make.row("b", status="error")])] * 2
    with pytest.raises(AlignmentError, match=r"run.jsonl: b: no run names its options: name a label set"):
        unlabelled(runs)


def test_unlabelled_runs_with_other_option_sets_do_not_fit(make: Maker) -> None:
    runs = [make.run([make.row("a", {"A": 1, option: 0})]) for option in "BC"]
    labels = unlabelled(runs)
    align(labels, runs[0])
    with pytest.raises(AlignmentError, match="its options are A, C in the run and A, B"):
        align(labels, runs[1])


# slices


ITEMS: list[dict[str, Any]] = [
    {"name": "a", "part": "p2", "family": "f", "tags": ["x", "y"]},
    {"name": "b", "part": "p1", "tags": ["y"]},
    {"name": "c", "family": "g"},
    {"name": "d", "part": "p2", "family": "f", "tags": []},
]


def cut(make: Maker, fields: list[str]) -> dict[str, dict[str, list[int]]]:
    labels = make.labels([make.item(**fields) for fields in ITEMS])
    return {
        field: {part.value: part.items.tolist() for part in parts}
        for field, parts in slices(labels, fields).items()
    }


def test_slices_come_in_order_of_appearance_without_the_items_that_have_no_value(make: Maker) -> None:
    assert cut(make, ["part", "family", "part"]) == {
        "part": {"p2": [0, 3], "p1": [1]},
        "family": {"f": [0, 3], "g": [2]},
    }


def test_slices_by_tags_put_an_item_into_one_for_each_tag(make: Maker) -> None:
    assert cut(make, ["tags"]) == {"tags": {"x": [0], "y": [0, 1]}}


def test_slices_by_a_field_that_no_item_has_are_a_usage_error(make: Maker) -> None:
    with pytest.raises(UsageError) as caught:
        cut(make, ["nope"])
    assert str(caught.value) == (
        "no item of labels.jsonl has a field 'nope' to slice by; fields that occur: part, family, tags"
    )
    with pytest.raises(UsageError, match="fields that occur: none"):
        slices(make.labels([make.item("a")]), ["part"])


def test_default_fields_are_part_and_family_where_present(make: Maker) -> None:
    assert default_fields(make.labels([make.item("a", family="f", part="p", variant="v")])) == (
        "part",
        "family",
    )
    assert default_fields(make.labels([make.item("a", family="f")])) == ("family",)
    assert default_fields(make.labels([make.item("a")])) == ()


def matched(make: Maker, **conditions: str) -> list[int]:
    places = matching(make.labels([make.item(**fields) for fields in ITEMS]), conditions)
    return [int(place) for place in places]


def test_matching_items_have_all_the_values(make: Maker) -> None:
    assert matched(make) == [0, 1, 2, 3]
    assert matched(make, part="p2") == [0, 3]
    assert matched(make, part="p2", tags="y") == [0]


def test_matching_nothing_is_a_usage_error_that_says_what_there_is(make: Maker) -> None:
    for conditions, expected in [
        ({"part": "p9"}, "no item of labels.jsonl has part=p9; values that occur: p2, p1"),
        ({"part": "p1", "family": "f"}, "no item of labels.jsonl has part=p1 and family=f"),
        ({"nope": "x"}, "no item of labels.jsonl has a field 'nope' to slice by"),
    ]:
        with pytest.raises(UsageError) as caught:
            matched(make, **conditions)
        assert str(caught.value).startswith(expected)
