"""promptfoo: results files in their nestings, and lines of results; answers are texts only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evalkit.errors import InputError
from evalkit.importers.files import InputFile, Start
from evalkit.importers.records import Format, ImportOptions, Item, Place, Record, chosen_id
from evalkit.readings import Answer, Failure, Reading
from evalkit.values import at, number, without_nones

_ERROR = 2
"""The failure reason of a request that failed; 1 is an answer that an assertion turned down."""
_EXACT = ("equals",)
_EVIDENCE = ("evidence", "text", "input", "state", "context")
_CRITERION = ("criterion", "question")


def _recognises(start: Start) -> bool:
    first = start.first or {}
    if {"testIdx", "promptIdx"} & first.keys() and "doc_id" not in first:
        return True
    return "results" in first and "eval" not in first


def _rows(file: InputFile) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield the result rows with their places."""
    first = file.start.first or {}
    if {"testIdx", "promptIdx"} & first.keys():
        for line, row in file.lines():
            yield Place(file.name, line), row
        return
    for steps in (("results", "results"), ("results",)):
        rows = at(file.document, *steps)
        if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows):
            path = "$." + ".".join(steps)
            yield from ((Place(file.name, path=f"{path}[{place}]"), row) for place, row in enumerate(rows))
            return
    keys = ", ".join(file.document)
    nested = at(file.document, "results")
    inner = f"; results holds {', '.join(nested)}" if isinstance(nested, dict) else ""
    problem = Place(file.name).problem(
        f"unknown nesting, no list of results was found (keys: {keys}{inner})",
        "export it with `promptfoo export eval` or write it with --output results.json",
    )
    raise InputError(problem)


def _records(file: InputFile, options: ImportOptions) -> Iterator[Record]:
    for place, row in _rows(file):
        yield Record(
            id=_id(row, options),
            place=place,
            reading=_reading(row),
            series=(("--provider", _provider(row)), ("--prompt", str(row.get("promptIdx", 0)))),
            fields=without_nones(
                {
                    "model": _provider(row) or None,
                    "total_seconds": None
                    if (latency := number(row.get("latencyMs"))) is None
                    else latency / 1000,
                }
            ),
        )


def _id(row: dict[str, Any], options: ImportOptions) -> Any:
    return chosen_id(row, options, ("vars", "id"), ("testCase", "vars", "id"), ("testIdx",))


def _provider(row: dict[str, Any]) -> str:
    provider = row.get("provider")
    return str(at(provider, "label") or at(provider, "id") or (provider if isinstance(provider, str) else ""))


def _reading(row: dict[str, Any]) -> Reading:
    output = at(row, "response", "output")
    failed = at(row, "response", "error")
    if row.get("failureReason") == _ERROR or failed is not None or (output is None and row.get("error")):
        return Failure(str(failed or row.get("error") or "error without a message"))
    if not isinstance(output, str):
        return Failure(f"the output is no text ({type(output).__name__})", "invalid")
    return Answer(output)


def _items(file: InputFile, options: ImportOptions) -> Iterator[Item]:
    for place, row in _rows(file):
        test = row.get("testCase")
        variables = row.get("vars") or at(test, "vars")
        yield Item(
            id=_id(row, options),
            place=place,
            label=_expected(test, variables),
            options=tuple({"id": option} for option in options.options),
            fields=without_nones(
                {"evidence": _named(variables, _EVIDENCE), "criterion": _named(variables, _CRITERION)}
            ),
        )


def _named(variables: Any, names: tuple[str, ...]) -> Any:
    return next((found for name in names if (found := at(variables, name))), None)


def _expected(test: Any, variables: Any) -> Any:
    """Return what the test's only exact assertion expects; else the variable `label` or `expected`."""
    asserts = at(test, "assert")
    exact = [
        at(check, "value")
        for check in (asserts if isinstance(asserts, list) else [])
        if at(check, "type") in _EXACT
    ]
    if len(exact) == 1:
        return exact[0]
    return _named(variables, ("label", "expected"))


FORMAT = Format("promptfoo", "results of promptfoo (JSON or JSON lines)", _recognises, _records, _items)
