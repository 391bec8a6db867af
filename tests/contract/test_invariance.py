"""No answer depends on the order of rows, on names, or on generators and prompts that have nothing to do with it."""

import csv
import functools
import itertools
import json
import random
import re
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.answers import verdict
from tests.builders import compared_images, png, read_lines, write_lines
from tests.commands import cli
from tests.kit import Seen, Server
from tests.report_runs import reply, score, write_run
from titjudge.core.config import load_config
from titjudge.core.types import Item, Score, Status
from titjudge.metrics.longt2ibench_text import target_text
from titjudge.runs.check.merge import merge
from titjudge.runs.session import Session
from titjudge.runs.study.reference import standings
from titjudge.stats.generators.published_tables import published
from titjudge.suites.longt2ibench.suite import read_annotation

Row = tuple[Any, ...]  # prompt, generator, score, seed, type
HEAD = ("prompt_id", "generator", "score", "seed", "type")
NAMES = {"A": "z9, large", "B": "m 5", "C": "Ä", "D": "a0"}
PROMPTS = {f"p{k}": f"q{7 * k % 31:02d}, é" for k in range(30)}
QUESTIONS = ["Is it red?", "Is it big?"]
TEXTS = {"source", "notes", "reasons", "warnings", "title", "run", "old", "new"}  # not numbers, or names of files
Change = Callable[[list[Any]], list[Any]]
NAMED = ("generator", "metric", "run", "a", "b", "first", "second", "what", "model")
Names = Mapping[str, str]
SAME: Names = {}


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


def backwards(rows: list[Any]) -> list[Any]:
    return rows[::-1]


def renamed(rows: list[Row]) -> list[Row]:
    return [(prompt, NAMES[name], *rest) for prompt, name, *rest in rows]


def relabelled(rows: list[Row]) -> list[Row]:
    return [(PROMPTS[prompt], *rest) for prompt, *rest in rows]


def with_strangers(rows: list[Row]) -> list[Row]:
    """Add a generator with three of the prompts, and one with prompts of its own."""
    strangers = [(f"p{k}", "few", 99, 0, f"kind {k % 3}") for k in range(3)]
    return [*rows, *strangers, *((f"own{k}", "apart", 99 - k, 0, "kind 0") for k in range(9))]


