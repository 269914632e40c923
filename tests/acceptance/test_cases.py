"""The folders of awkward inputs in ``tests/cases``: what each command of a case must answer.

A folder's ``expected.txt`` says in words what must be seen; its function here (named after the folder) says
it in code. A folder without a function, and a documented command that no function runs, is a failure.
"""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evalkit import schema
from tests.acceptance.conftest import CASES, Case, case_folders, documented
from tests.acceptance.reading import ACTING, html_texts, markdown_tables

if TYPE_CHECKING:
    from tests.acceptance.conftest import Evalkit

SCORE = "score run.jsonl --labels labels.jsonl"
ELSEWHERE = {
    "test_import_cases.py": frozenset(range(1, 31)),
    "test_gate.py": frozenset({81, 83, 84, 85, 87}),
    "test_large.py": frozenset({97}),
    "test_record.py": frozenset({99}),
}
"""Which other file answers for which folders as a whole."""
NOT_HERE = ("evalkit gate ", "--format junit", "--format github", "python make.py", "evalkit import ")
"""Parts of documented commands that those files run, also for the folders that are answered for here."""


def near(value: float) -> Any:
    """Compare as the cases do: to 1e-4."""
    return pytest.approx(value, abs=1e-4)


def value(report: dict[str, Any], name: str) -> float | None:
    """Return one of the overall figures without its interval."""
    found = report["overall"][name]
    number: float | None = found["value"] if isinstance(found, dict) else found
    return number


def counts(report: dict[str, Any], *names: str) -> tuple[int, ...]:
    """Return some of the counts."""
    return tuple(report["counts"][name] for name in names)


