"""The notebooks run, and print and draw what they show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def outputs(notebook: Any) -> list[list[str]]:
    """Return what a code cell printed, and the kinds of what it drew; what libraries remark is left out."""
    return [
        [
            output.get("text") or " ".join(sorted(output.get("data", {})))
            for output in cell.outputs
            if output.get("name") != "stderr"
        ]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_prints_and_draws_what_it_shows(path: Path) -> None:
    shown, fresh = (nbformat.read(path, as_version=4) for _ in range(2))
    NotebookClient(fresh, timeout=600, resources={"metadata": {"path": str(path.parent)}}).execute()
    assert outputs(fresh) == outputs(shown)


def test_notebook_of_the_ladder_is_found() -> None:
    assert "01-quantization-ladder" in [path.stem for path in NOTEBOOKS]
