"""What is known of each metric on the bundled known answers, as a Markdown table: `python docs/trust_table.py`.

Every figure comes from a run that this script makes: `judge` over the example, `probe` for planted errors, and `judge
--dry-run` for the price. Nothing is asked over the network: descriptions and answers are the recorded ones, vectors those
of the embedded model. `--write` puts the table into docs/measurements/judges.md, and part of it into docs/measurements/study.md, between their markers.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PART = re.compile(r"(<!-- measured: python docs/trust_table\.py --write -->\n).*?(<!-- end measured -->)", re.DOTALL)
HOSTED = "openai/gpt-4o"  # whose list price is shown
KINDS = ("missing entity", "wrong attribute", "wrong count", "swapped relation", "misspelt text")
LEVELS = (1, 2, 3)
COLUMNS = (
    "metric", "pairs ordered right [95%]", "verdicts right", *KINDS, "images below the flawless one, of 6: one error / "
    "a third / two thirds wrong", "looks", "USD per 1,000",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A metric as it is run: `planted` when it can answer for prompts that nobody recorded."""

    name: str
    metric: str
    config: str = ""
    planted: bool = False


ROWS = (
    Row("TIT, MiniLM, 512 tokens", "tit", planted=True),
    Row("TIT, MiniLM, 256 tokens", "tit", "embedder: {model: default, options: {max_length: 256}}\n", planted=True),
    Row("TIT-LLM", "tit-llm"),
    Row("LMM score", "lmm-score"),
    Row("yes / no", "yes-no"),
    Row("graph alignment", "graph-alignment"),
    Row("agent", "tit-agent"),
)


def command(*arguments: str) -> int:
    """Run the command line, quietly; its exit code."""
    from titjudge.cli.commands import run_command

    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = run_command("python cli.py", list(arguments))
    if code:
        print(
            f"python cli.py {' '.join(arguments[:4])} ...: exit code {code}\n{said.getvalue()[-400:]}", file=sys.stderr
        )
    return code


