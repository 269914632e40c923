"""Log loss, Brier score and calibration error against scikit-learn and plain Python."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.metrics import (  # type: ignore[import-untyped,unused-ignore]
    brier_score_loss,
    log_loss,
)

from evalkit.calibration import (
    COVERAGE_LEVELS,
    ECE_BINS,
    NLL_FLOOR,
    Calibration,
    Losses,
    calibration,
    coverage,
    losses,
)
from evalkit.decisions import Decisions

if TYPE_CHECKING:
    from tests.conftest import Maker

ABC = st.lists(st.integers(0, 20), min_size=3, max_size=3).filter(any)
LABELLED = st.lists(st.tuples(ABC, st.sampled_from("ABC")), min_size=1, max_size=20)


def decide(make: Maker, *records: tuple[str | None, dict[str, Any]], options: str = "AB") -> Decisions:
    """Lay (label, row without id) pairs out."""
    items = [make.item(str(number), options, label) for number, (label, _) in enumerate(records)]
    rows = [{"id": str(number), **record} for number, (_, record) in enumerate(records) if record]
    return make.aligned(items, rows)


def p(*values: float, options: str = "ABCDEFGH", **fields: Any) -> dict[str, Any]:
    return {"option_ids": list(options[: len(values)]), "probabilities": list(values), **fields}


def normalised(weights: list[int]) -> list[float]:
    return [weight / sum(weights) for weight in weights]


def plain_ece(top: list[float], correct: list[bool]) -> float:
    """Compute the calibration error over ten bins (low, high] in plain Python."""
    total = 0.0
    for number in range(10):
        low, high = number / 10, (number + 1) / 10
        inside = [place for place, value in enumerate(top) if low < value <= high]
        if inside:
            mean = sum(top[place] for place in inside) / len(inside)
            right = sum(correct[place] for place in inside) / len(inside)
            total += len(inside) / len(top) * abs(right - mean)
    return total


def of_top(top: list[float], correct: list[bool]) -> Calibration:
    """Sum up items of which only the top probability matters."""
    zeros, no = np.zeros(len(top)), np.zeros(len(top), dtype=np.bool_)
    return calibration(Losses(zeros, zeros, no, no, np.asarray(top), np.asarray(correct)))


# log loss and Brier score


@given(LABELLED)
def test_log_loss_is_that_of_scikit_learn(make: Maker, cases: list[tuple[list[int], str]]) -> None:
    decisions = decide(make, *((label, p(*normalised(weights))) for weights, label in cases), options="ABC")
    found = calibration(losses(decisions))
    clipped = np.maximum(decisions.p, NLL_FLOOR)
    gold = [label for _, label in cases]
    picked = [row["ABC".index(label)] for row, label in zip(clipped.tolist(), gold, strict=True)]
    assert found.n == len(cases)
    assert found.nll == pytest.approx(-np.log(picked).mean(), rel=1e-12, abs=1e-12)
    if all(value > NLL_FLOOR for value in picked):
        assert found.nll == pytest.approx(log_loss(gold, decisions.p, labels=list("ABC")), rel=1e-9, abs=1e-9)
    assert found.at_floor == sum(value == NLL_FLOOR for value in picked)


@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from("AB")), min_size=1, max_size=20))
def test_brier_score_of_two_options_is_twice_that_of_scikit_learn(
    make: Maker, cases: list[tuple[float, str]]
) -> None:
    decisions = decide(make, *((label, p(share, 1 - share)) for share, label in cases))
    binary = [label == "A" for _, label in cases]
    expected = 2 * brier_score_loss(binary, [share for share, _ in cases], pos_label=True)
    assert calibration(losses(decisions)).brier == pytest.approx(expected, abs=1e-12)


@given(LABELLED)
def test_brier_score_is_the_squared_distance_to_the_label(
    make: Maker, cases: list[tuple[list[int], str]]
) -> None:
    decisions = decide(make, *((label, p(*normalised(weights))) for weights, label in cases), options="ABC")
    target = np.asarray([[option == label for option in "ABC"] for _, label in cases], dtype=np.float64)
    expected = ((decisions.p - target) ** 2).sum(axis=1)
    np.testing.assert_allclose(losses(decisions).brier, expected, atol=1e-15)


def test_losses_follow_the_option_ids_not_the_alphabet(make: Maker) -> None:
    items = [make.item("a", "BA", "B"), make.item("b", "AB", "A")]
    rows = [make.row("a", {"B": 0.9, "A": 0.1}), make.row("b", {"B": 0.1, "A": 0.9})]
    found = losses(make.aligned(items, rows))
    np.testing.assert_allclose(found.nll, -np.log([0.9, 0.9]))
    np.testing.assert_allclose(found.brier, [0.02, 0.02])


def test_items_with_fewer_options_than_others_are_not_charged_for_it(make: Maker) -> None:
    decisions = make.aligned(
        [make.item("a", "AB", "A"), make.item("b", "ABC", "C")],
        [make.row("a", {"A": 0.8, "B": 0.2}), make.row("b", {"A": 0.2, "B": 0.2, "C": 0.6})],
    )
    np.testing.assert_allclose(losses(decisions).brier, [0.08, 0.24])


def test_label_of_probability_zero_is_at_the_floor(make: Maker) -> None:
    found = calibration(losses(decide(make, ("A", p(0, 1)), ("B", p(0.1, 0.9)))))
    assert found.at_floor == 1
    assert found.nll == pytest.approx((-math.log(1e-12) - math.log(0.9)) / 2)  # 13.8682
    assert found.brier == pytest.approx((2 + 0.02) / 2)


def test_items_without_label_or_probabilities_have_no_loss(make: Maker) -> None:
    found = losses(
        decide(
            make,
            ("A", p(0.9, 0.1)),
            (None, p(0.9, 0.1)),
            ("A", {}),
            ("A", p(90, 10)),
            ("A", {"status": "error"}),
            ("A", {"option_ids": ["A", "B"], "choice": "A"}),
        )
    )
    assert np.isnan(found.nll).tolist() == np.isnan(found.brier).tolist() == [False, *[True] * 5]
    assert calibration(found).n == calibration(found).ece_n == 1


def test_nothing_to_sum_up_gives_no_figures(make: Maker) -> None:
    found = calibration(losses(decide(make, ("A", {"status": "error"}))))
    assert found.to_dict(bins=True) == {
        "nll": None,
        "brier": None,
        "ece": None,
        "losses": {"n": 0, "lower_bounds": 0, "at_floor": 0, "ece_n": 0},
        "ece_bins": [],
    }


def test_slice_is_summed_up_as_if_it_were_alone(make: Maker) -> None:
    records = [("A", p(0.9, 0.1)), ("B", p(0.7, 0.3)), ("A", {}), ("B", p(0.35, 0.65))]
    found = losses(decide(make, *records))
    for keep in ([0, 1], [1, 2, 3], [3]):
        assert calibration(found, np.asarray(keep)) == calibration(
            losses(decide(make, *(records[n] for n in keep)))
        )


# ranges


def ranged(low: float, high: float, option: str = "A") -> dict[str, Any]:
    return {"option_ids": ["A", "B"], "probability_range": {option: [low, high]}}


def test_losses_of_ranges_are_the_smallest_that_fit(make: Maker) -> None:
    found = losses(
        decide(
            make,
            ("A", ranged(0.85, 0.95)),
            ("B", ranged(0.85, 0.95)),
            ("A", p(0.6, 0.4)),
            (None, ranged(0.85, 0.95)),
        )
    )
    np.testing.assert_allclose(found.nll, [*-np.log([0.95, 0.15, 0.6]), np.nan])
    np.testing.assert_allclose(found.brier, [2 * 0.05**2, 2 * 0.85**2, 2 * 0.4**2, np.nan])
    assert found.bound.tolist() == [True, True, False, False]
    summed = calibration(found)
    assert (summed.n, summed.bounds, summed.ece_n) == (3, 2, 1)
    assert summed.ece == pytest.approx(0.4)


@given(st.lists(st.integers(1, 20), min_size=3, max_size=3), st.floats(0, 0.2), st.sampled_from("ABC"))
def test_losses_of_ranges_never_exceed_those_of_what_is_inside(
    make: Maker, weights: list[int], slack: float, label: str
) -> None:
    truth = normalised(weights)
    ranges = {
        option: [max(0.0, value - slack), min(1.0, value + slack)]
        for option, value in zip("ABC", truth, strict=True)
    }
    choice = "ABC"[truth.index(max(truth))]
    bound = {"option_ids": list("ABC"), "probability_range": ranges, "choice": choice}
    found = losses(decide(make, (label, bound), (label, p(*truth)), options="ABC"))
    assert found.nll[0] <= found.nll[1] + 1e-12
    assert found.brier[0] <= found.brier[1] + 1e-12


# calibration error

TOPS = st.lists(
    st.tuples(st.integers(1, 1000).map(lambda n: n / 1000), st.booleans()), min_size=1, max_size=40
)


@given(TOPS)
@example([(1.0, False), (1.0, False)])
@example([(0.1, True), (0.2, True), (0.3, False), (0.6, True), (0.7, False), (0.9, True), (1.0, True)])
@example([(math.nextafter(edge / 10, 1), True) for edge in range(10)])
def test_calibration_error_is_that_of_plain_python(cases: list[tuple[float, bool]]) -> None:
    top, correct = [value for value, _ in cases], [right for _, right in cases]
    found = of_top(top, correct)
    assert found.ece == pytest.approx(plain_ece(top, correct), abs=1e-12)
    assert found.ece_n == sum(row["n"] for row in found.bins) == len(cases)
    assert found.ece is not None
    assert 0 <= found.ece <= 1


@given(TOPS)
def test_bins_hold_what_lies_between_their_edges(cases: list[tuple[float, bool]]) -> None:
    for row in of_top([value for value, _ in cases], [right for _, right in cases]).bins:
        inside = [(value, right) for value, right in cases if row["low"] < value <= row["high"]]
        assert row["n"] == len(inside) > 0
        assert row["mean_probability"] == pytest.approx(np.mean([value for value, _ in inside]))
        assert row["accuracy"] == pytest.approx(np.mean([right for _, right in inside]))
        assert row["high"] - row["low"] == pytest.approx(1 / ECE_BINS)


@pytest.mark.parametrize("edge", range(1, 10))
def test_edges_of_the_bins_are_tenths_to_the_last_bit(edge: int) -> None:
    # 0.1 + 0.2 is the float after 0.3, and so belongs to the next bin.
    [below, above] = [of_top([value], [True]).bins[0] for value in (edge / 10, math.nextafter(edge / 10, 1))]
    assert below["high"] == above["low"] == edge / 10


def test_probability_of_exactly_one_is_in_the_last_bin() -> None:
    assert of_top([1.0] * 4, [False] * 4).ece == 1.0
    shared = of_top([1.0, 0.92], [True, False])
    assert [(row["low"], row["high"], row["n"]) for row in shared.bins] == [(0.9, 1.0, 2)]
    assert shared.ece == pytest.approx(0.46)


def test_few_items_are_binned_like_many() -> None:
    found = of_top([0.55, 0.62, 0.97], [True, False, True])
    assert found.ece == pytest.approx((0.45 + 0.62 + 0.03) / 3)
    assert [row["n"] for row in found.bins] == [1, 1, 1]
    assert found.to_dict(bins=True)["ece_bins"] == list(found.bins)
    assert "ece_bins" not in found.to_dict()


# coverage


def test_coverage_counts_the_sure_ones_among_those_with_probabilities(make: Maker) -> None:
    table = coverage(
        losses(
            decide(
                make,
                ("A", p(0.95, 0.05)),
                ("B", p(0.95, 0.05)),
                ("A", p(0.85, 0.15)),
                ("A", p(0.4, 0.6)),
                ("A", {}),
                (None, p(1, 0)),
                ("A", ranged(0.9, 1)),
            )
        )
    )
    assert [row["at_least"] for row in table] == list(COVERAGE_LEVELS)
    by_level = {row["at_least"]: (row["n"], row["share"], row["accuracy"]) for row in table}
    assert by_level[0.5] == (4, 1.0, 0.5)
    assert by_level[0.85] == (3, 0.75, pytest.approx(2 / 3))
    assert by_level[0.95] == (2, 0.5, 0.5)
    assert by_level[0.99] == (0, 0.0, None)


def test_coverage_of_nothing_has_no_share(make: Maker) -> None:
    table = coverage(losses(decide(make, ("A", {"status": "error"}))))
    assert {(row["n"], row["share"], row["accuracy"]) for row in table} == {(0, None, None)}
