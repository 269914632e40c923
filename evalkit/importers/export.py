"""Runs for those who go on in another tool: CSV, Parquet, and samples of lm-evaluation-harness."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalkit import rows
from evalkit.errors import InputError, NoDecisionsError, Problem, UsageError
from evalkit.jsonl import Source, dumps, parse_object, write_atomic, write_lines
from evalkit.labels import LabelSet
from evalkit.readout import UNDERFLOW

_KEPT = (
    "allowed_token_mass",
    "model",
    "system_fingerprint",
    "input_tokens",
    "cached_tokens",
    "total_seconds",
)


@dataclass(frozen=True)
class Exported:
    """What was written."""

    path: Path
    """The file."""
    decisions: int
    """How many rows it has."""
    notices: tuple[str, ...] = ()
    """What the format could not hold."""


@dataclass(frozen=True)
class _Entry:
    row: rows.Row
    fields: dict[str, Any]


def export_run(path: Path, name: str, format: str, output: Path, labels: LabelSet | None = None) -> Exported:
    """Write a run in another tool's format.

    Args:
        path: the run file.
        name: how messages call it.
        format: one of :data:`EXPORTS`.
        output: the file to write.
        labels: the label set, for formats that hold the label too.

    Raises:
        UsageError: there is no such format, or the output cannot be written.
        InputError: the run is damaged.
    """
    if format not in EXPORTS:
        raise UsageError(f"--format {format}: there is {', '.join(EXPORTS)}")
    entries = _read(path, name)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        return EXPORTS[format](entries, output, labels)
    except OSError as error:
        raise UsageError(f"--output {output}: cannot be written ({error.strerror or error})") from error


def _read(path: Path, name: str) -> list[_Entry]:
    entries: list[_Entry] = []
    problems: list[Problem] = []
    for block in Source(path, name).blocks():
        for line, raw in block.lines():
            try:
                fields = parse_object(raw, name, line, allow_nan=True)
                entries.append(_Entry(rows.read_row(fields, name, line), fields))
            except InputError as error:
                problems += error.problems
    if problems:
        raise InputError(problems)
    if not entries:
        raise NoDecisionsError(Problem("holds no decision", name))
    return entries


def _columns(entry: _Entry) -> dict[str, Any]:
    """Return a row's fields as both table formats have them."""
    row = entry.row
    choice = row.choice
    values = row.probabilities or row.low
    if choice < 0 and values:
        choice = values.index(max(values))
    return {
        "id": row.id,
        "option_ids": list(row.options),
        "status": rows.STATUS_NAMES[row.status],
        "choice": row.options[choice] if choice >= 0 else None,
        "error": row.reason or None,
        **{name: entry.fields.get(name) for name in _KEPT},
        "allowed_token_mass": None if math.isnan(row.mass) else row.mass,
    }


def _bounds(entry: _Entry, end: int) -> list[float | None] | None:
    """Return the recorded lower (0) or upper (1) bounds; None for an option without."""
    if entry.row.low is None:
        return None
    ranges = entry.fields["probability_range"]
    return [float(ranges[option][end]) if option in ranges else None for option in entry.row.options]


def _to_parquet(entries: Sequence[_Entry], output: Path, _: LabelSet | None) -> Exported:
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = pa.list_(pa.float64())
    schema = pa.schema(
        [
            ("id", pa.string()), ("option_ids", pa.list_(pa.string())), ("status", pa.string()),
            ("choice", pa.string()), ("error", pa.string()), ("allowed_token_mass", pa.float64()),
            ("model", pa.string()), ("system_fingerprint", pa.string()), ("input_tokens", pa.int64()),
            ("cached_tokens", pa.int64()), ("total_seconds", pa.float64()), ("probabilities", numbers),
            ("probability_low", numbers), ("probability_high", numbers),
        ]
    )  # fmt: skip
    table = [
        {
            **_columns(entry),
            "probabilities": entry.row.probabilities,
            "probability_low": _bounds(entry, 0),
            "probability_high": _bounds(entry, 1),
        }
        for entry in entries
    ]
    pq.write_table(pa.Table.from_pylist(table, schema=schema), output)
    return Exported(output, len(entries))


def _to_csv(entries: Sequence[_Entry], output: Path, _: LabelSet | None) -> Exported:
    options = list(dict.fromkeys(option for entry in entries for option in entry.row.options))
    groups = ["probability"]
    if any(entry.row.low is not None for entry in entries):
        groups += ["low", "high"]
    header = [*_columns(entries[0]), *(f"{group}.{option}" for group in groups for option in options)]
    lines = [_csv_line(header)]
    for entry in entries:
        cells = _columns(entry)
        cells["option_ids"] = dumps(cells["option_ids"])
        values = {"probability": entry.row.probabilities, "low": _bounds(entry, 0), "high": _bounds(entry, 1)}
        for group in groups:
            cells |= {
                f"{group}.{option}": None if value is None else repr(value)
                for option, value in zip(entry.row.options, values[group] or (), strict=False)
            }
        lines.append(_csv_line([cells.get(name) for name in header]))
    write_atomic(output, "".join(lines))
    return Exported(output, len(entries))


def _csv_line(cells: Sequence[Any]) -> str:
    """Return a row of a CSV file; a cell with a carriage return is quoted too: readers end rows there."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(cells)
    return text.getvalue().removesuffix("\r\n") + "\n"


def _to_lm_eval(entries: Sequence[_Entry], output: Path, labels: LabelSet | None) -> Exported:
    golds = _golds(labels)
    kept = [entry for entry in entries if entry.row.probabilities is not None]
    samples = [_sample(number, entry, golds) for number, entry in enumerate(kept)]
    if not samples:
        raise NoDecisionsError(
            Problem("no decision has probabilities, and lm-eval holds nothing else", output.name)
        )
    write_lines(output, samples)
    left = len(entries) - len(kept)
    notices = (f"rows without probabilities left out: {left}; lm-eval has no place for them",) if left else ()
    return Exported(output, len(samples), notices)


def _golds(labels: LabelSet | None) -> dict[str, str]:
    if labels is None:
        return {}
    return {
        item: labels.layouts[labels.layout[place]][labels.gold[place]]
        for place, item in enumerate(labels.ids.to_pylist())
        if labels.gold[place] >= 0
    }


def _sample(number: int, entry: _Entry, golds: dict[str, str]) -> dict[str, Any]:
    row = entry.row
    shares = row.probabilities or ()
    # A mass too small for a float would take the shares with it.
    mass = row.mass if row.mass > UNDERFLOW else 1.0
    best = shares.index(max(shares))
    logs = [str(math.log(share * mass)) if share * mass > 0 else "-inf" for share in shares]
    pairs = [[log, str(place == best)] for place, log in enumerate(logs)]
    gold = golds.get(row.id)
    target = row.options.index(gold) if gold in row.options else None
    return {
        "doc_id": number,
        "doc": {"id": row.id, "choices": {"label": list(row.options), "text": list(row.options)}},
        "target": None if target is None else str(target),
        "arguments": {
            f"gen_args_{place}": {"arg_0": row.id, "arg_1": f" {option}"}
            for place, option in enumerate(row.options)
        },
        "resps": [[pair] for pair in pairs],
        "filtered_resps": pairs,
        "filter": "none",
        "metrics": ["acc"],
        "acc": None if target is None else float(target == best),
    }


EXPORTS: dict[str, Callable[[Sequence[_Entry], Path, LabelSet | None], Exported]] = {
    "csv": _to_csv,
    "parquet": _to_parquet,
    "lm-eval": _to_lm_eval,
}
"""The formats that runs can be exported to, by name."""
