"""Recording: what is asked, what is kept, what is refused, and that a resumed file is the same file."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalkit import load_run
from evalkit.errors import ChecksumError, InputError, UsageError
from evalkit.record import sidecar
from evalkit.record.errors import BackendError
from evalkit.record.protocol import make_prompt
from tests.conftest import Maker
from tests.stub_server import LlamaCpp, Reply, Request, Server, Stub, Vllm, seed_of
from tests.unit.asking import ids_of, item, items, meta_of, recording, rows_of


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Return where a run goes."""
    return tmp_path / "runs" / "set" / "run.jsonl"


def troubled(
    trouble: Callable[[Request], Reply | None], server: Server | None = None
) -> Callable[[Request], Reply]:
    """Answer requests for decisions with trouble where there is some, and else as a healthy server."""
    healthy = server or LlamaCpp()

    def answer(request: Request) -> Reply:
        found = trouble(request) if request.path.endswith("/chat/completions") else None
        return found or healthy(request)

    return answer


class Slow(LlamaCpp):
    """Takes its time for every decision."""

    def __init__(self, pause: float) -> None:
        super().__init__()
        self.pause = pause
        self.arrived: list[float] = []

    def chat(self, request: Request) -> Reply:
        self.arrived.append(time.monotonic())
        return replace(super().chat(request), delay=self.pause)

    def together(self, first: int) -> int:
        """Return how many requests came before one of them had its answer, itself included."""
        return sum(0 <= at - self.arrived[first] < self.pause for at in self.arrived)


class Moody(LlamaCpp):
    """Gives other digits for a prompt that it has in its cache, or that comes together with another one."""

    pause = 0.02

    def __init__(self) -> None:
        super().__init__(cached=5)
        self.known: set[bytes] = set()
        self.last = 0.0
        self.together = 0

    def chat(self, request: Request) -> Reply:
        seed, now = seed_of(request), time.monotonic()
        is_cached = seed in self.known and request.body.get("cache_prompt", True)
        is_together = now - self.last < self.pause
        self.known.add(seed)
        self.last = now
        self.together += is_together
        reply = super().chat(request)
        (content,) = reply.body["choices"][0]["logprobs"]["content"]
        for token in (content, content["top_logprobs"][0]):
            token["logprob"] -= 0.013 * is_cached + 0.043 * is_together
        return replace(reply, delay=self.pause)


def asks_about(request: Request, name: str) -> bool:
    """Tell which item a request is about."""
    return f" {name} " in str(request.question["evidence"])


def test_recorded_run_is_complete_in_order_and_loads(make: Maker, output: Path) -> None:
    labels = make.labels(items(30))
    with Stub() as stub:
        (recorded,) = recording(labels, output, stub.url).run()
    assert ids_of(output) == [f"q{number:03}" for number in range(30)]
    assert (recorded.finished, recorded.decisions, recorded.asked, recorded.failed) == (True, 30, 30, 0)
    assert len(stub.asked) == 30
    run = load_run(output)
    assert len(run) == 30
    assert run.notices == ()
    assert [entry.name for entry in sorted(output.parent.iterdir())] == ["run.jsonl", "run.meta.json"]


def test_row_holds_the_decision_and_what_answered(make: Maker, output: Path) -> None:
    labels = make.labels(items(1))
    with Stub(LlamaCpp(cached=3)) as stub:
        recording(labels, output, stub.url).run()
    (row,) = rows_of(output)
    assert list(row) == [
        "id", "option_ids", "probabilities", "allowed_token_mass", "messages_sha256", "model",
        "system_fingerprint", "input_tokens", "cached_tokens", "total_seconds",
    ]  # fmt: skip
    assert row["option_ids"] == ["yes", "no"]
    assert sum(row["probabilities"]) == pytest.approx(1)
    assert row["messages_sha256"] == make_prompt(item("q000")).sha256
    assert (row["model"], row["system_fingerprint"], row["cached_tokens"]) == ("stub-model", "b0-unknown", 3)
    assert row["total_seconds"] > 0


