"""Where the result of a gate goes: files, the job summary, standard output."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evalkit.cli import common
from evalkit.errors import EvalkitError, UsageError

if TYPE_CHECKING:
    from evalkit.gate import GateReport
    from evalkit.render import Look

_INTERNAL = 4


@dataclass(frozen=True)
class GateFiles:
    """The files that were asked for."""

    json: Path | None = None
    """The report as JSON."""
    junit: Path | None = None
    """JUnit XML."""
    markdown: Path | None = None
    """The report for a pull request."""
    sarif: Path | None = None
    """SARIF."""

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Take old results away first; where judging fails, write into the files that nothing was judged.

        A file of an earlier pass must never stand beside an exit code that says otherwise.
        """
        for path in (self.json, self.junit, self.markdown, self.sarif):
            if path is not None and path.is_file():
                with contextlib.suppress(OSError):
                    path.unlink()
        from evalkit.render.escape import visible

        try:
            yield
        except EvalkitError as error:
            self._write_failure("\n".join(map(visible, error.lines())), error.exit_code)
            raise
        except Exception as error:
            message = visible(f"internal error: {type(error).__name__}: {error}")
            self._write_failure(message, _INTERNAL)
            raise

    def write(self, report: GateReport) -> None:
        """Write all files, and the job summary where GitHub Actions has one.

        Raises:
            UsageError: a file cannot be written.
        """
        from evalkit.jsonl import dumps
        from evalkit.render import findings, gate_view, junit, sarif

        self._write(
            json=lambda: dumps(report.to_dict(), indent=1) + "\n",
            junit=lambda: junit.of_gate(report),
            markdown=lambda: gate_view.to_markdown(report),
            sarif=lambda: sarif.to_sarif(findings.of_gate(report, working_tree())),
        )
        _append_summary(lambda room: gate_view.summary(report, room))

    def _write_failure(self, message: str, exit_code: int) -> None:
        from evalkit.gate.check import not_judged
        from evalkit.jsonl import dumps
        from evalkit.render import gate_view, junit, sarif

        page = gate_view.failure_markdown(message, exit_code)
        with contextlib.suppress(EvalkitError):
            self._write(
                json=lambda: dumps(not_judged(message, exit_code), indent=1) + "\n",
                junit=lambda: junit.of_failure(message),
                markdown=lambda: page,
                sarif=lambda: sarif.to_sarif([], error=message),
            )
        _append_summary(lambda room: page[: max(room, 0) // 4])

    def _write(self, **texts: Callable[[], str]) -> None:
        from evalkit.jsonl import write_atomic

        for name, text in texts.items():
            path: Path | None = getattr(self, name)
            if path is None:
                continue
            try:
                write_atomic(path, text())
            except OSError as error:
                raise UsageError(f"--{name} {path}: cannot be written ({error.strerror or error})") from error

    def printed(self, report: GateReport, format: str, look: Look) -> str:
        """Return what goes to standard output; in GitHub Actions, text comes with annotations.

        Args:
            report: the report.
            format: text, json or markdown.
            look: how it is to look.
        """
        from evalkit.render import data, findings, gate_view, github

        if format == "json":
            return data.document_to_json(report.to_dict(), look)
        if format == "markdown":
            return gate_view.to_markdown(report, look.limit)
        text = gate_view.to_text(report, look)
        if not os.environ.get("GITHUB_ACTIONS"):
            return text
        where = "all of them are in the log of this step and in the job summary"
        return github.inert(text) + github.commands(findings.of_gate(report, working_tree()), where)


def working_tree() -> Path:
    """Return the folder to which annotations name files: that of GitHub Actions, else the current one."""
    return Path(os.environ.get("GITHUB_WORKSPACE") or ".")


def _append_summary(text: Callable[[int], str]) -> None:
    """Append to the job summary; that it cannot be written changes no verdict, but is said."""
    from evalkit.render.gate_view import SUMMARY_BYTES

    place = os.environ.get("GITHUB_STEP_SUMMARY")
    if not place:
        return
    path = Path(place)
    try:
        used = path.stat().st_size if path.exists() else 0
        added = text(SUMMARY_BYTES - used - 1)
        with path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(f"\n{added}" if used and added else added)
    except OSError as error:
        common.warn(f"GITHUB_STEP_SUMMARY cannot be written ({error.strerror or error})")
