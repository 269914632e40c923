"""Sound files of every kind that evalkit reads, and ways of damaging them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ITEMS = [
    {
        "id": "q1",
        "options": [{"id": "A", "description": "yes"}, {"id": "B"}],
        "label": "A",
        "family": "f",
        "group": "g",
    },
    {
        "id": "q2",
        "options": [{"id": "A"}, {"id": "B"}],
        "label": "B",
        "family": "f",
        "group": "g",
        "tags": ["t"],
    },
    {
        "id": "学校",
        "options": [{"id": "A"}, {"id": "B"}, {"id": "C"}],
        "label": None,
        "evidence": "甲\u2028乙",
        "part": "p",
    },
]
ROWS = [
    {"id": "q1", "option_ids": ["A", "B"], "probabilities": [0.9, 0.1], "model": "m", "cached_tokens": 0},
    {"id": "q2", "probabilities": {"A": 0.25, "B": 0.5}, "allowed_token_mass": 0.75},
    {"id": "学校", "option_ids": ["A", "B", "C"], "choice": "C", "probability_range": {"C": [0.85, 1.0]}},
]
RULES = """\
must = {q1 = "A"}

[[rule]]
metric = "accuracy"
op = ">="
value = 0.5
slice = "family=f"
use = "low"
inconclusive = "pass"

[[rule]]
metric = "flips"
op = "<="
value = 2
severity = "warning"
"""


PROJECT = """\
[[gate.check]]
name = "small"
labels = "labels.jsonl"
reference = "other.jsonl"
candidate = "run.jsonl"
only = {family = "f"}
rules = "gate.toml"
"""


def _lines(records: Iterable[object]) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode("utf-8")


def _parquet() -> bytes:
    packed = io.BytesIO()
    table = pa.table({"id": ["q1", "q2"], "label": ["A", "B"], "A": [0.9, 0.2], "B": [0.1, 0.8]})
    pq.write_table(table, packed)
    return packed.getvalue()


def _entry(token: str, logprob: float) -> dict[str, Any]:
    return {"token": token, "logprob": logprob, "bytes": list(token.encode("utf-8"))}


def _chat(best: str, other: str) -> dict[str, Any]:
    listed = [_entry(best, -0.1), _entry(other, -2.5), _entry("\n", -9999.0)]
    content = [_entry(best, -0.1) | {"top_logprobs": listed}]
    message = {"role": "assistant", "content": best}
    choice = {"index": 0, "message": message, "logprobs": {"content": content}, "finish_reason": "length"}
    return {"object": "chat.completion", "model": "m", "choices": [choice]}


_REQUEST = {"model": "m", "max_tokens": 1, "temperature": 1.0, "logprobs": True, "top_logprobs": 3}
_NATIVE = {
    "content": "A",
    "completion_probabilities": [{"content": "A", "probs": [{"tok_str": "A", "prob": 0.9}]}],
}
_SAMPLE = {"id": 1, "epoch": 1, "choices": ["yes", "no"], "target": "A", "output": _chat("A", "B")}

LABELS, RUN = _lines(ITEMS), _lines(ROWS)
_DIGEST, _RUN_DIGEST = (hashlib.sha256(data).hexdigest() for data in (LABELS, RUN))
CARD = f"""---
pretty_name: Demo
language: [en]
license: mit
configs:
  - {{config_name: v1, data_files: v1.jsonl, default: true}}
evalkit:
  schema: evalkit.labelset/1
  headline: balanced_accuracy
  policy:
    default: keep
    rules: [{{option: B, at_least: 0.85, action: drop}}]
  versions:
    v1: {{items: 3, sha256: {_DIGEST}, released: 2026-12-01, changes: first release}}
