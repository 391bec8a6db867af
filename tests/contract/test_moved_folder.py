"""A folder that is moved, replaced or removed while a command writes there: it stops with one line, and begins none anew."""

import json
import shutil
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from builders import compared_images
from commands import cli, hosted
from image_service import PRICE, ImageService, todo

from tests.kit import Scripted, Seen, Server
from titjudge.core.errors import CacheWriteError, UserError
from titjudge.runs import outcome
from titjudge.runs.folder.run_folder import FolderLock, RunFolder
from titjudge.runs.results import summarize


def move(folder: Path) -> None:
    folder.rename(folder.with_name("away"))


def remove(folder: Path) -> None:
    shutil.rmtree(folder)


def replace(folder: Path) -> None:
    move(folder)
    shutil.copytree(folder.with_name("away"), folder)


EVENTS: list[Callable[[Path], None]] = [move, remove, replace]


@pytest.mark.parametrize("event", EVENTS)
def test_a_lock_knows_its_folder(tmp_path: Path, event: Callable[[Path], None]) -> None:
    folder = tmp_path / "run"
    with closing(FolderLock(folder)) as lock:
        lock.check()
        with pytest.raises(UserError):
            FolderLock(folder)
        event(folder)
        assert lock.lost
        with pytest.raises(OSError, match="moved"):
            lock.check()
        with pytest.raises(CacheWriteError, match="moved"):
            lock.check_round()
        folder.mkdir(exist_ok=True)  # the number of the old one may be free now
        assert lock.lost
        shutil.rmtree(folder)
        if event is not remove:
            folder.with_name("away").rename(folder)
            lock.check()


def test_a_folder_that_is_reached_through_a_link_is_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "run").symlink_to("real")
    with closing(FolderLock(tmp_path / "run")) as lock:
        lock.check()


class Mover:
    """A service for images and judgements, which touches a folder at one of its requests."""

    def __init__(self, folder: Path, event: Callable[[Path], None], at: int) -> None:
        self.folder, self.event, self.at = folder, event, at
        self.images, self.count = ImageService(), 0
        self._lock = threading.Lock()

    def __call__(self, seen: Seen) -> Scripted | str:
        with self._lock:
            self.count += 1
            if self.count == self.at:
                self.event(self.folder)
        if "images" in seen.path:
            return self.images(seen)
        return json.dumps({"reason": "r", "score": 50, "missing": [], "contradicted": []})


def arguments(kind: str, folder: Path) -> list[str]:
    """A command of some kind, which writes into `folder/out`."""
    judging = [
        "--provider",
        "openai/gpt-4o",
        "--metric",
        "lmm-score",
        "--concurrency",
        "1",
        "--max-cost",
        "5",
        "--out",
        "out",
    ]
    judging += ["--price", "gpt-4o=2.5,10"]
    if kind == "generate":
        todo(folder, 12)
        model = [
            "--model",
            "openai/painter",
            "--image-price",
            f"painter={PRICE}",
            "--concurrency",
            "1",
            "--max-cost",
            "5",
        ]
        return ["generate", "todo.jsonl", *model, "--out", "out"]
    if kind == "bench":
        (folder / "prompts.txt").write_text("\n".join(f"a scene, number {number}" for number in range(12)))
        made = [word for name in "ab" for word in ("--generator", f"openai/{name}", "--image-price", f"{name}={PRICE}")]
        return ["bench", "prompts.txt", *made, *judging]
    compared_images(folder / "data", 12, 4)
    if kind == "sweep":
        settings: dict[str, Any] = {
            "data": "data", "judges": ["openai/gpt-4o", "openai/gpt-4.1"], "metrics": ["lmm-score"],
            "captioner": "openai/gpt-4o", "limits": {"concurrency": 1, "max_cost": 5},
            "prices": {name: {"input": 2.5, "output": 10} for name in ("gpt-4o", "gpt-4.1")},
        }  # fmt: skip
        (folder / "sweep.yaml").write_text(json.dumps(settings))
        return ["sweep", "sweep.yaml", "--out", "out"]
    return ["judge", "--data", "data", *judging, *(["--settle", "g0,g1"] if kind == "settle" else [])]


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("kind", ["judge", "settle", "generate", "bench", "sweep"])
def test_a_command_stops_when_its_folder_is_not_in_its_place(
    tmp_path: Path, kind: str, event: Callable[[Path], None]
) -> None:
    words = arguments(kind, tmp_path)
    service = Mover(tmp_path / "out", event, at=4)
    with Server(service) as server:
        said = cli(tmp_path, *words, code=1 if kind == "generate" else 2, **hosted(server))
    assert 4 <= service.count <= 4 + (kind == "bench")  # there the other generator has a request on its way
    assert "moved, replaced or removed" in said or "out/painter/3.png cannot be written" in said
    assert "Traceback" not in said
    if event is not replace:
        assert not (tmp_path / "out").exists()
    if event is move:  # the paid image lies with the others
        images = [file for file in (tmp_path / "away").rglob("*.png") if "images" in file.parts or kind == "generate"]
        assert len(images) == (4 if kind in ("generate", "bench") else 0)
        ledgers = [file.parent for file in (tmp_path / "away").rglob("billing.jsonl")]
        assert sum(RunFolder(ledger).money().requests for ledger in ledgers) == 4


def test_a_folder_that_is_back_in_time_is_written_on(tmp_path: Path) -> None:
    def and_back(folder: Path) -> None:
        move(folder)
        folder.with_name("away").rename(folder)

    words = arguments("judge", tmp_path)
    service = Mover(tmp_path / "out", and_back, at=4)
    with Server(service) as server:
        cli(tmp_path, *words, **hosted(server))
    assert service.count == 12


def test_tables_of_a_folder_that_is_moved_meanwhile_are_written_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*arguments: Any, **more: Any) -> Any:
        move(tmp_path / "out")
        return summarize(*arguments, **more)

    monkeypatch.setattr(outcome, "summarize", slow)
    words = arguments("judge", tmp_path)
    with Server(Mover(tmp_path / "out", move, at=0)) as server:
        assert "moved, replaced or removed" in cli(tmp_path, *words, code=2, **hosted(server))
    assert not (tmp_path / "out").exists()
