"""``evalkit record`` as a process: healthy servers of every kind, and everything that can go wrong."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from evalkit.labels import load_label_file
from tests.acceptance.conftest import CASES, PROGRAM, Evalkit, Ran, environment
from tests.stub_server import SERVERS, LlamaCpp, Reply, Request, Stub
from tests.unit.asking import ids_of, item, items, meta_of, recording, rows_of

KEY = "sk-harbour-4711-lantern"
RUN = "runs/labels/run.jsonl"
QUICK = ("--retries", "2")
LIMITED = (
    "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit})); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)
"""A program that runs another one that can write no file beyond a size."""


def write_labels(folder: Path, found: Iterable[dict[str, Any]]) -> None:
    """Write a label set into a folder."""
    lines = (json.dumps(one, ensure_ascii=False) + "\n" for one in found)
    (folder / "labels.jsonl").write_text("".join(lines), "utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a label set of 24 items."""
    write_labels(tmp_path, items(24))
    return tmp_path


def arguments(url: str, *more: str, output: str = RUN) -> list[str]:
    """Return the arguments of a recording."""
    return ["record", "--base-url", url, "--labels", "labels.jsonl", "--output", output, *more]


def decisions(trouble: Callable[[Request], Reply | None]) -> Callable[[Request], Reply]:
    """Answer requests for decisions with trouble where there is some."""
    healthy = LlamaCpp()

    def answer(request: Request) -> Reply:
        found = trouble(request) if request.path.endswith("/chat/completions") else None
        return found or healthy(request)

    return answer


def only(count: int) -> Callable[[Request], Reply]:
    """Answer so many requests for decisions, and leave all others waiting for ever."""
    return decisions(lambda request: Reply(silent=True) if request.number >= count else None)


def started(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start evalkit and let it run."""
    return subprocess.Popen(
        [PROGRAM, *words],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A job in the background of a shell ignores Ctrl-C, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )


def wait_for_rows(path: Path, count: int, seconds: float = 120) -> None:
    """Wait until a run file has so many rows."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if path.exists() and path.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} does not get {count} rows")


def ended(process: subprocess.Popen[bytes]) -> Ran:
    """Wait for the end of a process."""
    out, err = process.communicate(timeout=120)
    return Ran(process.returncode, out, err)


def test_recording_is_a_run_that_score_and_diff_take(evalkit: Evalkit, folder: Path) -> None:
    with Stub() as stub:
        first = evalkit(arguments(stub.url, output="runs/labels/one.jsonl"), folder)
        evalkit(arguments(stub.url, output="runs/labels/two.jsonl"), folder)
    assert (first.code, first.stdout) == (0, "")
    assert "evalkit: runs/labels/one.jsonl: complete, 24 of 24 decisions, 24 of them new" in first.stderr
    score = evalkit("score runs/labels/one.jsonl --labels labels.jsonl --format json", folder)
    assert (score.code, score.json()["counts"]["scored"]) == (0, 24)
    assert any("without --deterministic" in notice for notice in score.json()["notices"])
    diff = evalkit("diff one two --labels labels.jsonl --format json", folder)
    assert (diff.code, diff.json()["overall"]["changed_choices"]) == (0, 0)
    assert evalkit("runs validate one", folder).code == 0


@pytest.mark.parametrize("kind", list(SERVERS))
def test_every_kind_of_server_gives_the_same_decisions(evalkit: Evalkit, folder: Path, kind: str) -> None:
    more = ("--top-logprobs", "5") if kind == "tgi" else ()
    reference = folder / "reference.jsonl"
    with Stub(SERVERS[kind]()) as stub, Stub(LlamaCpp()) as healthy:
        ran = evalkit(arguments(stub.url, *more), folder)
        recording(load_label_file(folder / "labels.jsonl"), reference, healthy.url).run()
    assert ran.code == 0, ran.stderr
    for ours, theirs in zip(rows_of(folder / RUN), rows_of(reference), strict=True):
        assert ours["id"] == theirs["id"]
        assert ours["probabilities"] == pytest.approx(theirs["probabilities"], abs=1e-9)


