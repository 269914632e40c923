"""The one place behind all label imports: foreign items to a label set, labels resolved, never guessed."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalkit.errors import InputError, Problem
from evalkit.importers.checked import Remarks, finite, item_id
from evalkit.importers.records import ImportOptions, Item
from evalkit.labels import item_problems
from evalkit.outcome import Notice
from evalkit.values import without_nones

_DIGITS = re.compile(r"-?[0-9]{1,18}")
_BEFORE, _AFTER = string.whitespace + "([", string.whitespace + ".):]"
_SHOWN = 60


@dataclass(frozen=True)
class Options:
    """The options of one item."""

    ids: tuple[str, ...]
    """Their ids, in prompt order."""
    texts: tuple[str, ...]
    """Their descriptions; empty where there is none."""


class LabelChecker:
    """Turns foreign items into items of a label set; collects everything that is wrong."""

    def __init__(self, options: ImportOptions) -> None:
        self.options = options
        self.remarks = Remarks()
        self.problems: list[Problem] = []

    def items(self, found: Iterable[Item]) -> list[dict[str, Any]]:
        """Check items and make them unique.

        Raises:
            InputError: lists every item whose id, options or label cannot be used, and ids with two
                different items.
        """
        kept: dict[str, tuple[dict[str, Any], Item]] = {}
        for foreign in found:
            try:
                item = self._item(foreign)
                before = kept.setdefault(item["id"], (item, foreign))
                if before[0] is not item:
                    self._repeated(item, foreign, *before)
            except InputError as error:
                self.problems += error.problems
        if self.problems:
            raise InputError(self.problems)
        return [item for item, _ in kept.values()]

    def _repeated(self, item: dict[str, Any], foreign: Item, before: Mapping[str, Any], first: Item) -> None:
        if item != before:
            raise InputError(
                foreign.place.problem(
                    f"the id {item['id']!r} already stands at {first.place} with other content",
                    "every item needs an id of its own",
                )
            )
        self.remarks.add(item["id"], Notice("stands in the file more than once, identical; one is kept"))

    def _item(self, foreign: Item) -> dict[str, Any]:
        id_ = item_id(foreign)
        listed = list(foreign.options) or [{"id": option} for option in self.options.options]
        if not listed:
            raise InputError(
                foreign.place.problem(f"{id_}: the file does not list the options", "declare --options A,B")
            )
        item = {
            "id": id_,
            "options": [without_nones(option) for option in listed],
            "label": None,
            **without_nones(foreign.fields),
        }
        if finite(item) != item:
            raise InputError(
                foreign.place.problem(f"{id_}: holds NaN or an infinity, which JSON does not have")
            )
        # With the label still open, whatever is wrong now is wrong with the rest of the item.
        place = foreign.place
        if problems := item_problems(item, str(place) if place.path else place.file, place.line):
            raise InputError(problems)
        options = Options(
            tuple(option["id"] for option in listed),
            tuple(str(option.get("description") or "") for option in listed),
        )
        item["label"] = self._label(foreign, id_, options)
        return item

    def _label(self, foreign: Item, id_: str, options: Options) -> str | None:
        raw = foreign.label
        if raw is None:
            return None
        if isinstance(raw, list) and len(raw) == 1:
            self.remarks.add(id_, Notice("a label in a list was taken out of it", repr(raw)))
            raw = raw[0]
        if isinstance(raw, str) and raw in options.ids:
            return raw
        if isinstance(raw, int) and not isinstance(raw, bool):
            return self._numbered(foreign, id_, raw, options)
        if isinstance(raw, str):
            if _DIGITS.fullmatch(raw.strip()):
                return self._numbered(foreign, id_, int(raw), options)
            if found := _tidied(raw, options):
                option, how = found
                self.remarks.add(id_, Notice(f"the label was {how}", f"{raw!r} is {option}"))
                return option
        raise InputError(
            foreign.place.problem(
                f"{id_}: label {raw!r} is not among the options {', '.join(options.ids)}",
                "a label is an option's id, its exact text, its number with --index-base, or null",
            )
        )

    def _numbered(self, foreign: Item, id_: str, number: int, options: Options) -> str:
        base = self.options.index_base
        if base is None:
            raise InputError(
                foreign.place.problem(
                    f"{id_}: label is a number ({number}); declare the index base",
                    "--index-base 0 if the first option is 0, --index-base 1 if it is 1",
                )
            )
        place = number - base
        if not 0 <= place < len(options.ids):
            raise InputError(
                foreign.place.problem(
                    f"{id_}: label {number} means none of the {len(options.ids)} options "
                    f"with --index-base {base}",
                    "check the index base; null is an item without a label",
                )
            )
        return options.ids[place]


def _tidied(raw: str, options: Options) -> tuple[str, str] | None:
    """Find the one option that a label spelled another way can mean; None where it could be several."""
    exact = [n for n, text in enumerate(options.texts) if text and text.strip() == raw.strip()]
    folded = _folded(raw)
    spelled = [n for n, option in enumerate(options.ids) if folded and _folded(option) == folded]
    meant = set(exact) | set(spelled)
    if len(meant) != 1:
        return None
    return options.ids[meant.pop()], "the option's text" if exact else "spelled another way"


def _folded(text: str) -> str:
    """Return a label without case, width, and the brackets, points and spaces around it."""
    plain = unicodedata.normalize("NFKC", text).strip()
    return plain.lstrip(_BEFORE).rstrip(_AFTER).casefold()


def label_notices(items: Sequence[Mapping[str, Any]], remarks: Remarks) -> list[str]:
    """Say what was tidied, and how many items have no label."""
    notices = remarks.texts()
    if unlabelled := [item["id"] for item in items if item["label"] is None]:
        notices.append(f"items without a label: {len(unlabelled)}, first {unlabelled[0]}")
    return notices
