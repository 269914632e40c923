"""``evalkit diff``: what changed between a reference and one or more candidates."""

from __future__ import annotations

from typing import Annotated

import typer

from evalkit.cli import common


def diff(
    reference: Annotated[str, typer.Argument(help="The run to compare with: a name or a path.")],
    candidates: Annotated[
        list[str], typer.Argument(help="The runs that are judged.", metavar="CANDIDATE...")
    ],
    labels: common.LabelsOption = None,
    without_labels: Annotated[bool, typer.Option("--no-labels", help="Measure drift only.")] = False,
    by: common.ByOption = None,
    only: common.OnlyOption = None,
    policy: common.PolicyOption = None,
    default_action: common.DefaultActionOption = None,
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
    """Compare runs: changed choices, shifts, whether it is more than chance, what production would do.

    Without a label set that covers the runs, only drift is measured.
    """
    from evalkit.api import find_labels
    from evalkit.catalog import read_run
    from evalkit.comparing import diff as compare

    options = common.make_options(by, only, policy, default_action, resamples, seed, strict)
    catalog = common.open_catalog(root)
    fields = common.extra_fields(options)
    reports = []
    for first, *others in catalog.resolve([reference, *candidates]):
        before = read_run(first)
        found = None if without_labels else find_labels(catalog, before, labels, fields)
        reports.append([compare(found, before, read_run(file), options) for file in others])
    style = common.look(output, no_color, quiet, everything=everything)
    common.emit(common.joined(reports, format.value, style), output)
