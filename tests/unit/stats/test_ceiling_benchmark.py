"""The benchmark of judges, pools and people on ImagenHub, over a copy of the layout with known numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import ceiling


def test_judges_and_people_of_a_known_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    people = tmp_path / "paper_implementation" / "_human_annotations" / "ImagenHub_human_eval_results" / ceiling.TASK
    people.mkdir(parents=True)
    truth = rng.permuted(np.tile(np.linspace(0, 1, 5), (30, 1)), axis=1)
    rated = [truth, truth, (1 - truth) / 2]  # the third person says the opposite, less loudly
    for k, values in enumerate(rated, 1):
        rows = ["\t".join(["uid", *ceiling.GENERATORS, "Other"])]
        rows += ["\t".join([f"p{p}", *(f"[{value}, 0.5]" for value in row), "[0, 0]"]) for p, row in enumerate(values)]
        (people / f"Text-To-Image_rater{k}.tsv").write_text("\n".join(rows) + "\n")
    judges = {"gpt4o_1shot": truth, "gpt4v_0shot": truth, "gemini_0shot": 0 * truth}
    for name, values in judges.items():
        for g, generator in enumerate(ceiling.GENERATORS):
            folder = tmp_path / "paper_implementation" / "_answers" / f"results_{name}" / ceiling.TASK / generator
            folder.mkdir(parents=True)
            scores = {f"p{p}": {"score": [10 * row[g], 10]} for p, row in enumerate(values)}
            scores["p0"] = {"score": "I cannot say"}
            (folder / "SC.json").write_text(json.dumps(scores))
    found = ceiling.reached(tmp_path)
    right = (29 + 0.5) / 30  # of the first prompt nothing is known: half
    assert found["judge gpt4o_1shot"] == found["best judge"] == pytest.approx(right)
    assert found["judge gemini_0shot"] == 0.5
    assert found["mean of three judges"] == pytest.approx(right)
    assert found["person 3"] == 0.0