def test_troubles_that_pass_leave_no_trace(evalkit: Evalkit, folder: Path) -> None:
    troubles = [
        Reply({"error": "slow down"}, 429, {"Retry-After": "0"}),
        Reply({"error": {"message": "EngineCore encountered an issue."}}, 500),
        Reply({"error": {"message": "Loading model"}}, 503),
        Reply({"late": True}, delay=5),
        Reply({"choices": "cut off"}, cut=7),
    ]
    seen: set[str] = set()

    def trouble(request: Request) -> Reply | None:
        text = request.question["evidence"]
        if text in seen or not troubles:
            return None
        seen.add(text)
        return troubles.pop()

    with Stub(decisions(trouble)) as stub:
        ran = evalkit(arguments(stub.url, "--timeout", "1"), folder)
    assert ran.code == 0, ran.stderr
    assert {row.get("status") for row in rows_of(folder / RUN)} == {None}
    assert len(stub.asked) == 29


@pytest.mark.parametrize(
    ("garbage", "reason"),
    [
        (Reply(b"<html>busy</html>"), "HTTP 200, but the answer is no JSON: <html>busy</html>"),
        (Reply(b""), "HTTP 200, but the answer is no JSON: nothing"),
        (Reply(b"no archive", headers={"Content-Encoding": "gzip"}), "the answer cannot be decompressed ("),
        (Reply({"object": "strange"}), "unknown response shape (keys: object)"),
        (Reply({"error": "overloaded"}, 500), "HTTP 500: overloaded (after 3 tries)"),
        (Reply({"choices": "cut off"}, cut=7), "connection lost (ReadError) (after 3 tries)"),
    ],
)
def test_answers_that_are_none_are_failed_rows_and_can_be_asked_again(
    evalkit: Evalkit, folder: Path, garbage: Reply, reason: str
) -> None:
    with Stub(
        decisions(lambda request: garbage if " q005 " in request.question["evidence"] else None)
    ) as stub:
        ran = evalkit(arguments(stub.url, *QUICK), folder)
        assert ran.code == 0
        assert "24 of 24 decisions, 24 of them new, 1 failed (--retry-failed asks again)" in ran.stderr
        row = rows_of(folder / RUN)[5]
        assert (row["id"], row["status"]) == ("q005", "error")
        assert row["error"].replace("ReadError: ", "").startswith(reason.partition("(ReadError)")[0])
        stub.answer = LlamaCpp()
        stub.requests.clear()
        again = evalkit(arguments(stub.url, *QUICK, "--retry-failed"), folder)
    assert (again.code, len(stub.asked)) == (0, 1)
    assert "status" not in rows_of(folder / RUN)[5]


def test_killed_recording_is_a_valid_run_and_resumes_to_the_same_bytes(
    evalkit: Evalkit, folder: Path
) -> None:
    whole, broken = "runs/labels/whole.jsonl", "runs/labels/broken.jsonl"
    with Stub() as stub:
        evalkit(arguments(stub.url, "--no-timings", output=whole), folder)
    with Stub(only(7)) as stub:
        process = started(folder, *arguments(stub.url, "--no-timings", output=broken))
        wait_for_rows(folder / broken, 7)
        process.send_signal(signal.SIGKILL)
        ended(process)
    assert len(ids_of(folder / broken)) == 7
    valid = evalkit(f"runs validate {broken} --labels labels.jsonl", folder)
    assert (valid.code, valid.stdout) == (0, f"{broken}: ok, 7 decisions on labels.jsonl (17 missing)\n")
    with Stub() as stub:
        ran = evalkit(arguments(stub.url, "--no-timings", output=broken), folder)
    assert ran.code == 0, ran.stderr
    assert len(stub.asked) == 17
    assert (folder / broken).read_bytes() == (folder / whole).read_bytes()


def test_interrupted_recording_says_how_to_go_on(evalkit: Evalkit, folder: Path) -> None:
    with Stub(only(5)) as stub:
        process = started(folder, *arguments(stub.url))
        wait_for_rows(folder / RUN, 5)
        process.send_signal(signal.SIGINT)
        ran = ended(process)
    assert (ran.code, ran.stdout) == (130, "")
    assert "evalkit: interrupted; the same command continues" in ran.stderr
    assert f"{RUN}: not complete, 5 of 24 decisions, 5 of them new" in ran.stderr
    assert "Traceback" not in ran.stderr
    with Stub() as stub:
        assert evalkit(arguments(stub.url), folder).code == 0
    assert len(ids_of(folder / RUN)) == 24


