"""Recording from a real llama.cpp server on a real small model.

These tests need a model of 491 MB and take minutes, so the plain test command deselects them by their marker
and ``.ci/run`` runs them after it: ``EVALKIT_REAL_MODEL=$(python scripts/fetch_model.py) python -m pytest -m
real tests/real``, with the extra ``llamacpp`` installed.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Evalkit
from tests.acceptance.test_record import ended, started, wait_for_rows
from tests.real.models import ALIAS, KEY, Served, real_model, served
from tests.unit.asking import ids_of, meta_of, rows_of

pytestmark = pytest.mark.real

SET = "graduate-18@v2"
LABELS = Path(__file__).parents[2] / "labels" / "graduate-18" / "v2.jsonl"
WITH_KEY = {"EVALKIT_API_KEY": KEY}
FEW = 3
PATIENCE = 900.0
"""Seconds: a busy machine may take half a minute for a decision."""


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    """Return a real server."""
    with served(real_model()) as found:
        yield found


@pytest.fixture(scope="module")
def evalkit() -> Evalkit:
    """Return what runs evalkit as a process."""
    return Evalkit()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of all recordings."""
    return tmp_path_factory.mktemp("real")


def arguments(server: Served, name: str, *more: str, labels: str = SET) -> list[str]:
    """Return the arguments of a repeatable recording."""
    words = [
        "record",
        "--base-url",
        server.url,
        "--labels",
        labels,
        "--output",
        f"runs/graduate-18/{name}.jsonl",
    ]
    return [*words, "--no-timings", "--deterministic", *more]


@pytest.fixture(scope="module")
def whole(server: Served, evalkit: Evalkit, folder: Path) -> Path:
    """Return a recording of all 18 items."""
    ran = evalkit(arguments(server, "whole"), folder, WITH_KEY)
    assert ran.code == 0, ran.stderr
    return folder / "runs" / "graduate-18" / "whole.jsonl"


def test_recording_holds_decisions_and_says_what_answered(whole: Path) -> None:
    rows, meta = rows_of(whole), meta_of(whole)
    assert [row["id"] for row in rows] == [
        json.loads(line)["id"] for line in LABELS.read_text("utf-8").splitlines()
    ]
    for row in rows:
        assert sum(row["probabilities"]) == pytest.approx(1)
        # Nine tenths of the mass of this model are on A and B.
        assert row["allowed_token_mass"] > 0.5
        assert (row["model"], row["cached_tokens"]) == (ALIAS, 0)
        assert row["input_tokens"] > 100
    assert (meta["runtime"]["name"], meta["model"]["served"]["owned_by"]) == ("llama.cpp", "llamacpp")
    assert meta["recorded"]["options"]["cache_prompt"] is False
    assert KEY not in whole.read_text("utf-8") + json.dumps(meta)


@pytest.fixture(scope="module")
def resumed(server: Served, evalkit: Evalkit, folder: Path) -> Path:
    """Return a recording of all 18 items that was killed in the middle and continued."""
    broken = folder / "runs" / "graduate-18" / "resumed.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVALKIT_API_KEY", KEY)
        process = started(folder, *arguments(server, "resumed"))
    wait_for_rows(broken, 6, PATIENCE)
    process.send_signal(signal.SIGKILL)
    ended(process)
    kept = len(ids_of(broken))
    assert 6 <= kept < 18
    ran = evalkit(arguments(server, "resumed"), folder, WITH_KEY)
    assert ran.code == 0, ran.stderr
    assert f"18 of 18 decisions, {18 - kept} of them new" in ran.stderr
    return broken


def test_recording_that_was_killed_and_resumed_is_the_same_to_the_byte(whole: Path, resumed: Path) -> None:
    assert resumed.read_bytes() == whole.read_bytes()


def test_diff_of_two_repeatable_recordings_finds_nothing(
    evalkit: Evalkit, folder: Path, whole: Path, resumed: Path
) -> None:
    report = evalkit(f"diff {whole.stem} {resumed.stem} --format json", folder).json()
    assert report["overall"]["compared"] == 18
    assert report["overall"]["changed_choices"] == 0
    assert report["overall"]["max_probability_shift"]["value"] == 0


def test_engine_in_process_gives_the_digits_of_the_server(
    evalkit: Evalkit, folder: Path, whole: Path
) -> None:
    few = folder / "few.jsonl"
    few.write_text("".join(LABELS.read_text("utf-8").splitlines(keepends=True)[:FEW]), "utf-8")
    words = [
        "record",
        "--backend",
        "llamacpp",
        "--model",
        str(real_model()),
        "--threads",
        "1",
        "--context",
        "2048",
    ]
    ran = evalkit([*words, "--labels", "few.jsonl", "--output", "runs/few/here.jsonl"], folder)
    assert ran.code == 0, ran.stderr
    rows = rows_of(folder / "runs" / "few" / "here.jsonl")
    assert len(rows) == FEW
    for ours, theirs in zip(rows, rows_of(whole), strict=False):
        assert len(ours["prompt_sha256"]) == 64
        for name in ("id", "probabilities", "allowed_token_mass", "messages_sha256", "input_tokens"):
            assert ours[name] == theirs[name]
    assert len(meta_of(folder / "runs" / "few" / "here.jsonl")["model"]["sha256"]) == 64


@pytest.mark.parametrize(
    ("key", "more", "words"),
    [
        ("", (), "put its API key into EVALKIT_API_KEY"),
        ("sk-wrong", (), "it does not accept the key in EVALKIT_API_KEY"),
        (
            KEY,
            ("--model", "other"),
            f"asked for the model 'other', but '{ALIAS}' answers; the server has {ALIAS}",
        ),
    ],
)
def test_refusals_of_the_real_server_are_explained(
    server: Served, evalkit: Evalkit, folder: Path, key: str, more: tuple[str, ...], words: str
) -> None:
    ran = evalkit(arguments(server, "refused", *more), folder, {"EVALKIT_API_KEY": key})
    assert ran.code == 3
    assert words in ran.stderr
    assert not (folder / "runs" / "graduate-18" / "refused.jsonl").exists()


def test_prompt_beyond_the_context_is_explained(server: Served, evalkit: Evalkit, folder: Path) -> None:
    item: dict[str, Any] = json.loads(LABELS.read_text("utf-8").splitlines()[0])
    (folder / "long.jsonl").write_text(json.dumps({**item, "evidence": "one more word " * 5000}) + "\n")
    ran = evalkit(arguments(server, "long", labels="long.jsonl"), folder, WITH_KEY)
    assert ran.code == 3
    assert f"item {item['id']}: the server refuses: HTTP 400:" in ran.stderr
    assert "start the server with a longer context" in ran.stderr


def test_server_that_is_killed_leaves_a_valid_run(
    evalkit: Evalkit, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVALKIT_API_KEY", KEY)
    output = folder / "runs" / "graduate-18" / "orphan.jsonl"
    with served(real_model()) as server:
        process = started(folder, *arguments(server, "orphan", "--retries", "1"))
        wait_for_rows(output, 2, PATIENCE)
        server.process.kill()
        ran = ended(process)
    assert ran.code == 3
    assert "the same command continues" in ran.stderr
    assert {row.get("status") for row in rows_of(output)} == {None}
    assert evalkit("score graduate-18/orphan", folder).code == 0
