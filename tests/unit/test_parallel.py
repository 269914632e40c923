"""Doing independent things at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from evalkit.parallel import together


def test_together_returns_results_in_the_order_of_the_functions() -> None:
    done = threading.Event()

    def late() -> int:
        done.wait(0.2)
        return 1

    def early() -> int:
        done.set()
        return 2

    tasks: list[Callable[[], int]] = [late, early, *(partial(int, text) for text in "34")]
    assert together(tasks) == [1, 2, 3, 4]


def test_together_raises_what_the_first_failed_function_raised() -> None:
    with pytest.raises(ValueError, match="'x'"):
        together([partial(int, "1"), partial(int, "x"), partial(int, "y")])
