"""A stub of an OpenAI-compatible server: it answers as the real ones do, and misbehaves on request.

In a test it runs in a thread (``with Stub() as stub``), so that the test sees every request and chooses
every reply. As a program (``python tests/stub_server.py``) it prints its address and serves until it is
killed; that is what the benchmark measures against.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import math
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

MODEL = "stub-model"
VOCABULARY = "ABCDEFGHIJKLMNOP"
FIRST_TOKEN_ID = 32
"""The token of A; those of the other letters follow, and those with a space stand a hundred further."""
SPACED = 100
VLLM_LIMIT, TGI_LIMIT = 20, 5


@dataclass(frozen=True)
class Request:
    """A request as the stub saw it."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    number: int
    """How many requests for decisions came before."""

    @property
    def question(self) -> dict[str, Any]:
        """The JSON object in the user message."""
        found: dict[str, Any] = json.loads(self.body["messages"][1]["content"])
        return found


@dataclass(frozen=True)
class Reply:
    """What the stub does with a request."""

    body: Any = b""
    """Bytes as they are, or something to write as JSON."""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    """Seconds before it is sent."""
    cut: int | None = None
    """Send the head and so many bytes of the body, then reset the connection."""
    silent: bool = False
    """Never answer."""

    def encoded(self) -> tuple[bytes, bytes]:
        """Return head and body as bytes."""
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        lines = [f"HTTP/1.1 {self.status} Whatever", f"Content-Length: {len(body)}"]
        lines += [
            f"{name}: {value}" for name, value in {"Content-Type": "application/json", **self.headers}.items()
        ]
        return "\r\n".join([*lines, "", ""]).encode("latin-1"), body


Answerer = Callable[[Request], Reply]


class Server:
    """A kind of server: its model list, its own addresses, and its answers."""

    owner = "stub"
    fingerprint: str | None = "fp_stub"
    limit: int | None = None
    tell_bytes = True

    def __init__(self, model: str = MODEL, mass: float = 0.9) -> None:
        self.model, self.mass = model, mass

    def __call__(self, request: Request) -> Reply:
        """Answer a request as a healthy server would."""
        path = request.path
        if path == "/v1/models":
            return Reply({"object": "list", "data": [self.entry()]})
        if path == "/v1/chat/completions":
            return self.chat(request)
        return self.other(request)

    def entry(self) -> dict[str, Any]:
        """Return the model's entry in the list."""
        return {"id": self.model, "object": "model", "created": 1, "owned_by": self.owner}

    def other(self, request: Request) -> Reply:  # noqa: ARG002
        """Answer at another address."""
        return Reply({"detail": "Not Found"}, 404)

    def chat(self, request: Request) -> Reply:
        """Answer a request for a decision."""
        asked = request.body.get("top_logprobs", 0)
        if self.limit is not None and asked > self.limit:
            return self.over_limit(asked)
        letters = [option["letter"] for option in request.question["options"]]
        return Reply(self.completion(request, listing(seed_of(request), letters, self.mass)))

    def over_limit(self, asked: int) -> Reply:
        """Refuse a request for too many alternatives."""
        return Reply({"error": {"message": f"top_logprobs {asked} is above the limit of {self.limit}"}}, 400)

    def listed(self, request: Request, tokens: list[tuple[str, float]]) -> list[tuple[str, float]]:
        """Return what the list of alternatives holds."""
        return tokens[: request.body["top_logprobs"]]

    def sampled(self, tokens: list[tuple[str, float]]) -> tuple[str, float]:
        """Return the generated token."""
        return tokens[0]

    def token(self, text: str, value: float) -> dict[str, Any]:
        """Return a token as this server writes it."""
        known = {"bytes": list(text.encode())} if self.tell_bytes else {}
        return {"token": text, "logprob": value, **known}

    def completion(self, request: Request, tokens: list[tuple[str, float]]) -> dict[str, Any]:
        """Return the whole answer."""
        sampled = self.sampled(tokens)
        content = {
            **self.token(*sampled),
            "top_logprobs": [self.token(*token) for token in self.listed(request, tokens)],
        }
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": sampled[0]},
            "logprobs": {"content": [content]},
            "finish_reason": "length",
        }
        answer = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": self.model,
            "choices": [choice],
            "usage": self.usage(request),
        }
        return answer if self.fingerprint is None else {**answer, "system_fingerprint": self.fingerprint}

    def usage(self, request: Request) -> dict[str, Any]:
        """Return the token counts."""
        count = len(request.body["messages"][1]["content"].split())
        return {"prompt_tokens": count, "completion_tokens": 1, "total_tokens": count + 1}


