"""Our scores and tables of edits beside those of the official code, on random and adversarial replies (`official_code.py`).

    Step1X-Edit   github.com/stepfun-ai/Step1X-Edit     GEdit-Bench
    ImgEdit       github.com/PKU-YuanGroup/ImgEdit      ImgEdit-Bench Basic and UGE
    Kris_Bench    github.com/mercurystraw/Kris_Bench    KRIS-Bench, family kris
    Bagel         github.com/ByteDance-Seed/Bagel       its copy of KRIS-Bench, family bagel
    RISEBench     github.com/PhoenixZ810/RISEBench
    EditScore     github.com/VectorSpaceLab/EditScore
    PnPInversion  github.com/cure-lab/PnPInversion      masks of PIE-Bench

Where the official code guesses, asks for ever, crashes or takes a number off the scale, there is no score here.
"""

import ast
import asyncio
import contextlib
import importlib
import io
import itertools
import json
import math
import random
import re
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from official_code import functions, module, official, strings, template

from titjudge.core import registry
from titjudge.core.errors import Unanswered
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import ImageFile, Item, Reply, Score, Status
from titjudge.data.image_changes import edit_pixels
from titjudge.metrics.kris import PARTS, read_knowledge, read_rating
from titjudge.metrics.rise import CATEGORIES, read_final_score
from titjudge.metrics.rubric import rubric_of
from titjudge.metrics.viescore import read_ratings
from titjudge.suites.base import SuiteInputs
from titjudge.suites.question_suite import write_files

RATINGS = {question.when["edit_type"][0]: question.ratings for question in rubric_of("imgedit").questions["ratings"]}
KNOWLEDGE = next(q.when["category"] for q in rubric_of("kris").questions["instruction"] if len(q.ratings) > 1)
SETS = 100
NEAR = 1e-9
GEDIT = "Step1X-Edit/GEdit-Bench"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::pytest.PytestUnraisableExceptionWarning"
    ),  # files that official code leaves open
]


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


def scored(metric: str, item: Item, answer: Callable[[str, int], str | None], **options: Any) -> Score:
    """The score of an item whose judge answers as a function says."""
    try:
        score = asyncio.run(registry.load("metrics", metric).configured(options)(item, Scripted(answer)))
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


# -- PIE-Bench ---------------------------------------------------------------------------------------------------------


