"""JUnit XML, as Jenkins and GitLab read it.

A test case is identified by its class name and its name alone, so the two together are unique here, and
stay so where a reader ignores case, cleans names or cuts them.
Source: the XSD of the Jenkins xUnit plugin (jenkins-junit.xsd), and GitLab Docs, "Unit test reports".
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from evalkit.gate.verdict import PASS
from evalkit.render.escape import visible
from evalkit.render.findings import change, wrong

if TYPE_CHECKING:
    from evalkit.comparing import DiffReport
    from evalkit.gate.check import CheckReport, GateReport
    from evalkit.scoring import ScoreReport

_LONG = 60
_DIGEST = 8


@dataclass(frozen=True)
class Case:
    """One test case."""

    id: str
    """What it is about: an item's id, a rule."""
    state: str = "passed"
    """passed, failure, error or skipped."""
    message: str = ""
    """A sentence on what is wrong."""
    text: str = ""
    """More lines on it."""


@dataclass(frozen=True)
class Suite:
    """A group of test cases."""

    name: str
    """Its name; the class name of its cases."""
    cases: Sequence[Case]
    """Its cases."""


def unique_names(ids: Sequence[str]) -> list[str]:
    """Make names of ids that nobody confuses.

    An id stays as it is where it is short and, without its punctuation and in lower case, like no other.
    Any other gets a digest of itself in front: there it survives cutting, and a name depends on the ids
    alone, not on their order.

    Args:
        ids: the ids; one that occurs again gets its number in front.
    """
    keys = [_key(one) for one in ids]
    times = Counter(keys)
    before: Counter[str] = Counter()
    names = []
    for one, key in zip(ids, keys, strict=True):
        plain = times[key] == 1 and key and len(one) <= _LONG
        again = f"({before[one] + 1}) " if before[one] else ""
        names.append(again + (visible(one) if plain else f"{_digest(one)} {visible(one)}"))
        before[one] += 1
    return names


def _key(text: str) -> str:
    return "".join(sign for sign in visible(text).casefold() if sign.isalnum())[:_LONG]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]


def to_xml(suites: Sequence[Suite]) -> str:
    """Write suites as a JUnit document, control characters made visible."""
    from junitparser import JUnitXml, TestSuite

    root: Any = JUnitXml("evalkit")
    names = unique_names([suite.name for suite in suites])
    totals: Counter[str] = Counter()
    for suite, name in zip(suites, names, strict=True):
        element: Any = TestSuite(name)
        cases = zip(suite.cases, unique_names([case.id for case in suite.cases]), strict=True)
        element.extend([_case(case, case_name, name) for case, case_name in cases])
        states = Counter(case.state for case in suite.cases)
        element.tests, element.failures = len(suite.cases), states["failure"]
        element.errors, element.skipped = states["error"], states["skipped"]
        root.append(element)
        totals += states
    root.tests, root.failures, root.errors = totals.total(), totals["failure"], totals["error"]
    tree = ElementTree.fromstring(root.tostring())
    ElementTree.indent(tree, " ")
    body = ElementTree.tostring(tree, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _case(case: Case, name: str, classname: str) -> Any:
    from junitparser import Error, Failure, Skipped, TestCase

    element: Any = TestCase(name, classname)
    if case.state == "passed":
        if case.message:
            element.system_out = _lines(case.message)
        return element
    made: Callable[..., Any] = {"failure": Failure, "error": Error, "skipped": Skipped}[case.state]
    result = made(visible(case.message) or None, case.state)
    if case.text:
        result.text = _lines(case.text)
    element.append(result)
    return element


def _lines(text: str) -> str:
    return "\n".join(visible(line) for line in text.split("\n"))


def of_gate(report: GateReport) -> str:
    """Write a gate report: a test case a rule and an item rule."""
    return to_xml([suite for check in report.checks for suite in _check(check)])


def _check(check: CheckReport) -> Iterator[Suite]:
    about = f"{check.name}, rules of {check.inputs.rules.file}"
    rules = []
    for result in check.rules:
        state = "failure" if result.fails_gate else "passed"
        message = result.reason
        if not result.holds and not result.fails_gate:
            message = f"warning: {message}"
        text = f"{about}: wanted {result.rule.wanted}, {message}" if result.fails_gate else ""
        if result.remark:
            text += f"\n{result.remark}"
        prefix = "built in: " if result.rule.builtin else ""
        rules.append(Case(prefix + result.rule.label, state, message, text))
    yield Suite(f"evalkit.gate.{check.name}", rules)
    if check.items:
        items = [
            Case(
                result.must.id,
                "passed" if result.verdict == PASS else "failure",
                f"must keep {result.wanted}: {result.reason}",
                f"{about}: label {result.label}, line {result.line} of {check.labels.file}",
            )
            for result in check.items
        ]
        yield Suite(f"evalkit.gate.{check.name}.items", items)


def of_failure(message: str) -> str:
    """Write a gate that could not judge: one test case with an error."""
    return to_xml([Suite("evalkit.gate", [Case("inputs", "error", message.partition("\n")[0], message)])])


def of_reports(reports: Sequence[Any]) -> str:
    """Write score reports (wrong items fail) or diff reports (changed choices fail): a test case an item."""
    from evalkit.comparing import DiffReport

    return to_xml(
        [_diffed(report) if isinstance(report, DiffReport) else _scored(report) for report in reports]
    )


def _scored(report: ScoreReport) -> Suite:
    decisions, ids = report.decisions, report.labels.ids.to_pylist()
    cases = []
    for item, name in enumerate(ids):
        line = f"line {report.labels.lines[item]} of {report.labels.file}"
        if not decisions.usable[item]:
            cases.append(
                Case(name, "error", f"no usable decision: {_status(report, item)}", f"{name}: {line}")
            )
        elif decisions.gold[item] < 0:
            cases.append(Case(name, "skipped", "the item has no label"))
        elif not decisions.correct[item]:
            cases.append(Case(name, "failure", wrong(report, item), f"{name}: {line}"))
        else:
            cases.append(Case(name))
    return Suite(f"evalkit.score.{report.run.name}.{report.labels.name}", cases)


def _status(report: ScoreReport, item: int) -> str:
    from evalkit.rows import STATUS_NAMES

    reason = report.decisions.reason(item)
    return STATUS_NAMES[report.decisions.status[item]] + (f" ({reason})" if reason else "")


def _diffed(report: DiffReport) -> Suite:
    changed = {record["id"]: record for record in report.changed()}
    once = {name for ids in report.decided_once().values() for name in ids}
    cases = []
    for name in report.labels.ids.to_pylist():
        if name in changed:
            cases.append(Case(name, "failure", change(changed[name])))
        elif name in once:
            cases.append(Case(name, "error", "decided on one side only"))
        else:
            cases.append(Case(name))
    runs = f"{report.reference.run.name} -> {report.candidate.run.name}"
    return Suite(f"evalkit.diff.{runs}.{report.labels.name}", cases)
