"""The checks behind all importers: ids, options, repeats, labels, and what is written."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from evalkit import schema
from evalkit.errors import InputError, NoDecisionsError, UsageError
from evalkit.importers import files
from evalkit.importers.checks import names_of, said
from evalkit.labels import LabelSet, load_label_file
from evalkit.rows import SUM_TOLERANCE
from tests.unit.importing import SAMPLES, Importing, write_lines

Record = dict[str, Any]


@pytest.fixture
def importing(tmp_path: Path) -> Importing:
    return Importing(tmp_path)


@pytest.fixture
def labels(tmp_path: Path) -> LabelSet:
    items = [
        {"id": name, "options": [{"id": "yes"}, {"id": "no"}], "label": "yes"} for name in ("q1", "q2", "q3")
    ]
    return load_label_file(write_lines(tmp_path / "set.jsonl", items))


def raw(name: Any, a: float = -0.1, b: float = -2.6, **request: Any) -> Record:
    """One recorded line: A and B with these log-probabilities."""
    listed = [{"token": "A", "logprob": a}, {"token": "B", "logprob": b}]
    content = [{**listed[0], "top_logprobs": listed}]
    return {"id": name, "request": request, "response": {"choices": [{"logprobs": {"content": content}}]}}


def failed(name: str) -> Record:
    return {"id": name, "request": {}, "response": {"error": {"message": "503: busy"}}}


# --- ids and options -----------------------------------------------------------------------------------


def test_rows_stand_in_label_set_order_with_its_options(
    importing: Importing, tmp_path: Path, labels: LabelSet
) -> None:
    rows = importing.runs(write_lines(tmp_path / "raw.jsonl", [raw("q3"), raw("q1")]), labels=labels)
    assert [(row["id"], row["option_ids"]) for row in rows] == [("q1", ["yes", "no"]), ("q3", ["yes", "no"])]
    assert "items of the label set that are missing: 1, first q2" in importing.notices
    assert importing.meta["label_set"] == {"name": "set", "version": None, "sha256": labels.sha256}


def test_every_wrong_id_is_listed(importing: Importing, tmp_path: Path, labels: LabelSet) -> None:
    records = [raw("q1"), raw("q9"), raw(True), raw(1.5), raw(None), raw(""), raw(3)]
    with pytest.raises(InputError) as error:
        importing.runs(write_lines(tmp_path / "raw.jsonl", records), labels=labels)
    lines = str(error.value).splitlines()
    assert [line.split(":")[1] for line in lines] == ["2", "3", "4", "5", "6", "7"]
    assert "'q9' is not in the label set" in lines[0]
    assert "has no id" in lines[3]
    assert "'3' is not in the label set" in lines[5]


def test_numbers_become_text_ids(importing: Importing, tmp_path: Path) -> None:
    rows = importing.runs(write_lines(tmp_path / "raw.jsonl", [raw(1), raw("01")]), options=("A", "B"))
    assert [row["id"] for row in rows] == ["1", "01"]


def test_other_options_than_the_label_set_are_refused(
    importing: Importing, tmp_path: Path, labels: LabelSet
) -> None:
    sample = {"doc_id": "q1", "doc": {}, "arguments": [], "filtered_resps": [[-1.0, False], [-2.0, False]]}
    with pytest.raises(InputError, match="its options are A, B here and yes, no in the label set"):
        importing.runs(write_lines(tmp_path / "s.jsonl", [sample]), labels=labels)
    rows = importing.runs(write_lines(tmp_path / "s.jsonl", [sample]), labels=labels, options=("no", "yes"))
    assert rows[0]["option_ids"] == ["no", "yes"]
    three = {"id": "q1", "choices": ["a", "b", "c"], "output": {"choices": [{"logprobs": None}]}}
    log = tmp_path / "log.json"
    log.write_text(json.dumps({"eval": {}, "samples": [three]}))
    with pytest.raises(InputError, match="its options are A, B, C here"):
        importing.runs(log, labels=labels)
    row = {"id": "q1", "option_ids": ["yes", "maybe"], "probabilities": [0.5, 0.5]}
    with pytest.raises(InputError, match="its options are yes, maybe here"):
        importing.runs(write_lines(tmp_path / "r.jsonl", [row]), labels=labels)


def test_rows_list_their_options_in_any_order(importing: Importing, tmp_path: Path, labels: LabelSet) -> None:
    row = {"id": "q1", "option_ids": ["no", "yes"], "probabilities": [0.25, 0.75]}
    assert importing.runs(write_lines(tmp_path / "r.jsonl", [row]), labels=labels) == [row]


@pytest.mark.parametrize(
    ("ids", "answers", "names"),
    [
        (("yes", "no"), "", ("A", "B")),
        (("A", "B"), "", ("A", "B")),
        (("yes", "no"), "ids", ("yes", "no")),
        (("B", "A"), "letters", ("A", "B")),
        (("B", "A"), "ids", ("B", "A")),
    ],
)
def test_names_of_options_in_answers(ids: tuple[str, ...], answers: str, names: tuple[str, ...]) -> None:
    assert names_of(ids, answers) == names


def test_letters_in_another_order_are_never_guessed() -> None:
    with pytest.raises(UsageError, match=r"declare --answers letters .* or --answers ids"):
        names_of(("insufficient", "B", "A"), "")
    with pytest.raises(UsageError, match="more than letters"):
        names_of(tuple(map(str, range(27))), "letters")


def test_text_answers_name_letters_or_ids() -> None:
    assert said(("yes", "no"), "") == {"A": 0, "B": 1, "yes": 0, "no": 1}
    assert said(("yes", "no"), "ids") == {"yes": 0, "no": 1}


def test_declared_ids_are_read_as_tokens(importing: Importing, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "raw.jsonl", [raw("q1")])
    assert importing.runs(path, options=("B", "A"), answers="ids")[0]["probabilities"][1] > 0.9
    assert importing.runs(path, options=("B", "A"), answers="letters")[0]["probabilities"][0] > 0.9
    assert importing.meta["readout"] == {"rule": "letters/1", "answers": "letters"}


# --- repeats -------------------------------------------------------------------------------------------


def test_same_decision_twice_is_one(importing: Importing, tmp_path: Path) -> None:
    rows = importing.runs(write_lines(tmp_path / "raw.jsonl", [raw("q1"), raw("q1")]), options=("A", "B"))
    assert len(rows) == 1
    assert "item q1: recorded more than once; one of the equal decisions is used" in importing.notices


def test_success_after_a_failure_is_used(importing: Importing, tmp_path: Path) -> None:
    records = [failed("q1"), raw("q1"), raw("q2"), failed("q2"), failed("q3"), failed("q3")]
    rows = importing.by_id(write_lines(tmp_path / "raw.jsonl", records), options=("A", "B"))
    assert "probabilities" in rows["q1"]
    assert "probabilities" in rows["q2"]
    assert rows["q3"]["error"] == "503: busy"
    assert "a usable decision is used" in importing.notices


def test_decisions_that_disagree_are_refused_with_both_lines(importing: Importing, tmp_path: Path) -> None:
    records = [raw("q1"), raw("q2"), raw("q1", -2.0, -0.2)]
    with pytest.raises(InputError, match=r"raw.jsonl:3: q1: 2 different decisions \(line 1 and line 3\)"):
        importing.runs(write_lines(tmp_path / "raw.jsonl", records), options=("A", "B"))


def test_repeats_are_numbered_in_file_order_without_failed_attempts(
    importing: Importing, tmp_path: Path
) -> None:
    records = [failed("q1"), raw("q1"), raw("q1", -2.0, -0.2), raw("q2"), failed("q3"), failed("q3")]
    path = write_lines(tmp_path / "raw.jsonl", records)
    importing.runs(path, options=("A", "B"), repeats=True)
    assert [(run.path.name, run.usable, run.failed) for run in importing.written] == [
        ("run.1.jsonl", 2, 1),
        ("run.2.jsonl", 1, 0),
    ]
    rows = importing.by_id(path, options=("A", "B"), epoch=2)
    assert list(rows) == ["q1"]
    assert rows["q1"]["probabilities"][1] > 0.8


# --- rows ------------------------------------------------------------------------------------------------


def test_unusable_rows_keep_what_is_known_beside_the_decision(importing: Importing, tmp_path: Path) -> None:
    record = raw("q1", 0.31)
    record["response"] |= {"model": "mill", "usage": {"prompt_tokens": 57}}
    (row,) = importing.runs(write_lines(tmp_path / "raw.jsonl", [record]), options=("A", "B"))
    assert (row["status"], row["model"], row["input_tokens"]) == ("invalid", "mill", 57)


def test_half_a_surrogate_in_a_name_is_refused(importing: Importing, tmp_path: Path) -> None:
    records = [raw("q1"), raw("q2")]
    records[1]["response"]["model"] = "mill\ud800"
    with pytest.raises(InputError, match="half a surrogate pair"):
        importing.runs(write_lines(tmp_path / "raw.jsonl", records), options=("A", "B"))


def test_rows_of_one_kind_are_all_checked(importing: Importing, tmp_path: Path) -> None:
    rows = [
        {
            "id": "a",
            "option_ids": ["A", "B"],
            "probabilities": [0.5, 0.5],
            "allowed_token_mass": 0.5,
            "model": "m",
        },
        {
            "id": "b",
            "option_ids": ["A", "B"],
            "probabilities": [0.5, 0.9],
            "allowed_token_mass": 0.5,
            "model": "m",
        },
        {
            "id": "c",
            "option_ids": ["A", "B"],
            "probabilities": [0.5, 0.5],
            "allowed_token_mass": 7.0,
            "model": "m",
        },
        {
            "id": "d",
            "option_ids": ["A", "B"],
            "probabilities": [0.5, 0.5],
            "allowed_token_mass": math.nan,
            "model": "m",
        },
        {"id": "e", "option_ids": ["A", "B"], "probabilities": [0.5, 0.5], "status": "ok", "error": "but"},
        {
            "id": "f",
            "option_ids": ["A", "B"],
            "probabilities": [0.5, 0.5],
            "allowed_token_mass": 0.5,
            "model": "ж",
        },
    ]
    found = importing.by_id(write_lines(tmp_path / "rows.jsonl", rows))
    assert [row.get("status", "ok") for row in found.values()] == [
        "ok",
        "invalid",
        "invalid",
        "invalid",
        "invalid",
        "ok",
    ]
    assert f"above 1 + {SUM_TOLERANCE:g}" in found["b"]["error"]


def test_rows_that_are_no_rows_are_refused(importing: Importing, tmp_path: Path) -> None:
    rows = [
        {"id": "a", "choice": 5},
        {"id": "b", "option_ids": "AB", "choice": "A"},
        {"id": "c", "choice": "A", "model": 3},
    ]
    with pytest.raises(InputError) as error:
        importing.runs(write_lines(tmp_path / "rows.jsonl", rows), options=("A", "B"))
    assert len(error.value.problems) == 3


# --- notices and sidecar -----------------------------------------------------------------------------------


def test_settings_that_move_numbers_have_to_be_the_same(importing: Importing, tmp_path: Path) -> None:
    records = [
        raw("q1", temperature=1.0, seed=1),
        raw("q2", temperature=0, seed=2),
        raw("q3", temperature=1.0),
    ]
    importing.runs(write_lines(tmp_path / "raw.jsonl", records), options=("A", "B"))
    assert (
        importing.notices == "the requests differ in temperature (1.0, 0): not all decisions are comparable"
    )
    assert importing.meta["recorded"] == {"options": {}}


def test_sidecar_says_where_the_run_comes_from(importing: Importing, tmp_path: Path) -> None:
    records = [
        raw("q1", model="mill", top_p=0.9, options={"temperature": 0.5}),
        raw("q2", model="mill", top_p=0.9, temperature=0.5),
    ]
    path = write_lines(tmp_path / "raw.jsonl", records)
    importing.runs(path, options=("A", "B"))
    meta = importing.meta
    assert schema.check("meta", meta) == []
    assert meta["recorded"]["options"] == {"temperature": 0.5, "top_p": 0.9}
    assert meta["model"] == {"name": "mill"}
    assert meta["protocol"] == "letters/1"
    assert meta["source"]["format"] == "openai-responses"
    assert meta["source"]["files"] == [{"name": "raw.jsonl", "sha256": files.InputFile(path, "x").sha256}]
    assert meta["decisions"] == 2


def test_models_that_differ_are_not_named_as_one(importing: Importing, tmp_path: Path) -> None:
    records = [raw("q1", model="mill"), raw("q2", model="weir")]
    importing.runs(write_lines(tmp_path / "raw.jsonl", records), options=("A", "B"))
    assert "model" not in importing.meta


def test_notices_count_what_happened_to_many(importing: Importing, tmp_path: Path) -> None:
    records = [raw(f"q{n}", top_logprobs=5) for n in range(3)]
    importing.runs(write_lines(tmp_path / "raw.jsonl", records), options=("A", "B"))
    assert (
        importing.notices
        == "item q0 and 2 more: the list is shorter than requested (2 entries for 5 requested)"
    )


def test_reasons_of_unusable_rows_are_counted(importing: Importing, tmp_path: Path) -> None:
    records = [raw("ok"), *(raw(f"q{n}", 0.3 + n / 100) for n in range(7)), failed("f1"), failed("f2")]
    importing.runs(write_lines(tmp_path / "raw.jsonl", records), options=("A", "B"))
    (written,) = importing.written
    assert (written.usable, written.invalid, written.failed) == (1, 7, 2)
    assert written.reasons[0] == "raw.jsonl:9: f1 and 1 more: error: 503: busy"
    assert written.reasons[-1] == "... and 3 more reasons"


def test_run_without_a_usable_row_is_written_and_refused(importing: Importing, tmp_path: Path) -> None:
    importing.runs(write_lines(tmp_path / "raw.jsonl", [failed("q1")]), options=("A", "B"))
    (written,) = importing.written
    with pytest.raises(
        NoDecisionsError, match=r"no usable decision among 1 rows: raw\.jsonl:1: q1: error: 503: busy"
    ):
        written.refuse_empty()
    bare = {"id": "q1", "request": {}, "response": {"choices": [{"logprobs": None}]}}
    importing.runs(write_lines(tmp_path / "raw.jsonl", [bare]), options=("A", "B"))
    with pytest.raises(NoDecisionsError, match="--text-choices takes answers"):
        importing.written[0].refuse_empty()


@pytest.mark.parametrize("name", ["run.json", "run.jsonl.gz", "run"])
def test_output_is_called_jsonl(importing: Importing, tmp_path: Path, name: str) -> None:
    from evalkit.importers import FORMATS, ImportOptions, InputFile
    from evalkit.importers.writing import import_runs

    path = write_lines(tmp_path / "raw.jsonl", [raw("q1")])
    with pytest.raises(UsageError, match=r"a run file is called NAME\.jsonl"):
        import_runs(
            [InputFile(path, "raw.jsonl")],
            FORMATS["openai-responses"],
            None,
            ImportOptions(),
            tmp_path / name,
        )
    assert importing.written == []


def test_output_cannot_be_an_input_or_a_place_that_is_none(tmp_path: Path) -> None:
    from evalkit.importers import FORMATS, ImportOptions, InputFile
    from evalkit.importers.label_writing import import_labels
    from evalkit.importers.writing import import_runs

    path = write_lines(tmp_path / "raw.jsonl", [raw("q1")])
    opened, declared = [InputFile(path, "raw.jsonl")], ImportOptions(options=("A", "B"))
    with pytest.raises(UsageError, match="one of the files to import"):
        import_runs(opened, FORMATS["openai-responses"], None, declared, path)
    with pytest.raises(UsageError, match="one of the files to import"):
        import_labels(opened, FORMATS["semif"], declared, path)
    with pytest.raises(UsageError, match="cannot be written"):
        import_runs(opened, FORMATS["openai-responses"], None, declared, path / "run.jsonl")
    items = write_lines(tmp_path / "set.jsonl", [{"id": "1", "options": [{"id": "A"}, {"id": "B"}]}])
    with pytest.raises(UsageError, match="cannot be written"):
        import_labels([InputFile(items, "set.jsonl")], FORMATS["semif"], declared, path / "x.jsonl")


# --- files -------------------------------------------------------------------------------------------------


def zstd(raw: bytes) -> bytes:
    """Compress with zstd."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(raw)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("pack", [gzip.compress, zstd], ids=["gz", "zst"])
