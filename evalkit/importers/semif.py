"""SemIf: scorer outputs, which already are runs, and fixtures, whose labels are index numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evalkit.importers.files import InputFile, Start
from evalkit.importers.records import Format, ImportOptions, Item, Place, Record, chosen_id
from evalkit.readings import Row

_DECISION = {"option_ids", "probabilities", "probability_range", "choice", "status", "error"}
_OUR_NAMES = {"state": "evidence", "question": "criterion"}


def _recognises(start: Start) -> bool:
    first = start.first or {}
    ours = bool(_DECISION & first.keys()) or "options" in first
    return "id" in first and ours and not {"request", "response"} & first.keys()


def _records(file: InputFile, options: ImportOptions) -> Iterator[Record]:
    for line, row in file.lines():
        model = row.get("model")
        fields = dict(row)
        if isinstance(model, dict):
            # The scorer describes the model in every row; a run's row has its name only.
            fields["model"] = str(model.get("source") or model.get("name") or "unknown")
        yield Record(
            id=chosen_id(row, options, ("id",)),
            place=Place(file.name, line),
            reading=Row(fields),
            options=_strings(row.get("option_ids")),
            model=model if isinstance(model, dict) else {},
        )


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, list) and all(isinstance(text, str) for text in value) else ()


def _items(file: InputFile, options: ImportOptions) -> Iterator[Item]:
    for line, item in file.lines():
        rest = {_OUR_NAMES.get(key, key): value for key, value in item.items()}
        given = rest.pop("options", None)
        rest.pop("id", None)
        yield Item(
            id=chosen_id(item, options, ("id",)),
            place=Place(file.name, line),
            label=rest.pop("label", None),
            options=tuple(option for option in given if isinstance(option, dict))
            if isinstance(given, list)
            else (),
            fields=rest,
        )


FORMAT = Format(
    "semif", "rows of the SemIf scorer, its fixtures, and our own files", _recognises, _records, _items
)