def test_sidecar_says_what_was_asked_how_and_of_whom(make: Maker, output: Path) -> None:
    labels = make.labels(items(2))
    with Stub(Vllm()) as stub:
        recording(labels, output, stub.url, note="a note", quantization="Q4", revision="abc").run()
    meta = meta_of(output)
    assert meta["label_set"] == {"name": "labels", "version": None, "sha256": labels.sha256}
    assert meta["model"]["name"] == "stub-model"
    assert (meta["model"]["quantization"], meta["model"]["revision"]) == ("Q4", "abc")
    assert meta["runtime"] == {"name": "vLLM", "version": "0.32.0", "base_url": stub.url}
    assert (meta["protocol"], meta["readout"]["rule"], meta["note"]) == ("semif/1", "letters/1", "a note")
    options = meta["recorded"]["options"]
    assert (options["temperature"], options["max_tokens"], options["deterministic"]) == (1.0, 1, False)
    assert options["chat_template_kwargs"] == {"enable_thinking": False}
    assert meta["decisions"] == 2
    assert any("without --deterministic" in notice for notice in meta["notices"])
    assert load_run(output).meta["sha256"] == meta["sha256"]


def test_recording_twice_gives_the_same_bytes_without_timings(make: Maker, tmp_path: Path) -> None:
    labels = make.labels(items(40))
    paths = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    # Answers come in another order each time.
    delays = iter([0.03, 0, 0.02, 0.01] * 40)
    server = LlamaCpp()
    with Stub(lambda request: Reply(server(request).body, delay=next(delays))) as stub:
        for path in paths:
            recording(labels, path, stub.url, timings=False).run()
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert "total_seconds" not in paths[0].read_text()


def test_longest_prompt_is_the_probe_and_is_asked_alone(make: Maker, output: Path) -> None:
    labels = make.labels([*items(5), item("long", evidence="x" * 500), *items(9)[5:]])
    slow = Slow(0.3)
    with Stub(slow) as stub:
        recording(labels, output, stub.url).run()
    assert stub.asked[0].question["evidence"] == "x" * 500
    assert len(stub.asked) == 10
    assert slow.together(0) == 1


@pytest.mark.parametrize(("wishes", "together"), [({}, 8), ({"concurrency": 3}, 3)])
def test_so_many_items_are_asked_at_a_time(
    make: Maker, output: Path, wishes: dict[str, Any], together: int
) -> None:
    slow = Slow(1)
    with Stub(slow) as stub:
        recording(make.labels(items(together + 3)), output, stub.url, **wishes).run()
    assert slow.together(1) == together


def test_deterministic_recording_asks_one_at_a_time(make: Maker, output: Path) -> None:
    labels = make.labels(items(12))
    moody = Moody()
    with Stub(moody) as stub:
        recording(labels, output, stub.url, deterministic=True).run()
        assert moody.together == 0
        recording(labels, output.with_name("usual.jsonl"), stub.url).run()
        assert moody.together > 0
    assert [request.body.get("cache_prompt") for request in stub.asked] == [False] * 12 + [None] * 12
    assert {row["cached_tokens"] for row in rows_of(output)} == {0}
    assert meta_of(output)["recorded"]["options"]["concurrency"] == 1
    assert meta_of(output)["notices"] == []


def test_deterministic_recording_gives_the_same_digits_twice(make: Maker, tmp_path: Path) -> None:
    labels = make.labels(items(12))

    def twice(name: str, **wishes: Any) -> list[Path]:
        paths = [tmp_path / f"{name}{place}.jsonl" for place in "12"]
        with Stub(Moody()) as stub:
            for path in paths:
                recording(labels, path, stub.url, timings=False, **wishes).run()
        return paths

    def digits(path: Path) -> list[list[float]]:
        return [row["probabilities"] for row in rows_of(path)]

    one, two = twice("deterministic", deterministic=True)
    assert one.read_bytes() == two.read_bytes()
    # The same server gives other digits where it may use its cache, or a batch.
    cold, warm = twice("one_at_a_time", concurrency=1)
    assert digits(cold) == digits(one) != digits(warm)
    assert all(digits(path) != digits(one) for path in twice("usual"))


