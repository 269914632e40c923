"""The generated alternative: one array an evidence, and nothing repaired."""

from __future__ import annotations

from typing import Any

import pytest

from evalkit.record.array import array_prompts, read_array, request_body
from evalkit.record.items import index_prompts
from evalkit.record.protocol import Prompt, RequestOptions
from tests.conftest import Maker
from tests.unit.asking import item


def prompts_of(*found: dict[str, Any]) -> tuple[list[Prompt], list[str]]:
    """Make the prompts of items, and say what cannot be asked."""
    problems: list[str] = []
    located = list(enumerate(found, 1))
    prompts = list(array_prompts(located, lambda line, name, what: problems.append(f"{line} {name} {what}")))
    return prompts, problems


THREE = prompts_of(
    item("a", evidence="one"), item("b", evidence="one", criterion="Another?"), item("c", evidence="one")
)[0][0]


def read(text: Any, prompt: Prompt = THREE) -> list[dict[str, Any]]:
    """Read an answer's text."""
    body = {"model": "m", "choices": [{"message": {"content": text}}], "usage": {"prompt_tokens": 9}}
    return list(read_array(prompt, request_body(prompt, RequestOptions()), body, 0.1).rows)


def test_items_that_share_an_evidence_are_one_prompt() -> None:
    one, two = item("a", evidence={"x": 1, "y": 2}), item("c", evidence={"y": 2, "x": 1})
    prompts, problems = prompts_of(one, item("b"), two)
    assert [[question.id for question in prompt.questions] for prompt in prompts] == [["a", "c"], ["b"]]
    assert problems == []
    assert (
        prompts[0]
        .messages[1]["content"]
        .startswith('{"evidence": {"x": 1, "y": 2}, "questions": [{"criterion"')
    )
    assert "SECRET" not in str(prompts[0].messages)


def test_items_that_cannot_be_asked_are_reported() -> None:
    prompts, problems = prompts_of(
        item("a", evidence=None), item("b"), item("c", evidence="\ud83d"), item("d", criterion="\ud83d")
    )
    assert [prompt.questions[0].id for prompt in prompts] == ["b"]
    assert [problem.partition(" has")[0].partition(" holds")[0] for problem in problems] == [
        "1 a",
        "3 c",
        "4 d",
    ]


def test_index_of_array_prompts_gives_all_items_of_one_the_same_hash(make: Maker) -> None:
    labels = make.labels([item("a", evidence="one"), item("b"), item("c", evidence="one")])
    entries = index_prompts(labels, array_prompts)
    assert list(entries) == ["a", "b", "c"]
    assert entries["a"].messages_sha256 == entries["c"].messages_sha256 != entries["b"].messages_sha256


def test_request_leaves_room_for_the_array_and_wants_no_log_probabilities() -> None:
    body = request_body(THREE, RequestOptions("m"))
    assert (body["max_tokens"], body["temperature"]) == (28, 0.0)
    assert "logprobs" not in body


@pytest.mark.parametrize("text", ['["A","B","A"]', ' ["A", "B", "A"]\n', '```json\n["A","B","A"]\n```'])
def test_array_of_letters_is_one_choice_an_item(text: str) -> None:
    assert read(text) == [
        {"option_ids": ["yes", "no"], "choice": "yes"},
        {"option_ids": ["yes", "no"], "choice": "no"},
        {"option_ids": ["yes", "no"], "choice": "yes"},
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('["A","B"]', 'the array has 2 answers for 3 questions: \'["A","B"]\''),
        ('["A","B","A","A"]', 'the array has 4 answers for 3 questions: \'["A","B","A","A"]\''),
        ('["A","C","A"]', 'answer 2 of the array is "C", none of A, B'),
        ('["A","","A"]', 'answer 2 of the array is "", none of A, B'),
        ('["A","AB","A"]', 'answer 2 of the array is "AB", none of A, B'),
        ('["A","B",null]', "answer 3 of the array is null, none of A, B"),
        ('["A","B",["A"]]', 'answer 3 of the array is ["A"], none of A, B'),
        ('{"1": "A"}', 'the answer is no JSON array: \'{"1": "A"}\''),
        ("A, B, A", "the answer is no JSON array: 'A, B, A'"),
        ("A" * 99, "the answer is no JSON array: '" + "A" * 57 + "...'"),
        ("", "the answer is no JSON array: ''"),
        (None, "the answer is no JSON array: ''"),
    ],
)
def test_array_that_is_not_exactly_one_letter_a_question_is_invalid(text: str | None, reason: str) -> None:
    rows = read(text)
    assert rows == [{"option_ids": ["yes", "no"], "status": "invalid", "error": reason}] * 3


def test_error_body_is_a_failure_of_every_item() -> None:
    answer = read_array(THREE, {}, {"error": {"message": "engine is dead"}}, 0.1)
    assert [(row["status"], row["error"]) for row in answer.rows] == [("error", "engine is dead")] * 3
    assert answer.fields["array_size"] == 3
