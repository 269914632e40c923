"""The noise floor: what moves without a change of the model, and what of a candidate goes beyond it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from evalkit.comparing import DiffReport, diff
from evalkit.gate.noise import MARKS, leads, noise_floor

if TYPE_CHECKING:
    from tests.conftest import Maker


def run(make: Maker, values: list[float | None], name: str = "run") -> Any:
    """One item a value: the probability of A, B has the rest; None is left out."""
    rows = [make.row(f"q{n}", {"A": p, "B": round(1 - p, 12)}) for n, p in enumerate(values) if p is not None]
    return make.run(rows, name)


def against(make: Maker, before: list[float | None], after: list[float | None]) -> DiffReport:
    labels = make.labels([make.item(f"q{n}", label="A") for n in range(len(before))])
    return diff(labels, run(make, before), run(make, after, "other"))


def marks(floor: Any) -> list[str]:
    return [MARKS[mark] for mark in floor.mark]


def test_floor_tells_noise_from_change(make: Maker) -> None:
    # Leads in the reference: 0.8, 0.0, 0.1, 0.6, 0.8. Noise moves q2 over the line (its lead by 0.2).
    before: list[float | None] = [0.9, 0.5, 0.55, 0.8, 0.9]
    noise = against(make, before, [0.9, 0.5, 0.45, 0.8, 0.88])
    candidate = against(make, before, [0.1, 0.4, 0.4, 0.3, 0.9])
    floor = noise_floor(candidate, [noise])
    assert marks(floor) == ["", "tie", "moves in noise", "", ""]
    assert floor.figures == {
        "covered": 5,
        "items": 5,
        "changed_choices": 1,
        "max_probability_shift": pytest.approx(0.1),
        "movement_of_a_lead": pytest.approx(0.2),
        "largest_movement_of_a_lead": pytest.approx(0.2),
        "near_ties": 2,
        "changed_choices_beyond_noise": 2,
        "max_probability_shift_beyond_noise": {"value": pytest.approx(0.7), "id": "q0", "option": "A"},
    }
    assert floor.to_dict()["runs"] == ["other"]


def test_floor_marks_near_ties_by_the_movement_of_leads(make: Maker) -> None:
    before: list[float | None] = [0.9, 0.53, 0.56]
    noise = against(make, before, [0.86, 0.53, 0.56])  # moves a lead by 0.08
    floor = noise_floor(against(make, before, [0.9, 0.4, 0.4]), [noise])
    assert marks(floor) == ["", "near tie", ""]
    assert floor.figures["changed_choices_beyond_noise"] == 1


def test_floor_is_not_set_by_one_odd_item(make: Maker) -> None:
    before: list[float | None] = [0.95, *[0.6] * 29, 0.51]
    odd = against(make, before, [0.05, *[0.61] * 29, 0.51])
    floor = noise_floor(against(make, before, [0.95, *[0.3] * 29, 0.3]), [odd])
    assert floor.figures["largest_movement_of_a_lead"] == pytest.approx(1.8)
    assert floor.figures["movement_of_a_lead"] == pytest.approx(0.02)
    assert marks(floor) == ["moves in noise", *[""] * 29, "near tie"]
    assert floor.figures["changed_choices_beyond_noise"] == 29


def test_floor_takes_the_worst_of_several_runs(make: Maker) -> None:
    before: list[float | None] = [0.9, 0.53, 0.56]
    calm, wild = against(make, before, before), against(make, before, [0.8, 0.53, 0.56])
    candidate = against(make, before, [0.9, 0.4, 0.4])
    assert noise_floor(candidate, [calm]).figures["changed_choices_beyond_noise"] == 2
    both = noise_floor(candidate, [calm, wild])
    assert both.figures["changed_choices_beyond_noise"] == 0
    assert both.figures["max_probability_shift"] == pytest.approx(0.1)


def test_floor_of_the_same_run_excuses_only_ties(make: Maker) -> None:
    before: list[float | None] = [0.5, 0.500001]
    floor = noise_floor(against(make, before, [0.4, 0.4]), [against(make, before, before)])
    assert marks(floor) == ["tie", ""]
    assert floor.figures["changed_choices_beyond_noise"] == 1


def test_floor_of_items_that_noise_does_not_cover_is_that_of_the_others(make: Maker) -> None:
    before: list[float | None] = [0.9, 0.53, 0.7]
    floor = noise_floor(against(make, before, [0.9, 0.4, 0.4]), [against(make, before, [0.86, None, None])])
    assert floor.figures["covered"] == 1
    assert marks(floor) == ["", "near tie", ""]
    assert floor.figures["changed_choices_beyond_noise"] == 1


def test_floor_without_a_decision_is_null(make: Maker) -> None:
    labels = make.labels([make.item("q1", label="A"), make.item("q2", label="A")])
    reference = make.run([make.row("q1", {"A": 0.9, "B": 0.1})])
    noise = make.run([make.row("q2", {"A": 0.9, "B": 0.1})])
    candidate = diff(labels, reference, make.run([make.row("q1", {"A": 0.1, "B": 0.9})]))
    figures = noise_floor(candidate, [diff(labels, reference, noise)]).figures
    assert figures["covered"] == 0
    named = (
        "changed_choices",
        "near_ties",
        "changed_choices_beyond_noise",
        "max_probability_shift_beyond_noise",
    )
    assert [figures[name] for name in named] == [None] * 4


def test_floor_of_named_choices_knows_changes_only(make: Maker) -> None:
    labels = make.labels([make.item("q1", label="A"), make.item("q2", label="A")])

    def named(*choices: str) -> Any:
        rows = [
            make.row(f"q{n}", option_ids=["A", "B"], choice=choice) for n, choice in enumerate(choices, 1)
        ]
        return make.run(rows)

    reference = named("A", "A")
    candidate, noise = (diff(labels, reference, one) for one in (named("B", "B"), named("A", "B")))
    floor = noise_floor(candidate, [noise])
    assert marks(floor) == ["", "moves in noise"]
    assert floor.figures["changed_choices_beyond_noise"] == 1
    assert floor.figures["max_probability_shift_beyond_noise"] is None


def test_leads_are_those_of_the_reference_choice(make: Maker) -> None:
    items = [make.item("q1", "ABC", "A"), make.item("q2", "AB", "A")]
    first = make.aligned(
        items, [make.row("q1", {"A": 0.5, "B": 0.3, "C": 0.2}), make.row("q2", {"A": 0.4, "B": 0.6})]
    )
    other = make.aligned(items, [make.row("q1", {"A": 0.2, "B": 0.3, "C": 0.5})])
    assert leads(first, first) == pytest.approx([0.2, 0.2])
    moved = leads(first, other)
    assert moved[0] == pytest.approx(-0.3)
    assert np.isnan(moved[1])
