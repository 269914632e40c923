"""The shapes in which servers answer, mapped to listed token values.

One function a shape, tried in order; a body that none of them knows is named, never read as empty.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from evalkit.readings import Failure, Lists, Reading
from evalkit.readout import LETTERS, Asked, Listing, Position, Token
from evalkit.settings import MOVING
from evalkit.values import at, number, whole, without_nones

SETTINGS = (
    *MOVING, "seed", "max_tokens", "n_predict", "logprobs", "top_logprobs", "n_probs", "logprob_token_ids",
    "cache_prompt",
)  # fmt: skip
"""Settings of a request that are worth recording."""

MAX_WORDS = 500
"""Characters of a server's message that are kept."""

_NESTED = ("options", "parameters", "sampling_params")
_CUTS = ("top_k", "min_p", "typical_p")
_SHOWN_KEYS = 8

Shape = Callable[[dict[str, Any], Asked, Mapping[str, Any]], list[Reading] | None]


def readings(body: Any, request: Any) -> list[Reading]:
    """Map the body of a response: one reading for each answer in it (usually one).

    Args:
        body: the parsed body, as the server sent it.
        request: the parsed body of the request, as far as it is known.
    """
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    if not isinstance(body, dict):
        shown = (
            "a stream of events"
            if isinstance(body, str) and body.startswith("data:")
            else type(body).__name__
        )
        return [Failure(f"unknown response shape: {shown}, not one JSON object")]
    settings = _flat(request)
    asked = _asked(settings)
    for shape in _SHAPES:
        found = shape(body, asked, settings)
        if found is not None:
            return found
    if reason := error_text(body):
        return [Failure(reason)]
    keys = ", ".join(list(body)[:_SHOWN_KEYS]) or "none"
    return [Failure(f"unknown response shape (keys: {keys})")]


def error_text(body: Any) -> str:
    """Return the message of an error body in any of its shapes; empty where it is none."""
    if isinstance(body, str):
        return body[:MAX_WORDS]
    if not isinstance(body, dict):
        return ""
    error = body.get("error")
    if error is None and (body.get("object") == "error" or "choices" not in body):
        error = body.get("message") if isinstance(body.get("message"), str) else body.get("detail")
    if isinstance(error, dict):
        error = error.get("message") or error.get("type") or error.get("code") or json.dumps(error)
    if error is None:
        return ""
    return (error if isinstance(error, str) else json.dumps(error))[:MAX_WORDS]


def settings_of(request: Any) -> dict[str, Any]:
    """Return the settings of a request that are worth recording."""
    flat = _flat(request)
    return {key: flat[key] for key in SETTINGS if flat.get(key) is not None}


