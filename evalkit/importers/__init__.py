"""Foreign formats to runs and label sets: one file a format, one line in the table below."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evalkit.errors import InputError, Problem, UsageError
from evalkit.importers import (
    inspect_log,
    lm_eval,
    openai_batch,
    openai_responses,
    promptfoo,
    semif,
    tabular,
)
from evalkit.importers.files import InputFile
from evalkit.importers.records import Format, ImportOptions

FORMATS: dict[str, Format] = {
    known.name: known
    for known in (
        semif.FORMAT,
        openai_responses.FORMAT,
        openai_batch.FORMAT,
        lm_eval.FORMAT,
        inspect_log.FORMAT,
        promptfoo.FORMAT,
        tabular.CSV,
        tabular.PARQUET,
    )
}
"""The formats that can be imported, by name; they are recognised in this order."""

__all__ = ["FORMATS", "Format", "ImportOptions", "InputFile", "find_format", "open_files"]


def open_files(files: Sequence[Path], names: Sequence[str]) -> list[InputFile]:
    """Return the files to import with the names that messages give them."""
    return [InputFile(path, name) for path, name in zip(files, names, strict=True)]


def find_format(name: str | None, file: InputFile, options: ImportOptions) -> Format:
    """Return the format of that name, or the one that the file's content shows.

    Args:
        name: the name; None to recognise the format.
        file: the file.
        options: what the user declares; a column map says that a text file is a table.

    Raises:
        UsageError: there is no format of that name.
        InputError: no format recognises the file.
    """
    if name is not None:
        if name not in FORMATS:
            raise UsageError(f"--format {name}: there is {', '.join(FORMATS)}")
        return FORMATS[name]
    found = next((known for known in FORMATS.values() if known.recognises(file.start)), None)
    if found is None and options.columns and file.start.first is None:
        return tabular.CSV
    if found is None:
        raise InputError(
            Problem(
                f"is in no known format; its first line is {file.first_line}{_keys(file)}",
                file.name,
                remedy=f"name the format with --format ({', '.join(FORMATS)})",
            )
        )
    return found


def _keys(file: InputFile) -> str:
    first = file.start.first
    return f" (keys: {', '.join(list(first)[:8])})" if first else ""
