"""Inspect: logs in JSON and in `.eval` archives; epochs are repeats.

The letters are read at the first generated position, or, where the answer follows Inspect's own form,
right after `ANSWER:`. The log's marks (`scores`) are not used: NaN there is not our business.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from evalkit.errors import InputError
from evalkit.importers.files import ZIP, InputFile, Start
from evalkit.importers.records import Format, ImportOptions, Item, Place, Record, chosen_id, described
from evalkit.jsonl import parse_object
from evalkit.readings import Failure, Lists, Reading
from evalkit.readout import LETTERS, RULE, Listing
from evalkit.shapes import SETTINGS, readings, row_fields
from evalkit.values import at, number, whole, without_nones

MAX_MEMBER_BYTES = 256 << 20
"""A larger sample of an archive is refused."""
AFTER_MARKER = f"{RULE} after ANSWER:"
"""Name of the read-out right after the marker of Inspect's multiple-choice answers."""

_MARKER = re.compile(r"(?i)answer\s*:\s*$")
_MARKER_TOKENS = 8
_SAMPLE = re.compile(r"samples/.*_epoch_\d+\.json")
_ZSTD = 93
_DAMAGE = (zipfile.BadZipFile, zlib.error, OSError, ValueError, RuntimeError, EOFError, struct.error)
_LOCAL_HEADER = struct.Struct("<26xHH")


def _recognises(start: Start) -> bool:
    first = start.first or {}
    return start.magic == ZIP or ("eval" in first and ("samples" in first or "status" in first))


def _log(file: InputFile) -> tuple[dict[str, Any], Iterator[tuple[Place, dict[str, Any]]]]:
    """Return the log's header and its samples with their places."""
    if file.start.magic == ZIP:
        return _archive(file)
    samples = file.document.get("samples")
    if not isinstance(samples, list) or not all(isinstance(sample, dict) for sample in samples):
        problem = Place(file.name).problem("the log holds no samples", "run with --log-samples")
        raise InputError(problem)
    places = ((Place(file.name, path=f"$.samples[{n}]"), sample) for n, sample in enumerate(samples))
    return file.document, places


def _archive(file: InputFile) -> tuple[dict[str, Any], Iterator[tuple[Place, dict[str, Any]]]]:
    try:
        archive = zipfile.ZipFile(file.path)
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise InputError(Place(file.name).problem(f"damaged archive ({error})", "copy it again")) from None
    members = {info.filename: info for info in archive.infolist()}
    header = next((members[name] for name in ("header.json", "_journal/start.json") if name in members), None)
    if header is None:
        raise InputError(Place(file.name).problem("is an archive, but not of an Inspect log"))
    # A name may stand in an archive twice, with two contents.
    found = [info for info in archive.infolist() if _SAMPLE.fullmatch(info.filename)]
    if not found:
        raise InputError(Place(file.name).problem("the log holds no samples", "run with --log-samples"))
    return _member(file, archive, header), _members(file, archive, found)


def _members(
    file: InputFile, archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]
) -> Iterator[tuple[Place, dict[str, Any]]]:
    with archive:
        for info in members:
            yield Place(file.name, path=info.filename), _member(file, archive, info)


