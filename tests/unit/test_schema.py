"""The JSON Schemas of evalkit's files, and validation against them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest
from jsonschema import Draft202012Validator

from evalkit import schema
from evalkit.accuracy import Resampling
from evalkit.api import diff, score
from evalkit.catalog import Catalog, shipped_root
from evalkit.errors import Problem
from evalkit.jsonl import Source, parse_object
from evalkit.scoring import Options

if TYPE_CHECKING:
    from tests.conftest import Maker

KINDS: tuple[schema.Kind, ...] = get_args(schema.Kind)
FAST = Options(resampling=Resampling(resamples=100))


def shown(problems: list[Problem]) -> list[str]:
    return [str(problem) for problem in problems]


def parts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for entry in value.values():
            yield from parts(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from parts(entry)


# the schemas themselves


@pytest.mark.parametrize("kind", KINDS)
def test_schema_is_a_valid_one_with_its_own_name(kind: schema.Kind) -> None:
    document = schema.load(kind)
    Draft202012Validator.check_schema(document)
    assert re.fullmatch(r"evalkit\.[a-z]+/\d+", document["$id"])
    assert document["title"]


def test_every_schema_file_can_be_asked_for() -> None:
    found = {
        entry.name.removesuffix(".schema.json")
        for entry in files(schema).iterdir()
        if entry.name.endswith(".json")
    }
    assert found == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_references_of_a_schema_lead_somewhere(kind: schema.Kind) -> None:
    document = schema.load(kind)
    for part in parts(document):
        if str(part.get("$ref", "")).startswith("#/"):
            place: Any = document
            for step in part["$ref"].removeprefix("#/").split("/"):
                place = place[step]
            assert isinstance(place, dict)


def test_patterns_of_a_schema_are_valid() -> None:
    for kind in KINDS:
        for part in parts(schema.load(kind)):
            if isinstance(part.get("pattern"), str):
                re.compile(part["pattern"])


# what is shipped fits its schema


def test_shipped_runs_and_sidecars_fit_their_schemas() -> None:
    found = Catalog((shipped_root(),)).run_files()
    assert len(found) >= 7
    for file in found:
        for block in Source(file.path, file.name).blocks():
            for number, line in block.lines():
                assert schema.check("run", parse_object(line, file.name, number), file.name, number) == []
        sidecar = file.path.with_name(f"{file.name}.meta.json")
        assert schema.check("meta", json.loads(sidecar.read_text("utf-8"))) == []


def test_shipped_items_fit_their_schema() -> None:
    for folder in Catalog((shipped_root(),)).label_folders().values():
        for path in sorted(folder.glob("*.jsonl")):
            for block in Source(path, path.name).blocks():
                for number, line in block.lines():
                    assert (
                        schema.check("label", parse_object(line, path.name, number), path.name, number) == []
                    )


@pytest.mark.parametrize("run", ["semif-252/q4", "semif-252/torch-bf16", "graduate-18/vllm-awq"])
def test_score_report_fits_its_schema(run: str) -> None:
    document = json.loads(json.dumps(score(run, options=FAST, root=shipped_root()).to_dict()))
    assert schema.check("score", document) == []


@pytest.mark.parametrize(
    "pair", ["semif-252/bf16 semif-252/q8", "graduate-18/llamacpp-q4_k_m graduate-18/vllm-awq"]
)
def test_diff_report_fits_its_schema(pair: str) -> None:
    reference, candidate = pair.split()
    document = json.loads(json.dumps(diff(reference, candidate, options=FAST, root=shipped_root()).to_dict()))
    assert schema.check("diff", document) == []


def test_reports_on_awkward_runs_fit_their_schemas(make: Maker) -> None:
    awkward = make.run(
        [
            make.row("a", {"A": 95, "B": 5}),
            make.row("b", status="error", error="timeout"),
            make.row("c", option_ids=["A", "B"], choice="B"),
            make.row("d", option_ids=["A", "B"], probability_range={"A": [0.8, 0.9]}),
            make.row("e", {"A": 0.5, "B": 0.2}),
        ]
    )
    empty = make.run([make.row("a", status="error")])
    labels = make.labels(
        [make.item(name, "AB", "A" if name < "d" else None, tags=["t"]) for name in "abcdef"]
    )
    bare = make.labels([make.item(name, "AB") for name in "abcdef"])
    options = Options(by=["tags"], resampling=Resampling(resamples=100))
    for run in (awkward, empty):
        for items, chosen in ((labels, options), (bare, FAST)):
            document = json.loads(json.dumps(score(run, items, chosen).to_dict()))
            assert schema.check("score", document) == []
    for items, chosen in ((labels, options), (bare, FAST)):
        for before, after in ((awkward, awkward), (awkward, empty), (empty, awkward)):
            document = json.loads(json.dumps(diff(before, after, items, chosen).to_dict()))
            assert schema.check("diff", document) == []


def test_schema_of_a_report_refuses_what_is_no_report() -> None:
    document = score("graduate-18/vllm-awq", options=FAST, root=shipped_root()).to_dict()
    assert schema.check("score", {**document, "surprise": 1}) != []
    assert schema.check("score", {**document, "counts": {**document["counts"], "items": "18"}}) != []
    assert schema.check("diff", document) != []


# check


def test_check_of_a_sound_document_finds_nothing() -> None:
    assert schema.check("run", {"id": "a", "unknown": 1}) == []


def test_check_gives_each_problem_its_place() -> None:
    value = {"id": 7, "option_ids": ["A", "A"], "choice": []}
    assert shown(schema.check("run", value, "run.jsonl", 3)) == [
        "run.jsonl:3: $.choice: expected string or null, found []",
        "run.jsonl:3: $.id: expected string, found 7",
        'run.jsonl:3: $.option_ids: ["A", "A"] does not meet uniqueItems true',
    ]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("run", {}, "$: 'id' is a required property"),
        (
            "run",
            {"id": "a", "status": "x"},
            '$.status: "x" is none of ok, missing_option, invalid, error, null',
        ),
        ("run", {"id": "a", "probabilities": "x"}, '$.probabilities: "x" has none of the allowed forms'),
        ("run", {"id": ""}, '$.id: "" does not meet minLength 1'),
        ("label", {"id": "a", "options": [{"id": "A"}]}, "$.options: 1 entries, at least 2 needed"),
        (
            "labelset",
            {"schema": "x", "versions": {}},
            '$.schema: "x" does not meet const "evalkit.labelset/1"',
        ),
        (
            "meta",
            {"label_set": {"sha256": "x"}},
            '$.label_set.sha256: "x" does not meet pattern "^[0-9a-f]{64}$"',
        ),
        ("run", [], "$: expected object, found []"),
        ("run", {"id": ["学" * 80]}, '$.id: expected string, found ["' + "\\u5b66" * 9 + "\\..."),
    ],
)
def test_check_says_what_is_wrong(kind: schema.Kind, value: Any, expected: str) -> None:
    assert shown(schema.check(kind, value))[0] == expected


def test_check_keeps_long_values_out_of_its_messages() -> None:
    [problem] = schema.check("label", {"id": "a", "options": [{"id": str(n)} for n in range(1001)]})
    assert problem.what == "1001 entries, at most 1000 allowed"


def test_check_survives_values_that_json_cannot_hold() -> None:
    assert shown(schema.check("labelset", {"schema": Path("x"), "versions": 1}))[0].startswith("$.schema: ")


# problems as text


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (Problem("what"), "what"),
        (Problem("what", "f"), "f: what"),
        (Problem("what", "f", 3, "$.x", "do this"), "f:3: $.x: what: do this"),
        (Problem("what", remedy="do this"), "what: do this"),
    ],
)
def test_problem_reads_as_place_what_and_remedy(problem: Problem, expected: str) -> None:
    assert str(problem) == expected
