"""Addresses are parsed strictly, and a key shows itself to nobody but the server."""

from __future__ import annotations

import pytest

from evalkit.errors import UsageError
from evalkit.record.endpoint import Endpoint, Secret

KEY = "sk-harbour-4711-lantern"


@pytest.mark.parametrize(
    ("text", "api", "root"),
    [
        ("http://localhost:8000", "http://localhost:8000/v1", "http://localhost:8000"),
        ("http://localhost:8000/v1/", "http://localhost:8000/v1", "http://localhost:8000"),
        (" https://host/api/v1 ", "https://host/api/v1", "https://host/api"),
        ("https://host/proxy", "https://host/proxy/v1", "https://host/proxy"),
        ("https://host/v1beta/openai", "https://host/v1beta/openai", "https://host/v1beta/openai"),
        ("http://host/v1/chat/completions", "http://host/v1", "http://host"),
        ("http://host/v1/models", "http://host/v1", "http://host"),
    ],
)
def test_endpoint_of_a_base_url(text: str, api: str, root: str) -> None:
    endpoint = Endpoint.parse(text)
    assert (endpoint.api, endpoint.root) == (api, root)


@pytest.mark.parametrize(
    ("text", "is_local"),
    [
        ("http://localhost", True),
        ("http://127.0.0.1:1", True),
        ("http://[::1]:8000", True),
        ("http://a.localhost", True),
        ("http://10.0.0.1", False),
        ("http://example.org", False),
    ],
)
def test_endpoint_of_this_machine_is_local(text: str, is_local: bool) -> None:
    assert Endpoint.parse(text).is_local is is_local


@pytest.mark.parametrize(
    "text", ["", "localhost:8000", "ftp://host", "http://", "http://host:port", "http://host?x=1"]
)
def test_endpoint_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--base-url"):
        Endpoint.parse(text)


def test_endpoint_with_a_password_is_refused_without_showing_it() -> None:
    with pytest.raises(UsageError) as caught:
        Endpoint.parse(f"http://user:{KEY}@host/v1")
    assert KEY not in str(caught.value)


def test_secret_comes_from_the_environment() -> None:
    secret = Secret.from_environment("NAME", {"NAME": f" {KEY}\n"})
    assert secret
    assert secret.headers == {"Authorization": f"Bearer {KEY}"}
    assert not Secret.from_environment("OTHER", {"NAME": KEY})
    assert Secret.from_environment("OTHER", {}).headers == {}


def test_secret_does_not_show_itself() -> None:
    assert KEY not in repr(Secret(KEY))


@pytest.mark.parametrize("value", ["schlüssel", "two\nlines"])
def test_secret_that_no_header_can_carry_is_refused_without_showing_it(value: str) -> None:
    with pytest.raises(UsageError) as caught:
        Secret.from_environment("NAME", {"NAME": value})
    assert value not in str(caught.value)


def test_mask_takes_the_key_out_of_everything() -> None:
    told = {"message": f"bad key {KEY}!", KEY: [1, None, (KEY,)]}
    assert Secret(KEY).mask(told) == {"message": "bad key ***!", "***": [1, None, ["***"]]}
    assert Secret("").mask("text") == "text"
    assert Secret("x").mask("text") == "text"
