"""Recordings as servers and other tools left them (``tests/cases``, 01 to 30): import, then score.

Each folder's documented commands run as they stand, in a copy of the folder; the folder's function here says
what must come out. A folder without a function is a failure.
"""

from __future__ import annotations

import json
import math
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.acceptance.conftest import CASES, Evalkit, Ran, case_folders, documented

LAST = 30
"""The highest number of a folder that is answered for here as a whole."""

Record = dict[str, Any]


def near(value: Any) -> Any:
    """Compare as the cases do: to 1e-4."""
    return pytest.approx(value, abs=1e-4)


def strict(text: str) -> Any:
    """Parse JSON that holds neither NaN nor Infinity."""

    def refuse(word: str) -> NoReturn:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


class Imported:
    """A copy of a case's folder in which its documented commands are run."""

    def __init__(self, name: str, evalkit: Evalkit, folder: Path) -> None:
        self.folder = Path(shutil.copytree(CASES / name, folder / name))
        self.evalkit = evalkit
        self.commands = [command.removeprefix("evalkit ") for command in documented(name)]

    def run(self, command: str, *more: str) -> Ran:
        """Run a command in the copy; a traceback is never an outcome."""
        ran = self.evalkit([*shlex.split(command), *more], self.folder)
        assert b"Traceback" not in ran.err, ran.stderr
        return ran

    def imported(self, *more: str, code: int = 0) -> Ran:
        """Run the case's import."""
        ran = self.run(self.commands[0], *more)
        assert ran.code == code, ran.stderr
        return ran

    def scored(self) -> Record:
        """Run the case's score and return its report; everything written is strict JSON."""
        for path in self.folder.glob("run*.json*"):
            for text in [path.read_text("utf-8")] if path.suffix == ".json" else self.lines(path.name):
                strict(text)
        ran = self.run(self.commands[1], "--format", "json")
        assert (ran.code, ran.stderr) == (0, "")
        report: Record = strict(ran.stdout)
        counts = report["counts"]
        assert counts["items"] == sum(counts[name] for name in ("scored", "missing", "invalid", "error"))
        return report

    def lines(self, name: str) -> list[str]:
        """Return the lines of a file of the copy."""
        return (self.folder / name).read_text("utf-8").splitlines()

    def rows(self, name: str = "run.jsonl") -> dict[str, Record]:
        """Return the rows of a run (or items of a label set) by id."""
        found = [strict(line) for line in self.lines(name)]
        keyed = {row["id"]: row for row in found}
        assert len(keyed) == len(found)
        return keyed

    def meta(self) -> Record:
        """Return the sidecar of the run."""
        found: Record = strict((self.folder / "run.meta.json").read_text("utf-8"))
        return found


def counts(report: Record, **expected: int) -> None:
    """Check counts; what is not named is 0."""
    names = ("items", "scored", "missing", "invalid", "error", "censored")
    assert {name: report["counts"][name] for name in names} == {name: expected.get(name, 0) for name in names}


def items(report: Record) -> dict[str, tuple[str | None, bool | None]]:
    """Return choice and correctness by id."""
    return {item["id"]: (item["choice"], item["correct"]) for item in report["items"]}


def accuracy(report: Record) -> float:
    """Return the accuracy without its interval."""
    value: float = report["overall"]["accuracy"]["value"]
    return value


def reasons(report: Record) -> dict[str, str]:
    """Return why items have no usable decision."""
    return {entry["id"]: entry["reason"] for entry in report["unusable"]}


# --- recordings of servers -----------------------------------------------------------------------------


def case_01_vllm_neg9999_floor(case: Imported) -> None:
    case.imported()
    report = case.scored()
    assert items(report) == {"q1": ("A", False)}
    bounds = case.rows()["q1"]["probability_range"]
    assert bounds == {"A": near([0.9802, 1.0]), "B": near([0, 0.0198]), "C": near([0, 0.0198])}
    assert report["items"][0]["probability"] is None
    assert report["overall"]["nll"] == pytest.approx(3.92, abs=0.005)
    assert report["overall"]["losses"]["lower_bounds"] == 1
    counts(report, items=1, scored=1, censored=1)


