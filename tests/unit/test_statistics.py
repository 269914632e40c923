"""Statistics against other programs, against exact arithmetic and against their own laws."""

from __future__ import annotations

import ast
import inspect
import math
import random
import sys
import tracemalloc
from dataclasses import FrozenInstanceError
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.stats  # type: ignore[import-untyped,unused-ignore]
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from statsmodels.regression.linear_model import OLS  # type: ignore[import-untyped,unused-ignore]
from statsmodels.stats.contingency_tables import mcnemar  # type: ignore[import-untyped,unused-ignore]
from statsmodels.stats.multitest import multipletests  # type: ignore[import-untyped,unused-ignore]
from statsmodels.stats.proportion import (  # type: ignore[import-untyped,unused-ignore]
    confint_proportions_2indep,
    proportion_confint,
)

from evalkit import statistics
from evalkit.statistics import (
    Interval,
    detectable_difference,
    holm,
    mcnemar_exact,
    mean_standard_error,
    mover,
    paired_sample_size,
    percentile_interval,
    quantile_ladder,
    resample_counts,
    wilson,
)

LEVELS = st.floats(0.01, 0.999)
SHARES = st.floats(0.001, 1)
BAD_LEVELS = [0, 1, -0.1, 95, math.nan]


def ints(*values: int) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def floats(*values: float) -> NDArray[np.float64]:
    return np.array(values, dtype=np.float64)


def known(interval: Interval | None) -> Interval:
    assert interval is not None
    return interval


def assert_near(interval: Interval, expected: tuple[float, float, float], tolerance: float = 1e-12) -> None:
    assert [interval.value, interval.low, interval.high] == pytest.approx(
        expected, rel=tolerance, abs=tolerance
    )


def test_module_imports_only_numpy_and_the_standard_library() -> None:
    nodes = list(ast.walk(ast.parse(inspect.getsource(statistics))))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= {"numpy", *sys.stdlib_module_names}


def test_interval_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Interval(0.5, 0.4, 0.6).value = 1.0  # type: ignore[misc]


# wilson


@pytest.mark.parametrize(("successes", "n"), [(0, 1), (1, 1), (0, 18), (18, 18), (7, 18), (999_999, 10**6)])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_wilson_agrees_with_statsmodels(successes: int, n: int, level: float) -> None:
    low, high = proportion_confint(successes, n, alpha=1 - level, method="wilson")
    assert_near(known(wilson(successes, n, level)), (successes / n, low, high))


def test_wilson_published_example() -> None:
    # Newcombe (1998), Statistics in Medicine 17:857-872, table I, method 3: 81/263, 15/148, 0/20, 1/29
    rows = [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0, 0.1611), (1, 29, 0.0061, 0.1718)]
    for successes, n, low, high in rows:
        assert_near(known(wilson(successes, n)), (successes / n, low, high), 6e-5)


def test_wilson_without_items_is_none() -> None:
    assert wilson(0, 0) is None


@given(st.data())
def test_wilson_contains_the_value_within_zero_and_one(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 10**9))
    successes, level = data.draw(st.integers(0, n)), data.draw(LEVELS)
    interval = known(wilson(successes, n, level))
    assert 0 <= interval.low <= interval.value <= interval.high <= 1
    mirror = known(wilson(n - successes, n, level))
    assert mirror.low == pytest.approx(1 - interval.high, abs=1e-12)


def test_wilson_reaches_the_ends_exactly() -> None:
    for n in range(1, 200):
        assert known(wilson(0, n)).low == 0.0
        assert known(wilson(n, n)).high == 1.0


def test_wilson_with_a_level_next_to_one_stays_finite() -> None:
    interval = known(wilson(3, 10, math.nextafter(1, 0)))
    assert 0 < interval.low < 0.3 < interval.high < 1


def test_wilson_accepts_numpy_counts() -> None:
    assert wilson(np.uint8(200), np.uint8(250)) == wilson(200, 250)  # type: ignore[arg-type]


