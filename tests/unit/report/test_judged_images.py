"""Which picture a report shows: the one that was judged, or none."""

import io
import json
import os
from pathlib import Path

import orjson
import pytest
from builders import read_lines, write_lines
from PIL import Image
from report_runs import PROMPT, picture, reply, score, sha256, write_run

from titjudge.core.tables import text_of
from titjudge.core.types import Item
from titjudge.report.html import images_in
from titjudge.report.judged_images import Judged
from titjudge.report.model import Report, as_json, load
from titjudge.report.overview import overview
from titjudge.report.thumbnails import thumbnail
from titjudge.runs.folder.run_folder import RunFolder, listed_record

RED, BLUE = (200, 60, 40), (40, 60, 200)


def _checkpoint(
    folder: Path, colour: tuple[int, int, int], value: float, *, told: bool = True, count: int = 3
) -> RunFolder:
    """A run over images with the same names and prompts as another's; `told`: its answers hold the pictures' hashes."""
    items = [Item(f"{n}.png", f"{PROMPT} {n}", picture(folder / "data" / f"{n}.png", colour, (48, 32 + n)), "", f"p{n}")
             for n in range(count)]  # fmt: skip
    scores = [score(item, "tit-llm", value, description=f"seen in {folder.name}", replies=[f"{folder.name}{n}"])
              for n, item in enumerate(items)]  # fmt: skip
    replies = [reply(f"{folder.name}{n}", "{}", image=sha256(item.image)) for n, item in enumerate(items) if item.image]
    run = write_run(folder / "run", items, scores, replies=replies if told else [])
    return _listed(run, items)


def _listed(run: RunFolder, items: list[Item]) -> RunFolder:
    """items.jsonl as a run writes it: with size and time of each file."""
    (run.path / "items.jsonl").write_bytes(b"".join(orjson.dumps(listed_record(item)) + b"\n" for item in items))
    return run


def _shown(report: Report) -> list[tuple[str, list[str]]]:
    """For each entry the folder its picture comes from, and whose descriptions stand beneath."""
    return [
        (entry.shown.path.parent.parent.name if entry.shown and entry.shown.path else "",
         [str(report.whole(*one).parts["description"]).removeprefix("seen in ") for one in entry.scores.items()])
        for entry in report.entries
    ]  # fmt: skip


@pytest.mark.parametrize("told", [True, False])
def test_two_checkpoints_with_the_same_names_keep_their_own_scores(tmp_path: Path, told: bool) -> None:
    runs = [_checkpoint(tmp_path / "ck1", RED, 40, told=told), _checkpoint(tmp_path / "ck2", BLUE, 60, told=told)]
    report = load(runs)
    assert _shown(report) == [("ck1", ["ck1"])] * 3 + [("ck2", ["ck2"])] * 3
    pictures = {shown: n for n, shown in enumerate(dict.fromkeys(entry.shown for entry in report.entries)) if shown}
    items = as_json(report, pictures)["items"]
    assert [(item["im"], item["rn"]) for item in items] == [(0, [0]), (1, [0]), (2, [0]), (3, [1]), (4, [1]), (5, [1])]


def test_checkpoints_are_compared_over_the_names_and_prompts_they_share(tmp_path: Path) -> None:
    runs = [_checkpoint(tmp_path / "ck1", RED, 40, count=8), _checkpoint(tmp_path / "ck2", BLUE, 60, count=8)]
    table = next(table for table in overview(load(runs)).tables if table.title == "Runs compared")
    row = next(row for row in table.rows if row[2] == "mean score of tit-llm")
    assert [text_of(value) for value in row[3:6]] == ["8", "60.0", "40.0"]
    assert row[6].text == "+20.00"
    assert "8 of 8 images have the same name and prompt" in table.notes[0]


@pytest.mark.parametrize("told", [True, False])
def test_a_copy_of_the_data_is_the_same_pictures(tmp_path: Path, told: bool) -> None:
    runs = [_checkpoint(tmp_path / "one", RED, 40, told=told), _checkpoint(tmp_path / "two", RED, 60, told=told)]
    assert _shown(load(runs)) == [("one", ["one", "two"])] * 3


