"""Shards judged apart and merged are the run judged whole: same scores, same tables, same money, and it verifies."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from answers import good
from builders import compared_images
from commands import cli

from tests.kit import Scripted, Seen, Server
from titjudge.core.config import load_config
from titjudge.core.errors import ConfigError, DataError, UserError
from titjudge.core.run_records import ProgressRecord
from titjudge.core.types import Item
from titjudge.runs.check.merge import merge
from titjudge.runs.check.verify import verify
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.session import Session

IMAGES, PROMPTS = 11, 4


@pytest.fixture
def server(serve_openai: Callable[..., Server], tmp_path: Path) -> Server:
    compared_images(tmp_path / "data", IMAGES, PROMPTS, preferences="ab")
    return serve_openai(good)


def judged(folder: Path, out: str, **changes: Any) -> Path:
    settings: dict[str, Any] = {
        "data": folder / "data",
        "captioner": "openai/gpt-4o",
        "judge": "openai/gpt-4o",
        "metrics": ["tit-llm"],
        "out": folder / out,
        "cache": folder / f"cache-{out}",
        "report": False,
    }
    return Session(load_config(None, settings | changes)).run().folder


def results(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


def test_merged_shards_are_the_whole_run(tmp_path: Path, server: Server) -> None:
    whole = judged(tmp_path, "whole")
    parts = [judged(tmp_path, f"s{k}", shard=f"{k}/3") for k in (1, 2, 3)]
    assert [len(list(RunFolder(part).items())) for part in parts] == [
        3 + 2,
        3,
        3,
    ]  # whole prompts: of four the first shard has two
    assert server.count() == 4 * IMAGES
    outcome = merge(parts, tmp_path / "merged", report=False)
    assert outcome.status == "complete"
    one, other = results(whole), results(outcome.folder)
    for name in ("metrics", "leaderboard", "leaderboard_srcc", "tables", "items", "pairs"):
        assert other[name] == one[name], name
    assert other["spent"] == pytest.approx(one["spent"])
    assert other["list_cost"] == pytest.approx(one["list_cost"])
    assert list(RunFolder(outcome.folder).items()) == list(RunFolder(whole).items())
    manifest = RunFolder(outcome.folder).manifest()
    assert "shard" not in manifest.identity
    assert [each.shard for each in manifest.merged or ()] == ["1/3", "2/3", "3/3"]
    assert manifest.roles["judge"].asked == IMAGES
    assert manifest.progress == ProgressRecord(total=IMAGES, done=IMAGES, scored=IMAGES, failed=0)
    found = verify(outcome.folder)
    assert found.holds, found.problems


def test_a_merged_run_is_resumed_like_any_other(tmp_path: Path, server: Server) -> None:
    first = judged(tmp_path, "s1", shard="1/2")
    outcome = merge([first], tmp_path / "merged")
    assert outcome.status == "incomplete: shard 2/2 missing"
    assert outcome.report is not None
    asked = server.count()
    again = judged(tmp_path, "merged", cache=tmp_path / "fresh")
    assert server.count() - asked == 2 * (3 + 2)
    assert RunFolder(again).manifest().status == "complete"
    with pytest.raises(UserError, match="was not merged"):
        merge([first], again)


def test_the_same_question_in_two_shards_is_kept_once_and_paid_as_often_as_it_was(
    tmp_path: Path, server: Server
) -> None:
    shutil.copy(tmp_path / "data" / "0.png", tmp_path / "data" / "1.png")
    shared = {"cache": tmp_path / "shared"}
    parts = [judged(tmp_path, f"s{k}", shard=f"{k}/2", metrics=["lmm-score"], **shared) for k in (1, 2)]
    prompts = {item.prompt for part in parts for item in RunFolder(part).items() if isinstance(item, Item)}
    assert len(prompts) == PROMPTS
    merged = merge(parts, tmp_path / "merged", report=False).folder
    money = RunFolder(merged).money()
    assert money.requests == server.count()
    renewed = merge([*parts, parts[0]], merged, report=False).folder
    assert RunFolder(renewed).money() == money
    assert len(RunFolder(renewed).scores()) == IMAGES


def test_a_value_wins_over_none_and_the_newer_over_the_older(tmp_path: Path, server: Server) -> None:
    server.handler = lambda seen: good(seen) if seen.images else Scripted.fault("refusal")
    before = judged(tmp_path, "before")
    server.handler = good
    after = judged(tmp_path, "after")
    assert all(score.value is None for score in RunFolder(before).scores().values())
    for order in ([before, after], [after, before]):
        merged = merge(order, tmp_path / f"merged-{order[0].name}", report=False).folder
        assert RunFolder(merged).scores() == RunFolder(after).scores()
        assert verify(merged).holds
    file = after / "manifest.json"
    manifest = json.loads(file.read_text())
    file.write_text(json.dumps({**manifest, "updated": 0}))
    merged = merge([before, after], tmp_path / "third", report=False).folder
    assert all(score.value is not None for score in RunFolder(merged).scores().values())


def test_what_does_not_belong_together_is_refused_with_the_reason(tmp_path: Path, server: Server) -> None:
    one = judged(tmp_path, "one", shard="1/2")
    other = judged(tmp_path, "other", shard="2/2", judge="openai/gpt-4.1", protocol="official")
    with pytest.raises(UserError, match="they differ in judge, protocol"):
        merge([one, other], tmp_path / "merged")
    manifest = json.loads((one / "manifest.json").read_text())
    manifest["prompts"]["tit/compare"] = "0" * 64
    two = tmp_path / "two"
    shutil.copytree(one, two)
    (two / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="they differ in prompt tit/compare"):
        merge([one, two], tmp_path / "merged")
    with pytest.raises(DataError, match="not a run folder"):
        merge([one, tmp_path / "data"], tmp_path / "merged")
    with pytest.raises(UserError, match="one of the runs"):
        merge([one], one)
    assert not (tmp_path / "merged").exists()


def test_a_run_that_is_being_written_is_not_merged(tmp_path: Path, server: Server) -> None:
    one = judged(tmp_path, "one", shard="1/2")
    busy = RunFolder(one)
    busy.open(load_config(None, {"data": tmp_path / "data", "captioner": "openai/gpt-4o", "judge": "openai/gpt-4o",
                                 "metrics": ["tit-llm"], "shard": "1/2"}))  # fmt: skip
    try:
        with pytest.raises(UserError, match="another titjudge is writing"):
            merge([one], tmp_path / "merged")
    finally:
        busy.close()
    assert merge([one], tmp_path / "merged", report=False).status.startswith("incomplete")


def test_a_merge_is_not_made_from_less_than_before(tmp_path: Path, server: Server) -> None:
    parts = [judged(tmp_path, f"s{k}", shard=f"{k}/2") for k in (1, 2)]
    merged = merge(parts, tmp_path / "merged", report=False).folder
    with pytest.raises(UserError, match="also merged from s2"):
        merge(parts[:1], merged)
    with pytest.raises(UserError, match=r"was merged from s1\. Give only one of them"):
        merge([merged, parts[0]], tmp_path / "twice")


def test_merges_are_merged(tmp_path: Path, server: Server) -> None:
    parts = [judged(tmp_path, f"s{k}", shard=f"{k}/4") for k in (1, 2, 3, 4)]
    halves = [merge(parts[:2], tmp_path / "a", report=False), merge(parts[2:], tmp_path / "b", report=False)]
    assert {half.status for half in halves} == {
        "incomplete: shard 3/4, 4/4 missing",
        "incomplete: shard 1/4, 2/4 missing",
    }
    both = merge([half.folder for half in halves], tmp_path / "both", report=False)
    assert both.status == "complete"
    assert len(RunFolder(both.folder).scores()) == IMAGES
    assert RunFolder(both.folder).money() == RunFolder(merge(parts, tmp_path / "all").folder).money()


def numbered(written: list[str]) -> Any:
    """A server that words its questions anew whenever it is asked for some."""

    def answer(seen: Seen) -> str:
        if seen.images:
            return "yes"
        written.append(seen.text)
        asked = [f"Is there a thing {k}, wording {len(written)}?" for k in (1, 2)]
        questions = [{"id": k, "tuple": "t", "question": text, "parents": []} for k, text in enumerate(asked, 1)]
        return json.dumps({"questions": questions})

    return answer


def exams(folder: Path) -> dict[str, set[str]]:
    """The questions that the images of each prompt were judged by."""
    found: dict[str, set[str]] = {}
    for score in RunFolder(folder).scores().values():
        found.setdefault(score.prompt_id, set()).add(" ".join(each["question"] for each in score.parts["questions"]))
    return found


def test_all_images_of_a_prompt_are_judged_by_the_same_questions(tmp_path: Path, server: Server) -> None:
    written: list[str] = []
    server.handler = numbered(written)
    parts = [judged(tmp_path, f"s{k}", shard=f"{k}/3", metrics=["dsg"]) for k in (1, 2, 3)]
    outcome = merge(parts, tmp_path / "merged", report=False)
    assert len(written) == PROMPTS
    assert {group: len(each) for group, each in exams(outcome.folder).items()} == {f"p{p}": 1 for p in range(PROMPTS)}
    assert not any(warning.id == "different_questions" for warning in outcome.warnings)


def test_a_merge_of_images_judged_by_different_questions_says_so(tmp_path: Path, server: Server) -> None:
    """Runs over halves of a prompt's images, each with a cache of its own."""
    server.handler = numbered([])
    whole = (tmp_path / "data" / "images.jsonl").read_text().splitlines(keepends=True)
    parts = []
    for name, lines in (("a", whole[:4]), ("b", whole[1:])):
        (tmp_path / "data" / "images.jsonl").write_text("".join(lines))
        parts.append(judged(tmp_path, name, metrics=["dsg"]))
    outcome = merge(parts, tmp_path / "merged", report=False)
    assert {group: len(each) for group, each in exams(outcome.folder).items()} == {"p0": 2, "p1": 1, "p2": 1, "p3": 1}
    (warning,) = [each for each in outcome.warnings if each.id == "different_questions"]
    assert warning.startswith("dsg: images of one prompt (p0) were judged by different answers to dsg/questions")


