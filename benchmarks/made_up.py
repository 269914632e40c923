"""Write made-up files of any size: a label set and two runs that look like recorded ones.

The probabilities are the softmax of logits in steps of 1/8, as bfloat16 gives them, with all the digits
of a float64; the candidate is the reference with some noise. Same arguments, same bytes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

OPTIONS = np.array(["supported", "contradicted", "insufficient"])
FAMILIES = ("arithmetic", "exceptions", "negation", "roles", "thresholds", "time")
PARTS = ("authored", "perturbation")
PLACES = ("Lisbon", "Nairobi", "Osaka", "Quito", "Tallinn", "Wuhan")
SEED = 20260917
CHUNK = 50_000  # items made at a time, so that this program stays small
STEP = 0.125
FILES = ("labels.jsonl", "reference.jsonl", "candidate.jsonl")


def write(folder: Path, items: int, group_size: int, shuffle: bool) -> None:
    random = np.random.default_rng(SEED)
    paths = [folder / name for name in FILES]
    with paths[0].open("w") as labels, paths[1].open("w") as reference, paths[2].open("w") as candidate:
        for start in range(0, items, CHUNK):
            size = min(CHUNK, items - start)
            ids = [f"{value:016x}{start + place:08x}" for place, value in enumerate(_words(random, size))]
            order = np.argsort(random.random((size, 3)), axis=1)
            gold = random.integers(0, 3, size)
            logits = random.normal(20, 2, (size, 3))
            logits[np.arange(size), gold] += 4
            labels.writelines(_labels(ids, order, gold, start, group_size))
            reference.writelines(_rows(ids, order, logits))
            noisy = logits + random.normal(0, 0.5, (size, 3))
            rows = list(_rows(ids, order, noisy))
            # As when several requests run at once: the order of the answers is not that of the items.
            places = random.permutation(size) if shuffle else np.arange(size)
            candidate.writelines(rows[place] for place in places.tolist())


def _words(random: np.random.Generator, size: int) -> list[int]:
    return [int(value) for value in random.integers(0, 2**63, size)]


def _labels(
    ids: list[str], order: NDArray[np.int64], gold: NDArray[np.int64], start: int, group_size: int
) -> Iterator[str]:
    names = OPTIONS[order].tolist()
    labels = OPTIONS[order[np.arange(len(ids)), gold]].tolist()
    for number, (item, options, label) in enumerate(zip(ids, names, labels, strict=True), start):
        group = f'"group": "g{number // group_size}", ' if group_size > 1 else ""
        listed = ", ".join(f'{{"id": "{option}"}}' for option in options)
        evidence = f"The parcel {number} left {PLACES[number % 6]} on day {number % 28 + 1}."
        yield (
            f'{{"id": "{item}", "part": "{PARTS[number % 7 < 3]}", '
            f'"family": "{FAMILIES[number // 4 % 6]}", {group}"evidence": "{evidence}", '
            f'"options": [{listed}], "label": "{label}"}}\n'
        )


def _rows(ids: list[str], order: NDArray[np.int64], logits: NDArray[np.float64]) -> Iterator[str]:
    stepped = np.round(logits / STEP) * STEP
    powers = np.exp(stepped - stepped.max(axis=1, keepdims=True))
    probabilities = powers / powers.sum(axis=1, keepdims=True)
    for item, options, p in zip(ids, OPTIONS[order].tolist(), probabilities.tolist(), strict=True):
        listed = '", "'.join(options)
        yield f'{{"id": "{item}", "option_ids": ["{listed}"], "probabilities": {p}}}\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--group-size", type=int, default=1)
    parser.add_argument("--shuffle", action="store_true")
    given = parser.parse_args()
    write(given.folder, given.items, given.group_size, given.shuffle)


if __name__ == "__main__":
    main()
