"""What the backends inside this process share: checks of the tokenizer, and hashes of the files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evalkit.errors import UsageError
from evalkit.jsonl import file_sha256
from evalkit.record.errors import BackendError

Tokenize = Callable[[str], list[int]]
"""Turns text into token numbers, control tokens in it included, nothing added."""


def letter_tokens(tokenize: Tokenize, letters: str) -> dict[str, int]:
    """Return the one token of each letter.

    Args:
        tokenize: the tokenizer.
        letters: the letters.

    Raises:
        BackendError: a letter is not exactly one token, or two letters are the same one.
    """
    found: dict[str, int] = {}
    for letter in letters:
        tokens = tokenize(letter)
        if len(tokens) != 1:
            raise BackendError(
                f"the letter {letter} is {len(tokens)} tokens for this model; a letter must be one"
            )
        found[letter] = tokens[0]
    if len(set(found.values())) < len(found):
        raise BackendError("two letters are the same token for this model")
    return found


def check_boundary(tokenize: Tokenize, prompt: str, tokens: Sequence[int], slots: dict[str, int]) -> None:
    """Check that a letter after the prompt leaves the prompt's tokens as they are.

    Otherwise the position after the prompt would not be where the letter is decided.

    Args:
        tokenize: the tokenizer.
        prompt: the rendered prompt.
        tokens: its tokens.
        slots: the token of each letter.

    Raises:
        BackendError: the tokenizer joins a letter and the end of the prompt.
    """
    for letter, slot in slots.items():
        if tokenize(prompt + letter) != [*tokens, slot]:
            raise BackendError(f"with the letter {letter} after it, the prompt becomes other tokens")


def file_facts(path: Path) -> dict[str, Any]:
    """Return name, size and hash of a model file.

    Raises:
        UsageError: there is no such file.
    """
    if not path.is_file():
        raise UsageError(f"--model {path}: is no file")
    return {"file": path.name, "bytes": path.stat().st_size, "sha256": file_sha256(path)}


def installed(module: str, extra: str) -> UsageError:
    """Return the error for an optional package that is not installed."""
    return UsageError(f"{module} is not installed; pip install 'evalkit[{extra}]'")
