"""Raw responses of OpenAI-compatible servers: lines of `{id, request, response}`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evalkit.importers.files import InputFile, Start
from evalkit.importers.records import Format, ImportOptions, Place, Record, chosen_id
from evalkit.readings import Failure
from evalkit.shapes import error_text, prompt_options, readings, row_fields, settings_of
from evalkit.values import at

_OTHERS = {"custom_id", "testIdx", "promptIdx"}
"""Keys that a batch file or promptfoo's results have beside `id` and `response`."""


def _recognises(start: Start) -> bool:
    first = start.first or {}
    if _OTHERS & first.keys():
        return False
    return "id" in first and ("response" in first or ("request" in first and "error" in first))


def _records(file: InputFile, options: ImportOptions) -> Iterator[Record]:
    for line, row in file.lines():
        request, response = _body(row.get("request")), _body(row.get("response"))
        settings = settings_of(request)
        item, place = chosen_id(row, options, ("id",)), Place(file.name, line)
        declared = prompt_options(request)
        if response is None:
            reason = error_text(row) or "no response was recorded"
            yield Record(item, place, Failure(reason), declared, settings=settings)
            continue
        fields = row_fields(response, row)
        for repeat, reading in enumerate(answers := readings(response, request), 1):
            yield Record(
                item,
                place,
                reading,
                options=declared,
                repeat=repeat if len(answers) > 1 else None,
                settings=settings,
                fields=fields,
                model={"name": name} if isinstance(name := at(request, "model"), str) else {},
            )


def _body(value: Any) -> Any:
    """Take the body out of a captured HTTP message."""
    if isinstance(value, dict) and "body" in value and ({"status", "path"} & value.keys()):
        return value["body"]
    return value


FORMAT = Format(
    "openai-responses",
    "lines {id, request, response} as vLLM, llama.cpp, SGLang, Ollama, TGI or LM Studio answered",
    _recognises,
    _records,
)
