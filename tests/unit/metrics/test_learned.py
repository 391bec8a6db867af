"""The learned baselines as metrics, through the engine and its cache; the table a person reads."""

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest
import tiny_models

from titjudge.core import registry
from titjudge.core.config import RunConfig
from titjudge.core.errors import ConfigError
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import Ask, Item, ProviderSettings, Score, Status
from titjudge.data.learned_metrics import ASKED, COMMAND, NATIVE, TABLE, rows
from titjudge.engine.cache import AnswerCache
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.engine.scoring import score_item
from titjudge.metrics import metric as declare
from titjudge.providers.learned.provider import ADAPTERS, Scorer


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    providers = {
        "scorer": "titjudge.providers.learned.provider:Scorer",
        "local": "titjudge.providers.local.huggingface:Local",
    }
    monkeypatch.setitem(registry.TABLES, "providers", {**registry.TABLES["providers"], **providers})


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tiny_models.clip(tmp_path / "weights" / "pickscore")
    monkeypatch.setenv("TITJUDGE_WEIGHTS", str(folder.parent))
    return folder


def items(folder: Path) -> list[Item]:
    made = []
    for n, prompt in enumerate(["a red cube\n", " a blue cube " * 20, "{{ 7 * 7 }} cubes"]):
        path = folder / f"{n}.png"
        tiny_models.picture(60, 60, seed=n).save(path)
        made.append(Item(str(n), prompt, path))
    return made


def scored(metric: str, wanted: list[Item], cache: Path) -> tuple[list[Score], Any]:
    async def run() -> tuple[list[Score], Any]:
        store = AnswerCache(cache)
        roles = Roles(RunConfig())
        engine = Engine(roles, PromptLibrary(), store)
        try:
            found = await asyncio.gather(
                *(score_item(engine, item, metric, registry.load("metrics", metric)) for item in wanted)
            )
            return list(found), roles[f"scorer/{metric}"].tally
        finally:
            await roles.aclose()
            store.close()

    return asyncio.run(run())


def test_a_baseline_is_a_metric_like_any_other(weights: Path, tmp_path: Path) -> None:
    wanted = items(tmp_path)
    first, tally = scored("pickscore", wanted, tmp_path / "cache")
    assert [each.status for each in first] == [Status.OK] * 3
    assert tally.asked == 3
    assert tally.spent == 0
    assert first[1].parts["cut"] is True
    assert first[1].parts["prompt_tokens_used"] == 77 < first[1].parts["prompt_tokens"]
    assert "77 of" in first[1].reason
    assert first[0].parts["cut"] is False
    again, tally = scored("pickscore", wanted, tmp_path / "cache")
    assert [each.value for each in again] == [each.value for each in first]
    assert (tally.asked, tally.cached) == (0, 3)


def test_a_run_says_how_many_prompts_were_cut(weights: Path, tmp_path: Path, example: Path) -> None:
    """Most learned metrics read 32 to 77 tokens: the tables, the warnings and the page of a run must say so."""
    from titjudge.core.config import load_config
    from titjudge.runs.session import Session

    settings = {"data": example, "metrics": ["pickscore"], "limit": 4, "out": tmp_path / "run"}
    outcome = Session(load_config(None, settings)).run()
    assert outcome.status == "complete"
    cut = outcome.results.cut["pickscore"]
    assert (cut.scores, cut.read) == (4, 77)
    assert cut.longest > 77
    line = f"pickscore: 4 texts were cut to the model's 77 tokens (the longest has {cut.longest})"
    assert line in outcome.warnings
    assert outcome.report is not None
    assert "texts were cut to the model" in outcome.report.read_text("utf-8")