def test_repeats_are_one_file_each(make: Maker, output: Path) -> None:
    labels = make.labels(items(3))
    with Stub() as stub:
        recorded = recording(labels, output, stub.url, repeats=2).run()
    assert [one.path.name for one in recorded] == ["run.1.jsonl", "run.2.jsonl"]
    assert len(stub.asked) == 6
    assert not output.exists()
    assert ids_of(recorded[1].path) == ["q000", "q001", "q002"]


def test_finished_run_is_not_asked_again(make: Maker, output: Path) -> None:
    labels = make.labels(items(3))
    with Stub() as stub:
        recording(labels, output, stub.url).run()
        before = output.read_bytes(), meta_of(output)
        stub.requests.clear()
        (recorded,) = recording(labels, output, stub.url).run()
    assert (recorded.finished, recorded.asked, stub.requests) == (True, 0, [])
    assert (output.read_bytes(), meta_of(output)) == before


def test_resumed_run_is_the_run_that_was_not_interrupted(make: Maker, tmp_path: Path) -> None:
    labels = make.labels(items(20))
    whole, broken = tmp_path / "whole.jsonl", tmp_path / "broken.jsonl"
    with Stub() as stub:
        recording(labels, whole, stub.url, timings=False).run()
        # A server that dies after 8 decisions.
        stub.answer = troubled(lambda request: Reply(b"", 401) if request.number >= 28 else None)
        with pytest.raises(BackendError, match="HTTP 401"):
            recording(labels, broken, stub.url, timings=False, concurrency=3).run()
        kept = broken.read_text().splitlines()
        assert 6 <= len(kept) <= 8
        assert len(load_run(broken)) == len(kept)
        assert "sha256" not in meta_of(broken)
        stub.answer = LlamaCpp()
        stub.requests.clear()
        (recorded,) = recording(labels, broken, stub.url, timings=False, concurrency=3).run()
    assert broken.read_bytes() == whole.read_bytes()
    assert recorded.asked == len(stub.asked) == 20 - len(kept)


def test_half_a_row_is_set_aside_before_resuming(make: Maker, output: Path) -> None:
    labels = make.labels(items(4))
    with Stub() as stub:
        recording(labels, output, stub.url).run()
        lines = output.read_text().splitlines(keepends=True)
        output.with_name("run.meta.json").unlink()
        output.write_text("".join(lines[:3]) + lines[3][:40])
        (recorded,) = recording(labels, output, stub.url).run()
    assert output.read_text().splitlines(keepends=True)[:3] == lines[:3]
    assert recorded.notices == [f"{recorded.path}: half a row at the end was moved to run.jsonl.torn"]
    assert output.with_name("run.jsonl.torn").read_text() == lines[3][:40] + "\n"


def test_rows_of_unknown_origin_are_continued_and_named(make: Maker, output: Path) -> None:
    labels = make.labels(items(3))
    output.parent.mkdir(parents=True)
    row = '{"id": "q001", "option_ids": ["yes", "no"], "probabilities": [0.9, 0.1]}\n'
    output.write_text(row)
    with Stub() as stub:
        recording(labels, output, stub.url).run()
    assert output.read_text().splitlines(keepends=True)[1] == row
    assert (
        "1 decisions were in the file before, and nothing says what recorded them"
        in meta_of(output)["notices"]
    )


def test_unfinished_file_that_has_every_row_is_finished_without_asking(make: Maker, output: Path) -> None:
    labels = make.labels(items(3))
    with Stub() as stub:
        recording(labels, output, stub.url).run()
        whole, meta = output.read_text(), meta_of(output)
        # As a kill leaves it just before the end: rows in another order, a sidecar without digest.
        output.write_text("".join(reversed(whole.splitlines(keepends=True))))
        unfinished = {key: value for key, value in meta.items() if key not in ("sha256", "decisions")}
        output.with_name("run.meta.json").write_text(json.dumps(unfinished))
        stub.requests.clear()
        recording(labels, output, stub.url).run()
    assert output.read_text() == whole
    assert stub.requests == []
    assert meta_of(output)["sha256"] == meta["sha256"]


