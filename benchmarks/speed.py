"""Measure evalkit beside a plain script and beside parsing alone: python benchmarks/speed.py.

Every program runs in a process of its own. A round runs each of them once, in an order that changes from
round to round, and a ratio is the median over the rounds of the ratio within a round: what slows the whole
machine down slows both down.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from made_up import FILES

HERE = Path(__file__).parent
README = HERE / "README.md"
MARKS = ("<!-- measured: begin -->", "<!-- measured: end -->")
PACKAGES = ("numpy", "pyarrow", "pandas", "scikit-learn")
MIB = 2**20

EVALKIT = "evalkit"
PARSE = "pyarrow.json, parsing only"
PLAIN = "pandas + scikit-learn"
NOTHING = "python, no import"
IMPORTS = "python, importing numpy and pyarrow.json"


@dataclass
class Program:
    """A command line, and what its runs took."""

    name: str
    command: Sequence[str]
    seconds: list[float] = field(default_factory=list)
    peaks: list[int] = field(default_factory=list)
    """Largest resident sizes, in bytes."""

    def run(self, folder: Path) -> None:
        start = time.perf_counter()
        with subprocess.Popen(self.command, cwd=folder, stdout=subprocess.DEVNULL) as child:
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise SystemExit(f"failed with {child.returncode}: {' '.join(self.command)}")
        self.seconds.append(time.perf_counter() - start)
        self.peaks.append(usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))


@dataclass
class Comparison:
    """Programs that do the same with the same files; the first one is evalkit."""

    title: str
    programs: list[Program]
    files: Sequence[Path] = ()

    def round(self, number: int, folder: Path) -> None:
        turn = number % len(self.programs)
        order = self.programs[turn:] + self.programs[:turn]
        for program in order if number % 2 else order[::-1]:
            program.run(folder)
            print(f"{self.title}: {program.name}: {program.seconds[-1]:.2f} s", file=sys.stderr)

    def ratio(self, name: str) -> tuple[float, float, float]:
        """Return the median, least and largest ratio of evalkit's time to that of a program."""
        other = next(program for program in self.programs if program.name == name)
        ratios = [ours / theirs for ours, theirs in zip(self.programs[0].seconds, other.seconds, strict=True)]
        return statistics.median(ratios), min(ratios), max(ratios)

    @property
    def seconds(self) -> float:
        return statistics.median(self.programs[0].seconds)

    @property
    def peak(self) -> float:
        return statistics.median(self.programs[0].peaks)

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(path.stat().st_size for path in self.files)

    def table(self) -> str:
        sizes = " + ".join(f"{path.name} {path.stat().st_size / MIB:.0f}" for path in self.files)
        read = f", reading {sizes} = {self.size / MIB:.0f} MiB" if self.files else ""
        header = ["", "seconds", "least to most", "evalkit / this", "peak MiB", "peak / files"]
        rows = []
        for program in self.programs:
            peak = statistics.median(program.peaks)
            middle, least, most = self.ratio(program.name)
            rows.append(
                [
                    program.name,
                    f"{statistics.median(program.seconds):.2f}",
                    f"{min(program.seconds):.2f} to {max(program.seconds):.2f}",
                    f"{middle:.2f} ({least:.2f} to {most:.2f})" if program.name != EVALKIT else "",
                    f"{peak / MIB:.0f}",
                    f"{peak / self.size:.2f}" if self.files else "",
                ]
            )
        return f"**{self.title}**{read}\n\n{markdown(header, rows)}"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def comparisons(folder: Path) -> tuple[Comparison, Comparison, Comparison, Comparison]:
    python = sys.executable
    evalkit = [python, "-m", "evalkit"]
    files = [folder / name for name in FILES]

    def big(command: str, count: int) -> Comparison:
        labels, *runs = data = [str(path) for path in files[:count]]
        programs = [
            Program(EVALKIT, [*evalkit, command, *runs, "--labels", labels]),
            Program(PARSE, [python, str(HERE / "parse_only.py"), *data]),
            Program(PLAIN, [python, str(HERE / "plain_script.py"), *data]),
        ]
        return Comparison(f"evalkit {command}", programs, files[:count])

    def small(arguments: Sequence[str], beside: Program) -> Comparison:
        return Comparison(
            f"evalkit {' '.join(arguments)}", [Program(EVALKIT, [*evalkit, *arguments]), beside]
        )

    return (
        big("score", 2),
        big("diff", 3),
        small(["diff", "bf16", "q4"], Program(IMPORTS, [python, "-c", "import numpy, pyarrow.json"])),
        small(["--help"], Program(NOTHING, [python, "-c", ""])),
    )


