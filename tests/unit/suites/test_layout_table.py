"""The layouts that docs/how-to/judge-images.md promises: each with several generators and samples, whole and with an image missing."""

import json
import re
from pathlib import Path

import pytest
from pages import page_text

from titjudge.core.errors import DataError
from titjudge.core.types import Item
from titjudge.suites.folder import Folder
from titjudge.suites.patterns import filled

TEXTS = ["a red cube on a blue sphere", "a green cone: beside a cup?", "two dogs, one cat", "5 ships at 16:9 in fog"]
IDS = ["cat", "dog", "ship", "cup"]
ROWS = re.findall(r"^\| `(.+?)` \| `(.+?)` \| (number|id|text|record) \|", page_text("judge-images"), re.MULTILINE)
MAKERS = {
    "models": ["flux", "sdxl", "sd3"],
    "steps": ["step_1000", "step_2000", "step_3000"],
    "people": ["ana", "ben", "eva"],
}
SPELLED = {
    "whole": str,
    "_": lambda text: re.sub(r"[^\w]+", "_", text),
    "-": lambda text: re.sub(r"[^\w]+", "-", text).strip("-").lower(),
    "dropped": lambda text: re.sub(r'[<>:"/\\|?*]', "", text),
    "cut": lambda text: "_".join(text.split())[:10],
    "words": lambda text: " ".join(re.findall(r"\w+", text)[:4]),
}  # fmt: skip


def laid(
    folder: Path, pattern: str, kind: str, makers: list[str], samples: int, spelled: str = "whole", first: int = 0
) -> dict[str, tuple[str, str]]:
    """Make the files of a layout, with its list of prompts; returns the prompt and the generator of each image."""
    made: dict[str, tuple[str, str]] = {}
    for maker in makers:
        for number, text in enumerate(TEXTS):
            for sample in range(samples):
                name = {"number": f"{number + first:04}", "id": IDS[number], "record": f"{number:05}"}.get(kind)
                fields = {
                    "generator": maker, "prompt_id": name or SPELLED[spelled](text), "sample": sample, "index": f"{len(made):05}",
                    "seed": sample + (1929657107 if "{index}" in pattern else 42),
                }  # fmt: skip
                path = filled(pattern, fields)
                made[path] = (text, maker if "{generator}" in pattern else "")
                if kind == "record":
                    record = folder / path.split("/samples/")[0] / "metadata.jsonl"
                    record.parent.mkdir(parents=True, exist_ok=True)
                    record.write_text(json.dumps({"tag": "two_object", "prompt": text}) + "\n")
    for path in made:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).touch()
    if kind == "id":
        rows = [json.dumps({"id": name, "prompt": text}) for name, text in zip(IDS, TEXTS, strict=True)]
        (folder / "prompts.jsonl").write_text("\n".join(rows))
    elif kind != "record":
        (folder / "prompts.txt").write_text("\n".join(TEXTS) + "\n")
    return made


def read(folder: Path) -> dict[str, tuple[str, str]] | None:
    """Return the prompt and the generator of each image; None if the folder is refused."""
    try:
        return {item.id: (item.prompt, item.generator) for item in Folder().load(folder) if isinstance(item, Item)}
    except DataError:
        return None


def test_the_examples_of_the_table_have_its_patterns() -> None:
    assert len(ROWS) > 15
    for example, pattern, _ in ROWS:
        regex = re.escape(pattern).replace(r"\{prompt_id\}", r"([^/]+?)", 1).replace(r"\{prompt_id\}", r"\1")
        assert re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+?", regex), example), example


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("makers", MAKERS)
@pytest.mark.parametrize(("example", "pattern", "kind"), ROWS)
def test_each_layout_is_read_rightly_or_refused(
    tmp_path: Path, example: str, pattern: str, kind: str, makers: str, missing: bool
) -> None:
    """As many samples as prompts are among the cases, and as many generators as nearly all prompts."""
    alone = "folder" not in makers and pattern.startswith("{generator}/")
    for bare in (False, True) if alone else (False,):
        for count in (1,) if bare else (1, 2, 3):
            for samples in (1, 2, len(TEXTS)) if re.search("{(sample|seed)}", pattern) else (1,):
                for first in (0, 1) if kind == "number" else (0,):
                    folder = tmp_path / f"{bare}-{count}-{samples}-{first}"
                    used = pattern.removeprefix("{generator}/") if bare else pattern
                    made = laid(folder, used, kind, MAKERS[makers][:count], samples, first=first)
                    if missing:
                        lost = sorted(made)[len(made) // 2]
                        (folder / lost).unlink()
                        del made[lost]
                    found = read(folder)
                    if found is None:
                        of_number = kind == "number" and "{sample}" in pattern
                        assert missing or makers == "people" or of_number, folder.name
                    elif pattern.startswith("{generator}_") and count == 1:
                        assert {path: (prompt, MAKERS[makers][0]) for path, (prompt, _) in found.items()} == made
                    else:
                        assert found == made, folder.name


@pytest.mark.parametrize("spelled", SPELLED)
@pytest.mark.parametrize(("example", "pattern", "kind"), [row for row in ROWS if row[2] == "text"])
def test_texts_are_recognised_as_programs_spell_them(
    tmp_path: Path, example: str, pattern: str, kind: str, spelled: str
) -> None:
    for samples in (1, 2, len(TEXTS)):
        for missing in (False, True):
            folder = tmp_path / f"{samples}-{missing}"
            made = laid(folder, pattern, kind, ["flux", "sdxl"], samples, spelled)
            if missing:
                lost = min(made)
                (folder / lost).unlink()
                del made[lost]
            assert read(folder) == made