def test_complete_file_without_sidecar_is_only_put_in_order(make: Maker, output: Path) -> None:
    labels = make.labels(items(3))
    with Stub() as stub:
        recording(labels, output, stub.url).run()
        whole = output.read_text()
        output.write_text("".join(reversed(whole.splitlines(keepends=True))))
        output.with_name("run.meta.json").unlink()
        stub.requests.clear()
        recording(labels, output, stub.url).run()
    assert output.read_text() == whole
    assert stub.requests == []
    assert not output.with_name("run.meta.json").exists()


def test_failed_item_is_recorded_and_asked_again_only_on_request(make: Maker, output: Path) -> None:
    labels = make.labels(items(6))
    with Stub(
        troubled(lambda request: Reply({"error": "boom"}, 500) if asks_about(request, "q003") else None)
    ) as stub:
        (recorded,) = recording(labels, output, stub.url).run()
        assert (recorded.failed, recorded.finished) == (1, True)
        row = rows_of(output)[3]
        assert (row["status"], row["error"]) == ("error", "HTTP 500: boom (after 3 tries)")
        assert row["option_ids"] == ["yes", "no"]
        assert row["messages_sha256"] == make_prompt(item("q003")).sha256
        stub.answer = LlamaCpp()
        stub.requests.clear()
        assert recording(labels, output, stub.url).run()[0].asked == 0
        (recorded,) = recording(labels, output, stub.url, retry_failed=True).run()
    assert (recorded.failed, recorded.asked, len(stub.asked)) == (0, 1, 1)
    assert ids_of(output) == [f"q{number:03}" for number in range(6)]
    assert "status" not in rows_of(output)[3]


def test_failed_item_that_fails_again_stays_one_row(make: Maker, output: Path) -> None:
    labels = make.labels(items(3))
    fails = troubled(lambda request: Reply(b"no") if asks_about(request, "q001") else None)
    with Stub(fails) as stub:
        recording(labels, output, stub.url).run()
        with pytest.raises(BackendError, match="no usable answer"):
            recording(labels, output, stub.url, retry_failed=True).run()
    assert ids_of(output) == ["q000", "q001", "q002"]
    assert rows_of(output)[1]["status"] == "error"


def test_refused_item_is_recorded_as_failed_where_that_was_wished(make: Maker, output: Path) -> None:
    labels = make.labels([*items(3), item("long", evidence="x" * 500)])
    too_long = Reply({"error": "exceeds the available context size"}, 400)
    with Stub(troubled(lambda request: too_long if "xxx" in request.question["evidence"] else None)) as stub:
        (recorded,) = recording(labels, output, stub.url, keep_going=True).run()
    assert (recorded.failed, recorded.decisions) == (1, 4)
    assert rows_of(output)[3]["error"] == "HTTP 400: exceeds the available context size"
    assert (
        recorded.notices[0] == "the first answer is no decision: HTTP 400: exceeds the available context size"
    )


def test_backend_that_is_gone_stops_without_failed_rows(make: Maker, output: Path) -> None:
    labels = make.labels(items(30))
    with Stub() as stub:

        def answer(request: Request) -> Reply:
            if request.number == 10:
                stub._loop.call_soon(stub._loop.stop)
            return LlamaCpp()(request)

        stub.answer = answer
        with pytest.raises(
            BackendError, match=r"no longer answers: .* of 30 rows are in .*; the same command continues"
        ):
            recording(labels, output, stub.url, concurrency=4).run()
    assert 5 <= len(rows_of(output)) <= 14
    assert {row.get("status") for row in rows_of(output)} == {None}


