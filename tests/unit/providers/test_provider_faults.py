"""Waiting times, redaction and kinds of failure."""

import builtins
import socket
from email.utils import format_datetime, formatdate
from types import ModuleType

import aiohttp
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from titjudge.core import redaction
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.types import FailureKind
from titjudge.providers import ProviderSettings
from titjudge.providers.hosted import error_bodies, failures, http, sdk
from titjudge.providers.hosted.base import AskedFor
from titjudge.providers.hosted.http import Dropped, Endpoint, Endpoints, TimedOut, Unreachable, Untrusted, is_private
from titjudge.providers.hosted.openai import OpenAI

NOW = 1_790_000_000.0


def http_date(seconds: float) -> str:
    return formatdate(seconds, usegmt=True)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "1e9"}, 3600.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "x", "retry-after": "2"}, 2.0),
        ({"retry-after": http_date(NOW + 30)}, 30.0),
        ({"retry-after": http_date(NOW - 30)}, 0.0),
        ({"retry-after": http_date(NOW + 86_400)}, 120.0),  # whose clock is wrong? wait, but not for a day
        ({"retry-after": http_date(NOW + 86_430), "date": http_date(NOW + 86_400)}, 30.0),  # the server's is
        ({"retry-after": "Wed, 99 Nonsense 2026"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], expected: float | None) -> None:
    assert failures.retry_after(headers, now=NOW) == expected


@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms", "date"]), st.text(max_size=40)))
def test_retry_after_never_raises_nor_leaves_its_range(headers: dict[str, str]) -> None:
    wait = failures.retry_after(headers)
    assert wait is None or 0 <= wait <= 3600


@given(st.datetimes())
def test_retry_after_with_any_date(when: object) -> None:
    wait = failures.retry_after({"retry-after": format_datetime(when)})  # type: ignore[arg-type]
    assert wait is None or 0 <= wait <= 120


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-proj-SECRETsecret123.",
        "Authorization: Bearer SECRETsecret123",
        "{'authorization': 'Basic SECRETsecret123=='}",
        "key AIzaSECRETsecret123 is not valid",
        "https://host/v1beta/models?key=SECRETsecret123&alt=json",
        "x-goog-api-key: SECRETsecret123",
        '"api_key": "SECRETsecret123"',
        "http://user:SECRETsecret123@host/v1",
    ],
)
def test_nothing_that_looks_like_a_key_survives(text: str) -> None:
    assert "SECRETsecret123" not in redaction.redact(text)


def test_a_known_key_is_removed_whatever_it_looks_like() -> None:
    assert redaction.redact("wrong: hunter22-x!", ["hunter22-x!"]) == "wrong: [key]"


def test_messages_are_one_short_line_without_markup() -> None:
    line = redaction.one_line("<html><script>var x=1</script><h1>Bad\nGateway</h1></html>" + "x " * 900)
    assert line.startswith("Bad Gateway x x")
    assert len(line) == 400


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Unreachable("x"), FailureKind.RETRY),
        (Dropped("x"), FailureKind.RETRY),
        (TimedOut("x"), FailureKind.RETRY),
        (TimeoutError(), FailureKind.RETRY),
        (ConnectionResetError("x"), FailureKind.RETRY),
        (Untrusted("certificate"), FailureKind.FATAL),
        (ConfigError("no key"), FailureKind.FATAL),
        (DataError("the image changed"), FailureKind.REJECTED),
        (KeyError("a bug"), FailureKind.REJECTED),
    ],
)
def test_exceptions_by_kind(error: Exception, kind: FailureKind) -> None:
    failure = failures.classify(error)
    assert failure.kind is kind
    assert failure.message


def test_statuses_by_kind() -> None:
    kinds = {
        status: failures.kind_of_status(status)
        for status in (302, 400, 401, 402, 404, 408, 409, 413, 422, 425, 429, 500, 502, 503, 504, 520, 529)
    }
    assert [status for status, kind in kinds.items() if kind is FailureKind.RETRY] == [
        408,
        409,
        425,
        500,
        502,
        504,
        520,
    ]
    assert [status for status, kind in kinds.items() if kind is FailureKind.LATER] == [503, 529]
    assert [status for status, kind in kinds.items() if kind is FailureKind.FATAL] == [302, 401, 402]
    assert [status for status, kind in kinds.items() if kind is FailureKind.BARRED] == [404]
    assert [status for status, kind in kinds.items() if kind is FailureKind.REJECTED] == [400, 413, 422]


