"""Score reports as a document: one column a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evalkit.render import Look
from evalkit.render.document import Document, Table
from evalkit.render.numbers import NONE, figure, number, plural, share
from evalkit.scoring import ScoreReport, unusable

NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "mean_family_balanced_accuracy": "mean family balanced accuracy",
    "macro_f1": "macro F1",
    "nll": "log loss (nats)",
    "brier": "Brier score",
    "ece": "calibration error (ECE)",
}
_COUNTS = ("scored", "missing", "invalid", "error", "ties", "censored")


def document(reports: Sequence[ScoreReport], look: Look) -> Document:
    """Lay score reports out; with one report its details follow the figures."""
    first = reports[0]
    tables = [_figures(reports)]
    if not look.quiet:
        tables += _slices(reports)
        if len(reports) == 1:
            tables += _details(first, look)
        else:
            tables += _policies(reports)
    version = f"@{first.labels.version}" if first.labels.version else ""
    return Document(
        title=f"{', '.join(report.run.name for report in reports)} on {first.labels.name}{version}",
        summary=[_sentence(report) for report in reports],
        tables=tables,
        notices=list(dict.fromkeys(notice for report in reports for notice in report.notices)),
        signatures=() if look.quiet else [str(report.signature["text"]) for report in reports],
    )


def _sentence(report: ScoreReport) -> str:
    counts, overall = report.counts, report.overall
    headline = report.labels.headline
    if not counts["scored"]:
        return f"{report.run.name}: no item was scored ({_unusable_counts(counts)} of {counts['items']})."
    if not overall["labelled"]:
        scored = f"{counts['scored']} of {plural(counts['items'], 'item')} scored"
        return f"{report.run.name}: {scored}; none has a label."
    sentence = f"{report.run.name}: {overall['correct']} of {plural(overall['labelled'], 'item')} right"
    if overall[headline]:
        sentence += f", {NAMES[headline]} {figure(overall[headline])}"
    if bad := _unusable_counts(counts):
        sentence += f"; {bad}"
    if counts["ties"]:
        verb = "rest" if counts["ties"] > 1 else "rests"
        sentence += f"; {plural(counts['ties'], 'choice')} {verb} on an exact tie"
    return sentence + "."


def _unusable_counts(counts: Mapping[str, Any]) -> str:
    found = [f"{counts[name]} {name}" for name in ("missing", "invalid", "error") if counts[name]]
    return ", ".join(found)


def _figures(reports: Sequence[ScoreReport]) -> Table:
    level = reports[0].signature["intervals"]["level"]
    headline = reports[0].labels.headline
    order = sorted(
        ("mean_family_balanced_accuracy", "balanced_accuracy", "accuracy", "macro_f1"),
        key=lambda name: name != headline,
    )
    rows = [
        [NAMES[name], *(figure(report.overall[name]) for report in reports)]
        for name in order
        if any(report.overall[name] for report in reports)
    ]
    rows.append(["chance", *(number(report.overall["chance"]) for report in reports)])
    for name in ("nll", "brier", "ece"):
        rows.append([NAMES[name], *(_loss(report.overall, name) for report in reports)])
    masses = [report.counts["allowed_token_mass"] for report in reports]
    if any(mass["n"] for mass in masses):
        rows.append(["allowed_token_mass, mean", *(number(mass["mean"]) for mass in masses)])
        rows.append(["allowed_token_mass, least", *(number(mass["least"]) for mass in masses)])
    rows.append(["items", *(str(report.counts["items"]) for report in reports)])
    for name in _COUNTS:
        if name == "scored" or any(report.counts[name] for report in reports):
            rows.append([name, *(str(report.counts[name]) for report in reports)])
    return Table(
        f"Figures with {level * 100:g} % intervals",
        ["", *(report.run.name for report in reports)],
        rows,
        note="probabilities are conditional on the item's options"
        if any(mass["n"] for mass in masses)
        else "",
    )


def _loss(overall: Mapping[str, Any], name: str) -> str:
    value = overall[name]
    losses = overall["losses"]
    if value is None:
        return NONE
    bound = ">= " if name != "ece" and losses["lower_bounds"] else ""
    n = losses["ece_n"] if name == "ece" else losses["n"]
    rest = f" (n = {n})" if n != overall["labelled"] else ""
    return f"{bound}{number(value)}{rest}"


def _slices(reports: Sequence[ScoreReport]) -> list[Table]:
    tables = []
    for field, values in reports[0].by.items():
        if not values:
            continue
        if len(reports) == 1:
            names = ["accuracy", "balanced_accuracy"]
            if any(value["mean_family_balanced_accuracy"] for value in values.values()) and field != "family":
                names.append("mean_family_balanced_accuracy")
            header = [field, "n", *(NAMES[name].replace("mean family ", "m. f. ") for name in names)]
            rows = [
                [name, str(value["n"]), *(figure(value[metric]) for metric in names)]
                for name, value in values.items()
            ]
            note = "m. f.: mean over families" if len(names) > 2 else ""
        else:
            metric = reports[0].labels.headline
            if field == "family" or not any(value[metric] for value in values.values()):
                metric = "balanced_accuracy"
            header = [f"{NAMES[metric]} by {field}", "n", *(report.run.name for report in reports)]
            rows = [
                [name, str(value["n"]), *(figure(report.by[field][name][metric]) for report in reports)]
                for name, value in values.items()
            ]
            note = ""
        tables.append(Table(f"By {field}", header, rows, note=note))
    return tables


def _details(report: ScoreReport, look: Look) -> list[Table]:
    tables = [_labels(report), _confusion(report), _positions(report)]
    if report.policy is not None and report.actions is not None:
        tables.append(_policy(report))
    tables.append(_coverage(report))
    if look.items:
        tables.append(_items(report, np.arange(len(report.labels)), "Items", None))
    else:
        wrong = np.flatnonzero(
            (report.decisions.gold >= 0) & ~report.decisions.correct & report.decisions.usable
        )
        tables.append(_items(report, wrong, "Wrong choices", look.limit))
    tables.append(_unusable(report, look.limit))
    return [table for table in tables if table.rows]


def _labels(report: ScoreReport) -> Table:
    overall = report.overall
    absent = [name for name, value in overall["recall"].items() if value is None]
    rows = [
        [name, str(overall["support"][name]), figure(value)]
        for name, value in list(overall["recall"].items())[:60]
    ]
    note = ""
    if absent:
        note = (
            f"no item has the label {', '.join(absent)}, so it has no recall; "
            "balanced accuracy averages the labels present"
        )
    return Table("By label", ["label", "items", "recall"], rows, note=note)


def _confusion(report: ScoreReport) -> Table:
    confusion = report.overall["confusion"]
    choices = list(dict.fromkeys(choice for row in confusion.values() for choice in row))
    labels = [label for label, row in confusion.items() if row]
    if len(choices) > 12:
        return Table("", [], [])
    ordered = [name for name in confusion if name in choices] + [
        name for name in choices if name not in confusion
    ]
    rows = [[label, *(str(confusion[label].get(choice, 0)) for choice in ordered)] for label in labels]
    return Table("Label (rows) by choice (columns)", ["", *ordered], rows, fold=True)


def _positions(report: ScoreReport) -> Table:
    rows = [
        [name, str(value["n"]), str(value["chosen"]), figure(value["accuracy"])]
        for name, value in list(report.overall["positions"].items())[:26]
    ]
    return Table(
        "By letter position of the label", ["letter", "labels", "choices", "accuracy"], rows, fold=True
    )


def _policy(report: ScoreReport) -> Table:
    policy = report.policy or {}
    rules = "; ".join(
        f"{rule['option']} >= {rule['at_least']!r}: {rule['action']}" for rule in policy["rules"]
    )
    rows = [
        [
            name,
            str(count),
            share(count, report.counts["items"]),
            str(policy["wrong_actions_by_action"].get(name, NONE)),
        ]
        for name, count in policy["actions"].items()
        if count or name != "undetermined"
    ]
    sizes = policy["option_counts"]
    per = " and ".join(sizes) + " options an item"
    note = f"{rules}; otherwise {policy['default']} ({per})."
    wrong = policy["wrong_share"]
    if wrong:
        note += f" Wrong actions: {policy['wrong_actions']}, {figure(wrong)} of those taken by a rule."
    else:
        note += f" Share of wrong actions: none ({policy['wrong_share_reason']})."
    return Table("Policy", ["action", "items", "share", "wrong"], rows, note=note)


def _policies(reports: Sequence[ScoreReport]) -> list[Table]:
    known = [report for report in reports if report.policy is not None]
    if not known:
        return []
    names = dict.fromkeys(
        name for report in known for name, count in (report.policy or {})["actions"].items() if count
    )
    rows = [
        [name, *(str((report.policy or {})["actions"].get(name, 0)) for report in known)] for name in names
    ]
    rows.append(["wrong actions", *(str((report.policy or {})["wrong_actions"]) for report in known)])
    return [Table("Policy", ["action", *(report.run.name for report in known)], rows)]


def _coverage(report: ScoreReport) -> Table:
    rows = [
        [f"{row['at_least']:g}", str(row["n"]), number(row["share"], 3), number(row["accuracy"])]
        for row in report.overall["coverage"]
        if row["share"] is not None
    ]
    return Table(
        "Accuracy above a threshold",
        ["at least", "items", "share", "accuracy"],
        rows,
        fold=True,
    )


def _items(report: ScoreReport, items: Any, title: str, limit: int | None) -> Table:
    decisions, actions = report.decisions, report.actions
    shown = items if limit is None else items[:limit]
    header = ["id", "label", "choice", "p"] + (["action", "why"] if actions is not None else [])
    rows = []
    for item in shown.tolist():
        row = [
            report.labels.ids[item].as_py(),
            decisions.option(item, int(decisions.gold[item])) or NONE,
            (decisions.option(item, int(decisions.choice[item])) or NONE)
            + (" (tie)" if decisions.tie[item] else ""),
            _probability(report, item),
        ]
        if actions is not None:
            from evalkit.policy import why

            row += [actions.names[actions.code[item]], why(actions, decisions, item)]
        rows.append(row)
    return Table(title, header, rows, left=len(header), hidden=len(items) - len(shown), fold=True)


def _probability(report: ScoreReport, item: int) -> str:
    decisions = report.decisions
    if decisions.has_points[item]:
        return number(float(decisions.top[item]))
    if decisions.censored[item]:
        low, high = decisions.choice_bounds
        return f"{low[item]:g} to {high[item]:g}"
    return NONE


def _unusable(report: ScoreReport, limit: int | None) -> Table:
    total = int(np.count_nonzero(~report.decisions.usable))
    shown = unusable(report.decisions, limit)
    rows = [
        [
            entry["id"],
            entry["status"],
            NONE if entry["line"] is None else str(entry["line"]),
            entry["reason"] or NONE,
        ]
        for entry in shown
    ]
    return Table(
        "Without a usable decision (never correct, default action)",
        ["id", "status", "line", "reason"],
        rows,
        left=4,
        hidden=total - len(shown),
    )
