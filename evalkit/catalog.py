"""Finding label sets and runs by name: the user's own first, then those that evalkit ships."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc

from evalkit.cards import CARD_NAME, Card, load_card
from evalkit.errors import InputError, NotFoundError, Problem, UncoveredError, UsageError
from evalkit.labels import LabelSet, load_label_file
from evalkit.runs import Run, load_run, short_name

ROOT_VARIABLE = "EVALKIT_ROOT"
_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst")


@dataclass(frozen=True)
class RunFile:
    """Where a run is."""

    path: Path
    """The run file."""
    set_name: str | None = None
    """The label set's folder it was found in, where it was found by name."""

    @property
    def name(self) -> str:
        """The run's short name."""
        return short_name(self.path)


def shipped_root() -> Path:
    """Return the folder with the label sets and runs that evalkit ships."""
    package = Path(__file__).parent
    installed = package / "_shipped"
    return installed if installed.is_dir() else package.parent


@dataclass(frozen=True)
class Catalog:
    """The folders in which names are looked up."""

    roots: tuple[Path, ...]
    """Each holds `labels/` and `runs/`; an earlier one comes first."""

    @classmethod
    def at(cls, root: str | Path | None = None) -> Catalog:
        """Return the catalog of a root folder and of what evalkit ships.

        Args:
            root: EVALKIT_ROOT or the current folder by default.

        Raises:
            NotFoundError: the root was named, but is no folder.
        """
        named = root or os.environ.get(ROOT_VARIABLE)
        if named and not Path(named).is_dir():
            raise NotFoundError(
                Problem("is no folder", str(named), remedy=f"check --root and {ROOT_VARIABLE}")
            )
        own = Path(named) if named else Path()
        return cls((own,) if own.resolve() == shipped_root().resolve() else (own, shipped_root()))

    def label_folders(self) -> dict[str, Path]:
        """Return the folders of all label sets by name."""
        found: dict[str, Path] = {}
        for root in self.roots:
            for card in sorted(root.glob(f"labels/*/{CARD_NAME}")):
                found.setdefault(card.parent.name, card.parent)
        return found

    def run_files(self) -> list[RunFile]:
        """Return all runs, those of an earlier root hiding those of the same set and name."""
        found: dict[tuple[str, str], RunFile] = {}
        for root in self.roots:
            for path in _run_paths(root):
                found.setdefault((path.parent.name, short_name(path)), RunFile(path, path.parent.name))
        return [found[key] for key in sorted(found)]

    def own_label_folders(self) -> dict[str, Path]:
        """Return the label sets of the user's own root."""
        return Catalog(self.roots[:1]).label_folders()

    def own_run_files(self) -> list[RunFile]:
        """Return the runs of the user's own root."""
        return Catalog(self.roots[:1]).run_files()

    def labels(self, name: str, extra_fields: Sequence[str] = ()) -> LabelSet:
        """Load a label set by `name`, `name@version` or path.

        Raises:
            NotFoundError: there is none of that name; the nearest names are suggested.
            InputError: it is damaged.
        """
        path, card, version = self.label_file(name)
        return load_label_file(path, file=shown(path), card=card, version=version, extra_fields=extra_fields)

    def card(self, name: str) -> Card | None:
        """Return the card of a label set; None for a bare file."""
        return self.label_file(name)[1]

    def label_file(self, name: str) -> tuple[Path, Card | None, str | None]:
        """Find the file, card and version that `name`, `name@version` or a path means.

        Raises:
            NotFoundError: there is none of that name; the nearest names are suggested.
            InputError: the card is damaged.
        """
        if _is_file(name):
            return (Path(name), *_card_beside(Path(name)))
        base, _, version = name.rpartition("@") if "@" in name else (name, "", "")
        folder = self._label_folder(name)
        if folder is not None:
            base, version = name, ""
        else:
            folder = self._label_folder(base)
        if folder is None:
            known = [*self.label_folders()]
            raise NotFoundError(Problem(f"no label set of this name or path{_nearest(base, known)}", name))
        card = load_card(folder, shown(folder / CARD_NAME))
        version = version or card.default
        if version not in card.versions:
            raise NotFoundError(
                Problem(
                    f"{base} has no version {version!r}",
                    shown(folder),
                    remedy=f"it has {', '.join(card.versions)}",
                )
            )
        return folder / f"{version}.jsonl", card, version

    def _label_folder(self, name: str) -> Path | None:
        return Path(name) if _is_file(f"{name}/{CARD_NAME}") else self.label_folders().get(name)

    def resolve(self, names: Sequence[str]) -> list[tuple[RunFile, ...]]:
        """Find the runs that names mean, grouped so that each group belongs to one label set.

        A path means that file. `set/run` means that run of that set. A bare name means the run of that
        name in every set; with several names, those sets count in which all of them are found. Beside names
        of one set, a bare name means the run of that set.

        Raises:
            NotFoundError: a name leads nowhere; the nearest names are suggested.
            UsageError: bare names beside a path could mean several sets.
        """
        bare = [name for name in names if not _is_path(name) and "/" not in name]
        fixed = {
            name: RunFile(Path(name)) if _is_path(name) else self._run(name)
            for name in names
            if name not in bare
        }
        if not bare:
            return [tuple(fixed[name] for name in names)]
        by_set = self._sets_with_all(bare)
        if len(by_set) > 1 and fixed:
            beside = {file.set_name for file in fixed.values()}
            meant = {key: found for key, found in by_set.items() if beside == {key}}
            if not meant:
                sets, name = list(by_set), bare[0]
                raise UsageError(
                    f"{name} is a run of several label sets ({', '.join(sets)}); write {sets[0]}/{name}"
                )
            by_set = meant
        return [tuple(fixed.get(name) or found[name] for name in names) for found in by_set.values()]

    def run(self, name: str) -> Run:
        """Load the one run that a name or path means.

        Raises:
            NotFoundError: there is none of that name.
            UsageError: the name means several runs.
            InputError: it is damaged.
        """
        return read_run(self.run_file(name))

    def run_file(self, name: str) -> RunFile:
        """Find the one run that a name or path means.

        Raises:
            NotFoundError: there is none of that name.
            UsageError: the name means several runs.
        """
        found = [group[0] for group in self.resolve([name])]
        if len(found) > 1:
            names = ", ".join(f"{file.set_name}/{file.name}" for file in found)
            raise UsageError(f"{name} means several runs: {names}; write one of them")
        return found[0]

    def _sets_with_all(self, bare: Sequence[str]) -> dict[str, dict[str, RunFile]]:
        # The user's own runs first; then own and shipped ones together, so that a new recording can be
        # compared with a shipped reference.
        for roots in (*((root,) for root in self.roots), self.roots):
            found: dict[str, dict[str, RunFile]] = {}
            for name in bare:
                for path in (path for root in roots for path in _run_paths(root, name)):
                    found.setdefault(path.parent.name, {}).setdefault(name, RunFile(path, path.parent.name))
            complete = {key: found[key] for key in sorted(found) if found[key].keys() == set(bare)}
            if complete:
                return complete
        known = sorted({file.name for file in self.run_files()})
        missing = [name for name in bare if name not in known]
        if missing:
            raise NotFoundError(
                Problem(f"no run of this name or path{_nearest(name, known)}", name) for name in missing
            )
        raise NotFoundError(
            Problem(f"no label set has all of the runs {', '.join(bare)}", remedy="see `evalkit runs list`")
        )

    def _run(self, name: str) -> RunFile:
        folder, _, run = name.rpartition("/")
        for root in self.roots:
            for path in _run_paths(root, run):
                if path.parent.name == folder:
                    return RunFile(path, folder)
        known = [f"{file.set_name}/{file.name}" for file in self.run_files()]
        raise NotFoundError(Problem(f"no run of this name or path{_nearest(name, known)}", name))

    def labels_for(self, run: Run, name: str | None, extra_fields: Sequence[str] = ()) -> LabelSet:
        """Load the label set of a run: the one named, else its sidecar's, else the one that covers its ids.

        Raises:
            NotFoundError: no label set, or more than one, covers the run.
            InputError: the label set is damaged.
        """
        if name is not None:
            return self.labels(name, extra_fields)
        recorded = run.meta.get("label_set", {})
        if recorded.get("name") in self.label_folders():
            version = recorded.get("version")
            return self.labels(recorded["name"] + (f"@{version}" if version else ""), extra_fields)
        covering = [labels for labels in self._all_labels(extra_fields) if covers(labels, run)]
        if len(covering) == 1:
            return covering[0]
        remedy = "name one with --labels"
        if not covering:
            raise UncoveredError(Problem("no label set covers the ids of this run", run.file, remedy=remedy))
        names = ", ".join(labels.name for labels in covering)
        what = f"{len(covering)} label sets cover the ids of this run ({names})"
        raise NotFoundError(Problem(what, run.file, remedy=remedy))

    def _all_labels(self, extra_fields: Sequence[str]) -> Iterator[LabelSet]:
        for name in self.label_folders():
            yield self.labels(name, extra_fields)


