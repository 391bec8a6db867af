"""The Python API: one, many, sync, async, failures, pandas."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from PIL import Image

from titjudge import Judge, Status, UserError
from titjudge.errors import ConfigError


def picture(tmp_path: Path, name: str = "a.png", red: int = 0) -> Path:
    Image.new("RGB", (8, 8), (red, 0, 0)).save(tmp_path / name)
    return tmp_path / name


def test_one_and_many_in_order_with_a_failure_among_them(tmp_path: Path) -> None:
    good, other = picture(tmp_path), picture(tmp_path, "b.png", 90)
    with Judge("self-eval", captioner="fake/x") as judge:
        assert judge.score(good, "a red square").value == 0
    with Judge("tit-llm", captioner="fake/x", judge="fake/y") as judge:
        assert judge.score(good, "a red square").value == 0
        scores = judge.score_many([(good, "a"), (tmp_path / "none.png", "b"), (other, "c")])
    assert [score.status for score in scores] == [Status.OK, Status.BAD_INPUT, Status.OK]
    assert scores[1].value is None
    assert "no such image" in scores[1].reason
    assert [record["value"] for record in scores.to_records()] == [0, None, 0]


def test_to_pandas_has_one_row_a_score(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    with Judge("lmm-score", captioner="fake/x") as judge:
        frame = judge.score_many([(picture(tmp_path), "a"), (picture(tmp_path, "b.png"), "b")]).to_pandas()
    assert list(frame["metric"]) == ["lmm-score", "lmm-score"]
    assert list(frame["value"]) == [0, 0]


def test_inside_a_loop_the_async_form_is_named(tmp_path: Path) -> None:
    path = picture(tmp_path)

    async def work() -> None:
        judge = Judge("lmm-score", captioner="fake/x")
        with pytest.raises(UserError, match="ascore"):
            judge.score(path, "p")
        assert (await judge.ascore(path, "p")).value == 0
        assert len(await judge.ascore_many([(path, "p"), (path, "q")])) == 2
        await judge.aclose()

    asyncio.run(work())


def test_names_and_keys_are_checked_at_once() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'tit'"):
        Judge("tti")
    with pytest.raises(ConfigError, match="Did you mean 'embedder'"):
        Judge("tit", captioner="fake/x", embeder="default")


def test_the_default_metric_is_tit_score_with_the_embedded_model(tmp_path: Path) -> None:
    with Judge(captioner="fake/x") as judge:
        score = judge.score(picture(tmp_path), "A picture of something.")
    assert score.metric == "tit"
    assert score.value == pytest.approx(1.0, abs=1e-5)
    assert score.parts["prompt_tokens_used"] == score.parts["prompt_tokens"]
