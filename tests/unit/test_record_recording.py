"""From wishes to a recording: what contradicts itself is refused before anything is asked."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import UsageError
from evalkit.record.progress import Silent
from evalkit.record.recording import Recording, Wishes, run_files
from tests.conftest import Maker
from tests.stub_server import Stub
from tests.unit.asking import items, meta_of, recording

URL = "http://localhost:1"


@pytest.mark.parametrize(
    ("wishes", "what"),
    [
        ({"base_url": URL, "output": Path("run.jsonl.gz")}, "a run file is called NAME.jsonl"),
        ({"base_url": URL, "mode": "essay"}, "--mode essay: there is letter, array"),
        ({"base_url": URL, "backend": "onnx"}, "--backend onnx: there is http, llamacpp, transformers"),
        ({}, "--base-url: name the server"),
        ({"backend": "llamacpp", "base_url": URL, "model": "m"}, "the backend llamacpp runs in this process"),
        ({"backend": "llamacpp"}, "--model: name the file of the model"),
        ({"backend": "transformers"}, "--model: name the folder of the model"),
        ({"backend": "transformers", "model": "m", "mode": "array"}, "needs a backend that generates"),
        ({"base_url": URL, "deterministic": True, "concurrency": 2}, "leave --concurrency out"),
        ({"base_url": URL, "model_file": Path("none.gguf")}, "is no file"),
    ],
)
def test_wishes_that_cannot_be_met_are_refused(make: Maker, wishes: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        Recording(make.labels(items(1)), Wishes(**{"output": Path("run.jsonl"), **wishes}), Silent())


@pytest.mark.parametrize(
    ("wishes", "concurrency"),
    [
        ({}, 8),
        ({"concurrency": 3}, 3),
        ({"deterministic": True}, 1),
        ({"deterministic": True, "concurrency": 1}, 1),
    ],
)
def test_concurrency_is_what_suits(make: Maker, wishes: dict[str, Any], concurrency: int) -> None:
    wanted = Wishes(output=Path("run.jsonl"), base_url=URL, **wishes)
    assert Recording(make.labels(items(1)), wanted, Silent()).concurrency == concurrency


def test_run_files_of_repeats_are_numbered() -> None:
    assert run_files(Path("a/qwen2.5.jsonl"), 1) == [Path("a/qwen2.5.jsonl")]
    assert run_files(Path("a/qwen2.5.jsonl"), 2) == [Path("a/qwen2.5.1.jsonl"), Path("a/qwen2.5.2.jsonl")]


def test_declared_file_gets_into_the_sidecar_with_its_hash(make: Maker, tmp_path: Path) -> None:
    file = tmp_path / "served.gguf"
    file.write_bytes(b"GGUF")
    output = tmp_path / "run.jsonl"
    with Stub() as stub:
        recording(make.labels(items(1)), output, stub.url, model_file=file, plain=True).run()
    model = meta_of(output)["model"]
    assert (model["file"], model["bytes"]) == ("served.gguf", 4)
    assert model["sha256"] == hashlib.sha256(b"GGUF").hexdigest()
    assert "chat_template_kwargs" not in meta_of(output)["recorded"]["options"]
