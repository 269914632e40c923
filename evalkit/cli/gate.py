"""``evalkit gate``: let a run through or stop it, by rules."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from evalkit.cli import common
from evalkit.cli.gate_files import GateFiles
from evalkit.errors import UsageError

if TYPE_CHECKING:
    from evalkit.catalog import Catalog
    from evalkit.gate import GateReport
    from evalkit.gate.config import Spec
    from evalkit.scoring import Options

_JUDGE = "judge"


class _RunFirst(TyperGroup):
    """A group whose first word may be a run: what is no command goes to the one that judges."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in self.commands:
            args = [_JUDGE, *args]
        return super().parse_args(ctx, args)


class _Judge(TyperCommand):
    """The command behind the group's own name: its usage says `evalkit gate`, without a further word."""

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        if parent is not None and parent.parent is not None:
            info_name, parent = parent.info_name, parent.parent
        return super().make_context(info_name, args, parent=parent, **extra)


app = typer.Typer(
    cls=_RunFirst,
    help="Judge a run by rules: exit code 0 where it passes, 1 where it fails.",
)


class GateFormat(StrEnum):
    """Formats of the report on standard output."""

    text = "text"
    json = "json"
    markdown = "markdown"


RulesOption = Annotated[
    str | None,
    typer.Option(
        "--rules", "-r", help="TOML file of rules, or the name of one in gates/ (default, tolerant, strict)."
    ),
]
ReferenceOption = Annotated[
    str | None, typer.Option("--reference", help="The run to compare with: a name or a path.")
]
LockOption = Annotated[
    Path | None, typer.Option("--lock", help="Lock file that names the reference; see `evalkit gate accept`.")
]
NoiseOption = Annotated[
    list[str] | None,
    typer.Option("--noise", help="A further run of the reference, for the noise floor (repeatable)."),
]


def _file(name: str, what: str) -> Any:
    return typer.Option(name, metavar="FILE", help=f"Write {what} to this file.")


@app.command(_JUDGE, cls=_Judge, hidden=True)
def judge(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            help="The run that is judged; of two, the first is the reference. None: the checks of "
            "evalkit.toml or pyproject.toml.",
            metavar="RUN",
        ),
    ] = None,
    reference: ReferenceOption = None,
    lock: LockOption = None,
    labels: common.LabelsOption = None,
    without_labels: Annotated[bool, typer.Option("--no-labels", help="Judge drift only.")] = False,
    rules: RulesOption = None,
    noise: NoiseOption = None,
    only: common.OnlyOption = None,
    policy: common.PolicyOption = None,
    default_action: common.DefaultActionOption = None,
    resamples: common.ResamplesOption = 10_000,
    seed: common.SeedOption = 20260917,
    format: Annotated[
        GateFormat, typer.Option("--format", "-f", help="Format of the report.")
    ] = GateFormat.text,
    json: Annotated[Path | None, _file("--json", "the report as JSON")] = None,
    junit: Annotated[Path | None, _file("--junit", "JUnit XML")] = None,
    markdown: Annotated[Path | None, _file("--markdown", "the report for a pull request")] = None,
    sarif: Annotated[Path | None, _file("--sarif", "SARIF")] = None,
    everything: common.AllOption = False,
    root: common.RootOption = None,
    quiet: common.QuietOption = False,
    no_color: common.NoColorOption = False,
) -> None:
    """Judge a run by rules: exit code 0 where it passes, 1 where it fails, 2 and 3 where it cannot be judged.

    Also: `evalkit gate init` writes a first rules file, `evalkit gate accept` records a run as the reference.
    In GitHub Actions, annotations and the job summary come by themselves.
    """
    files = GateFiles(json, junit, markdown, sarif)
    with files.guarded():
        options = common.make_options(None, only, policy, default_action, resamples, seed, False)
        named = {
            "--reference": reference, "--lock": lock, "--labels": labels, "--no-labels": without_labels,
            "--rules": rules, "--noise": noise, "--only": only,
        }  # fmt: skip
        specs = _specs(runs or [], named, options)
        report = _judged(specs, options, root)
        files.write(report)
        style = common.look(None, no_color, quiet, everything=everything)
        common.emit(files.printed(report, format.value, style), None)
    raise typer.Exit(report.exit_code)


