"""What a server says of itself, and what its refusals mean."""

from __future__ import annotations

from typing import Any

import pytest

from evalkit.errors import UsageError
from evalkit.record.client import Client
from evalkit.record.endpoint import Endpoint, Secret
from evalkit.record.errors import BackendError, RefusedError
from evalkit.record.servers import Served, check_answerer, explained, look
from tests.stub_server import LlamaCpp, Ollama, Reply, Request, Server, SgLang, Stub, Tgi, Vllm
from tests.unit.asking import AT_ONCE, wait_for

KEY = "sk-harbour-4711-lantern"


def look_at(stub: Stub, model: str | None = None) -> Served:
    """Look at a stub's models."""

    async def work() -> Served:
        async with Client(Endpoint.parse(stub.url), Secret(KEY), AT_ONCE) as client:
            return await look(client, model)

    return wait_for(work())


def remedy(status: int, words: str, *, key: str = "", served: Served | None = None) -> str:
    """Explain a refusal."""

    async def work() -> str:
        async with Client(Endpoint.parse("http://h"), Secret(key)) as client:
            return str(explained(RefusedError(status, words), client, served, "q1"))

    return wait_for(work())


@pytest.mark.parametrize(
    ("server", "kind", "runtime"),
    [
        (Vllm(), "vLLM", {"name": "vLLM", "version": "0.32.0"}),
        (SgLang(), "SGLang", {"name": "SGLang"}),
        (Ollama(), "Ollama", {"name": "Ollama", "version": "0.15.1"}),
        (Tgi(), "TGI", {"name": "TGI", "version": "3.3.5"}),
        (Server(), "", {}),
    ],
)
def test_look_tells_the_kind_of_server_and_its_version(
    server: Server, kind: str, runtime: dict[str, Any]
) -> None:
    with Stub(server) as stub:
        served = look_at(stub)
    assert (served.kind, served.runtime_facts) == (kind, runtime)


def test_look_at_llamacpp_keeps_no_path_of_the_server() -> None:
    with Stub(LlamaCpp()) as stub:
        served = look_at(stub)
    assert served.model == "stub-model"
    assert served.model_facts["file"] == "stub.gguf"
    assert served.model_facts["ftype"] == "Q4_K - Medium"
    assert served.runtime_facts["post_sampling_probs"] is False
    assert len(served.runtime_facts["chat_template_sha256"]) == 64
    assert "/srv" not in str(served)


def test_look_at_vllm_keeps_length_and_name_of_the_model() -> None:
    with Stub(Vllm()) as stub:
        assert look_at(stub).model_facts == {
            "id": "stub-model",
            "owned_by": "vllm",
            "root": "stub",
            "max_model_len": 2048,
        }


def test_look_without_model_where_there_are_several_names_them() -> None:
    entries = [{"id": "a"}, {"id": "b"}]
    with Stub(lambda _: Reply({"data": entries})) as stub:
        with pytest.raises(UsageError, match="--model: name the model to record; the server has a, b"):
            look_at(stub)
        assert look_at(stub, "b").listed


def test_look_at_a_server_without_list_needs_a_name() -> None:
    with Stub(lambda _: Reply(b"", 404)) as stub:
        with pytest.raises(UsageError, match="does not say which ones it has"):
            look_at(stub)
        served = look_at(stub, "m")
    assert (served.model, served.listed, served.names) == ("m", False, ())


@pytest.mark.parametrize("body", [{"data": None}, {"data": [1, {"id": 2}]}, [], {"models": []}])
def test_look_at_a_strange_list_finds_no_models(body: Any) -> None:
    with Stub(lambda _: Reply(body)) as stub:
        assert look_at(stub, "m").names == ()


def test_look_at_an_address_where_nothing_answers() -> None:
    with Stub() as stub:
        pass
    with pytest.raises(BackendError, match=r"nothing answers at .* is the server running"):
        look_at(stub)


def test_look_at_a_server_that_is_still_loading() -> None:
    loading = Reply({"error": {"message": "Loading model", "code": 503}}, 503)
    with (
        Stub(lambda _: loading) as stub,
        pytest.raises(BackendError, match=r"/models: HTTP 503: Loading model"),
    ):
        look_at(stub)


