"""Doing independent things at the same time, in threads.

What takes long in evalkit (parsing, hashing, arithmetic on arrays, drawing resamples) lets other threads run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

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
