"""The page on recorded answers works as it stands: its commands and its program, round by round."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from pages import page_of
from PIL import Image

from titjudge.cli.commands import run_command
from titjudge.runs.folder.run_folder import RunFolder

PAGE = page_of("recorded-answers")
MODEL = """
import json
from pathlib import Path

def look(question, images, schema):
    assert all(Path(image).read_bytes() for image in images)
    if schema is None:
        return "A description of " + images[0]
    return json.dumps({"missing": [], "contradicted": [], "reason": "because", "score": 70})
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def run(block: str) -> None:
    """The commands of a block, in this process."""
    for line in block.splitlines():
        words = shlex.split(line)
        if words[:2] == ["python", "answer.py"]:
            exec(compile(blocks("python")[0], "answer.py", "exec"), {})
        else:
            assert words[:2] == ["python", "cli.py"]
            assert run_command("python cli.py", words[2:]) == 0, line


def test_the_walk_through_leads_from_questions_to_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds, judged, priced, replaced, paid = blocks("sh")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_model", raising=False)
    (tmp_path / "my_model.py").write_text(MODEL)
    data = tmp_path / "my_images"
    data.mkdir()
    for number in range(2):
        Image.new("RGB", (16, 16), (number * 40, 1, 2)).save(data / f"{number}.png")
        (data / f"{number}.txt").write_text(f"a red cube, number {number}")
    run(rounds)
    first = (tmp_path / "open.jsonl").read_text().splitlines()
    run(rounds)
    export, *_ = rounds.splitlines()
    run(export)
    assert (tmp_path / "open.jsonl").read_bytes() == b""
    run(judged)
    scores = RunFolder(tmp_path / "runs" / "recorded").scores()
    assert [score.value for score in scores.values()] == [70, 70]

    run(priced)

    corrected = {"custom_id": json.loads(first[0])["custom_id"], "text": "seen better"}
    (tmp_path / "corrected.jsonl").write_text(json.dumps(corrected) + "\n")
    run(replaced)
    assert run_command("python cli.py", shlex.split(judged)[2:]) == 2
    run(rounds)
    run(judged.replace("runs/recorded", "runs/again"))
    again = RunFolder(tmp_path / "runs" / "again").scores()
    assert sorted(str(score.parts["description"])[:11] for score in again.values()) == ["A descripti", "seen better"]
    assert "answers record --data my_images --provider openai" in paid
