"""What makes a label set weak, although every item of it is valid."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import Any

from evalkit.errors import InputError, Problem
from evalkit.jsonl import Source, parse_object
from evalkit.labels import LabelSet

Item = Mapping[str, Any]

BALANCE = 1.5
"""A label or letter position that is this many times as frequent as another is an imbalance."""
FEWEST = 10
"""Groups of fewer items are not judged for balance."""
SHINGLE = 5
"""Characters of the pieces that near-duplicates share."""
NEAR = 0.6
"""Two texts that share at least this part of their pieces (Jaccard) are near-duplicates."""
COMMON = 60
"""Pieces that more texts than this have in common say nothing about a pair."""
ECHO = 0.4
"""A sentence that shares this part of its words with one option's description states a conclusion."""
SHORTEST_SENTENCE = 6
"""Words (or pairs of Chinese characters) a sentence needs before its echo is judged."""
AUC = 0.15
"""Length gives the label away when its AUC is at least this far from a half, and not by chance."""

_SENTENCE = re.compile(r"[^.!?;。！？；\n]+")
_WORD = re.compile(r"[^\W\d_]{3,}|[\u3400-\u9fff]")
_ABOUT_ITSELF = re.compile(
    r"\b(?:the|this) (?:text|passage|evidence|article|document|excerpt)\b[^.]*\b(?:not|no|never|nor)\b"
    r"|(?:文中|本文|全文|上文|文章|原文|报道|通知中|材料中|其中)(?:并|只|也|都|均|未|没|没有|仅|讲的是|从未|不)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Finding:
    """One weakness."""

    kind: str
    """Which check found it."""
    what: str
    """What is weak, with its numbers."""
    items: tuple[str, ...] = ()
    """The items concerned, where it is about items."""


def lint(labels: LabelSet) -> list[Finding]:
    """Look for what makes a label set weak.

    The checks: imbalance of labels and of letter positions within a family, families with one label,
    near-duplicate evidence, evidence that states its own conclusion or contains its label, groups split
    over parts, and length as a give-away.

    Args:
        labels: a label set with a file.

    Returns:
        The findings, in the order of the checks; none where the set is fine.

    Raises:
        InputError: the set has no file.
    """
    items = _items(labels)
    checks: Sequence[Callable[[Sequence[Item]], Iterable[Finding]]] = (
        _label_balance,
        _position_balance,
        _near_duplicates,
        _conclusions,
        _contained_labels,
        _split_groups,
        _lengths,
    )
    return [finding for check in checks for finding in check(items)]


def _items(labels: LabelSet) -> list[Item]:
    if labels.path is None:
        raise InputError(Problem("has no file to look at", labels.file))
    return [
        parse_object(raw, labels.file, number)
        for block in Source(labels.path, labels.file).blocks()
        for number, raw in block.lines()
    ]


def _families(items: Sequence[Item]) -> Iterator[tuple[str, list[Item]]]:
    """Yield the labelled items by family, with the words that name it in a message."""
    found: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        if item.get("label") is not None:
            found[item.get("family") or ""].append(item)
    for family, members in found.items():
        yield (f"family {family}: " if family else ""), members


def _label_balance(items: Sequence[Item]) -> Iterator[Finding]:
    for where, members in _families(items):
        counts = Counter(item["label"] for item in members)
        possible = dict.fromkeys(option["id"] for item in members for option in item["options"])
        shown = ", ".join(f"{name} {counts[name]}" for name in possible)
        if len(counts) == 1:
            yield Finding("one label", f"{where}every item has the label {next(iter(counts))}")
        elif len(members) >= FEWEST and _unbalanced([counts[name] for name in possible]):
            yield Finding("label balance", f"{where}labels are unbalanced: {shown}")


def _position_balance(items: Sequence[Item]) -> Iterator[Finding]:
    for where, members in _families(items):
        places = [[option["id"] for option in item["options"]].index(item["label"]) for item in members]
        orders = {tuple(option["id"] for option in item["options"]) for item in members}
        counts = Counter(places)
        width = max(len(item["options"]) for item in members)
        # With one fixed order the position is the label, and the label's balance says it all.
        if (
            len(orders) > 1
            and len(members) >= FEWEST
            and _unbalanced([counts[place] for place in range(width)])
        ):
            shown = ", ".join(f"{chr(ord('A') + place)} {counts[place]}" for place in range(width))
            yield Finding("position balance", f"{where}letter positions of the label are unbalanced: {shown}")


def _unbalanced(counts: Sequence[int]) -> bool:
    return max(counts) > BALANCE * min(counts)


def _text(item: Item) -> str:
    evidence = item.get("evidence")
    return evidence if isinstance(evidence, str) else "" if evidence is None else str(evidence)


def _near_duplicates(items: Sequence[Item]) -> Iterator[Finding]:
    pieces = [_shingles(_text(item)) for item in items]
    owners: dict[str, list[int]] = defaultdict(list)
    for place, found in enumerate(pieces):
        for piece in found:
            owners[piece].append(place)
    shared: Counter[tuple[int, int]] = Counter()
    for members in owners.values():
        if 1 < len(members) <= COMMON:
            shared.update((one, other) for at, one in enumerate(members) for other in members[at + 1 :])
    for (one, other), count in shared.items():
        likeness = count / (len(pieces[one]) + len(pieces[other]) - count)
        if likeness >= NEAR and not _same_group(items[one], items[other]):
            pair = (items[one]["id"], items[other]["id"])
            yield Finding(
                "near duplicates", f"the evidence of {pair[0]} and {pair[1]} is {likeness:.0%} alike", pair
            )


def _shingles(text: str) -> set[str]:
    plain = re.sub(r"\s+", " ", text)
    return {plain[place : place + SHINGLE] for place in range(len(plain) - SHINGLE + 1)}


def _same_group(one: Item, other: Item) -> bool:
    return one.get("group") is not None and one.get("group") == other.get("group")


def _conclusions(items: Sequence[Item]) -> Iterator[Finding]:
    found = [
        item["id"] for item in items if any(_concludes(item, part) for part in _SENTENCE.findall(_text(item)))
    ]
    if found:
        yield Finding(
            "states its conclusion",
            f"{len(found)} items hold a sentence that speaks about the text itself or echoes an option",
            tuple(found),
        )


def _concludes(item: Item, sentence: str) -> bool:
    if _ABOUT_ITSELF.search(sentence):
        return True
    words = _words(sentence)
    if len(words) < SHORTEST_SENTENCE:
        return False
    options = [_words(option.get("description") or "") for option in item["options"]]
    return any(len(words & option) / len(words) >= ECHO for option in options)


def _words(text: str) -> set[str]:
    """Return the words of a text; of Chinese text the pairs of neighbouring characters."""
    tokens = _WORD.findall(text.lower())
    words = {token for token in tokens if len(token) > 1}
    return words | {a + b for a, b in pairwise(tokens) if len(a) == len(b) == 1}


def _contained_labels(items: Sequence[Item]) -> Iterator[Finding]:
    found = [item["id"] for item in items if item.get("label") is not None and _contains_label(item)]
    if found:
        yield Finding(
            "contains its label", f"{len(found)} items have their label in the evidence", tuple(found)
        )


def _contains_label(item: Item) -> bool:
    text = _text(item).lower()
    description = next((o.get("description") or "" for o in item["options"] if o["id"] == item["label"]), "")
    names = [name.lower() for name in (item["label"], description) if len(name) >= SHINGLE]
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) for name in names)


