"""Turning reports into text: the renderer is chosen by name from one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evalkit.comparing import DiffReport
    from evalkit.scoring import ScoreReport

    Reports = Sequence[ScoreReport] | Sequence[DiffReport]

FORMATS = ("text", "json", "markdown", "csv", "html", "junit", "github")


@dataclass(frozen=True)
class Look:
    """How a rendering is to look."""

    items: bool = False
    """List every item with what the policy does."""
    width: int | None = None
    """Columns of the terminal; None where lines may be as long as they like."""
    color: bool = False
    """Use colours."""
    ascii_only: bool = False
    """Write JSON in ASCII, for an output that cannot take other characters."""
    quiet: bool = False
    """The summary only."""
    limit: int | None = 50
    """How many rows a list of items shows; None for all."""


def render(reports: Reports, name: str, look: Look | None = None) -> str:
    """Render reports of one kind in a format.

    Args:
        reports: score reports, or diff reports with the same reference.
        name: one of FORMATS.
        look: how it is to look.
    """
    from evalkit.render import data, page
    from evalkit.render.views import view

    look = look or Look()
    if name == "json":
        return data.to_json(reports, look)
    if name == "csv":
        return data.to_csv(reports)
    if name == "junit":
        from evalkit.render import junit

        return junit.of_reports(reports)
    if name == "github":
        from evalkit.render import github

        return github.of_reports(reports)
    document = view(reports, look)
    if name == "markdown":
        return page.to_markdown(document)
    if name == "html":
        return page.to_html(document)
    return page.to_text(document, look)
