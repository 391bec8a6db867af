"""Addresses: what is none has no parts, and ends no command."""

import pytest

from titjudge.core.errors import ConfigError
from titjudge.core.redaction import url_parts
from titjudge.engine.prices import at_vendor
from titjudge.providers.hosted.http import Endpoint

BROKEN = (
    "http://[::1", "http://u:pw@[::1/v1", "http://[x]/", "http://host:99999/", "http://host:port/", "https://\u2100.example/v1",
    "http://host:-1/", "//[", "http://h:\u0663/",
)  # fmt: skip


@pytest.mark.parametrize("address", BROKEN)
def test_a_broken_address_has_no_parts_and_is_refused_without_its_password(address: str) -> None:
    assert not any(url_parts(address))
    with pytest.raises(ConfigError) as refused:
        Endpoint(address)
    assert "pw" not in str(refused.value)
    assert not at_vendor("openai", address)


def test_an_address_is_split_without_the_blanks_around_it() -> None:
    parts = url_parts(" https://user@host.example:8443/v1?x=1 ")
    assert (parts.scheme, parts.hostname, parts.port, parts.path, parts.query) == (
        "https",
        "host.example",
        8443,
        "/v1",
        "x=1",
    )
