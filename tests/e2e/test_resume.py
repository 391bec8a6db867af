"""A run that goes on: what it keeps, what it judges again, and what it refuses to mix."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from builders import read_lines, write_lines
from PIL import Image

from tests.kit import Server
from titjudge.core.config import load_config
from titjudge.core.errors import Unanswered, UserError
from titjudge.core.run_records import Manifest
from titjudge.core.types import Reply, Request, Status
from titjudge.engine.roles import Roles
from titjudge.providers.fake import Fake
from titjudge.runs.check.verify import verify
from titjudge.runs.folder.identity import extends
from titjudge.runs.folder.manifest import Pins
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.session import Session

GENERATORS = 5


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two prompts; images.jsonl lists three generators of the first, and all five of the second."""
    folder = tmp_path / "data"
    folder.mkdir()
    for p in range(2):
        for g in range(GENERATORS):
            Image.new("RGB", (16, 16), (40 * g, 90 * p, 30)).save(folder / f"{p}_{g}.png")
    listed(folder, 3)
    prompts = [{"prompt_id": f"p{p}", "prompt": f"A red square, number {p}."} for p in range(2)]
    write_lines(folder / "prompts.jsonl", *prompts)
    return folder


def listed(folder: Path, generators: int, skip: tuple[str, ...] = ()) -> None:
    rows = [(0, g) for g in range(generators)] + [(1, g) for g in range(GENERATORS)]
    lines = [
        {"image": f"{p}_{g}.png", "prompt_id": f"p{p}", "generator": f"g{g}"}
        for p, g in rows
        if f"{p}_{g}.png" not in skip
    ]
    write_lines(folder / "images.jsonl", *lines)


def judged(data: Path, **changes: Any) -> RunFolder:
    settings: dict[str, Any] = {"data": data, "metrics": ["pairwise"], "judge": "fake/m", "report": False}
    settings |= {"cache": data.parent / "cache", "out": data.parent / "run"}
    return RunFolder(Session(load_config(None, settings | changes)).run().folder)


def rivals(run: RunFolder) -> dict[str, list[str]]:
    return {item: [duel["other"] for duel in score.parts["duels"]] for (item, _), score in run.scores().items()}


def everybody_else(data: Path) -> dict[str, list[str]]:
    lines = read_lines(data / "images.jsonl")
    return {
        one["image"]: [
            other["image"]
            for other in lines
            if other["prompt_id"] == one["prompt_id"] and other["image"] != one["image"]
        ]
        for one in lines
    }


def asked(run: RunFolder) -> int:
    return int(run.manifest().roles["judge"].asked)


def test_new_generators_meet_the_old_ones_and_only_new_duels_are_asked(data: Path) -> None:
    run = judged(data)
    first, lines = asked(run), len((run.path / "scores.jsonl").read_text().splitlines())
    listed(data, GENERATORS)
    judged(data)
    assert rivals(run) == everybody_else(data)
    assert asked(run) - first == 2 * (3 * 2 + 1)  # each new image with each old one, and the two new ones; both orders
    assert len((run.path / "scores.jsonl").read_text().splitlines()) - lines == GENERATORS  # the other prompt is done
    assert verify(run.path).holds


def test_a_replaced_image_is_a_new_rival_of_all_others(data: Path) -> None:
    run = judged(data)
    first, lines = asked(run), len((run.path / "scores.jsonl").read_text().splitlines())
    Image.new("RGB", (24, 24), (9, 9, 9)).save(data / "0_1.png")
    judged(data)
    assert asked(run) - first == 2 * 2
    assert len((run.path / "scores.jsonl").read_text().splitlines()) - lines == 3
    assert verify(run.path).holds


def test_an_image_that_was_taken_out_is_no_rival_any_more(data: Path) -> None:
    run = judged(data)
    first = asked(run)
    listed(data, 3, skip=("0_1.png",))
    judged(data)
    found = rivals(run)
    assert {item: found[item] for item in everybody_else(data)} == everybody_else(data)
    assert asked(run) == first


def test_a_session_that_ended_before_it_judged_leaves_nothing_that_looks_done(data: Path) -> None:
    run = judged(data)
    listed(data, GENERATORS)
    session = Session(load_config(None, {"data": data, "metrics": ["pairwise"], "judge": "fake/m"}))
    run.list_items(session.listed())  # as a session does that is then killed
    judged(data)
    assert rivals(run) == everybody_else(data)


def test_scores_of_half_a_prompt_are_completed_with_the_same_rivals(data: Path) -> None:
    run = judged(data)
    kept = [line for line in (run.path / "scores.jsonl").read_text().splitlines() if "0_2.png" not in line[:40]]
    (run.path / "scores.jsonl").write_text("".join(line + "\n" for line in kept))
    first = asked(run)
    judged(data)
    assert rivals(run) == everybody_else(data)
    assert asked(run) == first
    assert verify(run.path).holds