class LlamaCpp(Server):
    """llama.cpp: ids in the lists, the plain likeliest tokens, cache hits where the request allows them."""

    owner = "llamacpp"
    fingerprint = "b0-unknown"

    def __init__(self, model: str = MODEL, mass: float = 0.9, *, cached: int = 0) -> None:
        super().__init__(model, mass)
        self.cached = cached

    def entry(self) -> dict[str, Any]:
        meta = {
            "n_ctx": 1024,
            "n_ctx_train": 32768,
            "n_params": 630167424,
            "size": 485452288,
            "ftype": "Q4_K - Medium",
        }
        return {**super().entry(), "aliases": [self.model], "meta": meta}

    def other(self, request: Request) -> Reply:
        if request.path == "/tokenize":
            return Reply({"tokens": token_ids(request.body["content"])})
        if request.path != "/props":
            return Reply(
                {"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}}, 404
            )
        return Reply(
            {
                "default_generation_settings": {"params": {"post_sampling_probs": False}, "n_ctx": 1024},
                "total_slots": 4,
                "model_path": "/srv/models/stub.gguf",
                "chat_template": "{{ messages }}",
                "build_info": "b0-unknown",
            }
        )

    def token(self, text: str, value: float) -> dict[str, Any]:
        return {"id": sum(text.encode()), **super().token(text, value)}

    def usage(self, request: Request) -> dict[str, Any]:
        cached = self.cached if request.body.get("cache_prompt", True) else 0
        return {**super().usage(request), "prompt_tokens_details": {"cached_tokens": cached}}


class Vllm(Server):
    """vLLM: the generated token first, and then the likeliest; named tokens; a limit of 20."""

    owner = "vllm"
    fingerprint = "vllm-0.32.0-0"
    limit = VLLM_LIMIT

    def __init__(self, model: str = MODEL, mass: float = 0.9, *, knows_names: bool = True) -> None:
        super().__init__(model, mass)
        self.knows_names = knows_names

    def entry(self) -> dict[str, Any]:
        return {**super().entry(), "root": "/srv/models/stub", "parent": None, "max_model_len": 2048}

    def other(self, request: Request) -> Reply:
        if request.path == "/version":
            return Reply({"version": "0.32.0"})
        if request.path == "/tokenize":
            return Reply({"count": 1, "max_model_len": 2048, "tokens": token_ids(request.body["prompt"])})
        return super().other(request)

    def over_limit(self, asked: int) -> Reply:
        words = f"Requested sample logprobs of {asked}, which is greater than max allowed: {self.limit}"
        return Reply(
            {"error": {"message": words, "type": "BadRequestError", "param": "logprobs", "code": 400}}, 400
        )

    def sampled(self, tokens: list[tuple[str, float]]) -> tuple[str, float]:
        return tokens[-1]

    def listed(self, request: Request, tokens: list[tuple[str, float]]) -> list[tuple[str, float]]:
        named = request.body.get("logprob_token_ids")
        first = self.sampled(tokens)
        if named and self.knows_names:
            wanted = [token for token in tokens if set(token_ids(token[0])) & set(named)]
            return [first, *(token for token in wanted if token != first)]
        others = [token for token in tokens if token != first]
        return [first, *others][: request.body["top_logprobs"]]


class SgLang(Server):
    """SGLang: no fingerprint, and nothing about cached tokens."""

    owner = "sglang"
    fingerprint = None

    def completion(self, request: Request, tokens: list[tuple[str, float]]) -> dict[str, Any]:
        answer = super().completion(request, tokens)
        answer["choices"][0]["message"] |= {"reasoning_content": None, "tool_calls": None}
        answer["choices"][0]["matched_stop"] = None
        return {**answer, "metadata": {"weight_version": "default"}}


class Ollama(Server):
    """Ollama: a tag behind every name, which requests may leave out."""

    owner = "library"
    fingerprint = "fp_ollama"

    def entry(self) -> dict[str, Any]:
        return {**super().entry(), "id": f"{self.model}:latest"}

    def other(self, request: Request) -> Reply:
        return Reply({"version": "0.15.1"}) if request.path == "/api/version" else super().other(request)


class Tgi(Server):
    """Text Generation Inference: no bytes, at most 5 alternatives, and its own error shape."""

    owner = "acme/stub"
    fingerprint = "3.3.5-native"
    limit = TGI_LIMIT
    tell_bytes = False

    def other(self, request: Request) -> Reply:
        if request.path != "/info":
            return super().other(request)
        return Reply(
            {"model_id": "acme/stub", "model_sha": "0" * 40, "model_dtype": "float16", "version": "3.3.5"}
        )

    def over_limit(self, asked: int) -> Reply:
        words = f"Input validation error: `top_n_tokens` must be >= 0 and <= {self.limit}. Given: {asked}"
        return Reply({"error": words, "error_type": "validation"}, 422)


SERVERS: dict[str, type[Server]] = {
    "llamacpp": LlamaCpp, "vllm": Vllm, "sglang": SgLang, "ollama": Ollama, "tgi": Tgi, "other": Server,
}  # fmt: skip


def seed_of(request: Request) -> bytes:
    """Return what the answer to a request depends on: its messages, and nothing else."""
    return hashlib.sha256(json.dumps(request.body["messages"]).encode()).digest()


def listing(seed: bytes, letters: list[str], mass: float) -> list[tuple[str, float]]:
    """Return tokens with log-probabilities, likeliest first: the letters, some with a space, and others."""
    weights = {letter: 1 + seed[place % len(seed)] for place, letter in enumerate(letters)}
    total = sum(weights.values())
    tokens = {letter: mass * weight / total for letter, weight in weights.items()}
    # A tenth of the first letter's mass lies on the same letter with a space before it.
    first = letters[0]
    tokens[f" {first}"] = tokens[first] / 10
    tokens[first] *= 0.9
    rest = (1 - mass) * 0.99
    tokens |= {
        text: rest / 2 ** (place + 1) for place, text in enumerate(("The", "Sure", "\n", "**", "1", "#"))
    }
    return sorted(((text, math.log(p)) for text, p in tokens.items()), key=lambda token: -token[1])


def token_ids(text: str) -> list[int]:
    """Return the made-up tokens of a text: one for a letter, with or without a space."""
    bare = text.removeprefix(" ")
    if len(bare) == 1 and bare in VOCABULARY:
        return [FIRST_TOKEN_ID + VOCABULARY.index(bare) + (SPACED if bare != text else 0)]
    return [ord(sign) + 1000 for sign in text]


class _Connection(asyncio.Protocol):
    def __init__(self, stub: Stub) -> None:
        self.stub, self.rest = stub, b""
        stub.connections.add(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, _: Exception | None) -> None:
        self.stub.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        self.rest += data
        head, blank, rest = self.rest.partition(b"\r\n\r\n")
        if not blank:
            return
        lines = head.decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
        }
        length = int(headers.get("content-length", 0))
        if len(rest) < length:
            return
        self.rest = rest[length:]
        method, path, _ = lines[0].split(" ")
        body = json.loads(rest[:length]) if length else None
        reply = self.stub.take(method, path, headers, body)
        if reply.silent:
            return
        if reply.delay:
            asyncio.get_running_loop().call_later(reply.delay, self.send, reply)
        else:
            self.send(reply)

    def send(self, reply: Reply) -> None:
        if self.transport.is_closing():
            return
        head, body = reply.encoded()
        if reply.cut is None:
            self.transport.write(head + body)
            return
        self.transport.write(head + body[: reply.cut])
        # Lingering for no time at all makes the system send a reset instead of an orderly end.
        found: socket.socket = self.transport.get_extra_info("socket")
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


