"""What a generated image costs: rates of litellm's list, and the user's own before them."""

from __future__ import annotations

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
