import subprocess
import sys
from pathlib import Path

from commands import HEAVY
from PIL import Image

import titjudge

ROOT = Path(__file__).resolve().parents[3]


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_import_titjudge_is_light() -> None:
    assert (
        run(f"import titjudge, sys; print([m for m in {(*HEAVY, 'logging', 'asyncio')!r} if m in sys.modules])").strip()
        == "[]"
    )


def test_a_run_without_pairs_imports_no_statistics_and_no_model(tmp_path: Path) -> None:
    """Each of these takes longer to import than such a run lasts."""
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    (tmp_path / "a.txt").write_text("a cat")
    given = ["judge", "--data", str(tmp_path), "--captioner", "fake/x", "--judge", "fake/x", "--metric", "tit-llm"]
    slow = ["scipy.stats", "torch", "pandas", "matplotlib", "litellm", "openai", "transformers"]
    code = f"""
import sys
from titjudge.cli.commands import run_command
assert run_command("titjudge", {[*given, "--out", str(tmp_path / "run")]!r}) == 0
print([name for name in {slow!r} if name in sys.modules])
"""
    assert run(code).splitlines()[-1] == "[]"


def test_the_public_names() -> None:
    assert sorted(titjudge.__all__) == [
        "Capabilities", "Embedding", "Failure", "FailureKind", "Item", "Judge", "Message", "Metric", "Pair", "Provider",
        "ProviderSettings", "Reply", "Request", "Score", "Status", "TitjudgeError", "Tool", "Unanswered", "Usage",
        "UserError", "__version__", "frame", "metric", "task",
    ]  # fmt: skip
    for name in titjudge.__all__:
        assert getattr(titjudge, name) is not None


def test_run_as_a_folder_the_torch_of_others_is_found() -> None:
    """`python titjudge` makes Python look in that folder first, where a module is named torch."""
    ask = "import importlib.util; print(importlib.util.find_spec('torch').origin)\n"
    command = [sys.executable, "-i", str(ROOT / "titjudge"), "--version"]
    done = subprocess.run(command, input=ask, cwd=ROOT.parent, capture_output=True, text=True, timeout=120)
    assert "torch" in done.stdout, done.stderr
    assert str(ROOT / "titjudge" / "torch.py") not in done.stdout
