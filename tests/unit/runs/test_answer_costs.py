"""What the answers behind scores cost: as billed, as another model would bill them, and by image."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import cli

from titjudge.core.errors import ConfigError
from titjudge.providers.token_counts import text_tokens_estimate
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.study.answer_costs import Pricing, answer_costs, costs_table

GPT_4O = 2.5e-6, 10e-6  # USD for a token in and out
TILES = 765  # tokens of a square image of 1,024 pixels, as OpenAI publishes them


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = tmp_path_factory.mktemp("costs")
    cli(folder, "judge", "--metric", "tit", "--metric", "lmm-score", "--out", "run", "--no-report")
    return RunFolder(folder / "run")


def test_a_recording_costs_nothing_and_says_how_to_price_it(recorded: RunFolder) -> None:
    costs = answer_costs(recorded, Pricing())
    assert {cost.metric: cost.mean("cost") for cost in costs} == {"tit": 0, "lmm-score": 0}
    assert "--priced-as" in costs_table(costs, Pricing()).notes[-1]


def test_recorded_answers_are_priced_as_a_hosted_model_would_bill_them(recorded: RunFolder) -> None:
    pricing = Pricing("openai/gpt-4o")
    tit, rating = answer_costs(recorded, pricing)
    assert (tit.mean("requests"), tit.mean("looks"), len(tit.images)) == (1, 1, 24)
    replies = {reply["item"]: reply for reply in recorded.replies() if reply["template"] == "tit/describe"}
    for item, cost in tit.images.items():
        question, answer = replies[item]["messages"][0][2], replies[item]["text"]
        assert cost.output == text_tokens_estimate(answer)
        assert cost.input - text_tokens_estimate(question) == TILES
        assert cost.cost == pytest.approx(cost.input * GPT_4O[0] + cost.output * GPT_4O[1], abs=1e-6)
    assert (rating.mean("output") or 0) < (tit.mean("output") or 0) / 4, "a rating is shorter than a description"
    assert "48 answers are estimated" in costs_table([tit, rating], pricing).notes[-1]


def test_what_a_model_was_billed_is_kept_and_an_answer_that_two_metrics_share_counts_for_both() -> None:
    message = ["user", {"image": "0" * 64}, "Look."]
    paid: dict[str, Any] = {"messages": [message], "usage": [900, 100, 0, 0, 0], "text": "A cat.", "list_cost": 0.5}
    assert Pricing().cost(paid, {}).cost == 0.5
    other = Pricing("openai/gpt-4o").cost(paid, {})
    assert (other.input, other.output, other.estimated) == (900, 100, 0)
    assert other.cost == pytest.approx(900 * GPT_4O[0] + 100 * GPT_4O[1])


def test_a_model_without_a_price_is_refused_until_it_has_one() -> None:
    with pytest.raises(ConfigError, match="--price openai/mine=INPUT,OUTPUT"):
        Pricing("openai/mine")
    assert Pricing("openai/mine", {"openai/mine": {"input": 1.0, "output": 2.0}}).name == "openai/mine"


def test_the_command_has_each_image_in_its_json(recorded: RunFolder, tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    cli(tmp_path, "compare", "costs", str(recorded.path), "--priced-as", "openai/gpt-4o", "--json", str(file))
    tit = json.loads(file.read_text())["runs"][str(recorded.path)][0]
    assert len(tit["images"]) == 24
    assert tit["means"]["cost"] == pytest.approx(sum(one["cost"] for one in tit["images"].values()) / 24)
