"""The HTTP client: what is tried again, what stops, and that no key gets out."""

from __future__ import annotations

import asyncio
import email.utils
import time
from collections.abc import Callable
from typing import Any

import pytest

from evalkit.record.client import Client, Patience, Reply, retry_after
from evalkit.record.endpoint import Endpoint, Secret
from evalkit.record.errors import BackendError, RefusedError, RequestFailedError
from tests.stub_server import Reply as Said
from tests.stub_server import Request, Stub
from tests.unit.asking import AT_ONCE, wait_for

KEY = "sk-harbour-4711-lantern"
FINE = Said({"fine": True})


def post(url: str, *, patience: Patience = AT_ONCE, secret: str = KEY, times: int = 1) -> Reply:
    """Send one request after the other over one client, and return the last reply."""

    async def work() -> Reply:
        endpoint = Endpoint.parse(url)
        async with Client(endpoint, Secret(secret), patience) as client:
            for _ in range(times):
                reply = await client.post(f"{endpoint.api}/chat/completions", {"é": 1})
            return reply

    return wait_for(work())


def in_turn(*replies: Said) -> Callable[[Request], Said]:
    """Answer each request with the next reply, and with the last one from then on."""
    return lambda request: replies[min(request.number, len(replies) - 1)]


def test_post_sends_json_and_key_and_returns_what_came() -> None:
    with Stub(in_turn(FINE)) as stub:
        reply = post(stub.url)
    (request,) = stub.requests
    assert (reply.body, reply.seconds > 0) == ({"fine": True}, True)
    assert (request.method, request.body) == ("POST", {"é": 1})
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"


def test_post_without_key_sends_no_authorization() -> None:
    with Stub(in_turn(FINE)) as stub:
        post(stub.url, secret="")
    assert "authorization" not in stub.requests[0].headers


@pytest.mark.parametrize(
    "trouble",
    [
        Said({"error": "slow down"}, 429),
        Said({"error": {"message": "EngineCore encountered an issue."}}, 500),
        Said(b"", 503),
        Said({"fine": False}, cut=3),
        Said({"fine": False}, delay=2),
    ],
    ids=["429", "500", "503", "reset in mid-body", "too slow"],
)
def test_post_tries_again_after_passing_trouble(trouble: Said) -> None:
    patience = Patience(timeout=0.3, retries=2, first_wait=0.001, longest_wait=0.002)
    with Stub(in_turn(trouble, trouble, FINE)) as stub:
        assert post(stub.url, patience=patience).body == {"fine": True}
    assert len(stub.requests) == 3


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (Said({"error": "slow down"}, 429), "HTTP 429: slow down (after 3 tries)"),
        (Said(b"", 500), "HTTP 500: Whatever (after 3 tries)"),
        (Said({"fine": False}, silent=True), "no answer within 0.1 s (after 3 tries)"),
    ],
)
def test_post_gives_up_after_all_retries_with_the_servers_words(trouble: Said, reason: str) -> None:
    patience = Patience(timeout=0.1, retries=2, first_wait=0.001, longest_wait=0.002)
    with Stub(in_turn(trouble)) as stub, pytest.raises(RequestFailedError) as caught:
        post(stub.url, patience=patience)
    assert (str(caught.value), caught.value.gone) == (reason, False)


def test_pauses_grow_twofold_to_a_limit_and_are_never_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def at_once(seconds: float) -> None:
        if seconds:
            pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", at_once)
    patience = Patience(timeout=5, retries=5, first_wait=0.5, longest_wait=4)
    with Stub(in_turn(Said(b"", 500))) as stub, pytest.raises(RequestFailedError):
        post(stub.url, patience=patience)
    grown = [0.5, 1, 2, 4, 4]
    extra = [pause - least for pause, least in zip(pauses, grown, strict=True)]
    assert all(0 <= one <= 0.5 for one in extra)
    assert len(set(extra)) == 5


def test_post_without_retries_tries_once() -> None:
    with Stub(in_turn(Said(b"", 500))) as stub, pytest.raises(RequestFailedError, match="one try"):
        post(stub.url, patience=Patience(retries=0))
    assert len(stub.requests) == 1


def test_post_to_a_server_that_is_gone_says_so() -> None:
    with Stub() as stub:
        url = stub.url
    with pytest.raises(RequestFailedError, match="connection lost") as caught:
        post(url)
    assert caught.value.gone


def test_post_waits_as_long_as_retry_after_says() -> None:
    busy = Said({"error": "busy"}, 429, {"Retry-After": "0.3"})
    with Stub(in_turn(busy, FINE)) as stub:
        start = time.monotonic()
        post(stub.url)
        assert time.monotonic() - start >= 0.3


def test_retry_after_holds_for_the_requests_that_come_next_too() -> None:
    busy = Said({"error": "busy"}, 429, {"Retry-After": "0.3"})
    patience = Patience(retries=0)

    async def work(url: str) -> float:
        endpoint = Endpoint.parse(url)
        async with Client(endpoint, Secret(), patience) as client:
            with pytest.raises(RequestFailedError):
                await client.post(f"{endpoint.api}/chat/completions", {})
            start = time.monotonic()
            await client.get(f"{endpoint.api}/chat/completions")
            return time.monotonic() - start

    with Stub(in_turn(busy, FINE)) as stub:
        assert wait_for(work(stub.url)) > 0.2


def test_retry_after_of_a_day_is_not_waited_for() -> None:
    busy = Said({"error": "quota"}, 429, {"Retry-After": "86400"})
    with (
        Stub(in_turn(busy)) as stub,
        pytest.raises(RequestFailedError, match=r"quota \(the server wants a pause of 86400 s"),
    ):
        post(stub.url)
    assert len(stub.requests) == 1


