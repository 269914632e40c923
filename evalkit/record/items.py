"""The items of a label set with their texts, and the prompts made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from evalkit.errors import InputError, Problem
from evalkit.jsonl import Source, parse_object
from evalkit.labels import LabelSet
from evalkit.record.protocol import NotAskableError, Prompt, make_prompt

Located = tuple[int, dict[str, Any]]
"""An item and its line in the file."""
Report = Callable[[int, str, str], None]
"""Takes the line, the id and what is wrong with an item that cannot be asked."""
Prompter = Callable[[Iterable[Located], Report], Iterator[Prompt]]
"""Makes prompts of items, in their order."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What has to be known of an item while its set is recorded; there may be very many."""

    option_ids: tuple[str, ...]
    """Ids of the options, in prompt order."""
    digest: bytes
    """The sha256 of the messages that ask about it."""
    length: int
    """Characters of these messages: the longest prompt is the one most likely to be refused."""

    @property
    def messages_sha256(self) -> str:
        """The hash as a row has it."""
        return self.digest.hex()


Index = dict[str, Entry]
"""All items of a set by id, in label-set order, without their texts."""


def read_items(labels: LabelSet) -> Iterator[Located]:
    """Yield the items of a label set with everything they hold, one at a time.

    Raises:
        InputError: the set has no file, or the file is damaged.
    """
    if labels.path is None:
        raise InputError(Problem("has no file, so there are no texts to ask about", labels.name))
    for block in Source(labels.path, labels.file).blocks():
        for line, raw in block.lines():
            yield line, parse_object(raw, labels.file, line)


def single_prompts(items: Iterable[Located], report: Report) -> Iterator[Prompt]:
    """Yield one prompt an item; an item that cannot be asked is reported and left out."""
    for line, item in items:
        try:
            yield make_prompt(item)
        except NotAskableError as error:
            report(line, str(item["id"]), str(error))


def index_prompts(labels: LabelSet, prompter: Prompter) -> Index:
    """Go through all prompts of a set once, and keep of each what resuming needs.

    Args:
        labels: the label set.
        prompter: makes the prompts.

    Raises:
        InputError: lists every item that cannot be asked, or says that the set has no texts at all.
    """
    problems: list[Problem] = []
    entries: Index = {}
    layouts: dict[tuple[str, ...], tuple[str, ...]] = {}

    def report(line: int, name: str, what: str) -> None:
        problems.append(Problem(f"{name} {what}", labels.file, line))

    for prompt in prompter(read_items(labels), report):
        digest = bytes.fromhex(prompt.sha256)
        length = sum(len(message["content"]) for message in prompt.messages)
        for question in prompt.questions:
            option_ids = layouts.setdefault(question.option_ids, question.option_ids)
            entries[question.id] = Entry(option_ids, digest, length)
    if problems:
        raise InputError(_summed_up(problems, entries, labels))
    return {name: entries[name] for name in labels.ids.to_pylist()}


def _summed_up(problems: list[Problem], entries: Index, labels: LabelSet) -> list[Problem]:
    if entries or not all("has no evidence" in problem.what for problem in problems):
        return problems
    return [Problem("holds no evidence: it can be scored, but not recorded", labels.file)]
