"""A parameter that a server refuses: left out from then on, in the same question, and said."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import read_lines
from commands import cli
from PIL import Image

from tests.kit import Scripted, Seen, Server
from titjudge.core.config import RunConfig
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import Item, Reply
from titjudge.engine.ask import BoundAsk
from titjudge.engine.budget import Budget
from titjudge.engine.cache import AnswerCache
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.providers.hosted import error_bodies

pytestmark = pytest.mark.usefixtures("keys_of_nobody")

TEMPERATURE = (
    "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported."
)
MAX_TOKENS = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
)
EXTRA = "[{'type': 'extra_forbidden', 'loc': ('body', 'seed'), 'msg': 'Extra inputs are not permitted', 'input': 0}]"
UNKNOWN = "Invalid JSON payload received. Unknown name \"seed\" at 'generation_config': Cannot find field."


def refusing(**messages: str) -> Callable[[Seen], Scripted | str | None]:
    """Make a server that answers a parameter of these names with HTTP 400 and its message; it answers everything else."""

    def handler(seen: Seen) -> Scripted | str | None:
        body = json.loads(seen.raw)
        body |= body.get("generationConfig", {})
        for name, message in messages.items():
            if name in body:
                kind = {"type": "invalid_request_error", "status": "INVALID_ARGUMENT", "code": 400}
                return Scripted(status=400, body={"type": "error", "error": {"message": message, **kind}})
        return None if seen.schema else "yes"

    return handler


def asked(
    server: Server, tmp_path: Path, model: str = "openai/judge-prod", questions: int = 1, **role: Any
) -> tuple[list[Any], list[str], float]:
    """Ask many questions at once; returns replies or errors, the notes, and what the budget counts as perhaps billed."""
    address = server.openai if model.startswith(("openai", "litellm/openai")) else server.url
    config = RunConfig.model_validate({"judge": {"model": model, "base_url": address, **role}})

    async def work() -> tuple[list[Any], list[str], float]:
        engine = Engine(Roles(config), PromptLibrary(), AnswerCache(tmp_path / "cache"), Budget())

        async def one(number: int) -> Reply:
            ask = BoundAsk(engine, Item(f"i{number}", f"p{number}", None, "g", "p"))
            return await ask("tit/compare", role="judge", prompt=f"p{number}", description="d")

        found = await asyncio.gather(*map(one, range(questions)), return_exceptions=True)
        notes = engine.roles.left_out("strict")
        uncertain = engine.budget.uncertain
        await engine.aclose()
        engine.cache.close() if engine.cache else None
        return list(found), notes, uncertain

    return asyncio.run(work())


CASES = [
    ("openai/judge-prod", {"temperature": TEMPERATURE}),
    ("openai/judge-prod", {"temperature": TEMPERATURE, "max_tokens": MAX_TOKENS, "seed": "Unknown parameter: 'seed'."}),
    ("openai/judge-prod", {"seed": EXTRA, "top_p": "`temperature` and `top_p` cannot both be specified for this model."}),
    ("gemini/gemini-2.5-pro", {"seed": UNKNOWN}),
    pytest.param("litellm/anthropic/claude-sonnet-4-6", {"temperature": "`temperature` is deprecated for this model."}, marks=pytest.mark.slow),
    pytest.param("litellm/openai/judge-prod", {"temperature": TEMPERATURE, "max_tokens": MAX_TOKENS}, marks=pytest.mark.slow),
]  # fmt: skip


@pytest.mark.parametrize(("model", "messages"), CASES)
def test_what_a_server_refuses_is_asked_without_from_then_on(
    server: Server, tmp_path: Path, model: str, messages: dict[str, str]
) -> None:
    server.handler = refusing(**messages)
    more = {"top_p": 0.9} if "top_p" in messages else {}
    more |= {"seed": 3} if "claude" not in model else {}
    found, notes, uncertain = asked(server, tmp_path, model, **more)
    left_out = sorted(set(messages) - {"max_tokens"})
    assert [reply.text for reply in found] == ["yes"]
    assert server.count() == len(messages) + 1
    assert found[0].flags == tuple(f"without-{name}" for name in left_out)
    assert uncertain == 0  # a refusal is not billed
    refusals = [note for note in notes if "not sent since" in note]
    assert len(refusals) == len(left_out)
    for name, note in zip(left_out, refusals, strict=True):
        assert note.startswith(f"{model} at ")
        assert f" refused {name}: " in note
        assert f"omit: [{name}]" in note
    last = json.loads(server.last.raw)
    assert "max_tokens" not in messages or (last["max_completion_tokens"], "max_tokens" in last) == (2048, False)


def test_a_cap_and_the_ledger_know_what_the_server_has_billed_and_no_more(server: Server, tmp_path: Path) -> None:
    refuse, billed = refusing(temperature=TEMPERATURE, max_tokens=MAX_TOKENS), []

    def handler(seen: Seen) -> Scripted | str | None:
        answer = refuse(seen)
        if isinstance(answer, Scripted):
            return answer
        billed.append(0.11)  # 1,100 tokens
        return Scripted(usage={"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100})

    server.handler = handler
    (tmp_path / "data").mkdir()
    for number in range(20):
        Image.new("RGB", (32, 32), (9, number, 9)).save(tmp_path / "data" / f"{number}.png")
        (tmp_path / "data" / f"{number}.txt").write_text("a red cube")
    model = ("--captioner", "openai/judge-prod", "--base-url", server.openai, "--metric", "lmm-score")
    capped = ("--price", "judge-prod=100,100", "--max-cost", "1.5")
    cli(tmp_path, "judge", "--data", "data", *model, *capped, "--out", "run", "--no-report", code=3)
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert 0 < sum(billed) <= 1.5
    assert manifest["spent"] == pytest.approx(sum(billed))
    assert manifest["uncertain"] == 0
    assert server.count() > len(billed)


def test_many_requests_in_flight_are_each_asked_once_more(server: Server, tmp_path: Path) -> None:
    server.handler, server.latency = refusing(temperature=TEMPERATURE, max_tokens=MAX_TOKENS), 0.02
    found, notes, _ = asked(server, tmp_path, questions=120)
    assert [reply.text for reply in found] == ["yes"] * 120
    assert server.count() <= 120 + 2 * 32
    assert len(notes) == 1


def test_the_key_is_of_the_question_and_not_of_what_was_left_out(server: Server, tmp_path: Path) -> None:
    server.handler = refusing(temperature=TEMPERATURE)
    first, _, _ = asked(server, tmp_path, questions=3)
    before = server.count()
    again, notes, _ = asked(server, tmp_path, questions=3)
    assert server.count() == before
    assert [reply.key for reply in again] == [reply.key for reply in first]
    assert notes == []


def test_a_server_that_refuses_all_it_is_sent_is_not_asked_for_ever(server: Server, tmp_path: Path) -> None:
    server.handler = lambda _: Scripted(status=400, body={"error": {"message": TEMPERATURE}})
    found, _, _ = asked(server, tmp_path)
    assert isinstance(found[0], Exception)
    assert server.count() == 2


def test_neither_name_of_the_limit_is_given_up_after_both(server: Server, tmp_path: Path) -> None:
    other = "Unsupported parameter: 'max_completion_tokens' is not supported with this model."
    server.handler = refusing(max_tokens=MAX_TOKENS, max_completion_tokens=other)
    found, _, _ = asked(server, tmp_path)
    assert isinstance(found[0], Exception)
    assert server.count() == 2


def test_what_would_be_another_question_is_not_left_out_and_the_line_says_how(server: Server, tmp_path: Path) -> None:
    server.handler = refusing(reasoning_effort="Unrecognized request argument supplied: reasoning_effort")
    found, notes, _ = asked(server, tmp_path, reasoning_effort="low")
    assert "omit: [reasoning_effort] in the role leaves it out" in str(found[0])
    assert (server.count(), notes) == (1, [])


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (None, "Invalid value: 'temperature' must be between 0 and 2"),
        (None, "Your prompt 'temperature is not supported' was blocked"),
        (None, "The image \"Unsupported parameter: 'temperature'\" cannot be read"),
        ("content_filter", "Unsupported parameter: 'temperature'"),
        (None, "this model does not support image input"),
        (None, "Unsupported parameter: 'seed' is not supported"),  # was not sent
    ],
)
def test_nothing_is_learned_from_an_error_that_refuses_no_parameter_of_the_request(
    server: Server, tmp_path: Path, code: str | None, message: str
) -> None:
    server.script(Scripted(status=400, body={"error": {"message": message, "code": code}}))
    found, notes, _ = asked(server, tmp_path)
    assert (server.count(), notes) == (1, [])
    assert isinstance(found[0], Exception) or found[0].status == "refused"


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("litellm.UnsupportedParamsError: anthropic does not support parameters: ['seed'], for model=claude-x. To drop", "seed"),
        ("litellm.UnsupportedParamsError: gpt-5 models don't support temperature=0. Only temperature=1 is", "temperature"),
        (
            'litellm.BadRequestError: BedrockException - {"message":"The model returned the following errors: '
            '`temperature` is deprecated for this model."}',
            "temperature",
        ),
        ("`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.", "temperature"),
        ("temperature: Extra inputs are not permitted", "temperature"),
        ("property 'seed' is unsupported", "seed"),
        ("Unrecognized request argument supplied: logit_bias", "logit_bias"),
        ("Invalid JSON payload received. Unknown name \"topK\" at 'generation_config': Cannot find field.", "top_k"),
        ("model does not support image input", ""),
        ("response_format is not supported", ""),
    ],
)  # fmt: skip
def test_wordings_of_several_services(message: str, name: str) -> None:
    assert error_bodies.read(message.encode()).refused == name


def test_a_run_says_what_was_refused_and_its_manifest_keeps_it(server: Server, tmp_path: Path) -> None:
    server.handler = refusing(temperature=TEMPERATURE)
    (tmp_path / "data").mkdir()
    for number in range(3):
        Image.new("RGB", (32, 32), (9, number, 9)).save(tmp_path / "data" / f"{number}.png")
        (tmp_path / "data" / f"{number}.txt").write_text(f"a red cube, number {number}")
    model = ("--captioner", "openai/judge-prod", "--base-url", server.openai, "--metric", "lmm-score")
    said = cli(tmp_path, "judge", "--data", "data", *model, "--out", "run", "--no-report")
    assert "refused temperature: not sent since" in " ".join(said.split())
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["roles"]["captioner"]["not_sent"] == ["temperature"]
    replies = read_lines(tmp_path / "run" / "replies.jsonl")
    assert all(reply["params"]["temperature"] == 0 and "without-temperature" in reply["flags"] for reply in replies)
