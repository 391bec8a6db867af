"""Which images of a data folder are there, and which cannot be used."""

from pathlib import Path

from labelling_data import make_data

from titjudge.runs.study.coverage import coverage
from titjudge.suites.folder import Folder


def test_a_file_that_is_no_image_is_named_also_where_no_image_is_missing(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", ["a.png", "b.png"])
    (data / "bad.png").write_text("no image")
    with (data / "images.jsonl").open("a") as listed:
        listed.write('{"image": "bad.png", "prompt_id": "p", "generator": "g0"}\n')
        listed.write('{"image": "gone.png", "prompt_id": "p", "generator": "g2"}\n')
    found = coverage(Folder(), data)
    assert [name for name, _ in found.problems] == ["bad.png"]
    assert [(each.generator, "no such image file" in each.reason) for each in found.missing] == [("g2", True)]
