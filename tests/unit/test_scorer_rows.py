"""Rows as the open SemIf scorer writes them: the model is an object."""

from __future__ import annotations

import pytest

from evalkit.rows import text_of
from tests.conftest import Maker


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("m", "m"),
        ({"source": "example/m", "dtype": "bfloat16"}, "example/m"),
        ({"name": "m", "source": "example/m"}, "m"),
        ({"dtype": "bfloat16"}, "(unnamed)"),
    ],
)
def test_text_of_a_value_is_its_name(value: object, text: str | None) -> None:
    assert text_of(value) == text


def test_row_with_a_model_object_is_read(make: Maker) -> None:
    run = make.run([make.row("q", {"A": 0.9, "B": 0.1}, model={"source": "example/m"})])
    assert run.p.tolist() == [[0.9, 0.1]]
    assert run.distinct("model") == ["example/m"]
