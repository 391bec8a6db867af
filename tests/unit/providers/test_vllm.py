"""vLLM in this process, with a stand-in for the small part of its interface that is used."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from titjudge.core.errors import ConfigError, DataError, MissingExtra, Unanswered, UserError
from titjudge.core.types import FailureKind, ImageFile, Message, Reply, Request, Status
from titjudge.providers import ProviderSettings
from titjudge.providers.local.vllm import VLLM

PIXELS = b"\x89PNG not really"
PICTURE = ImageFile(hashlib.sha256(PIXELS).hexdigest(), "image/png", 32, 32, Path("a.png"), lambda: PIXELS)
SCHEMA = {"type": "object", "properties": {"score": {"type": "number"}}, "required": ["score"]}


class SamplingParams:
    def __init__(self, **given: Any) -> None:
        self.given = given
        self.temperature = given.get("temperature", 1.0)


class Structured:
    def __init__(self, json: Any) -> None:
        self.json = json


class LLM:
    """Answers with what `answer` says of a conversation; `longest` characters, or the whole call fails."""

    made: list[LLM] = []  # noqa: RUF012
    longest = 10_000
    leftovers = 0

    def __init__(self, model: str, **arguments: Any) -> None:
        if arguments.get("dtype") == "float3":
            raise ValueError("dtype float3 is\nunknown")
        self.model, self.arguments = model, arguments
        self.calls: list[tuple[list[Any], list[SamplingParams], dict[str, Any]]] = []
        LLM.made.append(self)

    def get_default_sampling_params(self) -> Any:
        return SimpleNamespace(temperature=0.7, top_p=0.8, top_k=None)

    def chat(self, messages: list[Any], sampling_params: list[SamplingParams], **arguments: Any) -> list[Any]:
        self.calls.append((messages, sampling_params, arguments))
        if any(len(str(each)) > self.longest for each in messages):
            raise ValueError("the prompt is longer than the maximum model length")
        stale = [output("left over")] * self.leftovers
        return stale + [answer(each) for each in messages]


def output(text: str, finish: str = "stop") -> Any:
    made = SimpleNamespace(text=text, token_ids=list(range(len(text.split()))), finish_reason=finish)
    return SimpleNamespace(outputs=[made], prompt_token_ids=[1, 2, 3], num_cached_tokens=1)


def answer(turns: list[dict[str, Any]]) -> Any:
    said = str(turns[-1]["content"])
    for word, made in {
        "CUT": output("too long", "length"),
        "MUTE": output(""),
        "THINK": output("<think>hm</think> four"),
    }.items():
        if word in said:
            return made
    return output(f"an answer to {said[:40]}")


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module, params = ModuleType("vllm"), ModuleType("vllm.sampling_params")
    module.LLM, module.sampling_params = LLM, params  # type: ignore[attr-defined]
    module.__version__ = "0.0.test"  # type: ignore[attr-defined]
    params.SamplingParams, params.StructuredOutputsParams = SamplingParams, Structured  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", module)
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", params)
    monkeypatch.setattr(LLM, "made", [])
    for name in ("VLLM_LOGGING_LEVEL", "VLLM_NO_USAGE_STATS"):  # set by the provider, put back by the test
        monkeypatch.setenv(name, "1")
    return module


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen2_5_vl", "vision_config": {}}))
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def provider(model: Path, structured: str = "auto", **options: Any) -> VLLM:
    return VLLM(ProviderSettings(str(model), structured=structured, options=options))


def question(
    text: str, *, sample: int = 0, schema: Any = None, picture: ImageFile | None = None, **params: Any
) -> Request:
    parts = (picture, text) if picture else (text,)
    return Request("vllm", "m", (Message("user", parts),), params, schema, sample=sample)


def ask(asked: VLLM, *requests: Request) -> list[Reply | BaseException]:
    async def all_of_them() -> list[Reply | BaseException]:
        try:
            return await asyncio.gather(*map(asked.complete, requests), return_exceptions=True)
        finally:
            await asked.aclose()

    return asyncio.run(all_of_them())


def text_of(found: Reply | BaseException) -> str:
    assert isinstance(found, Reply), found
    return found.text


@pytest.mark.usefixtures("vllm")
def test_requests_that_come_together_are_one_call_in_order(model: Path) -> None:
    found = ask(provider(model), *(question(f"question {n}") for n in range(20)))
    assert [text_of(each) for each in found] == [f"an answer to question {n}" for n in range(20)]
    (llm,) = LLM.made
    assert len(llm.calls) == 1
    assert llm.calls[0][2] == {"use_tqdm": False}
    first = found[0]
    assert isinstance(first, Reply)
    assert (first.status, first.finish_reason, first.endpoint) == (Status.OK, "stop", "vllm 0.0.test")
    assert (first.usage.input, first.usage.output, first.usage.cached_input) == (3, 5, 1)


@pytest.mark.usefixtures("vllm")
def test_pictures_are_sent_in_their_place(model: Path) -> None:
    ask(provider(model), question("what is this?", picture=PICTURE))
    ((messages, _, _),) = LLM.made[0].calls
    picture, text = messages[0][0]["content"]
    assert picture["image_url"]["url"].startswith("data:image/png;base64,iVBORyBub3Q")
    assert text == {"type": "text", "text": "what is this?"}


@pytest.mark.usefixtures("vllm")
def test_a_picture_that_went_away_fails_alone(model: Path) -> None:
    def gone() -> bytes:
        raise DataError("no such image file", "a.png")

    lost = ImageFile("0" * 64, "image/png", 1, 1, Path("a.png"), gone)
    bad, good = ask(provider(model), question("one", picture=lost), question("two"))
    assert isinstance(bad, Unanswered)
    assert bad.status is Status.BAD_INPUT
    assert text_of(good) == "an answer to two"


@pytest.mark.usefixtures("vllm")
def test_one_request_that_is_too_long_does_not_fail_the_others(model: Path) -> None:
    requests = [question(f"question {n}") for n in range(7)]
    requests[4] = question("x" * 20_000)
    asked = provider(model)
    found = ask(asked, *requests)
    error = found.pop(4)
    assert isinstance(error, Exception)
    assert "maximum model length" in str(error)
    assert asked.classify(error).kind is FailureKind.REJECTED
    assert [text_of(each) for each in found] == [f"an answer to question {n}" for n in (0, 1, 2, 3, 5, 6)]


def test_what_a_failed_call_left_behind_is_nobodys_answer(
    vllm: ModuleType, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LLM, "leftovers", 2)
    found = ask(provider(model), question("one"), question("two"))
    assert [text_of(each) for each in found] == ["an answer to one", "an answer to two"]


@pytest.mark.usefixtures("vllm")
def test_endings_are_told_apart(model: Path) -> None:
    cut, mute, thought = ask(provider(model), question("CUT"), question("MUTE"), question("THINK"))
    assert isinstance(cut, Reply)
    assert isinstance(mute, Reply)
    assert isinstance(thought, Reply)
    assert cut.status is Status.TRUNCATED
    assert mute.status is Status.REFUSED
    assert (thought.text, thought.flags) == ("four", ("thought: hm",))


@pytest.mark.usefixtures("vllm")
def test_sampling_is_the_requests_before_the_models_own(model: Path) -> None:
    ask(provider(model), question("a", temperature=0, max_tokens=7), question("b"), question("b", sample=1))
    greedy, first, second = (params.given for params in LLM.made[0].calls[0][1])
    assert greedy == {"temperature": 0, "top_p": 0.8, "max_tokens": 7}
    assert (first["temperature"], first["top_p"], first["max_tokens"]) == (0.7, 0.8, 512)
    assert first["seed"] != second["seed"]


@pytest.mark.usefixtures("vllm")
def test_stop_words_go_with_the_request(model: Path) -> None:
    ask(provider(model), question("a", stop=["END"]), question("b"))
    with_stop, without = (params.given for params in LLM.made[0].calls[0][1])
    assert with_stop["stop"] == ["END"]
    assert "stop" not in without


@pytest.mark.usefixtures("vllm")
@pytest.mark.parametrize("where", ["the model", "its core"])
def test_the_engine_is_ended_with_the_run(where: str, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM 0.32 has no LLM.shutdown; its processes end through the core."""
    ended: list[str] = []
    holder = SimpleNamespace(shutdown=lambda: ended.append(where))
    if where == "the model":
        monkeypatch.setattr(LLM, "shutdown", lambda self: holder.shutdown(), raising=False)
    else:
        monkeypatch.setattr(LLM, "llm_engine", SimpleNamespace(engine_core=holder), raising=False)
    ask(provider(model), question("a"))
    assert ended == [where]