def test_full_disk_leaves_a_valid_run_that_goes_on_when_there_is_room(evalkit: Evalkit, folder: Path) -> None:
    # A limit on the size of files is as a disk that is full at this file.
    limit = 4000
    with Stub() as stub:
        limited = [sys.executable, "-c", LIMITED.format(limit=limit), str(PROGRAM), *arguments(stub.url)]
        done = subprocess.run(limited, cwd=folder, env=environment(), capture_output=True, check=False)
        ran = Ran(done.returncode, done.stdout, done.stderr)
        kept = len(ids_of(folder / RUN))
        assert ran.code == 2
        assert f"{RUN}: cannot be written (" in ran.stderr
        assert f"{kept} decisions are in it, and the same command continues when there is room" in ran.stderr
        assert 0 < kept < 24
        assert evalkit("score run --labels labels.jsonl", folder).code == 0
        assert evalkit(arguments(stub.url), folder).code == 0
    assert ids_of(folder / RUN) == [f"q{number:03}" for number in range(24)]


def test_dead_server_leaves_a_valid_run_that_goes_on_when_it_is_back(evalkit: Evalkit, folder: Path) -> None:
    with Stub(only(4)) as stub:
        process = started(folder, *arguments(stub.url, *QUICK))
        wait_for_rows(folder / RUN, 4)
        stub.stop()
        ran = ended(process)
    assert ran.code == 3
    assert "the backend no longer answers: connection lost" in ran.stderr
    assert "the same command continues" in ran.stderr
    assert {row.get("status") for row in rows_of(folder / RUN)} == {None}
    with Stub() as back:
        assert evalkit(arguments(back.url), folder).code == 0
    assert len(ids_of(folder / RUN)) == 24


def test_server_that_is_not_there_is_named(evalkit: Evalkit, folder: Path) -> None:
    with Stub() as stub:
        pass
    ran = evalkit(arguments(stub.url, *QUICK), folder)
    assert ran.code == 3
    assert f"nothing answers at {stub.url}" in ran.stderr
    assert not (folder / RUN).exists()


def test_wrong_model_is_refused_with_the_served_ones(evalkit: Evalkit, folder: Path) -> None:
    def refuses(request: Request) -> Reply | None:
        # As vLLM does; llama.cpp answers with what it has.
        words = f"The model `{request.body['model']}` does not exist."
        return None if request.body["model"] == "stub-model" else Reply({"error": {"message": words}}, 404)

    with Stub(decisions(refuses)) as stub:
        refused = evalkit(arguments(stub.url, "--model", "other"), folder)
        stub.answer = LlamaCpp()
        ignored = evalkit(arguments(stub.url, "--model", "other"), folder)
    assert (refused.code, ignored.code) == (3, 3)
    assert (
        "The model `other` does not exist.; the server has stub-model; name one with --model"
        in refused.stderr
    )
    assert (
        "asked for the model 'other', but 'stub-model' answers; the server has stub-model" in ignored.stderr
    )


def test_key_is_sent_and_never_written_or_printed(evalkit: Evalkit, folder: Path) -> None:
    class Echo(LlamaCpp):
        fingerprint = f"fp-{KEY}"

    def answer(request: Request) -> Reply:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return Reply({"error": "Unauthorized"}, 401)
        if request.path.endswith("/chat/completions") and " q003 " in request.question["evidence"]:
            return Reply({"error": f"{'x' * 490} {KEY} is over its quota"}, 500)
        if request.path.endswith("/chat/completions") and " q004 " in request.question["evidence"]:
            return Reply(f"<html>{KEY}</html>".encode())
        return Echo(f"model-{KEY}")(request)

    with Stub(answer) as stub:
        missing = evalkit(["--debug", *arguments(stub.url)], folder)
        assert missing.code == 3
        assert "HTTP 401: Unauthorized; put its API key into EVALKIT_API_KEY" in missing.stderr
        wrong = evalkit(["--debug", *arguments(stub.url)], folder, {"EVALKIT_API_KEY": f"{KEY}x"})
        assert "it does not accept the key in EVALKIT_API_KEY" in wrong.stderr
        ran = evalkit(["--debug", *arguments(stub.url, *QUICK)], folder, {"EVALKIT_API_KEY": KEY})
        other = arguments(stub.url, *QUICK, "--api-key-env", "OTHER_KEY", output="runs/labels/other.jsonl")
        named = evalkit(["--debug", *other], folder, {"OTHER_KEY": KEY})
    assert (ran.code, named.code) == (0, 0), ran.stderr
    streams = b"".join(one.out + one.err for one in (missing, wrong, ran, named))
    assert KEY.encode() not in streams
    written = [path for path in folder.rglob("*") if path.is_file()]
    assert len(written) == 5
    for path in written:
        assert KEY.encode() not in path.read_bytes(), path
        assert KEY[:9].encode() not in path.read_bytes(), path


