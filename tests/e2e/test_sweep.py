"""Every combination over one cache and one cap; the table says which models agree best with people."""

import hashlib
import json
import os
import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from answers import verdict
from builders import write_lines
from click.testing import CliRunner
from PIL import Image

from tests.kit import Scripted, Seen, Server
from titjudge.cli.sweep import sweep as command
from titjudge.core.errors import ConfigError, FatalProviderError
from titjudge.core.tables import p_value
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.session import Watcher
from titjudge.runs.study.sweep import ModelLabel, Sweep, Swept, _without_shared_model

IMAGES = 12


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Images 0 to 11 of three prompts; people like the higher number."""
    folder = tmp_path / "data"
    folder.mkdir()
    items, pairs = [], []
    for i in range(IMAGES):
        Image.new("RGB", (16, 16), (i, 30, 90)).save(folder / f"{i}.png")
        items.append({"image": f"{i}.png", "prompt_id": f"p{i % 3}", "generator": f"g{i // 3}"})
        pairs += [
            {"prompt_id": f"p{i % 3}", "image_a": f"{i}.png", "image_b": f"{j}.png", "preference": "a"}
            for j in range(i % 3, i, 3)
        ]
    prompts = [{"prompt_id": f"p{p}", "prompt": f"Scene {p} with a red cube."} for p in range(3)]
    for name, rows in (("images", items), ("pairs", pairs), ("prompts", prompts)):
        write_lines(folder / f"{name}.jsonl", *rows)
    return folder


@pytest.fixture
def server(serve_openai: Callable[..., Server], data: Path) -> Server:
    """Descriptions carry the picture's number; gpt-4.1 judges by it, gpt-4o against it."""
    numbers = {hashlib.sha256((data / f"{i}.png").read_bytes()).hexdigest(): i for i in range(IMAGES)}

    def handler(seen: Seen) -> str:
        if seen.images:
            return f"It shows the number <{numbers[seen.images[0]]}>."
        found = re.search(r"the number <(\d+)>", seen.text)
        assert found is not None
        return verdict(int(found[1]) if seen.model == "gpt-4.1" else 50 - int(found[1]))

    return serve_openai(handler)


def sweep_file(folder: Path, data: Path, **changes: Any) -> Path:
    content: dict[str, Any] = {
        "data": str(data),
        "captioner": "openai/gpt-4o",
        "judges": ["openai/gpt-4o", "openai/gpt-4.1"],
        "metrics": ["tit-llm"],
        "limits": {"concurrency": 1},
        "prices": {name: {"input": 2.0, "output": 8.0} for name in ("gpt-4o", "gpt-4.1")},
        "cache": str(folder / "cache"),
        "out": str(folder / "out"),
        "report": False,
    }
    file = folder / "sweep.yaml"
    file.write_text(yaml.safe_dump({name: value for name, value in (content | changes).items() if value is not None}))
    return file


def swept(file: Path) -> Swept:
    return Sweep(file).run(say=lambda line: None)


def test_a_second_judge_over_a_warm_cache_asks_no_captioner(tmp_path: Path, data: Path, server: Server) -> None:
    found = swept(sweep_file(tmp_path, data))
    assert server.count(lambda seen: bool(seen.images)) == IMAGES
    assert server.count(lambda seen: not seen.images) == 2 * IMAGES
    second = RunFolder(tmp_path / "out" / "02-gpt-4.1").manifest().roles
    assert (second["captioner"].asked, second["captioner"].cached) == (0, IMAGES)
    assert second["judge"].asked == IMAGES
    assert found.status == "complete"


