"""The ledger of an open run folder is summed up again after each new line, and at each call without the lock."""

import json
from pathlib import Path

from titjudge.core.config import RunConfig
from titjudge.core.serialization import with_checksum
from titjudge.runs.folder.run_folder import RunFolder

SENT = {"id": "1", "role": "judge", "worst": 3.0, "tokens": 30}
BILL = {"id": "1", "role": "judge", "cost": 2.0, "uncertain": 0.0, "tokens": 20}


def counted(folder: RunFolder) -> tuple[float, float, int]:
    money = folder.money()
    return money.spent, money.uncertain, money.requests


def test_every_line_counts_at_once(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.open(RunConfig())
    assert counted(folder) == counted(folder) == (0.0, 0.0, 0)
    folder.journal("sent", SENT)
    assert counted(folder) == (0.0, 3.0, 1)
    folder.journal("bill", BILL)
    assert counted(folder) == counted(folder) == (2.0, 0.0, 1)
    assert folder.money() is folder.money()
    folder.close()
    other = RunFolder(tmp_path)
    other.open(RunConfig())
    other.journal("bill", BILL | {"id": "2", "cost": 5.0})
    other.close()
    folder.open(RunConfig())
    assert counted(folder) == counted(other) == (7.0, 0.0, 2)
    folder.close()


def test_lines_of_others_count_without_the_lock(tmp_path: Path) -> None:
    writer, reader = RunFolder(tmp_path), RunFolder(tmp_path)
    writer.open(RunConfig())
    assert counted(reader) == (0.0, 0.0, 0)
    writer.journal("sent", SENT)
    assert counted(reader) == (0.0, 3.0, 1)
    with (tmp_path / "billing.jsonl").open("a") as ledger:
        ledger.write(json.dumps(with_checksum(BILL)) + "\n")
    assert counted(reader) == (2.0, 0.0, 1)
    writer.close()
