"""Which scores a merge takes, against the rule in a few plain lines, over parts with repeated, failed and unknown items."""

import random
from pathlib import Path
from typing import Any

import orjson

from titjudge.core.run_records import Manifest
from titjudge.runs.check.merge import MergedItems, MergedScores, ShardRun
from titjudge.runs.folder.run_folder import RunFolder

METRICS = ("tit-llm", "lmm-score")


def part(folder: Path, items: list[str], scores: list[dict[str, Any]]) -> ShardRun:
    folder.mkdir()
    listed = [{"id": id, "prompt": id, "image": None, "generator": "", "prompt_id": id, "meta": {}} for id in items]
    for name, records in (("items", listed), ("scores", scores)):
        (folder / f"{name}.jsonl").write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    return ShardRun(RunFolder(folder), Manifest())


def score(draw: random.Random, number: int) -> dict[str, Any]:
    value = draw.choice([None, float(number)])
    return {
        "item": f"i{draw.randrange(9)}", "metric": draw.choice(METRICS), "value": value,
        "status": "failed" if value is None else "ok", "reason": str(number), "parts": {}, "replies": [],
        "generator": "", "prompt_id": "",
    }  # fmt: skip


def chosen(parts: list[list[dict[str, Any]]]) -> dict[tuple[str, str], dict[str, Any]]:
    """The newest score with a value, else the newest; of one part its last line."""
    scores: dict[tuple[str, str], dict[str, Any]] = {}
    for records in parts:
        for key, record in {(record["item"], record["metric"]): record for record in records}.items():
            if record["value"] is not None or key not in scores or scores[key]["value"] is None:
                scores[key] = record
    return scores


def test_a_merge_takes_the_newest_value_of_each_item_in_the_order_of_the_data(tmp_path: Path) -> None:
    draw = random.Random(0)
    for trial in range(40):
        listed = [[f"i{k}" for k in draw.sample(range(8), draw.randrange(9))] for _ in range(3)]
        records = [[score(draw, number) for number in range(draw.randrange(30))] for _ in range(3)]
        parts = [part(tmp_path / f"{trial}-{k}", *each) for k, each in enumerate(zip(listed, records, strict=True))]
        items = MergedItems(parts)
        merged = MergedScores(parts, items, {})
        expected = chosen(records)
        ids = [item["id"] for item in items]
        assert sorted(ids) == sorted({id for of_part in listed for id in of_part})
        place = {id: number for number, id in enumerate(ids)}
        in_order = sorted(expected.values(), key=lambda record: place.get(record["item"], len(place)))
        assert list(merged) == in_order
        scored, failed, done = merged.count(METRICS)
        assert (scored + failed, scored) == (len(expected), sum(r["value"] is not None for r in expected.values()))
        assert done == sum(all((id, name) in expected for name in METRICS) for id in ids)
