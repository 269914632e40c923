"""The backend inside this process on a gguf file: the engine of the llama.cpp server (``evalkit[llamacpp]``).

Requests take the same path as those to a server, so that both give the same run. What a server does not
tell is checked besides: each letter is one token, and the prompt's tokens are those that were evaluated.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import time
import urllib.request
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from evalkit.errors import UsageError
from evalkit.record.answers import Answer
from evalkit.record.backend import Described
from evalkit.record.errors import BackendError, RequestFailedError
from evalkit.record.inprocess import check_boundary, file_facts, installed, letter_tokens
from evalkit.record.modes import Mode
from evalkit.record.protocol import LETTERS, TEMPLATE_KWARGS, Prompt, RequestOptions, text_sha256
from evalkit.shapes import error_text

CONTEXT_TOKENS = 4096
NO_CACHE = {"cache_prompt": False}
KEY_BYTES = 32


@dataclass(frozen=True)
class EngineOptions:
    """How the engine runs."""

    context: int = CONTEXT_TOKENS
    """The longest prompt, in tokens."""
    threads: int | None = None
    """Threads; None for one a processor."""


class Engine(Protocol):
    """What is used of an engine."""

    version: str
    """Its version."""

    def complete(self, body: dict[str, Any]) -> Any:
        """Answer a chat completion; the response as the server would send it."""

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Answer another request of the server's."""


class LlamaCppBackend:
    """Asks a model in this process."""

    def __init__(self, model: Path, mode: Mode, request: RequestOptions, options: EngineOptions) -> None:
        self.model, self.mode, self.options = model, mode, options
        self._request = replace(request, model=model.name, extra=NO_CACHE)
        self._facts: dict[str, Any] = {}
        self._engine: Engine | None = None
        self._slots: dict[str, int] = {}

    async def open(self) -> Described:
        """Load the model and check its letters.

        Raises:
            UsageError: there is no such file, or the engine is not installed.
            BackendError: the file cannot be loaded, or a letter is not one token.
        """
        self._facts = await asyncio.to_thread(file_facts, self.model)
        self._engine = await asyncio.to_thread(start_engine, self.model, self.options)
        self._slots = await asyncio.to_thread(letter_tokens, self._tokenize, LETTERS)
        return self.described()

    def described(self) -> Described:
        """Return what answers and how it is asked."""
        runtime = {"name": "llama.cpp, in process", "version": self._engine.version if self._engine else None}
        threads = self.options.threads or os.cpu_count()
        options = {"chat_template_kwargs": TEMPLATE_KWARGS, **NO_CACHE, "context": self.options.context}
        return Described({"name": self.model.name, **self._facts}, runtime, {**options, "threads": threads})

    async def probe(self, prompt: Prompt) -> Answer:
        """Ask the first prompt.

        Raises:
            BackendError: there is no usable answer.
        """
        try:
            answer = await self.ask(prompt)
        except RequestFailedError as error:
            raise BackendError(f"{self.model.name}: {error}") from None
        if reason := next((row["error"] for row in answer.rows if row.get("status") == "error"), None):
            raise BackendError(f"{self.model.name}: {reason}")
        return answer

    async def ask(self, prompt: Prompt) -> Answer:
        """Ask one prompt.

        Raises:
            RequestFailedError: the engine refuses it.
            BackendError: the prompt's tokens are not those that were evaluated.
        """
        return await asyncio.to_thread(self._ask, prompt)

    async def close(self) -> None:
        """Let go of the engine."""
        self._engine = None

    def _ask(self, prompt: Prompt) -> Answer:
        rendered, tokens = self._rendered(prompt)
        start = time.perf_counter()
        answer = self._read(prompt, {})
        if answer.unlisted:
            # The sampled token is half of a character; the listed values do not depend on the temperature.
            answer = self._read(prompt, {"temperature": 0})
        seconds = time.perf_counter() - start
        evaluated = answer.fields.get("input_tokens")
        if evaluated not in (None, len(tokens)):
            item = prompt.questions[0].id
            raise BackendError(f"{item}: the prompt is {len(tokens)} tokens, but {evaluated} were evaluated")
        fields = {**answer.fields, "prompt_sha256": text_sha256(rendered)}
        return replace(answer, seconds=seconds, fields=fields)

    def _read(self, prompt: Prompt, changed: dict[str, Any]) -> Answer:
        body = {**self.mode.body(prompt, self._request), **changed}
        response = self._started.complete(body)
        if reason := error_text(response):
            raise RequestFailedError(reason)
        return self.mode.read(prompt, body, response, 0.0)

    def _rendered(self, prompt: Prompt) -> tuple[str, list[int]]:
        """Render a prompt with the model's own template, and check where its tokens end."""
        asked = {"messages": list(prompt.messages), "chat_template_kwargs": TEMPLATE_KWARGS}
        rendered = self._started.post("/apply-template", asked)["prompt"]
        tokens = self._started.post("/tokenize", _whole(rendered, first=True))["tokens"]
        if self.mode.reads_letters:
            letters = prompt.questions[0].letters
            plain = self._tokenize(rendered)
            check_boundary(
                self._tokenize, rendered, plain, {letter: self._slots[letter] for letter in letters}
            )
        return rendered, tokens

    def _tokenize(self, text: str) -> list[int]:
        tokens: list[int] = self._started.post("/tokenize", _whole(text, first=False))["tokens"]
        return tokens

    @property
    def _started(self) -> Engine:
        if self._engine is None:
            raise BackendError("the engine is not running")
        return self._engine


def _whole(text: str, *, first: bool) -> dict[str, Any]:
    return {"content": text, "add_special": first, "parse_special": True}


class XllamaCpp:
    """The engine of the package xllamacpp."""

    def __init__(self, model: Path, options: EngineOptions) -> None:
        try:
            import xllamacpp
        except ImportError:
            raise installed("xllamacpp", "llamacpp") from None
        self.version = str(xllamacpp.__version__)
        # The engine always listens; a key that nobody knows keeps everybody else out.
        self._key = secrets.token_urlsafe(KEY_BYTES)
        params = xllamacpp.CommonParams()
        params.model.path, params.port = str(model), 0
        params.hostnames = type(params.hostnames)(["127.0.0.1"])
        params.model_alias = type(params.model_alias)([model.name])
        params.api_keys = [self._key]
        # One prompt at a time and none from the cache: only so do the same digits come out twice.
        params.n_parallel, params.n_ctx, params.cache_prompt = 1, options.context, False
        params.verbosity = 0
        if options.threads is not None:
            params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
        try:
            self._server = xllamacpp.Server(params)
        except RuntimeError as error:
            raise BackendError(f"{model.name}: cannot be loaded ({error})") from None

    def complete(self, body: dict[str, Any]) -> Any:
        """Answer a chat completion."""
        return self._server.handle_chat_completions(body)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Answer another request, over the loopback."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
        data = json.dumps(body, ensure_ascii=False).encode("utf-8")
        request = urllib.request.Request(self._server.listening_address + path, data, headers)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request) as response:
            return json.load(response)


def start_engine(model: Path, options: EngineOptions) -> Engine:
    """Load a model.

    Raises:
        UsageError: the engine is not installed.
        BackendError: the file cannot be loaded.
    """
    if options.context < 1 or (options.threads is not None and options.threads < 1):
        raise UsageError("--context and --threads are at least 1")
    return XllamaCpp(model, options)