def test_parts_that_other_weights_answered_are_named(tmp_path: Path, server: Server) -> None:
    parts = [judged(tmp_path, f"s{k}", shard=f"{k}/2") for k in (1, 2)]
    for part, weights in zip(parts, ("local:a", "local:b"), strict=True):
        folder = RunFolder(part)
        folder.write_manifest(folder.manifest().with_(pins={"judge": weights, "captioner": "local:c"}))
    outcome = merge(parts, tmp_path / "merged", report=False)
    assert [each for each in outcome.warnings if "joined over" in each] == [
        "joined over different models: judge was local:a and local:b"
    ]


@pytest.mark.parametrize("newer", ["fewer", "more"])
def test_images_of_a_prompt_are_merged_with_the_rivals_they_were_compared_with(
    tmp_path: Path, server: Server, newer: str
) -> None:
    server.handler = lambda seen: json.dumps({"reason": "r", "better": "first"})
    file = tmp_path / "data" / "images.jsonl"
    whole = file.read_text().splitlines(keepends=True)
    runs: dict[str, Path] = {}
    for name in ("fewer", "more") if newer == "more" else ("more", "fewer"):
        file.write_text("".join(whole if name == "more" else whole[:8]))
        runs[name] = judged(tmp_path, name, metrics=["pairwise"])
    merged = merge([*runs.values()], tmp_path / "merged", report=False).folder
    assert RunFolder(merged).scores() == RunFolder(runs["more"]).scores()
    assert verify(merged).holds


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "a/b", "1/0"])
def test_a_shard_is_one_of_n(tmp_path: Path, shard: str) -> None:
    with pytest.raises(ConfigError, match="shard"):
        load_config(None, {"shard": shard})


