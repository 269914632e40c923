"""The examples of README and docs are true: every command in a console block prints what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = (README, *sorted((ROOT / "docs").glob("*.md")))


def _blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def _examples() -> list[Any]:
    """Return command and expected output of every console block."""
    found = []
    for page in PAGES:
        for block in _blocks(page, "console"):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                found.append(pytest.param(command, output, id=f"{page.name}: {command}"))
    return found


def _matches(expected: str, actual: str) -> bool:
    """Compare outputs; a line ``...`` stands for any lines."""
    pieces = re.split(r"^\.\.\.\n", expected, flags=re.MULTILINE)
    pattern = r"(?:.*\n)*?".join(re.escape(piece) for piece in pieces)
    return re.fullmatch(pattern, actual) is not None


def _environment() -> dict[str, str]:
    scripts = str(Path(sys.executable).parent)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "EVALKIT_"))}
    return kept | {"PATH": scripts + os.pathsep + os.environ["PATH"], "PYTHONIOENCODING": "utf-8"}


@pytest.mark.parametrize(("command", "expected"), _examples())
def test_console_example_prints_what_the_page_shows(command: str, expected: str) -> None:
    done = subprocess.run(
        command,
        shell=True,
        cwd=ROOT,
        env=_environment(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert _matches(expected, done.stdout), f"{command} printed:\n{done.stdout}{done.stderr}"


def test_console_examples_are_found() -> None:
    assert {example.id.partition(":")[0] for example in _examples()} >= {
        "README.md",
        "quantization-ladder.md",
    }


def test_comparison_with_ellipsis_sees_differences() -> None:
    assert _matches("a\n...\nd\n", "a\nb\nc\nd\n")
    assert not _matches("a\n...\nd\n", "a\nb\nc\n")


def test_python_example_runs(tmp_path: Path) -> None:
    (block,) = _blocks(README, "python")
    script = tmp_path / "example.py"
    script.write_text(block, "utf-8")
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=ROOT,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "20 1.0",
        "['a3f18f3a63d45345942b', 'd6a681055a01ed788b91', '980e76145c925747220c']",
        "0.9231 {'drop': 10, 'keep': 8, 'undetermined': 0}",
    ]


def test_set_up_commands_stand_alone() -> None:
    commands = [
        line
        for block in _blocks(README, "sh")
        for line in block.splitlines()
        if line.startswith("python3 -m venv")
    ]
    assert len(commands) == 2
    assert all("pip install" in command for command in commands)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target
