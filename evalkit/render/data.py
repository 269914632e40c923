"""Reports as data: JSON and CSV."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from evalkit.jsonl import dumps
from evalkit.render import Look
from evalkit.render.escape import visible

if TYPE_CHECKING:
    from evalkit.render import Reports


def to_json(reports: Reports, look: Look) -> str:
    """Return one JSON document: the report, or the schema ``evalkit.reports/1`` around several."""
    documents = [report.to_dict() for report in reports]
    value = documents[0] if len(documents) == 1 else {"schema": "evalkit.reports/1", "reports": documents}
    return dumps(value, indent=1, ascii_only=look.ascii_only) + "\n"


def to_csv(reports: Reports) -> str:
    """Return the items of the reports as CSV, one row an item, the runs named in the first columns."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    header: list[str] = []
    for report in reports:
        names = _names(report)
        columns = report.item_columns()
        wanted = [*names, *columns]
        if wanted != header:
            writer.writerow(wanted)
            header = wanted
        for values in zip(*columns.values(), strict=True):
            writer.writerow([_cell(value) for value in (*names.values(), *values)])
    return out.getvalue()


def _names(report: Any) -> dict[str, str]:
    if hasattr(report, "candidate"):
        return {"reference_run": report.reference.run.name, "candidate_run": report.candidate.run.name}
    return {"run": report.run.name}


def _cell(value: object) -> object:
    return visible(value) if isinstance(value, str) else "" if value is None else value