def test_backend_that_only_fails_is_given_up(make: Maker, output: Path) -> None:
    labels = make.labels(items(60))
    dead = Reply({"error": {"message": "EngineCore encountered an issue."}}, 500)
    given_up = pytest.raises(
        BackendError, match="more than 10 requests in a row failed: HTTP 500: EngineCore"
    )
    with Stub(troubled(lambda request: dead if request.number > 5 else None)) as stub, given_up:
        recording(labels, output, stub.url, concurrency=2).run()
    failed = [row for row in rows_of(output) if row.get("status") == "error"]
    assert 11 <= len(failed) <= 12
    assert len(load_run(output)) == len(rows_of(output))


def test_probe_that_fails_leaves_nothing_behind(make: Maker, output: Path) -> None:
    labels = make.labels(items(3))
    with Stub(troubled(lambda _: Reply(b"<html>"))) as stub, pytest.raises(BackendError, match="no JSON"):
        recording(labels, output, stub.url).run()
    assert list(output.parent.iterdir()) == []


def test_low_mass_on_the_options_is_said_after_the_first_answer(make: Maker, output: Path) -> None:
    labels = make.labels(items(2))
    with Stub(LlamaCpp(mass=0.2)) as stub:
        (recorded,) = recording(labels, output, stub.url).run()
    assert "the options hold 0.2 of the mass" in recorded.notices[0]


def test_read_out_notices_get_into_the_sidecar_once(make: Maker, output: Path) -> None:
    labels = make.labels(items(5))

    class Short(LlamaCpp):
        def listed(self, request: Request, tokens: list[tuple[str, float]]) -> list[tuple[str, float]]:
            return super().listed(request, tokens)[:6]

    with Stub(Short()) as stub:
        recording(labels, output, stub.url).run()
    assert meta_of(output)["notices"][1:] == ["the list is shorter than requested"]


def test_gateway_over_two_backends_is_recorded_row_by_row(make: Maker, output: Path) -> None:
    labels = make.labels(items(6))

    def answer(request: Request) -> Reply:
        reply = LlamaCpp()(request)
        if request.path.endswith("/chat/completions") and request.number % 2:
            reply.body["system_fingerprint"] = "another"
        return reply

    with Stub(answer) as stub:
        recording(labels, output, stub.url, concurrency=1).run()
    assert load_run(output).distinct("system_fingerprint") == ["another", "b0-unknown"]


def begun(labels: Any, output: Path, **wishes: Any) -> Stub:
    """Record a run, take its last row away, and return a server to go on with."""
    with Stub() as stub:
        recording(labels, output, stub.url, **wishes).run()
    meta = meta_of(output)
    output.write_text("".join(output.read_text().splitlines(keepends=True)[:-1]))
    unfinished = {key: value for key, value in meta.items() if key not in ("sha256", "decisions")}
    output.with_name("run.meta.json").write_text(json.dumps(unfinished))
    return Stub()


@pytest.mark.parametrize(
    "wishes",
    [
        {},
        {"plain": True},
        {"top_logprobs": 20},
        {"deterministic": True},
        {"quantization": "Q4", "revision": "a"},
    ],
)
def test_same_command_goes_on(make: Maker, output: Path, wishes: dict[str, Any]) -> None:
    labels = make.labels(items(3))
    with begun(labels, output, **wishes) as stub:
        before = meta_of(output)
        (recorded,) = recording(labels, output, stub.url, **wishes).run()
    assert (recorded.finished, recorded.asked) == (True, 1)
    after = meta_of(output)
    for key in ("model", "protocol", "readout", "notices"):
        assert after[key] == before[key]


@pytest.mark.parametrize(
    ("wishes", "what"),
    [
        ({"mode": "array"}, "was begun with protocol semif/1, now it is semif-array/1"),
        ({"top_logprobs": 20}, "was begun with top_logprobs as the options need, at least 8, now it is 20"),
        ({"deterministic": True}, "was begun with deterministic False, now it is True"),
    ],
)
def test_other_protocol_or_settings_are_refused(
    make: Maker, output: Path, wishes: dict[str, Any], what: str
) -> None:
    labels = make.labels(items(3))
    with begun(labels, output) as stub, pytest.raises(InputError, match=what):
        recording(labels, output, stub.url, **wishes).run()
    assert stub.requests == []
    assert len(rows_of(output)) == 2


