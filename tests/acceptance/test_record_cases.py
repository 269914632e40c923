"""Responses as servers sent them (``tests/cases``, 01 to 22), sent once more, to ``evalkit record``.

The stub answers each item with the response that the case recorded for it; the case's function here says what
must come out. A folder without a function is a failure.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import CASES, Evalkit, Ran, case_folders
from tests.acceptance.test_import_cases import accuracy, counts, items, near, reasons, strict
from tests.stub_server import Reply, Request, Server, Stub

LAST = 22
"""The highest number of a folder with responses of servers."""
HEALTHY = "healthy"
"""An item that is asked first, and that the stub answers itself."""
LONG = "\n" + "." * 5000
"""What makes an item the first one that is asked."""

Record = dict[str, Any]


class Replay:
    """A server that gives a case's responses, and the commands against it."""

    def __init__(self, name: str, evalkit: Evalkit, folder: Path) -> None:
        self.folder, self.evalkit = folder, evalkit
        self.items = _records(CASES / name / "labels.jsonl")
        # Infinity and NaN go through as the bare words that they were.
        self.responses = {line["id"]: line["response"] for line in _records(CASES / name / "raw.jsonl")}
        self.server = Server("demo-7b")
        self.statuses: dict[str, int] = {}
        self.asked: list[str] = []

    def answer(self, request: Request) -> Reply:
        """Answer a request for a decision as the case says."""
        if not request.path.endswith("/chat/completions"):
            return self.server(request)
        name = request.question["evidence"].partition(":")[0]
        self.asked.append(name)
        if name == HEALTHY:
            return self.server(request)
        return Reply(self.responses[name], self.statuses.get(name, 200))

    def recorded(self, *more: str, first: str = "q1", code: int = 0) -> Ran:
        """Record all items, one of them first; a traceback is never an outcome."""
        found = self.items
        if first == HEALTHY:
            found = [{**found[0], "id": HEALTHY, "label": found[0]["options"][0]["id"]}, *found]
        lines = [
            json.dumps(
                {**item, "evidence": f"{item['id']}: {item['evidence']}{LONG * (item['id'] == first)}"}
            )
            for item in found
        ]
        (self.folder / "labels.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
        words = ["record", "--labels", "labels.jsonl", "--output", "run.jsonl", "--retries", "0"]
        with Stub(self.answer) as stub:
            ran = self.evalkit([*words, "--base-url", stub.url, *more], self.folder)
        assert b"Traceback" not in ran.err, ran.stderr
        assert (ran.code, ran.stdout) == (code, ""), ran.stderr
        return ran

    def rows(self) -> dict[str, Record]:
        """Return the rows by id; every line is strict JSON."""
        lines = (self.folder / "run.jsonl").read_text("utf-8").splitlines()
        return {row["id"]: row for row in map(strict, lines)}

    def scored(self) -> Record:
        """Return the report of a score."""
        strict((self.folder / "run.meta.json").read_text("utf-8"))
        ran = self.evalkit("score run.jsonl --labels labels.jsonl --format json", self.folder)
        assert (ran.code, ran.stderr) == (0, "")
        report: Record = strict(ran.stdout)
        return report


def _records(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def case_01_vllm_neg9999_floor(case: Replay) -> None:
    case.recorded("--top-logprobs", "5")
    bounds = case.rows()["q1"]["probability_range"]
    assert bounds == {"A": near([0.9802, 1.0]), "B": near([0, 0.0198]), "C": near([0, 0.0198])}
    report = case.scored()
    assert items(report) == {"q1": ("A", False)}
    assert report["overall"]["nll"] == pytest.approx(3.92, abs=0.005)
    counts(report, items=1, scored=1, censored=1)


def case_02_float32_min_sentinel(case: Replay) -> None:
    case.recorded("--top-logprobs", "5")
    row = case.rows()["q1"]
    assert (row["probability_range"]["B"], row["censored"]) == ([0, 0], ["B"])
    report = case.scored()
    assert items(report) == {"q1": ("A", True)}
    assert any("temperature 0 leaves over" in notice for notice in report["notices"])
    counts(report, items=1, scored=1, censored=1)


def case_03_neg_infinity_literal(case: Replay) -> None:
    case.recorded("--top-logprobs", "5")
    assert case.rows()["q1"]["probability_range"] == {"A": near([0.9048, 1.0]), "B": near([0, 0.0952])}
    report = case.scored()
    assert items(report) == {"q1": ("A", True), "q2": (None, False)}
    assert "NaN" in reasons(report)["q2"]
    counts(report, items=2, scored=1, invalid=1, censored=1)


def case_04_null_logprob_row(case: Replay) -> None:
    case.recorded("--top-logprobs", "5")
    rows, report = case.rows(), case.scored()
    assert rows["q1"]["probabilities"] == near([0.8455, 0.1545])
    assert rows["q1"]["allowed_token_mass"] == near(0.9683)
    assert "probabilities" not in rows["q2"]
    assert "null" in reasons(report)["q2"]
    counts(report, items=2, scored=1, invalid=1)
    assert accuracy(report) == 0.5


def case_05_no_logprobs_at_all(case: Replay) -> None:
    # The first answer shows what all of them lack, so nothing is recorded.
    ran = case.recorded(code=3)
    assert "no probabilities recorded" in ran.stderr
    assert "logprobs" in ran.stderr
    assert not (case.folder / "run.jsonl").exists()
    case.recorded(first=HEALTHY)
    rows = [row for name, row in case.rows().items() if name != HEALTHY]
    assert [row["status"] for row in rows] == ["error"] * 4
    assert all("logprobs" in row["error"] for row in rows)
    assert not any({"probabilities", "choice"} & row.keys() for row in rows)
    counts(case.scored(), items=5, scored=1, error=4)


def case_06_same_text_two_token_ids(case: Replay) -> None:
    case.recorded("--top-logprobs", "4")
    rows, report = case.rows(), case.scored()
    assert rows["q1"]["probabilities"] == near([0.4699, 0.5301])
    assert rows["q1"]["allowed_token_mass"] == near(0.9562)
    assert rows["q2"]["probabilities"][0] == near(0.8176)
    assert rows["q2"]["allowed_token_mass"] == near(0.5496)
    assert any("may have been merged" in notice for notice in report["notices"])
    assert items(report) == {"q1": ("B", True), "q2": ("A", False)}
    counts(report, items=2, scored=2)


def case_07_space_and_marker_variants(case: Replay) -> None:
    case.recorded("--top-logprobs", "5")
    row = case.rows()["q1"]
    assert row["probabilities"] == near([0.5321, 0.4679])
    assert row["allowed_token_mass"] == near(0.8688)
    report = case.scored()
    assert items(report) == {"q1": ("A", True)}
    meta = json.loads((case.folder / "run.meta.json").read_text("utf-8"))
    assert meta["readout"]["rule"] == "letters/1"
    assert "one leading space or word-start marker" in meta["readout"]["text"]


def case_10_control_token_eats_the_answer(case: Replay) -> None:
    ran = case.recorded("--top-logprobs", "5")
    assert "the first answer is no decision: the answer position holds a control token" in ran.stderr
    assert "is thinking switched on, or only one token generated?" in ran.stderr
    report = case.scored()
    why = reasons(report)
    assert "control token (<think>, 1.0000); the options hold 4.2e-05" in why["q1"]
    assert "control token (<|channel|>, 1.0000); the options hold 1.3e-06" in why["q2"]
    assert "no probabilities recorded" in why["q3"]
    counts(report, items=3, invalid=2, error=1)


def case_11_single_entry_after_top_p(case: Replay) -> None:
    # The recorder asks for no top_p; a server that uses one all the same shows it by its list.
    case.recorded("--top-logprobs", "5")
    assert case.rows()["q1"]["probability_range"] == {"A": near([0.5, 1]), "B": near([0, 0.5])}
    report = case.scored()
    assert any("the list was cut" in notice for notice in report["notices"])
    assert items(report) == {"q1": ("A", False)}
    assert report["overall"]["nll"] == near(0.6931)
    counts(report, items=1, scored=1, censored=1)


def case_12_llamacpp_three_shapes(case: Replay) -> None:
    case.recorded("--top-logprobs", "3")
    rows, report = case.rows(), case.scored()
    for row in rows.values():
        assert row["probabilities"] == near([0.8421, 0.1579])
        assert row["allowed_token_mass"] == near(0.95)
    assert [row.get("after_sampling") for row in rows.values()] == [None, None, True]
    assert any("after sampling" in notice for notice in report["notices"])
    assert accuracy(report) == 1.0


def case_13_probabilities_over_one(case: Replay) -> None:
    ran = case.recorded("--top-logprobs", "2")
    assert "sum to 1.3500, above 1" in ran.stderr
    assert "probabilities" not in case.rows()["q1"]
    report = case.scored()
    assert "sum to 1.3500, above 1" in reasons(report)["q1"]
    counts(report, items=1, invalid=1)
    assert accuracy(report) == 0


def case_14_temp0_first_of_vocabulary(case: Replay) -> None:
    ran = case.recorded("--top-logprobs", "3")
    assert "temperature 0" in ran.stderr
    report = case.scored()
    assert "'B' has no value" in reasons(report)["q1"]
    assert items(report) == {"q1": (None, False)}
    counts(report, items=1, invalid=1)


def case_15_sampled_token_without_list(case: Replay) -> None:
    case.recorded("--top-logprobs", "5", first="q2")
    report = case.scored()
    assert "no probability recorded" in reasons(report)["q1"]
    assert items(report) == {"q1": (None, False), "q2": ("B", True)}
    assert case.rows()["q2"]["probability_range"] == {"A": near([0, 0.2592]), "B": near([0.7408, 1])}
    assert any("shorter than requested" in notice for notice in report["notices"])
    counts(report, items=2, scored=1, error=1, censored=1)
    assert accuracy(report) == 0.5


def case_16_letter_outside_top_k(case: Replay) -> None:
    case.recorded("--top-logprobs", "5")
    row = case.rows()["q1"]
    assert row["probability_range"]["A"] == near([0.9258, 0.9548])
    last = math.exp(-4.2)
    assert row["probability_range"]["D"] == near([0, last / (last + row["allowed_token_mass"])])
    assert row["censored"] == ["C", "D", "E"]
    report = case.scored()
    assert items(report) == {"q1": ("A", False)}
    assert report["overall"]["nll"] == pytest.approx(3.92, abs=0.005)
    counts(report, items=1, scored=1, censored=1)


def case_17_limit_error_recorded_as_row(case: Replay) -> None:
    case.recorded("--top-logprobs", "5")
    report = case.scored()
    assert case.rows()["q1"]["probabilities"][0] == near(0.9168)
    assert "limit of 20" in reasons(report)["q2"]
    counts(report, items=2, scored=1, error=1)
    assert accuracy(report) == 0.5
    rule = '[[rule]]\nmetric = "accuracy"\nop = ">="\nvalue = 0.9\n'
    (case.folder / "gate.toml").write_text(rule)
    gate = case.evalkit("gate run.jsonl --labels labels.jsonl --rules gate.toml", case.folder)
    assert gate.code == 1
    # As a refusal it stops the recording, with the remedy.
    case.statuses["q2"] = 400
    (case.folder / "run.jsonl").unlink()
    (case.folder / "run.meta.json").unlink()
    refused = case.recorded("--top-logprobs", "50", code=3)
    assert "top_logprobs 50 is above this server's limit of 20" in refused.stderr
    assert "ask for fewer alternatives: --top-logprobs 20" in refused.stderr


def case_18_positive_logprob(case: Replay) -> None:
    case.recorded("--top-logprobs", "5")
    report = case.scored()
    assert "0.3100 would be p = 1.3634" in reasons(report)["q1"]
    assert "a logit or a probability" in reasons(report)["q1"]
    assert report["items"][1]["probability"] == near(1.0)
    counts(report, items=2, scored=1, invalid=1)


def case_19_stale_list_at_second_position(case: Replay) -> None:
    case.recorded("--top-logprobs", "5")
    report = case.scored()
    assert "'B' has -0.2000" in reasons(report)["q1"]
    assert "its list says -4.0000" in reasons(report)["q1"]
    assert items(report) == {"q1": (None, False)}
    counts(report, items=1, invalid=1)


def case_21_other_server_shapes(case: Replay) -> None:
    case.recorded("--top-logprobs", "3")
    rows, report = case.rows(), case.scored()
    for row in rows.values():
        assert row["probabilities"] == near([0.9241, 0.0759])
        assert row["allowed_token_mass"] == near(0.9791)
    assert accuracy(report) == 1.0
    # A shape that is not known is named as such.
    case.responses = {"q1": {"verdict": "A"}, "q2": {"verdict": "A"}}
    (case.folder / "run.jsonl").unlink()
    (case.folder / "run.meta.json").unlink()
    assert "unknown response shape (keys: verdict)" in case.recorded(code=3).stderr


def case_22_token_id_placeholders(case: Replay) -> None:
    ran = case.recorded(code=3)
    assert "token text not recorded (token_id:N placeholders)" in ran.stderr
    case.recorded(first=HEALTHY)
    assert case.rows()["q1"]["status"] == "error"
    report = case.scored()
    assert "token text not recorded" in reasons(report)["q1"]
    assert items(report)["q1"] == (None, False)


CHECKS: dict[str, Callable[[Replay], None]] = {
    name.removeprefix("case_").replace("_", "-"): check
    for name, check in list(globals().items())
    if name.startswith("case_") and name[5:7].isdigit()
}
FOLDERS = [name for name in case_folders() if int(name[:2]) <= LAST]


@pytest.mark.parametrize("name", FOLDERS)
def test_response_of_a_case_is_recorded_as_the_case_says(name: str, evalkit: Evalkit, tmp_path: Path) -> None:
    case = Replay(name, evalkit, tmp_path)
    CHECKS[name](case)
    assert set(case.responses) <= set(case.asked)


def test_every_case_with_responses_is_answered_for() -> None:
    assert sorted(CHECKS) == FOLDERS
