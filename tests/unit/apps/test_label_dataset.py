"""What people are shown of edits: the source of a prompt, and no result of another source."""

import shutil
from pathlib import Path

import pytest
from builders import png, write_lines

from titjudge.apps.label.dataset import load_dataset
from titjudge.apps.label.pair_form import Pairs
from titjudge.apps.label.service import Service
from titjudge.apps.label.store import Store
from titjudge.core.errors import DataError


def _edits(folder: Path, **sources: str) -> Path:
    """Results `a`, `b`, ... of one instruction, each with the source that is named."""
    for name, source in sources.items():
        png(folder / f"{name}.png", (0, 0, 200))
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
