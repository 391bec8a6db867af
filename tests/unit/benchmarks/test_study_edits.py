"""The study of edits over made replies, marks and votes whose numbers are known, in the layout of the published ones."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import png

from benchmarks import edit_replies, study, study_edits
from benchmarks.edit_replies import TASKS, people_of, replies_of, scores_of, source_of
from benchmarks.study_edit_failures import boards_of
from titjudge.core.types import Item
from titjudge.metrics.viescore import viescore_edit
from titjudge.testing import score_one

EDITORS = ("E0", "E1", "E2", "E3", "E4", "E5")
PARTS = ("edit-judges", "edit-failures", "edit-votes", "edit-bridge", "edit-parity")
DATA = os.environ.get("TITJUDGE_STUDY_DATA")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def replied(*ratings: float) -> dict[str, Any]:
    return {"score": list(ratings), "reasoning": "fine", "prompt_input": "...", "vision_input": ["a.jpg", "b.jpg"]}


GUESS = {"score": [7], "reasoning": "guess_if_cannot_parse | I am sorry, I can't help with that."}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Lay out 20 edits by six editors: gpt4o knows people's marks, gemini marks all one step up, and gpt4v refuses the best editor."""
    root, rng = tmp_path / "VIEScore" / "paper_implementation", np.random.default_rng(0)
    for task in TASKS:
        truth = {
            (editor, f"sample_{k // 2}_{k % 2}.jpg"): float(np.clip(rng.integers(0, 3) / 2 + g / 10 - 0.3, 0, 1))
            for g, editor in enumerate(EDITORS)
            for k in range(20)
        }
        ids = sorted({edit for _, edit in truth})
        for rater in (1, 2, 3):
            rows = ["\t".join(["uid", *EDITORS, "Unjudged"])]
            rows += [
                "\t".join([edit, *(f"[{truth[e, edit]}, {truth[e, edit]}]" for e in EDITORS), "[0, 0]"]) for edit in ids
            ]
            folder = root / "_human_annotations" / "ImagenHub_human_eval_results" / f"ImagenHub_{task}"
            write(folder / f"{task}_rater{rater}.tsv", "\n".join(rows) + "\n")
        for judge in ("gpt4o_0shot", "gemini_0shot", "gpt4v_0shot"):
            for editor in EDITORS:
                up = {"gemini_0shot": 0.5}.get(judge, 0.0)
                told = {edit: replied(10, 8 * truth[editor, edit] + up) for edit in ids}
                if judge == "gpt4v_0shot" and editor == "E5":
                    told |= dict.fromkeys(ids[:5], GUESS)
                    told = {edit: reply for edit, reply in told.items() if edit not in ids[5:15]}
                for part in ("SC", "PQ"):
                    file = root / "_answers" / f"results_{judge}" / f"ImagenHub_{task}" / editor / f"{part}.json"
                    write(file, json.dumps(told))
    return tmp_path / "VIEScore"


@pytest.fixture
def genai(tmp_path: Path) -> Path:
    """Lay out eight votes: `right` has people's labels, `first` always says the first, `mute` no label."""
    people = [
        "leftvote",
        "rightvote",
        "leftvote",
        "rightvote",
        "bothbad_vote",
        "bothbad_vote",
        "bothbad_vote",
        "tievote",
    ]
    labels = {
        vote: label
        for label, side in edit_replies.LABELS.items()
        for vote, own in edit_replies.VOTES.items()
        if own == side
    }
    for judge, say in {"right": labels.get, "first": lambda _: "[[A>B]]", "mute": lambda _: None}.items():
        rows = [
            {"idx": k, "source_prompt": f"s{k // 2}", "human_vote": vote, "model_vote": say(vote), "correct": say(vote) == labels[vote]}
            for k, vote in enumerate(people)
        ]  # fmt: skip
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        write(tmp_path / "GenAI-Bench" / "results" / "image_edition" / judge / "pairwise.jsonl", lines)
    write(tmp_path / "GenAI-Bench" / "results" / "image_edition" / "empty" / "pairwise.jsonl", "")
    return tmp_path / "GenAI-Bench"


def cells(text: str) -> dict[str, list[str]]:
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {name: rest for name, *rest in reversed(lines)}  # the first table of a name


