"""Running evalkit as a process, and the folders of awkward inputs that it has to survive."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest

CASES = Path(__file__).parent.parent / "cases"
PROGRAM = Path(sysconfig.get_path("scripts")) / "evalkit"

# What a terminal or a CI system may set, and what would change where names are looked up.
_AMBIENT = (
    "CI", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "EVALKIT_ROOT", "FORCE_COLOR", "GITHUB_ACTIONS", "LINES",
    "NO_COLOR", "PY_COLORS", "PYTHONIOENCODING", "PYTHONUTF8", "TERMINAL_WIDTH", "TTY_COMPATIBLE",
)  # fmt: skip


@dataclass(frozen=True)
class Ran:
    """What a finished process left behind."""

    code: int
    """Exit code."""
    out: bytes
    """Standard output."""
    err: bytes
    """Standard error."""

    @property
    def stdout(self) -> str:
        """Standard output as UTF-8."""
        return self.out.decode("utf-8")

    @property
    def stderr(self) -> str:
        """Standard error as UTF-8."""
        return self.err.decode("utf-8")

    def json(self) -> dict[str, Any]:
        """Return standard output as one strict JSON document."""
        value: dict[str, Any] = json.loads(self.out, parse_constant=_no_json)
        return value


def _no_json(word: str) -> NoReturn:
    raise AssertionError(f"{word} is not JSON")


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a process: this one's without what a terminal or a CI system adds."""
    kept = {name: value for name, value in os.environ.items() if name not in _AMBIENT}
    return kept | {"LC_ALL": "C.UTF-8"} | dict(extra or {})


class Evalkit:
    """Runs evalkit as a process; the same call on the case folders, which never change, runs only once."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Ran] = {}

    def __call__(
        self, args: str | Sequence[str], cwd: Path, env: Mapping[str, str] | None = None, stdin: bytes = b""
    ) -> Ran:
        """Run ``evalkit`` with arguments (a string is split as a shell would) and wait for its end."""
        words = shlex.split(args) if isinstance(args, str) else list(args)
        key = (tuple(words), cwd, tuple(sorted((env or {}).items())), stdin)
        if key not in self._known:
            done = subprocess.run(
                [PROGRAM, *words],
                cwd=cwd,
                env=environment(env),
                input=stdin,
                capture_output=True,
                check=False,
            )
            ran = Ran(done.returncode, done.stdout, done.stderr)
            if not cwd.is_relative_to(CASES):
                return ran
            self._known[key] = ran
        return self._known[key]


@dataclass
class Case:
    """A folder of awkward inputs (or a copy of one), and the commands that were run in it."""

    folder: Path
    """Where the inputs are."""
    evalkit: Evalkit
    """Runs the commands."""
    scratch: Path
    """Where files may be written."""
    asked: set[tuple[str, ...]] = field(default_factory=set)
    """The commands that were run, ``--format json`` left out."""

    def run(self, args: str, env: Mapping[str, str] | None = None) -> Ran:
        """Run evalkit in the folder; a traceback is never an outcome."""
        words = tuple(shlex.split(args))
        self.asked.add(tuple(shlex.split(args.removesuffix(" --format json"))))
        ran = self.evalkit(words, self.folder, env)
        assert b"Traceback" not in ran.err, ran.stderr
        return ran

    def report(self, args: str) -> dict[str, Any]:
        """Return the JSON report of a command that succeeds without a word on standard error."""
        ran = self.run(f"{args} --format json")
        assert (ran.code, ran.stderr) == (0, "")
        return ran.json()

    def text(self, args: str) -> str:
        """Return what a command prints that succeeds without a word on standard error."""
        ran = self.run(args)
        assert (ran.code, ran.stderr) == (0, "")
        return ran.stdout

    def refusal(self, args: str, code: int = 3) -> list[str]:
        """Return the lines on standard error of a command that refuses its input; stdout stays empty."""
        ran = self.run(args)
        assert (ran.code, ran.stdout) == (code, "")
        return ran.stderr.splitlines()

    def lines(self, name: str) -> list[dict[str, Any]]:
        """Return the records of a JSON Lines file of the folder."""
        return [json.loads(line) for line in (self.folder / name).read_text("utf-8").splitlines()]

    def write(self, name: str, records: Iterable[Mapping[str, Any]]) -> None:
        """Write a JSON Lines file into a copy of the folder."""
        assert not self.folder.is_relative_to(CASES), "write into a copy"
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        (self.folder / name).write_text(text, "utf-8")

    def copy(self, name: str = "copy") -> Case:
        """Return a copy that may be written to."""
        return Case(Path(shutil.copytree(self.folder, self.scratch / name)), self.evalkit, self.scratch)


def case_folders() -> list[str]:
    """Return the names of all case folders."""
    return sorted(path.name for path in CASES.iterdir() if path.is_dir())


def documented(folder: str) -> list[str]:
    """Return the commands at the top of a case's ``expected.txt``, up to the first empty line."""
    head, _, _ = (CASES / folder / "expected.txt").read_text("utf-8").partition("\n\n")
    return [re.sub(r"^(?:[A-Z0-9_]+=\S+ )*|(?: > out\.txt| \| cat)$", "", line) for line in head.splitlines()]


@pytest.fixture(scope="session")
def evalkit() -> Evalkit:
    """Return the runner of evalkit."""
    return Evalkit()
