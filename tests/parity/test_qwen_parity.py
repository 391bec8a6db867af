"""Qwen-Image-Bench: the 72 responses with the official result of each; the published prompt and checklists by hash."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from titjudge.metrics.checklist import checklist_text, judge_answer, rubric
from titjudge.stats.ranking.leaderboard import rank_correlation
from titjudge.suites.qwen_image_bench.suite import aggregate_responses

CHECKLISTS = {
    "Quality": "8a6d823d018c436c",
    "Aesthetics": "17842a0465c43e1d",
    "Alignment": "f7c12833f8b09e05",
    "Real-world Fidelity": "4d9cf534b6b8d9fa",
    "Creative Generation": "632992f5e337d6bb",
}
STATUS = {"ok": "ok", "parse_failure": "parse_failure", "exception": "invalid"}


def mean(value: float | None) -> Any:
    """But for the last bit: since Python 3.12 `sum` of floats is more exact than when these means were taken."""
    return None if value is None else pytest.approx(value, rel=1e-14)


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@pytest.fixture
def responses(shared: Path) -> list[dict[str, Any]]:
    lines = (shared / "qwen_image_bench" / "responses.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("pillar", CHECKLISTS)
def test_the_checklists_are_the_published_ones(pillar: str) -> None:
    assert sha(checklist_text(pillar)) == CHECKLISTS[pillar]


FORK = CHECKLISTS | {
    "Aesthetics": "101c62014ebd435d",
    "Alignment": "c26bb92c50a54a92",
    "Creative Generation": "579f77ba398a8e11",
}  # of checklists.py @1e8e78c


@pytest.mark.parametrize("pillar", FORK)
def test_the_checklists_of_the_fork_are_its_own(pillar: str) -> None:
    assert sha(checklist_text(pillar, 38)) == FORK[pillar]
    assert sum(len(of) for subs in rubric(38).values() for of in subs.values()) == 38
    assert sum(map(len, rubric(38).values())) == 19


def test_the_rubric_has_its_published_size() -> None:
    subs = [sub for of in rubric().values() for sub in of.values()]
    assert (len(rubric()), len(subs), sum(map(len, subs))) == (5, 23, 56)


def test_every_response_has_the_official_status_and_scores(responses: list[dict[str, Any]]) -> None:
    assert len(responses) == 72
    for response in responses:
        expected, verdict = response["expected"], judge_answer(response["response"], response["dim"])
        assert verdict.status == STATUS[expected["status"]], response["case"]
        if verdict.status == "ok":
            found = (verdict.level1, verdict.level2, verdict.level3, verdict.corrected)
            wanted = (expected["level1"], expected["level2"], expected["level3"], expected["fixed"])
            assert found[0] == mean(wanted[0]), response["case"]
            assert found[1:] == wanted[1:], response["case"]


def test_the_responses_as_a_file(shared: Path, responses: list[dict[str, Any]]) -> None:
    folder = shared / "qwen_image_bench"
    result, _ = aggregate_responses(folder / "responses.jsonl", folder / "bench_metadata.json")
    assert list(result["cases"]) == [response["case"] for response in responses]
    for response in responses:
        case, expected = result["cases"][response["case"]], response["expected"]
        assert case["status"] == STATUS[expected["status"]]
        assert case["level1"] == mean(expected.get("level1"))
        assert case["level2"] == expected.get("level2", {})
    for model in ("alpha", "beta"):
        assert result["models"][model]["overall"] == pytest.approx(_slow_overall(responses, model), abs=1e-12)
        counts = result["coverage"][model]
        assert counts["ok"] + counts["parse_failure"] + counts["invalid"] == counts["answers"]


def _slow_overall(responses: list[dict[str, Any]], model: str) -> float:
    rows: dict[int, list[float]] = {}
    for response in responses:
        if response["model"] == model and response["expected"].get("level1") is not None:
            rows.setdefault(response["ID"], []).append(response["expected"]["level1"])
    return sum(sum(row) / len(row) for row in rows.values()) / len(rows)


MODELS = (
    "GPT Image 2", "GPT Image 1.5", "GPT Image 1", "Nano Banana 2.0", "Nano Banana Pro", "Seedream 5.0", "Seedream 4.5",
    "Seedream 4.0", "Imagen 4.0 Ultra", "Imagen 4.0", "FLUX 2 Max", "FLUX 2 Pro", "Qwen Image 2.0 Pro", "Qwen Image 2512",
    "Qwen Image", "HunyuanImage 3.0", "GLM Image", "Kling Image 2.1",
)  # fmt: skip


def _printed(paper: str, title: str) -> dict[str, list[float]]:
    """The six numbers of each model in the table that starts with `title`; extraction put the table on one line."""
    line = next(each for each in paper[paper.index(title) :].split("\n") if each.startswith("Evaluation Dimension"))
    found = {}
    for model in MODELS:
        match = re.search(rf"{re.escape(model)} ((?:\d+\.\d\d ?){{6}})", line)
        assert match, model
        found[model] = [float(number) for number in match[1].split()]
    return found


def test_the_six_correlations_of_table_1(shared: Path) -> None:
    paper = (shared / "papers" / "qwen-image-bench.txt").read_text(encoding="utf-8")
    judge, people = _printed(paper, "Table 2: Overall"), _printed(paper, "Table 4: Human")
    rho = [
        rank_correlation({m: judge[m][column] for m in MODELS}, {m: people[m][column] for m in MODELS})
        for column in range(6)
    ]
    assert rho == pytest.approx([0.8906, 0.8865, 0.8906, 0.9216, 0.9236, 0.9236], abs=5e-5)
