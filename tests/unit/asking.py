"""What the tests of the recorder share: items that can be asked, and a recorder against the stub."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from evalkit.labels import LabelSet
from evalkit.record.client import Patience
from evalkit.record.progress import Silent
from evalkit.record.recording import Recording, Wishes

Record = dict[str, Any]
T = TypeVar("T")

AT_ONCE = Patience(timeout=5, retries=2, first_wait=0.001, longest_wait=0.002)
"""Retries that a test does not have to wait for."""


def item(name: str, **fields: Any) -> Record:
    """Return an item with everything that a prompt needs, and with what must not get into it."""
    return {
        "id": name,
        "evidence": f"The ferry {name} left the harbour of Norrvik at nine.",
        "criterion": "Does the text name a harbour?",
        "options": [
            {"id": "yes", "description": "It names one."},
            {"id": "no", "description": "It names none."},
        ],
        "label": "yes",
        "rationale": "SECRET-RATIONALE",
        "family": "SECRET-FAMILY",
        "tags": ["SECRET-TAG"],
        **fields,
    }


def items(count: int) -> list[Record]:
    """Return so many items."""
    return [item(f"q{number:03}") for number in range(count)]


def rows_of(path: Path) -> list[Record]:
    """Return the rows of a run file, every line strictly parsed."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def ids_of(path: Path) -> list[str]:
    """Return the ids of a run file's rows."""
    return [row["id"] for row in rows_of(path)]


def meta_of(path: Path) -> Record:
    """Return the sidecar of a run file."""
    found: Record = json.loads(
        path.with_name(f"{path.name.removesuffix('.jsonl')}.meta.json").read_text("utf-8")
    )
    return found


def recording(labels: LabelSet, output: Path, url: str, **wishes: Any) -> Recording:
    """Return a recording against a server, with retries at once."""
    return Recording(labels, Wishes(output=output, base_url=url, **{"patience": AT_ONCE, **wishes}), Silent())


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end."""
    return asyncio.run(work)