@pytest.mark.parametrize(("successes", "n"), [(-1, 5), (6, 5), (0, -1), (2.5, 5), (1, 5.0), ("1", 5)])
def test_wilson_with_bad_counts_raises(successes: Any, n: Any) -> None:
    with pytest.raises(ValueError, match=r"whole number|must not exceed"):
        wilson(successes, n)


@pytest.mark.parametrize("level", BAD_LEVELS)
def test_wilson_with_a_bad_level_raises(level: float) -> None:
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        wilson(1, 2, level)


# mcnemar_exact


def exact_p(b: int, c: int) -> Fraction:
    n = b + c
    return min(Fraction(1), Fraction(2 * sum(math.comb(n, k) for k in range(min(b, c) + 1)), 2**n))


def test_mcnemar_exact_agrees_with_exact_arithmetic() -> None:
    for n in [*range(60), 333, 1000]:
        for b in range(0, n + 1, 1 + n // 60):
            expected = exact_p(b, n - b)
            if expected > sys.float_info.min:
                assert abs(Fraction(mcnemar_exact(b, n - b)) / expected - 1) < 1e-12


@pytest.mark.parametrize(("b", "c"), [(0, 1), (1, 5), (5, 1), (3, 3), (10, 25), (0, 12)])
def test_mcnemar_exact_agrees_with_statsmodels_and_scipy(b: int, c: int) -> None:
    table = [[20, b], [c, 30]]
    assert mcnemar_exact(b, c) == pytest.approx(mcnemar(table, exact=True).pvalue, rel=1e-12)
    assert mcnemar_exact(b, c) == pytest.approx(scipy.stats.binomtest(b, b + c).pvalue, rel=1e-12)


@pytest.mark.parametrize(
    ("b", "c"), [(4900, 5100), (499_000, 501_000), (490_000, 510_000), (499_999, 500_001)]
)
def test_mcnemar_exact_with_many_pairs_agrees_with_scipy(b: int, c: int) -> None:
    assert mcnemar_exact(b, c) == pytest.approx(2 * scipy.stats.binom.cdf(b, b + c, 0.5), rel=1e-9)


def test_mcnemar_exact_without_discordant_pairs_is_one() -> None:
    assert mcnemar_exact(0, 0) == 1.0


@pytest.mark.parametrize(("b", "c"), [(0, 1), (4, 4), (4, 5), (500_000, 500_000), (499_999, 500_000)])
def test_mcnemar_exact_with_balanced_pairs_is_one(b: int, c: int) -> None:
    assert mcnemar_exact(b, c) == 1.0


@pytest.mark.parametrize(("b", "c"), [(0, 1100), (0, 10**6), (200_000, 800_000)])
def test_mcnemar_exact_is_never_zero(b: int, c: int) -> None:
    assert mcnemar_exact(b, c) == sys.float_info.min


@given(st.integers(0, 5000), st.integers(0, 5000))
@settings(deadline=None)
def test_mcnemar_exact_is_symmetric_and_at_most_one(b: int, c: int) -> None:
    p = mcnemar_exact(b, c)
    assert p == mcnemar_exact(c, b)
    assert sys.float_info.min <= p <= 1
    assert mcnemar_exact(min(b, c), max(b, c) + 1) <= p * (1 + 1e-12)


@pytest.mark.parametrize(("b", "c"), [(-1, 2), (2, -1), (1.5, 2), (math.nan, 1)])
def test_mcnemar_exact_with_bad_counts_raises(b: Any, c: Any) -> None:
    with pytest.raises(ValueError, match="must be a whole number of at least 0"):
        mcnemar_exact(b, c)


# resample_counts


def naive_bootstrap(
    cells: list[int], groups: list[int], strata: list[int], n_cells: int, *, resamples: int, seed: int
) -> NDArray[np.float64]:
    """Draw groups one by one, as the definition says."""
    members: dict[int, list[int]] = {}
    for item, group in enumerate(groups):
        members.setdefault(group, []).append(item)
    pools: dict[frozenset[int], list[int]] = {}
    for group, items in members.items():
        pools.setdefault(frozenset(strata[item] for item in items), []).append(group)
    generator = random.Random(seed)
    counts = np.zeros((resamples, n_cells))
    for row in counts:
        for pool in pools.values():
            for group in generator.choices(pool, k=len(pool)):
                for item in members[group]:
                    row[cells[item]] += 1
    return counts


CELLS = [0, 0, 1, 2, 0, 1, 1, 3, 0, 0, 2, 2, 3, 1, 0, 1, 2, 0, 1, 0]
GROUPS = [5, 5, 5, 9, 9, 1, 1, 1, 7, 7, 2, 2, 2, 3, 3, 3, 4, 4, 4, 8]
STRATA = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 1, 1, 0, 1, 1, 4]  # groups 3 and 4 span two strata


