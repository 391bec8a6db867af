"""DSG and TIFA against figures that their repositories publish and that need no weights.

The table of DSG-1k is computed from two files of github.com/j-min/DSG (dsg/data/dsg-1k-anns.csv and
vqa_answers_release/pali17b_dsg.csv); the folder that holds both is named by TITJUDGE_DSG.
"""

import csv
import os
from collections import defaultdict
from pathlib import Path
from statistics import fmean, stdev

import pytest

from titjudge.metrics.dsg import dsg_score
from titjudge.metrics.tifa import ChoiceQuestion, by_type
from titjudge.stats.generators.published_tables import published

ANNOTATIONS, ANSWERS = "dsg-1k-anns.csv", "pali17b_dsg.csv"
CATEGORIES = {
    "tifa": "tifa", "stanford": "paragraph", "localized": "paragraph", "countbench": "count", "vrd": "relation",
    "diffusion": "real_user", "midjourney": "real_user", "posescript": "pose", "whoops": "defying", "drawtext": "text",
}  # fmt: skip


def table(folder: Path) -> dict[str, tuple[float, float]]:
    """Percent with and without dependencies, by category; an item without answers counts 0, as upstream."""
    parents: dict[str, dict[int, list[int]]] = defaultdict(dict)
    odd: set[str] = set()
    with (folder / ANNOTATIONS).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            above = row["dependency"].split(",")
            if not all(each.strip().isdecimal() for each in above):
                odd.add(row["item_id"])  # upstream then forgets every dependency of the item
                continue
            parents[row["item_id"]][int(row["proposition_id"])] = [int(each) for each in above]
    parents.update({item: {} for item in odd})
    yes: dict[str, dict[int, bool]] = defaultdict(dict)
    with (folder / ANSWERS).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["t2i_model"] == "sd2dot1":
                yes[row["item_id"]][int(row["question_id"])] = row["answer"] == "yes"
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for item in {*yes, "tifa160_134"}:
        both = dsg_score(yes[item], parents[item]) if yes.get(item) else (0.0, 0.0)
        category = next(name for part, name in CATEGORIES.items() if part in item)
        found[category].append(both)
        found["all"].append(both)
    return {
        name: (round(100 * fmean(a for a, _ in each), 1), round(100 * fmean(b for _, b in each), 1))
        for name, each in found.items()
    }


def test_the_table_of_dsg_1k() -> None:
    folder = Path(os.environ.get("TITJUDGE_DSG", ""))
    if not os.environ.get("TITJUDGE_DSG") or not (folder / ANSWERS).is_file():
        pytest.skip(f"TITJUDGE_DSG names no folder with {ANNOTATIONS} and {ANSWERS} of github.com/j-min/DSG")
    found = table(folder)
    reference = published("dsg-1k")
    printed = {name: reference.column(name)["Stable Diffusion 2.1"] for name in reference.columns}
    assert {name: with_ for name, (with_, _) in found.items()} == printed
    assert all(with_ <= without for with_, without in found.values())


def test_the_table_reads_the_files_as_they_are_written(tmp_path: Path) -> None:
    """Parents as "1,2, 4", none as 0, the one item that nobody answered, and an item with a parent that is no number."""
    (tmp_path / ANNOTATIONS).write_text(
        'item_id,proposition_id,dependency\ntifa160_1,1,0\ntifa160_1,2,1\ntifa160_1,3,"1,2, 4"\ntifa160_1,4,0\nvrd_2,1,0\n'
        'posescript_3,1,0\nposescript_3,2,1\nposescript_3,3,"1, right"\n'
    )
    (tmp_path / ANSWERS).write_text(
        "data_name,qg_model,t2i_model,item_id,question,question_id,dependency,answer\n"
        "tifa160,dsg,sd2dot1,tifa160_1,a?,1,0,yes\ntifa160,dsg,sd2dot1,tifa160_1,b?,2,1,no\n"
        'tifa160,dsg,sd2dot1,tifa160_1,c?,3,"1,2, 4",yes\ntifa160,dsg,sd2dot1,tifa160_1,d?,4,0,yes\n'
        "vrd,dsg,sd2dot1,vrd_2,e?,1,0,yes\nvrd,dsg,sd1dot1,vrd_2,e?,1,0,no\n"
        "pose,dsg,sd2dot1,posescript_3,f?,1,0,no\npose,dsg,sd2dot1,posescript_3,g?,2,1,yes\n"
        'pose,dsg,sd2dot1,posescript_3,h?,3,"1, right",yes\n'
    )
    assert table(tmp_path) == {
        "tifa": (25.0, 37.5),
        "relation": (100.0, 100.0),
        "pose": (66.7, 66.7),
        "all": (54.2, 60.4),
    }


# The two captions of TIFA's sample (sample/sample_evaluation_result.json): type of each question, and whether it was right.
SAMPLE = {
    "coco_301091": "human+ human+ object+ location+ location+ activity+ activity+ color+ color+ color+ color+",
    "drawbench_52": "animal+ animal- object+ object+ activity+ counting+ counting- counting-",
}


def test_the_sample_of_tifa() -> None:
    """Published: captions 1 and 0.625, average 0.8125, deviation 0.26517, and a fraction for each type."""
    captions, asked, right = {}, [], []
    for caption, said in SAMPLE.items():
        hits = [each.endswith("+") for each in said.split()]
        captions[caption] = sum(hits) / len(hits)
        asked += [
            ChoiceQuestion(question="?", choices=["yes", "no"], answer="yes", type=each[:-1])  # type: ignore[arg-type]
            for each in said.split()
        ]
        right += hits
    assert captions == {"coco_301091": 1, "drawbench_52": 0.625}
    assert fmean(captions.values()) == 0.8125
    assert stdev(captions.values()) == pytest.approx(0.2651650429449553)
    assert by_type(asked, right) == {
        "activity": 1,
        "animal/human": 0.75,
        "color": 1,
        "counting": 1 / 3,
        "location": 1,
        "object": 1,
    }


def test_what_tifa_calls_spearman_is_pearson() -> None:
    """Its notebook uses numpy.corrcoef; our SRCC is the rank correlation, which a monotone bend does not change."""
    import numpy as np

    from titjudge.stats.ranking.correlation import correlation

    x, y = [1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 10.0, 100.0, 1000.0, 10000.0]
    found = correlation(x, y, resamples=10)
    assert found.srcc == pytest.approx(1)
    assert found.plcc == pytest.approx(float(np.corrcoef(x, y)[0, 1]))
    assert found.plcc < 0.9
