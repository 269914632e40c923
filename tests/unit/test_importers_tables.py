"""CSV and Parquet in and out, and Hugging Face datasets: ids stay text, numbers are never guessed."""

from __future__ import annotations

import builtins
import json
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalkit.cards import load_card
from evalkit.catalog import Catalog
from evalkit.errors import InputError, NoDecisionsError, UsageError
from evalkit.importers import ImportOptions, InputFile, find_format
from evalkit.importers.export import EXPORTS, export_run
from evalkit.importers.hub import HubDataset, import_hub
from evalkit.importers.tabular import check_columns
from evalkit.labels import load_label_file
from tests.unit.importing import SAMPLES, Importing, read_lines, write_lines

TABLES = SAMPLES / "tables"
LIGHTHOUSES = SAMPLES / "hub" / "lighthouses"
COLUMNS = {"id": "case", "probability.yes": "p_yes", "probability.no": "p_no"}


@pytest.fixture
def importing(tmp_path: Path) -> Importing:
    return Importing(tmp_path)


def table(tmp_path: Path, text: str, name: str = "table.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8"))
    return path


# --- CSV -----------------------------------------------------------------------------------------------


def test_csv_ids_stay_text(importing: Importing) -> None:
    rows = importing.by_id(TABLES / "decisions.csv")
    assert list(rows) == ["007", "NA", "1e5"]
    assert rows["007"] == {"id": "007", "probabilities": [0.9, 0.1], "option_ids": ["A", "B"]}
    assert "look like percent" in rows["1e5"]["error"]


def test_csv_label_ids_stay_text(importing: Importing) -> None:
    with pytest.raises(InputError, match="declare --options A,B"):
        importing.labels(TABLES / "labels.csv")
    items, notices = importing.labels(TABLES / "labels.csv", options=("A", "B"))
    assert [item["id"] for item in items] == ["007", "NA", "null", "None", "1e5"]
    assert [item["label"] for item in items] == ["A", "B", None, "B", "A"]
    assert notices == "items without a label: 1, first null"


def test_csv_with_a_column_map(importing: Importing) -> None:
    mapped = TABLES / "mapped.csv"
    assert find_format(None, InputFile(mapped, "mapped.csv"), ImportOptions(columns=COLUMNS)).name == "csv"
    rows = importing.by_id(mapped, columns=COLUMNS, delimiter=";")
    assert rows["m1"]["probabilities"] == [0.5, 0.5]
    columns = {"id": "case", "label": "gold", "evidence": "text"}
    items, _ = importing.labels(mapped, columns=columns, delimiter=";", options=("yes", "no"))
    assert [(item["label"], item["evidence"]) for item in items] == [
        ("yes", "The weir; the race"),
        ("no", "One line"),
    ]


def test_csv_delimiter_is_declared_not_guessed(importing: Importing) -> None:
    with pytest.raises(InputError, match=r"one column only.*--delimiter ';'"):
        importing.runs(TABLES / "mapped.csv", format="csv")


