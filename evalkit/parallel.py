"""Doing independent things at the same time, in threads.

What takes long in evalkit (parsing, hashing, arithmetic on arrays, drawing resamples) lets other threads run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Given = TypeVar("Given")
Result = TypeVar("Result")


def together(tasks: Sequence[Callable[[], Result]]) -> list[Result]:
    """Call functions at the same time, as far as there are processors, and return their results in order.

    Raises:
        Exception: what the first function in order that failed raised; those not yet begun are left out.
    """
    workers = min(len(tasks), os.cpu_count() or 1)
    if workers < 2:
        return [task() for task in tasks]
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(task) for task in tasks]
        try:
            return [future.result() for future in futures]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def ahead(function: Callable[[Given], Result], values: Iterable[Given]) -> Iterator[Iterator[Result]]:
    """Call a function on values one after the other in a thread of its own, each before it is asked for.

    At most one result waits to be taken, so that memory stays bounded.

    Yields:
        The results in order; taking one raises what its call raised.
    """
    with ThreadPoolExecutor(1) as pool:
        waiting = [*values]
        future = pool.submit(function, waiting.pop(0)) if waiting else None

        def results() -> Iterator[Result]:
            nonlocal future
            while future is not None:
                result = future.result()
                future = pool.submit(function, waiting.pop(0)) if waiting else None
                yield result

        yield results()
