"""The HTTP client: retries that know when to stop, redirects that lose no key, and errors in plain words."""

from __future__ import annotations

import asyncio
import email.utils
import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import httpx2
import tenacity

from evalkit.record.endpoint import Endpoint, Secret
from evalkit.record.errors import BackendError, RefusedError, RequestFailedError
from evalkit.shapes import error_text

TOO_MANY_REQUESTS, SERVER_ERRORS, CLIENT_ERRORS = 429, 500, 400
REDIRECTS = (301, 302, 307, 308)
MAX_REDIRECTS = 3
MAX_WORDS = 500
"""Characters of a server's message that are kept."""
LONGEST_RETRY_AFTER = 3600.0
"""Seconds; a server that wants a longer pause has to be asked another day."""


@dataclass(frozen=True)
class Patience:
    """How long to wait for answers, and how often to ask again."""

    timeout: float = 120.0
    """Seconds that one request may take, all told."""
    retries: int = 5
    """How often a request is repeated after 429, 5xx, a lost connection or a timeout."""
    first_wait: float = 0.5
    """Seconds before the first repeat; doubled each time, with as much again at random."""
    longest_wait: float = 30.0
    """The most seconds between two tries, except where the server names a time."""


@dataclass(frozen=True)
class Reply:
    """A successful response."""

    body: Any
    """Its parsed JSON."""
    seconds: float
    """How long the try that succeeded took."""


class _PassingError(Exception):
    """Something that may be over at the next try."""

    def __init__(self, reason: str, *, retry_after: float | None = None, gone: bool = False) -> None:
        super().__init__(reason)
        self.retry_after, self.gone = retry_after, gone


