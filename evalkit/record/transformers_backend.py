"""The backend inside this process on a folder with safetensors: full logits (``evalkit[transformers]``).

Nothing is downloaded, no code of a model repository is run, and no pickled weights are loaded.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evalkit.errors import UsageError
from evalkit.jsonl import file_sha256
from evalkit.readout import MARKERS, Asked, Listing, Position, Token, option_of, read_out
from evalkit.record.answers import Answer
from evalkit.record.backend import Described
from evalkit.record.errors import BackendError, RequestFailedError
from evalkit.record.inprocess import check_boundary, installed, letter_tokens
from evalkit.record.protocol import LETTERS, TEMPLATE_KWARGS, Prompt, text_sha256

DTYPES = ("bfloat16", "float16", "float32")
HASHED = (".safetensors", ".json", ".model", ".txt", ".jinja")
"""Endings of the files that make a model what it is."""


class Network(Protocol):
    """What is used of a model and its tokenizer."""

    version: str
    """The versions of the packages that run it."""

    def render(self, messages: Sequence[dict[str, str]]) -> str:
        """Return the prompt that the chat template makes of messages."""

    def tokenize(self, text: str) -> list[int]:
        """Return the tokens of a text, control tokens in it included, nothing added."""

    def text_of(self, token: int) -> str:
        """Return a token's text."""

    def last_logits(self, tokens: Sequence[int]) -> NDArray[np.float64]:
        """Return the logits after the last token, shape (vocabulary,)."""


@dataclass(frozen=True)
class _Letters:
    """The tokens that name letters."""

    slots: dict[str, int]
    """The one token of each letter."""
    tokens: tuple[Token, ...]
    """These, and those with a space before the letter; without values."""


class TransformersBackend:
    """Asks a model in this process for its full logits."""

    def __init__(self, model: Path, dtype: str) -> None:
        self.model, self.dtype = model, dtype
        self._facts: dict[str, Any] = {}
        self._network: Network | None = None
        self._letters = _Letters({}, ())

    async def open(self) -> Described:
        """Load the model and check its letters.

        Raises:
            UsageError: there is no such folder, the type is unknown, or a package is not installed.
            BackendError: a letter is not one token.
        """
        if self.dtype not in DTYPES:
            raise UsageError(f"--dtype {self.dtype}: write {', '.join(DTYPES)}")
        self._facts = await asyncio.to_thread(folder_facts, self.model)
        self._network = await asyncio.to_thread(load_network, self.model, self.dtype)
        self._letters = await asyncio.to_thread(_find_letters, self._network)
        return self.described()

    def described(self) -> Described:
        """Return what answers and how it is asked."""
        version = self._network.version if self._network else None
        runtime = {"name": "transformers, in process", "version": version}
        # Nothing is generated, and the logits of all tokens are there.
        unused = ("max_tokens", "logprobs")
        return Described({"name": self.model.name, **self._facts}, runtime, unused=unused)

    async def probe(self, prompt: Prompt) -> Answer:
        """Ask the first prompt; raises BackendError where that is impossible."""
        try:
            return await self.ask(prompt)
        except RequestFailedError as error:
            raise BackendError(f"{self.model.name}: {error}") from None

    async def ask(self, prompt: Prompt) -> Answer:
        """Ask one prompt.

        Raises:
            RequestFailedError: the model cannot take it.
            BackendError: the tokenizer joins a letter and the end of the prompt.
        """
        return await asyncio.to_thread(self._ask, prompt)

    async def close(self) -> None:
        """Let go of the model."""
        self._network = None

    def _ask(self, prompt: Prompt) -> Answer:
        network = self._network
        if network is None:
            raise BackendError("the model is not loaded")
        (question,) = prompt.questions
        start = time.perf_counter()
        rendered = network.render(prompt.messages)
        tokens = network.tokenize(rendered)
        slots = {letter: self._letters.slots[letter] for letter in question.letters}
        check_boundary(network.tokenize, rendered, tokens, slots)
        try:
            logits = network.last_logits(tokens)
        except (RuntimeError, IndexError) as error:
            raise RequestFailedError(
                f"the model cannot take a prompt of {len(tokens)} tokens ({error})"
            ) from None
        outcome = read_out(listing_of(logits, self._letters.tokens), question.letters)
        fields = {
            "model": self.model.name,
            "input_tokens": len(tokens),
            "cached_tokens": 0,
            "prompt_sha256": text_sha256(rendered),
        }
        row = outcome.row(question.option_ids)
        notices = tuple(notice.kind for notice in outcome.notices)
        return Answer((row,), time.perf_counter() - start, notices, fields)


