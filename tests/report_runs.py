"""Run folders made by hand, for the tests of the report."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
from builders import png

from titjudge.core.serialization import score_record
from titjudge.core.types import InvalidItem, Item, Score, Status
from titjudge.report.judged_images import Judged
from titjudge.runs.folder.run_folder import RunFolder, listed_record

PROMPT = (
    "A round blue bowl with three bright oranges stands on a wooden table. To its left lie three glossy red apples, "
    "and behind them a white mug. A chalkboard on the brick wall reads FRESH FARM FRUIT in pale capital letters."
)
DESCRIPTION = (
    "A blue bowl with two oranges on a wooden table, with green apples to its left; the wall behind it is empty."
)


def picture(path: Path, colour: tuple[int, int, int] = (180, 90, 40), size: tuple[int, int] = (48, 32)) -> Path:
    """An image of one colour, wider than high; its folder is made."""
    return png(path, colour, size)


def write_run(
    folder: Path,
    items: Sequence[Item | InvalidItem],
    scores: Sequence[Score],
    *,
    replies: Sequence[dict[str, Any]] = (),
    vectors: Sequence[dict[str, Any]] = (),
    results: dict[str, Any] | None = None,
    **manifest: Any,
) -> RunFolder:
    """A run folder with these contents; `manifest` goes on top of a small complete one."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = {
        "items": [listed_record(item) for item in items],
        "scores": [score_record(score) for score in scores],
        "replies": list(replies),
        "vectors": list(vectors),
    }
    for name, records in lines.items():
        (folder / f"{name}.jsonl").write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    base = {
        "schema_version": 1,
        "titjudge": "0.1.0",
        "status": "complete",
        "protocol": "strict",
        "identity": {"suite": "folder", "protocol": "strict", "judge": {"model": "fake/judge"}},
        "metrics": {
            "tit": {"version": "1", "range": [-1, 1], "source": "paper"},
            "tit-llm": {"version": "1", "range": [0, 100], "source": "paper"},
        },
        "prompts": {"tit/describe": "a" * 64},
        "roles": {
            "judge": {
                "model": "fake/judge",
                "base_url": "",
                "answered": [{"version": "judge-1", "endpoint": "loopback", "answers": 4}],
                "asked": 4,
                "cached": 1,
                "errors": 0,
                "unusable": 1,
                "spent": 0.25,
                "tokens": {"input": 100, "output": 20, "thinking": 5},
            }
        },
    }
    (folder / "manifest.json").write_bytes(orjson.dumps(base | manifest))
    if results is not None:
        (folder / "results.json").write_bytes(orjson.dumps(results))
    return RunFolder(folder)


def judged(path: Path) -> Judged:
    """The picture at a path, as a run without answers tells it."""
    size = path.stat().st_size if path.exists() else 0
    return Judged(path, (size, 0))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def key_of(name: str) -> str:
    """The key of an answer that a test calls by a name."""
    return f"reply:{hashlib.sha256(name.encode()).hexdigest()}"


def reply(key: str, text: str, prompt: str = PROMPT, *, image: str = "f" * 64, **changes: Any) -> dict[str, Any]:
    """An answer; `image` is the SHA-256 of the picture it was given."""
    return {
        "key": key_of(key),
        "item": "a.png",
        "role": "judge",
        "template": "tit/compare",
        "provider": "fake",
        "model": "judge",
        "params": {"temperature": 0},
        "sample": 0,
        "attempt": 0,
        "messages": [["user", f"Compare with:\n{prompt}\nThat is all.", {"image": image}]],
        "text": text,
        "status": "ok",
        "reason": "",
        "usage": [10, 5, 0, 0, 0],
        "finish_reason": "stop",
        "model_version": "judge-1",
        "endpoint": "",
        "list_cost": 0.001,
        "seconds": 0.1,
        "flags": [],
        "cached": False,
    } | changes


def score(item: Item, metric: str, value: float | None, status: Status = Status.OK, **more: Any) -> Score:
    replies = more.pop("replies", ())
    reason = more.pop("reason", "")
    return Score(
        item.id, metric, value, status, reason, more, tuple(map(key_of, replies)), item.generator, item.prompt_id
    )