def test_statuses_behind_which_a_request_may_have_been_billed() -> None:
    billed = [status for status in range(100, 600) if failures.may_be_billed(status)]
    assert billed == [408, 502, 504, 520, 521, 522, 523, 524]


UNCONNECTED = {
    aiohttp: ("ClientConnectorError", "ClientProxyConnectionError", "ConnectionTimeoutError"),
    builtins: ("ConnectionRefusedError",),
    socket: ("gaierror",),
    httpx: ("ConnectError", "ConnectTimeout", "PoolTimeout"),
}


def _raised(library: ModuleType, name: str) -> Exception:
    """An exception of a library's class, with a text and without what its constructor wants."""
    made: Exception = type(
        name, (getattr(library, name),), {"__init__": Exception.__init__, "__str__": lambda _: "x"}
    )()
    return made


@pytest.mark.parametrize(
    ("library", "name"), [(library, name) for library in UNCONNECTED for name in UNCONNECTED[library]]
)
def test_what_says_that_nothing_was_sent(library: ModuleType, name: str) -> None:
    further = sdk._UNCONNECTED if library is httpx else frozenset()
    found = failures.connection_error(_raised(library, name), "http://a", further)
    assert isinstance(found, Unreachable)
    assert failures.classify(found).not_sent


def test_every_name_that_says_that_nothing_was_sent_is_tried() -> None:
    tried = {name for names in UNCONNECTED.values() for name in names}
    assert tried == failures._UNCONNECTED | sdk._UNCONNECTED


@pytest.mark.parametrize(
    ("library", "name"),
    [
        (aiohttp, "ServerDisconnectedError"),
        (aiohttp, "ServerTimeoutError"),
        (httpx, "ReadTimeout"),
        (httpx, "ReadError"),
    ],
)
def test_what_may_be_raised_after_sending_does_not_say_so(library: ModuleType, name: str) -> None:
    assert failures.connection_error(_raised(library, name), "http://a", sdk._UNCONNECTED) is None


LEFT_OUT = [
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
]


@pytest.mark.parametrize("name", [*LEFT_OUT, "stop", "logprobs", "reasoning_effort"])
def test_a_parameter_that_a_server_refuses_is_left_out_where_the_question_stays_the_same(name: str) -> None:
    provider = OpenAI(ProviderSettings("gpt-4o", base_url="http://127.0.0.1:9/v1"))
    body = f"Unsupported parameter: '{name}' is not supported with this model.".encode()
    failure = provider.read_error(http.Answer(400, {}, body), AskedFor({name}))
    assert failure.failure.kind is (FailureKind.RETRY if name in LEFT_OUT else FailureKind.BARRED)
    assert (name in provider.family.omit) is (name in LEFT_OUT)


def test_every_parameter_that_may_be_left_out_is_tried() -> None:
    assert set(LEFT_OUT) == error_bodies.MAY_BE_LEFT_OUT


def test_endpoint_identity_holds_no_credentials() -> None:
    endpoint = Endpoint("https://me:pass@host:8443/openai/v1/?api-version=2&key=abc")
    assert endpoint.identity == "https://host:8443/openai/v1"
    assert endpoint.url("/chat/completions") == "https://host:8443/openai/v1/chat/completions?api-version=2&key=abc"
    assert endpoint.credentials.startswith("Basic ")


@pytest.mark.parametrize("url", ["api.openai.com/v1", "ftp://host/v1", "http:///v1", "", " , "])
def test_what_is_no_web_address_is_said_so(url: str) -> None:
    with pytest.raises(ConfigError, match="base_url"):
        Endpoints(url)


def test_endpoints_take_turns_and_leave_out_the_unreachable() -> None:
    several = Endpoints("http://a/v1, http://b/v1,http://c/v1")
    assert several.identity == "http://a/v1,http://b/v1,http://c/v1"
    assert [several.order()[0].host for _ in range(4)] == ["a", "b", "c", "a"]
    with pytest.raises(Unreachable), several.all[1].used():
        raise Unreachable("refused")
    assert {several.order()[0].host for _ in range(6)} == {"a", "c"}
    assert several.order()[-1].host == "b"
    with several.all[0].used():
        assert several.order()[0].host == "c"


@pytest.mark.parametrize(
    ("host", "private"),
    [
        *[(host, True) for host in ("127.0.0.1", "::1", "10.1.2.3", "localhost", "gpu-box", "vllm.internal")],
        *[(host, False) for host in ("8.8.8.8", "api.openai.com")],
    ],
)
def test_private_hosts(host: str, private: bool) -> None:
    assert is_private(host) is private
