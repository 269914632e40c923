"""``evalkit labels``: list, show, validate and compare label sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evalkit.cli import common

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="List, show, validate and compare label sets."
)

NameArgument = Annotated[str, typer.Argument(help="NAME, NAME@VERSION, a folder or a file.", metavar="SET")]


@app.command("list")
def list_sets(
    format: common.ListFormatOption = common.ListFormat.text,
    output: common.OutputOption = None,
    root: common.RootOption = None,
    no_color: common.NoColorOption = False,
) -> None:
    """List the label sets that are found by name."""
    from evalkit.cards import CARD_NAME, load_card
    from evalkit.catalog import shown
    from evalkit.render import catalog_view

    folders = common.open_catalog(root).label_folders()
    cards = [(name, load_card(folder, shown(folder / CARD_NAME))) for name, folder in sorted(folders.items())]
    data = [
        {
            "name": name,
            "folder": shown(card.folder),
            "title": card.title,
            "default": card.default,
            "versions": {key: vars(version) for key, version in card.versions.items()},
        }
        for name, card in cards
    ]
    common.emit_document(
        catalog_view.label_sets(cards),
        {"schema": "evalkit.labelsets/1", "label_sets": data},
        format,
        output,
        no_color,
    )


@app.command()
def show(
    name: NameArgument,
    format: common.ListFormatOption = common.ListFormat.text,
    output: common.OutputOption = None,
    root: common.RootOption = None,
    no_color: common.NoColorOption = False,
) -> None:
    """Describe a label set: versions, labels, fields and policy."""
    from evalkit.render import catalog_view

    catalog = common.open_catalog(root)
    labels = catalog.labels(name)
    card = catalog.card(name)
    data = {
        "schema": "evalkit.labelset-summary/1",
        **labels.to_dict(),
        "headline": labels.headline,
        "labels": catalog_view.label_counts(labels),
        "fields": {field: list(coded.names) for field, coded in labels.fields.items()},
        "policy": labels.policy and labels.policy.to_dict(),
    }
    common.emit_document(catalog_view.label_set(labels, card), data, format, output, no_color)


@app.command()
def validate(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Label sets or files; default: all under labels/ of the root.", metavar="[SET]..."
        ),
    ] = None,
    root: common.RootOption = None,
    quiet: common.QuietOption = False,
) -> None:
    """Check label sets: card, checksums, every field of every item. Exits with 3 and lists all problems."""
    from evalkit.checking import check_labels

    catalog = common.open_catalog(root)
    wanted = (
        [_folder_of(name) for name in names]
        if names
        else sorted(map(str, catalog.own_label_folders().values()))
    )
    common.report_checks((check_labels(catalog, name) for name in dict.fromkeys(wanted)), quiet)
    if not wanted:
        common.warn("no label set under labels/ of the root")


def _folder_of(name: str) -> str:
    # A hook names the files that changed; a card stands for its whole folder.
    return str(Path(name).parent) if Path(name).name == "README.md" else name


@app.command()
def lint(
    names: Annotated[list[str], typer.Argument(help="Label sets or files.", metavar="SET...")],
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 3 if there are findings.")] = False,
    format: common.ListFormatOption = common.ListFormat.text,
    output: common.OutputOption = None,
    root: common.RootOption = None,
    no_color: common.NoColorOption = False,
) -> None:
    """Look for what makes a label set weak: imbalance, near-duplicates, give-aways."""
    from evalkit.errors import InputError, Problem
    from evalkit.lint import lint as find
    from evalkit.render import catalog_view

    catalog = common.open_catalog(root)
    found = [(labels, find(labels)) for labels in map(catalog.labels, names)]
    data = {
        "schema": "evalkit.lint/1",
        "label_sets": [
            {**labels.to_dict(), "findings": [vars(finding) for finding in findings]}
            for labels, findings in found
        ],
    }
    common.emit_document(catalog_view.lint(found), data, format, output, no_color)
    problems = [Problem(finding.what, labels.file) for labels, findings in found for finding in findings]
    if strict and problems:
        raise InputError(problems)


@app.command("diff")
def diff_sets(
    old: Annotated[str, typer.Argument(help="The old version, e.g. graduate-18@v1.", metavar="OLD")],
    new: Annotated[str, typer.Argument(help="The new version, e.g. graduate-18@v2.", metavar="NEW")],
    run: Annotated[str | None, typer.Option("--run", help="Also score this run against both.")] = None,
    format: common.ListFormatOption = common.ListFormat.text,
    output: common.OutputOption = None,
    root: common.RootOption = None,
    no_color: common.NoColorOption = False,
) -> None:
    """Show what changed between two versions of a label set, and what that does to a run's score."""
    from evalkit.labelchanges import label_changes
    from evalkit.render import catalog_view
    from evalkit.scoring import score

    catalog = common.open_catalog(root)
    before, after = catalog.labels(old), catalog.labels(new)
    found = label_changes(before, after)
    document = catalog_view.changes(old, new, found)
    data = {
        "schema": "evalkit.labels-diff/1",
        "old": before.to_dict(),
        "new": after.to_dict(),
        **found.to_dict(),
    }
    if run is not None:
        recorded = catalog.run(run)
        scores = [score(labels, recorded) for labels in (before, after)]
        document = catalog_view.with_scores(document, [old, new], scores)
        data["scores"] = [dict(report.overall[report.labels.headline]) for report in scores]
    common.emit_document(document, data, format, output, no_color)