def test_shards_and_merge_on_the_command_line(tmp_path: Path, server: Server) -> None:
    common = ("judge", "--data", "data", "--provider", "openai/gpt-4o", "--metric", "tit-llm")
    for k in ("1", "2"):
        cli(tmp_path, *common, "--shard", f"{k}/2", "--out", f"s{k}")
    assert server.count() == 2 * IMAGES
    out = cli(tmp_path, "merge", "s1", "s2", "--out", "all", "--json", "out.json")
    assert "tit-llm" in out
    assert json.loads((tmp_path / "out.json").read_text())["metrics"]["tit-llm"]["coverage"] == 1
    assert "verified" in cli(tmp_path, "verify", "all")
    cli(tmp_path, *common, "--out", "all")  # nothing is left to ask
    assert server.count() == 2 * IMAGES
    assert "must be K/N" in cli(tmp_path, *common, "--shard", "3/2", code=2)


def test_merge_leaves_out_the_report_when_asked_to(tmp_path: Path, server: Server) -> None:
    parts = [str(judged(tmp_path, f"s{k}", shard=f"{k}/2")) for k in (1, 2)]
    assert "report " not in cli(tmp_path, "merge", *parts, "--out", "both", "--no-report")
    assert not (tmp_path / "both" / "report.html").exists()


def test_a_run_of_very_many_images_gets_no_report_by_itself(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [judged(tmp_path, f"s{k}", shard=f"{k}/2") for k in (1, 2)]
    monkeypatch.setattr("titjudge.runs.outcome.MOST_REPORTED", IMAGES - 1)
    said = cli(tmp_path, "merge", *map(str, parts), "--out", "a run")
    assert (
        f"report none by itself for {IMAGES} images: `python cli.py report 'a run' --format folder` writes it" in said
    )
    assert not (tmp_path / "a run" / "report.html").exists()
    whole = judged(tmp_path, "whole", report=True)
    assert not (whole / "report.html").exists()
    monkeypatch.setattr("titjudge.runs.outcome.MOST_REPORTED", IMAGES)
    monkeypatch.setattr("titjudge.report.html.LISTED", IMAGES - 1)
    said = cli(tmp_path, "merge", *map(str, parts), "--out", "part")
    assert f"it lists {IMAGES - 1} of {IMAGES} images: `python cli.py report part --format folder` lists more" in said
    assert merge(parts, tmp_path / "a run").report == tmp_path / "a run" / "report.html"
