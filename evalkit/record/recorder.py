"""Recording a run: what to ask, in which order, and keeping every decision the moment it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evalkit.catalog import shown
from evalkit.errors import ChecksumError, InputError, Problem
from evalkit.jsonl import file_sha256
from evalkit.labels import LabelSet
from evalkit.record import sidecar
from evalkit.record.answers import Answer, Fields, failed
from evalkit.record.backend import Backend
from evalkit.record.errors import BackendError, RequestFailedError
from evalkit.record.items import Index, index_prompts, read_items
from evalkit.record.journal import Found, Journal, pending
from evalkit.record.modes import Mode
from evalkit.record.progress import Progress
from evalkit.record.protocol import Prompt
from evalkit.record.sidecar import Particulars

GIVE_UP_AFTER = 10
"""Failed requests in a row after which the backend counts as dead."""
LOW_MASS = 0.5
"""Below this mass on the options, the first answer is worth a warning."""


@dataclass(frozen=True)
class Plan:
    """What to record, and how."""

    output: Path
    """The run file."""
    mode: Mode
    """The protocol."""
    concurrency: int = 8
    """Requests at a time."""
    retry_failed: bool = False
    """Ask again about the items whose request failed."""
    timings: bool = True
    """Record how long each answer took."""
    particulars: Particulars = field(default_factory=Particulars)
    """What the sidecar says besides."""


@dataclass
class Recorded:
    """What came of a recording."""

    path: Path
    """The run file."""
    items: int
    """Items of the label set."""
    decisions: int = 0
    """Rows in the file."""
    asked: int = 0
    """Rows that were added now."""
    failed: int = 0
    """Rows without a decision because the backend failed."""
    finished: bool = False
    """Whether every item has its row, and the file is in order."""
    notices: list[str] = field(default_factory=list)
    """What the user should know."""


class Recorder:
    """Records one run file; :attr:`recorded` is right at every moment, also after an exception."""

    def __init__(self, labels: LabelSet, plan: Plan, progress: Progress) -> None:
        self.labels, self.plan, self.progress = labels, plan, progress
        self.name = shown(plan.output)
        self.recorded = Recorded(plan.output, len(labels))
        self._meta: dict[str, Any] = {}
        self._failed_in_a_row = 0

    async def run(self, backend: Backend) -> Recorded:
        """Record what is missing, and put the file in order when nothing is.

        Args:
            backend: what is asked.

        Raises:
            InputError: the label set cannot be asked, or the file that is there does not fit.
            BackendError: the backend cannot be asked, or no longer.
            UsageError: the file cannot be written.
        """
        index = index_prompts(self.labels, self.plan.mode.prompts)
        with Journal(self.plan.output, self.name) as journal:
            self._read_found(journal, index)
            wanted = pending(index, journal.found, retry_failed=self.plan.retry_failed)
            if wanted:
                try:
                    await self._record(_Session(backend, journal, index, wanted))
                finally:
                    await backend.close()
            elif not self._meta.get("sha256"):
                self._finish(journal, index)
        self.recorded.finished = True
        return self.recorded

    def _read_found(self, journal: Journal, index: Index) -> None:
        self._meta = meta = sidecar.read(self.plan.output, self.name)
        if meta:
            sidecar.refuse_other(meta, self.labels, self.plan.mode, self.plan.particulars, self.name)
            self._refuse_changed_file(meta.get("sha256"))
        self._count(journal.read(_Belongs(index)))
        if journal.found.fragment:
            aside = journal.set_aside()
            self.recorded.notices.append(f"{self.name}: half a row at the end was moved to {aside}")

    def _refuse_changed_file(self, wanted: str | None) -> None:
        # A sidecar names the digest only once a recording is complete.
        if wanted and wanted != (actual := file_sha256(self.plan.output)):
            raise ChecksumError(
                Problem(
                    f"the sidecar describes another file (sha256 {wanted[:12]}..., this file has "
                    f"{actual[:12]}...)",
                    self.name,
                    remedy="restore the recorded file, or record into another one",
                )
            )

    async def _record(self, session: _Session) -> None:
        described = await session.backend.open()
        sidecar.refuse_other_model(self._meta, described, self.plan.particulars, self.name)
        everything = len(session.index)
        self.progress.begin(self.plan.output.name, everything, everything - len(session.wanted))
        try:
            await self._probe(session)
            prompts = self._prompts(session.wanted)
            await _all([self._work(session, prompts) for _ in range(self.plan.concurrency)])
        finally:
            self.progress.end()
        # By now the backend has learned how it has to ask.
        self._meta["recorded"]["options"] |= session.backend.described().options
        self._finish(session.journal, session.index)

    async def _probe(self, session: _Session) -> None:
        """Ask the longest prompt first, alone: what is wrong with the backend or the set shows at once."""
        longest = max(session.wanted, key=lambda name: (session.index[name].length, name))
        prompt = next(self._prompts({longest}))
        try:
            answer = await session.backend.probe(prompt)
        except RequestFailedError as error:
            answer = _no_answer(prompt, error)
        self._refuse_other_answerer(session.journal.found.models, answer.fields.get("model"))
        self._begin(session)
        self._warn(answer.rows[0])
        self._keep(session, prompt, answer)

    def _refuse_other_answerer(self, before: set[str], answered: str | None) -> None:
        if before and answered is not None and answered not in before:
            raise InputError(
                Problem(
                    f"was begun with the model {', '.join(sorted(before))}, now {answered} answers",
                    self.name,
                    remedy="record into another file, or move this one away",
                )
            )

    def _begin(self, session: _Session) -> None:
        """Write the sidecar of an unfinished run, before the first row."""
        particulars, there = self.plan.particulars, len(session.journal.found.places)
        if there and not self._meta:
            unknown = f"{there} decisions were in the file before, and nothing says what recorded them"
            particulars = replace(particulars, notices=(*particulars.notices, unknown))
        described = session.backend.described()
        self._meta = sidecar.document(self.labels, self.plan.mode, described, particulars, self._meta)
        sidecar.write(self.plan.output, self._meta)

    def _warn(self, first: Fields) -> None:
        if first.get("status") is not None:
            self.recorded.notices.append(f"the first answer is no decision: {first['error']}")
        elif (mass := first.get("allowed_token_mass")) is not None and mass < LOW_MASS:
            self.recorded.notices.append(
                f"in the first answer the options hold {mass:.2g} of the mass: the model wants to say "
                "something else (is thinking switched on, or is it no instruction model?)"
            )

    def _prompts(self, wanted: set[str]) -> Iterator[Prompt]:
        found = read_items(self.labels)
        if self.plan.mode.one_by_one:
            found = (located for located in found if located[1]["id"] in wanted)
        prompts = self.plan.mode.prompts(found, _ignore)
        return (prompt for prompt in prompts if any(question.id in wanted for question in prompt.questions))

    async def _work(self, session: _Session, prompts: Iterator[Prompt]) -> None:
        for prompt in prompts:
            try:
                answer = await session.backend.ask(prompt)
            except RequestFailedError as error:
                if error.gone:
                    raise BackendError(f"the backend no longer answers: {error}; {self._so_far()}") from None
                answer = _no_answer(prompt, error)
            self._keep(session, prompt, answer)

    def _keep(self, session: _Session, prompt: Prompt, answer: Answer) -> None:
        """Append the decisions of an answer that are wanted, and give up where nothing works any more."""
        self._note(answer.notices)
        for question, decision in zip(prompt.questions, answer.rows, strict=True):
            if question.id not in session.wanted:
                continue
            digest = session.index[question.id].messages_sha256
            row = {"id": question.id, **decision, "messages_sha256": digest, **answer.fields}
            if self.plan.timings and answer.seconds:
                row["total_seconds"] = round(answer.seconds, 6)
            is_failed = decision.get("status") == "error"
            session.journal.append(row, failed=is_failed)
            session.wanted.discard(question.id)
            self.recorded.asked += 1
            self._count(session.journal.found)
            self.progress.step(failed=is_failed)
        self._give_up(answer)

    def _note(self, notices: Iterable[str]) -> None:
        """Take what the read-out says into the sidecar, each kind once."""
        known = self._meta["notices"]
        if new := [kind for kind in dict.fromkeys(notices) if kind not in known]:
            known += new
            sidecar.write(self.plan.output, self._meta)

    def _give_up(self, answer: Answer) -> None:
        reason = next((row["error"] for row in answer.rows if row.get("status") == "error"), None)
        self._failed_in_a_row = 0 if reason is None else self._failed_in_a_row + 1
        if self._failed_in_a_row > GIVE_UP_AFTER:
            raise BackendError(
                f"more than {GIVE_UP_AFTER} requests in a row failed: {reason}; {self._so_far()} "
                "(with --retry-failed the failed ones too)"
            )

    def _so_far(self) -> str:
        recorded = self.recorded
        return f"{recorded.decisions} of {recorded.items} rows are in {self.name}; the same command continues"

    def _count(self, found: Found) -> None:
        self.recorded.decisions, self.recorded.failed = len(found.places), len(found.failed)

    def _finish(self, journal: Journal, index: Index) -> None:
        journal.put_in_order(list(index))
        if self._meta:
            digest = file_sha256(self.plan.output)
            sidecar.write(self.plan.output, sidecar.finished(self._meta, len(index), digest))


@dataclass
class _Session:
    """What one run of the recorder works with."""

    backend: Backend
    journal: Journal
    index: Index
    wanted: set[str]
    """The items that still have to be asked."""


class _Belongs:
    """Tells whether a row was recorded from the same items, with the same messages."""

    def __init__(self, entries: Index) -> None:
        self.entries = entries

    def __call__(self, row: dict[str, Any]) -> str:
        entry = self.entries.get(row["id"])
        if entry is None:
            return f"{row['id']} is no item of the label set"
        options = row.get("option_ids")
        if options is not None and tuple(options) != entry.option_ids:
            return (
                f"{row['id']} was recorded with the options {', '.join(options)}, "
                f"the label set has {', '.join(entry.option_ids)}"
            )
        digest = row.get("messages_sha256")
        if digest is not None and digest != entry.messages_sha256:
            return f"{row['id']} was asked with other messages than the label set and protocol give now"
        return ""


def _ignore(line: int, name: str, what: str) -> None:
    """Pass over an item that cannot be asked: the first pass has reported it."""


def _no_answer(prompt: Prompt, error: RequestFailedError) -> Answer:
    return Answer(tuple(failed(question.option_ids, str(error)) for question in prompt.questions))


async def _all(work: list[Any]) -> None:
    """Run coroutines together; the first exception stops all of them."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
