"""Our scores and tables of edits beside those of the official code, on random and adversarial replies (`official_code.py`).

    Step1X-Edit   github.com/stepfun-ai/Step1X-Edit     GEdit-Bench
    ImgEdit       github.com/PKU-YuanGroup/ImgEdit      ImgEdit-Bench Basic and UGE

Where the official code guesses, asks for ever, crashes or takes a number off the scale, there is no score here.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
import math
import random
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from official_code import functions, module, official, strings, template

from titjudge.core import registry
from titjudge.core.errors import Unanswered
from titjudge.core.types import Item, Reply, Score, Status
from titjudge.metrics.imgedit import RATINGS
from titjudge.metrics.viescore_edit import read_ratings
from titjudge.suites.base import SuiteInputs
from titjudge.suites.edit_files import write_gedit, write_imgedit

SETS = 100
NEAR = 1e-9
GEDIT = "Step1X-Edit/GEdit-Bench"
pytestmark = pytest.mark.slow


class Scripted:
    """Answers as a function of template and attempt says; None is a refusal."""

    siblings = ()
    protocol = "official"

    def __init__(self, answer: Callable[[str, int], str | None]) -> None:
        self.answer = answer

    async def __call__(self, template: str, *, sample: int = 0, **given: Any) -> Reply:
        text = self.answer(template, sample)
        if text is None:
            raise Unanswered(Status.REFUSED, "refused")
        return Reply(text)


def scored(metric: str, item: Item, answer: Callable[[str, int], str | None]) -> Score:
    """The score of an item whose judge answers as a function says."""
    try:
        score = asyncio.run(registry.load("metrics", metric)(item, Scripted(answer)))
    except Unanswered as error:
        score = Score.none(error.status, error.reason)
    return Score(item.id, metric, score.value, score.status, score.reason, json.loads(json.dumps(score.parts)))


def edit(name: str, **meta: Any) -> Item:
    return Item(
        f"{name}.png", f"edit {name}", Path(f"{name}.png"), "gen", name, meta, sources=(Path(f"{name}_SRCIMG.png"),)
    )


# -- GEdit-Bench -------------------------------------------------------------------------------------------------------


class NoScore(Exception):
    """The official code would guess, or has asked more often than any judge answers."""


@pytest.fixture
def viescore(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The official `viescore` package, whose guesses are an exception."""
    place = official(f"{GEDIT}/viescore/__init__.py").parent
    pytest.importorskip("regex")
    monkeypatch.syspath_prepend(str(place))
    for name in ("utils", "vie_prompts", "viescore"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(place.parent))
    package = importlib.import_module("viescore")
    utils = importlib.import_module("utils")

    def guess(*_: Any) -> int:
        raise NoScore

    monkeypatch.setattr(utils, "random", types.SimpleNamespace(randint=guess))
    yield package
    for name in ("utils", "vie_prompts", "viescore"):
        sys.modules.pop(name, None)


def viescore_reply(rng: random.Random) -> str:
    """A judge's reply: as asked, or with any of the faults that judges' replies have."""
    numbers = [rng.randint(0, 10) for _ in range(rng.choice([2, 2, 2, 1, 3]))]
    asked = json.dumps(
        {"score": numbers, "reasoning": rng.choice(["fine", "too: much, {of} it", 'a "b"', "line\nbreak"])}
    )
    return rng.choice(
        [
            asked, asked, asked, f"```json\n{asked}\n```", f"||V^=^V||\n{asked}\n||V^=^V||", asked.replace("\\n", "\n"),
            asked.replace('\\"', '"'), asked.replace(", ", ",\n"), asked + " That is it.", asked[:-1], str(numbers),
            f"The scores are {numbers}.", str(numbers[0]), f"{{score: {numbers[0]}, reasoning: fine}}",
            f'{{"score": {numbers[0]}, "reasoning": fine}}', f'{{"score": {numbers[0]}}}', '{"score": [80, 9]}',
            '{"score": ["8", "9"]}', '{"score": []}', '{"rating": [8, 9]}', "", "I'm sorry, I can't assist with that.",
            f"Score: {numbers[0]}", "}{", "[1, 2] [3, 4]", f"{{'score': {numbers}}}",
        ]
    )  # fmt: skip


def valid(found: Any) -> bool:
    """Whether what the official parser returns is ratings on the scale."""
    ratings = found.get("score") if isinstance(found, dict) else None
    fits = isinstance(ratings, list) and bool(ratings)
    return fits and all(type(rating) in (int, float) and 0 <= rating <= 10 for rating in ratings)