def test_the_table_ranks_the_rows_and_says_what_the_difference_is_worth(
    tmp_path: Path, data: Path, server: Server
) -> None:
    found = swept(sweep_file(tmp_path, data))
    assert [row.models["judge"] for row in found.rows] == ["openai/gpt-4.1", "openai/gpt-4o"]
    assert [row.models["captioner"] for row in found.rows] == ["openai/gpt-4o", "openai/gpt-4o"]
    best, worst = found.rows
    assert (best.numbers.accuracy, worst.numbers.accuracy) == (1, 0)
    assert (best.below, best.p_adjusted) == (None, None)
    assert worst.below == 1
    assert worst.p_adjusted == pytest.approx(2 / 2**3, abs=0.03)  # all three prompts agree; 1,999 exchanges
    table = found.table()
    cells = [dict(zip(table.columns, map(str, row), strict=True)) for row in table.rows]
    assert [row["accuracy"].partition(" ")[0] for row in cells] == ["100.0%", "0.0%"]
    assert [row["below best"] for row in cells] == ["None", f"+100.0 pts, p {p_value(worst.p_adjusted)}"]
    assert cells[0]["chance threshold"].endswith(f"p {p_value(best.numbers.p_value)}")
    assert cells[0]["ties"] == "0.0%"
    assert "captioner" not in table.columns  # it is the same in all rows, and stands below
    assert "every captioner: openai/gpt-4o" in table.notes
    stored = json.loads((tmp_path / "out" / "sweep.json").read_text())
    assert stored["rows"][1]["below_best"] == 1


def test_prices_and_refusals_are_those_of_each_row(tmp_path: Path, data: Path, server: Server) -> None:
    inner = server.handler
    assert inner is not None
    faults = iter([Scripted.fault("refusal")])
    server.handler = lambda seen: inner(seen) if seen.images else next(faults, None) or inner(seen)
    price = {"gpt-4o": {"input": 1, "output": 1}, "gpt-4.1": {"input": 10, "output": 10}}
    found = swept(sweep_file(tmp_path, data, prices=price))
    rows = {row.models["judge"]: row for row in found.rows}
    dear, cheap = rows["openai/gpt-4.1"], rows["openai/gpt-4o"]
    assert dear.price is not None
    assert cheap.price is not None
    assert dear.price > cheap.price > 0
    assert (cheap.refusals, dear.refusals) == (1, 0)
    assert cheap.numbers.coverage == pytest.approx(11 / 12)
    assert dear.seconds is not None
    assert dear.seconds > 0
    money = [RunFolder(tmp_path / "out" / name).money().spent for name in ("01-gpt-4o", "02-gpt-4.1")]
    assert found.spent == pytest.approx(sum(money))
    assert money[1] < dear.price * IMAGES / 1000  # the descriptions were paid once


def test_captioners_and_ways_of_judging_make_a_matrix(tmp_path: Path, data: Path, server: Server) -> None:
    captioners = ["openai/gpt-4o", {"model": "openai/gpt-4.1"}]
    found = swept(sweep_file(tmp_path, data, captioner=None, captioners=captioners, metrics=["self-eval", "tit-llm"]))
    (matrix,) = found.matrix()
    rows = {str(record["captioner"]): {name: str(cell) for name, cell in record.items()} for record in matrix.records}
    assert rows["openai/gpt-4.1"] == {
        "captioner": "openai/gpt-4.1", "self-eval": "100.0%", "tit-llm (openai/gpt-4.1)": "100.0%",
        "tit-llm (openai/gpt-4o)": "0.0%",
    }  # fmt: skip
    assert rows["openai/gpt-4o"]["self-eval"] == "0.0%"  # it judges against the number
    assert len(found.rows) == 6
    assert "Accuracy by captioner" in (tmp_path / "out" / "sweep.html").read_text()
    assert swept(sweep_file(tmp_path, data, out=str(tmp_path / "one"))).matrix() == []


def test_lengths_of_descriptions_are_counted_by_captioner(tmp_path: Path, data: Path, server: Server) -> None:
    inner = server.handler
    assert inner is not None
    server.handler = lambda seen: (
        f"{inner(seen)} {' '.join(map(str, range(245)))}" if seen.images and seen.model == "gpt-4o" else inner(seen)
    )
    captioners = ["openai/gpt-4o", "openai/gpt-4.1"]
    found = swept(sweep_file(tmp_path, data, captioner=None, captioners=captioners, judges=["openai/gpt-4.1"]))
    cells = {str(record["captioner"]): str(record["description_words"]) for record in found.table().records}
    assert cells == {"openai/gpt-4o": "250, 100% in 250 to 350", "openai/gpt-4.1": "5, 0% in 250 to 350"}
    long, short = (outcome.results for outcome in found.outcomes.values())
    assert not [line for line in long.warnings if line.id == "descriptions_of_other_length"]
    (warning,) = [line for line in short.warnings if line.id == "descriptions_of_other_length"]
    assert warning.startswith("tit-llm: 0% of 12 descriptions")
    assert short.descriptions["tit-llm"].words == 5
    stored = json.loads((tmp_path / "out" / "sweep.json").read_text())
    assert {row["captioner"]: row["descriptions"]["in_range"] for row in stored["rows"]} == {
        "openai/gpt-4o": 1, "openai/gpt-4.1": 0,
    }  # fmt: skip


