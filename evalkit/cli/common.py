"""Options that several commands share, and writing what they print."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from evalkit.errors import InputError, Problem, UsageError

if TYPE_CHECKING:
    from evalkit.catalog import Catalog
    from evalkit.checking import Checked
    from evalkit.render import Look
    from evalkit.render.document import Document
    from evalkit.scoring import Options


class Format(StrEnum):
    """Formats of reports."""

    text = "text"
    json = "json"
    markdown = "markdown"
    csv = "csv"
    html = "html"
    junit = "junit"
    github = "github"


class ListFormat(StrEnum):
    """Formats of lists and descriptions."""

    text = "text"
    json = "json"
    markdown = "markdown"
    csv = "csv"
    html = "html"


ListFormatOption = Annotated[ListFormat, typer.Option("--format", "-f", help="Format of the output.")]
FormatOption = Annotated[Format, typer.Option("--format", "-f", help="Format of the output.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write to this file instead of standard output.")
]
RootOption = Annotated[
    Path | None,
    typer.Option(
        "--root", help="Folder with labels/ and runs/ (default: EVALKIT_ROOT, else the current folder)."
    ),
]
LabelsOption = Annotated[
    str | None, typer.Option("--labels", "-l", help="Label set: NAME, NAME@VERSION, a folder or a file.")
]
ByOption = Annotated[
    list[str] | None,
    typer.Option("--by", help="Slice by this field of the items (repeatable; default: part and family)."),
]
OnlyOption = Annotated[
    list[str] | None, typer.Option("--only", help="Restrict to the items with FIELD=VALUE (repeatable).")
]
PolicyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--policy", help="Replace the policy: OPTION@THRESHOLD=ACTION, e.g. B@0.85=drop (repeatable)."
    ),
]
DefaultActionOption = Annotated[
    str | None,
    typer.Option("--default-action", help="With --policy: the action where no rule holds (default: keep)."),
]
ResamplesOption = Annotated[int, typer.Option("--resamples", min=100, help="Bootstrap resamples.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of the bootstrap.")]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="Exit with 3 if a run holds an invalid decision.")
]
AllOption = Annotated[bool, typer.Option("--all", help="Show every row of a list, not only the first 50.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print the summary only.")]
NoColorOption = Annotated[
    bool, typer.Option("--no-color", help="Use no colours (also: the environment variable NO_COLOR).")
]


class _Patient(io.TextIOWrapper):
    """Standard output whose reader may go away: what nobody reads is thrown away without an error."""

    def write(self, text: str, /) -> int:
        with self._nobody_reads():
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with self._nobody_reads():
            super().flush()

    @contextlib.contextmanager
    def _nobody_reads(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())


def prepare_streams() -> None:
    """Let neither a character nor a reader that goes away stop the output.

    What the encoding cannot hold is written as an escape.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if isinstance(sys.stdout, io.TextIOWrapper) and not isinstance(sys.stdout, _Patient):
        lines = sys.stdout.line_buffering
        encoding = sys.stdout.encoding
        sys.stdout = _Patient(sys.stdout.buffer, encoding, "backslashreplace", line_buffering=lines)


def open_catalog(root: Path | None) -> Catalog:
    """Return the catalog of a root, with what reads the files loaded lean."""
    _load_pyarrow_without_pandas()
    from evalkit.catalog import Catalog

    return Catalog.at(root)


class _NotNow:
    """An import finder that does not let pandas in."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)


def _load_pyarrow_without_pandas() -> None:
    # At its first conversion pyarrow imports pandas, if it is installed, to recognise its objects: half
    # of a command's start-up, for nothing. It asks once; afterwards pandas can be imported as usual.
    finder = _NotNow()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa

        pa.array([])
    finally:
        sys.meta_path.remove(finder)


def make_options(
    by: list[str] | None,
    only: list[str] | None,
    policy: list[str] | None,
    default_action: str | None,
    resamples: int,
    seed: int,
    strict: bool,
) -> Options:
    """Turn command-line options into what score and diff take.

    Raises:
        UsageError: one of them has no meaning.
    """
    from evalkit.accuracy import Resampling
    from evalkit.policy import parse_policy
    from evalkit.scoring import Options

    if default_action is not None and not policy:
        raise UsageError("--default-action goes with --policy: it replaces the card's policy as a whole")
    return Options(
        by=by or None,
        only=dict(_condition(text) for text in only or ()),
        policy=parse_policy(policy, default_action or "keep") if policy else None,
        resampling=Resampling(resamples=resamples, seed=seed),
        strict=strict,
    )


def _condition(text: str) -> tuple[str, str]:
    field, equals, value = text.partition("=")
    if not (field and equals):
        raise UsageError(f"--only {text!r}: write FIELD=VALUE, for example part=authored")
    return field, value


def extra_fields(options: Options) -> tuple[str, ...]:
    """Return the fields of the items that the options name."""
    return (*(options.by or ()), *options.only)


def look(
    output: Path | None, no_color: bool, quiet: bool, *, items: bool = False, everything: bool = False
) -> Look:
    """Decide how the output is to look where it goes."""
    from evalkit.render import Look

    terminal = output is None and sys.stdout.isatty()
    return Look(
        items=items,
        width=shutil.get_terminal_size().columns if terminal else None,
        color=terminal and not no_color and not _plain(),
        ascii_only=output is None and not _is_unicode(sys.stdout),
        quiet=quiet,
        limit=None if everything else 50,
    )


def _plain() -> bool:
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def _is_unicode(stream: TextIO) -> bool:
    return (stream.encoding or "").lower().replace("-", "").startswith("utf")


def emit(text: str, output: Path | None) -> None:
    """Write a report to its file or to standard output; a reader that went away is no error.

    Raises:
        UsageError: the file cannot be written.
    """
    if output is not None:
        from evalkit.jsonl import write_atomic

        try:
            write_atomic(output, text)
        except OSError as error:
            raise UsageError(f"--output {output}: cannot be written ({error.strerror or error})") from error
        return
    sys.stdout.write(text)
    sys.stdout.flush()


def emit_document(
    document: Document, data: Any, format: ListFormat, output: Path | None, no_color: bool
) -> None:
    """Write a document, or the data behind it, in a format."""
    from evalkit.render import data as as_data
    from evalkit.render import page

    style = look(output, no_color, quiet=False, everything=True)
    writers = {
        ListFormat.text: lambda: page.to_text(document, style),
        ListFormat.markdown: lambda: page.to_markdown(document),
        ListFormat.html: lambda: page.to_html(document),
        ListFormat.csv: lambda: as_data.tables_to_csv(document.tables),
        ListFormat.json: lambda: as_data.document_to_json(data, style),
    }
    emit(writers[format](), output)


def warn(text: str) -> None:
    """Say something on standard error."""
    from evalkit.render.escape import visible

    print(f"evalkit: {visible(text)}", file=sys.stderr)


def report_checks(checks: Iterable[Checked], quiet: bool) -> None:
    """Print what is sound, then raise an InputError with everything that is not."""
    problems: list[Problem] = []
    for checked in checks:
        problems += checked.problems
        if not quiet:
            emit("".join(f"{line}\n" for line in checked.sound), None)
        for notice in checked.notices:
            warn(notice)
    if problems:
        raise InputError(problems)


def joined(groups: Sequence[Sequence[Any]], name: str, style: Look) -> str:
    """Render groups of reports, one page each; JSON and CSV stay one document."""
    from evalkit.render import render

    if name in ("json", "csv", "junit", "github"):
        return render([report for group in groups for report in group], name, style)
    return "\n".join(render(group, name, style) for group in groups)
