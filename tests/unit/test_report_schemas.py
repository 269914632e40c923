"""The schemas of the reports: what evalkit writes fits them, and hardly anything else does."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import pytest
from jsonschema import Draft202012Validator

from evalkit import schema
from evalkit.cards import Policy, Rule
from evalkit.comparing import diff
from evalkit.render import render
from evalkit.scoring import Options, score

if TYPE_CHECKING:
    from tests.conftest import Maker

Kind = Literal["score", "diff", "reports"]
KINDS: tuple[Kind, ...] = ("score", "diff", "reports")
POLICY = Policy((Rule("A", 0.8, "keep"), Rule("B", 0.85, "drop")), "review")
FREE = ("model", "runtime", "recorded", "protocol", "source")
"""Keys of a run whose values are the sidecar's own."""


def built(make: Maker, *, labelled: bool = True, policy: bool = True, meta: bool = True) -> dict[str, Any]:
    """Return a score and a diff report in which everything a report can hold occurs."""
    label = ("A", "B") if labelled else (None, None)
    items = [
        make.item(f"q{number}", "ABC" if number == 7 else "AB", label[number % 2])
        | {"part": "p", "family": f"f{number % 2}", "variant": "v", "group": f"g{number // 2}", "tags": ["t"]}
        for number in range(10)
    ]
    side = {
        "label_set": {"name": "labels", "version": "v1", "sha256": "0" * 64},
        "model": {"name": "demo", "layers": [1, None, {"a": True}]},
        "runtime": {"name": "server"},
        "protocol": {"name": "letters"},
        "recorded": {"options": {"temperature": 1.0, "logit_bias": {"1": 2}}},
        "note": "a remark",
    }
    rows = [
        make.row("q0", {"A": 0.9, "B": 0.1}, model="demo", cached_tokens=3, prompt_sha256="a"),
        make.row("q1", {"A": 0.5, "B": 0.5}),
        make.row("q2", {"A": 0.7, "B": 0.0}),
        make.row("q3", choice="B", option_ids=["A", "B"], probability_range={"B": [0.8, 0.9]}),
        make.row("q4", choice="A", option_ids=["A", "B"]),
        make.row("q5", {"A": 95, "B": 5}),
        make.row("q6", status="error", error="503"),
        make.row("q7", {"A": 0.2, "B": 0.3, "C": 0.5}),
        make.row("q8", {"A": 0.0, "B": 1.0}),
    ]
    other = [
        make.row("q0", {"A": 0.2, "B": 0.8}, model="demo-2", prompt_sha256="b"),
        make.row("q1", {"A": 0.4, "B": 0.6}),
        *rows[2:5],
        make.row("q7", {"A": 0.6, "B": 0.2, "C": 0.2}),
        make.row("q8", {"A": 0.6, "B": 0.4}),
        make.row("q9", {"A": 0.6, "B": 0.4}),
    ]
    other_options = {"temperature": 0.5, "logit_bias": {"1": 3}}
    warm = side | {"recorded": {"options": other_options}, "protocol": "letters/2"}
    labels = make.labels(items)
    reference = make.run(rows, meta=side if meta else None)
    candidate = make.run(other, "other", meta=warm if meta else None)
    fields = ("part", "family", "variant", "tags")
    options = Options(by=fields, policy=POLICY if policy else None)
    return {
        "score": json.loads(render([score(labels, reference, options)], "json")),
        "diff": json.loads(render([diff(labels, reference, candidate, options)], "json")),
    }


@pytest.fixture(scope="module")
def full(make: Maker) -> dict[str, Any]:
    """Return the reports in which everything occurs, and the document around several."""
    reports = built(make)
    return {**reports, "reports": {"schema": "evalkit.reports/1", "reports": [reports["score"]] * 2}}


