"""The real small model, and a real server on it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

MODEL_VARIABLE = "EVALKIT_REAL_MODEL"
ALIAS = "qwen2.5-coder-0.5b"
KEY = "sk-lighthouse-2718"
SERVE = Path(__file__).parents[2] / "scripts" / "serve_gguf.py"
SLOTS, CONTEXT = "2", "2048"


@dataclass(frozen=True)
class Served:
    """A running server."""

    url: str
    """Its base URL."""
    process: subprocess.Popen[str]
    """Its process."""


def real_model() -> Path:
    """Return the gguf file that the environment names.

    Raises:
        pytest.UsageError: it names none.
    """
    named = os.environ.get(MODEL_VARIABLE)
    if not named or not Path(named).is_file():
        raise pytest.UsageError(f"{MODEL_VARIABLE} names no gguf file; see scripts/fetch_model.py")
    return Path(named)


@contextmanager
def served(model: Path) -> Iterator[Served]:
    """Serve a model in a process of its own, until the block ends.

    It has two slots and a prompt cache, as servers have: a repeatable recording has to ask for what it needs.
    """
    environment = {**os.environ, "EVALKIT_API_KEY": KEY}
    command = [
        sys.executable,
        str(SERVE),
        str(model),
        "--alias",
        ALIAS,
        "--slots",
        SLOTS,
        "--context",
        CONTEXT,
    ]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address.startswith("http"), "the server did not start"
            yield Served(f"{address}/v1", process)
        finally:
            process.kill()