def resampling_seconds() -> float:
    command = [sys.executable, str(HERE / "resampling.py")]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def against_aims(found: tuple[Comparison, Comparison, Comparison, Comparison], resampling: float) -> str:
    score, diff, small, usage = found
    run_file = score.files[1].stat().st_size
    rows = []

    def aim(what: str, wanted: str, value: float, met: bool, unit: str = "") -> None:
        rows.append([what, wanted, f"{value:.2f}{unit}", "yes" if met else "**no**"])

    for one in (score, diff):
        parsing, faster = one.ratio(PARSE)[0], 1 / one.ratio(PLAIN)[0]
        aim(f"{one.title}: time / parsing its files", "at most 2.0", parsing, parsing <= 2)
        aim(f"{one.title}: times faster than the plain script", "at least 8", faster, faster >= 8)
        for what, size in (("the files it reads", one.size), ("one run file", run_file)):
            peak = one.peak / size
            aim(f"{one.title}: peak memory / {what}", "at most 4", peak, peak <= 4)
    aim("evalkit diff: all of it, with intervals", "under 6 s", diff.seconds, diff.seconds < 6, " s")
    aim("10,000 clustered resamples of 252 items", "under 0.3 s", resampling, resampling < 0.3, " s")
    aim(f"{small.title}: all of it", "at most 0.6 s", small.seconds, small.seconds <= 0.6, " s")
    aim(f"{usage.title}: all of it", "under 0.2 s", usage.seconds, usage.seconds < 0.2, " s")
    return markdown(["", "aim", "measured", "met"], rows)


def facts(given: argparse.Namespace) -> str:
    grouped = f"in groups of {given.group_size}" if given.group_size > 1 else "without groups"
    order = "the candidate in another order" if given.shuffle else "all files in one order"
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"{given.items:,} items {grouped}, {order}; {given.rounds} rounds. {os.cpu_count()} cores "
        f"({platform.system()} {platform.machine()}), Python {platform.python_version()}, {packages}."
    )


def measure(folder: Path, given: argparse.Namespace) -> str:
    print(f"writing files of {given.items:,} items to {folder}", file=sys.stderr)
    make = [sys.executable, str(HERE / "made_up.py"), str(folder), "--items", str(given.items)]
    make += ["--group-size", str(given.group_size), *(["--shuffle"] if given.shuffle else [])]
    # In a process of its own: the peak that the system reports for a child starts from its parent's size.
    subprocess.run(make, check=True)
    found = comparisons(folder)
    for number in range(given.rounds):
        for comparison in found:
            comparison.round(number, folder)
    tables = [comparison.table() for comparison in found]
    return "\n\n".join([facts(given), against_aims(found, resampling_seconds()), *tables])


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure evalkit beside a plain script and parsing alone.")
    parser.add_argument("--items", type=int, default=1_000_000, help="items a file (default: 1,000,000)")
    parser.add_argument("--rounds", type=int, default=5, help="runs of every program (default: 5)")
    parser.add_argument("--group-size", type=int, default=1, help="items a group (default: 1, no groups)")
    parser.add_argument("--shuffle", action="store_true", help="write the candidate in another order")
    parser.add_argument("--folder", type=Path, help="where the files go (default: a temporary folder)")
    parser.add_argument("--write", action="store_true", help="put the tables into benchmarks/README.md")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="evalkit-speed-") as temporary:
        text = measure(given.folder or Path(temporary), given)
    print(text)
    if given.write:
        before, _, rest = README.read_text("utf-8").partition(MARKS[0])
        after = rest.partition(MARKS[1])[2]
        README.write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{after}", "utf-8")


if __name__ == "__main__":
    main()
