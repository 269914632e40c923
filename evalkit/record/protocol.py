"""The published decision protocol ``semif/1``: an item becomes two messages, messages become a request.

Pure functions without input or output, so that a prompt can be rebuilt and its hash checked anywhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evalkit import readout

NAME = "semif/1"
"""Name of the protocol, as it stands in a run's sidecar."""
SYSTEM = (
    "Apply the supplied criterion to the supplied evidence. Choose exactly one listed option. "
    "Respond with only its uppercase letter, with no explanation or reasoning."
)
"""The system message, verbatim."""
MIN_OPTIONS, MAX_OPTIONS = 2, 16
LETTERS = readout.LETTERS[:MAX_OPTIONS]
"""The options' letters by position, A to P."""
LETTER_RULE = (
    "a token names an option if its text is the option's letter, with at most one leading "
    "space or word-start marker; tokens that name the same option are added"
)
"""The written rule by which tokens are read, recorded with every run."""
TOP_LOGPROBS = 8
"""Alternatives that are asked for at the answer position, where the options leave room enough."""
SPARE_ENTRIES = 4
"""Entries asked for beyond the options: other tokens take places in the list."""
TEMPERATURE = 1.0
MAX_TOKENS = 1
TEMPLATE_KWARGS = {"enable_thinking": False}
"""Arguments for the chat template: the answer must not begin with a thought."""

Message = dict[str, str]


class NotAskableError(ValueError):
    """An item lacks something that a prompt needs; the message says what."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked about one item."""

    id: str
    """The item's id; it does not get into the messages."""
    option_ids: tuple[str, ...]
    """Ids of the options, in prompt order; only their letters get into the messages."""

    @property
    def letters(self) -> str:
        """The letters of the options, in prompt order."""
        return LETTERS[: len(self.option_ids)]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request's messages, and the items that they ask about."""

    questions: tuple[Question, ...]
    """The items: one, except where a whole array is asked for."""
    messages: tuple[Message, ...]
    """The system message and the user message."""

    @property
    def sha256(self) -> str:
        """The hash of the messages."""
        return messages_sha256(self.messages)


@dataclass(frozen=True)
class Parts:
    """What of an item may get into a prompt."""

    question: Question
    """The item's id and option ids."""
    evidence: Any
    """The evidence: text or JSON."""
    criterion: str
    """The criterion."""
    options: tuple[Mapping[str, str], ...]
    """Letter and description of each option, in prompt order."""


@dataclass(frozen=True)
class RequestOptions:
    """What a request says besides the messages."""

    model: str | None = None
    """The model's name; None where the server needs none."""
    top_logprobs: int | None = None
    """Alternatives to ask for; None for as many as the options need, at least 8."""
    plain: bool = False
    """Leave out the chat template's arguments and everything else that is not OpenAI's."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields, for servers that know them; left out of a plain request."""


def parts_of(item: Mapping[str, Any]) -> Parts:
    """Take out of an item what may get into a prompt: never label, rationale, tags or family.

    Args:
        item: the item as the label set has it.

    Raises:
        NotAskableError: it has no evidence, no criterion, or an option without description.
    """
    evidence, criterion, options = _evidence(item), _criterion(item), _options(item)
    question = Question(str(item["id"]), tuple(option["id"] for option in options))
    listed = tuple(
        {"letter": letter, "description": option["description"]}
        for letter, option in zip(question.letters, options, strict=True)
    )
    return Parts(question, evidence, criterion, listed)


def make_prompt(item: Mapping[str, Any]) -> Prompt:
    """Make the prompt of an item of a label set.

    The user message is one JSON object with the keys evidence, criterion and options, in this order, text
    as it is; as the published scorer writes it, so that hashes of rendered prompts agree.

    Args:
        item: the item as the label set has it.

    Raises:
        NotAskableError: it has no evidence, no criterion, an option without description, or something
            that cannot be sent as UTF-8.
    """
    parts = parts_of(item)
    payload = {"evidence": parts.evidence, "criterion": parts.criterion, "options": parts.options}
    return Prompt((parts.question,), messages_of(SYSTEM, payload))


def messages_of(system: str, payload: Mapping[str, Any]) -> tuple[Message, ...]:
    """Return a system message, and a user message that is one JSON object, text as it is.

    Raises:
        NotAskableError: the object cannot be sent as UTF-8.
    """
    try:
        text = json.dumps(payload, ensure_ascii=False, allow_nan=False)
        text.encode("utf-8")
    except (ValueError, RecursionError):
        raise NotAskableError("holds something that no request can carry (half a surrogate pair?)") from None
    return ({"role": "system", "content": system}, {"role": "user", "content": text})


def messages_sha256(messages: Sequence[Message]) -> str:
    """Return the hex sha256 of messages as canonical JSON in UTF-8.

    Canonical means: keys sorted, separators ``,`` and ``:`` without spaces, text as it is. The published
    scorer hashes the rendered prompt only (``prompt_sha256``), so this form is evalkit's own.
    """
    text = json.dumps(list(messages), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text_sha256(text)


def text_sha256(text: str) -> str:
    """Return the hex sha256 of a text in UTF-8, as the published scorer hashes a rendered prompt."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def entries_needed(options: int, wished: int | None = None) -> int:
    """Return how many alternatives to ask for: what was wished for, or as many as the options need."""
    return wished if wished is not None else max(TOP_LOGPROBS, options + SPARE_ENTRIES)


def request_body(prompt: Prompt, options: RequestOptions) -> dict[str, Any]:
    """Return the body of the request for one decision.

    Args:
        prompt: the prompt, with one question.
        options: what else the request says.
    """
    (question,) = prompt.questions
    wanted = {
        "max_tokens": MAX_TOKENS,
        "temperature": TEMPERATURE,
        "logprobs": True,
        "top_logprobs": entries_needed(len(question.option_ids), options.top_logprobs),
    }
    return with_options(prompt.messages, wanted, options)


def with_options(
    messages: Sequence[Message], wanted: Mapping[str, Any], options: RequestOptions
) -> dict[str, Any]:
    """Return a request's body: model, messages, what is wanted, and what only some servers know."""
    named = {} if options.model is None else {"model": options.model}
    rest = {} if options.plain else {"chat_template_kwargs": TEMPLATE_KWARGS, **options.extra}
    return {**named, "messages": list(messages), **wanted, **rest}


def _evidence(item: Mapping[str, Any]) -> Any:
    evidence = item.get("evidence")
    if not isinstance(evidence, str | dict | list) or not evidence:
        raise NotAskableError("has no evidence, so there is nothing to show to a model")
    return evidence


def _criterion(item: Mapping[str, Any]) -> str:
    criterion = item.get("criterion")
    if not isinstance(criterion, str) or not criterion.strip():
        raise NotAskableError("has no criterion, so there is nothing to ask")
    return criterion


def _options(item: Mapping[str, Any]) -> list[dict[str, str]]:
    options: list[dict[str, str]] = list(item["options"])
    if not MIN_OPTIONS <= len(options) <= MAX_OPTIONS:
        raise NotAskableError(f"has {len(options)} options; a prompt has {MIN_OPTIONS} to {MAX_OPTIONS}")
    for option in options:
        if not isinstance(option.get("description"), str) or not option["description"].strip():
            raise NotAskableError(f"option {option['id']!r} has no description to show to a model")
    return options
