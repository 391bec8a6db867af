"""Results count images: not lines that list one again, nor lines of prompts."""

from titjudge.core import registry
from titjudge.core.types import InvalidItem, Item, Score
from titjudge.engine.budget import UNSPENT
from titjudge.runs.results import summarize
from titjudge.suites.folder import Folder


def test_coverage_counts_images_only() -> None:
    items = [Item(f"{p}{g}", "a prompt", None, g, p) for p in "pq" for g in "xy"]
    bad = [
        InvalidItem("px (again)", "the image is listed twice", "x", "p", counts=False),
        InvalidItem("prompts.jsonl:3", "another text for the prompt 'p'", prompt_id="p", counts=False),
        InvalidItem("qz", "no such image file", "y", "q"),
    ]
    scores = [Score(item.id, "lmm-score", 1.0, generator=item.generator, prompt_id=item.prompt_id) for item in items]
    metrics = {"lmm-score": registry.load("metrics", "lmm-score")}
    results, _ = summarize([*items, *bad], scores, Folder(), [], metrics, status="", money=UNSPENT)
    about = results.metrics["lmm-score"]
    assert (about.images, about.scored, about.coverage) == (5, 4, 0.8)
    assert [row.generator for row in results.leaderboard] == ["x", "y"]
    assert {failure.item for failure in results.failures} == {"px (again)", "prompts.jsonl:3", "qz"}
