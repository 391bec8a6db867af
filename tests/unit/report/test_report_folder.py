"""The report as a folder: everything that the one file holds, in files that are loaded when they are looked at."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from report_runs import agent_run, picture, small_run
from test_html_page import data_of, hostile_run, page_of

from titjudge.core.errors import DataError
from titjudge.report import write_report, write_report_folder
from titjudge.report.html import images_in, listed_in


def chunks_of(folder: Path) -> list[dict[str, Any]]:
    found = []
    for number, file in enumerate(sorted((folder / "files").glob("*.js"))):
        content = file.read_text(encoding="utf-8")
        start, end = f"titjudgeChunk({number}, ", ");\n"
        assert content.startswith(start)
        assert content.endswith(end)
        assert "<" not in content
        chunk = json.loads(content.removeprefix(start).removesuffix(end))
        found.append(json.loads(gzip.decompress(base64.b64decode(chunk["packed"]))) if "packed" in chunk else chunk)
    return found


def told(at: int, texts: dict[int, Any]) -> str:
    entry = texts[at]
    return entry if isinstance(entry, str) else "".join(told(part, texts) for part in entry)


@pytest.mark.parametrize("make", [small_run, hostile_run, agent_run])
def test_a_folder_holds_the_scores_reasons_and_answers_that_one_file_holds(
    tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("titjudge.report.folder._CHUNK", 3)
    run = make(tmp_path / "run")
    one = data_of(page_of(write_report([run], tmp_path / "report.html")))
    index = write_report_folder([run], tmp_path / "report")
    data = data_of(page_of(index))
    texts, replies = dict(enumerate(data["texts"])), {}
    for number, chunk in enumerate(chunks_of(tmp_path / "report")):
        for known, (first, entries) in ((texts, chunk["texts"]), (replies, chunk["replies"])):
            assert not known.keys() & set(range(first, first + len(entries)))
            known |= {first + at: entry for at, entry in enumerate(entries)}
        for at, scores in zip(chunk["items"], chunk["scores"], strict=True):
            assert data["items"][at].pop("c") == number
            outline = [score and {"v": score["v"], "st": score["st"]} for score in scores]
            assert data["items"][at]["s"] == outline
            data["items"][at]["s"] = scores
    assert [item["id"] for item in data["items"]] == [item["id"] for item in one["items"]]
    whole = dict(enumerate(one["texts"]))
    for mine, theirs in zip(data["items"], one["items"], strict=True):
        assert told(mine["p"], texts) == told(theirs["p"], whole) if "p" in theirs else "p" not in mine
        for score, other in zip(mine["s"], theirs["s"], strict=True):
            assert (score is None) == (other is None)
            if score and other:
                assert [told(score[key], texts) for key in "rd" if key in score] == [
                    told(other[key], whole) for key in "rd" if key in other
                ]
                assert [replies[at]["k"] for at in score["k"]] == [one["replies"][at]["k"] for at in other["k"]]


def test_its_images_are_files_of_their_own_and_missing_ones_say_why(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    picture(tmp_path / "run" / "img" / "a1.png", size=(9, 9))  # another than was judged
    index = write_report_folder([run], tmp_path / "report")
    shown, missing = images_in(index.read_bytes())
    assert shown == 3
    assert missing == ["the file has changed since it was judged"]
    files = sorted((tmp_path / "report" / "files" / "000").iterdir())
    assert len(files) == 3
    with Image.open(files[0]) as image:
        assert image.format == "WEBP"
    assert listed_in(index.read_bytes()) == (5, 5)


def test_it_replaces_a_report_and_nothing_else(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    index = write_report_folder([run], tmp_path / "report")
    (tmp_path / "report" / "files" / "old.txt").write_text("of the last one")
    assert write_report_folder([run], tmp_path / "report") == index
    assert not (tmp_path / "report" / "files" / "old.txt").exists()
    mine = tmp_path / "mine"
    (mine / "files").mkdir(parents=True)
    with pytest.raises(DataError, match="is not a report"):
        write_report_folder([run], mine)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="this is a file"):
        write_report_folder([run], tmp_path / "file")


def test_a_report_with_more_images_is_kept(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    index = write_report_folder([run], tmp_path / "report")
    before = index.read_bytes()
    (tmp_path / "run" / "img" / "a1.png").unlink()
    with pytest.raises(DataError, match="not replaced"):
        write_report_folder([run], tmp_path / "report", keep_images=True)
    assert index.read_bytes() == before
    assert sorted(file.name for file in (tmp_path / "report").iterdir()) == ["files", "index.html"]
    assert len(list((tmp_path / "report" / "files" / "000").iterdir())) == 4