def test_other_rule_of_reading_is_refused(make: Maker, output: Path) -> None:
    labels = make.labels(items(3))
    with begun(labels, output) as stub:
        meta = meta_of(output)
        meta["readout"]["rule"] = "letters/0"
        output.with_name("run.meta.json").write_text(json.dumps(meta))
        with pytest.raises(InputError, match="was begun with read-out letters/0, now it is letters/1"):
            recording(labels, output, stub.url).run()
    assert stub.requests == []


def test_other_declared_model_is_refused(make: Maker, tmp_path: Path, output: Path) -> None:
    labels = make.labels(items(3))
    files = [tmp_path / "one.gguf", tmp_path / "two.gguf"]
    for file in files:
        file.write_text(file.name)
    with begun(labels, output, model_file=files[0], quantization="Q4", revision="a") as stub:
        with pytest.raises(InputError) as caught:
            recording(labels, output, stub.url, model_file=files[1], quantization="Q8", revision="b").run()
        assert stub.asked == []
    for what in ("model.sha256", "model.quantization Q4, now it is Q8", "model.revision a, now it is b"):
        assert f"was begun with {what}" in str(caught.value)


def test_other_version_of_the_label_set_is_refused(make: Maker, output: Path) -> None:
    labels, others = make.labels(items(3)), make.labels([*items(2), item("q002", criterion="Other?")])
    with begun(labels, output) as stub, pytest.raises(InputError, match="was begun with label set"):
        recording(others, output, stub.url).run()


def test_other_model_is_refused_before_it_is_asked(make: Maker, output: Path) -> None:
    labels = make.labels(items(3))
    with begun(labels, output) as stub:
        stub.answer = LlamaCpp("another")
        with pytest.raises(InputError, match="was begun with model stub-model, now it is another"):
            recording(labels, output, stub.url).run()
        assert stub.asked == []


def test_other_file_under_the_same_name_is_refused(make: Maker, output: Path) -> None:
    labels = make.labels(items(3))

    class Smaller(LlamaCpp):
        def entry(self) -> dict[str, Any]:
            entry = super().entry()
            return {**entry, "meta": {**entry["meta"], "ftype": "Q2_K"}}

    with begun(labels, output) as stub:
        stub.answer = Smaller()
        with pytest.raises(InputError, match=r"was begun with model.ftype Q4_K - Medium, now it is Q2_K"):
            recording(labels, output, stub.url).run()


def test_other_answerer_behind_the_same_name_is_refused(make: Maker, output: Path) -> None:
    labels = make.labels(items(3))

    def answer(request: Request) -> Reply:
        reply = LlamaCpp()(request)
        if request.path.endswith("/chat/completions"):
            reply.body["model"] = "stub-model-2027"
        return reply

    with begun(labels, output) as stub:
        stub.answer = answer
        with pytest.raises(
            InputError, match="was begun with the model stub-model, now stub-model-2027 answers"
        ):
            recording(labels, output, stub.url).run()
    assert len(rows_of(output)) == 2


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"id": "q009"}, "q009 is no item of the label set"),
        (
            {"id": "q001", "option_ids": ["no", "yes"]},
            "q001 was recorded with the options no, yes, the label set has yes, no",
        ),
        ({"id": "q001", "messages_sha256": "0" * 64}, "q001 was asked with other messages"),
    ],
)
def test_rows_that_do_not_belong_are_refused(
    make: Maker, output: Path, row: dict[str, Any], what: str
) -> None:
    labels = make.labels(items(3))
    output.parent.mkdir(parents=True)
    output.write_text(json.dumps({"status": "error", "error": "x", **row}) + "\n")
    with Stub() as stub, pytest.raises(InputError, match=what):
        recording(labels, output, stub.url).run()
    assert stub.requests == []


