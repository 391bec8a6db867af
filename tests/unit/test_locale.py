"""titjudge reads and writes UTF-8 whatever the locale and the time zone of whoever runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from builders import described_images
from commands import cli
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "surroundings",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},  # everything is ASCII
        {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8", "TZ": "Asia/Kolkata"},
    ],
    ids=["ASCII", "Turkish"],
)
def test_a_run_in_foreign_surroundings(tmp_path: Path, surroundings: dict[str, str]) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    rows = [{"image": "a.png", "prompt": "İstanbul'da ışıklı bir café 🟦", "prompt_id": "ş", "generator": "Ğ"}]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHONUTF8"))
    }
    command = ["judge", "--data", "data.jsonl", "--captioner", "fake/x", "--judge", "fake/x", "--metric", "tit-llm"]
    done = subprocess.run(
        [sys.executable, str(ROOT / "cli.py"), *command, "--json", "out.json", "--out", "run"],
        cwd=tmp_path, env=environment | surroundings, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert b"Traceback" not in done.stderr
    found = json.loads((tmp_path / "out.json").read_text("utf-8"))
    assert [row["generator"] for row in found["leaderboard"]] == ["Ğ"]
    assert "ışıklı bir café 🟦" in (tmp_path / "run" / "report.html").read_text("utf-8")


def test_folders_whose_names_are_not_utf8_are_refused_in_a_line_or_used(tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"b\xfccher")
    try:
        described_images(odd, 2)
    except OSError:
        pytest.skip("this file system takes no such names")
    flags = ["judge", "--provider", "fake", "--metric", "self-eval", "--set", "cache=cache"]
    refused = cli(tmp_path, *flags, "--data", str(odd), code=2)
    assert (
        refused.strip()
        .splitlines()[-1]
        .endswith(r"b\xfccher is not UTF-8, so it cannot be written to the manifest. Rename it")
    )
    described_images(tmp_path / "data", 2)
    out = str(tmp_path / os.fsdecode(b"r\xfcn"))
    cli(tmp_path, *flags, "--data", "data", "--out", out)
    cli(tmp_path, "verify", out)
