"""LMM scores: the rating alone, as the paper's ablation has it, and the rating after a list of faults."""

import json
from pathlib import Path

import pytest
from builders import png

from titjudge.core.types import Item, Status
from titjudge.metrics.tit import lmm_critique, lmm_score
from titjudge.testing import score_one

FAULTS = {"missing": ["a hat"], "contradicted": ["two cats -> one cat"], "reason": "A cat is missing.", "score": 61.5}


def item(folder: Path) -> Item:
    return Item("i", "two cats in a hat", png(folder / "a.png"))


def test_the_rating_is_the_score(tmp_path: Path) -> None:
    score, (request,) = score_one(lmm_score, item(tmp_path), ['{"reason": "One cat.", "score": 40}'])
    assert (score.value, score.reason, request.template) == (40, "One cat.", "lmm_score/rate")
    assert "missing" not in score.parts


def test_the_faults_are_listed_before_the_rating_and_kept_with_it(tmp_path: Path) -> None:
    score, (request,) = score_one(lmm_critique, item(tmp_path), [json.dumps(FAULTS)])
    assert (score.value, score.reason) == (61.5, "A cat is missing.")
    assert (score.parts["missing"], score.parts["contradicted"]) == (["a hat"], ["two cats -> one cat"])
    assert list(request.schema["properties"]) == ["missing", "contradicted", "reason", "score"]


@pytest.mark.parametrize("lacking", ["missing", "contradicted", "score"])
def test_a_rating_without_its_lists_is_no_score(tmp_path: Path, lacking: str) -> None:
    answer = json.dumps({key: value for key, value in FAULTS.items() if key != lacking})
    score, requests = score_one(lmm_critique, item(tmp_path), [answer] * 9)
    assert (score.value, score.status) == (None, Status.UNPARSED)
    assert len(requests) > 1, "the model was asked to mend its answer"