def test_the_masks_of_pie_bench(tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    from PIL import Image

    decode = functions(official("PnPInversion/evaluation/evaluate.py"), "mask_decode", np=np)["mask_decode"]
    for name in ("source", "result"):
        Image.new("RGB", (512, 512)).save(tmp_path / f"{name}.png")
    for seed in range(20):
        rng = random.Random(seed)
        runs = [value for _ in range(rng.randint(0, 30)) for value in (rng.randrange(512 * 512), rng.randint(0, 3000))]
        outside = edit_pixels(tmp_path / "source.png", tmp_path / "result.png", runs).outside
        assert np.array_equal(outside, decode(runs) == 0), runs


# -- EditScore ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def official_editscore(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    pytest.importorskip("regex")
    file = official("EditScore/editscore/__init__.py")
    monkeypatch.syspath_prepend(str(file.parents[1]))
    package = importlib.import_module("editscore")

    def guess(*_: Any) -> int:
        raise NoScore

    monkeypatch.setattr(package.utils, "random", types.SimpleNamespace(randint=guess))
    yield package
    for name in [name for name in sys.modules if name.partition(".")[0] == "editscore"]:
        sys.modules.pop(name)


class ScriptedModel:
    """Answers the two questions of `EditScore.evaluate`, of which the first shows two images, by the number of the pass."""

    def __init__(self, replies: Sequence[tuple[str, str]]) -> None:
        self.replies, self.shown = replies, []

    def prepare_input(self, images: Any, text: str) -> tuple[bool, str]:
        self.shown.append((images, text))
        return isinstance(images, list), text

    def inference(self, asked: tuple[bool, str], seed: int) -> str:
        return self.replies[seed - 42][0 if asked[0] else 1]


def editscore_reply(rng: random.Random) -> str:
    """A reply of `viescore_reply` on the scale of EditScore, with its faults."""
    text = viescore_reply(rng).replace("80", "26")
    text = re.sub(r"\d+", lambda found: str(min(26, int(found[0]) * 5 // 2)), text)
    return rng.choice([text, text, text.replace('"', "“"), text.replace(": [", ": [ "), text.replace("]", ",]")])


def official_editscore_of(scorer: Any) -> dict[str, Any] | None:
    """What `EditScore.evaluate` returns; None where it guesses or fails, {} where it only lacks the reason, which is read last."""
    try:
        return dict(scorer.evaluate(["source", "edited"], "edit a"))
    except KeyError as error:
        return {} if error.args == ("reasoning",) else None
    except (NoScore, IndexError, TypeError, ValueError):
        return None


def test_the_scores_of_editscore(official_editscore: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(2)
    compared = 0
    for at in range(30 * SETS):
        replies = [(editscore_reply(rng), editscore_reply(rng)) for _ in range(rng.choice([1, 1, 2, 4]))]
        if any("26" in text or re.fullmatch(r"\d+", text) for pair in replies for text in pair):
            continue  # off the scale; and a number alone above 10 is read here and guessed for there
        scorer = official_editscore.EditScore(num_pass=len(replies), backbone="scripted")
        scorer.model = ScriptedModel(replies)
        score = scored(
            "editscore", edit("a"), lambda name, n, replies=replies: replies[n][name.endswith("quality")],
            passes=len(replies),
        )  # fmt: skip
        theirs = official_editscore_of(scorer)
        if theirs is None:
            assert score.value is None, (at, replies)
            continue
        if not theirs:
            continue
        ours = [score.value, *(score.parts[name] for name in ("success", "over_edit", "PQ"))]
        keys = ("overall", "prompt_following", "consistency", "perceptual_quality")
        assert ours == pytest.approx([theirs[key] for key in keys], abs=NEAR), (at, replies)
        compared += 1
    assert compared > SETS
    capsys.readouterr()


def test_the_questions_of_editscore(official_editscore: Any) -> None:
    scorer = official_editscore.EditScore(backbone="scripted")
    reply = '{"score": [1, 2], "reasoning": ""}'
    scorer.model = ScriptedModel([(reply, reply)])
    scorer.evaluate(["source", "edited"], "make it {{ blue }}")
    (_, semantics), (alone, quality) = scorer.model.shown
    assert alone == "edited"
    library, shown = PromptLibrary(), [ImageFile(name, "image/png", 1, 1, Path(name), bytes) for name in "ab"]
    asked = (
        library.get("editscore/semantics")
        .messages({"prompt": "make it {{ blue }}", "named_images": False}, shown)[-1]
        .parts
    )
    assert asked == (*shown, semantics)
    asked = library.get("editscore/quality").messages({"named_images": False}, shown[1:])[-1].parts
    assert asked == (shown[1], quality)


def test_named_images_stand_as_in_the_official_template(official_editscore: Any) -> None:
    file = official("EditScore/editscore/mllm_tools/qwen25vl.py")
    write = functions(file, "apply_chat_template")["apply_chat_template"]
    mark = "<|vision_start|><|image_pad|><|vision_end|>"
    library, shown = PromptLibrary(), [ImageFile(name, "image/png", 1, 1, Path(name), bytes) for name in "ab"]
    for name, images, variables in (
        ("semantics", shown, {"prompt": "blue"}),
        ("quality", shown[1:], {}),
    ):
        words = library.get(f"editscore/{name}").messages({**variables, "named_images": False}, images)[-1].text
        parts = library.get(f"editscore/{name}").messages({**variables, "named_images": True}, images)[-1].parts
        written = "".join(part if isinstance(part, str) else mark for part in parts)
        before = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
        assert write(words, len(images)) == f"{before}{written}<|im_end|>\n<|im_start|>assistant\n"


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
        write_files("gedit", items, scores, tmp_path)
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
        write_files("imgedit", items, scores, tmp_path)
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


# -- KRIS-Bench, as the original and as BAGEL's copy of it -------------------------------------------------------------

KRIS = "Bagel/eval/gen/kris"
FAMILIES: dict[Any, str] = {"kris": "Kris_Bench", "bagel": KRIS}
KRIS_NAMES = ("consistency_score", "instruction_score", "quality_score")


def kris_reply(rng: random.Random, *names: str) -> str:
    """A judge's reply with ratings: JSON, nearly JSON, words, or of no use."""
    ratings = {name: rng.choice([*range(1, 6), *range(1, 6), "4", 3.0, None]) for name in names}
    asked = json.dumps(
        {"reasoning": rng.choice(["fine", 'a "b" {c}', "two: 2"]), **ratings}, indent=rng.choice([None, 1])
    )
    words = ". ".join(f"{name.replace('_', ' ')}: {rating}" for name, rating in ratings.items())
    return rng.choice(
        [
            asked, asked, f"First, 3 things.\n```json\n{asked}\n```", asked.replace('\\"', '"'), asked[:-1], words,
            words.replace(": ", " "), f"{rng.randint(1, 5)}/5", f"{rng.randint(1, 5)} out of 5", "There are 2 cats.",
            "I can't help with that.", "", json.dumps(dict.fromkeys(names, "high")), json.dumps({"reasoning": "x"}),
            words.replace(": ", "："), f"Of 2 objects, {words}", json.dumps({"reasoning": f"the {names[0]} is 4"}),
            f"[{asked}]", f"{{{asked}", f"{{}} {asked}", f'{asked} {{"{names[0]}": 5}}', asked.replace(": ", ":\n"), "5", "[]",
        ]
    )  # fmt: skip


def kris_parsers(family: str) -> dict[str, Callable[[str], Any]]:
    """The official functions of a family: those of metrics_common.py, and below `knowledge` those of metrics_knowledge.py."""
    common, knowledge = (official(f"{FAMILIES[family]}/metrics_{name}.py") for name in ("common", "knowledge"))
    given = {"re": re, "json": json, "logging": types.SimpleNamespace(debug=lambda *_: None)}
    patterns = [r"([1-5])\s*/\s*5", r"([1-5])\s+out\s+of\s+5", r"\b([1-5])\b"]
    of_one = [f"extract_{name.removesuffix('_score')}_score_and_reason" for name in KRIS_NAMES]
    plain = functions(
        common, "extract_json_field", "extract_score_and_reason", *of_one, **given, DEFAULT_PATTERNS=patterns
    )
    names = ("extract_consistency_score", "extract_quality_score")
    deep = functions(
        knowledge,
        "extract_json_block",
        "extract_dual_scores",
        *names,
        *(f"{name}_and_reason" for name in names),
        **given,
    )

    def rating(parse: Callable[[str], Any]) -> Callable[[str], Any]:
        return lambda text: found[0] if isinstance(found := parse(text), tuple) else found

    parsers = {name: rating(plain[each]) for name, each in zip(KRIS_NAMES, of_one, strict=True)}
    parsers |= {
        f"several {name}": lambda text, name=name: plain["extract_score_and_reason"](text, name, ["reasoning"])[0]
        for name in KRIS_NAMES
    }
    for name in names:
        parsers[f"knowledge {name.removeprefix('extract_')}"] = rating(deep.get(name) or deep[f"{name}_and_reason"])
    return {**parsers, "knowledge": deep["extract_dual_scores"]}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", KRIS_NAMES)
def test_the_parser_of_one_rating_of_kris(family: Any, name: str) -> None:
    parsers = kris_parsers(family)
    rng = random.Random(2)
    for _ in range(20 * SETS):
        text = kris_reply(rng, name)
        assert read_rating(text, name) == parsers[name](text), text
        assert read_rating(text, name, by_name=False) == parsers[f"several {name}"](text), text
        if f"knowledge {name}" in parsers:
            assert read_rating(text, name, knowledge=family) == parsers[f"knowledge {name}"](text), text


def dual(parse: Callable[[str], Any], text: str) -> dict[str, int | None] | None:
    """What a published parser of two ratings finds; None where the script ends with an error."""
    try:
        found = parse(text)
    except (ValueError, AttributeError):
        return None
    return {name: found[name] for name in ("instruction_score", "knowledge_score")}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_parser_of_two_ratings_of_kris(family: Any) -> None:
    names = ("instruction_score", "knowledge_score")
    theirs = kris_parsers(family)["knowledge"]
    rng = random.Random(3)
    for _ in range(20 * SETS):
        text = kris_reply(rng, *names)
        assert read_knowledge(text, family) == (dual(theirs, text) or dict.fromkeys(names)), text


@pytest.mark.parametrize("family", FAMILIES)
def test_the_ratings_of_kris(family: Any, tmp_path: Path) -> None:
    """Of each category, from replies to scores; in the family bagel those of the edits that its script keeps."""
    parsers = kris_parsers(family)
    file = official(f"{KRIS}/metrics_knowledge.py")
    collect = functions(
        file,
        "collect_jsonl_to_dict",
        json=json,
        os=importlib.import_module("os"),
        logging=importlib.import_module("logging"),
    )["collect_jsonl_to_dict"]
    rng = random.Random(5)
    scores = 0
    for at in range(10 * SETS):
        category = rng.choice(["color_change", "multi-element_composition", "physics", "medicine"])
        knowledge = category in KNOWLEDGE
        asked = {"consistency": KRIS_NAMES[:1], "quality": KRIS_NAMES[2:], "instruction": KRIS_NAMES[1:2]}
        asked["instruction"] += ("knowledge_score",) if knowledge else ()
        replies = {name: kris_reply(rng, *ratings) for name, ratings in asked.items()}
        start = "knowledge " if knowledge else "several " if category.startswith("multi") else ""
        theirs: dict[str, Any] = {}
        for name, text in replies.items():
            if knowledge and name == "instruction":
                theirs |= dual(parsers["knowledge"], text) or dict.fromkeys(asked[name])
            else:
                theirs[f"{name}_score"] = parsers[f"{start}{name}_score"](text)
        item = edit(f"{category}/{at}", category=category, explanation="")
        score = scored(
            "kris",
            item,
            lambda name, _, replies=replies: next(t for k, t in replies.items() if k in name),
            family=family,
        )
        if family == "bagel":
            (lines := tmp_path / "metrics.jsonl").write_text(json.dumps({"key": "a", "result": theirs}))
            kept = "a" in collect(lines, ["all"], {"all": list(theirs)})
        else:
            kept = theirs["instruction_score"] is not None  # our rule: the original has no means
        assert (score.value is not None) is kept, (at, replies)
        if kept:
            scores += 1
            assert score.parts["ratings"] == {name: rating for name, rating in theirs.items() if rating is not None}
    assert scores > SETS


def test_the_means_of_kris(tmp_path: Path) -> None:
    """On all categories, from the files that we write."""
    summary: dict[str, Any] = {"__name__": "summarize"}
    exec(official(f"{KRIS}/summarize.py").read_text(encoding="utf-8"), summary)
    suite = registry.load("suites", "kris-bench")(SuiteInputs("official"))
    groups = suite.spec.prompts.groups
    assert groups["dimension"]["category"] == summary["kris_benchamrk_type"]
    assert groups["knowledge"]["dimension"] == summary["meta_categories"]
    metrics = summary["kris_benchamrk_metric"]
    for seed in range(20):
        rng = random.Random(seed)
        items, scores = [], []
        for knowledge, dimensions in summary["meta_categories"].items():
            for dimension, category in (
                (each, name) for each in dimensions for name in summary["kris_benchamrk_type"][each]
            ):
                for n in range(rng.randint(1, 3)):
                    item = edit(f"{category}/{n}", category=category, dimension=dimension, knowledge=knowledge)
                    given = {name: rng.randint(1, 5) for name in metrics[dimension]}
                    given = {name: rating for name, rating in given.items() if rng.random() < 0.9}
                    parts = {PARTS[name]: 25.0 * (rating - 1) for name, rating in given.items()}
                    value = sum(parts.values()) / len(parts) if parts else None
                    items.append(item)
                    scores.append(Score(item.id, "kris", value, parts={**parts, "ratings": given} if parts else {}))
        for file in tmp_path.rglob("metrics.json"):
            file.unlink()
        write_files("kris", items, scores, tmp_path)
        with contextlib.redirect_stdout(io.StringIO()):
            by_type, by_category, by_knowledge, overall = summary["summarize_benchmark_scores_with_normalization"](
                str(tmp_path / "gen")
            )
        tables = {table.title.removeprefix("KRIS-Bench: "): table for table in suite.aggregate(items, scores)}
        found = {name: dict(zip(table.columns, table.rows[0], strict=True)) for name, table in tables.items()}
        assert found["all ratings, by dimension"]["overall"] == pytest.approx(overall["AVG"], abs=NEAR), seed
        for name, value in by_knowledge.items():
            assert found["all ratings, by kind of knowledge"][name] == pytest.approx(value["AVG"], abs=NEAR), (
                seed,
                name,
            )
        titles = {"VC": "visual consistency (VC)", "VQ": "visual quality (VQ)", "IF": "instruction following (IF)",
                  "KP": "knowledge plausibility (KP)", "AVG": "all ratings, by dimension"}  # fmt: skip
        flat = {name: [25.0 * (r - 1) for i, s in zip(items, scores, strict=True) if i.meta["dimension"] == name for r in s.parts.get("ratings", {}).values()] for name in by_type}  # fmt: skip
        for dimension, values in by_type.items():
            for part, value in values.items():
                assert found[titles[part]][dimension] == pytest.approx(value, abs=NEAR), (seed, dimension, part)
            mean = sum(flat[dimension]) / len(flat[dimension])
            assert found["all ratings, by dimension"][dimension] == pytest.approx(mean, abs=NEAR)
        assert by_category


def test_the_prompts_of_kris() -> None:
    theirs = module(official(f"{KRIS}/prompts.py"), "official_kris_prompts")
    names = {
        "consistency": "consist", "quality": "quality", "instruction": "instruction_following", "anomaly":
        "abnormal_instruction_following", "instruction_and_knowledge": "dual_evaluation", "viewpoint": "view_instruction_following",
        "temporal_consistency": "consist_temporal", "temporal_instruction": "instruction_temporal",
        "multi_consistency": "consist_multi", "multi_instruction": "instruction_multi",
    }  # fmt: skip
    given = {"prompt": "<I>", "explanation": "<E>", "labels": ["<L>"]}
    for ours, key in names.items():
        text = getattr(theirs, f"prompt_{key}")
        wanted = (
            text if ours == "quality" else text.format(instruct="<I>", explanation="<E>")
        )  # that one is sent as it is
        assert rendered(f"kris/{ours}", given) == f"{wanted}<L>"


def rendered(name: str, given: dict[str, Any]) -> str:
    """One of our prompts with its variables, up to its first image."""
    prompt = PromptLibrary().get(name)
    image = ImageFile("", "image/png", 1, 1, Path("x"), bytes)
    (message,) = prompt.messages({key: value for key, value in given.items() if key in prompt.variables}, [image])
    return next(str(part) for part in message.parts if isinstance(part, str))


# -- RISEBench ---------------------------------------------------------------------------------------------------------


def rise_reply(rng: random.Random, scale: Sequence[int]) -> str:
    """A judge's reply: as asked, with a number in another form, or of no use."""
    mark = rng.choice(scale)
    return rng.choice(
        [
            f"1. It is 3 years old.\n\n**Final Score:** **{mark}**", f"Final Score: {mark}", f"**Final Score**: {mark}",
            f"**Final Score:**\n{mark}", f"final score {mark}", f"Final Score: {mark}/{max(scale)}", f"**Final Scores:** {mark}",
            f"The Final Score follows.\nFinal Score: {mark}", f"Final Score: [{mark}]", "Failed to obtain answer via API. ",
        ]
    )  # fmt: skip


@pytest.mark.parametrize("marked", [False, True], ids=["64 edits", "with consistency_free"])
def test_the_means_of_rise(marked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores, accuracies and ratings of the official script, which reads replies from a file as ours are made of."""
    pd = pytest.importorskip("pandas")
    file = official("RISEBench/gpt_eval.py")
    monkeypatch.syspath_prepend(str(file.parent))
    monkeypatch.delitem(sys.modules, "utils", raising=False)
    theirs = module(file, "official_rise")
    suite = registry.load("suites", "rise-bench")(SuiteInputs("official"))
    for seed in range(20):
        rng = random.Random(seed)
        items, scores, rows = [], [], []
        for category, n in itertools.product(CATEGORIES, range(rng.randint(3, 6))):
            logical = category == CATEGORIES[-1]
            cell = rng.choice([True, None, math.nan]) if marked and not logical else math.nan
            free = cell is True
            item = edit(
                f"{category}_{n}", category=category, reference="r", reference_txt="t", subtask="s",
                consistency_free=free, consistency_free_absent=marked and cell != cell,
            )  # fmt: skip
            replies = [rise_reply(rng, (0, 1) if logical else range(1, 6)) for _ in range(3)]
            names = ("consistency", "reasoning", "plausibility")
            answers = dict(zip(names, replies, strict=True))
            score = scored(
                "rise", item, lambda name, _, answers=answers: next(t for k, t in answers.items() if k in name)
            )
            judged = [theirs.extract(text) for text in replies]
            values = [each[0] if each and len(each) == 1 else None for each in judged]
            needed = values[:2] if logical else values[1:] if free else values
            row = {"category": category, **({"consistency_free": cell} if marked else {})}
            if None in needed:
                assert score.value is None, replies
            else:
                given = [4 * min(value, 1) + 1 if logical else value for value in needed]
                row |= dict(zip((RISE_NAMES[1:] if free else RISE_NAMES), given, strict=False))
                row.setdefault("ApprConsistency", None)
                wanted = 25 * (theirs.calculate_score(pd.Series(row, dtype=object)) - 1)
                assert score.value == pytest.approx(wanted, abs=NEAR), (seed, replies)
                assert score.parts["accuracy"] == 100 * theirs.calculate_completion(pd.Series(row, dtype=object))
                rows.append({**row, "value": wanted})
            items.append(item)
            scores.append(score)
        table = pd.DataFrame(rows)
        found = {
            each.title: dict(zip(each.columns, each.rows[0], strict=True)) for each in suite.aggregate(items, scores)
        }
        assert found["RISEBench: score"]["overall"] == pytest.approx(table["value"].mean(), abs=NEAR), seed
        write_files("rise", items, scores, tmp_path)
        kept = theirs.load(str(tmp_path / "gen/gen.pkl"))
        assert kept.keys() == {score.item_id[:-4] for score in scores if score.value is not None}
        for score in scores:
            for number, name in enumerate(RISE_NAMES, 1):
                text = kept.get(score.item_id[:-4], {}).get(f"judge{number}")
                if text is not None:
                    (mark,) = theirs.extract(text)
                    assert score.parts["ratings"][name] == (4 * mark + 1 if "logical" in score.item_id else mark)
    sys.modules.pop("utils", None)


RISE_NAMES = ("ApprConsistency", "Reasoning", "VisualPlausibility")


def test_the_parser_of_rise() -> None:
    extract = functions(official("RISEBench/gpt_eval.py"), "extract", re=re)["extract"]
    rng = random.Random(4)
    for _ in range(20 * SETS):
        text = "\n".join(rise_reply(rng, range(6)) for _ in range(rng.choice([1, 1, 2])))
        wanted = extract(text)
        assert read_final_score(text) == (wanted[0] if wanted and len(wanted) == 1 else None), text


def test_the_prompts_of_rise() -> None:
    theirs = {
        node.targets[0].id: node.value.value  # type: ignore[attr-defined]
        for node in ast.parse(official("RISEBench/utils.py").read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign)
    }
    names = {
        "consistency": "consist", "reasoning": "reasoning", "reasoning_with_source": "reasoning_w_input", "plausibility": "generation",
        "spatial_consistency": "spatial_cons", "spatial_reasoning": "spatial_ref", "spatial_plausibility": "spatial_qual",
        "spatial_reasoning_by_image": "spatial_ref_img", "spatial_reasoning_with_source": "spatial_ref_w_input",
        "logical_consistency": "logical_cons", "logical_consistency_with_answer": "logical_cons_ans",
        "logical_reasoning": "logical_txt", "logical_reasoning_by_image": "logical_img",
        "logical_reasoning_without_instruction": "logical_img_wo_q",
    }  # fmt: skip
    given = {"prompt": "<I>", "reference": "<R>"}
    for ours, key in names.items():
        text = theirs[f"prompt_{key}"]
        fills = re.search(r"\{(instruct|reference)\}", text)
        assert rendered(f"rise/{ours}", given) == (text.format(instruct="<I>", reference="<R>") if fills else text)
