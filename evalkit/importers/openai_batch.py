"""Provider batch files: the output file and the error file, lines in any order, joined by `custom_id`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evalkit.errors import InputError
from evalkit.importers.files import InputFile, Start
from evalkit.importers.records import Format, ImportOptions, Place, Record, chosen_id
from evalkit.readings import Failure
from evalkit.shapes import error_text, readings, row_fields
from evalkit.values import at

_OK = 200


def _recognises(start: Start) -> bool:
    first = start.first or {}
    return "custom_id" in first


def _records(file: InputFile, options: ImportOptions) -> Iterator[Record]:
    for line, row in file.lines():
        item, place = chosen_id(row, options, ("custom_id",)), Place(file.name, line)
        if "url" in row and "response" not in row:
            raise InputError(
                place.problem("is a request of the batch, not an answer", "import its output file")
            )
        if failure := _failure(row):
            yield Record(item, place, failure)
            continue
        body = at(row, "response", "body")
        for repeat, reading in enumerate(answers := readings(body, {}), 1):
            yield Record(
                item, place, reading, repeat=repeat if len(answers) > 1 else None, fields=row_fields(body)
            )


def _failure(row: dict[str, Any]) -> Failure | None:
    code = at(row, "response", "status_code")
    body = at(row, "response", "body")
    if row.get("error") is not None:
        return Failure(error_text(row) or "error without a message")
    if code not in (None, _OK) or body is None:
        return Failure(f"{code or 'no answer'}: {error_text(body) or 'error without a message'}")
    return None


FORMAT = Format(
    "openai-batch", "output and error files of a provider's batch interface", _recognises, _records
)
