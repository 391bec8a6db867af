"""Where pages are served, and what is said about it."""

from collections.abc import Sequence

import click
import pytest
from click.testing import CliRunner

from titjudge.cli.options import gathered, say_address
from titjudge.core.errors import UserError
from titjudge.web import PageAddress


@click.command()
@gathered("at", PageAddress)
def page(at: PageAddress) -> None:
    click.echo(at.url)


@pytest.mark.parametrize(
    "url",
    [
        "label.example.org",
        "ftp://label.example.org",
        "https://",
        "https://label.example.org:x",
        "https://label.example.org/?a=b",
    ],
)
def test_what_is_no_address_of_a_page_is_refused(url: str) -> None:
    result = CliRunner().invoke(page, ["--url", url])
    assert isinstance(result.exception, UserError)
    assert str(result.exception) == f"--url must be like https://label.example.org, not '{url}'"


def said(link: str, capsys: pytest.CaptureFixture[str], asked: int | None = None) -> Sequence[str]:
    say_address([link], link, 8765, asked)
    return capsys.readouterr().out.splitlines()[1:]


def test_a_link_beyond_this_machine_without_tls_comes_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert said("http://127.0.0.1:8765/#key", capsys) == []
    assert said("https://label.example.org/#key", capsys) == []
    assert "without TLS" in said("http://vm:8765/#key", capsys)[0]


def test_a_port_that_holds_for_this_time_only_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert "port 8765 is in use" in said("http://127.0.0.1:4000/#key", capsys)[0]
    assert said("http://127.0.0.1:4000/#key", capsys, asked=4000) == []