def case_02_float32_min_sentinel(case: Imported) -> None:
    ran = case.imported()
    assert "overflow" not in ran.stderr.lower()
    report = case.scored()
    assert items(report) == {"q1": ("A", True)}
    row = case.rows()["q1"]
    assert row["probability_range"]["B"] == [0, 0]
    assert row["censored"] == ["B"]
    counts(report, items=1, scored=1, censored=1)
    assert any("temperature 0 leaves over" in notice for notice in report["notices"])
    assert (report["overall"]["ece"], report["overall"]["losses"]["ece_n"]) == (None, 0)


def case_03_neg_infinity_literal(case: Imported) -> None:
    case.imported()
    report = case.scored()
    assert items(report) == {"q1": ("A", True), "q2": (None, False)}
    bounds = case.rows()["q1"]["probability_range"]
    assert bounds == {"A": near([0.9048, 1.0]), "B": near([0, 0.0952])}
    assert "NaN" in reasons(report)["q2"]
    counts(report, items=2, scored=1, invalid=1, censored=1)
    assert accuracy(report) == 0.5


def case_04_null_logprob_row(case: Imported) -> None:
    case.imported()
    report = case.scored()
    assert report["items"][0]["probability"] == near(0.8455)
    assert case.rows()["q1"]["allowed_token_mass"] == near(0.9683)
    assert "null" in reasons(report)["q2"]
    assert "probabilities" not in case.rows()["q2"]
    counts(report, items=2, scored=1, invalid=1)
    assert accuracy(report) == 0.5


def case_05_no_logprobs_at_all(case: Imported) -> None:
    ran = case.imported(code=3)
    assert "logprobs" in ran.stderr
    rows = case.rows()
    assert [row["status"] for row in rows.values()] == ["error"] * 4
    assert all("logprobs" in row["error"] and "probabilities" not in row for row in rows.values())
    # The text counts only where that was asked for, and never as a probability.
    case.imported("--text-choices")
    ran = case.run("score run.jsonl --labels labels.jsonl --format json")
    report = strict(ran.stdout)
    assert [item["choice"] for item in report["items"]] == ["A"] * 4
    assert [report["overall"][name] for name in ("nll", "brier", "ece")] == [None, None, None]


def case_06_same_text_two_token_ids(case: Imported) -> None:
    ran = case.imported()
    assert "3 entries for 4 requested" in ran.stderr
    assert "may have been merged" in ran.stderr
    report = case.scored()
    assert any("may have been merged" in notice for notice in report["notices"])
    rows = case.rows()
    assert rows["q1"]["probabilities"] == near([0.4699, 0.5301])
    assert rows["q1"]["allowed_token_mass"] == near(0.9562)
    assert rows["q2"]["probabilities"][0] == near(0.8176)
    assert rows["q2"]["allowed_token_mass"] == near(0.5496)
    assert items(report) == {"q1": ("B", True), "q2": ("A", False)}
    counts(report, items=2, scored=2)


def case_07_space_and_marker_variants(case: Imported) -> None:
    case.imported()
    report = case.scored()
    assert items(report) == {"q1": ("A", True)}
    row = case.rows()["q1"]
    assert row["probabilities"] == near([0.5321, 0.4679])
    assert row["allowed_token_mass"] == near(0.8688)
    assert case.meta()["protocol"] == "letters/1"
    assert report["run"]["protocol"] == "letters/1"


def case_10_control_token_eats_the_answer(case: Imported) -> None:
    ran = case.imported(code=3)
    report = case.scored()
    why = reasons(report)
    assert "control token (<think>, 1.0000); the options hold 4.2e-05" in why["q1"]
    assert "control token (<|channel|>, 1.0000); the options hold 1.3e-06" in why["q2"]
    assert "no probabilities recorded" in why["q3"]
    assert "is thinking switched on, or only one token generated?" in ran.stderr
    counts(report, items=3, invalid=2, error=1)


