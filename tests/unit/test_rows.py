"""What one recorded row says: a usable decision, or why it is none."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.errors import InputError
from evalkit.rows import ERROR, INVALID, OK, SUM_TOLERANCE, Row, looks_like, read_row

AB = ("A", "B")


def read(**fields: Any) -> Row:
    return read_row({"id": "q", **fields}, "run.jsonl", 4)


def points(*values: Any, **fields: Any) -> Row:
    return read(option_ids=list("ABCDEFGH"[: len(values)]), probabilities=list(values), **fields)


def reason(row: Row) -> str:
    assert row.status == INVALID
    assert row.probabilities is None
    assert row.choice == -1
    assert math.isnan(row.mass)
    return row.reason


def refused(row: dict[str, Any]) -> str:
    with pytest.raises(InputError) as caught:
        read_row(row, "run.jsonl", 4)
    return str(caught.value)


# usable rows


def test_row_with_probabilities_is_usable() -> None:
    row = points(0.9, 0.1)
    assert (row.status, row.options, row.probabilities, row.choice) == (OK, AB, (0.9, 0.1), -1)
    assert math.isnan(row.mass)
    assert (row.reason, row.notice) == ("", "")


def test_row_keeps_the_recorded_mass() -> None:
    assert points(0.9, 0.1, allowed_token_mass=0.75).mass == 0.75


def test_row_with_probabilities_as_an_object_takes_its_options_from_it() -> None:
    row = read(probabilities={"B": 0.1, "A": 0.9})
    assert (row.options, row.probabilities) == (("B", "A"), (0.1, 0.9))


def test_row_with_object_and_option_ids_follows_the_option_ids() -> None:
    row = read(option_ids=["A", "B"], probabilities={"B": 0.1, "A": 0.9})
    assert (row.options, row.probabilities) == (AB, (0.9, 0.1))


def test_mass_below_one_is_renormalised_and_kept() -> None:
    row = points(0.5, 0.2, allowed_token_mass=0.99)
    assert row.probabilities == (0.5 / 0.7, 0.2 / 0.7)
    assert row.mass == pytest.approx(0.7, abs=1e-15)


@pytest.mark.parametrize("total", [1 - 0.9 * SUM_TOLERANCE, 1 + 0.9 * SUM_TOLERANCE])
def test_rounding_of_the_sum_is_left_as_it_is(total: float) -> None:
    row = points(total - 0.25, 0.25)
    assert row.probabilities == (total - 0.25, 0.25)
    assert math.isnan(row.mass)


def test_probability_above_one_by_rounding_counts_as_one() -> None:
    assert points(1 + 0.5 * SUM_TOLERANCE, 0).probabilities == (1.0, 0.0)


def test_whole_numbers_are_probabilities_too() -> None:
    assert points(0, 1).probabilities == (0.0, 1.0)


def test_choice_only_is_usable() -> None:
    row = read(option_ids=["A", "B"], choice="B")
    assert (row.status, row.options, row.choice, row.probabilities) == (OK, AB, 1, None)
    assert row.low is None
    assert row.high is None


@pytest.mark.parametrize(("choice", "odd"), [("A", False), ("B", True)])
def test_recorded_choice_beside_probabilities_is_only_checked(choice: str, odd: bool) -> None:
    row = points(0.6, 0.4, choice=choice)
    assert row.choice == -1
    assert ("the probabilities count" in row.notice) is odd


def test_recorded_choice_on_a_tie_is_not_odd() -> None:
    assert points(0.5, 0.5, choice="B").notice == ""


def test_empty_error_text_is_no_error() -> None:
    assert points(0.5, 0.5, error="").status == OK


def test_unknown_fields_are_ignored() -> None:
    assert points(0.5, 0.5, anything={"deep": [1, None]}).status == OK


# status and error


@pytest.mark.parametrize("status", ["missing_option", "invalid"])
def test_status_other_than_ok_makes_the_row_invalid(status: str) -> None:
    row = points(0.5, 0.5, status=status)
    assert reason(row) == f"recorded as {status}"
    assert row.options == AB


def test_status_with_an_error_text_gives_that_as_reason() -> None:
    assert reason(read(status="invalid", error="the answer was empty")) == "the answer was empty"


def test_status_error_is_an_error_with_its_text() -> None:
    row = points(0.5, 0.5, status="error", error="timeout")
    assert (row.status, row.reason, row.probabilities) == (ERROR, "timeout", None)


def test_status_error_without_text_says_so() -> None:
    assert read(status="error").reason == "error without a message"


@pytest.mark.parametrize("fields", [{}, {"status": None}, {"probabilities": None}])
def test_error_text_alone_is_an_error(fields: dict[str, Any]) -> None:
    row = read(error="timeout", option_ids=["A", "B"], **fields)
    assert (row.status, row.reason) == (ERROR, "timeout")


@pytest.mark.parametrize(
    "fields",
    [
        {"probabilities": [0.5, 0.5]},
        {"choice": "A"},
        {"probability_range": {"A": [0.6, 1]}},
        {"status": "ok"},
    ],
)
def test_error_text_beside_a_decision_is_a_contradiction(fields: dict[str, Any]) -> None:
    row = read(error="late", option_ids=["A", "B"], **fields)
    assert reason(row) == "holds both a decision and an error (late)"


# values that are no probabilities


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([None, 1.0], "a probability is null (null, 1.0)"),
        ([float("nan"), 0.5], "a probability is not finite (NaN, 0.5)"),
        ([float("inf"), 0.5], "a probability is not finite (Infinity, 0.5)"),
        ([10**400, 0], "a probability is not finite"),
        (["0.9", "0.1"], "write numbers without quotes"),
        (["95%", "5%"], "they look like percent"),
        (["0,95", "0,05"], "they look like numbers with a decimal comma"),
        ([0.9, "0.1"], 'probabilities are text (0.9, "0.1"): write numbers without quotes'),
        ([True, False], "probabilities are not numbers (true, false)"),
        ([[0.9], [0.1]], "probabilities are not numbers ([0.9], [0.1])"),
        ([95, 5], "add up to 100 (95, 5): they look like percent"),
        ([98.6, 0.1], "they look like percent"),
        ([100, 0, 0], "they look like percent"),
        ([-0.1, -2.4], "they look like log-probabilities"),
        ([0.0, -9999.0], "they look like log-probabilities"),
        ([2.5, -1.0], "a probability is negative (2.5, -1.0): they look like logits"),
        ([3.5, 1.0], "a probability is above 1 (3.5, 1.0): they look like logits or counts"),
        ([0.7, 0.6], "the listed probabilities sum to 1.3000, above 1 + 0.0001"),
        ([1, 2, 3, 4, 5], "(1, 2, 3, 4, ...)"),
        (["x" * 50, "y"], '("' + "x" * 20 + '..., "y")'),
    ],
)
def test_values_that_are_no_probabilities_are_recognised(values: list[Any], expected: str) -> None:
    assert expected in reason(points(*values))


def test_all_zero_is_no_decision() -> None:
    assert reason(points(0, 0.0)) == "all probabilities are 0: no option got any mass"


@pytest.mark.parametrize("order", [1, -1])
def test_values_are_judged_in_any_order(order: int) -> None:
    assert "not finite" in reason(points(*[float("nan"), 0.9][::order]))


@given(st.lists(st.floats(0, 1), min_size=2, max_size=5))
def test_values_are_fine_exactly_where_they_add_up_to_at_most_one(values: list[float]) -> None:
    total = math.fsum(values)
    assert (looks_like(values) == "") == (total <= 1 + SUM_TOLERANCE)


@given(
    st.lists(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=4)
        | st.lists(st.none(), max_size=1),
        min_size=2,
        max_size=5,
    )
)
def test_any_values_give_a_decision_or_a_reason(values: list[Any]) -> None:
    row = points(*values)
    assert row.status in (OK, INVALID)
    if row.status == OK:
        assert row.probabilities is not None
        assert math.fsum(row.probabilities) == pytest.approx(1, abs=SUM_TOLERANCE)
    else:
        assert row.reason


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"probabilities": [0.5, 0.5]}, "option_ids are missing"),
        ({"option_ids": None, "choice": "A"}, "option_ids are missing"),
        ({"option_ids": [], "probabilities": []}, "option_ids are missing"),
        ({"option_ids": ["A", "B"]}, "neither probabilities nor a choice were recorded"),
        ({"option_ids": ["A", "B"], "probabilities": None}, "neither probabilities nor a choice"),
        ({"option_ids": ["A", "B"], "choice": "C"}, "the choice 'C' is none of the options A, B"),
        ({"option_ids": ["A", "B"], "choice": "a"}, "the choice 'a' is none of the options A, B"),
        ({"option_ids": ["A", "B"], "probabilities": [1.0]}, "1 probabilities for 2 options"),
        ({"option_ids": ["A", "B"], "probabilities": [0.4, 0.3, 0.3]}, "3 probabilities for 2 options"),
        ({"option_ids": ["A"], "probabilities": [1.0]}, "a decision needs at least two options"),
        ({"option_ids": ["A", "B"], "probabilities": "0.5,0.5"}, "neither a list nor an object but str"),
        ({"option_ids": ["A", "B"], "probabilities": 0.5}, "neither a list nor an object but float"),
        (
            {"option_ids": ["A", "B"], "probabilities": {"A": 0.5, "C": 0.5}},
            "option_ids and probabilities name different options ('A', 'C')",
        ),
        ({"option_ids": ["A", "B"], "probabilities": {"A": 1.0}}, "name different options ('A')"),
        (
            {"option_ids": ["A", "B"], "probabilities": [0.5, 0.5], "probability_range": {"A": [0, 1]}},
            "holds both probabilities and probability_range",
        ),
    ],
)
def test_row_that_is_no_decision_says_why(fields: dict[str, Any], expected: str) -> None:
    assert expected in reason(read(**fields))


MASSES = [-0.1, 1.001, "1", True, float("nan"), float("inf"), pytest.param(10**400, id="huge")]


@pytest.mark.parametrize("mass", MASSES)
@pytest.mark.parametrize(
    "decision", [{"probabilities": [0.5, 0.5]}, {"choice": "A", "probability_range": {"A": [0.9, 1]}}]
)
def test_mass_that_is_no_probability_makes_the_row_invalid(mass: Any, decision: dict[str, Any]) -> None:
    row = read(option_ids=["A", "B"], allowed_token_mass=mass, **decision)
    assert "allowed_token_mass" in reason(row)
    assert "is no probability" in row.reason


# ranges


def ranged(ranges: Any, options: str = "AB", **fields: Any) -> Row:
    return read(option_ids=list(options), probability_range=ranges, **fields)


def test_range_of_one_option_bounds_the_other() -> None:
    row = ranged({"A": [0.85, 1.0]}, allowed_token_mass=0.9)
    assert (row.status, row.choice, row.mass) == (OK, -1, 0.9)  # the bounds tell the choice
    assert row.low == (0.85, 0.0)
    assert row.high == pytest.approx((1.0, 0.15))


def test_ranges_are_tightened_by_each_other() -> None:
    row = ranged({"A": [0.5, 0.7], "B": [0.1, 0.2]}, options="ABC")
    assert row.low == pytest.approx((0.5, 0.1, 0.1))
    assert row.high == pytest.approx((0.7, 0.2, 0.4))


def test_choice_that_ranges_leave_open_has_to_be_recorded() -> None:
    assert "do not tell which option is the choice" in reason(ranged({"A": [0.4, 0.6]}))
    row = ranged({"A": [0.4, 0.6]}, choice="B")
    assert (row.status, row.choice) == (OK, 1)


def test_ranges_that_just_touch_tell_the_choice() -> None:
    assert ranged({"A": [0.5, 1.0]}).status == OK


@pytest.mark.parametrize("n", range(2, 9))
def test_ranges_without_width_are_a_distribution_in_spite_of_rounding(n: int) -> None:
    row = ranged({option: [1 / n, 1 / n] for option in "ABCDEFGH"[:n]}, options="ABCDEFGH"[:n], choice="A")
    assert (row.status, row.choice) == (OK, 0)
    assert row.low == pytest.approx([1 / n] * n)
    assert row.high == pytest.approx([1 / n] * n)


def test_choice_against_the_ranges_is_a_contradiction() -> None:
    assert reason(ranged({"A": [0.85, 1.0]}, choice="B")) == "the choice 'B' contradicts the ranges"


@pytest.mark.parametrize("ranges", [{"A": [0.8, 1], "B": [0.3, 1]}, {"A": [0, 0.4], "B": [0, 0.5]}])
def test_ranges_that_cannot_add_up_to_one_are_refused(ranges: dict[str, list[float]]) -> None:
    assert reason(ranged(ranges, choice="A")) == "no probabilities that add up to 1 fit into the ranges"


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([0.8, 1], "must be an object"),
        ({"C": [0.8, 1]}, "must be an object from option id to [low, high]"),
        ({"A": 0.8}, "the range of 'A' is no pair"),
        ({"A": [0.8]}, "the range of 'A' is no pair"),
        ({"A": [0.8, 0.9, 1]}, "the range of 'A' is no pair"),
        ({"A": [0.8, None]}, "the range of 'A' is no pair"),
        ({"A": ["0.8", "1"]}, "the range of 'A' is no pair"),
        ({"A": [True, 1]}, "the range of 'A' is no pair"),
        ({"A": [0.8, float("nan")]}, "the range of 'A' is no pair"),
        ({"A": [0.9, 0.8]}, "is not within 0 <= low <= high <= 1"),
        ({"A": [-0.1, 0.8]}, "is not within 0 <= low <= high <= 1"),
        ({"A": [85, 100]}, "is not within 0 <= low <= high <= 1"),
        ({}, "do not tell which option is the choice"),
    ],
)
def test_ranges_that_are_none_are_recognised(ranges: Any, expected: str) -> None:
    assert expected in reason(ranged(ranges))


@given(st.lists(st.floats(0, 1), min_size=2, max_size=4), st.floats(0, 0.3), st.data())
def test_ranges_keep_every_distribution_that_fits(
    weights: list[float], slack: float, data: st.DataObject
) -> None:
    total = math.fsum(weights)
    if total == 0:
        weights, total = [1.0] * len(weights), float(len(weights))
    truth = [weight / total for weight in weights]
    options = "ABCD"[: len(truth)]
    given_ranges = {
        option: [max(0.0, p - slack), min(1.0, p + slack)]
        for option, p in zip(options, truth, strict=True)
        if data.draw(st.booleans())
    }
    choice = options[truth.index(max(truth))]
    row = ranged(given_ranges, options=options, choice=choice)
    assert row.status == OK
    assert row.low is not None
    assert row.high is not None
    for low, p, high in zip(row.low, truth, row.high, strict=True):
        assert low - 1e-9 <= p <= high + 1e-9


# what is no row of a run at all


@pytest.mark.parametrize(
    ("row", "path", "expected"),
    [
        ({}, "$", "'id' is a required property: every row needs the id of its item"),
        (
            {"id": 7, "choice": "A"},
            "$.id",
            "expected string, found 7: ids are text: write the number in quotes",
        ),
        ({"id": None}, "$.id", "expected string, found null"),
        ({"id": ""}, "$.id", '"" does not meet minLength 1'),
        ({"id": "q", "option_ids": "AB"}, "$.option_ids", 'expected array or null, found "AB"'),
        ({"id": "q", "option_ids": ["A", 1]}, "$.option_ids[1]", "expected string, found 1"),
        ({"id": "q", "option_ids": ["A", ""]}, "$.option_ids[1]", '"" does not meet minLength 1'),
        ({"id": "q", "option_ids": ["A", "A"]}, "$.option_ids", '["A", "A"] does not meet uniqueItems'),
        ({"id": "q", "choice": 1}, "$.choice", "expected string or null, found 1"),
        ({"id": "q", "status": "done"}, "$.status", '"done" is none of ok, missing_option'),
        ({"id": "q", "status": ""}, "$.status", '"" is none of'),
        ({"id": "q", "error": {"code": 500}}, "$.error", "expected string or null"),
        ({"id": "q", "model": 5}, "$.model", "expected string or object or null, found 5"),
    ],
)
def test_row_of_the_wrong_types_is_refused_with_its_place(
    row: dict[str, Any], path: str, expected: str
) -> None:
    assert refused(row).startswith(f"run.jsonl:4: {path}: {expected}")


def test_row_reports_all_that_is_wrong_with_it() -> None:
    assert [line.split(": ")[1] for line in refused({"id": 1, "choice": 2, "error": 3}).splitlines()] == [
        "$.choice",
        "$.error",
        "$.id",
    ]


@pytest.mark.parametrize(
    "field", ["id", "option_ids", "model", "system_fingerprint", "prompt_sha256", "messages_sha256"]
)
def test_half_a_surrogate_pair_where_text_is_kept_is_refused(field: str) -> None:
    row: dict[str, Any] = {"id": "q", "option_ids": ["A", "B"], "choice": "A"}
    row[field] = ["A", "\ud83d"] if field == "option_ids" else "\ud83d"
    assert f"run.jsonl:4: $.{field}: holds half a surrogate pair" in refused(row)


def test_half_a_surrogate_pair_elsewhere_is_tolerated() -> None:
    assert points(0.5, 0.5, rationale="\ud83d").status == OK
    assert reason(read(option_ids=["A", "B"], choice="\ud83d")).startswith("the choice '\\ud83d' is none")
    assert read(status="error", error="\ud83d").reason == "\ud83d"


def test_negative_rounding_is_not_called_a_logit() -> None:
    assert looks_like([1.0, -1e-9]) == "a probability is negative (1.0, -1e-09)"


def test_value_that_json_does_not_have_is_named() -> None:
    assert looks_like([Decimal("0.9"), 0.1]) == 'probabilities are not numbers ("0.9", 0.1)'
