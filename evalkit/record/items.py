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
    """What has to be known of an item while its set is recorded."""

    option_ids: tuple[str, ...]
    """Ids of the options, in prompt order."""
    messages_sha256: str
    """The hash of the messages that ask about it."""


@dataclass(frozen=True)
class Index:
    """All items of a set, without their texts."""

    entries: dict[str, Entry]
    """By id, in label-set order."""
    longest: dict[str, int]
    """Characters of the messages by id: the longest prompt is the one most likely to be refused."""


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
    places: dict[str, tuple[Entry, int]] = {}

    def report(line: int, name: str, what: str) -> None:
        problems.append(Problem(f"{name} {what}", labels.file, line))

    for prompt in prompter(read_items(labels), report):
        digest = prompt.sha256
        length = sum(len(message["content"]) for message in prompt.messages)
        for question in prompt.questions:
            places[question.id] = (Entry(question.option_ids, digest), length)
    if problems:
        raise InputError(_summed_up(problems, places, labels))
    order = [name for name in labels.ids.to_pylist() if name in places]
    return Index({name: places[name][0] for name in order}, {name: places[name][1] for name in order})


def _summed_up(problems: list[Problem], places: dict[str, Any], labels: LabelSet) -> list[Problem]:
    if places or not all("has no evidence" in problem.what for problem in problems):
        return problems
    return [Problem("holds no evidence: it can be scored, but not recorded", labels.file)]