def by_id(records: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Key records by their ids, which must differ."""
    keyed = {record["id"]: record for record in records}
    assert len(keyed) == len(list(records))
    return keyed


def reasons(report: dict[str, Any]) -> dict[str, tuple[int, str]]:
    """Return line and reason of every item without a usable decision."""
    return {entry["id"]: (entry["line"], entry["reason"]) for entry in report["unusable"]}


def above_tables(text: str) -> str:
    """Return the sentences of a text report that stand above its first table."""
    return text.partition("\nFigures")[0]


# --- files -----------------------------------------------------------------------------------------------


def case_31_bom_crlf_blank_lines(case: Case) -> None:
    report = case.report(SCORE)
    assert counts(report, "items", "scored") == (3, 3)
    assert value(report, "accuracy") == 1.0
    assert [item["id"] for item in report["items"]] == ["q1", "q2", "q3"]
    assert [item["line"] for item in report["items"]] == [1, 2, 3]
    text = case.text(SCORE + " --items")
    assert "\ufeff" not in text
    assert "\r" not in text
    damaged = case.copy()
    labels = damaged.folder / "labels.jsonl"
    labels.write_bytes(labels.read_bytes().replace(b'"label": "A"}', b'"label": "Z"}'))
    lines = damaged.refusal(SCORE)
    assert [line.split(": ")[1] for line in lines] == ["labels.jsonl:1", "labels.jsonl:5"]


def case_32_utf16_from_powershell(case: Case) -> None:
    (line,) = case.refusal("labels validate labels.jsonl")
    assert "labels.jsonl:1: " in line
    assert "UTF-16" in line
    assert "save it as UTF-8" in line


def case_33_line_separators_inside_strings(case: Case) -> None:
    assert re.search(r"\b3 items\b", case.text("labels validate labels.jsonl"))
    damaged = case.copy()
    labels = damaged.folder / "labels.jsonl"
    for number in (1, 2, 3):
        item = f'"id": "q{number}"'.encode()
        whole = labels.read_bytes()
        labels.write_bytes(whole.replace(item, b'"id": ""'))
        (line,) = damaged.refusal("labels validate labels.jsonl")
        assert f"labels.jsonl:{number}: $.id: " in line
        labels.write_bytes(whole)


def case_34_torn_last_line(case: Case) -> None:
    for run in ("run.jsonl", "run_newline_after_fragment.jsonl"):
        (line,) = case.refusal(f"score {run} --labels labels.jsonl")
        assert f"{run}:4: unfinished record" in line


def case_36_json_array_with_trailing_commas(case: Case) -> None:
    (line,) = case.refusal("labels validate labels.jsonl")
    assert "labels.jsonl:1: this looks like a JSON array, expected one object a line" in line
    assert "'['" in line


def case_37_nan_null_and_string_probabilities(case: Case) -> None:
    report = case.report(SCORE)
    assert counts(report, "items", "scored", "invalid") == (4, 1, 3)
    assert value(report, "accuracy") == 0.25
    found = reasons(report)
    assert [found[name][0] for name in ("q1", "q2", "q3")] == [1, 2, 3]
    assert "not finite" in found["q1"][1]
    assert "null" in found["q2"][1]
    assert "text" in found["q3"][1]
    assert by_id(report["items"])["q4"]["correct"] is True
    text = case.text(SCORE)
    for name, (line, reason) in found.items():
        assert re.search(rf"^{name} +invalid +{line} +{re.escape(reason)}$", text, re.MULTILINE)
    swapped = case.copy()
    run = swapped.folder / "run.jsonl"
    run.write_text(run.read_text().replace("[NaN, 0.4]", "[0.4, NaN]"))
    other = swapped.report(SCORE)
    assert (other["counts"], other["overall"]) == (report["counts"], report["overall"])


def case_39_lone_surrogate(case: Case) -> None:
    report = case.report(SCORE)
    items = by_id(report["items"])
    assert (items["q1"]["choice"], items["q1"]["correct"], items["q2"]["correct"]) == ("B", False, True)
    assert value(report, "accuracy") == 0.5
    case.text(SCORE)
    for name in ("text", "json", "markdown", "csv", "html"):
        file = case.scratch / f"report.{name}"
        assert case.text(f"{SCORE} --format {name} --output {file}") == ""
        assert "q1" in file.read_bytes().decode("utf-8", "strict")


def case_41_very_deep_nesting(case: Case) -> None:
    report = case.report(SCORE)
    assert counts(report, "items", "scored") == (2, 2)
    assert value(report, "accuracy") == 1.0
    case.text(SCORE)
    (line,) = case.refusal("runs validate run.jsonl --labels labels.jsonl")
    assert line.startswith("evalkit: run.jsonl:2: nested too deeply")


def case_42_truncated_and_mislabelled_gzip(case: Case) -> None:
    (line,) = case.refusal("labels validate labels.jsonl.gz")
    assert "labels.jsonl.gz: truncated gzip" in line
    ran = case.run("labels validate plain_named_gz.jsonl.gz")
    assert ran.code == 0
    assert re.search(r"\b1 item\b", ran.stdout)
    assert "it is not gzip; read as plain text" in ran.stdout + ran.stderr


def case_43_ids_that_look_like_numbers(case: Case) -> None:
    for suffix, size in (("", 10), ("_numeric", 6), ("_underscore", 2)):
        command = f"score run{suffix}.jsonl --labels labels{suffix}.jsonl"
        report = case.report(command)
        ids = [item["id"] for item in case.lines(f"labels{suffix}.jsonl")]
        assert counts(report, "items", "scored") == (size, size)
        assert value(report, "accuracy") == 1.0
        assert [item["id"] for item in report["items"]] == ids
        case.text(command)
        views = _views(case, command + " --items")
        for name, seen in views.items():
            assert set(ids) <= seen, f"{name} changes an id"


def case_44_invalid_utf8_and_gbk(case: Case) -> None:
    (line,) = case.refusal("labels validate labels.jsonl")
    assert re.search(r"labels\.jsonl:2: invalid UTF-8 at byte \d+", line)
    lines = case.refusal("labels validate labels_gbk.jsonl")
    assert "labels_gbk.jsonl:1: invalid UTF-8 at byte" in lines[0]
    assert not any("\ufffd" in line for line in lines)


def case_45_retry_rows_with_the_same_id(case: Case) -> None:
    (line,) = case.refusal(SCORE)
    assert "q2: 2 different decisions (lines 3, 4)" in line
    agreed = case.copy()
    agreed.write("run.jsonl", [row for place, row in enumerate(case.lines("run.jsonl"), 1) if place != 4])
    report = agreed.report(SCORE)
    assert counts(report, "items", "scored", "error") == (3, 3, 0)
    assert value(report, "accuracy") == 1.0
    assert [(item["id"], item["line"]) for item in report["items"]] == [("q1", 2), ("q2", 3), ("q3", 4)]
    notices = "\n".join(report["notices"])
    assert re.search(r"q1 is recorded 2 times.* line 2 ", notices)
    assert re.search(r"q3 is recorded 2 times.* line 4 ", notices)


# --- label sets ------------------------------------------------------------------------------------------


def case_46_gold_index_with_unknown_base(case: Case) -> None:
    for file, size in (("labels.jsonl", 4), ("labels_fits_both.jsonl", 3)):
        lines = case.refusal(f"labels validate {file}")
        assert len(lines) == size
        for place, line in enumerate(lines, 1):
            assert f"{file}:{place}: $.label: q{place}: label is a number" in line
            assert "declare the index base" in line


def case_48_gold_not_among_the_options(case: Case) -> None:
    (line,) = case.refusal("labels validate labels.jsonl")
    assert "labels.jsonl:2: $.label: q2: label 'D' is not among the options A, B, C" in line


def case_49_gold_spelled_other_ways(case: Case) -> None:
    lines = case.refusal("labels validate labels.jsonl")
    assert len(lines) == 9
    for place, line in enumerate(lines, 1):
        assert f"labels.jsonl:{place}: $.label: q{place}: label " in line
    fine = case.copy()
    fine.write("labels.jsonl", case.lines("labels.jsonl")[9:])
    assert re.search(r"\b2 items\b", fine.text("labels validate labels.jsonl"))
    fine.write("run.jsonl", [{"id": "q11", "option_ids": ["A", "B"], "probabilities": [0.2, 0.8]}])
    report = fine.report(SCORE)
    items = by_id(report["items"])
    assert (items["q10"]["label"], items["q10"]["correct"]) == (None, None)
    assert (items["q11"]["label"], items["q11"]["correct"]) == ("B", True)
    assert counts(report, "items", "unlabelled") == (2, 1)
    assert value(report, "accuracy") == 1.0


def case_50_duplicate_and_conflicting_ids(case: Case) -> None:
    first, second = case.refusal("labels validate labels.jsonl")
    assert "'q1'" in first
    assert "lines 1, 3" in first
    assert "labels A and B conflict" in first
    assert "'q2'" in second
    assert "lines 2, 4" in second
    assert "identical" in second


def case_52_options_changed_between_versions(case: Case) -> None:
    report = case.report("score run_on_v1.jsonl --labels labels_v1.jsonl")
    assert (report["overall"]["correct"], *counts(report, "items")) == (2, 2)
    (line,) = case.refusal("score run_on_v1.jsonl --labels labels_v2.jsonl")
    assert "run_on_v1.jsonl:2: q2: its options are A, B, C in the run and A, B in the label set" in line


# --- scoring ---------------------------------------------------------------------------------------------


def case_53_class_absent_in_gold(case: Case) -> None:
    report = case.report(SCORE)
    assert (value(report, "accuracy"), value(report, "balanced_accuracy")) == (0.5, 0.5)
    assert report["overall"]["recall"]["A"]["value"] == 0.5
    assert report["overall"]["recall"]["B"] is None
    assert case.text(SCORE).count("balanced accuracy averages the labels present") == 1


def case_54_single_class_gold(case: Case) -> None:
    report = case.report(SCORE)
    assert (value(report, "accuracy"), value(report, "balanced_accuracy")) == (1.0, 1.0)
    two_label_metrics = {"auroc", "kappa", "mcc", "chance_adjusted_accuracy"} & report["overall"].keys()
    assert all(report["overall"][name] is None for name in two_label_metrics)
    assert not re.search(r"\b(nan|inf)\b", case.text(SCORE), re.IGNORECASE)


def case_55_ece_confidence_exactly_one(case: Case) -> None:
    for name, ece, size in (("all_wrong", 1.0, 4), ("shared_bin", 0.46, 2)):
        report = case.report(f"score {name}_run.jsonl --labels {name}_labels.jsonl")
        assert value(report, "ece") == near(ece)
        assert sum(part["n"] for part in report["overall"]["ece_bins"]) == size
    (last,) = report["overall"]["ece_bins"]
    assert (last["low"], last["high"]) == (0.9, 1.0)


def case_56_ece_with_few_items(case: Case) -> None:
    report = case.report(SCORE)
    assert value(report, "ece") == near((0.45 + 0.62 + 0.03) / 3)
    assert [part["n"] for part in report["overall"]["ece_bins"]] == [1, 1, 1]
    assert report["overall"]["losses"]["ece_n"] == 3
    assert report["signature"]["ece"].startswith("10 equal-width bins")
    text = case.text(SCORE)
    assert "|ece:10|" in text
    assert "the calibration error rests on 3 items" in text


def case_58_option_order_is_not_alphabetical(case: Case) -> None:
    def checked(report: dict[str, Any]) -> None:
        assert report["overall"]["correct"] == 2
        assert (value(report, "nll"), value(report, "brier")) == (near(0.1643), near(0.05))

    checked(case.report(SCORE))
    items, rows = case.lines("labels.jsonl"), case.lines("run.jsonl")
    turned_items = [item | {"options": item["options"][::-1]} for item in items]
    turned_rows = [
        row | {"option_ids": row["option_ids"][::-1], "probabilities": row["probabilities"][::-1]}
        for row in rows
    ]
    for number, pair in enumerate([(turned_items, rows), (items, turned_rows), (turned_items, turned_rows)]):
        turned = case.copy(str(number))
        turned.write("labels.jsonl", pair[0])
        turned.write("run.jsonl", pair[1])
        checked(turned.report(SCORE))


def case_59_exact_ties(case: Case) -> None:
    report = case.report(SCORE)
    assert (value(report, "accuracy"), *counts(report, "ties")) == (0.5, 2)
    assert [item["choice"] for item in report["items"]] == ["A", "A"]
    assert "2 choices rest on an exact tie" in case.text(SCORE)
    again = case.copy()
    assert again.run(SCORE).out == case.run(SCORE).out
    for options in (["A", "B"], ["B", "A"]):
        rows = [
            {"id": row["id"], "probabilities": dict.fromkeys(options, 0.5)} for row in case.lines("run.jsonl")
        ]
        again.write("run.jsonl", rows)
        other = again.report(SCORE)
        assert (other["overall"], other["counts"]["ties"]) == (report["overall"], 2)
        assert [item["choice"] for item in other["items"]] == ["A", "A"]


def case_60_mass_below_one(case: Case) -> None:
    report = case.report(SCORE)
    (item,) = report["items"]
    assert (item["choice"], item["probability"]) == ("A", near(0.7143))
    assert report["counts"]["allowed_token_mass"] == {"n": 1, "least": near(0.7), "mean": near(0.7)}
    assert (value(report, "nll"), value(report, "brier")) == (near(0.3365), near(0.1633))
    assert value(report, "ece") == near(0.2857)
    text = case.text(SCORE)
    assert "probabilities are conditional on the item's options" in text
    assert re.search(r"allowed_token_mass, mean +0\.7000", text)


def case_61_percent_and_comma_values(case: Case) -> None:
    report = case.report(SCORE)
    assert counts(report, "items", "scored", "invalid") == (3, 0, 3)
    assert value(report, "accuracy") == 0.0
    assert [value(report, name) for name in ("nll", "brier", "ece")] == [None, None, None]
    found = reasons(report)
    for name, line, hint in (("q1", 1, "percent"), ("q2", 2, "decimal comma"), ("q3", 3, "percent")):
        assert found[name][0] == line
        assert hint in found[name][1]
    assert all(item["probability"] is None for item in report["items"])
    assert "no item was scored" in case.text(SCORE)


def case_62_logits_or_logprobs_as_probabilities(case: Case) -> None:
    report = case.report(SCORE)
    assert counts(report, "items", "scored", "invalid") == (2, 0, 2)
    assert value(report, "accuracy") == 0.0
    found = reasons(report)
    assert "look like logits" in found["q1"][1]
    assert "look like log-probabilities" in found["q2"][1]


def case_64_errors_leave_the_denominator(case: Case) -> None:
    report = case.report(SCORE)
    assert counts(report, "items", "scored", "error") == (10, 4, 6)
    assert value(report, "accuracy") == near(0.4)
    assert report["overall"]["labelled"] == 10
    assert {reason for _, reason in reasons(report).values()} == {"content_filter: blocked"}
    assert "6 error" in above_tables(case.text(SCORE))


def case_65_gold_probability_zero(case: Case) -> None:
    report = case.report(SCORE)
    assert value(report, "accuracy") == 0.5
    assert (value(report, "nll"), value(report, "brier")) == (near(13.8682), near(1.01))
    assert report["signature"]["nll_floor"] == 1e-12
    assert report["overall"]["losses"]["at_floor"] == 1
    assert "1 item at the floor 1e-12" in case.text(SCORE)


def case_66_temperature_fit_runs_away(case: Case) -> None:
    report = case.report(SCORE)
    assert (value(report, "accuracy"), value(report, "ece")) == (1.0, near(0.1))
    assert "temperature" not in report["overall"]


def case_67_chance_with_different_option_counts(case: Case) -> None:
    report = case.report(SCORE)
    assert (value(report, "accuracy"), value(report, "chance")) == (near(2 / 3), near((0.5 + 0.25 + 0.1) / 3))
    recall = {name: found and found["value"] for name, found in report["overall"]["recall"].items()}
    assert recall == {"A": 1.0, "C": 1.0, "J": 0.0}
    assert re.search(r"^chance +0\.2833$", case.text(SCORE), re.MULTILINE)


# --- diff ------------------------------------------------------------------------------------------------


def case_68_same_accuracy_many_flips(case: Case) -> None:
    command = "diff bf16.jsonl q4.jsonl --labels labels.jsonl"
    report = case.report(command)
    overall = report["overall"]
    assert overall["accuracy"] == {"reference": near(0.7), "candidate": near(0.7)}
    assert overall["accuracy_delta"]["value"] == near(0)
    names = ("compared", "changed_choices", "broken", "fixed", "wrong_to_wrong", "flips")
    assert [overall[name] for name in names] == [10, 6, 3, 3, 0, 6]
    assert overall["mcnemar"] == {"reference_only": 3, "candidate_only": 3, "p": near(1.0)}
    effects = {record["id"]: record["effect"] for record in report["changed"]}
    broken, fixed = ("q5", "q6", "q7"), ("q8", "q9", "q10")
    assert effects == dict.fromkeys(broken, "broken") | dict.fromkeys(fixed, "fixed")
    assert "6 of 10 choices changed" in above_tables(case.text(command))


def case_69_paired_test_and_no_discordant_pairs(case: Case) -> None:
    report = case.report("diff bf16.jsonl q4.jsonl --labels labels.jsonl")
    overall = report["overall"]
    assert overall["accuracy"] == {"reference": near(158 / 200), "candidate": near(151 / 200)}
    assert (overall["broken"], overall["fixed"]) == (8, 1)
    assert overall["mcnemar"]["p"] == near(0.0391)
    same = case.report("diff bf16.jsonl bf16.jsonl --labels labels.jsonl")
    assert (same["overall"]["changed_choices"], same["overall"]["mcnemar"]["p"]) == (0, 1.0)
    assert "0 of 200 choices changed" in case.text("diff bf16.jsonl bf16.jsonl --labels labels.jsonl")


def case_70_missing_items_in_the_candidate(case: Case) -> None:
    command = "diff bf16.jsonl q4.jsonl --labels labels.jsonl"
    report = case.report(command)
    assert counts(report, "compared", "only_reference") == (4, 2)
    assert report["only_reference"] == ["q5", "q6"]
    overall = report["overall"]
    assert overall["accuracy"] == {"reference": 1.0, "candidate": near(0.6667)}
    assert overall["accuracy_delta"]["value"] == near(-0.3333)
    assert (overall["changed_choices"], overall["broken"], overall["lost"]) == (0, 0, 2)
    headline = above_tables(case.text(command))
    assert "2 items have a decision in the reference only" in headline
    assert "0 broken and 2 lost, 0 fixed" in headline


def case_71_kl_negative_and_infinite(case: Case) -> None:
    report = case.report("diff bf16.jsonl q4.jsonl --labels labels.jsonl")
    overall = report["overall"]
    assert counts(report, "compared") == (2,)
    assert overall["kl_at_floor"] == 1
    assert report["signature"]["kl_floor"] == 1e-12
    assert overall["mean_kl"] > 0
    assert overall["mean_js"] == near(0.0180)
    assert overall["changed_choices"] == 0
    assert overall["max_probability_shift"] == {"value": near(0.1), "id": "q2", "option": "B"}
    only_q1 = case.copy()
    for name in ("labels.jsonl", "bf16.jsonl", "q4.jsonl"):
        only_q1.write(name, case.lines(name)[:1])
    alone = only_q1.report("diff bf16.jsonl q4.jsonl --labels labels.jsonl")["overall"]
    assert alone["mean_kl"] == pytest.approx(0, abs=1e-6)
    assert alone["mean_kl"] >= 0
    assert alone["kl_at_floor"] == 0


def case_72_cold_and_warm_near_tie(case: Case) -> None:
    warm = case.report("diff bf16_cold.jsonl bf16_warm.jsonl --labels labels.jsonl")
    assert (warm["overall"]["changed_choices"], warm["overall"]["changed_with_tie"]) == (1, 1)
    (record,) = warm["changed"]
    assert (record["id"], record["tie"], record["reference_probability"]) == ("q1", "reference", 0.5)
    assert record["shift"] == near(0.0606 / 2)
    q4 = case.report("diff bf16_cold.jsonl q4.jsonl --labels labels.jsonl")
    assert (q4["overall"]["changed_choices"], q4["overall"]["changed_with_tie"]) == (2, 1)
    assert {record["id"]: record["tie"] for record in q4["changed"]} == {"q1": "reference", "q3": None}
    assert {record["effect"] for record in q4["changed"]} == {"broken"}
    text = case.text("diff bf16_cold.jsonl q4.jsonl --labels labels.jsonl")
    assert "1 of them rests on an exact tie" in above_tables(text)
    assert len(re.findall(r"^q\d .*\(tie\)", text, re.MULTILINE)) == 1


def case_73_sampling_settings_differ(case: Case) -> None:
    command = "diff bf16_T1.jsonl bf16_T025.jsonl --labels labels.jsonl"
    report = case.report(command)
    assert report["settings"] == [{"setting": "temperature", "reference": 1.0, "candidate": 0.25}]
    assert report["overall"]["changed_choices"] == 0
    assert report["overall"]["max_probability_shift"]["value"] == near(0.2351)
    assert report["overall"]["mean_max_shift"] == near(0.2351)
    top = above_tables(case.text(command))
    assert "may be the setting's, not the model's" in top
    assert re.search(r"temperature\b.*\b1\.0\b.*\b0\.25\b", top)


# --- policy ----------------------------------------------------------------------------------------------


def case_77_zero_coverage(case: Case) -> None:
    command = "score run.jsonl --labels labels/demo"
    policy = case.report(command)["policy"]
    assert {name: policy["actions"][name] for name in ("review", "keep", "drop")} == {
        "review": 2,
        "keep": 0,
        "drop": 0,
    }
    assert policy["wrong_actions"] == 0
    assert policy["wrong_share"] is None
    assert policy["wrong_share_reason"].startswith("no rule acted")
    assert "no rule acted" in case.text(command)


def case_78_just_below_the_threshold(case: Case) -> None:
    command = "score run.jsonl --labels labels/demo"
    policy = case.report(command)["policy"]
    assert {item["id"]: item["action"] for item in policy["items"]} == {"q1": "keep", "q2": "drop"}
    assert (policy["actions"]["keep"], policy["actions"]["drop"], policy["wrong_actions"]) == (1, 1, 0)
    listed = case.text(f"{command} --items")
    assert "0.7999999999999999 < 0.8" in listed
    assert not re.search(r"0\.80* < 0\.80*\b(?!\d)", listed + case.text(command))


def case_80_threshold_that_is_not_a_threshold(case: Case) -> None:
    rows = [line.split("\t") for line in (case.folder / "thresholds.txt").read_text().splitlines()]
    assert len(rows) == 7
    for threshold, folder in rows:
        (line,) = case.refusal(f"score run.jsonl --labels {folder}")
        assert f"{folder}/README.md: " in line
        assert "at_least" in line
        written = threshold.strip('"')
        (line,) = case.refusal(f"score run.jsonl --labels labels/nan --policy 'B@{written}=drop'", code=2)
        assert f"B@{written}=drop" in line


def case_82_baseline_missing_or_damaged(case: Case) -> None:
    for name in ("truncated", "empty_object", "zero_bytes", "that_is_not_there"):
        (line,) = case.refusal(f"diff reference_{name}.jsonl candidate.jsonl --labels labels.jsonl")
        assert f"reference_{name}.jsonl" in line


def case_89_yaml_numbers_and_booleans(case: Case) -> None:
    lines = case.refusal("score run.jsonl --labels labels/demo")
    for key in ("default", "rules[0].action", "rules[0].at_least", "rules[1].at_least"):
        assert any(f"labels/demo/README.md: $.evalkit.policy.{key}: " in line for line in lines)


# --- views -----------------------------------------------------------------------------------------------


def case_90_cjk_width(case: Case) -> None:
    report = case.report(SCORE)
    assert (report["overall"]["correct"], value(report, "accuracy")) == (2, near(0.6667))
    text = case.text(f"{SCORE} --items")
    assert all(item["id"] in text for item in report["items"])
    assert "\u26a0\ufe0f-3" in case.text(SCORE)


def case_91_table_turns_ids_into_numbers(case: Case) -> None:
    for suffix, size in (("", 4), ("_mixed", 7)):
        command = f"score run{suffix}.jsonl --labels labels{suffix}.jsonl"
        report = case.report(command)
        assert (value(report, "accuracy"), len(report["items"])) == (0.0, size)
        ids = {item["id"] for item in case.lines(f"labels{suffix}.jsonl")}
        assert not any(item["correct"] for item in report["items"])
        text = case.text(command)
        for name in ids:
            row = rf"^{re.escape(name)} +A +B +0\.9000$"
            assert re.search(row, text, re.MULTILINE), "not aligned to the left"
        for view, seen in _views(case, command).items():
            assert ids <= seen, f"{view} changes an id"


def case_93_terminal_escape_sequences(case: Case) -> None:
    text = case.text(SCORE)
    assert len(re.findall(r"^q[1-5] +A +B +0\.9000$", text, re.MULTILINE)) == 5
    for name in ("text", "json", "markdown", "csv", "html"):
        assert not ACTING.findall(case.text(f"{SCORE} --format {name}"))


def case_94_markdown_table_cells(case: Case) -> None:
    text = case.text(f"{SCORE} --format markdown")
    tables = markdown_tables(text)
    assert tables
    for table in tables:
        assert len({len(row) for row in table.rows}) == 1
    assert [row[0] for row in tables[-1].rows[1:]] == ["q1", "q2", "q3", "q4", "q5", "q6"]
    assert "<img" not in text
    assert "example.invalid" not in text


def case_95_html_report_script_close(case: Case) -> None:
    page = case.text(f"{SCORE} --format html")
    assert "</script" not in page
    assert "<!--" not in page
    assert {"q1", "q2", "<b>q3</b>"} <= html_texts(page)
    assert {"q1", "q2", "<b>q3</b>"} <= _markdown_cells(case, SCORE)
    case.text(SCORE)


def case_96_stdout_that_cannot_encode(case: Case) -> None:
    ran = case.run(SCORE, {"PYTHONUTF8": "0", "PYTHONIOENCODING": "cp1252"})
    assert (ran.code, ran.stderr) == (0, "")
    assert "\\u5b66\\u6821-01" in ran.out.decode("cp1252")
    ascii_only = {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    ran = case.run(SCORE, ascii_only)
    assert (ran.code, ran.stderr) == (0, "")
    assert "\\u5b66\\u6821-01" in ran.out.decode("ascii")
    file = case.scratch / "report.txt"
    assert case.run(f"{SCORE} --output {file}", ascii_only).code == 0
    assert "学校-01" in file.read_text("utf-8")


# --- reading the views -----------------------------------------------------------------------------------


def _views(case: Case, command: str) -> dict[str, set[str]]:
    """Return the cells that a reader of each view sees."""
    table = csv.reader(io.StringIO(case.text(f"{command} --format csv")))
    return {
        "text": set(case.text(command).split()),
        "csv": {cell for row in table for cell in row},
        "markdown": _markdown_cells(case, command),
        "html": html_texts(case.text(f"{command} --format html")),
        "json": {item["id"] for item in case.report(command)["items"]},
    }


def _markdown_cells(case: Case, command: str) -> set[str]:
    tables = markdown_tables(case.text(f"{command} --format markdown"))
    return {cell for table in tables for row in table.rows for cell in row}


# --- the folders -----------------------------------------------------------------------------------------

Expectation = Callable[[Case], None]
EXPECTATIONS: dict[str, Expectation] = {
    name.removeprefix("case_"): function
    for name, function in list(globals().items())
    if re.match(r"case_\d", name)
}
FOLDERS = [
    folder for folder in case_folders() if not any(int(folder[:2]) in there for there in ELSEWHERE.values())
]


@pytest.mark.parametrize("folder", FOLDERS)
def test_case_answers_as_documented(folder: str, evalkit: Evalkit, tmp_path: Path) -> None:
    expectation = EXPECTATIONS.get(folder.replace("-", "_"))
    assert expectation is not None, f"nothing says what tests/cases/{folder} must answer"
    case = Case(CASES / folder, evalkit, tmp_path)
    expectation(case)
    wanted = [line for line in documented(folder) if not any(part in line for part in NOT_HERE)]
    unasked = [line for line in wanted if tuple(shlex.split(line)[1:]) not in case.asked]
    assert not unasked, "a documented command was not run"


@pytest.mark.parametrize("folder", FOLDERS)
def test_reports_of_a_case_follow_their_schemas(folder: str, evalkit: Evalkit, tmp_path: Path) -> None:
    case = Case(CASES / folder, evalkit, tmp_path)
    for line in documented(folder):
        command = line.removeprefix("evalkit ")
        if command.split()[0] not in ("score", "diff") or "--format" in command:
            continue
        ran = case.run(f"{command} --format json")
        if ran.code == 0:
            report = ran.json()
            kind: schema.Kind = "score" if command.startswith("score") else "diff"
            assert report["schema"] == f"evalkit.{kind}/1"
            assert schema.check(kind, report) == []


def test_every_expectation_has_its_folder() -> None:
    assert {folder.replace("-", "_") for folder in FOLDERS} >= EXPECTATIONS.keys()


@pytest.mark.parametrize("file", ELSEWHERE)
def test_file_that_answers_for_other_folders_exists(file: str) -> None:
    assert (Path(__file__).parent / file).is_file()


def test_awkward_bytes_of_the_cases_are_kept() -> None:
    """An editor or git may tidy them up, and then the cases test nothing."""

    def raw(folder: str, name: str) -> bytes:
        return (CASES / folder / name).read_bytes()

    assert raw("31-bom-crlf-blank-lines", "labels.jsonl").startswith(b"\xef\xbb\xbf{")
    assert b"\r\n" in raw("31-bom-crlf-blank-lines", "labels.jsonl")
    assert raw("32-utf16-from-powershell", "labels.jsonl").startswith(b"\xff\xfe")
    assert "\u2028".encode() in raw("33-line-separators-inside-strings", "labels.jsonl")
    assert not raw("34-torn-last-line", "run.jsonl").endswith(b"\n")
    assert raw("42-truncated-and-mislabelled-gzip", "labels.jsonl.gz").startswith(b"\x1f\x8b")
    assert b"\xb4" in raw("44-invalid-utf8-and-gbk", "labels_gbk.jsonl")
