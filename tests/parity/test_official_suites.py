"""Our tables beside those of the official code of seven suites, on 100 synthetic sets of answers each (`official_code.py`).

    T2I-CoReBench     github.com/KlingAIResearch/T2I-CoReBench
    WISE              github.com/PKU-YuanGroup/WISE

Answers are made with all that judges write: refusals, other words, numbers off the scale, lists of the wrong length.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import os
import random
import re
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from official_code import functions, official, strings, template

from titjudge.core import registry
from titjudge.core.errors import Unanswered
from titjudge.core.types import InvalidItem, Item, Reply, Score, Status, Table

SETS = 100
NEAR = 1e-9
pytestmark = pytest.mark.slow
Answer = Callable[[Item, Mapping[str, Any]], str | None]


class Scripted:
    """Answers as a function says; None is a refusal."""

    dry_run = None
    siblings = ()

    def __init__(self, item: Item, answer: Answer, protocol: str) -> None:
        self.item, self.answer, self.protocol = item, answer, protocol

    async def __call__(self, template: str, *, sample: int = 0, **given: Any) -> Reply:
        text = self.answer(self.item, {**given, "sample": sample})
        if text is None:
            raise Unanswered(Status.REFUSED, "refused")
        return Reply(text)


def judged(name: str, data: Path, answer: Answer, protocol: str = "official", **options: Any) -> list[Table]:
    """The tables of a suite whose judge answers as `answer` says."""
    suite = registry.load("suites", name)(**options)
    suite.protocol = protocol
    items = [item for item in suite.load(data) if not isinstance(item, InvalidItem)]
    scores = [score for item in items for score in asyncio.run(_scores(suite, item, answer, protocol))]
    found: list[Table] = suite.aggregate(items, scores)
    return found


async def _scores(suite: Any, item: Item, answer: Answer, protocol: str) -> list[Score]:
    scores = []
    for name in suite.metrics:
        metric = registry.load("metrics", name)
        if not metric.applies(item):
            continue
        try:
            score = await metric(item, Scripted(item, answer, protocol))
        except Unanswered as error:
            score = Score.none(error.status, error.reason)
        scores.append(
            Score(item.id, name, score.value, score.status, score.reason, json.loads(json.dumps(score.parts)))
        )
    return scores


def row(table: Table, generator: str = "gen") -> dict[str, Any]:
    """A generator's row of a table, by column."""
    return next(dict(zip(table.columns, each, strict=True)) for each in table.rows if each[0] == generator)


def picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"not looked at")


def write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


# -- T2I-CoReBench -----------------------------------------------------------------------------------------------------

YES_NO = ["yes", "no", "Yes", "NO.", "no, yes", "unsure", "", None, "**yes**", "eyes", "not really", "know"]


def test_t2i_corebench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = official("T2I-CoReBench/evaluate.py")
    monkeypatch.chdir(tmp_path)
    said: dict[tuple[str, str], str | None] = {}

    class Models:
        def generate_content(self, *, contents: list[Any], **_: Any) -> Any:
            question = re.findall(r'Question: "(.*)"', contents[1])[-1]
            return types.SimpleNamespace(text=said[contents[0], question])

    genai, kinds = types.ModuleType("google.genai"), types.ModuleType("google.genai.types")
    genai.Client = lambda **_: types.SimpleNamespace(models=Models())  # type: ignore[attr-defined]
    kinds.HttpOptions = kinds.GenerateContentConfig = lambda **_: None  # type: ignore[attr-defined]
    kinds.Part = types.SimpleNamespace(from_bytes=lambda data, mime_type: data.decode())  # type: ignore[attr-defined]
    package = types.ModuleType("google")
    package.genai = genai  # type: ignore[attr-defined]
    for name, fake in (("google", package), ("google.genai", genai), ("google.genai.types", kinds)):
        monkeypatch.setitem(sys.modules, name, fake)
    text = next(each for each in strings(file) if "AI quality auditor" in each)
    theirs = functions(
        file, "start_evaluation_gemini", TEMPLATE=text, os=os, re=re, json=json, copy=copy, print=lambda *_: None,
        tqdm=lambda found, **_: found,
        PromptImageDataset=lambda place, names, data: [
            (name[:-4], f"{place}/{name}", data["-".join(name.split("-")[:3])]) for name in names
        ],
    )["start_evaluation_gemini"]  # fmt: skip
    for seed in range(SETS):
        rng = random.Random(seed)
        data = {
            f"C-MI-{n:03}": {
                "Main Class": "Composition", "Sub Class": "Multi-Instance", "Prompt": f"prompt {n}",
                "Checklist": [{"question": f"Is {q} there?", "tags": ["a"]} for q in range(rng.randint(1, 4))],
            }
            for n in range(1, rng.randint(2, 4))
        }  # fmt: skip
        write_json(tmp_path / "data/C-MI.json", data)
        for path in (tmp_path / "logs").rglob("*.png"):
            path.unlink()
        for name, record in data.items():
            for k in range(rng.randint(1, 2)):
                path = tmp_path / f"logs/gen/C-MI/{name}-{k}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"{name}-{k}")
                said |= {(f"{name}-{k}", each["question"]): rng.choice(YES_NO) for each in record["Checklist"]}
        args = argparse.Namespace(model="gen", gen_eval_file="C-MI", output_path="logs", mllm="judge", update=True)
        (tmp_path / "logs/gen/C-MI-judge.json").unlink(missing_ok=True)
        theirs(args, ("model", "key"), batch_size=2)
        wanted = json.loads((tmp_path / "logs/gen/C-MI-judge.json").read_text())["mean_score"]
        tables = judged(
            "t2i-corebench",
            tmp_path,
            lambda item, given, said=said: said[Path(item.id).stem, given["question"]] or None,
        )
        found = row(tables[0]).get("C-MI")
        assert (found is None) == (wanted == ""), seed
        if found is not None:
            assert found == pytest.approx(100 * wanted, abs=NEAR), seed
            assert row(tables[0])["overall"] == found


