"""A judge in threads, inside event loops, after a fork, in another process, and at the end of the process."""

import asyncio
import copy
import gc
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from builders import image_file
from serving import expected, rating

from tests.kit import Server
from titjudge import Judge, UserError
from titjudge.core.config import load_config
from titjudge.metrics import Metric
from titjudge.runs.folder.run_folder import RunFolder


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    with Server(rating) as running:
        yield running


@pytest.fixture
def settings(server: Server, tmp_path: Path) -> dict[str, Any]:
    return {"captioner": "openai/gpt-4o", "base_url": server.openai, "cache": tmp_path / "cache",
            "prices": {"gpt-4o": {"input": 2.5, "output": 10}}}  # fmt: skip


def test_eight_threads_of_twenty_calls_get_a_hundred_and_sixty_scores(server: Server, settings: dict[str, Any]) -> None:
    with Judge("lmm-score", **settings) as judge, ThreadPoolExecutor(8) as pool:
        scores = list(pool.map(lambda n: judge.score(image_file(n % 40), f"prompt {n % 80}").value, range(160)))
        assert scores == [expected(image_file(n % 40), f"prompt {n % 80}") for n in range(160)]
        assert server.count() == 80  # the same question of two threads is one
        judging = [thread for thread in threading.enumerate() if thread.name == "titjudge"]
        assert len(judging) == 1
    assert not judging[0].is_alive()


