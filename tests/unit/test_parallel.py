"""Doing independent things at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from evalkit.parallel import ahead, together


def test_together_returns_results_in_the_order_of_the_functions() -> None:
    done = threading.Event()

    def late() -> int:
        done.wait(0.2)
        return 1

    def early() -> int:
        done.set()
        return 2

    tasks: list[Callable[[], int]] = [late, early, *(partial(int, text) for text in "345")]
    assert together(tasks) == [1, 2, 3, 4, 5]
    assert together([]) == []


def test_together_raises_what_the_first_failed_function_raised() -> None:
    with pytest.raises(ValueError, match="'x'"):
        together([partial(int, "1"), partial(int, "x"), partial(int, "y")])


def test_ahead_begins_before_it_is_asked_and_gives_all_results_in_order() -> None:
    begun = threading.Event()

    def double(value: int) -> int:
        begun.set()
        return 2 * value

    with ahead(double, [1, 2, 3]) as results:
        assert begun.wait(10)
        assert list(results) == [2, 4, 6]


def test_ahead_raises_where_the_result_is_taken() -> None:
    with ahead(int, ["1", "x"]) as results:
        assert next(results) == 1
        with pytest.raises(ValueError, match="'x'"):
            next(results)
