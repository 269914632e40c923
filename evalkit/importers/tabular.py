"""Tables: CSV and Parquet files, and whatever else yields rows of named cells, with a column map.

A column map says which column holds which of our fields: `id=doc`, `label=gold`, `probability.A=p_yes`.
Without a map, columns count that have our names. Cells of a CSV file are text and stay text: an id `007`,
`NA` or `1e5` is that text.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from evalkit import rows
from evalkit.errors import InputError, Problem, UsageError
from evalkit.importers.files import PARQUET as PARQUET_MAGIC
from evalkit.importers.files import InputFile, Start
from evalkit.importers.records import Format, ImportOptions, Item, Place, Record
from evalkit.jsonl import MAX_DOCUMENT_BYTES
from evalkit.readings import Row
from evalkit.values import without_nones

_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_NUMBERS = ("allowed_token_mass", "total_seconds")
_COUNTS = ("input_tokens", "cached_tokens")
_TEXTS = ("choice", "status", "error", "model", "system_fingerprint", "prompt_sha256", "messages_sha256")
_LISTS = ("option_ids", "probabilities", "probability_low", "probability_high")
_GROUPS = ("probability", "low", "high", "option")
_ITEM_TEXTS = (
    "evidence",
    "criterion",
    "family",
    "group",
    "part",
    "variant",
    "language",
    "rationale",
    "source",
)
FIELDS = ("id", "label", "options", "tags", *_NUMBERS, *_COUNTS, *_TEXTS, *_LISTS, *_ITEM_TEXTS)
"""The fields that a column can hold, besides those with an option: probability.A, low.A, high.A, option.A."""

Cells = Mapping[str, Any]


def _csv_recognises(start: Start) -> bool:
    return start.first is None and bool(re.search(r'(^|[,;\t|])"?id"?([,;\t|]|$)', start.line))


def _parquet_recognises(start: Start) -> bool:
    return start.magic == PARQUET_MAGIC


def check_columns(columns: Mapping[str, str]) -> None:
    """Refuse a column map with a field that means nothing.

    Raises:
        UsageError: names the fields there are.
    """
    for field in columns:
        group, dot, option = field.partition(".")
        if field not in FIELDS and not (dot and option and group in _GROUPS):
            raise UsageError(
                f"--columns {field}=...: there is no field {field!r}; there are {', '.join(FIELDS)}, "
                "and probability.OPTION, low.OPTION, high.OPTION, option.OPTION"
            )


def _csv_rows(file: InputFile, options: ImportOptions) -> Iterator[tuple[Place, Cells]]:
    """Yield the rows of a CSV file as text cells by column name."""
    # Only line feeds and carriage returns end a line, and a cell may be as long as a text.
    csv.field_size_limit(MAX_DOCUMENT_BYTES)
    reader = csv.reader(io.StringIO(file.text, newline=""), delimiter=options.delimiter, strict=True)
    header: list[str] | None = None
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise InputError(Problem(f"not CSV ({error})", file.name, line)) from None
        if cells is None:
            return
        if not cells:
            continue
        if header is None:
            header = _header(cells, file, options, line)
        elif len(cells) != len(header):
            what = f"{len(cells)} cells for {len(header)} columns"
            raise InputError(Problem(what, file.name, line, remedy="quote cells that hold the delimiter"))
        else:
            yield Place(file.name, line), dict(zip(header, cells, strict=True))


def _header(cells: Sequence[str], file: InputFile, options: ImportOptions, line: int) -> list[str]:
    header = [cell if _is_field(cell) else cell.strip() for cell in cells]
    if twice := sorted({name for name in header if header.count(name) > 1}):
        raise InputError(Problem(f"the column {twice[0]!r} occurs twice", file.name, line))
    other = next((sign for sign in ";\t|," if sign != options.delimiter and sign in header[0]), None)
    if len(header) == 1 and other:
        shown = "tab" if other == "\t" else other
        what = f"one column only, named {header[0]!r}"
        raise InputError(Problem(what, file.name, line, remedy=f"name the delimiter: --delimiter '{shown}'"))
    return header


def _parquet_rows(file: InputFile) -> Iterator[tuple[Place, Cells]]:
    """Yield the rows of a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(file.path) as table:
            for batch in table.iter_batches():
                for row in batch.to_pylist():
                    number += 1
                    yield Place(file.name, number), {name: _plain(cell) for name, cell in row.items()}
    except UnicodeDecodeError as error:
        what = f"holds text that is not UTF-8 (0x{error.object[error.start]:02x})"
        raise InputError(Problem(what, file.name, number + 1, remedy="store it as binary or UTF-8")) from None
    except (pa.ArrowException, OSError) as error:
        what = f"not Parquet, or damaged ({str(error).splitlines()[0]})"
        raise InputError(Problem(what, file.name, remedy="copy it again")) from None


def _plain(cell: Any) -> Any:
    """Return a cell with exact decimals as floats; other types are for the checks to refuse."""
    if isinstance(cell, list):
        return [_plain(entry) for entry in cell]
    return float(cell) if isinstance(cell, Decimal) else cell