def case_11_single_entry_after_top_p(case: Imported) -> None:
    ran = case.imported()
    assert "the list was cut" in ran.stderr
    assert "top_p 0.5, 1 of 5 entries" in ran.stderr
    report = case.scored()
    assert any("the list was cut" in notice for notice in report["notices"])
    assert items(report) == {"q1": ("A", False)}
    assert case.rows()["q1"]["probability_range"] == {"A": near([0.5, 1]), "B": near([0, 0.5])}
    assert report["overall"]["nll"] == near(0.6931)
    counts(report, items=1, scored=1, censored=1)


def case_12_llamacpp_three_shapes(case: Imported) -> None:
    ran = case.imported()
    report = case.scored()
    rows = case.rows()
    for row in rows.values():
        assert row["probabilities"] == near([0.8421, 0.1579])
        assert row["allowed_token_mass"] == near(0.95)
    assert [row.get("after_sampling") for row in rows.values()] == [None, None, True]
    assert "after sampling: 1 of 3" in ran.stderr
    assert any("after sampling: 1 of 3" in notice for notice in report["notices"])
    assert accuracy(report) == 1.0


def case_13_probabilities_over_one(case: Imported) -> None:
    case.imported(code=3)
    report = case.scored()
    assert "sum to 1.3500, above 1" in reasons(report)["q1"]
    assert "probabilities" not in case.rows()["q1"]
    counts(report, items=1, invalid=1)
    assert accuracy(report) == 0
    # Rounding noise still passes.
    raw = (case.folder / "raw.jsonl").read_text("utf-8")
    (case.folder / "raw.jsonl").write_text(raw.replace("0.55", "0.2000002"), "utf-8")
    case.imported()
    counts(case.scored(), items=1, scored=1)


def case_14_temp0_first_of_vocabulary(case: Imported) -> None:
    ran = case.imported(code=3)
    assert "temperature 0" in ran.stderr
    report = case.scored()
    assert "'B' has no value" in reasons(report)["q1"]
    assert items(report) == {"q1": (None, False)}
    counts(report, items=1, invalid=1)


def case_15_sampled_token_without_list(case: Imported) -> None:
    ran = case.imported()
    assert "top_logprobs was 0" in ran.stderr
    report = case.scored()
    assert any("top_logprobs was 0" in notice for notice in report["notices"])
    assert "no probability recorded" in reasons(report)["q1"]
    assert items(report) == {"q1": (None, False), "q2": ("B", True)}
    assert case.rows()["q2"]["probability_range"] == {"A": near([0, 0.2592]), "B": near([0.7408, 1])}
    counts(report, items=2, scored=1, error=1, censored=1)
    assert accuracy(report) == 0.5


def case_16_letter_outside_top_k(case: Imported) -> None:
    case.imported()
    report = case.scored()
    assert items(report) == {"q1": ("A", False)}
    row = case.rows()["q1"]
    assert row["probability_range"]["A"] == near([0.9258, 0.9548])
    # 0.0150 as listed, of what A and B hold together with it.
    assert row["probability_range"]["D"] == near(
        [0, math.exp(-4.2) / (math.exp(-4.2) + row["allowed_token_mass"])]
    )
    assert row["censored"] == ["C", "D", "E"]
    assert report["overall"]["nll"] == pytest.approx(3.92, abs=0.005)
    assert report["overall"]["losses"]["lower_bounds"] == 1
    assert any("shares of what the options hold" in notice for notice in report["notices"])
    counts(report, items=1, scored=1, censored=1)


def case_17_limit_error_recorded_as_row(case: Imported) -> None:
    case.imported()
    report = case.scored()
    assert case.rows()["q1"]["probabilities"][0] == near(0.9168)
    assert "limit of 20" in reasons(report)["q2"]
    counts(report, items=2, scored=1, error=1)
    assert accuracy(report) == 0.5


def case_18_positive_logprob(case: Imported) -> None:
    case.imported()
    report = case.scored()
    why = reasons(report)["q1"]
    assert "0.3100 would be p = 1.3634" in why
    assert "a logit or a probability" in why
    assert report["items"][1]["probability"] == near(1.0)
    counts(report, items=2, scored=1, invalid=1)
    assert accuracy(report) == 0.5


