"""Diff reports as a document: one column a candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evalkit.comparing import DiffReport
from evalkit.render import Look
from evalkit.render.document import Document, Table
from evalkit.render.numbers import (
    NONE,
    figure,
    number,
    p_value,
    plural,
    share,
    with_error,
)
from evalkit.render.score_view import NAMES

FEW_FLIPS = 10
"""A bootstrap interval of a difference that rests on fewer items turned right or wrong is too narrow."""
_ACCURACIES = ("mean_family_balanced_accuracy", "balanced_accuracy", "accuracy", "macro_f1")


def document(reports: Sequence[DiffReport], look: Look) -> Document:
    """Lay diff reports against one reference out; with one candidate its details follow the figures."""
    first = reports[0]
    version = f"@{first.labels.version}" if first.labels.version else ""
    where = f" on {first.labels.name}{version}" if first.labels.path else ", drift only"
    candidates = ", ".join(report.candidate.run.name for report in reports)
    tables = [_figures(reports)]
    if not look.quiet:
        tables += [_slices(reports, field) for field in first.by]
        if len(reports) == 1:
            tables += [_accuracies(first), _quantiles(first)]
        for report in reports:
            tables += _lists(report, look, named=len(reports) > 1)
    return Document(
        title=f"{first.reference.run.name} -> {candidates}{where}",
        summary=[line for report in reports for line in sentences(report, named=len(reports) > 1)],
        tables=[table for table in tables if table.rows],
        notices=list(dict.fromkeys(notice for report in reports for notice in report.notices)),
        signatures=() if look.quiet else [str(report.signature["text"]) for report in reports],
    )


def sentences(report: DiffReport, *, named: bool = False) -> list[str]:
    """Say in words what changed, how far, whether it is more than noise, and what production would do."""
    lines = [_choices(report.overall, report.counts), _shift(report)]
    if report.policy is not None:
        lines.append(_production(report.policy))
    if report.labels.labelled and report.overall["compared"]:
        lines.append(_chance(report.overall))
    name = f"{report.candidate.run.name}: " if named else ""
    return [f"{name}{line}" for line in lines]


def _choices(overall: Mapping[str, Any], counts: Mapping[str, Any]) -> str:
    changed, compared = overall["changed_choices"], overall["compared"]
    if not compared:
        return "Nothing could be compared: no item has a usable decision on both sides."
    text = f"{changed} of {compared} choices changed ({share(changed, compared)})"
    if changed:
        kinds = [
            (overall["broken"], "broken"),
            (overall["fixed"], "fixed"),
            (overall["wrong_to_wrong"], "wrong to wrong"),
        ]
        named = [f"{count} {name}" for count, name in kinds if count or name != "wrong to wrong"]
        text += f": {', '.join(named)}" if sum(count for count, _ in kinds) else ""
        ties = overall["changed_with_tie"]
        text += f"; {ties} of them {'rests' if ties == 1 else 'rest'} on an exact tie" if ties else ""
    text += "."
    lacking = [
        f"{counts[key]} items have a decision in the {side} only"
        for key, side in (("only_reference", "reference"), ("only_candidate", "candidate"))
        if counts[key]
    ]
    if lacking:
        text += f" {' and '.join(lacking)}; an item without a decision is never correct."
    return text


def _shift(report: DiffReport) -> str:
    largest = report.overall["max_probability_shift"]
    if largest is None:
        return "No probability shift can be measured: no item has probabilities on both sides."
    few = report.overall["with_probabilities"] < report.overall["compared"]
    rest = (
        f" among the {report.overall['with_probabilities']} with probabilities on both sides" if few else ""
    )
    if not largest["value"]:
        return f"No probability moved{rest}."
    place = f"{largest['id']}, option {largest['option']}"
    text = f"Largest probability shift {number(largest['value'])} ({place}){rest}."
    if report.settings:
        named = "; ".join(f"{key} {before} against {after}" for key, before, after in report.settings)
        text += f" The recordings differ in {named}: the shift may be the setting's, not the model's."
    return text


def _production(policy: Mapping[str, Any]) -> str:
    count = policy["treated_differently"]
    if not count:
        return "Production would treat every item as before."
    moved = ", ".join(f"{pair} {number}" for pair, number in policy["transitions"].items() if number)
    return f"Production would treat {plural(count, 'item')} differently: {moved}."


def _chance(overall: Mapping[str, Any]) -> str:
    test = overall["mcnemar"]
    worse, better = test["reference_only"], test["candidate_only"]
    broken = f"{overall['broken']} broken" + (f" and {overall['lost']} lost" if overall["lost"] else "")
    fixed = f"{overall['fixed']} fixed" + (f" and {overall['gained']} gained" if overall["gained"] else "")
    numbers = f"{broken}, {fixed} of {overall['labelled']}: exact McNemar {p_value(test['p'])}"
    if not worse + better:
        return f"No item turned from right to wrong or back ({numbers})."
    if test["p"] < 0.05:
        why = ", but it rests on decisions that are missing" if overall["lost"] or overall["gained"] else ""
        return f"The accuracy difference is more than chance{why} ({numbers})."
    text = f"The accuracy difference cannot be told from chance ({numbers})."
    interval = overall["accuracy_delta"]
    if interval and interval["low"] is not None and (interval["low"] > 0 or interval["high"] < 0):
        text += (
            f" Its interval leaves out 0, but rests on {worse + better} flips: too few for an interval."
            if worse + better < FEW_FLIPS
            else " Its interval leaves out 0: the difference is a borderline one."
        )
    if overall["detectable_delta"] is not None:
        text += (
            f" With so many flips, {overall['labelled']} items show a true difference of "
            f"{100 * overall['detectable_delta']:.1f} points in 4 of 5 cases, a smaller one less often."
        )
    return text


def _figures(reports: Sequence[DiffReport]) -> Table:
    overall = [report.overall for report in reports]
    rows = [["compared", *(str(one["compared"]) for one in overall)]]
    rows += _row(
        "changed choices",
        [f"{one['changed_choices']} ({share(one['changed_choices'], one['compared'])})" for one in overall],
    )
    rows += _row("  of them on an exact tie", [str(one["changed_with_tie"]) for one in overall])
    if reports[0].labels.labelled:
        rows += _row(
            "broken / fixed / wrong to wrong",
            [f"{one['broken']} / {one['fixed']} / {one['wrong_to_wrong']}" for one in overall],
        )
        if any(one["lost"] or one["gained"] for one in overall):
            rows += _row(
                "right, but no decision now / before", [f"{one['lost']} / {one['gained']}" for one in overall]
            )
        headline = reports[0].labels.headline
        rows += _row(
            f"{NAMES[headline]}, delta", [figure(one[f"{headline}_delta"], sign=True) for one in overall]
        )
        rows += _row(
            "exact McNemar", [p_value(one["mcnemar"]["p"]) if one["mcnemar"] else NONE for one in overall]
        )
    rows += _row("largest probability shift", [number(_largest(one)) for one in overall])
    errors = [one["standard_errors"] or {} for one in overall]
    for key, name in (
        ("mean_max_shift", "mean probability shift"),
        ("mean_kl", "mean KL (nats)"),
        ("mean_js", "mean JS (nats)"),
    ):
        rows += _row(
            name, [with_error(one[key], error.get(key)) for one, error in zip(overall, errors, strict=True)]
        )
    rows += _row("RMS probability shift", [number(one["rms_shift"]) for one in overall])
    if any(one["kl_at_floor"] for one in overall):
        rows += _row("KL at the floor, items", [str(one["kl_at_floor"]) for one in overall])
    if reports[0].policy is not None:
        rows += _row(
            "treated differently", [str((report.policy or {})["treated_differently"]) for report in reports]
        )
        rows += _row(
            "wrong actions, before -> now",
            [
                " -> ".join(str(count) for count in (report.policy or {})["wrong_actions"].values())
                for report in reports
            ],
        )
    return Table(
        "Figures (± is one standard error)", ["", *(report.candidate.run.name for report in reports)], rows
    )


def _row(name: str, cells: list[str]) -> list[list[str]]:
    return [[name, *cells]]


def _accuracies(report: DiffReport) -> Table:
    rows = [
        [
            NAMES[name],
            number(report.overall[name]["reference"]),
            number(report.overall[name]["candidate"]),
            figure(report.overall[f"{name}_delta"], sign=True),
        ]
        for name in _ACCURACIES
        if report.overall[f"{name}_delta"] is not None
    ]
    level = report.signature["intervals"]["level"]
    return Table(
        f"Accuracies, delta with {level * 100:g} % interval",
        ["", report.reference.run.name, report.candidate.run.name, "delta"],
        rows,
    )


def _slices(reports: Sequence[DiffReport], field: str) -> Table:
    first = reports[0]
    if len(reports) == 1:
        return _labelled_slices(first, field) if first.labels.labelled else _drift_slices(first, field)
    rows = [
        [name, str(one["compared"])] + [_with_ties(report.by[field][name]) for report in reports]
        for name, one in first.by[field].items()
    ]
    return Table(
        f"Changed choices by {field}", [field, "n", *(report.candidate.run.name for report in reports)], rows
    )


def _labelled_slices(report: DiffReport, field: str) -> Table:
    metric = report.labels.headline
    if field == "family" or all(one[f"{metric}_delta"] is None for one in report.by[field].values()):
        metric = "balanced_accuracy"
    name = NAMES[metric].replace("mean family ", "m. f. ")
    rows = [
        [
            value,
            str(one["compared"]),
            _with_ties(one),
            str(one["broken"]),
            str(one["fixed"]),
            figure(one[f"{metric}_delta"], sign=True),
        ]
        for value, one in report.by[field].items()
    ]
    header = [field, "n", "changed", "broken", "fixed", f"{name}, delta"]
    return Table(f"By {field}", header, rows, note="m. f.: mean over families" if "m. f." in name else "")


def _drift_slices(report: DiffReport, field: str) -> Table:
    rows = [
        [value, str(one["compared"]), _with_ties(one), number(_largest(one)), number(one["mean_kl"])]
        for value, one in report.by[field].items()
    ]
    return Table(f"By {field}", [field, "n", "changed", "largest shift", "mean KL"], rows)


def _with_ties(one: Mapping[str, Any]) -> str:
    ties = one["changed_with_tie"]
    return f"{one['changed_choices']}" + (f", {plural(ties, 'tie')}" if ties else "")


def _largest(one: Mapping[str, Any]) -> float | None:
    largest = one["max_probability_shift"]
    return None if largest is None else largest["value"]


def _quantiles(report: DiffReport) -> Table:
    ladders = report.overall["quantiles"]
    if ladders["kl"] is None:
        return Table("", [], [])
    rows = [
        [f"{percent} %", number(ladders["shift"][percent]), number(ladders["kl"][percent], 6)]
        for percent in ladders["kl"]
    ]
    rows.append(["largest", number(_largest(report.overall)), NONE])
    return Table("Quantiles", ["", "probability shift", "KL (nats)"], rows, fold=True)


def _lists(report: DiffReport, look: Look, *, named: bool) -> list[Table]:
    name = f" ({report.candidate.run.name})" if named else ""
    tables = [_changed(report, look, name)]
    if report.policy is not None:
        tables.append(_treated(report, look, name))
    titles = {
        "only_reference": "Decided in the reference only",
        "only_candidate": "Decided in the candidate only",
    }
    for key, ids in report.decided_once().items():
        rows = [[item] for item in ids[: look.limit]]
        tables.append(Table(titles[key] + name, ["id"], rows, hidden=len(ids) - len(rows)))
    return tables


def _changed(report: DiffReport, look: Look, name: str) -> Table:
    records, total = report.changed(look.limit), report.overall["changed_choices"]
    labelled = report.labels.labelled
    header = [
        "id",
        *(["label"] if labelled else []),
        report.reference.run.name,
        report.candidate.run.name,
        "shift",
    ]
    header += ["effect"] if labelled else []
    rows = [
        [
            record["id"],
            *([record["label"] or NONE] if labelled else []),
            _chosen(record, "reference"),
            _chosen(record, "candidate"),
            number(record["shift"]),
            *([record["effect"]] if labelled else []),
        ]
        for record in records
    ]
    return Table(
        f"Changed choices{name}, largest shift first",
        header,
        rows,
        left=4 if labelled else 3,
        hidden=total - len(rows),
        fold=True,
    )


def _chosen(record: Mapping[str, Any], side: str) -> str:
    tie = " (tie)" if record["tie"] in (side, "both") else ""
    p = record[f"{side}_probability"]
    return f"{record[side]}{'' if p is None else f' {p:.4f}'}{tie}"


def _treated(report: DiffReport, look: Look, name: str) -> Table:
    records = report.treated_differently(look.limit)
    total = (report.policy or {})["treated_differently"]
    labelled = report.labels.labelled
    header = ["id", *(["label"] if labelled else []), "before", "now", "why now"]
    rows = [
        [
            record["id"],
            *([record["label"] or NONE] if labelled else []),
            record["reference_action"],
            record["candidate_action"],
            record["candidate_why"],
        ]
        for record in records
    ]
    return Table(
        f"Treated differently by the policy{name}",
        header,
        rows,
        left=len(header),
        hidden=total - len(rows),
        fold=True,
    )