def assert_same_moments(one: NDArray[np.float64], other: NDArray[np.float64]) -> None:
    sd, error = other.std(axis=0), np.sqrt(1 / len(one) + 1 / len(other))
    assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) <= 5 * sd * error + 1e-9).all()
    assert (np.abs(one.std(axis=0) - sd) <= 6 * sd * error + 1e-9).all()
    scale = np.outer(sd, sd)
    assert (np.abs(np.cov(one.T) - np.cov(other.T)) <= 10 * scale * error + 1e-9).all()


@pytest.mark.parametrize("stratified", [True, False])
@pytest.mark.parametrize("grouped", [True, False])
def test_resample_counts_agrees_with_a_naive_bootstrap(
    monkeypatch: pytest.MonkeyPatch, *, stratified: bool, grouped: bool
) -> None:
    groups = GROUPS if grouped else list(range(len(CELLS)))
    strata = STRATA if stratified else [0] * len(CELLS)
    naive = naive_bootstrap(CELLS, groups, strata, 5, resamples=4000, seed=4)
    for block in (10, 30, statistics._BLOCK):  # the small ones split the profiles and the resamples
        monkeypatch.setattr(statistics, "_BLOCK", block)
        counts = resample_counts(
            ints(*CELLS),
            ints(*GROUPS) if grouped else None,
            ints(*STRATA) if stratified else None,
            5,
            resamples=4000,
            seed=3,
        )
        assert_same_moments(counts, naive)


def test_resample_counts_follows_the_binomial() -> None:
    # two groups with two profiles: the first is drawn 0, 1 or 2 times with chances 1/4, 1/2, 1/4
    counts = resample_counts(ints(0, 0, 1), ints(0, 0, 1), None, 2, resamples=20_000, seed=0)
    outcomes, observed = np.unique(counts, axis=0, return_counts=True)
    assert outcomes.tolist() == [[0, 2], [2, 1], [4, 0]]
    assert scipy.stats.chisquare(observed, [5000, 10_000, 5000]).pvalue > 1e-4


def test_resample_counts_keeps_profiles_with_equal_cells_apart() -> None:
    # both groups hold cells 0 and 1, but not equally often
    counts = resample_counts(ints(0, 0, 1, 0, 1, 1), ints(0, 0, 0, 1, 1, 1), None, 2, resamples=200, seed=0)
    assert set(counts[:, 0]) == {2, 3, 4}
    assert (counts.sum(axis=1) == 6).all()


def test_resample_counts_draws_a_spanning_group_only_among_its_like() -> None:
    cells, groups, strata = ints(0, 0, 1, 1, 2, 3), ints(0, 0, 1, 1, 2, 3), ints(0, 1, 1, 0, 0, 1)
    counts = resample_counts(cells, groups, strata, 4, resamples=300, seed=0)
    assert (counts[:, 0] + counts[:, 1] == 4).all()  # groups 0 and 1 span {0, 1}
    assert (counts[:, 2:] == 1).all()  # groups 2 and 3 are alone in theirs
    assert set(counts[:, 0]) == {0, 2, 4}


