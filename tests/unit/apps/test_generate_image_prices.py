"""What a generated image costs: rates of litellm's list, and the user's own before them."""

from typing import Any

import pytest

from titjudge.apps.generate.image_prices import image_price, parse_image_price
from titjudge.core.errors import UserError
from titjudge.core.types import Usage


def test_a_model_that_bills_tokens_costs_what_its_usage_says() -> None:
    price = image_price("openai", "gpt-image-2", {"quality": "low", "size": "1024x1024"}, {})
    assert price is not None
    assert price.cost(Usage(input=100, output=196)) == pytest.approx((100 * 5 + 196 * 30) / 1e6)


def test_thinking_of_gemini_costs_what_text_costs() -> None:
    price = image_price("gemini", "gemini-3-pro-image", {}, {})
    assert price is not None
    assert price.cost(Usage(output=1_120 + 500, thinking=500)) == pytest.approx((1_120 * 120 + 500 * 12) / 1e6)


def test_the_worst_case_is_that_of_the_settings_and_of_the_dearest_where_they_are_left_open() -> None:
    worst = {}
    for quality in ("low", "medium", "high", "auto"):
        price = image_price("openai", "gpt-image-2", {"quality": quality}, {})
        assert price is not None
        worst[quality] = price.cost(Usage(output=price.most_output))
    assert worst["low"] < worst["medium"] < worst["high"] == worst["auto"]
    assert worst["high"] >= 0.401  # 3840 x 2160, by the list


def test_a_new_family_has_the_sizes_that_a_reseller_lists_for_it() -> None:
    """Without them a small image set aside 16,384 tokens, 75 times as much."""
    small = {"quality": "low", "size": "1024x1024"}
    for model in ("gpt-image-2.5-flare", "gpt-image-2.5-sunburst-2026-09-08"):
        price = image_price("openai", model, small, {})
        assert price is not None
        assert 0.00588 < price.cost(Usage(output=price.most_output)) < 0.0066
        top = image_price("openai", model, {**small, "quality": "max"}, {})
        assert top is not None
        assert top.cost(Usage(output=top.most_output)) > 0.21


@pytest.mark.parametrize(
    ("model", "quality", "usd"),
    [
        ("gpt-image-2.5/flare/text-to-image", "max", 0.21072),
        ("gpt-image-2", "low", 0.006),
        ("gpt-image-2/edit", "low", 0.015),
    ],
)
def test_a_resold_model_costs_what_its_own_row_says_for_the_setting(model: str, quality: str, usd: float) -> None:
    price = image_price("", f"fal_ai/openai/{model}", {"quality": quality, "size": "1024x1024"}, {})
    assert price is not None
    assert price.cost(Usage()) == usd


def test_a_model_that_is_sold_by_the_image_costs_the_same_whatever_it_reports() -> None:
    price = image_price("", "black_forest_labs/flux-pro-1.1", {}, {})
    assert price is not None
    assert price.cost(Usage()) == price.cost(Usage(input=5, output=10)) == 0.04


def test_the_price_that_the_user_gives_wins() -> None:
    for name in ("openai/gpt-image-2", "gpt-image-2"):
        price = image_price("openai", "gpt-image-2", {}, {name: 0.07})
        assert price is not None
        assert price.cost(Usage(input=900, output=900)) == 0.07


def test_litellm_names_models_of_openai_with_and_without_their_vendor() -> None:
    assert image_price("", "openai/gpt-image-2", {}, {}) == image_price("openai", "gpt-image-2", {}, {})
    assert image_price("", "gpt-image-2", {}, {}) == image_price("openai", "gpt-image-2", {}, {})


def test_a_price_that_nobody_knows_is_none() -> None:
    assert image_price("openai", "my-model", {}, {}) is None
    assert image_price("openai", "gpt-image-2", {}, {}, listed=False) is None  # somebody else's server


def test_a_price_of_the_command_line() -> None:
    assert parse_image_price("openai/gpt-image-2=0.05") == ("openai/gpt-image-2", 0.05)
    for text in ("openai/gpt-image-2", "=1", "m=-1", "m=nan", "m=much"):
        with pytest.raises(UserError, match="MODEL=USD"):
            parse_image_price(text)


def worst(vendor: str, model: str, **options: Any) -> float | None:
    price = image_price(vendor, model, options, {})
    return None if price is None else price.cost(Usage(output=price.most_output))


