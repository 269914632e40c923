"""From the name of a metric to its number: which report it is in, and what it is there.

A name is looked for in this order, and the first place that has it counts:

1. the score of the candidate (or of the reference, with ``run = "reference"``): the report itself, its
   ``overall``, its ``counts``;
2. the diff against the reference: the report itself, its ``overall``, its ``counts``;
3. the noise floor.

A prefix ``score.``, ``diff.`` or ``noise.`` names the report. So ``balanced_accuracy`` is that of the
candidate's score, ``changed_choices`` and ``accuracy_delta`` are those of the diff, ``policy.wrong_actions``
is the score's, and ``policy.transitions.keep->drop`` the diff's. Two names are the gate's own: ``headline``
(and ``headline_delta``) is the figure by which the label set is summed up, and ``unusable`` counts the items
that are missing, invalid or failed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evalkit import schema
from evalkit.errors import InputError, Problem, UsageError
from evalkit.gate.reports import Reports, Slice, diff_tree, score_tree
from evalkit.gate.rules import GateRule
from evalkit.jsonl import is_number

_OF_NOISE = ("changed_choices_beyond_noise", "max_probability_shift_beyond_noise")
_REPORTS = ("score", "diff", "noise")


@dataclass(frozen=True)
class Measure:
    """The number that a rule is about."""

    path: str
    """Where it was found: report and dotted path."""
    value: float | None
    """The number; None where there is nothing to measure."""
    low: float | None = None
    """Lower end of its interval."""
    high: float | None = None
    """Upper end of its interval."""
    has_interval: bool = False
    """It is a figure that comes with an interval."""
    n: int = 0
    """How many items it rests on."""
    flips: int = 0
    """How many of them turned from right to wrong or back, for a difference between two runs."""
    count: bool = False
    """It is a whole number of items."""
    place: str = ""
    """The item it was found at, for a largest value."""
    why_not: str = ""
    """Why there is nothing to measure."""

    @property
    def is_delta(self) -> bool:
        """It is a difference between two runs."""
        return self.path.endswith("_delta") and not self.path.endswith("detectable_delta")


@dataclass(frozen=True)
class _Root:
    """One place in which names are looked up."""

    path: str
    tree: Mapping[str, Any]


def measure(rule: GateRule, reports: Reports, file: str) -> Measure:
    """Find the number of a rule.

    Args:
        rule: the rule.
        reports: the reports of the gate.
        file: the rules file, for messages.

    Raises:
        InputError: no report has such a metric (the nearest names are suggested), or it is no number.
        UsageError: it needs a reference or noise runs, and none were named.
    """
    rule = _unfolded(rule, reports)
    if rule.slice is not None:
        _check_slice(rule, reports, file)
    part = rule.slice if reports.holds(rule.slice) else None
    report, name = _split(rule.metric)
    for path, found in _found(report, name, rule, reports, part):
        taken = _taken(found, path, rule, file)
        if rule.use != "value" and not taken.has_interval:
            raise InputError(
                Problem(
                    f"the metric {rule.metric!r} has no interval, so it has no {rule.use} end",
                    file,
                    rule.line,
                    remedy="leave `use` out",
                )
            )
        if not reports.holds(rule.slice):
            return Measure(taken.path, None, why_not="the gate is restricted to other items")
        return _completed(taken, reports, rule, part)
    raise _unknown(rule, reports, report, name, file)


def _unfolded(rule: GateRule, reports: Reports) -> GateRule:
    """Read a path of the form by.FIELD.VALUE.METRIC as METRIC of the slice FIELD=VALUE."""
    report, name = _split(rule.metric)
    prefix, _, rest = name.partition(".")
    if prefix != "by" or rule.slice is not None:
        return rule
    labels = reports.labels
    values = {field: coded.names for field, coded in labels.fields.items()}
    values |= {field: tuple(members) for field, members in labels.memberships.items()}
    for field, names in values.items():
        for value in names:
            path = f"{field}.{value}."
            if rest.startswith(path):
                metric = f"{report}.{rest[len(path) :]}" if report else rest[len(path) :]
                return replace(rule, metric=metric, slice=(field, value))
    return rule


def _found(
    report: str | None, name: str, rule: GateRule, reports: Reports, part: Slice
) -> Iterator[tuple[str, Any]]:
    """Find the places that have a name; a name that only the whole set has is null in a slice."""
    for where in (part, None) if part else (None,):
        for root in _roots(report, rule, reports, where):
            found = _walk(root.tree, name)
            if found is not _ABSENT:
                yield f"{root.path}.{name}", found if where == part else None


def _split(metric: str) -> tuple[str | None, str]:
    head, dot, rest = metric.partition(".")
    return (head, rest) if dot and head in _REPORTS else (None, metric)


def _roots(report: str | None, rule: GateRule, reports: Reports, part: Slice) -> Iterator[_Root]:
    if report in (None, "score") and (rule.run == "candidate" or reports.compares):
        yield from _places("score", score_tree(reports.score(rule.run, part)))
    if report in (None, "diff") and reports.compares:
        yield from _places("diff", diff_tree(reports.diff(part)))
    if report in (None, "noise") and reports.compares and reports.noise:
        yield _Root("noise", reports.floor(part).figures)


def _places(name: str, tree: Mapping[str, Any]) -> Iterator[_Root]:
    yield _Root(name, tree)
    yield _Root(f"{name}.overall", tree["overall"])
    yield _Root(f"{name}.counts", tree["counts"])


_ABSENT = object()


def _walk(node: Any, path: str) -> Any:
    """Follow a dotted path; keys may hold dots themselves. Below a null everything is null."""
    if node is None:
        return None
    if not isinstance(node, Mapping):
        return _ABSENT
    if path in node:
        return node[path]
    for key, child in node.items():
        if path.startswith(f"{key}."):
            found = _walk(child, path[len(key) + 1 :])
            if found is not _ABSENT:
                return found
    return _ABSENT


def _taken(found: Any, path: str, rule: GateRule, file: str) -> Measure:
    """Read a number, a figure with an interval, or one side of a pair."""
    if isinstance(found, Mapping) and found.keys() == {"reference", "candidate"}:
        found = found[rule.run]
    elif rule.run == "reference" and not path.startswith("score"):
        raise InputError(
            Problem(
                f"{rule.metric!r} compares two runs: it is not a figure of the reference alone",
                file,
                rule.line,
                remedy='leave `run = "reference"` out',
            )
        )
    if found is None:
        return Measure(path, None, has_interval=True)
    if is_number(found):
        return Measure(path, float(found), count=isinstance(found, int))
    if isinstance(found, Mapping) and is_number(found.get("value")):
        place = f"{found['id']}, option {found['option']}" if "option" in found else ""
        return Measure(
            path, float(found["value"]), found.get("low"), found.get("high"), "low" in found, place=place
        )
    inside = ", ".join(map(str, found)) if isinstance(found, Mapping) else ""
    what = f"a group of figures ({inside})" if inside else "no number"
    raise InputError(
        Problem(f"the metric {rule.metric!r} is {what}", file, rule.line, remedy="name one figure in it")
    )


def _completed(taken: Measure, reports: Reports, rule: GateRule, part: Slice) -> Measure:
    """Add what the number rests on, and take away what rests on nothing."""
    if taken.path.startswith("score"):
        counts = reports.score(rule.run, part).counts
        if not counts["scored"] and not taken.path.startswith("score.counts"):
            return replace(taken, value=None, why_not="no item was scored")
        return _explained(replace(taken, n=counts["items"] - counts["unlabelled"]), reports)
    overall, counts = reports.diff(part).overall, reports.diff(part).counts
    if not counts["compared"] and not taken.path.startswith(("diff.counts.", "diff.overall.compared")):
        return replace(taken, value=None, why_not="no item has a decision on both sides")
    flips = overall["flips"] + overall["lost"] + overall["gained"]
    n = overall["labelled" if taken.is_delta else "compared"]
    return _explained(replace(taken, n=n, flips=flips), reports)


def _explained(taken: Measure, reports: Reports) -> Measure:
    """Say why a figure is null."""
    if taken.value is not None:
        return taken
    if ".policy" in taken.path:
        why_not = "there is no policy, or no rule of it acted"
    elif taken.path.startswith("noise"):
        why_not = "no noise run has probabilities to compare with"
    elif not reports.labels.labelled:
        why_not = "no item has a label"
    else:
        why_not = "no item has what it takes"
    return replace(taken, why_not=why_not)


def _check_slice(rule: GateRule, reports: Reports, file: str) -> None:
    """Refuse a slice that no item of the label set is in: a typing error, not a fact about a run."""
    name, value = rule.slice or ("", "")
    labels = reports.labels
    if name in labels.memberships:
        values = [*labels.memberships[name]]
    elif name in labels.fields:
        values = [*labels.fields[name].names]
    else:
        known = [*labels.fields, *labels.memberships]
        raise InputError(
            Problem(f"no item has a field {name!r} to slice by{_nearest(name, known)}", file, rule.line)
        )
    if value not in values:
        raise InputError(Problem(f"no item has {name}={value}{_nearest(value, values)}", file, rule.line))


def _unknown(
    rule: GateRule, reports: Reports, report: str | None, name: str, file: str
) -> InputError | UsageError:
    needs = _needs(rule, reports, report, name)
    if needs:
        return UsageError(f"{file}: the rule {rule.label!r} needs {needs}")
    known = sorted({path for root in _roots(report, rule, reports, None) for path in _leaves(root.tree)})
    return InputError(Problem(f"there is no metric {rule.metric!r}{_nearest(name, known)}", file, rule.line))


def _needs(rule: GateRule, reports: Reports, report: str | None, name: str) -> str:
    """Say what would have to be named on the command line for a metric to exist; empty if nothing."""
    of_noise = report == "noise" or name in _OF_NOISE
    head = name.partition(".")[0]
    of_diff = report == "diff" or head in _diff_names() or name.startswith(_OF_DIFF_POLICY)
    if not reports.compares and (of_noise or of_diff or rule.run == "reference"):
        return "a reference; name one with --reference"
    if not reports.noise and of_noise:
        return "noise runs; name further runs of the reference with --noise"
    return ""


_OF_DIFF_POLICY = ("policy.transitions.", "policy.treated_differently")


def _diff_names() -> set[str]:
    """Return the names of the figures of a diff, which its schema lists."""
    diff_schema = schema.load("diff")
    counts = diff_schema["properties"]["counts"]["properties"]
    return {"headline_delta", *diff_schema["$defs"]["slice"]["properties"], *counts}


def _leaves(node: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, child in node.items():
        if isinstance(child, Mapping) and "value" not in child:
            yield from _leaves(child, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def _nearest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; there are {', '.join(known[:12])}{', ...' if len(known) > 12 else ''}" if known else ""
