"""A real llama.cpp server: ``python serve.py MODEL.gguf ALIAS``; prints its address, serves until killed.

The key that it wants is in EVALKIT_API_KEY. Its prompt cache is on and it has two slots, as servers have it:
a repeatable recording has to ask for what it needs.
"""

from __future__ import annotations

import os
import sys
import threading

import xllamacpp

CONTEXT_TOKENS = 4096


def main() -> None:
    """Serve a model."""
    model, alias = sys.argv[1:]
    params = xllamacpp.CommonParams()
    params.model.path, params.port = model, 0
    params.hostnames = type(params.hostnames)(["127.0.0.1"])
    params.model_alias = type(params.model_alias)([alias])
    params.api_keys = [os.environ["EVALKIT_API_KEY"]]
    params.n_parallel, params.n_ctx = 2, CONTEXT_TOKENS
    # Two threads are slower than one where another process wants the processor too.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.verbosity = 0
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
