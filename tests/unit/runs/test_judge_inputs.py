"""What `Judge` takes, and how scores come back: arrays and tensors, batches, streams, HTML."""

import asyncio
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.kit import Seen, Server
from titjudge import Judge, Score, Status
from titjudge.core.errors import ConfigError
from titjudge.runs.api import images_in_memory
from titjudge.runs.api.images_in_memory import ImagesInMemory
from titjudge.runs.api.judged_scores import JudgedScore, Scores


def picture(path: Path, red: int = 0) -> Path:
    Image.new("RGB", (8, 6), (red, 40, 80)).save(path)
    return path


def pixels(image: Any) -> np.ndarray[Any, Any]:
    images = ImagesInMemory()
    with Image.open(images.place(image).path) as opened:
        found = np.asarray(opened).copy()
    images.close()
    return found


RGB = np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3)


def test_the_layouts_and_types_of_arrays_are_one_picture() -> None:
    torch = pytest.importorskip("torch")
    first = np.moveaxis(RGB, 2, 0)
    tensor = torch.from_numpy(first.copy())
    for same in (RGB, first, first / 255.0, RGB.astype(np.int64), (RGB / 255).astype(np.float32), tensor,
                 tensor.movedim(0, 2), tensor.float() / 255, (tensor.double() / 255).requires_grad_()):  # fmt: skip
        assert (pixels(same) == RGB).all()
    half = pixels((tensor / 255).to(torch.bfloat16)).astype(int)
    assert abs(half - RGB.astype(int)).max() <= 1
    assert pixels(tensor[:1]).shape == (6, 8)


def test_where_both_ends_could_be_colours_an_array_has_them_last_and_a_tensor_first() -> None:
    torch = pytest.importorskip("torch")
    small = np.arange(3 * 5 * 3, dtype=np.uint8).reshape(3, 5, 3)
    assert pixels(small).shape == (3, 5, 3)
    assert (pixels(torch.from_numpy(small)) == np.moveaxis(small, 0, 2)).all()


def test_an_image_opened_once_and_given_often_is_read_by_one_thread_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.png")
    images, reading, most = ImagesInMemory(), 0, 0
    with Image.open(tmp_path / "a.png") as opened:
        load = opened.load

        def slow_load() -> Any:
            nonlocal reading, most
            reading += 1
            most = max(most, reading)
            time.sleep(0.02)  # the other threads arrive meanwhile
            try:
                return load()
            finally:
                reading -= 1

        monkeypatch.setattr(opened, "load", slow_load)
        monkeypatch.setattr(images_in_memory, "small", lambda image: b"")
        monkeypatch.setattr(opened, "save", lambda out, kind: Image.fromarray(np.asarray(noise)).save(out, kind))
        with ThreadPoolExecutor(4) as pool:
            names = {placed.name for placed in pool.map(images.place, [opened] * 4)}
    images.close()
    assert (most, len(names)) == (1, 1)


def test_an_opened_photo_is_upright_as_its_file_is(tmp_path: Path) -> None:
    image = Image.new("RGB", (8, 4))
    tags = image.getexif()
    tags[0x0112] = 6
    image.save(tmp_path / "a.jpg", exif=tags)
    with Image.open(tmp_path / "a.jpg") as opened:
        assert pixels(opened).shape == (8, 4, 3)
    assert pixels(Image.new("I", (8, 4))).shape == (4, 8)


def test_a_notebook_shows_an_image_of_sixteen_bits_with_its_own_brightness() -> None:
    deep = np.full((16, 16), 0x8000, dtype=np.uint16)
    images = ImagesInMemory()
    thumbnail = images.place(Image.fromarray(deep)).thumbnail
    images.close()
    assert thumbnail is not None
    with Image.open(io.BytesIO(thumbnail)) as shown:
        assert abs(np.asarray(shown.convert("L")).astype(int) - 128).max() <= 3


def test_torch_is_not_imported_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # any import of it fails
    assert (pixels(RGB) == RGB).all()


