"""What the answers behind scores cost: as billed, as another model would bill them, and by image."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from builders import described_images
from commands import cli

from tests.kit import Server
from titjudge.core.errors import ConfigError
from titjudge.data.images import ImageFiles
from titjudge.providers.token_counts import text_tokens_estimate
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.study.answer_costs import Pricing, answer_costs, costs_table

GPT_4O = 2.5e-6, 10e-6  # USD for a token in and out
RATING = json.dumps({"reason": "r", "score": 50})
TILES = 765  # tokens of a square image of 1,024 pixels, as OpenAI publishes them


@pytest.fixture(scope="module")
def recorded(main_job: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = tmp_path_factory.mktemp("costs")
    shutil.copytree(main_job / "cache", folder / "cache")  # the vectors
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


PRICED = "--price", "house=1,10"  # USD for a million tokens


def judged_by(server: Server, folder: Path, *more: str) -> RunFolder:
    described_images(folder / "data", 1)
    judge = (
        "judge",
        "--data",
        "data",
        "--metric",
        "lmm-score",
        "--captioner",
        "openai/house",
        "--base-url",
        server.openai,
    )
    cli(folder, *judge, "--out", "run", "--no-report", *more, OPENAI_API_KEY="sk-test-0123456789")
    return RunFolder(folder / "run")


def test_an_answer_that_was_repaired_counts_once_with_both_of_its_turns(tmp_path: Path) -> None:
    with Server() as server:
        server.script("about fifty", RATING)
        run = judged_by(server, tmp_path, *PRICED)
        assert server.count() == 2
    (cost,) = answer_costs(run, Pricing())
    assert cost.mean("requests") == 1
    assert cost.mean("cost") == pytest.approx(run.results().list_cost)


def test_the_users_price_counts_where_none_was_known(tmp_path: Path) -> None:
    with Server(lambda seen: RATING) as server:
        run = judged_by(server, tmp_path)
    (unknown,) = answer_costs(run, Pricing())
    assert unknown.mean("cost") is None
    (known,) = answer_costs(run, Pricing("", {"house": {"input": 1.0, "output": 10.0}}))
    assert known.mean("cost") == pytest.approx(((known.mean("input") or 0) + 10 * (known.mean("output") or 0)) / 1e6)


def test_images_are_opened_only_where_tokens_are_estimated(
    recorded: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []
    read = ImageFiles.open

    async def noted(files: ImageFiles, path: Path) -> Any:
        opened.append(path)
        return await read(files, path)

    monkeypatch.setattr(ImageFiles, "open", noted)
    answer_costs(recorded, Pricing())
    assert not opened
    answer_costs(recorded, Pricing("openai/gpt-4o"))
    assert len(set(opened)) == 24


def test_a_model_without_a_price_is_refused_until_it_has_one() -> None:
    with pytest.raises(ConfigError, match="--price openai/mine=INPUT,OUTPUT"):
        Pricing("openai/mine")
    assert Pricing("openai/mine", {"openai/mine": {"input": 1.0, "output": 2.0}}).name == "openai/mine"


def test_the_command_has_each_image_in_its_json(recorded: RunFolder, tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    cli(tmp_path, "judges", "costs", str(recorded.path), "--priced-as", "openai/gpt-4o", "--json", str(file))
    tit = json.loads(file.read_text())["runs"][str(recorded.path)][0]
    assert len(tit["images"]) == 24
    assert tit["means"]["cost"] == pytest.approx(sum(one["cost"] for one in tit["images"].values()) / 24)
