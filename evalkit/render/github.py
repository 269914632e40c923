"""Workflow commands of GitHub Actions: annotations that point at lines.

GitHub shows 10 errors and 10 warnings a step and drops the rest without a word, so the last one of a kind
counts those that are not shown.
Source: GitHub Docs, "Workflow commands for GitHub Actions"; for the limits, actions/toolkit,
docs/problem-matchers.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evalkit.render.escape import visible
from evalkit.render.findings import Finding, of_diffs, of_scores
from evalkit.render.numbers import plural

MOST = 10
"""Annotations of one level that a step may show."""

_DATA = (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"))
_PROPERTY = (*_DATA, (":", "%3A"), (",", "%2C"))


def commands(findings: Sequence[Finding], where: str) -> str:
    """Write findings as annotations, at most MOST errors and MOST warnings.

    Args:
        findings: the findings, the important ones first.
        where: where all of them can be read.
    """
    lines = []
    for level in ("error", "warning"):
        chosen = [finding for finding in findings if finding.level == level]
        hidden = len(chosen) - (MOST - 1) if len(chosen) > MOST else 0
        lines += [_command(finding) for finding in chosen[: len(chosen) - hidden]]
        if hidden:
            text = f"{plural(len(chosen), level)} in all; {hidden} are not shown here: {where}"
            lines.append(_command(Finding("rule", level, "evalkit: more", text)))
    return "".join(f"{line}\n" for line in lines)


def _command(finding: Finding) -> str:
    properties = {"file": finding.file, "line": finding.line, "title": finding.title}
    given = ",".join(f"{key}={_escaped(str(value), _PROPERTY)}" for key, value in properties.items() if value)
    return f"::{finding.level} {given}::{_escaped(finding.message, _DATA)}"


def _escaped(text: str, table: Sequence[tuple[str, str]]) -> str:
    # Control characters become visible first, so that an annotation has one line.
    text = visible(text)
    for sign, code in table:
        text = text.replace(sign, code)
    return text


def inert(text: str) -> str:
    """Wrap text so that a runner obeys no command in it, wherever it stands in a line.

    Command processing is stopped until a token comes that the text cannot hold: a digest of itself.
    """
    token = f"evalkit-{hashlib.sha256(text.encode('utf-8', 'backslashreplace')).hexdigest()[:32]}"
    end = "" if text.endswith("\n") or not text else "\n"
    return f"::stop-commands::{token}\n{text}{end}::{token}::\n"


def of_reports(reports: Sequence[Any], tree: Path | None = None) -> str:
    """Write score reports (wrong items) or diff reports (changed choices) for GitHub Actions.

    Args:
        reports: reports of one kind.
        tree: the working tree, to which files are relative; the current folder by default.

    Returns:
        Annotations, and in a folded group of the log every item.
    """
    from evalkit.comparing import DiffReport

    tree = tree or Path()
    diffs = isinstance(reports[0], DiffReport)
    findings = of_diffs(reports, tree) if diffs else of_scores(reports, tree)
    what = "changed choices" if diffs else "wrong items and items without a decision"
    title = f"all {len(findings)} {what}"
    listed = inert("".join(f"- {visible(finding.message)}\n" for finding in findings))
    shown = commands(findings, f"see '{title}' in the log of this step")
    return f"{shown}::group::{title}\n{listed}::endgroup::\n"