def test_a_batch_is_scored_with_its_prompts(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    batch = torch.rand(3, 3, 6, 8, generator=torch.Generator().manual_seed(1))
    with Judge("lmm-score", captioner="fake/x", cache=tmp_path) as judge:
        scores = judge.score_many(batch, ["a", "b", "c"])
        same = judge.score_many([image.numpy() for image in batch], "a")
        with pytest.raises(ValueError, match="3 images do not fit 2 prompts"):
            judge.score_many(batch, ["a", "b"])
        with pytest.raises(TypeError, match=r"score_many\(images, prompts\)"):
            judge.score_many(batch)
        with pytest.raises(ValueError, match=r"3x3x6x8 values: score_many\(images, prompts\)"):
            judge.score(batch, "a")
        with pytest.raises(ValueError, match="a batch of images must have four dimensions, not 3x6x8"):
            judge.score_many(batch[0], "a")
        with pytest.raises(TypeError, match="number 1: an image must be a path"):
            judge.score_many([batch[0], None], "a")
    assert [(score.number, score.prompt, score.value) for score in scores] == [(0, "a", 0), (1, "b", 0), (2, "c", 0)]
    assert [score.item_id for score in same] == [score.item_id for score in scores]


def test_files_of_images_that_are_judged_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images_in_memory, "_KEPT", 2)
    with Judge("lmm-score", captioner="fake/x", cache=tmp_path) as judge:
        for step in range(4):
            batch = np.full((3, 6, 8, 3), 10 * step, np.uint8) + np.arange(3, dtype=np.uint8).reshape(3, 1, 1, 1)
            scores = judge.score_many(batch, "p")
            assert [score.value for score in scores] == [0, 0, 0]
        folder = judge._scorer._memory._folder
        assert folder is not None
        assert len(list(folder.iterdir())) == 2
        assert [score.value for score in judge.score_many(batch, "p")] == [0, 0, 0]  # what is gone comes again


def test_a_stream_gives_every_score_once_with_its_number(tmp_path: Path) -> None:
    pairs = [(picture(tmp_path / f"{number}.png", number), f"p{number}") for number in range(5)]

    async def work() -> tuple[list[JudgedScore], Scores]:
        async with Judge(["lmm-score", "self-eval"], captioner="fake/x", cache=tmp_path / "cache") as judge:
            return [score async for score in judge.ascore_many(pairs)], await judge.ascore_many(pairs)

    streamed, listed = asyncio.run(work())
    assert [(s.number, s.metric) for s in listed] == [(n, m) for n in range(5) for m in ("lmm-score", "self-eval")]
    assert sorted(streamed, key=lambda score: score.number) == list(listed)
    assert all((score.item_id, score.prompt) == (str(pairs[score.number][0]), f"p{score.number}") for score in streamed)


def test_the_stream_is_a_coroutine_too(tmp_path: Path) -> None:
    judge = Judge("lmm-score", captioner="fake/x", cache=tmp_path / "cache")
    pairs = [(picture(tmp_path / "a.png"), "p")]
    assert len(asyncio.run(judge.ascore_many(pairs))) == 1

    async def cancelled() -> None:
        task = asyncio.create_task(judge.ascore_many(pairs))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    judge.close()


@pytest.mark.parametrize("how", ["cancelled", "closed", "left"])
def test_what_was_asked_is_kept_and_nothing_more_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    pairs = [(picture(tmp_path / f"{number}.png", number), "p") for number in range(3)]
    seen, free = threading.Event(), threading.Event()
    asked: list[Seen] = []

    def handler(request: Seen) -> None:
        asked.append(request)
        if len(asked) == (1 if how == "cancelled" else 2):
            seen.set()
            free.wait(30)

    async def work(judge: Judge) -> None:
        async with judge:
            if how == "left":
                kept = judge.ascore_many(pairs)  # it is not collected as garbage before the judge is closed
                async for _ in kept:
                    asyncio.get_running_loop().call_later(0.05, free.set)
                    return
            stream = judge.ascore_many(pairs)
            if how == "closed":
                assert (await anext(stream)).value is not None
            task = asyncio.create_task(anext(stream) if how == "cancelled" else stream.aclose())  # type: ignore[arg-type]
            if how == "cancelled":
                await asyncio.to_thread(seen.wait, 30)
                task.cancel()
            asyncio.get_running_loop().call_later(0.05, free.set)
            with contextlib.suppress(asyncio.CancelledError):
                await task

    with Server(handler) as server:
        settings: dict[str, Any] = {"base_url": server.openai, "concurrency": 1, "cache": tmp_path / "cache"}
        asyncio.run(work(Judge("lmm-score", captioner="openai/m", **settings)))
        assert len(asked) <= (1 if how == "cancelled" else 2)
        with Judge("lmm-score", captioner="openai/m", **settings) as judge:
            assert [score.status for score in judge.score_many(pairs)] == ["ok"] * 3
        assert len(asked) == 3  # nothing was paid twice


