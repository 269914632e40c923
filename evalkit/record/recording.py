"""What a recording consists of: from the user's wishes to a backend, a plan, and files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalkit.errors import UsageError
from evalkit.labels import LabelSet
from evalkit.record.backend import Backend
from evalkit.record.client import Client, Patience
from evalkit.record.endpoint import KEY_VARIABLE, Endpoint, Secret
from evalkit.record.http import HttpBackend, HttpOptions
from evalkit.record.inprocess import file_facts
from evalkit.record.llamacpp import EngineOptions, LlamaCppBackend
from evalkit.record.modes import MODES
from evalkit.record.progress import Progress
from evalkit.record.protocol import TEMPLATE_KWARGS, RequestOptions
from evalkit.record.recorder import Plan, Recorded, Recorder
from evalkit.record.sidecar import Particulars
from evalkit.record.transformers_backend import TransformersBackend
from evalkit.runs import short_name

DEFAULT_CONCURRENCY = 8
BACKENDS = ("http", "llamacpp", "transformers")


@dataclass(frozen=True)
class Wishes:
    """How the user wants a run to be recorded."""

    output: Path
    """The run file."""
    backend: str = "http"
    """Where the model runs: behind an address, or in this process."""
    base_url: str | None = None
    """The server's address."""
    model: str | None = None
    """The model's name on the server, or its file or folder."""
    mode: str = "letter"
    """Name of the mode."""
    concurrency: int | None = None
    """Requests at a time; None for what suits."""
    patience: Patience = field(default_factory=Patience)
    """How long to wait for answers."""
    top_logprobs: int | None = None
    """Alternatives to ask for; None for as many as the options need."""
    plain: bool = False
    """Send only the fields that OpenAI's interface has."""
    deterministic: bool = False
    """Record so that the same digits come out again."""
    repeats: int = 1
    """How many runs to record."""
    retry_failed: bool = False
    """Ask again about the items whose request failed."""
    keep_going: bool = False
    """Take a refusal of one item as a failed decision."""
    timings: bool = True
    """Record how long each answer took."""
    key_variable: str = KEY_VARIABLE
    """The environment variable that holds the API key."""
    dtype: str = "bfloat16"
    """Type of the weights, for transformers."""
    engine: EngineOptions = field(default_factory=EngineOptions)
    """How the engine runs, for llamacpp."""
    note: str = ""
    """What every report on the run is to say."""
    quantization: str | None = None
    """How the weights are quantized, as the user knows it."""
    revision: str | None = None
    """Which revision of the model it is, as the user knows it."""
    model_file: Path | None = None
    """The file that the server serves, to record its hash."""


