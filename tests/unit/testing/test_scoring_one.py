"""One item is scored as in a run, by whatever a test says the model answers."""

import subprocess
import sys
from pathlib import Path

import pytest
from builders import png

from tests.kit import Server
from titjudge.core.errors import ConfigError
from titjudge.core.types import Item, ProviderSettings, Request, Status
from titjudge.metrics.tit import lmm_score
from titjudge.providers.hosted.openai import OpenAI
from titjudge.testing import score_one

RATED = '{"reason": "no waves", "score": 80}'


@pytest.fixture
def item(tmp_path: Path) -> Item:
    return Item("sea", "a calm sea", png(tmp_path / "sea.png"))


def test_answers_are_given_in_order_and_requests_are_kept(item: Item) -> None:
    found = score_one(lmm_score, item, ["no idea", RATED])  # one repair turn
    assert (found.score.value, found.score.status, len(found.requests)) == (80, Status.OK, 2)
    assert "a calm sea" in found.requests[0].messages[-1].text


def test_a_function_answers_by_the_request_and_a_failure_is_a_status(item: Item) -> None:
    def rated(request: Request) -> str:
        return RATED if request.template.startswith("lmm_score/") else ""

    assert score_one(lmm_score, item, rated).score.value == 80
    failed = score_one(lmm_score, item, [ValueError("no such image")]).score
    assert (failed.value, failed.status) == (None, Status.FAILED)


def test_without_answers_the_model_says_what_the_metric_can_read(item: Item) -> None:
    assert score_one(lmm_score, item).score.status is Status.OK


def test_answers_are_kept_in_a_cache(item: Item, tmp_path: Path) -> None:
    assert score_one(lmm_score, item, [RATED], cache=tmp_path / "cache").score.value == 80
    assert score_one(lmm_score, item, [], cache=tmp_path / "cache").requests == []


def test_another_provider_takes_the_place_of_the_fake_one(item: Item, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    with Server() as server:
        server.script(RATED)
        model = OpenAI(ProviderSettings("gpt-4o", base_url=server.openai))
        assert score_one(lmm_score, item, model).score.value == 80
        assert server.count("openai") == 1


def test_keys_of_the_configuration_are_checked(item: Item) -> None:
    with pytest.raises(ConfigError, match="unknown key 'protocl'"):
        score_one(lmm_score, item, [RATED], protocl="official")


def test_it_imports_no_pytest() -> None:
    code = "import sys, titjudge.testing; print('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