@pytest.mark.parametrize("kind", KINDS)
def test_schema_is_a_valid_schema(kind: Kind) -> None:
    Draft202012Validator.check_schema(schema.load(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_report_with_everything_fits_its_schema(kind: Kind, full: dict[str, Any]) -> None:
    assert schema.check(kind, full[kind]) == []


@pytest.mark.parametrize("kind", ["score", "diff"])
@pytest.mark.parametrize("missing", ["labelled", "policy", "meta"])
def test_report_without_something_fits_its_schema(make: Maker, kind: Kind, missing: str) -> None:
    labelled, policy, meta = (missing != name for name in ("labelled", "policy", "meta"))
    report = built(make, labelled=labelled, policy=policy, meta=meta)[kind]
    assert schema.check(kind, report) == []


def test_diff_without_label_set_fits_its_schema(make: Maker) -> None:
    runs = [make.run([make.row("q0", {"A": p, "B": 1 - p})]) for p in (0.9, 0.2)]
    report = diff(None, runs[0], runs[1]).to_dict()
    assert report["label_set"]["sha256"] is None
    assert schema.check("diff", report) == []


def test_reports_where_nothing_can_be_scored_fit_their_schemas(make: Maker) -> None:
    labels = make.labels([make.item("q0", label="A")])
    broken = make.run([make.row("q0", {"A": 95, "B": 5})])
    assert schema.check("score", score(labels, broken).to_dict()) == []
    assert schema.check("diff", diff(labels, broken, broken).to_dict()) == []


def test_document_around_several_reports_names_their_schemas(full: dict[str, Any]) -> None:
    wrapped = {"schema": "evalkit.reports/1"}
    assert schema.check("reports", {**wrapped, "reports": [full["diff"], full["diff"]]}) == []
    assert schema.check("reports", {**wrapped, "reports": [full["diff"], full["score"]]}) != []
    assert schema.check("reports", {**wrapped, "reports": [full["diff"]]}) != []
    assert schema.check("reports", {**wrapped, "reports": [{}, {}]}) != []


Place = tuple[str | int, ...]


def places(value: object, at: Place = ()) -> Iterator[tuple[Place, object]]:
    """Yield every value inside a document with its place; what a sidecar says freely is left out."""
    steps: Iterator[tuple[str | int, object]] = iter(())
    if isinstance(value, dict):
        steps = iter(value.items())
    elif isinstance(value, list):
        steps = iter(enumerate(value))
    for step, inner in steps:
        of_sidecar = step in FREE and at[:1] in (("run",), ("reference",), ("candidate",))
        if not of_sidecar and not (at[:1] == ("settings",) and len(at) > 2):
            yield (*at, step), inner
            yield from places(inner, (*at, step))


def changed(document: dict[str, Any], place: Place, value: object) -> dict[str, Any]:
    """Return a copy of a document with one value replaced."""
    result = copy.deepcopy(document)
    owner: Any = result
    for step in place[:-1]:
        owner = owner[step]
    owner[place[-1]] = value
    return result


def refused(kind: Kind, document: dict[str, Any], place: Place, value: object) -> bool:
    """Tell whether replacing one value of a document is a violation that the document did not have."""
    return bool({*schema.check(kind, changed(document, place, value))} - {*schema.check(kind, document)})


TABLES = {
    "by", "recall", "support", "confusion", "positions", "actions", "transitions", "option_counts",
    "invalid_reasons", "wrong_actions_by_action",
}  # fmt: skip
"""Keys whose values are tables, so that their own keys are data."""
NESTED = {"by", "confusion", "actions"}
"""Those whose values are tables of tables."""


def kinds_of_place(document: dict[str, Any]) -> dict[str, Place]:
    """Return one place for each kind of place: numbers of list entries and keys of tables do not matter."""
    found: dict[str, Place] = {}
    for place, _ in places(document):
        inside = [before in TABLES for before in ("", *place[:-1])]
        nested = [two in NESTED for two in ("", "", *place[:-2])][: len(place)]
        names = [
            "*" if isinstance(step, int) or one or two else step
            for step, one, two in zip(place, inside, nested, strict=True)
        ]
        found.setdefault("/".join(names), place)
    return found


LISTS_OF_TEXTS = re.compile(r"notices|only_\w+|.*(models|runs|rules)|settings/\*/(reference|candidate)")
"""Where a list of texts, or any value, is right."""


@pytest.mark.parametrize("kind", ["score", "diff"])
def test_value_of_another_kind_is_refused_everywhere(kind: Kind, full: dict[str, Any]) -> None:
    accepted = [
        name
        for name, place in kinds_of_place(full[kind]).items()
        if not refused(kind, full[kind], place, ["?"]) and not LISTS_OF_TEXTS.fullmatch(name)
    ]
    assert accepted == []


@pytest.mark.parametrize("kind", ["score", "diff"])
def test_required_key_that_is_missing_is_reported(kind: Kind, full: dict[str, Any]) -> None:
    document = full[kind]
    optional = {"action", "note", "label_set", "part", "family", "variant", *FREE}
    optional |= {"reference_action", "candidate_action"}
    for place in kinds_of_place(document).values():
        owner: Any = document
        for step in place[:-1]:
            owner = owner[step]
        key = place[-1]
        table = bool({*place[-2:-1]} & TABLES or {*place[-3:-2]} & NESTED)
        if isinstance(owner, list) or table or key in optional or place[-2:-1] == ("label_set",):
            continue
        shorter = {name: value for name, value in owner.items() if name != key}
        if len(place) == 1:
            assert schema.check(kind, shorter) != schema.check(kind, document), place
        else:
            assert refused(kind, document, place[:-1], shorter), place


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_key_is_refused(kind: Kind, full: dict[str, Any]) -> None:
    assert "more" in str(schema.check(kind, {**full[kind], "more": 1})[0])


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("score", ("overall",)),
        ("score", ("overall", "accuracy")),
        ("score", ("by", "part", "p")),
        ("score", ("counts",)),
        ("score", ("items", 0)),
        ("score", ("policy",)),
        ("score", ("signature", "intervals")),
        ("diff", ("overall",)),
        ("diff", ("by", "family", "f0")),
        ("diff", ("overall", "mcnemar")),
        ("diff", ("changed", 0)),
        ("diff", ("policy", "items", 0)),
        ("diff", ("candidate",)),
    ],
)
def test_unknown_key_inside_is_refused(kind: Kind, place: Place, full: dict[str, Any]) -> None:
    owner: Any = full[kind]
    for step in place:
        owner = owner[step]
    assert refused(kind, full[kind], place, {**owner, "more": 1})


