"""What answers at an address: which model, which server, which version; and what its refusals mean."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from evalkit.errors import UsageError
from evalkit.record.client import Client
from evalkit.record.errors import BackendError, RefusedError, RequestFailedError
from evalkit.values import at, without_nones

UNAUTHORIZED, NOT_FOUND = (401, 403), 404
SHOWN_MODELS = 20


@dataclass(frozen=True)
class Kind:
    """A server program that is known by the owner it names in its model list."""

    name: str
    """Its name."""
    details: str = ""
    """The address with more about it, below the root; empty for none."""


KINDS = {
    "llamacpp": Kind("llama.cpp", "/props"),
    "vllm": Kind("vLLM", "/version"),
    "sglang": Kind("SGLang"),
    "library": Kind("Ollama", "/api/version"),
}
"""Server programs by the `owned_by` of their models."""
UNKNOWN_KINDS = (Kind("TGI", "/info"), Kind("", "/version"))
"""What is tried where the owner says nothing."""


@dataclass(frozen=True)
class Served:
    """What answers, as far as it says so itself."""

    model: str
    """The name that requests use."""
    kind: str = ""
    """The server program; empty where it is unknown."""
    names: tuple[str, ...] = ()
    """All models that the server offers, under all their names, fit to be shown."""
    aliases: tuple[str, ...] = ()
    """Those of them that are names of the model, fit to be shown."""
    listed: bool = False
    """Whether the server's own list has the model."""
    model_facts: Mapping[str, Any] = field(default_factory=dict)
    """What it says of the model, for the sidecar."""
    runtime_facts: Mapping[str, Any] = field(default_factory=dict)
    """What it says of itself, for the sidecar."""


async def look(client: Client, model: str | None) -> Served:
    """Ask a server what it serves.

    Args:
        client: the client.
        model: the model to use; None for the only one there is.

    Raises:
        BackendError: nothing answers, or the key is missing.
        UsageError: no model was named, and the server does not offer exactly one.
    """
    entries = await _models(client)
    names = tuple(dict.fromkeys(name for entry in entries for name in _names(entry)))
    shown = tuple(client.secret.mask(name) for name in names)
    if model is None:
        if len(entries) != 1:
            raise UsageError(f"--model: name the model to record; {_offer(shown)}")
        model = names[0]
    entry = next((entry for entry in entries if {model, f"{model}:latest"} & set(_names(entry))), {})
    kind, details = await _kind(client, entry or (entries[0] if entries else {}))
    return Served(
        model,
        kind.name,
        shown,
        tuple(client.secret.mask(name) for name in _names(entry)),
        bool(entry),
        client.secret.mask({**_model_facts(entry), **_more_of_model(details)}),
        client.secret.mask(_runtime_facts(kind, details)),
    )


def check_answerer(served: Served, answered: str | None) -> None:
    """Refuse a server that answers in the name of another model than was asked for.

    Some servers ignore the name in the request and answer with what they have.

    Args:
        served: what the server offers.
        answered: the model that the first response names; None where it names none.

    Raises:
        BackendError: another model of the server's list answers, or the model is neither in the list nor
            the one that answered.
    """
    if not answered or answered.startswith(served.model):
        return
    if served.listed and answered not in {*served.names} - {*served.aliases}:
        return
    raise BackendError(
        f"asked for the model {served.model!r}, but {answered!r} answers; "
        f"{_offer(served.names or (answered,))}: name one of them with --model"
    )


async def _models(client: Client) -> list[dict[str, Any]]:
    try:
        body = (await client.get(f"{client.endpoint.api}/models")).body
    except RequestFailedError as error:
        if error.gone:
            raise BackendError(
                f"nothing answers at {client.endpoint.api} ({error}); is the server running?"
            ) from None
        raise BackendError(f"{client.endpoint.api}/models: {error}") from None
    except RefusedError as error:
        if error.status in UNAUTHORIZED:
            raise explained(error, client, None) from None
        return []  # Not every compatible server has a list.
    listed = at(body, "data")
    return [entry for entry in listed if isinstance(at(entry, "id"), str)] if isinstance(listed, list) else []


def _names(entry: Mapping[str, Any]) -> list[str]:
    aliases = entry.get("aliases")
    return [
        name
        for name in (entry.get("id"), *(aliases if isinstance(aliases, list) else ()))
        if isinstance(name, str)
    ]


