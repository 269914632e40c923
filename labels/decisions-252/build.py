"""Rebuild v1.jsonl from the authored items and the tables in source/, to the byte.

The 144 authored items are taken as they are. The 108 perturbations are derived from the 36 originals: the
options in reverse order, the criterion inside another wording, a sentence that does not matter added to the
evidence. Which wording and which sentence an original gets is fixed; nothing is drawn at random.

    python build.py           write v1.jsonl and print its sha256
    python build.py --check   write nothing; exit with 1 if v1.jsonl, the design or the card disagree
    python build.py --tables  print the tables of the card
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "source"
RELEASE = HERE / "v1.jsonl"
CARD = HERE / "README.md"

FAMILIES: Mapping[str, Sequence[str]] = {
    "evidence_interpretation": ("supported", "contradicted", "insufficient"),
    "rule_application": ("permitted", "prohibited", "insufficient"),
    "candidate_selection": ("A", "B", "insufficient"),
}
"""The families in file order, each with its labels."""
PARTS: Mapping[str, Sequence[str]] = {
    "authored": ("original", "criterion_reversal", "evidence_change", "missing"),
    "perturbations": ("option_reversal", "criterion_wrapper", "irrelevant_context"),
}
"""The parts in file order, each with its variants."""
ORDINALS = ("1st", "2nd", "3rd")
"""The positions of an option in the prompt."""
GROUPS = 12
"""Groups a family."""
WRAPPER_STEP = 4
"""How far a wrapper moves from family to family, so that each one meets every kind of label."""

Item = dict[str, Any]


def read(name: str) -> list[Item]:
    """Return the objects of a file in source/."""
    with (SOURCE / name).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def build() -> list[Item]:
    """Return all items of the release: the authored ones, then the perturbations, group by group."""
    authored = read("authored.jsonl")
    wrappers = [row["text"] for row in read("wrappers.jsonl")]
    distractors = {row["group"]: row for row in read("distractors.jsonl")}
    originals = [item for item in authored if item["variant"] == "original"]
    derived = [
        item
        for place, original in enumerate(originals)
        for item in perturbations(original, wrappers[wrapper_of(place)], distractors[original["group"]])
    ]
    return authored + derived


def wrapper_of(place: int) -> int:
    """Return the index of the wrapper for the original at this place of the file."""
    family, group = divmod(place, GROUPS)
    return (group + WRAPPER_STEP * family) % GROUPS


def perturbations(original: Item, wrapper: str, distractor: Item) -> Iterator[Item]:
    """Yield the three perturbations of an original."""
    changes: Mapping[str, Item] = {
        "option_reversal": {"options": original["options"][::-1]},
        "criterion_wrapper": {"criterion": wrapper.replace("{criterion}", original["criterion"])},
        "irrelevant_context": {"evidence": with_context(original["evidence"], distractor)},
    }
    for variant, changed in changes.items():
        names = {"id": f"{original['group']}-{variant}", "part": "perturbations", "variant": variant}
        yield {**original, **names, **changed}


def with_context(evidence: str, distractor: Item) -> str:
    """Return the evidence with the distractor at its start, its end, or after the text that it names.

    Raises:
        ValueError: the text that the distractor is to follow does not occur exactly once.
    """
    text = distractor["text"]
    between = "\n" if "\n" in evidence else " "
    if distractor["position"] == "start":
        return f"{text}{between}{evidence}"
    if distractor["position"] == "end":
        return f"{evidence}{between}{text}"
    after = distractor["after"]
    if evidence.count(after) != 1:
        raise ValueError(
            f"{distractor['group']}: {after!r} occurs {evidence.count(after)} times: name another text"
        )
    return evidence.replace(after, f"{after}{between}{text}")


def lines_of(items: Iterable[Item]) -> bytes:
    """Return the items as JSON Lines."""
    return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items).encode("utf-8")


def problems(items: Sequence[Item]) -> Iterator[str]:
    """Yield what breaks the design, one message a finding."""
    if repeated := [name for name, n in Counter(item["id"] for item in items).items() if n > 1]:
        yield f"ids that occur more than once: {', '.join(repeated)}"
    groups: dict[str, dict[str, Item]] = {}
    for item in items:
        groups.setdefault(item["group"], {})[item["variant"]] = item
        if {option["id"] for option in item["options"]} != set(FAMILIES[item["family"]]):
            yield f"{item['id']}: the options are not those of {item['family']}"
    for name, group in groups.items():
        yield from group_problems(name, {variant: item["label"] for variant, item in group.items()})
        texts = [(group[variant]["evidence"], group[variant]["criterion"]) for variant in PARTS["authored"]]
        if len(set(texts)) < len(texts):
            yield f"{name}: two authored variants have the same texts"
    for family, labels in FAMILIES.items():
        yield from balance_problems([item for item in items if item["family"] == family], family, labels)


def group_problems(name: str, labels: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with the labels of one group."""
    wanted = {variant for variants in PARTS.values() for variant in variants}
    if set(labels) != wanted:
        yield f"{name}: the variants are not the seven of the design"
        return
    if labels["missing"] != "insufficient":
        yield f"{name}: the variant missing is not insufficient"
    for variant in ("criterion_reversal", "evidence_change"):
        if labels[variant] in ("insufficient", labels["original"]):
            yield f"{name}: the variant {variant} does not change the label to a decided one"
    for variant in PARTS["perturbations"]:
        if labels[variant] != labels["original"]:
            yield f"{name}: the perturbation {variant} changes the label"


