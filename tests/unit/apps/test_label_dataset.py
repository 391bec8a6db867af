"""What people are shown of edits: the source of a prompt, and no result of another source."""

import contextlib
import shutil
from pathlib import Path
from typing import Any

import pytest
from builders import png, read_lines, write_lines
from labelling_data import make_data

from titjudge.apps.label.dataset import load_dataset
from titjudge.apps.label.forms import export_labels
from titjudge.apps.label.pair_form import Pairs
from titjudge.apps.label.service import Service
from titjudge.apps.label.store import Store
from titjudge.core.errors import DataError


def _edits(folder: Path, **sources: str) -> Path:
    """Results `a`, `b`, ... of one instruction, each with the source that is named."""
    for number, (name, source) in enumerate(sources.items()):
        png(folder / f"{name}.png", (0, number, 200))
        if not (folder / source).exists():
            png(folder / source, (200, len(source), 0))
    rows = [
        {"edited_image": f"{name}.png", "input_image": source, "instruction": "blue", "prompt_id": "p", "model": name}
        for name, source in sources.items()
    ]
    write_lines(folder / "edits.jsonl", *rows)
    return folder / "edits.jsonl"


def test_a_pair_of_edits_has_their_source_and_its_code_leads_to_the_file(tmp_path: Path) -> None:
    dataset = load_dataset(_edits(tmp_path, a="s.png", b="s.png"))
    store = Store(tmp_path / "votes.db")
    service = Service(dataset, store, Pairs(), annotators=1, seed=0)
    sheet = service.state("annotator-01")["sheet"]
    assert len(sheet["images"]) == 2
    (code,) = sheet["sources"]
    assert service.image(code) == tmp_path / "s.png"
    service.drop(code, "it is gone")
    assert service.state("annotator-01")["sheet"] is None
    store.close()


def test_a_copy_of_the_source_is_the_same_source_and_another_one_is_refused(tmp_path: Path) -> None:
    file = _edits(tmp_path, a="s.png", b="copy.png", c="other one.png")
    shutil.copy(tmp_path / "s.png", tmp_path / "copy.png")
    dataset = load_dataset(file)
    assert dataset.images == {"p": ("a.png", "b.png")}
    assert [problem for problem in dataset.problems if "its source differs" in problem]


def test_a_source_that_is_no_image_leaves_its_results_out(tmp_path: Path) -> None:
    file = _edits(tmp_path, a="s.png", b="s.png")
    (tmp_path / "s.png").write_text("no image")
    with pytest.raises(DataError, match="no prompt has two usable images"):
        load_dataset(file)


@pytest.mark.parametrize("plan", ["all", "merge"])
def test_identical_files_are_not_asked_and_count_as_a_tie(tmp_path: Path, plan: str) -> None:
    data = make_data(tmp_path / "data", ["a.png", "b.png", "c.png"])
    shutil.copy(data / "a.png", data / "b.png")
    dataset = load_dataset(data)
    assert dataset.identical == {("a.png", "b.png")}
    assert "a.png and b.png" in dataset.problems[-1]
    with contextlib.closing(Store(tmp_path / "votes.db")) as store:
        service = Service(dataset, store, Pairs(plan), annotators=1, seed=0)
        state: Any = service.state("annotator-01")
        names = {service._codes[image]: image for image in dataset.items}
        shown = []
        while state["sheet"]:
            shown.append({names[code] for code in state["sheet"]["images"]})
            better = "left" if names[state["sheet"]["images"][0]] == "c.png" else "right"
            state = service.vote("annotator-01", state["question"], better, 4000)
    assert 1 <= len(shown) <= 2
    assert {"a.png", "b.png"} not in shown
    export_labels(tmp_path / "votes.db", tmp_path / "out")
    assert {frozenset((pair["image_a"], pair["image_b"])) for pair in read_lines(tmp_path / "out" / "pairs.jsonl")} == {
        frozenset(("a.png", "c.png")),
        frozenset(("b.png", "c.png")),
    }
    ranks = [row.split(",")[1:4] for row in (tmp_path / "out" / "ranks.csv").read_text().splitlines()[1:]]
    assert ranks == [["c.png", "g2", "1"], ["a.png", "g0", "2"], ["b.png", "g1", "2"]]


def test_a_prompt_of_identical_files_alone_asks_nothing_and_the_others_go_on(tmp_path: Path) -> None:
    for generator, colour in (("x", 0), ("y", 90)):
        png(tmp_path / generator / "1.png", (0, 0, 9))
        png(tmp_path / generator / "2.png", (0, 0, colour))
        png(tmp_path / generator / "3.png", (0, 9, 9))
    (tmp_path / "prompts.txt").write_text("a cat\na dog\na fox\n")
    dataset = load_dataset(tmp_path)
    with contextlib.closing(Store(tmp_path / "votes.db")) as store:
        service = Service(dataset, store, Pairs(), annotators=1, seed=0)
        state = service.state("annotator-01")
        assert (state["at_most"], state["sheet"]["prompt"]) == (1, "a dog")
        service.vote("annotator-01", state["question"], "tie", 4000)
    export = export_labels(tmp_path / "votes.db", tmp_path / "out")
    leaderboard = next(table for table in export.tables if "mean rank" in table.columns)
    assert [row[1] for row in leaderboard.rows] == [3, 3], "all prompts count"
