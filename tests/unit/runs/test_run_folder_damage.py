"""Run folders that a power cut, a full disk or an editor has damaged: nothing crashes, what is damaged is named."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from PIL import Image

from titjudge.cli.report import report
from titjudge.core.config import load_config
from titjudge.core.errors import DataError, UserError
from titjudge.core.serialization import with_checksum
from titjudge.runs.check.merge import merge
from titjudge.runs.check.verify import verify
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.session import Session

FILES = ("items", "replies", "billing", "scores", "vectors")
BILL = {"role": "judge", "cost": 0.5, "uncertain": 0.0, "tokens": 7}


def judge(home: Path, out: str = "run", **more: Any) -> Any:
    settings: dict[str, Any] = {
        "data": home / "d" / "m.jsonl", "metrics": ["lmm-score"], "captioner": "fake", "cache": str(home / "cache"),
        "out": str(home / out), "report": False,
    }  # fmt: skip
    return Session(load_config(None, settings | more)).run()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("made")
    (home / "d").mkdir()
    lines = []
    for number in range(6):
        Image.new("RGB", (8, 8), (number * 40, 0, 0)).save(home / "d" / f"{number}.png")
        lines.append(json.dumps({"image": f"{number}.png", "prompt": f"a cat {number}"}) + "\n")
    (home / "d" / "m.jsonl").write_text("".join(lines))
    outcome = judge(home)
    assert outcome.status == "complete"
    with (home / "run" / "billing.jsonl").open("a") as ledger:
        ledger.write(json.dumps(with_checksum(BILL)) + "\n")
    judge(home)
    for shard in ("1/2", "2/2"):
        judge(home, f"shard{shard[0]}", shard=shard)
    return home


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    """A copy of the runs; the data lie where they were."""
    copy = tmp_path / "home"
    copy.mkdir()
    for name in ("run", "shard1", "shard2"):
        shutil.copytree(made / name, copy / name)
    (copy / "d").symlink_to(made / "d")
    return copy


def again(made: Path, run: Path) -> Any:
    return judge(made, str(run))


def test_an_incomplete_last_line_stops_no_reader(made: Path, home: Path) -> None:
    for name in FILES:
        for run in ("run", "shard2"):
            with (home / run / f"{name}.jsonl").open("a") as file:
                file.write('{"item": "0.png", "cost": 0.0')
    before = RunFolder(made / "run")
    folder = RunFolder(home / "run")
    assert folder.money() == before.money()
    assert folder.scores() == before.scores()
    assert len(list(folder.items())) == 6
    assert folder.damage == {}
    result = CliRunner().invoke(report, [str(home / "run"), "--format", "json"], standalone_mode=False)
    assert result.exception is None, result.output
    merged = merge([home / "shard1", home / "shard2"], home / "merged", report=False)
    assert merged.status == "complete"
    found = {str(problem) for problem in verify(home / "run").problems}
    assert found == {f"{name}.jsonl: its last line has no end" for name in FILES}
    assert again(made, home / "run").status == "complete"  # and cuts them off
    assert verify(home / "run").holds


GARBAGE = (b"\x00\xff garbage }{", b"\x00" * 50, b"{}", b"[1]", b'{"a": "\xff\xfe"}', b"7")


@pytest.mark.parametrize("name", FILES)
def test_damaged_lines_are_left_out_and_named(made: Path, home: Path, name: str) -> None:
    file = home / "run" / f"{name}.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + b"".join(each + b"\n" for each in GARBAGE) + b"".join(lines[1:]) if lines else b"")
    if not lines:
        file.write_bytes(b"".join(each + b"\n" for each in GARBAGE))
    at = 1 if lines else 0
    found = verify(home / "run")
    where = {problem.where for problem in found.problems}
    assert {f"{name}.jsonl:{at + 1 + k}" for k in range(len(GARBAGE))} <= where
    outcome = again(made, home / "run")
    assert outcome.status == "complete"
    warned = "\n".join(outcome.warnings)
    if name != "items":  # that one is written anew
        assert f"{name}.jsonl:{at + 1} is damaged and was left out" in warned
    assert RunFolder(home / "run").scores() == RunFolder(made / "run").scores()


@pytest.mark.parametrize(
    "change", [{"cost": -1000.0}, {"tokens": -5}, {"uncertain": -3}, {"cost": "1"}, {"cost": True}, {"cost": None}]
)
def test_a_bill_that_can_be_none_is_no_bill(home: Path, change: dict[str, Any]) -> None:
    before = RunFolder(home / "run").money()
    with (home / "run" / "billing.jsonl").open("a") as ledger:
        ledger.write(json.dumps(with_checksum(BILL | change)) + "\n")
    folder = RunFolder(home / "run")
    assert folder.money() == before
    (why,) = folder.damage.values()
    assert next(iter(change)) in why
    assert any(problem.where.startswith("billing.jsonl") for problem in verify(home / "run").problems)


@pytest.mark.parametrize(
    "change",
    [{"image": 1.5}, {"image": True}, {"image": ["a"]}, {"sources": "a.png"}, {"sources": [1]}, {"sample": "0"}],
)
def test_an_item_of_another_form_is_left_out_and_named(home: Path, change: dict[str, Any]) -> None:
    file = home / "run" / "items.jsonl"
    first, *others = file.read_text().splitlines()
    file.write_text("\n".join([json.dumps(with_checksum(json.loads(first) | change)), *others]) + "\n")
    folder = RunFolder(home / "run")
    assert len(list(folder.items())) == 5
    assert list(folder.damage) == ["items.jsonl:1"]


@pytest.mark.parametrize("value", ["NaN", True, {}, [1]])
def test_a_score_that_is_no_number_is_no_score(home: Path, value: Any) -> None:
    file = home / "run" / "scores.jsonl"
    record = json.loads(file.read_text().splitlines()[0])
    file.write_text(json.dumps(with_checksum(record | {"value": value})) + "\n" + file.read_text())
    assert (
        "'value' must be a number"
        in next(iter((RunFolder(home / "run").scores(), verify(home / "run"))[1].problems)).what
    )


@pytest.mark.parametrize("content", [None, b"", b"[]", b'{"identity": {'])
def test_a_lost_manifest_is_made_again(made: Path, home: Path, content: bytes | None) -> None:
    manifest = home / "run" / "manifest.json"
    before = json.loads(manifest.read_bytes())
    manifest.unlink() if content is None else manifest.write_bytes(content)
    with pytest.raises(DataError, match="command that made it again"):
        RunFolder(home / "run").manifest()
    outcome = again(made, home / "run")
    assert outcome.status == "complete"
    assert "manifest.json is damaged" in "\n".join(outcome.warnings)
    now = json.loads(manifest.read_bytes())
    assert (now["identity"], now["metrics"]) == (before["identity"], before["metrics"])
    assert now["metrics"]["lmm-score"]["higher_is_better"] is True
    assert verify(home / "run").holds


def test_a_lost_manifest_is_not_made_again_for_another_configuration(made: Path, home: Path) -> None:
    (home / "run" / "manifest.json").write_bytes(b"")
    with pytest.raises(UserError, match="another lenient"):
        judge(made, str(home / "run"), lenient=True)
    (home / "run" / "manifest.json").write_bytes(b"")
    (home / "run" / ".identity.json").unlink()
    with pytest.raises(UserError, match="choose another --out"):
        again(made, home / "run")


def test_a_changed_manifest_is_found(home: Path) -> None:
    manifest = home / "run" / "manifest.json"
    assert verify(home / "run").holds
    record = json.loads(manifest.read_bytes())
    manifest.write_text(json.dumps(record | {"spent": 0.001}, indent=2))
    assert [problem.kind for problem in verify(home / "run").problems] == ["manifest"]


def test_damaged_results_are_named_and_written_anew(made: Path, home: Path) -> None:
    (home / "run" / "results.json").write_text('{"a":')
    with pytest.raises(DataError, match="again to write it"):
        RunFolder(home / "run").results()
    assert not verify(home / "run").holds
    again(made, home / "run")
    assert verify(home / "run").holds


@pytest.mark.parametrize("name", ["replies.jsonl", ".lock", ".spare"])
def test_a_folder_in_the_place_of_a_file_is_the_persons_error(made: Path, home: Path, name: str) -> None:
    (home / "run" / name).unlink(missing_ok=True)
    (home / "run" / name).mkdir()
    with pytest.raises(UserError, match="directory"):
        again(made, home / "run")


def test_one_run_under_two_spellings_of_its_path_is_merged_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    (home / "link").symlink_to(home / "run")
    outcome = merge([home / "run", Path("run"), Path("./link/../run"), Path("link")], home / "merged", report=False)
    assert outcome.results.spent == RunFolder(home / "run").money().spent == 0.5


@pytest.mark.parametrize("file", ["replies.jsonl", "vectors.jsonl"])
@pytest.mark.parametrize("key", ["ask:8b6", "", "ask:" + "é" * 64, "ask:" + "g" * 64])
def test_a_damaged_key_of_an_answer_is_named_and_the_run_goes_on(made: Path, home: Path, file: str, key: str) -> None:
    damaged = home / "run" / file
    line = {"key": key, "text": "x", "vector": "", "tokens_used": 1, "tokens_total": 1}
    if file == "replies.jsonl":
        line = json.loads(damaged.read_text().splitlines()[0]) | {"key": key}
    line.pop("checksum", None)
    with damaged.open("a") as opened:
        opened.write(json.dumps(with_checksum(line)) + "\n")
    assert again(made, home / "run").status == "complete"
    folder = RunFolder(home / "run")
    assert key not in folder.known_keys()
    assert [why for where, why in folder.damage.items() if where.startswith(file)] == [
        f"'key' must be a key of an answer, not {key!r}"
    ]


def test_a_folder_that_is_no_run_is_refused_with_the_runs_that_are_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"it has no manifest\.json\. Give a run folder$"):
        RunFolder(tmp_path / "first").manifest()
    (tmp_path / "mine-1").mkdir()
    (tmp_path / "mine-1" / "manifest.json").write_text("{}")
    with pytest.raises(DataError, match=rf"it has no manifest\.json\. Give a run folder, such as {tmp_path}/mine-1$"):
        RunFolder(tmp_path / "first").manifest()
