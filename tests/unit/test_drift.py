"""Shifts, divergences and changed choices against scipy and statsmodels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon  # type: ignore[import-untyped,unused-ignore]
from scipy.stats import entropy  # type: ignore[import-untyped,unused-ignore]
from statsmodels.stats.contingency_tables import mcnemar  # type: ignore[import-untyped,unused-ignore]

from evalkit.decisions import Decisions
from evalkit.drift import EFFECTS, KL_FLOOR, Drift, ItemDrift, drift, item_drift
from evalkit.statistics import wilson

if TYPE_CHECKING:
    from tests.conftest import Maker

Record = dict[str, Any]
WEIGHTS = st.lists(st.integers(0, 30), min_size=3, max_size=3).filter(any)
POSITIVE = st.lists(st.integers(1, 30), min_size=3, max_size=3)


def p(*values: float, options: str = "ABCDEFGH") -> Record:
    return {"option_ids": list(options[: len(values)]), "probabilities": list(values)}


def normalised(weights: list[int]) -> list[float]:
    return [weight / sum(weights) for weight in weights]


def sides(
    make: Maker,
    pairs: list[tuple[Record, Record]],
    *,
    label: str | None = "A",
    options: str = "AB",
    **fields: list[Any],
) -> tuple[Decisions, Decisions]:
    """Lay pairs of rows without ids out; an empty one is missing."""
    items = [
        make.item(str(number), options, label, **{name: values[number] for name, values in fields.items()})
        for number in range(len(pairs))
    ]
    first, second = (
        make.aligned(
            items, [{"id": str(number), **pair[side]} for number, pair in enumerate(pairs) if pair[side]]
        )
        for side in (0, 1)
    )
    return first, second


def summed(reference: Decisions, candidate: Decisions, **options: Any) -> dict[str, Any]:
    return drift(item_drift(reference, candidate), reference, **options).to_dict()


def effects(found: ItemDrift) -> list[str | None]:
    return [EFFECTS[effect] if effect >= 0 else None for effect in found.effect.tolist()]


# against scipy


@given(st.lists(st.tuples(POSITIVE, POSITIVE), min_size=1, max_size=10))
def test_divergences_are_those_of_scipy(make: Maker, pairs: list[tuple[list[int], list[int]]]) -> None:
    before, after = sides(
        make, [(p(*normalised(one)), p(*normalised(two))) for one, two in pairs], options="ABC"
    )
    found = item_drift(before, after)
    for item, (one, two) in enumerate(zip(before.p, after.p, strict=True)):
        assert found.kl[item] == pytest.approx(entropy(one, two), abs=1e-9)
        distance = jensenshannon(one, two)
        assert found.js[item] == pytest.approx(0.0 if math.isnan(distance) else distance**2, abs=1e-9)
    assert not found.at_floor.any()


@given(st.lists(st.tuples(WEIGHTS, WEIGHTS), min_size=1, max_size=10))
def test_divergences_are_finite_and_never_negative(
    make: Maker, pairs: list[tuple[list[int], list[int]]]
) -> None:
    before, after = sides(
        make, [(p(*normalised(one)), p(*normalised(two))) for one, two in pairs], options="ABC"
    )
    found = item_drift(before, after)
    assert np.isfinite(found.kl).all()
    assert (found.kl >= 0).all()
    assert ((found.js >= 0) & (found.js <= np.log(2))).all()
    lost = [any(p > 0 and q == 0 for p, q in zip(one, two, strict=True)) for one, two in pairs]
    assert found.at_floor.tolist() == lost
    finite = ~found.at_floor
    expected = entropy(before.p[finite].T, after.p[finite].T) if finite.any() else []
    np.testing.assert_allclose(found.kl[finite], expected, atol=1e-9)


@given(st.lists(st.tuples(WEIGHTS, WEIGHTS), min_size=1, max_size=10))
def test_shift_is_the_largest_move_of_an_option(
    make: Maker, pairs: list[tuple[list[int], list[int]]]
) -> None:
    before, after = sides(
        make, [(p(*normalised(one)), p(*normalised(two))) for one, two in pairs], options="ABC"
    )
    found = item_drift(before, after)
    moved = np.abs(after.p - before.p)
    np.testing.assert_array_equal(found.shift, moved.max(axis=1))
    np.testing.assert_array_equal(found.option, moved.argmax(axis=1))
    whole = summed(before, after)
    assert whole["mean_max_shift"] == pytest.approx(moved.max(axis=1).mean())
    assert whole["rms_shift"] == pytest.approx(np.sqrt((moved.max(axis=1) ** 2).mean()))
    assert whole["max_probability_shift"]["value"] == moved.max()
    ladder = np.percentile(moved.max(axis=1), [1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9])
    assert list(whole["quantiles"]["shift"]) == ["1", "5", "10", "25", "50", "75", "90", "95", "99", "99.9"]
    np.testing.assert_allclose(list(whole["quantiles"]["shift"].values()), ladder)
    np.testing.assert_allclose(
        list(whole["quantiles"]["kl"].values()),
        np.percentile(found.kl, [1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9]),
    )


def test_probability_lost_altogether_counts_with_the_floor(make: Maker) -> None:
    before, after = sides(
        make, [(p(0.9, 0.1), p(1, 0)), (p(1, 0), p(0.9, 0.1)), (p(0.9, 0.1), p(1 - 1e-13, 1e-13))]
    )
    found = item_drift(before, after)
    expected = 0.9 * math.log(0.9) + 0.1 * math.log(0.1 / KL_FLOOR)
    np.testing.assert_allclose(found.kl, [expected, -math.log(0.9), expected], atol=1e-12)
    assert found.at_floor.tolist() == [True, False, True]
    whole = summed(before, after)
    assert whole["kl_at_floor"] == 2
    # Case of rounding and of a zero: JS of (0.9, 0.1) and (1, 0) by hand.
    middle = (0.95, 0.05)
    js = (0.9 * math.log(0.9 / middle[0]) + 0.1 * math.log(0.1 / middle[1]) - math.log(middle[0])) / 2
    assert found.js[0] == pytest.approx(js)


def test_rounded_probabilities_never_give_a_negative_divergence(make: Maker) -> None:
    before, after = sides(make, [(p(0.6, 0.4), p(0.6000001, 0.4000001))])
    found = item_drift(before, after)
    assert found.kl.tolist() == [0.0]
    assert 0 <= found.js[0] < 1e-12


def test_options_that_an_item_lacks_do_not_count(make: Maker) -> None:
    items = [make.item("a", "AB", "A"), make.item("b", "ABC", "A")]
    before = make.aligned(
        items, [make.row("a", {"A": 0.9, "B": 0.1}), make.row("b", {"A": 0.5, "B": 0.3, "C": 0.2})]
    )
    after = make.aligned(
        items, [make.row("a", {"B": 0.3, "A": 0.7}), make.row("b", {"A": 0.45, "C": 0.5, "B": 0.05})]
    )
    found = item_drift(before, after)
    np.testing.assert_allclose(found.shift, [0.2, 0.3])
    assert found.option.tolist() == [0, 2]
    np.testing.assert_allclose(
        found.kl, [entropy([0.9, 0.1], [0.7, 0.3]), entropy([0.5, 0.3, 0.2], [0.45, 0.05, 0.5])]
    )


# changed choices


def test_effects_tell_what_a_changed_choice_does(make: Maker) -> None:
    a, b, c = p(0.8, 0.1, 0.1), p(0.1, 0.8, 0.1), p(0.1, 0.1, 0.8)
    before, after = sides(
        make, [(a, a), (a, b), (b, a), (b, c), (a, {}), ({}, a), ({}, b), (b, {})], options="ABC"
    )
    found = item_drift(before, after)
    assert effects(found) == [None, "broken", "fixed", "wrong to wrong", None, None, None, None]
    assert found.changed.tolist() == [False, True, True, True, False, False, False, False]
    assert found.lost.tolist() == [False] * 4 + [True, False, False, False]
    assert found.gained.tolist() == [False] * 5 + [True, False, False]
    whole = summed(before, after)
    expected = {"n": 8, "compared": 4, "changed_choices": 3, "fixed": 1, "broken": 1, "wrong_to_wrong": 1}
    assert {name: whole[name] for name in expected} == expected
    assert (whole["flips"], whole["lost"], whole["gained"], whole["same_choice"]) == (2, 1, 1, 0.25)
    assert whole["mcnemar"] == {"reference_only": 2, "candidate_only": 2, "p": 1.0}
    assert whole["with_probabilities"] == 4


def test_unlabelled_changes_have_no_test(make: Maker) -> None:
    before, after = sides(make, [(p(0.8, 0.2), p(0.2, 0.8)), (p(0.8, 0.2), p(0.7, 0.3))], label=None)
    assert effects(item_drift(before, after)) == ["unlabelled", None]
    whole = summed(before, after)
    assert (whole["changed_choices"], whole["fixed"], whole["broken"], whole["wrong_to_wrong"]) == (
        1,
        0,
        0,
        0,
    )
    assert whole["mcnemar"] is None


def test_change_that_rests_on_a_tie_is_marked(make: Maker) -> None:
    tie, sure, other = p(0.5, 0.5), p(0.9, 0.1), p(0.1, 0.9)
    before, after = sides(
        make, [(tie, other), (other, tie), (sure, other), (tie, sure), (tie, tie), (tie, {})]
    )
    found = item_drift(before, after)
    assert found.tie.tolist() == [True, True, False, True, True, False]
    whole = summed(before, after)
    assert (whole["changed_choices"], whole["changed_with_tie"]) == (3, 2)


def test_changed_share_has_a_wilson_interval(make: Maker) -> None:
    before, after = sides(make, [(p(0.8, 0.2), p(0.2, 0.8))] + [(p(0.8, 0.2), p(0.8, 0.2))] * 9)
    expected = wilson(1, 10, 0.9)
    assert expected is not None
    found = summed(before, after, level=0.9)["changed_share"]
    assert (found["value"], found["low"], found["high"]) == (0.1, expected.low, expected.high)


@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 3))
def test_paired_test_is_that_of_statsmodels(make: Maker, broken: int, fixed: int, same: int) -> None:
    right, wrong = p(0.8, 0.2), p(0.2, 0.8)
    pairs = [(right, wrong)] * broken + [(wrong, right)] * fixed + [(right, right)] * (same + 1)
    found = summed(*sides(make, pairs))["mcnemar"]
    assert (found["reference_only"], found["candidate_only"]) == (broken, fixed)
    expected = mcnemar([[0, broken], [fixed, 0]], exact=True).pvalue if broken + fixed else 1.0
    assert found["p"] == pytest.approx(min(1.0, expected), abs=1e-12)


# what has no probabilities


def test_items_without_probabilities_on_both_sides_have_no_shift(make: Maker) -> None:
    named = {"option_ids": ["A", "B"], "choice": "B"}
    ranged = {"option_ids": ["A", "B"], "probability_range": {"B": [0.85, 1]}}
    sure = p(0.9, 0.1)
    before, after = sides(
        make, [(sure, named), (ranged, sure), (sure, {}), (sure, p(0.7, 0.3)), (sure, p(90, 10))]
    )
    found = item_drift(before, after)
    assert found.points.tolist() == [False, False, False, True, False]
    assert np.isnan(found.shift).tolist() == np.isnan(found.kl).tolist() == [True, True, True, False, True]
    assert found.changed.tolist() == [True, True, False, False, False]
    whole = summed(before, after)
    assert whole["with_probabilities"] == 1
    assert whole["max_probability_shift"] == {"value": pytest.approx(0.2), "id": "3", "option": "A"}


def test_nothing_to_compare_gives_no_figures(make: Maker) -> None:
    before, after = sides(make, [(p(1, 0), {"status": "error"})])
    found = summed(before, after)
    assert (found["compared"], found["same_choice"], found["changed_share"]) == (0, None, None)
    for name in (
        "max_probability_shift",
        "mean_max_shift",
        "rms_shift",
        "mean_kl",
        "mean_js",
        "standard_errors",
    ):
        assert found[name] is None
    assert found["quantiles"] == {"kl": None, "shift": None}
    assert found["mcnemar"] == {"reference_only": 1, "candidate_only": 0, "p": 1.0}


def test_slice_is_summed_up_as_if_it_were_alone(make: Maker) -> None:
    pairs = [
        (p(0.8, 0.2), p(0.2, 0.8)),
        (p(0.5, 0.5), p(0.6, 0.4)),
        (p(1, 0), {}),
        (p(0.3, 0.7), p(0.9, 0.1)),
    ]
    before, after = sides(make, pairs)
    found = item_drift(before, after)
    for keep in ([0, 1], [1, 2, 3], [2, 3]):
        part = drift(found, before, np.asarray(keep)).to_dict()
        alone = summed(*sides(make, [pairs[number] for number in keep]))
        for one in (part, alone):
            if one["max_probability_shift"]:
                one["max_probability_shift"].pop("id")
        assert part == alone


# standard errors


def errors_of(make: Maker, groups: list[str | None] | None) -> dict[str, float]:
    values = [0.9, 0.8, 0.75, 0.6, 0.95, 0.85]
    pairs = [
        (p(value, 1 - value), p(value - 0.05 * number, 1 - value + 0.05 * number))
        for number, value in enumerate(values)
    ]
    before, after = sides(make, pairs, group=groups or [None] * len(pairs))
    errors: dict[str, float] = summed(before, after)["standard_errors"]
    return errors


def test_standard_errors_are_those_of_the_mean(make: Maker) -> None:
    shifts = 0.05 * np.arange(6)
    expected = shifts.std(ddof=1) / np.sqrt(6)
    assert errors_of(make, None)["mean_max_shift"] == pytest.approx(expected)
    assert errors_of(make, list("uvwxyz"))["mean_max_shift"] == pytest.approx(expected)


def test_standard_errors_of_groups_are_clustered(make: Maker) -> None:
    shifts = 0.05 * np.arange(6)
    sums = (shifts - shifts.mean()).reshape(3, 2).sum(axis=1)
    expected = np.sqrt(3 / 2 * (sums**2).sum()) / 6
    assert errors_of(make, list("uuvvww"))["mean_max_shift"] == pytest.approx(expected)


def test_items_without_a_group_are_each_one_of_their_own(make: Maker) -> None:
    mixed = errors_of(make, ["u", "u", None, None, None, None])
    assert mixed == pytest.approx(errors_of(make, list("uuvwxy")))


def test_drift_to_dict_is_a_copy() -> None:
    found = Drift({"n": 1})
    found.to_dict()["n"] = 2
    assert found.to_dict() == {"n": 1}
