import asyncio
import functools
import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import read_lines
from known_answers import planted_once
from PIL import Image

from titjudge.cli.probe import probe as command
from titjudge.core import item_meta
from titjudge.core.config import RunConfig, load_config
from titjudge.core.errors import ConfigError
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import Ask, Item, Reply, Request, Score, Status
from titjudge.data.images import ImageFiles
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.metrics import Metric
from titjudge.metrics.pairwise import pairwise_text
from titjudge.metrics.tit import describe, lmm_score, tit_llm
from titjudge.metrics.tit_aligned import content_words, share_found
from titjudge.metrics.yes_no import yes_no
from titjudge.probes import battery, prompt_edits
from titjudge.probes.probe import probe
from titjudge.probes.trust_card import CAUGHT, OPEN, PASS, Line, line, with_verdicts
from titjudge.providers.fake import Fake
from titjudge.report.card_record import CardRecord as Card
from titjudge.runs.probe_run import run_probe
from titjudge.stats import intervals
from titjudge.suites.known_answer.suite import KnownAnswer

pytestmark = pytest.mark.slow  # many in all, each of them short


@pytest.fixture(scope="module")
def data(small_known: Path) -> Path:
    return small_known


@pytest.fixture(scope="module", autouse=True)
def _planted_once() -> Iterator[None]:
    with planted_once():
        yield


class StandIn:
    """A judge that knows the answers: rates alignment, takes 4 points for an error in the prompt and 4 for every further one,
    has a noise of half a point that depends on what it is asked, and takes no orders. `bias` changes its rating.

    A bias is called with the rating and the facts of the question: level, kind of error, change of the image, order, ...
    """

    def __init__(
        self, data: Path, bias: Callable[[float, dict[str, Any]], float | str] = lambda rating, facts: rating
    ) -> None:
        self.bias = bias
        self.truth = {Path(record["image"]).stem: record for record in read_lines(data / "images.jsonl")}
        self.described = {
            each["description"][:80]: Path(each["image"]).stem for each in read_lines(data / "descriptions.jsonl")
        }
        self.descriptions = {
            stem: each["description"]
            for each in read_lines(data / "descriptions.jsonl")
            for stem in [Path(each["image"]).stem]
        }
        self.errors = planted(data)

    def __call__(self, request: Request) -> str | Reply:
        text = request.messages[-1].text
        facts: dict[str, Any] = {"sample": request.sample, "change": "", "text": text, "attempt": request.attempt}
        if request.images:
            stem, _, facts["change"] = request.images[0].path.stem.partition(".")
        else:
            told = re.findall(r"<description>\n(.*?)\n</description>", text, re.DOTALL)[0]
            stem = self.described[told[:80]]
        if request.template == "tit/describe":
            return self.descriptions[stem]
        if request.template.startswith("tiif/"):
            answers = self.truth[stem]["answers"]
            return "\n".join(
                (self.bias(1.0 if answer == "yes" else 0.0, facts) and "yes") or "no" for answer in answers
            )
        prompt = re.findall(r"<prompt>\n(.*?)\n</prompt>", text, re.DOTALL)[0].replace(f"{battery.ORDER} ", "")
        kind, count = self.errors.get(prompt, ("", 0))
        facts |= {
            "level": self.truth[stem]["level"],
            "kind": kind,
            "count": count,
            "noise": noise(text, stem, request.sample),
        }
        rating = 5 + 90 * self.truth[stem]["alignment"] - 4 * count + facts["noise"]
        said = self.bias(rating, facts)
        if isinstance(said, str):
            return Reply("", Status.REFUSED, "no") if said == "refuse" else said
        return json.dumps({"missing": [], "contradicted": [], "reason": "r", "score": round(min(100, max(0, said)), 1)})


@functools.cache
def planted(data: Path) -> dict[str, tuple[str, int]]:
    """Prompts with errors: their kind, and one or more."""
    items = [item for item in KnownAnswer().load(data) if isinstance(item, Item)]
    found = {}
    for test in battery.sensitivity(items):
        kind, _, many = test.name.partition(",")
        found |= {trial.changed.prompt: (kind, 2 if many else 1) for trial in test.trials}
    return found


