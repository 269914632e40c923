"""How fast the recorder is, against a bare loop with the same HTTP library, and how much memory it takes.

Usage: ``python benchmarks/recorder.py [--items 10000] [--concurrency 64] [--rounds 3]``

A stub server in a process of its own answers at once. Both sides send the same bodies to it over the same
number of connections; the bare loop only parses each answer as JSON. The two take turns, so that other work
on the machine hits both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx2

from evalkit.labels import LabelSet, load_label_file
from evalkit.record.items import read_items
from evalkit.record.progress import Silent
from evalkit.record.protocol import RequestOptions, make_prompt, request_body
from evalkit.record.recording import Recording, Wishes

STUB = Path(__file__).parent.parent / "tests" / "stub_server.py"
MODEL = "stub-model"
FLOOR, SHARE, MOST_MIB = 1000, 0.7, 300
"""What is promised: so many decisions a second, or this share of the bare loop; and this much memory."""


def write_labels(path: Path, items: int) -> None:
    """Write a label set of made-up items, about as long as news items are."""
    options = [{"id": "A", "description": "yes, it does"}, {"id": "B", "description": "no, it does not"}]
    with path.open("w", encoding="utf-8") as file:
        for number in range(items):
            evidence = f"Report {number}: " + "the committee met again and put the question off. " * 8
            item = {
                "id": f"i{number:07}",
                "evidence": evidence,
                "criterion": "Did they decide?",
                "options": options,
            }
            file.write(json.dumps({**item, "label": "B"}) + "\n")


def bodies(labels: LabelSet) -> list[bytes]:
    """Return the bodies that the recorder sends."""
    options = RequestOptions(MODEL)
    prompts = (make_prompt(item) for _, item in read_items(labels))
    return [json.dumps(request_body(prompt, options), ensure_ascii=False).encode() for prompt in prompts]


async def bare(url: str, contents: list[bytes], concurrency: int) -> None:
    """Send bodies and parse the answers, nothing else."""
    limits = httpx2.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    left = iter(contents)
    async with httpx2.AsyncClient(limits=limits, timeout=60, trust_env=False) as client:

        async def work() -> None:
            for content in left:
                response = await client.post(
                    f"{url}/chat/completions", content=content, headers={"Content-Type": "application/json"}
                )
                json.loads(response.content)

        await asyncio.gather(*(work() for _ in range(concurrency)))


def one_side(side: str, url: str, labels_path: Path, concurrency: int) -> None:
    """Run one side in this process, and print decisions a second and the peak of its memory."""
    labels = load_label_file(labels_path)
    if side == "bare":
        contents = bodies(labels)
        start, busy = time.perf_counter(), time.process_time()
        asyncio.run(bare(url, contents, concurrency))
    else:
        with tempfile.TemporaryDirectory() as folder:
            wishes = Wishes(output=Path(folder) / "run.jsonl", base_url=url, concurrency=concurrency)
            start, busy = time.perf_counter(), time.process_time()
            Recording(labels, wishes, Silent()).run()
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"rate": len(labels) / seconds, "busy": busy / len(labels) * 1e3, "mib": peak}))


def measure(side: str, url: str, labels_path: Path, concurrency: int) -> dict[str, float]:
    """Run one side in a fresh process."""
    command = [sys.executable, __file__, "--side", side, "--url", url, "--labels", str(labels_path)]
    command += ["--concurrency", str(concurrency)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def compare(items: int, concurrency: int, rounds: int) -> None:
    """Let both sides take turns, and print a table."""
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen([sys.executable, str(STUB)], stdout=subprocess.PIPE, text=True) as stub,
    ):
        try:
            assert stub.stdout is not None
            url = stub.stdout.readline().strip()
            labels_path = Path(folder) / "labels.jsonl"
            write_labels(labels_path, items)
            found: dict[str, list[dict[str, float]]] = {"bare": [], "recorder": []}
            for _ in range(rounds):
                for side, results in found.items():
                    results.append(measure(side, url, labels_path, concurrency))
        finally:
            stub.terminate()
    report(found, items, concurrency)


def report(found: dict[str, list[dict[str, float]]], items: int, concurrency: int) -> None:
    """Print what was measured, as the table of recorder.md."""
    print(f"{items} items, concurrency {concurrency}, {len(found['bare'])} rounds\n")
    print("| side | decisions/s, median | best | CPU ms a decision, median | peak memory, MiB |")
    print("|---|---|---|---|---|")
    for side, results in found.items():
        rates = [result["rate"] for result in results]
        busy = statistics.median(result["busy"] for result in results)
        memory = max(result["mib"] for result in results)
        print(f"| {side} | {statistics.median(rates):.0f} | {max(rates):.0f} | {busy:.2f} | {memory:.0f} |")
    pairs = list(zip(found["recorder"], found["bare"], strict=True))
    ratios = [ours["rate"] / bare["rate"] for ours, bare in pairs]
    share, rate = statistics.median(ratios), statistics.median(ours["rate"] for ours, _ in pairs)
    kept = (rate >= FLOOR or share >= SHARE) and max(ours["mib"] for ours, _ in pairs) <= MOST_MIB
    of_cpu = statistics.median(bare["busy"] / ours["busy"] for ours, bare in pairs)
    print(f"\nShare of the bare loop's rate: {share:.2f} ({', '.join(f'{ratio:.2f}' for ratio in ratios)})")
    print(f"The bare loop's CPU time as a share of the recorder's: {of_cpu:.2f}")
    promise = f"{FLOOR}/s or {SHARE:.0%} of the bare loop, at most {MOST_MIB} MiB"
    print(f"Promise kept ({promise}): {'yes' if kept else 'no'}")


def main() -> None:
    """Measure both sides, or be one of them."""
    parser = argparse.ArgumentParser(description="Measure the recorder against a bare loop.")
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", choices=["bare", "recorder"])
    parser.add_argument("--url")
    parser.add_argument("--labels", type=Path)
    asked = parser.parse_args()
    if asked.side:
        one_side(asked.side, asked.url, asked.labels, asked.concurrency)
    else:
        compare(asked.items, asked.concurrency, asked.rounds)


if __name__ == "__main__":
    main()
