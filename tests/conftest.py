"""What every test shares: no network but loopback, no models from a hub, no stray keys or caches.

The whole suite runs in one process more than there are processors (at most eight), since tests of servers and of child
processes wait; files named on the command line run in one, where a debugger works and nothing waits for workers. `-n 4`
and `-n 0` say otherwise.

A test that takes more than about three seconds is marked `@pytest.mark.slow`, and so are whole files of many short ones
that take as long together (`pytestmark`), and all of `tests/e2e`; `python -m pytest -m "not slow"` leaves
those out. Most that are slow start a process: `commands.cli` runs a command without one.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import locale
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.kit import Seen, Server

os.environ.update(
    TITJUDGE_TODAY="2026-08-20",  # models retire and prices change: not while tests run
    HF_HUB_OFFLINE="1",
    TRANSFORMERS_OFFLINE="1",
    LITELLM_LOCAL_MODEL_COST_MAP="True",
    TOKENIZERS_PARALLELISM="false",
    TQDM_DISABLE="1",
    PYTHONUTF8="1",  # workers and child processes read files as UTF-8 under every locale; tests/unit/test_locale.py does not
)
if locale.getpreferredencoding(False).lower() not in ("utf-8", "utf8"):  # this process has started without
    with contextlib.suppress(locale.Error):
        locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
# No clock, and nothing written into the checkout. The gate draws the same examples each time, people draw new ones.
settings.register_profile("suite", deadline=None, database=None, derandomize="CI" in os.environ)
settings.load_profile("suite")
for name in [name for name in os.environ if name.endswith("_API_KEY")]:
    del os.environ[name]
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # as in the background of a script: child processes would ignore it, too
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the tests run side by side already
# Rewriting the asserts of 250 files takes a worker as long as a hundred tests, and a child process compiles the package:
# both once, whatever the environment says, into folders that git ignores.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

ROOT = Path(__file__).resolve().parent.parent
NUMBERS = itertools.count()
SHARED = ROOT.parent / "shared"


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """What `-n auto` means: see the module."""
    if any(str(argument).partition("::")[0].endswith(".py") for argument in config.args):
        return 0 if sys.getfilesystemencoding() == "utf-8" else 1  # a worker is started in UTF-8 mode
    usable = getattr(os, "sched_getaffinity", None)
    return min(8, 1 + (len(usable(0)) if usable else os.cpu_count() or 1))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start what takes longest (`@pytest.mark.slow(first=True)`) first, or all workers wait for it in the end.

    Then come the tests that load torch and litellm, side by side: a worker takes its tests from one stretch of the list,
    so that one pays the seconds which these take to import, and the others do not.
    """
    items.sort(key=_place)


LOAD_TORCH = {
    "test_generate_diffusers", "test_hardware", "test_parquet", "test_pipeline", "test_prompt_sets_audit",
    "test_retirements", "test_run_input_languages", "test_torch", "test_training_files",
}  # fmt: skip


def _place(item: pytest.Item) -> int:
    loads = getattr(item, "fixturenames", ()), vars(getattr(item, "module", None) or object)
    if any(mark.kwargs.get("first") for mark in item.iter_markers("slow")):
        return 0
    if "main_job" in loads[0] or "tiny_models" in loads[1] or item.path.stem in LOAD_TORCH:
        return 1
    return 2 if "litellm" in item.nodeid else 3


def pytest_collection_finish() -> None:
    """Spare the garbage collector the 5,000 tests and all modules: looking through them took a tenth of the suite's time."""
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


@pytest.fixture(scope="session")
def main_job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which `judge` was run without arguments, once for all workers: run, cache, out.json, printed.txt."""
    from commands import cli
    from filelock import FileLock  # it hooks into every audit event of Python from then on

    place = tmp_path_factory.getbasetemp()
    place = place.parent if "PYTEST_XDIST_WORKER" in os.environ else place
    folder, printed = place / "main_job", place / "main_job" / "printed.txt"
    with FileLock(place / "main_job.lock"):
        if not printed.is_file():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            printed.write_text(cli(folder, "judge", "--json", "out.json", COLUMNS="80"), encoding="utf-8")
    return folder


@pytest.fixture
def judged(main_job: Path, tmp_path: Path) -> Path:
    """A folder with the example's run as `one`, and the cache of its vectors as `cache`."""
    (run,) = (main_job / "runs").iterdir()
    shutil.copytree(run, tmp_path / "one")
    shutil.copytree(main_job / "cache", tmp_path / "cache")
    return tmp_path


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder; pytest's own fixture lists the folders of all tests before it makes one."""
    path = tmp_path_factory.getbasetemp() / f"{next(NUMBERS)}-{re.sub('[^0-9a-zA-Z]', '_', request.node.name)[:30]}"
    path.mkdir()
    return path


