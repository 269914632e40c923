"""The read-out: from listed token values to shares, bounds, or the reason why there is no decision."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit import rows
from evalkit.outcome import Outcome
from evalkit.readout import (
    NO_LIST,
    Asked,
    Listing,
    Position,
    Token,
    option_of,
    read_answer,
    read_likelihoods,
    read_out,
)

FLOAT32_MIN = -3.4028234663852886e38


def top(entries: list[tuple[str, Any]], **ids: int) -> tuple[Token, ...]:
    return tuple(Token(text, value, ids.get(text)) for text, value in entries)


def listing(
    entries: list[tuple[str, Any]],
    sampled: tuple[str, Any] | None = None,
    asked: Asked | None = None,
    **kw: Any,
) -> Listing:
    own = Token(*sampled) if sampled else None
    return Listing((Position(own, top(entries)),), asked=asked or Asked(), **kw)


def read(entries: list[tuple[str, Any]], names: str = "AB", **kw: Any) -> Outcome:
    return read_out(listing(entries, **kw), names)


def kinds(outcome: Outcome) -> list[str]:
    return [notice.kind for notice in outcome.notices]


def test_shares_are_what_options_hold_of_what_they_hold_together() -> None:
    outcome = read([("A", math.log(0.6)), ("The", math.log(0.2)), ("B", math.log(0.2))])
    assert outcome.shares == pytest.approx((0.75, 0.25))
    assert outcome.mass == pytest.approx(0.8)
    assert (outcome.status, outcome.choice, outcome.censored) == ("ok", 0, ())


@pytest.mark.parametrize("text", ["A", " A", "\u0120A", "\u2581A"])
def test_letter_may_have_one_leading_space_or_marker(text: str) -> None:
    assert option_of(text, "AB") == 0


@pytest.mark.parametrize(
    "text", ["a", "  A", "A ", "AB", "A.", "\u0120\u0120A", "Ａ", "", " ", "\nA", "\t A"]
)
def test_anything_else_names_no_option(text: str) -> None:
    assert option_of(text, "AB") is None


def test_spellings_of_one_letter_are_added() -> None:
    outcome = read([("B", -0.9), ("\u0120A", -1.6), ("\u2581A", -1.9), (" A", -2.2)])
    assert outcome.choice == 0
    assert outcome.mass == pytest.approx(0.8688, abs=1e-4)


def test_same_text_with_two_ids_is_added_and_with_one_id_is_one() -> None:
    two = Listing((Position(None, (Token("B", -0.9, 33), Token("B", -2.3, 347), Token("A", -0.8, 32))),))
    assert read_out(two, "AB").choice == 1
    one = Listing(
        (Position(Token("A", -0.8, 32), (Token("A", -0.8, 32), Token("A", -0.8, 32), Token("B", -0.9, 33))),)
    )
    assert read_out(one, "AB").mass == pytest.approx(math.exp(-0.8) + math.exp(-0.9))


def test_one_id_with_two_values_is_invalid() -> None:
    both = Listing((Position(None, (Token("A", -0.8, 32), Token("A", -1.8, 32), Token("B", -3.0, 33))),))
    assert read_out(both, "AB").status == "invalid"
    assert "token 32 has two values" in read_out(both, "AB").error


def test_ids_are_preferred_where_a_map_names_every_option() -> None:
    shown = Listing((Position(None, (Token("B", -0.2, 32), Token("A", -1.8, 33))),))
    assert read_out(shown, "AB").choice == 1
    assert read_out(shown, "AB", {32: "A", 33: "B"}).choice == 0
    assert read_out(shown, "AB", {32: "A"}).choice == 1


def test_placeholders_are_read_by_their_number_or_not_at_all() -> None:
    hidden = [("token_id:32", -0.2), ("token_id:33", -1.8), ("token_id:7", -9.0)]
    refused = read(hidden)
    assert (refused.status, refused.shares) == ("error", ())
    assert "token text not recorded" in refused.error
    named = read_out(listing(hidden), "AB", {32: "A", 33: "B"})
    assert named.shares == pytest.approx((0.8320, 0.1680), abs=1e-4)


@pytest.mark.parametrize("sentinel", [-9999.0, -65504.0, FLOAT32_MIN, -math.inf])
def test_stand_ins_are_not_measured(sentinel: float) -> None:
    outcome = read([("A", math.log(0.9)), ("B", sentinel)])
    assert outcome.censored == (1,)
    assert outcome.ranges[0] == pytest.approx((0.9, 1.0))
    assert outcome.ranges[1] == pytest.approx((0.0, 0.1))


def test_very_unlikely_is_still_measured() -> None:
    assert read([("A", 0.0), ("B", -800.0)]).shares == (1.0, 0.0)


@pytest.mark.parametrize("value", [None, math.nan, "x", True, [], {}, math.inf, 10**400])
@pytest.mark.parametrize("probabilities", [False, True])
def test_garbage_makes_the_row_invalid(value: Any, probabilities: bool) -> None:
    good = 0.5 if probabilities else -0.5
    outcome = read([("A", good), ("The", value), ("B", good)], probabilities=probabilities)
    assert (outcome.status, outcome.shares, outcome.ranges) == ("invalid", (), ())


def test_null_of_the_generated_token_counts_too() -> None:
    assert read([("A", -0.2), ("B", -1.9)], sampled=("A", None)).status == "invalid"


def test_positive_log_probability_says_what_it_looks_like() -> None:
    assert "would be p = 1.3634: it looks like a logit" in read([("A", 0.31), ("B", -1.1)]).error
    assert read([("A", 800.0), ("B", -1.1)]).status == "invalid"
    assert read([("A", 4.8e-07), ("B", -15.2)]).shares[0] == pytest.approx(1.0)


def test_sum_above_one_is_invalid_and_rounding_is_not() -> None:
    assert "sum to 1.3500, above" in read([("A", 0.8), ("B", 0.55)], probabilities=True).error
    assert read([("A", 0.8), ("B", 0.2000002)], probabilities=True).status == "ok"


@pytest.mark.parametrize("value", [1.2, -0.1, 95])
def test_what_is_no_probability_is_invalid(value: float) -> None:
    assert "it looks like a logit or percent" in read([("A", value), ("B", 0.01)], probabilities=True).error


def test_probability_zero_is_not_measured() -> None:
    assert read([("A", 0.7), ("B", 0.0)], probabilities=True).censored == (1,)


def test_unlisted_option_lies_below_the_last_listed_value_and_the_unlisted_mass() -> None:
    entries = [("A", -0.35), ("**", -1.9), ("\n", -2.6), ("B", -3.4), ("The", -4.2)]
    outcome = read(entries, "ABCDE", asked=Asked(5))
    assert outcome.ranges[0] == pytest.approx((0.9258, 0.9548), abs=1e-4)
    assert outcome.ranges[3] == pytest.approx((0.0, 0.0150 / 0.7531), abs=1e-4)
    assert -math.log(outcome.ranges[3][1]) == pytest.approx(3.92, abs=0.01)


def test_generated_token_put_first_is_not_the_last_listed_value() -> None:
    # As recorded from vLLM: the generated token stands first and has pushed a likelier one out.
    outcome = read([("Gen", -9.67), ("A", -0.5), ("The", -3.0)], asked=Asked(3))
    assert outcome.ranges[1][1] == pytest.approx(math.exp(-3.0) / (math.exp(-0.5) + math.exp(-3.0)))


@pytest.mark.parametrize(
    "asked",
    [Asked(4), Asked(named_tokens=True)],
    ids=["shorter than requested", "named tokens"],
)
def test_only_the_unlisted_mass_bounds_where_the_list_is_not_the_top(asked: Asked) -> None:
    outcome = read([("A", math.log(0.6)), ("The", math.log(0.1))], asked=asked)
    assert outcome.ranges[1] == pytest.approx((0.0, 0.3 / 0.9))


def test_choice_that_an_unlisted_option_could_take_is_no_decision() -> None:
    outcome = read([("The", math.log(0.5)), ("A", math.log(0.1))], asked=Asked(9))
    assert outcome.status == "missing_option"
    assert "one may hold up to 0.4000, more than the 0.1000" in outcome.error


def test_list_cut_by_top_p_says_nothing_of_the_rest() -> None:
    outcome = read([("A", 0.0)], asked=Asked(5, top_p=0.5))
    assert outcome.ranges == ((0.5, 1.0), (0.0, 0.5))
    assert [notice.detail for notice in outcome.notices] == ["top_p 0.5, 1 of 5 entries"]


def test_list_cut_by_top_k_bounds_by_the_last_kept_only() -> None:
    entries = [("A", math.log(0.75)), ("The", math.log(0.25))]
    outcome = read(entries, asked=Asked(5, top_p=0.9, other_cuts=True))
    assert outcome.ranges[1] == pytest.approx((0.0, 0.25))


def test_full_list_without_rest_is_not_cut() -> None:
    outcome = read([("A", 0.0), ("The", -30.0)], asked=Asked(2, top_p=0.9))
    assert outcome.ranges[1][1] == pytest.approx(math.exp(-30), rel=0.01)


def test_one_with_stand_ins_beside_it_is_pointed_out() -> None:
    outcome = read([("A", 0.0), (",", FLOAT32_MIN), ("B", FLOAT32_MIN)], asked=Asked(5))
    assert outcome.ranges == ((1.0, 1.0), (0.0, 0.0))
    assert any("temperature 0 leaves over" in kind for kind in kinds(outcome))


def test_values_after_sampling_are_marked_and_bounded_by_the_last_one() -> None:
    outcome = read([("A", 0.8), (" ", 0.2)], probabilities=True, after_sampling=True, asked=Asked(2))
    assert outcome.row(["yes", "no"])["after_sampling"] is True
    assert outcome.ranges[1] == pytest.approx((0.0, 0.2))
    assert any("after sampling" in kind for kind in kinds(outcome))


def test_generated_token_outside_the_list_has_its_own_value() -> None:
    outcome = read([("A", math.log(0.6)), ("The", math.log(0.3))], sampled=("B", math.log(0.05)))
    assert outcome.shares == pytest.approx((0.6 / 0.65, 0.05 / 0.65))


def test_generated_token_alone_leaves_the_rest_unlisted() -> None:
    outcome = read([], sampled=("B", -0.3), asked=Asked(0))
    assert outcome.choice == 1
    assert outcome.ranges[0] == pytest.approx((0.0, 0.2592), abs=1e-4)
    assert kinds(outcome) == ["top_logprobs was 0: only the generated token has a value"]


def test_generated_token_that_contradicts_its_list_makes_it_invalid() -> None:
    outcome = read([("\n", -0.1), ("A", -2.6), ("B", -4.0)], sampled=("B", -0.2))
    assert outcome.status == "invalid"
    assert "belongs to another position" in outcome.error


@pytest.mark.parametrize("own", [-9999.0, -2.6])
def test_generated_token_with_a_stand_in_or_the_same_value_agrees(own: float) -> None:
    assert read([("A", -0.1), ("B", -2.6)], sampled=("B", own)).shares[0] == pytest.approx(0.9241, abs=1e-4)


def test_masked_twin_of_the_generated_token_stays_masked() -> None:
    outcome = read([("A", -0.1), ("B", -9999.0)], sampled=("B", -2.6))
    assert outcome.censored == (1,)


@pytest.mark.parametrize("sampled", [("B", -9999.0), None])
def test_nothing_measured_is_an_error(sampled: tuple[str, float] | None) -> None:
    entries = [] if sampled else [("A", -9999.0)]
    outcome = read(entries, sampled=sampled)
    assert outcome.status == "error"
    assert "every value is a stand-in" in outcome.error


def test_no_list_at_all_names_the_setting() -> None:
    assert read_out(Listing(()), "AB") == Outcome("error", NO_LIST)
    unvalued = Listing((Position(Token("A", valued=False), ()),))
    assert read_out(unvalued, "AB") == Outcome("error", NO_LIST)
    assert "logprobs" in NO_LIST


def test_answer_stands_at_the_first_position_that_is_not_blank() -> None:
    blank = Position(Token("\n", -0.1), top([("\n", -0.1), ("A", -2.6), ("B", -4.0)]))
    answer = Position(Token("B", -0.1), top([("B", -0.1), ("A", -2.6)]))
    outcome = read_out(Listing((blank, answer)), "AB")
    assert outcome.choice == 1
    assert kinds(outcome) == ["read at a later position than the first, after blank text"]
    assert read_out(Listing((blank,)), "AB").choice == 0


@pytest.mark.parametrize("token", ["<think>", "<|channel|>", "</s>", "[INST]"])
def test_control_token_at_the_answer_position_is_invalid(token: str) -> None:
    outcome = read([(token, -2e-05), ("B", -10.6), ("A", -11.0)])
    assert outcome.status == "invalid"
    assert "control token" in outcome.error
    assert "4.2e-05" in outcome.error


@pytest.mark.parametrize("token", ["The", "<0x0A>", "[", "<"])
def test_other_tokens_before_the_options_are_not_control_tokens(token: str) -> None:
    assert read([(token, -0.5), ("B", -2.0), ("A", -2.5)]).choice == 1


def test_control_token_less_likely_than_the_options_does_no_harm() -> None:
    assert read([("A", -0.5), ("<|im_end|>", -1.2), ("B", -2.5)]).choice == 0


def test_first_entries_of_the_vocabulary_are_recognised() -> None:
    outcome = read([("<unk>", 1.0), ("<s>", 0.0)], sampled=None, probabilities=True)
    assert "control token" in outcome.error
    own = Listing(
        (Position(Token("B", valued=False), top([("<unk>", 1.0), ("<s>", 0.0)])),), probabilities=True
    )
    assert "temperature 0" in read_out(own, "AB").error


def test_no_option_in_the_list_is_missing() -> None:
    outcome = read([("The", -0.5), ("To", -2.0)])
    assert outcome.status == "missing_option"
    assert "none of the options A, B is among the 2 listed tokens ('The', 'To')" in outcome.error


@pytest.mark.parametrize(
    ("keyed", "kind"),
    [(True, "merged by the server"), (False, "shorter than requested")],
)
def test_short_list_is_pointed_out(keyed: bool, kind: str) -> None:
    outcome = read([("A", -0.8), ("B", -2.3)], asked=Asked(4), keyed_by_text=keyed)
    assert [notice.detail for notice in outcome.notices] == ["2 entries for 4 requested"]
    assert kind in kinds(outcome)[0]


def test_tie_goes_to_the_first_option() -> None:
    assert read([("B", -1.0), ("A", -1.0), ("The", -2.0)]).choice == 0


def test_all_mass_too_small_to_add_up_is_invalid() -> None:
    assert "no option got any mass" in read([("A", -800.0), ("B", -800.0)]).error


def test_log_likelihoods_may_be_text() -> None:
    outcome = read_likelihoods(["-2.5", "-0.4", "-1.9"])
    assert outcome.choice == 1
    assert outcome.shares[1] == pytest.approx(0.7432, abs=1e-4)
    assert outcome.mass == pytest.approx(0.9020, abs=1e-4)


@pytest.mark.parametrize("top", [-744.0, -800.0, -9000.0])
def test_log_likelihoods_too_small_for_a_float_are_compared_all_the_same(top: float) -> None:
    outcome = read_likelihoods([top - 0.5, top, top - 900])
    assert outcome.choice == 1
    assert outcome.shares[:2] == pytest.approx([0.3775, 0.6225], abs=1e-4)
    assert outcome.mass == math.exp(top)


def test_digits_of_other_scripts_are_no_log_likelihood() -> None:
    assert "no number" in read_likelihoods(["-١", "-2"]).error


def test_log_likelihood_of_minus_infinity_is_censored() -> None:
    outcome = read_likelihoods(["-inf", -40.0, -41.0])
    assert outcome.choice == 1
    assert outcome.censored == (0,)
    assert outcome.ranges[0][1] < outcome.ranges[1][0]


@pytest.mark.parametrize(
    ("values", "status", "words"),
    [
        (["nan", "-1"], "invalid", "NaN"),
        ([None, -1.0], "invalid", "null"),
        (["one", -1.0], "invalid", "no number"),
        ([-0.1, -0.2], "invalid", "sums to 1.7236"),
        (["-inf", "-inf"], "error", "no log-likelihood"),
        ([0.7, -1.0], "invalid", "logit"),
    ],
)
def test_log_likelihoods_that_are_none(values: list[Any], status: str, words: str) -> None:
    outcome = read_likelihoods(values)
    assert outcome.status == status
    assert words in outcome.error


@pytest.mark.parametrize("text", ["A", " A", "A.", "(A)", "A)\n", "A:"])
def test_text_that_names_an_option_is_a_choice(text: str) -> None:
    assert read_answer(text, {"A": 0, "B": 1}).row(["yes", "no"]) == {
        "option_ids": ["yes", "no"],
        "choice": "yes",
    }


@pytest.mark.parametrize("text", ["", "C", "AB", "The answer is A", "x" * 60])
def test_text_that_names_no_option_is_invalid(text: str) -> None:
    outcome = read_answer(text, {"A": 0, "B": 1})
    assert outcome.status == "invalid"
    assert len(outcome.error) < 120


def test_row_of_a_censored_decision_has_a_range_for_every_option() -> None:
    row = read([("A", math.log(0.9)), ("B", -9999.0)]).row(["yes", "no"])
    assert row["choice"] == "yes"
    assert list(row["probability_range"]) == ["yes", "no"]
    assert row["censored"] == ["no"]
    assert rows.read_row({"id": "q1", **row}, "run.jsonl", 1).status == rows.OK


def test_row_of_an_unusable_answer_has_status_and_reason() -> None:
    row = read([("The", -0.5)]).row(["yes", "no"])
    assert row["status"] == "missing_option"
    assert rows.read_row({"id": "q1", **row}, "run.jsonl", 1).status == rows.INVALID


@given(
    st.lists(
        st.tuples(st.sampled_from(["A", " A", "B", "C", "The", "\n", "<s>"]), st.floats(-20, 0)), max_size=8
    ),
    st.one_of(st.none(), st.tuples(st.sampled_from(["A", "B", "\n", "The"]), st.floats(-20, 0))),
    st.integers(0, 9),
    st.sampled_from([1.0, 0.9, 0.5]),
    st.booleans(),
)
def test_every_usable_outcome_is_a_row_that_the_reader_takes(
    entries: list[tuple[str, float]], sampled: tuple[str, float] | None, asked: int, top_p: float, cuts: bool
) -> None:
    outcome = read(entries, "ABC", sampled=sampled, asked=Asked(asked, top_p, cuts))
    row = rows.read_row({"id": "q", **outcome.row(["x", "y", "z"])}, "run.jsonl", 1)
    assert (row.status == rows.OK) == (outcome.status == "ok"), row.reason
    if outcome.ranges:
        assert all(0 <= low <= high <= 1 for low, high in outcome.ranges)
        assert outcome.ranges[outcome.choice][1] == max(high for _, high in outcome.ranges)
