"""Writing an imported run and its sidecar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalkit import rows
from evalkit.errors import NoDecisionsError, Problem, UsageError
from evalkit.importers.checked import Decision, finite
from evalkit.importers.checks import Checker
from evalkit.importers.files import InputFile
from evalkit.importers.records import Format, ImportOptions
from evalkit.importers.repeats import Repeat, by_repeat, pick_series
from evalkit.jsonl import dumps, file_sha256, write_atomic, write_lines
from evalkit.labels import LabelSet
from evalkit.readout import NO_LIST
from evalkit.runs import short_name, sidecar_path
from evalkit.settings import MOVING

_SHOWN_REASONS = 5
_SHOWN_VALUES = 4


@dataclass(frozen=True)
class Imported:
    """One run that was written."""

    path: Path
    """The run file."""
    decisions: int
    """How many rows it has."""
    usable: int
    """How many of them are decisions."""
    invalid: int
    """How many are recorded but unusable."""
    failed: int
    """How many requests failed."""
    notices: tuple[str, ...]
    """What a reader should know; they stand in the sidecar too."""
    reasons: tuple[str, ...]
    """Why rows are not usable, one line a reason."""

    def refuse_empty(self) -> None:
        """Raise a NoDecisionsError if not one row is usable; the file has been written all the same."""
        if not self.usable:
            why = "; ".join(self.reasons)
            raise NoDecisionsError(
                Problem(
                    f"no usable decision among {self.decisions} rows: {why}",
                    str(self.path),
                    remedy="--text-choices takes answers without log-probabilities as choices"
                    if NO_LIST in why
                    else "",
                )
            )


def import_runs(
    files: Sequence[InputFile],
    format: Format,
    labels: LabelSet | None,
    options: ImportOptions,
    output: Path,
) -> list[Imported]:
    """Import foreign files as a run, or as one run a repeat.

    Args:
        files: the files; together they are one recording.
        format: their format.
        labels: the label set the run belongs to, where one was named.
        options: what the user declares about the files.
        output: the run file to write; with repeats, `NAME.1.jsonl` and so on beside it.

    Returns:
        What was written, also where no row is usable.

    Raises:
        UsageError: the format holds no decisions, or something has to be declared.
        InputError: a file is damaged, or decisions contradict each other.
    """
    if format.records is None:
        raise UsageError(f"--format {format.name} holds labels, not decisions")
    if output.suffix != ".jsonl":
        raise UsageError(f"--output {output}: a run file is called NAME.jsonl")
    if any(output.resolve() == file.path.resolve() for file in files):
        raise UsageError(f"--output {output}: is one of the files to import")
    checker = Checker(labels, options)
    records = (record for file in files for record in format.records(file, options))
    decisions = pick_series(checker.decisions(records), options.series)
    if not decisions:
        raise NoDecisionsError(Problem("holds no decision", ", ".join(file.name for file in files)))
    repeats = by_repeat(decisions, options)
    return [
        _write(_path(output, number, options), repeat, files, format, labels, options)
        for number, repeat in repeats.items()
    ]


def _path(output: Path, number: int, options: ImportOptions) -> Path:
    return output.with_name(f"{short_name(output)}.{number}.jsonl") if options.repeats else output


def _write(
    path: Path,
    repeat: Repeat,
    files: Sequence[InputFile],
    format: Format,
    labels: LabelSet | None,
    options: ImportOptions,
) -> Imported:
    decisions = repeat.decisions
    if labels is not None:
        places = {item: place for place, item in enumerate(labels.ids.to_pylist())}
        decisions = sorted(decisions, key=lambda decision: places[decision.id])
    notices = [notice for file in files for notice in file.notices]
    notices += [*repeat.remarks.texts(), *_run_notices(decisions, labels)]
    try:
        write_lines(path, (decision.row for decision in decisions))
        meta = {
            "schema": "evalkit.meta/1",
            **_origin(decisions, labels, options),
            "source": {
                "format": format.name,
                "files": [{"name": file.path.name, "sha256": file.sha256} for file in files],
                **{name.removeprefix("--"): value for name, value in options.series.items()},
                **({"epoch": options.epoch} if options.epoch is not None else {}),
            },
            "notices": notices,
            "decisions": len(decisions),
            "sha256": file_sha256(path),
        }
        write_atomic(sidecar_path(path), dumps(finite(meta), indent=2) + "\n")
    except OSError as error:
        raise UsageError(f"--output {path}: cannot be written ({error.strerror or error})") from error
    count = [
        sum(decision.status == status for decision in decisions) for status in range(len(rows.STATUS_NAMES))
    ]
    return Imported(
        path=path,
        decisions=len(decisions),
        usable=count[rows.OK],
        invalid=count[rows.INVALID],
        failed=count[rows.ERROR],
        notices=tuple(notices),
        reasons=tuple(_reasons(decisions)),
    )


def _origin(decisions: Sequence[Decision], labels: LabelSet | None, options: ImportOptions) -> dict[str, Any]:
    """Return what the sidecar says of label set, model, read-out and settings."""
    found: dict[str, Any] = {}
    if labels is not None:
        found["label_set"] = {"name": labels.name, "version": labels.version, "sha256": labels.sha256}
    if model := _model(decisions):
        found["model"] = model
    if rules := sorted({decision.rule for decision in decisions if decision.rule}):
        found["protocol"] = " and ".join(rules)
        found["readout"] = {"rule": found["protocol"], "answers": options.answers or "letters"}
    if basis := sorted({decision.basis for decision in decisions if decision.basis}):
        found.setdefault("readout", {})["basis"] = " and ".join(basis)
    common, _ = _settings(decisions)
    found["recorded"] = {"options": common}
    return found


def _model(decisions: Sequence[Decision]) -> dict[str, Any]:
    described = [decision.model for decision in decisions if decision.model]
    first = dict(described[0]) if described and all(model == described[0] for model in described) else {}
    answered = {decision.row["model"] for decision in decisions if decision.row.get("model")}
    name = answered.pop() if len(answered) == 1 else first.get("name") or first.get("source")
    return {"name": name, **{key: value for key, value in first.items() if key != "name"}} if name else first


def _settings(decisions: Sequence[Decision]) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Return the settings that all requests share, and those in which they differ with their values."""
    known = [decision.settings for decision in decisions if decision.settings]
    common: dict[str, Any] = {}
    differing: dict[str, list[Any]] = {}
    for key in dict.fromkeys(key for settings in known for key in settings):
        values: list[Any] = []
        for settings in known:
            if settings.get(key) not in values:
                values.append(settings.get(key))
        if len(values) == 1:
            common[key] = values[0]
        else:
            differing[key] = values
    return common, differing


