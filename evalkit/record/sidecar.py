"""The sidecar of a recording: what answered, how it was asked, and whether a file may be continued."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalkit import __version__
from evalkit.errors import InputError, Problem, UsageError
from evalkit.jsonl import dumps, write_atomic
from evalkit.labels import LabelSet
from evalkit.record.backend import Described
from evalkit.record.modes import Mode
from evalkit.runs import read_sidecar, sidecar_path
from evalkit.values import at, without_nones

FIXED_OPTIONS = ("deterministic", "top_logprobs", "chat_template_kwargs", "plain_request", "dtype")
"""Settings that must not change within one file."""
SAME_MODEL = ("id", "root", "file", "n_params", "size", "ftype", "revision", "dtype")
"""What a server says of a model that must not change within one file."""
DECLARED = ("sha256", "quantization", "revision")
"""What is known or declared of a model, and must not change within one file where it is said again."""


@dataclass(frozen=True)
class Particulars:
    """What the user says about a recording, and how it is made."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the recording."""
    model: Mapping[str, Any] = field(default_factory=dict)
    """What the user declares about the model: quantization, revision, file."""
    note: str = ""
    """What the user wants every report to say."""
    notices: tuple[str, ...] = ()
    """What follows from how the recording is made."""


def refuse_other(
    meta: Mapping[str, Any], labels: LabelSet, mode: Mode, particulars: Particulars, name: str
) -> None:
    """Refuse to continue a file that was recorded on something else or in another way.

    Args:
        meta: its sidecar.
        labels: the label set.
        mode: the protocol.
        particulars: how the recording is made.
        name: the run file as messages name it.

    Raises:
        InputError: lists every difference.
    """
    recorded = at(meta, "recorded", "options") or {}
    pairs = [
        ("label set", at(meta, "label_set", "sha256"), labels.sha256),
        ("protocol", meta.get("protocol"), mode.name),
        ("read-out", at(meta, "readout", "rule"), mode.rule),
        *((key, recorded.get(key), particulars.options.get(key)) for key in FIXED_OPTIONS if recorded),
    ]
    _refuse(pairs, name)


def refuse_other_model(
    meta: Mapping[str, Any], described: Described, particulars: Particulars, name: str
) -> None:
    """Refuse to continue a file with another model than the one that it was begun with.

    Args:
        meta: its sidecar.
        described: what answers now.
        particulars: what the user declares about it.
        name: the run file as messages name it.

    Raises:
        InputError: names both.
    """
    before, now = meta.get("model") or {}, {**described.model, **particulars.model}
    pairs = [("model", before.get("name"), now.get("name"))]
    pairs += [(f"model.{key}", at(before, "served", key), at(now, "served", key)) for key in SAME_MODEL]
    pairs += [(f"model.{key}", before.get(key), now[key]) for key in DECLARED if now.get(key) is not None]
    _refuse(pairs + _files(before.get("files"), now.get("files")), name)


def _files(before: Any, now: Any) -> list[tuple[str, Any, Any]]:
    """Pair the hashes of a model's files, before and now; none where either side has no files."""
    if not isinstance(before, dict) or not isinstance(now, dict):
        return []
    return [
        (f"model.files.{file}", before.get(file, "absent"), now.get(file, "absent"))
        for file in sorted({*before, *now})
    ]


def _refuse(pairs: list[tuple[str, Any, Any]], name: str) -> None:
    remedy = "record into another file, or move this one away"
    problems = [
        Problem(f"was begun with {what} {_short(before)}, now it is {_short(now)}", name, remedy=remedy)
        for what, before, now in pairs
        if before is not None and before != now
    ]
    if problems:
        raise InputError(problems)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def read(path: Path, name: str) -> dict[str, Any]:
    """Return the sidecar of a run file, empty where there is none."""
    return read_sidecar(path, name)


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Write the sidecar of a run file.

    Raises:
        UsageError: it cannot be written.
    """
    target = sidecar_path(path)
    try:
        write_atomic(target, dumps(document, indent=2) + "\n")
    except OSError as error:
        raise UsageError(f"{target}: cannot be written ({error.strerror or error})") from error


def document(
    labels: LabelSet, mode: Mode, described: Described, particulars: Particulars, before: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the sidecar of a recording that is under way.

    Args:
        labels: the label set.
        mode: the protocol.
        described: what answers.
        particulars: how the recording is made.
        before: the sidecar that is there already; its start and its notices stay.
    """
    started = at(before, "recorded", "started") or _now()
    settings = {key: value for key, value in mode.settings.items() if key not in described.unused}
    options = {**settings, **particulars.options, **described.options}
    notices = [*before.get("notices", ()), *particulars.notices, *described.notices]
    return without_nones(
        {
            "schema": "evalkit.meta/1",
            "label_set": {"name": labels.name, "version": labels.version, "sha256": labels.sha256},
            "model": {**described.model, **particulars.model},
            "runtime": dict(described.runtime),
            "protocol": mode.name,
            "readout": {"rule": mode.rule, "text": mode.rule_text},
            "recorded": {
                "date": str(started)[:10],
                "started": started,
                "evalkit": __version__,
                "options": options,
            },
            "note": particulars.note or before.get("note"),
            "notices": list(dict.fromkeys(notices)),
        }
    )


def finished(meta: Mapping[str, Any], decisions: int, sha256: str) -> dict[str, Any]:
    """Return the sidecar of a recording that is complete.

    Args:
        meta: the sidecar so far.
        decisions: how many rows the file has.
        sha256: the file's hash.
    """
    recorded = {**meta["recorded"], "finished": _now()}
    return {**meta, "recorded": recorded, "decisions": decisions, "sha256": sha256}


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
