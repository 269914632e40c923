"""Where a server is, and the key that it wants: parsed strictly, and never shown."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urlsplit

from evalkit.errors import UsageError

KEY_VARIABLE = "EVALKIT_API_KEY"
"""The environment variable that holds the API key, unless another one is named."""
MASK = "***"
"""What stands where a key was."""
SHORTEST = 4
"""A shorter key is no secret, but the placeholder that local servers want, and part of many words."""

_ENDINGS = ("/chat/completions", "/completions", "/models")
_VERSION = re.compile(r"v\d+\w*")


@dataclass(frozen=True)
class Endpoint:
    """The addresses of one server."""

    api: str
    """Where the OpenAI-compatible interface is, without a slash at the end (``http://host:8000/v1``)."""
    root: str
    """The same without the version: where servers have their own addresses."""
    is_local: bool
    """Whether it is this machine, so that no proxy is asked."""

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """Parse what the user gave as base URL; ``/v1`` is added where no version is named.

        Args:
            text: the base URL.

        Raises:
            UsageError: it is no http or https URL, or holds a password or a query.
        """
        parts = _split(text)
        if "@" in parts.netloc:
            raise UsageError(
                f"--base-url: a URL must not hold a user or password; put the key into {KEY_VARIABLE}"
            )
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"--base-url {text!r}: write it like http://localhost:8000/v1")
        if parts.query or parts.fragment:
            raise UsageError("--base-url: leave out everything from the ? or # on")
        path = parts.path.rstrip("/")
        for ending in _ENDINGS:
            path = path.removesuffix(ending)
        origin = f"{parts.scheme}://{parts.netloc}"
        if not any(_VERSION.fullmatch(step) for step in path.split("/")):
            return cls(f"{origin}{path}/v1", f"{origin}{path}", _is_local(parts.hostname))
        head, _, last = path.rpartition("/")
        root = head if _VERSION.fullmatch(last) else path
        return cls(f"{origin}{path}", f"{origin}{root}", _is_local(parts.hostname))


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text.strip())
        parts.port  # noqa: B018  an impossible port is noticed when it is read
    except ValueError as error:
        raise UsageError(f"--base-url is no URL ({error})") from None
    return parts


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


@dataclass(frozen=True)
class Secret:
    """An API key, or none; it shows itself to nobody but the server."""

    value: str = field(default="", repr=False)
    """The key."""
    variable: str = KEY_VARIABLE
    """The environment variable that it comes from."""

    @classmethod
    def from_environment(
        cls, variable: str = KEY_VARIABLE, environment: Mapping[str, str] | None = None
    ) -> Secret:
        """Take the key out of an environment variable; an empty secret where it is not set.

        Args:
            variable: the name of the variable.
            environment: where to look; the process's environment by default.

        Raises:
            UsageError: the value cannot stand in an HTTP header.
        """
        value = (os.environ if environment is None else environment).get(variable, "").strip()
        if not (value.isascii() and (value.isprintable() or not value)):
            raise UsageError(f"{variable} holds characters that no HTTP header can carry")
        return cls(value, variable)

    def __bool__(self) -> bool:
        return bool(self.value)

    @property
    def headers(self) -> dict[str, str]:
        """The header that carries the key; none without a key."""
        return {"Authorization": f"Bearer {self.value}"} if self.value else {}

    def mask(self, value: Any) -> Any:
        """Return text, or JSON with texts in it, without the key.

        Args:
            value: what a server said.
        """
        if len(self.value) < SHORTEST:
            return value
        if isinstance(value, str):
            return value.replace(self.value, MASK)
        if isinstance(value, dict):
            return {self.mask(key): self.mask(entry) for key, entry in value.items()}
        if isinstance(value, list | tuple):
            return [self.mask(entry) for entry in value]
        return value
