"""No answer depends on the order of rows, on names, or on generators and prompts that have nothing to do with it."""

from __future__ import annotations

import csv
import itertools
import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.commands import cli
from tests.report_runs import score, write_run
from titjudge.core.types import Item

Row = tuple[Any, ...]  # prompt, generator, score, seed, type
HEAD = ("prompt_id", "generator", "score", "seed", "type")
NAMES = {"A": "z9", "B": "m 5", "C": "Ä", "D": "a0"}
TEXTS = {"source", "notes", "reasons", "warnings", "title", "run", "old", "new"}  # not numbers, or names of files


def scores() -> list[Row]:
    """Uneven data: D has four prompts of five, B two images of each, and some scores are missing."""
    rng = np.random.default_rng(3)
    rows: list[Row] = []
    for prompt in range(30):
        level = rng.normal(60, 12)
        for number, name in enumerate("ABCD"):
            for seed in range(0 if name == "D" and prompt % 5 == 0 else 2 if name == "B" else 1):
                value = round(float(np.clip(level - 2.5 * number + rng.normal(0, 6), 0, 100)))
                rows.append((f"p{prompt}", name, "" if rng.random() < 0.04 else value, seed, f"kind {prompt % 3}"))
    return rows


def shuffled(rows: list[Row]) -> list[Row]:
    return random.Random(1).sample(rows, len(rows))


def renamed(rows: list[Row]) -> list[Row]:
    return [(prompt, NAMES[name], *rest) for prompt, name, *rest in rows]


def relabelled(rows: list[Row]) -> list[Row]:
    return [(f"q{7 * int(prompt[1:]) % 31:02d}", *rest) for prompt, *rest in rows]


def with_strangers(rows: list[Row]) -> list[Row]:
    """Add a generator with three of the prompts, and one with prompts of its own."""
    strangers = [(f"p{k}", "few", 99, 0, f"kind {k % 3}") for k in range(3)]
    return [*rows, *strangers, *((f"own{k}", "apart", 99 - k, 0, "kind 0") for k in range(9))]