@pytest.mark.usefixtures("vllm")
def test_vllm_is_quiet_and_reports_to_nobody_unless_told(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "DEBUG")
    monkeypatch.setenv("VLLM_NO_USAGE_STATS", "")  # so that it is put back
    monkeypatch.delenv("VLLM_NO_USAGE_STATS")
    ask(provider(model), question("a"))
    assert (os.environ["VLLM_LOGGING_LEVEL"], os.environ["VLLM_NO_USAGE_STATS"]) == ("DEBUG", "1")


@pytest.mark.usefixtures("vllm")
def test_a_schema_constrains_the_answer_and_is_said_in_words(model: Path) -> None:
    ask(provider(model), question("judge", schema=SCHEMA))
    ((messages, params, _),) = LLM.made[0].calls
    assert params[0].given["structured_outputs"].json == SCHEMA
    assert '"score"' in messages[0][0]["content"]
    assert messages[0][0]["content"].startswith("judge\n\n")


@pytest.mark.usefixtures("vllm")
def test_structured_prompt_does_not_constrain(model: Path) -> None:
    ask(provider(model, structured="prompt"), question("judge", schema=SCHEMA, picture=PICTURE))
    ((messages, params, _),) = LLM.made[0].calls
    assert "structured_outputs" not in params[0].given
    assert "JSON schema" in messages[0][0]["content"][-1]["text"]