def test_the_prompt_of_t2i_corebench() -> None:
    file = official("T2I-CoReBench/evaluate.py")
    text = next(each for each in strings(file) if "AI quality auditor" in each)
    assert template("t2i_corebench/question") == f'{text}\nPrompt: "{{}}"\nQuestion: "{{}}"'.strip()
    assert 'Prompt: "{}"\nQuestion: "{}"' in strings(file)


# -- WISE --------------------------------------------------------------------------------------------------------------


def _wise(rng: random.Random, labels: list[str], most: int) -> str | None:
    """A judge's reply: as asked, with marks, twice, as bare numbers, or of no use."""
    lines = [f"{label}: {rng.randint(0, most)}" for label in labels]
    return rng.choice(
        [
            "\n".join(lines),
            "\n".join(f"**{line.replace(':', '**:')}" for line in lines),
            "\n".join([*lines, f"{labels[0]}: {rng.randint(0, most)}"]).upper(),
            "\n".join(str(rng.randint(0, most)) for _ in labels),
            "\n".join(lines[1:]) + "\nfine",
            "I would say 1.",
            None,
        ]
    )


@pytest.mark.parametrize("name", ["wise", "wise-verified"])
def test_wise(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    verified = name == "wise-verified"
    judge = official("WISE/vllm_eval.py" if verified else "WISE/WISE_legacy/gpt_eval.py")
    script = official("WISE/calculate_verified.py" if verified else "WISE/WISE_legacy/Calculate.py")
    extract = functions(judge, "extract_scores", re=re)["extract_scores"]
    calculate: dict[str, Any] = {"__name__": "calculate"}
    exec(script.read_text(encoding="utf-8"), calculate)
    labels, most = (["Score"], 1) if verified else (["Consistency", "Realism", "Aesthetic Quality"], 2)
    ids = [1, 7, 400, 401, 450, 521, 600, 640, 641, 700, 701, 761, 800, 881, 950, 1000]
    calculate["EXPECTED_PROMPT_RANGES"]["all"] = ids  # the test's prompts in the place of all 1,000
    place = tmp_path / ("data_verified" if verified else "data")
    records = [{"prompt_id": n, "Prompt": f"p{n}", "Explanation": "e", "Subcategory": "s"} for n in ids]
    write_json(place / ("all_verified.json" if verified else "natural_science.json"), records)
    for n in ids:
        picture(tmp_path / f"images/gen/{n}.png")
    for seed in range(SETS):
        rng = random.Random(seed)
        replies = {(n, k): _wise(rng, labels, most) for n in ids for k in range(3)}
        lines = [{"prompt_id": n} for n in ids]  # without numbers, so that no prompt is missing
        for n in ids:
            for k in range(3):
                given = extract(replies[n, k] or "")
                if len(given) == len(labels):
                    lines.append({"prompt_id": n, **given})
                    break
        (tmp_path / "scores.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        monkeypatch.setattr(sys, "argv", ["script", str(tmp_path / "scores.jsonl")])
        exact = _averages(calculate)

        def answer(item: Item, given: Mapping[str, Any], replies: Any = replies) -> str | None:
            text = replies[int(item.prompt_id), given["sample"]]
            return "" if text is None else str(text)

        found = row(judged(name, tmp_path, answer)[0])
        for category, value in exact.items():
            assert found.get(category) == pytest.approx(value, abs=NEAR), (seed, category)
    capsys.readouterr()


def _averages(calculate: dict[str, Any]) -> dict[str, float]:
    """What the script averages, before it rounds for its table."""
    seen: dict[str, Any] = {}

    def profile(frame: Any, event: str, argument: Any) -> None:
        if frame.f_code.co_name == "main" and event == "return":
            seen.update(frame.f_locals)

    sys.setprofile(profile)
    try:
        calculate["main"]()
    finally:
        sys.setprofile(None)
    overall = {"overall": seen["overall_wiscore"]} if "overall_wiscore" in seen else {}
    return {**seen["overall_avg_scores"], **overall}


def test_the_prompts_of_wise() -> None:
    for name, path in (("wise/verified", "vllm_eval.py"), ("wise/legacy", "WISE_legacy/gpt_eval.py")):
        assert template(name) in {each.strip() for each in strings(official(f"WISE/{path}"))}
