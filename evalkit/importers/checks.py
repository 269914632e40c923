"""The one place behind all importers: foreign records to the rows of a run, checked and made unique."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evalkit import rows
from evalkit.errors import InputError, Problem, UsageError
from evalkit.importers.checked import DECISION, Decision, finite, item_id
from evalkit.importers.records import ImportOptions, Record
from evalkit.jsonl import is_number
from evalkit.labels import LabelSet
from evalkit.outcome import Notice, Outcome
from evalkit.readings import Answer, Failure, Likelihoods, Lists, Row
from evalkit.readout import (
    LETTERS,
    LIKELIHOOD_RULE,
    NO_LIST,
    RULE,
    read_answer,
    read_likelihoods,
    read_out,
)
from evalkit.values import without_nones

TEXT_RULE = "text/1"
"""Name of the read-out that takes an answer's text as the choice."""

_PLAIN = ("id", *DECISION)
_VALUES = (*DECISION, "allowed_token_mass", "censored", "after_sampling")


class Checker:
    """Turns records into checked decisions; collects everything that is wrong with the files."""

    def __init__(self, labels: LabelSet | None, options: ImportOptions) -> None:
        self.options = options
        self.labels = labels
        self.problems: list[Problem] = []
        self._sound: set[tuple[tuple[str, type], ...]] = set()
        self._places = {} if labels is None else {id_: n for n, id_ in enumerate(labels.ids.to_pylist())}

    def decisions(self, records: Iterable[Record]) -> list[Decision]:
        """Check records.

        Raises:
            UsageError: something has to be declared: the options, what answers name.
            InputError: lists every record that cannot belong to the run: no id, unknown id or options.
        """
        found = []
        for record in records:
            try:
                found.append(self._decision(record))
            except InputError as error:
                self.problems += error.problems
        if self.problems:
            raise InputError(self.problems)
        return found

    def _decision(self, record: Record) -> Decision:
        item = item_id(record)
        if self.labels is not None and item not in self._places:
            raise InputError(
                record.place.problem(
                    f"the id {item!r} is not in the label set {self.labels.file}",
                    "import it with the label set it was recorded on (--labels)",
                )
            )
        ids = self._option_ids(record, item)
        reading = record.reading
        if isinstance(reading, Row):
            return self._given_row(record, reading.fields, item, ids)
        outcome, rule = self._outcome(reading, ids, record.rule or RULE)
        row = {"id": item, **outcome.row(ids), **without_nones(record.fields)}
        return self._checked(row, record, rule, outcome.notices)

    def _option_ids(self, record: Record, item: str) -> tuple[str, ...]:
        """Return the item's options: in the record's order where it has one, else in the label set's."""
        own = record.options
        if self.labels is None:
            if not own and not self.options.options and not isinstance(record.reading, Row | Failure):
                raise UsageError(
                    f"{record.place}: the file does not say which options {item!r} has: "
                    "name the label set (--labels) or the options (--options A,B)"
                )
            return own or self.options.options
        wanted = self.labels.layouts[self.labels.layout[self._places[item]]]
        if isinstance(record.reading, Row | Likelihoods) and own:
            if not set(wanted) <= set(own) or (
                isinstance(record.reading, Likelihoods) and set(wanted) != set(own)
            ):
                raise InputError(self._other_options(record, item, own, wanted))
            return own
        if own and len(own) != len(wanted):
            raise InputError(self._other_options(record, item, own, wanted))
        return wanted

    def _other_options(self, record: Record, item: str, own: Sequence[str], wanted: Sequence[str]) -> Problem:
        file = self.labels.file if self.labels else ""
        return record.place.problem(
            f"{item}: its options are {', '.join(own)} here and {', '.join(wanted)} in the label set {file}",
            "import it with the label set it was recorded on (--labels), or declare --options in their order",
        )

    def _outcome(
        self, reading: Failure | Likelihoods | Answer | Lists, ids: tuple[str, ...], rule: str
    ) -> tuple[Outcome, str]:
        declared = self.options
        if isinstance(reading, Failure):
            return Outcome(reading.status, reading.reason), ""
        if isinstance(reading, Likelihoods) and len(reading.values) != len(ids):
            return Outcome("invalid", f"{len(reading.values)} log-likelihoods for {len(ids)} options"), ""
        if isinstance(reading, Likelihoods):
            return read_likelihoods(reading.values), LIKELIHOOD_RULE
        if isinstance(reading, Answer):
            return read_answer(reading.text, said(ids, declared.answers)), TEXT_RULE
        outcome = read_out(reading.listing, names_of(ids, declared.answers), declared.token_ids)
        if outcome.error != NO_LIST:
            return outcome, rule
        if declared.text_choices and reading.text:
            return read_answer(reading.text, said(ids, declared.answers)), TEXT_RULE
        return outcome, ""

    def _given_row(
        self, record: Record, fields: Mapping[str, Any], item: str, ids: tuple[str, ...]
    ) -> Decision:
        row = {"id": item, **{name: value for name, value in fields.items() if name != "id"}}
        given = fields.get("probabilities")
        if given is None and not fields.get("option_ids"):
            row["option_ids"] = list(ids)
        if isinstance(given, list) and self.labels is not None and len(given) == len(ids):
            # A table has one column for each option of the whole set; an empty cell of an option that
            # the item does not have is no value.
            wanted = self.labels.layouts[self.labels.layout[self._places[item]]]
            kept = [n for n, option in enumerate(ids) if option in wanted or given[n] is not None]
            row["option_ids"] = [ids[n] for n in kept]
            row["probabilities"] = [given[n] for n in kept]
            if set(row["option_ids"]) != set(wanted):
                raise InputError(self._other_options(record, item, row["option_ids"], wanted))
        return self._checked(row, record, record.rule)

    def _checked(
        self, row: dict[str, Any], record: Record, rule: str, notices: tuple[Notice, ...] = ()
    ) -> Decision:
        """Read the row as a run's reader will, and replace what it could not use by the reason."""
        read = self._read(row, record)
        if read.notice:
            notices = (*notices, Notice(read.notice))
        if read.status == rows.INVALID:
            status = row["status"] if row.get("status") not in (None, "ok", "error") else "invalid"
            kept = {name: value for name, value in row.items() if name not in _VALUES}
            row = {**kept, "option_ids": list(read.options), "status": status, "error": read.reason}
        if not row.get("option_ids"):
            row.pop("option_ids", None)
        return Decision(
            row=finite(row),
            place=record.place,
            status=read.status,
            reason=read.reason,
            rule=rule if read.status == rows.OK else "",
            repeat=record.repeat,
            series=dict(record.series),
            settings=record.settings,
            model=record.model,
            basis=record.basis,
            notices=notices,
        )

    def _read(self, row: dict[str, Any], record: Record) -> rows.Row:
        """Read a row; the schema looks at one row of each kind, since it is by far the slowest check."""
        more = {name: value for name, value in row.items() if name not in _PLAIN}
        kind = tuple((name, type(value)) for name, value in more.items())
        plain = all(value.isascii() for value in more.values() if isinstance(value, str))
        mass = row.get("allowed_token_mass", 0.0)
        sure = plain and is_number(mass) and 0 <= mass <= 1 and row.get("status", "ok") == "ok"
        if sure and kind in self._sound and row.get("error") is None:
            return rows.read_row({name: row[name] for name in _PLAIN if name in row}, record.place.file, 0)
        read = rows.read_row(row, record.place.file, record.place.line or 0)
        if problems := rows.field_problems(row, record.place.file, record.place.line or 0):
            raise InputError(problems)
        self._sound.add(kind)
        return read


def names_of(ids: Sequence[str], answers: str) -> tuple[str, ...]:
    """Return the options' names in an answer: letters by position, or their ids.

    Args:
        ids: the options in prompt order.
        answers: `letters`, `ids`, or empty where nothing was declared.

    Raises:
        UsageError: nothing was declared and letters by position would contradict the ids, or there
            are more options than letters.
    """
    if answers == "ids":
        return tuple(ids)
    if len(ids) > len(LETTERS):
        raise UsageError(f"an item has {len(ids)} options, more than letters: declare --answers ids")
    letters = tuple(LETTERS[: len(ids)])
    if not answers and any(
        option in letters and option != letter for option, letter in zip(ids, letters, strict=True)
    ):
        raise UsageError(
            f"the options {', '.join(ids)} are letters in another order than the prompt's A, B, ...: "
            "declare --answers letters (the prompt numbered the options) or --answers ids"
        )
    return letters


def said(ids: Sequence[str], answers: str) -> dict[str, int]:
    """Return what the text of an answer may say, with the option that it means."""
    names = {name: place for place, name in enumerate(names_of(ids, answers))}
    return names if answers else {**names, **{option: place for place, option in enumerate(ids)}}