async def _kind(client: Client, entry: Mapping[str, Any]) -> tuple[Kind, Any]:
    known = KINDS.get(str(entry.get("owned_by")))
    if known is not None:
        return known, await client.peek(client.endpoint.root + known.details) if known.details else None
    for kind in UNKNOWN_KINDS:
        details = await client.peek(client.endpoint.root + kind.details)
        if isinstance(at(details, "version"), str):
            return kind, details
    return Kind(""), None


def _model_facts(entry: Mapping[str, Any]) -> dict[str, Any]:
    meta = entry.get("meta")
    facts = {key: entry.get(key) for key in ("id", "owned_by", "root", "max_model_len")}
    if isinstance(facts["root"], str) and PurePath(facts["root"]).is_absolute():
        facts["root"] = PurePath(facts["root"]).name
    if isinstance(meta, dict):
        facts |= {
            key: meta.get(key) for key in ("n_ctx", "n_ctx_train", "n_params", "n_vocab", "size", "ftype")
        }
    return without_nones(facts)


def _more_of_model(details: Any) -> dict[str, Any]:
    # A path on the server says more about its owner than about the model: only its last step is kept.
    path = at(details, "model_path")
    return without_nones(
        {
            "file": PurePath(path).name if isinstance(path, str) and path else None,
            "model_id": at(details, "model_id"),
            "dtype": at(details, "model_dtype"),
            "revision": at(details, "model_sha"),
        }
    )


def _runtime_facts(kind: Kind, details: Any) -> dict[str, Any]:
    template = at(details, "chat_template")
    return without_nones(
        {
            "name": kind.name or None,
            "version": at(details, "version") or at(details, "build_info"),
            "slots": at(details, "total_slots"),
            "post_sampling_probs": at(
                details, "default_generation_settings", "params", "post_sampling_probs"
            ),
            "chat_template_sha256": hashlib.sha256(template.encode("utf-8", "surrogatepass")).hexdigest()
            if isinstance(template, str)
            else None,
        }
    )


def _offer(names: Sequence[str]) -> str:
    if not names:
        return "the server does not say which ones it has"
    return (
        "the server has " + ", ".join(names[:SHOWN_MODELS]) + (", ..." if len(names) > SHOWN_MODELS else "")
    )


def explained(error: RefusedError, client: Client, served: Served | None, item: str = "") -> BackendError:
    """Turn a refusal into an error with the server's own words and a remedy.

    Args:
        error: the refusal.
        client: the client that got it.
        served: what the server offers, where that is known.
        item: the item that was asked about.
    """
    about = f"{client.endpoint.api}{item and f', item {item}'}: "
    remedy = _remedy(error, client, served)
    return BackendError(f"{about}the server refuses: {error}{remedy and f'; {remedy}'}")


def _remedy(error: RefusedError, client: Client, served: Served | None) -> str:
    words = error.words.lower()
    if error.status in UNAUTHORIZED:
        variable = client.secret.variable
        return (
            f"it does not accept the key in {variable}"
            if client.secret
            else f"put its API key into {variable}"
        )
    if "model" in words and re.search(r"not (exist|found)|does not exist|unknown model|no such model", words):
        return f"{_offer(served.names if served else ())}; name one with --model"
    if re.search(r"context|too long|too many (input )?tokens|prompt.{0,20}length", words):
        return "start the server with a longer context, or record the rest with --keep-going"
    if re.search(r"top_?(n_tokens|logprobs)|logprobs", words):
        limit = re.search(
            r"(?:max(?:imum)? allowed|maximum(?: value)?|limit of|<=|at most|less than or equal to)"
            r"\D{0,12}(\d+)",
            words,
        )
        if limit:
            return f"ask for fewer alternatives: --top-logprobs {limit[1]}"
        return "it gives no log-probabilities so; try other --top-logprobs, or --mode array"
    if re.search(
        r"chat_template_kwargs|cache_|logprob_token_ids|extra|unknown|unrecogni[sz]ed|not permitted", words
    ):
        return "if it does not know a field of the request, use --plain-request"
    if error.status == NOT_FOUND:
        return "is --base-url right? It usually ends in /v1"
    return ""
