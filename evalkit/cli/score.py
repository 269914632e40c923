"""``evalkit score``: what runs are worth on their label set."""

from __future__ import annotations

from typing import Annotated

import typer

from evalkit.cli import common


def score(
    runs: Annotated[
        list[str], typer.Argument(help="Runs: names (bf16, semif-252/bf16) or paths.", metavar="RUN...")
    ],
    labels: common.LabelsOption = None,
    by: common.ByOption = None,
    only: common.OnlyOption = None,
    policy: common.PolicyOption = None,
    default_action: common.DefaultActionOption = None,
    items: Annotated[
        bool, typer.Option("--items", help="List every item with what the policy does.")
    ] = False,
    everything: common.AllOption = False,
    resamples: common.ResamplesOption = 10_000,
    seed: common.SeedOption = 20260917,
    strict: common.StrictOption = False,
    format: common.FormatOption = common.Format.text,
    output: common.OutputOption = None,
    root: common.RootOption = None,
    quiet: common.QuietOption = False,
    no_color: common.NoColorOption = False,
) -> None:
    """Score runs against a label set: accuracies with intervals, losses, slices, and what the policy does."""
    from evalkit.catalog import read_run
    from evalkit.scoring import ScoreReport
    from evalkit.scoring import score as score_run

    options = common.make_options(by, only, policy, default_action, resamples, seed, strict)
    catalog = common.open_catalog(root)
    groups: dict[str, list[ScoreReport]] = {}
    for group in catalog.resolve(runs):
        for file in group:
            run = read_run(file)
            found = catalog.labels_for(run, labels, common.extra_fields(options))
            groups.setdefault(found.file, []).append(score_run(found, run, options))
    style = common.look(output, no_color, quiet, items=items, everything=everything)
    common.emit(common.joined(list(groups.values()), format.value, style), output)