@st.composite
def samples(draw: st.DrawFn) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    n = draw(st.integers(1, 30))
    cells = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    groups = draw(st.lists(st.integers(-3, 5), min_size=n, max_size=n))
    strata = draw(st.lists(st.integers(-1, 2), min_size=n, max_size=n))
    return ints(*cells), ints(*groups), ints(*strata)


@given(samples(), st.randoms(use_true_random=False), st.booleans(), st.booleans())
@settings(deadline=None, max_examples=60)
def test_resample_counts_ignores_the_item_order(
    sample: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    shuffler: random.Random,
    grouped: bool,
    stratified: bool,
) -> None:
    cells, groups, strata = sample
    order = shuffler.sample(range(cells.size), cells.size)
    results = [
        resample_counts(c, g if grouped else None, s if stratified else None, 5, resamples=20, seed=1)
        for c, g, s in [(cells, groups, strata), (cells[order], groups[order], strata[order])]
    ]
    assert results[0].tobytes() == results[1].tobytes()


@given(samples())
@settings(deadline=None, max_examples=60)
def test_resample_counts_ignores_the_names_of_groups(
    sample: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
) -> None:
    cells, groups, strata = sample
    one = resample_counts(cells, groups, strata, 5, resamples=20, seed=1)
    other = resample_counts(cells, 1000 - 7 * groups, strata, 5, resamples=20, seed=1)
    assert one.tobytes() == other.tobytes()


@given(samples())
@settings(deadline=None, max_examples=60)
def test_resample_counts_without_groups_equals_groups_of_one(
    sample: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
) -> None:
    cells, _, strata = sample
    one = resample_counts(cells, None, strata, 5, resamples=20, seed=1)
    other = resample_counts(cells, np.arange(cells.size), strata, 5, resamples=20, seed=1)
    assert one.tobytes() == other.tobytes()


@given(samples())
@settings(deadline=None, max_examples=60)
def test_resample_counts_conserves_each_stratum_of_single_items(
    sample: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
) -> None:
    cells, _, strata = sample
    coded = cells + 5 * (strata + 1)
    counts = resample_counts(coded, None, strata, 20, resamples=20, seed=1).reshape(20, 4, 5)
    assert (counts.sum(axis=2) == np.bincount(strata + 1, minlength=4)).all()


