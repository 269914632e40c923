#!/usr/bin/env python3
"""Record the shipped ladder of precisions: serve every rung, ask it every item of our label sets.

Usage: ``python scripts/record_ladder.py LADDER [--rungs F16,Q8_0] [--labels graduate-18] [--root .]``

LADDER is the folder that ``scripts/quant_ladder.py`` made. The runs are ``runs/SET/qwen0.5b-RUNG.jsonl``
below the root. They are repeatable: one request at a time, no prompt cache, no timings in the rows; the same
files on the same processor give the same bytes. What is there already is continued. Needs the extra
``llamacpp``, and about one core-hour a rung.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SETS = ("decisions-252", "graduate-18", "graduate-200")
MODEL = "Qwen2.5-Coder-0.5B-Instruct"
PREFIX = "qwen0.5b"
TOP_LOGPROBS = 20
"""More than the options need: no letter shall fall out of the list on a rung that decides badly."""
SERVE = Path(__file__).with_name("serve_gguf.py")


def note_on(name: str, rung: dict[str, Any]) -> str:
    """Return what every report has to say about a rung."""
    if "de-quantized" in rung["made_from"]:
        return f"The {name} weights are a de-quantized Q4_K_M file, not the original 16-bit weights."
    note = f"{name} was quantized from a de-quantized Q4_K_M file"
    wider = rung["fallbacks"]
    return (
        f"{note}; {wider} tensors have wider types, because their rows do not fit it."
        if wider
        else f"{note}."
    )


@contextmanager
def served(model: Path) -> Iterator[str]:
    """Serve a file until the block ends, and return the base URL."""
    command = [sys.executable, str(SERVE), str(model), "--alias", MODEL]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            if not address.startswith("http"):
                raise SystemExit(f"record_ladder: the server of {model} did not start")
            yield f"{address}/v1"
        finally:
            process.kill()


def record(url: str, labels: str, name: str, rung: dict[str, Any], folder: Path, root: Path) -> None:
    """Record one label set on one rung."""
    options = {
        "--base-url": url,
        "--labels": labels,
        "--output": str(root / "runs" / labels / f"{PREFIX}-{name.lower()}.jsonl"),
        "--top-logprobs": str(TOP_LOGPROBS),
        "--quantization": f"{name}, {rung['bits_per_weight']:.2f} bits a weight",
        "--model-file": str(folder / rung["file"]),
        "--note": note_on(name, rung),
        "--root": str(root),
    }
    words = [word for option in options.items() for word in option]
    command = [sys.executable, "-m", "evalkit", "record", *words, "--deterministic", "--no-timings"]
    subprocess.run(command, check=True)


def main() -> None:
    """Record rungs."""
    parser = argparse.ArgumentParser(description="Record the shipped ladder of precisions.")
    parser.add_argument("ladder", type=Path, help="the folder that quant_ladder.py made")
    parser.add_argument("--rungs", default="", help="comma-separated (default: all)")
    parser.add_argument(
        "--labels", default=",".join(SETS), help=f"comma-separated (default: {','.join(SETS)})"
    )
    parser.add_argument("--root", type=Path, default=Path(), help="where labels/ and runs/ are")
    arguments = parser.parse_args()
    rungs = json.loads((arguments.ladder / "facts.json").read_text("utf-8"))["rungs"]
    for name in arguments.rungs.split(",") if arguments.rungs else rungs:
        with served(arguments.ladder / rungs[name]["file"]) as url:
            for labels in arguments.labels.split(","):
                record(url, labels, name, rungs[name], arguments.ladder, arguments.root)


if __name__ == "__main__":
    main()
