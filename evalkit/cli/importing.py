"""``evalkit runs import``, ``runs export`` and ``labels import``: other tools' files in and out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evalkit.cli import common
from evalkit.errors import UsageError

if TYPE_CHECKING:
    from evalkit.importers import ImportOptions

FilesArgument = Annotated[
    list[Path], typer.Argument(help="Files to import; together they are one recording.", metavar="FILE...")
]
FormatName = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        help="semif, openai-responses, openai-batch, lm-eval, inspect, promptfoo, csv or parquet; "
        "recognised by content where absent.",
    ),
]
OptionsOption = Annotated[
    str | None,
    typer.Option("--options", help="Ids of every item's options in prompt order, separated by commas."),
]
IdFieldOption = Annotated[
    str, typer.Option("--id-field", help="Where the id stands in a record, e.g. doc.id or vars.case.")
]
ColumnsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--columns", help="For tables: FIELD=COLUMN,... e.g. id=doc,label=gold,probability.A=p_yes."
    ),
]
DelimiterOption = Annotated[
    str, typer.Option("--delimiter", help="For CSV: what separates cells (\\t: tab).")
]
RunOutput = Annotated[Path, typer.Option("--output", "-o", help="The run file to write (NAME.jsonl).")]


def runs_import(
    files: FilesArgument,
    output: RunOutput,
    format: FormatName = None,
    labels: common.LabelsOption = None,
    options: OptionsOption = None,
    answers: Annotated[
        str,
        typer.Option(
            "--answers", help="What answers name: letters (A, B ... by position) or ids (of the options)."
        ),
    ] = "",
    token_id: Annotated[
        list[str] | None,
        typer.Option("--token-id", help="Name of a token number, e.g. 32=A (repeatable)."),
    ] = None,
    text_choices: Annotated[
        bool,
        typer.Option(
            "--text-choices", help="Take the answer's text as a choice where no probabilities were recorded."
        ),
    ] = False,
    filter: Annotated[str | None, typer.Option("--filter", help="lm-eval: the filter to import.")] = None,
    provider: Annotated[
        str | None, typer.Option("--provider", help="promptfoo: the provider to import.")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt", help="promptfoo: the number of the prompt to import.")
    ] = None,
    epoch: Annotated[int | None, typer.Option("--epoch", min=1, help="Import this repeat only.")] = None,
    repeats: Annotated[
        bool, typer.Option("--repeats", help="Import every repeat, as NAME.1.jsonl, NAME.2.jsonl ...")
    ] = False,
    id_field: IdFieldOption = "",
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = ",",
    root: common.RootOption = None,
    quiet: common.QuietOption = False,
) -> None:
    """Import recordings of other tools as a run.

    What was tolerated is said on standard error and kept in the run's sidecar. A row without a usable
    decision is kept with its reason, and counts as such in every report.
    """
    catalog = common.open_catalog(root)
    from evalkit.catalog import shown
    from evalkit.importers import find_format, open_files
    from evalkit.importers.writing import import_runs

    if repeats and epoch is not None:
        raise UsageError("--repeats and --epoch exclude each other")
    declared = _declared(options, columns, delimiter, id_field)
    declared = _with_answers(declared, answers, token_id)
    series = {"--filter": filter, "--provider": provider, "--prompt": prompt}
    declared = _replaced(
        declared,
        text_choices=text_choices,
        series={name: value for name, value in series.items() if value is not None},
        epoch=epoch,
        repeats=repeats,
    )
    opened = open_files(files, [shown(file) for file in files])
    found = find_format(format, opened[0], declared)
    label_set = catalog.labels(labels) if labels is not None else None
    written = import_runs(opened, found, label_set, declared, output)
    for run in written:
        for notice in (*run.notices, *(run.reasons if run.usable else ())):
            common.warn(notice)
        if not quiet:
            counts = f"invalid {run.invalid}, error {run.failed}"
            common.emit(f"{run.path}: usable {run.usable} of {run.decisions}, {counts}\n", None)
    for run in written:
        run.refuse_empty()


def runs_export(
    run: Annotated[
        str, typer.Argument(help="A run: a name (bf16, semif-252/bf16) or a path.", metavar="RUN")
    ],
    format: Annotated[str, typer.Option("--format", "-f", help="parquet, csv or lm-eval.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
    labels: common.LabelsOption = None,
    root: common.RootOption = None,
    quiet: common.QuietOption = False,
) -> None:
    """Export a run for another tool."""
    catalog = common.open_catalog(root)
    from evalkit.catalog import shown
    from evalkit.importers.export import export_run

    path = catalog.run_file(run).path
    label_set = catalog.labels(labels) if labels is not None else None
    written = export_run(path, shown(path), format, output, label_set)
    for notice in written.notices:
        common.warn(notice)
    if not quiet:
        common.emit(f"{written.path}: rows {written.decisions}\n", None)


def labels_import(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="A file NAME.jsonl, or a new folder that also gets a card."),
    ],
    files: Annotated[list[Path] | None, typer.Argument(help="Files to import.", metavar="[FILE]...")] = None,
    format: FormatName = None,
    hub: Annotated[
        str | None, typer.Option("--hub", help="A Hugging Face dataset, or a folder that holds one.")
    ] = None,
    revision: Annotated[
        str | None, typer.Option("--revision", help="With --hub: the commit to import.")
    ] = None,
    config: Annotated[str | None, typer.Option("--config", help="With --hub: the configuration.")] = None,
    split: Annotated[str, typer.Option("--split", help="With --hub: the split.")] = "test",
    options: OptionsOption = None,
    index_base: Annotated[
        int | None,
        typer.Option(
            "--index-base", min=0, max=1, help="Number of the first option where labels are numbers."
        ),
    ] = None,
    id_field: IdFieldOption = "",
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = ",",
    quiet: common.QuietOption = False,
) -> None:
    """Import a label set of another tool, or from a Hugging Face dataset.

    A label that is a number needs --index-base; a label spelled another way ('a', '(A)') is tidied where
    only one option can be meant, and each kind of tidying is said.
    """
    from evalkit.catalog import shown
    from evalkit.importers import find_format, open_files
    from evalkit.importers.hub import HubDataset, import_hub
    from evalkit.importers.label_writing import import_labels

    if bool(files) == (hub is not None):
        raise UsageError("name files to import, or a dataset with --hub")
    declared = _replaced(_declared(options, columns, delimiter, id_field), index_base=index_base)
    if hub is not None:
        written = import_hub(HubDataset(hub, revision, config, split), declared, output)
    else:
        opened = open_files(files or [], [shown(file) for file in files or []])
        written = import_labels(opened, find_format(format, opened[0], declared), declared, output)
    for notice in written.notices:
        common.warn(notice)
    if not quiet:
        common.emit(f"{written.path}: items {written.items}\n", None)


def _declared(options: str | None, columns: list[str] | None, delimiter: str, id_field: str) -> ImportOptions:
    from evalkit.importers import ImportOptions
    from evalkit.importers.tabular import check_columns

    ids = tuple(option.strip() for option in options.split(",")) if options else ()
    if options and (len(ids) < 2 or "" in ids or len(set(ids)) < len(ids)):
        raise UsageError(f"--options {options!r}: write two or more different ids, for example A,B")
    delimiter = "\t" if delimiter == "\\t" else delimiter
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise UsageError(f"--delimiter {delimiter!r}: one character is needed")
    pairs = [pair for text in columns or () for pair in text.split(",")]
    column_map = dict(_pair(pair, "--columns", "FIELD=COLUMN") for pair in pairs)
    check_columns(column_map)
    return ImportOptions(options=ids, columns=column_map, delimiter=delimiter, id_field=id_field)


def _with_answers(declared: ImportOptions, answers: str, token_id: list[str] | None) -> ImportOptions:
    if answers not in ("", "letters", "ids"):
        raise UsageError(f"--answers {answers}: there is letters, ids")
    numbers: dict[int, str] = {}
    for text in token_id or ():
        number, name = _pair(text, "--token-id", "NUMBER=NAME")
        if not number.isdecimal():
            raise UsageError(f"--token-id {text!r}: write NUMBER=NAME, for example 32=A")
        numbers[int(number)] = name
    return _replaced(declared, answers=answers, token_ids=numbers)


def _replaced(declared: ImportOptions, **changes: object) -> ImportOptions:
    from dataclasses import replace

    return replace(declared, **changes)  # type: ignore[arg-type]


def _pair(text: str, option: str, form: str) -> tuple[str, str]:
    left, equals, right = text.partition("=")
    if not (left and equals and right):
        raise UsageError(f"{option} {text!r}: write {form}")
    return left.strip(), right.strip()