def test_a_metric_that_asks_no_judge_has_one_row(tmp_path: Path, data: Path, server: Server) -> None:
    found = swept(sweep_file(tmp_path, data, metrics=["self-eval", "tit-llm"]))
    assert [row.metric for row in found.rows].count("self-eval") == 1
    assert len(found.rows) == 3


def test_one_cap_holds_over_the_whole_sweep(tmp_path: Path, data: Path, server: Server) -> None:
    file = sweep_file(tmp_path, data, limits={"max_requests": 30, "concurrency": 1})
    found = swept(file)
    assert found.status == "incomplete: budget"
    assert server.count() == 30
    assert {name: outcome.status for name, outcome in found.outcomes.items()} == {
        "01-gpt-4o": "complete",
        "02-gpt-4.1": "incomplete: budget",
    }
    swept(file)  # what was spent before counts
    assert server.count() == 30
    assert swept(sweep_file(tmp_path, data, limits={"max_requests": 36, "concurrency": 1})).status == "complete"
    assert server.count() == 36


def test_all_dimensions_and_panels_are_combined(tmp_path: Path, data: Path) -> None:
    overlay = tmp_path / "mine"
    overlay.mkdir()
    file = sweep_file(
        tmp_path, data, captioner=None, captioners=["openai/gpt-4o", {"model": "openai/gpt-4o", "temperature": 1}],
        judges=[["openai/gpt-4o", "openai/gpt-4.1"], "openai/gpt-4.1"], prompts=["default", str(overlay)],
    )  # fmt: skip
    plan = Sweep(file)
    assert len(plan.combinations) == 8
    assert plan.combinations[0].folder == "01-gpt-4o-gpt-4o+gpt-4.1-default"
    assert len(plan.combinations[0].config.panel) == 1
    assert plan.combinations[0].config.prompts is None
    assert plan.combinations[1].config.prompts == overlay


def test_settings_of_one_model_are_different_rows(tmp_path: Path, data: Path, server: Server) -> None:
    judges = ["openai/gpt-4o", {"model": "openai/gpt-4o", "temperature": 1}]
    found = swept(sweep_file(tmp_path, data, judges=judges))
    assert {row.models["judge"] for row in found.rows} == {"openai/gpt-4o", "openai/gpt-4o (temperature 1.0)"}