@pytest.fixture(autouse=True)
def _no_keys(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:  # what an earlier test has left
        monkeypatch.delenv(name)
    writes = "tmp_path" in request.fixturenames  # most tests write nothing: a folder for each takes as long as the test
    place = request.getfixturevalue("tmp_path") if writes else tmp_path_factory.getbasetemp() / str(next(NUMBERS))
    monkeypatch.setenv("TITJUDGE_CACHE", str(place / "cache"))


@pytest.fixture(scope="session", autouse=True)
def _once_in_a_process() -> Iterator[None]:
    """Compute what takes long and is the same each time: vectors of the packaged model, and thumbnails of the example.

    The model reads 15 long texts a second, and the 24 images of the example take a second in each report.
    """
    import numpy as np

    from titjudge.providers.local.sentence_transformers import PACKAGED, SentenceTransformers
    from titjudge.report import thumbnails

    vectors: dict[str, Any] = {}
    known = {path.read_bytes() for path in (ROOT / "examples" / "known_answer" / "images").iterdir()}
    made: dict[tuple[bytes, int, int], Any] = {}
    encode, thumbnail = SentenceTransformers._encode, thumbnails.thumbnail

    def encode_once(embedder: SentenceTransformers, model: Any, texts: list[str]) -> Any:
        if embedder.name != f"default/{PACKAGED}" or embedder._options != {"device": "cpu"}:
            return encode(embedder, model, texts)
        if new := [text for text in texts if text not in vectors]:
            vectors.update(zip(new, encode(embedder, model, new), strict=True))
        return np.stack([vectors[text] for text in texts])

    def thumbnail_once(picture: Any, edge: int, quality: int) -> Any:
        raw = picture.path.read_bytes() if picture.path.is_file() else b""
        if raw not in known or picture.refusal(raw):
            return thumbnail(picture, edge, quality)
        if (key := (raw, edge, quality)) not in made:
            made[key] = thumbnail(picture, edge, quality)
        return made[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SentenceTransformers, "_encode", encode_once)
        patch.setattr(thumbnails, "thumbnail", thumbnail_once)
        yield


@pytest.fixture
def server() -> Iterator[Server]:
    """A loopback server of all hosted wires that gives its usual answers."""
    from tests.kit import Server

    with Server() as running:
        yield running


@pytest.fixture
def serve_openai(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Server]]:
    """`serve_openai(answer)` starts a loopback server that the environment names as OpenAI's, with a key for it."""
    from tests.kit import Server

    with contextlib.ExitStack() as running:

        def start(answer: Callable[[Seen], Any]) -> Server:
            server = running.enter_context(Server(answer))
            monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
            monkeypatch.setenv("OPENAI_BASE_URL", server.openai)
            return server

        yield start


@pytest.fixture
def keys_of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key for each vendor, which none of them knows."""
    for name in ("OPENAI", "GEMINI", "ANTHROPIC", "AZURE_OPENAI"):
        monkeypatch.setenv(f"{name}_API_KEY", "key-of-nobody")


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting between attempts."""
    from titjudge.engine import retry

    monkeypatch.setattr(retry, "Policy", partial(retry.Policy, base=0.001))


@pytest.fixture
def example() -> Path:
    return ROOT / "examples" / "known_answer"


@pytest.fixture(scope="session")
def small_known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled example with images of 48 pixels: for reading only."""
    from known_answers import small

    return small(tmp_path_factory.mktemp("known") / "answers")


@pytest.fixture
def shared() -> Path:
    """The folder of data that is not ours to copy; tests that need it skip, visibly, where it is not there."""
    if not SHARED.is_dir():
        pytest.skip("the shared data folder is not beside the project")
    return SHARED
