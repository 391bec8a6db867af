"""A paid reply that cannot be used is kept with its text, paid once, and many of them in a row end the run."""

import json
from pathlib import Path
from typing import Any

import pytest
from builders import described_images

from tests.kit import Scripted, Seen, Server
from titjudge.core.config import load_config
from titjudge.core.errors import FatalProviderError
from titjudge.core.types import NO_ANSWER, Score
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.session import Session

pytestmark = pytest.mark.usefixtures("quick_retries", "keys_of_nobody")
ANSWER = '{"score": 70, "reason": "ok"}'
USAGE = {"prompt_tokens": 900, "completion_tokens": 40, "total_tokens": 940}


def chat(content: Any = None, finish: Any = "stop", **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": USAGE}


CALL = {"id": "1", "type": "function", "function": {"name": "Rating", "arguments": ANSWER}}
UNUSABLE: dict[str, tuple[Any, str]] = {  # the body, and words of the reason
    "reasoning_content": (chat(reasoning_content=ANSWER), "reasoning_content"),
    "reasoning": (chat("", reasoning=ANSWER), "reasoning"),
    "tool calls": (chat(tool_calls=[CALL]), "tool_calls"),
    "an object": (chat(json.loads(ANSWER)), "dict"),
    "a list of strings": (chat([ANSWER]), "list"),
    "text and strings": (chat([{"type": "text", "text": "half"}, ANSWER]), "list"),
    "a number": (chat(70), "int"),
    "blank": (chat(" \n "), "no text"),
    "a legacy text": ({**chat(), "choices": [{"index": 0, "text": ANSWER, "finish_reason": "stop"}]}, "text"),
    "a delta": ({**chat(), "choices": [{"index": 0, "delta": {"content": ANSWER}, "finish_reason": "stop"}]}, "delta"),
    "no choices": ({**chat(ANSWER), "choices": []}, "form"),
    "choices null": ({**chat(ANSWER), "choices": None}, "form"),
    "a first choice of nothing": ({**chat(ANSWER), "choices": [None]}, "form"),
    "another format": ({"message": {"role": "assistant", "content": ANSWER}, "done": True}, "form"),
    "a stream": (f"data: {json.dumps(chat(ANSWER))}\n\ndata: [DONE]\n\n", "stream"),
    "a page": ("<!doctype html><html><title>Login</title>please log in</html>", "web page"),
    "nothing": ("", "empty"),
}


def judged(folder: Path, server: Server, images: int = 3, model: str = "openai/gpt-4o", **more: Any) -> list[Score]:
    data = folder / "data"
    if not data.exists():
        described_images(data, images)
    role = {"model": model, "base_url": server.url if model.startswith("gemini") else server.openai}
    settings = {"data": data, "metrics": ["lmm-score"], "captioner": role, "judge": role, "out": folder / "run"}
    Session(load_config(None, {"cache": folder / "cache", "report": False, **settings, **more})).run()
    return list(RunFolder(folder / "run").scores().values())


@pytest.mark.parametrize("model", ["openai/gpt-4o", pytest.param("litellm/openai/gpt-4o", marks=pytest.mark.slow)])
@pytest.mark.parametrize("form", UNUSABLE)
def test_it_is_kept_with_its_text_and_paid_once(tmp_path: Path, form: str, model: str) -> None:
    body, why = UNUSABLE[form]
    with Server(lambda seen: Scripted(body=body)) as server:
        first = judged(tmp_path, server, model=model)
        assert server.count() == 3
        judged(tmp_path, server, model=model)
        assert server.count() == 3
        server.handler = lambda seen: Scripted(body=chat(ANSWER))
        again = judged(tmp_path, server, model=model, retry_failed=True)
        assert server.count() == 6
    assert {str(score.status) for score in first} == {"unparsed"}
    assert {score.value for score in again} == {70.0}
    kept = [reply for reply in RunFolder(tmp_path / "run").replies() if reply["status"] == "unparsed"]
    assert len(kept) == 3
    assert all(NO_ANSWER in reply["flags"] and (reply["text"] or form == "nothing") for reply in kept)
    if model.startswith("openai"):
        assert all(why in score.reason for score in first)


@pytest.mark.parametrize("parts", [None, [], [{"text": "a thought", "thought": True}]])
def test_google_without_parts_is_kept(tmp_path: Path, parts: Any) -> None:
    content = {"role": "model"} if parts is None else {"role": "model", "parts": parts}
    usage = {"promptTokenCount": 900, "candidatesTokenCount": 4, "totalTokenCount": 904}
    body = {"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": usage}
    with Server(lambda seen: Scripted(body=body)) as server:
        found = judged(tmp_path, server, model="gemini/gemini-2.5-pro")
        judged(tmp_path, server, model="gemini/gemini-2.5-pro")
        assert server.count() == 3
    assert {str(score.status) for score in found} == {"unparsed"}


def test_many_in_a_row_end_the_run_and_the_same_command_pays_for_no_more(tmp_path: Path) -> None:
    with Server(lambda seen: Scripted(body=UNUSABLE["reasoning_content"][0])) as server:
        with pytest.raises(FatalProviderError, match=r"reasoning_content.*--retry-failed"):
            judged(tmp_path, server, 60, limits={"concurrency": 4})
        paid = server.count()
        assert paid <= 12
        assert len(list(RunFolder(tmp_path / "run").replies())) == paid  # all that is paid is kept
        with pytest.raises(FatalProviderError):
            judged(tmp_path, server, limits={"concurrency": 4})
        assert server.count() == paid
        server.handler = lambda seen: Scripted(body=chat(ANSWER))
        again = judged(tmp_path, server, limits={"concurrency": 4}, retry_failed=True)
    assert [score.value for score in again] == [70.0] * 60


def test_some_among_good_ones_end_nothing(tmp_path: Path) -> None:
    def every_third(seen: Seen) -> Scripted:
        return Scripted(body=chat(ANSWER) if server.count() % 3 == 0 else UNUSABLE["reasoning"][0])

    with Server(every_third) as server:
        found = judged(tmp_path, server, 40, limits={"concurrency": 1})
        assert server.count() == 40
    assert {str(score.status) for score in found} == {"ok", "unparsed"}


@pytest.mark.parametrize("status", [400, 404, 500])
def test_the_same_refusal_of_all_ends_the_run(tmp_path: Path, status: int) -> None:
    def refuse(seen: Seen) -> Scripted:
        text = f"image input is not supported, request {server.count()}"
        return Scripted(status=status, body={"error": {"message": text, "code": status}})

    with Server(refuse) as server:
        with pytest.raises(FatalProviderError, match=r"image input is not supported.*--mmproj"):
            judged(tmp_path, server, 60, limits={"concurrency": 4})
        assert len({seen.digest for seen in server.requests}) <= 12  # eight items in a row, and those on their way
        assert server.count() <= 36  # an item is repeated while others are on their way


def test_an_unknown_fault_of_all_ends_the_run_after_some_attempts_of_each(tmp_path: Path) -> None:
    fault = Scripted(status=500, body={"error": {"message": "no such kernel"}})
    with Server(lambda seen: fault) as server:
        with pytest.raises(FatalProviderError, match="no such kernel"):
            judged(tmp_path, server, 200, limits={"concurrency": 4})
        assert server.count() <= 132


def test_different_refusals_and_refusals_after_an_answer_end_nothing(tmp_path: Path) -> None:
    words = ["alpha", "beta", "gamma", "delta"]

    def refuse(seen: Seen) -> Scripted:
        number = server.count()
        if number == 3:
            return Scripted(body=chat(ANSWER))
        text = "too odd" if number > 3 else f"bad {words[number]}"
        return Scripted(status=400, body={"error": {"message": text}})

    with Server(refuse) as server:
        found = judged(tmp_path, server, 30, limits={"concurrency": 1})
        assert server.count() == 30
    assert [str(score.status) for score in found].count("failed") == 29


def test_the_choice_with_index_0_counts_wherever_it_stands(tmp_path: Path) -> None:
    other = '{"score": 5, "reason": "ok"}'
    choices = [{**chat(other)["choices"][0], "index": 1}, chat(ANSWER)["choices"][0]]
    with Server(lambda seen: Scripted(body={**chat(), "choices": choices})) as server:
        assert {score.value for score in judged(tmp_path, server)} == {70.0}


def test_too_few_tokens_for_an_image_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    usage = {"prompt_tokens": 60, "completion_tokens": 10, "total_tokens": 70}
    with Server(lambda seen: Scripted(body={**chat(ANSWER), "usage": usage})) as server:
        judged(tmp_path, server)
    warnings = json.loads((tmp_path / "run" / "results.json").read_text())["warnings"]
    assert [line for line in warnings if "tokens" in line and "image" in line]
    (tmp_path / "good").mkdir()
    with Server(lambda seen: Scripted(body=chat(ANSWER))) as server:
        judged(tmp_path / "good", server)
    warnings = json.loads((tmp_path / "good" / "run" / "results.json").read_text())["warnings"]
    assert not [line for line in warnings if "tokens" in line and "image" in line]


@pytest.mark.parametrize(
    "harmless", [{"code": 0, "message": ""}, {"code": 200, "message": "success"}, {}, "", None, False]
)
def test_an_error_field_that_says_success_is_none(tmp_path: Path, harmless: Any) -> None:
    with Server(lambda seen: Scripted(body={**chat(ANSWER), "error": harmless})) as server:
        assert {score.value for score in judged(tmp_path, server)} == {70.0}
        assert server.count() == 3


def test_a_part_that_is_a_refusal_is_one(tmp_path: Path) -> None:
    body = chat([{"type": "refusal", "refusal": "I cannot rate this."}])
    with Server(lambda seen: Scripted(body=body)) as server:
        assert {str(score.status) for score in judged(tmp_path, server)} == {"refused"}


@pytest.mark.parametrize("headers", [{"Retry-After": "3000"}, {}])
def test_a_limit_that_does_not_pass_ends_the_run(tmp_path: Path, headers: dict[str, str]) -> None:
    full = Scripted(status=429, headers=headers, body={"error": {"message": "slow down"}})
    with Server(lambda seen: full) as server, pytest.raises(FatalProviderError, match="slow down"):
        judged(tmp_path, server, 40, limits={"concurrency": 4, "patience": 0.5})