class Recording:
    """Records one run, or several of the same set one after the other."""

    def __init__(self, labels: LabelSet, wishes: Wishes, progress: Progress) -> None:
        _refuse_contradictions(wishes)
        self.labels, self.wishes, self.progress = labels, wishes, progress
        self.mode = MODES[wishes.mode]
        self._secret = Secret.from_environment(wishes.key_variable)
        self._endpoint = Endpoint.parse(wishes.base_url) if wishes.base_url is not None else None
        self._particulars = self._say()
        self.recorders = [Recorder(labels, plan, progress) for plan in self._plans()]

    @property
    def recorded(self) -> list[Recorded]:
        """What has come of it by now, a run each."""
        return [recorder.recorded for recorder in self.recorders]

    def run(self) -> list[Recorded]:
        """Record everything that is missing.

        Raises:
            InputError: the label set cannot be asked, or a file that is there does not fit.
            BackendError: the backend cannot be asked, or no longer.
            UsageError: a file cannot be written, or a wish cannot be met.
        """
        return asyncio.run(self._run())

    async def _run(self) -> list[Recorded]:
        client = self._client()
        async with client or nullcontext():
            for recorder in self.recorders:
                await recorder.run(self._backend(client))
        return self.recorded

    @property
    def concurrency(self) -> int:
        """Requests at a time."""
        if self.wishes.deterministic or self.wishes.backend != "http":
            return 1
        return self.wishes.concurrency or DEFAULT_CONCURRENCY

    def _client(self) -> Client | None:
        if self._endpoint is None:
            return None
        return Client(self._endpoint, self._secret, self.wishes.patience, self.concurrency)

    def _backend(self, client: Client | None) -> Backend:
        wishes = self.wishes
        request = RequestOptions(wishes.model, wishes.top_logprobs, wishes.plain)
        if client is not None:
            options = HttpOptions(request, wishes.deterministic, wishes.keep_going)
            return HttpBackend(client, self.mode, options)
        model = Path(wishes.model or "")
        if wishes.backend == "llamacpp":
            return LlamaCppBackend(model, self.mode, request, wishes.engine)
        return TransformersBackend(model, wishes.dtype)

    def _plans(self) -> Iterator[Plan]:
        wishes = self.wishes
        for path in run_files(wishes.output, wishes.repeats):
            yield Plan(
                path, self.mode, self.concurrency, wishes.retry_failed, wishes.timings, self._particulars
            )

    def _say(self) -> Particulars:
        wishes = self.wishes
        repeatable = wishes.deterministic or wishes.backend != "http"
        options: dict[str, Any] = {"deterministic": repeatable, "concurrency": self.concurrency}
        if self.mode.reads_letters and wishes.backend != "transformers":
            options["top_logprobs"] = wishes.top_logprobs or "as the options need, at least 8"
        if wishes.backend == "transformers":
            options["dtype"] = wishes.dtype
        if wishes.plain:
            options["plain_request"] = True
        else:
            options["chat_template_kwargs"] = TEMPLATE_KWARGS
        declared: dict[str, Any] = {"quantization": wishes.quantization, "revision": wishes.revision}
        if wishes.model_file is not None:
            declared |= file_facts(wishes.model_file)
        notices = () if repeatable else (_not_repeatable(self.concurrency),)
        model = {key: value for key, value in declared.items() if value is not None}
        return Particulars(options, model, wishes.note, notices)


def _not_repeatable(concurrency: int) -> str:
    return (
        f"recorded without --deterministic ({concurrency} at a time): a second recording may differ in the "
        "last digits, so compare it with the noise of repeats"
    )


def run_files(output: Path, repeats: int) -> list[Path]:
    """Return the run files of a recording: the one that is named, or `NAME.1.jsonl` and so on.

    Args:
        output: the named file.
        repeats: how many runs are recorded.
    """
    if repeats == 1:
        return [output]
    return [output.with_name(f"{short_name(output)}.{number}.jsonl") for number in range(1, repeats + 1)]


def _refuse_contradictions(wishes: Wishes) -> None:
    if wishes.output.suffix != ".jsonl":
        raise UsageError(f"--output {wishes.output}: a run file is called NAME.jsonl (not compressed)")
    for name, value, known in (("mode", wishes.mode, MODES), ("backend", wishes.backend, BACKENDS)):
        if value not in known:
            raise UsageError(f"--{name} {value}: there is {', '.join(known)}")
    if wishes.backend == "http":
        if wishes.base_url is None:
            raise UsageError("--base-url: name the server, like http://localhost:8000/v1")
    elif wishes.base_url is not None:
        raise UsageError(f"--base-url: the backend {wishes.backend} runs in this process, without a server")
    elif wishes.model is None:
        raise UsageError(
            f"--model: name the {'file' if wishes.backend == 'llamacpp' else 'folder'} of the model"
        )
    if wishes.backend == "transformers" and wishes.mode != "letter":
        raise UsageError("--backend transformers reads logits; --mode array needs a backend that generates")
    if wishes.deterministic and (wishes.concurrency or 1) > 1:
        raise UsageError("--deterministic asks one at a time; leave --concurrency out")
