"""Recorded runs: reading a run file and its sidecar into columns.

A block of rows is proven usable by columnar checks; only the rows that are not proven are read one by
one (:mod:`evalkit.rows`), so that a clean file costs little more than parsing it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalkit import rows, schema
from evalkit.columns import (
    Codes,
    Layout,
    LayoutTable,
    Parsed,
    code_lists,
    first_object,
    map_blocks,
    parse_block,
)
from evalkit.distinct import surely_distinct
from evalkit.errors import ChecksumError, InputError, NoDecisionsError, Problem
from evalkit.jsonl import MAX_OPTIONS, Block, Source, parse_object, read_document

Floats = NDArray[np.float64]

_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("option_ids", pa.list_(pa.string())),
        ("probabilities", pa.list_(pa.float64())),
        ("status", pa.string()),
        ("choice", pa.string()),
        ("error", pa.string()),
        ("probability_range", pa.struct([])),
        ("allowed_token_mass", pa.float64()),
        ("cached_tokens", pa.int64()),
        *((name, pa.string()) for name in rows.TEXTS),
    ]
)
_NAMED_MODEL = pa.struct([(key, pa.string()) for key in rows.NAMES])
_MODEL = _SCHEMA.get_field_index("model")


@dataclass(frozen=True)
class Run:
    """A recorded run: one row a decision, in file order, ids unique."""

    name: str
    """The short name (file name without its suffixes)."""
    path: Path
    """The run file."""
    file: str
    """The run file as messages name it."""
    sha256: str
    """Hex digest of the run file."""
    meta: Mapping[str, Any]
    """The sidecar; empty where there is none."""
    ids: pa.StringArray
    """Shape (rows,): item ids."""
    lines: NDArray[np.int64]
    """Shape (rows,): line of each decision in the file."""
    status: NDArray[np.uint8]
    """Shape (rows,): OK, INVALID or ERROR of :mod:`evalkit.rows`."""
    layouts: tuple[Layout, ...]
    """The distinct option lists."""
    layout: Codes
    """Shape (rows,): index into layouts."""
    p: Floats
    """Shape (rows, options): probabilities in the row's option order, NaN where there are none."""
    low: Floats | None
    """Like p: lower bounds; None where the run has no ranges at all."""
    high: Floats | None
    """Like p: upper bounds."""
    choice: NDArray[np.int32]
    """Shape (rows,): the option named as choice in rows without points, else -1."""
    mass: Floats
    """Shape (rows,): mass on the options before renormalising; NaN where unknown."""
    reasons: Mapping[int, str]
    """Why a row is invalid or failed, by row."""
    texts: Mapping[str, pa.StringArray]
    """Recorded hashes and names that occur at all, by field, shape (rows,)."""
    cache_hits: int
    """How many rows were answered with part of the prompt cached."""
    notices: tuple[str, ...] = ()
    """What a reader of the run should know."""

    def __len__(self) -> int:
        return len(self.ids)

    def to_dict(self) -> dict[str, Any]:
        """Return what a report says of the run."""
        described = {key: self.meta[key] for key in _DESCRIBED if key in self.meta}
        return {
            "name": self.name,
            "path": self.file,
            "sha256": self.sha256,
            "decisions": len(self),
            "models": self.distinct("model"),
            **described,
        }

    def distinct(self, name: str) -> list[str]:
        """Return the distinct recorded values of a text field, sorted."""
        column = self.texts.get(name)
        return [] if column is None else sorted(set(column.drop_null().unique().to_pylist()))


_DESCRIBED = ("label_set", "model", "runtime", "protocol", "recorded", "source", "note")


