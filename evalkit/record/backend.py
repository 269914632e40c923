"""What the recorder needs of a backend, wherever the model runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from evalkit.record.answers import Answer
from evalkit.record.protocol import Prompt


@dataclass(frozen=True)
class Described:
    """What a backend says of itself, as a sidecar has it."""

    model: Mapping[str, Any]
    """The model: its name, file, hash ..."""
    runtime: Mapping[str, Any]
    """The program that runs it."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the requests that can move the numbers."""
    unused: tuple[str, ...] = ()
    """Settings of the mode that mean nothing to this backend."""
    notices: tuple[str, ...] = ()
    """What a reader of the run should know of how the backend was asked."""


class Backend(Protocol):
    """Something that can be asked for decisions."""

    async def open(self) -> Described:
        """Get ready; raises BackendError or UsageError where that is impossible."""

    def described(self) -> Described:
        """Return what answers and how it is asked, as known by now."""

    async def probe(self, prompt: Prompt) -> Answer:
        """Ask the first prompt; raises BackendError for everything that would go wrong with all of them."""

    async def ask(self, prompt: Prompt) -> Answer:
        """Ask a prompt; raises RequestFailedError for it alone, BackendError to stop."""

    async def close(self) -> None:
        """Let go of what `open` took."""