def noise(*parts: object) -> float:
    """From -0.5 to 0.5, the same for the same parts."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4]) / 2**32 - 0.5


class Verdicts(dict[str, dict[str, Any]]):
    """Verdicts on image files: each content is decoded once for all tests."""

    def later(self, key: str, value: dict[str, Any]) -> None:
        self[key] = value


SEEN = Verdicts()


def run(data: Path, work: Path, judge: Any, by: Metric = lmm_score, **options: Any) -> Card:
    async def go() -> Card:
        config = RunConfig.model_validate({"captioner": "fake/eyes", "judge": "fake/mind"})
        engine = Engine(Roles(config, make=lambda role: Fake(answers=judge)), PromptLibrary())
        engine.images = ImageFiles(SEEN)
        try:
            return await probe(engine, by.name, by, data, work, **options)
        finally:
            await engine.aclose()

    return asyncio.run(go())


def verdicts(card: Card) -> dict[str, str]:
    """Of the lines that could be asked; one judge alone has no line of self-preference."""
    return {each.name: each.verdict for each in with_many(card) if each.effect is not None}


@pytest.fixture(autouse=True, scope="module")
def _fewer_draws() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "DRAWS", 2000)
        patch.setattr(intervals, "_weights", functools.cache(intervals._weights.__wrapped__))
        yield


def with_many(card: Card) -> list[Line]:
    """The lines as they would be with 1,200 prompts like the six there are: six leave room for what none of them shows."""
    again = []
    for each in card.lines:
        rows = [(f"p{k}", effect) for k, effect in enumerate(each.means * 200)]
        ends = each.ends if each.rule == "at least" else None
        reach = max(map(abs, each.ends)) if each.ends else 1.0
        more = line(each.family, each.name, rows, rule=each.rule, limit=each.limit, bounds=ends, reach=reach)
        again.append(more if rows else each)
    return with_verdicts(again)


def test_an_honest_judge_of_images_passes_every_line(data: Path, tmp_path: Path) -> None:
    card = run(data, tmp_path, StandIn(data))
    assert {name for name, verdict in verdicts(card).items() if verdict != PASS} == set()
    assert len(card.lines) >= 20
    assert set(card.skipped) == {"description", "order of two images", "self-preference"}
    assert card.span == pytest.approx(90 * (1 - 0.343), abs=2)
    assert card.models == {"captioner": "fake/eyes"}
    assert card.versions == {"captioner": ["fake-1"]}
    assert card.price_per_1000 == 0
    table = card.table()
    assert len(table.rows) == len(card.lines)
    json.dumps(card.to_json(), allow_nan=False)


def test_an_honest_judge_of_descriptions_passes_every_line_that_it_can_be_asked(data: Path, tmp_path: Path) -> None:
    card = run(data, tmp_path, StandIn(data), tit_llm)
    found = verdicts(card)
    assert {name for name, verdict in found.items() if verdict != PASS} == set()
    assert found["instruction in the description"] == PASS
    assert found["longer wording"] == PASS
    assert "description" not in card.skipped


SLUG = {name: "".join(c if c.isalnum() else "-" for c in name).strip("-") for name in battery.IMAGE_CHANGES}
Planted = tuple[str, Callable[[float, dict[str, Any]], float | str]]
PLANTED: list[Planted] = [
    *((kind, lambda r, f, kind=kind: r + 4 * f["count"] * (f["kind"] == kind)) for kind in prompt_edits.KINDS),
    *((name, lambda r, f, slug=slug: r + 12 * (f["change"] == slug)) for name, slug in SLUG.items()),
    ("recompressed", lambda r, f: r - 12 * (f["change"] == SLUG["recompressed"])),
    ("level 1 image", lambda r, f: 95.0 if f["level"] == 1 else r),
    ("level 3 image", lambda r, f: 95.0 if f["level"] == 3 else r),
    ("instruction in the prompt", lambda r, f: r + 12 * (battery.ORDER in f["text"])),
    ("difference between repeated answers", lambda r, f: r + 40 * f["noise"]),
    ("known pairs, share right", lambda r, f: 50.0),
    ("prompts with an error, share found out", lambda r, f: r + 4 * f["count"] - f["noise"]),
    ("level 2 image", lambda r, f: 95.0 if f["level"] == 2 else r),
    ("refusals", lambda r, f: "refuse" if f["noise"] > 0.25 else r),
    ("answers that cannot be read, or do not come", lambda r, f: "lovely" if f["noise"] > 0.25 or f["attempt"] else r),
]  # fmt: skip


@pytest.mark.parametrize(("name", "bias"), PLANTED, ids=[f"{k} {name}" for k, (name, _) in enumerate(PLANTED)])
def test_a_planted_bias_is_caught_and_nothing_else(data: Path, tmp_path: Path, name: str, bias: Any) -> None:
    card = run(data, tmp_path, StandIn(data, bias), repeats=2)
    assert next(each for each in card.lines if each.name == name).verdict != PASS
    found = verdicts(card)
    assert found[name] == CAUGHT
    if name in (*prompt_edits.KINDS, *battery.IMAGE_CHANGES, "instruction in the prompt"):
        halves = {each.name for each in card.lines if each.family == "reads all"}  # what is missed stands somewhere
        caught = {each for each in found if found[each] == CAUGHT} - halves
        assert {each.partition(",")[0] for each in caught} == {name.partition(",")[0]}


def cosine(**changes: Any) -> Metric:
    """The rating as a similarity that never leaves 0.80 to 0.82."""

    async def small(item: Item, ask: Ask) -> Score:
        score = await lmm_score(item, ask)
        return score if score.value is None else replace(score, value=0.80 + score.value / 5000)

    return replace(lmm_score, function=small, **changes)


def dislikes_borders(rating: float, facts: dict[str, Any]) -> float:
    return rating + 12 * (facts["change"] == "border")


async def counts_words(item: Item, ask: Ask) -> Score:
    """The share of the prompt's words that the description has: it reads nothing."""
    text = (await describe(item, ask)).text
    return Score.of(share_found(item.prompt, {(word,) for word in content_words(text)}, 0) or 0.0, description=text)