def test_resample_counts_conserves_the_total_of_equal_groups() -> None:
    cells = np.random.default_rng(0).integers(0, 12, 252)
    counts = resample_counts(cells, np.arange(252) // 7, None, 12, resamples=500, seed=0)
    assert counts.shape == (500, 12)
    assert counts.dtype == np.float64
    assert (counts.sum(axis=1) == 252).all()


def test_resample_counts_expects_the_observed_counts() -> None:
    generator = np.random.default_rng(5)
    cells, groups, strata = (generator.integers(0, high, 3000) for high in (8, 400, 3))
    counts = resample_counts(cells, groups, strata, 8, resamples=5000, seed=0)
    error = counts.std(axis=0) / math.sqrt(5000)
    assert (np.abs(counts.mean(axis=0) - np.bincount(cells)) < 5 * error).all()


def test_resample_counts_with_one_group_repeats_the_observed_counts() -> None:
    counts = resample_counts(ints(0, 2, 2), ints(1, 1, 1), None, 3, resamples=4, seed=0)
    assert counts.tolist() == [[1, 0, 2]] * 4


def test_resample_counts_is_deterministic_and_depends_on_the_seed() -> None:
    def draw(seed: int) -> bytes:
        counts = resample_counts(ints(*CELLS), ints(*GROUPS), ints(*STRATA), 4, resamples=50, seed=seed)
        return counts.tobytes()

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_resample_counts_does_not_depend_on_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    def draw() -> bytes:
        counts = resample_counts(ints(*CELLS), ints(*GROUPS), None, 4, resamples=101, seed=1)
        return counts.tobytes()

    whole = draw()
    monkeypatch.setattr(statistics, "_BLOCK", 40)  # one block of profiles, 5 resamples a chunk
    assert draw() == whole


def test_resample_counts_accepts_any_integer_type() -> None:
    plain = resample_counts(ints(*CELLS), ints(*GROUPS), ints(*STRATA), 4, resamples=20, seed=1)
    cells, groups, strata = np.array(CELLS, np.uint8), np.array(GROUPS, np.uint64), np.array(STRATA, np.int16)
    assert (resample_counts(cells, groups, strata, 4, resamples=20, seed=1) == plain).all()


def test_resample_counts_leaves_its_input_alone() -> None:
    arrays = [ints(*CELLS), ints(*GROUPS), ints(*STRATA)]
    for array in arrays:
        array.flags.writeable = False
    resample_counts(arrays[0], arrays[1], arrays[2], 5, resamples=5, seed=0)
    assert [array.tolist() for array in arrays] == [CELLS, GROUPS, STRATA]


def test_resample_counts_memory_stays_bounded() -> None:
    cells = np.random.default_rng(0).integers(0, 40, 20_000)
    tracemalloc.start()
    resample_counts(cells, np.arange(20_000) // 4, None, 40, resamples=1500, seed=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 2**20


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cells": ints()}, "cells must be some integers"),
        ({"cells": ints(0, 1, 4)}, r"cells must lie in \[0, 4\), got 0 to 4"),
        ({"cells": ints(0, -1, 2)}, r"cells must lie in \[0, 4\), got -1 to 2"),
        ({"cells": floats(0, 1, 2)}, "cells must be 3 integers"),
        ({"cells": np.zeros((3, 1), np.int64)}, "cells must be 3 integers"),
        ({"groups": ints(0, 1)}, "groups must be 3 integers"),
        ({"groups": np.array(["a", "b", "c"])}, "groups must be 3 integers"),
        ({"strata": ints(0, 1, 2, 3)}, "strata must be 3 integers"),
        ({"n_cells": 0}, "n_cells must be a whole number of at least 1"),
        ({"resamples": 0}, "resamples must be a whole number of at least 1"),
        ({"resamples": 10.0}, "resamples must be a whole number"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
        ({"seed": None}, "seed must be a whole number of at least 0"),
    ],
)
def test_resample_counts_with_bad_arguments_raises(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"cells": ints(0, 1, 2), "groups": None, "strata": None, "n_cells": 4}
    with pytest.raises(ValueError, match=message):
        resample_counts(**{**arguments, "resamples": 10, "seed": 0, **change})


# percentile_interval


def test_percentile_interval_agrees_with_scipy() -> None:
    draws = np.random.default_rng(0).normal(size=1000)
    low, high = scipy.stats.mstats.mquantiles(draws, [0.05, 0.95], alphap=1, betap=1)
    assert_near(percentile_interval(0.5, draws, level=0.9), (0.5, low, high))


def test_percentile_interval_ignores_nan() -> None:
    draws = floats(*range(101))
    with_nan = np.append(draws, [math.nan] * 50)
    assert percentile_interval(50, with_nan) == percentile_interval(50, draws)
    assert_near(percentile_interval(50, with_nan), (50, 2.5, 97.5))


@pytest.mark.parametrize("draws", [floats(), floats(math.nan, math.nan), floats(0.5, math.inf)])
def test_percentile_interval_without_usable_draws_raises(draws: NDArray[np.float64]) -> None:
    with pytest.raises(ValueError, match="draws other than NaN must be a non-empty"):
        percentile_interval(0.5, draws)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_percentile_interval_with_a_bad_value_raises(value: float) -> None:
    with pytest.raises(ValueError, match="value must be finite"):
        percentile_interval(value, floats(1, 2))


@pytest.mark.parametrize("level", BAD_LEVELS)
def test_percentile_interval_with_a_bad_level_raises(level: float) -> None:
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        percentile_interval(0.5, floats(1, 2), level)


# mover


def test_mover_of_a_difference_agrees_with_newcombe_and_statsmodels() -> None:
    # Newcombe (1998), Statistics in Medicine 17:873-890, table II, method 10, (a): 56/70 - 48/80
    interval = mover([known(wilson(56, 70)), known(wilson(48, 80))], [1, -1])
    assert_near(interval, (0.2, 0.0524, 0.3339), 5e-5)
    low, high = confint_proportions_2indep(56, 70, 48, 80, method="newcomb", compare="diff")
    assert_near(interval, (0.2, low, high))


def test_mover_of_perfect_parts_has_a_width() -> None:
    perfect = known(wilson(18, 18))
    interval = mover([perfect] * 3, [1 / 3] * 3)
    assert interval.value == interval.high == 1.0
    assert interval.low == pytest.approx(1 - (1 - perfect.low) / math.sqrt(3))


def test_mover_of_proportions_is_clipped_where_rounding_leaves_the_range() -> None:
    assert 0.9 * 0.38 + (0.9 - 0.9 * 0.38) > 0.9
    assert mover([Interval(0.38, 0.0, 1.0)], [0.9]).high == 0.9


def test_mover_of_one_part_is_the_part() -> None:
    part = known(wilson(3, 7))
    assert_near(mover([part], [1]), (part.value, part.low, part.high))
    assert_near(mover([part], [-1]), (-part.value, -part.high, -part.low))


def test_mover_does_not_clip_parts_that_are_not_proportions() -> None:
    assert_near(mover([Interval(0.1, -0.4, 0.3)], [1]), (0.1, -0.4, 0.3))
    assert_near(mover([Interval(0.1, 0.0, 1.3)], [1]), (0.1, 0.0, 1.3))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 3)), min_size=1))
