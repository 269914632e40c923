"""Intervals, exact tests, bootstraps and power: plain arrays in, small frozen results out."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

IntegerArray: TypeAlias = NDArray[np.integer[Any]]
RealArray: TypeAlias = NDArray[np.floating[Any] | np.integer[Any] | np.bool_]
FloatArray: TypeAlias = NDArray[np.float64]
_Codes: TypeAlias = NDArray[np.int64]

_BLOCK = 2**21  # entries of a temporary: 16 MB of float64
_CELL_SEED = 0x63656C6C
_STRATUM_SEED = 0x73747261


@dataclass(frozen=True)
class Interval:
    """A number with the limits of its confidence interval, all in the unit of the number."""

    value: float
    """The point estimate."""
    low: float
    """The lower confidence limit."""
    high: float
    """The upper confidence limit."""


def wilson(successes: int, n: int, level: float = 0.95) -> Interval | None:
    """Give the Wilson score interval of a proportion.

    Formula: (p + z^2/2n ± z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n), with p = successes / n.
    Source: Wilson (1927), Journal of the American Statistical Association 22:209-212.

    Args:
        successes: How many of the n items have the property.
        n: How many items there are.
        level: Coverage, in (0, 1).

    Returns:
        The proportion and its limits, all in [0, 1]; None where n is 0.

    Raises:
        ValueError: A count is not a whole number >= 0, successes exceed n, or level is outside (0, 1).
    """
    successes, n = _count("successes", successes), _count("n", n)
    z = _two_sided_z(level)
    if successes > n:
        raise ValueError(f"successes must not exceed n, got {successes} of {n}")
    if n == 0:
        return None
    value = successes / n
    centre = (successes + z * z / 2) / (n + z * z)
    half = z * math.sqrt(successes * (1 - value) + z * z / 4) / (n + z * z)
    # Algebra puts the value between the limits and the limits in [0, 1]; rounding alone would not.
    return Interval(value, max(0.0, min(centre - half, value)), min(1.0, max(centre + half, value)))


def mcnemar_exact(b: int, c: int) -> float:
    """Give the two-sided p-value of the exact McNemar test.

    Formula: min(1, 2 P(X <= min(b, c))), X ~ Binomial(n = b + c, 1/2), its terms taken relative to the middle
    one by P(X = i - 1) / P(X = i) = i / (n - i + 1), so that nothing overflows or cancels.
    Source: McNemar (1947), Psychometrika 12:153-157; the exact form, Fagerland, Lydersen and Laake (2013),
    BMC Medical Research Methodology 13:91.

    Args:
        b: Pairs in which only the first of the two is right.
        c: Pairs in which only the second of the two is right.

    Returns:
        The p-value in (0, 1]: 1 where no pair is discordant, never below the smallest normal float.

    Raises:
        ValueError: A count is not a whole number >= 0.
    """
    b, c = _count("b", b), _count("c", c)
    n, smaller = b + c, min(b, c)
    middle = n // 2
    if smaller == middle:  # min(b, c) and its mirror image cover every outcome
        return 1.0
    outcome = np.arange(middle, 0, -1, dtype=np.float64)
    ratios = outcome / (n - outcome + 1)
    steps = middle - smaller
    half = 1 + float(np.cumprod(ratios).sum())  # of the terms from the middle down, the middle one being 1
    total = 2 * half if n % 2 else 2 * half - 1
    tail = 1 + float(np.cumprod(ratios[steps:]).sum())  # relative to the largest term of the tail
    log_p = math.log(2 * tail / total) + float(np.log(ratios[:steps]).sum())
    return min(1.0, max(math.exp(log_p), sys.float_info.min))


def resample_counts(
    cells: IntegerArray,
    groups: IntegerArray | None,
    strata: IntegerArray | None,
    n_cells: int,
    *,
    resamples: int,
    seed: int,
) -> FloatArray:
    """Count the items of each cell in every resample of a stratified cluster bootstrap.

    Formula: in each stratum of G groups, G are drawn with replacement; a count is the sum over them of their
    items in the cell. Groups with equal counts are exchangeable, so it is enough to draw how often each
    distinct profile of counts occurs: Multinomial(G, its share of the groups).
    Source: Efron (1979), Annals of Statistics 7:1-26; for groups, Field and Welsh (2007), JRSS B 69:369-390;
    for strata, Davison and Hinkley (1997), Bootstrap Methods and their Application, section 3.2.

    Args:
        cells: Shape (n,), the code in [0, n_cells) of each item's cell.
        groups: Shape (n,), the group of each item; None makes each item a group of its own.
        strata: Shape (n,), the stratum of each item; None puts all in one. Groups that span the same set of
            strata form a stratum of their own.
        n_cells: How many cells there are.
        resamples: How many resamples to draw.
        seed: Seed of the PCG64 stream.

    Returns:
        Shape (resamples, n_cells), numbers of items: the same bytes whatever the order of the items and the
        names of the groups.

    Raises:
        ValueError: An array is empty, not of integers or not of shape (n,), a cell is outside [0, n_cells),
            n_cells or resamples is not a whole number >= 1, or seed is not one >= 0.
    """
    n_cells, resamples = _count("n_cells", n_cells, 1), _count("resamples", resamples, 1)
    random = np.random.Generator(np.random.PCG64(_count("seed", seed)))
    n = np.size(cells)
    codes = _codes("cells", cells, n)
    if codes.min() < 0 or codes.max() >= n_cells:
        raise ValueError(f"cells must lie in [0, {n_cells}), got {codes.min()} to {codes.max()}")
    cell = codes.astype(np.int64, copy=False)
    stratum = np.zeros(n, np.int64) if strata is None else _ranks(_codes("strata", strata, n))
    if groups is None:  # items of one cell and stratum are alike: one group, with as many copies
        stratum, cell, copies = _tally(stratum, cell)
        group = np.arange(cell.size)
    else:
        group = _ranks(_codes("groups", groups, n))
        copies = np.ones(int(group.max()) + 1, np.int64)
    profiles = _distinct_profiles(cell, group, stratum, copies)
    counts = np.zeros((resamples, n_cells))
    for first, last in pairwise(profiles.stratum_bounds.tolist()):
        _add_stratum(counts, profiles, first, last, random)
    return counts


@dataclass(frozen=True)
class _Profiles:
    """The distinct profiles by stratum; profile i owns entries entry_bounds[i] to entry_bounds[i + 1]."""

    copies: _Codes
    stratum_bounds: _Codes
    entry_bounds: _Codes
    entry_cell: _Codes
    entry_count: _Codes


def _distinct_profiles(cells: _Codes, groups: _Codes, strata: _Codes, copies: _Codes) -> _Profiles:
    unit, cell, count = _tally(groups, cells)
    member, stratum, _ = _tally(groups, strata)
    profile_key = _row_hash(_CELL_SEED, unit, cell, count)
    stratum_key = _row_hash(_STRATUM_SEED, member, stratum, np.ones_like(stratum))
    order = np.lexsort((profile_key, stratum_key))
    first = _run_bounds(stratum_key[order], profile_key[order])[:-1]
    rank = np.full(order.size, -1)
    rank[order[first]] = np.arange(first.size)  # one group stands for all with its profile
    entry_profile = rank[unit]
    entries = np.argsort(entry_profile, kind="stable")[np.count_nonzero(entry_profile < 0) :]
    return _Profiles(
        copies=np.add.reduceat(copies[order], first),
        stratum_bounds=_run_bounds(stratum_key[order[first]]),
        entry_bounds=_run_bounds(entry_profile[entries]),
        entry_cell=cell[entries],
        entry_count=count[entries],
    )


def _row_hash(seed: int, rows: _Codes, codes: _Codes, counts: _Codes) -> NDArray[np.uint64]:
    """Hash the codes of each row, however ordered, to the sum of a random word for each (mod 2^64)."""
    words = np.random.PCG64(seed).random_raw(int(codes.max()) + 1)
    return np.add.reduceat(words[codes] * counts.astype(np.uint64), _run_bounds(rows)[:-1])


def _add_stratum(
    counts: FloatArray, profiles: _Profiles, first: int, last: int, random: np.random.Generator
) -> None:
    """Draw the profiles first to last, in blocks and chunks that bound memory, and count their items."""
    entries = slice(profiles.entry_bounds[first], profiles.entry_bounds[last])
    columns = np.unique(profiles.entry_cell[entries])
    bounds = [*range(first, last, max(1, _BLOCK // columns.size)), last]
    copies = np.add.reduceat(profiles.copies[first:last], np.array(bounds[:-1]) - first)
    draws = random.multinomial(copies.sum(), copies / copies.sum(), size=len(counts))
    for block, (low, high) in enumerate(pairwise(bounds)):
        matrix = _profile_matrix(profiles, low, high, columns)
        share = profiles.copies[low:high] / copies[block]
        rows = max(1, _BLOCK // max(matrix.shape))
        for start in range(0, len(counts), rows):
            drawn = random.multinomial(draws[start : start + rows, block], share)
            counts[start : start + rows, columns] += drawn.astype(np.float64) @ matrix


def _profile_matrix(profiles: _Profiles, low: int, high: int, columns: _Codes) -> FloatArray:
    bounds = profiles.entry_bounds[low : high + 1]
    entries = slice(bounds[0], bounds[-1])
    matrix = np.zeros((high - low, columns.size))
    rows = np.repeat(np.arange(high - low), np.diff(bounds))
    matrix[rows, np.searchsorted(columns, profiles.entry_cell[entries])] = profiles.entry_count[entries]
    return matrix


def percentile_interval(value: float, draws: RealArray, level: float = 0.95) -> Interval:
    """Give the percentile bootstrap interval of an estimate, around its value as given.

    Formula: the (1 - level)/2 and (1 + level)/2 quantiles of the draws, interpolated linearly.
    Source: Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapter 13.

    Args:
        value: The estimate from the data themselves, in the unit of the draws.
        draws: Shape (resamples,), the estimate from each resample; NaN, where there is none, is ignored.
        level: Coverage, in (0, 1).

    Raises:
        ValueError: Value or a draw is infinite, value or every draw is NaN, or level is outside (0, 1).
    """
    _check_level(level)
    if not math.isfinite(value):
        raise ValueError(f"value must be finite, got {value}")
    draws = np.asarray(draws, dtype=np.float64)
    draws = _finite("draws other than NaN", draws[~np.isnan(draws)])
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(value), float(low), float(high))


def mover(parts: Sequence[Interval], weights: Sequence[float]) -> Interval:
    """Give the interval of a weighted sum of independent estimates by square-and-add (MOVER).

    It has a width even where every resample of a bootstrap is the same, as with 18 right of 18.

    Formula: sum w_i t_i - sqrt(sum d_i^2) to sum w_i t_i + sqrt(sum e_i^2), where d_i and e_i are the
    distances from w_i t_i to the lower and to the upper end of w_i times interval i.
    Source: Zou and Donner (2008), Statistics in Medicine 27:1693-1702; for a difference, Newcombe (1998),
    Statistics in Medicine 17:873-890.

    Args:
        parts: The intervals, all at one level, which is that of the result.
        weights: The weight of each part.

    Returns:
        The weighted sum and its limits, which for proportions (parts in [0, 1]) and weights >= 0 stay in
        [0, sum of the weights].

    Raises:
        ValueError: There are no parts, parts and weights differ in number, a number is not finite, or a part
            is not low <= value <= high.
    """
    if not parts or len(parts) != len(weights):
        raise ValueError(f"one weight a part is needed, got {len(parts)} parts and {len(weights)} weights")
    if not all(map(math.isfinite, weights)):
        raise ValueError(f"weights must be finite, got {list(weights)}")
    for part in parts:
        if not -math.inf < part.low <= part.value <= part.high < math.inf:
            raise ValueError(f"a part must be finite with low <= value <= high, got {part}")
    weight = np.array(weights, dtype=np.float64)
    middles = weight * [part.value for part in parts]
    ends = np.sort(weight * [[part.low for part in parts], [part.high for part in parts]], axis=0)
    value = math.fsum(middles)
    low, high = value - math.hypot(*(middles - ends[0])), value + math.hypot(*(ends[1] - middles))
    if min(weights) >= 0 and all(part.low >= 0 and part.high <= 1 for part in parts):
        low, high = max(low, 0.0), min(high, math.fsum(weights))
    return Interval(value, low, high)


def mean_standard_error(values: RealArray, groups: IntegerArray | None) -> tuple[float, float | None]:
    """Give the mean and its cluster-robust standard error.

    Formula: sqrt(G/(G - 1) sum_g (sum_{i in g} (x_i - mean))^2) / n over the G groups g, which is s / sqrt(n)
    where each item is a group of its own.
    Source: Liang and Zeger (1986), Biometrika 73:13-22; for evaluations, without the small-sample factor
    G/(G - 1), Miller (2024), arXiv:2411.00640.

    Args:
        values: Shape (n,), finite.
        groups: Shape (n,), the group of each item; None makes each item a group of its own.

    Returns:
        The mean and its standard error in the unit of the values; no error (None) from fewer than 2 groups.

    Raises:
        ValueError: Values are empty or not finite, or groups are not integers of shape (n,).
    """
    values = _finite("values", values)
    mean = float(values.mean())
    sums = values - mean
    if groups is not None:
        sums = np.bincount(_ranks(_codes("groups", groups, values.size)), sums).astype(np.float64, copy=False)
    if sums.size < 2:
        return mean, None
    return mean, math.sqrt(sums.size / (sums.size - 1) * float(np.square(sums).sum())) / values.size


def quantile_ladder(
    values: RealArray, percents: Sequence[float] = (1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9)
) -> dict[str, float]:
    """Give the quantiles of the values at a ladder of percentages.

    Formula: at percentage q, the sorted values at position (n - 1) q / 100 from 0, interpolated linearly.
    Source: Hyndman and Fan (1996), American Statistician 50:361-365, definition 7.

    Args:
        values: Shape (n,), finite.
        percents: The percentages, in [0, 100].

    Returns:
        The quantile of each percentage, in the unit of the values, under its shortest spelling ("1", "99.9").

    Raises:
        ValueError: Values are empty or not finite, or a percentage is outside [0, 100].
    """
    values = _finite("values", values)
    if not all(0 <= percent <= 100 for percent in percents):
        raise ValueError(f"percents must lie in [0, 100], got {list(percents)}")
    quantiles = np.percentile(values, np.array(percents, dtype=np.float64)).tolist()
    return {f"{percent:.15g}": quantile for percent, quantile in zip(percents, quantiles, strict=True)}


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for their number by Holm's step-down method, and keep their order.

    Formula: the i-th smallest of m becomes the largest of min(1, (m - j + 1) p_(j)) over j <= i.
    Source: Holm (1979), Scandinavian Journal of Statistics 6:65-70.

    Args:
        p_values: The p-values of one family of tests, in [0, 1].

    Raises:
        ValueError: A p-value is outside [0, 1] or NaN.
    """
    if not all(0 <= p <= 1 for p in p_values):
        raise ValueError(f"p-values must lie in [0, 1], got {list(p_values)}")
    p = np.array(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(np.minimum(1.0, p[order] * np.arange(p.size, 0, -1)))
    return [float(step) for step in steps[np.argsort(order)]]


def paired_sample_size(
    delta: float, discordant: float, *, level: float = 0.95, power: float = 0.8
) -> int | None:
    """Give the number of pairs with which McNemar's test sees a difference in accuracy.

    Formula: (z_a sqrt(psi) + z_b sqrt(psi - delta^2))^2 / delta^2, rounded up, with psi the discordance rate
    and z_a, z_b the (1 + level)/2 and power quantiles of the standard normal.
    Source: Connor (1987), Biometrics 43:207-211.

    Args:
        delta: The difference in accuracy, in [-1, 1]; its sign does not matter.
        discordant: The share of pairs in which exactly one of the two is right, in [0, 1].
        level: 1 minus the two-sided significance level, in (0, 1).
        power: The chance to see the difference, in [0.5, 1).

    Returns:
        The number of pairs; None where none will do: delta is 0 (or as good as 0 to a float), or |delta|
        exceeds the discordance rate.

    Raises:
        ValueError: An argument is outside its range.
    """
    z = _power_quantiles(discordant, level, power)
    if not -1 <= delta <= 1:
        raise ValueError(f"delta must lie in [-1, 1], got {delta}")
    if delta == 0 or abs(delta) > discordant:
        return None
    pairs = _pairs_needed(abs(delta), discordant, z)
    return math.ceil(pairs) if math.isfinite(pairs) else None


def detectable_difference(
    n: int, discordant: float, *, level: float = 0.95, power: float = 0.8
) -> float | None:
    """Give the smallest difference in accuracy that McNemar's test sees with n pairs.

    Formula: the smallest delta with (z_a sqrt(psi) + z_b sqrt(psi - delta^2))^2 / delta^2 <= n, by bisection,
    as the left side falls when delta grows: the inverse of paired_sample_size.
    Source: Connor (1987), Biometrics 43:207-211.

    Args:
        n: How many pairs there are.
        discordant: As for paired_sample_size.
        level: As for paired_sample_size.
        power: As for paired_sample_size.

    Returns:
        The difference, a share in (0, discordant]; None where n pairs do not show even the largest.

    Raises:
        ValueError: An argument is outside its range.
    """
    n = _count("n", n)
    z = _power_quantiles(discordant, level, power)
    if discordant == 0 or _pairs_needed(discordant, discordant, z) > n:
        return None
    low, high = 0.0, float(discordant)
    for _ in range(100):  # more than a float of any size can tell apart
        middle = (low + high) / 2
        if _pairs_needed(middle, discordant, z) <= n:
            high = middle
        else:
            low = middle
    return high


def _pairs_needed(delta: float, discordant: float, z: tuple[float, float]) -> float:
    root = z[0] * math.sqrt(discordant) + z[1] * math.sqrt(max(0.0, discordant - delta * delta))
    return root / delta * (root / delta)


def _power_quantiles(discordant: float, level: float, power: float) -> tuple[float, float]:
    if not 0 <= discordant <= 1:
        raise ValueError(f"discordant must lie in [0, 1], got {discordant}")
    if not 0.5 <= power < 1:
        raise ValueError(f"power must lie in [0.5, 1), got {power}")
    return _two_sided_z(level), NormalDist().inv_cdf(power)


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}")


