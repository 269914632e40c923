"""Writing an imported label set: a bare file, or a folder with a card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalkit.cards import CARD_NAME
from evalkit.errors import InputError, Problem, UsageError
from evalkit.importers.files import InputFile
from evalkit.importers.label_checks import LabelChecker, label_notices
from evalkit.importers.records import Format, ImportOptions, Item
from evalkit.jsonl import dumps, file_sha256, write_atomic, write_lines

VERSION = "v1"
"""The version that an imported label set starts with."""

_CARD = """---
pretty_name: {name}
configs:
  - config_name: {version}
    default: true
    data_files:
      - {{split: test, path: {version}.jsonl}}
evalkit:
  schema: evalkit.labelset/1
  versions:
    {version}: {{items: {items}, sha256: "{sha256}", changes: imported}}
---

# {title}

{items} items, imported from the format `{format}`.

## Source

{source}

Fill in the licence and the language before you share the set.
"""


@dataclass(frozen=True)
class ImportedLabels:
    """A label set that was written."""

    path: Path
    """The file, or the folder with the card."""
    items: int
    """How many items it has."""
    notices: tuple[str, ...]
    """What was tidied."""


def import_labels(
    files: Sequence[InputFile], format: Format, options: ImportOptions, output: Path
) -> ImportedLabels:
    """Import foreign files as a label set.

    Args:
        files: the files; together they are one set.
        format: their format.
        options: what the user declares about the files.
        output: a file `NAME.jsonl`, or a new folder that gets a card and the version v1.

    Raises:
        UsageError: the format holds no labels, or the output cannot be written.
        InputError: an item cannot be used; every problem is listed.
    """
    if format.items is None:
        raise UsageError(f"--format {format.name} holds decisions, not labels")
    if any(output.resolve() == file.path.resolve() for file in files):
        raise UsageError(f"--output {output}: is one of the files to import")
    items = [item for file in files for item in format.items(file, options)]
    if not items:
        raise InputError(Problem("holds no item", ", ".join(file.name for file in files)))
    source = [f"- `{file.path.name}`, sha256 `{file.sha256}`" for file in files]
    notices = [notice for file in files for notice in file.notices]
    found = write_labels(items, options, output, format.name, source)
    return ImportedLabels(found.path, found.items, (*notices, *found.notices))


def write_labels(
    items: Sequence[Item], options: ImportOptions, output: Path, format: str, source: Sequence[str]
) -> ImportedLabels:
    """Check items and write them.

    Args:
        items: the foreign items.
        options: what the user declares about them.
        output: a file `NAME.jsonl`, or a new folder.
        format: where they came from, for the card.
        source: lines of Markdown that say it exactly.

    Raises:
        UsageError: the output cannot be written.
        InputError: an item cannot be used; every problem is listed.
    """
    checker = LabelChecker(options)
    kept = checker.items(items)
    try:
        if output.suffix == ".jsonl":
            write_lines(output, kept)
        else:
            _write_folder(output, kept, format, source)
    except OSError as error:
        raise UsageError(f"--output {output}: cannot be written ({error.strerror or error})") from error
    return ImportedLabels(output, len(kept), tuple(label_notices(kept, checker.remarks)))


def _write_folder(
    folder: Path, items: Sequence[Mapping[str, Any]], format: str, source: Sequence[str]
) -> None:
    if folder.exists():
        raise UsageError(f"--output {folder}: exists already; a released version does not change")
    file = folder / f"{VERSION}.jsonl"
    write_lines(file, (dict(item) for item in items))
    card = _CARD.format(
        name=dumps(folder.name, ascii_only=True),
        title=folder.name,
        version=VERSION,
        items=len(items),
        sha256=file_sha256(file),
        format=format,
        source="\n".join(source),
    )
    write_atomic(folder / CARD_NAME, card)