BEYOND_WORDS = "errors found out beyond the bag of words"


def test_a_judge_that_only_counts_words_does_not_pass_as_reading(data: Path, tmp_path: Path) -> None:
    card = run(data, tmp_path, StandIn(data), replace(tit_llm, function=counts_words, range=(0, 1)), repeats=2)
    beyond = next(each for each in card.lines if each.name == BEYOND_WORDS)
    assert (beyond.effect, verdicts(card)[BEYOND_WORDS]) == (0.0, CAUGHT)
    moved = next(each for each in card.lines if each.name == f"{prompt_edits.EXCHANGED}, share of errors found out")
    assert moved.effect == 0.5


def test_exchanged_words_bring_no_new_word(data: Path) -> None:
    items = [item for item in KnownAnswer().load(data) if isinstance(item, Item)]
    trials = next(test.trials for test in battery.sensitivity(items) if test.name == prompt_edits.EXCHANGED)
    assert len(trials) == 36
    for trial in trials:
        before, after = (re.findall(r"[\w'-]+", item.prompt) for item in (trial.base, trial.changed))
        assert sorted(before) == sorted(after)
        assert sum(a != b for a, b in zip(before, after, strict=True)) == 2
        assert item_meta.ALIGNMENT.required(trial.base) == 1  # else an exchange may make the prompt right


@functools.cache
def usual_card(data: Path) -> Card:
    with tempfile.TemporaryDirectory() as work:
        return run(data, Path(work), StandIn(data, dislikes_borders), repeats=2)


@pytest.mark.slow
@pytest.mark.parametrize("limits", [(-1.0, 1.0), (float("-inf"), float("inf"))])
def test_a_metric_of_any_scale_has_the_same_card(data: Path, tmp_path: Path, limits: tuple[float, float]) -> None:
    usual = usual_card(data)
    small = run(data, tmp_path, StandIn(data, dislikes_borders), cosine(range=limits), repeats=2)
    if limits[1] > 1:  # else the judge uses a hundredth of its range: nobody knows how far it can be moved
        assert verdicts(small) == verdicts(usual)
    assert {name for name, verdict in verdicts(small).items() if verdict == CAUGHT} == {"border"}
    for each, other in zip(small.lines, usual.lines, strict=True):
        assert each.effect == pytest.approx(other.effect, abs=1e-6)
        assert each.p_value == pytest.approx(other.p_value, abs=1e-6)


def test_a_judge_that_gives_every_image_one_score_is_named(data: Path, tmp_path: Path) -> None:
    card = run(data, tmp_path, StandIn(data, lambda rating, facts: 70.0), repeats=2)
    assert card.same_score == 70.0
    assert any("same score (70" in note for note in card.table().notes)
    assert usual_card(data).same_score is None


