"""Reports about servers: what they answer, what is paid, what is asked again."""

import json
import time
from collections.abc import Callable, Mapping
from email.utils import formatdate
from typing import Any

from kinds import Served

from titjudge.testing import Scripted, Seen

RATING = '{"score": 70, "reason": "ok"}'
USAGE = {"prompt_tokens": 900, "completion_tokens": 40, "total_tokens": 940}


def message(finish: str = "stop", **parts: Any) -> Scripted:
    """An OpenAI answer with a message of these parts."""
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **parts}, "finish_reason": finish}
    return Scripted(body={"id": "x", "object": "chat.completion", "model": "m", "choices": [choice], "usage": USAGE})


def refusing(name: str, status: int, error: dict[str, Any]) -> Any:
    """A server that refuses requests with a key, and answers others."""
    return lambda seen: Scripted(status=status, body=error) if name in seen.body else message(content=RATING)


def first(number: int, answer: Scripted) -> Any:
    """A server that gives this answer so many times, and then good ones."""
    left = [answer] * number
    return lambda seen: left.pop() if left else message(content=RATING)


def wrapped(**error: Any) -> dict[str, Any]:
    """An error in OpenRouter's wrapper."""
    raw = json.dumps({"error": error})
    return {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw, "provider_name": "P"}}}


def text_only(seen: Seen) -> Scripted:
    """llama.cpp without a projector."""
    return Scripted(status=500, body={"error": {"code": 500, "message": "image input is not supported"}})


SCORE = '{"score": 70, "reason": "ok"}'

def later(headers: Callable[[], Mapping[str, str]]) -> Any:
    """A server that puts the first request off, and refuses the second if it comes in less than a second."""
    came: list[float] = []

    def answer(seen: Seen) -> Scripted:
        came.append(time.monotonic())
        if len(came) == 1:
            return Scripted("later", status=429, headers=headers())
        return Scripted(status=400) if came[-1] - came[0] < 0.9 else message(content=RATING)

    return answer


REPORTS = [
    Served(
        "interviewstreet/hiring-agent#386", "Retry-After is a date, and ends the run",
        later(lambda: {"retry-after": formatdate(time.time() + 2, usegmt=True), "date": formatdate(usegmt=True)}),
        images=1, paid=2,
    ),
    Served(
        "openclaw/openclaw#111353", "retry-after-ms cannot be read, and Retry-After beside it is ignored",
        later(lambda: {"retry-after-ms": "soon", "retry-after": "1"}), images=1, paid=2,
    ),
    Served(
        "Aider-AI/aider#5516", "tokens from the cache are paid twice: once as such, once as ordinary ones",
        lambda seen: Scripted(RATING, usage={
            "prompt_tokens": 10_000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 8_000},
        }),
        arguments=["--captioner", "openai/gpt-4o"], prints=["spent $0.0640"],
    ),
    Served(
        "cvs-health/uqlm#468", "the judge answers from 0 to 1 where 0 to 100 is asked for",
        lambda seen: Scripted(f'{{"reason": "r", "score": 0.{int(seen.images[0][:3], 16)}}}'),
        images=6, paid=6, prints=["no score of 6 is above", "scale to 100"],
    ),
    Served(
        "aio-libs/aiohttp#2304", "an answer with a header above 8,190 bytes is lost",
        lambda seen: Scripted(SCORE, headers={"content-security-policy": "y" * 9000}),
    ),
    Served(
        "aio-libs/aiohttp#3862", "an answer with a header of 60 kB is lost",
        lambda seen: Scripted(SCORE, headers={"link": "y" * 60_000}),
    ),
    Served(
        "aio-libs/aiohttp#2304", "an answer whose text cannot be unpacked is requested 8 times",
        lambda seen: Scripted(SCORE, headers={"content-encoding": "br"}), images=1, paid=3, again=3, statuses=["failed"], code=1,
    ),
    Served(
        "ggml-org/llama.cpp#19051", "the schema is ignored: free text with HTTP 200",
        lambda seen: Scripted("The picture is rather good."), paid=8, statuses=["unparsed"], code=1,
    ),
    Served(
        "lmstudio-ai/lmstudio-bug-tracker#1602", "content is null, the answer is in reasoning_content",
        lambda seen: message(reasoning_content=RATING), statuses=["unparsed"], code=1, prints=["reasoning_content"],
    ),
    Served(
        "AtomicBot-ai/atomic-agent#51", "the answer holds tool calls only",
        lambda seen: message("tool_calls", tool_calls=[{"id": "1", "function": {"name": "Rating", "arguments": RATING}}]),
        statuses=["unparsed"], code=1, prints=["tool_calls"],
    ),
    Served(
        "EQ-bench/eqbench3#6", "every answer is in another field, for hundreds of images",
        lambda seen: message(reasoning=RATING), images=60, paid=40, statuses=["unparsed"], code=2, prints=["--retry-failed"],
    ),
    Served(
        "open-webui/computer#293", "the cause is inside the wrapper of a gateway",
        refusing("temperature", 400, wrapped(message="temperature is not supported with this model", code="unsupported_value", param="temperature")),
        paid=8,
    ),
    Served(
        "juspay/neurolink#1691", "a keyword of the schema is refused",
        refusing("response_format", 400, {"error": {"message": "Invalid schema for response_format 'Rating': 'maximum' is not permitted."}}),
        paid=8,
    ),
    Served(
        "thepersonalaicompany/amurex-backend#38", "Groq: the model's JSON did not match the schema, this time",
        first(3, Scripted(status=400, body={"error": {"message": "Failed to validate JSON", "code": "json_validate_failed"}})),
        paid=8,
    ),
    Served(
        "ggml-org/llama.cpp#13566", "each image is refused, each eight times",
        text_only, images=40, paid=40, again=40, statuses=["failed"], code=2, prints=["--mmproj"],
    ),
    Served(
        "docker/docker-agent#2051", "thinking cannot be turned off, and each image is refused",
        lambda seen: Scripted(status=400, body={"error": {"message": "Budget 0 is invalid. This model only works in thinking mode."}}),
        images=60, paid=40, again=40, statuses=["failed"], code=2, prints=["thinking_budget"],
    ),
    Served(
        "earendil-works/pi#3429", "the server drops the image and answers from the text",
        lambda seen: Scripted(RATING, usage={"prompt_tokens": 60}), prints=["image", "tokens"],
    ),
]  # fmt: skip
