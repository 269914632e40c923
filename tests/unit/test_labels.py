"""Label sets: loading the items with their options and labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from evalkit.cards import load_card
from evalkit.errors import ChecksumError, InputError, NotFoundError
from evalkit.jsonl import Source, file_sha256
from evalkit.labels import LabelSet, check_label_file, item_problems, load_label_file

if TYPE_CHECKING:
    from tests.conftest import Maker

GOOD = '{"id":"a","options":[{"id":"A"},{"id":"B"}],"label":"A"}\n'


@pytest.fixture(params=["by columns", "line by line"])
def ending(request: pytest.FixtureRequest) -> str:
    """Return what to end a file with so that the one or the other reader takes it."""
    return "\n" if request.param == "line by line" else ""


def problems(path: Path, **options: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        load_label_file(path, file="labels.jsonl", **options)
    return str(caught.value).splitlines()


def values(labels: LabelSet, field: str) -> list[str | None]:
    coded = labels.fields[field]
    return [coded.names[code] if code >= 0 else None for code in coded.codes.tolist()]


def options_of(labels: LabelSet) -> list[tuple[str, ...]]:
    return [labels.layouts[number] for number in labels.layout.tolist()]


def tags(labels: LabelSet) -> dict[str, list[int]]:
    return {value: items.tolist() for value, items in labels.memberships["tags"].items()}


# one file


def test_label_set_holds_the_items_in_file_order(make: Maker, ending: str) -> None:
    labels = make.labels(
        [
            make.item("a", "AB", "B", family="f", group="g1", part="p", tags=["x", "y"], evidence="text"),
            make.item("b", "XYZ", None, family="f", variant="v", tags=[], evidence={"deep": [1]}),
            make.item("c", "BA", "B", group="g1", language="zh", tags=["y"], source={"file": 1}),
            make.item("d", "AB", "A", family=None, criterion="?", rationale="because"),
        ],
        ending=ending,
    )
    assert labels.ids.to_pylist() == list("abcd")
    assert labels.lines.tolist() == [1, 2, 3, 4]
    assert options_of(labels) == [("A", "B"), ("X", "Y", "Z"), ("B", "A"), ("A", "B")]
    assert labels.gold.tolist() == [1, -1, 0, 0]
    assert {field: values(labels, field) for field in labels.fields} == {
        "part": ["p", None, None, None],
        "family": ["f", "f", None, None],
        "variant": [None, "v", None, None],
        "language": [None, None, "zh", None],
        "group": ["g1", None, "g1", None],
    }
    assert tags(labels) == {"x": [0], "y": [0, 2]}
    assert (labels.name, labels.version, labels.policy) == ("labels", None, None)
    assert (labels.headline, labels.notices, len(labels), labels.labelled) == (
        "balanced_accuracy",
        (),
        4,
        True,
    )
    assert labels.path is not None
    assert labels.to_dict() == {
        "name": "labels",
        "version": None,
        "sha256": file_sha256(labels.path),
        "items": 4,
    }


def test_label_set_without_labels_is_unlabelled(make: Maker, ending: str) -> None:
    labels = make.labels([make.item("a"), {"id": "b", "options": [{"id": "A"}, {"id": "B"}]}], ending=ending)
    assert labels.gold.tolist() == [-1, -1]
    assert not labels.labelled
    assert labels.fields == {}
    assert labels.memberships == {}


def test_extra_fields_are_read_as_text(make: Maker, ending: str) -> None:
    items = [
        make.item("a", topic="t", level=1, hard=True, mixed=1.5),
        make.item("b", level=2, hard=False, mixed="x"),
    ]
    labels = make.labels(items, extra_fields=["topic", "level", "hard", "mixed", "absent"], ending=ending)
    assert {field: values(labels, field) for field in labels.fields} == {
        "topic": ["t", None],
        "level": ["1", "2"],
        "hard": ["true", "false"],
        "mixed": ["1.5", "x"],
    }


@pytest.mark.parametrize("field", ["label", "id"])
def test_items_may_be_sliced_by_their_own_columns(make: Maker, ending: str, field: str) -> None:
    labels = make.labels(
        [make.item("a", "AB", "B"), make.item("b", "AB", None)], extra_fields=[field], ending=ending
    )
    assert values(labels, field) == {"label": ["B", None], "id": ["a", "b"]}[field]


def test_options_are_no_field_to_slice_by(make: Maker, ending: str) -> None:
    labels = make.labels([make.item("a", "AB", "B")], extra_fields=["options"], ending=ending)
    assert "options" not in labels.fields
    assert options_of(labels) == [("A", "B")]


def test_tags_asked_for_as_extra_field_stay_memberships(make: Maker, ending: str) -> None:
    labels = make.labels(
        [make.item("a", tags=["x", "x"]), make.item("b", tags=None)], extra_fields=["tags"], ending=ending
    )
    assert "tags" not in labels.fields
    assert tags(labels) == {"x": [0]}


def test_subset_keeps_what_belongs_to_its_items(make: Maker) -> None:
    labels = make.labels(
        [
            make.item("a", "AB", "B", family="f", tags=["x"]),
            make.item("b", "XYZ", "Z", family="g", tags=["x", "y"]),
            make.item("c", "AB", None, tags=["z"]),
        ]
    )
    kept = labels.subset(np.asarray([1, 2]))
    assert kept.ids.to_pylist() == ["b", "c"]
    assert (kept.lines.tolist(), kept.gold.tolist()) == ([2, 3], [2, -1])
    assert options_of(kept) == [("X", "Y", "Z"), ("A", "B")]
    assert (kept.fields["family"].names, values(kept, "family")) == (("g",), ["g", None])
    assert tags(kept) == {"x": [0], "y": [0], "z": [1]}
    assert (kept.name, kept.sha256) == (labels.name, labels.sha256)


def test_ids_are_kept_verbatim(make: Maker, ending: str) -> None:
    ids = ["007", "1e5", "20_31", "NA", "null", " a ", "学", "a\u2028b", "a\u0000b"]
    assert make.labels([make.item(name) for name in ids], ending=ending).ids.to_pylist() == ids


def test_byte_order_marks_and_blank_lines_are_no_part_of_items(make: Maker) -> None:
    text = "\ufeff" + GOOD.rstrip() + "\r\n\r\n" + "\ufeff" + GOOD.replace('"a"', '"b"').rstrip() + "\r\n"
    labels = load_label_file(make.file(text))
    assert labels.ids.to_pylist() == ["a", "b"]
    assert labels.lines.tolist() == [1, 3]


def test_misleading_name_is_a_notice_once(make: Maker, ending: str) -> None:
    labels = load_label_file(make.file(GOOD + ending, "labels.jsonl.gz"), file="f")
    assert labels.notices == ("f: named .gz, but it is not gzip; read as plain text",)


def test_label_set_of_many_blocks_is_the_one_of_one(
    make: Maker, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    items = [
        make.item(f"i{n}", "AB" if n % 3 else "XYZ", "A" if n % 3 else "Z", family=f"f{n % 4}")
        for n in range(40)
    ]
    path = make.file(make.text(items) + ending)
    whole = load_label_file(path)
    blocks = Source.blocks
    monkeypatch.setattr(Source, "blocks", lambda self: blocks(self, 300))
    cut = load_label_file(path)
    assert cut.ids.equals(whole.ids)
    assert options_of(cut) == options_of(whole)
    assert cut.gold.tolist() == whole.gold.tolist()
    assert cut.lines.tolist() == list(range(1, 41))
    assert values(cut, "family") == values(whole, "family")


# what is refused


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_file_without_an_item_is_refused(make: Maker, content: str) -> None:
    assert problems(make.file(content)) == ["labels.jsonl: holds no item: a label set has at least one item"]


def test_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="cannot be read"):
        load_label_file(tmp_path / "labels.jsonl")


OPTIONS = '"options":[{"id":"A"},{"id":"B"}]'


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ('{"id":"b"}', "$: 'options' is a required property"),
        (f"{{{OPTIONS}}}", "$: 'id' is a required property"),
        (f'{{"id":5,{OPTIONS}}}', "$.id: expected string, found 5: ids are text: write a number in quotes"),
        (f'{{"id":"",{OPTIONS}}}', '$.id: "" does not meet minLength 1'),
        (
            '{"id":"b","options":[{"id":"A"}]}',
            "$.options: 1 entries, at least 2 needed: options are a",
        ),
        (
            json.dumps({"id": "b", "options": [{"id": str(n)} for n in range(1001)]}),
            "$.options: 1001 entries, at most 1000 allowed",
        ),
        ('{"id":"b","options":[{"id":"A"},{"id":"A"}]}', "$.options: b: two options have the same id"),
        ('{"id":"b","options":[{"id":"A"},{"id":""}]}', '$.options[1].id: "" does not meet minLength 1'),
        ('{"id":"b","options":[{"id":"A"},{"id":null}]}', "$.options[1].id: expected string, found null"),
        ('{"id":"b","options":[{"id":"A"},{}]}', "$.options[1]: 'id' is a required property"),
        ('{"id":"b","options":[{"id":"A"},null]}', "$.options[1]: expected object, found null"),
        ('{"id":"b","options":null}', "$.options: expected array, found null"),
        ('{"id":"b","options":{"A":1,"B":2}}', "$.options: expected array"),
        (f'{{"id":"b",{OPTIONS},"family":5}}', "$.family: expected string or null, found 5"),
        (f'{{"id":"b",{OPTIONS},"tags":["x",null]}}', "$.tags[1]: expected string, found null"),
        (f'{{"id":"b",{OPTIONS},"tags":"x"}}', '$.tags: expected array or null, found "x"'),
        (f'{{"id":"b",{OPTIONS},"tags":5}}', "$.tags: expected array or null, found 5"),
        (f'{{"id":"b",{OPTIONS},"tags":true}}', "$.tags: expected array or null, found true"),
        (f'{{"id":"b",{OPTIONS},"label":"C"}}', "$.label: b: label 'C' is not among the options A, B"),
        (f'{{"id":"b",{OPTIONS},"label":"a"}}', "label 'a' is not among the options A, B"),
        (f'{{"id":"b",{OPTIONS},"label":" A"}}', "label ' A' is not among"),
        (f'{{"id":"b",{OPTIONS},"label":""}}', "label '' is not among"),
        (f'{{"id":"b",{OPTIONS},"label":["A"]}}', "label ['A'] is not among"),
        (f'{{"id":"b",{OPTIONS},"label":true}}', "label True is not among"),
        (f'{{"id":"b",{OPTIONS},"label":1}}', "label is a number (1); declare the index base"),
        (f'{{"id":"b",{OPTIONS},"label":0.0}}', "label is a number (0.0); declare the index base"),
        ('{"id":"b\\ud83d",' + OPTIONS + "}", "$.id: b\ud83d: holds half a surrogate pair"),
        (f'{{"id":"b",{OPTIONS},"family":"\\ud83d"}}', "$.family: b: holds half a surrogate pair"),
        ('{"id":"b","options":[{"id":"A"},{"id":"\\ud83d"}]}', "$.options: b: holds half a surrogate pair"),
        (f'{{"id":"b",{OPTIONS},"tags":["\\ud83d"]}}', "$.tags: b: holds half a surrogate pair"),
        (f'{{"id":"b",{OPTIONS},"id":"c"}}', "the key 'id' occurs twice"),
        (f'{{"id":"b",{OPTIONS}', "unfinished record"),
        (f'{{"id":"b",{OPTIONS}}}{{"id":"c",{OPTIONS}}}', "something follows the record"),
        ("[]", "expected an object"),
    ],
)
def test_item_that_is_damaged_is_refused_with_its_place(
    make: Maker, ending: str, bad: str, expected: str
) -> None:
    found = problems(make.file(GOOD + bad + "\n" + ending))
    assert len(found) == 1
    assert found[0].startswith("labels.jsonl:2: ")
    assert expected in found[0]


def test_half_a_surrogate_pair_in_an_extra_field_is_refused(make: Maker, ending: str) -> None:
    path = make.file(f'{{"id":"b",{OPTIONS},"topic":"\\ud83d"}}\n{ending}')
    assert "$.topic: b: holds half a surrogate pair" in problems(path, extra_fields=["topic"])[0]
    assert len(load_label_file(path)) == 1  # nobody asked for it


def test_half_a_surrogate_pair_in_a_text_is_tolerated(make: Maker, ending: str) -> None:
    path = make.file(f'{{"id":"b",{OPTIONS},"evidence":"\\ud83d"}}\n{ending}')
    assert load_label_file(path).ids.to_pylist() == ["b"]


def test_all_problems_of_a_file_are_listed(make: Maker) -> None:
    text = f'{{"id":"b",{OPTIONS},"label":"C","family":1}}\noops\n{GOOD}{{"id":7}}\n'
    assert [line.split(": ")[:2] for line in problems(make.file(text))] == [
        ["labels.jsonl:1", "$.family"],
        ["labels.jsonl:2", "not JSON at column 1 (Expecting value)"],
        ["labels.jsonl:4", "$"],
        ["labels.jsonl:4", "$.id"],
    ]


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ({}, "identical items"),
        ({"label": "B"}, "the labels A and B conflict"),
        ({"label": None}, "the labels A and None conflict"),
        ({"family": "g"}, "same label, other content"),
    ],
)
def test_repeated_id_is_refused_and_says_what_differs(
    make: Maker, ending: str, second: dict[str, Any], expected: str
) -> None:
    first = make.item("q1", "AB", "A", family="f")
    path = make.file(make.text([first, make.item("q2"), {**first, **second}]) + ending)
    assert problems(path) == [
        f"labels.jsonl:3: the id 'q1' occurs 2 times (lines 1, 3): {expected}: "
        "every item needs an id of its own"
    ]


def test_every_repeated_id_is_named(make: Maker) -> None:
    found = problems(make.file(make.text([make.item(name) for name in "abacbb"])))
    assert [line.split(" occurs ")[0] for line in found] == [
        "labels.jsonl:3: the id 'a'",
        "labels.jsonl:5: the id 'b'",
    ]
    assert "occurs 3 times (lines 2, 5, 6)" in found[1]


@pytest.mark.parametrize(
    "field",
    ['"criterion":5', '"evidence":5', '"rationale":[1]', '"source":5', '"x":NaN', '"description":{"a":NaN}'],
)
def test_fields_that_scoring_does_not_need_are_treated_alike_by_both_readers(make: Maker, field: str) -> None:
    # Loading looks only at what scoring needs.
    text = f'{{"id":"b",{OPTIONS},{field}}}\n'
    assert len(load_label_file(make.file(text))) == len(load_label_file(make.file(text + "\n"))) == 1


def test_check_label_file_looks_at_every_field(make: Maker) -> None:
    with pytest.raises(InputError, match=r"f:1: \$\.criterion: expected string or null, found 5"):
        check_label_file(make.file(f'{{"id":"b",{OPTIONS},"criterion":5}}\n'), file="f")
    check_label_file(make.file(GOOD))


def test_item_problems_of_a_sound_item_are_none(make: Maker) -> None:
    assert item_problems(make.item("a", "AB", "A", tags=["x"], group="g"), "f", 1) == []
    assert item_problems(make.item("a", "AB", None), "f", 1) == []


# versions and checksums


def test_card_gives_name_headline_policy_and_is_verified(make: Maker) -> None:
    root = make.folder()
    extra = "  headline: mean_family_balanced_accuracy\n  policy:\n    default: keep\n    rules: []\n"
    folder = make.label_set(root, "demo", {"v1": [make.item("a", "AB", "A")]}, extra=extra)
    labels = load_label_file(folder / "v1.jsonl", card=load_card(folder), version="v1")
    assert (labels.name, labels.version, labels.headline) == ("demo", "v1", "mean_family_balanced_accuracy")
    assert labels.policy is not None
    assert labels.policy.default == "keep"


def test_file_that_is_not_the_one_in_the_card_is_refused(make: Maker) -> None:
    folder = make.label_set(make.folder(), "demo", {"v1": [make.item("a", "AB", "A")]})
    path = folder / "v1.jsonl"
    path.write_text(path.read_text("utf-8").replace('"label": "A"', '"label": "B"'), "utf-8")
    with pytest.raises(ChecksumError) as caught:
        load_label_file(path, file="v1.jsonl", card=load_card(folder), version="v1")
    assert str(caught.value).startswith(f"v1.jsonl: sha256 is {file_sha256(path)}, but the card says ")
    assert str(caught.value).endswith(" for v1: restore the released file; a correction is a new version")
