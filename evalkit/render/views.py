"""Which view shows which reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evalkit.render import Look
    from evalkit.render.document import Document


def view(reports: Sequence[Any], look: Look) -> Document:
    """Lay reports of one kind out as a document."""
    from evalkit.comparing import DiffReport
    from evalkit.render import diff_view, score_view

    if isinstance(reports[0], DiffReport):
        return diff_view.document(reports, look)
    return score_view.document(reports, look)
