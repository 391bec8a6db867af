"""Sinks: what of a run goes to a tracker, read back by the tracker's own library where it is installed; never a secret."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from commands import cli
from pages import page_text
from PIL import Image

from titjudge.core import registry
from titjudge.core.config import load_config
from titjudge.core.errors import ConfigError, MissingExtra, UserError
from titjudge.core.types import Table
from titjudge.report.sinks import JudgedImage, Sink, Target, parse_targets, send
from titjudge.runs import RunFolder, Session

SECRET = "sk-planted-4711-secret"


class Kept(Sink):
    """A sink for tests: keeps what it is given."""

    seen: dict[str, Any]
    fail = ""

    def __init__(self, project: str, run: str, config: Mapping[str, str]) -> None:
        Kept.seen = {"project": project, "run": run, "config": dict(config), "tables": [], "closed": False}

    def numbers(self, numbers: Mapping[str, float], step: int) -> None:
        if Kept.fail:
            raise RuntimeError(Kept.fail)
        self.seen |= {"numbers": dict(numbers), "step": step}

    def table(self, table: Table, step: int) -> None:
        self.seen["tables"].append(table)

    def images(self, images: Sequence[JudgedImage], step: int) -> None:
        self.seen["images"] = list(images)

    def close(self) -> None:
        self.seen["closed"] = True


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> type[Kept]:
    monkeypatch.setitem(registry.TABLES["sinks"], "kept", f"{__name__}:Kept")
    monkeypatch.setattr(Kept, "fail", "")
    return Kept


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of two generators with two images each; a prompt holds a key by mistake."""
    monkeypatch.setenv("PLANTED_API_KEY", SECRET)
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data"
    data.mkdir()
    lines = []
    for number in range(4):
        Image.new("RGB", (20, 10), (60 * number, 9, 9)).save(data / f"{number}.png")
        prompt = f"a cube {number // 2}" + (f" {SECRET}" if number < 2 else "")
        lines.append({"image": f"{number}.png", "prompt": prompt, "prompt_id": str(number // 2),
                      "generator": f"model {number % 2}"})  # fmt: skip
    (data / "data.jsonl").write_text("\n".join(map(json.dumps, lines)))
    keys = {"data": data / "data.jsonl", "metrics": ["lmm-score"], "captioner": {"model": "fake/any"}, "report": False}
    Session(load_config(None, {**keys, "out": tmp_path / "run", "cache": tmp_path / "cache"})).run()
    return tmp_path / "run"


def test_a_sink_gets_numbers_tables_and_images_and_no_secret(run: Path, kept: type[Kept]) -> None:
    assert send(RunFolder(run), [Target.parse("kept:mine/exp7")], step=40) == []
    seen = kept.seen
    assert (seen["project"], seen["run"], seen["step"], seen["closed"]) == ("mine", "exp7", 40, True)
    assert seen["config"]["model/captioner"] == "fake/any"
    assert seen["numbers"]["lmm-score/mean"] == 0.0
    assert seen["numbers"]["lmm-score/coverage"] == 1.0
    assert seen["numbers"]["lmm-score/model 1/mean"] == 0.0
    assert [table.title for table in seen["tables"]] == ["Metrics", "Leaderboard"]
    assert len(seen["images"]) == 4
    assert seen["images"][0].image.size == (20, 10)
    assert seen["images"][0].caption.startswith("lmm-score 0.0")
    assert "[key]" in "".join(image.caption for image in seen["images"])
    assert SECRET not in repr(seen)


def test_a_run_without_images_or_scores_is_sent_all_the_same(run: Path, kept: type[Kept]) -> None:
    for file in (run.parent / "data").glob("*.png"):
        file.unlink()
    assert send(RunFolder(run), [Target.parse("kept")]) == []
    assert (kept.seen["run"], kept.seen["project"], "images" in kept.seen) == ("run", "titjudge", False)


def test_a_sink_that_fails_is_said_without_its_secret_and_the_next_one_is_served(run: Path, kept: type[Kept]) -> None:
    kept.fail = f"401 for {SECRET}\nat line 1"
    (line,) = send(RunFolder(run), [Target.parse("kept")])
    assert line == "kept: 401 for [key] at line 1"
    assert kept.seen["closed"]


def test_the_flags_of_a_command(run: Path, kept: type[Kept], tmp_path: Path) -> None:
    assert "sent   kept" in cli(tmp_path, "report", str(run), "--sink", "kept:p", "--step", "3")
    assert kept.seen["step"] == 3
    kept.fail = "no space"
    told = cli(tmp_path, "report", str(run), "--sink", "kept:p", code=1)
    assert "not sent to a sink: kept: no space" in told
    kept.fail = ""
    data, out = str(run.parent / "data" / "data.jsonl"), str(run.parent / "second")
    judge = ("judge", "--data", data, "--metric", "lmm-score", "--captioner", "fake/any", "--out", out, "--no-report")
    cli(tmp_path, *judge, "--sink", "kept:p/r", "--step", "9")
    assert (kept.seen["run"], kept.seen["step"]) == ("r", 9)
    assert "Did you mean 'kept'?" in cli(tmp_path, *judge, "--sink", "kep", code=2)
    assert "--step requires --sink" in cli(tmp_path, *judge, "--step", "3", code=2)


@pytest.mark.parametrize(
    ("place", "project", "name"),
    [
        ("", "titjudge", ""),
        (":mine", "mine", ""),
        (":mine/exp7", "mine", "exp7"),
        (":mine/exp/7", "mine", "exp/7"),
        (":/data/logs/exp7", "/data/logs", "exp7"),
        (":/data/logs/", "/data/logs", ""),
    ],
)
def test_where_the_flag_says(kept: type[Kept], place: str, project: str, name: str) -> None:
    assert Target.parse(f"kept{place}") == ("kept", project, name)


def test_a_run_without_its_project_is_refused(kept: type[Kept]) -> None:
    with pytest.raises(
        UserError, match=r"--sink kept:/exp7: the project before '/exp7' is missing. Write kept:PROJECT/RUN"
    ):
        Target.parse("kept:/exp7")


def test_what_writes_files_does_not_write_into_the_folder_of_the_package() -> None:
    pytest.importorskip("tensorboard", reason="needs `pip install 'titjudge[tensorboard]'`")
    assert Target.parse("tensorboard").project == "tensorboard"


def test_what_is_wrong_with_a_target_is_said_before_anything_is_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"unknown sink 'wand'\. Did you mean 'wandb'\?"):
        parse_targets(["wand"], None)
    with pytest.raises(UserError, match="--step requires --sink"):
        parse_targets([], 3)
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    monkeypatch.delitem(__import__("sys").modules, "titjudge.apps.trackers.wandb", raising=False)
    with pytest.raises(MissingExtra, match=r"titjudge\[wandb\]"):
        parse_targets(["wandb"], None)


