"""The likeness of an edit and its source, on tiny random weights of DINOv2's architecture."""

from pathlib import Path

import pytest
import tiny_models
from builders import read_lines, write_lines
from commands import cli
from PIL import Image

pytestmark = pytest.mark.slow  # a model is made


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Four edits of one generator: nothing changed, a little, much, and one of two sources."""
    tiny_models.dinov2(tmp_path / "weights" / "preservation-dino")
    source = tiny_models.picture(64, 64, seed=1)
    for name in ("source", "same"):
        source.save(tmp_path / f"{name}.png")
    little = source.copy()
    little.paste((255, 0, 0), (0, 0, 16, 16))
    little.save(tmp_path / "little.png")
    tiny_models.picture(64, 48, seed=9).save(tmp_path / "much.png")
    edits = [
        {"source_image": ["source.png", "much.png"] if name == "two" else "source.png",
         "edited_image": f"{'same' if name == 'two' else name}.png", "instruction": f"make it {name}", "prompt_id": name}
        for name in ("same", "little", "much", "two")
    ]  # fmt: skip
    edits[-1]["edited_image"] = "little.png"
    write_lines(tmp_path / "edits.jsonl", *edits)
    return tmp_path


def cosine(folder: Path, first: Path, second: Path) -> float:
    """As transformers' own classes give it, one image at a time."""
    import torch
    from transformers import AutoImageProcessor, Dinov2Model

    model, processor = Dinov2Model.from_pretrained(folder).eval(), AutoImageProcessor.from_pretrained(folder)
    with torch.inference_mode():
        tokens = [
            model(**processor(Image.open(path).convert("RGB"), return_tensors="pt")).last_hidden_state[0, 0]
            for path in (first, second)
        ]
    return float(torch.nn.functional.cosine_similarity(*tokens, dim=0))


def test_an_edit_is_compared_with_its_source_and_one_of_several_sources_has_no_number(place: Path) -> None:
    weights = str(place / "weights")
    cli(place, "judge", "--data", "edits.jsonl", "--metric", "preservation-dino", "--out", "run", code=4, TITJUDGE_WEIGHTS=weights)  # fmt: skip
    lines = read_lines(place / "run" / "scores.jsonl")
    scores = {line["prompt_id"]: line for line in lines}
    assert scores["same"]["value"] == pytest.approx(1.0, abs=1e-6)
    for name in ("little", "much"):
        expected = cosine(place / "weights" / "preservation-dino", place / "source.png", place / f"{name}.png")
        assert scores[name]["value"] == pytest.approx(expected, abs=1e-5)
        assert scores[name]["value"] < 0.999
    assert (scores["two"]["value"], scores["two"]["status"]) == (None, "bad_input")
    assert "an image and its one source, not 3 images" in scores["two"]["reason"]


def test_an_image_without_a_source_is_refused(place: Path) -> None:
    write_lines(place / "images.jsonl", {"image": "same.png", "prompt": "a cat"})
    said = cli(place, "judge", "--data", "images.jsonl", "--metric", "preservation-dino", code=2, TITJUDGE_WEIGHTS=str(place / "weights"))  # fmt: skip
    assert "source" in said
