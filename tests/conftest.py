"""What the tests share: builders of label sets and runs, and the settings of hypothesis."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from evalkit.decisions import Decisions, align
from evalkit.labels import LabelSet, load_label_file
from evalkit.runs import Run, load_run

# The same examples every time; HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", settings.get_profile("repeatable"), derandomize=False, max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

Record = dict[str, Any]


class Maker:
    """Writes label sets and runs, each into a fresh folder, and loads them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._numbers = itertools.count()

    def folder(self) -> Path:
        """Return a new empty folder."""
        folder = self._root / f"{next(self._numbers):05}"
        folder.mkdir()
        return folder

    def file(self, content: str | bytes, name: str = "run.jsonl") -> Path:
        """Write a file into a folder of its own."""
        path = self.folder() / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path

    @staticmethod
    def item(name: str, options: Iterable[str] = "AB", label: str | None = None, **fields: Any) -> Record:
        """Return an item of a label set."""
        return {"id": name, "options": [{"id": option} for option in options], "label": label, **fields}

    @staticmethod
    def row(name: str, probabilities: Mapping[str, Any] | None = None, **fields: Any) -> Record:
        """Return a row of a run; the options are those of the probabilities, in their order."""
        if probabilities is None:
            return {"id": name, **fields}
        return {
            "id": name,
            "option_ids": list(probabilities),
            "probabilities": list(probabilities.values()),
            **fields,
        }

    @staticmethod
    def text(records: Iterable[Record], *, ascii_only: bool = True) -> str:
        """Write records as JSON Lines (a NaN as the bare word)."""
        return "".join(json.dumps(record, ensure_ascii=ascii_only) + "\n" for record in records)

    def run(
        self, records: Iterable[Record], name: str = "run", *, meta: Record | None = None, ending: str = ""
    ) -> Run:
        """Write a run (and its sidecar) and load it; an ending of a blank line forces the slow reader."""
        path = self.file(self.text(records) + ending, f"{name}.jsonl")
        if meta is not None:
            path.with_name(f"{name}.meta.json").write_text(json.dumps(meta), "utf-8")
        return load_run(path, file=path.name)

    def labels(
        self, items: Iterable[Record], *, extra_fields: Sequence[str] = (), ending: str = ""
    ) -> LabelSet:
        """Write the items of a label set and load them."""
        path = self.file(self.text(items) + ending, "labels.jsonl")
        return load_label_file(path, file=path.name, extra_fields=extra_fields)

    def aligned(self, items: Iterable[Record], rows: Iterable[Record]) -> Decisions:
        """Write and load items and rows, and lay the rows out along the items."""
        return align(self.labels(items), self.run(rows))

    def label_set(
        self,
        root: Path,
        name: str,
        versions: Mapping[str, Sequence[Record]],
        *,
        extra: str = "",
        front: str = "",
    ) -> Path:
        """Write the folder of a label set with its card; `extra` goes into its evalkit block."""
        folder = root / "labels" / name
        folder.mkdir(parents=True)
        listed = ""
        for version, items in versions.items():
            content = self.text(items).encode("utf-8")
            (folder / f"{version}.jsonl").write_bytes(content)
            listed += f'    {version}: {{items: {len(items)}, sha256: "{sha256(content)}"}}\n'
        block = f"evalkit:\n  schema: evalkit.labelset/1\n{extra}  versions:\n{listed}"
        (folder / "README.md").write_text(f"---\n{front}{block}---\n# {name}\n", "utf-8")
        return folder

    def run_file(self, root: Path, place: str, rows: Iterable[Record], *, meta: Record | None = None) -> Path:
        """Write a run as ``runs/<place>.jsonl`` below a root, with its sidecar."""
        path = root / "runs" / f"{place}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text(rows), "utf-8")
        if meta is not None:
            path.with_name(f"{path.stem}.meta.json").write_text(json.dumps(meta), "utf-8")
        return path


def sha256(content: bytes) -> str:
    """Return the hex digest of some bytes."""
    return hashlib.sha256(content).hexdigest()


@pytest.fixture(scope="session")
def make(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    """Return the builder of label sets and runs."""
    return Maker(tmp_path_factory.mktemp("made"))


@pytest.fixture(autouse=True)
def _no_root_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVALKIT_ROOT", raising=False)
