"""What production does with each decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evalkit.cards import Policy, Rule
from evalkit.decisions import Decisions
from evalkit.errors import UsageError
from evalkit.policy import (
    Actions,
    apply_policy,
    parse_policy,
    summary,
    told_apart,
    transitions,
    unknown_options,
    why,
)

if TYPE_CHECKING:
    from tests.conftest import Maker

DROP = Policy((Rule("B", 0.85, "drop"),), "keep")
BELOW = float(np.nextafter(0.85, 0))


def decide(
    make: Maker, *records: Mapping[str, Any], label: str | None = "A", options: str = "AB"
) -> Decisions:
    """Lay rows without ids out; an item of one of them lacks its row."""
    items = [make.item(str(number), options, label) for number in range(len(records))]
    rows = [{"id": str(number), **record} for number, record in enumerate(records) if record]
    return make.aligned(items, rows)


def p(**probabilities: float) -> dict[str, Any]:
    return {"option_ids": list(probabilities), "probabilities": list(probabilities.values())}


def ranged(low: float, high: float, option: str = "B", **fields: Any) -> dict[str, Any]:
    return {"option_ids": ["A", "B"], "probability_range": {option: [low, high]}, **fields}


def names(actions: Actions) -> list[str]:
    return [actions.names[code] for code in actions.code.tolist()]


# apply_policy


def test_rule_holds_where_the_choice_is_its_option_and_sure_enough(make: Maker) -> None:
    decisions = decide(
        make,
        p(A=0.05, B=0.95),
        p(A=0.15, B=0.85),
        p(A=1 - BELOW, B=BELOW),
        p(A=0.95, B=0.05),
        p(A=0.5, B=0.5),
    )
    actions = apply_policy(DROP, decisions)
    assert names(actions) == ["drop", "drop", "keep", "keep", "keep"]
    assert actions.rule.tolist() == [0, 0, -1, -1, -1]
    assert actions.acted.tolist() == [True, True, False, False, False]
    assert actions.wrong.tolist() == [True, True, False, False, False]


def test_wrong_action_needs_a_rule_and_another_label(make: Maker) -> None:
    for label, wrong in (("A", True), ("B", False), (None, False)):
        actions = apply_policy(DROP, decide(make, p(A=0.05, B=0.95), p(A=0.4, B=0.6), label=label))
        assert actions.wrong.tolist() == [wrong, False]


@pytest.mark.parametrize(
    "record",
    [{}, {"status": "error", "error": "timeout"}, {"status": "missing_option"}, p(A=5, B=95)],
)
def test_item_without_a_usable_decision_takes_the_default_action(make: Maker, record: dict[str, Any]) -> None:
    actions = apply_policy(DROP, decide(make, record, p(A=0.05, B=0.95)))
    assert names(actions) == ["keep", "drop"]


def test_first_rule_that_holds_acts(make: Maker) -> None:
    policy = Policy((Rule("B", 0.95, "drop"), Rule("A", 0.9, "pass"), Rule("B", 0.7, "flag")), "keep")
    decisions = decide(make, p(A=0.01, B=0.99), p(A=0.2, B=0.8), p(A=0.4, B=0.6), p(A=0.92, B=0.08))
    actions = apply_policy(policy, decisions)
    assert names(actions) == ["drop", "flag", "keep", "pass"]
    assert actions.names == ("drop", "pass", "flag", "keep", "undetermined")


def test_threshold_zero_acts_on_every_decision_for_its_option(make: Maker) -> None:
    actions = apply_policy(Policy((Rule("B", 0.0, "drop"),), "keep"), decide(make, p(A=0.4, B=0.6), {}))
    assert names(actions) == ["drop", "keep"]


def test_rule_for_an_option_follows_it_through_other_prompt_orders(make: Maker) -> None:
    decisions = make.aligned(
        [make.item("a", "AB"), make.item("b", "BA"), make.item("c", "XYZ")],
        [make.row(name, {"A": 0.1, "B": 0.9}) for name in "ab"] + [make.row("c", {"X": 1, "Y": 0, "Z": 0})],
    )
    assert names(apply_policy(DROP, decisions)) == ["drop", "drop", "keep"]


def test_range_that_straddles_the_threshold_is_undetermined(make: Maker) -> None:
    decisions = decide(
        make,
        ranged(0.85, 1),
        ranged(0.8, 0.9),
        ranged(0.6, 0.8),
        ranged(0.8, 0.85),
        ranged(0.9, 1, "A"),
        p(A=0, B=1),
    )
    assert names(apply_policy(DROP, decisions)) == [
        "drop",
        "undetermined",
        "keep",
        "undetermined",
        "keep",
        "drop",
    ]


def test_choice_without_probability_is_undetermined_for_its_rule(make: Maker) -> None:
    named = [{"option_ids": ["A", "B"], "choice": choice} for choice in "AB"]
    assert names(apply_policy(DROP, decide(make, *named))) == ["keep", "undetermined"]
    always = Policy((Rule("B", 0.0, "drop"),), "keep")
    assert names(apply_policy(always, decide(make, *named))) == ["keep", "drop"]


def test_undetermined_item_is_neither_acted_on_nor_wrong(make: Maker) -> None:
    actions = apply_policy(DROP, decide(make, ranged(0.8, 0.9)))
    assert (actions.acted.tolist(), actions.wrong.tolist(), actions.rule.tolist()) == ([False], [False], [-2])


def test_later_rule_waits_for_an_earlier_one_that_may_hold(make: Maker) -> None:
    policy = Policy((Rule("B", 0.9, "drop"), Rule("B", 0.5, "flag")), "keep")
    decisions = decide(make, ranged(0.85, 0.95), ranged(0.85, 0.89), ranged(0.9, 1))
    assert names(apply_policy(policy, decisions)) == ["undetermined", "flag", "drop"]


def test_policy_without_rules_takes_the_default_action(make: Maker) -> None:
    actions = apply_policy(Policy((), "keep"), decide(make, p(A=0, B=1), {}))
    assert names(actions) == ["keep", "keep"]
    assert actions.names == ("keep", "undetermined")


@given(
    st.lists(st.tuples(st.sampled_from("ABC"), st.integers(0, 10), st.sampled_from("xyz")), max_size=4),
    st.lists(st.lists(st.integers(0, 5), min_size=3, max_size=3).filter(any), min_size=1, max_size=6),
)
def test_actions_are_those_of_plain_python(
    make: Maker, rules: list[tuple[str, int, str]], weights: list[list[int]]
) -> None:
    policy = Policy(tuple(Rule(option, tenths / 10, action) for option, tenths, action in rules), "default")
    rows = [{option: weight / sum(row) for option, weight in zip("ABC", row, strict=True)} for row in weights]
    decisions = decide(make, *(p(**row) for row in rows), options="ABC")
    expected = []
    for row in decisions.p.tolist():
        option = "ABC"[row.index(max(row))]
        held = [rule.action for rule in policy.rules if rule.option == option and max(row) >= rule.at_least]
        expected.append(held[0] if held else "default")
    assert names(apply_policy(policy, decisions)) == expected


def test_options_of_rules_that_no_item_has_are_told(make: Maker) -> None:
    policy = Policy((Rule("B", 0.5, "x"), Rule("C", 0.5, "x"), Rule("D", 0.5, "x")), "keep")
    assert unknown_options(policy, decide(make, p(A=1, B=0)).labels) == ["C", "D"]


# summary


def test_summary_counts_every_action_and_the_wrong_ones(make: Maker) -> None:
    policy = Policy((Rule("B", 0.85, "drop"), Rule("A", 0.9, "pass"), Rule("B", 0.6, "flag")), "keep")
    decisions = decide(
        make, p(A=0, B=1), p(A=0.1, B=0.9), p(A=0.3, B=0.7), p(A=0.95, B=0.05), {}, ranged(0.8, 0.9)
    )
    found = summary(apply_policy(policy, decisions), decisions, 0.95)
    assert found["actions"] == {"drop": 2, "pass": 1, "flag": 1, "keep": 1, "undetermined": 1}
    assert (found["acted"], found["wrong_actions"]) == (4, 3)
    assert found["wrong_actions_by_action"] == {"drop": 2, "pass": 0, "flag": 1}
    assert found["wrong_share"]["value"] == 0.75
    assert 0 < found["wrong_share"]["low"] < 0.75 < found["wrong_share"]["high"] < 1
    assert found["wrong_share_reason"] is None
    assert found["default"] == "keep"
    assert found["rules"][0] == {"option": "B", "at_least": 0.85, "action": "drop"}
    assert found["option_counts"] == {"2": 6}


def test_summary_of_a_policy_that_never_acts_has_no_share(make: Maker) -> None:
    decisions = decide(make, p(A=0.6, B=0.4), p(A=0.3, B=0.7))
    found = summary(apply_policy(DROP, decisions), decisions, 0.95)
    assert found["actions"] == {"drop": 0, "keep": 2, "undetermined": 0}
    assert (found["acted"], found["wrong_actions"]) == (0, 0)
    assert found["wrong_share"] is None
    assert found["wrong_share_reason"] == "no rule acted on a labelled item"


def test_summary_counts_items_by_their_number_of_options(make: Maker) -> None:
    decisions = make.aligned(
        [make.item("a", "AB"), make.item("b", "ABC"), make.item("c", "AB")], [make.row("a", {"A": 1, "B": 0})]
    )
    assert summary(apply_policy(DROP, decisions), decisions, 0.95)["option_counts"] == {"2": 2, "3": 1}


# why


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (p(A=0.05, B=0.95), "p(B) 0.9500 >= 0.85"),
        (p(A=0.15, B=0.85), "p(B) 0.8500 >= 0.85"),
        (p(A=0.4, B=0.6), "p(B) 0.6000 < 0.85"),
        (p(A=1 - BELOW, B=BELOW), "p(B) 0.8499999999999999 < 0.85"),
        (p(A=0.9, B=0.1), "no rule for A"),
        ({}, "missing"),
        ({"status": "error", "error": "timeout"}, "error: timeout"),
        (p(A=5, B=95), "invalid: probabilities add up to 100 (5, 95): they look like percent"),
        (ranged(0.85, 1), "p(B) in [0.85, 1] >= 0.85"),
        (ranged(0.8, 0.9), "p(B) in [0.8, 0.9] straddles 0.85"),
        (ranged(0.6, 0.8), "p(B) in [0.6, 0.8] < 0.85"),
        ({"option_ids": ["A", "B"], "choice": "B"}, "p(B) not recorded, threshold 0.85"),
    ],
)
def test_why_names_both_sides_of_the_comparison(make: Maker, record: dict[str, Any], expected: str) -> None:
    decisions = decide(make, record, p(A=1, B=0))
    assert why(apply_policy(DROP, decisions), decisions, 0) == expected


def test_why_names_the_rule_that_held_else_the_lowest_threshold_missed(make: Maker) -> None:
    policy = Policy((Rule("B", 0.9, "drop"), Rule("B", 0.7, "flag"), Rule("B", 0.8, "look")), "keep")
    decisions = decide(make, p(A=0.05, B=0.95), p(A=0.25, B=0.75), p(A=0.4, B=0.6))
    actions = apply_policy(policy, decisions)
    assert [why(actions, decisions, item) for item in range(3)] == [
        "p(B) 0.9500 >= 0.9",
        "p(B) 0.7500 >= 0.7",
        "p(B) 0.6000 < 0.7",
    ]


@pytest.mark.parametrize("thresholds", [(0.99, 0.85), (0.85, 0.5), (0.85,)])
def test_why_of_an_undetermined_action_names_the_threshold_that_is_straddled(
    make: Maker, thresholds: tuple[float, ...]
) -> None:
    policy = Policy(tuple(Rule("B", threshold, f"above {threshold}") for threshold in thresholds), "keep")
    decisions = decide(make, ranged(0.8, 0.9))
    actions = apply_policy(policy, decisions)
    assert names(actions) == ["undetermined"]
    assert why(actions, decisions, 0) == "p(B) in [0.8, 0.9] straddles 0.85"


UNIT = st.floats(0, 1)


@given(UNIT, UNIT)
@example(0.7999999999999999, 0.8)
@example(0.84996, 0.84998)
@example(BELOW, 0.85)
@example(0.85, 0.85)
@example(5e-324, 0.0)
def test_told_apart_numbers_show_which_one_is_larger(value: float, threshold: float) -> None:
    shown, limit = told_apart(value, threshold)
    assert float(limit) == threshold
    if value < threshold:
        assert float(shown) < threshold
    else:
        assert float(shown) >= threshold


@pytest.mark.parametrize(
    ("value", "threshold", "expected"),
    [
        (0.7999999999999999, 0.8, ("0.7999999999999999", "0.8")),
        (0.8, 0.8, ("0.8000", "0.8")),
        (0.84999, 0.85, ("0.84999", "0.85")),
        (0.12345678, 0.9, ("0.1235", "0.9")),
    ],
)
def test_told_apart_writes_no_more_digits_than_it_takes(
    value: float, threshold: float, expected: tuple[str, str]
) -> None:
    assert told_apart(value, threshold) == expected


# transitions


def test_transitions_count_the_items_treated_differently(make: Maker) -> None:
    before = apply_policy(DROP, decide(make, p(A=0, B=1), p(A=0, B=1), p(A=1, B=0), ranged(0.8, 0.9)))
    after = apply_policy(DROP, decide(make, p(A=0, B=1), p(A=1, B=0), {}, p(A=0, B=1)))
    expected = {
        "drop->keep": 1,
        "drop->undetermined": 0,
        "keep->drop": 0,
        "keep->undetermined": 0,
        "undetermined->drop": 1,
        "undetermined->keep": 0,
    }
    assert transitions(before, after) == expected
    assert transitions(before, after, np.asarray([0, 1])) == {**expected, "undetermined->drop": 0}
    assert set(transitions(before, before).values()) == {0}


# parse_policy


def test_parse_policy_reads_option_threshold_and_action() -> None:
    assert parse_policy(["B@0.85=drop", "a=b@c@1=x y"], "keep") == Policy(
        (Rule("B", 0.85, "drop"), Rule("a=b@c", 1.0, "x y")), "keep"
    )
    assert parse_policy([], "keep") == Policy((), "keep")


@pytest.mark.parametrize(
    "text", ["", "B", "B=drop", "B@0.85", "@0.85=drop", "B@=drop", "B@0.85=", "0.85=drop"]
)
def test_parse_policy_refuses_another_form(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_policy([text], "keep")
    assert str(caught.value) == f"--policy {text!r}: write OPTION@THRESHOLD=ACTION, for example B@0.85=drop"


@pytest.mark.parametrize("number", ["nan", "inf", "-0.1", "1.01", "85", "85%", "0,85", "high"])
def test_parse_policy_refuses_a_threshold_that_is_none(number: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_policy([f"B@{number}=drop"], "keep")
    assert str(caught.value) == (
        f"--policy 'B@{number}=drop': at_least must be a number from 0 to 1, found {number!r}"
    )
