"""The script one writes without evalkit: python plain_script.py LABELS RUN [CANDIDATE]."""

import sys

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, balanced_accuracy_score, confusion_matrix, log_loss


def load(path: str, labels: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return a run joined to the labels, one column an option, and the choice."""
    run = labels.merge(pd.read_json(path, lines=True), on="id")
    pairs = zip(run["option_ids"], run["probabilities"], strict=True)
    p = pd.DataFrame([dict(zip(*pair, strict=True)) for pair in pairs], columns=names)
    return pd.concat([run[["id", "label"]], p, p.idxmax(axis=1).rename("choice")], axis=1)


def score(run: pd.DataFrame, names: list[str]) -> None:
    print("accuracy", accuracy_score(run["label"], run["choice"]))
    print("balanced accuracy", balanced_accuracy_score(run["label"], run["choice"]))
    print("log loss", log_loss(run["label"], run[names], labels=names))
    print(confusion_matrix(run["label"], run["choice"], labels=names))


def diff(reference: pd.DataFrame, candidate: pd.DataFrame, names: list[str]) -> None:
    both = reference.merge(candidate, on="id", suffixes=("", "_candidate"))
    p = both[names].to_numpy()
    q = both[[f"{name}_candidate" for name in names]].to_numpy()
    shift = np.abs(q - p).max(axis=1)
    print("changed choices", (both["choice"] != both["choice_candidate"]).sum())
    print("largest shift", shift.max(), "of", both["id"][shift.argmax()])
    print("mean KL", (p * np.log(np.maximum(p, 1e-12) / np.maximum(q, 1e-12))).sum(axis=1).mean())
    before = accuracy_score(both["label"], both["choice"])
    print("accuracy delta", accuracy_score(both["label"], both["choice_candidate"]) - before)


def main() -> None:
    labels = pd.read_json(sys.argv[1], lines=True)[["id", "label"]]
    names = sorted(set(labels["label"]))
    first, *others = [load(path, labels, names) for path in sys.argv[2:]]
    if others:
        diff(first, others[0], names)
    else:
        score(first, names)


if __name__ == "__main__":
    main()
