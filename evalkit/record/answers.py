"""From the body of a response to the fields of a run's row, through the one read-out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evalkit.readings import Failure, Lists
from evalkit.readout import read_out
from evalkit.record.protocol import Prompt
from evalkit.shapes import readings, row_fields

Fields = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What a backend said to one prompt."""

    rows: tuple[Fields, ...]
    """The decision on each question, as the fields of a run's row without id and hashes."""
    seconds: float = 0.0
    """How long it took, from sending the request to its answer."""
    notices: tuple[str, ...] = ()
    """What a reader of the run should know of the read-out."""
    fields: Fields = field(default_factory=dict)
    """Fields that all the rows share: model, tokens, prompt_sha256."""
    unlisted: bool = False
    """Whether the answer has no log-probabilities at all."""


def read_decision(prompt: Prompt, request: Mapping[str, Any], body: Any, seconds: float) -> Answer:
    """Read the decision on a prompt with one question.

    Args:
        prompt: the prompt.
        request: the body of the request.
        body: the parsed body of the response.
        seconds: how long the answer took.
    """
    (question,) = prompt.questions
    reading = readings(body, request)[0]
    if not isinstance(reading, Lists):
        reason = reading.reason if isinstance(reading, Failure) else "unknown response shape"
        return Answer((failed(question.option_ids, reason),), seconds, fields=row_fields(body))
    outcome = read_out(reading.listing, question.letters)
    return Answer(
        (outcome.row(question.option_ids),),
        seconds,
        tuple(notice.kind for notice in outcome.notices),
        row_fields(body),
        unlisted=not reading.listing.positions,
    )


def failed(option_ids: tuple[str, ...], reason: str) -> Fields:
    """Return the fields of a row without a decision, because the backend failed."""
    return {"option_ids": list(option_ids), "status": "error", "error": reason}