def write_table(path: Path, head: Iterable[str], rows: Iterable[Iterable[Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([head, *rows])
    return path


def known(value: Any, names: dict[str, str]) -> Any:
    """The answers of a `--json` file: numbers to 1e-12 of their size, names as they were, no texts."""
    if isinstance(value, dict):
        return {names.get(key, key): known(each, names) for key, each in value.items() if key not in TEXTS}
    if isinstance(value, list):
        return [known(each, names) for each in value]
    if isinstance(value, float):
        return pytest.approx(value, rel=1e-12, abs=1e-12)
    return names.get(value, value) if isinstance(value, str) else value


def answer(folder: Path, *arguments: Any, code: int = 0) -> Any:
    cli(folder, "compare", *map(str, arguments), "--json", "out.json", code=code)
    return json.loads((folder / "out.json").read_text(encoding="utf-8"))


TABLES: dict[str, Callable[[str, str], tuple[str, ...]]] = {
    "all pairs": lambda a, b: ("generators", "--range", "0,100"),
    "categories": lambda a, b: ("generators", "--by", "type"),
    "baseline": lambda a, b: ("generators", "--range", "0,100", "--baseline", b),
    "best as baseline": lambda a, b: ("generators", "--range", "0,100", "--baseline", a),
    "gate": lambda a, b: ("generators", "--range", "0,100", "--baseline", b, "--fail-if-worse", "20"),
    "best image": lambda a, b: ("generators", "--per-prompt", "best"),
    "any image": lambda a, b: ("generators", "--per-prompt", "any:60"),
    "plan": lambda a, b: ("plan", "--pair", "all", "--difference", "2", "--per-prompt", "best", "--seeds", "1"),
    "settle": lambda a, b: ("settle", "--pair", "all", "--repeat", "3", "--range", "0,100"),
    "race": lambda a, b: ("settle", "--pair", f"{a},{b},{'C' if a == 'A' else NAMES['C']}", "--repeat", "3"),
}


@pytest.mark.parametrize("change", [shuffled, renamed, relabelled])
@pytest.mark.parametrize("command", TABLES)
def test_rows_and_names_change_nothing(command: str, change: Callable[[list[Row]], list[Row]], tmp_path: Path) -> None:
    names = NAMES if change is renamed else {}
    before = write_table(tmp_path / "before.csv", HEAD, scores())
    after = write_table(tmp_path / "after.csv", HEAD, change(scores()))
    first = answer(tmp_path, *TABLES[command]("A", "B"), "--scores", before)
    second = answer(tmp_path, *TABLES[command](names.get("A", "A"), names.get("B", "B")), "--scores", after)
    assert known(second, {new: old for old, new in names.items()}) == known(first, {})


FAMILY = {"p_adjusted", "by"}  # adjusted together with what is added


@pytest.mark.parametrize("command", ["all pairs", "baseline", "best as baseline", "gate", "any image", "best image"])
def test_strangers_change_no_answer_of_the_others(command: str, tmp_path: Path) -> None:
    answers = []
    for name, rows in (("before", scores()), ("after", with_strangers(scores()))):
        table = write_table(tmp_path / f"{name}.csv", HEAD, rows)
        found = answer(tmp_path, *TABLES[command]("A", "B"), "--scores", table)
        listed = [row for row in found["generators"] if row["generator"] in NAMES]
        pairs = [{key: value for key, value in pair.items() if key not in FAMILY}
                 for pair in found["pairs"] if {pair["a"], pair["b"]} <= NAMES.keys()]  # fmt: skip
        answers.append(known([listed, pairs], {}))
    assert answers[1] == answers[0]


def test_a_bridge_does_not_depend_on_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    level = rng.normal(50, 5, 12)
    tables: list[list[Row]] = [[], []]
    for (prompt, base), (number, name) in itertools.product(enumerate(level), enumerate("ABCDEFX")):
        for new, rows in enumerate(tables):
            if not (new and name == "X"):
                rows.append((f"p{prompt}", name, base + (3 + new) * number + rng.normal(), 0, "x"))
    answers = []
    for change in (list, shuffled):
        old, new = (write_table(tmp_path / f"{k}.csv", HEAD, change(rows)) for k, rows in enumerate(tables))
        answers.append(known(answer(tmp_path, "bridge", old, new), {}))
    assert answers[1] == answers[0]


def test_votes_and_ranks_do_not_depend_on_rows(tmp_path: Path) -> None:
    rng = random.Random(2)
    votes = [(f"p{p}", f"{a}{p}", f"{b}{p}", rng.choice(["a", "a", "b", "tie"]), f"person {n}")
             for p in range(12) for a, b in ("xy", "xz", "yz") for n in range(3)]  # fmt: skip
    ranks = [(f"g{k}", k, rng.random(), rng.random()) for k in range(8)]
    answers: list[Any] = []
    for change in (list, shuffled):
        cast = write_table(
            tmp_path / "votes.csv", ("prompt_id", "image_a", "image_b", "preference", "annotator"), change(votes)
        )
        board = write_table(tmp_path / "ranks.csv", ("generator", "human", "first", "second"), change(ranks))
        of_votes = answer(tmp_path, "votes", cast)
        of_votes["needs_experts"].sort(key=str)
        answers.append(known([of_votes, answer(tmp_path, "ranks", "--csv", board, "--reference", "human")], {}))
    assert answers[1] == answers[0]


def run_of(folder: Path, change: Callable[[list[Row]], list[Row]]) -> Path:
    rows = [row for row in change(scores()) if row[3] == 0]
    items = [Item(f"{name}-{prompt}", f"A scene of {kind}", None, name, prompt) for prompt, name, _, _, kind in rows]
    values = [None if row[2] == "" else float(row[2]) for row in rows]
    write_run(folder, items, [score(item, "tit-llm", value) for item, value in zip(items, values, strict=True)])
    return folder


def human_pairs() -> list[tuple[str, str, str, str]]:
    rng = random.Random(4)
    there = {(row[0], row[1]) for row in scores()}
    return [
        (f"p{p}", f"{a}-p{p}", f"{b}-p{p}", rng.choice(["a", "a", "a", "b"]))
        for p in range(20)
        for a, b in itertools.combinations("ABCD", 2)
        if {(f"p{p}", a), (f"p{p}", b)} <= there
    ]


@pytest.mark.parametrize("command", ["runs", "people", "generators"])
def test_items_of_a_run_in_another_order_change_nothing(command: str, tmp_path: Path) -> None:
    pairs = human_pairs()
    answers = []
    for name, change in (("first", list), ("again", shuffled)):
        run = run_of(tmp_path / name / "run", change)
        file = write_table(tmp_path / f"{name}.csv", ("prompt_id", "image_a", "image_b", "preference"), change(pairs))
        given = () if command == "generators" else ("--pairs", file, *(["--strengths"] if command == "runs" else []))
        answers.append(known(answer(tmp_path, command, run, *given), {}))
    assert answers[1] == answers[0]