def test_threads_with_and_without_event_loops_share_one_judge(settings: dict[str, Any]) -> None:
    async def many(judge: Judge, number: int) -> list[float | None]:
        return [
            score.value for score in await judge.ascore_many([(image_file(number), "a"), (image_file(number), "b")])
        ]

    async def as_they_come(judge: Judge, number: int) -> list[float | None]:
        scores = [score async for score in judge.ascore_many([(image_file(number), "a"), (image_file(number), "b")])]
        return [score.value for score in sorted(scores, key=lambda score: score.number)]

    def at_once(judge: Judge, number: int) -> list[float | None]:
        return [score.value for score in judge.score_many([(image_file(number), "a"), (image_file(number), "b")])]

    with Judge("lmm-score", **settings) as judge, ThreadPoolExecutor(6) as pool:
        ways: list[Callable[[int], list[float | None]]] = [
            lambda number: asyncio.run(many(judge, number)),
            lambda number: asyncio.run(as_they_come(judge, number)),
            lambda number: at_once(judge, number),
        ]
        found = list(pool.map(lambda number: ways[number % 3](number // 6), range(36)))
    wanted = [[expected(image_file(n // 6), prompt) for prompt in "ab"] for n in range(36)]
    assert found == wanted


def test_every_method_without_an_a_works_inside_an_event_loop_as_a_notebook_has(settings: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    pandas = pytest.importorskip("pandas")
    from titjudge.torch import JudgeMetric

    async def cells() -> None:
        judge = Judge("lmm-score", **settings)
        assert judge.score(image_file(1), "a cat").value == expected(image_file(1), "a cat")
        assert (await judge.ascore(image_file(1), "a cat")).value == expected(image_file(1), "a cat")
        assert len(judge.score_many([(image_file(1), "a cat"), (image_file(2), "a cat")])) == 2
        judged = judge.judge_table(pandas.DataFrame({"image": [image_file(1)], "prompt": ["a cat"]}))
        assert list(judged["lmm-score_status"]) == ["ok"]
        metric = JudgeMetric(judge)
        metric.update(torch.zeros(2, 3, 8, 8), "a cat")
        assert int(metric.scored) == 2
        judge.close()
        judge.close()
        with Judge("lmm-score", **settings) as another:
            assert another.score(image_file(1), "a cat").status == "ok"

    asyncio.run(cells())


def test_a_judge_may_be_closed_from_any_thread_and_goes_on_with_what_it_has_spent(
    server: Server, settings: dict[str, Any]
) -> None:
    judge = Judge("lmm-score", max_requests=2, **settings)
    judge.score(image_file(1), "p")
    closing = threading.Thread(target=judge.close)
    closing.start()
    closing.join()
    judge.score(image_file(2), "p")
    assert judge.score(image_file(3), "p").status == "budget"
    assert judge.score(image_file(1), "p").status == "ok"
    asyncio.run(judge.aclose())
    assert server.count() == 2


def test_what_another_thread_waits_for_when_a_judge_is_closed_ends_with_a_line(
    server: Server, settings: dict[str, Any]
) -> None:
    asked, closed = threading.Event(), threading.Event()

    def handler(seen: Any) -> Any:
        asked.set()
        closed.wait(60)
        return rating(seen)

    server.handler = handler
    judge = Judge("lmm-score", **settings)
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(judge.score, image_file(1), "p")
        asked.wait(60)
        closing = pool.submit(judge.close)
        with pytest.raises(UserError, match="the judge was closed before this was judged"):
            closed.set() or waiting.result(60)
        closing.result(60)
    with Judge("lmm-score", **settings) as another:  # the answer in flight was awaited and kept
        another.score(image_file(1), "p")
    assert server.count() == 1


def test_no_thread_and_no_file_is_left_of_judges_that_are_closed_or_garbage(settings: dict[str, Any]) -> None:
    def used(close: bool) -> None:
        judge = Judge("lmm-score", **settings)
        judge.score(image_file(1), "p")
        if close:
            judge.close()

    used(True)
    before = {thread.ident for thread in threading.enumerate()}
    for number in range(12):
        used(close=number % 2 == 0)
    gc.collect()
    for thread in threading.enumerate():
        if thread.name == "titjudge":
            thread.join(60)
    assert {thread.ident for thread in threading.enumerate() if not thread.name.startswith("asyncio")} <= before


def in_fork(work: Callable[[], Any]) -> Any:
    """Call `work` in a fork, and return what it returns."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12: this process has threads
        child = os.fork()
    if not child:
        try:
            os.write(write, pickle.dumps(work()))
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(answer)  # noqa: S301 - of this process


def test_a_fork_opens_its_own_and_pays_for_nothing_that_is_known(server: Server, settings: dict[str, Any]) -> None:
    def child() -> list[float | None]:
        values = [judge.score(image_file(n), "p").value for n in (1, 2)]
        judge.close()
        return values

    with Judge("lmm-score", **settings) as judge:
        judge.score(image_file(1), "p")
        for _ in range(3):
            assert in_fork(child) == [expected(image_file(n), "p") for n in (1, 2)]
        assert server.count() == 2
        assert [judge.score(image_file(n), "p").value for n in (1, 2, 3)] == [
            expected(image_file(n), "p") for n in (1, 2, 3)
        ]
    assert server.count() == 3


def test_a_fork_in_the_middle_of_the_work_of_other_threads_neither_hangs_nor_disturbs_it(
    settings: dict[str, Any],
) -> None:
    def child() -> float | None:
        return judge.score(image_file(500), "p").value

    with Judge("lmm-score", **settings) as judge, ThreadPoolExecutor(4) as pool:
        scores = [pool.submit(judge.score, image_file(number), "p") for number in range(60)]
        assert [in_fork(child) for _ in range(4)] == [expected(image_file(500), "p")] * 4
        assert [score.result(60).value for score in scores] == [expected(image_file(n), "p") for n in range(60)]


def test_a_fork_leaves_the_images_of_its_parent_where_they_are(settings: dict[str, Any]) -> None:
    from PIL import Image

    image = Image.new("RGB", (8, 8))

    def child() -> None:
        judge.score(image, "p")
        judge.close()
        gc.collect()

    with Judge("lmm-score", **settings) as judge:
        score = judge.score(image, "p")
        in_fork(child)
        assert score.image is not None
        assert score.image.exists()


def test_the_caps_of_a_copy_count_what_was_spent_before(server: Server, settings: dict[str, Any]) -> None:
    with Judge("lmm-score", max_requests=2, **settings) as judge:
        judge.score(image_file(1), "p")

        def child() -> list[str]:
            return [str(score.status) for score in judge.score_many([(image_file(n), "p") for n in (1, 2, 3)])]

        assert sorted(in_fork(child)) == ["budget", "ok", "ok"]
        with pickle.loads(pickle.dumps(judge)) as other:  # noqa: S301 - of this process
            found = other.score_many([(image_file(n), "p") for n in (1, 4, 5)])
            assert sorted(str(score.status) for score in found) == ["budget", "ok", "ok"]
        assert copy.copy(judge) is judge
    assert server.count() == 3


def test_a_run_folder_stays_with_the_process_that_opened_it(
    server: Server, settings: dict[str, Any], tmp_path: Path
) -> None:
    config = load_config(None, {**settings, "captioner": {"model": "openai/gpt-4o"}, "metrics": ["lmm-score"]})
    folder = RunFolder(tmp_path / "run")
    folder.open(config)

    def child() -> str:
        try:
            return str(judge.score(image_file(2), "p").status)
        except UserError as error:
            return str(error)

    with Judge.from_config(config, folder=folder) as judge:
        judge.score(image_file(1), "p")
        assert "one process writes a run folder, and this is a fork of it" in in_fork(child)
        with pytest.raises(UserError, match="one process writes a run folder"):
            pickle.dumps(judge)
        judge.score(image_file(3), "p")
    folder.close()
    assert server.count() == 2
    assert folder.money().requests == 2


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_workers_of_a_data_loader_judge(server: Server, settings: dict[str, Any], method: str) -> None:
    torch = pytest.importorskip("torch")
    with (
        tempfile.TemporaryDirectory(prefix="t") as folder,  # a short path: the sockets of the workers lie below it
        pytest.MonkeyPatch.context() as patch,
        Judge("lmm-score", **settings) as judge,
    ):
        made = Path(folder)
        patch.setenv("TMPDIR", str(made))
        judge.score(image_file(0), "p")
        loader = torch.utils.data.DataLoader(
            Rewards(judge), batch_size=2, num_workers=2, timeout=120, multiprocessing_context=method
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            found = [value for batch in loader for value in batch.tolist()]
        assert found == [pytest.approx(expected(image_file(n), "p")) for n in range(8)]
        assert [path for path in made.glob("titjudge-*") if not any(path.iterdir())] == []
        judge.close()
        assert server.count() == 8
        assert list(made.glob("titjudge-*")) == []


class Rewards:
    """A data set whose items are scores."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge

    def __len__(self) -> int:
        return 8

    def __getitem__(self, number: int) -> float:
        value = self.judge.score(image_file(number), "p").value
        assert value is not None
        return value


@pytest.mark.slow
def test_a_data_set_is_mapped_in_two_processes(server: Server, settings: dict[str, Any], tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    with Judge("lmm-score", **settings) as judge:
        judge.score(image_file(0), "p")

        def score(row: dict[str, Any]) -> dict[str, Any]:
            return {"reward": judge.score(image_file(row["number"]), "p").value}

        table = datasets.Dataset.from_dict({"number": list(range(8))})
        mapped = table.map(score, num_proc=2, cache_file_name=str(tmp_path / "mapped.arrow"))
        assert mapped["reward"][:] == [expected(image_file(n), "p") for n in range(8)]
    assert server.count() == 8


def test_metrics_are_pickled_by_their_name(settings: dict[str, Any]) -> None:
    from titjudge.core import registry

    for name in ("lmm-score", "tit-agent", "pickscore", "lmm4lmm"):
        made: Metric = registry.load("metrics", name)
        assert pickle.loads(pickle.dumps(made)) is made  # noqa: S301 - of this process
    configured = registry.load("metrics", "tit-agent").configured({"max_looks": 3})
    again = pickle.loads(pickle.dumps(configured))  # noqa: S301
    assert (again, again.function) == (configured, configured.function)


@pytest.mark.parametrize("end", ["pass", "del judge", "sys.exit(0)", "import os; os.fork() or sys.exit(0); os.wait()"])
def test_a_process_ends_without_a_close_soon_and_in_silence(server: Server, tmp_path: Path, end: str) -> None:
    script = (
        "import sys, threading\n"
        "from titjudge import Judge\n"
        "from PIL import Image\n"
        "judge = Judge('lmm-score', captioner='openai/m', base_url=sys.argv[1], cache=sys.argv[2])\n"
        "threads = [threading.Thread(target=judge.score, args=(Image.new('L', (8, 8), n), 'p')) for n in range(4)]\n"
        "[thread.start() for thread in threads]; [thread.join() for thread in threads]\n"
        f"{end}\n"
    )
    arguments = [sys.executable, "-W", "always::ResourceWarning", "-c", script, server.openai]
    temporary = {"TMPDIR": str(tmp_path / "temporary")}
    (tmp_path / "temporary").mkdir()
    ran = subprocess.run([*arguments, str(tmp_path / "cache")], capture_output=True, text=True, timeout=120,
                         env={**os.environ, **temporary, "OPENAI_API_KEY": "sk-test"}, check=True)  # fmt: skip
    assert ran.stderr == ""
    assert list((tmp_path / "temporary").iterdir()) == []
    assert server.count() == 4
