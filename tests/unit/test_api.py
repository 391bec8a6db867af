"""The Python API against the fake provider."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from titjudge import Judge
from titjudge.errors import ConfigError
from titjudge.types import Status


@pytest.fixture
def image(tmp_path: Path) -> Path:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    return tmp_path / "a.png"


def test_under_a_cap_every_model_needs_a_price_also_the_second_judge(tmp_path: Path, image: Path) -> None:
    settings = {"cache": tmp_path / "c", "limits": {"max_cost": 1}}
    with (
        Judge(
            "tit-llm", captioner="openai/gpt-4o", judge="openai/gpt-4o", panel=["openai/nobody-knows"], **settings
        ) as judge,
        pytest.raises(ConfigError, match="price of openai/nobody-knows is unknown"),
    ):
        judge.score(image, "a cat")


def test_several_judges_vote(tmp_path: Path, image: Path) -> None:
    with Judge("tit-llm", captioner="fake/a", judge=["fake/a", "fake/b"], cache=tmp_path / "c") as judge:
        score = judge.score(image, "a cat")
    assert score.metric == "tit-llm"
    assert [vote["judge"] for vote in score.parts["votes"]] == ["fake/a", "fake/b"]


def test_what_a_cap_leaves_unasked_has_a_status_and_loses_nothing_else(tmp_path: Path, image: Path) -> None:
    models = {"captioner": "openai/gpt-4o", "judge": "openai/gpt-4o"}
    with Judge("tit-llm", **models, cache=tmp_path / "c", limits={"max_requests": 0}) as judge:
        scores = judge.score_many([(image, "a cat"), (tmp_path / "none.png", "a cat"), (image, " ")])
    assert [score.status for score in scores] == [Status.BUDGET, Status.BAD_INPUT, Status.BAD_INPUT]
    assert [score.value for score in scores] == [None, None, None]
    assert "cap of 0 requests" in scores[0].reason
