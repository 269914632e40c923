"""Gate reports as documents: the verdict first, then the rules, then the items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evalkit.gate.check import CheckReport, GateReport
from evalkit.gate.metrics import Measure
from evalkit.gate.must import MustResult
from evalkit.gate.noise import WITHIN
from evalkit.gate.rules import number_text
from evalkit.gate.verdict import PASS, RuleResult, apart
from evalkit.render import Look
from evalkit.render.diff_view import sentences
from evalkit.render.document import Document, Table
from evalkit.render.findings import chosen
from evalkit.render.numbers import NONE, number, p_value, plural
from evalkit.scoring import unusable

SUMMARY_BYTES = 1024 * 1024
"""A step summary of GitHub Actions holds at most 1 MiB; more, and none of it is shown."""

_MARGIN = 4096
_SHOWN_REASONS = 10


def documents(report: GateReport, look: Look) -> list[Document]:
    """Lay a gate report out: one page a check, and before several of them the verdict on all."""
    pages = [document(check, look) for check in report.checks]
    if len(pages) == 1:
        return pages
    bad = sum(check.verdict != PASS for check in report.checks)
    count = plural(len(pages), "check")
    title = f"{report.verdict.upper()}: {f'{bad} of {count} failed' if bad else f'{count} passed'}"
    return [Document(title=title, summary=[headline(check) for check in report.checks]), *pages]


def document(check: CheckReport, look: Look) -> Document:
    """Lay one check out."""
    tables = [_rules(check)]
    if not look.quiet:
        tables += [_must(check.items), _noise(check), *_changes(check, look), _unusable(check, look)]
    return Document(
        title=headline(check),
        summary=[*_reasons(check), *_in_words(check)],
        tables=[table for table in tables if table.rows],
        notices=check.notices,
        signatures=() if look.quiet else [str((check.diff or check.score).signature["text"])],
    )


def headline(check: CheckReport) -> str:
    """Return the verdict line of a check."""
    failed = len(check.failing) + len(check.failing_items)
    rules = len(check.rules) + len(check.items)
    what = f"{failed} of {plural(rules, 'rule')} failed" if failed else f"{plural(rules, 'rule')} passed"
    warnings = sum(not result.holds and not result.fails_gate for result in check.rules)
    if warnings:
        passed = rules - warnings
        what = f"{passed} of {rules} rules passed" if not failed else what
        what += f", {plural(warnings, 'warning')}"
    return f"{check.verdict.upper()}: {check.name}: {what}"


def _reasons(check: CheckReport) -> list[str]:
    """Say what failed, which items did not keep what they must, and what is only a warning."""
    failing = sorted(check.failing, key=lambda result: not result.rule.builtin)
    lines = [f"{result.rule.label}: {result.reason}." for result in failing]
    lines += [
        f"{result.must.id} must keep {result.wanted}: {result.reason}." for result in check.failing_items
    ]
    lines += [
        f"warning: {result.rule.label}: {result.reason}."
        for result in check.rules
        if not result.holds and not result.fails_gate
    ]
    hidden = len(lines) - _SHOWN_REASONS
    return [
        *lines[:_SHOWN_REASONS],
        *([f"... and {hidden} more, in the tables below."] if hidden > 0 else []),
    ]


def _in_words(check: CheckReport) -> list[str]:
    if check.diff is not None:
        return sentences(check.diff)
    counts, overall = check.score.counts, check.score.overall
    if not counts["scored"]:
        return ["No item was scored."]
    return [f"{overall['correct']} of {plural(overall['labelled'], 'item')} right."]


def _rules(check: CheckReport) -> Table:
    level = check.inputs.options.resampling.level
    tested = any(result.p is not None for result in check.rules)
    remarks = [_remark(result) for result in check.rules]
    header = ["rule", "wanted", "got", f"{level * 100:g} % interval", "verdict"]
    header += ["p", "adjusted p"] if tested else []
    header += ["remark"] if any(remarks) else []
    rows = [
        [
            result.rule.name or result.rule.what,
            result.rule.wanted,
            _got(result),
            _interval(result.measure),
            _verdict(result),
            *([_p(result.p), _p(result.p_adjusted)] if tested else []),
            *([remark] if any(remarks) else []),
        ]
        for result, remark in zip(check.rules, remarks, strict=True)
    ]
    note = f"Rules from {check.inputs.rules.file}."
    if tested:
        note += (
            " p is one-sided, for what a rule on an end of an interval claims; adjusted by Holm's method, "
            f"a claim counts up to {(1 - level) / 2:g}."
        )
    return Table("Rules", header, rows, left=len(header), note=note)


def _got(result: RuleResult) -> str:
    value = result.measure.value
    if value is None:
        return NONE
    return number_text(value) if result.measure.count else apart(value, result.rule.value)


def _interval(found: Measure) -> str:
    if found.low is None or found.high is None:
        return NONE
    sign = "+" if found.is_delta else ""
    return f"[{found.low:{sign}.4f}, {found.high:{sign}.4f}]"


def _verdict(result: RuleResult) -> str:
    if result.holds or result.fails_gate:
        held = " (counts as a pass)" if result.holds and result.verdict != PASS else ""
        return result.verdict.upper() + held
    return f"WARNING ({result.verdict})"


def _p(value: float | None) -> str:
    return NONE if value is None else p_value(value).removeprefix("p ").removeprefix("= ")


def _remark(result: RuleResult) -> str:
    parts = [
        _BUILT_IN.get(result.rule.metric, "built in") if result.rule.builtin else "",
        f"metric {result.rule.what}" if result.rule.name else "",
        result.measure.why_not,
        f"at {result.measure.place}" if result.measure.place else "",
        f"about {result.needed} items would settle it" if result.needed else "",
        result.remark,
    ]
    return "; ".join(part for part in parts if part)


_BUILT_IN = {"only_candidate": "built in: items that the reference does not decide"}


def _must(items: Sequence[MustResult]) -> Table:
    rows = [
        [result.must.id, result.wanted, result.reason, result.label or NONE, result.verdict.upper()]
        for result in items
    ]
    return Table(
        "Items that must keep what they have", ["id", "must keep", "got", "label", "verdict"], rows, left=5
    )


def _noise(check: CheckReport) -> Table:
    if check.floor is None:
        return Table("", [], [])
    figures = check.floor.figures
    shift, beyond = figures["max_probability_shift"], figures["max_probability_shift_beyond_noise"]
    diff = check.diff.overall if check.diff else {}
    largest = diff["max_probability_shift"]
    rows = [
        [
            "changed choices",
            _count(figures["changed_choices"]),
            str(diff["changed_choices"]),
            _count(figures["changed_choices_beyond_noise"]),
        ],
        [
            "largest probability shift",
            number(shift),
            number(largest and largest["value"]),
            number(beyond and beyond["value"]),
        ],
    ]
    runs = ", ".join(check.floor.runs)
    usual, largest_move = figures["movement_of_a_lead"], figures["largest_movement_of_a_lead"]
    note = (
        f"Noise moves the lead of a choice by up to {number(usual)} in {WITHIN * 100:g} % of the items "
        f"(largest {number(largest_move)}): near ties, which noise alone could turn, are the "
        f"{plural(figures['near_ties'] or 0, 'item')} with no larger lead in the reference."
    )
    return Table(f"Noise floor ({runs})", ["", "noise", "candidate", "beyond noise"], rows, note=note)


def _count(value: int | None) -> str:
    return NONE if value is None else str(value)


_TITLES = {
    "choice": "Changed choices, largest shift first",
    "action": "Same choice, but treated differently by the policy",
    "decision": "Decided on one side only",
}


def _changes(check: CheckReport, look: Look) -> list[Table]:
    return [_changed(check, kind, title, look) for kind, title in _TITLES.items()]


def _changed(check: CheckReport, kind: str, title: str, look: Look) -> Table:
    records = [record for record in check.changes if record["kind"] == kind]
    shown = records[: look.limit]
    labelled = check.labels.labelled
    policy = check.score.actions is not None
    header = ["id", *(["label"] if labelled else []), *_sides(check)]
    header += [
        *(["effect"] if kind == "choice" and labelled else []),
        *(["policy", "why now"] if policy else []),
    ]
    header += ["noise"] if check.floor is not None else []
    rows = [
        [
            record["id"],
            *([record["label"] or NONE] if labelled else []),
            chosen(record, "reference"),
            chosen(record, "candidate"),
            *([record["effect"]] if kind == "choice" and labelled else []),
            *([_action(record), record["candidate_why"]] if policy else []),
            *([record["noise"] or NONE] if check.floor is not None else []),
        ]
        for record in shown
    ]
    note = _hidden(len(records) - len(rows))
    return Table(f"{title} ({len(records)})", header, rows, left=len(header), fold=True, note=note)


def _hidden(count: int) -> str:
    return f"... and {count} more (--all lists them, and so does the file of --json)" if count else ""


def _sides(check: CheckReport) -> tuple[str, str]:
    """Name the columns of the two runs: by their names, where these differ."""
    reference, candidate = check.inputs.reference, check.inputs.candidate
    if reference is None or reference.name == candidate.name:
        return "reference", "candidate"
    return reference.name, candidate.name


def _action(record: Mapping[str, Any]) -> str:
    before, now = record["reference_action"], record["candidate_action"]
    return str(now) if before == now else f"{before} -> {now}"


def _unusable(check: CheckReport, look: Look) -> Table:
    rows = [
        [
            entry["id"],
            entry["status"],
            NONE if entry["line"] is None else str(entry["line"]),
            entry["reason"] or NONE,
        ]
        for entry in unusable(check.score.decisions, look.limit)
    ]
    total = sum(check.score.counts[name] for name in ("missing", "invalid", "error"))
    return Table(
        f"Without a usable decision in the candidate ({total})",
        ["id", "status", "line", "reason"],
        rows,
        left=4,
        fold=True,
        note=_hidden(total - len(rows)),
    )


def to_text(report: GateReport, look: Look) -> str:
    """Write a gate report as text."""
    from evalkit.render import page

    return "\n".join(page.to_text(one, look) for one in documents(report, look))


def to_markdown(report: GateReport, limit: int | None = None) -> str:
    """Write a gate report as GitHub markdown: what a reviewer reads in a pull request."""
    from evalkit.render import page

    return "\n".join(page.to_markdown(one) for one in documents(report, Look(limit=limit)))


def summary(report: GateReport, room: int = SUMMARY_BYTES) -> str:
    """Write a gate report as GitHub markdown that is no longer than a step summary may be.

    Args:
        report: the report.
        room: how many bytes of UTF-8 there are.

    Returns:
        The whole report where it fits; else with shorter lists, and a sentence that says so.
    """
    text = to_markdown(report)
    longest = max((len(check.changes) for check in report.checks), default=0)
    limit = max(longest, max((check.score.counts["items"] for check in report.checks), default=0))
    while len(text.encode("utf-8")) > room - _MARGIN and limit:
        limit //= 2
        text = to_markdown(report, limit) + _shortened(room)
    if len(text.encode("utf-8")) > room - _MARGIN:
        titles = "\n\n".join(f"## {_short(one.title)}" for one in documents(report, Look(quiet=True))[:1])
        text = f"{titles}\n{_shortened(room)}"
    return text if len(text.encode("utf-8")) <= room else ""


def _shortened(room: int) -> str:
    return (
        f"\nThis summary was shortened: it may hold {room // 1024} KiB. All items are in the file that "
        "--json writes, and in the text output with --all.\n"
    )


def _short(title: str) -> str:
    from evalkit.render.escape import markdown

    return markdown(title[:500])


def failure_markdown(message: str, exit_code: int) -> str:
    """Write markdown for a gate that could not judge: no pass either."""
    from evalkit.render.escape import markdown

    lines = "\n".join(f"- {markdown(line)}" for line in message.splitlines())
    return f"## ERROR: the gate could not judge (exit code {exit_code})\n\n{lines}\n"
