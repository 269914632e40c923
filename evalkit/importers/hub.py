"""Label sets from a Hugging Face dataset: from the Hub at a pinned revision, or from an offline folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evalkit.errors import InputError, Problem, UsageError
from evalkit.importers.label_writing import ImportedLabels, write_labels
from evalkit.importers.records import ImportOptions, Item, Place
from evalkit.importers.tabular import item

_COMMIT = re.compile(r"[0-9a-f]{40}")
_UNLABELLED = -1


@dataclass(frozen=True)
class HubDataset:
    """Which rows of which dataset."""

    name: str
    """Name on the Hub, or a folder."""
    revision: str | None = None
    """The commit; needed for a dataset on the Hub."""
    config: str | None = None
    """Name of the configuration."""
    split: str = "test"
    """The split."""

    @property
    def local(self) -> bool:
        """Whether it is a folder on this machine."""
        return Path(self.name).is_dir()


def import_hub(dataset: HubDataset, options: ImportOptions, output: Path) -> ImportedLabels:
    """Import a dataset as a label set; the card pins the revision.

    Args:
        dataset: which rows.
        options: the column map, options and index base.
        output: a file `NAME.jsonl`, or a new folder.

    Raises:
        UsageError: the revision is no commit, or `datasets` is not installed.
        InputError: the dataset cannot be loaded, or an item cannot be used.
    """
    if not dataset.local and not _COMMIT.fullmatch(dataset.revision or ""):
        raise UsageError(
            f"--hub {dataset.name}: name the commit with --revision (40 hex digits), "
            "so that the set stays the same"
        )
    source = [
        f"- dataset `{Path(dataset.name).name if dataset.local else dataset.name}`, split `{dataset.split}`"
    ]
    source += [f"- configuration `{dataset.config}`"] if dataset.config else []
    source += [f"- revision `{dataset.revision}`"] if dataset.revision else []
    items = list(_items(dataset, options))
    if not items:
        raise InputError(Problem("holds no item", dataset.name, remedy="check --split"))
    return write_labels(items, options, output, "Hugging Face dataset", source)


def _items(dataset: HubDataset, options: ImportOptions) -> Iterator[Item]:
    rows = _load(dataset)
    names = _class_names(rows, options)
    own = bool(options.options) or any(field.startswith("option") for field in options.columns)
    declared = replace(options, options=names) if names and not own else options
    for number, cells in enumerate(rows, 1):
        place = Place(dataset.name, number)
        found = item(place, cells, declared)
        label = found.label
        # A class number is defined by the dataset itself; -1 is its word for no label.
        if names and label == _UNLABELLED:
            label = None
        elif names and not own and isinstance(label, int):
            label = names[label]
        yield Item(found.id, place, label, found.options, found.fields)


def _load(dataset: HubDataset) -> Any:
    try:
        import datasets
    except ImportError:
        raise UsageError("--hub needs the package `datasets`: pip install 'evalkit[datasets]'") from None
    datasets.disable_progress_bars()
    try:
        if dataset.local and (Path(dataset.name) / "dataset_info.json").is_file():
            return datasets.load_from_disk(dataset.name)
        if dataset.local and (Path(dataset.name) / "dataset_dict.json").is_file():
            return datasets.load_from_disk(dataset.name)[dataset.split]
        return datasets.load_dataset(
            dataset.name,
            dataset.config,
            split=dataset.split,
            revision=None if dataset.local else dataset.revision,
        )
    except Exception as error:
        # The package raises errors of a dozen libraries for what is one thing to the user.
        text = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(
            Problem(f"cannot be loaded ({text})", dataset.name, remedy="check name, --config, --split")
        ) from error


def _class_names(rows: Any, options: ImportOptions) -> tuple[str, ...]:
    column = options.columns.get("label", "label")
    feature = getattr(rows, "features", {}).get(column)
    return tuple(getattr(feature, "names", ()) or ())
