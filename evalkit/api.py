"""The Python interface: names or objects in, reports out."""

from __future__ import annotations

from pathlib import Path

from evalkit.catalog import Catalog
from evalkit.comparing import DiffReport
from evalkit.comparing import diff as _diff
from evalkit.errors import UncoveredError
from evalkit.labels import LabelSet
from evalkit.runs import Run
from evalkit.scoring import Options, ScoreReport
from evalkit.scoring import score as _score


def load_labels(name: str | Path, *, root: str | Path | None = None) -> LabelSet:
    """Load a label set by ``name``, ``name@version`` or path.

    Args:
        name: what to load.
        root: folder with ``labels/`` and ``runs/``; EVALKIT_ROOT or the current folder by default. The
            sets that evalkit ships are found as well.

    Raises:
        NotFoundError: there is none of that name.
        InputError: it is damaged.
    """
    return Catalog.at(root).labels(str(name))


def load_run(name: str | Path, *, root: str | Path | None = None) -> Run:
    """Load a run by name (``bf16``, ``semif-252/bf16``) or path.

    Raises:
        NotFoundError: there is none of that name.
        UsageError: the name means several runs.
        InputError: it is damaged.
    """
    return Catalog.at(root).run(str(name))


def score(
    run: Run | str | Path,
    labels: LabelSet | str | Path | None = None,
    options: Options | None = None,
    *,
    root: str | Path | None = None,
) -> ScoreReport:
    """Score a run against a label set.

    Args:
        run: the run, or its name or path.
        labels: the label set, or its name or path; by default the one the run belongs to.
        options: what to measure.
        root: where names are looked up.

    Raises:
        NotFoundError: a name leads nowhere, or no label set covers the run.
        InputError: an input is damaged, or run and label set do not fit.
    """
    run = run if isinstance(run, Run) else load_run(run, root=root)
    fields = (options and (*(options.by or ()), *options.only)) or ()
    if not isinstance(labels, LabelSet):
        labels = Catalog.at(root).labels_for(run, None if labels is None else str(labels), fields)
    return _score(labels, run, options)


def diff(
    reference: Run | str | Path,
    candidate: Run | str | Path,
    labels: LabelSet | str | Path | None = None,
    options: Options | None = None,
    *,
    root: str | Path | None = None,
) -> DiffReport:
    """Compare a candidate with a reference.

    Args:
        reference: the run to compare with, or its name or path.
        candidate: the run that is judged, or its name or path.
        labels: the label set, or its name or path; by default the one the reference belongs to. Where
            none covers the reference, only drift is measured.
        options: what to measure.
        root: where names are looked up.

    Raises:
        NotFoundError: a name leads nowhere.
        InputError: an input is damaged, or the runs do not fit each other or the label set.
    """
    reference = reference if isinstance(reference, Run) else load_run(reference, root=root)
    candidate = candidate if isinstance(candidate, Run) else load_run(candidate, root=root)
    fields = (options and (*(options.by or ()), *options.only)) or ()
    found = (
        labels if isinstance(labels, LabelSet) else find_labels(Catalog.at(root), reference, labels, fields)
    )
    return _diff(found, reference, candidate, options)


def find_labels(
    catalog: Catalog, run: Run, name: str | Path | None, fields: tuple[str, ...] = ()
) -> LabelSet | None:
    """Return the label set of a run; None where none was named and none covers it.

    Raises:
        NotFoundError: the one that was named, by the caller or by the run, is not there; or several cover it.
        InputError: it is damaged.
    """
    if name is not None:
        return catalog.labels(str(name), fields)
    try:
        return catalog.labels_for(run, None, fields)
    except UncoveredError:
        return None