def mapped(place: Place, cells: Cells, options: ImportOptions) -> dict[str, Any]:
    """Return a row's cells under the names of our fields.

    Args:
        place: where the row stands, for messages.
        cells: the cells by column.
        options: the column map.

    Raises:
        InputError: the map names a column that the table does not have, or there is no id.
    """
    columns = options.columns or {name: name for name in cells if _is_field(name)}
    if missing := [column for column in columns.values() if column not in cells]:
        have = ", ".join(map(str, cells))
        raise InputError(
            place.problem(f"there is no column {missing[0]!r} (there are {have})", "check --columns")
        )
    if "id" not in columns and "id" in cells:
        columns = {"id": "id", **columns}
    if "id" not in columns:
        raise InputError(place.problem("there is no column with the ids", "name it with --columns id=COLUMN"))
    return {field: cells[column] for field, column in columns.items()}


def _is_field(name: str) -> bool:
    group, dot, option = name.partition(".")
    return name in FIELDS or bool(dot and option and group in _GROUPS)


def decision(place: Place, cells: Cells, options: ImportOptions) -> Record:
    """Map a row of a table to a decision."""
    row = mapped(place, cells, options)
    fields: dict[str, Any] = {name: _number(row.get(name)) for name in _NUMBERS}
    fields |= {name: _count(row.get(name)) for name in _COUNTS}
    fields |= {name: row[name] if row.get(name) not in ("", None) else None for name in _TEXTS if name in row}
    if isinstance(fields.get("model"), dict):
        fields["model"] = rows.text_of(fields["model"])
    given = _listed_ids(row.get("option_ids"))
    points, low, high = (_grouped(row, group) for group in ("probability", "low", "high"))
    if given and isinstance(row.get("probabilities") or row.get("probability_low"), list):
        ids, values = given, _from_lists(given, row)
    else:
        ids = list(points or low) if given is None else given
        values = _from_cells(ids, points, low, high)
    if given is None and not values:
        # A row without values may have any of the table's options.
        ids = list(options.options)
    return Record(
        id=row["id"],
        place=place,
        reading=Row(without_nones({"option_ids": ids or None, **values, **fields})),
        options=tuple(ids),
    )


def _listed_ids(value: Any) -> list[str] | None:
    """Return the option ids of a cell that lists them; a CSV file lists them as JSON."""
    if isinstance(value, str) and value.startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return [str(option) for option in value] if isinstance(value, list) else None


def _from_lists(ids: list[str], row: Cells) -> dict[str, Any]:
    low, high = row.get("probability_low"), row.get("probability_high")
    if isinstance(low, list) and isinstance(high, list):
        bounds = zip(ids, low, high, strict=False)
        known = {option: [least, most] for option, least, most in bounds if None not in (least, most)}
        return {"probability_range": known}
    return {"probabilities": row.get("probabilities")}


def _from_cells(ids: list[str], points: Cells, low: Cells, high: Cells) -> dict[str, Any]:
    if any(value is not None for value in points.values()):
        return {"probabilities": [points.get(option) for option in ids]}
    ranges = {
        option: [low[option], high[option]]
        for option in ids
        if low.get(option) is not None and high.get(option) is not None
    }
    return {"probability_range": ranges} if ranges else {}


def _grouped(row: Cells, group: str) -> dict[str, Any]:
    prefix = f"{group}."
    return {
        name.removeprefix(prefix): _number(value) for name, value in row.items() if name.startswith(prefix)
    }


def _number(value: Any) -> Any:
    """Return a cell as a number where it plainly is one; anything else stays for the checks to judge."""
    if isinstance(value, str):
        stripped = value.strip()
        return float(stripped) if _NUMBER.fullmatch(stripped) else stripped or None
    return value


def _count(value: Any) -> Any:
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"[0-9]{1,18}", value) else value or None
    return value


def item(place: Place, cells: Cells, options: ImportOptions) -> Item:
    """Map a row of a table to an item of a label set."""
    row = mapped(place, cells, options)
    described = _grouped_texts(row)
    given = row.get("options")
    if isinstance(given, list) and all(isinstance(entry, dict) for entry in given):
        listed = tuple(given)
    elif isinstance(given, list):
        listed = tuple({"id": str(entry)} for entry in given)
    else:
        listed = tuple({"id": option, "description": text} for option, text in described.items()) or tuple(
            {"id": option} for option in options.options
        )
    texts = {name: row[name] for name in _ITEM_TEXTS if row.get(name) not in ("", None)}
    label = row.get("label")
    return Item(
        id=row["id"],
        place=place,
        label=None if label == "" else label,
        options=listed,
        fields=without_nones(
            {**texts, "tags": row.get("tags") if isinstance(row.get("tags"), list) else None}
        ),
    )


def _grouped_texts(row: Cells) -> dict[str, Any]:
    return {
        name.removeprefix("option."): value
        for name, value in row.items()
        if name.startswith("option.") and value not in ("", None)
    }


def _csv_records(file: InputFile, options: ImportOptions) -> Iterator[Record]:
    return (decision(place, cells, options) for place, cells in _csv_rows(file, options))


def _csv_items(file: InputFile, options: ImportOptions) -> Iterator[Item]:
    return (item(place, cells, options) for place, cells in _csv_rows(file, options))


def _parquet_records(file: InputFile, options: ImportOptions) -> Iterator[Record]:
    return (decision(place, cells, options) for place, cells in _parquet_rows(file))


def _parquet_items(file: InputFile, options: ImportOptions) -> Iterator[Item]:
    return (item(place, cells, options) for place, cells in _parquet_rows(file))


CSV = Format(
    "csv", "CSV with a header, columns mapped by --columns", _csv_recognises, _csv_records, _csv_items
)
PARQUET = Format(
    "parquet", "Parquet, columns mapped by --columns", _parquet_recognises, _parquet_records, _parquet_items
)
