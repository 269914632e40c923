"""What production does with each decision: the first rule that holds, else the default action."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalkit import rows
from evalkit.cards import Policy, Rule
from evalkit.decisions import Bools, Decisions, Places
from evalkit.errors import UsageError
from evalkit.labels import LabelSet
from evalkit.statistics import wilson

UNDETERMINED = "undetermined"
"""The action where a probability is known only as a range that straddles a threshold."""

_DEFAULT, _UNKNOWN = -1, -2


@dataclass(frozen=True)
class Actions:
    """The actions that a policy takes on the items of a run."""

    policy: Policy
    """The policy."""
    rule: NDArray[np.int16]
    """Shape (items,): the rule that held, -1 for the default action, -2 where undetermined."""
    wrong: Bools
    """Shape (items,): a rule acted on a choice that is not the label."""
    names: tuple[str, ...]
    """The actions, in the order of the policy; the default last, then undetermined."""
    code: NDArray[np.int16]
    """Shape (items,): index of each item's action in names."""

    @property
    def acted(self) -> Bools:
        """Shape (items,): a rule held."""
        return self.rule >= 0


def apply_policy(policy: Policy, decisions: Decisions) -> Actions:
    """Apply a policy to every item.

    A rule holds where choice = option and p(choice) >= at_least, compared as float64 without slack. An
    item without a usable decision takes the default action.

    Args:
        policy: the rules and the default.
        decisions: the run.

    Returns:
        Per item the rule that held and its action.
    """
    low, high = decisions.choice_bounds
    named_only = decisions.usable & np.isnan(low)
    low = np.where(named_only, 0.0, low)
    high = np.where(named_only, 1.0, high)
    rule = np.full(len(low), _DEFAULT, dtype=np.int16)
    open_ = decisions.usable.copy()
    for number, wanted in enumerate(policy.rules):
        chosen = open_ & (decisions.choice == _places(wanted.option, decisions))
        holds = chosen & (low >= wanted.at_least)
        perhaps = chosen & ~holds & (high >= wanted.at_least)
        rule[holds], rule[perhaps] = number, _UNKNOWN
        open_ &= ~(holds | perhaps)
    names = tuple(dict.fromkeys([*(wanted.action for wanted in policy.rules), policy.default, UNDETERMINED]))
    code_of = [names.index(wanted.action) for wanted in policy.rules]
    code_of += [names.index(UNDETERMINED), names.index(policy.default)]
    wrong = (rule >= 0) & (decisions.gold >= 0) & (decisions.choice != decisions.gold)
    return Actions(policy, rule, wrong, names, np.asarray(code_of, dtype=np.int16)[rule])


def _places(option: str, decisions: Decisions) -> NDArray[np.int32]:
    layouts = decisions.labels.layouts
    places = [options.index(option) if option in options else -9 for options in layouts]
    return np.asarray(places, dtype=np.int32)[decisions.labels.layout]


def unknown_options(policy: Policy, labels: LabelSet) -> list[str]:
    """Return the options of rules that no item has: such a rule never holds, and may be misspelled."""
    known = {option for options in labels.layouts for option in options}
    return [option for option in dict.fromkeys(rule.option for rule in policy.rules) if option not in known]


def summary(actions: Actions, decisions: Decisions, level: float) -> dict[str, Any]:
    """Count what the policy does.

    Args:
        actions: the actions.
        decisions: the run they were taken on.
        level: level of the Wilson interval of the share of wrong actions.

    Returns:
        Counts per action (0 for one that never occurs), wrong actions in all and per action, how many
        items a rule acted on, and the share of wrong ones among the labelled of those (None, with a
        reason, where no rule acted).
    """
    counts = np.bincount(actions.code, minlength=len(actions.names)).tolist()
    judged = int(np.count_nonzero(actions.acted & (decisions.gold >= 0)))
    wrong = int(np.count_nonzero(actions.wrong))
    share = wilson(wrong, judged, level)
    by_action = {
        name: int(np.count_nonzero(actions.wrong & (actions.code == code)))
        for code, name in enumerate(actions.names)
        if name in {rule.action for rule in actions.policy.rules}
    }
    sizes = np.asarray([len(options) for options in decisions.labels.layouts])[decisions.labels.layout]
    values, items = np.unique(sizes, return_counts=True)
    return {
        **actions.policy.to_dict(),
        "option_counts": {str(value): int(count) for value, count in zip(values, items, strict=True)},
        "actions": dict(zip(actions.names, counts, strict=True)),
        "acted": int(np.count_nonzero(actions.acted)),
        "wrong_actions": wrong,
        "wrong_actions_by_action": by_action,
        "wrong_share": share and {**asdict(share), "method": "wilson"},
        "wrong_share_reason": None if share else "no rule acted on a labelled item",
    }


