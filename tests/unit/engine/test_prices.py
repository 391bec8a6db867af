"""Prices: what is known, what a user says, what is never guessed."""

from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from titjudge.core.errors import ConfigError, UserError
from titjudge.core.types import Usage
from titjudge.engine.prices import Price, PriceTier, batch_price, parse_price_flag, price_of
from titjudge.providers.vendors import VENDORS

NOVEMBER = datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_cost_of_each_kind_of_token() -> None:
    price = Price(input=2.0, output=10.0, cached_input=0.5)
    assert price.cost(Usage(input=1_000_000, cached_input=400_000)) == pytest.approx(1.2 + 0.2)
    assert price.cost(Usage(output=1_000_000, thinking=900_000)) == pytest.approx(10.0)  # thinking is in output
    assert Price(2.0, 10.0).cost(Usage(input=1_000_000, cached_input=1_000_000)) == pytest.approx(2.0)


def test_image_tokens_and_requests_have_their_rate_where_there_is_one() -> None:
    usage = Usage(input=1_000_000, image=500_000)
    assert Price(2.0, 10.0).cost(usage) == pytest.approx(2.0)
    assert Price(2.0, 10.0, image=4.0, per_request=0.01).cost(usage) == pytest.approx(3.01)


def test_a_tier_holds_for_all_tokens_of_the_request() -> None:
    price = Price(1.0, 10.0, tiers=(PriceTier(200_000, 2.0, 20.0), PriceTier(400_000, 3.0, 30.0)))
    assert price.cost(Usage(input=200_000)) == pytest.approx(0.2)
    assert price.cost(Usage(input=200_001, output=100)) == pytest.approx(0.400002 + 0.002)
    assert price.cost(Usage(input=500_000)) == pytest.approx(1.5)


@given(
    st.builds(Usage, *(st.integers(0, 10**7) for _ in range(5))),
    st.floats(0, 100), st.floats(0, 100), st.floats(0, 100),
)  # fmt: skip
def test_cost_is_never_negative_and_grows_with_output(usage: Usage, rate: float, out: float, cached: float) -> None:
    price = Price(rate, out, cached)
    assert 0 <= price.cost(usage) <= price.cost(usage + Usage(output=10))


@pytest.mark.parametrize(
    ("provider", "model", "rates"),
    [
        ("openai", "gpt-4o", (2.5, 10.0, 1.25)),
        ("openai", "gpt-4o-2024-08-06", (2.5, 10.0, 1.25)),
        ("gemini", "gemini-2.5-flash", (0.3, 2.5, 0.03)),
        ("gemini", "models/gemini-2.5-flash", (0.3, 2.5, 0.03)),
        ("litellm", "anthropic/claude-sonnet-4-5", (3.0, 15.0, 0.3)),
        ("litellm", "gemini/gemini-2.5-flash", (0.3, 2.5, 0.03)),
        ("litellm", "azure/gpt-4o", (2.5, 10.0, 1.25)),
        ("litellm", "gpt-4o", (2.5, 10.0, 1.25)),
    ],
)
def test_known_models(provider: str, model: str, rates: tuple[float, float, float]) -> None:
    price = price_of(provider, model, when=NOVEMBER)
    assert price is not None
    assert (price.input, price.output, price.cached_input) == rates
    assert price.source.startswith("genai-prices ")


@pytest.mark.parametrize("usage", [(150_000, 700), (200_000, 700), (200_001, 700), (900_000, 700)])
def test_gemini_pro_costs_what_genai_prices_says(usage: tuple[int, int]) -> None:
    from genai_prices import Usage as Theirs
    from genai_prices import calc_price

    price = price_of("gemini", "gemini-2.5-pro", when=NOVEMBER)
    assert price is not None
    assert price.tiers
    theirs = calc_price(
        Theirs(input_tokens=usage[0], output_tokens=usage[1], cache_read_tokens=1000),
        "gemini-2.5-pro",
        provider_id="google",
        genai_request_timestamp=NOVEMBER,
    )
    assert price.cost(Usage(input=usage[0], output=usage[1], cached_input=1000)) == pytest.approx(
        float(theirs.total_price)
    )


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "Qwen/Qwen2.5-VL-72B-Instruct"),
        ("openai", "ft:gpt-4o:acme::1"),
        ("nobody", "gpt-4o"),
        ("litellm", "ollama/llava"),
        ("litellm", "hosted_vllm/gpt-4o"),
        ("gemini", "gemma-3"),  # listed without a price
        ("openai", "text-embedding-3-small"),  # no price for output
        ("openai", ""),
    ],
)
def test_unknown_is_none_and_never_zero(provider: str, model: str) -> None:
    assert price_of(provider, model, when=NOVEMBER) is None