def case_19_stale_list_at_second_position(case: Imported) -> None:
    case.imported(code=3)
    report = case.scored()
    why = reasons(report)["q1"]
    assert "'B' has -0.2000" in why
    assert "its list says -4.0000" in why
    assert items(report) == {"q1": (None, False)}
    counts(report, items=1, invalid=1)


def case_21_other_server_shapes(case: Imported) -> None:
    case.imported()
    report = case.scored()
    for row in case.rows().values():
        assert row["probabilities"] == near([0.9241, 0.0759])
        assert row["allowed_token_mass"] == near(0.9791)
    assert accuracy(report) == 1.0
    # A shape that is not known is named as such.
    line = {"id": "q1", "request": {}, "response": {"verdict": "A"}}
    (case.folder / "raw.jsonl").write_text(json.dumps(line) + "\n")
    assert "unknown response shape (keys: verdict)" in case.imported(code=3).stderr


def case_22_token_id_placeholders(case: Imported) -> None:
    case.imported(code=3)
    report = case.scored()
    assert "token text not recorded (token_id:N placeholders)" in reasons(report)["q1"]
    counts(report, items=1, error=1)
    case.imported("--token-id", "32=A", "--token-id", "33=B")
    assert case.rows()["q1"]["probabilities"] == near([0.8320, 0.1680])


# --- recordings of other tools ---------------------------------------------------------------------------


def case_24_lm_eval_one_row_per_filter(case: Imported) -> None:
    ran = case.imported(code=2)
    for name in ("strict-match", "flexible-extract", "--filter"):
        assert name in ran.stderr
    assert not (case.folder / "run.jsonl").exists()
    case.imported("--filter", "strict-match")
    assert len(case.rows()) == 2
    assert case.meta()["source"]["filter"] == "strict-match"


def case_25_lm_eval_strings_and_greedy_flag(case: Imported) -> None:
    case.imported()
    (row,) = case.rows().values()
    assert row["option_ids"] == ["A", "B", "C"]
    assert row["probabilities"][1] == near(0.7432)
    assert row["allowed_token_mass"] == near(0.9020)
    assert case.meta()["readout"]["basis"].startswith("exp of the log-likelihoods")
    ran = case.run(case.commands[1])
    assert ran.code == 3
    assert "declare the index base" in ran.stderr
    assert case.run(case.commands[1], "--index-base", "0").code == 0
    (item,) = case.rows("labels.jsonl").values()
    assert item["label"] == "B"
    report = strict(case.run("score run.jsonl --labels labels.jsonl --format json").stdout)
    assert items(report) == {"0": ("B", True)}
    assert any("exp of the log-likelihoods" in notice for notice in report["notices"])


def case_27_inspect_nan_and_minus_infinity(case: Imported) -> None:
    case.imported()
    report = case.scored()
    assert items(report) == {"1": ("A", True), "2": ("B", True)}
    rows = case.rows()
    assert rows["1"]["probability_range"] == {"A": near([0.9048, 1.0]), "B": near([0, 0.0952])}
    assert rows["2"]["probabilities"][1] == near(0.69)
    assert accuracy(report) == 1.0
    counts(report, items=2, scored=2, censored=1)


def case_28_inspect_id_types_and_epochs(case: Imported) -> None:
    ran = case.imported(code=3)
    for words in ("1: 2 different decisions", "epoch 1 at", "epoch 2 at", "--epoch", "--repeats"):
        assert words in ran.stderr
    assert not (case.folder / "run.jsonl").exists()
    case.imported("--epoch", "1")
    report = strict(case.run("score run.jsonl --labels labels.jsonl --format json").stdout)
    assert items(report) == {"1": ("A", True), "01": ("B", True)}
    case.imported("--repeats")
    assert list(case.rows("run.1.jsonl")) == ["1", "01"]
    second = case.rows("run.2.jsonl")
    assert list(second) == ["1"]
    assert second["1"]["probabilities"][1] > 0.5


