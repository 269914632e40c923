"""evalkit: whether a small language model still decides the same after its runtime or weights changed.

The functions below are the whole of it; each is imported when it is first used, so that importing
evalkit costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from evalkit.accuracy import Resampling
    from evalkit.api import diff, load_labels, load_run, score
    from evalkit.cards import Policy, Rule
    from evalkit.comparing import DiffReport
    from evalkit.errors import EvalkitError, InputError, UsageError
    from evalkit.scoring import Options, ScoreReport

_HOMES = {
    "load_labels": "api",
    "load_run": "api",
    "score": "api",
    "diff": "api",
    "Options": "scoring",
    "Resampling": "accuracy",
    "Policy": "cards",
    "Rule": "cards",
    "ScoreReport": "scoring",
    "DiffReport": "comparing",
    "EvalkitError": "errors",
    "InputError": "errors",
    "UsageError": "errors",
}

__all__ = [
    "DiffReport",
    "EvalkitError",
    "InputError",
    "Options",
    "Policy",
    "Resampling",
    "Rule",
    "ScoreReport",
    "UsageError",
    "__version__",
    "diff",
    "load_labels",
    "load_run",
    "score",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'evalkit' has no attribute {name!r}")
    return getattr(import_module(f"evalkit.{_HOMES[name]}"), name)