def write_table(path: Path, head: Iterable[str], rows: Iterable[Iterable[Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([head, *rows])
    return path


def known(value: Any, names: dict[str, str], by_name: bool = False) -> Any:
    """The answers of a `--json` file: numbers to 1e-12 of their size, names as they were, no texts."""
    if isinstance(value, dict):
        return {renamed_back(key, names): known(each, names, by_name or key.startswith("excluded"))
                for key, each in value.items() if key not in TEXTS}  # fmt: skip
    if isinstance(value, list):
        listed = [known(each, names, by_name) for each in value]
        return sorted(listed) if by_name else listed
    if isinstance(value, float):
        return pytest.approx(value, rel=1e-12, abs=1e-12)
    return renamed_back(value, names) if isinstance(value, str) else value


def renamed_back(text: str, names: dict[str, str]) -> str:
    """A name as it was before, also if that of a run or a metric follows it."""
    name, bracket, more = text.partition(" (")
    return names.get(text) or names.get(name, name) + bracket + more


def answer(folder: Path, *arguments: Any, code: int = 0) -> Any:
    cli(folder, *map(str, arguments), "--json", "out.json", code=code)
    return json.loads((folder / "out.json").read_text(encoding="utf-8"))


def without(value: Any, left_out: Container[str], strange: Callable[[Any], bool] = lambda name: False) -> Any:
    """Drop some keys of an answer, and what `strange` names."""
    if isinstance(value, dict):
        kept = {key: each for key, each in value.items() if key not in left_out and not strange(key)}
        return {key: without(each, left_out, strange) for key, each in kept.items()}
    if isinstance(value, list):
        rows = [row for row in value if not (isinstance(row, dict) and any(strange(row.get(name)) for name in NAMED))]
        return [without(row, left_out, strange) for row in rows]
    return value


TABLES: dict[str, Callable[[str, str], tuple[str, ...]]] = {
    "all pairs": lambda a, b: ("compare", "generators", "--range", "0,100"),
    "categories": lambda a, b: ("compare", "generators", "--by", "type"),
    "baseline": lambda a, b: ("compare", "generators", "--range", "0,100", "--baseline", b),
    "best as baseline": lambda a, b: ("compare", "generators", "--range", "0,100", "--baseline", a),
    "gate": lambda a, b: ("compare", "generators", "--range", "0,100", "--baseline", b, "--fail-if-worse", "20"),
    "best image": lambda a, b: ("compare", "generators", "--per-prompt", "best"),
    "any image": lambda a, b: ("compare", "generators", "--per-prompt", "any:60"),
    "plan": lambda a, b: (
        "compare",
        "plan",
        "--pair",
        "all",
        "--difference",
        "2",
        "--per-prompt",
        "best",
        "--images-per-prompt",
        "1",
    ),
    "settle": lambda a, b: ("compare", "early-stopping", "--pair", "all", "--orders", "3", "--range", "0,100"),
    "race": lambda a, b: (
        "compare",
        "early-stopping",
        "--pair",
        f"{a},{b},{'C' if a == 'A' else NAMES['C']}",
        "--orders",
        "3",
    ),
}


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """Answers over the scores as they are, each computed once."""
    table = write_table(tmp_path_factory.mktemp("before") / "before.csv", HEAD, scores())
    return functools.cache(lambda command: answer(table.parent, *TABLES[command]("A", "B"), table))


@pytest.mark.parametrize("change", [shuffled, renamed, relabelled])
@pytest.mark.parametrize("command", TABLES)
def test_rows_and_names_change_nothing(
    command: str, change: Callable[[list[Row]], list[Row]], before: Callable[[str], Any], tmp_path: Path
) -> None:
    names = NAMES if change is renamed else {}
    after = write_table(tmp_path / "after.csv", HEAD, change(scores()))
    first = before(command)
    second = answer(tmp_path, *TABLES[command](names.get("A", "A"), names.get("B", "B")), after)
    given = PROMPTS if change is relabelled else names
    assert known(second, {new: old for old, new in given.items()}) == known(first, {})


@pytest.mark.parametrize("name", ["f{}", "é {}, z"])
@pytest.mark.parametrize("command", ["all pairs", "best as baseline", "gate", "plan", "settle", "race"])
def test_families_depend_on_no_rows_or_names(command: str, name: str, tmp_path: Path) -> None:
    answers = []
    for change, number in (list, "f{}"), (shuffled, name):
        rows = [(*row, number.format((99 - int(row[0][1:])) // 3)) for row in change(scores())]
        table = write_table(tmp_path / "scores.csv", (*HEAD, "cluster"), rows)
        answers.append(known(answer(tmp_path, *TABLES[command]("A", "B"), table), {}))
    assert answers[1] == answers[0]


FAMILY = {"p_adjusted", "by"}  # adjusted together with what is added


@pytest.mark.parametrize("command", ["all pairs", "baseline", "best as baseline", "gate", "any image", "best image"])
def test_strangers_change_no_answer_of_the_others(command: str, before: Callable[[str], Any], tmp_path: Path) -> None:
    answers = []
    table = write_table(tmp_path / "after.csv", HEAD, with_strangers(scores()))
    for found in (before(command), answer(tmp_path, *TABLES[command]("A", "B"), table)):
        listed = [row for row in found["generators"] if row["generator"] in NAMES]
        pairs = [{key: value for key, value in pair.items() if key not in FAMILY}
                 for pair in found["pairs"] if {pair["a"], pair["b"]} <= NAMES.keys()]  # fmt: skip
        answers.append(known([listed, pairs], {}))
    assert answers[1] == answers[0]


def bridged(
    names: Names = SAME, prompts: Names = SAME, change: Change = list, strangers: bool = False
) -> list[list[Row]]:
    """Tables of two judges; the new one has not judged X."""
    rng = np.random.default_rng(5)
    level = rng.normal(50, 5, 12)
    tables: list[list[Row]] = [[], []]
    for (prompt, base), (number, name) in itertools.product(enumerate(level), enumerate("ABCDEFX")):
        for new, rows in enumerate(tables):
            if not (new and name == "X"):
                key, value = f"p{prompt}", base + (3 + new) * number + rng.normal()
                rows.append((prompts.get(key, key), names.get(name, name), value, 0, "x"))
    for rows in tables if strangers else ():
        rows += [(f"own{k}", "apart", 50 + k, 0, "x") for k in range(8)]
        rows += [(f"p{k}", "few", 50 + k, 0, "x") for k in range(3)]
    return [change(rows) for rows in tables]


BRIDGED = NAMES | {"E": "é", "F": "00", "X": "b"}


@pytest.mark.parametrize(
    "change",
    [{"change": shuffled}, {"names": BRIDGED}, {"prompts": PROMPTS}, {"strangers": True}],
    ids=["rows", "generators", "prompts", "strangers"],
)
def test_a_bridge_depends_on_no_rows_names_or_strangers(change: dict[str, Any], tmp_path: Path) -> None:
    answers = []
    for settings in ({}, change):
        old, new = (write_table(tmp_path / f"{k}.csv", HEAD, rows) for k, rows in enumerate(bridged(**settings)))
        found = without(answer(tmp_path, "compare", "bridge", old, new), {"declared", "left_out"})
        back = {new: old for old, new in settings.get("names", {}).items()}
        answers.append(known(found | {"anchors": dict.fromkeys(found["anchors"], "")}, back))
    assert answers[1] == answers[0]


Votes = list[tuple[str, str, str, str, str]]


def swapped(votes: Votes) -> Votes:
    """Write the images of every second pair the other way round."""
    sides = {"a": "b", "b": "a", "tie": "tie"}
    return [
        (p, b, a, sides[said], who) if k % 2 else (p, a, b, said, who) for k, (p, a, b, said, who) in enumerate(votes)
    ]


def renamed_votes(votes: Votes) -> Votes:
    """Name prompts, images and people otherwise, in another order."""
    return [(f"q{p[1:]:0>3} é", f"{ord('z') - ord(a[0])}{a}", f"{ord('z') - ord(b[0])}{b}", said, f"{9 - int(who[-1])} Ä")
            for p, a, b, said, who in votes]  # fmt: skip


@pytest.mark.parametrize("change", [shuffled, swapped, renamed_votes])
def test_votes_depend_on_no_rows_sides_or_names(change: Change, tmp_path: Path) -> None:
    rng = random.Random(2)
    votes = [(f"p{p}", f"{a}{p}", f"{b}{p}", rng.choice(["a", "a", "b", "tie"]), f"person {n}")
             for p in range(12) for a, b in ("xy", "xz", "yz") for n in range(3)]  # fmt: skip
    answers: list[Any] = []
    for rows in (votes, change(votes)):
        columns = "prompt_id", "image_a", "image_b", "preference", "annotator"
        found = answer(tmp_path, "label", "convert", write_table(tmp_path / "votes.csv", columns, rows))
        answers.append(known(found | {"needs_experts": len(found["needs_experts"])}, {}))
    assert answers[1] == answers[0]


def test_ranks_depend_on_no_rows_columns_or_names(tmp_path: Path) -> None:
    rng = random.Random(2)
    ranks: list[Any] = [
        {"generator": f"g{k}", "human": k, "first": rng.random(), "second": rng.random()} for k in range(8)
    ]
    more = [row | {"generator": f"{9 - k} é", "third": rng.random()} for k, row in enumerate(ranks)]
    answers = []
    for rows, columns in (ranks, [*ranks[0]]), (shuffled(more), ["generator", "third", "second", "human", "first"]):
        board = write_table(tmp_path / "ranks.csv", columns, ([row[name] for name in columns] for row in rows))
        found = answer(tmp_path, "judges", "ranks", board, "human")
        found["columns"].pop("third", None)
        answers.append(known(found, {}))
    assert answers[1] == answers[0]


def study(folder: Path, *, change: Change = list, names: Names = SAME, prompts: Names = SAME, extra: str = "") -> Path:
    """Two runs over uneven scores, with people's pairs, scores and marks; `extra` is an unrelated `metric` or `prompt`."""
    rng = random.Random(6)
    items, marks, rated = [], [], []
    judged: dict[str, list[Score]] = {"run": [], "other": []}
    for prompt, name, value, seed, kind in scores():
        if seed:
            continue
        text = prompts.get(prompt, prompt)
        item = Item(f"{name}-{prompt}", f"Scene {text}", None, names.get(name, name), text, {"kind": kind})
        items.append(item)
        answers = [rng.choice(["yes", "no"]) for _ in QUESTIONS]
        marks += [(item.id, *mark) for mark in zip(QUESTIONS, rng.choices(["yes", "no"], k=2), strict=True)]
        rated += [(item.id, rng.randint(1, 5), f"person {k}") for k in range(rng.randint(0, 2))]
        asked = {"questions": QUESTIONS, "preds": answers, "replies": [f"q{item.id}"]}
        for run, shift in (("run", 0), ("other", rng.random())):
            found = (None, Status.REFUSED) if value == "" else (float(value) + shift, Status.OK)
            judged[run] += [
                score(item, "tit-llm", *found, replies=[item.id]),
                score(item, "yes-no", answers.count("yes") / 2, **asked),
            ]
        if extra == "metric" and name != "D":
            judged["run"].append(score(item, "tit", len(items) % 7 / 7))
    replies = [reply(f"{of}{item.id}", "yes", list_cost=0.1 / k) for of in ("", "q") for k, item in enumerate(items, 1)]
    if extra == "generator":
        strangers = [
            Item(f"few-p{k}", f"Scene p{k}", None, "few", f"p{k}", {"kind": f"kind {k % 3}"}) for k in range(3)
        ]
        strangers += [Item(f"apart-{k}", f"Other {k}", None, "apart", f"own{k}", {"kind": "kind 0"}) for k in range(9)]
        items += strangers
        for item in strangers:
            judged["run"] += [score(item, "tit-llm", 99.0 - len(item.id) % 5), score(item, "yes-no", 1.0)]
    if extra == "prompt":
        items += [Item(f"{name}-new", "Another scene", None, name, "new", {"kind": "kind 0"}) for name in "AB"]
    for run, of_run in judged.items():
        write_run(folder / run, change(items), change(of_run), replies=change(replies))
    write_table(folder / "pairs.csv", ("prompt_id", "image_a", "image_b", "preference"), change(human_pairs()))
    write_table(folder / "human.csv", ("image", "score", "annotator"), change(rated))
    write_table(folder / "marks.csv", ("image", "element", "value"), change(marks))
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


RUNS: dict[str, tuple[str, ...]] = {
    "with people": (
        "judges",
        "agreement",
        "run",
        "--pairs",
        "pairs.csv",
        "--human",
        "human.csv",
        "--by",
        "kind",
        "--strengths",
    ),
    "two, with people": ("judges", "agreement", "run", "other", "--pairs", "pairs.csv", "--human", "human.csv"),
    "one": ("judges", "agreement", "run"),
    "two": ("judges", "agreement", "run", "other"),
    "few pairs": ("judges", "people", "run", "--pairs", "pairs.csv", "--metric", "tit-llm"),
    "generators": ("compare", "generators", "run", "other", "--metric", "tit-llm", "--by", "kind"),
    "elements": ("judges", "elements", "run", "--human", "marks.csv"),
    "costs": ("judges", "costs", "run", "other"),
}


CHANGES: dict[str, dict[str, Any]] = {
    "rows": {"change": shuffled},
    "rows backwards": {"change": backwards},
    "generators": {"names": NAMES},
    "prompts": {"prompts": PROMPTS},
}
EXTRA: dict[str, dict[str, Any]] = {extra: {"extra": extra} for extra in ("metric", "prompt", "generator")}
Studied = Callable[..., Any]


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Studied:
    """The answers of a command over the runs, as they are or after a change; each is computed once."""

    @functools.cache
    def folder(change: str) -> Path:
        return study(tmp_path_factory.mktemp("study"), **{"": {}, **CHANGES, **EXTRA}[change])

    return functools.cache(lambda command, change="": answer(folder(change), *RUNS[command]))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("command", RUNS)
def test_rows_and_names_of_runs_change_nothing(command: str, change: str, studied: Studied) -> None:
    names = {
        new: old for renamed in CHANGES[change].values() if isinstance(renamed, dict) for old, new in renamed.items()
    }
    before, after = studied(command), studied(command, change)
    assert known(after, names) == known(before, {})
    assert list(after) == list(before)


COUNTS = set("coverage images missing declared populations common p_adjusted p_bh left".split())
STRANGERS = {"tit", "few", "apart"}


def is_strange(name: Any) -> bool:
    parts = {name.partition(" (")[0], name.rpartition(" ")[2], name.partition("/")[0]} if isinstance(name, str) else ()
    return not STRANGERS.isdisjoint(parts)


def of_the_others(found: dict[str, Any]) -> Any:
    """What an answer says of all but the strangers, without counts over all, adjustments and means over all images."""
    kept = without(found, COUNTS, is_strange)
    for metric in kept.get("metrics", {}).values():
        if isinstance(metric, dict):
            metric.update(mean=None, scored=None)
    return kept


@pytest.mark.parametrize("extra", EXTRA)
@pytest.mark.parametrize("command", RUNS)
def test_an_unrelated_metric_prompt_or_generator_changes_no_answer(command: str, extra: str, studied: Studied) -> None:
    if (command, extra) == ("few pairs", "prompt"):
        pytest.skip("all pairs of the judge are the population of `judges people`: a prompt more is another population")
    before, after = (of_the_others(found) for found in (studied(command), studied(command, extra)))
    assert known(after, {}) == known(before, {})


def rating(seen: Seen) -> str:
    """Few different scores, and an answer that holds none for one image of seven."""
    number = int(seen.images[0][:8], 16)
    return json.dumps({"reason": "grey", "score": 25 * (number % 4)}) if number % 7 else "I cannot say."


def judged(folder: Path, out: str, **settings: Any) -> Path:
    given = {"data": folder / "data", "metrics": ["lmm-score"], "captioner": "openai/gpt-4o", "judge": "openai/gpt-4o",
             "cache": folder / "cache", "prices": {"gpt-4o": {"input": 1, "output": 1}}, "report": False}  # fmt: skip
    return Session(load_config(None, {**given, "out": folder / out, **settings})).run().folder


def test_data_in_another_order_or_in_shards_are_judged_alike(
    tmp_path: Path, serve_openai: Callable[..., Server]
) -> None:
    compared_images(tmp_path / "data", 36, 6, preferences="aab")
    server = serve_openai(rating)
    runs = [judged(tmp_path, "whole")]
    for file in (tmp_path / "data").glob("*.jsonl"):
        write_lines(file, *shuffled(read_lines(file)))
    runs += [judged(tmp_path, "shuffled")]
    shards = [judged(tmp_path, f"shard{k}", shard=f"{k}/2") for k in (1, 2)]
    runs += [merge(shards, tmp_path / "merged", report=False).folder]
    assert server.count() < 2 * 36  # unreadable answers are repaired once
    results = [json.loads((run / "results.json").read_text(encoding="utf-8")) for run in runs]
    assert results[0]["verdict"]["generators"]["won"]
    for found in results[1:]:
        for part in (
            "metrics",
            "leaderboard",
            "leaderboard_srcc",
            "tables",
            "verdict",
            "warnings",
            "notes",
            "questions",
        ):
            assert known(found[part], {}) == known(results[0][part], {}), part
    for command in (("judges", "agreement", "--strengths"), ("compare", "generators")):
        rows = [without(answer(tmp_path, *command, run.name), {"spent"}) for run in runs]
        assert known(rows[1], {}) == known(rows[0], {}) == known(rows[2], {})
    reports = [report_lines(tmp_path, run) for run in runs]
    assert reports[1] == reports[0] == reports[2]
    assert len(reports[0]) > 30


def report_lines(folder: Path, run: Path) -> list[str]:
    """The lines of a report that do not state what it cost."""
    cli(folder, "report", run.name, "--format", "markdown", "--out", "report.md")
    text = (folder / "report.md").read_text(encoding="utf-8").replace(run.name, "RUN")
    return sorted(line for line in text.splitlines() if "spent" not in line)


def sweep_file(folder: Path, metrics: Iterable[str] = ()) -> Path:
    """Two judges of one captioner, as JSON, which is YAML."""
    settings = {"data": str(folder / "data"), "captioner": "openai/gpt-4o", "judges": ["openai/gpt-4o", "openai/gpt-4.1"],
                "metrics": ["tit-llm", *metrics], "prices": {name: {"input": 1, "output": 1} for name in ("gpt-4o", "gpt-4.1")},
                "cache": str(folder / "cache"), "out": str(folder / "out"), "report": False}  # fmt: skip
    (folder / "sweep.yaml").write_text(json.dumps(settings))
    return folder / "sweep.yaml"


def judging(seen: Seen) -> str:
    """Describe an image by its number, and give it a score that depends on the model."""
    if seen.images:
        return f"It shows the number <{int(seen.images[0][:8], 16) % 90}>."
    number = re.search(r"the number <(\d+)>", seen.text)
    assert number is not None
    return verdict(int(number[1]) if seen.model == "gpt-4.1" else 90 - int(number[1]) % 40)


def changed_data(folder: Path, change: str) -> Names:
    """Permute the rows of a data folder, rename generators, relabel prompts, or add a generator with a prompt of its own."""
    renamed = {
        "generators": {f"g{k}": f"{9 - k} é" for k in range(3)},
        "prompts": {f"p{k}": f"q{9 - k}" for k in range(6)},
    }
    names = renamed.get(change, {})
    for file in folder.glob("*.jsonl"):
        lines = [{key: names.get(value, value) for key, value in line.items()} for line in read_lines(file)]
        write_lines(file, *(shuffled(lines) if change == "rows" else lines))
    if change == "stranger":
        png(folder / "few.png", (1, 2, 3), 32)
        for file, line in (
            ("images", {"image": "few.png", "prompt_id": "own", "generator": "few"}),
            ("prompts", {"prompt_id": "own", "prompt": "Else."}),
        ):
            write_lines(folder / f"{file}.jsonl", *read_lines(folder / f"{file}.jsonl"), line)
    return {new: old for old, new in names.items()}


LEFT = set(
    "seconds_per_1000 list_cost_per_1000 out folder seconds spent list_cost price coverage images items scored answers run requests tokens".split()
)


@pytest.mark.parametrize("change", ["rows", "generators", "prompts", "stranger", "metric"])
def test_sweeps_and_reports_depend_on_no_rows_names_or_strangers(
    change: str, tmp_path: Path, serve_openai: Callable[..., Server]
) -> None:
    serve_openai(judging)
    answers = []
    for number, changed in enumerate(("", change)):
        (folder := tmp_path / str(number)).mkdir()
        compared_images(folder / "data", 36, 6, preferences="aab")
        names = dict(changed_data(folder / "data", changed))
        more = ["tit"] if changed == "metric" else []
        cli(folder, "sweep", str(sweep_file(folder, more)), "--json", "sweep.json", OPENAI_API_KEY="sk-test-0123456789")
        cli(folder, "report", "out/02-gpt-4.1", "--format", "markdown", "--out", "report.md")
        found = json.loads((folder / "sweep.json").read_text(encoding="utf-8"))
        printed = (folder / "report.md").read_text(encoding="utf-8").replace(str(folder), "")
        for new, old in names.items():
            printed = printed.replace(new, old)
        lines = [] if change in ("stranger", "metric") else sorted(printed.splitlines())
        left = LEFT | FAMILY | {"declared", "below_best"} if change == "metric" else LEFT
        answers.append([known(without(found, left, is_strange), names), lines])
    assert answers[1] == answers[0]


def test_equal_generators_have_one_p_whichever_is_named_first(tmp_path: Path) -> None:
    rows = [*scores(), *((prompt, "C's twin", *rest) for prompt, name, *rest in scores() if name == "C")]
    answers = []
    for change in (list, shuffled):
        table = write_table(tmp_path / "scores.csv", HEAD, change(rows))
        found = answer(tmp_path, "compare", "generators", table, "--baseline", "A")["pairs"]
        answers.append({pair["a"]: {key: each for key, each in pair.items() if key != "a"} for pair in found})
    assert known(answers[0], {}) == known(answers[1], {})
    assert answers[0]["C"] == answers[0]["C's twin"]


def test_a_published_table_gets_the_same_rows_from_a_run_in_another_order(tmp_path: Path) -> None:
    generators = [(f"mine {k}", 60.0 + k // 2) for k in range(6)]
    items = [Item(f"{name}/{k}", "一张木桌", None, name, str(k)) for name, _ in generators for k in range(20)]
    values = [score(item, "checklist", None if k % 9 == 0 else 60.0) for k, item in enumerate(items)]
    found = []
    for name, change in (("first", list), ("again", shuffled)):
        table = {
            "id": "qwen_image_bench",
            "title": "t",
            "columns": ["generator", "Overall"],
            "rows": change(generators),
        }
        run = write_run(tmp_path / name, change(items), change(values), results={"tables": [table]},
                        suite={"name": "qwen-image-bench", "version": "1"}, protocol="official",
                        metrics={"checklist": {"version": "1", "range": [0, 100]}})  # fmt: skip
        found.append([table.rows for table in standings(run, published("qwen-image-bench"))])
    assert found[0] == found[1]


SAYINGS = [
    *(
        "A red cube stands on a wooden table.",
        "A red cube is standing on a wooden table.",
        "A harbour with three boats.",
    ),
    *("A red cube stands on a table made of wood.", "A green bicycle leans on the wall.", "A red cube.", "A red cube."),
]


@pytest.mark.parametrize("change", [{"change": shuffled}, {"change": backwards}, {"prompts": PROMPTS}],
                         ids=["rows", "rows backwards", "prompts"])  # fmt: skip
def test_an_audit_of_prompts_depends_on_no_rows_or_names(change: dict[str, Any], tmp_path: Path) -> None:
    answers = []
    for settings in ({}, change):
        names = settings.get("prompts", SAME)
        rows = [(names.get(f"p{k}", f"p{k}"), text, f"kind {k % 2}") for k, text in enumerate(SAYINGS)]
        write_table(tmp_path / "prompts.csv", ("prompt_id", "prompt", "type"), settings.get("change", list)(rows))
        cli(tmp_path, "prompts", "audit", "prompts.csv", "--against", "prompts.csv", "--json", "out.json")
        found = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
        back = {new: old for old, new in names.items()}
        alike = [[sorted(back.get(name, name) for name in each["prompts"]), each["cosine"]] for each in found["alike"]]
        leaks = {back.get(leak["prompt"], leak["prompt"]) for leak in found["leaks"]}
        answers.append(json.dumps([without(found, {"alike", "leaks"}), alike, sorted(leaks)]))
    assert answers[1] == answers[0]
    assert '[["p0", "p1", "p3"], 0.9' in answers[0]


@pytest.mark.parametrize("change", [shuffled, backwards])
def test_missing_images_are_listed_in_one_order(change: Change, tmp_path: Path) -> None:
    data = compared_images(tmp_path / "data", 24, 6)
    (data / "3.png").write_text("no image")
    for name in ("4.png", "7.png", "20.png"):
        (data / name).unlink()
    told = []
    for order in (list, change):
        for file in data.glob("*.jsonl"):
            write_lines(file, *order(read_lines(file)))
        told.append(cli(tmp_path, "prompts", "coverage", "--data", "data", "--json", "-", code=1))
    assert told[1] == told[0]


ODD = {"A": "A1\nA2", "B": "B1\tB2\vB3", "C": "C1\u202eC2\u2028C3 <b>[red]|x_y$`", "D": f"D1\x1b[31m{'D' * 300}D2"}
UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.mark.parametrize("command", ["with people", "two", "few pairs"])
def test_names_break_no_line(command: str, tmp_path: Path) -> None:
    told = [
        cli(study(tmp_path / str(len(names)), names=names), *RUNS[command], COLUMNS="9999") for names in (SAME, ODD)
    ]
    assert_same_lines(*told)


def test_names_break_no_line_of_a_file(tmp_path: Path) -> None:
    told = []
    for names in (SAME, ODD):
        rows = [(prompt, names.get(name, name), *rest) for prompt, name, *rest in scores()]
        write_table(tmp_path / "scores.csv", HEAD, rows)
        given = (*TABLES["gate"]("A", names.get("B", "B")), "scores.csv", "--out")
        told.append(cli(tmp_path, *given, "o.md", COLUMNS="9999"))
        cli(tmp_path, *given, "o.csv")
        cli(tmp_path, *given, "o.tex")
        told[-1] += (tmp_path / "o.md").read_text(encoding="utf-8") + (tmp_path / "o.tex").read_text(encoding="utf-8")
        with (tmp_path / "o.csv").open(newline="", encoding="utf-8") as file:
            listed = [*csv.DictReader(file)]
        assert {row["generator"] for row in listed} >= {names.get(name, name) for name in "ABCD"}
        assert not any("\n" in row["excluded"] for row in listed[:4])
    assert_same_lines(*told)


def assert_same_lines(usual: str, odd: str) -> None:
    assert not UNSEEN.search(odd)
    assert odd.count("\n") == usual.count("\n")
    assert all(("A1" in line) == ("A2" in line) for line in odd.splitlines())


MODELS = {"A": "z9, large", "B": "a0", "C": "Ä"}


def qwen_responses(
    folder: Path, names: Names = SAME, change: Change = list, strangers: bool = False
) -> tuple[str, ...]:
    """Answers of three models, one of them incomplete, to three prompts of Qwen-Image-Bench; some cannot be read."""
    rng = random.Random(8)
    rows = []
    for model, number in itertools.product("ABC", range(3)):
        marks = {"Detail": {"Noise": {"score": rng.choice([0, 1, 2, "N/A"])}}}
        said = "no" if rng.random() < 0.2 else json.dumps(marks)
        name = names.get(model, model)
        row = {"ID": number, "model": name, "dim": "Quality", "response": said}
        rows += [row | {"case": f"{name}/{number}"}] if (model, number) != ("C", 1) else []
    if strangers:
        rows += [{"case": "few/0", "ID": 0, "model": "few", "dim": "Quality", "response": "no"}]
    write_lines(folder / "r.jsonl", *change(rows))
    write_lines(folder / "m.jsonl", *({"ID": k, "dims_en": "Quality / Detail / Noise"} for k in range(3)))
    return ("qwen-image-bench", "r.jsonl", "m.jsonl")


def geneval_results(
    folder: Path, names: Names = SAME, change: Change = list, strangers: bool = False
) -> tuple[str, ...]:
    """Results of two models in the tasks of GenEval."""
    rng = random.Random(9)
    files = []
    for model in ("A", "B", *(["few"] if strangers else [])):
        rows = [{"filename": f"{k}.png", "tag": tag, "prompt": tag, "correct": rng.random() < 0.6, "reason": "",
                 "metadata": json.dumps({"tag": tag, "prompt": f"{tag} {k}"})}
                for tag in ("single_object", "colors", "counting") for k in range(4)]  # fmt: skip
        write_lines(folder / f"{names.get(model, model)}.jsonl", *change(rows))
        files.append(f"{names.get(model, model)}.jsonl")
    return ("geneval", *files)


def tiif_answers(folder: Path, names: Names = SAME, change: Change = list, strangers: bool = False) -> tuple[str, ...]:
    """Answers about images of two models, one of them incomplete, in two types of TIIF-Bench."""
    rng = random.Random(10)
    files = []
    for model, kind, length, index in itertools.product("AB", ("color+3d", "style"), ("short", "long"), range(4)):
        said = [rng.choice(["yes", "no"]) for _ in QUESTIONS]
        row = {"attribute": kind, "desc": f"{length}_description", "jsonl_file": "f", "line_idx": index, "questions": QUESTIONS,
               "gt_answers": ["yes", "yes"], "model_pred": said, "model_output": "\n".join(said)}  # fmt: skip
        files += [(names.get(model, model), kind, length, index, row)] if (model, index) != ("B", 3) else []
        files += [("few", kind, length, 9, row | {"line_idx": 9})] if strangers and index == 0 else []
    for model, kind, length, index, row in change(files):
        place = folder / "answers" / model / kind / length
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{index}.json").write_text(json.dumps(row))
    return ("tiif", "answers")


def longt2i_generations(
    folder: Path, names: Names = SAME, change: Change = list, strangers: bool = False
) -> tuple[str, ...]:
    """Answers about images of LongT2IBench, one of which cannot be read; there are no generators."""
    rng = random.Random(11)
    rows, split = [], []
    for k in range(8):
        image = f"{names.get('A', 'A')}/{k}.png"
        people, told = ({"cat": rng.randint(0, 1), "mat": rng.randint(0, 1), "red, old hat": 1} for _ in range(2))
        structures = [{"entity_scores": each, "attribute_scores": {}, "relation_scores": []} for each in (people, told)]
        prompt = " ".join(["word"] * (20 + 15 * k))
        split.append({"en_prompt_text": prompt, "img_path": image, "Align ratio": round(rng.random(), 2),
                      "en_structured_data": structures[0]})  # fmt: skip
        said = "no" if k == 5 else target_text(read_annotation(structures[1])[0])
        rows.append({"id": k, "image_path": f"data/{image}", "input_text": prompt, "generated_text": said,
                     "ground_truth_score": split[-1]["Align ratio"], "success": True, "retries": 0})  # fmt: skip
    (folder / "g.json").write_text(json.dumps({"config": {}, "summary": {}, "results": change(rows)}))
    (folder / "s.json").write_text(json.dumps(split))
    return ("longt2ibench", "g.json", "s.json")


@pytest.mark.parametrize(
    "change",
    [{"change": shuffled}, {"change": backwards}, {"names": MODELS}, {"strangers": True}],
    ids=["rows", "rows backwards", "generators", "strangers"],
)
@pytest.mark.parametrize("files", [qwen_responses, geneval_results, tiif_answers, longt2i_generations])
def test_official_tables_depend_on_no_rows_names_or_strangers(
    files: Callable[..., tuple[str, ...]], change: dict[str, Any], tmp_path: Path
) -> None:
    answers = []
    for number, settings in enumerate(({}, change)):
        (folder := tmp_path / str(number)).mkdir()
        found = answer(folder, "suites", "aggregate", *files(folder, **settings))
        back = {new: old for old, new in settings.get("names", {}).items()}
        back |= {f"{new}/{k}": f"{old}/{k}" for new, old in back.items() for k in range(3)}
        if "problems" in found and back:
            found["problems"].sort(key=lambda problem: renamed_back(problem["name"], back))
        answers.append(known(without(found, (), is_strange), back))
    assert answers[1] == answers[0]
