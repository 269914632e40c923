"""The gate through the command line: every exit code in a process of its own, and where its results go."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
import yaml
from lxml import etree

from evalkit import schema
from tests.acceptance.conftest import CASES, PROGRAM, Ran, environment

if TYPE_CHECKING:
    from tests.acceptance.conftest import Evalkit
    from tests.conftest import Maker

ROOT = Path(__file__).parent.parent.parent
XSD = etree.XMLSchema(etree.parse(Path(__file__).parent.parent / "data" / "junit.xsd"))
ALONE = {"GITHUB_ACTIONS": "", "GITHUB_STEP_SUMMARY": "", "GITHUB_WORKSPACE": ""}
SURE, OTHER = {"A": 0.9, "B": 0.1}, {"A": 0.2, "B": 0.8}
RULES = '[[rule]]\nmetric = "accuracy"\nop = ">="\nvalue = 0.9\n'


class Gate:
    """Runs ``evalkit gate`` outside of any CI system, whatever these tests run in."""

    def __init__(self, evalkit: Evalkit) -> None:
        self.evalkit = evalkit

    def __call__(self, args: str, cwd: Path, env: Mapping[str, str] | None = None) -> Ran:
        ran = self.evalkit(f"gate {args}", cwd, ALONE | dict(env or {}))
        assert b"Traceback" not in ran.err, ran.stderr
        return ran


@pytest.fixture
def gate(evalkit: Evalkit) -> Gate:
    return Gate(evalkit)


@pytest.fixture
def project(make: Maker) -> Path:
    """A folder with a label file, runs that are right, half wrong and damaged, and rules."""
    folder = make.folder()
    items = [make.item(f"q{n}", label="A") for n in range(4)]
    (folder / "labels.jsonl").write_text(make.text(items), "utf-8")
    for name, values in (("good", [SURE] * 4), ("bad", [SURE, SURE, OTHER, OTHER])):
        rows = [make.row(f"q{n}", p) for n, p in enumerate(values)]
        (folder / f"{name}.jsonl").write_text(make.text(rows), "utf-8")
    (folder / "damaged.jsonl").write_text('{"id": "q0", "option_ids": ["A"', "utf-8")
    (folder / "gate.toml").write_text(RULES, "utf-8")
    return folder


def case(number: int) -> Path:
    (found,) = CASES.glob(f"{number}-*")
    return found


def junit(text: str) -> ElementTree.Element:
    XSD.assertValid(etree.fromstring(text.encode()))
    return ElementTree.fromstring(text)


# the cases


def test_case_64_errors_stay_in_the_denominator(gate: Gate) -> None:
    ran = gate("run.jsonl --labels labels.jsonl --rules gate.toml", case(64))
    assert ran.code == 1
    assert ran.stdout.startswith("FAIL: run on labels: 2 of 4 rules failed\n")
    assert "accuracy >= 0.9: 0.40000 < 0.9." in ran.stdout
    assert "error <= 0: 6 > 0." in ran.stdout


def test_case_68_flips_fail_although_the_accuracy_is_unchanged(gate: Gate) -> None:
    ran = gate("bf16.jsonl q4.jsonl --labels labels.jsonl --rules gate.toml", case(68))
    assert ran.code == 1
    assert "flips <= 2: 6 > 2." in ran.stdout
    assert "6 of 10 choices changed (60.0 %): 3 broken, 3 fixed." in ran.stdout


def test_case_70_missing_items_fail(gate: Gate) -> None:
    ran = gate("bf16.jsonl q4.jsonl --labels labels.jsonl --rules gate.toml", case(70))
    assert ran.code == 1
    assert "missing <= 0: 2 > 0." in ran.stdout
    assert "accuracy_delta >= -0.01: -0.33333 < -0.01." in ran.stdout
    assert "a tolerance of 0.01 is less than one item (1/6 = 0.1667)" in ran.stdout
    assert {"q5", "q6"} <= {line.split()[0] for line in ran.stdout.splitlines() if line.strip()}


def test_case_77_a_policy_that_never_acts_fails(gate: Gate) -> None:
    ran = gate("run.jsonl --labels labels/demo --rules gate.toml --format json", case(77))
    assert (ran.code, ran.stderr) == (1, "")
    rules = {rule["metric"]: (rule["got"], rule["verdict"]) for rule in ran.json()["checks"][0]["rules"]}
    assert rules["policy.wrong_actions"] == (0, "pass")
    assert rules["policy.actions.drop"] == (0, "fail")


@pytest.mark.parametrize("labels", ["labels.jsonl", "labels_two.jsonl"])
def test_case_81_an_empty_run_never_passes(gate: Gate, labels: str) -> None:
    ran = gate(f"run_empty.jsonl --labels {labels} --rules gate.toml", case(81))
    assert (ran.code, ran.stdout) == (3, "")
    assert "run_empty.jsonl: holds no decision" in ran.stderr


@pytest.mark.parametrize("name", ["truncated", "empty_object", "zero_bytes", "that_is_not_there"])
@pytest.mark.parametrize("form", ["{} candidate.jsonl", "candidate.jsonl --reference {}"])
def test_case_82_a_damaged_reference_is_invalid_input(gate: Gate, name: str, form: str) -> None:
    reference = f"reference_{name}.jsonl"
    ran = gate(form.format(reference) + " --labels labels.jsonl --rules tolerant", case(82))
    assert (ran.code, ran.stdout) == (3, "")
    assert reference in ran.stderr


def test_case_83_the_gate_compares_what_it_measured(gate: Gate) -> None:
    failed = gate("run.jsonl --labels labels.jsonl --rules gate_fail.toml", case(83))
    assert failed.code == 1
    assert "0.66667 < 0.667" in failed.stdout
    passed = gate("run.jsonl --labels labels.jsonl --rules gate_pass.toml", case(83))
    assert (passed.code, passed.stdout.splitlines()[0]) == (0, "PASS: run on labels: 4 rules passed")


def test_case_84_junit_survives_control_characters(evalkit: Evalkit) -> None:
    ran = evalkit("score run.jsonl --labels labels.jsonl --format junit", case(84))
    assert (ran.code, ran.stderr) == (0, "")
    root = junit(ran.stdout)
    assert [failure.get("message", "").split(":")[0] for failure in root.iter("failure")] == ["q1\\x1b", "q2"]
    assert not any(byte < 0x20 and byte not in b"\t\r\n" for byte in ran.out)
    assert "&#27;" not in ran.stdout
    assert "\ufffe" not in ran.stdout


def test_case_85_junit_names_do_not_collide(evalkit: Evalkit) -> None:
    folder = case(85)
    ran = evalkit("score run.jsonl --labels labels.jsonl --format junit", folder)
    assert ran.code == 0
    cases = list(junit(ran.stdout).iter("testcase"))
    assert len(cases) == len(list(junit(ran.stdout).iter("failure"))) == 7
    ids = [json.loads(line)["id"] for line in (folder / "labels.jsonl").read_text("utf-8").splitlines()]
    for given, one in zip(ids, cases, strict=True):
        assert given in (one.get("name") or "")
    for change in (str, str.casefold, lambda text: re.sub(r"\W+", "_", text), lambda text: text[:100]):
        assert len({(one.get("classname"), change(one.get("name") or "")) for one in cases}) == 7


def test_case_87_annotations_keep_to_the_quota(evalkit: Evalkit, tmp_path: Path) -> None:
    subprocess.run([sys.executable, case(87) / "make.py"], cwd=tmp_path, check=True)
    ran = evalkit("score run.jsonl --labels labels.jsonl --format github", tmp_path)
    assert ran.code == 0
    commands = [line for line in ran.stdout.splitlines() if line.startswith(("::error", "::warning"))]
    assert len(commands) == 10
    assert commands[0].startswith("::warning file=labels.jsonl,line=1,title=evalkit%3A wrong item::q00000: ")
    assert "25 warnings in all; 16 are not shown here: see 'all 25 wrong items" in commands[-1]
    assert all(f"- q{n:05}: " in ran.stdout for n in range(25))


def test_case_89_rules_are_toml_with_finite_limits(gate: Gate) -> None:
    yaml_rules = gate("run.jsonl --labels labels/plain --rules gate.yaml", case(89))
    assert (yaml_rules.code, yaml_rules.stdout) == (2, "")
    assert "gate.yaml: unsupported file type; rules are TOML" in yaml_rules.stderr
    nan_rules = gate("run.jsonl --labels labels/plain --rules gate_nan.toml", case(89))
    assert (nan_rules.code, nan_rules.stdout) == (3, "")
    assert "gate_nan.toml:1: $.rule[0].value: nan is no limit" in nan_rules.stderr


# N1: exit codes


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        ("good.jsonl", 0, ""),
        ("bad.jsonl", 1, ""),
        ("good.jsonl bad.jsonl", 1, ""),
        ("bad.jsonl good.jsonl", 0, ""),
        ("bad.jsonl --bogus", 2, "No such option"),
        ("a.jsonl b.jsonl c.jsonl", 2, "expected a candidate, or a reference and a candidate, found 3 runs"),
        ("good.jsonl bad.jsonl --reference good.jsonl", 2, "more than one reference: good.jsonl, good.jsonl"),
        ("bad.jsonl --reference good.jsonl --lock x.json", 2, "more than one reference"),
        ("good.jsonl --only q9=1", 2, "no item of labels.jsonl has a field 'q9'"),
        ("good.jsonl --noise bad.jsonl", 2, "--noise needs a reference"),
        ("good.jsonl --policy B", 2, "write OPTION@THRESHOLD=ACTION"),
        ("gone.jsonl", 3, "gone.jsonl: cannot be read"),
        ("nosuchrun", 3, "nosuchrun: no run of this name or path"),
        ("damaged.jsonl", 3, "damaged.jsonl:1: unfinished record"),
        ("good.jsonl --reference damaged.jsonl", 3, "damaged.jsonl:1: unfinished record"),
        ("good.jsonl --lock gone.json", 3, "gone.json: cannot be read"),
    ],
)
def test_exit_code_tells_what_happened(gate: Gate, project: Path, args: str, code: int, message: str) -> None:
    ran = gate(f"{args} --labels labels.jsonl --rules gate.toml", project)
    assert ran.code == code
    assert message in ran.stderr
    assert bool(ran.stderr) == (code > 1)
    assert bool(ran.stdout) == (code <= 1)


@pytest.mark.parametrize(
    ("rules", "code", "message"),
    [
        (RULES.replace("accuracy", "acuracy"), 3, "gate.toml:1: there is no metric 'acuracy'; did you mean"),
        (RULES + "tolerance = 1\n", 3, "gate.toml:1: $.rule[0]: Additional properties"),
        ("", 3, "gate.toml: holds no rule"),
        ("[must]\nq9 = 'A'\n", 3, "gate.toml:2: $.must: q9: no such item"),
        (RULES.replace("accuracy", "flips"), 2, "the rule 'flips >= 0.9' needs a reference"),
        (RULES.replace("accuracy", "policy.wrong_actions"), 1, ""),
        ("[must]\nq0 = 'A'\n", 0, ""),
        ("[must]\nq0 = 'B'\n", 1, ""),
    ],
)
def test_exit_code_of_rules(gate: Gate, project: Path, rules: str, code: int, message: str) -> None:
    (project / "gate.toml").write_text(rules, "utf-8")
    ran = gate("good.jsonl --labels labels.jsonl --rules gate.toml", project)
    assert (ran.code, bool(ran.stdout)) == (code, code <= 1)
    assert message in ran.stderr


def test_exit_code_of_invalid_input_comes_before_that_of_a_failed_rule(gate: Gate, project: Path) -> None:
    # The first check fails; the second cannot be read. Everything is read before anything is judged.
    (project / "evalkit.toml").write_text(
        '[gate]\nlabels = "labels.jsonl"\nrules = "gate.toml"\n'
        '[[gate.check]]\ncandidate = "bad.jsonl"\n[[gate.check]]\ncandidate = "damaged.jsonl"\n',
        "utf-8",
    )
    ran = gate("", project)
    assert (ran.code, ran.stdout) == (3, "")


def test_exit_code_of_an_error_row_is_for_the_gate_to_say(
    evalkit: Evalkit, gate: Gate, project: Path, make: Maker
) -> None:
    rows = [make.row(f"q{n}", SURE) for n in range(3)] + [make.row("q3", status="error", error="timeout")]
    (project / "part.jsonl").write_text(make.text(rows), "utf-8")
    assert evalkit("score part.jsonl --labels labels.jsonl", project).code == 0
    (project / "gate.toml").write_text(RULES.replace("0.9", "0.5"), "utf-8")
    assert gate("part.jsonl --labels labels.jsonl --rules gate.toml", project).code == 1
    (project / "gate.toml").write_text(
        RULES.replace("0.9", "0.5")
        + RULES.replace("accuracy", "error").replace(">= ", "<=").replace("0.9", "1").replace('">="', '"<="'),
        "utf-8",
    )
    assert gate("part.jsonl --labels labels.jsonl --rules gate.toml", project).code == 0


INTERNAL = """
import sys
import evalkit.gate.check
from evalkit.cli import main