class Stub:
    """A server in a thread; `answer` may be replaced at any time."""

    def __init__(self, answer: Answerer | None = None) -> None:
        self.answer: Answerer = answer or LlamaCpp()
        self.requests: list[Request] = []
        self.connections: set[_Connection] = set()
        self.keep = True
        self._decisions = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.port = 0

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def asked(self) -> list[Request]:
        """The requests for decisions."""
        return [request for request in self.requests if request.path.endswith("/chat/completions")]

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Close the server and every connection, as a killed one would."""
        if self._loop.is_running():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def take(self, method: str, path: str, headers: dict[str, str], body: Any) -> Reply:
        """Note a request and choose the reply."""
        request = Request(method, path, headers, body, self._decisions)
        self._decisions += path.endswith("/chat/completions")
        if self.keep:
            self.requests.append(request)
        return self.answer(request)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            self._loop.create_server(lambda: _Connection(self), "127.0.0.1", self.port)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for connection in list(self.connections):
            connection.transport.abort()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def serve_here(self, port: int) -> None:
        """Serve in this thread until the process ends."""
        self.port, self.keep = port, False
        threading.Thread(target=self._announce, daemon=True).start()
        self._serve()

    def _announce(self) -> None:
        self._ready.wait()
        print(self.url, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A stub of an OpenAI-compatible server.")
    parser.add_argument("--kind", choices=list(SERVERS), default="llamacpp")
    parser.add_argument("--port", type=int, default=0)
    wanted = parser.parse_args()
    Stub(SERVERS[wanted.kind]()).serve_here(wanted.port)
