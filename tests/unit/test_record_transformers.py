"""Full logits inside this process: the read-out, the checks, and what is never done."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from evalkit.errors import InputError, UsageError
from evalkit.record import transformers_backend
from evalkit.record.errors import BackendError
from evalkit.record.progress import Silent
from evalkit.record.protocol import make_prompt
from evalkit.record.recording import Recording, Wishes
from evalkit.record.transformers_backend import TorchNetwork, TransformersBackend, load_network
from tests.conftest import Maker
from tests.stub_server import SPACED, VOCABULARY, token_ids
from tests.unit.asking import item, items, meta_of, rows_of, wait_for

WORDS = 2000
"""Size of the made-up vocabulary."""


class Network:
    """A made-up model whose logits are all 0 but for the letters."""

    version = "made up"

    def __init__(self, logits: dict[int, float]) -> None:
        self.logits = logits
        self.longest = 10_000

    def render(self, messages: Sequence[dict[str, str]]) -> str:
        """Return a prompt."""
        return "".join(message["content"] for message in messages) + "\n"

    def tokenize(self, text: str) -> list[int]:
        """Return a token a sign, and one for a letter with a space or marker."""
        if len(text) == 2 and text[1] in VOCABULARY:
            return token_ids(f" {text[1]}")
        return [number for sign in text for number in token_ids(sign)]

    def text_of(self, token: int) -> str:
        """Return a token's text."""
        return " " + VOCABULARY[token - SPACED - 32]

    def last_logits(self, tokens: Sequence[int]) -> NDArray[np.float64]:
        """Return the logits."""
        if len(tokens) > self.longest:
            raise RuntimeError("position out of range")
        found = np.zeros(WORDS)
        for token, value in self.logits.items():
            found[token] = value
        return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder that looks like a model's."""
    path = tmp_path / "model"
    path.mkdir()
    (path / "model.safetensors").write_bytes(b"weights")
    (path / "config.json").write_bytes(b"{}")
    (path / "evil.py").write_bytes(b"raise SystemExit")
    return path


def record(labels: Any, output: Path, folder: Path, **wishes: Any) -> Recording:
    """Return a recording in this process."""
    wanted = Wishes(output=output, backend="transformers", model=str(folder), **wishes)
    return Recording(labels, wanted, Silent())


def use(monkeypatch: pytest.MonkeyPatch, network: Network) -> None:
    """Let a made-up model be loaded."""
    monkeypatch.setattr(transformers_backend, "load_network", lambda *_: network)