class Client:
    """Sends requests to one server; used as an async context manager."""

    def __init__(
        self, endpoint: Endpoint, secret: Secret, patience: Patience | None = None, connections: int = 1
    ) -> None:
        self.endpoint, self.secret = endpoint, secret
        self.patience = patience or Patience()
        self._resume_at = 0.0
        self._urls: dict[str, httpx2.URL] = {}
        # The library's pool looks at all its connections for each request, which at 64 of them costs more
        # than the request; so every lane has a pool of its own, with one connection.
        context = httpx2.create_ssl_context(trust_env=not endpoint.is_local)
        self._lanes = [self._lane(context) for _ in range(connections)]
        self._free = asyncio.LifoQueue[httpx2.AsyncClient]()

    def _lane(self, context: ssl.SSLContext) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            headers={"Content-Type": "application/json", **self.secret.headers},
            timeout=self.patience.timeout,
            limits=httpx2.Limits(max_connections=1, max_keepalive_connections=1),
            verify=context,
            # The library would follow any redirect, and ask a proxy for this machine too.
            follow_redirects=False,
            trust_env=not self.endpoint.is_local,
        )

    async def __aenter__(self) -> Self:
        for lane in reversed(self._lanes):
            self._free.put_nowait(lane)
        return self

    async def __aexit__(self, *_: object) -> None:
        for lane in self._lanes:
            await lane.aclose()

    async def post(self, url: str, body: Mapping[str, Any]) -> Reply:
        """Send a request, again and again where that may help.

        Raises:
            RequestFailedError: every try failed, or the answer is no JSON.
            RefusedError: the server says that the request itself is wrong.
            BackendError: the server sends us to another host.
        """
        return await self._patiently("POST", url, json.dumps(body, ensure_ascii=False).encode("utf-8"))

    async def get(self, url: str) -> Reply:
        """Fetch a JSON document; raises like :meth:`post`."""
        return await self._patiently("GET", url, None)

    async def peek(self, url: str) -> Any:
        """Fetch a JSON document that a server may have; None where it has none."""
        try:
            return (await self._once("GET", url, None)).body
        except (_PassingError, RefusedError, RequestFailedError, BackendError):
            return None

    async def _patiently(self, method: str, url: str, content: bytes | None) -> Reply:
        try:
            return await self._once(method, url, content)
        except _PassingError as error:
            return await self._again(error, method, url, content)

    async def _again(self, first: _PassingError, method: str, url: str, content: bytes | None) -> Reply:
        """Go on after a first try that failed."""
        failed = [first]

        async def attempt() -> Reply:
            if failed:
                raise failed.pop()
            return await self._once(method, url, content)

        retrying = tenacity.AsyncRetrying(
            stop=tenacity.stop_after_attempt(self.patience.retries + 1),
            wait=self._wait,
            retry=tenacity.retry_if_exception_type(_PassingError),
            reraise=True,
        )
        try:
            reply: Reply = await retrying(attempt)
        except _PassingError as error:
            tries = retrying.statistics.get("attempt_number", 1)
            raise RequestFailedError(f"{error} ({_times(tries)})", gone=error.gone) from None
        return reply

    def _wait(self, state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, _PassingError) and error.retry_after is not None:
            return error.retry_after
        patience = self.patience
        growing = tenacity.wait_exponential(patience.first_wait, patience.longest_wait)
        return growing(state) + tenacity.wait_random(0, patience.first_wait)(state)

    async def _once(self, method: str, url: str, content: bytes | None) -> Reply:
        # A pause that the server asked for holds for all requests, not only for the one that was told.
        if (pause := self._resume_at - time.monotonic()) > 0:
            await asyncio.sleep(pause)
        start = time.perf_counter()
        response = await self._send(method, url, content)
        return Reply(self._parsed(response), time.perf_counter() - start)

    async def _send(self, method: str, url: str, content: bytes | None) -> httpx2.Response:
        for _ in range(MAX_REDIRECTS + 1):
            try:
                response = await self._exchange(method, url, content)
            except (TimeoutError, httpx2.TimeoutException):
                raise _PassingError(f"no answer within {self.patience.timeout:g} s") from None
            except httpx2.DecodingError as error:
                reason = self.secret.mask(str(error))
                raise RequestFailedError(f"the answer cannot be decompressed ({reason})") from None
            except httpx2.TransportError as error:
                raise _PassingError(self._lost(error), gone=isinstance(error, httpx2.ConnectError)) from None
            if response.status_code not in REDIRECTS:
                return response
            url = self._redirected(response)
        raise BackendError(f"{self.endpoint.api} redirects in a circle; check --base-url")

    async def _exchange(self, method: str, url: str, content: bytes | None) -> httpx2.Response:
        if url not in self._urls:
            self._urls[url] = httpx2.URL(url)
        lane = await self._free.get()
        try:
            async with asyncio.timeout(self.patience.timeout):
                return await lane.request(method, self._urls[url], content=content)
        finally:
            self._free.put_nowait(lane)

    def _lost(self, error: httpx2.TransportError) -> str:
        detail = self.secret.mask(str(error))
        return f"connection lost ({type(error).__name__}{detail and f': {detail}'})"

    def _redirected(self, response: httpx2.Response) -> str:
        try:
            target = response.url.join(response.headers.get("location", ""))
        except httpx2.InvalidURL:
            raise BackendError(f"{self.endpoint.api} redirects to an address that is none") from None
        if (target.scheme, target.host, target.port) != (
            response.url.scheme,
            response.url.host,
            response.url.port,
        ):
            where = self.secret.mask(f"{target.scheme}://{target.netloc.decode('ascii', 'replace')}")
            raise BackendError(
                f"{self.endpoint.api} redirects to another host, {where}: texts and key are not sent there; "
                "if it is the right one, give its address as --base-url"
            )
        return str(target)

    def _parsed(self, response: httpx2.Response) -> Any:
        status = response.status_code
        if status == TOO_MANY_REQUESTS or status >= SERVER_ERRORS:
            after = self._retry_after(response)
            raise _PassingError(self._told(response), retry_after=after)
        if status >= CLIENT_ERRORS:
            raise RefusedError(status, self._words(response) or response.reason_phrase)
        try:
            body = json.loads(response.content)
            return _spelled(body) if b"\\ud" in response.content.lower() else body
        except (ValueError, RecursionError):
            shown = self._words(response) or "nothing"
            raise RequestFailedError(f"HTTP {status}, but the answer is no JSON: {shown}") from None

    def _retry_after(self, response: httpx2.Response) -> float | None:
        seconds = retry_after(response.headers.get("retry-after", ""))
        if seconds is None:
            return None
        if seconds > LONGEST_RETRY_AFTER:
            raise RequestFailedError(f"{self._told(response)} (the server wants a pause of {seconds:.0f} s)")
        self._resume_at = max(self._resume_at, time.monotonic() + seconds)
        return seconds

    def _told(self, response: httpx2.Response) -> str:
        return f"HTTP {response.status_code}: {self._words(response) or response.reason_phrase}"

    def _words(self, response: httpx2.Response) -> str:
        # Masked before anything is cut, so that no part of a key is left over at an end.
        raw: str = self.secret.mask(response.text)
        try:
            text: str = self.secret.mask(error_text(json.loads(raw)))
        except (ValueError, RecursionError):
            text = ""
        text = " ".join((text or raw).split())
        return text if len(text) <= MAX_WORDS else text[: MAX_WORDS - 3] + "..."


def retry_after(value: str) -> float | None:
    """Return the seconds that a Retry-After header names, as a number or as a date; None where it is neither.

    See RFC 9110, section 10.2.3.
    """
    value = value.strip()
    if value.isascii() and value.replace(".", "", 1).isdigit():
        return float(value)
    try:
        date = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, date.timestamp() - time.time())


def _spelled(value: Any) -> Any:
    """Spell out half surrogate pairs, which JSON may hold, but neither a file nor a request can carry."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_spelled(key): _spelled(entry) for key, entry in value.items()}
    return [_spelled(entry) for entry in value] if isinstance(value, list) else value


def _times(tries: int) -> str:
    return "one try" if tries == 1 else f"after {tries} tries"
