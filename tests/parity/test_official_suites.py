"""Our tables beside those of the official code of seven suites, on 100 synthetic sets of answers each (`official_code.py`).

    T2I-CoReBench     github.com/KlingAIResearch/T2I-CoReBench
    WISE              github.com/PKU-YuanGroup/WISE
    UniGenBench       github.com/CodeGoat24/UniGenBench
    ELLA              github.com/TencentQQGYLab/ELLA            DPG-Bench
    X-Omni            github.com/X-Omni-Team/X-Omni             LongText-Bench
    geneval           github.com/djghosh13/geneval              `suites aggregate geneval`
    GenEval2          github.com/facebookresearch/GenEval2      (needs torch and scipy)
    OneIG-Benchmark   github.com/OneIG-Bench/OneIG-Benchmark

Answers are made with all that judges write: refusals, other words, numbers off the scale, lists of the wrong length.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import copy
import csv
import io
import itertools
import json
import math
import os
import random
import re
import shutil
import sys
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from official_code import functions, module, official, strings, template

from titjudge.core import registry
from titjudge.core.answer_probabilities import FirstToken, probabilities, tokens_by_choice
from titjudge.core.errors import Unanswered
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import InvalidItem, Item, Reply, Score, Status, Table
from titjudge.suites.base import SuiteInputs
from titjudge.suites.geneval_results import TASKS, aggregate_results

SETS = 100
NEAR = 1e-9
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::pytest.PytestUnraisableExceptionWarning"
    ),  # files that official code leaves open
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
Answer = Callable[[Item, Mapping[str, Any]], str | FirstToken | None]


class Scripted:
    """Answers as a function says; None is a refusal."""

    siblings = ()

    def __init__(self, item: Item, answer: Answer, protocol: str) -> None:
        self.item, self.answer, self.protocol = item, answer, protocol

    async def __call__(self, template: str, *, sample: int = 0, **given: Any) -> Reply:
        text = self.answer(self.item, {**given, "sample": sample})
        if isinstance(text, FirstToken):
            return Reply("", probabilities=probabilities(text, tokens_by_choice(given["choices"])))
        if text is None:
            raise Unanswered(Status.REFUSED, "refused")
        return Reply(text)


def judged(name: str, data: Path, answer: Answer, protocol: str = "official", **options: Any) -> list[Table]:
    """The tables of a suite whose judge answers as `answer` says."""
    suite = registry.load("suites", name)(SuiteInputs(protocol), **options)
    items = [item for item in suite.load(data) if not isinstance(item, InvalidItem)]
    scores = asyncio.run(_scores(suite, items, answer, protocol))
    found: list[Table] = suite.aggregate(items, scores)
    return found


async def _scores(suite: Any, items: list[Item], answer: Answer, protocol: str) -> list[Score]:
    scores = []
    metrics = [(name, registry.load("metrics", name)) for name in suite.metrics]
    for item, (name, metric) in itertools.product(items, metrics):
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


# -- UniGenBench++ -----------------------------------------------------------------------------------------------------

POINTS = ["Style", "Attribute - Color", "Attribute - Size", "Entity Layout - Two-Dimensional Space", "World Knowledge"]


def _unigenbench(rng: random.Random, count: int) -> str | None:
    marks: list[Any] = [rng.randint(0, 1) for _ in range(count)]
    analysis = ['it\'s "fine"', *["ok"] * (count - 1)]
    odd = rng.random()
    if odd < 0.3:
        marks[0] = rng.choice([True, None, "1", 1.0, 0.5, 2, [1]])
    elif odd < 0.4:
        marks = marks[1:]
    elif odd < 0.5:
        analysis = [*analysis, "more"]
    shown: Any = rng.choice([marks, marks, marks, tuple(marks), dict.fromkeys(range(count), 1), "1" * count])
    text = f"<description><analysis>{analysis!r}</analysis>\n<score> {shown!r} </score></description>"
    return rng.choice([text, text, text, text, text.replace("</score>", ""), text.replace("[", "[["), None])


def test_unigenbench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pandas")
    theirs = module(official("UniGenBench/eval/src/eval_common.py"), "official_unigenbench")
    monkeypatch.chdir(tmp_path)
    asked: dict[tuple[str, int], str | None] = {}
    tried: Counter[str] = Counter()

    def evaluate_batch(payload: list[dict[str, Any]], url: str) -> list[dict[str, Any]]:
        name = Path(payload[0]["images"][0]).stem
        text = asked[name, tried[name]]
        tried[name] += 1
        return [{"success": text is not None, "model_output": text}]

    request = types.ModuleType("vllm_request")
    request.evaluate_batch = evaluate_batch  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm_request", request)
    pool = types.SimpleNamespace(imap=map, close=lambda: None, join=lambda: None)
    monkeypatch.setattr(theirs, "Pool", lambda processes: pool)
    for seed in range(SETS):
        rng = random.Random(seed)
        asked.clear()
        tried.clear()
        table = io.StringIO()
        write = csv.writer(table)
        write.writerow(["index", "prompt_en", "sub_dims_en"])
        for index in range(3):
            points = rng.sample(POINTS, rng.randint(1, 4))
            told = {"Testpoints": points, "Testpoint Description": [f"d{n}" for n in range(len(points))]}
            write.writerow([index, f"prompt {index}", json.dumps({"Primary Categories": "a", "Subjects": "b", **told})])
            for k in range(2):
                picture(tmp_path / f"images/gen/{index}_{k}.png")
                asked |= {(f"{index}_{k}", n): _unigenbench(rng, len(points)) for n in range(11)}
                if rng.random() < 0.2:
                    asked |= {(f"{index}_{k}", n): "no marks" for n in range(11)}
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data/test_prompts_en.csv").write_text(table.getvalue(), encoding="utf-8")
        theirs.run_evaluation("images/gen", "data/test_prompts_en.csv", "en", "vllm", api_url="x", images_per_prompt=2)
        wanted = theirs.calculate_scores("results/gen_en.csv")

        def answer(item: Item, given: Mapping[str, Any], asked: Any = asked) -> str | None:
            text = asked[Path(item.id).stem, given["sample"]]
            return "" if text is None else str(text)

        tables = judged("unigenbench", tmp_path, answer)
        for ours, key in ((row(tables[0]), "primary_dimensions"), (row(tables[1]), "sub_dimensions")):
            exact = {name.strip(): 100 * each["correct"] / each["total"] for name, each in wanted[key].items()}
            assert {
                name: value
                for name, value in ours.items()
                if name in {p.split("-")[0].strip() for p in POINTS} | {*POINTS}
            } == (pytest.approx(exact, abs=NEAR)), (seed, key)
    capsys.readouterr()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_prompts_of_unigenbench(language: str) -> None:
    theirs = module(official("UniGenBench/eval/src/eval_common.py"), "official_unigenbench")
    points = list(theirs.LANG_CONFIGS[language]["explanation_dict"])
    asked = [{"category": point, "question": f"about {n}", "most": 1.0} for n, point in enumerate(points)]
    wanted = theirs.build_system_prompt("a <b> prompt", points, [each["question"] for each in asked], language)
    name = {"en": "unigenbench/english", "zh": "unigenbench/chinese"}[language]
    (turn,) = PromptLibrary().get(name).messages({"prompt": "a <b> prompt", "fields": {}, "questions": asked})
    assert turn.text == wanted


# -- DPG-Bench ---------------------------------------------------------------------------------------------------------


def test_dpg_bench(tmp_path: Path) -> None:
    pd, np = pytest.importorskip("pandas"), pytest.importorskip("numpy")
    file = official("ELLA/dpg_bench/compute_dpg_bench.py")
    said: dict[tuple[str, int, str], str] = {}
    boxes = {(0, 0): 0, (8, 0): 1, (0, 8): 2, (8, 8): 3}

    class Image:
        @staticmethod
        def open(path: str) -> Any:
            return types.SimpleNamespace(crop=lambda box: (Path(path).stem, boxes[box[:2]]))

    process = types.SimpleNamespace(
        is_main_process=True, device="cpu", num_processes=1, process_index=0, prepare=lambda model: model,
        wait_for_everyone=lambda: None,
    )  # fmt: skip
    judge = types.SimpleNamespace(vqa=lambda image, question: said[(*image, question)])
    args = argparse.Namespace(vqa_model="mplug", resolution=8, pic_num=4, csv=str(tmp_path / "dpg_bench.csv"))
    args.image_root_path, args.res_path = str(tmp_path / "grids"), str(tmp_path / "out.txt")
    theirs = functions(
        file, "prepare_dpg_data", "crop_image", "compute_dpg_one_sample", "main", parse_args=lambda: args, os=os,
        osp=os.path, pd=pd, np=np, Image=Image, Accelerator=lambda: process, gather_object=list, tqdm=list,
        MPLUG=lambda device: judge, defaultdict=defaultdict, print=lambda *_: None,
        time=types.SimpleNamespace(time=int, localtime=int, strftime=lambda *_: "", sleep=lambda _: None),
    )  # fmt: skip
    (tmp_path / "grids").mkdir()
    dropped = 0
    for seed in range(SETS):
        rng = random.Random(seed)
        said.clear()
        table = io.StringIO()
        write = csv.writer(table)
        write.writerow(["item_id", "text", "proposition_id", "dependency", "tuple", "question_natural_language"])
        for n in range(3):
            name, count = f"prompt{n}", rng.randint(3, 6)
            picture(tmp_path / f"grids/{name}.png")
            for q in range(1, count + 1):
                above = sorted(rng.sample(range(1, count + 1), rng.randint(0, 2)), key=lambda _: rng.random())
                parents = ", ".join(str(each) for each in above if each != q and (n or q > 1)) or "0, 0"
                kind = rng.choice(["entity - whole", "attribute - color", "relation - spatial", "global"])
                write.writerow([name, f"text {n}", q, parents, f"{kind} (a-b)", f"Is {q} there?"])
                said |= {(name, k, f"Is {q} there?"): rng.choice(["yes", "yes", "yes", "no", "red"]) for k in range(4)}
            for k in range(4):
                picture(tmp_path / f"images/gen/{name}_{k}.png")
        (tmp_path / "dpg_bench.csv").write_text(table.getvalue(), encoding="utf-8")
        theirs["main"]()
        text = (tmp_path / "out.txt").read_text()
        wanted = float(text.rpartition("DPG-Bench score: ")[2])
        level1, level2 = text.partition("L1 category scores:\n")[2].split("L2 category scores:\n")
        tables = judged(
            "dpg-bench", tmp_path, lambda item, given, said=said: said[item.prompt_id, item.sample, given["question"]]
        )
        ours = row(tables[0])
        if math.isnan(wanted):
            assert ours["overall"] is None
            continue
        dropped += ours["scored"] < 12
        assert ours["overall"] == pytest.approx(wanted, abs=NEAR), seed
        for shown, table_ in ((level1, tables[1]), (level2, tables[2])):
            for name, value in re.findall(r"\t(.+): (.+)\n", shown):
                assert row(table_)[name] == pytest.approx(float(value), abs=NEAR), (seed, name)
    assert dropped  # the slip of the first row


# -- LongText-Bench ----------------------------------------------------------------------------------------------------

WORDS = {
    "en": ["Fresh", "BREWS,", "every", "Day!", "café", "2023", "No", "text"],
    "zh": ["每日", "新鲜烘焙", "，", "A1", "公里"],
}


def _reading(rng: random.Random, words: list[str]) -> str:
    text = " ".join(rng.choices(words, k=rng.randint(0, 8)))
    return rng.choice(
        [text, text.upper(), f"{text}\naddCriterion", "No text recognized", "No text recognized.", f'"{text}"']
    )


@pytest.mark.parametrize("mode", ["en", "zh"])
def test_longtext_bench(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = compile(official("X-Omni/textbench/summary_scores.py").read_text(encoding="utf-8"), "summary", "exec")
    name = "clean_and_remove_hallucinations"
    clean = functions(official("X-Omni/textbench/evaluate_text_reward.py"), name)[name]
    file = tmp_path / ("text_prompts.jsonl" if mode == "en" else "text_prompts_zh.jsonl")
    for seed in range(SETS):
        rng = random.Random(seed)
        prompts = [
            {"prompt_id": n, "prompt": f"p{n}", "text": [*rng.choices(WORDS[mode], k=2), "x1"], "category": "sign"}
            for n in range(3)
        ]
        file.write_text("\n".join(map(json.dumps, prompts)), encoding="utf-8")
        said = {f"{n:04}_{k}": _reading(rng, WORDS[mode]) for n in range(3) for k in (1, 2)}
        for each in said:
            picture(tmp_path / f"images/gen/{each}.png")
        lines = [{"ocr_gt": prompts[int(each[:4])]["text"], "ocr_results": clean(text)} for each, text in said.items()]
        (tmp_path / "results.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        monkeypatch.setattr(sys, "argv", ["script", str(tmp_path / "results.jsonl"), "--mode", mode])
        theirs: dict[str, Any] = {"print": lambda *_: None}
        exec(script, theirs)
        tables = judged("longtext-bench", tmp_path, lambda item, _, said=said: said[Path(item.id).stem],
                        variant="zh" if mode == "zh" else "")  # fmt: skip
        assert row(tables[0])["text score"] == pytest.approx(theirs["match_score"], abs=NEAR), seed


def test_the_prompt_of_longtext_bench_and_oneig() -> None:
    assert template("text_reading/read") in strings(official("X-Omni/textbench/evaluate_text_reward.py"))
    theirs = strings(official("OneIG-Benchmark/scripts/utils/inference.py"))
    assert template("text_reading/read") in theirs
    assert template("oneig/question") in theirs


# -- OneIG-Bench -------------------------------------------------------------------------------------------------------


def _oneig_folder(place: Path, mode: str) -> None:
    """The tables of OneIG-Bench without a prompt; tests write those of their task over them."""
    end = "" if mode == "EN" else "_zh"
    for name in ("anime", "human", "object", "multilingualism"):
        write_json(place / f"scripts/alignment/Q_D/{name}{end}.json", {})
    write_json(place / f"scripts/reasoning/gt_answer{end}.json", {})
    (place / "scripts/text").mkdir(parents=True, exist_ok=True)
    (place / f"scripts/text/text_content{end}.csv").write_text(",id,text_content\n")
    column = "prompt_en" if mode == "EN" else "prompt_cn"
    rows = [
        f"{kind},{n:03},a prompt,NP,{length}"
        for kind in ("Anime_Stylization", "Portrait", "Text_Rendering")
        for n, length in enumerate(("short", "long", "long"))
    ]
    head = f"category,id,{column},type,prompt_length"
    (place / f"OneIG-Bench{'' if mode == 'EN' else '-ZH'}.csv").write_text("\n".join([head, *rows]))


def _official_oneig(path: str, mode: str, monkeypatch: pytest.MonkeyPatch, place: Path, **given: Any) -> Any:
    """Run one script of OneIG-Bench; returns a function that gives the tables that it saves."""
    pd = pytest.importorskip("pandas")
    monkeypatch.chdir(place)
    saved: list[Any] = []
    args = argparse.Namespace(
        mode=mode, image_dirname="images", model_names=["gen"], image_grid=["2,2"], class_items=["anime", "human"]
    )
    names = [
        node.name
        for node in ast.parse(official(path).read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    ]
    theirs = functions(
        official(path), *names, pd=pd, os=os, json=json, shutil=shutil, deepcopy=copy.deepcopy, parse_args=lambda: args,
        megfile=types.SimpleNamespace(smart_glob=lambda pattern: [pattern[:-1]]), tqdm=lambda found, **_: found,
        save2csv=lambda table, _: saved.append(table), formatted_time="now", on_rm_error=None, print=lambda *_: None,
        split_mxn_grid=lambda path, grid, cache: [f"{path}_{k}" for k in range(4)], **given,
    )  # fmt: skip

    def run() -> list[Any]:
        saved.clear()
        theirs["main"]()
        return saved

    return run


def test_oneig_alignment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: dict[tuple[str, str], str] = {}
    judge = types.SimpleNamespace(infer_semantic=lambda paths, question: [said[path, question] for path in paths])
    path = "OneIG-Benchmark/scripts/alignment/alignment_score.py"
    theirs = _official_oneig(path, "EN", monkeypatch, tmp_path, inferencer=judge)
    _oneig_folder(tmp_path, "EN")
    for seed in range(SETS):
        rng = random.Random(seed)
        for kind in ("anime", "human"):
            entries = {}
            for n in range(3):
                count = rng.randint(1, 5)
                asked = {str(q): f"Is {q} of {n} there?" for q in range(1, count + 1)}
                above = {q: sorted({0} if rng.random() < 0.4 else {rng.randint(1, count)} - {int(q)}) for q in asked}
                entries[f"{n:03}"] = {"question": json.dumps(asked), "dependency": json.dumps(above)}
                for k in range(4):
                    picture(tmp_path / f"images/{kind}/gen/{n:03}_{k}.webp")
                    for question in asked.values():
                        answer = rng.choice(["Yes", "Yes", "Yes", "No", "yes", "Yes."])
                        said[f"images/{kind}/gen/{n:03}_{k}", question] = answer
            write_json(tmp_path / f"scripts/alignment/Q_D/{kind}.json", entries)
        overall, prompts = theirs()
        tables = judged("oneig-bench", tmp_path, lambda item, given: said[f"images/{item.id[:-5]}", given["question"]])
        ours = row(tables[0])
        assert ours["overall"] == pytest.approx(overall.loc["gen", "alignment"], abs=NEAR), seed
        by_class = prompts["gen"].astype(float).groupby(prompts.index.str.split("_").str[0]).mean()
        assert (ours["anime"], ours["human"]) == pytest.approx((by_class["anime"], by_class["human"]), abs=NEAR)


@pytest.mark.parametrize("mode", ["EN", "ZH"])
def test_oneig_text(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numpy")
    tools = module(official("OneIG-Benchmark/scripts/text/text_utils.py"), "official_oneig_text")
    said: dict[str, str] = {}
    reader = types.SimpleNamespace(infer_ocr=lambda paths, tokens: [said[path] for path in paths])
    names = (
        "preprocess_string",
        "clean_and_remove_hallucinations",
        "levenshtein_distance",
        "calculate_char_match_ratio",
    )
    theirs = _official_oneig(
        "OneIG-Benchmark/scripts/text/text_score.py", mode, monkeypatch, tmp_path,
        Qwen2_5VLBatchInferencer=lambda _: reader, **{name: getattr(tools, name) for name in names},
    )  # fmt: skip
    _oneig_folder(tmp_path, mode)
    words = WORDS["en" if mode == "EN" else "zh"]
    for seed in range(SETS):
        rng = random.Random(seed)
        table = io.StringIO()
        write = csv.writer(table)
        write.writerow(["", "id", "text_content"])
        for n in range(3):
            texts = [" ".join(rng.choices(words, k=2)), rng.choice(["it's", "two\nlines", 'a "quote"'])]
            write.writerow([n, f"{n:03}", repr(texts)])
            for k in range(4):
                picture(tmp_path / f"images/text/gen/{n:03}_{k}.webp")
                told = rng.choice([" ".join(texts), repr(texts), _reading(rng, words)])
                said[f"images/gen/{n:03}_{k}"] = told
        end = "" if mode == "EN" else "_zh"
        (tmp_path / f"scripts/text/text_content{end}.csv").write_text(table.getvalue(), encoding="utf-8")
        overall, _ = theirs()
        tables = judged("oneig-bench", tmp_path, lambda item, _: said[f"images/{item.id[5:-5]}"], variant=mode)
        ours = row(tables[0])
        for column in ("ED", "CR", "WAC", "text score"):
            assert ours[column] == pytest.approx(overall.loc["gen", column], abs=NEAR), (seed, column)


# -- GenEval and GenEval 2 ---------------------------------------------------------------------------------------------


def test_geneval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    file = official("geneval/evaluation/summary_scores.py")
    script = compile(file.read_text(encoding="utf-8"), "summary", "exec")
    for seed in range(SETS):
        rng = random.Random(seed)
        lines = []
        for n in range(rng.randint(1, 9)):
            tag = rng.choice(TASKS)
            metadata = json.dumps({"tag": tag, "prompt": f"prompt {n}"})
            for k in range(rng.randint(1, 4)):
                correct = rng.random() < 0.5
                lines.append({"filename": f"{n}/{k}.png", "tag": tag, "correct": correct, "metadata": metadata})
        (tmp_path / "results.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        monkeypatch.setattr(sys, "argv", ["script", str(tmp_path / "results.jsonl")])
        theirs: dict[str, Any] = {"print": lambda *_: None, "__file__": str(file)}
        exec(script, theirs)
        ours = aggregate_results([tmp_path / "results.jsonl"])[0]["results"]
        frame = theirs["df"]
        assert ours["overall"] == pytest.approx(theirs["np"].mean(theirs["task_scores"]), abs=NEAR), seed
        assert list(ours["tasks"].values()) == pytest.approx(theirs["task_scores"], abs=NEAR), seed
        assert ours["images_correct"] == pytest.approx(frame["correct"].mean(), abs=NEAR)
        assert ours["prompts_any"] == pytest.approx(frame.groupby("metadata")["correct"].any().mean(), abs=NEAR)


TOKENS = [
    *("Yes", "yes", " yes", " Yes", "YES", "No", " ", "other", " other", "4", "7", "2", "two", "Two", " two", " Two"),
    *("four", "Four", " four", " Four", "seven", "Seven", " seven", " Seven", "dozen", " dozen", "Dozen", " Dozen"),
]


def test_geneval2(tmp_path: Path) -> None:
    torch, scipy = pytest.importorskip("torch"), pytest.importorskip("scipy.stats")
    file = official("GenEval2/evaluation.py")
    logits: dict[tuple[str, str], list[float]] = {}

    class Processor:
        """A tokenizer that keeps words whole and splits a digit from its blank, as Qwen's does."""

        tokenizer = types.SimpleNamespace(
            encode=lambda text: [TOKENS.index(text if text in TOKENS else " " if text[0] == " " else "other")]
        )
        batch_decode = staticmethod(lambda tokens: [TOKENS[int(tokens[0])]])

        @staticmethod
        def apply_chat_template(messages: list[Any], **_: Any) -> Any:
            image, text = messages[0]["content"]
            asked = logits[image["image"], text["text"].removesuffix(" Answer in one word.")]

            class Inputs(dict[str, Any]):
                def to(self, _: Any) -> Inputs:
                    return self

            return Inputs(scores=asked)

    model = types.SimpleNamespace(
        device="cpu",
        generate=lambda scores, **_: types.SimpleNamespace(scores=[torch.tensor([scores], dtype=torch.float64)]),
    )
    names = ("return_numeric_string", "construct_message_with_image", "send_message_with_image", "soft_tifa")
    theirs = functions(file, *names, torch=torch, qwen_processor=Processor, qwen_model=model)
    analysis = functions(
        official("GenEval2/soft_tifa_analysis.py"), "per_skill_analysis", "per_atomicity_analysis", gmean=scipy.gmean
    )
    skills = ["object", "count", "position", "verb", "attribute"]
    for seed in range(SETS):
        rng = random.Random(seed)
        rows, lists = [], []
        for n, atoms in enumerate(range(3, 11)):
            number = rng.choice(["two", "four", "seven", "dozen"])
            asked = [["How many cars are in the image?", number], *([f"Is {q} there?", "Yes"] for q in range(4))]
            order = ["count", *rng.sample([each for each in skills if each != "count"], 4)]
            rows.append({"prompt": f"prompt {n}", "atom_count": atoms, "vqa_list": asked, "skills": order})
            picture(tmp_path / f"images/gen/{n}.png")
            for question, _ in asked:
                logits[f"gen/{n}.png", question] = [rng.gauss(0, 4) for _ in TOKENS]
            lists.append(theirs["soft_tifa"](asked, f"gen/{n}.png")[1])
        (tmp_path / "geneval2_data.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")

        def answer(item: Item, given: Mapping[str, Any]) -> FirstToken:
            scores = logits[item.id, given["question"]]
            whole = math.log(math.fsum(map(math.exp, scores)))
            return FirstToken(tuple((token, score - whole) for token, score in zip(TOKENS, scores, strict=True)))

        tables = judged("geneval2", tmp_path, answer)
        by_atoms = analysis["per_atomicity_analysis"](lists, [each["atom_count"] for each in rows])
        for atoms, each in by_atoms.items():
            assert row(tables[0])[str(atoms)] == pytest.approx(each["accuracy"], abs=NEAR), seed
        assert row(tables[0])["overall"] == pytest.approx(100 * sum(map(scipy.gmean, lists)) / 8, abs=NEAR)
        assert row(tables[1])["overall"] == pytest.approx(100 * sum(sum(each) / 5 for each in lists) / 8, abs=NEAR)
        by_skill = analysis["per_skill_analysis"](lists, [each["skills"] for each in rows])
        ours = row(tables[2])
        found = [ours[name] for name in ("object", "attribute", "count", "position", "verb")]
        assert found == pytest.approx(list(by_skill), abs=NEAR), seed


def test_the_prompt_of_geneval2() -> None:
    assert template("geneval2/question").format("{}") in strings(official("GenEval2/evaluation.py"))