def _split_groups(items: Sequence[Item]) -> Iterator[Finding]:
    parts: dict[str, set[str]] = defaultdict(set)
    for item in items:
        if item.get("group") is not None and item.get("part") is not None:
            parts[item["group"]].add(item["part"])
    split = [group for group, names in parts.items() if len(names) > 1]
    if split:
        yield Finding(
            "groups over parts",
            f"{len(split)} groups have items in several parts: figures of the parts are not independent",
        )


def _lengths(items: Sequence[Item]) -> Iterator[Finding]:
    for where, members in _families(items):
        sizes = [len(_text(item)) for item in members]
        for label in dict.fromkeys(item["label"] for item in members):
            inside = [size for size, item in zip(sizes, members, strict=True) if item["label"] == label]
            outside = [size for size, item in zip(sizes, members, strict=True) if item["label"] != label]
            if len(inside) < FEWEST / 2 or len(outside) < FEWEST / 2 or not any(sizes):
                continue
            auc, p = _length_auc(inside, outside)
            if abs(auc - 0.5) >= AUC and p < 0.01:
                longer = "longer" if auc > 0.5 else "shorter"
                what = f"{where}items with the label {label} are {longer}"
                yield Finding("length", f"{what} (AUC of the length {auc:.2f}, p = {p:.1g})")


def _length_auc(inside: Sequence[int], outside: Sequence[int]) -> tuple[float, float]:
    """Return the AUC of the length and its two-sided p (Mann and Whitney, 1947, normal approximation)."""
    values = Counter([*inside, *outside])
    rank, ranks = 0.0, {}
    for value in sorted(values):
        ranks[value] = rank + (values[value] + 1) / 2
        rank += values[value]
    n, m = len(inside), len(outside)
    auc = (sum(ranks[value] for value in inside) - n * (n + 1) / 2) / (n * m)
    ties = sum(count**3 - count for count in values.values())
    variance = (n * m / 12) * (n + m + 1 - ties / ((n + m) * (n + m - 1)))
    z = abs(auc - 0.5) * n * m / math.sqrt(variance) if variance > 0 else 0.0
    return auc, 2 * (1 - NormalDist().cdf(z))