def why(actions: Actions, decisions: Decisions, item: int) -> str:
    """Say in a few words why an item gets its action.

    Both numbers of a comparison are written with as many digits as it takes to tell them apart.
    """
    if not decisions.usable[item]:
        reason = decisions.reason(item)
        return rows.STATUS_NAMES[decisions.status[item]] + (f": {reason}" if reason else "")
    choice = decisions.option(item, int(decisions.choice[item]))
    rules = [rule for rule in actions.policy.rules if rule.option == choice]
    if not rules:
        return f"no rule for {choice}"
    held = int(actions.rule[item])
    if held >= 0:
        return _compared(decisions, item, actions.policy.rules[held])
    if held == _UNKNOWN:
        high = decisions.choice_bounds[1][item]
        return _compared(decisions, item, next(rule for rule in rules if not high < rule.at_least))
    return _compared(decisions, item, min(rules, key=lambda rule: rule.at_least))


def _compared(decisions: Decisions, item: int, rule: Rule) -> str:
    bounds = decisions.choice_bounds
    low, high = float(bounds[0][item]), float(bounds[1][item])
    if math.isnan(low):
        return f"p({rule.option}) not recorded, threshold {rule.at_least:g}"
    if low < high:
        sign = ">=" if low >= rule.at_least else "<" if high < rule.at_least else "straddles"
        return f"p({rule.option}) in [{low:g}, {high:g}] {sign} {rule.at_least:g}"
    shown, threshold = told_apart(low, rule.at_least)
    return f"p({rule.option}) {shown} {'>=' if low >= rule.at_least else '<'} {threshold}"


def told_apart(value: float, threshold: float, digits: int = 4) -> tuple[str, str]:
    """Write two numbers with at least as many digits as it takes to see which is larger.

    Args:
        value: one number.
        threshold: the other.
        digits: digits after the point to start from.
    """
    for places in range(digits, 18):
        shown = f"{value:.{places}f}"
        told = value == threshold or float(shown) != threshold
        if told and (float(shown) >= threshold) == (value >= threshold):
            return shown, repr(threshold)
    return repr(value), repr(threshold)


def transitions(reference: Actions, candidate: Actions, items: Places | None = None) -> dict[str, int]:
    """Count the items that production would treat differently now.

    Args:
        reference: the actions before.
        candidate: the actions now, of the same policy.
        items: the items of a slice; all by default.

    Returns:
        Per pair of different actions ``reference->candidate`` the number of items, 0 included, so that a
        rule about a pair always has something to measure.
    """
    names = reference.names
    size = len(names)
    pairs = reference.code.astype(np.int64) * size + candidate.code
    counts = np.bincount(pairs if items is None else pairs[items], minlength=size * size)
    return {
        f"{before}->{after}": int(counts[row * size + column])
        for row, before in enumerate(names)
        for column, after in enumerate(names)
        if row != column
    }


def parse_policy(rules: Sequence[str], default: str) -> Policy:
    """Make a policy from its command-line form.

    Args:
        rules: texts like ``B@0.85=drop``: option, threshold, action.
        default: the action where no rule holds.

    Raises:
        UsageError: a rule has another form, or its threshold is no number from 0 to 1.
    """
    return Policy(tuple(_parse_rule(text) for text in rules), default)


def _parse_rule(text: str) -> Rule:
    head, _, action = text.rpartition("=")
    option, _, number = head.rpartition("@")
    if not (option and number and action):
        raise UsageError(f"--policy {text!r}: write OPTION@THRESHOLD=ACTION, for example B@0.85=drop")
    try:
        threshold = float(number)
    except ValueError:
        threshold = math.nan
    if not 0 <= threshold <= 1:
        raise UsageError(f"--policy {text!r}: at_least must be a number from 0 to 1, found {number!r}")
    return Rule(option, threshold, action)
