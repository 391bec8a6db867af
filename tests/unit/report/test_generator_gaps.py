"""The table of how far generators are behind the best."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from report_runs import PROMPT, score, write_run

from titjudge.core.types import Item
from titjudge.report.generator_gaps import FEWEST, generator_gaps
from titjudge.report.model import load
from titjudge.report.summary import summary
from titjudge.runs.generator_scores import run_scores
from titjudge.stats.generator_differences import generator_differences


def judged(folder: Path, prompts: int) -> Path:
    rng = np.random.default_rng(1)
    items = [
        Item(f"{name}{p}.png", PROMPT, None, name, f"p{p}") for p in range(prompts) for name in ("low", "<b>top", "mid")
    ]
    level = {"low": 30.0, "<b>top": 60.0, "mid": 50.0}
    write_run(folder, items, [score(item, "tit-llm", float(level[item.generator] + rng.normal())) for item in items])
    return folder


def test_the_report_says_what_the_command_says(tmp_path: Path) -> None:
    from titjudge.runs.run_folder import RunFolder

    folder = judged(tmp_path / "run", 12)
    (table,) = generator_gaps(load([RunFolder(folder)]))
    assert [row[0] for row in table["rows"]] == ["mid", "low"]
    wanted = generator_differences(run_scores([folder]), baseline="<b>top")
    by_name = {each.a: each for each in wanted}
    for name, difference, counts, p, shown, prompts in table["rows"]:
        each = by_name[name]
        assert difference["v"] == each.difference
        assert counts == f"{each.wins} / {each.same} / {each.losses}"
        assert (p["v"], shown["v"], prompts["v"]) == (each.p_adjusted, each.detectable, 12)
    assert table in summary(load([RunFolder(folder)]))["overview"]


def test_too_few_prompts_have_no_table(tmp_path: Path) -> None:
    from titjudge.runs.run_folder import RunFolder

    assert generator_gaps(load([RunFolder(judged(tmp_path / "few", FEWEST - 1))])) == []