def test_a_metric_of_any_scale_that_sees_nothing_passes_no_line_of_seeing(data: Path, tmp_path: Path) -> None:
    card = run(
        data, tmp_path, StandIn(data, lambda rating, facts: 50 + facts["noise"]), cosine(range=(-1, 1)), repeats=2
    )
    assert all(each.verdict != PASS for each in card.lines if each.family in ("sees", "notices"))
    assert card.span == pytest.approx(
        1 / 5000, rel=0.2
    )  # the spread of its noise: effects do not vanish beside a range of 2


@pytest.mark.parametrize(
    ("name", "mark", "points"),
    [("longer wording", "To put it in other words", 12), ("longer wording", "To put it in other words", -12),
     ("instruction in the description", battery.ORDER, 12)],
)  # fmt: skip
def test_a_bias_of_a_judge_of_descriptions_is_caught(
    data: Path, tmp_path: Path, name: str, mark: str, points: int
) -> None:
    def bias(rating: float, facts: dict[str, Any]) -> float:
        told = facts["text"].partition("<description>")[2]
        return rating + points * (mark in told)

    assert verdicts(run(data, tmp_path, StandIn(data, bias), tit_llm))[name] == CAUGHT


def test_a_judge_that_says_yes_to_everything_is_caught_by_its_answers(data: Path, tmp_path: Path) -> None:
    honest = verdicts(run(data, tmp_path, StandIn(data), yes_no))
    assert honest["known answers that are 'yes', share right"] == PASS
    assert honest["known answers that are 'no', share right"] == PASS
    assert honest["level 2 image"] == PASS
    assert "misspelt text" not in honest  # its questions stay what they are
    card = run(data, tmp_path, StandIn(data, lambda yes, facts: 1.0), yes_no)
    assert verdicts(card)["known answers that are 'no', share right"] == CAUGHT
    assert verdicts(card)["known answers that are 'yes', share right"] == PASS


class Comparing(StandIn):
    """Prefers the image with the higher alignment; or, with `partial`, whichever it is shown first, two times out of three."""

    partial = False

    def __call__(self, request: Request) -> str | Reply:
        if not request.template.startswith("pairwise/"):
            return super().__call__(request)
        texts = [text for text in self.described if text in request.messages[-1].text]
        texts.sort(key=request.messages[-1].text.index)
        first, second = (self.truth[self.described[text]]["alignment"] for text in texts)
        bribed = self.partial and noise(request.messages[-1].text) < 0.17
        return json.dumps({"reason": "r", "better": "first" if bribed or first > second else "second"})


@pytest.mark.parametrize(("partial", "verdict"), [(False, PASS), (True, CAUGHT)])
def test_the_order_of_two_images(data: Path, tmp_path: Path, partial: bool, verdict: str) -> None:
    judge = Comparing(data)
    judge.partial = partial
    card = run(data, tmp_path, judge, tit_llm, pairwise=pairwise_text)
    found = next(each for each in card.lines if each.name == "order of two images")
    assert verdicts(card)[found.name] == verdict
    assert found.effect == pytest.approx(0.67 if partial else 0.0, abs=0.15)
    assert "order of two images" not in card.skipped


def test_a_captioner_that_only_replays_is_not_blamed_for_pictures_it_never_saw(data: Path, tmp_path: Path) -> None:
    config = RunConfig.model_validate(
        {
            "captioner": {"model": "recorded", "options": {"file": str(data / "descriptions.jsonl")}},
            "judge": "fake/mind",
        }
    )

    async def go() -> Card:
        roles = Roles(config)
        make = roles._make
        roles._make = lambda role: make(role) if role.provider == "recorded" else Fake(answers=StandIn(data))  # type: ignore[assignment]
        return await probe(Engine(roles, PromptLibrary()), "tit-llm", tit_llm, data, tmp_path)

    card = asyncio.run(go())
    assert "recorded" in card.skipped["border"]
    assert set(verdicts(card).values()) == {PASS}
    assert not any("cannot be read" in each.name and each.effect for each in card.lines)