def test_embedding_models_need_no_price_for_output() -> None:
    price = price_of("openai", "text-embedding-3-small", embedding=True, when=NOVEMBER)
    assert price is not None
    assert price.cost(Usage(input=1_000_000)) == pytest.approx(0.02)


def test_prices_have_dates() -> None:
    before, after = (price_of("openai", "o3", when=datetime(2025, month, 1, tzinfo=UTC)) for month in (6, 7))
    assert before is not None
    assert after is not None
    assert (before.input, after.input) == (10.0, 2.0)


def test_prices_by_the_hour_are_taken_at_their_dearest() -> None:
    from genai_prices import Usage as Theirs
    from genai_prices import calc_price

    price = price_of("litellm", "deepseek/deepseek-v4-flash", when=NOVEMBER)
    assert price is not None
    usage = Theirs(input_tokens=1000, output_tokens=500)
    theirs = [
        float(
            calc_price(usage, "deepseek-v4-flash", provider_id="deepseek", genai_request_timestamp=moment).total_price
        )
        for moment in (NOVEMBER.replace(hour=hour) for hour in range(24))
    ]
    assert len(set(theirs)) > 1
    assert price.cost(Usage(input=1000, output=500)) == pytest.approx(max(theirs))


def test_a_known_address_names_the_provider() -> None:
    assert price_of("openai", "openai/gpt-4o", when=NOVEMBER) is None
    price = price_of("openai", "openai/gpt-4o", base_url="https://openrouter.ai/api/v1", when=NOVEMBER)
    assert price is not None
    assert "openrouter" in price.source


@pytest.mark.parametrize(
    ("provider", "model", "address", "known"),
    [
        ("openai", "gpt-4o", "", True),
        ("openai", "gpt-4o", "https://api.openai.com/v1", True),
        ("gemini", "gemini-2.5-pro", "https://generativelanguage.googleapis.com", True),
        ("openai", "gpt-4o", "http://127.0.0.1:8000/v1", False),
        ("openai", "gpt-4o", "https://api.openai.com/v1,http://10.0.0.1/v1", False),
        ("gemini", "gemini-2.5-pro", "http://127.0.0.1:8000", False),
        ("litellm", "openai/gpt-4o", "", True),
        ("litellm", "openai/gpt-4o", "http://10.0.0.1:4000", False),
        ("openai", "gpt-4o", "https://api.openai.com.evil.example/v1", False),
        ("openai", "gpt-4o", "https://api.openai.community/v1", False),
        ("openai", "gpt-4o", "https://evil.example/x.openai.azure.com", False),
        ("openai", "gpt-4o", "https://evil/x.openai.azure.com", False),
        ("openai", "gpt-4o", "https://mine.openai.azure.com/openai/v1", True),
        ("gemini", "gemini-2.5-pro", "https://evil.example/x.googleapis.com", False),
        ("gemini", "gemini-2.5-pro", "https://evilgoogleapis.com", False),
        ("gemini", "gemini-2.5-pro", "https://us-aiplatform.googleapis.com/v1", True),
    ],
)
def test_the_list_price_holds_at_the_vendors_own_address(provider: str, model: str, address: str, known: bool) -> None:
    price = price_of(provider, model, base_url=address, when=NOVEMBER)
    assert price is not None
    assert price.elsewhere is not known


def test_an_address_with_a_path_is_known_by_both() -> None:
    known = price_of(
        "openai", "deepseek-ai/DeepSeek-V3.2", base_url="https://router.huggingface.co/novita", when=NOVEMBER
    )
    assert known is not None
    assert "huggingface_novita" in known.source
    assert not known.elsewhere


def test_batch_jobs_elsewhere_cost_the_list_price() -> None:
    price = Price(10.0, 10.0)
    assert batch_price("openai", price, base_url="https://api.openai.com/v1").input == 5.0
    assert batch_price("openai", price, base_url="https://my.own.server/v1") == price


def test_local_is_free_by_declaration_only() -> None:
    price = price_of("local", "anything", free=True)
    assert price is not None
    assert price.cost(Usage(10**9, 10**9)) == 0.0
    assert price_of("local", "anything") is None


