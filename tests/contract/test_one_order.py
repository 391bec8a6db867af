"""Terminal, report, board, view and CSV have one order of generators, the same ranks and the same numbers."""

import csv
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.commands import cli
from tests.report_runs import score, write_run
from titjudge.core.types import Item, Score, Status
from titjudge.web.view.runs import Runs

METRICS = {"tit-llm": (0, 100, True), "text-rendering-vlm": (0, 1, False)}
Row = tuple[str, str, float]  # generator, rank as written, mean
# lead over B, images of a prompt, prompts
UNEVEN = {"A": (-4.0, 1, range(24)), "B": (0.0, 1, range(40)), "C": (-12.0, 2, range(40)), "D": (-12.0, 3, range(40)),
          "few": (25.0, 1, range(3)), "none": (0.0, 1, range(4))}  # fmt: skip
TIED = {name: (0.0, 1, range(12)) for name in "ABC"}


def run_of(folder: Path, generators: Mapping[str, tuple[float, int, Sequence[int]]], *, noise: float = 2.0) -> Path:
    """A run merged of two halves; the first 24 prompts are easy, and every image of `none` failed."""
    rng = np.random.default_rng(4)
    levels = np.where(np.arange(40) < 24, 70.0, 35.0) + rng.normal(0, 5, 40)
    halves: tuple[list[Item], list[Item]] = ([], [])
    scores: tuple[list[Score], list[Score]] = ([], [])
    for name, (lead, images, prompts) in generators.items():
        for prompt in prompts:
            for seed in range(images):
                item = Item(f"{name}{prompt}-{seed}.png", f"Scene {prompt}", None, name, f"p{prompt}")
                value = round(float(np.clip(levels[prompt] + lead + rng.normal(0, noise), 0, 100)), 2)
                halves[prompt % 2].append(item)
                for metric, (_, high, higher) in METRICS.items():
                    own = value / 100 * high if higher else 1 - value / 100
                    failed = name == "none"
                    status = Status.FAILED if failed else Status.OK
                    scores[prompt % 2].append(score(item, metric, None if failed else own, status))
    records = {
        name: {"version": "1", "range": [low, high], "higher_is_better": higher}
        for name, (low, high, higher) in METRICS.items()
    }
    identity = {"suite": "folder", "metrics": list(METRICS), "protocol": "strict"}
    for half, name in enumerate(("even", "odd")):
        write_run(folder / name, halves[half], scores[half], metrics=records, identity=identity)
    cli(folder, "merge", "even", "odd", "--out", "runs/run")
    return folder / "runs" / "run"


def table(text: str, title: str) -> list[list[str]]:
    """The cells of a table in the terminal, or in Markdown."""
    lines = text.partition(title)[2].splitlines()
    first = next(number for number, line in enumerate(lines) if re.match(r"\s*(\||-)[-|: ]{6,}", line))
    rows: list[list[str]] = []
    for line in lines[first + 1 :]:
        if not line.strip() or line.strip().startswith("over "):
            break
        cells = line.strip("| ").split(" | ") if line.startswith("|") else re.split(r"\s{2,}", line.strip())
        rows.append([cell.replace("\\", "") for cell in cells])
    return rows


def rows_of(cells: Sequence[Sequence[object]], mean: int) -> list[Row]:
    """Generator, rank and mean of the rows of a table that have a mean."""
    known = [row for row in cells if str(row[mean]) not in ("-", "–", "None", "")]
    return [
        (str(row[0]), "" if row[1] in (None, "-", "–") else str(row[1]), float(str(row[mean]).split()[0]))
        for row in known
    ]


def boards(folder: Path, run: Path) -> dict[str, list[Row]]:
    """What each output says of the metric that decides."""
    printed = cli(folder, "judges", "agreement", str(run), "--json", "run.json")
    cli(folder, "report", str(run), "--format", "markdown", "--out", "report.md")
    cli(folder, "report", str(run), "--format", "site", "--out", "site")
    cli(folder, "compare", "generators", str(run), "--out", "out.csv", "--json", "out.json")
    markdown = (folder / "report.md").read_text()
    (site, *_) = json.loads((folder / "site/results.json").read_text())["tables"]
    with (folder / "out.csv").open(newline="") as file:
        (_, *listed) = csv.reader(file)
    (state,) = Runs(folder / "runs").states()
    stored = json.loads((folder / "run.json").read_text())["leaderboard"]
    places = [(row["generator"], row["metrics"]["tit-llm"]) for row in stored]
    generators = json.loads((folder / "out.json").read_text())["generators"]
    return {
        "terminal": rows_of(table(printed, "Leaderboard"), 4),
        "json": [(name, between(place), place["mean"]) for name, place in places if place["mean"] is not None],
        "report": rows_of(table(markdown, "**Leaderboard**"), 4),
        "report, prompt by prompt": rows_of(table(markdown, "**Prompt by prompt: tit-llm**"), 2),
        "board": rows_of(site["rows"], 2),
        "view": [(name, state.ranks.get(name, ""), mean) for name, mean in state.means],
        "csv": rows_of(listed[: listed.index([])], 2),
        "generators": [(row["generator"], between(row), row["mean"]) for row in generators if row["mean"] is not None],
    }