def test_two_decisions_on_one_item_are_refused(make: Maker, output: Path) -> None:
    labels = make.labels(items(3))
    output.parent.mkdir(parents=True)
    found = [[0.9, 0.1], [0.9, 0.1], [0.2, 0.8]]
    lines = [
        json.dumps({"id": "q001", "option_ids": ["yes", "no"], "probabilities": values}) + "\n"
        for values in found
    ]
    output.write_text("".join(lines))
    with Stub() as stub:
        with pytest.raises(InputError, match=r"run.jsonl:3: q001 has another decision in an earlier row"):
            recording(labels, output, stub.url).run()
        assert (output.read_text(), stub.requests) == ("".join(lines), [])
        output.write_text("".join(lines[:2]))
        (recorded,) = recording(labels, output, stub.url).run()
    assert recorded.asked == 2
    assert ids_of(output) == ["q000", "q001", "q002"]


def test_names_that_no_file_can_store_leave_a_valid_run(make: Maker, output: Path) -> None:
    class Broken(LlamaCpp):
        fingerprint = "fp\ud83d"

    with Stub(Broken("stub\udc00")) as stub:
        recording(make.labels(items(2)), output, stub.url).run()
    run = load_run(output)
    assert (run.distinct("model"), run.distinct("system_fingerprint")) == (["stub\\udc00"], ["fp\\ud83d"])


def test_finished_file_that_was_changed_is_refused(make: Maker, output: Path) -> None:
    labels = make.labels(items(3))
    with Stub() as stub:
        recording(labels, output, stub.url).run()
        output.write_text(output.read_text() + "\n")
        with pytest.raises(ChecksumError, match="the sidecar describes another file"):
            recording(labels, output, stub.url).run()


def test_sidecar_that_cannot_be_written_stops_before_the_first_row(
    make: Maker, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sidecar, "write_atomic", full)
    with Stub() as stub, pytest.raises(UsageError, match=r"run.meta.json: cannot be written \(No space left"):
        recording(make.labels(items(3)), output, stub.url).run()
    assert not output.exists()


def test_array_recording_asks_once_an_evidence(make: Maker, output: Path) -> None:
    labels = make.labels([item("a", evidence="one"), item("b", evidence="two"), item("c", evidence="one")])

    def answer(request: Request) -> Reply:
        if not request.path.endswith("/chat/completions"):
            return LlamaCpp()(request)
        text = json.dumps(["B"] * len(request.question["questions"]))
        return Reply({"model": "stub-model", "choices": [{"message": {"content": text}}]})

    with Stub(answer) as stub:
        recording(labels, output, stub.url, mode="array").run()
    assert len(stub.asked) == 2
    assert [(row["id"], row["choice"], row["array_size"]) for row in rows_of(output)] == [
        ("a", "no", 2),
        ("b", "no", 1),
        ("c", "no", 2),
    ]
    assert (meta_of(output)["protocol"], meta_of(output)["readout"]["rule"]) == ("semif-array/1", "array/1")
    assert load_run(output).choice.tolist() == [1, 1, 1]


def test_array_recording_resumes_only_the_missing_items(make: Maker, output: Path) -> None:
    labels = make.labels([item("a", evidence="one"), item("b", evidence="two"), item("c", evidence="one")])

    def answer(request: Request) -> Reply:
        if not request.path.endswith("/chat/completions"):
            return LlamaCpp()(request)
        text = json.dumps(["B"] * len(request.question["questions"]))
        return Reply({"model": "stub-model", "choices": [{"message": {"content": text}}]})

    with Stub(answer) as stub:
        recording(labels, output, stub.url, mode="array").run()
        whole = output.read_text().splitlines(keepends=True)
        output.with_name("run.meta.json").unlink()
        output.write_text(whole[0] + whole[1])
        stub.requests.clear()
        (recorded,) = recording(labels, output, stub.url, mode="array").run()
    assert (recorded.asked, len(stub.asked)) == (1, 1)
    assert ids_of(output) == ["a", "b", "c"]