@dataclass
class _Columns:
    """The rows of one block."""

    ids: pa.StringArray
    lines: NDArray[np.int64]
    status: NDArray[np.uint8]
    layouts: list[Layout]
    layout: Codes
    p: Floats
    choice: NDArray[np.int32]
    mass: Floats
    texts: dict[str, pa.StringArray]
    cache_hits: int
    ranges: dict[int, rows.Row] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    oddities: list[tuple[int, str]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def sidecar_path(path: Path) -> Path:
    """Return where the sidecar of a run file belongs."""
    return path.with_name(short_name(path) + ".meta.json")


def short_name(path: Path) -> str:
    """Return a run's or label file's name without directory and suffixes."""
    name = path.name
    for suffix in (".gz", ".zst", ".jsonl"):
        name = name.removesuffix(suffix)
    return name


def check_run_file(path: Path, *, file: str | None = None) -> None:
    """Check every field of every row against the schema ``evalkit.run/1``.

    Loading looks only at what scoring needs; this looks at everything but the values of the decisions.

    Raises:
        InputError: lists everything that is wrong.
    """
    name = file or str(path)
    problems: list[Problem] = []
    for block in Source(path, name).blocks():
        for number, raw in block.lines():
            try:
                problems += rows.field_problems(parse_object(raw, name, number, allow_nan=True), name, number)
            except InputError as error:
                problems += error.problems
    if problems:
        raise InputError(problems)


def load_run(path: str | Path, *, file: str | None = None) -> Run:
    """Read a run file and its sidecar.

    Args:
        path: the run file (``.jsonl``, ``.jsonl.gz``, ``.jsonl.zst``).
        file: how messages name it; the path itself by default.

    Raises:
        NotFoundError: there is no such file.
        ChecksumError: the file is not the one the sidecar describes.
        NoDecisionsError: the file holds no row.
        InputError: a line is not a row of a run, or two rows of one id disagree.
    """
    path = Path(path)
    name = file or str(path)
    source = Source(path, name)
    parts: list[_Columns] = list(map_blocks(source, partial(_read_block, name)))
    problems = [problem for part in parts for problem in part.problems]
    if problems:
        raise InputError(problems)
    if not sum(len(part.ids) for part in parts):
        raise NoDecisionsError(Problem("holds no decision", name, remedy="record the run again"))
    meta = read_sidecar(path, name)
    if meta.get("sha256") not in (None, source.sha256):
        raise ChecksumError(
            Problem(
                f"the sidecar {sidecar_path(path).name} describes another file "
                f"(sha256 {meta['sha256'][:12]}..., this file has {source.sha256[:12]}...)",
                name,
                remedy="restore the recorded file, or record the run again",
            )
        )
    return _without_repeats(_assemble(parts, path, name, source, meta))


def read_sidecar(path: Path, name: str) -> dict[str, Any]:
    """Read the sidecar of a run file; empty where there is none.

    Args:
        path: the run file.
        name: how messages name the run file.

    Raises:
        InputError: the sidecar is no JSON object, or violates the schema ``evalkit.meta/1``.
    """
    sidecar = sidecar_path(path)
    if not sidecar.exists():
        return {}
    label = str(Path(name).with_name(sidecar.name))
    meta = read_document(sidecar, label)
    if problems := schema.check("meta", meta, label):
        raise InputError(problems)
    return meta


def _read_block(name: str, block: Block) -> _Columns:
    named = isinstance(first_object(block.data).get("model"), dict)
    parsed = parse_block(block, _SCHEMA.set(_MODEL, pa.field("model", _NAMED_MODEL)) if named else _SCHEMA)
    if parsed is None:
        return _read_lines(name, list(block.lines()))
    table = _with_model_names(parsed.table) if named else parsed.table
    options = table["option_ids"].combine_chunks()
    values = table["probabilities"].combine_chunks()
    if options.flatten().null_count or (pc.max(options.value_lengths()).as_py() or 0) > MAX_OPTIONS:
        return _read_lines(name, list(block.lines()))
    layouts, layout = code_lists(options)
    lengths = np.asarray([len(layout) for layout in layouts], dtype=np.int64)[layout]
    fits = lengths == np.asarray(values.value_lengths().fill_null(-1))
    p = _matrix(
        values.filter(pa.array(fits)) if not fits.all() else values, fits, int(lengths.max(initial=0))
    )
    proven = fits & _proven(table, p, lengths) & _distinct_options(layouts)[layout]
    total = _row_sums(p)
    mass = np.asarray(table["allowed_token_mass"].fill_null(math.nan), dtype=np.float64).copy()
    short = proven & (total < 1 - rows.SUM_TOLERANCE)
    if short.any():
        mass[short] = total[short]
        p[short] /= total[short, None]
    columns = _Columns(
        ids=table["id"].combine_chunks(),
        lines=np.arange(block.start, block.start + len(table), dtype=np.int64),
        status=np.zeros(len(table), dtype=np.uint8),
        layouts=layouts,
        layout=layout,
        p=p,
        choice=np.full(len(table), -1, dtype=np.int32),
        mass=mass,
        texts={
            text: table[text].combine_chunks() for text in rows.TEXTS if table[text].null_count < len(table)
        },
        cache_hits=int(np.count_nonzero(np.asarray(table["cached_tokens"].fill_null(0)) > 0)),
    )
    _read_unproven(name, parsed, columns, np.flatnonzero(~proven))
    return columns


def _with_model_names(table: pa.Table) -> pa.Table:
    """Put the name of each model in the place of the object that describes it."""
    models = table["model"].combine_chunks()
    names = pc.coalesce(*(pc.struct_field(models, key) for key in rows.NAMES), rows.UNNAMED)
    column = pc.if_else(models.is_valid(), names, pa.scalar(None, pa.string()))
    return table.set_column(_MODEL, "model", column)


def _proven(table: pa.Table, p: Floats, lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which rows are plainly usable, by columns alone."""
    total = _row_sums(p)
    proven = (lengths >= 2) & (total > 0) & (total <= 1 + rows.SUM_TOLERANCE)
    for place, column in enumerate(p.T):
        proven &= ((column >= 0) & (column <= 1)) | (lengths <= place)
    ids = table["id"].combine_chunks()
    if ids.null_count or pc.min(pc.binary_length(ids)).as_py() == 0:
        proven &= np.asarray(pc.fill_null(pc.greater(pc.binary_length(ids), 0), False))
    for name in ("choice", "error", "probability_range"):
        if table[name].null_count < len(table):
            proven &= np.asarray(table[name].is_null())
    if table["status"].null_count < len(table):
        proven &= np.asarray(pc.equal(table["status"], "ok").fill_null(True))
    mass = table["allowed_token_mass"]
    if mass.null_count < len(table):
        values = np.asarray(mass.fill_null(1.0))
        proven &= (values >= 0) & (values <= 1 + rows.SUM_TOLERANCE)
    return proven


def _row_sums(p: Floats) -> Floats:
    # A padded place is NaN and adds nothing.
    total = np.zeros(len(p))
    for column in p.T:
        total += np.where(np.isnan(column), 0.0, column)
    return total


def _distinct_options(layouts: Sequence[Layout]) -> NDArray[np.bool_]:
    return np.asarray(
        [len(set(layout)) == len(layout) and "" not in layout for layout in layouts], dtype=np.bool_
    )


def _matrix(values: pa.ListArray, fits: NDArray[np.bool_], width: int) -> Floats:
    """Lay the probabilities of the fitting rows out in columns; NaN elsewhere and in a null's place."""
    flat = values.flatten()
    numbers = flat.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    lengths = np.asarray(values.value_lengths(), dtype=np.int64)
    if width and fits.all() and (lengths == width).all():
        matrix = numbers.reshape(-1, width).copy()
    else:
        matrix = np.full((len(fits), width), math.nan)
        inside = np.zeros((len(fits), width), dtype=np.bool_)
        inside[fits] = np.arange(width) < lengths[:, None]
        matrix[inside] = numbers
    return np.asarray(matrix)


def _read_unproven(name: str, parsed: Parsed, columns: _Columns, places: NDArray[np.int64]) -> None:
    """Read the rows that the columns could not prove one by one, and correct the columns."""
    table = LayoutTable()
    columns.layout = table.renumber(columns.layouts, columns.layout)
    for place in places.tolist():
        line = int(columns.lines[place])
        try:
            row = rows.read_row(parse_object(parsed.line(place), name, line, allow_nan=True), name, line)
        except InputError as error:
            columns.problems += error.problems
            continue
        columns.layout[place] = table.number(row.options)
        _store(columns, place, row)
    columns.layouts = list(table.layouts())


def _read_lines(name: str, lines: Sequence[tuple[int, bytes]]) -> _Columns:
    """Read a block line by line: slower, but it can say what is wrong."""
    found: list[tuple[int, rows.Row]] = []
    documents: list[dict[str, Any]] = []
    problems: list[Problem] = []
    for number, raw in lines:
        try:
            document = parse_object(raw, name, number, allow_nan=True)
            found.append((number, rows.read_row(document, name, number)))
            documents.append(document)
        except InputError as error:
            problems += error.problems
    table = LayoutTable()
    layout = np.asarray([table.number(row.options) for _, row in found], dtype=np.int32)
    width = max((len(row.options) for _, row in found), default=0)
    columns = _Columns(
        ids=pa.array([row.id for _, row in found], pa.string()),
        lines=np.asarray([number for number, _ in found], dtype=np.int64),
        status=np.zeros(len(found), dtype=np.uint8),
        layouts=list(table.layouts()),
        layout=layout,
        p=np.full((len(found), width), math.nan),
        choice=np.full(len(found), -1, dtype=np.int32),
        mass=np.full(len(found), math.nan),
        texts={
            text: pa.array([rows.text_of(document.get(text)) for document in documents], pa.string())
            for text in rows.TEXTS
            if any(document.get(text) is not None for document in documents)
        },
        cache_hits=sum((document.get("cached_tokens") or 0) > 0 for document in documents),
        problems=problems,
    )
    for place, (_, row) in enumerate(found):
        _store(columns, place, row)
    return columns


def _store(columns: _Columns, place: int, row: rows.Row) -> None:
    columns.status[place] = row.status
    columns.p[place] = math.nan
    columns.mass[place] = row.mass
    columns.choice[place] = row.choice
    if row.probabilities is not None:
        columns.p[place, : len(row.probabilities)] = row.probabilities
    if row.low is not None:
        columns.ranges[place] = row
    if row.reason:
        columns.reasons[place] = row.reason
    if row.notice:
        columns.oddities.append((int(columns.lines[place]), row.notice))


def _assemble(parts: list[_Columns], path: Path, name: str, source: Source, meta: dict[str, Any]) -> Run:
    """Join the blocks of a file."""
    parts = [part for part in parts if len(part.ids)]
    table = LayoutTable()
    layout = np.concatenate([table.renumber(part.layouts, part.layout) for part in parts])
    width = max((len(options) for options in table.layouts()), default=0)
    p = np.concatenate([_widened(part.p, width) for part in parts])
    starts = np.cumsum([0, *(len(part.ids) for part in parts)])
    low, high = _bounds(parts, starts, p)
    notices = list(source.notices)
    notices += [f"{name}:{line}: {text}" for part in parts for line, text in part.oddities]
    return Run(
        name=short_name(path),
        path=path,
        file=name,
        sha256=source.sha256,
        meta=meta,
        ids=pa.concat_arrays([part.ids for part in parts]),
        lines=np.concatenate([part.lines for part in parts]),
        status=np.concatenate([part.status for part in parts]),
        layouts=table.layouts(),
        layout=layout,
        p=p,
        low=low,
        high=high,
        choice=np.concatenate([part.choice for part in parts]),
        mass=np.concatenate([part.mass for part in parts]),
        reasons={
            int(start) + place: reason
            for start, part in zip(starts[:-1], parts, strict=True)
            for place, reason in part.reasons.items()
        },
        texts={
            text: pa.concat_arrays(
                [part.texts.get(text, pa.nulls(len(part.ids), pa.string())) for part in parts]
            )
            for text in rows.TEXTS
            if any(text in part.texts for part in parts)
        },
        cache_hits=sum(part.cache_hits for part in parts),
        notices=tuple(notices),
    )


def _widened(p: Floats, width: int) -> Floats:
    if p.shape[1] >= width:
        return p
    return np.pad(p, ((0, 0), (0, width - p.shape[1])), constant_values=math.nan)


def _bounds(
    parts: list[_Columns], starts: NDArray[np.int64], p: Floats
) -> tuple[Floats | None, Floats | None]:
    ranged = {
        int(start) + place: row
        for start, part in zip(starts[:-1], parts, strict=True)
        for place, row in part.ranges.items()
    }
    if not ranged:
        return None, None
    low, high = p.copy(), p.copy()
    for place, row in ranged.items():
        low[place, : len(row.options)] = row.low
        high[place, : len(row.options)] = row.high
    return low, high


def _without_repeats(run: Run) -> Run:
    """Keep one row an id: the usable one; equal repeats are one; two that disagree are an error."""
    if surely_distinct(run.ids):
        return run
    counts = pc.value_counts(run.ids)
    if len(counts) == len(run):
        return run
    repeated = pc.filter(counts.field("values"), pc.greater(counts.field("counts"), 1))
    places: dict[str, list[int]] = {}
    for place in np.flatnonzero(np.asarray(pc.is_in(run.ids, value_set=repeated))).tolist():
        places.setdefault(run.ids[place].as_py(), []).append(place)
    dropped: list[int] = []
    problems: list[Problem] = []
    notices = list(run.notices)
    for item, found in places.items():
        usable = [place for place in found if run.status[place] == rows.OK]
        kept = usable[0] if usable else found[-1]
        if any(not _same_decision(run, kept, place) for place in usable[1:]):
            lines = ", ".join(str(run.lines[place]) for place in usable)
            problems.append(
                Problem(
                    f"{item}: {len(usable)} different decisions (lines {lines})",
                    run.file,
                    int(run.lines[usable[1]]),
                    remedy="keep one of them, or put repeats into files of their own",
                )
            )
        dropped += [place for place in found if place != kept]
        notices.append(
            f"{run.file}: {item} is recorded {len(found)} times; "
            f"{_kind_kept(len(usable), len(found))} line {run.lines[kept]} is used"
        )
    if problems:
        raise InputError(problems)
    keep = np.ones(len(run), dtype=np.bool_)
    keep[dropped] = False
    return _taken(run, np.flatnonzero(keep), tuple(notices))


def _kind_kept(usable: int, found: int) -> str:
    if not usable:
        return "the last failure,"
    return "the usable decision of" if usable < found else "one of the equal decisions of"


def _named_choice(run: Run, place: int) -> str | None:
    return run.layouts[run.layout[place]][run.choice[place]] if run.choice[place] >= 0 else None


def _same_decision(run: Run, one: int, other: int) -> bool:
    if _named_choice(run, one) != _named_choice(run, other):
        return False
    layouts = run.layouts[run.layout[one]], run.layouts[run.layout[other]]
    if set(layouts[0]) != set(layouts[1]):
        return False
    order = [layouts[1].index(option) for option in layouts[0]]
    bounds = [run.p] if run.low is None or run.high is None else [run.p, run.low, run.high]
    return all(
        np.array_equal(values[one, : len(order)], values[other, order], equal_nan=True) for values in bounds
    )


def _taken(run: Run, places: NDArray[np.int64], notices: tuple[str, ...]) -> Run:
    new = {int(old): place for place, old in enumerate(places)}
    return Run(
        name=run.name,
        path=run.path,
        file=run.file,
        sha256=run.sha256,
        meta=run.meta,
        ids=run.ids.take(pa.array(places)),
        lines=run.lines[places],
        status=run.status[places],
        layouts=run.layouts,
        layout=run.layout[places],
        p=run.p[places],
        low=None if run.low is None else run.low[places],
        high=None if run.high is None else run.high[places],
        choice=run.choice[places],
        mass=run.mass[places],
        reasons={new[place]: reason for place, reason in run.reasons.items() if place in new},
        texts={text: column.take(pa.array(places)) for text, column in run.texts.items()},
        cache_hits=run.cache_hits,
        notices=notices,
    )
