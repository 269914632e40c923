"""What goes wrong while recording, beyond the tree of :mod:`evalkit.errors`."""

from __future__ import annotations

from evalkit.errors import InputError


class BackendError(InputError):
    """The backend cannot be recorded: it refuses, is not what was asked for, or no longer answers."""


class RequestFailedError(Exception):
    """One request got no usable answer, after all retries; the message is the reason, without the key."""

    def __init__(self, reason: str, *, gone: bool = False) -> None:
        super().__init__(reason)
        self.gone = gone
        """Whether nothing answers at that address at all."""


class RefusedError(Exception):
    """The server refuses a request (a 4xx): asking again would not help."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(f"HTTP {status}: {words}")
        self.status = status
        """The HTTP status."""
        self.words = words
        """The server's own words, without the key."""
