"""The protocol: what gets into a prompt, byte for byte, and what never does."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from evalkit.record.protocol import (
    LETTERS,
    NotAskableError,
    RequestOptions,
    make_prompt,
    messages_sha256,
    request_body,
    text_sha256,
)
from tests.unit.asking import item


def test_prompt_of_an_item_is_the_published_one() -> None:
    # The bytes that json.dumps(payload, ensure_ascii=False) gives in the published scorer (core.py).
    prompt = make_prompt(item("q1", evidence='沈 "A"\n', criterion="é?"))
    assert prompt.messages == (
        {
            "role": "system",
            "content": "Apply the supplied criterion to the supplied evidence. Choose exactly one listed "
            "option. Respond with only its uppercase letter, with no explanation or reasoning.",
        },
        {
            "role": "user",
            "content": '{"evidence": "沈 \\"A\\"\\n", "criterion": "é?", "options": [{"letter": "A", '
            '"description": "It names one."}, {"letter": "B", "description": "It names none."}]}',
        },
    )


def test_prompt_holds_neither_label_nor_rationale_nor_tags_nor_ids() -> None:
    (system, user) = make_prompt(item("q1", options=_options("SECRET-A", "SECRET-B"))).messages
    assert "SECRET" not in system["content"] + user["content"]
    assert set(json.loads(user["content"])) == {"evidence", "criterion", "options"}


def test_prompt_with_evidence_as_an_object_keeps_its_order() -> None:
    prompt = make_prompt(item("q1", evidence={"b": 1, "a": [True, None]}))
    assert prompt.messages[1]["content"].startswith('{"evidence": {"b": 1, "a": [true, null]}, "criterion"')


def test_letters_of_sixteen_options_go_from_a_to_p() -> None:
    prompt = make_prompt(item("q1", options=_options(*(f"o{number}" for number in range(16)))))
    listed = json.loads(prompt.messages[1]["content"])["options"]
    assert "".join(option["letter"] for option in listed) == LETTERS == "ABCDEFGHIJKLMNOP"
    assert prompt.questions[0].letters == LETTERS


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"evidence": None}, "no evidence"),
        ({"evidence": ""}, "no evidence"),
        ({"evidence": 7}, "no evidence"),
        ({"criterion": " "}, "no criterion"),
        ({"criterion": None}, "no criterion"),
        ({"options": [{"id": "yes", "description": "x"}]}, "1 options"),
        ({"options": [{"id": f"o{n}", "description": "x"} for n in range(17)]}, "17 options"),
        ({"options": [{"id": "yes", "description": "x"}, {"id": "no"}]}, "'no' has no description"),
        ({"evidence": "half \ud83d of an emoji"}, "no request can carry"),
    ],
)
def test_item_that_cannot_be_asked_is_refused(change: dict[str, Any], what: str) -> None:
    with pytest.raises(NotAskableError, match=what):
        make_prompt(item("q1", **change))


def test_messages_sha256_is_over_canonical_json() -> None:
    messages = [{"role": "user", "content": "é"}]
    canonical = '[{"content":"é","role":"user"}]'
    assert messages_sha256(messages) == hashlib.sha256(canonical.encode("utf-8")).hexdigest()
    assert make_prompt(item("q1")).sha256 == make_prompt(item("q1", label="no")).sha256
    assert make_prompt(item("q1")).sha256 != make_prompt(item("q1", criterion="Other?")).sha256


def test_text_sha256_of_a_rendered_prompt_is_the_published_digest() -> None:
    # hashlib.sha256(text.encode()).hexdigest(), the digest() of the published scorer (core.py).
    assert text_sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_request_asks_for_one_token_and_eight_alternatives() -> None:
    prompt = make_prompt(item("q1"))
    assert request_body(prompt, RequestOptions("m")) == {
        "model": "m",
        "messages": list(prompt.messages),
        "max_tokens": 1,
        "temperature": 1.0,
        "logprobs": True,
        "top_logprobs": 8,
        "chat_template_kwargs": {"enable_thinking": False},
    }


@pytest.mark.parametrize(("options", "entries"), [(2, 8), (4, 8), (5, 9), (16, 20)])
def test_request_asks_for_more_alternatives_where_there_are_more_options(options: int, entries: int) -> None:
    prompt = make_prompt(item("q1", options=_options(*map(str, range(options)))))
    assert request_body(prompt, RequestOptions())["top_logprobs"] == entries


def test_request_with_wishes_takes_them_all() -> None:
    body = request_body(make_prompt(item("q1")), RequestOptions("m", 5, extra={"cache_prompt": False}))
    assert (body["top_logprobs"], body["cache_prompt"]) == (5, False)


def test_plain_request_has_only_standard_fields() -> None:
    body = request_body(make_prompt(item("q1")), RequestOptions(plain=True, extra={"cache_prompt": False}))
    assert set(body) == {"messages", "max_tokens", "temperature", "logprobs", "top_logprobs"}


def _options(*names: str) -> list[dict[str, str]]:
    return [{"id": name, "description": "a description"} for name in names]
