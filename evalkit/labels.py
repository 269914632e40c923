"""Label sets: loading the items with their options and labels, verified against the card."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalkit import schema
from evalkit.cards import Card, Policy
from evalkit.columns import Categorical, Codes, Layout, categorical, code_lists, map_blocks, parse_block
from evalkit.distinct import surely_distinct
from evalkit.errors import ChecksumError, InputError, Problem
from evalkit.jsonl import MAX_OPTIONS, Source, parse_object

FIELDS = ("part", "family", "variant", "language", "group")
"""The fields of an item that are always read as columns."""


@dataclass(frozen=True)
class LabelSet:
    """A label set in columns: one row an item, in file order."""

    name: str
    """The set's name."""
    version: str | None
    """The version; None for a bare file."""
    path: Path | None
    """The file the items came from; None for items made up from runs."""
    file: str
    """The file as messages name it."""
    sha256: str | None
    """Hex digest of the file."""
    headline: str
    """The metric that sums the set up."""
    policy: Policy | None
    """The production policy, where the card has one."""
    ids: pa.StringArray
    """Shape (items,): unique ids."""
    lines: NDArray[np.int64]
    """Shape (items,): line of each item in the file."""
    layouts: tuple[Layout, ...]
    """The distinct option lists, in prompt order."""
    layout: Codes
    """Shape (items,): index into layouts."""
    gold: NDArray[np.int32]
    """Shape (items,): index of the label in the item's layout, -1 where unlabelled."""
    fields: Mapping[str, Categorical]
    """Fields that occur, coded; a field with several values an item (tags) is in `memberships`."""
    memberships: Mapping[str, Mapping[str, NDArray[np.int64]]]
    """Per list field and value, the items that have it."""
    notices: tuple[str, ...] = ()
    """What a reader should know."""

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def groups(self) -> NDArray[np.int64] | None:
        """Shape (items,): each item's group, one of its own where it has none; None where all stand alone."""
        if "group" not in self.fields:
            return None
        groups = self.fields["group"].codes.astype(np.int64)
        alone = groups < 0
        groups[alone] = groups.max(initial=-1) + 1 + np.arange(int(alone.sum()))
        return None if np.bincount(groups).max(initial=0) < 2 else groups

    @property
    def labelled(self) -> bool:
        """Whether any item has a label."""
        return bool((self.gold >= 0).any())

    def subset(self, items: NDArray[np.int64]) -> LabelSet:
        """Return the set with these items only (ascending places)."""
        new = np.full(len(self), -1, dtype=np.int64)
        new[items] = np.arange(len(items))
        memberships = {
            field: {
                value: kept for value, owners in values.items() if len(kept := new[owners][new[owners] >= 0])
            }
            for field, values in self.memberships.items()
        }
        return replace(
            self,
            ids=self.ids.take(pa.array(items)),
            lines=self.lines[items],
            layout=self.layout[items],
            gold=self.gold[items],
            fields={field: _kept(coded, items) for field, coded in self.fields.items()},
            memberships=memberships,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what a report says of the set."""
        return {"name": self.name, "version": self.version, "sha256": self.sha256, "items": len(self)}


def _kept(coded: Categorical, items: NDArray[np.int64]) -> Categorical:
    codes = coded.codes[items]
    present = [code for code in range(len(coded.names)) if (codes == code).any()]
    new = np.full(len(coded.names) + 1, -1, dtype=np.int32)
    new[present] = np.arange(len(present))
    return Categorical(tuple(coded.names[code] for code in present), new[codes])


def load_label_file(
    path: Path,
    *,
    file: str | None = None,
    card: Card | None = None,
    version: str | None = None,
    extra_fields: Sequence[str] = (),
) -> LabelSet:
    """Load the items of a label set.

    Args:
        path: the ``.jsonl`` file.
        file: how messages name it.
        card: the set's card; with it the file is verified against the card's sha256.
        version: the version the file is of.
        extra_fields: further fields of the items to read as columns for slicing.

    Raises:
        ChecksumError: the file is not the one in the card.
        InputError: an item is damaged, an id occurs twice, a label is not among the options.
    """
    name = file or str(path)
    source = Source(path, name)
    fields = tuple(dict.fromkeys((*FIELDS, *extra_fields)))
    table, lines = _fast_table(source, fields) or _slow_table(source, fields)
    if not len(table):
        raise InputError(Problem("holds no item", name, remedy="a label set has at least one item"))
    if card is not None and version is not None and source.sha256 != card.versions[version].sha256:
        raise ChecksumError(
            Problem(
                f"sha256 is {source.sha256}, but the card says {card.versions[version].sha256} for {version}",
                name,
                remedy="restore the released file; a correction is a new version",
            )
        )
    ids = table["id"].combine_chunks()
    _refuse_repeats(ids, lines, source)
    layouts, layout = _layouts(table)
    return LabelSet(
        name=card.folder.resolve().name if card else path.name.split(".jsonl")[0],
        version=version,
        path=path,
        file=name,
        sha256=source.sha256,
        headline=card.headline if card else "balanced_accuracy",
        policy=card.policy if card else None,
        ids=ids,
        lines=lines,
        layouts=tuple(layouts),
        layout=layout,
        gold=_gold(table["label"].combine_chunks(), layouts, layout),
        fields={
            field: categorical(table[field].combine_chunks()) for field in fields if _occurs(table, field)
        },
        memberships=_memberships(table, ("tags", *fields)),
        notices=tuple(source.notices),
    )


def check_label_file(path: Path, *, file: str | None = None) -> None:
    """Check every field of every item against the schema ``evalkit.label/1``.

    Loading looks only at what scoring needs; this looks at everything.

    Raises:
        InputError: lists everything that is wrong.
    """
    _slow_table(Source(path, file or str(path)), FIELDS, everything=True)


def _schema(fields: Sequence[str]) -> pa.Schema:
    own = {
        "id": pa.string(),
        "options": pa.list_(pa.struct([("id", pa.string())])),
        "label": pa.string(),
        "tags": pa.list_(pa.string()),
    }
    return pa.schema([*own.items(), *((field, pa.string()) for field in fields if field not in own)])


def _occurs(table: pa.Table, field: str) -> bool:
    return field not in ("tags", "options") and table[field].null_count < len(table)


def _fast_table(source: Source, fields: Sequence[str]) -> tuple[pa.Table, NDArray[np.int64]] | None:
    """Read the file by columns; None where a line has to be looked at."""
    wanted = _schema(fields)
    tables: list[pa.Table] = []
    lines: list[NDArray[np.int64]] = []
    for parsed in map_blocks(source, lambda block: parse_block(block, wanted)):
        if parsed is None or not _sound(parsed.table):
            return None
        tables.append(parsed.table)
        lines.append(np.arange(parsed.block.start, parsed.block.start + len(parsed.table), dtype=np.int64))
    if not tables:
        return wanted.empty_table(), np.zeros(0, dtype=np.int64)
    return pa.concat_tables(tables), np.concatenate(lines)


def _sound(table: pa.Table) -> bool:
    """Tell whether every item of a block is plainly valid, by columns alone."""
    ids, options = table["id"].combine_chunks(), table["options"].combine_chunks()
    names = options.flatten().field("id")
    if ids.null_count or options.null_count or names.null_count or options.flatten().null_count:
        return False
    counts = pc.min_max(options.value_lengths())
    if pc.min(pc.binary_length(ids)).as_py() == 0 or counts["min"].as_py() < 2:
        return False
    if counts["max"].as_py() > MAX_OPTIONS:
        return False
    layouts, layout = _layouts(table)
    if any(len(set(options)) < len(options) or "" in options for options in layouts):
        return False
    label = table["label"].combine_chunks()
    unlabelled = np.asarray(label.is_null())
    tags = table["tags"].combine_chunks()
    return bool(((_gold(label, layouts, layout) >= 0) | unlabelled).all()) and not tags.flatten().null_count


def _layouts(table: pa.Table) -> tuple[list[Layout], Codes]:
    options = table["options"].combine_chunks()
    names = options.flatten().field("id")
    offsets = np.concatenate(([0], np.cumsum(np.asarray(options.value_lengths().fill_null(0)))))
    return code_lists(pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), names))


def _gold(label: pa.Array, layouts: Sequence[Layout], layout: Codes) -> NDArray[np.int32]:
    """Return the place of each label in its item's options, -1 where it has none there."""
    coded = categorical(label)
    places = np.full((len(layouts), len(coded.names) + 1), -1, dtype=np.int32)
    for row, options in enumerate(layouts):
        for column, name in enumerate(coded.names):
            if name in options:
                places[row, column] = options.index(name)
    return places[layout, coded.codes]


def _memberships(table: pa.Table, fields: Sequence[str]) -> dict[str, dict[str, NDArray[np.int64]]]:
    if "tags" not in fields or table["tags"].null_count == len(table):
        return {}
    tags = table["tags"].combine_chunks()
    owners = np.asarray(pc.list_parent_indices(tags), dtype=np.int64)
    coded = categorical(tags.flatten())
    return {"tags": {name: np.unique(owners[coded.codes == code]) for code, name in enumerate(coded.names)}}


def _refuse_repeats(ids: pa.StringArray, lines: NDArray[np.int64], source: Source) -> None:
    if surely_distinct(ids):
        return
    counts = pc.value_counts(ids)
    if len(counts) == len(ids):
        return
    repeated = pc.filter(counts.field("values"), pc.greater(counts.field("counts"), 1))
    places: dict[str, list[int]] = {}
    for place in np.flatnonzero(np.asarray(pc.is_in(ids, value_set=repeated))).tolist():
        places.setdefault(ids[place].as_py(), []).append(int(lines[place]))
    wanted = {line for found in places.values() for line in found}
    items = {
        number: parse_object(raw, source.name, number)
        for block in Source(source.path, source.name).blocks()
        for number, raw in block.lines()
        if number in wanted
    }
    raise InputError(
        Problem(
            f"the id {item!r} occurs {len(found)} times (lines {', '.join(map(str, found))}): "
            + _difference([items[line] for line in found]),
            source.name,
            found[1],
            remedy="every item needs an id of its own",
        )
        for item, found in places.items()
    )


def _difference(items: Sequence[Mapping[str, Any]]) -> str:
    if all(item == items[0] for item in items):
        return "identical items"
    labels = [item.get("label") for item in items]
    if len(set(labels)) > 1:
        return f"the labels {' and '.join(dict.fromkeys(map(str, labels)))} conflict"
    return "same label, other content"


def _slow_table(
    source: Source, fields: Sequence[str], *, everything: bool = False
) -> tuple[pa.Table, NDArray[np.int64]]:
    """Read the file line by line and report what is wrong with the fields needed, or with everything."""
    problems: list[Problem] = []
    items: list[dict[str, Any]] = []
    lines: list[int] = []
    source.notices.clear()
    for block in source.blocks():
        for number, raw in block.lines():
            try:
                item = parse_object(raw, source.name, number, allow_nan=not everything)
            except InputError as error:
                problems += error.problems
                continue
            problems += item_problems(item, source.name, number, None if everything else fields)
            items.append(item)
            lines.append(number)
    if problems:
        raise InputError(problems)
    wanted = _schema(fields)
    columns = [
        pa.array([_storable(item.get(field.name), field.name) for item in items], field.type)
        for field in wanted
    ]
    return pa.Table.from_arrays(columns, schema=wanted), np.asarray(lines, dtype=np.int64)


def _storable(value: Any, field: str) -> Any:
    if field == "options":
        return [{"id": option["id"]} for option in value]
    if value is None or field == "tags" or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def item_problems(
    item: Mapping[str, Any], file: str, line: int | None, needed: Sequence[str] | None = None
) -> list[Problem]:
    """Return everything that is wrong with one parsed item of a label set.

    Args:
        item: the parsed JSON object.
        file: name of the file, for messages.
        line: line number, for messages; None where the file has none.
        needed: look at these fields only, beside id, options, label and tags; at all by default.
    """
    name = item.get("id")
    label = item.get("label")
    found = [
        replace(problem, remedy=_remedy(problem.path))
        for problem in schema.check("label", item, file, line)
        if problem.path != "$.label" and (needed is None or _needs(problem.path, needed))
    ]
    options = [option["id"] for option in item.get("options", [])] if not found else []

    def wrong(what: str, path: str, remedy: str = "") -> None:
        found.append(Problem(f"{name}: {what}", file, line, path, remedy))

    if len(set(options)) < len(options):
        wrong("two options have the same id", "$.options")
    if isinstance(label, int | float) and not isinstance(label, bool):
        wrong(
            f"label is a number ({label}); declare the index base",
            "$.label",
            "write the option's id, or import the file with --index-base 0 or 1",
        )
    elif label is not None and not (isinstance(label, str) and label in options) and options:
        wrong(
            f"label {label!r} is not among the options {', '.join(options)}",
            "$.label",
            "a label is an option id exactly as written, or null",
        )
    for field in ("id", "label", *(needed or FIELDS)):
        if not _encodable(item.get(field)):
            wrong("holds half a surrogate pair, which no UTF-8 file can store", f"$.{field}")
    for field, texts in (("options", options), ("tags", item.get("tags"))):
        if isinstance(texts, list) and not all(map(_encodable, texts)):
            wrong("holds half a surrogate pair, which no UTF-8 file can store", f"$.{field}")
    return found


def _remedy(path: str) -> str:
    if path == "$.id":
        return "ids are text: write a number in quotes, exactly as the runs have it"
    if path == "$":
        return "every item needs an id and its options"
    if path.startswith("$.options"):
        return 'options are a list of at least two {"id": ..., "description": ...}'
    return ""


_OWN_PATHS = re.compile(r"\$(\.id|\.options(\[\d+\](\.id)?)?|\.tags(\[\d+\])?)?")


def _needs(path: str, fields: Sequence[str]) -> bool:
    return _OWN_PATHS.fullmatch(path) is not None or path.removeprefix("$.") in fields


def _encodable(value: object) -> bool:
    try:
        value.encode("utf-8") if isinstance(value, str) else None
    except UnicodeEncodeError:
        return False
    return True
