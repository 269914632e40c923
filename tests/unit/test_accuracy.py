"""Accuracy and its kin against scikit-learn and statsmodels, and their intervals."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import (  # type: ignore[import-untyped,unused-ignore]
    accuracy_score,
    balanced_accuracy_score,
    confusion_matrix,
    f1_score,
    recall_score,
)
from statsmodels.stats.proportion import (  # type: ignore[import-untyped,unused-ignore]
    proportion_confint,
)

from evalkit.accuracy import (
    FIGURES,
    NO_CHOICE,
    Accuracy,
    CellTable,
    Figure,
    Resampling,
    accuracy,
    accuracy_deltas,
    by_position,
    chance,
    figures,
    position_name,
)
from evalkit.decisions import Decisions

if TYPE_CHECKING:
    from tests.conftest import Maker

FAST = Resampling(resamples=100)


@dataclass(frozen=True)
class Case:
    """One item: its label, its choices and where it belongs; a choice of None is a missing decision."""

    gold: str | None
    choice: str | None
    other: str | None = None
    family: str | None = None
    group: str | None = None
    options: str = "ABC"


def item(make: Maker, number: int, case: Case) -> dict[str, Any]:
    return make.item(f"q{number}", case.options, case.gold, family=case.family, group=case.group)


def side(make: Maker, cases: list[Case], name: str = "choice") -> Decisions:
    rows = [
        make.row(f"q{number}", option_ids=list(case.options), choice=getattr(case, name))
        for number, case in enumerate(cases)
        if getattr(case, name) is not None
    ]
    rows = rows or [make.row("q0", status="error")]
    return make.aligned([item(make, number, case) for number, case in enumerate(cases)], rows)


def measure(make: Maker, cases: list[Case], how: Resampling = FAST) -> Accuracy:
    return accuracy(CellTable([side(make, cases)]).cells(), how)


def deltas(make: Maker, cases: list[Case], how: Resampling = FAST) -> dict[str, Figure | None]:
    return accuracy_deltas(CellTable([side(make, cases), side(make, cases, "other")]).cells(), how)


def value(figure: Figure | None) -> float:
    assert figure is not None
    return figure.value


def ends(figure: Figure | None) -> tuple[float, float]:
    assert figure is not None
    assert figure.low is not None
    assert figure.high is not None
    return figure.low, figure.high


CASES = st.lists(
    st.builds(
        Case,
        gold=st.sampled_from("ABC"),
        choice=st.sampled_from([*"ABC", None]),
        other=st.sampled_from([*"ABC", None]),
        family=st.sampled_from(["f", "g", "h"]),
        group=st.sampled_from(["u", "v", "w", None]),
    ),
    min_size=1,
    max_size=30,
)


# against scikit-learn


@given(CASES)
def test_figures_are_those_of_scikit_learn(make: Maker, cases: list[Case]) -> None:
    gold = [str(case.gold) for case in cases]
    chosen = [case.choice or NO_CHOICE for case in cases]
    names = sorted({*gold, *chosen} - {NO_CHOICE})
    found = measure(make, cases)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes that occur as choice only
        balanced = balanced_accuracy_score(gold, chosen)
        by_family = [
            balanced_accuracy_score(
                *zip(*((c.gold, c.choice or NO_CHOICE) for c in cases if c.family == family), strict=True)
            )
            for family in sorted({str(case.family) for case in cases})
        ]
    macro = f1_score(gold, chosen, average="macro", labels=names, zero_division=0)
    assert found.n == len(cases)
    assert found.correct == round(accuracy_score(gold, chosen) * len(cases))
    assert value(found.figures["accuracy"]) == pytest.approx(accuracy_score(gold, chosen), abs=1e-12)
    assert value(found.figures["balanced_accuracy"]) == pytest.approx(balanced, abs=1e-12)
    assert value(found.figures["mean_family_balanced_accuracy"]) == pytest.approx(
        np.mean(by_family), abs=1e-12
    )
    assert value(found.figures["macro_f1"]) == pytest.approx(macro, abs=1e-12)


@given(CASES)
def test_recall_support_and_confusion_are_those_of_scikit_learn(make: Maker, cases: list[Case]) -> None:
    gold = [str(case.gold) for case in cases]
    chosen = [case.choice or NO_CHOICE for case in cases]
    names = sorted({*gold, *chosen} - {NO_CHOICE})
    found = measure(make, cases)
    recalls = recall_score(gold, chosen, labels=names, average=None, zero_division=0)
    table = confusion_matrix(gold, chosen, labels=[*names, NO_CHOICE])
    assert sorted(found.recall) == sorted(found.support) == sorted(found.confusion) == names
    for row, name in enumerate(names):
        assert found.support[name] == gold.count(name)
        figure = found.recall[name]
        assert (figure is None) == (name not in gold)
        assert figure is None or figure.value == pytest.approx(recalls[row], abs=1e-12)
        counts = [found.confusion[name].get(choice, 0) for choice in [*names, NO_CHOICE]]
        assert counts == table[row].tolist()
        assert 0 not in found.confusion[name].values()


@given(st.integers(0, 30), st.integers(0, 30), st.sampled_from([0.8, 0.95, 0.99]))
def test_accuracy_and_recall_have_wilson_intervals(make: Maker, right: int, wrong: int, level: float) -> None:
    cases = [Case("A", "A")] * right + [Case("A", "B")] * wrong + [Case("B", "B")]
    found = measure(make, cases, Resampling(resamples=100, level=level))
    expected = proportion_confint(right + 1, len(cases), 1 - level, "wilson")
    assert ends(found.figures["accuracy"]) == pytest.approx(expected, abs=1e-9)
    if right + wrong:
        expected = proportion_confint(right, right + wrong, 1 - level, "wilson")
        assert ends(found.recall["A"]) == pytest.approx(expected, abs=1e-9)


# conventions


def test_option_that_no_item_has_as_label_has_no_recall_and_does_not_count(make: Maker) -> None:
    found = measure(make, [Case("A", "A"), Case("A", "B")])
    assert value(found.figures["balanced_accuracy"]) == 0.5
    assert found.recall["B"] is None
    assert found.support == {"A": 2, "B": 0}
    assert found.confusion == {"A": {"A": 1, "B": 1}, "B": {}}


def test_item_without_a_decision_counts_as_wrong(make: Maker) -> None:
    found = measure(make, [Case("A", "A"), Case("A", None), Case("B", None), Case("B", "B")])
    assert (found.n, found.correct) == (4, 2)
    assert found.confusion == {"A": {"A": 1, NO_CHOICE: 1}, "B": {"B": 1, NO_CHOICE: 1}}
    assert value(found.figures["balanced_accuracy"]) == 0.5
    assert value(found.figures["macro_f1"]) == pytest.approx(2 / 3)


def test_unlabelled_items_do_not_count(make: Maker) -> None:
    found = measure(make, [Case("A", "A"), Case(None, "B"), Case(None, None)])
    assert (found.n, found.correct, found.support) == (1, 1, {"A": 1})


def test_without_labels_nothing_is_defined(make: Maker) -> None:
    found = measure(make, [Case(None, "A")])
    assert found.to_dict() == {
        "correct": 0,
        **dict.fromkeys(FIGURES),
        "recall": {},
        "support": {},
        "confusion": {},
    }
    assert deltas(make, [Case(None, "A", "B")]) == dict.fromkeys(FIGURES)


def test_without_families_there_is_no_mean_over_them(make: Maker) -> None:
    assert measure(make, [Case("A", "A"), Case("B", "A")]).figures["mean_family_balanced_accuracy"] is None
    assert deltas(make, [Case("A", "A", "B")])["mean_family_balanced_accuracy"] is None


def test_items_keep_their_own_options(make: Maker) -> None:
    cases = [Case("A", "A", options="AB"), Case("Z", "X", options="XYZ"), Case("B", "B", options="BA")]
    found = measure(make, cases)
    assert found.confusion == {"A": {"A": 1}, "B": {"B": 1}, "X": {}, "Z": {"X": 1}}
    assert found.correct == 2


def test_many_families_and_options_are_kept_apart(make: Maker) -> None:
    # More combinations than a table of counts would hold.
    letters = [chr(0x4E00 + number) for number in range(60)]
    pairs = [letters[number] + letters[number - 1] for number in range(60)]
    cases = [
        Case(pair[0], pair[number % 2], pair[1], f"f{number}", options=pair)
        for number, pair in enumerate(pairs)
    ]
    found = measure(make, cases)
    assert (found.n, found.correct) == (60, 30)
    assert set(found.support) == set(letters)
    assert value(found.figures["mean_family_balanced_accuracy"]) == 0.5
    assert value(deltas(make, cases)["accuracy"]) == -0.5


def test_slice_is_measured_as_if_it_were_alone(make: Maker) -> None:
    cases = [
        Case("A", "A", family="f", group="u"),
        Case("B", "A", family="g", group="v"),
        Case("B", "B", family="f", group="w"),
        Case("C", "B", family="g", group="v"),
        Case(None, "B", family="g"),
    ]
    whole = CellTable([side(make, cases)])
    for keep in ([0, 2], [1, 3, 4], [0, 1, 2, 3, 4], [4]):
        part = accuracy(whole.cells(np.asarray(keep)), FAST)
        alone = measure(make, [cases[number] for number in keep])
        assert part.n == alone.n
        assert part.support == alone.support
        assert part.confusion == alone.confusion
        for name in FIGURES:
            one, other = part.figures[name], alone.figures[name]
            assert (one is None) == (other is None)
            assert one is None or value(one) == pytest.approx(value(other), abs=1e-15)


# intervals


def mixed(n: int) -> list[Case]:
    return [
        Case("AB"[number % 2], "A" if number % 3 else "B", "AB"[number % 5 % 2], "fg"[number % 2])
        for number in range(n)
    ]


def test_bootstrap_intervals_are_the_same_every_time_and_move_with_the_seed(make: Maker) -> None:
    cases = mixed(40)
    first, again = measure(make, cases), measure(make, cases)
    assert first == again
    assert deltas(make, cases) == deltas(make, cases)
    other = measure(make, cases, Resampling(resamples=100, seed=1))
    assert ends(first.figures["macro_f1"]) != ends(other.figures["macro_f1"])
    assert value(first.figures["macro_f1"]) == value(other.figures["macro_f1"])


def test_intervals_widen_with_the_level(make: Maker) -> None:
    narrow, wide = (measure(make, mixed(40), Resampling(resamples=500, level=level)) for level in (0.5, 0.99))
    for name in FIGURES:
        inner, outer = ends(narrow.figures[name]), ends(wide.figures[name])
        assert outer[0] < inner[0] <= inner[1] < outer[1], name


def test_methods_of_the_intervals_are_named(make: Maker) -> None:
    found = measure(make, mixed(40))
    methods = {name: figure and figure.method for name, figure in found.figures.items()}
    assert methods == {
        "accuracy": "wilson",
        "balanced_accuracy": "bootstrap",
        "mean_family_balanced_accuracy": "bootstrap",
        "macro_f1": "bootstrap",
    }
    assert {figure.method for figure in deltas(make, mixed(40)).values() if figure} == {"paired bootstrap"}


def test_items_of_a_group_are_resampled_together(make: Maker) -> None:
    alone = [Case("AB"[number % 2], "A", None, "f") for number in range(40)]
    copies = [
        Case(case.gold, case.choice if number % 3 else "B", None, "f", f"g{number}")
        for number, case in enumerate(alone)
    ] * 4
    separate = [Case(case.gold, case.choice, None, "f") for case in copies]
    grouped, single = (
        measure(make, cases, Resampling(2000)).figures["balanced_accuracy"] for cases in (copies, separate)
    )
    assert value(grouped) == value(single)
    # Four copies of each item carry the information of one: the interval is twice as wide.
    ratio = np.ptp(ends(grouped)) / np.ptp(ends(single))
    assert ratio == pytest.approx(2, rel=0.15)


@pytest.mark.parametrize("groups", [[None] * 6, list("uvwxyz"), ["u", None, "v", None, None, "w"]])
def test_items_without_a_group_or_alone_in_theirs_are_resampled_singly(
    make: Maker, groups: list[str | None]
) -> None:
    cases = [Case("AB"[n % 2], "A", "AB"[n % 3 % 2], "f", group) for n, group in enumerate(groups)]
    ungrouped = [Case("AB"[n % 2], "A", "AB"[n % 3 % 2], "f") for n in range(6)]
    assert measure(make, cases).figures == measure(make, ungrouped).figures
    assert deltas(make, cases) == deltas(make, ungrouped)


def test_resampled_counts_are_those_observed_on_the_average(make: Maker) -> None:
    # Option and family names that do not come in alphabetical order, and cells of different sizes.
    cases = [
        *[Case("B", "B", None, "z", options="BA")] * 16,
        *[Case("B", "A", None, "z", options="BA")] * 8,
        *[Case("A", "A", None, "y", options="BA")] * 4,
        *[Case("A", "B", None, "y", options="BA")] * 2,
    ]
    cells = CellTable([side(make, cases)]).cells()
    drawn = cells.resampled(Resampling(resamples=4000))
    np.testing.assert_allclose(drawn.mean(axis=0), cells.counts[0], rtol=0.05)


def test_families_are_strata(make: Maker) -> None:
    # With one label a family, stratified draws cannot change recalls that are all 0 or 1.
    cases = [Case("A", "A", None, "f")] * 5 + [Case("B", "A", None, "g")] * 5
    cells = CellTable([side(make, cases)]).cells()
    drawn = figures(cells, 0, cells.resampled(FAST))
    assert set(drawn["accuracy"].tolist()) == {0.5}


def test_all_correct_has_an_interval_although_every_resample_is_equal(make: Maker) -> None:
    found = measure(make, [Case("A", "A", None, "f")] * 5 + [Case("B", "B", None, "f")] * 13)
    for name in ("balanced_accuracy", "mean_family_balanced_accuracy"):
        figure = found.figures[name]
        assert figure is not None
        assert figure.method == "wilson, square-and-add"
        # Square-and-add of the Wilson intervals of 5 of 5 and 13 of 13, each with weight 1/2.
        lows = [proportion_confint(n, n, 0.05, "wilson")[0] for n in (5, 13)]
        expected = 1 - 0.5 * np.hypot(1 - lows[0], 1 - lows[1])
        assert ends(figure) == pytest.approx((expected, 1.0), abs=1e-9)
    assert found.figures["macro_f1"] == Figure(1.0, None, None, "none: every resample is equal")


def test_nothing_correct_has_an_interval_too(make: Maker) -> None:
    figure = measure(make, [Case("A", "B")] * 4).figures["balanced_accuracy"]
    low, high = ends(figure)
    assert (value(figure), low) == (0.0, 0.0)
    assert high == pytest.approx(proportion_confint(0, 4, 0.05, "wilson")[1])


def test_single_item_has_an_interval(make: Maker) -> None:
    found = measure(make, [Case("A", "A", None, "f")])
    assert ends(found.figures["balanced_accuracy"])[0] == pytest.approx(
        proportion_confint(1, 1, 0.05, "wilson")[0]
    )


# deltas


@given(CASES)
def test_deltas_are_candidate_minus_reference(make: Maker, cases: list[Case]) -> None:
    before = measure(make, cases)
    after = measure(make, [Case(c.gold, c.other, None, c.family, c.group) for c in cases])
    for name, delta in deltas(make, cases).items():
        assert value(delta) == pytest.approx(
            value(after.figures[name]) - value(before.figures[name]), abs=1e-12
        )
        assert -1 <= value(delta) <= 1


def test_deltas_without_a_flip_have_an_interval_that_holds_zero(make: Maker) -> None:
    same = [Case("A", "A", "A", "f")] * 10 + [Case("B", "A", "A", "f")] * 8
    found = deltas(make, same)
    for name in ("accuracy", "balanced_accuracy", "mean_family_balanced_accuracy"):
        figure = found[name]
        assert figure is not None
        assert (figure.value, figure.method) == (0.0, "wilson, square-and-add")
        low, high = ends(figure)
        assert low < 0 < high
        assert low == pytest.approx(-high)
    # Of 18 pairs none gained and none lost: Wilson intervals of 0 of 18, added in squares.
    bound = proportion_confint(0, 18, 0.05, "wilson")[1]
    assert ends(found["accuracy"])[1] == pytest.approx(bound, abs=1e-9)
    assert found["macro_f1"] == Figure(0.0, None, None, "none: every resample is equal")


def test_delta_of_everything_broken_has_an_interval(make: Maker) -> None:
    figure = deltas(make, [Case("A", "A", "B")] * 6)["accuracy"]
    low, high = ends(figure)
    assert value(figure) == low == -1.0
    assert -1 < high < 0


def test_paired_interval_is_narrower_than_that_of_independent_runs(make: Maker) -> None:
    cases = [Case("AB"[n % 2], "AB"[n % 3 == 0], None) for n in range(60)]
    cases = [Case(c.gold, c.choice, c.choice if n % 10 else "A") for n, c in enumerate(cases)]
    paired = np.ptp(ends(deltas(make, cases)["accuracy"]))
    alone = np.ptp(ends(measure(make, cases).figures["accuracy"]))
    assert paired < alone


# chance and positions


def test_chance_is_the_mean_over_each_items_own_options(make: Maker) -> None:
    decisions = side(
        make,
        [
            Case("A", "A", options="AB"),
            Case("C", "C", options="ABCD"),
            Case("J", "A", options="ABCDEFGHIJ"),
            Case(None, "A", options="AB"),
        ],
    )
    assert chance(decisions) == pytest.approx((1 / 2 + 1 / 4 + 1 / 10) / 3)
    assert chance(decisions, np.asarray([1, 3])) == 0.25
    assert chance(decisions, np.asarray([3])) is None


def test_positions_show_how_often_each_is_label_and_choice(make: Maker) -> None:
    decisions = side(
        make,
        [
            Case("A", "A", options="AB"),
            Case("B", "A", options="AB"),
            Case("B", "B", options="BA"),
            Case("B", "A", options="BA"),
            Case(None, "A", options="XAY"),
            Case("X", None, options="XAY"),
        ],
    )
    found = by_position(decisions, 0.95)
    assert {name: (row["n"], row["chosen"]) for name, row in found.items()} == {"A": (4, 3), "B": (1, 1)}
    assert [row["accuracy"]["value"] for row in found.values()] == [0.5, 0.0]
    assert found["A"]["accuracy"]["method"] == "wilson"


def test_position_that_is_only_chosen_has_no_accuracy(make: Maker) -> None:
    assert by_position(side(make, [Case("A", "B", options="AB")]), 0.95)["B"] == {
        "n": 0,
        "chosen": 1,
        "accuracy": None,
    }


@pytest.mark.parametrize(("place", "name"), [(0, "A"), (25, "Z"), (26, "27"), (99, "100")])
def test_position_names_go_beyond_the_alphabet(place: int, name: str) -> None:
    assert position_name(place) == name


def test_resampling_describes_itself() -> None:
    assert Resampling(100, 7, 0.9).to_dict() == {
        "method": "percentile bootstrap of groups, stratified by family",
        "level": 0.9,
        "resamples": 100,
        "seed": 7,
    }
