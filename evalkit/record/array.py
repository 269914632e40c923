"""The generated alternative: all items on one evidence are answered as one compact JSON array of letters.

Nothing is repaired: an array of the wrong length, or with anything in it that is not a letter of its item,
makes all its items invalid. Only a code fence around the array and blanks are looked through.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from evalkit.readings import Failure
from evalkit.record.answers import Answer, Fields, failed
from evalkit.record.items import Located, Report
from evalkit.record.protocol import (
    NotAskableError,
    Parts,
    Prompt,
    Question,
    RequestOptions,
    messages_of,
    parts_of,
    with_options,
)
from evalkit.shapes import readings, row_fields
from evalkit.values import at

NAME = "semif-array/1"
"""Name of the protocol, as it stands in a run's sidecar."""
SYSTEM = (
    "Apply each supplied criterion to the supplied evidence. For each question, choose exactly one of its "
    "listed options. Respond with only one compact JSON array that holds the uppercase letters of the chosen "
    "options, one for each question in order, with no explanation or reasoning."
)
"""The system message, verbatim."""
RULE = "array/1"
"""Name of the rule by which answers are read."""
RULE_TEXT = (
    "the answer is one JSON array with exactly one letter for each question, in order; an array of "
    "another length or with any other value makes every one of its decisions invalid"
)
"""The written rule by which answers are read, recorded with every run."""
TEMPERATURE = 0.0
TOKENS_AN_ANSWER, SPARE_TOKENS = 4, 16
"""Room for a letter with its quotes and comma, and for brackets and a code fence."""
SHOWN_CHARACTERS = 60

_FENCED = re.compile(r"```(?:json)?\s*(.*?)\s*```", re.DOTALL)


def array_prompts(items: Iterable[Located], report: Report) -> Iterator[Prompt]:
    """Yield one prompt an evidence, with all items that share it, in the order of their first one."""
    groups: dict[str, list[Parts]] = {}
    for line, item in items:
        try:
            parts = parts_of(item)
            _prompt([parts])  # made alone, it shows which item cannot be sent
        except NotAskableError as error:
            report(line, str(item["id"]), str(error))
            continue
        evidence = json.dumps(parts.evidence, ensure_ascii=False, sort_keys=True)
        groups.setdefault(evidence, []).append(parts)
    for group in groups.values():
        yield _prompt(group)


def _prompt(group: list[Parts]) -> Prompt:
    asked = [{"criterion": parts.criterion, "options": parts.options} for parts in group]
    payload = {"evidence": group[0].evidence, "questions": asked}
    return Prompt(tuple(parts.question for parts in group), messages_of(SYSTEM, payload))


def request_body(prompt: Prompt, options: RequestOptions) -> dict[str, Any]:
    """Return the body of the request for an array of answers."""
    room = SPARE_TOKENS + TOKENS_AN_ANSWER * len(prompt.questions)
    return with_options(prompt.messages, {"max_tokens": room, "temperature": TEMPERATURE}, options)


def read_array(prompt: Prompt, request: Mapping[str, Any], body: Any, seconds: float) -> Answer:
    """Read the decisions on all questions of a prompt.

    Args:
        prompt: the prompt.
        request: the body of the request.
        body: the parsed body of the response.
        seconds: how long the answer took.
    """
    fields = {**row_fields(body), "array_size": len(prompt.questions)}
    reading = readings(body, request)[0]
    if isinstance(reading, Failure):
        rows = tuple(failed(question.option_ids, reading.reason) for question in prompt.questions)
        return Answer(rows, seconds, fields=fields)
    text = at(body, "choices", 0, "message", "content")
    rows = _decisions(prompt.questions, text if isinstance(text, str) else "")
    return Answer(rows, seconds, fields=fields)


def _decisions(questions: tuple[Question, ...], text: str) -> tuple[Fields, ...]:
    letters, reason = _letters(questions, text)
    if reason:
        return tuple(
            {"option_ids": list(question.option_ids), "status": "invalid", "error": reason}
            for question in questions
        )
    return tuple(
        {
            "option_ids": list(question.option_ids),
            "choice": question.option_ids[question.letters.index(letter)],
        }
        for question, letter in zip(questions, letters, strict=True)
    )


def _letters(questions: tuple[Question, ...], text: str) -> tuple[list[str], str]:
    """Return the letters of an array, or what is wrong with it."""
    shown = repr(text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "...")
    fenced = _FENCED.fullmatch(text.strip())
    try:
        found = json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        return [], f"the answer is no JSON array: {shown}"
    if not isinstance(found, list):
        return [], f"the answer is no JSON array: {shown}"
    if len(found) != len(questions):
        return [], f"the array has {len(found)} answers for {len(questions)} questions: {shown}"
    for place, (question, value) in enumerate(zip(questions, found, strict=True), 1):
        if not (isinstance(value, str) and len(value) == 1 and value in question.letters):
            letters = ", ".join(question.letters)
            return [], f"answer {place} of the array is {json.dumps(value)[:20]}, none of {letters}"
    return found, ""
