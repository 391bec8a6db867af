"""What holds for every registered metric: pickling, repeats, a dry run, missing answers."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import edited

from titjudge.core import registry
from titjudge.core.errors import Unanswered
from titjudge.core.types import Item, Status
from titjudge.testing import score_one

ASKS = sorted(
    name
    for name in registry.TABLES["metrics"]
    if (roles := {*registry.load("metrics", name).roles}) and roles <= {"captioner", "judge"}
)
"""The metrics that ask a captioner or a judge and nothing else."""
META = {
    "questions": ["Is there a door?"], "gold_answers": ["yes"], "text": {"texts": ["EXIT"], "rule": "words"}, "text_words": ["EXIT"],
    "asked": {"questions": [{"question": "Is there a door?", "answer": "Yes"}]}, "facets": {"Quality": [["Detail", "Noise"]]},
    "edit_type": "style", "category": "causal_reasoning", "reference": "a door", "explanation": "doors open",
}  # fmt: skip
PROBABILITIES = {"vqascore", "lmm-score-expected", "q-eval", "soft-tifa"}


def item_for(name: str, folder: Path) -> Item:
    meta = {**META, "category": "physics"} if name == "kris" else META
    item = edited(folder, "a red door with the word EXIT", **meta)
    if registry.load("metrics", name).sources == "ignored":
        item = replace(item, sources=())
    return replace(item, same_prompt=(item, replace(item, id="other")))


@pytest.mark.parametrize("name", sorted(registry.TABLES["metrics"]))
def test_a_metric_survives_pickling_with_its_options(name: str) -> None:
    found = registry.load("metrics", name)
    for each in (found, found.configured({option: default for option, default in found.defaults.items() if default})):
        assert pickle.loads(pickle.dumps(each)) == each  # noqa: S301


@pytest.mark.parametrize("protocol", ["strict", "official"])
@pytest.mark.parametrize("name", sorted({*ASKS} - PROBABILITIES))
def test_a_dry_run_asks_and_a_repeat_asks_and_scores_the_same(name: str, protocol: str, tmp_path: Path) -> None:
    found, item = registry.load("metrics", name), item_for(name, tmp_path)
    first, second = (score_one(found, item, protocol=protocol) for _ in range(2))
    assert first.requests
    assert first.score == second.score
    sent, again = ({*map(repr, scored.requests)} for scored in (first, second))
    assert sent == again  # two equal images are judged at once: in any order, and the same request once or twice
    low, high = found.range
    assert first.score.value is None or low <= first.score.value <= high


@pytest.mark.parametrize("protocol", ["strict", "official"])
@pytest.mark.parametrize("name", ASKS)
@pytest.mark.parametrize("status", [Status.FAILED, Status.REFUSED, Status.TRUNCATED])
def test_without_answers_there_is_a_status_and_no_score(
    name: str, protocol: str, status: Status, tmp_path: Path
) -> None:
    def silent(_: Any) -> Any:
        raise Unanswered(status, "nobody answers")

    score, requests = score_one(registry.load("metrics", name), item_for(name, tmp_path), silent, protocol=protocol)
    assert score.value is None
    assert score.status not in (Status.OK, Status.BAD_INPUT)
    assert score.reason
    assert requests or name in PROBABILITIES  # the model of these tests gives no probabilities
