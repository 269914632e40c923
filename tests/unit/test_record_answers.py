"""Responses as real servers sent them (llama.cpp of November 2026, vLLM 0.32.0), and what they become.

tests/data/responses.json holds them without the prompt; the expected values are exp of the listed
log-probabilities, worked out by hand.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from evalkit.record.answers import Answer, read_decision
from evalkit.record.protocol import make_prompt
from tests.stub_server import LlamaCpp, Reply, Stub
from tests.unit.asking import item
from tests.unit.test_record_http import ask

RESPONSES: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "responses.json").read_text("utf-8")
)
PROMPT = make_prompt(item("q1"))


def read(name: str) -> Answer:
    """Read a recorded response as the decision on an item with two options."""
    found = RESPONSES[name]
    return read_decision(PROMPT, found["request"], found["body"], 0.5)


def test_llamacpp_response_is_the_share_of_its_letters() -> None:
    answer = read("llamacpp")
    a, b = math.exp(-0.48614180088043213), math.exp(-1.1921659708023071)
    (row,) = answer.rows
    assert row["probabilities"] == pytest.approx([a / (a + b), b / (a + b)], abs=1e-12)
    assert row["allowed_token_mass"] == pytest.approx(a + b, abs=1e-12)
    assert answer.fields == {
        "model": "model.gguf",
        "system_fingerprint": "b0-unknown",
        "input_tokens": 112,
        "cached_tokens": 0,
    }


def test_llamacpp_response_of_half_a_character_has_no_list() -> None:
    answer = read("llamacpp_half_a_character")
    assert answer.unlisted
    assert answer.rows[0]["status"] == "error"


def test_llamacpp_response_after_sampling_is_marked() -> None:
    (row,) = read("llamacpp_after_sampling").rows
    assert row["after_sampling"] is True
    assert row["probabilities"] == pytest.approx([0.6768718957901001, 0.3231280744075775], abs=1e-6)


def test_vllm_response_without_a_letter_leaves_it_a_range() -> None:
    # A is listed (-3.1714), B is not. The generated token stands first, so that B may hold as much as the
    # last of the others (-3.6714), not only as much as the generated one (-4.0464).
    (row,) = read("vllm").rows
    a, last = math.exp(-3.1713614463806152), math.exp(-3.6713614463806152)
    assert (row["choice"], row["censored"]) == ("yes", ["no"])
    assert row["probability_range"] == {
        "yes": pytest.approx([a / (a + last), 1]),
        "no": pytest.approx([0, last / (a + last)]),
    }


def test_vllm_response_with_named_tokens_has_every_letter() -> None:
    (row,) = read("vllm_named_tokens").rows
    a, b = math.exp(-3.1713614463806152), math.exp(-5.671361446380615)
    assert row["probabilities"] == pytest.approx([a / (a + b), b / (a + b)], abs=1e-12)
    assert row["allowed_token_mass"] == pytest.approx(a + b, abs=1e-12)


def test_vllm_response_with_masked_tokens_measures_only_the_letters() -> None:
    (row,) = read("vllm_masked").rows
    assert row["probabilities"] == pytest.approx([0.9241418, 0.0758582], abs=1e-6)


@pytest.mark.parametrize(
    ("name", "status"), [("vllm_no_alternatives", "missing_option"), ("vllm_token_numbers", "error")]
)
def test_vllm_response_that_shows_no_letter_is_no_decision(name: str, status: str) -> None:
    (row,) = read(name).rows
    assert row["status"] == status


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("llamacpp_context_exceeded", r"HTTP 400: request \(16092 tokens\) exceeds .* longer context"),
        ("vllm_over_limit", "HTTP 400: Requested sample logprobs of 21.*--top-logprobs 20"),
        (
            "vllm_unknown_model",
            "HTTP 404: The model `no-such-model` does not exist.*the server has stub-model",
        ),
        ("vllm_wrong_key", "HTTP 401: Unauthorized; it does not accept the key in EVALKIT_API_KEY"),
        ("vllm_dead_engine", r"no usable answer: HTTP 500: EngineCore encountered an issue.*after 3 tries"),
    ],
)
def test_recorded_refusals_are_explained(name: str, remedy: str) -> None:
    refusal = Reply(RESPONSES[name]["body"], RESPONSES[name]["status"])
    healthy = LlamaCpp()
    refused = pytest.raises(Exception, match=remedy)
    with Stub(lambda request: refusal if request.method == "POST" else healthy(request)) as stub, refused:
        ask(stub, PROMPT)