def row_fields(body: Any, line: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what a run's row keeps of a response besides the decision.

    Args:
        body: the parsed body.
        line: the recorded line around it, for the time the request took.
    """
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    usage = at(body, "usage")
    tokens = [at(usage, "prompt_tokens"), at(usage, "input_tokens"), at(body, "tokens_evaluated"),
              at(body, "prompt_eval_count"), at(body, "meta_info", "prompt_tokens")]  # fmt: skip
    cached = [
        at(usage, "prompt_tokens_details", "cached_tokens"),
        at(body, "timings", "cache_n"),
        at(body, "meta_info", "cached_tokens"),
    ]
    return without_nones(
        {
            "model": _text(at(body, "model")),
            "system_fingerprint": _text(at(body, "system_fingerprint")),
            "input_tokens": _first_count(tokens),
            "cached_tokens": _first_count(cached),
            "total_seconds": _seconds(line or {}),
        }
    )


def prompt_options(request: Any) -> tuple[str, ...]:
    """Return the letters that a prompt of the protocol `semif/1` lists; none where it is another prompt."""
    messages = at(request, "messages")
    content = at(messages, len(messages) - 1, "content") if isinstance(messages, list) and messages else None
    if not isinstance(content, str):
        return ()
    try:
        listed = at(json.loads(content), "options")
    except (ValueError, RecursionError):
        return ()
    letters = tuple(at(option, "letter") for option in listed) if isinstance(listed, list) else ()
    return letters if letters and tuple(LETTERS[: len(letters)]) == letters else ()


def chat_listing(content: Any, asked: Asked) -> Listing | None:
    """Map a list of `{token, logprob, top_logprobs}` entries; None where it is none.

    Args:
        content: the list, as chat completions have it in `logprobs.content`.
        asked: what the request says about the lists.
    """
    if not isinstance(content, list) or not all(isinstance(entry, dict) for entry in content):
        return None
    probabilities = any("prob" in entry or "top_probs" in entry for entry in content)
    value, top = ("prob", "top_probs") if probabilities else ("logprob", "top_logprobs")
    positions = [Position(_token(entry, value), _listed(entry.get(top), value)) for entry in content]
    return Listing(tuple(positions), probabilities, after_sampling=probabilities, asked=asked)


def _flat(request: Any) -> dict[str, Any]:
    if not isinstance(request, dict):
        return {}
    nested = (request[key] for key in _NESTED if isinstance(request.get(key), dict))
    return {key: value for part in (request, *nested) for key, value in part.items()}


def _asked(settings: Mapping[str, Any]) -> Asked:
    counts = [
        settings.get(key)
        for key in ("top_logprobs", "n_probs", "top_n_tokens", "top_logprobs_num", "logprobs")
    ]
    top_p = settings.get("top_p")
    named = bool(settings.get("logprob_token_ids") or settings.get("token_ids_logprob"))
    return Asked(
        entries=None if named else _first_count(counts),
        top_p=float(top_p) if top_p is not None and _is_share(top_p) else 1.0,
        other_cuts=any(isinstance(settings.get(key), int | float) and settings[key] > 0 for key in _CUTS),
        named_tokens=named,
    )


def _is_share(value: Any) -> bool:
    return 0 < (number(value) or 0) <= 1


def _first_count(values: list[Any]) -> int | None:
    return next((count for value in values if (count := whole(value)) is not None and count >= 0), None)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _seconds(line: Mapping[str, Any]) -> float | None:
    return number(line.get("total_seconds", line.get("seconds")))


def _listed(entries: Any, value: str, text: str = "token") -> tuple[Token, ...]:
    if isinstance(entries, dict):
        return tuple(Token(key, number) for key, number in entries.items())
    return tuple(_token(entry, value, text) for entry in entries) if isinstance(entries, list) else ()


def _token(entry: Any, value: str, text: str = "token") -> Token:
    if not isinstance(entry, dict):
        return Token("", entry)
    id_, shown = whole(entry.get("id")), entry.get(text)
    return Token(
        text=shown if isinstance(shown, str) else _unnamed(id_),
        value=entry.get(value),
        id=id_,
        valued=value in entry,
    )


def _unnamed(id_: int | None) -> str:
    """Return the placeholder of a token whose text was not recorded: it may be any option."""
    return f"token_id:{id_ or 0}"


def _choices(body: dict[str, Any], asked: Asked, settings: Mapping[str, Any]) -> list[Reading] | None:
    """OpenAI's chat and text completions, as most servers speak them."""
    choices = body.get("choices")
    if not isinstance(choices, list):
        return None
    if not choices:
        return [Failure("the response has no choices")]
    return [_choice(choice, asked, body, settings) for choice in choices]


def _choice(choice: Any, asked: Asked, body: dict[str, Any], settings: Mapping[str, Any]) -> Reading:
    given = at(choice, "logprobs")
    text = at(choice, "message", "content") or at(choice, "text")
    text = text if isinstance(text, str) else ""
    if given is None or given == {}:
        return Lists(Listing(()), text)
    content = given.get("content") if isinstance(given, dict) else given
    listing = (
        _by_text(given, asked)
        if isinstance(given, dict) and "tokens" in given
        else chat_listing(content if content is not None else [], asked)
    )
    if listing is None:
        keys = ", ".join(given) if isinstance(given, dict) else type(given).__name__
        return Failure(f"unknown shape of logprobs ({keys})")
    generated = at(body, "usage", "completion_tokens")
    if settings.get("echo") and isinstance(generated, int) and generated > 0:
        listing = replace(listing, positions=listing.positions[-generated:])
    return Lists(listing, text)


def _by_text(given: dict[str, Any], asked: Asked) -> Listing | None:
    """Text completions: parallel lists, the likely tokens as an object from text to log-probability."""
    tokens, own, tops = given.get("tokens"), given.get("token_logprobs"), given.get("top_logprobs")
    if not isinstance(tokens, list):
        return None
    positions = []
    for place, text in enumerate(tokens):
        sampled = Token(str(text), at(own, place), valued=isinstance(own, list) and place < len(own))
        positions.append(Position(sampled, _listed(at(tops, place), "logprob")))
    return Listing(tuple(positions), keyed_by_text=True, asked=asked)


def _at_root(body: dict[str, Any], asked: Asked, _: Mapping[str, Any]) -> list[Reading] | None:
    """Ollama: the list of entries stands at the root of the reply."""
    message, response = at(body, "message", "content"), body.get("response")
    text = message if isinstance(message, str) else response
    if not isinstance(text, str) or not {"done", "logprobs"} & body.keys():
        return None
    listing = chat_listing(body.get("logprobs") or [], asked)
    return [Lists(listing, text)] if listing else [Failure("unknown shape of logprobs")]


def _llamacpp(body: dict[str, Any], asked: Asked, _: Mapping[str, Any]) -> list[Reading] | None:
    """llama.cpp's own endpoint: today's entries, or the older `{content, probs: [{tok_str, prob}]}`."""
    listed = body.get("completion_probabilities")
    if "completion_probabilities" not in body and not ("content" in body and "tokens_predicted" in body):
        return None
    text = body["content"] if isinstance(body.get("content"), str) else ""
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        return [Lists(Listing(()), text)]
    if not any("probs" in entry for entry in listed):
        listing = chat_listing(listed, asked)
        return [Lists(listing, text)] if listing else None
    positions = [
        Position(
            Token(str(entry.get("content", "")), valued=False),
            _listed(entry.get("probs"), "prob", "tok_str"),
        )
        for entry in listed
    ]
    return [Lists(Listing(tuple(positions), probabilities=True, asked=asked), text)]


def _tgi(body: dict[str, Any], asked: Asked, _: Mapping[str, Any]) -> list[Reading] | None:
    """TGI's own endpoint: `details.tokens` and, for each of them, `details.top_tokens`."""
    tokens, tops = at(body, "details", "tokens"), at(body, "details", "top_tokens")
    if "generated_text" not in body:
        return None
    text = body["generated_text"] if isinstance(body["generated_text"], str) else ""
    if not isinstance(tokens, list):
        return [Lists(Listing(()), text)]
    positions = [
        Position(
            _token(token, "logprob", "text"),
            _listed(at(tops, place), "logprob", "text"),
        )
        for place, token in enumerate(tokens)
    ]
    return [Lists(Listing(tuple(positions), asked=asked), text)]


def _sglang(body: dict[str, Any], asked: Asked, _: Mapping[str, Any]) -> list[Reading] | None:
    """SGLang's own endpoint: triples (log-probability, token number, text) in `meta_info`."""
    meta = body.get("meta_info")
    if not isinstance(meta, dict):
        return None
    own, tops = meta.get("output_token_logprobs"), meta.get("output_top_logprobs")
    text = body["text"] if isinstance(body.get("text"), str) else ""
    positions = [
        Position(_triple(token), tuple(map(_triple, _as_list(at(tops, place)))))
        for place, token in enumerate(_as_list(own))
    ]
    return [Lists(Listing(tuple(positions), asked=asked), text)]


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _triple(entry: Any) -> Token:
    id_, text = whole(at(entry, 1)), at(entry, 2)
    # Without its text a token is known by its number only.
    return Token(text if isinstance(text, str) else _unnamed(id_), at(entry, 0), id_)


def _output_items(body: dict[str, Any], asked: Asked, _: Mapping[str, Any]) -> list[Reading] | None:
    """OpenAI's Responses interface, which LM Studio and others speak too."""
    output = body.get("output")
    if not isinstance(output, list):
        return None
    parts = [
        part for item in output for part in _as_list(at(item, "content")) if at(part, "type") == "output_text"
    ]
    if not parts:
        return [Lists(Listing(()))]
    listing = chat_listing(at(parts[0], "logprobs") or [], asked)
    text = at(parts[0], "text")
    if listing is None:
        return [Failure("unknown shape of logprobs")]
    return [Lists(listing, text if isinstance(text, str) else "")]


_SHAPES: tuple[Shape, ...] = (_choices, _llamacpp, _at_root, _tgi, _sglang, _output_items)