def test_a_wrong_model_does_not_stop_the_others(tmp_path: Path, data: Path, server: Server) -> None:
    inner = server.handler
    assert inner is not None
    server.handler = lambda seen: Scripted.fault("401") if seen.model == "gpt-4.1" else inner(seen)
    found = swept(sweep_file(tmp_path, data, judges=["openai/gpt-4.1", "openai/gpt-4o"]))
    assert list(found.failed) == ["01-gpt-4.1"]
    assert found.status == "incomplete: 1 of 2 combinations failed"
    assert len(found.rows) == 1
    assert "01-gpt-4.1 failed" in found.table().notes[-1]
    with pytest.raises(FatalProviderError):
        swept(sweep_file(tmp_path, data, judges=["openai/gpt-4.1"], out=str(tmp_path / "other")))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"captioners": ["openai/gpt-4o"]}, "cannot be combined"),
        ({"judges": []}, "empty list"),
        ({"judges": ["opnai/gpt-4o"]}, "Did you mean 'openai'"),
        ({"metricz": ["tit"]}, "Did you mean 'metrics'"),
        ({"limits": "a lot"}, "'limits'"),
        ({"limits": [1]}, "'limits'"),
        ({"out": 5}, "'out'"),
        ({"out": ["a"]}, "'out'"),
        ({"prompts": ["a\0b"]}, "zero byte"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, data: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Sweep(sweep_file(tmp_path, data, **changes))


def test_the_command(tmp_path: Path, data: Path, server: Server) -> None:
    file = str(sweep_file(tmp_path, data))
    runner = CliRunner()
    dry = runner.invoke(command, [file, "--dry-run", "--json", str(tmp_path / "dry.json")], standalone_mode=False)
    assert (dry.return_value, server.count()) == (0, 0)
    assert len(json.loads((tmp_path / "dry.json").read_text())["combinations"]) == 2
    done = runner.invoke(command, [file, "--json", str(tmp_path / "out.json")], standalone_mode=False)
    assert done.return_value == 0, done.output
    assert "gpt-4.1" in done.output
    page = (tmp_path / "out" / "sweep.html").read_text()
    assert str(tmp_path / "out" / "sweep.html") in done.output
    assert "100.0%" in page
    assert "02-gpt-4.1" in page
    assert json.loads((tmp_path / "out.json").read_text())["rows"][0]["accuracy"] == 1
    capped = runner.invoke(
        command, [file, "--max-cost", "0", "--out", str(tmp_path / "none"), "--set", f"cache={tmp_path / 'fresh'}"],
        standalone_mode=False,
    )  # fmt: skip
    assert capped.return_value == 3


def test_settings_that_all_rows_share_stand_below_the_table() -> None:
    def labelled(model: str, settings: str = "") -> ModelLabel:
        label = ModelLabel(f"{model} ({settings})" if settings else model)
        label.settings = settings
        return label

    def without_shared(*labels: ModelLabel) -> tuple[list[str | None], str]:
        rows, shared = _without_shared_model([{"judge": label, "n": 1} for label in labels], "judge")
        return [row.get("judge") for row in rows], shared

    settings = "base_url http://127.0.0.1:1/v1"
    both, nothing = [labelled(f"openai/{name}", settings) for name in ("a", "b")], labelled("")
    assert without_shared(both[0], nothing, both[1]) == (["openai/a", "", "openai/b"], settings)
    elsewhere = labelled("openai/a", "base_url http://127.0.0.1:2/v1")
    for labels in ([*both, labelled("gemini/c")], [both[0], elsewhere]):
        assert without_shared(*labels) == (labels, "")
    assert without_shared(labelled("default")) == ([None], "default")
    assert without_shared() == ([], "")


class Stopped(Watcher):
    """Notices that a run has begun to stop."""

    def __init__(self) -> None:
        self.noticed = threading.Event()

    def say(self, line: str) -> None:
        if line.startswith("stopping"):
            self.noticed.set()


def test_ctrl_c_before_the_last_answer_of_a_combination_begins_no_other(tmp_path: Path, data: Path) -> None:
    stopped = Stopped()

    def answer(seen: Seen) -> str:
        if len(server.requests) == 2 * IMAGES:
            os.kill(os.getpid(), signal.SIGINT)
            assert stopped.noticed.wait(30)
        return verdict(len(server.requests))

    with Server(answer) as server:
        role = {"model": "openai/gpt-4o", "base_url": server.openai}
        changes = {"captioner": role, "judges": [role, role | {"model": "openai/gpt-4.1"}]}
        swept = Sweep(sweep_file(tmp_path, data, **changes)).run(lambda config: stopped)
    assert (swept.status, len(swept.outcomes)) == ("incomplete: interrupted", 1)
    assert len(server.requests) == 2 * IMAGES


def test_ctrl_c_ends_a_sweep_also_if_the_answers_on_their_way_are_refused(tmp_path: Path, data: Path) -> None:
    stopped = Stopped()

    def answer(seen: Seen) -> str | Scripted:
        if len(server.requests) < 2:
            return verdict(len(server.requests))
        if len(server.requests) == 2:
            os.kill(os.getpid(), signal.SIGINT)
            assert stopped.noticed.wait(30)
        return Scripted(status=401, body={"error": {"code": "invalid_api_key", "message": "no"}})

    with Server(answer) as server:
        role = {"model": "openai/gpt-4o", "base_url": server.openai}
        changes = {
            "captioner": role,
            "judges": [role, role | {"model": "openai/gpt-4.1"}, role | {"model": "openai/o3"}],
        }
        swept = Sweep(sweep_file(tmp_path, data, **changes)).run(lambda config: stopped)
    assert (swept.status, len(swept.outcomes), len(swept.failed)) == ("incomplete: interrupted", 0, 1)
