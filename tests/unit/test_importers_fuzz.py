"""Mutated recordings of every format: a run, or an error of ours, and never a number made of damage."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit import rows
from evalkit.errors import EvalkitError
from evalkit.importers import FORMATS, ImportOptions, InputFile
from evalkit.importers.label_writing import import_labels
from evalkit.importers.writing import import_runs
from tests.unit.importing import SAMPLES, read_lines

LINES = (
    "openai-responses/vllm.jsonl",
    "openai-responses/llamacpp.jsonl",
    "openai-responses/other-servers.jsonl",
    "openai-batch/output.jsonl",
    "openai-batch/errors.jsonl",
    "lm-eval/samples_mill_2029-01-01T00-00-00.jsonl",
    "lm-eval/samples_mill_2030-01-01T00-00-00.000000.jsonl",
    "promptfoo/results.jsonl",
    "semif/scorer.jsonl",
    "semif/fixtures.jsonl",
)
DOCUMENTS = ("inspect/mill.json", "promptfoo/results.json", "promptfoo/two-providers.json")
STRANGE: tuple[Any, ...] = (
    None, True, 0, -1, 1, 2.5, math.nan, math.inf, -math.inf, 10**30, -9999.0, "", "A", "NaN", "token_id:7",
    "\ud800", [], [[]], {}, {"A": 0.5}, ["A"], [None], [{}], [[0.5, 1]],
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every value inside a document."""
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in pairs:
        yield from places(entry, (*path, key))


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Return the document with another value at a path."""
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


def mutate(data: st.DataObject, value: Any) -> Any:
    """Change up to three places of a document."""
    for _ in range(data.draw(st.integers(0, 3))):
        path = data.draw(st.sampled_from(list(places(value))))
        value = changed(value, path, data.draw(st.sampled_from(STRANGE)))
    return value


def survive(path: Path, format: str, folder: Path) -> None:
    """Import a file both ways; check that whatever was written is sound."""
    options = ImportOptions(options=("A", "B"), text_choices=True, index_base=0)
    output = folder / "run.jsonl"
    output.unlink(missing_ok=True)
    try:
        written = import_runs([InputFile(path, path.name)], FORMATS[format], None, options, output)
    except EvalkitError:
        assert not output.exists()
    else:
        found = [rows.read_row(row, "run.jsonl", 1) for row in read_lines(output)]
        assert sum(row.status == rows.OK for row in found) == written[0].usable
        for row in found:
            assert row.probabilities is None or abs(sum(row.probabilities) - 1) < rows.SUM_TOLERANCE
    if FORMATS[format].items is not None:
        try:
            import_labels([InputFile(path, path.name)], FORMATS[format], options, folder / "labels.jsonl")
        except EvalkitError:
            return
        for item in read_lines(folder / "labels.jsonl"):
            assert item["label"] is None or item["label"] in [option["id"] for option in item["options"]]


@pytest.mark.parametrize("sample", LINES)
@given(data=st.data())
def test_mutated_lines(sample: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("fuzz", numbered=True)
    records = [json.loads(line) for line in (SAMPLES / sample).read_text("utf-8").splitlines()]
    record = mutate(data, data.draw(st.sampled_from(records)))
    path = folder / "mutated.jsonl"
    path.write_text(json.dumps(record) + "\n", "utf-8")
    survive(path, sample.partition("/")[0], folder)


@pytest.mark.parametrize("sample", DOCUMENTS)
@given(data=st.data())
def test_mutated_documents(
    sample: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("fuzz", numbered=True)
    document = mutate(data, json.loads((SAMPLES / sample).read_text("utf-8")))
    path = folder / "mutated.json"
    path.write_text(json.dumps(document), "utf-8")
    survive(path, sample.partition("/")[0], folder)


@pytest.mark.parametrize("sample", ["tables/decisions.csv", "inspect/mill.eval", "promptfoo/results.json"])
@given(place=st.floats(0, 1), junk=st.binary(max_size=4), cut=st.integers(0, 4))
def test_mutated_bytes(
    sample: str, place: float, junk: bytes, cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("fuzz", numbered=True)
    raw = (SAMPLES / sample).read_bytes()
    at = int(place * len(raw))
    path = folder / "mutated"
    path.write_bytes(raw[:at] + junk + raw[at + cut :])
    survive(path, sample.partition("/")[0].replace("tables", "csv"), folder)