def covers(labels: LabelSet, run: Run) -> bool:
    """Tell whether a label set knows every id of a run."""
    return bool(pc.all(pc.is_in(run.ids, value_set=labels.ids)).as_py())


def read_run(found: RunFile) -> Run:
    """Load a run that was found."""
    return load_run(found.path, file=shown(found.path))


def shown(path: Path) -> str:
    """Return a path as messages and reports name it: relative to here where it is below here."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()


def _run_paths(root: Path, name: str | None = None) -> Iterable[Path]:
    """Yield the files of the runs of a name (or all) below a root; a plain file comes before a packed one."""
    for suffix in _SUFFIXES:
        for folder in sorted(root.glob("runs/*")):
            if name is not None:
                yield from [folder / f"{name}{suffix}"] if _is_file(f"{folder}/{name}{suffix}") else []
            else:
                yield from sorted(path for path in folder.glob(f"*{suffix}") if path.is_file())


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # too long, or with a NUL: no file has such a name
        return False


def _is_path(name: str) -> bool:
    return _is_file(name) or name.endswith(_SUFFIXES)


def _card_beside(path: Path) -> tuple[Card | None, str | None]:
    beside = path.parent / CARD_NAME
    version = short_name(path)
    if not beside.is_file() or not beside.read_bytes().startswith(b"---"):
        return None, None
    try:
        card = load_card(path.parent, shown(beside))
    except InputError:
        return None, None
    return (card, version) if version in card.versions else (None, None)


def _nearest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; there are {', '.join(known[:8])}{', ...' if len(known) > 8 else ''}" if known else ""