def _run_notices(decisions: Sequence[Decision], labels: LabelSet | None) -> list[str]:
    """Say what is odd about the recording as a whole."""
    notices = []
    _, differing = _settings(decisions)
    for key in (key for key in differing if key in MOVING):
        values = differing[key]
        shown = ", ".join("not set" if value is None else str(value) for value in values[:_SHOWN_VALUES])
        notices.append(f"the requests differ in {key} ({shown}): not all decisions are comparable")
    after = [decision for decision in decisions if decision.row.get("after_sampling")]
    if after and len(after) < sum(decision.usable for decision in decisions):
        notices.append(
            f"decisions with probabilities after sampling: {len(after)} of {len(decisions)}; the others are "
            "before it, and not comparable"
        )
    if censored := [decision for decision in decisions if decision.row.get("censored")]:
        first = censored[0]
        notices.append(
            f"decisions with an option that was not measured: {len(censored)}, first {first.id} "
            f"({', '.join(first.row['censored'])}); their ranges are shares of what the options hold"
        )
    if other := _other_model(decisions):
        notices.append(other)
    notices += sorted({f"the probabilities are {d.basis}" for d in decisions if d.basis})
    if labels is not None and len(labels) > len(decisions):
        present = {decision.id for decision in decisions}
        missing = next(item for item in labels.ids.to_pylist() if item not in present)
        count = len(labels) - len(decisions)
        notices.append(f"items of the label set that are missing: {count}, first {missing}")
    return notices


def _other_model(decisions: Sequence[Decision]) -> str:
    for decision in decisions:
        asked, answered = decision.model.get("name"), decision.row.get("model")
        if asked and answered and asked not in answered and answered not in asked:
            return f"{decision.id}: asked for the model {asked!r}, answered by {answered!r}"
    return ""


def _reasons(decisions: Sequence[Decision]) -> list[str]:
    """Say why rows are not usable: one line a reason, most frequent first."""
    found: dict[str, list[Decision]] = {}
    for decision in decisions:
        if not decision.usable:
            found.setdefault(decision.reason, []).append(decision)
    order = sorted(found.items(), key=lambda entry: -len(entry[1]))
    lines = [
        f"{cases[0].place}: {cases[0].id}"
        + (f" and {len(cases) - 1} more" if len(cases) > 1 else "")
        + f": {rows.STATUS_NAMES[cases[0].status]}: {reason}"
        for reason, cases in order[:_SHOWN_REASONS]
    ]
    hidden = len(order) - len(lines)
    return [*lines, f"... and {hidden} more reasons"] if hidden > 0 else lines
