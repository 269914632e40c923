"""Dataset cards: the YAML front matter of a label set's README.md, read without YAML's surprises."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalkit import schema
from evalkit.errors import InputError, Problem
from evalkit.jsonl import read_whole, without_hint

CARD_NAME = "README.md"
_MAX_DEPTH = 20


@dataclass(frozen=True)
class Rule:
    """One rule of a policy: act where the choice is this option and sure enough."""

    option: str
    """The option that has to be the choice."""
    at_least: float
    """The probability it needs, compared with >= as float64."""
    action: str
    """What is done then."""


@dataclass(frozen=True)
class Policy:
    """What production does with a decision: the first rule that holds, else the default."""

    rules: tuple[Rule, ...]
    """The rules, in order."""
    default: str
    """The action where no rule holds."""

    def to_dict(self) -> dict[str, Any]:
        """Return the policy as the card writes it."""
        return {
            "default": self.default,
            "rules": [
                {"option": rule.option, "at_least": rule.at_least, "action": rule.action}
                for rule in self.rules
            ],
        }


@dataclass(frozen=True)
class Version:
    """One released version of a label set."""

    name: str
    """Its name (``v1``)."""
    items: int
    """How many items its file holds."""
    sha256: str
    """Hex digest of its file."""
    released: str = ""
    """The day of its release."""
    changes: str = ""
    """What changed against the version before."""


@dataclass(frozen=True)
class Card:
    """What a label set's card says."""

    folder: Path
    """The label set's folder."""
    title: str
    """The pretty name."""
    headline: str
    """The metric that sums the set up."""
    policy: Policy | None
    """The production policy, where the card has one."""
    versions: Mapping[str, Version]
    """The released versions, oldest first."""
    default: str
    """The version meant when none is named."""
    license: str
    """The licence the card names."""
    languages: tuple[str, ...]
    """The languages the card names."""


def load_card(folder: Path, file: str | None = None) -> Card:
    """Read the card of a label set.

    Args:
        folder: the label set's folder.
        file: how messages name the card; its path by default.

    Raises:
        NotFoundError: the folder has no README.md.
        InputError: the front matter is no YAML, or violates the schema ``evalkit.labelset/1``.
    """
    path = folder / CARD_NAME
    name = file or str(path)
    front = _front_matter(path, name)
    block = front.get("evalkit")
    if not isinstance(block, dict):
        raise InputError(
            Problem(
                "the front matter has no `evalkit:` block", name, remedy="add schema, policy and versions"
            )
        )
    problems = [*schema.check("labelset", block, name), *_not_finite(block, name)]
    if problems:
        raise InputError(_explained(problem) for problem in problems)
    versions = {key: Version(key, **value) for key, value in block["versions"].items()}
    policy = block.get("policy")
    return Card(
        folder=folder,
        title=str(front.get("pretty_name", folder.name)),
        headline=block.get("headline", "balanced_accuracy"),
        policy=policy and policy_from(policy),
        versions=versions,
        default=_default_version(front, versions, name),
        license=str(front.get("license", "")),
        languages=tuple(map(str, _as_list(front.get("language")))),
    )


def policy_from(block: Mapping[str, Any]) -> Policy:
    """Make a policy from its (validated) form in a card."""
    rules = (Rule(rule["option"], float(rule["at_least"]), rule["action"]) for rule in block["rules"])
    return Policy(tuple(rules), block["default"])


def _front_matter(path: Path, name: str) -> dict[str, Any]:
    try:
        text = read_whole(path, name, "a label set needs a card").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        what = f"not UTF-8 at byte {error.start}"
        raise InputError(Problem(what, name, remedy="save it as UTF-8")) from None
    lines = text.splitlines()
    if not lines or lines[0].rstrip() != "---" or "---" not in (line.rstrip() for line in lines[1:]):
        raise InputError(Problem("has no YAML front matter between two lines `---`", name, 1))
    end = next(number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---")
    front = _load_yaml("\n".join(lines[1:end]), name)
    if not isinstance(front, dict):
        raise InputError(Problem("the front matter is not a mapping", name, 1))
    return front


def _load_yaml(text: str, name: str) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):
        """SafeLoader without aliases, deep nesting, and keys that overwrite each other."""

        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            if isinstance(event, yaml.AliasEvent):
                raise _marked("aliases are not allowed in a card", event)
            if self.depth > _MAX_DEPTH:
                raise _marked(f"nested too deeply (more than {_MAX_DEPTH} levels)", event)
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen: set[str] = set()
            for key, _ in node.value:
                if str(key.value) in seen:
                    raise _marked(f"the key {key.value} occurs twice", key)
                seen.add(str(key.value))
            return super().construct_mapping(node, deep)

    def _marked(problem: str, place: Any) -> yaml.MarkedYAMLError:
        return yaml.MarkedYAMLError(problem=problem, problem_mark=place.start_mark)

    try:
        return _plain(yaml.load(text, Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 2 if mark else None
        raise InputError(Problem(f"not YAML ({error.problem or error})", name, line)) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        what = " ".join(str(error).split()) or "nested too deeply"
        raise InputError(Problem(f"not YAML ({without_hint(what)})", name)) from None


def _plain(value: Any) -> Any:
    # YAML makes dates of dates and allows any key; a card's values are JSON.
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, datetime.date | datetime.datetime):
        return value.isoformat()
    return value


def _not_finite(block: dict[str, Any], name: str) -> list[Problem]:
    policy = block.get("policy")
    rules = policy.get("rules") if isinstance(policy, dict) else None
    return [
        Problem(
            f"at_least is {rule['at_least']}, which is no threshold",
            name,
            None,
            f"$.policy.rules[{place}].at_least",
        )
        for place, rule in enumerate(rules if isinstance(rules, list) else [])
        if isinstance(rule, dict) and isinstance(rule.get("at_least"), float) and math.isnan(rule["at_least"])
    ]


def _explained(problem: Problem) -> Problem:
    remedy = ""
    if "at_least" in problem.path or (".rules[" in problem.path and "unexpected" in problem.what):
        remedy = "at_least is a number from 0 to 1, written like 0.85"
    elif problem.path.endswith((".action", ".default", ".option")):
        remedy = "put the name in quotes: YAML reads yes, no, on and off as true and false"
    return Problem(
        problem.what, problem.file, problem.line, problem.path.replace("$", "$.evalkit", 1), remedy
    )


def _default_version(front: dict[str, Any], versions: dict[str, Version], name: str) -> str:
    configs = [config for config in _as_list(front.get("configs")) if isinstance(config, dict)]
    marked = [str(config.get("config_name")) for config in configs if config.get("default") is True]
    chosen = marked[0] if marked else next(reversed(versions))
    if chosen not in versions:
        raise InputError(
            Problem(f"the default config {chosen!r} is not among the versions {', '.join(versions)}", name)
        )
    return chosen


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