@pytest.mark.parametrize(
    "sample",
    ["inspect/mill.json", "promptfoo/results.json", "promptfoo/results.jsonl", "tables/decisions.csv"],
)
def test_compressed_files_are_read(importing: Importing, tmp_path: Path, sample: str, pack: Any) -> None:
    path = tmp_path / "packed"
    path.write_bytes(pack((SAMPLES / sample).read_bytes()))
    assert importing.runs(path, options=("A", "B", "C"), repeats=True)


def test_misleading_name_is_a_notice(importing: Importing, tmp_path: Path) -> None:
    importing.runs(write_lines(tmp_path / "raw.jsonl.gz", [raw("q1")]), options=("A", "B"))
    assert "named .gz, but it is not gzip" in importing.notices


def test_byte_order_mark_before_a_document_is_no_harm(importing: Importing, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(b"\xef\xbb\xbf" + (SAMPLES / "promptfoo" / "results.json").read_bytes())
    assert len(importing.runs(path, options=("A", "B", "C"))) == 3


def test_document_has_a_limit(importing: Importing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_DOCUMENT_BYTES", 100)
    path = tmp_path / "results.json"
    path.write_bytes((SAMPLES / "promptfoo" / "results.json").read_bytes())
    with pytest.raises(InputError, match="has to be read as a whole"):
        importing.runs(path, format="promptfoo")


def test_every_damaged_line_is_listed(importing: Importing, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "raw.jsonl", [raw("q1"), raw("q2")])
    path.write_text(path.read_text() + '{"id": "q3", "resp\n\n{"id": "q4"} {"id": "q5"}\n')
    with pytest.raises(InputError) as error:
        importing.runs(path, options=("A", "B"))
    assert [problem.line for problem in error.value.problems] == [3, 5]


# --- labels ------------------------------------------------------------------------------------------------


def item(name: str, label: Any, ids: str = "ABC", **fields: Any) -> Record:
    options = [{"id": id_, "description": f"text {id_}"} for id_ in ids]
    return {"id": name, "options": options, "label": label, **fields}


@pytest.mark.parametrize(
    ("label", "meant"),
    [
        ("A", "A"), ("a", "A"), ("A.", "A"), ("(A)", "A"), (" A", "A"), ("\uff21", "A"), ("[b]", "B"),
        ("c:", "C"), ("text B", "B"), (" text B ", "B"), (["B"], "B"), (None, None),
    ],
)  # fmt: skip
def test_labels_are_tidied_where_one_option_can_be_meant(
    importing: Importing, tmp_path: Path, label: Any, meant: str | None
) -> None:
    items, notices = importing.labels(write_lines(tmp_path / "l.jsonl", [item("q1", label)]))
    assert items[0]["label"] == meant
    assert (notices == "") == (label == meant and label is not None)


@pytest.mark.parametrize("label", ["AC", "", "D", "yes", ["A", "B"], [], True, 1.5, {"id": "A"}, "()"])
def test_labels_that_mean_no_one_option_are_refused(importing: Importing, tmp_path: Path, label: Any) -> None:
    with pytest.raises(InputError, match=r"l.jsonl:1: q1: label .* is not among the options A, B, C"):
        importing.labels(write_lines(tmp_path / "l.jsonl", [item("q1", label)]))


def test_label_that_two_options_could_mean_is_refused(importing: Importing, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not among the options A, a"):
        importing.labels(write_lines(tmp_path / "l.jsonl", [item("q1", "(a)", "Aa")]))


def test_option_id_comes_before_another_options_text(importing: Importing, tmp_path: Path) -> None:
    crossed = {
        "id": "q1",
        "options": [{"id": "A", "description": "B"}, {"id": "B", "description": "A"}],
        "label": "B",
    }
    items, notices = importing.labels(write_lines(tmp_path / "l.jsonl", [crossed]))
    assert (items[0]["label"], notices) == ("B", "")


@pytest.mark.parametrize(("label", "base", "meant"), [(1, 1, "A"), (1, 0, "B"), ("2", 0, "C"), (3, 1, "C")])
def test_numbers_count_from_the_declared_base(
    importing: Importing, tmp_path: Path, label: Any, base: int, meant: str
) -> None:
    items, _ = importing.labels(write_lines(tmp_path / "l.jsonl", [item("q1", label)]), index_base=base)
    assert items[0]["label"] == meant


@pytest.mark.parametrize(("label", "base"), [(0, 1), (3, 0), (-1, 0), ("-1", 1)])
def test_numbers_outside_the_options_are_refused(
    importing: Importing, tmp_path: Path, label: Any, base: int
) -> None:
    with pytest.raises(InputError, match="means none of the 3 options"):
        importing.labels(write_lines(tmp_path / "l.jsonl", [item("q1", label)]), index_base=base)


def test_items_with_numbers_that_are_no_json_are_refused(importing: Importing, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds NaN or an infinity"):
        importing.labels(write_lines(tmp_path / "l.jsonl", [item("q1", "A", evidence={"height": math.nan})]))


def test_settings_that_are_no_json_become_null(importing: Importing, tmp_path: Path) -> None:
    importing.runs(write_lines(tmp_path / "raw.jsonl", [raw("q1", temperature=math.nan)]), options=("A", "B"))
    assert importing.meta["recorded"]["options"] == {"temperature": None}


def test_number_that_is_an_option_id_is_that_option(importing: Importing, tmp_path: Path) -> None:
    items, _ = importing.labels(write_lines(tmp_path / "l.jsonl", [item("q1", "1", "012")]))
    assert items[0]["label"] == "1"


def test_every_unusable_item_is_listed(importing: Importing, tmp_path: Path) -> None:
    bad = [
        item("q1", "A"),
        item("q1", "B"),
        item("q2", "Z"),
        {"id": "q3"},
        item("q4", "A", evidence=5),
        {**item("q5", "A"), "options": [{"id": "A"}]},
        {"options": [{"id": "A"}]},
        item("q1", "A"),
    ]
    with pytest.raises(InputError) as error:
        importing.labels(write_lines(tmp_path / "l.jsonl", bad), format="semif")
    text = str(error.value)
    assert [problem.line for problem in error.value.problems] == [2, 3, 4, 5, 6, 7]
    assert "'q1' already stands at l.jsonl:1 with other content" in text
    assert "q3: the file does not list the options" in text


def test_empty_label_file_is_refused(importing: Importing, tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text("id,label\n")
    with pytest.raises(InputError, match="holds no item"):
        importing.labels(path)


def test_problem_in_a_document_names_its_place(importing: Importing, tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    sample = {"id": 1, "choices": ["yes"], "target": "A"}
    log.write_text(json.dumps({"eval": {}, "samples": [sample]}))
    with pytest.raises(InputError, match=r"log.json:\$.samples\[0\]"):
        importing.labels(log)
