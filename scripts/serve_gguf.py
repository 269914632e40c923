#!/usr/bin/env python3
"""Serve one gguf file with the real llama.cpp server, from a prebuilt wheel (extra ``llamacpp``).

Usage: ``python scripts/serve_gguf.py MODEL.gguf [--alias NAME] [--port 8080]``; prints its address, serves
until killed. Where EVALKIT_API_KEY is set, requests have to bring it.

Its prompt cache is on, as it is on servers: a repeatable recording has to ask for what it needs.
"""

from __future__ import annotations

import argparse
import os
import threading
from pathlib import Path

import xllamacpp

KEY_VARIABLE = "EVALKIT_API_KEY"


def parameters(arguments: argparse.Namespace) -> xllamacpp.CommonParams:
    """Return the settings of the server."""
    params = xllamacpp.CommonParams()
    params.model.path, params.port = str(arguments.model), arguments.port
    params.hostnames = type(params.hostnames)(["127.0.0.1"])
    params.model_alias = type(params.model_alias)([arguments.alias or arguments.model.stem])
    if os.environ.get(KEY_VARIABLE):
        params.api_keys = [os.environ[KEY_VARIABLE]]
    params.n_parallel, params.n_ctx = arguments.slots, arguments.context * arguments.slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = arguments.threads
    params.verbosity = 0
    return params


def main() -> None:
    """Serve a model."""
    parser = argparse.ArgumentParser(description="Serve one gguf file with the real llama.cpp server.")
    parser.add_argument("model", type=Path, help="the gguf file")
    parser.add_argument("--alias", help="the model's name (default: that of the file)")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    parser.add_argument("--slots", type=int, default=1, help="requests at a time (default: 1)")
    parser.add_argument("--context", type=int, default=4096, help="tokens a slot (default: 4096)")
    # Two threads are slower than one where another process wants the processor too.
    parser.add_argument("--threads", type=int, default=1, help="default: 1")
    server = xllamacpp.Server(parameters(parser.parse_args()))
    print(server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