def test_look_with_a_wrong_key_does_not_show_it() -> None:
    refused = pytest.raises(BackendError, match="does not accept the key in EVALKIT_API_KEY")
    with Stub(lambda _: Reply({"error": f"no such key {KEY}"}, 401)) as stub, refused as caught:
        look_at(stub)
    assert KEY not in str(caught.value)


def test_look_masks_a_key_that_the_server_tells_about_itself() -> None:
    def answer(request: Request) -> Reply:
        if request.path == "/v1/models":
            return Reply({"data": [{"id": "m", "owned_by": "llamacpp", "meta": {"ftype": KEY}}]})
        return Reply({"build_info": KEY})

    with Stub(answer) as stub:
        assert KEY not in str(look_at(stub))


def test_look_shows_no_model_name_that_holds_the_key() -> None:
    entries = [{"id": f"m-{KEY}"}, {"id": "b"}]
    with Stub(lambda _: Reply({"data": entries})) as stub:
        with pytest.raises(UsageError, match=r"the server has m-\*\*\*, b"):
            look_at(stub)
        served = look_at(stub, f"m-{KEY}")
    assert (served.listed, served.names) == (True, ("m-***", "b"))


def test_answerer_that_is_listed_aliased_or_dated_is_accepted() -> None:
    check_answerer(Served("m", listed=True), "/models/m.gguf")
    check_answerer(Served("m", names=("m-1", "m", "x"), aliases=("m-1", "m"), listed=True), "m-1")
    check_answerer(Served("alias", names=("m", "alias"), aliases=("m", "alias"), listed=True), "m")
    check_answerer(Served("gpt-small", names=("gpt",)), "gpt-small-2026-11-30")
    check_answerer(Served("m"), None)


def test_answerer_that_is_another_model_is_refused() -> None:
    with pytest.raises(
        BackendError, match=r"asked for the model 'm', but 'x' answers; the server has x, y: name one"
    ):
        check_answerer(Served("m", names=("x", "y")), "x")


@pytest.mark.parametrize(
    ("status", "words", "expected"),
    [
        # The words are those of recorded responses of vLLM 0.32, llama.cpp and TGI 3.3.
        (401, "Unauthorized", "put its API key into EVALKIT_API_KEY"),
        (
            404,
            "The model `m` does not exist. Valid aliases: smol.",
            "does not say which ones it has; name one with --model",
        ),
        (400, "This model's maximum context length is 2048 tokens. However", "longer context"),
        (400, "request (16092 tokens) exceeds the available context size (1024 tokens)", "longer context"),
        (400, "Requested sample logprobs of 21, which is greater than max allowed: 20", "--top-logprobs 20"),
        (422, "Input validation error: `top_n_tokens` must be >= 0 and <= 5. Given: 8", "--top-logprobs 5"),
        (400, "top_logprobs 50 is above this server's limit of 20", "--top-logprobs 20"),
        (400, "This model does not support logprobs", "--mode array"),
        (400, "Unknown parameter: 'chat_template_kwargs'.", "--plain-request"),
        (422, "Extra inputs are not permitted", "--plain-request"),
        (404, "File Not Found", "ends in /v1"),
        (400, "bad", "HTTP 400: bad"),
    ],
)
def test_refusal_is_explained_with_a_remedy(status: int, words: str, expected: str) -> None:
    told = remedy(status, words)
    assert words in told
    assert "http://h/v1, item q1: the server refuses" in told
    assert expected in told


def test_refusal_of_an_unknown_model_lists_the_served_ones() -> None:
    many = tuple(f"m{number}" for number in range(25))
    assert "the server has a, b; name one" in remedy(
        404, "model not found", served=Served("m", names=("a", "b"))
    )
    assert "m19, ...; name one" in remedy(404, "model not found", served=Served("m", names=many))


def test_answerer_that_is_another_listed_model_is_refused() -> None:
    served = Served("big", names=("big", "small"), aliases=("big",), listed=True)
    with pytest.raises(BackendError, match="asked for the model 'big', but 'small' answers"):
        check_answerer(served, "small")


def test_look_tells_the_names_of_the_model_from_those_of_others() -> None:
    entries = [{"id": "a", "aliases": ["first", KEY]}, {"id": "b"}]
    with Stub(lambda _: Reply({"data": entries})) as stub:
        served = look_at(stub, "first")
    assert (served.names, served.aliases) == (("a", "first", "***", "b"), ("a", "first", "***"))
