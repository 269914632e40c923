"""``evalkit record``: ask a backend every item of a label set, and write a run."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evalkit.cli import common
from evalkit.errors import UsageError

if TYPE_CHECKING:
    from evalkit.record.recorder import Recorded


class BackendName(StrEnum):
    """Where the model runs."""

    http = "http"
    llamacpp = "llamacpp"
    transformers = "transformers"


class ModeName(StrEnum):
    """What is asked for."""

    letter = "letter"
    array = "array"


def record(
    labels: Annotated[
        str, typer.Option("--labels", "-l", help="Label set: NAME, NAME@VERSION, a folder or a file.")
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The run file, e.g. runs/SET/NAME.jsonl; continued if there."),
    ],
    base_url: Annotated[
        str | None, typer.Option("--base-url", help="An OpenAI-compatible server: http://localhost:8000/v1.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", help="The model's name on the server; in process: its gguf file or its folder."
        ),
    ] = None,
    backend: Annotated[
        BackendName, typer.Option("--backend", help="A server, or an engine in this process.")
    ] = BackendName.http,
    mode: Annotated[
        ModeName, typer.Option("--mode", help="Read one letter an item, or generate an array an evidence.")
    ] = ModeName.letter,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", min=1, max=1024, help="Requests at a time (default: 8).")
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds for one request.")] = 120.0,
    retries: Annotated[
        int, typer.Option("--retries", min=0, help="Repeats after 429, 5xx, a lost connection or a timeout.")
    ] = 5,
    top_logprobs: Annotated[
        int | None,
        typer.Option(
            "--top-logprobs", min=1, help="Alternatives to ask for (default: 8, more for many options)."
        ),
    ] = None,
    plain_request: Annotated[
        bool, typer.Option("--plain-request", help="Send only OpenAI's own fields (no chat_template_kwargs).")
    ] = False,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="One at a time and no prompt cache: for references.")
    ] = False,
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, help="Record so many runs, NAME.1.jsonl ...: a noise floor.")
    ] = 1,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Ask again about items whose request failed.")
    ] = False,
    keep_going: Annotated[
        bool,
        typer.Option("--keep-going", help="Record an item that the server refuses as failed; do not stop."),
    ] = False,
    no_timings: Annotated[
        bool,
        typer.Option("--no-timings", help="Leave out seconds, so that equal recordings are equal files."),
    ] = False,
    key_variable: Annotated[
        str,
        typer.Option("--api-key-env", help="Environment variable that holds the API key.", metavar="NAME"),
    ] = "EVALKIT_API_KEY",
    dtype: Annotated[
        str, typer.Option("--dtype", help="transformers: bfloat16, float16 or float32.")
    ] = "bfloat16",
    context: Annotated[
        int, typer.Option("--context", min=1, help="llamacpp: longest prompt in tokens.")
    ] = 4096,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="llamacpp: threads (default: one a processor).")
    ] = None,
    quantization: Annotated[
        str | None, typer.Option("--quantization", help="For the sidecar: how the weights are quantized.")
    ] = None,
    revision: Annotated[
        str | None, typer.Option("--revision", help="For the sidecar: the revision of the model.")
    ] = None,
    model_file: Annotated[
        Path | None,
        typer.Option("--model-file", help="For the sidecar: the served file, to record its hash."),
    ] = None,
    note: Annotated[str, typer.Option("--note", help="For the sidecar: what every report is to say.")] = "",
    root: common.RootOption = None,
    quiet: common.QuietOption = False,
) -> None:
    """Ask a backend every item of a label set, and write a run that score, diff and gate take.

    Each decision is written as it arrives. After an interruption the same command asks only what is missing.
    The API key comes from EVALKIT_API_KEY and is written nowhere.
    """
    try:
        from evalkit.record.client import Patience
        from evalkit.record.llamacpp import EngineOptions
        from evalkit.record.progress import progress_on
        from evalkit.record.recording import Recording, Wishes
    except ModuleNotFoundError as error:
        raise UsageError(f"record needs the package {error.name}: pip install 'evalkit[record]'") from None

    wishes = Wishes(
        output=output,
        backend=backend.value,
        base_url=base_url,
        model=model,
        mode=mode.value,
        concurrency=concurrency,
        patience=Patience(timeout, retries),
        top_logprobs=top_logprobs,
        plain=plain_request,
        deterministic=deterministic,
        repeats=repeats,
        retry_failed=retry_failed,
        keep_going=keep_going,
        timings=not no_timings,
        key_variable=key_variable,
        dtype=dtype,
        engine=EngineOptions(context, threads),
        note=note,
        quantization=quantization,
        revision=revision,
        model_file=model_file,
    )
    recording = Recording(
        common.open_catalog(root).labels(labels), wishes, progress_on(sys.stderr, quiet=quiet)
    )
    try:
        recording.run()
    except KeyboardInterrupt:
        common.warn("interrupted; the same command continues")
        raise
    finally:
        for recorded in recording.recorded:
            _say(recorded, quiet)


def _say(recorded: Recorded, quiet: bool) -> None:
    """Say what came of a run, also where it was stopped."""
    from evalkit.catalog import shown

    for notice in recorded.notices:
        common.warn(notice)
    if quiet or not recorded.decisions:
        return
    path = shown(recorded.path)
    state = "complete" if recorded.finished else "not complete"
    rows = f"{recorded.decisions} of {recorded.items} decisions, {recorded.asked} of them new"
    failed = f", {recorded.failed} failed (--retry-failed asks again)" if recorded.failed else ""
    common.warn(f"{path}: {state}, {rows}{failed}")