def test_ctrl_c_in_score_many_keeps_what_was_asked_and_asks_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [(str(picture(tmp_path / f"{number}.png", number)), "p") for number in range(4)]
    script = (
        "import json, pathlib, sys\n"
        "from titjudge import Judge\n"
        "from titjudge.runs.api.loop_thread import _Job\n"
        "cancel = _Job.cancel\n"
        "def interrupted(job):\n"
        "    cancel(job)\n"
        "    pathlib.Path(sys.argv[4]).touch()\n"
        "_Job.cancel = interrupted\n"
        "with Judge('lmm-score', captioner='openai/m', base_url=sys.argv[2], cache=sys.argv[3], concurrency=1) as judge:\n"
        "    judge.score_many(json.loads(sys.argv[1]))\n"
    )
    started: list[subprocess.Popen[str]] = []
    asked: list[Seen] = []
    known, interrupted = threading.Event(), tmp_path / "interrupted"

    def handler(request: Seen) -> None:
        asked.append(request)
        if len(asked) == 1:
            known.wait(60)
            started[0].send_signal(signal.SIGINT)
            while not interrupted.exists() and started[0].poll() is None:
                time.sleep(0.005)

    with Server(handler) as server:
        cache = str(tmp_path / "cache")
        command = [sys.executable, "-c", script, json.dumps(pairs), server.openai, cache, str(interrupted)]
        environment = {**os.environ, "OPENAI_API_KEY": "sk-test"}
        started.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True))
        known.set()
        _, said = started[0].communicate(timeout=120)
        assert "KeyboardInterrupt" in said
        assert len(asked) == 1
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        with Judge("lmm-score", captioner="openai/m", base_url=server.openai, cache=cache) as judge:
            assert [score.status for score in judge.score_many(pairs)] == ["ok"] * 4
        assert len(asked) == len(pairs)


HOSTILE = "</div><script>alert(1)</script><img src=x onerror='alert(2)'> $\\href{javascript:alert(3)}{x}$ \"quoted\""


def test_a_notebook_shows_the_image_and_escapes_every_text(tmp_path: Path) -> None:
    from html.parser import HTMLParser

    class Tags(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.tags: list[tuple[str, set[str]]] = []
            self.text = ""

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.tags.append((tag, {name for name, _ in attrs}))

        def handle_data(self, data: str) -> None:
            self.text += data

    path = picture(tmp_path / "a.png")
    plain = Score(str(path), "mine<b>", None, Status.REFUSED, HOSTILE)
    score = JudgedScore.judged(plain, 0, HOSTILE, path, None)
    page = Tags()
    page.feed(score._repr_html_())
    assert {tag for tag, _ in page.tags} == {"div", "img", "b"}
    assert [names for tag, names in page.tags if tag == "img"] == [{"src", "alt", "style"}]
    assert {name for _, names in page.tags for name in names} <= {"class", "style", "dir", "src", "alt"}
    assert page.text.count(HOSTILE) == 2
    assert "mine<b> no score (refused)" in page.text
    assert "mathjax_ignore" in score._repr_html_()  # a formula may hold a link to a script
    assert "data:image/webp;base64,UklGR" in score._repr_html_()
    assert len(JudgedScore.judged(plain, 0, "x" * 10**6, path, None)._repr_html_()) < 10_000


def test_the_image_of_a_score_is_the_judged_one_or_none(tmp_path: Path) -> None:
    path = picture(tmp_path / "a.png")
    with Judge("lmm-score", captioner="fake/x", cache=tmp_path / "cache") as judge:
        of_file, in_memory = judge.score_many([(path, "p"), (RGB, "p")])
    assert "<img" in of_file._repr_html_()
    assert "<img" in in_memory._repr_html_()  # though its file is gone
    Image.new("RGB", (99, 99), "red").save(path)
    assert "<img" not in of_file._repr_html_()
    assert "has changed since it was judged" in of_file._repr_html_()
    path.unlink()
    assert "no such image file" in of_file._repr_html_()
    shown = Scores((of_file,) * 20)._repr_html_()
    assert shown.count("no such image file") == 12
    assert "8 more" in shown


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((-0.98, 1.0), r"this one from -0\.98 to 1: `image / 2 \+ 0\.5` makes one"),
        ((0.0, 254.5), r"this one from 0 to 254\.5: `image / 255` makes one"),
        ((0.0, float("nan")), "this one has values that are not finite"),
        ((-7.0, 2.0), "this one from -7 to 2$"),
    ],
)
def test_floats_that_are_no_image_are_named_with_what_makes_one_of_them(values: tuple[float, float], said: str) -> None:
    with Judge("lmm-score", captioner="fake/x") as judge, pytest.raises(ValueError, match=said):
        judge.score(np.array([[values[0], values[1]]] * 2), "p")


def test_what_rounding_leaves_beyond_the_ends_is_the_end() -> None:
    torch = pytest.importorskip("torch")
    whole, rounded = torch.tensor([[0.0, 1.0]] * 2), torch.tensor([[-0.0003, 1.0003]] * 2)
    half = torch.tensor([[0.0, 1 + 2**-8]] * 2, dtype=torch.float16)
    with Judge("lmm-score", captioner="fake/x") as judge:
        scores = judge.score_many([(image, "p") for image in (whole, rounded, half)])
    assert len({score.item_id for score in scores}) == 1


def test_errors_in_python_name_what_is_written_in_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    settings = {"base_url": "http://127.0.0.1:9/v1", "cache": tmp_path, "max_cost": 1}
    with (
        Judge("lmm-score", captioner="openai/mine", **settings) as judge,  # type: ignore[arg-type]
        pytest.raises(ConfigError, match=r'prices=\{"mine": \{"input": IN, "output": OUT\}\}'),
    ):
        judge.score(RGB, "p")
