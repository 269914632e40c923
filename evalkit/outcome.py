"""What a read-out says of one decision: the options' shares, or their bounds, or why there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SLACK = 1e-6
"""Two masses differ only beyond this share of them."""


@dataclass(frozen=True)
class Notice:
    """Something a reader of the run should know; those of one kind are reported together."""

    kind: str
    """What it is, the same for all decisions it happens to."""
    detail: str = ""
    """What is special to this decision."""


@dataclass(frozen=True)
class Outcome:
    """What a read-out says of one decision."""

    status: str = "ok"
    """As a run's row has it: ok, missing_option, invalid or error."""
    error: str = ""
    """Why there is no usable decision."""
    shares: tuple[float, ...] = ()
    """The options' shares of what they hold together, where all are measured."""
    ranges: tuple[tuple[float, float], ...] = ()
    """The bounds of the shares, where some option is censored."""
    choice: int = -1
    """The likeliest option."""
    mass: float = math.nan
    """Measured mass on the options; NaN where unknown."""
    censored: tuple[int, ...] = ()
    """The options without a measured value."""
    notices: tuple[Notice, ...] = ()
    """What a reader should know."""
    after_sampling: bool = False
    """Whether the values are those after the sampler."""

    def row(self, options: Sequence[str]) -> dict[str, Any]:
        """Return the decision as the fields of a run's row, without the id.

        Args:
            options: ids of the options, in the order of the names that were read.
        """
        row: dict[str, Any] = {"option_ids": list(options)}
        if self.status != "ok":
            return {**row, "status": self.status, "error": self.error}
        if self.ranges:
            row["choice"] = options[self.choice]
            row["probability_range"] = dict(zip(options, map(list, self.ranges), strict=True))
            row["censored"] = [options[place] for place in self.censored]
        elif self.shares:
            row["probabilities"] = list(self.shares)
        else:
            row["choice"] = options[self.choice]
        if not math.isnan(self.mass):
            row["allowed_token_mass"] = self.mass
        if self.after_sampling:
            row["after_sampling"] = True
        return row


class UnusableError(Exception):
    """The answer is no usable decision; says as which status it counts, and why."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


@dataclass(frozen=True)
class Bound:
    """What is known of the mass of options without a value."""

    each: float
    """The most that one of them holds."""
    together: float
    """The most that all of them hold."""


def decided(
    measured: Mapping[int, float],
    count: int,
    bound: Bound,
    notices: Sequence[Notice],
    after_sampling: bool = False,
) -> Outcome:
    """Turn what the options hold into shares, or into ranges where some are censored.

    Args:
        measured: measured mass by place of the option.
        count: how many options there are.
        bound: what is known of the mass of the others.
        notices: what a reader should know.
        after_sampling: whether the values are those after the sampler.

    Returns:
        The shares. With S the measured mass on the options, r the most that one censored option holds
        and R the most that all of them hold, a measured option of mass p lies in [p / (S + R), p / S]
        and a censored one in [0, r / (S + r)].

    Raises:
        UnusableError: no option got any mass, or an unmeasured one may be the likeliest.
    """
    mass = math.fsum(measured.values())
    if mass == 0:
        raise UnusableError("invalid", "all probabilities are 0: no option got any mass")
    best = max(sorted(measured), key=lambda place: measured[place])
    censored = tuple(place for place in range(count) if place not in measured)
    known = min(mass, 1.0)
    if not censored:
        shares = tuple(measured[place] / mass for place in range(count))
        return Outcome(
            shares=shares, choice=best, mass=known, notices=tuple(notices), after_sampling=after_sampling
        )
    if bound.each > measured[best] * (1 + SLACK):
        raise UnusableError(
            "missing_option",
            f"the list does not tell the choice: {len(censored)} of {count} options are not in it, "
            f"and one may hold up to {bound.each:.4f}, more than the {measured[best]:.4f} of the likeliest",
        )
    together = min(len(censored) * bound.each, bound.together)
    ranges = tuple(
        (measured[place] / (mass + together), measured[place] / mass)
        if place in measured
        else (0.0, bound.each / (mass + bound.each))
        for place in range(count)
    )
    return Outcome(
        ranges=ranges,
        choice=best,
        mass=known,
        censored=censored,
        notices=tuple(notices),
        after_sampling=after_sampling,
    )