---
# Demo
""".encode()

SOUND: dict[str, bytes] = {
    "labels": LABELS,
    "run": RUN,
    "gz": gzip.compress(RUN, mtime=0),
    "zst": pa.compress(RUN, codec="zstd", asbytes=True),
    "card": CARD,
    "meta": json.dumps(
        {"label_set": {"name": "demo", "version": "v1"}, "recorded": {"options": {"temperature": 1.0}}},
        indent=1,
    ).encode(),
    "rules": RULES.encode(),
    "project": PROJECT.encode(),
    "lock": json.dumps(
        {
            "schema": "evalkit.lock/1",
            "accepted": {
                "labels": {
                    "label_set": {"name": "labels", "version": None, "sha256": _DIGEST},
                    "reference": {"name": "other.jsonl", "sha256": _RUN_DIGEST},
                    "figures": {"items": 3, "accuracy": 1.0},
                }
            },
        }
    ).encode(),
    "openai-responses": _lines(
        [
            {"id": "q1", "request": _REQUEST, "response": _chat("A", "B")},
            {"id": "q2", "request": {"n_predict": 1, "n_probs": 1}, "response": _NATIVE},
        ]
    ),
    "openai-batch": _lines(
        [
            {"custom_id": "q1", "response": {"status_code": 200, "body": _chat("A", " B")}, "error": None},
            {"custom_id": "q2", "response": {"status_code": 429, "body": {"error": {"message": "busy"}}}},
        ]
    ),
    "lm-eval": _lines(
        [
            {
                "doc_id": 0,
                "doc": {"question": "x", "choices": {"label": ["A", "B"], "text": ["yes", "no"]}},
                "target": "1",
                "arguments": {
                    "gen_args_0": {"arg_0": "x", "arg_1": " A"},
                    "gen_args_1": {"arg_0": "x", "arg_1": " B"},
                },
                "resps": [[["-2.5", "False"]], [["-0.4", "True"]]],
                "filtered_resps": [["-2.5", "False"], ["-0.4", "True"]],
                "filter": "none",
            }
        ]
    ),
    "inspect": json.dumps(
        {"version": 2, "status": "success", "eval": {"task": "t", "model": "m"}, "samples": [_SAMPLE]}
    ).encode(),
    "promptfoo": json.dumps(
        {
            "results": {
                "version": 3,
                "results": [{"success": True, "vars": {"id": "q1"}, "response": {"output": "A"}}],
            }
        }
    ).encode(),
    "parquet": _parquet(),
    "csv": b"id,label,A,B\nq1,A,0.9,0.1\nq2,B,0.2,0.8\n",
}

WORDS = (
    b"NaN", b"-Infinity", b"-9999.0", b"-3.4028234663852886e+38", b"1e999", b"9" * 5000, b"null",
    b"true", b"\"0,95\"",
    b"\"95%\"", b"\\ud83d", b"\xef\xbb\xbf", b"\x00", b"\xff", b"\n", b"\r\n", b"\n\n",
    b"\xe2\x80\xa8", b"{", b"}",
    b"[" * 300, b"}{", b",", b":", b"\"", b"\\", b"yes", b".nan", b"&a *a",
    b"!!python/object:os.system", b"---\n",
    "学".encode("gbk"), "Ａ".encode(), b"token_id:32", b"[[rule]]\n", b"=", b"\x1b[2J", b"q1", b"A",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 7, 95, 0.5, -0.5, 1.0000002, 1e300, -1e300, 10**400, "", "A", "q1",
    "NaN", "0,5",
    "95%", "\ud83d", "\u202e", "x" * 3000, [], {}, [[]], [None], [0.5, 0.5], ["A", "A"], {"A": 0.5},
    {"value": 1},
    float("nan"), float("inf"), [float("nan")] * 2, [0.0, 0.0], [[0.1, 0.2]], -9999.0,
)  # fmt: skip


def damaged(rng: random.Random, sound: bytes) -> bytes:
    """Return a file with one to four damages."""
    data = sound
    for _ in range(rng.randint(1, 4)):
        data = rng.choice(_DAMAGES)(rng, data)
    return data


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randint(0, len(data))]


def _insert(rng: random.Random, data: bytes) -> bytes:
    place = rng.randint(0, len(data))
    return data[:place] + rng.choice(WORDS) + data[place:]


def _replace(rng: random.Random, data: bytes) -> bytes:
    start = rng.randint(0, len(data))
    return data[:start] + rng.choice(WORDS) + data[start + rng.randint(0, 12) :]


def _flip(rng: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + 1 :]


def _repeat(rng: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    if lines:
        lines.insert(rng.randint(0, len(lines)), rng.choice(lines))
    return b"".join(lines)


def _recode(rng: random.Random, data: bytes) -> bytes:
    text = data.decode("utf-8", "replace")
    return text.encode(rng.choice(["utf-16", "utf-8-sig", "utf-16-le"]), "replace")


def _reshape(rng: random.Random, data: bytes) -> bytes:
    """Change one value inside a JSON document, or a document of one line."""
    lines = data.split(b"\n")
    place = rng.randrange(len(lines))
    whole = data.startswith(b"{") and len(lines) > 1 and lines[0].strip() == b"{"
    try:
        value = json.loads(data if whole else lines[place])
    except (ValueError, RecursionError):
        return data
    changed = json.dumps(_changed(rng, value)).encode("ascii")
    if whole:
        return changed
    lines[place] = changed
    return b"\n".join(lines)


def _changed(rng: random.Random, value: Any) -> Any:
    if not isinstance(value, dict | list) or not value or rng.random() < 0.15:
        return rng.choice(VALUES)
    key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
    if rng.random() < 0.15:
        del value[key]
    else:
        value[key] = _changed(rng, value[key])
    return value


_DAMAGES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    _cut, _insert, _insert, _replace, _flip, _repeat, _recode, _reshape, _reshape, _reshape,
)  # fmt: skip
