"""Reports as data: JSON and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evalkit.jsonl import dumps
from evalkit.render import Look
from evalkit.render.document import Table
from evalkit.render.escape import visible

if TYPE_CHECKING:
    from evalkit.render import Reports


def to_json(reports: Reports, look: Look) -> str:
    """Return one JSON document: the report, or the schema ``evalkit.reports/1`` around several."""
    documents = [report.to_dict() for report in reports]
    value = documents[0] if len(documents) == 1 else {"schema": "evalkit.reports/1", "reports": documents}
    return document_to_json(value, look)


def document_to_json(value: Any, look: Look) -> str:
    """Return data that is no report as one JSON document."""
    return dumps(value, indent=1, ascii_only=look.ascii_only) + "\n"


def tables_to_csv(tables: Sequence[Table]) -> str:
    """Return the first table of a document as CSV: the list that the document is about."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for table in tables[:1]:
        writer.writerow(table.header)
        writer.writerows([_cell(cell) for cell in row] for row in table.rows)
    return out.getvalue()


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