def test_retry_after_as_number_date_or_nonsense() -> None:
    assert retry_after("7") == 7
    assert retry_after(" 1.5 ") == 1.5
    soon = retry_after(email.utils.formatdate(time.time() + 60, usegmt=True))
    assert soon is not None
    assert 55 < soon <= 60
    assert retry_after("Mon, 30 Nov 2020 23:22:32 GMT") == 0
    assert retry_after("soon") is None
    assert retry_after("") is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": {"message": "The model does not exist.", "code": 404}}, "The model does not exist."),
        ({"error": "Unauthorized"}, "Unauthorized"),
        ({"detail": "Not Found"}, "Not Found"),
        (b"", "Whatever"),
        (b"<html>\n  Bad\tgateway</html>", "<html> Bad gateway</html>"),
        (b"x" * 2000, "x" * 497 + "..."),
    ],
)
def test_refusal_is_not_tried_again_and_keeps_the_servers_words(body: Any, words: str) -> None:
    with Stub(in_turn(Said(body, 404))) as stub, pytest.raises(RefusedError) as caught:
        post(stub.url)
    assert (caught.value.status, caught.value.words) == (404, words)
    assert len(stub.requests) == 1


@pytest.mark.parametrize(
    ("body", "shown"),
    [(b"", "nothing"), (b"{", "{"), (b"[" * 100_000, "[" * 497 + "..."), (b"\xff\xfe", "")],
)
def test_answer_that_is_no_json_is_a_failure(body: bytes, shown: str) -> None:
    with Stub(in_turn(Said(body))) as stub, pytest.raises(RequestFailedError) as caught:
        post(stub.url)
    assert str(caught.value).startswith("HTTP 200, but the answer is no JSON: ")
    assert str(caught.value).endswith(shown)


def test_redirect_on_the_same_host_is_followed_with_method_and_key() -> None:
    def answer(request: Request) -> Said:
        return FINE if request.path.endswith("/") else Said(b"", 307, {"Location": request.path + "/"})

    with Stub(answer) as stub:
        assert post(stub.url).body == {"fine": True}
    assert [(request.method, request.path) for request in stub.requests] == [
        ("POST", "/v1/chat/completions"),
        ("POST", "/v1/chat/completions/"),
    ]
    assert stub.requests[1].headers["authorization"] == f"Bearer {KEY}"


def test_redirect_to_another_host_is_not_followed() -> None:
    with Stub(in_turn(FINE)) as other, Stub() as stub:
        stub.answer = in_turn(Said(b"", 307, {"Location": f"{other.url}/chat/completions?{KEY}"}))
        with pytest.raises(
            BackendError, match=f"redirects to another host, http://127.0.0.1:{other.port}"
        ) as caught:
            post(stub.url)
    assert other.requests == []
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("location", ["http://\x7f", "http://xn--\xff/"])
def test_redirect_to_no_address_stops(location: str) -> None:
    nowhere = Said(b"", 307, {"Location": location})
    with Stub(in_turn(nowhere)) as stub, pytest.raises(BackendError, match="an address that is none"):
        post(stub.url)
    assert len(stub.requests) == 1


def test_redirect_in_a_circle_stops() -> None:
    circle = Said(b"", 302, {"Location": "/v1/chat/completions"})
    with Stub(in_turn(circle)) as stub, pytest.raises(BackendError, match="in a circle"):
        post(stub.url)
    assert len(stub.requests) == 4


@pytest.mark.parametrize("status", [401, 429, 500])
def test_key_in_the_servers_words_is_masked_even_where_they_are_cut(status: int) -> None:
    words = "x" * 490 + f" your key {KEY} is bad"
    refused = pytest.raises((RefusedError, RequestFailedError))
    with Stub(in_turn(Said({"error": words}, status))) as stub, refused as caught:
        post(stub.url)
    assert "sk-" not in str(caught.value)


def test_peek_returns_none_for_whatever_goes_wrong() -> None:
    async def work(url: str) -> list[Any]:
        endpoint = Endpoint.parse(url)
        async with Client(endpoint, Secret(), AT_ONCE) as client:
            return [
                await client.peek(f"{endpoint.root}/{name}")
                for name in ("fine", "404", "500", "html", "away")
            ]

    def answer(request: Request) -> Said:
        return {
            "/fine": FINE,
            "/404": Said(b"", 404),
            "/500": Said(b"", 500),
            "/html": Said(b"<html>"),
            "/away": Said(b"", 307, {"Location": "http://elsewhere.invalid/"}),
        }[request.path]

    with Stub(answer) as stub:
        assert wait_for(work(stub.url)) == [{"fine": True}, None, None, None, None]
    assert len(stub.requests) == 5


def test_answer_that_cannot_be_decompressed_is_a_failure() -> None:
    broken = Said(b"no archive", headers={"Content-Encoding": "gzip"})
    refused = pytest.raises(RequestFailedError, match=r"the answer cannot be decompressed \(.*header check")
    with Stub(in_turn(broken)) as stub, refused:
        post(stub.url)


def test_half_surrogate_pairs_in_an_answer_are_spelled_out() -> None:
    body = b'{"\\uD83D": ["a\\ud83d", "\\ud83d\\ude00", 1, null], "b": {"c": "\\udfff"}}'
    with Stub(in_turn(Said(body))) as stub:
        found = post(stub.url).body
    assert found == {"\\ud83d": ["a\\ud83d", "\U0001f600", 1, None], "b": {"c": "\\udfff"}}