def _member(file: InputFile, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> dict[str, Any]:
    """Read a member as a JSON object; Inspect compresses with zstd, which zipfile cannot."""
    where = f"{file.name}:{info.filename}"
    try:
        if info.file_size > MAX_MEMBER_BYTES:
            raise ValueError(f"larger than {MAX_MEMBER_BYTES >> 20} MiB")
        raw = _zstd_member(file, info) if info.compress_type == _ZSTD else archive.read(info)
    except _DAMAGE as error:
        raise InputError(Place(where).problem(f"damaged archive ({error})", "copy it again")) from None
    return parse_object(raw, where, 1, allow_nan=True)


def _zstd_member(file: InputFile, info: zipfile.ZipInfo) -> bytes:
    with file.path.open("rb") as stored:
        stored.seek(info.header_offset)
        name_length, extra_length = _LOCAL_HEADER.unpack(stored.read(_LOCAL_HEADER.size))
        stored.seek(name_length + extra_length, io.SEEK_CUR)
        packed = stored.read(info.compress_size)
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        raw = bytes(stream.read(MAX_MEMBER_BYTES))
    if zlib.crc32(raw) != info.CRC:
        raise ValueError("the checksum does not match")
    return raw


def _records(file: InputFile, options: ImportOptions) -> Iterator[Record]:
    header, samples = _log(file)
    settings = _settings(header)
    model = at(header, "eval", "model")
    if (status := header.get("status")) not in (None, "success"):
        file.notices.append(f"{file.name}: the log's status is {status}: it may be incomplete")
    if _shuffled(header):
        problem = Place(file.name, path="$.plan").problem(
            "multiple_choice(shuffle=...) gave each sample its own letters, which the log does not keep",
            "run it without shuffling the choices inside the solver",
        )
        raise InputError(problem)
    for place, sample in samples:
        reading, rule = _reading(sample, settings)
        choices = sample.get("choices")
        yield Record(
            id=chosen_id(sample, options, ("id",)),
            place=place,
            reading=reading,
            options=_letters(len(choices)) if isinstance(choices, list) else (),
            repeat=whole(sample.get("epoch")),
            settings=settings,
            fields=_fields(sample),
            model={"name": model} if isinstance(model, str) else {},
            rule=rule,
        )


def _settings(header: dict[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for config in (at(header, "eval", "model_generate_config"), at(header, "plan", "config")):
        merged |= without_nones(config) if isinstance(config, dict) else {}
    return {key: merged[key] for key in SETTINGS if key in merged}


def _shuffled(header: dict[str, Any]) -> bool:
    steps = at(header, "plan", "steps")
    return any(
        at(step, "params", "shuffle") not in (None, False)
        for step in (steps if isinstance(steps, list) else [])
    )


def _reading(sample: dict[str, Any], settings: dict[str, Any]) -> tuple[Reading, str]:
    error = at(sample, "error", "message") or at(sample, "output", "error")
    if error is not None:
        return Failure(str(error)), ""
    output = sample.get("output")
    if not at(output, "choices"):
        return Failure("the sample has no output"), ""
    reading = readings(output, settings)[0]
    answer = _marked_answer(sample)
    if isinstance(reading, Lists):
        marked = _after_marker(reading.listing)
        if marked is not None:
            return Lists(marked, answer), AFTER_MARKER
        return Lists(reading.listing, answer), ""
    return reading, ""


def _after_marker(listing: Listing) -> Listing | None:
    """Return the positions that follow the last `ANSWER:`; None where the answer does not have it."""
    positions = listing.positions
    texts = [position.sampled.text if position.sampled else "" for position in positions]
    for start in range(len(positions) - 1, 0, -1):
        if texts[start].strip() and _MARKER.search("".join(texts[max(0, start - _MARKER_TOKENS) : start])):
            return replace(listing, positions=positions[start:])
    return None


def _marked_answer(sample: dict[str, Any]) -> str:
    """Return the answer as the log's scorers extracted it, else the completion."""
    scores = sample.get("scores")
    answers = {
        answer
        for score in (scores.values() if isinstance(scores, dict) else ())
        if isinstance(answer := at(score, "answer"), str)
    }
    completion = at(sample, "output", "completion") or at(
        sample, "output", "choices", 0, "message", "content"
    )
    return answers.pop() if len(answers) == 1 else completion if isinstance(completion, str) else ""


def _fields(sample: dict[str, Any]) -> dict[str, Any]:
    fields = row_fields(sample.get("output"))
    seconds = number(at(sample, "output", "time"))
    return fields if seconds is None else {**fields, "total_seconds": seconds}


def _items(file: InputFile, options: ImportOptions) -> Iterator[Item]:
    _, samples = _log(file)
    for place, sample in samples:
        choices = sample.get("choices")
        texts = choices if isinstance(choices, list) else []
        target = sample.get("target")
        yield Item(
            id=chosen_id(sample, options, ("id",)),
            place=place,
            label=target[0] if isinstance(target, list) and len(target) == 1 else target,
            options=described(options.options or _letters(len(texts)), texts, place)
            or tuple({"id": option} for option in options.options),
            fields=_evidence(sample),
        )


def _letters(count: int) -> tuple[str, ...]:
    """Return the names that Inspect gives choices: A to Z, then 1, 2 ..."""
    return (*LETTERS[:count], *(str(n + 1) for n in range(count - len(LETTERS))))


def _evidence(sample: dict[str, Any]) -> dict[str, Any]:
    given = sample.get("input")
    if isinstance(given, list):
        said = [at(message, "content") for message in given if at(message, "role") == "user"]
        given = said[-1] if said else None
    if isinstance(given, str) and given.startswith("attachment://"):
        given = at(sample, "attachments", given.removeprefix("attachment://"))
    return {"evidence": given} if isinstance(given, str) else {}


FORMAT = Format("inspect", "logs of Inspect (.json, .eval)", _recognises, _records, _items)