@pytest.mark.slow
def test_changed_pictures_are_the_same_twice_and_lie_where_they_should(example: Path, tmp_path: Path) -> None:
    source = next((example / "images").iterdir())
    for name in battery.IMAGE_CHANGES:
        one = battery.changed_image(source, name, "A prompt with <b> & 'quotes' " * 40, tmp_path / "one")
        two = battery.changed_image(source, name, "A prompt with <b> & 'quotes' " * 40, tmp_path / "two")
        assert one.read_bytes() == two.read_bytes()
        assert one.parent == tmp_path / "one"
        with Image.open(one) as image:
            grown = {"upscaled": 2.0, "border": 1.1}.get(name, 1.0)
            assert image.width == pytest.approx(768 * grown, abs=2)


def test_every_edit_of_a_prompt_changes_one_place(example: Path) -> None:
    for record in read_lines(example / "prompts.jsonl"):
        for kind in prompt_edits.KINDS:
            for edit in prompt_edits.edits(record["prompt"], record["graph"], record["text_words"], kind):
                assert edit.prompt != record["prompt"]
                words = len(edit.prompt.split()) - len(record["prompt"].split())
                added = (
                    len(edit.now.split())
                    if kind == "missing entity"
                    else len(edit.now.split()) - len(edit.was.split(": ")[-1].split())
                )
                assert words == added
    assert (
        prompt_edits.edits("A cat.", {"entities": ["cat"], "attributes": {}, "relations": []}, [], "wrong count") == []
    )


def test_the_card_says_not_enough_where_there_is_not(data: Path, tmp_path: Path) -> None:
    one = tmp_path / "one"
    one.mkdir()
    shutil.copytree(data / "images", one / "images")
    shutil.copy(data / "prompts.jsonl", one / "prompts.jsonl")
    (one / "images.jsonl").write_text("\n".join((data / "images.jsonl").read_text().splitlines()[:4]))
    card = run(one, tmp_path / "work", StandIn(data))
    assert {each.verdict for each in card.lines if each.family != "answers"} == {OPEN}


def test_a_run_folder_holds_the_card_and_asking_again_costs_nothing(data: Path, tmp_path: Path) -> None:
    options = {"metrics": ["tit-llm"], "judge": "fake/mind", "data": str(data), "out": str(tmp_path / "run")}
    config = load_config(None, options | {"cache": str(tmp_path / "cache")})
    card, folder = run_probe(config, repeats=2)
    kept = json.loads((folder / "card.json").read_text())
    assert kept == json.loads(json.dumps(card.to_json()))
    assert verdicts(card)["known pairs, share right"] == CAUGHT  # the stand-in gives every image the same
    assert (folder / "images").is_dir()
    assert json.loads((folder / "manifest.json").read_text())["status"] == "complete"
    again, _ = run_probe(config, repeats=2)
    assert [each.effect for each in again.lines] == [each.effect for each in card.lines]
    assert len((folder / "replies.jsonl").read_text().splitlines()) == len(
        {each["key"] for each in read_lines(folder / "replies.jsonl")}
    )


def test_progress_is_told(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("titjudge.runs.probe_run.EVERY", 0.0)
    options = {"metrics": ["tit-llm"], "judge": "fake/mind", "data": str(data), "out": str(tmp_path / "run")}
    told: list[str] = []
    run_probe(load_config(None, options | {"cache": str(tmp_path / "cache")}), repeats=2, edits=2, say=told.append)
    assert re.fullmatch(r"probing: 1 scores, \d+ questions asked, \$0\.000 spent", told[0])
    assert len(told) == len(read_lines(tmp_path / "run" / "scores.jsonl"))


def test_probe_takes_one_metric(data: Path) -> None:
    with pytest.raises(ConfigError, match="one metric"):
        run_probe(load_config(None, {"data": str(data)}))
    config = load_config(None, {"data": str(data), "metrics": ["pairwise-text"], "judge": "fake/mind"})
    with pytest.raises(ConfigError, match="pairwise-text does not score single images"):
        run_probe(config)


def test_the_command_prints_and_saves_a_card_for_each_judge(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "--data",
        str(data),
        "--judge",
        "fake/a",
        "--judge",
        "fake/b",
        "--repeats",
        "2",
        "--out",
        str(tmp_path / "run"),
    ]
    code = command.main([*arguments, "--json", str(tmp_path / "cards.json")], standalone_mode=False)
    assert code == 0
    assert capsys.readouterr().out.count("Trust card") == 2
    cards = json.loads((tmp_path / "cards.json").read_text())
    assert [card["models"]["judge"] for card in cards] == ["fake/a", "fake/b"]
    assert (tmp_path / "run" / "judge-2" / "card.json").is_file()
