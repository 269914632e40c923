"""The command line: a thin file a command, and the one place that turns errors into exit codes."""

from __future__ import annotations

import sys
import traceback

import typer

from evalkit.cli import diff, gate, importing, labels, record, runs, score
from evalkit.cli.common import prepare_streams
from evalkit.errors import EvalkitError

app = typer.Typer(
    name="evalkit",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Score recorded decisions of small language models, and tell what a new runtime or quantization "
    "changed.",
    epilog="Exit codes: 0 done (and the gate, if any, passed), 1 the gate failed, 2 usage, 3 invalid input, "
    "4 internal error, 130 interrupted.",
)
app.command("score")(score.score)
app.command("diff")(diff.diff)
app.command("record")(record.record)
app.add_typer(gate.app, name="gate")
app.add_typer(labels.app, name="labels")
app.add_typer(runs.app, name="runs")
labels.app.command("import")(importing.labels_import)
runs.app.command("import")(importing.runs_import)
runs.app.command("export")(importing.runs_export)


def _version(wanted: bool) -> None:
    if wanted:
        from evalkit import __version__

        typer.echo(f"evalkit {__version__}")
        raise typer.Exit


@app.callback()
def _global(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
    debug: bool = typer.Option(False, "--debug", help="Print the traceback of an internal error."),
) -> None:
    """Hold the options that come before a command."""


def main() -> None:
    """Run the command line, and exit with the code that an error stands for."""
    prepare_streams()
    try:
        app()
    except EvalkitError as error:
        for line in error.lines():
            print(f"evalkit: {_visible(line)}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if "--debug" in sys.argv:
            traceback.print_exc()
        detail = str(error).splitlines()[0] if str(error) else ""
        print(
            f"evalkit: internal error: {type(error).__name__}: {_visible(detail)} "
            "(please report it; `evalkit --debug ...` prints the traceback)",
            file=sys.stderr,
        )
        sys.exit(4)


def _visible(text: str) -> str:
    from evalkit.render.escape import visible

    return visible(text)