def test_the_parser_of_gedit(viescore: Any, capsys: pytest.CaptureFixture[str]) -> None:
    parse = viescore.mllm_output_to_dict
    rng = random.Random(0)
    for _ in range(30 * SETS):
        text = viescore_reply(rng)
        theirs = parse(text)
        assert read_ratings(text) == (theirs["score"] if valid(theirs) else None), text
    capsys.readouterr()


def official_scores(package: Any, replies: Sequence[tuple[str, str]]) -> list[float]:
    """SC, PQ and O of the official code, whose judge answers the n-th time both questions with the n-th pair of replies.

    Raises:
        NoScore: It would guess, or ask once more.
    """
    judge = package.VIEScore.__new__(package.VIEScore)
    judge.task, judge.backbone_name, judge.SC_prompt, judge.PQ_prompt = "tie", "scripted", "SC <instruction>", "PQ"
    rounds = iter(replies)
    waiting: list[str] = []

    def answer(_: Any) -> str:
        if not waiting:
            waiting.extend(next(rounds))
        return waiting.pop(0)

    judge.model = types.SimpleNamespace(prepare_prompt=lambda *_: None, get_parsed_output=answer)
    while True:  # an error is waited for, and everything asked again
        try:
            return list(judge.evaluate(["source", "edited"], "edit"))
        except StopIteration as error:
            raise NoScore from error
        except (TypeError, ValueError, KeyError):
            continue


def expected_scores(package: Any, replies: Sequence[tuple[str, str]]) -> list[float] | None:
    """The official scores; None where there are none, or are of ratings off the scale."""
    try:
        return official_scores(package, replies)
    except NoScore:
        return None