def balance_problems(items: Sequence[Item], family: str, labels: Sequence[str]) -> Iterator[str]:
    """Yield where a label or a position is gold more often than another."""
    for part in PARTS:
        members = [item for item in items if item["part"] == part]
        by_label = Counter(item["label"] for item in members)
        by_position = Counter(position(item) for item in members)
        if len({by_label[label] for label in labels}) > 1:
            yield f"{family}, {part}: labels are unbalanced: {dict(by_label)}"
        if len({by_position[place] for place in range(len(labels))}) > 1:
            yield f"{family}, {part}: label positions are unbalanced: {dict(by_position)}"


def position(item: Item) -> int:
    """Return the place of the label among the options of the prompt, from 0."""
    return [option["id"] for option in item["options"]].index(item["label"])


def tables(items: Sequence[Item]) -> Iterator[str]:
    """Yield the tables of the card: labels, positions, and both, by family and part."""
    places = [(family, place) for family, labels in FAMILIES.items() for place in range(len(labels))]
    pairs = [(family, label) for family, labels in FAMILIES.items() for label in labels]
    labels = Counter((item["family"], item["label"], item["part"]) for item in items)
    yield table(
        ["family", "label", *PARTS, "all"],
        [[*map(code, pair), *with_sum(labels[*pair, part] for part in PARTS)] for pair in pairs],
    )
    positions = Counter((item["family"], position(item), item["part"]) for item in items)
    yield table(
        ["family", "position of the label", *PARTS, "all"],
        [
            [code(pair[0]), ORDINALS[pair[1]], *with_sum(positions[*pair, part] for part in PARTS)]
            for pair in places
        ],
    )
    both = Counter((item["family"], item["label"], item["part"], position(item)) for item in items)
    yield table(
        ["family", "label", *(f"{part}, {ordinal}" for part in PARTS for ordinal in ORDINALS)],
        [
            [
                *map(code, pair),
                *(both[*pair, part, place] for part in PARTS for place in range(len(ORDINALS))),
            ]
            for pair in pairs
        ],
    )


def with_sum(counts: Iterable[int]) -> list[int]:
    """Return the counts, followed by their sum."""
    found = list(counts)
    return [*found, sum(found)]


def code(text: str) -> str:
    """Return the text as Markdown code."""
    return f"`{text}`"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table whose first two columns are names and whose others are numbers."""
    rule = f"|---|---|{'---:|' * (len(head) - 2)}"
    lines = [f"| {' | '.join(map(str, row))} |" for row in (head, *rows)]
    return "\n".join([lines[0], rule, *lines[1:]]) + "\n"


def check(items: Sequence[Item]) -> Iterator[str]:
    """Yield what in this folder is not as this script has it."""
    yield from problems(items)
    if RELEASE.read_bytes() != lines_of(items):
        yield "v1.jsonl is not what build.py makes from source/"
    card = CARD.read_text(encoding="utf-8")
    if digest(items) not in card:
        yield f"the card does not have the sha256 {digest(items)}"
    yield from (f"the card does not have this table:\n{text}" for text in tables(items) if text not in card)


def digest(items: Sequence[Item]) -> str:
    """Return the sha256 of the release."""
    return hashlib.sha256(lines_of(items)).hexdigest()


def main() -> int:
    """Run the script and return its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    parser.add_argument("--tables", action="store_true", help="print the tables of the card")
    options = parser.parse_args()
    items = build()
    if options.tables:
        print("\n".join(tables(items)), end="")
        return 0
    if options.check:
        found = list(check(items))
        print("\n".join(found) or "v1.jsonl, the design and the card agree")
        return 1 if found else 0
    RELEASE.write_bytes(lines_of(items))
    print(digest(items))
    return 0


if __name__ == "__main__":
    sys.exit(main())
