"""What a log tells, that nobody hears it who did not ask for it, and that no key is in it."""

from __future__ import annotations

import asyncio
import json
import logging
from base64 import b64encode
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from builders import read_lines
from commands import cli
from PIL import Image

from tests.kit import Scripted, Seen, Server
from titjudge.cli.logs import open_log
from titjudge.core import redaction
from titjudge.core.config import load_config
from titjudge.core.errors import Unanswered
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import Item
from titjudge.engine import retry
from titjudge.engine.ask import BoundAsk
from titjudge.engine.cache import AnswerCache
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles

KEY, PASSWORD, QUERY, HEADER = "planted0zq0of0env", "planted0zq0of0url", "planted0zq0of0query", "planted0zq0of0org"
BASIC = b64encode(f"someone:{PASSWORD}".encode()).decode()
MODELS = {
    "openai/m": ("OPENAI_API_KEY", "/v1"),
    "gemini/m": ("GEMINI_API_KEY", ""),
    "litellm/anthropic/m": ("ANTHROPIC_API_KEY", ""),
}


class Kept(logging.Handler):
    """What a program with a handler of its own gets to see."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(f"{record.name} {record.levelname} {record.getMessage()} {record.args!r} {record.exc_info!r}")


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    monkeypatch.setattr(redaction, "_registered", set())
    monkeypatch.setattr(retry, "Policy", partial(retry.Policy, base=0.001))
    logger, handler = logging.getLogger("titjudge"), Kept()
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


def telling(seen: Seen) -> Scripted | None:
    """Errors that say all the server knows of the request, its keys among it; then an answer."""
    if seen.nth > 3:
        return Scripted(headers={"x-ratelimit-limit-requests": "600", "x-ratelimit-remaining-requests": "599"})
    said = f"key {KEY}: {seen.method} {seen.path} with {dict(seen.headers)}"
    status = (429, 500, 503)[seen.nth - 1]
    return Scripted.fault(status, retry_after=0, body={"error": {"message": said, "code": status}})


def judged(model: str, base_url: str, cache: Path) -> str:
    config = load_config(None, {"judge": model, "base_url": base_url, "cache": cache})

    async def work() -> str:
        engine = Engine(Roles(config), PromptLibrary(), AnswerCache(cache))
        ask = BoundAsk(engine, Item("the-item", "a cube", None))
        try:
            return (await ask("tit/compare", role="judge", prompt="a cube", description="a cube")).text
        except Unanswered as error:
            return error.reason
        finally:
            await engine.aclose()

    return asyncio.run(work())


@pytest.mark.parametrize(
    "model",
    [
        "openai/m",
        "gemini/m",
        pytest.param("litellm/anthropic/m", marks=pytest.mark.slow),  # its import alone takes seconds
    ],
)
def test_retries_waits_and_limits_are_logged_and_no_key_is(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: Kept
) -> None:
    variable, path = MODELS[model]
    monkeypatch.setenv(variable, KEY)
    monkeypatch.setenv("OPENAI_ORG_ID", HEADER)
    with Server(telling) as server:
        host = f"127.0.0.1:{server.port}{path}"
        url = f"http://{host}" if model.startswith("litellm") else f"http://someone:{PASSWORD}@{host}?sig={QUERY}"
        close = open_log("debug", tmp_path / "log.jsonl")
        try:
            judged(model, url, tmp_path / "cache")
            judged(model, url, tmp_path / "cache")
        finally:
            close()
        assert server.count() == 4
        headers = str([dict(seen.headers) for seen in server.requests])
    assert KEY in headers or BASIC in headers  # they were sent, and the server told them
    lines = read_lines(tmp_path / "log.jsonl")
    text, raw = json.dumps(lines), "\n".join(kept.seen)
    for secret in (KEY, PASSWORD, QUERY, BASIC):
        assert secret not in text
        assert secret not in raw
    by_logger = {line["logger"]: line for line in lines}
    assert by_logger["titjudge.engine.retry"]["fields"]["kind"] == "later"
    assert by_logger["titjudge.engine.retry"]["fields"]["attempt"] == 3
    assert "HTTP 503" in by_logger["titjudge.engine.retry"]["message"] or model.startswith("litellm")
    assert by_logger["titjudge.engine.sender"]["fields"]["item"] == "the-item"
    assert "a request is delayed" in text
    assert "600 left" in text or model.startswith(("gemini", "litellm"))
    assert lines[-1]["message"] == "judge tit/compare of the-item: in the cache"
    assert set(lines[0]) == {"time", "level", "logger", "message", "fields"}


def test_a_question_without_an_answer_is_logged_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: Kept
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    refusing = Scripted.fault(400, body={"error": {"message": f"not with {KEY}"}})
    with Server(lambda seen: refusing) as server:
        assert "not with [key]" in judged("openai/m", server.openai, tmp_path / "cache")
    (line,) = [line for line in kept.seen if "no answer" in line]
    assert "INFO judge of the-item: no answer (HTTP 400" in line
    assert KEY not in line


def test_a_key_of_any_form_in_a_line_of_anybody_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENDOR_TOKEN", KEY)
    redaction.register_secret(QUERY)
    close = open_log("debug", tmp_path / "log.jsonl")
    try:
        try:
            raise ValueError(f"it does not take {KEY}")
        except ValueError:
            logging.getLogger("titjudge.x").exception("with %(key)s", {"key": KEY, "number": 3})
        logging.getLogger("titjudge.x").warning("with %s and Bearer %s\nand a line", QUERY, "abcdef123456")
    finally:
        close()
    first, second = map(json.loads, (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines())
    assert (first["message"], first["fields"]) == ("with [key]", {"key": "[key]", "number": 3})
    assert "it does not take [key]" in first["exception"]
    assert second["message"] == "with [key] and Bearer [key]\nand a line"
    assert KEY not in str(first)


def score(folder: Path, server: Server, *more: str, code: int = 0) -> str:
    Image.new("RGB", (32, 32)).save(folder / "a.png")
    arguments: tuple[Any, ...] = ("score", "--prompt", "a cube", "--captioner", "openai/m", "--judge", "openai/m")
    return cli(folder, *arguments, "--base-url", server.openai, *more, "a.png", OPENAI_API_KEY=KEY, code=code)


def test_a_command_is_silent_and_logs_where_it_is_told_to(tmp_path: Path) -> None:
    with Server() as server:
        assert "titjudge." not in score(tmp_path, server, "--set", "cache=one")
        shown = score(tmp_path, server, "--set", "cache=two", "--log-level", "debug")
        assert "DEBUG titjudge.engine.sender: captioner openai/m answered" in shown
        shown = score(tmp_path, server, "--set", "cache=three", "--log-file", "log.jsonl", "--log-level", "debug")
        assert "titjudge." not in shown
        lines = read_lines(tmp_path / "log.jsonl")
        assert {line["level"] for line in lines} == {"debug"}
        assert KEY not in str(lines)
        assert "titjudge." not in score(tmp_path, server, "--set", "cache=four")  # the log before is closed
        assert "log: No such file or directory. Correct the path" in score(
            tmp_path, server, "--log-file", "no/such/folder/log", code=2
        )


def test_every_command_can_be_asked_for_its_log() -> None:
    import click

    from titjudge.cli.commands import command_of, names

    def leaves(command: click.Command | None) -> list[click.Command]:
        assert command is not None
        if isinstance(command, click.Group):
            context = click.Context(command)
            parts = [command.get_command(context, part) for part in command.list_commands(context)]
            return [leaf for part in parts for leaf in leaves(part)]
        return [command]

    for name in names():
        for leaf in leaves(command_of(name)):
            options = [option for parameter in leaf.params for option in parameter.opts]
            assert options.count("--log-level") == options.count("--log-file") == 1, (name, leaf.name)


def test_a_program_that_sets_up_no_logging_hears_nothing() -> None:
    import titjudge.engine

    assert titjudge.engine
    handlers = logging.getLogger("titjudge").handlers
    assert any(isinstance(handler, logging.NullHandler) for handler in handlers)
