"""The backend behind an address: any OpenAI-compatible server."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from evalkit.record.answers import Answer
from evalkit.record.backend import Described
from evalkit.record.client import Client, Reply
from evalkit.record.errors import BackendError, RefusedError, RequestFailedError
from evalkit.record.modes import Mode
from evalkit.record.protocol import LETTERS, Prompt, RequestOptions
from evalkit.record.servers import UNAUTHORIZED, Served, check_answerer, explained, look
from evalkit.values import at

SALT_BYTES = 32
SEED = 0
"""The seed of a repeatable recording: some servers list the sampled token, whatever it is."""
NO_CACHE: dict[str, dict[str, Any]] = {"llama.cpp": {"cache_prompt": False}, "vLLM": {"cache_salt": ""}}
"""How a request says, by server program, that its prompt is not to be taken from the cache."""
TOKENIZE: dict[str, tuple[str, str]] = {
    "llama.cpp": ("content", "add_special"),
    "vLLM": ("prompt", "add_special_tokens"),
}
"""How `/tokenize` calls the text and the wish for special tokens, by server program."""
NAMES_TOKENS = "vLLM"
"""The server program that gives the values of tokens that a request names."""


@dataclass(frozen=True)
class HttpOptions:
    """How a server is asked."""

    request: RequestOptions
    """What requests say besides the messages."""
    repeatable: bool = False
    """Leave out the prompt cache, where the server lets one, and name a seed."""
    keep_going: bool = False
    """Take a refusal of one item as a failed decision, instead of stopping."""


class HttpBackend:
    """Asks a server for decisions."""

    def __init__(self, client: Client, mode: Mode, options: HttpOptions) -> None:
        self.client, self.mode, self.options = client, mode, options
        self._served = Served("")
        self._request = options.request
        self._token_ids: dict[str, list[int]] = {}
        self._most_named: int | None = None
        self._repeated = 0
        self._notices: list[str] = []

    async def open(self) -> Described:
        """Ask the server what it is, and prepare the requests for it.

        Raises:
            BackendError: nothing answers, or the key is missing.
            UsageError: the model has to be named.
        """
        self._served = served = await look(self.client, self._request.model)
        self._request = replace(self._request, model=served.model, extra=self._extra(served.kind))
        if self.mode.reads_letters and served.kind in TOKENIZE:
            letters = await self._letter_tokens()
            if served.kind == NAMES_TOKENS and not self._request.plain:
                self._token_ids = letters
        return self.described()

    def described(self) -> Described:
        """Return what answers and how it is asked."""
        served, request = self._served, self._request
        model = {"name": self.client.secret.mask(served.model), "served": dict(served.model_facts)}
        runtime = {**served.runtime_facts, "base_url": self.client.endpoint.api}
        options = {key: value for key, value in request.extra.items() if key != "cache_salt"}
        if "cache_salt" in request.extra:
            options["cache_salt"] = "new for each request"
        if self._token_ids:
            options["logprob_token_ids"] = self._token_ids
        if self._token_ids and self._most_named is not None:
            options["most_logprob_token_ids"] = self._most_named
        if self._repeated:
            options["repeated_at_temperature_0"] = self._repeated
        return Described(model, runtime, options, notices=tuple(self._notices))

    async def probe(self, prompt: Prompt) -> Answer:
        """Ask the first prompt, and say at once what would go wrong with all the others.

        Raises:
            BackendError: the server refuses, answers for another model, or gives no usable answer.
        """
        try:
            answer = await self._asked(prompt)
        except RefusedError as error:
            raise self._refusal(error, prompt) from None
        except RequestFailedError as error:
            raise BackendError(f"{self.client.endpoint.api}: no usable answer: {error}") from None
        check_answerer(self._served, answer.fields.get("model"))
        if self._token_ids and any(row.get("status") or "censored" in row for row in answer.rows):
            # The server knows the letters' tokens, but not the request for their values.
            self._token_ids = {}
            return await self.probe(prompt)
        if reason := next((row["error"] for row in answer.rows if row.get("status") == "error"), None):
            raise BackendError(f"{self.client.endpoint.api}: {reason}")
        return answer

    async def ask(self, prompt: Prompt) -> Answer:
        """Ask one prompt.

        Raises:
            RequestFailedError: there is no answer, after all retries.
            BackendError: the server refuses, and is not to be asked further.
        """
        try:
            return await self._asked(prompt)
        except RefusedError as error:
            raise self._refusal(error, prompt) from None

    async def close(self) -> None:
        """There is nothing to close: the client belongs to the caller."""

    def _refusal(self, error: RefusedError, prompt: Prompt) -> Exception:
        if self.options.keep_going and error.status not in UNAUTHORIZED:
            return RequestFailedError(str(error))
        return explained(error, self.client, self._served, prompt.questions[0].id)

    async def _asked(self, prompt: Prompt) -> Answer:
        named = self._named_tokens(prompt)
        try:
            return await self._answered(prompt, named)
        except RefusedError:
            if not named:
                raise
            # There may be more of them than the server gives; its list of the likeliest will do.
            answer = await self._answered(prompt, [])
            self._most_named = min(self._most_named or len(named), len(named) - 1)
            return answer

    async def _answered(self, prompt: Prompt, named: list[int]) -> Answer:
        body = self._body(prompt, named)
        answer = self._read(prompt, body, await self._post(body))
        if answer.unlisted:
            # llama.cpp lists nothing where the sampled token is half of a character. The listed values do
            # not depend on the temperature, so the likeliest token will do.
            self._repeated += 1
            body["temperature"] = 0
            answer = self._read(prompt, body, await self._post(body))
        return answer

    def _read(self, prompt: Prompt, body: Mapping[str, Any], reply: Reply) -> Answer:
        return self.mode.read(prompt, body, self.client.secret.mask(reply.body), reply.seconds)

    async def _post(self, body: Mapping[str, Any]) -> Reply:
        return await self.client.post(f"{self.client.endpoint.api}/chat/completions", body)

    def _named_tokens(self, prompt: Prompt) -> list[int]:
        if not self._token_ids:
            return []
        wanted = _flat(self._token_ids[letter] for letter in prompt.questions[0].letters)
        return wanted if self._most_named is None or len(wanted) <= self._most_named else []

    def _body(self, prompt: Prompt, named: list[int]) -> dict[str, Any]:
        request = self._request
        if "cache_salt" in request.extra:
            salt = secrets.token_urlsafe(SALT_BYTES)
            request = replace(request, extra={**request.extra, "cache_salt": salt})
        body = self.mode.body(prompt, request)
        return {**body, "logprob_token_ids": named, "top_logprobs": len(named)} if named else body

    def _extra(self, kind: str) -> dict[str, Any]:
        if not self.options.repeatable:
            return {}
        if self._request.plain or kind not in NO_CACHE:
            why = "the request is plain" if self._request.plain else "the server has no known switch for it"
            self._notices.append(
                f"the server's prompt cache was not left out ({why}): a second recording may differ in the "
                "last digits"
            )
        return {} if self._request.plain else {"seed": SEED, **NO_CACHE.get(kind, {})}

    async def _letter_tokens(self) -> dict[str, list[int]]:
        """Ask for the tokens of each letter, and of a space and the letter where requests can name them.

        Nothing is returned where that fails, or where a letter is not one token of its own.
        """
        found: dict[str, list[int]] = {}
        torn: list[str] = []
        taken: set[int] = set()
        for letter in LETTERS:
            bare = await self._tokens(letter)
            if bare is None:
                return {}
            if len(bare) != 1 or bare[0] in taken:
                torn.append(letter)
                continue
            taken.add(bare[0])
            spaced = await self._tokens(f" {letter}") if self._served.kind == NAMES_TOKENS else None
            found[letter] = bare + (spaced if spaced is not None and len(spaced) == 1 else [])
        if torn:
            self._notices.append(
                f"letters that are not one token of their own for the server's tokenizer: {', '.join(torn)}; "
                "decisions between such options cannot be read at one position"
            )
        return {} if torn else found

    async def _tokens(self, text: str) -> list[int] | None:
        """Return the tokens of a text; None where the server does not say them."""
        content, special = TOKENIZE[self._served.kind]
        body = {"model": self._request.model, content: text, special: False}
        try:
            reply = await self.client.post(f"{self.client.endpoint.root}/tokenize", body)
        except (RefusedError, RequestFailedError):
            return None
        tokens = at(reply.body, "tokens")
        known = isinstance(tokens, list) and tokens and all(isinstance(token, int) for token in tokens)
        return tokens if known else None


def _flat(lists: Iterable[list[int]]) -> list[int]:
    return [number for numbers in lists for number in numbers]
