"""What a gate checks: from the command line's names, or from the project's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evalkit import schema
from evalkit.catalog import Catalog, RunFile, read_run, shown
from evalkit.errors import InputError, NotFoundError, Problem, UsageError
from evalkit.gate.check import Inputs
from evalkit.gate.lock import locked_reference
from evalkit.gate.rules import RuleSet, load_rules
from evalkit.gate.toml import read_toml
from evalkit.labels import LabelSet
from evalkit.runs import Run
from evalkit.scoring import Options

CONFIG_NAME = "evalkit.toml"
_PROJECT = "pyproject.toml"
DEFAULT_RULES = "default"
"""The rules where none are named: gates/default.toml."""


@dataclass(frozen=True)
class Spec:
    """A check by the names of its parts."""

    candidate: str | None = None
    """The run that is judged."""
    reference: str | None = None
    """The run to compare with."""
    lock: str | None = None
    """The lock file that names the reference."""
    labels: str | None = None
    """The label set; by default the one of the reference (or the candidate)."""
    rules: str | None = None
    """The rules file, or the name of one in gates/."""
    noise: tuple[str, ...] = ()
    """Further runs of the reference."""
    only: Mapping[str, str] = field(default_factory=dict)
    """Restriction to items."""
    name: str = ""
    """What the check is called."""
    without_labels: bool = False
    """Judge drift only."""


def configured(folder: Path) -> list[Spec]:
    """Read the checks of a project: ``[gate]`` of evalkit.toml, or ``[tool.evalkit.gate]`` of pyproject.toml.

    Args:
        folder: where the two files are looked for.

    Raises:
        UsageError: neither file has a gate.
        InputError: a file is damaged, has unknown keys, or both of them configure the gate.
    """
    found = {}
    for file, path in ((CONFIG_NAME, ("gate",)), (_PROJECT, ("tool", "evalkit", "gate"))):
        table = _table(folder / file, path)
        if table is not None:
            found[file] = table
    if not found:
        raise UsageError(
            f"nothing to judge: name a run, or list checks under [gate] in {CONFIG_NAME} or "
            f"[tool.evalkit.gate] in {_PROJECT}"
        )
    if len(found) > 1:
        raise InputError(
            Problem(f"{_PROJECT} configures the gate as well", CONFIG_NAME, remedy="keep one of the two")
        )
    ((file, table),) = found.items()
    return _specs(table, file)


def _table(path: Path, keys: tuple[str, ...]) -> Any:
    if not path.is_file():
        return None
    value: Any = read_toml(path.read_bytes(), path.name)[1]
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _specs(table: Any, file: str) -> list[Spec]:
    problems = [
        replace(problem, path=problem.path.replace("$", "$.gate", 1), remedy=problem.remedy or _KNOWN)
        for problem in schema.check("checks", table, file)
    ]
    if problems:
        raise InputError(problems)
    defaults = {key: value for key, value in table.items() if key != "check"}
    specs = [_spec({**defaults, **check}) for check in table.get("check", [{}])]
    for place, spec in enumerate(specs):
        if spec.candidate is None:
            problems.append(Problem("names no candidate", file, path=f"$.gate.check[{place}]"))
        if spec.reference is not None and spec.lock is not None:
            problems.append(Problem("names both a reference and a lock", file, path=f"$.gate.check[{place}]"))
    if problems:
        raise InputError(problems)
    return specs


_KNOWN = "known keys: candidate, reference, lock, labels, rules, noise, only, and in a check name"


def _spec(values: Mapping[str, Any]) -> Spec:
    return Spec(**{**values, "noise": tuple(values.get("noise", ()))})


def find_rules(name: str | None, catalog: Catalog) -> RuleSet:
    """Load rules by path, or by the name of a file in a folder gates/.

    Args:
        name: a path (with its suffix), or a bare name; the default rules where it is None.
        catalog: where names are looked up.

    Raises:
        UsageError: the file is no TOML file.
        InputError: there is no such file, or it is damaged.
    """
    name = name or DEFAULT_RULES
    if Path(name).suffix or Path(name).is_file():
        return load_rules(Path(name), shown(Path(name)))
    for root in catalog.roots:
        path = root / "gates" / f"{name}.toml"
        if path.is_file():
            return load_rules(path, shown(path))
    known = sorted({path.stem for root in catalog.roots for path in root.glob("gates/*.toml")})
    raise NotFoundError(Problem(f"no rules file of this name; there are {', '.join(known)}", name))


def load(spec: Spec, catalog: Catalog, options: Options) -> list[Inputs]:
    """Load what a check names: one set of inputs for each label set that its runs belong to.

    Args:
        spec: the names.
        catalog: where they are looked up.
        options: policy and bootstrap; the restriction is the spec's.

    Raises:
        UsageError: a name could mean several things.
        InputError: a name leads nowhere, or something is damaged.
    """
    rules = find_rules(spec.rules, catalog)
    options = replace(options, only=dict(spec.only))
    fields = (*rules.fields, *spec.only)
    if spec.lock is not None:
        return [_locked(spec, catalog, rules, options, fields)]
    names = [*([spec.reference] if spec.reference else []), spec.candidate or "", *spec.noise]
    return [_inputs(spec, catalog, rules, options, fields, group) for group in catalog.resolve(names)]


def _inputs(
    spec: Spec,
    catalog: Catalog,
    rules: RuleSet,
    options: Options,
    fields: tuple[str, ...],
    group: tuple[RunFile, ...],
) -> Inputs:
    runs = [read_run(file) for file in group]
    reference = runs.pop(0) if spec.reference else None
    candidate, *noise = runs
    labels = _labels(spec, catalog, reference or candidate, fields)
    return Inputs(candidate, rules, labels, reference, tuple(noise), options, spec.name)


def _locked(
    spec: Spec, catalog: Catalog, rules: RuleSet, options: Options, fields: tuple[str, ...]
) -> Inputs:
    group, *others = catalog.resolve([spec.candidate or "", *spec.noise])
    if others:
        raise UsageError(
            f"{spec.candidate} is a run of several label sets; write {group[0].set_name}/{group[0].name}"
        )
    candidate, *noise = (read_run(file) for file in group)
    labels = catalog.labels_for(candidate, spec.labels, fields)
    reference = locked_reference(Path(spec.lock or ""), spec.name or labels.name, labels, catalog)
    return Inputs(candidate, rules, labels, reference, tuple(noise), options, spec.name)


def _labels(spec: Spec, catalog: Catalog, run: Run, fields: tuple[str, ...]) -> LabelSet | None:
    return None if spec.without_labels else catalog.labels_for(run, spec.labels, fields)
