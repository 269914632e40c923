"""Judging: built-in rules, verdicts, what a report holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from evalkit import schema
from evalkit.cards import Policy, Rule
from evalkit.errors import UsageError
from evalkit.gate import CheckReport, GateReport, GateRule, Inputs, Must, RuleSet, judge
from evalkit.gate.check import not_judged
from evalkit.scoring import Options

if TYPE_CHECKING:
    from tests.conftest import Maker

SURE, OTHER = {"A": 0.9, "B": 0.1}, {"A": 0.2, "B": 0.8}
POLICY = Policy((Rule("B", 0.7, "drop"),), "keep")


def world(make: Maker, before: list[Any], after: list[Any], *rules: GateRule, **more: Any) -> CheckReport:
    """Judge one item a value; None is left out, a text is an error."""
    labels = make.labels(
        [make.item(f"q{n}", label="A", part="one" if n else "two") for n in range(len(after))]
    )

    def run(values: list[Any], name: str) -> Any:
        rows = [
            make.row(f"q{n}", status="error", error=value)
            if isinstance(value, str)
            else make.row(f"q{n}", value)
            for n, value in enumerate(values)
            if value is not None
        ]
        return make.run(rows, name)

    reference = run(before, "old") if before else None
    must, noise = more.pop("must", ()), tuple(run(one, "again") for one in more.pop("noise", ()))
    options = Options(**{"policy": POLICY, **more})
    return judge(Inputs(run(after, "new"), RuleSet(rules, must), labels, reference, noise, options))


def verdicts(report: CheckReport) -> dict[str, str]:
    return {result.rule.label: result.verdict for result in report.rules}


def test_judge_adds_rules_of_completeness(make: Maker) -> None:
    report = world(make, [SURE], [SURE], GateRule("accuracy", ">=", 1))
    assert verdicts(report) == {
        "accuracy >= 1": "pass",
        "missing <= 0": "pass",
        "invalid <= 0": "pass",
        "error <= 0": "pass",
        "only_candidate <= 0": "pass",
    }
    assert [result.rule.builtin for result in report.rules] == [False, True, True, True, True]
    assert report.verdict == "pass"


def test_judge_without_a_reference_asks_for_no_comparison(make: Maker) -> None:
    report = world(make, [], [SURE], GateRule("accuracy", ">=", 1))
    assert "only_candidate <= 0" not in verdicts(report)
    assert (report.diff, report.changes, report.floor) == (None, [], None)
    assert report.name == "new on labels"


@pytest.mark.parametrize(
    ("after", "failed"),
    [
        ([SURE, None], "missing <= 0"),
        ([SURE, "timeout"], "error <= 0"),
        ([SURE, {"A": 95, "B": 5}], "invalid <= 0"),
    ],
)
def test_judge_fails_what_is_incomplete(make: Maker, after: list[Any], failed: str) -> None:
    # No choice changed among those compared: without its own rules the gate would pass.
    report = world(make, [SURE, SURE], after, GateRule("changed_choices", "<=", 5))
    assert verdicts(report)["changed_choices <= 5"] == "pass"
    assert [result.rule.label for result in report.failing] == [failed]
    assert report.verdict == "fail"


def test_judge_fails_what_the_reference_does_not_decide(make: Maker) -> None:
    report = world(make, [SURE, None], [SURE, OTHER], GateRule("changed_choices", "<=", 0))
    assert [result.rule.label for result in report.failing] == ["only_candidate <= 0"]


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        (GateRule("missing", "<=", 1), "pass"),
        (GateRule("score.counts.missing", "<", 2), "pass"),
        (GateRule("unusable", "<=", 1), "pass"),
        (GateRule("missing", "<=", 0, severity="warning"), "pass"),
        (GateRule("missing", "<=", 1, slice=("part", "one")), "fail"),
        (GateRule("missing", "<=", 1, run="reference"), "fail"),
        (GateRule("missing", ">=", 0), "fail"),
    ],
)
def test_judge_lets_a_rule_replace_its_own(make: Maker, rule: GateRule, verdict: str) -> None:
    assert world(make, [SURE, SURE], [SURE, None], rule).verdict == verdict


def test_judge_lets_a_rule_replace_the_one_on_the_reference(make: Maker) -> None:
    assert (
        world(make, [SURE, None], [SURE, SURE], GateRule("diff.counts.only_candidate", "<=", 1)).verdict
        == "pass"
    )


def test_judge_never_passes_on_no_data(make: Maker) -> None:
    # Every rule of the file is met, and those of the gate are replaced; still nothing was measured.
    lenient = [GateRule(name, "<=", 9) for name in ("missing", "invalid", "error", "only_candidate")]
    report = world(make, [SURE, SURE], ["timeout", None], *lenient)
    assert [result.rule.label for result in report.failing] == ["scored >= 1", "compared >= 1"]
    assert report.verdict == "fail"


def test_judge_compares_at_least_one_item(make: Maker) -> None:
    lenient = [GateRule(name, "<=", 9) for name in ("missing", "only_candidate")]
    report = world(make, [SURE, None], [None, SURE], *lenient)
    assert [result.rule.label for result in report.failing] == ["compared >= 1"]


def test_verdict_is_inconclusive_where_nothing_failed(make: Maker) -> None:
    values = [SURE] * 8
    unsettled = GateRule("accuracy", ">=", 0.9, use="low")
    assert world(make, [], values, unsettled).verdict == "inconclusive"
    assert world(make, [], values, unsettled, GateRule("accuracy", "<=", 0.5)).verdict == "fail"
    excused = GateRule("accuracy", ">=", 0.9, use="low", inconclusive="pass")
    assert world(make, [], values, excused).verdict == "pass"


def test_verdict_item_rule_fails_whatever_the_averages_say(make: Maker) -> None:
    report = world(make, [], [SURE, OTHER], GateRule("accuracy", ">=", 0.1), must=(Must("q1", "A"),))
    assert (report.verdict, report.failing) == ("fail", ())
    assert [result.must.id for result in report.failing_items] == ["q1"]


def test_gate_report_takes_the_worst_verdict(make: Maker) -> None:
    good = world(make, [], [SURE], GateRule("accuracy", ">=", 1))
    bad = world(make, [], [OTHER], GateRule("accuracy", ">=", 1))
    unsure = world(make, [], [SURE], GateRule("accuracy", ">=", 0.9, use="low"))
    for checks, verdict, code in (
        ((good,), "pass", 0),
        ((good, unsure), "inconclusive", 1),
        ((bad, unsure, good), "fail", 1),
        ((), "pass", 1),
    ):
        report = GateReport(checks)
        assert (report.verdict, report.exit_code, report.passed) == (verdict, code, code == 0)


def test_judge_refuses_the_candidate_as_its_own_noise(make: Maker) -> None:
    with pytest.raises(UsageError, match="the candidate cannot be its own noise"):
        world(make, [SURE], [OTHER], GateRule("changed_choices_beyond_noise", "<=", 0), noise=[[OTHER]])


def test_judge_refuses_noise_without_a_reference(make: Maker) -> None:
    with pytest.raises(UsageError, match="--noise needs a reference"):
        world(make, [], [OTHER], GateRule("accuracy", "<=", 1), noise=[[SURE]])


def test_judge_says_what_noise_does_not_show(make: Maker) -> None:
    report = world(
        make, [SURE, SURE], [OTHER, SURE], GateRule("flips", "<=", 9), noise=[[SURE, None], [SURE, SURE]]
    )
    assert "the noise run again is the reference itself: it shows no noise" in report.notices
    partly = world(make, [SURE, SURE], [OTHER, SURE], GateRule("flips", "<=", 9), noise=[[SURE, None]])
    assert "the noise runs decide 1 of 2 items; their floor stands for the others as well" in partly.notices


def test_changes_come_in_their_kinds(make: Maker) -> None:
    near, far = {"A": 0.45, "B": 0.55}, {"A": 0.1, "B": 0.9}
    before = [{"A": 0.51, "B": 0.49}, SURE, {"A": 0.35, "B": 0.65}, SURE, None]
    after = [near, far, {"A": 0.25, "B": 0.75}, None, SURE]
    noise = [[near, None, {"A": 0.2, "B": 0.8}, None, None]]  # moves leads by 0.12 and 0.3
    report = world(make, before, after, GateRule("flips", "<=", 9), noise=noise)
    found = [
        (one["kind"], one["id"], one["noise"], one["line"], one["candidate_action"]) for one in report.changes
    ]
    assert found == [
        ("choice", "q1", None, 2, "drop"),
        ("choice", "q0", "moves in noise", 1, "keep"),
        ("action", "q2", "near tie", 3, "drop"),
        ("decision", "q3", None, 4, "keep"),
        ("decision", "q4", None, 5, "keep"),
    ]
    assert report.changes[0]["candidate_why"] == "p(B) 0.9000 >= 0.7"


def test_changes_without_a_policy_have_no_actions(make: Maker) -> None:
    report = world(make, [SURE], [OTHER], GateRule("flips", "<=", 9), policy=None)
    assert [one["kind"] for one in report.changes] == ["choice"]
    assert "candidate_action" not in report.changes[0]


def test_report_is_valid_by_its_schema(make: Maker) -> None:
    before, after = [SURE, SURE, None], [OTHER, "timeout", SURE]
    rules = [
        GateRule("flips", "<=", 0),
        GateRule("changed_choices_beyond_noise", "<=", 0),
        GateRule("accuracy", ">=", 0.1, use="low", slice=("part", "one")),
        GateRule("ece", "<=", 0.1, run="reference", severity="warning"),
    ]
    full = world(
        make, before, after, *rules, noise=[[SURE, OTHER, None]], must=(Must("q0", "A"), Must("q1", "drop"))
    )
    alone = world(make, [], [SURE], GateRule("accuracy", ">=", 1))
    for report in (GateReport((full,)), GateReport((full, alone)), GateReport((alone,))):
        assert schema.check("gate", report.to_dict()) == []


def test_report_of_nothing_judged_is_valid_by_its_schema() -> None:
    document = not_judged("run.jsonl: holds no decision", 3)
    assert schema.check("gate", document) == []
    assert (document["verdict"], document["exit_code"]) == ("error", 3)


@pytest.mark.parametrize("change", [{"exit_code": 1}, {"error": "x"}, {"checks": []}])
def test_schema_refuses_a_pass_that_is_none(make: Maker, change: dict[str, Any]) -> None:
    document = GateReport((world(make, [], [SURE], GateRule("accuracy", ">=", 1)),)).to_dict()
    assert schema.check("gate", document) == []
    assert schema.check("gate", document | change) != []


def test_judge_name_says_what_was_compared(make: Maker) -> None:
    report = world(make, [SURE, SURE], [SURE, SURE], GateRule("flips", "<=", 0), only={"part": "one"})
    assert report.name == "old -> new on labels (part=one)"
