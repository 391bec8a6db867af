import asyncio
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from known_answers import planted_once

from titjudge.core.config import RunConfig
from titjudge.core.errors import DataError, UserError
from titjudge.core.prompts import PromptLibrary
from titjudge.core.run_records import Manifest
from titjudge.core.types import Reply, Request, Status, Usage
from titjudge.engine.budget import Budget
from titjudge.engine.cache import AnswerCache
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.metrics import Metric
from titjudge.metrics.tit import lmm_score
from titjudge.probes.canary import (
    Canary,
    CanaryReport,
    _report,
    ask_canaries,
    canary_file,
    canary_items,
    drift_between,
    refuse_drift,
)
from titjudge.providers.fake import Fake

pytestmark = pytest.mark.slow  # many in all, each of them short


@pytest.fixture
def example(small_known: Path) -> Path:
    return small_known


@pytest.fixture(scope="module", autouse=True)
def _planted_once() -> Iterator[None]:
    with planted_once():
        yield


METRICS: dict[str, Metric] = {"lmm-score": lmm_score}
Model = Callable[[Request], Reply]


def model(version: str = "v1", shift: Callable[[int], float] = lambda number: 0.0, wobble: float = 0.0) -> Model:
    """Gives each image a score of its own; `shift` moves it by a number of the image, `wobble` by the sample."""

    def answer(request: Request) -> Reply:
        digest = int(request.images[0].sha256[:6], 16)
        noise = (
            int.from_bytes(
                hashlib.sha256(f"{digest}/{request.sample}/{request.messages[-1].text}".encode()).digest()[:4]
            )
            / 2**31
            - 1
        )
        score = min(100, max(0, 30 + digest % 40 + shift(digest) + wobble * noise))
        return Reply(json.dumps({"reason": "r", "score": score}), usage=Usage(5, 5), model_version=version)

    return answer


def ask(
    data: Path, file: Path, answers: Model, cache: Path | None = None, budget: Budget | None = None
) -> CanaryReport:
    async def go() -> CanaryReport:
        config = RunConfig.model_validate({"captioner": "fake/eyes"})
        fake = Fake(answers=answers)
        kept = AnswerCache(cache) if cache else None
        engine = Engine(Roles(config, make=lambda role: fake), PromptLibrary(), kept, budget)
        try:
            return await ask_canaries(engine, METRICS, data, file)
        finally:
            await engine.aclose()
            if kept:
                kept.close()

    return asyncio.run(go())


def test_the_first_time_they_are_frozen_and_then_nothing_has_changed(example: Path, tmp_path: Path) -> None:
    file = tmp_path / "canaries" / "a.json"
    first = ask(example, file, model())
    assert (first.state, first.asked) == ("frozen", 50)
    assert file.is_file()
    for _ in range(2):
        again = ask(example, file, model())
        assert (again.state, again.flips, again.lines()) == ("same", [], [])
    assert again.effect == 0


def test_they_are_asked_anew_past_the_cache(example: Path, tmp_path: Path) -> None:
    ask(example, tmp_path / "a.json", model(), tmp_path / "cache")
    found = ask(example, tmp_path / "a.json", model(shift=lambda number: 20), tmp_path / "cache")
    assert len(found.flips) == 50
    assert found.drifted
    values = [flip["before"] for flip in found.flips if flip["before"] is not None]
    assert found.effect == pytest.approx(20 / (2 * (max(values) - min(values))))


def test_a_tenth_of_flips_is_a_drift_and_one_flip_is_none(example: Path, tmp_path: Path) -> None:
    items = canary_items(example)
    for count, state in ((1, "same"), (5, "drift")):
        file = tmp_path / f"{count}.json"
        ask(example, file, model())
        prompts = {(item.image, item.prompt) for item in items[-count:]}  # each a prompt of its own

        def answer(request: Request, prompts: set[object] = prompts) -> Reply:
            hit = any(
                prompt in request.messages[-1].text for image, prompt in prompts if image == request.images[0].path
            )
            return model(shift=lambda number: 20.0 * hit)(request)

        found = ask(example, file, answer)
        assert len(found.flips) == count
        assert found.state == state


@pytest.mark.slow
def test_a_model_that_wobbles_by_itself_does_not_drift(example: Path, tmp_path: Path) -> None:
    ask(example, tmp_path / "a.json", model(wobble=8))
    states = [ask(example, tmp_path / "a.json", model(wobble=8)).state for _ in range(10)]
    assert states == ["same"] * 10
    assert len(ask(example, tmp_path / "a.json", model(wobble=8)).flips) > 0


@pytest.mark.parametrize(("changed", "metrics"), [(0.05, 1), (0.2, 1), (0.2, 5)])
def test_questions_that_share_a_description_do_not_raise_false_alarms(changed: float, metrics: int) -> None:
    """An unchanged judge whose description of an image comes out otherwise now and then: a drift in 1% of 400 runs."""
    rng = Random(f"{changed}/{metrics}")
    names = {f"m{k}": lmm_score for k in range(metrics)}
    sizes = [9, 6, 6, 4, 4, 3, *[1] * 18] if metrics == 1 else [1] * 10  # questions of each image
    questions = [f"i{k}.jpg#{q}" for k, size in enumerate(sizes) for q in range(size)]
    drifts = 0
    for _ in range(400):
        rounds = []
        for _ in range(4):
            other = {f"i{k}.jpg" for k in range(len(sizes)) if rng.random() < changed}
            rounds.append(
                {(item, name): 40.0 + 30 * (item.partition("#")[0] in other) for item in questions for name in names}
            )
        canaries = [Canary(*key, value, (rounds[1][key], rounds[2][key])) for key, value in rounds[0].items()]
        drifts += _report(canaries, rounds[3], names, {}, {}, Path("f"), "p").drifted
    assert drifts <= 4 + 3 * 4**0.5


