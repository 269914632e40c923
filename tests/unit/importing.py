"""What the tests of the importers share: the samples, and an import in one call."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evalkit.importers import ImportOptions, InputFile, find_format
from evalkit.importers.label_writing import import_labels
from evalkit.importers.writing import Imported, import_runs
from evalkit.labels import LabelSet
from evalkit.runs import load_run, sidecar_path

SAMPLES = Path(__file__).parent.parent / "data" / "formats"

Record = dict[str, Any]


def read_lines(path: Path) -> list[Record]:
    """Return the records of a JSON Lines file that holds neither NaN nor Infinity."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return [json.loads(line, parse_constant=refuse) for line in path.read_text("utf-8").splitlines()]


def write_lines(path: Path, records: Sequence[Any]) -> Path:
    """Write records as JSON Lines, NaN and Infinity as bare words."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


class Importing:
    """Imports files into a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written: list[Imported] = []

    def runs(
        self,
        *files: Path,
        format: str | None = None,
        labels: LabelSet | None = None,
        **options: Any,
    ) -> list[Record]:
        """Import files as a run; return its rows, which evalkit can load."""
        declared = ImportOptions(**options)
        opened = [InputFile(file, file.name) for file in files]
        chosen = find_format(format, opened[0], declared)
        self.written = import_runs(opened, chosen, labels, declared, self.folder / "run.jsonl")
        assert all(len(load_run(run.path)) == run.decisions for run in self.written)
        return read_lines(self.written[0].path)

    def by_id(self, *files: Path, **options: Any) -> dict[str, Record]:
        """Import files as a run; return its rows by id."""
        return {row["id"]: row for row in self.runs(*files, **options)}

    @property
    def meta(self) -> Record:
        """The sidecar of the run that was written."""
        sidecar: Record = json.loads(sidecar_path(self.written[0].path).read_text("utf-8"))
        return sidecar

    @property
    def notices(self) -> str:
        """The notices of the run that was written, one a line."""
        return "\n".join(self.written[0].notices)

    def labels(self, *files: Path, format: str | None = None, **options: Any) -> tuple[list[Record], str]:
        """Import files as a label set; return its items and the notices, one a line."""
        declared = ImportOptions(**options)
        opened = [InputFile(file, file.name) for file in files]
        output = self.folder / "labels.jsonl"
        written = import_labels(opened, find_format(format, opened[0], declared), declared, output)
        return read_lines(output), "\n".join(written.notices)
