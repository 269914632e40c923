"""The shipped ladder of precisions: whole recordings of one model, whose drift grows as the bits shrink."""

from __future__ import annotations

from itertools import pairwise

import pytest

import evalkit
from evalkit.runs import Run

SETS = ("decisions-252", "graduate-18", "graduate-200")
RUNGS = ("f16", "q8_0", "q4_k_m", "q3_k_m", "q2_k")


def ladder(label_set: str) -> list[Run]:
    return [evalkit.load_run(f"{label_set}/qwen0.5b-{rung}") for rung in RUNGS]


def drifts(label_set: str) -> list[tuple[float, float]]:
    """Return mean KL and mean shift of each rung against the first."""
    reference, *others = ladder(label_set)
    reports = [evalkit.diff(reference, run) for run in others]
    assert all(report.overall["compared"] == len(report.labels) for report in reports)
    return [(report.overall["mean_kl"], report.overall["mean_max_shift"]) for report in reports]


@pytest.mark.parametrize("label_set", SETS)
def test_drift_is_least_with_most_bits_and_most_with_least(label_set: str) -> None:
    for figures in zip(*drifts(label_set), strict=True):
        assert (min(figures), max(figures)) == (figures[0], figures[-1])


def test_drift_grows_at_every_rung_where_the_model_does_not_always_answer_alike() -> None:
    for figures in zip(*drifts("decisions-252"), strict=True):
        assert all(one < other for one, other in pairwise(figures))


@pytest.mark.parametrize("label_set", SETS)
def test_sidecars_say_what_was_served(label_set: str) -> None:
    runs = ladder(label_set)
    served = [run.meta["model"]["served"] for run in runs]
    bits = [8 * facts["size"] / facts["n_params"] for facts in served]
    assert bits == sorted(set(bits), reverse=True)
    for run, measured in zip(runs, bits, strict=True):
        assert run.meta["model"]["quantization"].endswith(f", {measured:.2f} bits a weight")
        assert "de-quantized Q4_K_M" in run.meta["note"]
        options = run.meta["recorded"]["options"]
        assert (options["deterministic"], options["cache_prompt"]) == (True, False)
        assert run.cache_hits == 0
    assert len({run.meta["model"]["sha256"] for run in runs}) == len(RUNGS)
