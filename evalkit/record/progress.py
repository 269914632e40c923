"""How far a recording is: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TextIO

LINE_EVERY = 10.0
"""Seconds between two plain lines."""


class Progress(Protocol):
    """Is told what happens while recording."""

    def begin(self, name: str, total: int, done: int) -> None:
        """A recording begins: its name, how many decisions it has, and how many are there already."""

    def step(self, *, failed: bool) -> None:
        """A decision has arrived."""

    def end(self) -> None:
        """The recording is over, or was stopped."""


class Silent:
    """Says nothing."""

    def begin(self, name: str, total: int, done: int) -> None:
        """Say nothing."""

    def step(self, *, failed: bool) -> None:
        """Say nothing."""

    def end(self) -> None:
        """Say nothing."""


@dataclass
class Pace:
    """Counts, and what follows from them."""

    total: int
    """Decisions of the whole recording."""
    done: int
    """Decisions that are there."""
    clock: Callable[[], float] = time.monotonic
    """Where the time comes from."""
    failed: int = 0
    """Failed ones among those that arrived."""
    arrived: int = 0
    """Decisions that arrived since the start."""
    start: float = field(init=False)

    def __post_init__(self) -> None:
        self.start = self.clock()

    def step(self, failed: bool) -> None:
        """Count a decision."""
        self.done += 1
        self.arrived += 1
        self.failed += failed

    @property
    def rate(self) -> float:
        """Decisions a second since the start."""
        elapsed = self.clock() - self.start
        return self.arrived / elapsed if elapsed > 0 else 0.0

    @property
    def remaining(self) -> str:
        """The time that is left at this rate, as h:mm:ss."""
        rate = self.rate
        if not rate:
            return "-"
        minutes, seconds = divmod(round((self.total - self.done) / rate), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{seconds:02}"

    def line(self, name: str) -> str:
        """Return everything in one line."""
        return (
            f"{name}: {self.done} of {self.total} done, {self.failed} failed, "
            f"{self.rate:.1f} decisions/s, {self.remaining} left"
        )


class Lines:
    """Writes a plain line now and then."""

    def __init__(
        self, stream: TextIO, *, every: float = LINE_EVERY, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.stream, self.every, self.clock = stream, every, clock
        self._name, self._pace, self._next = "", Pace(0, 0, clock), 0.0
        self._written = 0

    def begin(self, name: str, total: int, done: int) -> None:
        """Note the start; nothing is said until there is something to say."""
        self._name, self._pace = name, Pace(total, done, self.clock)
        self._next, self._written = self.clock() + self.every, 0

    def step(self, *, failed: bool) -> None:
        """Write a line, if the last one is long enough ago."""
        self._pace.step(failed)
        if self.clock() >= self._next:
            self._next = self.clock() + self.every
            self._write()

    def end(self) -> None:
        """Write the last line."""
        if self._pace.arrived > self._written:
            self._write()

    def _write(self) -> None:
        self._written = self._pace.arrived
        self.stream.write(self._pace.line(self._name) + "\n")
        self.stream.flush()


class Bar:
    """Draws a bar on a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._pace = Pace(0, 0)
        self._bar: Any = None
        self._task: Any = None

    def begin(self, name: str, total: int, done: int) -> None:
        """Draw the bar."""
        # Only a terminal needs it, and it takes a while to import.
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._pace = Pace(total, done)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(
                "{task.fields[failed]} failed, {task.fields[rate]} decisions/s, {task.fields[left]} left"
            ),
            console=Console(file=self.stream),
        )
        self._task = self._bar.add_task(name, total=total, completed=done, failed=0, rate="-", left="-")
        self._bar.start()

    def step(self, *, failed: bool) -> None:
        """Move the bar."""
        pace = self._pace
        pace.step(failed)
        self._bar.update(
            self._task, completed=pace.done, failed=pace.failed, rate=f"{pace.rate:.1f}", left=pace.remaining
        )

    def end(self) -> None:
        """Leave the bar as it is."""
        if self._bar is not None:
            self._bar.stop()


def progress_on(stream: TextIO, *, quiet: bool = False) -> Progress:
    """Return the progress display that fits where it is shown.

    Args:
        stream: usually standard error.
        quiet: show nothing.
    """
    if quiet:
        return Silent()
    return Bar(stream) if stream.isatty() else Lines(stream)
