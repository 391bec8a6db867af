"""One cap over several run folders: what may have been billed counts, nothing is given twice, and little is left over."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from titjudge.apps.ray.cluster import Cluster, _Shard
from titjudge.core.config import load_config
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.study.sweep import Sweep


def book(folder: Path, *lines: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "billing.jsonl").open("ab") as file:
        file.writelines(orjson.dumps(line) + b"\n" for line in lines)


def bill(cost: float, tokens: int = 0, **more: Any) -> dict[str, Any]:
    return {"id": "", "role": "judge", "cost": cost, "tokens": tokens, "uncertain": 0.0, **more}


def sent(cost: float, tokens: int = 0) -> dict[str, Any]:
    return {"id": f"x-{cost}", "role": "judge", "worst": cost, "tokens": tokens}


def test_a_sweep_counts_what_its_other_runs_may_have_been_billed(tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(
        f"data: {tmp_path}\njudges: [fake/a, fake/b, fake/c]\nmetrics: [lmm-score]\n"
        "limits: {max_cost: 10, max_requests: 20, max_tokens: 1000}\n"
    )
    sweep = Sweep(file, tmp_path / "out")
    first, second, third = sweep.combinations
    book(sweep.folder / first.folder, bill(1.0, 100), bill(0.0, uncertain=2.0, uncertain_tokens=50))
    book(sweep.folder / second.folder, bill(0.5, 10), sent(3.0, 200))
    limits = sweep._with_rest_of_cap(third).limits
    assert (limits.max_cost, limits.max_requests, limits.max_tokens) == (3.5, 16, 640)
    limits = sweep._with_rest_of_cap(first).limits  # its own session counts what is its own
    assert (limits.max_cost, limits.max_requests, limits.max_tokens) == (6.5, 18, 790)


class Rounds(Cluster):
    """Rounds of shards whose items cost 1 dollar and may cost `worst`; each shard has `items` of them."""

    def __init__(self, cap: float, items: int, worst: float) -> None:
        self.config = load_config(None, {"judge": "fake/m", "limits": {"max_cost": cap}})
        self.items, self.worst, self.rounds = items, worst, 0

    def _judge(self, shards: list[_Shard], limits: Any) -> None:
        self.rounds += 1
        assert self.rounds < 50
        for shard in shards:
            shard.status = "complete"
            while shard.folder.money().requests < self.items:
                if shard.folder.used()["max_cost"] + self.worst > limits[shard.number]["max_cost"] + 1e-9:
                    shard.status = "incomplete: budget"
                    break
                book(shard.path, bill(1.0))


@pytest.mark.parametrize("cap", [3.0, 5.0, 10.0, 17.5])
def test_shards_leave_less_than_one_request_of_the_cap(tmp_path: Path, cap: float) -> None:
    shards = [_Shard(k, 4, tmp_path / str(k)) for k in range(1, 5)]
    for shard in shards:
        shard.path.mkdir()
    book(shards[3].path, bill(0.0, uncertain=0.75))
    Rounds(cap, items=100, worst=2.0)._rounds(shards)
    used = sum(RunFolder(shard.path).used()["max_cost"] for shard in shards)
    assert cap - 2.0 < used <= cap


def test_shards_that_find_room_are_finished(tmp_path: Path) -> None:
    shards = [_Shard(k, 3, tmp_path / str(k)) for k in range(1, 4)]
    for shard in shards:
        shard.path.mkdir()
    Rounds(14.0, items=4, worst=2.0)._rounds(shards)
    assert [shard.status for shard in shards] == ["complete"] * 3