def test_a_run_whose_data_moved_still_joins_its_pictures(tmp_path: Path) -> None:
    runs = [_checkpoint(tmp_path / "one", RED, 40), _checkpoint(tmp_path / "two", RED, 60, told=False)]
    for file in (tmp_path / "one" / "data").iterdir():
        file.unlink()
    report = load(runs)
    assert _shown(report) == [("two", ["one", "two"])] * 3  # shown from where it still is


def test_a_file_that_was_replaced_between_two_runs_is_two_pictures(tmp_path: Path) -> None:
    first = _checkpoint(tmp_path / "ck", RED, 40)
    (tmp_path / "ck" / "run").rename(tmp_path / "first")
    _checkpoint(tmp_path / "ck", BLUE, 60)
    report = load([RunFolder(tmp_path / "first"), RunFolder(tmp_path / "ck" / "run")])
    assert len(report.entries) == 6
    made = [thumbnail(entry.shown, 64, 60) for entry in report.entries if entry.shown]
    assert [isinstance(one, bytes) for one in made] == [False] * 3 + [True] * 3
    assert made[0] == "the file has changed since it was judged"
    assert first.path  # the run that was renamed


def test_a_file_that_changed_is_not_shown_even_where_no_answer_holds_its_hash(tmp_path: Path) -> None:
    path = picture(tmp_path / "a.png", RED)
    found = path.stat()
    judged = Judged.from_record(path, [found.st_size, found.st_mtime_ns], [])
    os.utime(path)  # copied or touched: the same file
    assert isinstance(thumbnail(judged, 64, 60), bytes)
    picture(path, BLUE, (300, 200))
    assert thumbnail(judged, 64, 60) == "the file has changed since it was judged"


def test_a_picture_that_was_converted_is_still_what_was_judged(tmp_path: Path) -> None:
    path = tmp_path / "a.gif"
    Image.new("P", (40, 30), 3).save(path)
    from titjudge.data.image_decoding import inspect

    sent = inspect(path.read_bytes(), path)["sha256"]
    assert sent != sha256(path)
    judged = Judged.from_record(path, None, [reply("k", "{}", image=sent)])
    assert isinstance(thumbnail(judged, 64, 60), bytes)


def test_texts_without_a_picture_are_told_apart_by_their_description(tmp_path: Path) -> None:
    runs = []
    for name, told in (("one", "a cube"), ("two", "a cube"), ("three", "a ball")):
        item = Item("t", PROMPT, None, "", "p", {"description": told})
        runs.append(write_run(tmp_path / name, [item], [score(item, "tit", 0.5)]))
    assert [entry.runs for entry in load(runs).entries] == [(0, 1), (2,)]


def test_sixteen_bit_pictures_are_not_white(tmp_path: Path) -> None:
    path = tmp_path / "grey.png"
    Image.new("I;16", (40, 30), 30_000).save(path)
    made = thumbnail(Judged(path, (path.stat().st_size, 0)), 64, 80)
    assert isinstance(made, bytes)
    with Image.open(io.BytesIO(made)) as image:
        value = image.convert("L").getpixel((20, 15))
    assert isinstance(value, int | float)
    assert 110 < value < 124  # 30,000 of 65,535


def test_two_real_runs_of_two_checkpoints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from titjudge.cli.commands import run_command

    for name, colour in (("ck1", RED), ("ck2", BLUE)):
        data = tmp_path / name
        for n in range(3):
            picture(data / f"{n}.png", colour, (40 + n, 40))
            (data / f"{n}.txt").write_text(f"a thing of number {n}", encoding="utf-8")
        command = [
            "judge",
            "--data",
            str(data),
            "--provider",
            "fake",
            "--metric",
            "tit-llm",
            "--set",
            f"cache={tmp_path / 'cache'}",
        ]
        assert run_command("t", [*command, "--out", str(tmp_path / "runs" / name), "--no-report"]) == 0
    both = [str(tmp_path / "runs" / name) for name in ("ck1", "ck2")]
    assert run_command("t", ["report", *both, "--out", str(tmp_path / "ck.html")]) == 0
    capsys.readouterr()
    report = load([RunFolder(Path(run)) for run in both])
    assert [entry.runs for entry in report.entries] == [(0,)] * 3 + [(1,)] * 3
    for entry in report.entries:
        (found,) = entry.scores.items()
        keys = set(report.whole(*found).replies)
        sent = {part["image"] for run in report.runs for key in keys for part in _pictures(run.replies.get(key))}
        assert entry.shown is not None
        assert entry.shown.path is not None
        assert sent == {sha256(entry.shown.path)}


