"""A split file of LongT2IBench as rows to train on: the answer says what people marked."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from titjudge.metrics.longt2ibench_text import parse_target
from titjudge.suites.longt2ibench.suite import Annotated, read_split


@pytest.fixture
def program() -> ModuleType:
    file = Path(__file__).resolve().parents[3] / "examples" / "train" / "longt2ibench_rows.py"
    spec = importlib.util.spec_from_file_location("longt2ibench_rows", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_rows_say_what_people_marked(tmp_path: Path, program: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    from PIL import Image

    Image.new("RGB", (8, 8)).save(tmp_path / "1.png")
    structure = {
        "entity_scores": {"cat": 1, "mat": 0},
        "attribute_scores": {"cat": {"red": 1, "small": 0}},
        "relation_scores": [{"entity1": "cat", "relation": "on", "entity2": "mat", "score": 0}],
    }
    good = {
        "en_prompt_text": "a small red cat on a mat",
        "img_path": "1.png",
        "Align ratio": 0.4,
        "en_structured_data": structure,
    }
    elements = [good, {**good, "img_path": "2.png"}, {**good, "Align ratio": None}, 7, {**good, "img_path": "../1.png"}]
    (tmp_path / "split.json").write_text(json.dumps(elements))
    words = [str(tmp_path / "split.json"), "--images", str(tmp_path), "--out", str(tmp_path / "rows.jsonl")]
    assert program.main(words) == 0
    told = capsys.readouterr()
    assert "1 rows, 4 left out" in told.out
    assert [f"split.json[{at}]" in told.err for at in range(5)] == [False, True, True, True, True]
    (made,) = map(json.loads, (tmp_path / "rows.jsonl").read_text().splitlines())
    assert (made["prompt"], made["score"], made["images"]) == (
        good["en_prompt_text"],
        0.4,
        [str((tmp_path / "1.png").resolve())],
    )
    assert [turn["role"] for turn in made["messages"]] == ["system", "user", "assistant"]
    assert [part["type"] for part in made["messages"][1]["content"]] == ["text", "image"]
    answer = made["messages"][2]["content"][0]["text"]
    assert answer.startswith("<level> all entity:")
    read = parse_target(answer)
    found = next(iter(read_split(tmp_path / "split.json")))
    assert read is not None
    assert isinstance(found, Annotated)
    assert read.alignment == found.truth
    (tmp_path / "split.json").write_text("[]")
    assert program.main(words) == 1
    assert program.main([str(tmp_path / "none.json"), *words[1:]]) == 2
