"""The llama.cpp engine inside this process, played by the stub's llama.cpp."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from evalkit import load_run
from evalkit.errors import UsageError
from evalkit.record import llamacpp
from evalkit.record.errors import BackendError
from evalkit.record.llamacpp import EngineOptions, LlamaCppBackend, XllamaCpp, start_engine
from evalkit.record.modes import MODES
from evalkit.record.progress import Silent
from evalkit.record.protocol import RequestOptions, make_prompt
from evalkit.record.recording import Recording, Wishes
from tests.conftest import Maker
from tests.stub_server import LlamaCpp, Reply, Request, Stub, token_ids
from tests.unit.asking import item, items, meta_of, recording, rows_of, wait_for


class Engine:
    """Answers as the server does, and notes what was asked."""

    version = "1.0"

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.healthy = LlamaCpp("model.gguf")

    def complete(self, body: dict[str, Any]) -> Any:
        """Answer a chat completion; the token count is the one of the rendered prompt."""
        self.bodies.append(body)
        answer = self.healthy(Request("POST", "/v1/chat/completions", {}, body, len(self.bodies) - 1)).body
        answer["usage"]["prompt_tokens"] = len(self.tokens(self.rendered(body), True))
        return answer

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Render or tokenize."""
        if path == "/apply-template":
            return {"prompt": self.rendered(body)}
        return {"tokens": self.tokens(body["content"], body["add_special"])}

    def rendered(self, body: dict[str, Any]) -> str:
        """Return the prompt of messages."""
        return (
            "".join(f"<{message['role']}>{message['content']}" for message in body["messages"])
            + "<assistant>"
        )

    def tokens(self, text: str, first: bool) -> list[int]:
        """Return the tokens of a text, with one at the beginning where that is wanted."""
        return [1] * first + [number for sign in text for number in token_ids(sign)]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Return the engine that is started."""
    found = Engine()
    monkeypatch.setattr(llamacpp, "start_engine", lambda *_: found)
    return found


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a model file."""
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    return path


def record(labels: Any, output: Path, model: Path, **wishes: Any) -> Recording:
    """Return a recording in this process."""
    return Recording(labels, Wishes(output=output, backend="llamacpp", model=str(model), **wishes), Silent())


def test_recording_in_process_is_the_servers_run_with_hashes(
    make: Maker, tmp_path: Path, engine: Engine, model: Path
) -> None:
    labels = make.labels(items(4))
    here, there = tmp_path / "here.jsonl", tmp_path / "there.jsonl"
    record(labels, here, model).run()
    with Stub() as stub:
        recording(labels, there, stub.url).run()
    for ours, theirs in zip(rows_of(here), rows_of(there), strict=True):
        for name in ("id", "option_ids", "probabilities", "allowed_token_mass", "messages_sha256"):
            assert ours[name] == theirs[name]
        assert ours["model"] == "model.gguf"
        assert len(ours["prompt_sha256"]) == 64
        assert ours["total_seconds"] > 0
    prompts = [engine.rendered(body).encode("utf-8") for body in engine.bodies]
    hashes = {row["prompt_sha256"] for row in rows_of(here)}
    assert hashes == {hashlib.sha256(prompt).hexdigest() for prompt in prompts}
    assert load_run(here).notices == ()


def test_sidecar_of_a_recording_in_process_has_the_files_hash(
    make: Maker, tmp_path: Path, engine: Engine, model: Path
) -> None:
    output = tmp_path / "run.jsonl"
    record(make.labels(items(1)), output, model, engine=EngineOptions(512, 2)).run()
    meta = meta_of(output)
    assert meta["model"] == {
        "name": "model.gguf",
        "file": "model.gguf",
        "bytes": 4,
        "sha256": hashlib.sha256(b"GGUF").hexdigest(),
    }
    assert meta["runtime"] == {"name": "llama.cpp, in process", "version": "1.0"}
    options = meta["recorded"]["options"]
    assert (options["cache_prompt"], options["context"], options["threads"]) == (False, 512, 2)
    assert (options["deterministic"], options["concurrency"]) == (True, 1)
    assert engine.bodies[0]["cache_prompt"] is False


def test_other_file_of_the_same_name_is_not_continued(
    make: Maker, tmp_path: Path, engine: Engine, model: Path
) -> None:
    output = tmp_path / "run.jsonl"
    labels = make.labels(items(2))
    healthy, engine.healthy = engine.healthy, Broken(engine.healthy, after=1)
    with pytest.raises(ZeroDivisionError):
        record(labels, output, model).run()
    engine.healthy = healthy
    model.write_bytes(b"GGUF2")
    with pytest.raises(Exception, match=r"was begun with model.sha256"):
        record(labels, output, model).run()


class Broken(LlamaCpp):
    """A server that breaks after some answers."""

    def __init__(self, healthy: LlamaCpp, after: int) -> None:
        super().__init__(healthy.model)
        self.after = after

    def chat(self, request: Request) -> Reply:
        if request.number >= self.after:
            raise ZeroDivisionError
        return super().chat(request)


def test_letter_that_is_several_tokens_is_refused(
    make: Maker, tmp_path: Path, engine: Engine, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "tokens", lambda *_: [1, 2])
    with pytest.raises(BackendError, match="the letter A is 2 tokens for this model"):
        record(make.labels(items(1)), tmp_path / "run.jsonl", model).run()


def test_letters_that_are_one_token_are_refused(
    make: Maker, tmp_path: Path, engine: Engine, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "tokens", lambda *_: [1])
    with pytest.raises(BackendError, match="two letters are the same token"):
        record(make.labels(items(1)), tmp_path / "run.jsonl", model).run()