def listing_of(logits: NDArray[np.float64], tokens: Sequence[Token]) -> Listing:
    """Return the log-probabilities of named tokens, as a server would list them.

    log p_i = z_i - log(sum_j exp(z_j)), over the whole vocabulary, in float64.

    Args:
        logits: shape (vocabulary,).
        tokens: the tokens to list.
    """
    peak = float(logits.max())
    total = peak + float(np.log(np.exp(logits - peak).sum()))
    listed = tuple(Token(token.text, float(logits[token.id or 0]) - total, token.id) for token in tokens)
    return Listing((Position(None, listed),), asked=Asked(named_tokens=True))


def _find_letters(network: Network) -> _Letters:
    slots = letter_tokens(network.tokenize, LETTERS)
    found = {slot: Token(letter, id=slot) for letter, slot in slots.items()}
    for letter in LETTERS:
        for marker in MARKERS:
            numbers = network.tokenize(marker + letter)
            if len(numbers) == 1 and option_of(network.text_of(numbers[0]), [letter]) == 0:
                found.setdefault(numbers[0], Token(f" {letter}", id=numbers[0]))
    return _Letters(slots, tuple(found.values()))


def folder_facts(folder: Path) -> dict[str, Any]:
    """Return the hashes of all files that make a model what it is.

    Raises:
        UsageError: there is no such folder, or no safetensors in it.
    """
    if not folder.is_dir():
        raise UsageError(f"--model {folder}: is no folder (models are not downloaded)")
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.suffix in HASHED)
    if not any(path.suffix == ".safetensors" for path in files):
        raise UsageError(f"--model {folder}: holds no .safetensors (other weights are not loaded)")
    return {"files": {path.name: file_sha256(path) for path in files}}


class TorchNetwork:
    """A model of the package transformers."""

    def __init__(self, folder: Path, dtype: str) -> None:
        try:
            import torch
            import transformers
        except ImportError:
            raise installed("transformers", "transformers") from None
        transformers.utils.logging.disable_progress_bar()
        self._torch = torch
        self.version = f"transformers {transformers.__version__}, torch {torch.__version__}"
        careful = {"local_files_only": True, "trust_remote_code": False}
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), **careful)
        self._model = transformers.AutoModelForCausalLM.from_pretrained(
            str(folder), dtype=getattr(torch, dtype), use_safetensors=True, **careful
        ).eval()

    def render(self, messages: Sequence[dict[str, str]]) -> str:
        """Return the prompt that the chat template makes of messages."""
        text: str = self._tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=True, **TEMPLATE_KWARGS
        )
        return text

    def tokenize(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        tokens: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return tokens

    def text_of(self, token: int) -> str:
        """Return a token's text."""
        return str(self._tokenizer.decode([token]))

    def last_logits(self, tokens: Sequence[int]) -> NDArray[np.float64]:
        """Return the logits after the last token."""
        with self._torch.inference_mode():
            logits = self._model(input_ids=self._torch.tensor([list(tokens)]), use_cache=False).logits
        return np.asarray(logits[0, -1].double().cpu().numpy())


def load_network(folder: Path, dtype: str) -> Network:
    """Load a model.

    Raises:
        UsageError: a package is not installed.
        BackendError: the folder holds no model that can be loaded without code of its own.
    """
    try:
        return TorchNetwork(folder, dtype)
    except (OSError, ValueError, KeyError) as error:
        raise BackendError(f"{folder.name}: cannot be loaded ({error})") from None