def _specs(runs: list[str], named: dict[str, Any], options: Options) -> list[Spec]:
    """Make the checks of the command line, or read those of the project."""
    from evalkit.gate.config import Spec, configured

    given = [option for option, value in named.items() if value]
    if not runs:
        if given:
            raise UsageError(f"{', '.join(given)}: name the run to judge as well")
        return configured(Path())
    if len(runs) > 2:
        raise UsageError(f"expected a candidate, or a reference and a candidate, found {len(runs)} runs")
    references = [runs[0]] if len(runs) == 2 else []
    references += [str(named[option]) for option in ("--reference", "--lock") if named[option]]
    if len(references) > 1:
        raise UsageError(f"more than one reference: {', '.join(references)}")
    return [
        Spec(
            candidate=runs[-1],
            reference=runs[0] if len(runs) == 2 else named["--reference"],
            lock=named["--lock"] and str(named["--lock"]),
            labels=named["--labels"],
            rules=named["--rules"],
            noise=tuple(named["--noise"] or ()),
            only=options.only,
            without_labels=named["--no-labels"],
        )
    ]


def _judged(specs: list[Spec], options: Options, root: Path | None) -> GateReport:
    """Load everything first, so that a damaged input is found before anything is judged."""
    from evalkit.gate import GateReport
    from evalkit.gate import judge as judge_inputs
    from evalkit.gate.config import load

    catalog = common.open_catalog(root)
    inputs = [one for spec in specs for one in load(spec, catalog, options)]
    return GateReport(tuple(judge_inputs(one) for one in inputs))


@app.command("init")
def init(
    reference: Annotated[
        str | None, typer.Argument(help="The current reference; not needed where there is one run only.")
    ] = None,
    labels: common.LabelsOption = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The rules file to write.")] = Path(
        "gate.toml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    root: common.RootOption = None,
) -> None:
    """Write a commented rules file with values taken from the current reference."""
    from evalkit.gate.scaffold import rules_text
    from evalkit.scoring import score

    if output.suffix != ".toml":
        raise UsageError(f"--output {output}: rules are TOML; write to a file whose name ends in .toml")
    if output.exists() and not force:
        raise UsageError(f"{output} is there already; --force replaces it")
    catalog = common.open_catalog(root)
    at_hand = [f"{file.set_name}/{file.name}" for file in catalog.run_files()]
    if reference is None and len(at_hand) != 1:
        raise UsageError(f"name the current reference; runs at hand: {', '.join(at_hand) or 'none'}")
    run = catalog.run(reference or at_hand[0])
    found = catalog.labels_for(run, labels)
    text = rules_text(
        score(found, run),
        reference=reference or at_hand[0],
        file=str(output),
        set_name=labels or found.name,
        label_sets=[*catalog.label_folders()],
        runs=at_hand,
    )
    common.emit(text, output)
    common.emit(f"wrote {output}: rules with the values of {run.name} on {found.name}\n", None)


@app.command("accept")
def accept(
    candidate: Annotated[
        str | None,
        typer.Argument(
            help="The run to accept; by default those of evalkit.toml or pyproject.toml that have a lock."
        ),
    ] = None,
    labels: common.LabelsOption = None,
    only: common.OnlyOption = None,
    lock: LockOption = None,
    name: Annotated[str, typer.Option("--name", help="Name of the entry; by default the label set's.")] = "",
    reason: Annotated[
        str, typer.Option("--reason", help="Why it is accepted; written into the lock file.")
    ] = "",
    root: common.RootOption = None,
) -> None:
    """Record a run as the reference: names, sha256 and figures, in a lock file to review and commit."""
    from evalkit.gate.config import Spec, configured

    options = common.make_options(None, only, None, None, 10_000, 20260917, False)
    if candidate is None:
        specs = [spec for spec in configured(Path()) if spec.lock is not None]
        if not specs:
            raise UsageError("name the run to accept: no check of the configuration has a lock")
    else:
        specs = [
            Spec(
                candidate=candidate,
                labels=labels,
                only=options.only,
                lock=str(lock) if lock else None,
                name=name,
            )
        ]
    catalog = common.open_catalog(root)
    for spec in specs:
        _accept(spec, catalog, reason)


def _accept(spec: Spec, catalog: Catalog, reason: str) -> None:
    from evalkit.catalog import read_run
    from evalkit.gate.lock import LOCK_NAME
    from evalkit.gate.lock import accept as record
    from evalkit.scoring import Options, score

    found = catalog.run_file(spec.candidate or "")
    run = read_run(found)
    known = catalog.labels_for(run, spec.labels, tuple(spec.only))
    report = score(known, run, Options(only=spec.only, by=()))
    path, key = Path(spec.lock or LOCK_NAME), spec.name or known.name
    record(path, key, found, report, only=spec.only, reason=reason)
    common.emit(f"{path}: {run.name} ({run.sha256[:12]}...) is now the reference of {key}\n", None)