def test_tokenizer_that_joins_prompt_and_letter_is_refused(
    make: Maker, tmp_path: Path, engine: Engine, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = engine.tokens

    def joining(text: str, first: bool) -> list[int]:
        return [9] if text.endswith(">B") else apart(text, first)

    monkeypatch.setattr(engine, "tokens", joining)
    with pytest.raises(BackendError, match="with the letter B after it, the prompt becomes other tokens"):
        record(make.labels(items(1)), tmp_path / "run.jsonl", model).run()


def test_prompt_that_was_evaluated_as_other_tokens_is_refused(
    make: Maker, tmp_path: Path, engine: Engine, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = engine.complete

    def fewer(body: dict[str, Any]) -> Any:
        answer = complete(body)
        answer["usage"]["prompt_tokens"] -= 1
        return answer

    monkeypatch.setattr(engine, "complete", fewer)
    with pytest.raises(BackendError, match=r"q000: the prompt is \d+ tokens, but \d+ were evaluated"):
        record(make.labels(items(1)), tmp_path / "run.jsonl", model).run()


def test_answer_without_list_is_asked_again_at_temperature_zero(
    make: Maker, tmp_path: Path, engine: Engine, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = engine.complete

    def unlisted(body: dict[str, Any]) -> Any:
        answer = complete(body)
        if body["temperature"]:
            del answer["choices"][0]["logprobs"]
        return answer

    monkeypatch.setattr(engine, "complete", unlisted)
    output = tmp_path / "run.jsonl"
    record(make.labels(items(1)), output, model).run()
    assert "probabilities" in rows_of(output)[0]
    assert [body["temperature"] for body in engine.bodies] == [1.0, 0]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"error": {"message": "request exceeds the available context size"}}, "model.gguf: request exceeds"),
        ({"choices": [{"message": {"content": "A"}}]}, "model.gguf: no probabilities recorded"),
    ],
)
def test_probe_in_process_says_at_once_what_is_wrong(
    make: Maker,
    tmp_path: Path,
    engine: Engine,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: dict[str, Any],
    reason: str,
) -> None:
    monkeypatch.setattr(engine, "complete", lambda _: answer)
    with pytest.raises(BackendError, match=reason):
        record(make.labels(items(1)), tmp_path / "run.jsonl", model).run()


def test_array_in_process_has_no_letters_to_check(
    make: Maker, tmp_path: Path, engine: Engine, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        engine,
        "complete",
        lambda _: {"choices": [{"message": {"content": '["A"]'}}], "model": "model.gguf"},
    )
    output = tmp_path / "run.jsonl"
    record(make.labels([item("a")]), output, model, mode="array").run()
    assert rows_of(output)[0]["choice"] == "yes"


def test_model_that_is_no_file_is_refused(make: Maker, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no file"):
        record(make.labels(items(1)), tmp_path / "run.jsonl", tmp_path / "none.gguf").run()


def test_engine_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(UsageError, match=r"pip install 'evalkit\[llamacpp\]'"):
        start_engine(model, EngineOptions())


class Server:
    """The server class of a made-up xllamacpp."""

    def __init__(self, params: Any) -> None:
        if params.model.path.endswith("bad.gguf"):
            raise RuntimeError("failed to load")
        self.params = params
        self.listening_address = params.address

    def handle_chat_completions(self, body: dict[str, Any]) -> Any:
        """Say what came in."""
        return {"got": body}


def made_up_engine(address: str) -> ModuleType:
    """Return a module with as much of xllamacpp as is used."""
    module = ModuleType("xllamacpp")

    def params() -> SimpleNamespace:
        threads = SimpleNamespace(n_threads=-1)
        return SimpleNamespace(
            model=SimpleNamespace(path=""),
            hostnames=[],
            model_alias=set(),
            cpuparams=threads,
            cpuparams_batch=SimpleNamespace(n_threads=-1),
            address=address,
        )

    vars(module).update(CommonParams=params, Server=Server, __version__="9")
    return module


def test_engine_runs_one_prompt_at_a_time_without_cache(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    with Stub(lambda request: Reply({"path": request.path, "body": request.body})) as stub:
        monkeypatch.setitem(sys.modules, "xllamacpp", made_up_engine(stub.url.removesuffix("/v1")))
        engine = start_engine(model, EngineOptions(100, 3))
        assert isinstance(engine, XllamaCpp)
        assert engine.complete({"a": 1}) == {"got": {"a": 1}}
        assert engine.post("/tokenize", {"content": "é"}) == {"path": "/tokenize", "body": {"content": "é"}}
    params = engine._server.params
    assert (params.n_parallel, params.n_ctx, params.cache_prompt, params.hostnames) == (
        1,
        100,
        False,
        ["127.0.0.1"],
    )
    assert (params.cpuparams.n_threads, params.cpuparams_batch.n_threads) == (3, 3)
    (key,) = params.api_keys
    assert stub.requests[0].headers["authorization"] == f"Bearer {key}"
    assert len(key) > 40


def test_engine_that_cannot_load_a_file_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", made_up_engine(""))
    with pytest.raises(BackendError, match=r"bad.gguf: cannot be loaded \(failed to load\)"):
        start_engine(tmp_path / "bad.gguf", EngineOptions())


@pytest.mark.parametrize("options", [EngineOptions(0), EngineOptions(10, 0)])
def test_engine_without_room_or_threads_is_refused(options: EngineOptions, model: Path) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        start_engine(model, options)


def test_backend_that_was_not_opened_or_is_closed_does_not_answer(model: Path) -> None:
    backend = LlamaCppBackend(model, MODES["letter"], RequestOptions(), EngineOptions())
    with pytest.raises(BackendError, match="the engine is not running"):
        wait_for(backend.ask(make_prompt(item("q1"))))
