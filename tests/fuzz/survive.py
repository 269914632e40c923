"""What must be true of the command line whatever a file holds: it says what is wrong and ends."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fuzz.damage import SOUND

ALLOWED = (0, 1, 2, 3)
"""Exit codes a damaged file may lead to; 1 only from the gate."""


OWN_FILES = {
    "gz": "packed.jsonl.gz", "zst": "packed.jsonl.zst", "lock": "evalkit.lock.json",
    "project": "evalkit.toml",
}  # fmt: skip
"""Files that are there only where they are the damaged ones, by kind."""


class BrokenError(AssertionError):
    """A damaged file led to something that must not be."""


def survive(kind: str, data: bytes) -> list[int]:
    """Feed a file of some kind to every command that reads such files.

    Args:
        kind: one of the keys of SOUND.
        data: the file.

    Returns:
        The exit codes.

    Raises:
        BrokenError: a traceback, another exit code, JSON that is none, or counts that do not add up.
    """
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        _lay_out(kind, data)
        return [_ran(arguments) for arguments in _commands(kind)]


def _lay_out(kind: str, data: bytes) -> None:
    files = {
        "labels.jsonl": "labels",
        "run.jsonl": "run",
        "other.jsonl": "run",
        "run.meta.json": "meta",
        "gate.toml": "rules",
    }
    for file, own in files.items():
        Path(file).write_bytes(data if own == kind and file != "other.jsonl" else SOUND[own])
    if kind in OWN_FILES:
        Path(OWN_FILES[kind]).write_bytes(data)
    folder = Path("labels/demo")
    folder.mkdir(parents=True)
    (folder / "v1.jsonl").write_bytes(SOUND["labels"])
    (folder / "README.md").write_bytes(data if kind == "card" else SOUND["card"])
    if kind not in {*files.values(), *OWN_FILES, "card"}:
        Path("raw").write_bytes(data)


def _commands(kind: str) -> Iterator[list[str]]:
    if kind == "card":
        yield ["labels", "validate", "labels/demo"]
        yield ["score", "other.jsonl", "--labels", "labels/demo", "--format", "json"]
    elif kind == "labels":
        yield ["labels", "validate", "labels.jsonl"]
        yield ["labels", "lint", "labels.jsonl"]
        yield ["score", "other.jsonl", "--labels", "labels.jsonl", "--format", "json"]
    elif kind in ("run", "meta"):
        yield ["runs", "validate", "run.jsonl", "--labels", "labels.jsonl"]
        yield ["score", "run.jsonl", "--labels", "labels.jsonl", "--format", "json"]
        yield ["diff", "run.jsonl", "other.jsonl", "--no-labels", "--format", "json"]
        yield ["diff", "other.jsonl", "run.jsonl", "--labels", "labels.jsonl", "--format", "json"]
    elif kind == "rules":
        yield ["gate", "other.jsonl", "run.jsonl", "--labels", "labels.jsonl", "--rules", "gate.toml"]
    elif kind == "project":
        yield ["gate"]
    elif kind == "lock":
        against = ["--labels", "labels.jsonl", "--lock", OWN_FILES[kind]]
        yield ["gate", "run.jsonl", *against, "--rules", "gate.toml"]
        yield ["gate", "accept", "other.jsonl", *against]
    elif kind in ("gz", "zst"):
        yield ["runs", "validate", OWN_FILES[kind], "--labels", "labels.jsonl"]
        yield ["diff", "other.jsonl", OWN_FILES[kind], "--labels", "labels.jsonl", "--format", "json"]
    elif kind in ("csv", "parquet"):
        columns = ["--columns", "id=id,label=label,probability.A=A,probability.B=B"]
        yield ["runs", "import", "raw", "--format", kind, *columns, "-o", "imported.jsonl"]
    else:
        yield ["runs", "import", "raw", "-o", "guessed.jsonl"]
        yield ["runs", "import", "raw", "--format", kind, "--labels", "labels.jsonl", "-o", "imported.jsonl"]
        if kind in ("lm-eval", "inspect", "promptfoo"):
            yield ["labels", "import", "raw", "--format", kind, "--index-base", "0", "-o", "set.jsonl"]


def _ran(arguments: list[str]) -> int:
    from evalkit.cli import main

    out, err = io.StringIO(), io.StringIO()
    before = sys.argv
    sys.argv = ["evalkit", *arguments]
    code: Any = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as stop:
        code = stop.code or 0
    finally:
        sys.argv = before
    words = " ".join(arguments)
    if code not in ALLOWED or (code == 1 and arguments[0] != "gate"):
        raise BrokenError(f"evalkit {words}: exit code {code}: {err.getvalue()}")
    if "Traceback" in err.getvalue() + out.getvalue():
        raise BrokenError(f"evalkit {words}: a traceback: {err.getvalue()}")
    if code in (2, 3) and not err.getvalue():
        raise BrokenError(f"evalkit {words}: exit code {code} without a word")
    if "json" in arguments and code == 0:
        _add_up(words, json.loads(out.getvalue(), parse_constant=_no_json))
    return int(code)


def _no_json(word: str) -> float:
    raise BrokenError(f"{word} in the JSON report")


def _add_up(words: str, report: dict[str, Any]) -> None:
    counts = report["counts"]
    sides = [counts] if "scored" in counts else [counts["reference"], counts["candidate"]]
    for side in sides:
        if side["items"] != sum(side[kind] for kind in ("scored", "missing", "invalid", "error")):
            raise BrokenError(f"evalkit {words}: the counts do not add up: {side}")


os.environ.setdefault("NO_COLOR", "1")