OWN = sorted(name for name, target in registry.announced("sinks").items() if target.startswith("titjudge."))


def test_the_page_and_the_flag_lead_to_every_sink(run: Path, tmp_path: Path) -> None:
    """The list is the registry's: those of entry points."""
    page = page_text("publish")
    section = page.partition("## Send results to an experiment tracker")[2].partition("\n## ")[0]
    assert [name for name in OWN if name not in section.lower()] == []
    assert f"Known: {', '.join(registry.names('sinks'))}" in cli(tmp_path, "report", str(run), "--sink", "?", code=2)


@pytest.mark.parametrize("name", OWN)
def test_a_sink_is_small(name: str) -> None:
    module = registry.check("sinks", name).partition(":")[0]
    file = Path(__file__).parents[3] / f"{module.replace('.', '/')}.py"
    assert len(file.read_text().splitlines()) <= 80


# -- the real libraries ----------------------------------------------------------------------------------------------------


def test_tensorboard(run: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs `pip install 'titjudge[tensorboard]'`")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for step in (1, 2):
        assert send(RunFolder(run), [Target.parse("tensorboard:logs/exp7")], step=step) == []
    read = EventAccumulator("logs/exp7")
    read.Reload()
    assert [(each.step, each.value) for each in read.Scalars("lmm-score/mean")] == [(1, 0.0), (2, 0.0)]
    assert len(read.Tags()["images"]) == 4
    assert read.Images("images/0.png")[0].width == 20
    assert "Leaderboard/text_summary" in read.Tags()["tensors"]
    assert not any(SECRET.encode() in file.read_bytes() for file in Path("logs").rglob("*") if file.is_file())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of mlflow, by SQLAlchemy
def test_mlflow_with_its_default_store(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="needs `pip install 'titjudge[mlflow]'`")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for step in (1, 2):
        assert send(RunFolder(run), [Target.parse("mlflow:mine/exp7")], step=step) == []
    client = mlflow.tracking.MlflowClient()
    (found,) = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
    assert found.data.metrics["lmm-score/model 1/mean"] == 0.0
    assert [each.step for each in client.get_metric_history(found.info.run_id, "lmm-score/mean")] == [1, 2]
    assert found.data.tags["model/captioner"] == "fake/any"
    assert len(client.list_artifacts(found.info.run_id, "images/2")) == 5
    assert "Leaderboard" in client.list_artifacts(found.info.run_id, "tables/1")[0].path


def test_wandb(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="needs `pip install 'titjudge[wandb]'`")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_DIR", str(run.parent))
    monkeypatch.setenv("WANDB_DATA_DIR", str(run.parent / "staged"))
    assert send(RunFolder(run), [Target.parse("wandb:mine/exp7")], step=5) == []
    (folder,) = (run.parent / "wandb").glob("offline-run-*-exp7")
    assert len(list((folder / "files/media/images").rglob("*.png"))) == 4
    assert len(list((folder / "files/media/table").rglob("*.json"))) == 2
    (written,) = folder.glob("*.wandb")
    end = time.monotonic() + 60
    while b"lmm-score/mean" not in written.read_bytes():  # a process of its own writes it
        assert time.monotonic() < end
        time.sleep(0.05)
    assert not any(SECRET.encode() in file.read_bytes() for file in folder.rglob("*") if file.is_file())


def test_trackio(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(run.parent / "trackio"))
    trackio = pytest.importorskip("trackio", reason="needs `pip install 'titjudge[trackio]'`")
    for step in (1, 2):
        assert send(RunFolder(run), [Target.parse("trackio:mine/exp7")], step=step) == []
    (found,) = trackio.Api().runs("mine")
    assert found.name == "exp7"
    assert len(list((run.parent / "trackio").rglob("*.png"))) >= 4