def test_the_scores_of_gedit(viescore: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(1)
    compared = 0
    for at in range(10 * SETS):
        replies = [(viescore_reply(rng), viescore_reply(rng)) for _ in range(2)]
        if any("80" in text for pair in replies for text in pair):
            continue  # a rating off the scale counts there, and is none here
        expected = expected_scores(viescore, replies)
        score = scored(
            "viescore-edit", edit("a"), lambda name, n, replies=replies: replies[n][name.endswith("quality")]
        )
        if expected is None:
            # the second time the script guesses for a reply without a closing brace, even for `[8, 9]`, which is read here
            assert score.value is None or any("}" not in text for text in replies[1]), (at, replies)
            continue
        assert [score.parts["SC"], score.parts["PQ"], score.value] == pytest.approx(expected, abs=NEAR), (at, replies)
        compared += 1
    assert compared > SETS
    capsys.readouterr()


@pytest.mark.parametrize("language", ["en", "cn"])
def test_the_tables_of_gedit(language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np, pd = pytest.importorskip("numpy"), pytest.importorskip("pandas")
    file = official(f"{GEDIT}/calculate_statistics.py")
    suite = registry.load("suites", "gedit-bench")(SuiteInputs(), variant="" if language == "en" else "cn")
    kinds = suite.spec.tables[0].order
    from collections import defaultdict

    analyze = functions(
        file, "analyze_scores", GROUPS=kinds, defaultdict=defaultdict, np=np, pd=pd, math=math, print=lambda *_: None,
        os=importlib.import_module("os"), megfile=types.SimpleNamespace(smart_open=str),
    )["analyze_scores"]  # fmt: skip
    for seed in range(20):
        rng = random.Random(seed)
        items = [
            edit(f"{kind}{n}", task_type=kind, instruction_language=language, intersection=n == 0 or rng.random() < 0.5)
            for kind, n in itertools.product(kinds, range(rng.randint(2, 4)))
        ]
        scores = []
        for item in items:
            sc, pq = rng.choice([0, 3, 7.5, 10]), rng.randint(0, 10)
            refused = item.prompt_id[-1] != "0" and rng.random() < 0.2
            scores.append(
                Score(item.id, "viescore-edit", None, Status.REFUSED)
                if refused
                else Score(item.id, "viescore-edit", math.sqrt(sc * pq), parts={"SC": sc, "PQ": pq})
            )
        write_gedit(items, scores, tmp_path)
        place = str(tmp_path / "gen/gpt4o/eval_results_new")
        theirs = analyze(place, ["gen"], language="en" if language == "en" else "zh")
        tables = {table.title: table for table in suite.aggregate(items, scores)}
        names = {"SC": "semantic consistency (SC)", "PQ": "perceptual quality (PQ)", "O": "overall (O)"}
        titles = [f"GEdit-Bench{part}: {names[key]}" for part in ("", ", intersection") for key in ("SC", "PQ", "O")]
        for title, found in zip(titles, theirs, strict=True):
            row = dict(zip(tables[title].columns, tables[title].rows[0], strict=True))
            for kind in kinds:
                assert row[kind] == pytest.approx(found["gen"][kind], abs=NEAR), (seed, title, kind)
            (average,) = (value for key, value in found["gen"].items() if key.startswith("avg_"))
            assert row["overall"] == pytest.approx(average, abs=NEAR), (seed, title)


def test_the_prompts_of_gedit() -> None:
    theirs = module(official(f"{GEDIT}/viescore/vie_prompts.py"), "official_vie_prompts")
    context, rule = theirs._context_no_delimit, theirs._prompts_0shot_two_image_edit_rule
    semantics = theirs._prompts_0shot_tie_rule_SC.replace("<instruction>", "{}")
    assert template("viescore/edit_semantics") == "\n".join([context, rule, semantics]).strip()
    assert template("viescore/edit_quality") == "\n".join([context, theirs._prompts_0shot_rule_PQ]).strip()


# -- ImgEdit-Bench -----------------------------------------------------------------------------------------------------


def imgedit_reply(rng: random.Random, names: Sequence[str]) -> str | None:
    """A judge's reply to a rubric: as asked, with lines that the published parser cannot read, or of no use."""
    forms = ["{}: {}"] * 8 + ["**{}: {}**", "{}: {}/5", "{}:{}", "  {}: {}", "{}: {}.", "- {}: {}", "{}: it is: {}"]
    lines = [rng.choice(forms).format(name, rng.randint(1, 5)) for name in names]
    text = "\n".join([f"Brief reasoning: {rng.choice(['fine', 'wrong: 2 legs', 'bad'])}", *lines])
    return rng.choice([text] * 8 + ["I'm sorry, I can't help with that.", "5, 4, 4", None])


@pytest.mark.parametrize("name", ["imgedit-bench", "imgedit-uge"])
def test_imgedit(name: str, tmp_path: Path) -> None:
    basic = name == "imgedit-bench"
    folder = "ImgEdit/Benchmark/Basic" if basic else "ImgEdit/Benchmark/UGE"
    parse = official(f"{folder}/{'step1_get_avgscore' if basic else 'get_average_score'}.py")
    extract = functions(parse, "extract_scores_and_average")
    averages = functions(parse, "compute_averages" if basic else "compute_final_average", **extract)
    suite = registry.load("suites", name)(SuiteInputs("official"))
    for seed in range(SETS):
        rng = random.Random(seed)
        items, scores, replies = [], [], {}
        for n, kind in enumerate(rng.choices(list(RATINGS), k=20)):
            item = edit(str(n), edit_type=kind) if basic else edit(str(n))
            text = imgedit_reply(rng, RATINGS[kind] if basic else ("Score",))
            items.append(item)
            scores.append(scored(suite.spec.metric, item, lambda *_, text=text: text))
            if text is not None:  # a failed request ends the script, so that its record is taken out by hand
                replies[item.prompt_id] = text
        write_imgedit(items, scores, tmp_path)
        written = json.loads((tmp_path / "gen/result.json").read_text())
        found = next(dict(zip(table.columns, table.rows[0], strict=True)) for table in suite.aggregate(items, scores))
        if not basic:
            for given in (replies, written):
                wanted = averages["compute_final_average"](given)
                assert round(found["overall"], 2) == pytest.approx(wanted, abs=0.005 + NEAR), seed
            continue
        by_key = averages["compute_averages"](replies)
        assert by_key == {score.item_id[:-4]: score.value for score in scores if score.value is not None}, seed
        assert averages["compute_averages"](written) == by_key, seed
        types_of = functions(official(f"{folder}/step2_typescore.py"), "compute_edit_type_averages", defaultdict=_lists)
        wanted_types = types_of["compute_edit_type_averages"](
            by_key, {item.prompt_id: dict(item.meta) for item in items}
        )
        for kind, value in wanted_types.items():
            assert found[kind] == pytest.approx(value, abs=0.005 + NEAR), (seed, kind)


def _lists(_: Any) -> dict[Any, list[float]]:
    from collections import defaultdict

    return defaultdict(list)


def test_the_prompts_of_imgedit() -> None:
    published = json.loads(official("ImgEdit/Benchmark/Basic/prompts.json").read_text(encoding="utf-8"))
    assert published.keys() == RATINGS.keys()
    for kind, text in published.items():
        assert template(f"imgedit/{kind}") == text.replace("<edit_prompt>", "{}").strip()
    uge = next(text for text in strings(official("ImgEdit/Benchmark/UGE/UGE_bench.py")) if "<edit_prompt>." in text)
    assert template("imgedit/uge") == uge.replace("<edit_prompt>", "{}").strip()
