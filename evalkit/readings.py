"""What was recorded of an answer, before it is read as a decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evalkit.readout import Listing


@dataclass(frozen=True)
class Lists:
    """The listed token values of an answer; an empty listing where the backend sent none."""

    listing: Listing
    """The lists."""
    text: str = ""
    """The generated text."""


@dataclass(frozen=True)
class Likelihoods:
    """One log-likelihood an option, in the order of the record's options."""

    values: tuple[Any, ...]
    """The values as sent."""


@dataclass(frozen=True)
class Answer:
    """The text of an answer, from a format that records no probabilities."""

    text: str
    """The text."""


@dataclass(frozen=True)
class Row:
    """A decision that already has the fields of a run's row."""

    fields: Mapping[str, Any]
    """The fields."""


@dataclass(frozen=True)
class Failure:
    """A request that failed, or an answer that cannot be read."""

    reason: str
    """The backend's own words, or what is wrong."""
    status: str = "error"
    """error, or invalid."""


Reading = Lists | Likelihoods | Answer | Row | Failure