@pytest.mark.usefixtures("vllm")
def test_template_arguments_reach_a_template_that_takes_them(model: Path) -> None:
    """One call for those alike; where no template takes them, or an option settles it, they are not sent, nor recorded."""
    assert "chat_template_kwargs" in provider(model).capabilities.omit
    (model / "chat_template.jinja").write_text("{% if enable_thinking %}<think>{% endif %}")
    asked = provider(model)
    assert "chat_template_kwargs" not in asked.capabilities.omit
    on, off = ({"chat_template_kwargs": {"enable_thinking": value}} for value in (True, False))
    found = ask(asked, question("a", **on), question("b", **off), question("c", **on), question("d"))
    assert [text_of(each) for each in found] == [f"an answer to {name}" for name in "abcd"]
    calls = LLM.made[0].calls
    assert sorted((len(messages), str(given.get("chat_template_kwargs"))) for messages, _, given in calls) == [
        (1, "None"),
        (1, "{'enable_thinking': False}"),
        (2, "{'enable_thinking': True}"),
    ]
    assert "chat_template_kwargs" in provider(model, enable_thinking=False).capabilities.omit


@pytest.mark.usefixtures("vllm")
def test_options_are_the_engines_and_what_changes_answers_is_in_the_identity(model: Path) -> None:
    asked = provider(model, dtype="bfloat16", tensor_parallel_size=2, enable_thinking=False)
    ask(asked, question("a"))
    (llm,) = LLM.made
    assert llm.arguments == {"dtype": "bfloat16", "tensor_parallel_size": 2, "limit_mm_per_prompt": {"image": 4}}
    assert llm.calls[0][2]["chat_template_kwargs"] == {"enable_thinking": False}
    assert asked.base_url == provider(model, dtype="bfloat16", tensor_parallel_size=8, enable_thinking=False).base_url
    others = [provider(model), provider(model, dtype="float16"), provider(model, structured="prompt")]
    assert len({each.base_url for each in (asked, *others)}) == 4
    assert asked.capabilities.images
    assert asked.capabilities.direct


@pytest.mark.usefixtures("vllm")
def test_a_model_that_cannot_be_loaded_is_one_line_and_fatal(model: Path) -> None:
    asked = provider(model, dtype="float3")
    found = ask(asked, question("a"))[0]
    assert isinstance(found, UserError)
    assert str(found).endswith("dtype float3 is unknown. Check its name and options")
    assert asked.classify(found).kind is FailureKind.FATAL


def test_without_vllm_both_ways_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "vllm", raising=False)
    monkeypatch.setattr("titjudge.providers.local.vllm.importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"openai/q/m --base-url .* needs vllm: pip install 'titjudge\[vllm\]'"):
        VLLM(ProviderSettings("q/m"))


@pytest.mark.usefixtures("vllm")
def test_a_server_is_asked_another_way() -> None:
    with pytest.raises(ConfigError, match="openai/q/m --base-url http://h:8000/v1"):
        VLLM(ProviderSettings("q/m", base_url="http://h:8000/v1"))
    with pytest.raises(ConfigError, match="Write vllm/MODEL"):
        VLLM(ProviderSettings(""))


def test_the_likeliest_first_tokens_are_told(vllm: ModuleType, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """20 of them unless the engine gives more; one that was drawn beyond them narrows no interval."""

    def chat(self: LLM, messages: list[Any], sampling_params: list[SamplingParams], **arguments: Any) -> list[Any]:
        self.calls.append((messages, sampling_params, arguments))
        made = output("maybe", "length")
        told = {7: (" yes", -0.5), 8: ("No", -3.0), 0: ("maybe", -4.0)}
        made.outputs[0].logprobs = [{i: SimpleNamespace(decoded_token=t, logprob=p) for i, (t, p) in told.items()}]
        return [made]

    monkeypatch.setattr(LLM, "chat", chat)
    asked = Request("vllm", "m", (Message("user", ("Dogs?",)),), choices=(" yes",))
    for options, most, rest in (({}, 20, -4.0), ({"max_logprobs": 2}, 2, -3.0)):
        provider = VLLM(ProviderSettings(str(model), options=options))
        assert provider.capabilities.probabilities
        reply = asyncio.run(provider.complete(asked))
        given = LLM.made[-1].calls[-1][1][0].given
        assert (given["logprobs"], given["max_tokens"]) == (most, 1)
        assert reply.first_token is not None
        assert dict(reply.first_token.tokens)[" yes"] == -0.5
        assert reply.first_token.rest == pytest.approx(math.exp(rest))
