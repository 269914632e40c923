"""The rules file of a gate: TOML in, checked rules out."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalkit import schema
from evalkit.errors import InputError, NotFoundError, Problem, UsageError
from evalkit.gate.toml import read_toml
from evalkit.jsonl import is_number

_HEADER = re.compile(r"""\s*\[\[\s*["']?rule["']?\s*\]\]""")
_RULE = re.compile(r"^\$\.rule\[(\d+)\]")
_BY = re.compile(r"^(?:score\.|diff\.)?by\.([^.]+)\.")
_KEYS = ("metric", "op", "value", "name", "slice", "run", "use", "severity", "inconclusive")


@dataclass(frozen=True)
class GateRule:
    """One rule: a figure must compare with a value."""

    metric: str
    """The figure: a short name, or a dotted path into the score or diff report."""
    op: str
    """How it must compare: <=, >=, <, > or ==."""
    value: float
    """The value to compare with; finite."""
    name: str | None = None
    """What the user calls the rule."""
    slice: tuple[str, str] | None = None
    """Field and value of the items that are judged; None for all."""
    run: str = "candidate"
    """Whose figure it is: candidate or reference."""
    use: str = "value"
    """Judge the estimate, or the `low` or `high` end of its interval."""
    severity: str = "error"
    """`error`, or `warning`: shown, does not fail."""
    inconclusive: str = "fail"
    """What an inconclusive verdict does: `fail` or `pass`."""
    builtin: bool = False
    """Added by the gate itself."""
    line: int | None = None
    """The line of the rule in its file."""

    @property
    def what(self) -> str:
        """The figure in words: metric, and where they are named, slice, run and end of the interval."""
        details = ["=".join(self.slice)] if self.slice else []
        details += ["reference"] if self.run == "reference" else []
        details += [f"{self.use} end"] if self.use != "value" else []
        return self.metric + (f" [{', '.join(details)}]" if details else "")

    @property
    def wanted(self) -> str:
        """What is asked of the figure: operator and value as written."""
        return f"{self.op} {number_text(self.value)}"

    @property
    def label(self) -> str:
        """The rule's name, or what it says."""
        return self.name or f"{self.what} {self.wanted}"

    @property
    def upward(self) -> bool:
        """The figure must be large enough."""
        return self.op.startswith(">")

    @property
    def strict(self) -> bool:
        """The rule wants proof that the figure is good; otherwise it fails only on proof that it is bad."""
        return self.use == ("low" if self.upward else "high")

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as a report writes it."""
        return {
            "name": self.label,
            "metric": self.metric,
            "slice": None if self.slice is None else "=".join(self.slice),
            "run": self.run,
            "use": self.use,
            "op": self.op,
            "wanted": self.value,
            "severity": self.severity,
            "inconclusive": self.inconclusive,
            "built_in": self.builtin,
            "line": self.line,
        }


@dataclass(frozen=True)
class Must:
    """What one item must keep, whatever the averages say."""

    id: str
    """The item."""
    name: str
    """The option or the action."""
    kind: str | None = None
    """`choice` or `action`; None where the file leaves open which of the two it names."""


@dataclass(frozen=True)
class RuleSet:
    """A checked rules file."""

    rules: tuple[GateRule, ...]
    """The rules, in order."""
    must: tuple[Must, ...] = ()
    """The item rules, in order."""
    file: str = "(rules)"
    """The file as messages name it."""
    path: Path | None = None
    """Where the file is; None for rules that were made up."""
    sha256: str | None = None
    """Hex digest of the file."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Line of each item rule in the file, where it could be found."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the items that slices name, with `slice` or in a path `by.FIELD.VALUE.METRIC`."""
        named = [rule.slice[0] for rule in self.rules if rule.slice]
        named += [found[1] for rule in self.rules if (found := _BY.match(rule.metric))]
        return tuple(dict.fromkeys(named))


def number_text(value: float) -> str:
    """Write a number as somebody would: whole numbers without a fraction, others with all their digits."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def load_rules(path: Path, file: str | None = None) -> RuleSet:
    """Read and check a rules file.

    Args:
        path: the file.
        file: how messages name it; its path by default.

    Raises:
        UsageError: the file is no TOML file by its name.
        NotFoundError: there is no such file.
        InputError: it is not TOML, has unknown keys, or a rule makes no sense; all problems are listed.
    """
    name = file or str(path)
    if path.suffix.lower() != ".toml":
        raise UsageError(f"{name}: unsupported file type; rules are TOML (name.toml)")
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise NotFoundError(
            Problem(f"cannot be read ({error.strerror or error})", name, remedy="check --rules")
        ) from error
    text, values = read_toml(raw, name)
    return rules_from(values, file=name, path=path, sha256=hashlib.sha256(raw).hexdigest(), text=text)


def rules_from(
    values: Mapping[str, Any],
    *,
    file: str = "(rules)",
    path: Path | None = None,
    sha256: str | None = None,
    text: str = "",
) -> RuleSet:
    """Check parsed rules.

    Args:
        values: the parsed file: `rule`, a list of tables, and `must`, a table of items.
        file: how messages name it.
        path: where it is.
        sha256: its digest.
        text: its text, to find lines in.

    Raises:
        InputError: unknown keys, a value that is no finite number, rules that repeat each other, or no rule.
    """
    tables = values.get("rule")
    lines = _rule_lines(text, len(tables) if isinstance(tables, list) else 0)
    problems = [_placed(problem, lines) for problem in schema.check("rules", values, file)]
    if not problems:
        problems = [_placed(problem, lines) for problem in _no_limits(values, file)]
    if problems:
        raise InputError(problems)
    rules = tuple(_rule(table, line) for table, line in zip(values.get("rule", []), lines, strict=True))
    must = tuple(_must(item, wanted) for item, wanted in values.get("must", {}).items())
    if not rules and not must:
        raise InputError(Problem("holds no rule", file, remedy="a gate without rules would pass anything"))
    if problems := _senseless(rules, file):
        raise InputError(problems)
    return RuleSet(rules, must, file, path, sha256, _must_lines(text, must))


def _rule(table: Mapping[str, Any], line: int | None) -> GateRule:
    known: dict[str, Any] = dict(table)
    if "slice" in known:
        name, _, value = known["slice"].partition("=")
        known["slice"] = (name, value)
    return GateRule(**{**known, "value": float(known["value"]), "line": line})


def _must(item: str, wanted: str | Mapping[str, str]) -> Must:
    if isinstance(wanted, str):
        return Must(item, wanted)
    ((kind, name),) = wanted.items()
    return Must(item, name, kind)


def _no_limits(values: Mapping[str, Any], file: str) -> list[Problem]:
    return [
        Problem(
            f"{table['value']} is no limit: nothing could fail or pass it",
            file,
            path=f"$.rule[{place}].value",
            remedy="write a finite number",
        )
        for place, table in enumerate(values.get("rule", []))
        if not is_number(table["value"])
    ]


def _senseless(rules: Sequence[GateRule], file: str) -> list[Problem]:
    """Find rules that cannot be told apart, and ends of intervals that nothing is compared with."""
    problems = []
    labels = [rule.label for rule in rules]
    for place, rule in enumerate(rules):

        def wrong(what: str, remedy: str, rule: GateRule = rule, path: str = f"$.rule[{place}]") -> None:
            problems.append(Problem(what, file, rule.line, path, remedy))

        if rule.label in labels[:place]:
            first = labels.index(rule.label) + 1
            wrong(f"is called {rule.label!r} like rule {first}", "give it a `name` of its own")
        if rule.use != "value" and rule.op == "==":
            wrong("an end of an interval cannot be judged with ==", "use <= or >=")
    return problems


def _placed(problem: Problem, lines: Sequence[int | None]) -> Problem:
    """Give a problem the line of its rule, and say what is allowed where a key is unknown."""
    found = _RULE.match(problem.path)
    line = lines[int(found[1])] if found else problem.line
    remedy = problem.remedy
    if "unexpected" in problem.what:
        remedy = f"known keys: {', '.join(_KEYS if found else ('rule', 'must'))}"
    elif problem.path.endswith(".slice"):
        remedy = 'write FIELD=VALUE, for example "part=authored"'
    elif problem.path.endswith(".value") and not remedy:
        remedy = "write a number without quotes"
    return Problem(problem.what, problem.file, line, problem.path, remedy)


def _rule_lines(text: str, count: int) -> list[int | None]:
    found = [number for number, line in enumerate(text.split("\n"), 1) if _HEADER.match(line)]
    return [*found] if len(found) == count else [None] * count


def _must_lines(text: str, must: Sequence[Must]) -> dict[str, int]:
    """Find the line of each item rule: the first on which its id stands as a key."""
    rows = text.split("\n")
    found = {}
    for one in must:
        key = re.compile(rf"""(^|[\s{{,]){_QUOTE}{re.escape(one.id)}{_QUOTE}\s*=""")
        line = next((number for number, row in enumerate(rows, 1) if key.search(row.partition("#")[0])), None)
        if line is not None:
            found[one.id] = line
    return found


_QUOTE = """["']?"""
