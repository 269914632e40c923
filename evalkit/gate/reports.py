"""The reports that the rules of a gate are judged by, and their figures as trees of names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from evalkit.accuracy import NO_CHOICE
from evalkit.comparing import DiffReport, diff
from evalkit.decisions import unlabelled
from evalkit.errors import UsageError
from evalkit.gate.noise import NoiseFloor, noise_floor
from evalkit.labels import LabelSet
from evalkit.runs import Run
from evalkit.scoring import Options, ScoreReport, score

Slice = tuple[str, str] | None

COMPLETENESS = ("missing", "invalid", "error")
"""The counts of items without a usable decision."""


class Reports:
    """The reports that rules are judged by, each made when it is first asked for."""

    def __init__(
        self,
        labels: LabelSet | None,
        candidate: Run,
        reference: Run | None,
        noise: Sequence[Run],
        options: Options,
    ) -> None:
        runs = [run for run in (reference, candidate) if run is not None]
        self.labels = unlabelled(runs) if labels is None else labels
        self.noise = tuple(noise)
        self.options = replace(options, by=())
        self._runs = {"candidate": candidate, "reference": reference}
        self._made: dict[tuple[str, Slice], Any] = {}

    @property
    def compares(self) -> bool:
        """There is a reference."""
        return self._runs["reference"] is not None

    def score(self, run: str = "candidate", part: Slice = None) -> ScoreReport:
        """Return the score of the candidate or the reference, of all items or of a slice."""
        found: ScoreReport = self._once(
            run, part, lambda options: score(self.labels, self._run(run), options)
        )
        return found

    def diff(self, part: Slice = None) -> DiffReport:
        """Return the diff of the candidate against the reference."""
        found: DiffReport = self._once(
            "diff", part, lambda options: self._against(self._run("candidate"), options)
        )
        return found

    def floor(self, part: Slice = None) -> NoiseFloor:
        """Return the noise floor."""
        candidate = self.diff(part)
        found: NoiseFloor = self._once(
            "noise",
            part,
            lambda options: noise_floor(candidate, [self._against(run, options) for run in self.noise]),
        )
        return found

    def holds(self, part: Slice) -> bool:
        """Tell whether a slice is compatible with the restriction of the whole gate."""
        return part is None or self.options.only.get(part[0], part[1]) == part[1]

    def _against(self, run: Run, options: Options) -> DiffReport:
        return diff(self.labels, self._run("reference"), run, options)

    def _run(self, name: str) -> Run:
        run = self._runs[name]
        if run is None:
            raise UsageError("there is no reference to compare with; name one with --reference")
        return run

    def _once(self, name: str, part: Slice, make: Callable[[Options], Any]) -> Any:
        if (name, part) not in self._made:
            only = {**self.options.only, **(dict([part]) if part else {})}
            self._made[name, part] = make(replace(self.options, only=only))
        return self._made[name, part]


def score_tree(report: ScoreReport) -> dict[str, Any]:
    """Return the figures of a score that rules can name, with the gate's own names among them."""
    unusable = sum(report.counts[name] for name in COMPLETENESS)
    own = {"headline": report.overall[report.labels.headline], "confusion": _confusion(report)}
    return {
        "overall": {**report.overall, **own},
        "counts": {**report.counts, "unusable": unusable},
        "policy": report.policy,
    }


def _confusion(report: ScoreReport) -> dict[str, dict[str, int] | None]:
    """Return the confusion table with its zeros, which reports leave out; null for labels without items."""
    options = sorted({option for layout in report.labels.layouts for option in layout})
    table = report.overall["confusion"]
    return {
        label: {choice: table[label].get(choice, 0) for choice in (*options, NO_CHOICE)}
        if label in report.overall["support"]
        else None
        for label in options
    }


def diff_tree(report: DiffReport) -> dict[str, Any]:
    """Return the figures of a diff that rules can name, with the gate's own names among them."""
    headline = report.labels.headline
    named = {"headline": report.overall[headline], "headline_delta": report.overall[f"{headline}_delta"]}
    return {
        "overall": {**report.overall, **named},
        "counts": report.counts,
        "policy": report.policy,
    }