def test_probabilities_are_the_softmax_of_the_letters_logits(
    make: Maker, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A and B stand at 32 and 33 in the stub's vocabulary, those with a space 100 further.
    use(monkeypatch, Network({32: 9.0, 33: 8.0, 132: 5.0, 133: -math.inf, 34: 9.0}))
    output = tmp_path / "run.jsonl"
    record(make.labels(items(2)), output, folder).run()
    (row, _) = rows_of(output)
    a, b = math.exp(9) + math.exp(5), math.exp(8)
    everything = a + b + math.exp(9) + (WORDS - 5)
    assert row["probabilities"] == pytest.approx([a / (a + b), b / (a + b)], abs=1e-12)
    assert row["allowed_token_mass"] == pytest.approx((a + b) / everything, abs=1e-12)
    assert (row["model"], row["cached_tokens"]) == ("model", 0)
    assert len(row["prompt_sha256"]) == 64


def test_sidecar_has_the_hash_of_every_file_that_makes_the_model(
    make: Maker, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, Network({32: 9.0}))
    output = tmp_path / "run.jsonl"
    record(make.labels(items(1)), output, folder, dtype="float32").run()
    meta = meta_of(output)
    assert meta["model"]["files"] == {
        "config.json": hashlib.sha256(b"{}").hexdigest(),
        "model.safetensors": hashlib.sha256(b"weights").hexdigest(),
    }
    assert meta["runtime"] == {"name": "transformers, in process", "version": "made up"}
    assert meta["recorded"]["options"] == {
        "temperature": 1.0,
        "deterministic": True,
        "concurrency": 1,
        "dtype": "float32",
        "chat_template_kwargs": {"enable_thinking": False},
    }


@pytest.mark.parametrize(
    ("file", "wishes", "what"),
    [
        ("", {}, ""),
        ("", {"dtype": "float16"}, "was begun with dtype float32, now it is float16"),
        ("model.safetensors", {}, "was begun with model.files.model.safetensors "),
        ("adapter.safetensors", {}, "was begun with model.files.adapter.safetensors absent"),
    ],
)
def test_run_goes_on_only_with_the_same_weights_and_type(
    make: Maker,
    tmp_path: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    wishes: dict[str, Any],
    what: str,
) -> None:
    use(monkeypatch, Network({32: 9.0}))
    labels, output = make.labels(items(3)), tmp_path / "run.jsonl"
    record(labels, output, folder, dtype="float32").run()
    whole, meta = output.read_text(), meta_of(output)
    output.write_text("".join(whole.splitlines(keepends=True)[:-1]))
    unfinished = {key: value for key, value in meta.items() if key not in ("sha256", "decisions")}
    (tmp_path / "run.meta.json").write_text(json.dumps(unfinished))
    if file:
        (folder / file).write_bytes(b"other weights")
    again = record(labels, output, folder, **{"dtype": "float32", **wishes})
    if what:
        with pytest.raises(InputError, match=what):
            again.run()
    else:
        assert again.run()[0].asked == 1


def test_logits_that_are_no_numbers_make_an_invalid_decision(
    make: Maker, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, Network({32: math.nan}))
    output = tmp_path / "run.jsonl"
    record(make.labels(items(1)), output, folder).run()
    assert rows_of(output)[0]["status"] == "invalid"


def test_prompt_that_is_too_long_is_named(
    make: Maker, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network({})
    network.longest = 5
    use(monkeypatch, network)
    with pytest.raises(BackendError, match=r"model: the model cannot take a prompt of \d+ tokens"):
        record(make.labels(items(1)), tmp_path / "run.jsonl", folder).run()


def test_tokenizer_that_joins_prompt_and_letter_is_refused(
    make: Maker, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network({})
    apart = network.tokenize
    monkeypatch.setattr(network, "tokenize", lambda text: [7] if text.endswith("\nA") else apart(text))
    use(monkeypatch, network)
    with pytest.raises(BackendError, match="with the letter A after it"):
        record(make.labels(items(1)), tmp_path / "run.jsonl", folder).run()


def test_model_that_is_no_folder_with_safetensors_is_refused(make: Maker, tmp_path: Path) -> None:
    labels, output = make.labels(items(1)), tmp_path / "run.jsonl"
    with pytest.raises(UsageError, match=r"is no folder \(models are not downloaded\)"):
        record(labels, output, tmp_path / "acme" / "model").run()
    pickled = tmp_path / "pickled"
    pickled.mkdir()
    (pickled / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(UsageError, match=r"holds no \.safetensors"):
        record(labels, output, pickled).run()
    with pytest.raises(UsageError, match="--dtype int8: write bfloat16, float16, float32"):
        record(labels, output, pickled, dtype="int8").run()


def test_packages_that_are_not_installed_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UsageError, match=r"pip install 'evalkit\[transformers\]'"):
        load_network(folder, "float32")


class Loader:
    """Stands for the Auto classes: notes how it was called."""

    def __init__(self, result: Any) -> None:
        self.result, self.calls = result, list[tuple[str, dict[str, Any]]]()

    def from_pretrained(self, folder: str, **options: Any) -> Any:
        """Note the call."""
        self.calls.append((folder, options))
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


class Tensor:
    """As much of a tensor as is used."""

    def __init__(self, values: NDArray[np.float64]) -> None:
        self.values = values

    def __getitem__(self, place: Any) -> Tensor:
        return Tensor(self.values[place])

    def double(self) -> Tensor:
        """Return itself."""
        return self

    def cpu(self) -> Tensor:
        """Return itself."""
        return self

    def numpy(self) -> NDArray[np.float64]:
        """Return the values."""
        return self.values


class Nothing:
    """A context that does nothing."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def made_up_packages(monkeypatch: pytest.MonkeyPatch, network: Any) -> tuple[Loader, Loader]:
    """Put made-up packages in the place of torch and transformers."""
    tokenizer = SimpleNamespace(
        apply_chat_template=lambda messages, **options: f"{len(messages)} {options}",
        encode=lambda text, add_special_tokens: [len(text), add_special_tokens],
        decode=str,
    )
    tokenizers, models = Loader(tokenizer), Loader(network)
    torch, transformers = ModuleType("torch"), ModuleType("transformers")
    vars(torch).update(__version__="3", float32="f32", tensor=np.array, inference_mode=Nothing)
    quiet = SimpleNamespace(disable_progress_bar=lambda: None)
    vars(transformers).update(utils=SimpleNamespace(logging=quiet))
    vars(transformers).update(__version__="6", AutoTokenizer=tokenizers, AutoModelForCausalLM=models)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "transformers", transformers)
    return tokenizers, models


def test_network_is_loaded_from_here_without_foreign_code(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits = np.arange(12.0).reshape(1, 2, 6)
    model = lambda **_: SimpleNamespace(logits=Tensor(logits))  # noqa: E731
    tokenizers, models = made_up_packages(monkeypatch, SimpleNamespace(eval=lambda: model))
    network = load_network(folder, "float32")
    assert isinstance(network, TorchNetwork)
    careful = {"local_files_only": True, "trust_remote_code": False}
    assert tokenizers.calls == [(str(folder), careful)]
    assert models.calls == [(str(folder), {"dtype": "f32", "use_safetensors": True, **careful})]
    assert network.version == "transformers 6, torch 3"
    assert network.render([{"role": "user", "content": "x"}]) == (
        "1 {'tokenize': False, 'add_generation_prompt': True, 'enable_thinking': False}"
    )
    assert network.tokenize("abc") == [3, False]
    assert network.text_of(7) == "[7]"
    assert network.last_logits([1, 2]).tolist() == [6, 7, 8, 9, 10, 11]


def test_network_that_needs_code_of_its_own_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_up_packages(monkeypatch, ValueError("requires you to execute the configuration file"))
    with pytest.raises(BackendError, match=r"model: cannot be loaded \(requires you to execute"):
        load_network(folder, "float32")


def test_backend_that_was_not_opened_does_not_answer(folder: Path) -> None:
    with pytest.raises(BackendError, match="the model is not loaded"):
        wait_for(TransformersBackend(folder, "float32").ask(make_prompt(item("q1"))))


def test_letter_with_a_marker_counts_only_where_it_is_one_token_of_that_text(
    make: Maker, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network({32: 9.0, 33: 8.0, 132: 20.0})
    monkeypatch.setattr(network, "text_of", lambda _: "another")
    use(monkeypatch, network)
    output = tmp_path / "run.jsonl"
    record(make.labels(items(1)), output, folder).run()
    a, b = math.exp(9), math.exp(8)
    assert rows_of(output)[0]["probabilities"] == pytest.approx([a / (a + b), b / (a + b)])