def test_key_does_not_follow_a_redirect_to_another_host(evalkit: Evalkit, folder: Path) -> None:
    with Stub() as other, Stub(lambda _: Reply(b"", 308, {"Location": other.url})) as stub:
        ran = evalkit(arguments(stub.url), folder, {"EVALKIT_API_KEY": KEY})
    assert ran.code == 3
    assert "redirects to another host" in ran.stderr
    assert other.requests == []


def test_no_bar_and_no_colour_without_a_terminal(evalkit: Evalkit, folder: Path) -> None:
    with Stub() as stub:
        ran = evalkit(arguments(stub.url), folder, {"FORCE_COLOR": "1"})
        quiet = evalkit(arguments(stub.url, "--quiet", output="runs/labels/quiet.jsonl"), folder)
    assert b"\x1b" not in ran.err
    assert [line for line in ran.stderr.splitlines() if "decisions/s" in line]
    assert quiet.err == b""


def test_bar_is_drawn_on_a_terminal(folder: Path) -> None:
    terminal, end = pty.openpty()
    shown = bytearray()
    with Stub() as stub:
        process = subprocess.Popen(
            [PROGRAM, *arguments(stub.url)], cwd=folder, env={**environment(), "TERM": "xterm"}, stderr=end
        )
        os.close(end)
        while chunk := _read(terminal):
            shown += chunk
        assert process.wait(60) == 0
    os.close(terminal)
    assert b"24/24" in shown
    assert b"decisions/s" in shown
    assert b"\x1b[" in shown


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other end is closed
        return b""


def test_run_of_several_answerers_or_with_cache_hits_is_flagged_in_every_report(
    evalkit: Evalkit, folder: Path
) -> None:
    # A gateway that spreads one name over two backends.
    behind = [LlamaCpp("stub-model", cached=3), LlamaCpp("stub-model-2027", cached=0)]
    behind[1].fingerprint = "fp-other"

    def answer(request: Request) -> Reply:
        is_decision = request.path.endswith("/chat/completions")
        return behind[request.number % 2 if is_decision else 0](request)

    with Stub(answer) as stub:
        assert evalkit(arguments(stub.url), folder).code == 0
        stub.answer = LlamaCpp()
        assert evalkit(arguments(stub.url, output="runs/labels/one.jsonl"), folder).code == 0
    (folder / "gate.toml").write_text('[[rule]]\nmetric = "accuracy"\nop = ">="\nvalue = 0\n')
    for command in (
        "score run",
        "diff run one",
        "diff one run",
        "gate run --rules gate.toml",
        "gate one --reference run --rules gate.toml",
    ):
        shown = evalkit(f"{command} --labels labels.jsonl", folder, {"GITHUB_ACTIONS": ""})
        assert shown.code == 0, shown.stderr
        words = " ".join(shown.stdout.split())
        assert "run: more than one model answered: stub-model, stub-model-2027" in words
        assert "run: more than one system fingerprint: b0-unknown, fp-other" in words
        assert "run: 12 prompts were partly cached: timings are not comparable" in words


def test_repeats_are_the_noise_floor_that_gate_takes(evalkit: Evalkit, folder: Path) -> None:
    class Wavering(LlamaCpp):
        """Says the opposite about some items in every second recording."""

        def chat(self, request: Request) -> Reply:
            reply = super().chat(request)
            if request.number >= 24 and " q003 " in request.question["evidence"]:
                (content,) = reply.body["choices"][0]["logprobs"]["content"]
                other = {"A": "B", "B": "A"}
                for token in (content, *content["top_logprobs"]):
                    token["token"] = other.get(token["token"].strip(), token["token"])
            return reply

    with Stub(Wavering()) as stub:
        ran = evalkit(arguments(stub.url, "--repeats", "2"), folder)
        assert ran.code == 0, ran.stderr
        evalkit(arguments(stub.url, output="runs/labels/candidate.jsonl"), folder)
    rule = '[[rule]]\nmetric = "changed_choices{}"\nop = "<="\nvalue = 0\n'
    (folder / "plain.toml").write_text(rule.format(""))
    (folder / "noise.toml").write_text(rule.format("_beyond_noise"))
    gate = "gate candidate --reference run.1 --labels labels.jsonl --rules"
    assert evalkit(f"{gate} plain.toml", folder, {"GITHUB_ACTIONS": ""}).code == 1
    passed = evalkit(f"{gate} noise.toml --noise run.2", folder, {"GITHUB_ACTIONS": ""})
    assert passed.code == 0, passed.stdout + passed.stderr


