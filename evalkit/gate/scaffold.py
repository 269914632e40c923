"""A first rules file: commented, with values taken from a reference."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evalkit.gate.rules import number_text
from evalkit.scoring import ScoreReport

_CHANGED_SHARE = 0.05
_EXAMPLES = 3
_WIDTH = 100

_TOP = """\
# Rules for `evalkit gate`, written by `evalkit gate init`.
#
# The values are those of the current reference, {run} on {labels}
# ({items} items, sha256 of the run {digest}...), or follow from them as the comments say.
# They describe that one run and are a start, not a judgement: change them to what your product can bear,
# and delete what it does not need.
#
#     evalkit gate CANDIDATE --reference {reference} --labels {set_name} --rules {file}
#
# Built in, without a rule: no item is missing, invalid or failed in the candidate. To allow some, write
# a rule on that count, for example metric = "error", op = "<=", value = 2.
#
# At hand: label sets {label_sets}; runs {runs}.
"""


def rules_text(
    report: ScoreReport,
    *,
    reference: str,
    file: str,
    set_name: str,
    label_sets: Sequence[str],
    runs: Sequence[str],
) -> str:
    """Write a commented rules file for a label set.

    Args:
        report: the score of the current reference.
        reference: how the reference is named on the command line.
        file: what the rules file will be called.
        set_name: how the label set is named on the command line.
        label_sets: the label sets at hand.
        runs: the runs at hand.

    Returns:
        TOML that :func:`evalkit.gate.rules.load_rules` takes, and that the reference itself passes.
    """
    labels = report.labels
    version = f"@{labels.version}" if labels.version else ""
    top = _TOP.format(
        run=_plain(report.run.name),
        reference=_plain(reference),
        labels=_plain(labels.name + version),
        items=len(labels),
        digest=report.run.sha256[:12],
        set_name=_plain(set_name),
        file=_plain(file),
        label_sets=_plain(", ".join(label_sets) or "none"),
        runs=_plain(", ".join(runs) or "none"),
    )
    parts = [top, *_quality(report), *_drift(report), *_policy(report), *_counts(report), _must(report)]
    return "\n".join(part for part in parts if part)


def _quality(report: ScoreReport) -> list[str]:
    headline = report.labels.headline
    found = report.overall[headline]
    if found is None or found["low"] is None:
        return []
    floor = _rounded_down(found["low"])
    level = report.signature["intervals"]["level"]
    return [
        _rule(
            "The floor of quality: the low end of the reference's "
            f"{level * 100:g} % interval ({found['value']:.4f} [{found['low']:.4f}, {found['high']:.4f}]).",
            {"metric": headline, "op": ">=", "value": floor},
        ),
        _rule(
            "The same floor for the reference: bad on both sides is not green.",
            {"metric": headline, "op": ">=", "value": floor, "run": "reference"},
        ),
        _rule(
            "Not worse than the reference: fails where the whole interval of the difference lies below 0.",
            {"metric": "headline_delta", "op": ">=", "value": 0, "use": "high"},
        ),
    ]


def _drift(report: ScoreReport) -> list[str]:
    items = len(report.labels)
    tied = report.counts["ties"]
    ties = f" Choices of the reference on an exact tie: {tied}." if tied else ""
    return [
        _rule(
            f"At most this share of the choices may change: {int(items * _CHANGED_SHARE)} of {items}. "
            f"A share to start from, not taken from the reference.{ties}",
            {"metric": "changed_share", "op": "<=", "value": _CHANGED_SHARE},
        )
    ]


def _policy(report: ScoreReport) -> list[str]:
    if report.policy is None:
        return []
    return [
        _rule(
            "No more wrong actions than the reference takes.",
            {"metric": "policy.wrong_actions", "op": "<=", "value": report.policy["wrong_actions"]},
        ),
        _rule(
            "Shown to the reviewer, without failing: items that production would treat differently.",
            {"metric": "policy.treated_differently", "op": "<=", "value": 0, "severity": "warning"},
        ),
    ]


def _counts(report: ScoreReport) -> list[str]:
    censored = report.counts["censored"]
    return [
        _rule(
            "No more censored decisions (a probability known only as a range) than in the reference.",
            {"metric": "censored", "op": "<=", "value": censored},
        )
    ]


def _must(report: ScoreReport) -> str:
    """Write some items that the reference gets right as commented item rules."""
    decisions = report.decisions
    right = np.flatnonzero(decisions.correct)[:_EXAMPLES].tolist()
    lines = [
        "# Items that must keep their choice or their action, whatever the averages say: take the # away and",
        "# put your own. These are the first that the reference gets right.",
        "#[must]",
    ]
    lines += [
        f"#{_quoted(report.labels.ids[item].as_py())} = "
        f"{{choice = {_quoted(decisions.option(item, int(decisions.gold[item])) or '')}}}"
        for item in right
    ]
    return "\n".join(lines) + "\n"


def _rule(comment: str, values: Mapping[str, Any]) -> str:
    lines = [*(f"# {line}" for line in textwrap.wrap(comment, _WIDTH)), "[[rule]]"]
    for key, value in values.items():
        lines.append(f"{key} = {_quoted(value) if isinstance(value, str) else number_text(float(value))}")
    return "\n".join(lines) + "\n"


def _rounded_down(value: float) -> float:
    """Round down to three digits, so that the reference itself keeps to it."""
    return float(np.floor(value * 1000) / 1000)


def _quoted(text: str) -> str:
    """Write a TOML basic string; JSON's escapes are TOML's."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _plain(text: str) -> str:
    """Keep a name on its comment line."""
    return "".join(sign if sign.isprintable() else " " for sign in text)