def small_run(folder: Path, *, shift: float = 0.0, **manifest: Any) -> RunFolder:
    """Two prompts, two generators, four images and their two pairs; one refusal, one item that cannot be used."""
    colours = {"a": (200, 80, 40), "b": (40, 90, 200)}
    items = [
        Item(f"{name}{group}.png", f"{PROMPT} Number {group}.", picture(folder / "img" / f"{name}{group}.png", colours[name]),
             f"model_{name}", f"p{group}", {"category": f"kind {group}"})
        for group in (1, 2) for name in ("a", "b")
    ]  # fmt: skip
    scores = []
    for number, item in enumerate(items):
        read = {"prompt_tokens_used": 50, "prompt_tokens": 60, "description_tokens_used": 20, "description_tokens": 30}
        scores.append(
            score(item, "tit", 0.9 - 0.1 * number + shift, **read, description=DESCRIPTION, replies=[f"v{number}"])
        )
    found = {"missing": ["a white mug behind the apples"], "contradicted": ["three glossy red apples"]}
    for number, item in enumerate(items[:3]):
        scores.append(
            score(item, "tit-llm", 80.0 - 10 * number, reason="The apples are green.", description=DESCRIPTION,
                  replies=[f"r{number}"], **found)
        )  # fmt: skip
    scores.append(
        score(items[3], "tit-llm", None, Status.REFUSED, reason="the model declined to answer", replies=["r3"])
    )
    return write_run(
        folder,
        [*items, InvalidItem("../out.png", "the image path leads outside the data folder", "model_a", "p1")],
        scores,
        replies=[
            reply(f"r{n}", '{"score": 80}', items[n].prompt, image=sha256(folder / "img" / items[n].id))
            for n in range(3)
        ]
        + [reply("r3", "", image=sha256(folder / "img" / items[3].id), status="refused", reason="no")],
        vectors=[
            {"key": key_of(f"v{n}"), "text": DESCRIPTION, "vector": "", "tokens_used": 30, "tokens_total": 30}
            for n in range(4)
        ],
        results=small_results(),
        **manifest,
    )


def small_results() -> dict[str, Any]:
    def place(mean: float, rank: int) -> dict[str, Any]:
        return {"mean": mean, "interval": [mean - 0.1, mean + 0.1], "mean_rank": rank, "rank": rank, "coverage": 1.0}

    return {
        "metrics": {
            "tit": {"accuracy": 0.75, "accuracy_interval": [0.5, 1.0], "tie_rate": 0.0, "pairs": 2, "pairs_scored": 2,
                    "srcc": 0.5, "krcc": None, "ndcg": 0.9, "coverage": 0.8, "images": 5, "scored": 4},
            "tit-llm": {"accuracy": 0.5, "accuracy_interval": None, "tie_rate": None, "pairs": 2, "pairs_scored": 1,
                        "srcc": None, "krcc": None, "ndcg": None, "coverage": 0.6, "images": 5, "scored": 3},
        },
        "leaderboard": [
            {"generator": "model_a", "metrics": {"tit": place(0.8, 1), "tit-llm": place(70, 1)}, "human": {"mean_rank": 1.5, "rank": 1}},
            {"generator": "model_b", "metrics": {"tit": place(0.7, 2)}, "human": None},
        ],
        "leaderboard_srcc": {"tit": 1.0, "tit-llm": None},
        "warnings": ["tit read a third of every prompt"],
        "notes": ["Intervals: 95%."],
        "spent": 0.25,
        "list_cost": 0.5,
        "tables": [{"title": "By kind", "columns": ["kind", "score"], "rows": [["kind 1", 0.5], ["kind 2", None]], "notes": []}],
        "pairs": [
            {"prompt_id": "p1", "a": "a1.png", "b": "b1.png", "preference": "b"},
            {"prompt_id": "p2", "a": "a2.png", "b": "b2.png", "preference": "a"},
            {"prompt_id": "p2", "a": "a2.png", "b": "gone.png", "preference": "a"},
        ],
    }  # fmt: skip