def case_29_promptfoo_error_is_not_a_failure(case: Imported) -> None:
    case.imported()
    report = case.scored()
    assert items(report) == {"q1": ("A", True), "q2": ("B", False), "q3": (None, False)}
    assert reasons(report)["q3"] == "connect refused"
    counts(report, items=3, scored=2, error=1)
    assert accuracy(report) == near(0.3333)
    assert [report["overall"][name] for name in ("nll", "brier", "ece")] == [None, None, None]
    (case.folder / "results.json").write_text('{"results": {"outputs": []}}')
    assert "unknown nesting" in case.imported(code=3).stderr


def case_30_batch_output_out_of_order(case: Imported) -> None:
    case.imported()
    report = case.scored()
    rows = case.rows()
    assert rows["q1"]["probabilities"] == near([0.9168, 0.0832])
    assert rows["q3"]["probabilities"] == near([0.0832, 0.9168])
    assert items(report) == {"q1": ("A", True), "q2": (None, False), "q3": ("B", True)}
    assert "429" in reasons(report)["q2"]
    counts(report, items=3, scored=2, error=1)
    assert accuracy(report) == near(0.6667)
    ran = case.run("runs import --format openai-batch batch_output.jsonl --labels labels.jsonl -o run.jsonl")
    assert "items of the label set that are missing: 1, first q2" in ran.stderr
    counts(case.scored(), items=3, scored=2, missing=1)


# --- label sets that an import can tidy --------------------------------------------------------------------


def case_43_ids_that_look_like_numbers(case: Imported) -> None:
    ran = case.run("labels import labels.csv --options A,B -o imported.jsonl")
    assert (ran.code, ran.stderr) == (0, "")
    found = case.rows("imported.jsonl")
    assert list(found) == ["007", "NA", "null", "None", "1e5"]
    assert [item["label"] for item in found.values()] == ["A", "B", "A", "B", "A"]


def case_46_gold_index_with_unknown_base(case: Imported) -> None:
    for name in ("labels.jsonl", "labels_fits_both.jsonl"):
        ran = case.run(f"labels import {name} -o imported.jsonl")
        assert ran.code == 3
        assert "label is a number (1); declare the index base" in ran.stderr
    assert case.run("labels import labels.jsonl --index-base 1 -o imported.jsonl").code == 0
    assert [item["label"] for item in case.rows("imported.jsonl").values()] == ["A", "D", "B", "C"]
    ran = case.run("labels import labels.jsonl --index-base 0 -o imported.jsonl")
    assert "label 4 means none of the 4 options" in ran.stderr


def case_49_gold_spelled_other_ways(case: Imported) -> None:
    ran = case.run("labels import labels.jsonl -o imported.jsonl")
    assert ran.code == 3
    assert [line.split(": ")[2] for line in ran.stderr.splitlines()] == ["q7", "q9"]
    kept = [line for line in case.lines("labels.jsonl") if '"q7"' not in line and '"q9"' not in line]
    (case.folder / "labels.jsonl").write_text("\n".join(kept), "utf-8")
    ran = case.run("labels import labels.jsonl -o imported.jsonl")
    labels = {name: item["label"] for name, item in case.rows("imported.jsonl").items()}
    assert labels.pop("q10") is None
    assert labels.pop("q11") == "B"
    assert labels == dict.fromkeys(("q1", "q2", "q3", "q4", "q5", "q6", "q8"), "A")
    for words in ("spelled another way ('a' is A)", "the option's text", "taken out of it (['A'])"):
        assert words in ran.stderr


CASE_FUNCTIONS: dict[str, Callable[[Imported], None]] = {
    name.removeprefix("case_").replace("_", "-"): function
    for name, function in list(globals().items())
    if name.startswith("case_") and callable(function) and name != "case_folders"
}


@pytest.mark.parametrize("folder", CASE_FUNCTIONS)
def test_case(folder: str, evalkit: Evalkit, tmp_path: Path) -> None:
    CASE_FUNCTIONS[folder](Imported(folder, evalkit, tmp_path))


def test_every_folder_has_a_function() -> None:
    numbered = {name for name in case_folders() if int(name.partition("-")[0]) <= LAST}
    assert numbered <= set(CASE_FUNCTIONS)
    assert set(CASE_FUNCTIONS) <= set(case_folders())