def test_a_comparison_that_nobody_answered_is_tried_again(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An outage between two images of three: all three have a score, and the third image's is whole."""
    answered = Fake.complete

    async def out(self: Fake, request: Request) -> Reply:
        if {picture.path.name for picture in request.images} == {"0_0.png", "0_1.png"}:
            raise Unanswered(Status.FAILED, "an outage")
        return await answered(self, request)

    monkeypatch.setattr(Fake, "complete", out)
    run = judged(data)
    assert sorted(score.parts["unanswered"] for score in run.scores().values())[-3:] == [0, 1, 1]
    first = asked(run)
    monkeypatch.setattr(Fake, "complete", answered)
    judged(data)
    assert {score.parts["unanswered"] for score in run.scores().values()} == {0}
    assert rivals(run) == everybody_else(data)
    assert asked(run) - first == 2
    assert verify(run.path).holds


def described(data: Path, text: str, names: tuple[str, ...]) -> None:
    lines = [{"image": name, "description": f"{text} in {name}"} for name in names]
    write_lines(data / "descriptions.jsonl", *lines)


ALL = (*(f"0_{g}.png" for g in range(3)), *(f"1_{g}.png" for g in range(GENERATORS)))
RECORDED = {"metrics": ["tit-llm"], "captioner": "recorded"}


def test_a_recorded_answer_that_changed_is_not_mixed_with_the_old_ones(data: Path) -> None:
    described(data, "a red square", ALL)
    run = judged(data, **RECORDED)
    assert set(run.manifest().recordings) == {"descriptions.jsonl"}
    before = (run.path / "scores.jsonl").read_bytes()
    described(data, "a blue circle", ALL)
    with pytest.raises(
        UserError, match=r"descriptions.jsonl no longer has the answer that this run used for .*Choose another --out"
    ):
        judged(data, **RECORDED)
    assert (run.path / "scores.jsonl").read_bytes() == before
    assert judged(data, **RECORDED, out=data.parent / "other").manifest().status == "complete"


def test_a_recording_that_grew_goes_on(data: Path) -> None:
    described(data, "a red square", ALL[:3])
    run = judged(data, **RECORDED)
    assert sum(score.value is not None for score in run.scores().values()) == 3
    described(data, "a red square", ALL)
    judged(data, **RECORDED)
    assert all(score.value is not None for score in run.scores().values())
    (data / "descriptions.jsonl").unlink()
    described(data, "a red square", ALL[1:])
    with pytest.raises(UserError, match=r"for 0_0\.png"):
        judged(data, **RECORDED)


def test_two_descriptions_that_were_exchanged_are_noticed(data: Path) -> None:
    described(data, "a red square", ALL)
    run = judged(data, **RECORDED)
    text = (data / "descriptions.jsonl").read_text()
    exchanged = text.replace("in 0_0.png", "in ?").replace("in 0_1.png", "in 0_0.png").replace("in ?", "in 0_1.png")
    (data / "descriptions.jsonl").write_text(exchanged)
    with pytest.raises(UserError, match=f"{run.path}: descriptions.jsonl no longer has"):
        judged(data, **RECORDED)


def test_a_program_that_changed_is_another_scorer(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = data.parent / "score.py"
    line = "import sys, json\nfor l in sys.stdin: print(json.dumps({'id': json.loads(l)['id'], 'score': %s}))\n"
    program.write_text(line % 1.0)
    monkeypatch.setenv("TITJUDGE_EXTERNAL_LMM4LMM", f"{sys.executable} {program}")
    run = judged(data, metrics=["lmm4lmm"])
    program.write_text(line % 2.0)
    with pytest.raises(
        UserError, match=r"the model of external/lmm4lmm has changed since this run began \(from external:"
    ):
        judged(data, metrics=["lmm4lmm"])
    assert {score.value for score in run.scores().values()} == {1.0}
    program.write_text(line % 1.0)
    judged(data, metrics=["lmm4lmm"])


def test_other_weights_under_the_same_name_are_another_model(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fake, "base_url", "local:weights1,auto")
    run = judged(data)
    monkeypatch.setattr(Fake, "base_url", "local:weights2,auto")
    run.set_status("incomplete: budget")
    with pytest.raises(UserError, match=r"of judge has changed .*\(from local:weights1 to local:weights2\)"):
        judged(data)
    assert run.manifest().status == "incomplete: budget"  # a refusal leaves the run as it is
    manifest = run.manifest().to_json()
    del manifest["pins"]  # a manifest that was made again has none
    run.write_manifest(Manifest.model_validate(manifest))
    judged(data)
    assert run.manifest().pins == {"judge": "local:weights2,auto"}


@pytest.mark.parametrize(
    ("model", "variable", "path"),
    [
        ("openai/gpt-4o", "OPENAI_BASE_URL", "/v1"),
        ("gemini/gemini-2.5-pro", "GOOGLE_GEMINI_BASE_URL", ""),
        ("azure/gpt-4o", "AZURE_OPENAI_ENDPOINT", ""),
    ],
)
def test_a_server_that_the_environment_names_is_kept_to(
    data: Path, monkeypatch: pytest.MonkeyPatch, model: str, variable: str, path: str
) -> None:
    for name in ("OPENAI", "GEMINI", "AZURE_OPENAI"):
        monkeypatch.setenv(f"{name}_API_KEY", "key-of-nobody")
    given = {"metrics": ["lmm-score"], "captioner": model, "judge": None}
    with Server() as server:
        monkeypatch.setenv(variable, server.url + path)
        judged(data, **given, limit=2)
        asked = server.count()
        monkeypatch.setenv(variable, server.url.replace("127.0.0.1", "localhost") + path)
        with pytest.raises(UserError, match=r"of captioner has changed .*127\.0\.0\.1.* to http://localhost"):
            judged(data, **given)
        assert server.count() == asked
        monkeypatch.setenv(variable, server.url + path)
        judged(data, **given)
        assert server.count() > asked > 0


def test_an_address_that_litellm_takes_from_the_environment_is_kept_to(monkeypatch: pytest.MonkeyPatch) -> None:
    from titjudge.providers import ProviderSettings, make_provider

    provider = make_provider("litellm", ProviderSettings("anthropic/claude-sonnet-4-5"))
    assert provider.address == ""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://me:secret@127.0.0.1:9/v1?key=k")
    assert (provider.address, provider.base_url) == ("http://127.0.0.1:9/v1", "")


def test_another_embedder_under_the_same_name_is_noticed(data: Path) -> None:
    run = judged(data)
    config = load_config(None, {"data": data, "metrics": ["tit"], "captioner": "fake/m"})

    def pins(revision: str) -> Pins:
        identity = {"model": "e", "revision": revision, "max_tokens": 256}
        embedder: Any = SimpleNamespace(name="e", identity=identity, max_tokens=256, local=True)
        return Pins(Roles(config, embedder=lambda _: embedder), ("captioner", "embedder"))

    run.write_manifest(run.manifest().with_(**pins("1").record(Manifest())))
    pins("1").check(run, together=False)
    with pytest.raises(UserError, match=r"of embedder has changed .*\(from revision=1 to revision=2\)"):
        pins("2").check(run, together=False)


def test_a_metric_is_added_to_a_finished_run(data: Path) -> None:
    run = judged(data, metrics=["lmm-score"], captioner="fake/m", judge=None)
    before = (run.path / "scores.jsonl").read_bytes()
    judged(data, metrics=["pairwise", "lmm-score"], captioner="fake/m")
    assert (run.path / "scores.jsonl").read_bytes().startswith(before)
    assert {name for _, name in run.scores()} == {"lmm-score", "pairwise"}
    assert len(run.scores()) == 2 * len(ALL)
    assert run.manifest().identity["metrics"] == ["pairwise", "lmm-score"]
    assert set(run.results().metrics) == {"lmm-score", "pairwise"}
    assert verify(run.path).holds


def test_what_changes_the_scores_that_are_there_is_no_addition(data: Path) -> None:
    judged(data, metrics=["lmm-score"], captioner="fake/m")
    for change in (
        {"captioner": "fake/other"},
        {"judge": "fake/other"},
        {"metric_options": {"lmm-score": {}}, "seed": 1},
    ):
        with pytest.raises(UserError, match="choose another --out"):
            judged(data, **{"metrics": ["lmm-score", "pairwise"], "captioner": "fake/m", **change})
    with pytest.raises(UserError, match="metrics can only be added"):
        judged(data, metrics=["pairwise"], captioner="fake/m")


def test_options_of_an_old_metric_are_no_addition() -> None:
    old = {"metrics": ["tit-agent"], "judge": None, "metric_options": {"tit-agent": {"max_looks": 8}}}
    new = {**old, "metrics": ["tit-agent", "pairwise"], "judge": {"model": "m"}}
    assert extends(old, new)
    assert not extends(old, {**new, "metric_options": {"tit-agent": {"max_looks": 9}}})
    assert not extends({**old, "metric_options": {}}, new)
    assert not extends(old, {**old, "judge": {"model": "m"}})