@pytest.mark.parametrize("kind", ["score", "diff"])
def test_probability_outside_0_to_1_is_refused(kind: Kind, full: dict[str, Any]) -> None:
    place: Place = ("items", 0, "probability") if kind == "score" else ("changed", 0, "shift")
    assert not refused(kind, full[kind], place, 1)
    for wrong in (1.01, -0.01, "0.5"):
        assert refused(kind, full[kind], place, wrong)


def described(node: object, at: str = "$") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every property of a schema with its place."""
    if isinstance(node, dict):
        for group in ("properties", "$defs"):
            for name, inner in node.get(group, {}).items():
                yield f"{at}.{name}", inner
        for key, inner in node.items():
            yield from described(inner, f"{at}.{key}")
    elif isinstance(node, list):
        for number, inner in enumerate(node):
            yield from described(inner, f"{at}[{number}]")


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_is_described_in_one_line(kind: Kind) -> None:
    for place, node in described(schema.load(kind)):
        if node.keys() == {"$ref"} or place.startswith("$.$defs.ladder"):
            continue
        text = node.get("description", "")
        assert text.endswith("."), place
        assert "\n" not in text
        assert len(text) <= 110, place


def test_definitions_of_both_reports_agree() -> None:
    one, other = schema.load("score")["$defs"], schema.load("diff")["$defs"]
    for name in ("figure", "signature", "label_set", "run", "counts", "unusable"):
        assert one[name] == other[name], name


def test_objects_are_closed_unless_they_are_built_upon() -> None:
    open_ones = {
        "slice",
        "change",
        "label_set",
    }  # closed where they are used; a sidecar's label set stays open
    for kind in ("score", "diff"):
        for place, node in described(schema.load(kind)):
            closed = node.get("additionalProperties") is False or node.get("unevaluatedProperties") is False
            assert closed or "properties" not in node or place.split(".")[-1] in open_ones, place