def records(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []


def measure(row: Row, work: Path) -> tuple[str, ...] | None:
    """The cells of a row; None where nothing is recorded that would answer it."""
    from titjudge.core.types import Item, Score, Status
    from titjudge.suites.known_answer.suite import KnownAnswer

    folder = work / re.sub(r"\W+", "-", row.name)
    (folder / "config").mkdir(parents=True)
    (folder / "config" / "run.yaml").write_text(row.config, encoding="utf-8")
    common = [
        "--metric",
        row.metric,
        "--config",
        str(folder / "config" / "run.yaml"),
        "--set",
        f"cache={work / 'cache'}",
    ]
    replay = ["--captioner", "recorded", "--judge", "recorded"]
    command("judge", "--suite", "known-answer", *common, *replay, "--no-report", "--out", str(folder / "run"))
    scores = [
        Score(
            each["item"],
            row.metric,
            each["value"],
            Status(each["status"]),
            parts=each["parts"],
            prompt_id=each["prompt_id"],
        )
        for each in records(folder / "run" / "scores.jsonl")
    ]
    if not any(score.value is not None for score in scores):
        return None
    example = ROOT / "examples" / "known_answer"
    items = {item.id: item for item in KnownAnswer().load(example) if isinstance(item, Item)}
    values = adherence(items, scores)
    found = planted(row, folder, common) if row.planted else elements(items, scores)
    return (
        row.name,
        pairs(values, KnownAnswer().pairs(example)),
        verdicts(items, scores),
        *(found.get(kind, "-") for kind in KINDS),
        " / ".join(below(items, values, level) for level in LEVELS),
        looks(folder / "run", len(scores)),
        price(row, folder, common),
    )


def adherence(items: dict[str, Any], scores: Sequence[Any]) -> dict[str, float]:
    from titjudge.suites.known_answer.tables import adherence

    both = {score.item_id: adherence(items[score.item_id], score) for score in scores}
    return {name: value for name, value in both.items() if value is not None}


def right(better: float, worse: float) -> float:
    from titjudge.stats.equality import same

    return 0.5 if same(better, worse) else float(better > worse)


def pairs(values: dict[str, float], known: Sequence[Any]) -> str:
    """The share of known pairs in the right order, with the interval of the trust card."""
    from titjudge.probes.trust_card import line

    rows = []
    for pair in known:
        if pair.preference != "tie" and pair.a in values and pair.b in values:
            best, worst = (pair.a, pair.b) if pair.preference == "a" else (pair.b, pair.a)
            rows.append((pair.prompt_id, right(values[best], values[worst])))
    found = line("sees", "pairs", rows, rule="at least", limit=0.7, bounds=(0, 1))
    if found.effect is None or found.interval is None:
        return "-"
    low, high = found.interval
    return f"{percent(found.effect)} [{percent(low)}, {percent(high)}]"


def percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def share_of(hits: Iterable[float]) -> str:
    """`31 of 32`, halves rounded down."""
    listed = list(hits)
    return f"{int(sum(listed))} of {len(listed)}" if listed else "-"


def verdicts(items: dict[str, Any], scores: Sequence[Any]) -> str:
    """Answers to the questions, or verdicts on the elements, that agree with the truth of the image."""
    hits = [
        float(gold == said)
        for score in scores
        for gold, said in zip(items[score.item_id].meta["gold_answers"], score.parts.get("preds") or (), strict=False)
    ]
    return share_of([*hits, *(float(truth == said) for _, truth, said in marks(items, scores))])


def marks(items: dict[str, Any], scores: Sequence[Any]) -> list[tuple[str, bool, bool]]:
    """(kind of error, truth, verdict) of every element; kind is empty where a missing entity decides."""
    found = []
    for score in scores:
        meta, given = items[score.item_id].meta, score.parts.get("alignment")
        if not isinstance(given, dict):
            continue
        there = dict(zip(meta["graph"]["entities"], meta["graph_truth"]["entity"], strict=True))
        for category, key in (("entity", "entities"), ("attribute", "attributes"), ("relation", "relations")):
            truth = dict(zip(map(_element, meta["graph"][key]), meta["graph_truth"][category], strict=True))
            for element, said in given.get(category, ()):
                ends = {"attribute": element[:1], "relation": element[::2]}.get(category, ())
                kind = _kind(category, element) if all(there.get(end) for end in ends) else ""
                if tuple(element) in truth:
                    found.append((kind, truth[tuple(element)], bool(said)))
    return found


def _element(raw: Any) -> tuple[str, ...]:
    return (raw,) if isinstance(raw, str) else tuple(raw)


def _kind(category: str, element: Sequence[str]) -> str:
    if category == "attribute":
        name = element[1].partition(":")[0]
        return "wrong count" if "count" in name else "misspelt text" if name == "text" else "wrong attribute"
    return {"entity": "missing entity", "relation": "swapped relation"}[category]


def elements(items: dict[str, Any], scores: Sequence[Any]) -> dict[str, str]:
    """By kind: the wrong elements of the images that were marked as wrong."""
    found = marks(items, scores)
    by_kind = {kind: [float(not said) for each, truth, said in found if each == kind and not truth] for kind in KINDS}
    return {kind: share_of(hits) for kind, hits in by_kind.items() if hits}


def planted(row: Row, folder: Path, common: Sequence[str]) -> dict[str, str]:
    """By kind: the errors planted in prompts that lowered the score (ties half)."""
    command("probe", *common, "--captioner", "recorded", "--out", str(folder / "probe"))
    values = {each["item"]: each["value"] for each in records(folder / "probe" / "scores.jsonl")}
    card = json.loads((folder / "probe" / "card.json").read_text(encoding="utf-8"))
    said = {line["name"]: {"pass": " ✓", "caught": " ✗"}.get(line["verdict"], "") for line in card["lines"]}
    found = {}
    for kind in KINDS:
        single = re.compile(rf"(.+)#{kind} \d+")
        both = [(match[1], value) for name, value in values.items() if (match := single.fullmatch(name))]
        found[kind] = share_of(right(values[f"{item}#as asked"], value) for item, value in both) + said.get(kind, "")
    return found


def below(items: dict[str, Any], values: dict[str, float], level: int) -> str:
    best = {item.prompt_id: values[name] for name, item in items.items() if item.meta["level"] == 0 and name in values}
    hits = [
        values[name] < best[item.prompt_id]
        for name, item in items.items()
        if item.meta["level"] == level and name in values and item.prompt_id in best
    ]
    return str(sum(hits)) if hits else "-"


def looks(run: Path, images: int) -> str:
    """Requests with a picture for each image."""
    asked = {each["key"]: each for each in records(run / "replies.jsonl")}
    sent = [any(isinstance(part, dict) for turn in each["messages"] for part in turn[1:]) for each in asked.values()]
    return f"{sum(sent) / images:.1f}"


def price(row: Row, folder: Path, common: Sequence[str]) -> str:
    """The list price of 1,000 images when a hosted model does what was recorded."""
    plan = folder / "plan.json"
    models = ["--captioner", HOSTED, "--judge", HOSTED]
    if command("judge", "--suite", "known-answer", *common, *models, "--dry-run", "--json", str(plan)):
        return "-"
    found = json.loads(plan.read_text(encoding="utf-8"))
    return f"{found['list_cost'][1] / found['items'] * 1000:.2f}"


def table(rows: Sequence[tuple[str, ...]], missing: Sequence[str]) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    notes = [
        "6 prompts, 24 images and 36 pairs of simple rendered scenes, all easy for the vision-language model whose"
        " descriptions and answers were recorded, once, without sight of the annotation (examples/known_answer/README.md says"
        " how, and how far that goes): what fails here is weak, what is perfect here may still"
        " fail on real images, and nothing here tells the perfect rows apart. Intervals are over 6 prompts.",
        "Errors of TIT: planted in the prompt, one at a time, those that lower the score (a coin: half of them); ✓ and ✗ are the"
        " verdicts of its trust card, which weighs by how much. Errors of graph alignment: wrong elements of the images"
        " that were marked as wrong (text: another word, not a misspelt one). The others have no recorded answer to a"
        " changed prompt.",
        f"Looks: requests that show an image, for each image. Price: list price of {HOSTED} in the places of the recorded model,"
        " as `--dry-run` expects it; nothing was paid here.",
    ]
    notes += [f"Not recorded: {', '.join(missing)}."] if missing else []
    text = "\n".join([line(COLUMNS), line(["---"] * len(COLUMNS)), *map(line, rows)])
    return "\n\n".join([text, *notes, "Made by `python docs/trust_table.py`."])


def short(rows: Sequence[tuple[str, ...]]) -> str:
    """Give what the study has of the table: agreement with the truth, looks and price."""
    chosen = (0, 1, len(COLUMNS) - 2, len(COLUMNS) - 1)
    lines = [[row[at] for at in chosen] for row in (COLUMNS, tuple(["---"] * len(COLUMNS)), *rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main() -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory() as work:
        found = {row.name: measure(row, Path(work)) for row in ROWS}
    rows = [cells for cells in found.values() if cells]
    text = table(rows, [name for name, cells in found.items() if not cells])
    print(text)
    if "--write" in sys.argv:
        for name, part in (("judges.md", text), ("study.md", short(rows))):
            page = ROOT / "docs" / "measurements" / name
            old = page.read_text(encoding="utf-8")
            if not PART.search(old):
                sys.exit(f"docs/measurements/{name} has no markers for this table")
            new = PART.sub(lambda match, part=part: f"{match[1]}\n{part}\n\n{match[2]}", old)
            page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