def said(part: str, capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    study.main([part, *flags])
    return capsys.readouterr().out


def test_turns_of_one_session_are_one_source() -> None:
    assert source_of("sample_100081_1.jpg") == source_of("sample_100081_3.jpg") != source_of("sample_7_1.jpg")
    assert source_of("sample_84.jpg") == "sample_84.jpg"


def test_a_drawn_rating_is_no_score_and_the_smallest_rating_counts(checkout: Path) -> None:
    replies = replies_of(checkout, TASKS[0])
    scores = scores_of(replies["gpt4v_0shot"])
    assert not any(edit == ("E5", "sample_0_0.jpg") for edit in scores["overall"])
    assert replies["gpt4v_0shot"]["SC"]["E5", "sample_0_0.jpg"].published == 7
    edit = ("E1", "sample_0_0.jpg")
    truth = people_of(checkout, TASKS[0])[edit][0]
    assert scores["success"][edit] == pytest.approx(8 * truth[0])
    assert scores["overall"][edit] == pytest.approx(8 * truth[2])


def test_a_judge_that_knows_the_marks_reaches_one_and_raters_who_agree_do_too(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said("edit-judges", capsys, "--viescore", str(checkout))
    rows = cells(text)
    assert rows["gpt4o_0shot"][4].startswith("100.0%")  # pairs
    assert rows["gpt4o_0shot"][1].startswith("0.950")  # twenty equal orders: 1 - 1 / 20
    assert rows["*one rater and another*"][1].startswith("0.950")
    assert rows["gpt4v_0shot"][0] == "87.5%"
    assert rows["gemini_0shot"][6].startswith("+0.0")  # minus gpt4o on shared pairs
    assert "With Unjudged, of which no judge has replies" in text


def test_refusals_as_zeros_put_the_best_editor_lower_and_bounds_hold_every_other_way(checkout: Path) -> None:
    boards = boards_of(replies_of(checkout, TASKS[0])["gpt4v_0shot"], people_of(checkout, TASKS[0]))
    assert boards.lacking.tolist() == [0, 0, 0, 0, 0, 15]
    assert boards.shared == 5
    assert boards.zeros[5] < boards.dropped[5] < boards.best[5]
    assert boards.moved(boards.zeros) > 0
    assert boards.open_pairs() > 0
    assert (boards.zeros <= boards.drawn).all()
    assert (boards.drawn <= boards.best).all()
    assert boards.moved(boards.dropped) == 0


def test_failures_are_told_apart(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = cells(said("edit-failures", capsys, "--viescore", str(checkout)))
    assert rows["gpt4v_0shot, text-guided edits"][:3] == ["15 of 120", "20 / 10 / 0", "0.0% to 75.0%"]


def test_replies_are_read_as_published_but_for_the_drawn_ones(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = cells(said("edit-parity", capsys, "--viescore", str(checkout)))
    assert rows["gpt4o_0shot"] == ["720", "720", "0", "0", "0", "0"]
    assert rows["gpt4v_0shot"] == ["660", "630", "0", "30", "0", "0"]


def test_votes_count_kinds_of_ties_and_sides_alone(genai: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said("edit-votes", capsys, "--genai", str(genai))
    rows = cells(text)
    assert rows["right"][0].startswith("100.0%")
    assert rows["right"][5:] == ["100.0% / 100.0%", "50.0%"]
    assert rows["first"][0].startswith("25.0%")
    assert rows["first"][3].startswith("50.0%")
    assert rows["first"][5:] == ["0.0% / \N{EN DASH}", "100.0%"]
    assert rows["mute"][1:4] == ["100.0%", "0", "\N{EN DASH}"]
    assert rows["mute"][4].startswith("50.0%")
    assert "empty" not in text
    assert "2 the first, 2 the second (50.0% the first where they decide), 1 ties, 3 both bad" in text


def test_a_board_is_carried_to_a_judge_that_marks_all_alike_higher(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = cells(said("edit-bridge", capsys, "--viescore", str(checkout)))
    bridges, none, held, *_, error, without, order = rows["gemini_0shot"]
    assert (bridges, none, held.split()[2]) == ("15", "0", "30")
    assert float(error) < float(without)
    assert order == "15 of 15"


def test_a_perfect_stratum_does_not_decide_the_mean() -> None:
    x = [1.0, 2, 3, 4, 1, 2, 3, 4]
    y = [1.0, 2, 3, 4, 2, 1, 4, 3]
    found = study_edits.mean_correlation(x, y, ["a"] * 4 + ["b"] * 4, list("pqrspqrs"))
    assert found.strata == 2
    assert found.srcc == pytest.approx(np.tanh((np.arctanh(0.75) + np.arctanh(0.6)) / 2))
    assert study_edits.mean_correlation(x, [1.0] * 8, ["a"] * 8, list("pqrspqrs")).srcc is None


@pytest.mark.skipif(not DATA, reason="TITJUDGE_STUDY_DATA names no folder with copies of VIEScore and GenAI-Bench")
@pytest.mark.slow
def test_the_page_on_edits_is_current_and_published_numbers_come_out_again() -> None:
    checkout, genai = study.copy_of("VIEScore"), study.copy_of("GenAI-Bench")
    if checkout is None or genai is None:
        pytest.skip(f"{DATA} has no VIEScore or no GenAI-Bench")
    study.main([*PARTS, "--check"])
    values = study_edits.editor_values(
        replies_of(checkout, TASKS[0])["gpt4o_0shot"], people_of(checkout, TASKS[0])
    ).values()
    means = [study_edits.fisher([each[k] for each in values]) for k in range(3)]
    assert means == pytest.approx([0.454, 0.544, 0.419], abs=0.0006)
    votes = edit_replies.votes_of(genai)
    shares = {name: round(100 * float(np.mean([vote.correct for vote in votes[name]])), 2) for name in votes}
    published = {"gpt4o": 53.54, "gemini-1.5-pro": 55.93, "llava": 26.12, "random": 25.9, "cogvlm": 0.0}
    assert {name: shares[name] for name in published} == published


def test_the_study_scores_recorded_replies_as_the_metric_does(checkout: Path, tmp_path: Path) -> None:
    replies, edit = replies_of(checkout, TASKS[0])["gemini_0shot"], ("E4", "sample_0_0.jpg")
    item = Item("e", "Make it red.", png(tmp_path / "after.png"), sources=(png(tmp_path / "before.png"),))
    texts = [replies[part][edit].text for part in ("SC", "PQ")]
    found = score_one(viescore_edit, item, texts, protocol="official").score
    assert found.value == pytest.approx(scores_of(replies)["overall"][edit])
    assert found.parts["SC"] == scores_of(replies)["success"][edit]
