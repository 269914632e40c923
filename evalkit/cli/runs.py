"""``evalkit runs``: list, show and validate recorded runs."""

from __future__ import annotations

from typing import Annotated

import typer

from evalkit.cli import common

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="List, show and validate recorded runs.")


@app.command("list")
def list_runs(
    format: common.ListFormatOption = common.ListFormat.text,
    output: common.OutputOption = None,
    root: common.RootOption = None,
    no_color: common.NoColorOption = False,
) -> None:
    """List the runs that are found by name."""
    from evalkit.catalog import shown
    from evalkit.render import catalog_view
    from evalkit.runs import read_sidecar

    entries = []
    for found in common.open_catalog(root).run_files():
        meta = read_sidecar(found.path, shown(found.path))
        model, runtime = meta.get("model", {}), meta.get("runtime", {})
        entries.append(
            {
                "run": found.name,
                "label set": found.set_name,
                "model": model.get("name"),
                "quantization": model.get("quantization"),
                "runtime": runtime.get("name"),
                "file": shown(found.path),
            }
        )
    data = {"schema": "evalkit.runs/1", "runs": entries}
    common.emit_document(catalog_view.run_list(entries), data, format, output, no_color)


@app.command()
def show(
    name: Annotated[
        str, typer.Argument(help="A run: a name (bf16, semif-252/bf16) or a path.", metavar="RUN")
    ],
    format: common.ListFormatOption = common.ListFormat.text,
    output: common.OutputOption = None,
    root: common.RootOption = None,
    no_color: common.NoColorOption = False,
) -> None:
    """Describe a run: how many decisions of which status, and what its sidecar says."""
    from evalkit.render import catalog_view

    run = common.open_catalog(root).run(name)
    data = {
        "schema": "evalkit.run-summary/1",
        **run.to_dict(),
        "status": catalog_view.status_counts(run),
        "notices": list(run.notices),
    }
    common.emit_document(catalog_view.run(run), data, format, output, no_color)


@app.command()
def validate(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Runs: names or paths; default: all under runs/ of the root.", metavar="[RUN]..."
        ),
    ] = None,
    labels: common.LabelsOption = None,
    strict: common.StrictOption = False,
    root: common.RootOption = None,
    quiet: common.QuietOption = False,
) -> None:
    """Check runs: every row, the sidecar, the fit to the label set. Exits with 3 and lists all problems."""
    from evalkit.checking import check_run

    catalog = common.open_catalog(root)
    files = (
        [file for name in names for group in catalog.resolve([name]) for file in group]
        if names
        else catalog.own_run_files()
    )
    common.report_checks((check_run(catalog, file, labels, strict=strict) for file in files), quiet)
    if not files:
        common.warn("no run under runs/ of the root")
