"""`judge --settle`: a run that stops when it is known which generator is better, and stops paying then."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import write_lines
from PIL import Image

from tests.kit import Scripted, Seen, Server
from titjudge.cli.commands import run_command
from titjudge.core.config import load_config
from titjudge.core.errors import ConfigError, DataError
from titjudge.report.model import load
from titjudge.report.overview import overview_tables
from titjudge.runs.check.verify import verify
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.study.compared_runs import run_scores
from titjudge.runs.study.settling import STOPPED, SettlingQuestion, SettlingSession

PROMPTS, CONCURRENCY = 150, 4
PRICE = {"gpt-4o": {"input": 2.5, "output": 10}}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three generators whose images have the score that people would give as their colour."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(3)
    images = []
    for p in range(PROMPTS):
        for name, level in (("old", 40), ("new", 60), ("near", 41)):
            grey = int(np.clip(level + 12 * rng.normal(), 0, 100))
            file = f"{name}{p}.png"
            Image.new("RGB", (8, 8), (grey, p % 256, len(name))).save(folder / file)
            images.append({"image": file, "prompt_id": f"p{p}", "generator": name})
    prompts = [{"prompt_id": f"p{p}", "prompt": f"A grey square, number {p}."} for p in range(PROMPTS)]
    for name, rows in (("prompts", prompts), ("images", images)):
        write_lines(folder / f"{name}.jsonl", *rows)
    return folder


class Rater:
    """A model that reads the score from the picture; it can be told to fail on some."""

    def __init__(self, data: Path) -> None:
        import hashlib

        self.score = {}
        for file in data.glob("*.png"):
            with Image.open(file) as image:
                self.score[hashlib.sha256(file.read_bytes()).hexdigest()] = image.getpixel((0, 0))[0]

    def __call__(self, seen: Seen) -> Scripted:
        said = json.dumps({"reason": "grey", "score": self.score[seen.images[0]]})
        return Scripted(said, usage={"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020})


@pytest.fixture
def server(data: Path, serve_openai: Callable[..., Server]) -> Server:
    return serve_openai(Rater(data))


def settings(data: Path, place: Path, **limits: Any) -> dict[str, Any]:
    return {"data": data, "metrics": ["lmm-score"], "captioner": "openai/gpt-4o", "prices": PRICE, "report": False,
            "out": place / "run", "cache": place / "cache", "limits": {"concurrency": CONCURRENCY, **limits}}  # fmt: skip


def settled(data: Path, place: Path, *names: str, margin: float | None = None, **limits: Any) -> Any:
    return SettlingSession(load_config(None, settings(data, place, **limits)), SettlingQuestion(names, margin)).run()


def test_money_stops_with_the_verdict_and_a_second_run_is_free(data: Path, tmp_path: Path, server: Server) -> None:
    first = settled(data, tmp_path, "old", "new")
    record = first.results.settle
    (pair,) = record.pairs
    assert first.status == "settled"
    assert STOPPED in first.warnings
    assert run_scores([first.folder]).notes[0].id == "run_settled"
    assert (pair.a, pair.b, pair.verdict, pair.of) == ("old", "new", "new", PROMPTS)
    assert pair.interval is not None
    assert pair.interval[1] < 0
    assert 30 <= pair.used < PROMPTS / 2
    assert server.count("openai") <= 2 * pair.used + 2 * CONCURRENCY
    price = (1000 * 2.5 + 20 * 10) / 1e6
    assert record.spent == pytest.approx(price * server.count("openai"), rel=1e-3)
    assert record.saved == pytest.approx(price * (2 * PROMPTS - server.count("openai")), rel=0.05)
    assert json.loads((tmp_path / "run" / "results.json").read_text())["settle"]["pairs"] == [pair.to_json()]
    assert RunFolder(first.folder).results().spent == first.results.spent
    tables = {table.title: table for table in overview_tables(load([RunFolder(first.folder)]))}
    assert tables["Question of early stopping"].rows[0][:3] == ("old, new", "new", pair.used)
    assert verify(first.folder).holds
    asked = server.count()
    again = settled(data, tmp_path, "old", "new")
    assert server.count() == asked
    assert again.status == "settled"
    assert again.results.settle.pairs == [pair]


def test_a_settled_run_that_finds_nothing_new_keeps_its_report(data: Path, tmp_path: Path, server: Server) -> None:
    config = load_config(None, settings(data, tmp_path) | {"report": True})
    report = SettlingSession(config, SettlingQuestion(("old", "new"))).run().report
    assert report is not None
    report.write_text("as it was")
    assert SettlingSession(config, SettlingQuestion(("old", "new"))).run().report == report
    assert report.read_text() == "as it was"


def test_a_cap_leaves_the_question_open_and_a_higher_one_goes_on(data: Path, tmp_path: Path, server: Server) -> None:
    first = settled(data, tmp_path, "old", "new", max_requests=20)
    assert first.status == "incomplete: budget"
    assert first.results.settle.pairs[0].verdict == "open"
    assert server.count() <= 20
    second = settled(data, tmp_path, "old", "new")
    free = settled(data, tmp_path / "fresh", "old", "new")
    assert second.results.settle.pairs == free.results.settle.pairs  # whatever came when


def test_answers_in_the_cache_settle_for_nothing(data: Path, tmp_path: Path, server: Server) -> None:
    found = settled(data, tmp_path, "old", "new")
    asked = server.count()
    cached = load_config(None, settings(data, tmp_path) | {"out": tmp_path / "third"})
    free = SettlingSession(cached, SettlingQuestion(("old", "new"))).run()
    assert server.count() <= asked + CONCURRENCY  # images that were under way at the verdict
    assert free.results.settle.spent <= 0.0027 * CONCURRENCY
    assert free.results.settle.pairs == found.results.settle.pairs


def test_close_generators_are_equivalent_and_a_race_finds_the_best(data: Path, tmp_path: Path, server: Server) -> None:
    near = settled(data, tmp_path, "old", "near", margin=8)
    assert near.results.settle.pairs[0].verdict == "equivalent"
    race = settled(data, tmp_path / "race", "old", "near", "new")
    (pair,) = race.results.settle.pairs
    assert pair.verdict == "new"
    assert race.results.settle.images < 3 * PROMPTS / 2


def test_a_prompt_without_a_score_is_left_out(data: Path, tmp_path: Path, server: Server) -> None:
    rate = server.handler
    assert rate is not None
    server.handler = lambda seen: Scripted("no number") if "number 7" in seen.text else rate(seen)
    found = settled(data, tmp_path, "old", "new")
    assert found.results.settle.pairs[0].verdict == "new"
    kept = [score.value for score in RunFolder(found.folder).scores().values()]
    assert None in kept


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("old", "nwe"), "unknown generator 'nwe'. Did you mean 'new'"),
        (("old", "old"), "different generators"),
        (("old",), "two or more"),
    ],
)
def test_questions_that_cannot_be_asked(data: Path, tmp_path: Path, names: tuple[str, ...], said: str) -> None:
    with pytest.raises((ConfigError, DataError), match=said):
        settled(data, tmp_path, *names)


def test_the_command_says_the_verdict(
    data: Path, tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    common = ["judge", "--data", str(data), "--metric", "lmm-score", "--captioner", "openai/gpt-4o", "--no-report",
              "--set", "cache=cache", "--concurrency", "4", "--json", "out.json", "--price", "gpt-4o=2.5,10"]  # fmt: skip
    assert run_command("cli.py", [*common, "--settle", "old,new"]) == 0
    assert "settled: new is the better one, old - new between" in capsys.readouterr().out
    found = json.loads(Path("out.json").read_text())
    assert found["saved"] > 0 < found["spent"]
    assert found["pairs"][0]["verdict"] == "new"
    assert found["human_pairs"] == []
    assert run_command("cli.py", [*common, "--settle", "old,near", "--max-cost", "0.05", "--out", "capped"]) == 3
    assert "not settled for $0.0" in capsys.readouterr().out
    for flags in (["--margin", "1"], ["--settle", "old,new", "--batch"], ["--settle", "old,new", "--metric", "tit"]):
        assert run_command("cli.py", [*common, *flags]) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
