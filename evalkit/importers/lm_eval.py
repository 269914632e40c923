"""lm-evaluation-harness: `samples_*.jsonl` of multiple-choice tasks, one log-likelihood an option.

A document stands once per filter; one filter is imported. The boolean beside a log-likelihood says
whether the continuation was the greedy one, not whether it was right; it is not used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evalkit.importers.files import InputFile, Start
from evalkit.importers.records import Format, ImportOptions, Item, Place, Record, chosen_id, described
from evalkit.readings import Answer, Failure, Likelihoods, Reading
from evalkit.readout import LETTERS
from evalkit.values import at

BASIS = "exp of the log-likelihoods of the continuations, renormalised over the options"
"""What the probabilities of such a run are."""

_MAX_DIGITS = 10
_TEXT_FIELDS = ("question", "query", "input", "premise", "ctx", "sentence")


def _recognises(start: Start) -> bool:
    first = start.first or {}
    return "doc_id" in first and bool({"resps", "filtered_resps"} & first.keys())


def _records(file: InputFile, options: ImportOptions) -> Iterator[Record]:
    for line, sample in file.lines():
        continuations = _continuations(sample.get("arguments"))
        reading = _reading(sample, len(continuations))
        count = len(reading.values) if isinstance(reading, Likelihoods) else 0
        yield Record(
            id=chosen_id(sample, options, ("doc_id",)),
            place=Place(file.name, line),
            reading=reading,
            options=options.options
            or _option_ids(sample.get("doc"), count or _choice_count(sample.get("doc"))),
            series=(("--filter", str(sample.get("filter", "none"))),),
            basis=BASIS if isinstance(reading, Likelihoods) else "",
        )


def _reading(sample: Mapping[str, Any], count: int) -> Reading:
    values = sample.get("filtered_resps", sample.get("resps"))
    if not isinstance(values, list):
        return Failure("no responses were saved")
    if len(values) == 1 and isinstance(values[0], str):
        return Answer(values[0])
    pairs = [_pair(value) for value in values]
    if count and len(pairs) != count:
        return Failure(f"{len(pairs)} log-likelihoods for {count} continuations", "invalid")
    # With acc_mutual_info each option also stands without its context, in the second half.
    if count and count % 2 == 0 and _second_half_unconditional(sample.get("arguments")):
        pairs = pairs[: count // 2]
    if len(pairs) < 2:
        return Failure("the task is not multiple choice: fewer than two log-likelihoods", "invalid")
    return Likelihoods(tuple(pairs))


def _pair(value: Any) -> Any:
    """Take the log-likelihood out of `[value, greedy]`, nested once more in `resps`."""
    while isinstance(value, list) and value:
        value = value[0]
    return value


def _continuations(arguments: Any) -> list[tuple[Any, Any]]:
    """Return the pairs (context, continuation) of either shape of `arguments`."""
    if isinstance(arguments, dict):
        keys = sorted(arguments, key=_number)
        return [(at(arguments, key, "arg_0"), at(arguments, key, "arg_1")) for key in keys]
    if isinstance(arguments, list):
        return [(at(pair, 0), at(pair, 1)) for pair in arguments]
    return []


def _number(key: str) -> tuple[int, str]:
    digits = key.rpartition("_")[2]
    return (int(digits) if digits.isdecimal() and len(digits) < _MAX_DIGITS else -1, key)


def _second_half_unconditional(arguments: Any) -> bool:
    pairs = _continuations(arguments)
    half = len(pairs) // 2
    contexts = [context for context, _ in pairs]
    return half > 0 and all(contexts[:half]) and not any(contexts[half:])


def _option_ids(doc: Any, count: int) -> tuple[str, ...]:
    """Return the ids that the document gives its choices, or letters by position."""
    given = at(doc, "choices", "label")
    if isinstance(given, list) and len(given) == count and all(isinstance(label, str) for label in given):
        return tuple(given)
    return tuple(LETTERS[:count]) if count <= len(LETTERS) else tuple(map(str, range(count)))


def _choice_texts(doc: Any) -> list[str]:
    for found in (at(doc, "choices", "text"), at(doc, "choices"), at(doc, "endings")):
        if isinstance(found, list) and all(isinstance(text, str) for text in found):
            return found
    return []


def _choice_count(doc: Any) -> int:
    return len(_choice_texts(doc))


def _items(file: InputFile, options: ImportOptions) -> Iterator[Item]:
    for line, sample in file.lines():
        doc = sample.get("doc")
        texts = _choice_texts(doc) or [
            str(text).strip() for _, text in _continuations(sample.get("arguments")) if text is not None
        ]
        ids, place = options.options or _option_ids(doc, len(texts)), Place(file.name, line)
        yield Item(
            id=chosen_id(sample, options, ("doc_id",)),
            place=place,
            label=sample.get("target"),
            options=described(ids, texts, place),
            fields=_texts(doc),
        )


def _texts(doc: Any) -> dict[str, Any]:
    question = next((at(doc, name) for name in _TEXT_FIELDS if isinstance(at(doc, name), str)), None)
    return {"evidence": question} if question else {}


FORMAT = Format(
    "lm-eval", "samples_*.jsonl of lm-evaluation-harness, multiple choice", _recognises, _records, _items
)