def broken(found, level):
    raise RuntimeError("a fault\\nof our own")

evalkit.gate.check.judge_rules = broken
sys.argv = ["evalkit", "gate", *sys.argv[1:]]
main()
"""


def test_exit_code_of_an_internal_error_is_4_and_nothing_passes(project: Path) -> None:
    names = ["good.jsonl", "--labels", "labels.jsonl", "--rules", "gate.toml"]
    files = ["--json", "g.json", "--junit", "g.xml", "--markdown", "g.md", "--sarif", "g.sarif"]
    done = subprocess.run(
        [sys.executable, "-c", INTERNAL, *names, *files],
        cwd=project, env=environment(ALONE), capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith("evalkit: internal error: RuntimeError: a fault")
    assert len(done.stderr.splitlines()) == 1
    document = json.loads((project / "g.json").read_text("utf-8"))
    assert (document["verdict"], document["exit_code"]) == ("error", 4)
    assert junit((project / "g.xml").read_text("utf-8")).get("errors") == "1"
    assert "ERROR" in (project / "g.md").read_text("utf-8")
    assert json.loads((project / "g.sarif").read_text("utf-8"))["runs"][0]["invocations"] == [
        {
            "executionSuccessful": False,
            "toolExecutionNotifications": [
                {"level": "error", "message": {"text": "internal error: RuntimeError: a fault\\nof our own"}}
            ],
        }
    ]


# N2: files instead of pipes


FILES = "--json out/g.json --junit out/g.xml --markdown out/g.md --sarif out/g.sarif"


@pytest.mark.parametrize(
    ("run", "code", "verdict"), [("good", 0, "pass"), ("bad", 1, "fail"), ("damaged", 3, "error")]
)
def test_files_say_what_the_exit_code_says(
    gate: Gate, project: Path, run: str, code: int, verdict: str
) -> None:
    ran = gate(f"{run}.jsonl --labels labels.jsonl --rules gate.toml {FILES}", project)
    assert ran.code == code
    document = json.loads((project / "out/g.json").read_text("utf-8"))
    assert schema.check("gate", document) == []
    assert (document["verdict"], document["exit_code"]) == (verdict, code)
    root = junit((project / "out/g.xml").read_text("utf-8"))
    assert int(root.get("failures") or 0) + int(root.get("errors") or 0) == (1 if code else 0)
    assert (project / "out/g.md").read_text("utf-8").startswith(f"## {verdict.upper()}: ")
    log = json.loads((project / "out/g.sarif").read_text("utf-8"))["runs"][0]
    assert log["invocations"][0]["executionSuccessful"] is (code < 2)
    assert sum(result["level"] == "error" for result in log["results"]) == (1 if code == 1 else 0)


def test_files_of_an_earlier_pass_do_not_survive(gate: Gate, project: Path) -> None:
    args = f"--labels labels.jsonl --rules gate.toml {FILES}"
    assert gate(f"good.jsonl {args}", project).code == 0
    before = {path.name: path.read_bytes() for path in (project / "out").iterdir()}
    assert gate(f"good.jsonl {args}", project).code == 0
    assert {path.name: path.read_bytes() for path in (project / "out").iterdir()} == before
    assert gate(f"damaged.jsonl {args}", project).code == 3
    assert b'"verdict": "error"' in (project / "out/g.json").read_bytes()
    assert b"error" in (project / "out/g.xml").read_bytes()


@pytest.mark.parametrize("option", ["--json", "--junit", "--markdown", "--sarif"])
def test_file_that_cannot_be_written_is_a_usage_error(gate: Gate, project: Path, option: str) -> None:
    (project / "taken").mkdir()
    ran = gate(f"good.jsonl --labels labels.jsonl --rules gate.toml {option} taken", project)
    assert (ran.code, ran.stdout) == (2, "")
    assert f"{option} taken: cannot be written" in ran.stderr


@pytest.mark.parametrize("pipefail", [True, False])
def test_pipe_into_tee_needs_pipefail(project: Path, pipefail: bool) -> None:
    command = (
        f"{PROGRAM} gate bad.jsonl --labels labels.jsonl --rules gate.toml --junit g.xml | tee summary.txt"
    )
    done = subprocess.run(
        ["bash", "-c", ("set -o pipefail; " if pipefail else "") + command],
        cwd=project, env=environment(ALONE), capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == (1 if pipefail else 0)
    # Whatever the shell makes of it, what was written says that the gate failed.
    assert (project / "summary.txt").read_text("utf-8").startswith("FAIL: ")
    assert junit((project / "g.xml").read_text("utf-8")).get("failures") == "1"


def test_reader_that_goes_away_changes_no_verdict(project: Path) -> None:
    command = f"{PROGRAM} gate bad.jsonl --labels labels.jsonl --rules gate.toml; echo $? > code.txt"
    done = subprocess.run(
        ["bash", "-c", f"({command}) | true"],
        cwd=project,
        env=environment(ALONE),
        capture_output=True,
        check=False,
    )
    assert done.stderr == b""
    assert (project / "code.txt").read_text("utf-8") == "1\n"


# N3: width and colour


def test_output_in_a_file_is_whole_and_without_colour(gate: Gate, make: Maker) -> None:
    folder = make.folder()
    name = "x" * 120
    (folder / "labels.jsonl").write_text(make.text([make.item(name, label="A")]), "utf-8")
    for run, p in (("a", SURE), ("b", OTHER)):
        (folder / f"{run}.jsonl").write_text(make.text([make.row(name, p)]), "utf-8")
    for env in ({}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, {"FORCE_COLOR": "1"}):
        ran = gate("a.jsonl b.jsonl --labels labels.jsonl --rules strict", folder, env)
        assert ran.code == 1
        assert f"\n{name} " in ran.stdout
        assert b"\x1b" not in ran.out


def test_json_stands_alone_on_standard_output(gate: Gate, project: Path) -> None:
    args = "bad.jsonl --labels labels.jsonl --rules gate.toml --format json"
    for env in ({}, {"GITHUB_ACTIONS": "true"}):
        ran = gate(args, project, env)
        assert (ran.code, ran.stderr) == (1, "")
        assert schema.check("gate", ran.json()) == []


def test_markdown_on_standard_output(gate: Gate, project: Path) -> None:
    ran = gate("bad.jsonl --labels labels.jsonl --rules gate.toml --format markdown", project)
    assert (ran.code, ran.stdout.splitlines()[0]) == (1, "## FAIL: bad on labels: 1 of 4 rules failed")


# GitHub Actions


def test_annotations_come_in_github_actions_only(gate: Gate, project: Path) -> None:
    args = "good.jsonl bad.jsonl --labels labels.jsonl --rules gate.toml"
    assert "::" not in gate(args, project).stdout
    ran = gate(args, project, {"GITHUB_ACTIONS": "true"})
    assert ran.code == 1
    lines = ran.stdout.splitlines()
    token = lines[0].removeprefix("::stop-commands::")
    assert lines[1].startswith("FAIL: ")
    end = lines.index(f"::{token}::")
    assert lines[end + 1 :] == [
        "::error file=gate.toml,line=1,title=evalkit gate%3A fail::"
        "good -> bad on labels: accuracy >= 0.9: 0.50000 < 0.9",
        "::warning file=labels.jsonl,line=3,title=evalkit gate%3A broken::q2: A 0.9000 -> B 0.8000, label A",
        "::warning file=labels.jsonl,line=4,title=evalkit gate%3A broken::q3: A 0.9000 -> B 0.8000, label A",
    ]


def test_annotations_name_files_from_the_workspace(gate: Gate, project: Path) -> None:
    env = {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(project.parent)}
    ran = gate("good.jsonl bad.jsonl --labels labels.jsonl --rules gate.toml", project, env)
    assert f"::warning file={project.name}/labels.jsonl,line=3," in ran.stdout
    outside = gate(
        "good.jsonl bad.jsonl --labels labels.jsonl --rules gate.toml",
        project,
        env | {"GITHUB_WORKSPACE": "/etc"},
    )
    assert "::warning title=evalkit gate%3A broken::q2" in outside.stdout


def test_text_of_items_is_no_workflow_command(gate: Gate, make: Maker) -> None:
    folder = make.folder()
    name = "x\n::error::injected\n##[warning]injected"
    (folder / "labels.jsonl").write_text(make.text([make.item(name, label="A")]), "utf-8")
    for run, p in (("a", SURE), ("b", OTHER)):
        (folder / f"{run}.jsonl").write_text(make.text([make.row(name, p)]), "utf-8")
    ran = gate("a.jsonl b.jsonl --labels labels.jsonl --rules strict", folder, {"GITHUB_ACTIONS": "true"})
    lines = ran.stdout.splitlines()
    inside = lines.index(f"::{lines[0].removeprefix('::stop-commands::')}::")
    assert any("##[warning]injected" in line for line in lines[:inside])
    commands = lines[inside + 1 :]
    assert all(re.match(r"::(error|warning) ", line) for line in commands)
    assert not any(line.startswith(("::error::injected", "##[")) for line in lines)


def test_summary_is_appended_by_itself(gate: Gate, project: Path) -> None:
    summary = project / "summary.md"
    summary.write_text("before\n", "utf-8")
    env = {"GITHUB_STEP_SUMMARY": str(summary)}
    gate("bad.jsonl --labels labels.jsonl --rules gate.toml", project, env)
    text = summary.read_text("utf-8")
    assert text.startswith("before\n\n## FAIL: bad on labels: 1 of 4 rules failed\n")
    assert gate("damaged.jsonl --labels labels.jsonl --rules gate.toml", project, env).code == 3
    assert summary.read_text("utf-8").startswith(
        text + "\n## ERROR: the gate could not judge (exit code 3)\n"
    )


def test_summary_stays_under_its_limit(gate: Gate, project: Path) -> None:
    summary = project / "summary.md"
    summary.write_text("x" * (1024 * 1024 - 4500), "utf-8")
    gate("bad.jsonl --labels labels.jsonl --rules gate.toml", project, {"GITHUB_STEP_SUMMARY": str(summary)})
    assert summary.stat().st_size <= 1024 * 1024
    assert "This summary was shortened" in summary.read_text("utf-8")


@pytest.mark.parametrize("run", ["bad", "damaged"])
def test_summary_that_is_full_stays_as_it_is(gate: Gate, project: Path, run: str) -> None:
    summary = project / "summary.md"
    summary.write_text("x" * (1024 * 1024 + 5), "utf-8")
    args = f"{run}.jsonl --labels labels.jsonl --rules gate.toml"
    assert gate(args, project, {"GITHUB_STEP_SUMMARY": str(summary)}).code > 0
    assert summary.stat().st_size == 1024 * 1024 + 5


def test_summary_that_cannot_be_written_changes_no_verdict(gate: Gate, project: Path) -> None:
    for run, code in (("good", 0), ("bad", 1)):
        args = f"{run}.jsonl --labels labels.jsonl --rules gate.toml"
        ran = gate(args, project, {"GITHUB_STEP_SUMMARY": str(project)})
        assert (ran.code, ran.stderr) == (
            code,
            "evalkit: GITHUB_STEP_SUMMARY cannot be written (Is a directory)\n",
        )


# the shipped runs and rules


def test_shipped_strict_rules_stop_4_bits(gate: Gate) -> None:
    ran = gate("q4 --reference bf16 --rules gates/strict.toml", ROOT)
    assert ran.code == 1
    lines = ran.stdout.splitlines()
    assert lines[0] == "FAIL: bf16 -> q4 on semif-252@v1: 4 of 9 rules failed, 1 warning"
    assert "no right choice is lost: 9 > 0." in lines
    assert "hardly a choice changes: 0.07937 > 0.01." in lines


def test_shipped_tolerant_rules_let_8_bits_through(gate: Gate, tmp_path: Path) -> None:
    ran = gate("q8 --reference bf16 --rules gates/tolerant.toml", ROOT)
    assert (ran.code, ran.stdout.splitlines()[0]) == (0, "PASS: bf16 -> q8 on semif-252@v1: 9 rules passed")
    by_name = gate("q8 --reference bf16 --rules tolerant", tmp_path)
    assert (by_name.code, by_name.stdout.splitlines()[0]) == (0, ran.stdout.splitlines()[0])


def test_shipped_default_rules_are_used_without_any(gate: Gate, tmp_path: Path) -> None:
    ran = gate("q4 --reference bf16", tmp_path)
    assert ran.code == 0
    assert "not less accurate than the reference" in ran.stdout
    assert "WARNING (fail)" in ran.stdout
    alone = gate("q4", tmp_path)
    assert alone.code == 2
    assert "needs a reference; name one with --reference" in alone.stderr


def test_shipped_noise_is_the_floor_of_4_bits(gate: Gate, tmp_path: Path) -> None:
    (tmp_path / "noise.toml").write_text(
        '[[rule]]\nmetric = "changed_choices_beyond_noise"\nop = "<="\nvalue = 0\n', "utf-8"
    )
    args = "q4 --reference bf16 --noise torch-bf16 --rules noise.toml --format json"
    for only, items, beyond, marks in (
        ("", 252, 19, {None, "near tie"}),
        (" --only part=authored", 144, 14, {None}),
    ):
        ran = gate(args + only, tmp_path)
        assert (ran.code, ran.stderr) == (1, "")
        (check,) = ran.json()["checks"]
        noise = check["noise"]
        assert (noise["covered"], noise["items"], noise["changed_choices"]) == (144, items, 0)
        changed = [one for one in check["changes"] if one["kind"] == "choice"]
        assert sum(one["noise"] is None for one in changed) == noise["changed_choices_beyond_noise"] == beyond
        assert {one["noise"] for one in changed} == marks
    assert check["only"] == {"part": "authored"}


def test_own_checks_of_the_repository_pass(gate: Gate) -> None:
    ran = gate("--quiet", ROOT)
    assert (ran.code, ran.stdout.splitlines()[0]) == (0, "PASS: 3 checks passed")


# configuration, first rules, accepting


def test_config_lists_several_checks(gate: Gate, project: Path) -> None:
    (project / "pyproject.toml").write_text(
        '[tool.evalkit.gate]\nlabels = "labels.jsonl"\nrules = "gate.toml"\n'
        '[[tool.evalkit.gate.check]]\nname = "one"\ncandidate = "good.jsonl"\n'
        '[[tool.evalkit.gate.check]]\nname = "two"\ncandidate = "bad.jsonl"\n',
        "utf-8",
    )
    ran = gate(f"{FILES}", project)
    assert (ran.code, ran.stdout.splitlines()[0]) == (1, "FAIL: 1 of 2 checks failed")
    root = junit((project / "out/g.xml").read_text("utf-8"))
    assert [suite.get("name") for suite in root] == ["evalkit.gate.one", "evalkit.gate.two"]


def test_config_is_not_mixed_with_options(gate: Gate, project: Path) -> None:
    (project / "evalkit.toml").write_text('[gate]\ncandidate = "good.jsonl"\n', "utf-8")
    ran = gate("--labels labels.jsonl --rules gate.toml", project)
    assert ran.code == 2
    assert "--labels, --rules: name the run to judge as well" in ran.stderr


def test_config_that_is_missing_says_what_to_do(gate: Gate, tmp_path: Path) -> None:
    ran = gate("", tmp_path)
    assert ran.code == 2
    assert "nothing to judge: name a run, or list checks under [gate] in evalkit.toml" in ran.stderr


def test_gate_without_labels_judges_drift(gate: Gate, project: Path) -> None:
    (project / "drift.toml").write_text(
        '[[rule]]\nmetric = "changed_choices"\nop = "<="\nvalue = 1\n', "utf-8"
    )
    ran = gate("good.jsonl bad.jsonl --no-labels --rules drift.toml", project)
    assert ran.code == 1
    assert "changed_choices <= 1: 2 > 1." in ran.stdout


def test_init_writes_rules_that_the_reference_passes(gate: Gate, tmp_path: Path) -> None:
    ran = gate("init semif-252/bf16", tmp_path)
    assert (ran.code, ran.stdout) == (0, "wrote gate.toml: rules with the values of bf16 on semif-252\n")
    text = (tmp_path / "gate.toml").read_text("utf-8")
    assert "The values are those of the current reference, bf16 on semif-252@v1" in text
    assert "graduate-18/vllm-awq" in text
    assert gate("bf16 --reference bf16 --rules gate.toml", tmp_path).code == 0
    assert gate("q4 --reference bf16 --rules gate.toml", tmp_path).code == 1


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        ("init semif-252/bf16", 2, "gate.toml is there already; --force replaces it"),
        ("init semif-252/bf16 --force", 0, ""),
        ("init semif-252/bf16 -o gate.yaml", 2, "rules are TOML; write to a file whose name ends in .toml"),
        ("init -o other.toml", 2, "name the current reference; runs at hand: decisions-252/qwen0.5b-f16, "),
        (
            "init llamacpp-q4_k_m -o other.toml",
            2,
            "llamacpp-q4_k_m means several runs: graduate-18/llamacpp-q4_k_m, semif-252/llamacpp-q4_k_m",
        ),
        ("init nosuch -o other.toml", 3, "nosuch: no run of this name"),
    ],
)
def test_init_refuses_what_it_cannot_write(
    gate: Gate, tmp_path: Path, args: str, code: int, message: str
) -> None:
    (tmp_path / "gate.toml").write_text("mine", "utf-8")
    ran = gate(args, tmp_path)
    assert ran.code == code
    assert message in ran.stderr
    assert ((tmp_path / "gate.toml").read_text("utf-8") == "mine") is (code != 0)


def test_accept_records_a_reference_that_the_gate_then_uses(gate: Gate, tmp_path: Path) -> None:
    ran = gate("accept semif-252/bf16 --reason 'the weights as published'", tmp_path)
    assert ran.code == 0
    assert re.fullmatch(
        r"evalkit\.lock\.json: bf16 \(d3cc7482e379\.\.\.\) is now the reference of semif-252\n", ran.stdout
    )
    lock = (tmp_path / "evalkit.lock.json").read_text("utf-8")
    assert schema.check("lock", json.loads(lock)) == []
    assert len(lock.splitlines()) < 40
    args = "semif-252/q8 --lock evalkit.lock.json --rules tolerant"
    passed = gate(args, tmp_path)
    assert (passed.code, passed.stdout.splitlines()[0]) == (
        0,
        "PASS: bf16 -> q8 on semif-252@v1: 9 rules passed",
    )
    (tmp_path / "evalkit.lock.json").write_text(lock.replace("d3cc7482", "00000000"), "utf-8")
    damaged = gate(args, tmp_path)
    assert (damaged.code, damaged.stdout) == (3, "")
    assert "bf16.jsonl: sha256 is d3cc7482" in damaged.stderr


def test_accept_takes_the_checks_of_the_configuration(gate: Gate, project: Path) -> None:
    (project / "evalkit.toml").write_text(
        '[gate]\nlabels = "labels.jsonl"\nrules = "gate.toml"\n'
        '[[gate.check]]\nname = "mine"\ncandidate = "good.jsonl"\nlock = "l.json"\n'
        '[[gate.check]]\ncandidate = "bad.jsonl"\n',
        "utf-8",
    )
    assert gate("accept", project).code == 0
    assert [*json.loads((project / "l.json").read_text("utf-8"))["accepted"]] == ["mine"]
    ran = gate("", project)
    assert ran.code == 1
    assert "PASS: mine: 5 rules passed" in ran.stdout


def test_accept_without_anything_to_accept_is_a_usage_error(gate: Gate, project: Path) -> None:
    (project / "evalkit.toml").write_text('[gate]\ncandidate = "good.jsonl"\n', "utf-8")
    ran = gate("accept", project)
    assert ran.code == 2
    assert "no check of the configuration has a lock" in ran.stderr


def test_accept_refuses_an_incomplete_run(gate: Gate, project: Path, make: Maker) -> None:
    (project / "part.jsonl").write_text(make.text([make.row("q0", SURE)]), "utf-8")
    ran = gate("accept part.jsonl --labels labels.jsonl", project)
    assert ran.code == 3
    assert "part.jsonl: cannot be a reference: of 4 items there are 3 missing" in ran.stderr
    assert not (project / "evalkit.lock.json").exists()


# help, action and hooks


def test_help_says_gate_and_names_the_other_commands(gate: Gate, tmp_path: Path) -> None:
    for option in ("--help", "-h"):
        ran = gate(option, tmp_path)
        assert ran.code == 0
        assert re.match(r"Usage: evalkit gate \[OPTIONS\] \[RUN\]\.\.\.", ran.stdout.strip())
        words = " ".join(ran.stdout.split())
        assert "evalkit gate init" in words
        assert "evalkit gate accept" in words
    assert "Usage: evalkit gate init" in gate("init --help", tmp_path).stdout


def steps() -> Iterator[dict[str, object]]:
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    assert {"candidate", "reference", "rules"} <= action["inputs"].keys()
    assert action["runs"]["using"] == "composite"
    yield from action["runs"]["steps"]


def test_action_pastes_no_input_into_its_scripts() -> None:
    for step in steps():
        assert "${{" not in str(step["run"])
        assert "set -euo pipefail" in str(step["run"])


@pytest.mark.parametrize(
    ("inputs", "code", "verdict"),
    [
        ({"CANDIDATE": "q8", "REFERENCE": "bf16", "RULES": "tolerant"}, 0, "pass"),
        ({"CANDIDATE": "q4", "REFERENCE": "bf16", "RULES": "strict", "NOISE": "torch-bf16\n"}, 1, "fail"),
        ({"CANDIDATE": "q4", "REFERENCE": "bf16", "RULES": "strict", "ONLY": "part=none"}, 2, "error"),
        ({"CANDIDATE": "$(touch injected); --help", "REFERENCE": "bf16"}, 3, "error"),
        ({}, 2, "error"),
    ],
)
def test_action_judges(tmp_path: Path, inputs: dict[str, str], code: int, verdict: str) -> None:
    *_, judging = steps()
    program = tmp_path / "evalkit" / "bin" / "evalkit"
    program.parent.mkdir(parents=True)
    program.symlink_to(PROGRAM)
    names = ("CANDIDATE", "REFERENCE", "LABELS", "RULES", "NOISE", "ONLY", "SARIF")
    files = {"JUNIT": "g.xml", "JSON": "g.json", "GITHUB_OUTPUT": str(tmp_path / "outputs")}
    env = dict.fromkeys(names, "") | files | {"RUNNER_TEMP": str(tmp_path)} | inputs
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", str(judging["run"])],
        cwd=tmp_path, env=environment(ALONE | env), capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert (tmp_path / "outputs").read_text("utf-8") == f"verdict={verdict}\nexit-code={code}\n"
    assert json.loads((tmp_path / "g.json").read_text("utf-8"))["exit_code"] == code
    assert not (tmp_path / "injected").exists()


def test_hooks_run_commands_that_there_are(evalkit: Evalkit) -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    files = {"evalkit-labels": "labels/semif-252/v1.jsonl", "evalkit-runs": "runs/semif-252/q4.jsonl"}
    assert {hook["id"] for hook in hooks} == files.keys()
    for hook in hooks:
        file = files[hook["id"]]
        assert re.search(hook["files"], file)
        program, *words = hook["entry"].split()
        assert program == "evalkit"
        assert evalkit([*words, file], ROOT).code == 0
        assert evalkit([*words, os.devnull], ROOT).code == 3
