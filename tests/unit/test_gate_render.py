"""Where a verdict goes: pages, JUnit, annotations, SARIF."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from evalkit.cards import Policy, Rule
from evalkit.comparing import diff
from evalkit.gate import CheckReport, GateReport, GateRule, Inputs, Must, RuleSet, judge
from evalkit.render import Look, findings, gate_view, github, junit, sarif
from evalkit.render.findings import Finding
from evalkit.scoring import Options, score

if TYPE_CHECKING:
    from tests.conftest import Maker

SURE, OTHER, SHAKY = {"A": 0.9, "B": 0.1}, {"A": 0.2, "B": 0.8}, {"A": 0.5, "B": 0.5}
POLICY = Policy((Rule("B", 0.7, "drop"),), "keep")
XSD = etree.XMLSchema(etree.parse(Path(__file__).parent.parent / "data" / "junit.xsd"))
NASTY = "\x1b[31m\u0000\u202e]]>&<'\"|`::error::x%0A\n##[error]y\ufffe"


def check(make: Maker, before: list[Any], after: list[Any], *rules: GateRule, **more: Any) -> CheckReport:
    ids = more.pop("ids", None) or [f"q{n}" for n in range(len(after))]
    labels = make.labels([make.item(name, label=more.get("label", "A")) for name in ids])

    def run(values: list[Any], name: str) -> Any:
        rows = [
            make.row(one, status="error", error=value) if isinstance(value, str) else make.row(one, value)
            for one, value in zip(ids, values, strict=True)
            if value is not None
        ]
        return make.run(rows, name)

    noise = tuple(run(one, "again") for one in more.get("noise", ()))
    reference = run(before, "old") if before else None
    rule_set = RuleSet(rules, more.get("must", ()), "gate.toml", path=more.get("path"))
    options = Options(policy=more.get("policy", POLICY))
    return judge(Inputs(run(after, more.get("name", "new")), rule_set, labels, reference, noise, options))


def full(make: Maker) -> CheckReport:
    return check(
        make,
        [SURE, SURE, SURE, {"A": 0.35, "B": 0.65}, SURE],
        [OTHER, SHAKY, "timeout", {"A": 0.25, "B": 0.75}, SURE],
        GateRule("changed_choices", "<=", 0, name="no change"),
        GateRule("headline_delta", ">=", -0.3, use="low"),
        GateRule("mean_kl", "<=", 0, severity="warning"),
        GateRule("accuracy", ">=", 0.1, use="low", inconclusive="pass"),
        GateRule("max_probability_shift", "<=", 0.1),
        GateRule("ece", "<=", 0.99, name="calibrated"),
        must=(Must("q0", "A"), Must("q4", "keep")),
        noise=[[SURE, SURE, SURE, {"A": 0.51, "B": 0.49}, SURE]],
    )


# pages


def test_page_begins_with_the_verdict(make: Maker) -> None:
    text = gate_view.to_text(GateReport((full(make),)), Look())
    first = text.splitlines()[0]
    assert first == "FAIL: old -> new on labels: 5 of 12 rules failed, 1 warning"
    assert "no change: 1 > 0.\n" in text
    assert "max_probability_shift <= 0.1: 0.70000 > 0.1 (q0, option " in text
    assert "q0 must keep choice A: choice B.\n" in text
    assert re.search(r"^warning: mean_kl <= 0: \d\.\d{5} > 0\.$", text, re.MULTILINE)


def test_page_has_the_rules_with_their_evidence(make: Maker) -> None:
    text = gate_view.to_text(GateReport((full(make),)), Look())
    rows = {cells[0]: cells[1:] for line in text.splitlines() if (cells := re.split(r"\s{2,}", line))}
    assert rows["no change"] == ["<= 0", "1", "-", "FAIL", "-", "-", "metric changed_choices"]
    assert rows["headline_delta [low end]"][:2] == [">= -0.3", "-0.40000"]
    assert rows["headline_delta [low end]"][3] == "FAIL"
    assert "WARNING (fail)" in rows["mean_kl"]
    assert "INCONCLUSIVE (counts as a pass)" in rows["accuracy [low end]"]
    assert rows["max_probability_shift"][-1].startswith("at q0, option ")
    assert rows["only_candidate"][-1] == "built in: items that the reference does not decide"
    assert "adjusted by Holm's method, a claim counts up to 0.025" in text


def test_page_lists_what_changed(make: Maker) -> None:
    text = gate_view.to_text(GateReport((full(make),)), Look())
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "Changed choices, largest shift first (1)" in lines
    assert "q0 A A 0.9000 B 0.8000 broken keep -> drop p(B) 0.8000 >= 0.7 -" in lines
    assert "q3 A B 0.6500 B 0.7500 keep -> drop p(B) 0.7500 >= 0.7 moves in noise" in lines
    assert "q2 A A 0.9000 error keep error: timeout -" in lines
    assert "q2 error 3 timeout" in lines
    assert "q4 action keep action keep A PASS" in lines


def test_page_quiet_is_verdict_and_rules(make: Maker) -> None:
    text = gate_view.to_text(GateReport((full(make),)), Look(quiet=True))
    assert "Rules\n" in text
    assert "Changed choices" not in text


def test_page_limits_its_lists_and_says_so(make: Maker) -> None:
    one = check(make, [SURE] * 9, [OTHER] * 9, GateRule("flips", "<=", 0))
    assert "... and 6 more (--all lists them" in gate_view.to_text(GateReport((one,)), Look(limit=3))
    whole = gate_view.to_text(GateReport((one,)), Look(limit=None))
    assert "more (--all" not in whole
    assert all(f"\nq{n} " in whole for n in range(9))


def test_page_counts_reasons_that_do_not_fit(make: Maker) -> None:
    rules = [GateRule("flips", "<=", 0, name=f"rule {n}") for n in range(14)]
    text = gate_view.to_text(GateReport((check(make, [SURE], [OTHER], *rules),)), Look())
    assert "... and 4 more, in the tables below." in text


def test_page_without_a_reference_or_policy(make: Maker) -> None:
    passed = check(make, [], [SURE], GateRule("accuracy", ">=", 1), policy=None)
    text = gate_view.to_text(GateReport((passed,)), Look())
    assert text.startswith("PASS: new on labels: 4 rules passed\n\n1 of 1 item right.\n")
    nothing = check(make, [], ["timeout"], GateRule("error", "<=", 1), policy=None)
    assert "No item was scored." in gate_view.to_text(GateReport((nothing,)), Look())


def test_page_without_labels_has_no_effects(make: Maker) -> None:
    rule = GateRule("changed_choices", "<=", 0)
    one = check(make, [SURE], [OTHER], rule, label=None, name="old", policy=None)
    text = gate_view.to_text(GateReport((one,)), Look())
    assert re.search(r"^id +reference +candidate$", text, re.MULTILINE)
    assert re.search(r"^q0 +A 0\.9000 +B 0\.8000$", text, re.MULTILINE)


def test_page_of_several_checks_begins_with_all_of_them(make: Maker) -> None:
    good = check(make, [], [SURE], GateRule("accuracy", ">=", 1))
    bad = check(make, [], [OTHER], GateRule("accuracy", ">=", 1))
    text = gate_view.to_text(GateReport((good, bad)), Look())
    assert text.startswith(
        "FAIL: 1 of 2 checks failed\n\nPASS: new on labels: 4 rules passed\n"
        "FAIL: new on labels: 1 of 4 rules failed\n"
    )
    assert gate_view.to_text(GateReport((good, good)), Look()).startswith("PASS: 2 checks passed\n")


def test_page_of_noise_without_probabilities(make: Maker) -> None:
    labels = make.labels([make.item("q1", label="A")])
    before, after, again = (
        make.run([make.row("q1", option_ids=["A", "B"], choice=choice, model=model)])
        for choice, model in (("A", "x"), ("B", "x"), ("A", "y"))
    )
    rules = RuleSet((GateRule("flips", "<=", 0),))
    report = judge(Inputs(after, rules, labels, before, (again,)))
    text = gate_view.to_text(GateReport((report,)), Look())
    assert re.search(r"largest probability shift +- +- +-\n", text)
    assert re.search(r"changed choices +0 +1 +1\n", text)


def test_markdown_is_folded_and_escaped(make: Maker) -> None:
    one = check(make, [SURE], [OTHER], GateRule("flips", "<=", 0, name="a|b`c"), ids=["<b>@x|y"])
    text = gate_view.to_markdown(GateReport((one,)))
    assert text.startswith("## FAIL: ")
    assert "<details><summary>Changed choices, largest shift first (1)</summary>" in text
    assert "<b>" not in text
    assert "| a&#124;b&#96;c |" in text


def test_summary_is_shortened_in_words(make: Maker) -> None:
    items = 400
    one = check(make, [SURE] * items, [OTHER] * items, GateRule("flips", "<=", 0))
    report = GateReport((one,))
    whole = gate_view.summary(report)
    assert whole == gate_view.to_markdown(report)
    room = 20 * 1024
    text = gate_view.summary(report, room)
    assert len(text.encode()) <= room < len(whole.encode())
    assert "This summary was shortened: it may hold 20 KiB" in text
    assert "more (--all lists them" in text
    assert text.startswith("## FAIL")


def test_summary_without_room_keeps_the_verdict(make: Maker) -> None:
    rules = [GateRule("flips", "<=", 0, name=f"{n} {'x' * 400}") for n in range(30)]
    report = GateReport((check(make, [SURE] * 3, [OTHER] * 3, *rules),))
    text = gate_view.summary(report, 6 * 1024)
    assert text.startswith("## FAIL: old -&#62; new on labels: 30 of 34 rules failed\n")
    assert "This summary was shortened" in text
    assert gate_view.summary(report, 100) == ""


def test_failure_page_says_that_nothing_was_judged() -> None:
    text = gate_view.failure_markdown("a.jsonl: no <id>\nb.jsonl: gone", 3)
    assert text.startswith("## ERROR: the gate could not judge (exit code 3)\n\n")
    assert text.endswith("- a.jsonl: no &#60;id&#62;\n- b.jsonl: gone\n")


# JUnit


def suites(text: str) -> ElementTree.Element:
    assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n')
    document = etree.fromstring(text.encode())
    XSD.assertValid(document)
    return ElementTree.fromstring(text)


def test_junit_has_a_case_for_every_rule_and_item(make: Maker) -> None:
    root = suites(junit.of_gate(GateReport((full(make),))))
    assert [suite.get("name") for suite in root] == [
        "evalkit.gate.old -> new on labels",
        "evalkit.gate.old -> new on labels.items",
    ]
    rules, items = root
    assert (rules.get("tests"), rules.get("failures"), rules.get("errors")) == ("10", "4", "0")
    assert (root.get("tests"), root.get("failures")) == ("12", "5")
    failed = {case.get("name"): case.find("failure") for case in rules if case.find("failure") is not None}
    assert {*failed} == {
        "no change",
        "headline_delta [low end] >= -0.3",
        "max_probability_shift <= 0.1",
        "built in: error <= 0",
    }
    (message,) = [
        one.get("message") for name, one in failed.items() if one is not None and name == "no change"
    ]
    assert message == "1 > 0"
    notes = {case.get("name"): case.findtext("system-out") for case in rules}
    assert (notes["mean_kl <= 0"] or "").startswith("warning: ")
    assert (notes["calibrated"] or "").endswith("<= 0.99")
    assert [case.find("failure") is not None for case in items] == [True, False]


def test_junit_without_item_rules_has_one_suite_and_its_remarks(make: Maker) -> None:
    rules = [GateRule("accuracy_delta", ">=", -0.01), GateRule("policy.wrong_actions", "<=", 0)]
    report = GateReport((check(make, [SURE] * 3, [SURE, SURE, OTHER], *rules, policy=None),))
    (suite,) = suites(junit.of_gate(report))
    texts = [failure.text or "" for failure in suite.iter("failure")]
    assert texts[0].endswith("\na tolerance of 0.01 is less than one item (1/3 = 0.3333)")
    assert texts[1].endswith("nothing to measure: there is no policy, or no rule of it acted")
    rows = [re.split(r"\s{2,}", line) for line in gate_view.to_text(report, Look()).splitlines()]
    assert ["policy.wrong_actions", "<= 0", "-", "-", "FAIL"] in [cells[:5] for cells in rows]


def test_junit_of_a_failure_is_an_error() -> None:
    (suite,) = suites(junit.of_failure("run.jsonl: holds no decision\nmore"))
    (case,) = suite
    error = case.find("error")
    assert error is not None
    assert error.get("message") == "run.jsonl: holds no decision"
    assert error.text == "run.jsonl: holds no decision\nmore"


def test_junit_of_scores_fails_wrong_items(make: Maker) -> None:
    labels = make.labels(
        [
            make.item(name, label=label)
            for name, label in (("a", "A"), ("b", "A"), ("c", None), ("d", "A"), ("e", "A"))
        ]
    )
    run = make.run(
        [
            make.row("a", SURE),
            make.row("b", OTHER),
            make.row("c", SURE),
            make.row("d", status="error", error=NASTY),
        ]
    )
    (suite,) = suites(junit.of_reports([score(labels, run)]))
    states = {case.get("name"): [child.tag for child in case] for case in suite}
    assert states == {"a": [], "b": ["failure"], "c": ["skipped"], "d": ["error"], "e": ["error"]}
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors"), suite.get("skipped")) == (
        "5",
        "1",
        "2",
        "1",
    )
    failure = suite[1].find("failure")
    assert failure is not None
    assert failure.get("message") == "b: run chose B 0.8000, label A"


def test_junit_of_diffs_fails_changed_choices(make: Maker) -> None:
    labels = make.labels([make.item(name, label="A") for name in "abc"])
    before = make.run([make.row(name, SURE) for name in "abc"])
    after = make.run([make.row("a", OTHER), make.row("b", SURE)], "after")
    (suite,) = suites(junit.of_reports([diff(labels, before, after)]))
    assert {case.get("name"): [child.tag for child in case] for case in suite} == {
        "a": ["failure"], "b": [], "c": ["error"],
    }  # fmt: skip


@given(st.lists(st.text(st.characters(codec=None, exclude_categories=[])), min_size=1, max_size=6))
def test_junit_takes_any_text(texts: list[str]) -> None:
    cases = [junit.Case(text, "failure", text, f"{text}\n{text}") for text in texts]
    cases += [junit.Case(text, "passed", text) for text in texts]
    (suite,) = suites(junit.to_xml([junit.Suite(texts[0], cases)]))
    names = [case.get("name") for case in suite]
    assert len({*names}) == len(names) == 2 * len(texts)


@pytest.mark.parametrize(
    "change", [str.casefold, lambda text: re.sub(r"\W|_", "", text), lambda text: text[:60]]
)
def test_junit_names_stay_different(change: Any) -> None:
    ids = [
        "a/b",
        "a.b",
        "a b",
        "Q1",
        "q1",
        "x" * 300 + "1",
        "x" * 300 + "2",
        "q1\x1b",
        "q1\\x1b",
        "",
        "grad-05",
    ]
    names = junit.unique_names(ids)
    assert len({change(name) for name in names}) == len(ids)
    assert all(name.endswith(one) for name, one in zip(names, ids, strict=True) if one.isprintable())
    assert "grad-05" in names


def test_junit_names_depend_on_the_ids_alone() -> None:
    ids = ["a/b", "a.b", "q1"]
    assert junit.unique_names(ids[::-1]) == junit.unique_names(ids)[::-1]
    assert junit.unique_names(["q1", "q1"])[0] != junit.unique_names(["q1", "q1"])[1]


# findings


def test_findings_point_at_lines_inside_the_tree(make: Maker) -> None:
    one = full(make)
    assert one.labels.path is not None
    tree = one.labels.path.parent
    found = findings.of_gate(GateReport((one,)), tree)
    kinds = [finding.kind for finding in found]
    assert kinds == ["rule"] * 5 + ["must", "changed", "action", "unusable"]
    placed = {finding.kind: (finding.file, finding.line) for finding in found}
    assert placed["rule"] == ("", None)
    assert placed["must"] == ("labels.jsonl", 1)
    assert placed["changed"] == ("labels.jsonl", 1)
    assert placed["action"] == ("labels.jsonl", 4)
    assert placed["unusable"] == ("labels.jsonl", 3)
    by_kind = {finding.kind: finding for finding in found}
    assert by_kind["changed"].message == "q0: A 0.9000 -> B 0.8000, label A, policy keep -> drop"
    assert by_kind["changed"].title == "evalkit gate: broken"
    assert by_kind["action"].title == "evalkit gate: treated differently"
    assert by_kind["action"].message.endswith("(moves in noise)")
    assert by_kind["unusable"].message == "q2: new has no usable decision: error (timeout)"


def test_findings_outside_of_the_tree_have_no_file(make: Maker) -> None:
    found = findings.of_gate(GateReport((full(make),)), make.folder())
    assert {(finding.file, finding.line) for finding in found} == {("", None)}


def test_findings_of_a_pass_are_its_warnings(make: Maker) -> None:
    one = check(make, [SURE], [OTHER], GateRule("flips", "<=", 0, severity="warning"))
    assert [finding.level for finding in findings.of_gate(GateReport((one,)), Path())] == ["warning"]


def test_findings_of_rules_point_at_the_rules_file(make: Maker) -> None:
    folder = make.folder()
    rule = GateRule("flips", "<=", 0, line=7)
    one = check(make, [SURE], [OTHER], rule, path=folder / "gate.toml")
    first = findings.of_gate(GateReport((one,)), folder)[0]
    assert (first.file, first.line) == ("gate.toml", 7)


def test_findings_without_labels_name_no_effect(make: Maker) -> None:
    labels = None
    before, after = (
        make.run([make.row("a", SURE)]),
        make.run([make.row("a", SHAKY | {"A": 0.4, "B": 0.6})], "after"),
    )
    (one,) = findings.of_diffs([diff(labels, before, after)], Path())
    assert (one.title, one.message) == ("evalkit: changed choice", "after: a: A 0.9000 -> B 0.6000")


# GitHub


def many(level: str, count: int) -> list[Finding]:
    return [Finding("changed", level, "t", f"m{n}", "labels.jsonl", n + 1) for n in range(count)]


@pytest.mark.parametrize(("errors", "warnings"), [(0, 0), (1, 10), (10, 11), (25, 300)])
def test_annotations_keep_to_the_quota(errors: int, warnings: int) -> None:
    lines = github.commands([*many("error", errors), *many("warning", warnings)], "see the log").splitlines()
    for level, count in (("error", errors), ("warning", warnings)):
        shown = [line for line in lines if line.startswith(f"::{level} ")]
        assert len(shown) == min(count, 10)
        if count > 10:
            assert shown[-1].endswith(
                f"::{count} {level}s in all; {count - 9} are not shown here: see the log"
            )


@given(st.text(st.characters(codec=None, exclude_categories=[])))
def test_annotations_are_one_line_whatever_the_text(text: str) -> None:
    out = github.commands([Finding("must", "error", text, text, text, 3)], "")
    assert out.count("\n") == 1
    assert re.fullmatch(r"::error [^\n\r]*::[^\n\r]*\n", out)
    properties = out.removeprefix("::error ").partition("::")[0]
    assert len(properties.split(",")) == 1 + 2 * bool(text)


def test_annotations_escape_what_would_end_a_property() -> None:
    out = github.commands(
        [Finding("must", "error", "a:b,c%", f"100%\n::warning::{NASTY}", "x,y.jsonl", 3)], ""
    )
    assert out.startswith("::error file=x%2Cy.jsonl,line=3,title=a%3Ab%2Cc%25::100%25\\n::warning::")


def test_inert_text_ends_with_a_token_it_cannot_hold() -> None:
    text = "::error::x\n##[error]y"
    wrapped = github.inert(text)
    start, *middle, end = wrapped.splitlines()
    token = start.removeprefix("::stop-commands::")
    assert end == f"::{token}::"
    assert "\n".join(middle) == text
    assert token not in text
    assert github.inert("other\n").splitlines()[0] != start
    assert github.inert("x\n").count("\n") == 3


def test_github_scores_count_and_list_all(make: Maker) -> None:
    labels = make.labels([make.item(f"q{n:05}", label="A") for n in range(25)])
    run = make.run([make.row(f"q{n:05}", OTHER if n else {"A": 0.5, "B": 0.5}) for n in range(24)])
    out = github.of_reports([score(labels, run)])
    lines = out.splitlines()
    assert sum(line.startswith("::warning") for line in lines) == 10
    assert (
        "24 warnings in all; 15 are not shown here: see 'all 24 wrong items and items without a decision'"
        in out
    )
    assert "::group::all 24 wrong items and items without a decision" in lines
    assert all(f"- q{n:05}: " in out for n in range(1, 25))
    assert lines[-1] == "::endgroup::"


def test_github_diffs_name_changes(make: Maker) -> None:
    labels = make.labels([make.item("a", label="A")])
    report = diff(labels, make.run([make.row("a", SURE)]), make.run([make.row("a", OTHER)], "after"))
    assert labels.path is not None
    out = github.of_reports([report], labels.path.parent)
    assert out.startswith(
        "::warning file=labels.jsonl,line=1,title=evalkit%3A broken::"
        "after: a: A 0.9000 -> B 0.8000, label A\n"
    )


# SARIF


def test_sarif_has_the_parts_that_readers_need(make: Maker) -> None:
    one = full(make)
    assert one.labels.path is not None
    document = json.loads(sarif.to_sarif(findings.of_gate(GateReport((one,)), one.labels.path.parent)))
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    assert run["invocations"] == [{"executionSuccessful": True}]
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning")
        assert result["message"]["text"]
    marks = [result["partialFingerprints"]["evalkit/1"] for result in run["results"]]
    assert len({*marks}) == len(marks)
    must = next(result for result in run["results"] if result["ruleId"] == "must")
    assert must["locations"] == [
        {"physicalLocation": {"artifactLocation": {"uri": "labels.jsonl"}, "region": {"startLine": 1}}}
    ]


def test_sarif_of_odd_names_is_strict() -> None:
    found = [
        Finding("changed", "warning", NASTY, NASTY, "a b/\u5b66.jsonl", 2),
        Finding("rule", "error", "t", "m", "x.toml"),
    ]
    text = sarif.to_sarif(found)
    first, second = json.loads(text)["runs"][0]["results"]
    assert "\x1b" not in text
    assert first["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "a%20b/%E5%AD%A6.jsonl"
    assert "region" not in second["locations"][0]["physicalLocation"]


def test_sarif_of_a_failure_is_no_success() -> None:
    (run,) = json.loads(sarif.to_sarif([], error="run.jsonl: damaged"))["runs"]
    assert run["results"] == []
    assert run["invocations"][0]["executionSuccessful"] is False
    assert run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"] == "run.jsonl: damaged"
