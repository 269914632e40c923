"""The three commands: what they accept, what they say, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalkit.cli.importing import labels_import, runs_export, runs_import
from evalkit.errors import NoDecisionsError, NotFoundError, UsageError
from tests.unit.importing import SAMPLES, read_lines, write_lines

RAW = SAMPLES / "openai-responses" / "other-servers.jsonl"
MILL = SAMPLES / "inspect" / "mill.eval"
LABELS = SAMPLES / "tables" / "labels.csv"


def test_import_says_counts_on_stdout_and_notices_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "run.jsonl"
    runs_import([RAW], output, options="A,B")
    printed = capsys.readouterr()
    assert printed.out == f"{output}: usable 10 of 15, invalid 0, error 5\n"
    assert "evalkit: decisions with probabilities after sampling: 1 of 15" in printed.err
    assert "other-servers.jsonl:14: unknown: error: unknown response shape" in printed.err
    runs_import([RAW], output, options="A,B", quiet=True)
    assert capsys.readouterr().out == ""


def test_import_takes_every_declaration(tmp_path: Path) -> None:
    runs_import(
        [RAW], tmp_path / "run.jsonl", format="openai-responses", options="yes, no", answers="letters",
        token_id=["32=A", "33=B"], text_choices=True,
    )  # fmt: skip
    rows = {row["id"]: row for row in read_lines(tmp_path / "run.jsonl")}
    assert rows["lmstudio-chat"]["choice"] == "yes"
    assert "probabilities" in rows["sglang-native-numbers"]


def test_import_with_a_label_set(tmp_path: Path) -> None:
    items = [{"id": "007", "options": [{"id": "A"}, {"id": "B"}], "label": "A"}]
    labels = write_lines(tmp_path / "labels.jsonl", items)
    table = tmp_path / "t.csv"
    table.write_text("case\tp\tq\n007\t0.25\t0.75\n")
    runs_import(
        [table], tmp_path / "run.jsonl", labels=str(labels), delimiter="\\t",
        columns=["id=case,probability.A=p", "probability.B=q"],
    )  # fmt: skip
    assert read_lines(tmp_path / "run.jsonl")[0]["probabilities"] == [0.25, 0.75]
    with pytest.raises(NotFoundError):
        runs_import([RAW], tmp_path / "run.jsonl", labels="no-such-set")


def test_import_of_repeats_names_each_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs_import([MILL], tmp_path / "mill.jsonl", repeats=True)
    assert [line.partition(":")[0][-12:] for line in capsys.readouterr().out.splitlines()] == [
        "mill.1.jsonl",
        "mill.2.jsonl",
    ]
    with pytest.raises(UsageError, match="exclude each other"):
        runs_import([MILL], tmp_path / "mill.jsonl", repeats=True, epoch=1)


def test_import_without_a_usable_row_writes_and_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = write_lines(tmp_path / "raw.jsonl", [{"id": "a", "request": {}, "response": {"choices": [{}]}}])
    with pytest.raises(NoDecisionsError, match="logprobs"):
        runs_import([bare], tmp_path / "run.jsonl", options="A,B")
    assert read_lines(tmp_path / "run.jsonl")[0]["status"] == "error"
    # The error says the reason; it is not said twice.
    assert "logprobs" not in capsys.readouterr().err


@pytest.mark.parametrize("options", ["A", "A,,B", "A,A", ","])
def test_options_have_to_be_several_different_ids(tmp_path: Path, options: str) -> None:
    with pytest.raises(UsageError, match="--options"):
        runs_import([RAW], tmp_path / "run.jsonl", options=options)


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n"])
def test_delimiter_is_one_character(tmp_path: Path, delimiter: str) -> None:
    with pytest.raises(UsageError, match="--delimiter"):
        runs_import([RAW], tmp_path / "run.jsonl", delimiter=delimiter)


@pytest.mark.parametrize("columns", ["id", "=x", "id=", "size=x"])
def test_columns_are_pairs_of_known_fields(tmp_path: Path, columns: str) -> None:
    with pytest.raises(UsageError, match="--columns"):
        runs_import([RAW], tmp_path / "run.jsonl", columns=[columns])


@pytest.mark.parametrize("token", ["A", "x=A", "32=", "-1=A"])
def test_token_ids_are_numbers_with_names(tmp_path: Path, token: str) -> None:
    with pytest.raises(UsageError, match="--token-id"):
        runs_import([RAW], tmp_path / "run.jsonl", token_id=[token])


def test_answers_are_letters_or_ids(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is letters, ids"):
        runs_import([RAW], tmp_path / "run.jsonl", answers="words")


def test_export_by_path_and_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs_export("graduate-18/vllm-awq", "csv", tmp_path / "a.csv", quiet=True)
    assert capsys.readouterr().out == ""
    runs_export("semif-252/bf16", "lm-eval", tmp_path / "samples.jsonl", labels="semif-252")
    assert capsys.readouterr().out == f"{tmp_path / 'samples.jsonl'}: rows 252\n"
    assert read_lines(tmp_path / "samples.jsonl")[0]["target"] == "2"
    with pytest.raises(UsageError, match="means several runs: graduate-18/llamacpp-q4_k_m"):
        runs_export("llamacpp-q4_k_m", "csv", tmp_path / "b.csv")


def test_export_says_what_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs_export("graduate-18/vllm-awq", "lm-eval", tmp_path / "s.jsonl")
    assert "rows without probabilities left out: 15" in capsys.readouterr().err


def test_labels_from_files_and_from_a_dataset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels_import(tmp_path / "l.jsonl", [LABELS], options="A,B")
    printed = capsys.readouterr()
    assert printed.out == f"{tmp_path / 'l.jsonl'}: items 5\n"
    assert printed.err == "evalkit: items without a label: 1, first null\n"
    hub = str(SAMPLES / "hub" / "lighthouses")
    labels_import(
        tmp_path / "h.jsonl",
        hub=hub,
        columns=["id=uid,label=gold"],
        options="lit,dark",
        index_base=0,
        quiet=True,
    )
    assert capsys.readouterr().out == ""
    assert [item["label"] for item in read_lines(tmp_path / "h.jsonl")] == ["lit", "dark"]


def test_labels_need_files_or_a_dataset(tmp_path: Path) -> None:
    for files, hub in ((None, None), ([LABELS], "x/y")):
        with pytest.raises(UsageError, match="name files to import, or a dataset"):
            labels_import(tmp_path / "l.jsonl", files, hub=hub)
