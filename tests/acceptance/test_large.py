"""Large inputs: 200,000 items are scored and compared, and the work grows with the items, not faster."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evalkit.comparing import diff
from evalkit.labels import load_label_file
from evalkit.runs import load_run
from evalkit.scoring import score
from tests.acceptance.conftest import CASES, PROGRAM, environment

if TYPE_CHECKING:
    from tests.acceptance.conftest import Evalkit

ITEMS = 200_000
GIGABYTE = 1 << 30

# Runs its arguments and writes the peak memory of the child (in KiB on Linux) after its output.
_MEASURED = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:])
unit = 1 if sys.platform == "darwin" else 1024
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit, file=sys.stderr)
sys.exit(done.returncode)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which the case's own script has written its two files."""
    folder = tmp_path_factory.mktemp("large")
    shutil.copy(CASES / "97-two-hundred-thousand-items" / "make.py", folder)
    subprocess.run([sys.executable, "make.py"], cwd=folder, check=True)
    return folder


def measured(command: str, folder: Path) -> tuple[str, int]:
    """Run evalkit; return what it prints and how many bytes of memory it took at most."""
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, PROGRAM, *command.split()],
        cwd=folder,
        env=environment(),
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    return done.stdout, int(done.stderr)


def test_large_run_is_scored_and_the_page_stays_short(large: Path) -> None:
    page, memory = measured("score run.jsonl --labels labels.jsonl", large)
    assert f"0 of {ITEMS} items right" in page
    assert f"... and {ITEMS - 50} more" in page
    assert len(page.splitlines()) < 200
    assert memory < GIGABYTE


def test_large_run_is_compared_and_the_page_stays_short(large: Path) -> None:
    page, memory = measured("diff run.jsonl run.jsonl --labels labels.jsonl", large)
    assert f"0 of {ITEMS} choices changed" in page
    assert len(page.splitlines()) < 200
    assert memory < GIGABYTE


def test_large_run_lists_every_item_as_data(large: Path, evalkit: Evalkit) -> None:
    ran = evalkit("score run.jsonl --labels labels.jsonl --format csv -o items.csv", large)
    assert (ran.code, ran.stdout, ran.stderr) == (0, "", "")
    with (large / "items.csv").open(encoding="utf-8") as lines:
        assert sum(1 for _ in lines) == ITEMS + 1


def calls(function: Callable[[], object]) -> int:
    """Count the Python functions that are entered while another one runs, in its threads too."""
    entered: list[None] = []

    def note(_frame: object, event: str, _argument: object) -> None:
        if event == "call":
            entered.append(None)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return len(entered)


def write_set(folder: Path, size: int, probabilities: object) -> tuple[Path, Path]:
    """Write a label set and a run of some size, every row with these probabilities."""
    folder.mkdir()
    labels, run = folder / "labels.jsonl", folder / "run.jsonl"
    options = [{"id": "A"}, {"id": "B"}]
    with labels.open("w", encoding="utf-8") as items, run.open("w", encoding="utf-8") as rows:
        for number in range(size):
            name = f"q{number}"
            items.write(json.dumps({"id": name, "options": options, "label": "A"}) + "\n")
            row = {"id": name, "option_ids": ["A", "B"], "probabilities": probabilities}
            rows.write(json.dumps(row) + "\n")
    return labels, run


@pytest.mark.parametrize(
    ("probabilities", "a_row"),
    [([0.1, 0.9], 0), ([3.2, -1.1], 80), ([0.5, None], 80)],
    ids=["usable", "invalid", "null"],
)
def test_python_work_grows_with_the_items_and_not_faster(
    tmp_path: Path, probabilities: object, a_row: int
) -> None:
    """A usable row costs no call of its own; an unusable one a bounded number, whatever the size."""
    counted = []
    for size in (1000, 2000, 4000):
        labels, run = write_set(tmp_path / str(size), size, probabilities)

        def work(labels: Path = labels, run: Path = run) -> None:
            items, recorded = load_label_file(labels), load_run(run)
            score(items, recorded)
            diff(items, recorded, recorded)

        work()
        counted.append(calls(work))
    first, second = counted[1] - counted[0], counted[2] - counted[1]
    assert first <= a_row * 1000 + 200
    assert second <= 2 * first + 400