def between(place: Mapping[str, object]) -> str:
    low, high = place.get("rank_low"), place.get("rank_high")
    return "" if low is None else str(low) if low == high else f"{low} to {high}"


@pytest.mark.parametrize(
    ("generators", "noise", "ranks"),
    [
        (UNEVEN, 2.0, {"B": "1", "A": "2 to 4", "C": "2 to 4", "D": "2 to 4", "few": ""}),
        (TIED, 0.0, {"A": "1 to 3", "B": "1 to 3", "C": "1 to 3"}),
    ],
)
def test_all_outputs_have_one_order_the_same_ranks_and_means(
    generators: dict[str, tuple[float, int, Sequence[int]]], noise: float, ranks: dict[str, str], tmp_path: Path
) -> None:
    found = boards(tmp_path, run_of(tmp_path, generators, noise=noise))
    wanted = found["json"]
    assert {name: rank for name, rank, _ in wanted} == ranks
    for output, rows in found.items():
        assert [row[:2] for row in rows] == [row[:2] for row in wanted], output
        assert [row[2] for row in rows] == pytest.approx([row[2] for row in wanted], abs=0.06), output
    verdict = json.loads((tmp_path / "runs/run/results.json").read_text())["verdict"]["generators"]
    assert [(row["generator"], between(row), row["mean"]) for row in verdict["ranking"]] == wanted
    compared = [row[2] for row in wanted if row[1]]
    assert compared == sorted(compared, reverse=True)


def test_of_a_metric_where_less_is_better_order_and_ranks_are_the_same(tmp_path: Path) -> None:
    run = run_of(tmp_path, UNEVEN)
    cli(tmp_path, "compare", "generators", str(run), "--metric", "text-rendering-vlm", "--json", "low.json")
    cli(tmp_path, "compare", "generators", str(run), "--json", "high.json")
    low, high = (json.loads((tmp_path / f"{name}.json").read_text())["generators"] for name in ("low", "high"))
    assert [(row["generator"], between(row)) for row in low] == [(row["generator"], between(row)) for row in high]
    for better, worse in zip(low, high, strict=True):
        assert (better["mean"] is None) == (worse["mean"] is None)
        assert better["mean"] is None or better["mean"] == pytest.approx(1 - worse["mean"] / 100)
        assert better["mean"] is None or 0 <= better["low"] <= better["mean"] <= better["high"] <= 1
    (state,) = Runs(tmp_path / "runs").states()
    assert [name for name, _ in state.boards["text-rendering-vlm"]] == [name for name, _ in state.means]


def test_of_a_metric_where_less_is_better_differences_name_their_direction(tmp_path: Path) -> None:
    run = run_of(tmp_path, UNEVEN)
    printed = cli(tmp_path, "compare", "generators", str(run), "--metric", "text-rendering-vlm", COLUMNS="200")
    assert "a - b, negated: less is better" in printed
    printed = cli(tmp_path, "judges", "agreement", str(run), "--json", "run.json", COLUMNS="250")
    rows = json.loads((tmp_path / "run.json").read_text())["differences"]
    pairs = {what: [(row["first"], row["second"]) for row in rows if what in row["what"]] for what in METRICS}
    assert pairs["tit-llm"] == pairs["text-rendering-vlm"]
    low = next(row for row in rows if "text" in row["what"])
    assert low["difference"] == pytest.approx(low["first_value"] - low["second_value"])
    assert low["difference"] < 0
    assert f"{low['first_value']:.3f}" in printed, "three decimals on a scale from 0 to 1"
    assert f"{low['difference']:+.4f} [" in printed


def test_missing_prompts_come_with_one_command_and_no_place_on_a_page(tmp_path: Path) -> None:
    run = run_of(tmp_path, UNEVEN)
    cli(tmp_path, "report", str(run), "--format", "site", "--out", "site")
    cli(tmp_path, "report", str(run), "--out", "report.html")
    (state,) = Runs(tmp_path / "runs").states()
    said = next(line for line in state.verdict if "python cli.py judge" in line)
    assert any("judge few on" in line for line in state.verdict)
    assert any("none (0 prompts)" in line for line in state.verdict)
    for page in ("report.html", "site/index.html"):
        text = (tmp_path / page).read_text().replace('<span class="whole">--out</span>', "--out")  # kept in one line
        assert said in text, page
        assert str(tmp_path) not in text, page