def test_four_images_that_answer_otherwise_are_a_drift_and_three_are_none() -> None:
    for images, state in ((3, "same"), (4, "drift")):
        canaries = [
            Canary(f"i{k}.jpg#{q}", "lmm-score", 10.0 * k, (10.0 * k,) * 2) for k in range(10) for q in range(2)
        ]
        now = {(c.item, c.metric): (c.value or 0.0) + 50.0 * (c.item < f"i{images}") for c in canaries}
        report = _report(canaries, now, METRICS, {}, {}, "f", "p")
        assert (report.state, len(report.flips)) == (state, 2 * images)
        assert report.p_value == 0.25**images


def test_another_version_is_a_drift_though_every_answer_is_the_same(example: Path, tmp_path: Path) -> None:
    ask(example, tmp_path / "a.json", model("v1"))
    found = ask(example, tmp_path / "a.json", model("v2"))
    assert found.drifted
    assert found.flips == []
    assert found.versions == {"captioner": {"before": ["v1"], "now": ["v2"]}}
    assert "answers as v2, was v1" in " ".join(found.lines())
    json.dumps(found.to_json(), allow_nan=False)


def test_a_refusal_where_there_was_an_answer_is_a_flip(example: Path, tmp_path: Path) -> None:
    ask(example, tmp_path / "a.json", model())
    found = ask(example, tmp_path / "a.json", lambda request: Reply("", Status.REFUSED, "no", model_version="v1"))
    assert len(found.flips) == 50
    assert found.flips[0]["now"] is None
    assert found.effect is None


def test_files_that_cannot_be_used_are_named(example: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text("{broken")
    with pytest.raises(DataError, match=r"a\.json.*Delete the file"):
        ask(example, file, model())
    file.unlink()
    ask(example, file, model())
    kept = json.loads(file.read_text())
    file.write_text(json.dumps(kept | {"fingerprint": "another"}))
    with pytest.raises(DataError, match="other models"):
        ask(example, file, model())
    file.write_text("[]")
    with pytest.raises(DataError):
        ask(example, file, model())


def test_items_are_always_the_same_and_of_every_level(example: Path, tmp_path: Path) -> None:
    assert len({(item.image, item.prompt) for item in canary_items(example)}) == 50
    assert len(canary_items(example, edited=False)) == 24
    assert [item.id for item in canary_items(example, 10)] == [item.id for item in canary_items(example)][:10]
    assert {item.meta["level"] for item in canary_items(example, 10)} == {0, 1, 2, 3}
    (tmp_path / "prompts.jsonl").write_text('{"prompt_id": "p", "prompt": "a cat"}\n')
    (tmp_path / "images.jsonl").write_text('{"image": "a.png", "prompt_id": "p"}\n')
    with pytest.raises(DataError, match="no image has known answers"):
        canary_items(tmp_path)


def test_each_set_of_models_has_a_file_of_its_own(tmp_path: Path) -> None:
    def file_of(name: str) -> Path:
        config = RunConfig.model_validate({"captioner": name})
        engine = Engine(Roles(config, make=lambda role: Fake()), PromptLibrary())
        return canary_file(tmp_path, engine, METRICS)

    assert file_of("fake/../a b") != file_of("fake/b")
    assert file_of("fake/../a b").parent == tmp_path / "canaries"


def manifest(version: str, **more: object) -> Manifest:
    role = {"model": "openai/gpt-4o", "answered": [{"version": version, "endpoint": "", "answers": 3}]}
    return Manifest.model_validate({"roles": {"judge": role}, **more})


def test_compare_refuses_to_join_across_a_drift() -> None:
    same = {"a": manifest("v1"), "b": manifest("v1", canary={"state": "same"})}
    assert drift_between(same) == []
    other = {"a": manifest("v1"), "b": manifest("v2")}
    with pytest.raises(UserError, match=r"not comparable.*v1.*v2.*--allow-drift"):
        refuse_drift(other, allow=False)
    assert len(refuse_drift(other, allow=True)) == 1
    flipped = {"a": manifest("v1"), "b": manifest("v1", canary={"state": "drift", "flips": [{}], "asked": 50})}
    assert "1 of 50" in drift_between(flipped)[0]
    assert drift_between({"old": Manifest()}) == []


def test_another_backend_of_the_same_version_is_a_note_and_no_drift(example: Path, tmp_path: Path) -> None:
    ask(example, tmp_path / "a.json", model("v1@fp_a"))
    report = ask(example, tmp_path / "a.json", model("v1@fp_b"))
    assert (report.state, report.versions, report.flips) == ("same", {}, [])
    assert any("fp_b" in line for line in report.lines())
    assert not any("DRIFT" in line for line in report.lines())
    assert report.to_json()["backends"] == {"captioner": ["v1@fp_b"]}
    assert ask(example, tmp_path / "a.json", model("v2@fp_b")).drifted
    several = {"answered": [{"version": "v1@fp_a"}, {"version": "v1@fp_b"}], "model": "m"}
    one = Manifest.model_validate({"roles": {"judge": several}})
    assert drift_between({"one": one, "other": manifest("v1@fp_a")}) == []
