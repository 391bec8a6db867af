"""A panel's votes make the tables of a suite too: each cell is joined as the votes themselves are."""

import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import suite_data
from tiny_models import picture

from tests.kit import Scripted, Server
from titjudge.core.config import load_config
from titjudge.engine.scoring import joined
from titjudge.runs.session import Session

WISE = "Consistency: {}\nRealism: 1\nAesthetic Quality: 2"
PLACES = {"longtext": "{:04}_1.png", "geneval2": "{}.png", "wise": "{}.png", "dpg": "{}.png"}


@pytest.mark.parametrize("judges", [2, 1])
@pytest.mark.parametrize(
    ("written", "names", "said", "title", "cells"),
    [
        (suite_data.geneval2, (0, 1), ("Yes", "Yes"), "GenEval 2: Soft-TIFA AM (atoms)", {"overall": 60.0}),
        (suite_data.geneval2, (0, 1), ("Yes", "Yes"), "GenEval 2: Soft-TIFA AM by skill", {"object": 60.0}),
        (suite_data.longtext, (0, 1), ("STOP", "GO"), "LongText-Bench", {"text score": 0.5}),
        (suite_data.wise, (1, 410, 701), (WISE.format(2), WISE.format(1)), "WISE: means", {"consistency": 1.5}),
        (suite_data.dpg, ("7",), ("yes", "no"), "DPG-Bench: categories", {"entity": 50.0}),
    ],
)  # fmt: skip
def test_tables_are_of_all_judges_and_of_all_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judges: int, written: Callable[[Path], tuple[str, ...]],
    names: tuple[Any, ...], said: tuple[str, str], title: str, cells: dict[str, float],
) -> None:  # fmt: skip
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    data = tmp_path / "data"
    data.mkdir()
    _, suite = written(data)
    (data / "images/gen").mkdir(parents=True)
    for at, name in enumerate(names):
        picture(64, 48, at).save(data / "images/gen" / PLACES[written.__name__].format(name))

    asked = Counter[str]()

    def answer(seen: Any) -> Scripted:
        asked[question := json.dumps(seen.body["messages"])] += 1
        second = asked[question] == 2
        return Scripted(said[second], tops=[("Yes", math.log(0.5 if second else 0.7))])

    with Server(answer) as server:
        first, *others = [{"model": f"openai/{name}", "base_url": server.openai} for name in ("gpt-4o", "gpt-4.1")]
        votes = {"panel": others} if judges == 2 else {"samples": 2}
        run = {"data": data, "suite": suite, "judge": first, **votes, "out": tmp_path / "run"}
        Session(load_config(None, {**run, "cache": tmp_path / "cache", "report": False})).run()
    tables = json.loads((tmp_path / "run/results.json").read_text())["tables"]
    (table,) = [each for each in tables if each["title"].startswith(title) and "detail" not in each["title"]]
    row = dict(zip(table["columns"], table["rows"][0], strict=True))
    assert {key: row[key] for key in cells} == pytest.approx(cells)


def test_what_has_no_mean_is_left_out() -> None:
    votes = [
        {"am": 0.2, "level1": {"Quality": 1, "Text": 0}, "wanted": 3, "alignment": {"dog": True}, "read": "a"},
        {"am": 0.6, "level1": {"Quality": 0}, "wanted": 3, "alignment": {"dog": False}, "read": "b"},
    ]
    assert joined(votes, "mean") == {"am": pytest.approx(0.4), "wanted": 3, "level1": {"Quality": 0.5, "Text": 0}}
    assert joined([{"am": 0.1}, {}], "mean") == {}
    verdicts = [{"questions": [{"tuple": "dog", "yes": yes}]} for yes in (True, False)]
    assert joined(verdicts, "mean") == {}
    answers = [
        {"questions": [{"question": "A dog?", "answer": each, "counted": 1.0}]} for each in (None, 1.0, 0.0, 1.0)
    ]
    assert joined(answers, "majority") == {"questions": [{"question": "A dog?", "answer": 1.0, "counted": 1.0}]}