@pytest.mark.parametrize("key", ["gpt-4o", "openai/gpt-4o", "GPT-4o"])
def test_the_users_table_wins(key: str) -> None:
    price = price_of("openai", "gpt-4o", {key: {"input": 1, "output": 2.0, "cached_input": None}}, free=True)
    assert price == Price(1.0, 2.0, source="user table")


def test_the_users_precise_entry_wins_over_the_general_one() -> None:
    table = {"gpt-4o": Price(1, 1), "openai/gpt-4o": Price(2, 2), "litellm/azure/gpt-4o": Price(3, 3)}
    assert price_of("openai", "gpt-4o", table) == Price(2, 2)
    assert price_of("litellm", "azure/gpt-4o", table) == Price(3, 3)
    assert price_of("litellm", "other/gpt-4o", table) == Price(1, 1)


@pytest.mark.parametrize(
    ("entry", "match"),
    [
        ({"input": 1}, "add output in USD"),
        ({"input": None, "output": 1}, "add input in USD"),
        ({"input": 1, "output": 2, "cache": 3}, "unknown key 'cache'.*cached_input"),
        ({"input": -1, "output": 2}, "-1 is not a price"),
        ({"input": float("nan"), "output": 2}, "nan is not a price"),
        ({"input": "much", "output": 2}, "'much' is not a number"),
        ({"input": True, "output": 2}, "True is not a number"),
        ([1, 2], "must be input and output"),
    ],
)
def test_a_wrong_entry_names_the_model_and_the_mistake(entry: Any, match: str) -> None:
    with pytest.raises(ConfigError, match=f"m:? .*{match}"):
        price_of("openai", "m", {"m": entry})


def test_the_price_flag() -> None:
    assert parse_price_flag("gpt-4o=2.5,10") == ("gpt-4o", {"input": 2.5, "output": 10.0})
    assert parse_price_flag(" a/b=c = 1, 2 ,0.5") == ("a/b=c", {"input": 1.0, "output": 2.0, "cached_input": 0.5})
    model, entry = parse_price_flag("my-vlm=0,0")
    assert price_of("openai", model, {model: entry}) == Price(0.0, 0.0, source="user table")


@pytest.mark.parametrize(
    "text",
    ["", "gpt-4o", "=1,2", "m=1", "m=1,2,3,4", "m=a,b", "m=-1,2", "m=nan,2", "m=1,inf", "m=,", "m=1;2", "m=1,2,"],
)
def test_a_wrong_price_flag_says_what_is_expected(text: str) -> None:
    with pytest.raises(UserError, match="MODEL=IN,OUT"):
        parse_price_flag(text)


def test_batch_jobs_cost_half_and_cached_input_is_not_halved_twice() -> None:
    price = batch_price("openai", Price(2.5, 10.0, 1.25, tiers=(PriceTier(10, 5.0, 20.0, 1.0),), source="list"))
    assert (price.input, price.output, price.cached_input) == (1.25, 5.0, 1.25)
    assert price.tiers == (PriceTier(10, 2.5, 10.0, 1.0),)
    assert "batch x 0.5 since 2024-04-15" in price.source
    assert batch_price("google", Price(1, 1)) == batch_price("gemini", Price(1, 1))


def test_without_a_discount_on_file_a_batch_costs_the_list_price() -> None:
    price = Price(1.0, 2.0)
    assert batch_price("nobody", price) is price
    assert batch_price("gemini", price, on=date(2025, 7, 6)) is price
    assert batch_price("gemini", price, on=date(2025, 7, 7)).input == 0.5


def test_every_discount_has_a_date_and_a_source() -> None:
    for line in (line for vendor in VENDORS.values() for line in vendor.batch_discounts):
        assert 0 < line.factor < 1
        assert line.source.startswith("https://")


@pytest.mark.parametrize(
    ("provider", "model"), [("gemini", "gemini-2.5-pro"), ("openai", "gpt-4o"), ("openai", "gpt-5-mini")]
)
def test_our_batch_prices_are_never_below_genai_prices_own(provider: str, model: str) -> None:
    from genai_prices import Usage as Theirs
    from genai_prices import calc_price

    price = price_of(provider, model, when=NOVEMBER)
    assert price is not None
    theirs = calc_price(
        Theirs(input_tokens=10_000, output_tokens=700, cache_read_tokens=2000),
        model,
        provider_id={"gemini": "google"}.get(provider, provider),
        genai_request_timestamp=NOVEMBER,
        price_context={"processing": "batch"},
    )
    ours = batch_price(provider, price).cost(Usage(input=10_000, output=700, cached_input=2000))
    assert ours >= float(theirs.total_price) - 1e-12
