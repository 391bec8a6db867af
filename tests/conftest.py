"""What every test shares: no network but loopback, no models from a hub, no stray keys or caches."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.update(
    HF_HUB_OFFLINE="1",
    TRANSFORMERS_OFFLINE="1",
    LITELLM_LOCAL_MODEL_COST_MAP="True",
    TOKENIZERS_PARALLELISM="false",
    TQDM_DISABLE="1",
)

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TITJUDGE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def example() -> Path:
    return ROOT / "examples" / "known_answer"


@pytest.fixture
def shared() -> Path:
    """The folder of data that is not ours to copy; tests that need it skip, visibly, where it is not there."""
    if not SHARED.is_dir():
        pytest.skip("the shared data folder is not beside the project")
    return SHARED