def _two_sided_z(level: float) -> float:
    _check_level(level)
    return -NormalDist().inv_cdf((1 - level) / 2)  # the lower tail keeps its precision as level nears 1


def _count(name: str, value: int, least: int = 0) -> int:
    if not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)


def _finite(name: str, values: RealArray) -> FloatArray:
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or numbers.size == 0 or not np.isfinite(numbers).all():
        raise ValueError(f"{name} must be a non-empty one-dimensional array of finite numbers")
    return numbers


def _codes(name: str, codes: IntegerArray, n: int) -> IntegerArray:
    codes = np.asarray(codes)
    if codes.dtype.kind not in "iu" or codes.shape != (n,) or n == 0:
        raise ValueError(f"{name} must be {n or 'some'} integers in a row, got {codes.dtype} {codes.shape}")
    return codes


def _ranks(codes: IntegerArray) -> _Codes:
    return np.unique(codes, return_inverse=True)[1].astype(np.int64, copy=False)


def _tally(rows: _Codes, columns: _Codes) -> tuple[_Codes, _Codes, _Codes]:
    """Count the distinct (row, column) pairs, sorted by row and then by column."""
    width = int(columns.max()) + 1
    pairs, counts = np.unique(rows * width + columns, return_counts=True)
    return pairs // width, pairs % width, counts.astype(np.int64, copy=False)


def _run_bounds(*sorted_keys: NDArray[np.integer[Any]]) -> _Codes:
    """Bound the runs of equal keys: the start of each, then the length of the arrays."""
    changed = np.any([keys[1:] != keys[:-1] for keys in sorted_keys], axis=0)
    return np.concatenate(([0], np.flatnonzero(changed) + 1, [sorted_keys[0].size]))