AGENT_CLAIMS = (
    ("There is a bowl", "entity", "macro", "A round blue bowl", "met", "E1"),
    ("The bowl holds three oranges", "attribute", "micro", "three bright oranges", "not_met", "E2"),
    ("The apples are red", "attribute", "micro", "three glossy red apples", "met", "E1"),
    ("A chalkboard reads FRESH FARM FRUIT", "text", "macro", "FRESH FARM FRUIT", "cannot_be_seen", "E3"),
    ("The letters are pale", "style", "micro", "pale capital letters", "open", None),
)
AGENT_THINGS = ("bowl", "bowl", "apples", "chalkboard", "")


def agent_parts(prompt: str, changed: dict[int, str] | None = None) -> dict[str, Any]:
    """Parts of a tit-agent score for a prompt that holds `PROMPT`; `changed` gives some claims another verdict."""
    claims = []
    for number, (claim, kind, level, quote, verdict, evidence) in enumerate(AGENT_CLAIMS, 1):
        start = prompt.index(quote)
        claims.append({
            "number": number, "claim": claim, "thing": AGENT_THINGS[number - 1], "kind": kind, "level": level, "weight": 3 if level == "macro" else 1,
            "span": [start, start + len(quote)], "quote": quote, "position": start / len(prompt),
            "verdict": (changed or {}).get(number, verdict), "evidence": evidence,
            "before": [["met", "E1"]] if number == 2 else [],
        })  # fmt: skip
    looks = (
        ("E1", "describe", "", None, DESCRIPTION, ""),
        ("E2", "count", "oranges in the bowl", None, "I see two of them, side by side. Count: 2", ""),
        ("E3", "zoom", "What does the chalkboard say?", [0.5, 0.0, 1.0, 0.45], "The board is empty.", ""),
        ("E4", "read_text", "", None, "", "refused"),
    )
    evidence = [
        {"id": name, "tool": tool, "question": question, "box": box, "text": text, "failed": failed, "cut": name == "E1",
         "settles": not failed, "source": ""}
        for name, tool, question, box, text, failed in looks
    ]  # fmt: skip
    first = [{"claim": n, "verdict": "met", "evidence": "E1"} for n in (1, 2, 3)]
    second = [
        {"claim": 2, "verdict": "not_met", "evidence": "E2"},
        {"claim": 4, "verdict": "cannot_be_seen", "evidence": "E3"},
    ]
    transcript = [
        {"round": 0, "thought": "", "settled": [], "looks": ["E1"], "refused": []},
        {"round": 1, "thought": "The number of oranges is not certain.", "settled": first, "looks": ["E2", "E3", "E4"],
         "refused": ["there is no tool 'x-ray'; there are: describe, ask"]},
        {"round": 2, "thought": "", "settled": second, "looks": [], "refused": []},
    ]  # fmt: skip
    return {
        "claims": claims, "evidence": evidence, "transcript": transcript, "stopped": "no progress",
        "counts": {"looks": 4, "rounds": 2}, "prompt_words": len(prompt.split()),
    }  # fmt: skip


def agent_run(folder: Path, prompts: int = 12, **manifest: Any) -> RunFolder:
    """Images of two generators with claim tables and transcripts; model_b forgets the end of its prompts."""
    items, scores = [], []
    for p in range(prompts):
        for name, colour in (("a", (200, 80, 40)), ("b", (40, 90, 200))):
            prompt = f"\N{BOWL WITH SPOON} Scene {p}. {PROMPT}" + " And there is a quiet street beyond it." * 12 * (
                p % 2
            )
            path = picture(folder / "img" / f"{name}{p}.png", colour, (96, 64))
            items.append(item := Item(f"{name}{p}.png", prompt, path, f"model_{name}", f"p{p}"))
            late = {4: "not_met", 5: "not_met"} if name == "b" else {4: "met", 5: "met"} if p % 3 else {}
            scores.append(
                score(item, "tit-agent", 70.0 if name == "a" else 40.0, reason="3 of 4 claims met; 4 looks",
                      **agent_parts(prompt, late))
            )  # fmt: skip
    about = {"tit-agent": {"version": "1", "range": [0, 100], "source": "titjudge"}}
    return write_run(folder, items, scores, results={}, **({"metrics": about} | manifest))
