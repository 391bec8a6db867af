"""Image and text token rules: published examples, and bounds that no tokenizer exceeds."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from titjudge.core.types import ImageFile, Message, Request, Tool, ToolCall, ToolResult
from titjudge.providers import token_counts, vendors
from titjudge.providers.vendors import OPEN_MODELS, patches, qwen


@pytest.mark.parametrize(
    ("provider", "model", "size", "detail", "expected"),
    [
        ("openai", "gpt-4o", (1024, 1024), "", 765),  # OpenAI's own examples
        ("openai", "gpt-4o", (2048, 4096), "high", 1105),
        ("openai", "gpt-4o", (4096, 8192), "low", 85),
        ("openai", "gpt-4o", (512, 512), "", 255),
        ("openai", "gpt-4o", (10, 10), "", 255),
        ("openai", "gpt-4o-mini", (1024, 1024), "", 2833 + 4 * 5667),
        ("openai", "gpt-4.1-2025-04-14", (1024, 1024), "", 765),
        ("openai", "o3", (1024, 1024), "", 75 + 4 * 150),
        ("openai", "gpt-5", (1024, 1024), "", 70 + 4 * 140),
        ("openai", "gpt-4.1-mini", (1024, 1024), "", 1659),  # 1024 patches x 1.62
        ("openai", "gpt-4.1-mini", (1800, 2400), "", 2353),  # 1452 patches x 1.62
        ("openai", "o4-mini", (1800, 2400), "", 2498),
        ("openai", "gpt-5-nano", (1024, 1024), "", 2520),
        ("openai", "gpt-5.4", (4000, 4000), "original", 12_000),
        ("gemini", "gemini-2.5-pro", (384, 384), "", 258),
        ("gemini", "gemini-2.5-pro", (1024, 1024), "", 1032),
        ("gemini", "models/gemini-2.5-flash", (960, 540), "", 1548),  # Google's example: units of 360, 3 x 2 tiles
        ("gemini", "gemini-3-pro", (1024, 1024), "", 1120),
        ("gemini", "gemini-3-pro", (4096, 4096), "low", 280),
        ("litellm", "anthropic/claude-sonnet-4-5", (1000, 1000), "", 1334),  # Anthropic's example
        ("litellm", "anthropic/claude-sonnet-4-5", (8000, 8000), "", 1600),
        ("litellm", "bedrock/us.anthropic.claude-3-5-sonnet-20241022-v2:0", (200, 200), "", 64),
        ("litellm", "anthropic/claude-opus-4-7", (8000, 8000), "", 4784),
        ("openai", "Qwen/Qwen2.5-VL-72B-Instruct", (1024, 1024), "", 37 * 37 + 2),
        ("openai", "Qwen/Qwen3-VL-8B-Instruct", (1024, 1024), "", 32 * 32 + 2),
        ("openai", "some-model-of-ours", (1024, 1024), "", 4096),
        ("openai", "some-model-of-ours", (10, 10), "", 3328),
    ],
)
def test_published_examples(provider: str, model: str, size: tuple[int, int], detail: str, expected: int) -> None:
    assert token_counts.image_tokens(provider, model, *size, detail) == expected


def accepted(provider: str, model: str) -> vendors.Family:
    return vendors.family(vendors.vendor_of(model) if provider == "litellm" else provider, model)


@given(
    st.integers(1, 20_000),
    st.integers(1, 20_000),
    st.sampled_from(
        ["gpt-4o", "gpt-4.1-mini", "gemini-2.5-pro", "gemini-3-pro", "claude-opus-4-7", "qwen2.5-vl-7b", "x"]
    ),
)
def test_every_rule_gives_a_positive_count_for_every_size(width: int, height: int, model: str) -> None:
    count = token_counts.image_tokens("litellm", model, width, height)
    assert isinstance(count, int)
    assert count > 0


@given(st.integers(1, 6_000), st.integers(1, 6_000))
def test_patches_stay_under_their_cap(width: int, height: int) -> None:
    assert patches(1.0, 1536, 1536, width, height, "") <= 1536
    assert qwen(28, 4, 16_384, width, height, "") <= 16_384 + 2 + max(width, height) // 28


def test_a_rule_always_matches() -> None:
    assert OPEN_MODELS.image_rules[-1].pattern == ""


def test_an_openrouter_model_gets_the_rule_of_its_maker() -> None:
    assert token_counts.image_tokens("openai", "google/gemini-2.5-pro", 1024, 1024) == 1032
    assert token_counts.image_tokens("openai", "anthropic/claude-sonnet-4.5", 1000, 1000) >= 1334


@pytest.fixture(scope="module")
def vocabularies() -> list[Any]:
    """cl100k_base and o200k_base as litellm ships them."""
    tiktoken = pytest.importorskip("tiktoken")
    from importlib.util import find_spec

    spec = find_spec("litellm")
    folder = Path(spec.origin).parent / "litellm_core_utils" / "tokenizers" if spec and spec.origin else Path("-")
    if not folder.is_dir():
        pytest.skip("litellm ships no vocabulary")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
        return [tiktoken.get_encoding(name) for name in ("cl100k_base", "o200k_base")]


def prompts(example: Path) -> list[str]:
    return [json.loads(line)["prompt"] for line in (example / "prompts.jsonl").read_text("utf-8").splitlines()]


def test_estimate_is_close_on_long_prompts(example: Path, vocabularies: list[Any]) -> None:
    for text in prompts(example):
        for vocabulary in vocabularies:
            assert token_counts.text_tokens_estimate(text) == pytest.approx(len(vocabulary.encode(text)), rel=0.15)


_HARD = "xqzjk WQZ 1 2 3 \t\t\n 日本語 zażółć 🧑‍🚀 \u200b\u0301 {}[]<|>~~ aaaaaaaaaa"


@given(st.text(max_size=200))
def test_bound_holds_for_any_text(vocabularies: list[Any], text: str) -> None:
    for sample in (text, text + _HARD):
        for vocabulary in vocabularies:
            assert len(vocabulary.encode(sample, disallowed_special=())) <= token_counts.text_tokens_bound(sample)


def test_input_bound_counts_everything() -> None:
    picture = ImageFile("0" * 64, "image/png", 1024, 1024, Path("x.png"), bytes)
    request = Request("openai", "gpt-4o", (Message("system", ("four",)), Message("user", (picture, "é"))))
    total, images = token_counts.input_bound(request, "openai", "gpt-4o", {}, extra="123")
    assert images == 765
    assert total == 4 + 2 + 3 + 765 + 16 + 2 * 8
    assert (
        token_counts.input_bound(request, "gemini", "gemini-2.5-pro", {})[1] == 1032 + 258
    )  # a tile more was seen billed


@pytest.mark.parametrize(
    ("provider", "model", "name", "thinks"),
    [
        ("openai", "gpt-4o-2024-11-20", "gpt-4o", False),
        ("openai", "chatgpt-4o-latest", "gpt-4o", False),
        ("openai", "gpt-4.1-mini", "gpt-4.1", False),
        ("openai", "o3-mini", "o-series, text only", True),
        ("openai", "o3", "o-series", True),
        ("openai", "o4-mini-2025-04-16", "o-series", True),
        ("openai", "gpt-5-mini", "gpt-5", True),
        ("openai", "gpt-5.1", "gpt-5", True),
        ("openai", "gpt-5-2025-08-07", "gpt-5", True),
        ("openai", "gpt-5.2", "gpt-5.2 and later", True),
        ("openai", "gpt-5.4-mini", "gpt-5.2 and later", True),
        ("openai", "gpt-6", "gpt-5.2 and later", True),
        ("openai", "gpt-5-chat-latest", "gpt-5-chat", False),
        ("openai", "Qwen/Qwen2.5-VL-7B-Instruct", "compatible", False),
        ("openai", "olmo-2", "compatible", False),
        ("openai", "Qwen/Qwen3-VL-30B-A3B-Thinking", "compatible, thinking", True),
        ("openai", "Qwen/Qwen3-VL-30B-A3B-Instruct", "compatible", False),
        ("openai", "deepseek-ai/DeepSeek-R1-0528", "compatible, thinking", True),
        ("openai", "Qwen/QVQ-72B-Preview", "compatible, thinking", True),
        ("gemini", "models/gemini-2.5-pro", "gemini-2.5", True),
        ("gemini", "gemini-2.5-flash-lite", "gemini-2.5-flash-lite", True),
        ("gemini", "gemini-2.0-flash", "gemini-2.0", False),
        ("gemini", "gemini-3-pro-preview", "gemini-3", True),
        ("gemini", "gemini-3.1-pro-preview", "gemini-3", True),
        ("gemini", "gemini-3.5-flash", "gemini-3", True),
        ("gemini", "gemini-3.5-flash-lite", "gemini-3.5-flash-lite, 3.6 and later", True),
        ("gemini", "gemini-3.8-flash", "gemini-3.5-flash-lite, 3.6 and later", True),
        ("gemini", "gemini-4-pro", "gemini-3.5-flash-lite, 3.6 and later", True),
        ("litellm", "gemini/gemini-3.8-flash", "gemini-3.5-flash-lite, 3.6 and later", True),
        ("gemini", "gemma-3-27b-it", "gemma", False),
        ("litellm", "anthropic/claude-sonnet-4-5-20250929", "claude-4", False),
        ("litellm", "anthropic/claude-opus-4-20250514", "claude-4", False),
        ("litellm", "anthropic/claude-opus-4-7", "claude-4.7 and later", False),
        ("litellm", "azure/gpt-4o", "gpt-4o", False),
        ("litellm", "mistral/pixtral-large", "compatible", False),
    ],
)
def test_family_of_a_model(provider: str, model: str, name: str, thinks: bool) -> None:
    row = accepted(provider, model)
    assert (row.name, row.thinks) == (name, thinks)


def test_reasoning_models_take_no_temperature() -> None:
    able = accepted("openai", "o3")
    assert "temperature" in able.omit
    assert "max_tokens" not in able.omit
    assert able.thinking > 0


@pytest.mark.parametrize(
    ("provider", "model", "tools"),
    [
        ("openai", "gpt-4o", True),
        ("openai", "o4-mini", True),
        ("openai", "o1-mini", False),
        ("openai", "gpt-5", True),
        ("openai", "gpt-5.4", False),  # chat completions take no tools beside reasoning
        ("openai", "gpt-5-chat-latest", False),
        ("openai", "Qwen/Qwen3-32B", False),
        ("gemini", "gemini-2.5-pro", True),
        ("gemini", "gemma-3-27b-it", False),
        ("litellm", "anthropic/claude-sonnet-4-5", True),
        ("litellm", "mistral/mistral-large", False),
    ],
)
def test_who_calls_tools(provider: str, model: str, tools: bool) -> None:
    assert accepted(provider, model).tools is tools


def test_the_bound_holds_tools_calls_and_results() -> None:
    look = Tool("look", "looks at a thing", {"type": "object", "properties": {"thing": {"type": "string"}}})
    call = ToolCall("look", '{"thing": "' + "x" * 500 + '"}', "call_1", "s" * 300)
    asked = Message("user", ("what is it?",))
    plain = Request("openai", "gpt-4o", (asked,))
    offered = replace(plain, tools=(look,))
    talk = replace(
        offered,
        messages=(asked, Message("assistant", (), (call,)), Message("user", (), (), (ToolResult(call, "r" * 900),))),
    )
    bounds = [token_counts.input_bound(each, "openai", "gpt-4o", {})[0] for each in (plain, offered, talk)]
    assert bounds[0] < bounds[1] - len(look.description)
    assert bounds[1] + 500 + 300 + 900 < bounds[2]