@pytest.mark.parametrize(
    ("model", "quality", "size", "usd"),
    [
        ("gpt-image-2", "low", "1536x1024", 0.005),  # transposed
        ("gpt-image-2", "medium", "1536x1024", 0.042),
        ("gpt-image-2", "high", "2160x3840", 0.401),
        ("gpt-image-2", "low", "768x768", 0.005),  # as 1024 x 768
        ("gpt-image-2", "medium", "2048x1152", 0.056),  # as 2560 x 1440
        ("gpt-image-2", "high", "4320x3840", 0.802),  # twice the largest
        ("gpt-image-1.5", "low", "512x512", 0.009),
        ("chatgpt-image-latest", "low", "1024x1024", 0.009),
        ("chatgpt-image-latest", "high", "1024x1536", 0.2),
        ("gpt-image-1-mini", "high", "1536x1024", 0.052),
        ("gpt-image-2.5-flare", "max", "1536x1024", 0.16464),
    ],
)
def test_a_size_that_is_not_listed_costs_what_the_next_larger_does(
    model: str, quality: str, size: str, usd: float
) -> None:
    cost = worst("openai", model, quality=quality, size=size)
    assert cost is not None
    assert usd <= cost <= 1.11 * usd + 1e-4


@pytest.mark.parametrize(
    ("vendor", "model", "options", "usd"),
    [
        ("gemini", "imagen-4.0-generate-001", {}, 0.04),
        ("gemini", "imagen-4.0-ultra-generate-001", {"sampleImageSize": "2K", "aspectRatio": "16:9"}, 0.06),
        ("gemini", "imagen-4.0-fast-generate-001", {}, 0.02),
        ("gemini", "imagen-3.0-generate-002", {}, 0.03),
        ("", "vertex_ai/imagen-4.0-ultra-generate-001", {}, 0.06),
        ("", "xai/grok-imagine-image", {}, 0.02),
        ("", "xai/grok-imagine-image-2.0", {}, 0.06),
        ("", "xai/grok-imagine-image-2.0", {"quality": "low"}, 0.04),
        ("", "dashscope/qwen-image", {}, 0.035),
        ("", "dashscope/qwen-image-plus", {"size": "1664*928"}, 0.03),
        ("", "dashscope/qwen-image-2.0-pro", {}, 0.075),
        ("", "fal_ai/fal-ai/qwen-image", {}, 0.02),
        ("", "bedrock/amazon.nova-canvas-v1:0", {"quality": "standard", "size": "1024x1024"}, 0.04),
        ("", "bedrock/amazon.nova-canvas-v1:0", {"quality": "premium", "width": 1280, "height": 720}, 0.06),
        ("", "bedrock/amazon.nova-canvas-v1:0", {"quality": "premium", "size": "2048x2048"}, 0.08),
        ("", "bedrock/stability.sd3-5-large-v1:0", {}, 0.08),
    ],
)
def test_documented_prices_are_known(vendor: str, model: str, options: dict[str, Any], usd: float) -> None:
    assert worst(vendor, model, **options) == pytest.approx(usd)


@pytest.mark.parametrize(
    ("options", "times"),
    [
        ({}, 1), ({"image_size": "square_hd"}, 1), ({"image_size": {"width": 2048, "height": 2048}}, 4), ({"size": "2048x1024"}, 2),
        ({"width": 1025, "height": 1024}, 2), ({"megapixels": 4}, 4), ({"megapixels": "2 MP"}, 2), ({"size": "512*512"}, 1),
        ({"extra_body": {"image_size": {"width": 4096, "height": 1024}}}, 4), ({"num_inference_steps": 8}, 1),
        ({"guidance_scale": 3.5, "output_format": "png"}, 1),
    ],
)  # fmt: skip
def test_a_vendor_that_bills_by_area_is_paid_for_it(options: dict[str, Any], times: int) -> None:
    assert worst("", "fal_ai/fal-ai/flux/schnell", **options) == pytest.approx(0.003 * times)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("fal_ai/fal-ai/ideogram/v3", {"rendering_speed": "QUALITY"}),
        ("fal_ai/fal-ai/ideogram/v3", {"extra_body": {"rendering_speed": "QUALITY"}}),
        ("fal_ai/fal-ai/flux/schnell", {"image_size": "huge"}),
        ("fal_ai/fal-ai/flux/schnell", {"upscale": 4}),
        ("recraft/recraftv3", {"style": "vector_illustration"}),
        ("runwayml/gen4_image", {"ratio": "1920:1080"}),
        ("xai/grok-imagine-image-quality", {"resolution": "2k"}),
        ("xai/grok-imagine-image-2.0", {"resolution": "2k"}),
        ("openai/gpt-image-2", {"service_tier": "priority"}),
    ],
)
def test_a_setting_that_may_change_the_price_makes_it_unknown(model: str, options: dict[str, Any]) -> None:
    assert worst("", model, **options) is None
    assert image_price("", model, options, {model: 0.07}) is not None  # the user knows it