def test_csv_columns_without_our_names_need_a_map(importing: Importing, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no column with the ids"):
        importing.runs(table(tmp_path, "case,choice\n1,A\n"), format="csv")
    with pytest.raises(InputError, match=r"there is no column 'p' \(there are id, choice\)"):
        importing.runs(table(tmp_path, "id,choice\n1,A\n"), columns={"probability.A": "p"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,choice\n1,A,B\n", "table.csv:2: 3 cells for 2 columns"),
        ("id,id\n1,A\n", "the column 'id' occurs twice"),
        ('id,choice\n1,"A\n', "not CSV"),
        ('id,choice\n1,"A"B\n', "not CSV"),
        ("id,choice\n,A\n", "has no id"),
    ],
)
def test_csv_that_is_damaged(importing: Importing, tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        importing.runs(table(tmp_path, text), options=("A", "B"))
    assert words in str(error.value)


def test_csv_in_another_encoding_is_refused(importing: Importing, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes("id,choice\n1,A\n图书馆,B\n".encode("gbk"))
    with pytest.raises(InputError, match=r"table\.csv:3: invalid UTF-8"):
        importing.runs(path, options=("A", "B"))


def test_csv_cells_may_hold_line_ends_and_other_separators(importing: Importing, tmp_path: Path) -> None:
    text = '\ufeffid,evidence,label\r\n1,"two\nlines\u2028here",A\r\n\r\n2,plain\u2028,B\r\n'
    items, _ = importing.labels(table(tmp_path, text), options=("A", "B"))
    assert [item["evidence"] for item in items] == ["two\nlines\u2028here", "plain\u2028"]


def test_csv_cell_may_be_long(importing: Importing, tmp_path: Path) -> None:
    items, _ = importing.labels(table(tmp_path, f"id,evidence\n1,{'x' * 200_000}\n"), options=("A", "B"))
    assert len(items[0]["evidence"]) == 200_000


def test_csv_choices_take_their_options_from_label_set_or_declaration(
    importing: Importing, tmp_path: Path
) -> None:
    path = table(tmp_path, "id,choice\nq1,A\n")
    labels = load_label_file(
        write_lines(
            tmp_path / "set.jsonl", [{"id": "q1", "options": [{"id": "B"}, {"id": "A"}], "label": "A"}]
        )
    )
    assert importing.runs(path, labels=labels)[0] == {"id": "q1", "choice": "A", "option_ids": ["B", "A"]}
    assert importing.runs(path, options=("A", "B"))[0]["option_ids"] == ["A", "B"]
    (row,) = importing.runs(path)
    assert "option_ids are missing" in row["error"]


def test_csv_rows_without_values_have_the_options_of_their_item(importing: Importing, tmp_path: Path) -> None:
    items = [{"id": name, "options": [{"id": "A"}, {"id": "B"}], "label": "A"} for name in ("q1", "q2")]
    labels = load_label_file(write_lines(tmp_path / "set.jsonl", items))
    text = (
        "id,status,choice,option_ids,probability.A,probability.B,probability.C\nq1,error,,[,,,\nq2,,A,,,,\n"
    )
    rows = importing.by_id(table(tmp_path, text), labels=labels)
    assert rows["q1"] == {"id": "q1", "option_ids": ["A", "B"], "status": "error"}
    assert rows["q2"] == {"id": "q2", "option_ids": ["A", "B"], "choice": "A"}


def test_csv_empty_cells_of_options_that_an_item_lacks_are_no_values(
    importing: Importing, tmp_path: Path
) -> None:
    items = [
        {"id": "q1", "options": [{"id": "A"}, {"id": "B"}], "label": "A"},
        {"id": "q2", "options": [{"id": "A"}, {"id": "B"}, {"id": "C"}], "label": "C"},
    ]
    labels = load_label_file(write_lines(tmp_path / "set.jsonl", items))
    text = "id,probability.A,probability.B,probability.C\nq1,0.5,0.5,\nq2,0.25,0.25,\n"
    rows = importing.by_id(table(tmp_path, text), labels=labels)
    assert rows["q1"]["option_ids"] == ["A", "B"]
    assert "null" in rows["q2"]["error"]
    with pytest.raises(InputError, match="its options are A, B, C here and A, B in the label set"):
        importing.runs(table(tmp_path, text.replace("0.5,\n", "0.4,0.1\n")), labels=labels)


@pytest.mark.parametrize("cell", ["0,95", "95%", "nan", "inf", "1_0", "0x1", "-", "1e"])
def test_csv_numbers_that_are_none_stay_text(importing: Importing, tmp_path: Path, cell: str) -> None:
    (row,) = importing.runs(table(tmp_path, f'id,probability.A,probability.B\n1,"{cell}",0.5\n'))
    assert row["status"] == "invalid"
    assert "text" in row["error"]


def test_csv_counts_and_texts(importing: Importing, tmp_path: Path) -> None:
    text = (
        "id,probability.A,probability.B,input_tokens,total_seconds,model,status\n"
        "1,.5,5e-1,57,0.25,mill,\n2,0.5,0.5,,,,error\n"
    )
    rows = importing.by_id(table(tmp_path, text))
    assert (rows["1"]["input_tokens"], rows["1"]["total_seconds"], rows["1"]["model"]) == (57, 0.25, "mill")
    assert rows["2"]["status"] == "error"
    with pytest.raises(InputError, match="input_tokens"):
        importing.runs(table(tmp_path, text.replace("57", "many")))


def test_csv_option_texts(importing: Importing, tmp_path: Path) -> None:
    text = "id,option.A,option.B,option.C,label,tags\n1,yes,no,,no,x\n"
    items, notices = importing.labels(table(tmp_path, text))
    assert items[0]["options"] == [{"id": "A", "description": "yes"}, {"id": "B", "description": "no"}]
    assert items[0]["label"] == "B"
    assert "tags" not in items[0]
    assert "the option's text" in notices


def test_column_map_with_unknown_fields_is_refused() -> None:
    check_columns({"id": "x", "probability.A": "p", "option.yes": "t"})
    for field in ("ids", "probability", "probability.", ".A", "weight.A"):
        with pytest.raises(UsageError, match="there is no field"):
            check_columns({field: "x"})


# --- Parquet ---------------------------------------------------------------------------------------------


def parquet(tmp_path: Path, columns: dict[str, Any]) -> Path:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def test_parquet_is_recognised_and_ids_become_text(importing: Importing, tmp_path: Path) -> None:
    path = parquet(tmp_path, {"id": [7, 8], "probability.A": [0.25, None], "probability.B": [0.75, 1.0]})
    rows = importing.by_id(path)
    assert rows["7"]["probabilities"] == [0.25, 0.75]
    assert "null" in rows["8"]["error"]


def test_parquet_ids_that_are_fractions_are_refused(importing: Importing, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the id 7\.0 is neither text nor a whole number"):
        importing.runs(parquet(tmp_path, {"id": [7.0], "choice": ["A"]}), options=("A", "B"))


def test_parquet_labels_with_lists(importing: Importing, tmp_path: Path) -> None:
    options = [{"id": "A", "description": "yes"}, {"id": "B", "description": None}]
    path = parquet(tmp_path, {"id": ["1"], "options": [options], "label": ["B"], "tags": [["x", "y"]]})
    items, _ = importing.labels(path)
    assert items[0]["options"] == [{"id": "A", "description": "yes"}, {"id": "B"}]
    assert items[0]["tags"] == ["x", "y"]
    path = parquet(tmp_path, {"id": ["1"], "options": [["yes", "no"]], "label": [1]})
    items, _ = importing.labels(path, index_base=0)
    assert (items[0]["options"], items[0]["label"]) == ([{"id": "yes"}, {"id": "no"}], "no")


def test_parquet_that_is_damaged(importing: Importing, tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    path.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(InputError, match="not Parquet"):
        importing.runs(path)


# --- export ----------------------------------------------------------------------------------------------

RUN: list[dict[str, Any]] = [
    {
        "id": "007", "option_ids": ["A", "B"], "probabilities": [0.1 + 0.2, 0.7], "allowed_token_mass": 0.5,
        "model": "m",
    },
    {"id": "NA", "option_ids": ["yes", "no", "B"], "probabilities": [0.25, 0.25, 0.5]},
    {
        "id": "1e5", "option_ids": ["A", "B"], "choice": "A", "allowed_token_mass": 0.8,
        "probability_range": {"A": [0.8, 1.0], "B": [0.0, 0.2]},
    },
    {"id": "b", "option_ids": ["A", "B"], "choice": "A", "probability_range": {"A": [0.85, 1.0]}},
    {"id": "c", "option_ids": ["A", "B"], "choice": "B"},
    {"id": "d", "option_ids": ["A", "B"], "status": "invalid", "error": 'why, "so"'},
    {"id": "e", "status": "error", "error": "503"},
]  # fmt: skip

DECISION = ("id", "option_ids", "probabilities", "probability_range", "status", "error", "allowed_token_mass")


def same(row: dict[str, Any]) -> dict[str, Any]:
    """What a row says of the decision; a choice that follows from probabilities is left out."""
    said = {name: row[name] for name in DECISION if name in row}
    if "probabilities" not in row and "choice" in row:
        said["choice"] = row["choice"]
    return {name: value for name, value in said.items() if (name, value) != ("status", "ok")}


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_export_and_import_give_the_same_decisions(importing: Importing, tmp_path: Path, format: str) -> None:
    path = write_lines(tmp_path / "a.jsonl", RUN)
    written = export_run(path, "a.jsonl", format, tmp_path / "sub" / f"a.{format}")
    assert written.decisions == len(RUN)
    assert [same(row) for row in importing.runs(written.path)] == [same(row) for row in RUN]


def test_export_to_lm_eval_and_back(importing: Importing, tmp_path: Path) -> None:
    sure = {"id": "z", "option_ids": ["A", "B"], "probabilities": [1, 0]}
    path = write_lines(tmp_path / "a.jsonl", [*RUN, sure])
    items = [
        {"id": "007", "options": [{"id": "A"}, {"id": "B"}], "label": "B"},
        {"id": "NA", "options": [{"id": "yes"}, {"id": "no"}, {"id": "B"}], "label": None},
    ]
    labels = load_label_file(write_lines(tmp_path / "set.jsonl", items))
    written = export_run(path, "a.jsonl", "lm-eval", tmp_path / "samples_a.jsonl", labels)
    assert (written.decisions, len(written.notices)) == (3, 1)
    samples = read_lines(written.path)
    assert [(sample["target"], sample["acc"]) for sample in samples] == [
        ("1", 1.0),
        (None, None),
        (None, None),
    ]
    assert samples[2]["filtered_resps"][1] == ["-inf", "False"]
    rows = importing.by_id(written.path, id_field="doc.id")
    assert rows["007"]["probabilities"] == pytest.approx(RUN[0]["probabilities"])
    assert rows["007"]["allowed_token_mass"] == pytest.approx(0.5)
    assert rows["NA"]["option_ids"] == ["yes", "no", "B"]
    assert rows["z"]["probability_range"] == {"A": [1.0, 1.0], "B": [0.0, 0.0]}
    back, _ = importing.labels(written.path, id_field="doc.id", index_base=0)
    assert [item["label"] for item in back] == ["B", None, None]


def test_export_without_a_label_set_has_no_target(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", RUN[:1])
    export_run(path, "a.jsonl", "lm-eval", tmp_path / "s.jsonl")
    assert read_lines(tmp_path / "s.jsonl")[0]["target"] is None


def test_export_of_ranges_without_a_choice_names_the_likeliest(tmp_path: Path) -> None:
    row = {"id": "1", "option_ids": ["A", "B"], "probability_range": {"B": [0.9, 1.0]}}
    path = write_lines(tmp_path / "a.jsonl", [row])
    export_run(path, "a.jsonl", "csv", tmp_path / "a.csv")
    assert ",ok,B," in (tmp_path / "a.csv").read_text()


def test_export_refuses_what_it_cannot_write(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", RUN)
    with pytest.raises(UsageError, match="there is csv, parquet, lm-eval"):
        export_run(path, "a.jsonl", "xlsx", tmp_path / "a.xlsx")
    with pytest.raises(UsageError, match="cannot be written"):
        export_run(path, "a.jsonl", "csv", path / "a.csv")
    choices = write_lines(tmp_path / "b.jsonl", RUN[2:])
    with pytest.raises(NoDecisionsError, match="no decision has probabilities"):
        export_run(choices, "b.jsonl", "lm-eval", tmp_path / "s.jsonl")
    assert set(EXPORTS) == {"csv", "parquet", "lm-eval"}


def test_export_of_a_damaged_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "1"\n{"id": 2}\n')
    with pytest.raises(InputError) as error:
        export_run(path, "a.jsonl", "csv", tmp_path / "a.csv")
    assert len(error.value.problems) == 2
    path.write_text("")
    with pytest.raises(NoDecisionsError):
        export_run(path, "a.jsonl", "csv", tmp_path / "a.csv")


# --- datasets --------------------------------------------------------------------------------------------

HUB_OPTIONS = ImportOptions(
    options=("lit", "dark"), columns={"id": "uid", "evidence": "text", "label": "gold"}, index_base=0
)


def test_offline_folder_becomes_a_label_set_with_a_card(tmp_path: Path) -> None:
    written = import_hub(HubDataset(str(LIGHTHOUSES)), HUB_OPTIONS, tmp_path / "lamps")
    assert written.items == 2
    labels = Catalog.at(tmp_path).labels(str(tmp_path / "lamps"))
    assert labels.ids.to_pylist() == ["l0", "l1"]
    assert labels.gold.tolist() == [0, 1]
    card = (tmp_path / "lamps" / "README.md").read_text("utf-8")
    assert "dataset `lighthouses`, split `test`" in card


def test_dataset_on_the_hub_needs_a_commit(tmp_path: Path) -> None:
    for revision in (None, "main", "abc"):
        with pytest.raises(UsageError, match="name the commit with --revision"):
            import_hub(HubDataset("someone/lamps", revision), HUB_OPTIONS, tmp_path / "x")


def test_revision_is_pinned_in_the_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    asked: list[Any] = []

    def load(*args: Any, **kwargs: Any) -> Any:
        asked.append((args, kwargs))
        return datasets.Dataset.from_list([{"uid": "l0", "text": "t", "gold": 1}])

    monkeypatch.setattr(datasets, "load_dataset", load)
    dataset = HubDataset("someone/lamps", "0f" * 20, "north", "validation")
    import_hub(dataset, HUB_OPTIONS, tmp_path / "lamps")
    assert asked == [(("someone/lamps", "north"), {"split": "validation", "revision": "0f" * 20})]
    card = (tmp_path / "lamps" / "README.md").read_text("utf-8")
    for pinned in ("`someone/lamps`", "`validation`", "`north`", f"`{'0f' * 20}`"):
        assert pinned in card
    assert load_card(tmp_path / "lamps").versions["v1"].items == 1


def test_class_labels_bring_their_names(tmp_path: Path) -> None:
    import datasets

    features = datasets.Features(
        {"id": datasets.Value("int64"), "label": datasets.ClassLabel(names=["dark", "lit"])}
    )
    rows = datasets.Dataset.from_list(
        [{"id": 1, "label": 1}, {"id": 2, "label": 0}, {"id": 3, "label": -1}], features=features
    )
    rows.save_to_disk(tmp_path / "saved")
    written = import_hub(HubDataset(str(tmp_path / "saved")), ImportOptions(), tmp_path / "lamps.jsonl")
    assert [item["label"] for item in read_lines(written.path)] == ["lit", "dark", None]
    assert written.notices == ("items without a label: 1, first 3",)
    datasets.DatasetDict({"train": rows}).save_to_disk(tmp_path / "several")
    written = import_hub(
        HubDataset(str(tmp_path / "several"), split="train"),
        ImportOptions(options=("off", "on"), columns={"id": "id", "label": "label"}, index_base=0),
        tmp_path / "renamed.jsonl",
    )
    assert [item["label"] for item in read_lines(written.path)] == ["on", "off", None]


def test_dataset_that_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be loaded"):
        import_hub(HubDataset(str(LIGHTHOUSES), split="none"), HUB_OPTIONS, tmp_path / "x")


def test_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_datasets(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "datasets":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_datasets)
    with pytest.raises(UsageError, match=r"pip install 'evalkit\[datasets\]'"):
        import_hub(HubDataset(str(LIGHTHOUSES)), HUB_OPTIONS, tmp_path / "x")


def test_label_folder_is_never_overwritten(importing: Importing, tmp_path: Path) -> None:
    folder = tmp_path / "lamps"
    import_hub(HubDataset(str(LIGHTHOUSES)), HUB_OPTIONS, folder)
    before = (folder / "v1.jsonl").read_bytes()
    with pytest.raises(UsageError, match="exists already"):
        import_hub(HubDataset(str(LIGHTHOUSES)), HUB_OPTIONS, folder)
    assert (folder / "v1.jsonl").read_bytes() == before
    assert json.loads(before.splitlines()[0])["label"] == "lit"
    assert importing.folder == tmp_path


# --- cells that are none --------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", ["０.９", "٠.٩", "0_9", "nan", "9" * 50_000 + "x"])
def test_csv_cell_that_only_looks_like_a_number_stays_text(
    importing: Importing, tmp_path: Path, cell: str
) -> None:
    path = table(tmp_path, f"id,probability.A,probability.B\nq1,{cell},0.1\n")
    (row,) = importing.runs(path, format="csv")
    assert "probabilities are text" in row["error"]


def test_csv_list_of_options_that_is_too_deep_is_none(importing: Importing, tmp_path: Path) -> None:
    path = table(tmp_path, 'id,option_ids,choice\nq1,"' + "[" * 100_000 + '",A\n')
    (row,) = importing.runs(path, format="csv", options=("A", "B"))
    assert row["choice"] == "A"


def test_long_label_is_cut_in_the_message(importing: Importing, tmp_path: Path) -> None:
    path = table(tmp_path, "id,label\nq1,a" + "." * 200_000 + "a\n")
    with pytest.raises(InputError) as error:
        importing.labels(path, format="csv", options=("A", "B"))
    assert len(str(error.value)) < 1500
    assert "a label is an option's id" in str(error.value)


def one_row(tmp_path: Path, **columns: Any) -> Path:
    return parquet(tmp_path, {"id": ["q1"], "probability.A": [0.9], "probability.B": [0.1], **columns})


def test_parquet_decimals_are_numbers(importing: Importing, tmp_path: Path) -> None:
    path = one_row(tmp_path, **{"probability.A": [Decimal("0.9")], "probability.B": [Decimal("0.1")]})
    assert importing.runs(path)[0]["probabilities"] == [0.9, 0.1]


def test_parquet_times_are_no_probabilities(importing: Importing, tmp_path: Path) -> None:
    (row,) = importing.runs(one_row(tmp_path, **{"probability.A": [timedelta(seconds=1)]}))
    assert "probabilities are not numbers" in row["error"]


def test_parquet_model_may_be_an_object(importing: Importing, tmp_path: Path) -> None:
    assert importing.runs(one_row(tmp_path, model=[{"name": "mill"}]))[0]["model"] == "mill"


def test_parquet_text_that_is_not_utf8_is_refused(importing: Importing, tmp_path: Path) -> None:
    damaged = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))
    with pytest.raises(InputError, match=r"table.parquet:1: holds text that is not UTF-8 \(0xff\)"):
        importing.runs(one_row(tmp_path, id=damaged))


def test_table_without_a_row_is_named(importing: Importing, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"table\.csv: holds no item"):
        importing.labels(table(tmp_path, "id,label\n"), format="csv", options=("A", "B"))


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_export_and_import_keep_awkward_names(importing: Importing, tmp_path: Path, format: str) -> None:
    rows = [
        {"id": ' q,1"\n', "probabilities": [0.25, 0.5, 0.25], "option_ids": ["A ", "A", 'b,"\n']},
        {"id": "q\r2", "probabilities": [0.5, 0.5], "option_ids": [" A", "学"]},
    ]
    path = write_lines(tmp_path / "a.jsonl", rows)
    export_run(path, "a.jsonl", format, tmp_path / f"a.{format}")
    assert list(map(same, importing.runs(tmp_path / f"a.{format}"))) == rows


def test_export_to_lm_eval_keeps_shares_of_a_mass_too_small_for_a_float(
    importing: Importing, tmp_path: Path
) -> None:
    row = {"id": "q1", "option_ids": ["A", "B"], "probabilities": [0.25, 0.75], "allowed_token_mass": 0.0}
    export_run(write_lines(tmp_path / "a.jsonl", [row]), "a.jsonl", "lm-eval", tmp_path / "s.jsonl")
    (back,) = importing.runs(tmp_path / "s.jsonl", id_field="doc.id")
    assert back["probabilities"] == pytest.approx([0.25, 0.75])


def test_parquet_column_name_that_is_not_utf8_is_refused(importing: Importing, tmp_path: Path) -> None:
    path = one_row(tmp_path, unusual=["x"])
    path.write_bytes(path.read_bytes().replace(b"unusual", b"\xffnusual"))
    with pytest.raises(InputError, match=r"table.parquet.* holds text that is not UTF-8 \(0xff\)"):
        importing.runs(path)