def test_options_of_a_metric_stand_in_a_file(weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "scorers.yaml"
    monkeypatch.setenv("TITJUDGE_SCORERS", str(file))
    file.write_text("all: {batch_size: 2}\npickscore: {dtype: float64}\nmps: {dtype: float16}\n")
    provider = Scorer(ProviderSettings("pickscore"))
    assert (provider._size, provider._dtype) == (2, "float64")
    assert "float64" in provider.base_url
    scores, _ = scored("pickscore", items(tmp_path), tmp_path / "cache")
    assert all(each.status is Status.OK for each in scores)
    for wrong, said in (
        ("picksore: {}", "pickscore"),
        ("- 1", "mapping"),
        ("all: {dtyp: 1}", "dtyp"),
        ("{", "line 1: a bracket is not closed"),
    ):
        file.write_text(wrong)
        with pytest.raises(ConfigError, match=said):
            Scorer(ProviderSettings("pickscore"))


def test_without_a_picture_there_is_no_number(weights: Path, tmp_path: Path) -> None:
    ((score,), _) = scored("pickscore", [Item("0", "a", None)], tmp_path / "cache")
    assert (score.value, score.status) == (None, Status.BAD_INPUT)


def test_the_prompt_arrives_as_it_is() -> None:
    template = PromptLibrary().get("baselines/text")
    for prompt in ("a red cube\n", "  two  spaces ", "{{ 7 * 7 }}", "<b>&amp;"):
        (message,) = template.messages({"prompt": prompt})
        assert message.text == prompt


def with_elements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elements: Any) -> Score:
    """FGA-BLIP2 on a tiny model with random weights, asked for elements."""
    import dataclasses

    row = TABLE["fga-blip2"]
    plain = dataclasses.replace(row, weights="x/y")  # the tiny folder is no released file
    monkeypatch.setattr("titjudge.data.learned_metrics.TABLE", {**TABLE, row.key: plain})
    folder = tmp_path / "weights" / "fga-blip2"
    if not folder.is_dir():
        tiny_models.blip2(folder)
    monkeypatch.setenv("TITJUDGE_WEIGHTS", str(folder.parent))
    (first, *_) = items(tmp_path)
    item = Item("0", "a red cube and <two> dogs", first.image, meta={"elements": elements})
    ((found,), _) = scored("fga-blip2", [item], tmp_path / "cache")
    return found


def test_elements_of_a_prompt_are_scored_where_it_lists_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = with_elements(tmp_path, monkeypatch, ["red cube", "red cube (color)", "<two> dogs", "cat"])
    assert found.status is Status.OK
    assert set(found.parts["elements"]) == {"red cube", "red cube (color)", "<two> dogs", "cat"}
    assert 0 < found.parts["elements"]["red cube"] < 1
    assert found.parts["elements"]["red cube (color)"] == found.parts["elements"]["red cube"]  # the type is not read
    assert found.parts["elements"]["cat"] is None
    assert "1 of 4 elements are not in the prompt as read: cat" in found.reason
    assert not [name for name in found.parts if name.startswith("element:")]
    plain = with_elements(tmp_path, monkeypatch, [])
    assert plain.value == pytest.approx(found.value, abs=1e-6)
    assert "elements" not in plain.parts


