"""Items to prompts: everything that cannot be asked is named at once, with its line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evalkit.errors import InputError
from evalkit.record.items import index_prompts, read_items, single_prompts
from evalkit.record.protocol import make_prompt
from tests.conftest import Maker
from tests.unit.asking import item, items


def test_index_keeps_order_options_and_hashes(make: Maker) -> None:
    labels = make.labels([item("b"), item("a")])
    index = index_prompts(labels, single_prompts)
    assert list(index) == ["b", "a"]
    assert index["a"].option_ids == ("yes", "no")
    assert index["a"].messages_sha256 == make_prompt(item("a")).sha256
    assert index["a"].length == sum(len(message["content"]) for message in make_prompt(item("a")).messages)


def test_index_of_a_set_with_unaskable_items_lists_them_all(make: Maker) -> None:
    labels = make.labels([item("a"), item("b", criterion=""), item("c", evidence=None)])
    with pytest.raises(InputError) as caught:
        index_prompts(labels, single_prompts)
    assert str(caught.value) == (
        "labels.jsonl:2: b has no criterion, so there is nothing to ask\n"
        "labels.jsonl:3: c has no evidence, so there is nothing to show to a model"
    )


def test_index_of_a_set_without_texts_says_so_once(make: Maker) -> None:
    labels = make.labels([item("a", evidence=None), item("b", evidence=None)])
    with pytest.raises(
        InputError, match=r"^labels.jsonl: holds no evidence: it can be scored, but not recorded$"
    ):
        index_prompts(labels, single_prompts)


def test_read_items_of_a_set_without_file_is_refused(make: Maker) -> None:
    with pytest.raises(InputError, match="no file"):
        list(read_items(replace(make.labels(items(1)), path=None)))