def _pictures(answer: dict[str, object] | None) -> list[dict[str, str]]:
    told = json.loads(json.dumps((answer or {}).get("messages", [])))
    return [part for turn in told for part in turn if isinstance(part, dict)]


def test_a_report_of_a_strangers_run_takes_no_picture_that_the_run_does_not_know(tmp_path: Path) -> None:
    private = picture(tmp_path / "private.png", RED)
    items = [Item("a.png", PROMPT, private, "g", "p"), Item("b.png", PROMPT, tmp_path / "key.txt", "g", "p")]
    (tmp_path / "key.txt").write_text("S3CRET")
    run = write_run(tmp_path / "run", items, [score(item, "tit-llm", 50) for item in items])
    lines = read_lines(run.path / "items.jsonl")
    for stat in (None, [1, 1]):
        for line in lines:
            line["stat"] = stat
        write_lines(run.path / "items.jsonl", *lines)
        shown = [entry.shown for entry in load([RunFolder(run.path)]).entries]
        made = [thumbnail(one, 64, 60) for one in shown if one is not None]
        assert len(made) == 2
        assert not [one for one in made if isinstance(one, bytes)]


def test_a_report_is_not_replaced_by_one_that_lost_its_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from titjudge.cli.commands import run_command

    run = _checkpoint(tmp_path / "ck", RED, 40)
    made = run.path / "report.html"
    assert run_command("t", ["report", str(run.path)]) == 0
    good = made.read_bytes()
    assert images_in(good) == (3, [])
    (tmp_path / "ck" / "data").rename(tmp_path / "moved")
    capsys.readouterr()
    assert run_command("t", ["report", str(run.path)]) == 2
    said = capsys.readouterr().err
    assert "it shows 3 images, and a new one would show 0: no such image file. Correct the path" in said
    assert "delete it first" in said
    assert made.read_bytes() == good
    assert run_command("t", ["report", str(run.path), "--out", str(tmp_path / "other.html")]) == 0
    assert "3 of 3 images are not shown: no such image file. Correct the path" in capsys.readouterr().err
    made.unlink()
    assert run_command("t", ["report", str(run.path)]) == 0
    assert images_in(made.read_bytes()) == (0, ["no such image file. Correct the path"] * 3)


def test_a_source_is_shown_if_it_was_sent_with_the_result_or_where_only_results_were_if_it_has_its_size(
    tmp_path: Path,
) -> None:
    source = picture(tmp_path / "source.png")
    raw, stat = source.read_bytes(), [source.stat().st_size, 0]
    sent, other = sha256(source), "0" * 64

    def of(*images: list[str]) -> Judged:
        return Judged.from_source_record(
            source, stat, [{"messages": [["user", *({"image": image} for image in one)]]} for one in images]
        )

    assert of([sent, other], [other]).refusal(raw) == ""
    assert "changed" in of([other, "1" * 64]).refusal(raw)
    assert of([other]).refusal(raw) == of().refusal(raw) == ""
    assert "changed" in of([other]).refusal(raw + b"0")


def test_results_of_one_source_in_two_runs_are_not_taken_for_one_image(tmp_path: Path) -> None:
    described = [{"messages": [["user", {"image": "5" * 64}]]}, {"messages": [["user", {"image": "6" * 64}]]}]
    assert Judged.from_record(tmp_path / "a.png", [1, 2], described, of_edit=True).sha256 is None