def test_package_that_is_not_installed_is_named(evalkit: Evalkit, folder: Path) -> None:
    (folder / "httpx2.py").write_text("raise ModuleNotFoundError(name='httpx2')")
    ran = evalkit(arguments("http://localhost:1"), folder, {"PYTHONPATH": str(folder)})
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr == "evalkit: record needs the package httpx2: pip install 'evalkit[record]'\n"


def test_label_set_without_texts_cannot_be_recorded(evalkit: Evalkit, tmp_path: Path) -> None:
    with Stub() as stub:
        words = ["record", "--base-url", stub.url, "-l", "semif-252", "-o", "run.jsonl"]
        ran = evalkit(words, tmp_path)
    assert ran.code == 3
    assert "holds no evidence: it can be scored, but not recorded" in ran.stderr
    assert stub.requests == []


def test_two_recordings_into_one_file_are_refused(evalkit: Evalkit, folder: Path) -> None:
    with Stub(only(3)) as stub:
        process = started(folder, *arguments(stub.url))
        wait_for_rows(folder / RUN, 3)
        second = evalkit(arguments(stub.url), folder)
        process.send_signal(signal.SIGINT)
        ended(process)
    assert second.code == 2
    assert "another process is recording into this file" in second.stderr
    assert len(ids_of(folder / RUN)) == 3


def test_array_mode_is_compared_with_the_read_out_by_diff(evalkit: Evalkit, tmp_path: Path) -> None:
    write_labels(tmp_path, [item(f"q{number}", evidence=f"Text {number // 3}.") for number in range(12)])

    def answer(request: Request) -> Reply:
        if not request.path.endswith("/chat/completions") or "logprobs" in request.body:
            return LlamaCpp()(request)
        count = len(request.question["questions"])
        # The second array is too short.
        text = json.dumps(["A"] * (count - (request.question["evidence"] == "Text 1.")))
        return Reply({"model": "stub-model", "choices": [{"message": {"content": text}}]})

    with Stub(answer) as stub:
        letters = evalkit(arguments(stub.url, output="runs/labels/letters.jsonl"), tmp_path)
        stub.requests.clear()
        array = evalkit(arguments(stub.url, "--mode", "array", output="runs/labels/array.jsonl"), tmp_path)
    assert (letters.code, array.code, len(stub.asked)) == (0, 0, 4)
    diff = evalkit("diff letters array --labels labels.jsonl --format json", tmp_path).json()
    assert diff["counts"]["compared"] == 9
    assert any("protocol" in notice for notice in diff["notices"])
    invalid = [row for row in rows_of(tmp_path / "runs/labels/array.jsonl") if row.get("status") == "invalid"]
    assert [row["id"] for row in invalid] == ["q3", "q4", "q5"]
    assert "the array has 2 answers for 3 questions" in invalid[0]["error"]


@pytest.mark.parametrize("name", ["run.jsonl", "run_newline_after_fragment.jsonl"])
def test_resuming_a_torn_run_sets_the_fragment_aside(evalkit: Evalkit, tmp_path: Path, name: str) -> None:
    folder = shutil.copytree(CASES / "34-torn-last-line", tmp_path / "case", copy_function=shutil.copyfile)
    before = (folder / name).read_bytes().split(b"\n")
    with Stub() as stub:
        ran = evalkit(arguments(stub.url, output=name), folder)
    assert ran.code == 0
    assert f"{name}: half a row at the end was moved to {name}.torn" in ran.stderr
    after = (folder / name).read_bytes().split(b"\n")
    assert after[:3] == before[:3]
    assert ids_of(folder / name) == ["q1", "q2", "q3", "q4"]
    assert len(stub.asked) == 1
    assert (folder / f"{name}.torn").read_bytes() == before[3] + b"\n"


def test_resuming_a_long_run_asks_only_what_is_missing(evalkit: Evalkit, tmp_path: Path) -> None:
    # The case's own script writes 100,000 decisions on 100,010 items.
    done, missing = 100_000, 10
    shutil.copy(CASES / "99-resume-appends-slowly" / "make.py", tmp_path)
    subprocess.run([sys.executable, "make.py"], cwd=tmp_path, check=True)
    before = (tmp_path / "run.jsonl").read_bytes()
    with Stub() as stub:
        ran = evalkit(arguments(stub.url, output="run.jsonl"), tmp_path)
    assert ran.code == 0, ran.stderr
    assert len(stub.asked) == missing
    after = (tmp_path / "run.jsonl").read_bytes()
    assert after.startswith(before)
    assert after.count(b"\n") == done + missing
    assert meta_of(tmp_path / "run.jsonl")["decisions"] == done + missing
