"""The table of learned metrics: rows of other packages, and what of a row is part of a score's key."""

import asyncio
import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from titjudge.core import registry
from titjudge.core.config import load_config
from titjudge.core.errors import ConfigError
from titjudge.core.paths import bundled_root
from titjudge.core.types import Item, ProviderSettings
from titjudge.data import learned_metrics
from titjudge.data.learned_metrics import NATIVE, TABLE, LearnedMetric, find, rows
from titjudge.engine.roles import Roles
from titjudge.metrics import learned
from titjudge.providers.learned.provider import Scorer

MINE = dataclasses.replace(TABLE["pickscore"], key="mine", version=7)


@pytest.fixture
def announced(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    entries = {"mine": f"{__name__}:MINE"}
    monkeypatch.setattr(registry, "announced", lambda kind: entries if kind == "learned_metrics" else {})
    return entries


def test_a_row_of_another_package_is_a_metric_with_a_model(announced: dict[str, str]) -> None:
    assert MINE in rows(NATIVE)
    assert "mine" in registry.names("metrics")
    assert registry.load("metrics", "mine").roles == ("scorer/mine",)
    assert Scorer(ProviderSettings("mine")).version == 7


@pytest.mark.parametrize(("reads", "asked"), [(True, ["a", "b"]), (False, ["", ""])])
def test_a_metric_that_reads_no_prompt_asks_the_same_of_an_image_whatever_its_prompt(
    announced: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reads: bool, asked: list[str]
) -> None:
    monkeypatch.setitem(globals(), "MINE", dataclasses.replace(MINE, reads_prompt=reads))
    learned.learned_metric.cache_clear()
    metric, prompts = registry.load("metrics", "mine"), []
    learned.learned_metric.cache_clear()

    async def ask(template: str, *, prompt: str, **_: Any) -> Any:
        prompts.append(prompt)
        return SimpleNamespace(data=learned.Measurement(score=1.0, tokens_used=0, tokens_total=0))

    for prompt in ("a", "b"):
        score = asyncio.run(metric(Item("i", prompt, tmp_path / "i.png"), ask))
        assert (score.value, score.parts["cut"]) == (1.0, False)
    assert prompts == asked


def test_what_is_no_row_is_named_and_the_others_are_listed(announced: dict[str, str]) -> None:
    announced["other"] = f"{__name__}:MINE"
    announced["gone"] = "no_such_package:ROW"
    with pytest.raises(ConfigError, match=r"'other' of titjudge.learned_metrics must be a LearnedMetric with this key"):
        find("other")
    assert [row.key for row in rows() if row.key not in TABLE] == ["mine"]


def test_a_version_of_one_row_leaves_the_others_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {row.key: row.version for row in rows(NATIVE)}
    mended = dataclasses.replace(TABLE["hpsv2"], version=TABLE["hpsv2"].version + 1)
    monkeypatch.setattr(learned_metrics, "TABLE", {**TABLE, "hpsv2": mended})
    after = {row.key: Scorer(ProviderSettings(row.key)).version for row in rows(NATIVE)}
    assert after == {**before, "hpsv2": before["hpsv2"] + 1}


def template(folder: Path, add: str = "") -> Path:
    """A folder of templates with Q-Eval's, and something added to it."""
    (folder / "learned").mkdir(parents=True)
    own = (bundled_root() / "learned" / "q_eval.md").read_text(encoding="utf-8")
    (folder / "learned" / "q_eval.md").write_text(own + add, encoding="utf-8")
    return folder


def test_a_prompt_of_the_users_own_is_part_of_the_key_and_the_bundled_one_is_not(tmp_path: Path) -> None:
    def scorer(prompts: Path | None) -> Scorer:
        config = load_config(None, {"judge": "scorer/q-eval-score", **({"prompts": prompts} if prompts else {})})
        made = Roles(config)["judge"].provider
        assert isinstance(made, Scorer)
        return made

    plain = scorer(None)
    assert "prompt=" not in plain.base_url
    assert scorer(template(tmp_path / "same")).base_url == plain.base_url
    other = scorer(template(tmp_path / "other", "Be strict."))
    assert other.base_url == plain.base_url.replace(
        ",transformers", f",prompt={other._prompts[''].sha256[:16]},transformers"
    )
    assert other._prompts[""].messages({"prompt": "x"})[-1].text.endswith("Be strict.")


@pytest.mark.parametrize("row", TABLE.values(), ids=lambda row: row.key)
def test_no_text_closes_a_tag_of_a_prompt_that_is_quoted_exactly(row: LearnedMetric) -> None:
    """A fence would change texts with such a tag, which the released code passes on as they are."""
    from titjudge.core.prompts import PromptLibrary

    for about in row.dimensions.values():
        assert "template" not in about or PromptLibrary().get(about["template"]).fence is None
