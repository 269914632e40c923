"""What can be asked for: one letter an item, or an array of answers for all items on one evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from evalkit import readout
from evalkit.record import array, protocol
from evalkit.record.answers import Answer, read_decision
from evalkit.record.items import Prompter, single_prompts
from evalkit.record.protocol import Prompt, RequestOptions


@dataclass(frozen=True)
class Mode:
    """A protocol: how items become prompts, prompts requests, and responses decisions."""

    name: str
    """The protocol's name."""
    rule: str
    """Name of the rule by which answers are read."""
    rule_text: str
    """The rule itself, in words."""
    prompts: Prompter
    """Makes the prompts of a label set."""
    body: Callable[[Prompt, RequestOptions], dict[str, Any]]
    """Makes the body of a request."""
    read: Callable[[Prompt, Mapping[str, Any], Any, float], Answer]
    """Reads the body of a response."""
    settings: Mapping[str, Any]
    """The fixed settings of its requests."""
    reads_letters: bool = True
    """Whether decisions come from log-probabilities."""
    one_by_one: bool = True
    """Whether a prompt asks about one item, so that it can be made without the others."""


MODES = {
    "letter": Mode(
        protocol.NAME,
        readout.RULE,
        protocol.LETTER_RULE,
        single_prompts,
        protocol.request_body,
        read_decision,
        {"temperature": protocol.TEMPERATURE, "max_tokens": protocol.MAX_TOKENS, "logprobs": True},
    ),
    "array": Mode(
        array.NAME,
        array.RULE,
        array.RULE_TEXT,
        array.array_prompts,
        array.request_body,
        array.read_array,
        {"temperature": array.TEMPERATURE},
        reads_letters=False,
        one_by_one=False,
    ),
}
"""The modes of recording, by name."""