@pytest.mark.parametrize("wrong", ["red cube", [1], [""], {"red": 1}])
def test_elements_that_are_no_texts_are_no_score(wrong: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = with_elements(tmp_path, monkeypatch, wrong)
    assert found.value is None
    assert "'elements' must be a list of words" in found.reason


def test_the_table_says_what_is_needed() -> None:
    named = {name for name, code in registry.TABLES["metrics"].items() if code.startswith("titjudge.metrics.learned:")}
    assert named == {row.key for row in (*rows(NATIVE), *rows(COMMAND))}
    for key, row in TABLE.items():
        assert key == row.key
        assert row.licence
        assert row.source
        assert row.summary.endswith(".")
        assert row.range[0] < row.range[1]
        if row.status == NATIVE:
            assert row.adapter in ADAPTERS
            assert row.weights.partition(":")[0].count("/") == 1 or key == "longt2iexpert"
            assert row.tokens > 0 or not row.reads_prompt
    assert "clipscore" not in TABLE  # three dialects, no bare name


def test_every_row_is_a_metric_of_its_name_and_range() -> None:
    from titjudge.metrics import answer_probability, dsg, tifa, tit, unifiedreward, viescore

    asked = (
        dsg.dsg,
        tifa.tifa,
        viescore.viescore,
        unifiedreward.unifiedreward,
        unifiedreward.unifiedreward_2,
        tit.lmm_score,
        answer_probability.vqascore,
        answer_probability.lmm_score_expected,
        answer_probability.q_eval,
    )
    assert {each.name for each in asked} == {row.key for row in rows(ASKED)}
    made = {row.key: registry.load("metrics", row.key) for row in TABLE.values()}
    assert [made[row.key].roles for row in rows(COMMAND)] == [("external/lmm4lmm",), ("external/visionreward",)]
    for row in TABLE.values():
        assert made[row.key].range == row.range, row.key
        assert made[row.key].higher_is_better
        assert row.licence


NAMED = """
clipscore-hessel clipscore-torchmetrics clipscore-cosine longclip pickscore hpsv2 hpsv2.1 mps blip2-itm blip2-itc fga-blip2
imagereward vqascore-clip-flant5-xxl vqascore-qwen2.5-vl-7b vqascore-qwen3-vl-8b q-eval-score hpsv3 longt2iexpert lmm-score
lmm-score-expected-qwen2.5-vl-7b viescore unifiedreward tifa dsg lmm4lmm visionreward vqascore lmm-score-expected q-eval
"""


def test_metrics_lists_every_baseline_with_what_a_person_must_know(tmp_path: Path) -> None:
    import json

    from click.testing import CliRunner

    from titjudge.cli.catalog import metrics

    file = tmp_path / "metrics.json"
    result = CliRunner().invoke(metrics, ["--json", str(file)], standalone_mode=False)
    assert result.exit_code == 0, result.output
    listed = {row["metric"]: row for row in json.loads(file.read_text())}
    for name in NAMED.split():
        row = listed[name]
        assert row["licence"], name
        assert row["direction"] == "higher is better", name
        assert row["status"] in {"built in", "by your command", "by the models you name"}, name
        assert row["weights"], name
        if row["status"] != "by the models you name":
            assert row["tokens"] > 0, name
        assert row["source"], name


def test_metrics_says_how_much_is_to_be_downloaded_and_where_own_weights_lie(tmp_path: Path) -> None:
    import json

    from click.testing import CliRunner

    from titjudge.cli.catalog import metrics

    file = tmp_path / "metrics.json"
    said = CliRunner().invoke(metrics, ["--json", str(file)], standalone_mode=False).output
    assert "$TITJUDGE_WEIGHTS/METRIC/" in said
    assert "$TITJUDGE_SCORERS" in said
    listed = {row["metric"]: row for row in json.loads(file.read_text())}
    assert all(listed[row.key]["size"].endswith(" GB") for row in rows(NATIVE))
    assert listed["mps"]["size"] == "4.42 GB"
    assert listed["mps"]["licence"] == "code MIT; weights: none stated"
    assert listed["hpsv3"]["size"].startswith("about 16")
    assert listed["hpsv3"]["also_needed"] == "Qwen/Qwen2-VL-7B-Instruct (small files)"
    assert listed["vqascore-clip-flant5-xl"]["also_needed"].endswith("(with its weights)")
    assert listed["pickscore"]["also_needed"].startswith("laion/")
    assert listed["clipscore-hessel"]["also_needed"] is None


def test_without_weights_one_line_says_where_they_go(monkeypatch: pytest.MonkeyPatch) -> None:
    from titjudge.core.errors import UserError

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError) as caught:
        _ = Scorer(ProviderSettings("pickscore", options={"device": "cpu"}))._checkpoint
    assert "model 'yuvalkirstain/PickScore_v1' not found" in str(caught.value)
    assert "$TITJUDGE_WEIGHTS/pickscore" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_score_asks_for_no_captioner_where_the_metric_has_none(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from titjudge.cli.commands import run_command

    monkeypatch.setenv("TITJUDGE_CACHE", str(tmp_path / "cache"))
    (item, *_) = items(tmp_path)
    say = ["score", "--metric", "pickscore", "--prompt", "a red cube", str(item.image)]
    assert run_command("titjudge", say) == 0
    assert "ok" in capsys.readouterr().out
    assert run_command("titjudge", ["score", "--prompt", "a red cube", str(item.image)]) == 2
    assert "this metric requires a captioner. Add --captioner" in capsys.readouterr().err


def test_a_metric_carries_its_row() -> None:
    for key in (row.key for row in rows(NATIVE)):
        metric = registry.load("metrics", key)
        assert metric.name == key
        assert metric.roles == (f"scorer/{key}",)
        assert metric.summary == TABLE[key].summary
        assert not math.isnan(metric.range[0])


def test_a_local_model_answers_through_the_engine(tmp_path: Path) -> None:
    folder = tiny_models.qwen25_vl(tmp_path / "vlm")
    config = RunConfig.model_validate({"captioner": {"model": f"local/{folder}", "max_tokens": 8, "temperature": 0}})
    wanted = items(tmp_path)

    async def run() -> tuple[list[str], int]:
        roles = Roles(config)
        engine = Engine(roles, PromptLibrary())
        batches: list[int] = []
        provider = roles["captioner"].provider
        inner = provider._run  # type: ignore[attr-defined]
        provider._batcher._run = lambda requests: batches.append(len(requests)) or inner(requests)  # type: ignore[attr-defined]

        @declare("words", roles=("captioner",), range=(0, 100))
        async def words(item: Item, ask: Ask) -> Score:
            assert item.image is not None
            reply = await ask("tit/describe", role="captioner", images=[item.image], accept_truncated=True)
            return Score.of(reply.usage.output, text=reply.text)

        try:
            found = await asyncio.gather(*(score_item(engine, item, "words", words) for item in wanted))
            return [str(each.parts["text"]) for each in found], len(batches)
        finally:
            await roles.aclose()

    texts, batches = asyncio.run(run())
    assert len(set(texts)) == 3
    assert batches == 1
