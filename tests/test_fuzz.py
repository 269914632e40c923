"""Damaged files of every kind lead to no traceback, no strange exit code and no counts that do not add up."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.damage import SOUND, damaged
from tests.fuzz.survive import survive


@pytest.mark.parametrize("kind", SOUND)
def test_sound_file_is_read(kind: str) -> None:
    assert 0 in survive(kind, SOUND[kind])


@pytest.mark.parametrize("kind", SOUND)
@settings(max_examples=25)
@given(seed=st.integers(min_value=0, max_value=2**32))
def test_damaged_file_is_survived(kind: str, seed: int) -> None:
    survive(kind, damaged(random.Random(seed), SOUND[kind]))


@pytest.mark.parametrize("kind", SOUND)
@settings(max_examples=10)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_survived(kind: str, data: bytes) -> None:
    survive(kind, data)
