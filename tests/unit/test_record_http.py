"""The backend behind an address: how each kind of server is asked, and what its answers become."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from evalkit.record.answers import Answer
from evalkit.record.backend import Described
from evalkit.record.client import Client
from evalkit.record.endpoint import Endpoint, Secret
from evalkit.record.errors import BackendError, RequestFailedError
from evalkit.record.http import HttpBackend, HttpOptions
from evalkit.record.modes import MODES
from evalkit.record.protocol import Prompt, RequestOptions, make_prompt
from tests.stub_server import LlamaCpp, Ollama, Reply, Request, Server, SgLang, Stub, Tgi, Vllm
from tests.unit.asking import AT_ONCE, item, wait_for

KEY = "sk-harbour-4711-lantern"
PROMPT = make_prompt(item("q1"))
WIDE = make_prompt(item("wide", options=[{"id": f"o{n}", "description": f"Way {n}."} for n in range(16)]))


def ask(stub: Stub, *prompts: Prompt, probe: bool = True, **options: Any) -> tuple[list[Answer], Described]:
    """Ask prompts, the first one as a probe; return the answers, and what the backend says of itself."""
    request = RequestOptions(
        **{key: options.pop(key) for key in list(options) if key in ("model", "plain", "top_logprobs")}
    )

    async def work() -> tuple[list[Answer], Described]:
        async with Client(Endpoint.parse(stub.url), Secret(KEY), AT_ONCE) as client:
            backend = HttpBackend(client, MODES["letter"], HttpOptions(request, **options))
            await backend.open()
            answers = [
                await (backend.probe if probe and not place else backend.ask)(prompt)
                for place, prompt in enumerate(prompts)
            ]
            await backend.close()
            return answers, backend.described()

    return wait_for(work())


@pytest.mark.parametrize("server", [LlamaCpp, Vllm, SgLang, Ollama, Server])
def test_decision_is_the_same_from_every_server(server: type[Server]) -> None:
    with Stub(server()) as stub, Stub(LlamaCpp()) as reference:
        (answer,), _ = ask(stub, PROMPT)
        (expected,), _ = ask(reference, PROMPT)
    row, wanted = answer.rows[0], expected.rows[0]
    assert row["option_ids"] == ["yes", "no"]
    assert row["probabilities"] == pytest.approx(wanted["probabilities"], abs=1e-12)
    assert row["allowed_token_mass"] == pytest.approx(0.9)
    assert answer.fields["model"] == "stub-model"
    assert answer.fields["input_tokens"] > 0


def test_tgi_refuses_eight_alternatives_and_takes_five() -> None:
    with Stub(Tgi()) as stub:
        with pytest.raises(BackendError, match=r"HTTP 422: .* ask for fewer alternatives: --top-logprobs 5"):
            ask(stub, PROMPT)
        (answer,), _ = ask(stub, PROMPT, top_logprobs=5)
    assert answer.rows[0]["allowed_token_mass"] == pytest.approx(0.9)


def test_request_goes_to_the_served_model_with_the_key() -> None:
    with Stub() as stub:
        ask(stub, PROMPT)
    (request,) = stub.asked
    assert request.body["model"] == "stub-model"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert "cache_prompt" not in request.body


def test_repeatable_requests_to_llamacpp_keep_out_of_the_cache() -> None:
    with Stub(LlamaCpp(cached=7)) as stub:
        (cached,), _ = ask(stub, PROMPT)
        (fresh,), described = ask(stub, PROMPT, repeatable=True)
    assert (cached.fields["cached_tokens"], fresh.fields["cached_tokens"]) == (7, 0)
    assert stub.asked[-1].body["cache_prompt"] is False
    assert described.options == {"seed": 0, "cache_prompt": False}


def test_repeatable_requests_to_vllm_have_a_salt_of_their_own() -> None:
    with Stub(Vllm()) as stub:
        _, described = ask(stub, PROMPT, PROMPT, repeatable=True)
    first, second = (request.body["cache_salt"] for request in stub.asked)
    assert first != second
    assert len(first) > 40
    assert described.options["cache_salt"] == "new for each request"


def test_plain_requests_have_no_field_that_is_not_openais() -> None:
    with Stub(Vllm()) as stub:
        _, described = ask(stub, PROMPT, plain=True, repeatable=True)
    assert set(stub.asked[0].body) == {
        "model",
        "messages",
        "max_tokens",
        "temperature",
        "logprobs",
        "top_logprobs",
    }
    assert described.options == {}
    assert described.notices == (
        "the server's prompt cache was not left out (the request is plain): a second recording may differ in "
        "the last digits",
    )


@pytest.mark.parametrize("server", [SgLang, Ollama, Tgi, Server])
def test_cache_that_cannot_be_left_out_is_said(server: type[Server]) -> None:
    with Stub(server()) as stub:
        _, described = ask(stub, PROMPT, repeatable=True, top_logprobs=5)
        _, usual = ask(stub, PROMPT, top_logprobs=5)
    assert "no known switch" in described.notices[0]
    assert usual.notices == ()


@pytest.mark.parametrize("server", [LlamaCpp, Vllm])
def test_cache_that_was_left_out_needs_no_word(server: type[Server]) -> None:
    with Stub(server()) as stub:
        assert ask(stub, PROMPT, repeatable=True)[1].notices == ()


def test_vllm_is_asked_for_the_letters_by_number() -> None:
    with Stub(Vllm(mass=0.001)) as stub:
        (answer,), described = ask(stub, PROMPT)
    # A, A with a space, B, B with a space, as the stub numbers them.
    assert stub.asked[0].body["logprob_token_ids"] == [32, 132, 33, 133]
    assert stub.asked[0].body["top_logprobs"] == 4
    assert described.options["logprob_token_ids"]["P"] == [47, 147]
    assert answer.rows[0]["allowed_token_mass"] == pytest.approx(0.001)


def test_vllm_that_does_not_know_named_tokens_gives_its_list() -> None:
    with Stub(Vllm(mass=0.001, knows_names=False)) as stub:
        (answer,), described = ask(stub, PROMPT)
    assert "logprob_token_ids" not in stub.asked[-1].body
    assert "logprob_token_ids" not in described.options
    assert [request.body["top_logprobs"] for request in stub.asked] == [4, 8]
    assert "probabilities" in answer.rows[0]


def test_vllm_that_refuses_too_many_named_tokens_gives_its_list() -> None:
    with Stub(Vllm()) as stub:
        (answer,), _ = ask(stub, WIDE)
    assert [request.body["top_logprobs"] for request in stub.asked] == [32, 20]
    assert len(answer.rows[0]["probabilities"]) == 16


def test_vllm_is_asked_for_its_list_only_where_there_are_too_many_letters() -> None:
    with Stub(Vllm()) as stub:
        (_, wide, again, narrow), described = ask(stub, PROMPT, WIDE, WIDE, PROMPT)
    assert [request.body["top_logprobs"] for request in stub.asked] == [4, 32, 20, 20, 4]
    assert [len(answer.rows[0]["probabilities"]) for answer in (wide, again, narrow)] == [16, 16, 2]
    assert described.options["most_logprob_token_ids"] == 31


def test_vllm_that_refuses_a_prompt_is_asked_by_number_the_next_time() -> None:
    vllm = Vllm()
    too_long = Reply({"error": {"message": "This model's maximum context length is 2048 tokens."}}, 400)

    def answer(request: Request) -> Reply:
        is_second = request.path.endswith("/chat/completions") and request.number in (1, 2)
        return too_long if is_second else vllm(request)

    async def work() -> Described:
        async with Client(Endpoint.parse(stub.url), Secret(KEY), AT_ONCE) as client:
            backend = HttpBackend(client, MODES["letter"], HttpOptions(RequestOptions(), keep_going=True))
            await backend.open()
            await backend.probe(PROMPT)
            with pytest.raises(RequestFailedError, match="maximum context length"):
                await backend.ask(PROMPT)
            await backend.ask(PROMPT)
            return backend.described()

    with Stub(answer) as stub:
        described = wait_for(work())
    assert [request.body["top_logprobs"] for request in stub.asked] == [4, 4, 8, 4]
    assert "most_logprob_token_ids" not in described.options


@pytest.mark.parametrize("server", [LlamaCpp, Vllm])
@pytest.mark.parametrize("tokens", [[1, 2], [32]])
def test_letters_that_are_not_one_token_of_their_own_are_named(
    server: type[Server], tokens: list[int]
) -> None:
    healthy = server()

    def answer(request: Request) -> Reply:
        text = request.path == "/tokenize" and request.body.get("content", request.body.get("prompt"))
        return Reply({"tokens": tokens}) if text in ("C", "P") else healthy(request)

    with Stub(answer) as stub:
        (answer_to,), described = ask(stub, PROMPT)
    assert "logprob_token_ids" not in described.options
    assert "not one token of their own for the server's tokenizer: C, P;" in described.notices[0]
    assert answer_to.rows[0]["allowed_token_mass"] == pytest.approx(0.9)


@pytest.mark.parametrize(
    "tokens", [Reply(b"", 404), Reply({"tokens": [1, 2]}), Reply({"tokens": "no"}), Reply(b"no"), Reply([])]
)
def test_vllm_without_a_usable_tokenizer_gives_its_list(tokens: Reply) -> None:
    vllm = Vllm()
    with Stub(lambda request: tokens if request.path == "/tokenize" else vllm(request)) as stub:
        (answer,), _ = ask(stub, PROMPT)
    assert "logprob_token_ids" not in stub.asked[0].body
    assert answer.rows[0]["allowed_token_mass"] == pytest.approx(0.9)


def test_vllm_letter_with_a_space_that_is_several_tokens_is_asked_for_without() -> None:
    vllm = Vllm()

    def answer(request: Request) -> Reply:
        if request.path == "/tokenize" and request.body["prompt"].startswith(" "):
            return Reply({"tokens": [1, 2]})
        return vllm(request)

    with Stub(answer) as stub:
        _, described = ask(stub, PROMPT)
    assert described.options["logprob_token_ids"]["A"] == [32]


def test_model_that_the_server_does_not_have_is_refused() -> None:
    # llama.cpp ignores the name in the request and answers with what it has.
    refused = pytest.raises(BackendError, match="asked for the model 'other', but 'stub-model' answers")
    with Stub(LlamaCpp()) as stub, refused:
        ask(stub, PROMPT, model="other")


def test_model_with_a_tag_is_found_without_it() -> None:
    with Stub(Ollama("qwen")) as stub:
        ask(stub, PROMPT, model="qwen")
    assert stub.asked[0].body["model"] == "qwen"


def nothing_listed(server: Server, times: int) -> Callable[[Request], Reply]:
    """Answer the first requests without log-probabilities, as llama.cpp does where half a character comes."""

    def answer(request: Request) -> Reply:
        reply = server(request)
        if request.path.endswith("/chat/completions") and request.number < times:
            del reply.body["choices"][0]["logprobs"]
        return reply

    return answer


def test_answer_without_list_is_asked_again_at_temperature_zero() -> None:
    with Stub(nothing_listed(LlamaCpp(), 1)) as stub:
        (answer,), described = ask(stub, PROMPT)
    assert [request.body["temperature"] for request in stub.asked] == [1.0, 0]
    assert answer.rows[0]["allowed_token_mass"] == pytest.approx(0.9)
    assert described.options["repeated_at_temperature_0"] == 1


def test_server_without_log_probabilities_is_found_out_by_the_probe() -> None:
    with (
        Stub(nothing_listed(LlamaCpp(), 99)) as stub,
        pytest.raises(BackendError, match="no probabilities recorded"),
    ):
        ask(stub, PROMPT)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(b"<html>"), "no usable answer: HTTP 200, but the answer is no JSON: <html>"),
        (Reply(b"", 500), r"no usable answer: HTTP 500: Whatever \(after 3 tries\)"),
        (Reply({"error": {"message": "engine is dead"}}), "engine is dead"),
        (Reply({"strange": 1}), r"unknown response shape \(keys: strange\)"),
        (Reply([1]), "unknown response shape"),
        (Reply({"choices": []}), "no choices"),
        (Reply({"error": "bad"}, 401), "HTTP 401: bad; it does not accept the key"),
    ],
)
def test_probe_says_at_once_what_is_wrong(reply: Reply, reason: str) -> None:
    server = LlamaCpp()
    answer = lambda request: reply if request.path.endswith("/chat/completions") else server(request)  # noqa: E731
    with Stub(answer) as stub, pytest.raises(BackendError, match=reason) as caught:
        ask(stub, PROMPT)
    assert stub.url in str(caught.value)


def refusing_second(request: Request) -> Reply:
    """Refuse the second prompt."""
    if request.path.endswith("/chat/completions") and request.number == 1:
        return Reply({"error": {"message": "request exceeds the available context size"}}, 400)
    return LlamaCpp()(request)


def test_refusal_in_the_middle_stops_and_names_the_item() -> None:
    refused = pytest.raises(BackendError, match=r"item wide: the server refuses: HTTP 400: .*--keep-going")
    with Stub(refusing_second) as stub, refused:
        ask(stub, PROMPT, WIDE)


def test_refusal_in_the_middle_is_one_failed_decision_where_that_was_wished() -> None:
    refused = pytest.raises(RequestFailedError, match="HTTP 400: request exceeds")
    with Stub(refusing_second) as stub, refused:
        ask(stub, PROMPT, WIDE, keep_going=True)


def test_refusal_of_the_probe_is_one_failed_decision_where_that_was_wished() -> None:
    server = LlamaCpp()
    refusal = Reply({"error": "too long"}, 400)
    refused = pytest.raises(RequestFailedError, match="HTTP 400: too long")
    with Stub(lambda request: refusal if request.method == "POST" else server(request)) as stub, refused:
        ask(stub, PROMPT, keep_going=True)


def test_wrong_key_stops_also_where_refusals_are_failed_decisions() -> None:
    server = LlamaCpp()
    refusal = Reply({"error": "no"}, 401)
    refused = pytest.raises(BackendError, match="does not accept the key")
    with Stub(lambda request: refusal if request.method == "POST" else server(request)) as stub, refused:
        ask(stub, PROMPT, keep_going=True)


def test_key_that_a_server_echoes_gets_into_no_row() -> None:
    class Echo(LlamaCpp):
        fingerprint = f"fp-{KEY}"

    with Stub(Echo(f"model-{KEY}")) as stub:
        answers, described = ask(stub, PROMPT)
    assert KEY not in repr(answers) + repr(described)
    assert answers[0].fields["system_fingerprint"] == "fp-***"
