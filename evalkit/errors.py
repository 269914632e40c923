"""The exceptions evalkit raises, and the exit code each one means for the command line.

The tree::

    EvalkitError            4  something is wrong inside evalkit
    ├── UsageError          2  the request cannot be carried out as asked
    └── InputError          3  a file is not what it says it is
        ├── NotFoundError   3  no file, run or label set of that name
        │   └── UncoveredError 3 no label set knows the ids of a run
        ├── ChecksumError   3  a file is not the one its card or sidecar describes
        ├── AlignmentError  3  runs and label set do not belong together
        ├── NoDecisionsError 3 nothing usable to score
        └── BackendError    3  a backend cannot be recorded (evalkit.record)

The library raises; only ``evalkit.cli`` prints and exits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SHOWN_PROBLEMS = 20
"""How many problems a message lists before it only counts the rest."""


SHOWN_CHARACTERS = 1000
"""How much of what is wrong a message quotes; the value in it may be of any length."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with an input, with its place and its remedy."""

    what: str
    """What is wrong, with the offending value."""
    file: str = ""
    """The file as the user named it; empty where there is none."""
    line: int | None = None
    """The line in that file, counted from 1."""
    path: str = ""
    """The place inside the record, as a JSON path (``$.probabilities[1]``)."""
    remedy: str = ""
    """What the user can do about it."""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        what = self.what if len(self.what) <= SHOWN_CHARACTERS else self.what[:SHOWN_CHARACTERS] + "..."
        return ": ".join(part for part in (place, self.path, what, self.remedy) if part)


class EvalkitError(Exception):
    """Base of everything that evalkit raises on purpose."""

    exit_code = 4

    def lines(self) -> list[str]:
        """Return the message, one text a problem."""
        return [str(self)]


class UsageError(EvalkitError):
    """The request itself makes no sense: an unknown field, a threshold that is none."""

    exit_code = 2


class InputError(EvalkitError):
    """An input is damaged, foreign or contradicts itself; carries every problem found."""

    exit_code = 3

    def __init__(self, problems: Problem | str | Iterable[Problem]) -> None:
        if isinstance(problems, str):
            problems = Problem(problems)
        self.problems: Sequence[Problem] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__(str(self))

    def lines(self) -> list[str]:
        """Return one text a problem, the first ones only, then a count of the rest."""
        shown = [str(problem) for problem in self.problems[:SHOWN_PROBLEMS]]
        hidden = len(self.problems) - len(shown)
        return shown + ([f"... and {hidden} more problems of the kind"] if hidden > 0 else [])

    def __str__(self) -> str:
        return "\n".join(self.lines())


class NotFoundError(InputError):
    """A name or path leads nowhere."""


class UncoveredError(NotFoundError):
    """No label set knows the ids of a run."""


class ChecksumError(InputError):
    """The bytes of a file do not match the sha256 on record."""


class AlignmentError(InputError):
    """A run has ids or option sets that the label set does not know."""


class NoDecisionsError(InputError):
    """There is no usable decision at all, so there is nothing to report."""
