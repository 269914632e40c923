"""How often the default rules of the gate fail without any difference, and how often they see a true one.

Pairs of runs are made from the shipped BF16 run on 252 items. Groups of items are drawn with replacement
within their family, so that a simulated label set is a sample like the real one. Both runs of a pair are
the same log-probabilities with independent normal noise: without a difference the two are exchangeable, so
no accuracy differs in truth and every failure is a false alarm. For a true drop the candidate's
log-probability of the label is lowered until the accuracy drops by 5 points on average. Noise that half
belongs to the group makes the items of a group change together.

The verdicts are those of :func:`evalkit.gate.judge` with gates/default.toml, through the whole gate.

    python benchmarks/false_alarms.py --write benchmarks/false_alarms.md
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evalkit import Options, Resampling, load_labels, load_run
from evalkit.catalog import Catalog
from evalkit.columns import Categorical
from evalkit.decisions import align
from evalkit.gate import Inputs, judge
from evalkit.gate.config import find_rules
from evalkit.labels import LabelSet
from evalkit.runs import Run
from evalkit.statistics import wilson

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

SEED = 20260917
RESAMPLES = 2_000
DROP = 0.05
CALIBRATION_PAIRS = 400
CHUNK = 50


@dataclass(frozen=True)
class Scenario:
    """One way in which pairs of runs differ."""

    noise: float
    """Standard deviation of the noise of a log-probability, for each run."""
    shared: float
    """Share of its variance that the items of a group have in common."""
    shift: float
    """By how much the candidate's log-probability of the label is lowered."""


@dataclass(frozen=True)
class Outcome:
    """What one pair gave."""

    failed: bool
    """The default rules failed."""
    warned: bool
    """The default rules warned of the headline figure."""
    delta: float
    """The difference of the accuracy."""
    flips: int
    """Items that turned from right to wrong or back."""


@cache
def base() -> tuple[LabelSet, Run, Floats]:
    """Return the shipped label set and run, and the log-probabilities in prompt order."""
    labels, run = load_labels("semif-252"), load_run("semif-252/bf16")
    return labels, run, np.log(align(labels, run).p)


def drawn(random: np.random.Generator) -> tuple[LabelSet, Places, Places]:
    """Draw groups with replacement within their family.

    Returns:
        The label set, the place in the shipped set of each of its items, and its group.
    """
    labels, _, _ = base()
    group, family = labels.fields["group"].codes, labels.fields["family"].codes
    chosen: list[Places] = []
    for code in range(len(labels.fields["family"].names)):
        groups = np.unique(group[family == code])
        chosen += [np.flatnonzero(group == one) for one in random.choice(groups, len(groups))]
    places = np.concatenate(chosen)
    numbers = np.repeat(np.arange(len(chosen)), [len(items) for items in chosen])
    fields = {
        "family": Categorical(labels.fields["family"].names, family[places]),
        "group": Categorical(tuple(map(str, range(len(chosen)))), numbers.astype(np.int32)),
    }
    made = replace(
        labels,
        ids=pa.array([f"{number:04}" for number in range(len(places))]),
        lines=np.arange(1, len(places) + 1),
        layout=labels.layout[places],
        gold=labels.gold[places],
        fields=fields,
        memberships={},
    )
    return made, places, numbers


def noisy(scenario: Scenario, logs: Floats, numbers: Places, random: np.random.Generator) -> Floats:
    """Add noise to log-probabilities."""
    own = random.normal(size=logs.shape)
    common = random.normal(size=(int(numbers.max()) + 1, logs.shape[1]))[numbers]
    mixed: Floats = np.sqrt(1 - scenario.shared) * own + np.sqrt(scenario.shared) * common
    return logs + scenario.noise * mixed


def run_of(labels: LabelSet, logs: Floats, name: str) -> Run:
    """Make a run of log-probabilities."""
    _, run, _ = base()
    exponentials = np.exp(logs - np.nanmax(logs, axis=1, keepdims=True))
    n = len(labels)
    return replace(
        run,
        name=name,
        sha256=name.ljust(64, "0"),
        meta={},
        ids=labels.ids,
        lines=np.arange(1, n + 1),
        status=np.zeros(n, dtype=run.status.dtype),
        layouts=labels.layouts,
        layout=labels.layout,
        p=exponentials / np.nansum(exponentials, axis=1, keepdims=True),
        choice=np.full(n, -1, dtype=np.int32),
        mass=np.full(n, np.nan),
        reasons={},
        texts={},
    )


def pair(scenario: Scenario, random: np.random.Generator) -> tuple[LabelSet, Run, Run]:
    """Make a label set and two runs on it."""
    labels, places, numbers = drawn(random)
    logs = base()[2][places]
    lowered = logs.copy()
    lowered[np.arange(len(lowered)), labels.gold] -= scenario.shift
    reference = run_of(labels, noisy(scenario, logs, numbers, random), "reference")
    return labels, reference, run_of(labels, noisy(scenario, lowered, numbers, random), "candidate")


