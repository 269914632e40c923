"""The cheap proof that ids are distinct."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.distinct import LONGEST, surely_distinct

TEXTS = st.text(max_size=20) | st.sampled_from(["a", "a\0", "a" * 8, "a" * 7, "a" * 16, "é" * 4, ""])


@given(st.lists(TEXTS), st.integers(0, 3))
def test_ids_are_surely_distinct_exactly_where_none_repeats(ids: list[str], skipped: int) -> None:
    array = pa.array(ids, pa.string()).slice(skipped)
    assert surely_distinct(array) is (len(set(ids[skipped:])) == len(ids[skipped:]))


def test_ids_of_several_chunks_of_work_are_told_apart() -> None:
    ids = [f"item-{number}" for number in range(140_000)]
    assert surely_distinct(pa.array(ids))
    assert not surely_distinct(pa.array([*ids, ids[0]]))


@pytest.mark.parametrize("more", [0, 1])
def test_an_id_that_is_too_long_is_not_proven(more: int) -> None:
    assert surely_distinct(pa.array(["a", "b" * (LONGEST + more)])) is not bool(more)
