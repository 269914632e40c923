"""Item rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from evalkit.cards import Policy, Rule
from evalkit.errors import InputError
from evalkit.gate.must import MustResult, judge_items
from evalkit.gate.rules import Must, RuleSet, rules_from
from evalkit.labels import LabelSet
from evalkit.scoring import Options, ScoreReport, score

if TYPE_CHECKING:
    from tests.conftest import Maker

POLICY = Policy((Rule("B", 0.85, "drop"), Rule("C", 0.5, "A")), "keep")


@pytest.fixture(scope="module")
def scored(make: Maker) -> tuple[LabelSet, ScoreReport]:
    labels = make.labels(
        [make.item(f"q{n}", "ABC", "B", part="one" if n < 4 else "two") for n in range(1, 6)]
    )
    rows = [
        make.row("q1", {"A": 0.05, "B": 0.9, "C": 0.05}),
        make.row("q2", {"A": 0.2, "B": 0.8, "C": 0.0}),
        make.row("q3", {"A": 0.4, "B": 0.4, "C": 0.2}),
        make.row("q5", {"A": 0.8, "B": 0.1, "C": 0.1}),
    ]
    return labels, score(labels, make.run(rows), Options(policy=POLICY))


def judged(scored: tuple[LabelSet, ScoreReport], *must: Must) -> list[MustResult]:
    return judge_items(RuleSet((), must, "gate.toml", lines={must[0].id: 9}), *scored)


@pytest.mark.parametrize(
    ("must", "verdict", "reason"),
    [
        (Must("q1", "B"), "pass", "choice B"),
        (Must("q1", "drop"), "pass", "action drop"),
        (Must("q2", "drop"), "fail", "action keep"),
        (Must("q2", "C"), "fail", "choice B"),
        (Must("q3", "A", "choice"), "pass", "choice A, on an exact tie"),
        (Must("q3", "B"), "fail", "choice A, on an exact tie"),
        (Must("q4", "keep"), "fail", "no usable decision (missing)"),
        (Must("q5", "A", "action"), "fail", "action keep"),
    ],
)
def test_must_is_a_choice_or_an_action(
    scored: tuple[LabelSet, ScoreReport], must: Must, verdict: str, reason: str
) -> None:
    (result,) = judged(scored, must)
    assert (result.verdict, result.reason) == (verdict, reason)


def test_must_result_says_where_the_item_is(scored: tuple[LabelSet, ScoreReport]) -> None:
    (result,) = judged(scored, Must("q2", "drop"))
    assert result.to_dict() == {
        "id": "q2",
        "kind": "action",
        "wanted": "drop",
        "got": "keep",
        "label": "B",
        "line": 2,
        "verdict": "fail",
        "reason": "action keep",
    }
    assert result.wanted == "action drop"


@pytest.mark.parametrize(
    ("must", "message"),
    [
        (Must("q9", "A"), "gate.toml:9: $.must: q9: no such item; did you mean q5 or q4 or q3?"),
        (Must("zzzzzz", "A"), "zzzzzz: no such item"),
        (Must("q1", "A"), "q1: 'A' is an option and an action: write {choice = 'A'} or {action = 'A'}"),
        (
            Must("q1", "D"),
            "q1: 'D' is no option of the item and no action; its options are A, B, C, "
            "the actions A, drop, keep",
        ),
        (Must("q1", "drop", "choice"), "q1: 'drop' is no choice"),
        (Must("q1", "B", "action"), "q1: 'B' is no action"),
    ],
)
def test_must_that_names_nothing_is_refused(
    scored: tuple[LabelSet, ScoreReport], must: Must, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        judged(scored, must)
    assert message in str(caught.value)


def test_must_action_without_a_policy_is_refused(make: Maker) -> None:
    labels = make.labels([make.item("q1", label="A")])
    report = score(labels, make.run([make.row("q1", {"A": 0.9, "B": 0.1})]))
    with pytest.raises(InputError, match="its options are A, B; there is no policy"):
        judge_items(RuleSet((), (Must("q1", "drop"),)), labels, report)


def test_must_all_problems_are_listed(scored: tuple[LabelSet, ScoreReport]) -> None:
    with pytest.raises(InputError) as caught:
        judged(scored, Must("q9", "A"), Must("q1", "D"))
    assert len(caught.value.problems) == 2


def test_must_item_that_is_not_judged_fails(scored: tuple[LabelSet, ScoreReport]) -> None:
    labels, report = scored
    restricted = score(labels, report.run, Options(only={"part": "two"}))
    (result,) = judge_items(rules_from({"must": {"q1": "B"}}), labels, restricted)
    assert (result.verdict, result.reason) == ("fail", "not among the items that are judged")


def test_must_is_empty_without_item_rules(scored: tuple[LabelSet, ScoreReport]) -> None:
    assert judge_items(RuleSet(()), *scored) == []


def test_must_ignores_what_a_default_action_would_be(scored: tuple[LabelSet, ScoreReport]) -> None:
    # The missing item would take the default action, which the rule asks for: no pass by absence.
    got: Any = judged(scored, Must("q4", "keep"))[0]
    assert (got.got, got.verdict) == ("keep", "fail")