def mean_delta(scenario: Scenario) -> float:
    """Return the difference of the accuracy on average."""
    random = np.random.default_rng([SEED, 1])
    deltas = []
    for _ in range(CALIBRATION_PAIRS):
        labels, reference, candidate = pair(scenario, random)
        before, after = (align(labels, run).correct.mean() for run in (reference, candidate))
        deltas.append(after - before)
    return float(np.mean(deltas))


def with_drop(scenario: Scenario) -> Scenario:
    """Return the scenario with the shift that makes the wanted drop, by bisection."""
    low, high = 0.0, 3.0
    for _ in range(12):
        middle = (low + high) / 2
        if mean_delta(replace(scenario, shift=middle)) > -DROP:
            low = middle
        else:
            high = middle
    return replace(scenario, shift=high)


def outcomes(scenario: Scenario, chunk: int) -> list[Outcome]:
    """Judge one chunk of pairs."""
    random = np.random.default_rng([SEED, 2, chunk])
    rules = find_rules("default", Catalog.at())
    options = Options(resampling=Resampling(resamples=RESAMPLES))
    found = []
    for _ in range(CHUNK):
        labels, reference, candidate = pair(scenario, random)
        report = judge(Inputs(candidate, rules, labels, reference, options=options))
        assert report.diff is not None
        overall = report.diff.overall
        warned = any(not result.holds for result in report.rules if result.rule.metric == "headline_delta")
        delta = overall["accuracy_delta"]["value"]
        found.append(Outcome(report.verdict != "pass", warned, delta, overall["flips"]))
    return found


def simulated(scenario: Scenario, pairs: int, pool: ProcessPoolExecutor) -> list[Outcome]:
    """Judge many pairs, the same whatever the number of processes."""
    chunks = pool.map(partial(outcomes, scenario), range(pairs // CHUNK))
    return [one for chunk in chunks for one in chunk]


def share(found: list[Outcome], test: list[bool]) -> str:
    """Write a share with its 95 % interval."""
    interval = wilson(sum(test), len(found))
    assert interval is not None
    return f"{100 * interval.value:.1f} % [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"


def row(scenario: Scenario, found: list[Outcome]) -> str:
    """Write one line of the table."""
    flips = np.mean([one.flips for one in found]) / 252
    delta = np.mean([one.delta for one in found])
    cells = [
        f"{100 * flips:.1f} %",
        "half" if scenario.shared else "none",
        f"{100 * delta:+.1f}",
        str(len(found)),
        share(found, [one.failed for one in found]),
        share(found, [one.warned for one in found]),
        share(found, [one.delta < 0 for one in found]),
        share(found, [one.delta < -0.02 for one in found]),
    ]
    return f"| {' | '.join(cells)} |"


def table(scenarios: list[Scenario], found: list[list[Outcome]]) -> str:
    """Write a table, one line a scenario."""
    head = [f"| {' | '.join(_COLUMNS)} |", f"|{'---:|' * len(_COLUMNS)}"]
    return "\n".join([*head, *map(row, scenarios, found)]) + "\n"


_COLUMNS = (
    "flips",
    "noise shared by a group",
    "true drop, points",
    "pairs",
    "**default rules fail**",
    "... warn of the headline figure",
    "`accuracy_delta >= 0` fails",
    "`accuracy_delta >= -0.02` fails",
)


_TEXT = """\
# False alarms and detection of the default rules

Made by `benchmarks/false_alarms.py` (it says how): pairs of runs on 252 items, like the shipped BF16 run with
more or less noise, judged by the whole gate with `gates/default.toml` and {resamples} resamples. In
brackets, 95 % Wilson intervals of the shares. Seed {seed}; same program, same table.

## Without any true difference

Every failure is a false alarm. The last two columns are what fixed tolerances on the estimate do with the
same pairs.

{without}
## With a true drop of 5 points

{drops}
The largest share of false alarms is {worst:.1f} %. A true drop of 5 points is seen in
{least:.0f} % to {most:.0f} % of the cases, the fewer the more the two runs differ anyway.
"""


def main() -> None:
    """Run the simulation and print or write its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--pairs", type=int, default=2000, help="pairs without a difference, in hundreds; half of it with one"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--write", type=Path, help="write the table to this file")
    given = parser.parse_args()
    if given.pairs <= 0 or given.pairs % (2 * CHUNK):
        parser.error(f"--pairs: a multiple of {2 * CHUNK} is needed")
    scenarios = [Scenario(0.1, 0, 0), Scenario(0.35, 0, 0), Scenario(0.8, 0, 0), Scenario(0.35, 0.5, 0)]
    with ProcessPoolExecutor(given.workers) as pool:
        without = [simulated(one, given.pairs, pool) for one in scenarios]
        lowered = list(pool.map(with_drop, scenarios))
        drops = [simulated(one, given.pairs // 2, pool) for one in lowered]
    rates = [100 * np.mean([one.failed for one in found]) for found in without]
    seen = [100 * np.mean([one.failed for one in found]) for found in drops]
    text = _TEXT.format(
        resamples=RESAMPLES,
        seed=SEED,
        without=table(scenarios, without),
        drops=table(lowered, drops),
        worst=max(rates),
        least=min(seen),
        most=max(seen),
    )
    if given.write:
        given.write.write_text(text, "utf-8")
    print(text)


if __name__ == "__main__":
    main()