def test_mover_of_proportions_stays_attainable(rows: list[tuple[float, float, float, float]]) -> None:
    ends = [sorted(row[:3]) for row in rows]
    weights = [row[3] for row in rows]
    interval = mover([Interval(value, low, high) for low, value, high in ends], weights)
    assert 0 <= interval.low <= interval.value <= interval.high <= math.fsum(weights)


@pytest.mark.parametrize(
    ("parts", "weights", "message"),
    [
        ([], [], "one weight a part is needed, got 0 parts"),
        ([Interval(0.5, 0, 1)], [1, 2], "got 1 parts and 2 weights"),
        ([Interval(0.5, 0, 1)], [math.nan], "weights must be finite"),
        ([Interval(0.5, 0.6, 1)], [1], "low <= value <= high"),
        ([Interval(0.5, 0, math.inf)], [1], "must be finite"),
        ([Interval(math.nan, 0, 1)], [1], "must be finite"),
    ],
)
def test_mover_with_bad_arguments_raises(parts: list[Interval], weights: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mover(parts, weights)


# mean_standard_error


def test_mean_standard_error_agrees_with_statsmodels_clusters() -> None:
    # the correction of statsmodels, G/(G - 1) (n - 1)/(n - k), is ours for the k = 1 parameter of a mean
    generator = np.random.default_rng(0)
    values, groups = generator.random(300), generator.integers(0, 40, 300)
    fit = OLS(values, np.ones(300)).fit(
        cov_type="cluster", cov_kwds={"groups": groups, "use_correction": True}
    )
    mean, error = mean_standard_error(values, 10 - 3 * groups)
    assert mean == pytest.approx(fit.params[0], rel=1e-12)
    assert error == pytest.approx(fit.bse[0], rel=1e-10)


def test_mean_standard_error_without_groups_agrees_with_scipy() -> None:
    values = np.random.default_rng(0).random(50) < 0.7
    mean, error = mean_standard_error(values, None)
    assert mean == values.mean()
    assert error == pytest.approx(scipy.stats.sem(values), rel=1e-12)
    assert mean_standard_error(values, np.arange(50)[::-1]) == pytest.approx((mean, error), rel=1e-12)


def test_mean_standard_error_of_one_group_has_no_error() -> None:
    assert mean_standard_error(floats(3), None) == (3.0, None)
    assert mean_standard_error(floats(1, 2, 6), ints(4, 4, 4)) == (3.0, None)


@pytest.mark.parametrize(
    ("values", "groups", "message"),
    [
        (floats(), None, "values must be a non-empty"),
        (floats(1, math.nan), None, "finite numbers"),
        (np.ones((2, 2)), None, "one-dimensional"),
        (floats(1, 2), ints(1), "groups must be 2 integers"),
        (floats(1, 2), floats(1, 2), "groups must be 2 integers"),
    ],
)
def test_mean_standard_error_with_bad_arguments_raises(values: Any, groups: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mean_standard_error(values, groups)


# quantile_ladder


def test_quantile_ladder_agrees_with_scipy() -> None:
    values = np.random.default_rng(0).exponential(size=777)
    ladder = quantile_ladder(values)
    assert list(ladder) == ["1", "5", "10", "25", "50", "75", "90", "95", "99", "99.9"]
    for key, quantile in ladder.items():
        assert quantile == pytest.approx(scipy.stats.scoreatpercentile(values, float(key)), rel=1e-12)


def test_quantile_ladder_names_each_percent_apart() -> None:
    assert quantile_ladder(ints(7), (50.0, 99.99999, 100)) == {"50": 7.0, "99.99999": 7.0, "100": 7.0}


@pytest.mark.parametrize(
    ("values", "percents", "message"),
    [
        (floats(), (50,), "values must be a non-empty"),
        (floats(1, math.inf), (50,), "finite"),
        (floats(1), (101,), "percents"),
        (floats(1), (-1,), "percents"),
        (floats(1), (math.nan,), "percents"),
    ],
)
def test_quantile_ladder_with_bad_arguments_raises(
    values: NDArray[np.float64], percents: tuple[float, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        quantile_ladder(values, percents)


# holm


@pytest.mark.parametrize("size", [1, 2, 9, 40])
def test_holm_agrees_with_statsmodels(size: int) -> None:
    p_values = np.random.default_rng(size).beta(0.3, 2, size).round(2).tolist()  # some of them equal
    assert holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1].tolist(), rel=1e-12)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm_never_falls_below_the_raw_and_keeps_its_order(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(raw <= new <= 1 for raw, new in zip(p_values, adjusted, strict=True))
    ranked = [new for _, new in sorted(zip(p_values, adjusted, strict=True))]
    assert ranked == sorted(ranked)
    assert min(adjusted) == min(1, len(p_values) * min(p_values))


def test_holm_by_hand() -> None:
    assert holm([0.04, 0.01, 0.03, 0.9]) == pytest.approx([0.09, 0.04, 0.09, 0.9])


def test_holm_of_nothing_is_nothing() -> None:
    assert holm([]) == []


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_holm_with_a_bad_p_value_raises(p: float) -> None:
    with pytest.raises(ValueError, match=r"p-values must lie in \[0, 1\]"):
        holm([0.5, p])


# paired_sample_size, detectable_difference


def mcnemar_power(n: int, delta: float, discordant: float, level: float) -> float:
    """Sum the chance of each outcome that the asymptotic McNemar test rejects, by the binomials of scipy."""
    critical = scipy.stats.chi2.ppf(level, 1)
    total = np.arange(1, n + 1)[:, None]
    first = np.arange(n + 1)[None, :]
    reject = (first <= total) & ((2 * first - total) ** 2 > critical * total)
    chance = scipy.stats.binom.pmf(total, n, discordant) * scipy.stats.binom.pmf(
        first, total, (discordant + delta) / (2 * discordant)
    )
    return float(chance[reject].sum())


@pytest.mark.parametrize(
    ("delta", "discordant", "power"), [(0.1, 0.3, 0.8), (-0.08, 0.2, 0.9), (0.15, 0.5, 0.8)]
)
def test_paired_sample_size_reaches_the_power(delta: float, discordant: float, power: float) -> None:
    n = paired_sample_size(delta, discordant, power=power)
    assert n is not None
    assert mcnemar_power(n, delta, discordant, 0.95) == pytest.approx(power, abs=0.02)


def test_paired_sample_size_agrees_with_scipy_quantiles() -> None:
    for delta, psi, level, power in [(0.05, 0.1, 0.95, 0.8), (0.02, 0.3, 0.99, 0.9), (1, 1, 0.95, 0.8)]:
        z_a, z_b = scipy.stats.norm.ppf([(1 + level) / 2, power])
        expected = math.ceil((z_a * psi**0.5 + z_b * (psi - delta**2) ** 0.5) ** 2 / delta**2)
        assert paired_sample_size(delta, psi, level=level, power=power) == expected


@pytest.mark.parametrize(
    ("delta", "discordant"), [(0, 0.2), (0, 0), (0.3, 0.2), (-0.3, 0.2), (0.1, 0), (1e-300, 1)]
)
def test_paired_sample_size_that_no_number_reaches_is_none(delta: float, discordant: float) -> None:
    assert paired_sample_size(delta, discordant) is None


@given(st.floats(0.001, 1), SHARES, LEVELS, st.floats(0.5, 0.999))
def test_paired_sample_size_ignores_the_sign(
    delta: float, discordant: float, level: float, power: float
) -> None:
    n = paired_sample_size(delta, discordant, level=level, power=power)
    assert n == paired_sample_size(-delta, discordant, level=level, power=power)
    assert (n is None) == (delta > discordant)


@given(st.integers(1, 10**7), SHARES, LEVELS, st.floats(0.5, 0.999))
def test_detectable_difference_inverts_paired_sample_size(
    n: int, discordant: float, level: float, power: float
) -> None:
    delta = detectable_difference(n, discordant, level=level, power=power)
    largest = paired_sample_size(discordant, discordant, level=level, power=power)
    assert largest is not None
    if delta is None:
        assert largest > n
        return
    needed = paired_sample_size(delta, discordant, level=level, power=power)
    assert needed is not None
    assert needed <= n
    smaller = paired_sample_size(delta * (1 - 1e-6), discordant, level=level, power=power)
    assert smaller is not None
    assert smaller > n


@pytest.mark.parametrize(("n", "discordant"), [(0, 0.2), (10, 0), (2, 1), (10, 0.1)])
def test_detectable_difference_that_is_too_small_a_sample_is_none(n: int, discordant: float) -> None:
    assert detectable_difference(n, discordant) is None


@pytest.mark.parametrize("function", [paired_sample_size, detectable_difference])
@pytest.mark.parametrize(
    ("discordant", "options", "message"),
    [
        (1.2, {}, "discordant must lie in"),
        (-0.1, {}, "discordant must lie in"),
        (math.nan, {}, "discordant must lie in"),
        (0.2, {"level": 1}, "level must lie between"),
        (0.2, {"power": 1}, "power must lie in"),
        (0.2, {"power": 0.4}, "power must lie in"),
    ],
)
def test_power_functions_with_bad_arguments_raise(
    function: Any, discordant: float, options: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        function(1, discordant, **options)


@pytest.mark.parametrize("delta", [1.5, -1.5, math.nan])
def test_paired_sample_size_with_a_bad_difference_raises(delta: float) -> None:
    with pytest.raises(ValueError, match=r"delta must lie in \[-1, 1\]"):
        paired_sample_size(delta, 0.5)


@pytest.mark.parametrize("n", [-1, 2.5])
def test_detectable_difference_with_bad_pairs_raises(n: Any) -> None:
    with pytest.raises(ValueError, match="n must be a whole number of at least 0"):
        detectable_difference(n, 0.5)
