"""Public bug reports about judging images and calling models, rebuilt as small inputs: one record for each.

To add a report, write about five lines at the end of the list `REPORTS` of the module of its subject, as in `layouts.py`:

    Files(
        "Karine-Huang/T2I-CompBench#18", "images are named by their prompt and a number",
        {"a green bench_000000.png": 1, "two dogs_000000.png": 2, "prompts.txt": "a green bench\\ntwo dogs\\n"},
        reads={"a green bench_000000.png": "a green bench", "two dogs_000000.png": "two dogs"},
    ),

The first text is the public issue, or what the report was found beside; the second says what went wrong, in our own words.
Names, prompts and images are ours. The rest says what is right. The class says what is tried:

    Files: what is read of a folder or table.          Said: what a metric makes of a reply.
    Command: what a command prints and computes.       Served: what `judge` pays and scores at a server.
    Rated: what people say of images.                  Given, Sent: an image in memory, a file as servers see it.
    Weights: a local model that must be refused.

`test_reports.py` runs every record of every module in this folder.
"""

import asyncio
import io
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import tiny_models
from batch_server import BatchServer
from builders import image_file, png, read_lines
from commands import cli, hosted
from loading import loaded
from PIL import Image

from tests.kit import Scripted, Seen, Server
from titjudge import Judge
from titjudge.core.errors import DataError, TitjudgeError
from titjudge.core.registry import load
from titjudge.core.types import Item
from titjudge.data.images import ImageFiles
from titjudge.providers.hosted.http import proxy_of
from titjudge.runs.study.human_files import HumanRatings, read_human_scores
from titjudge.testing import score_one

Content = int | str | bytes | Sequence[Any]
Answer = Callable[[Seen], Scripted | str | None]


def write_files(folder: Path, files: Mapping[str, Content]) -> None:
    """Write each file: an int is an image of another colour for each number, a list is JSON lines."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, int):
            content = image_file(content)
        elif not isinstance(content, str | bytes):
            content = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def assert_words(text: str, wanted: Collection[str], unwanted: Collection[str] = ()) -> None:
    """Check that a text contains some words and not others."""
    assert [word for word in wanted if word not in text] == [], text
    assert [word for word in unwanted if word in text] == [], text


@dataclass(frozen=True)
class Report:
    """What every record begins with.

    Attributes:
        source: `owner/repository#number`.
        symptom: What went wrong there, in one line.
    """

    source: str
    symptom: str

    def check(self, folder: Path) -> None:
        """Rebuild the report in an empty folder; raise AssertionError if titjudge fails as the report says."""
        raise NotImplementedError


@dataclass(frozen=True)
class Files(Report):
    """A data folder, and what the suite `folder` reads from it.

    Attributes:
        files: Contents by path in the folder; see `write_files`.
        reads: The prompt of every image that may be judged; None: nothing is judged.
        generators: The generators, if they matter.
        refused: Words that the error, or else the reasons of the images that are not judged, must contain.
        columns: Columns as `--columns` names them.
        place: The manifest in the folder, if not the folder itself is read.
    """

    files: Mapping[str, Content] = field(default_factory=dict)
    reads: Mapping[str, str] | None = None
    generators: Collection[str] | None = None
    refused: Collection[str] = ()
    columns: Mapping[str, list[str]] = field(default_factory=dict)
    place: str = ""

    def check(self, folder: Path) -> None:
        """Read the folder."""
        write_files(folder, self.files)
        items: list[Item] = []
        try:
            items, bad = loaded(folder / self.place, **self.columns)
            said = "\n".join(bad.values())
        except TitjudgeError as error:
            said = str(error)
        assert {item.id: item.prompt for item in items} == (self.reads or {}), said
        if self.generators is not None:
            assert {item.generator for item in items} == set(self.generators)
        assert_words(said, self.refused)


@dataclass(frozen=True)
class Sent(Report):
    """An image file, and what a server sees of it that knows RGB alone.

    Attributes:
        name: The name of the file.
        content: Makes its bytes.
        colours: Colours near the upper left and the lower right corner, as red, green and blue.
    """

    name: str = ""
    content: Callable[[], bytes] = bytes
    colours: tuple[tuple[int, int, int], tuple[int, int, int]] = ((0, 0, 0), (0, 0, 0))

    def check(self, folder: Path) -> None:
        """Open the file as a request does, and decode what is sent as a careless server does."""
        (folder / self.name).write_bytes(self.content())
        image = asyncio.run(ImageFiles().open(folder / self.name))
        with Image.open(io.BytesIO(image.load())) as opened:
            assert not getattr(opened, "is_animated", False)
            assert opened.size == (image.width, image.height)
            seen = opened.convert("RGB")
        corners = [(1, 1), (seen.width - 2, seen.height - 2)]
        for corner, colour in zip(corners, self.colours, strict=True):
            assert seen.getpixel(corner) == pytest.approx(colour, abs=3)


@dataclass(frozen=True)
class Run(Report):
    """What records of commands have in common; `{url}` and `{host}` are those of a loopback server.

    Attributes:
        code: The exit code.
        prints: Words that the command must print.
        silent: Words that it must not print.
        env: Further environment variables.
    """

    code: int = field(default=0, kw_only=True)
    prints: Collection[str] = field(default=(), kw_only=True)
    silent: Collection[str] = field(default=(), kw_only=True)
    env: Mapping[str, str] = field(default_factory=dict, kw_only=True)

    def run(self, folder: Path, server: Server, command: Sequence[str], code: int | None = None) -> str:
        """Return what a command prints whose requests go to the server; its exit code must be `code`."""
        env = {**hosted(server), "GEMINI_API_KEY": "AIza-test-0123456789", "GOOGLE_GEMINI_BASE_URL": server.url, **self.env}
        filled = [
            text.replace("{url}", server.openai).replace("{host}", f"127.0.0.1:{server.port}") for text in (*command, *env.values())
        ]
        proxy_of.cache_clear()  # it keeps what the environment said
        try:
            variables = dict(zip(env, filled[len(command) :], strict=True))
            return cli(folder, *filled[: len(command)], code=self.code if code is None else code, **variables)
        finally:
            proxy_of.cache_clear()


@dataclass(frozen=True)
class Command(Run):
    """Files, and what a command does with them beside a loopback server.

    Attributes:
        files: Contents by path in the folder; see `write_files`.
        arguments: The command and its arguments.
        values: What results.json must hold, by path as in `rows.0.score` (the command then has `--json results.json`).
        before: Commands that are run before, if others are needed.
        answer: What the server answers a request.
        asked: How many requests are sent, if it matters.
    """

    files: Mapping[str, Content] = field(default_factory=dict)
    arguments: Sequence[str] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    before: Sequence[Sequence[str]] = ()
    answer: Answer = lambda seen: None
    asked: int | None = None

    def check(self, folder: Path) -> None:
        """Run the command in the folder."""
        write_files(folder, self.files)
        with Server(self.answer) as server:
            for command in self.before:
                self.run(folder, server, command, code=0)
            out = self.run(folder, server, self.arguments)
            assert self.asked in (None, server.count()), out
        assert_words(out, self.prints, self.silent)
        for path, value in self.values.items():
            found = json.loads((folder / "results.json").read_text())
            for key in path.split("."):
                found = found[int(key) if isinstance(found, list) else key]
            assert found == (pytest.approx(value) if isinstance(value, float) else value), path


@dataclass(frozen=True)
class Rated(Report):
    """Ratings of images by people.

    Attributes:
        table: A CSV table of them.
        means: The mean of each image.
        raters: How many people rate each image.
        prints: Words that the notes, or else the error, must contain.
    """

    table: str = ""
    means: Mapping[str, float] = field(default_factory=dict)
    raters: int = 1
    prints: Collection[str] = ()

    def check(self, folder: Path) -> None:
        """Read the table, also from its end to its start."""
        head, *rows = self.table.strip().split("\n")
        for order in (rows, rows[::-1]):
            (folder / "ratings.csv").write_text("\n".join([head, *order]))
            found = HumanRatings()
            try:
                found = read_human_scores(folder / "ratings.csv")
                said = "\n".join(found.notes)
            except DataError as error:
                said = str(error)
            assert found.means.get("score", {}) == self.means, said
            assert {*found.raters.get("score", {}).values()} == ({self.raters} if self.means else set())
            assert_words(said, self.prints)


@dataclass(frozen=True)
class Said(Report):
    """What a model says to a metric, and what becomes of it.

    Attributes:
        metric: The metric's name.
        replies: What every question is answered, in order; the last one also answers further questions.
        value: The score; None for no score.
        status: The status, if there is no score.
        prompt: The prompt of the image.
        meta: What the data say of the image.
        config: Keys of run.yaml, such as `protocol`.
    """

    metric: str = ""
    replies: Sequence[Any] = ()
    value: float | None = None
    status: str = ""
    prompt: str = "a dog beside a red cube"
    meta: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)

    def check(self, folder: Path) -> None:
        """Score one image."""
        image = png(folder / "image.png")
        item = Item(id="image.png", prompt=self.prompt, prompt_id="p", image=image, generator="g", meta=dict(self.meta))
        left = list(self.replies)
        scored = score_one(
            load("metrics", self.metric),
            item,
            lambda request: left.pop(0) if len(left) > 1 else left[0],
            **self.config,
        )
        assert scored.score.value == pytest.approx(self.value), scored.score.reason
        if self.value is None:
            assert scored.score.status == self.status, scored.score.reason


@dataclass(frozen=True)
class Served(Run):
    """A server's answers to `judge`, and what is paid and scored.

    Attributes:
        answer: What the server answers a request.
        images: How many images there are.
        metric: The metric's name.
        arguments: Further arguments of `judge`.
        paid: At most so many requests are sent.
        again: At most so many more are sent when the command is repeated.
        statuses: The statuses that scores may have.
        files: The data, in place of images of one colour with texts; in `data/`.
        sent: Texts that requests must hold.
        value: The score of each image that has one, if it matters.
        provider: openai with a model (titjudge would ask the server for its models), or gemini.
        config: Keys of run.yaml.
        server: Makes the server; of a batch service, the lines that it answers count as paid.
    """

    answer: Answer = lambda seen: None
    images: int = 4
    metric: str = "lmm-score"
    arguments: Sequence[str] = ()
    paid: int = 4
    again: int = 0
    statuses: Collection[str] = ("ok",)
    files: Mapping[str, Content] = field(default_factory=dict)
    sent: Collection[str] = ()
    value: float | None = None
    provider: str = "openai/gpt-4o"
    config: Mapping[str, Any] = field(default_factory=dict)
    server: Callable[[Answer], Server] = Server

    def check(self, folder: Path) -> None:
        """Judge the images twice against the server."""
        write_files(folder / "data", self.files or {f"{n}.png": n for n in range(self.images)})
        write_files(folder / "data", {} if self.files else {f"{n}.txt": f"a thing numbered {n}" for n in range(self.images)})
        (folder / "run.yaml").write_text(json.dumps(self.config))
        models = ("--provider", self.provider, "--metric", self.metric, "--config", "run.yaml")
        command = ("judge", "data", *models, "--out", "run", "--no-report", *self.arguments)
        with self.server(self.answer) as server:
            paid = server.paid if isinstance(server, BatchServer) else server.count
            out = self.run(folder, server, command)
            first = paid()
            self.run(folder, server, command)
            assert first <= self.paid, out
            assert paid() - first <= self.again, out
            assert len(server.connections) >= server.count(), "two requests share a connection"
        assert_words("\n".join(seen.text for seen in server.requests), self.sent)
        file = folder / "run" / "scores.jsonl"
        scores = read_lines(file) if self.code == 0 or file.is_file() else []
        assert {line["status"] for line in scores} <= set(self.statuses), out
        values = {line["value"] for line in scores} - {None}
        assert self.value is None or [*values] == [pytest.approx(self.value)], out
        assert_words(out, self.prints, self.silent)


@dataclass(frozen=True)
class Given(Report):
    """An image in memory, given to `Judge.score`.

    Attributes:
        image: Makes it.
        refused: Words that the ValueError must contain; without them it is judged.
    """

    image: Callable[[], Any] = lambda: None
    refused: Collection[str] = ()

    def check(self, folder: Path) -> None:
        """Score the image with a model that answers well."""
        said = ""
        with Judge("lmm-score", captioner="fake/captioner", cache=str(folder)) as judge:
            try:
                assert judge.score(self.image(), "a cup").value is not None
            except ValueError as error:
                said = str(error)
        assert bool(said) == bool(self.refused), said
        assert_words(said, self.refused)


@dataclass(frozen=True)
class Weights(Report):
    """A local model whose saved tensors are changed, and that `judge` must refuse.

    Attributes:
        build: Makes it in a folder; of `tiny_models`.
        change: Makes the tensors that are saved from those of the model.
        role: The option that names the model.
        model: Its name, with `{folder}`.
        refused: Words that the error must contain.
    """

    build: Callable[[Path], Path] = tiny_models.qwen25_vl
    change: Callable[[dict[str, Any]], dict[str, Any]] = dict
    role: str = "--captioner"
    model: str = "local/{folder}"
    refused: Collection[str] = ()

    def check(self, folder: Path) -> None:
        """Judge an image with the changed model."""
        from safetensors.torch import load_file, save_file

        write_files(folder, {"data/0.png": 0, "data/0.txt": "a cup"})
        file = self.build(folder / "model") / "model.safetensors"
        save_file(self.change(load_file(file)), file, metadata={"format": "pt"})
        models = ("--captioner", "fake", self.role, self.model.replace("{folder}", str(folder / "model")))
        out = cli(folder, "judge", "data", "--metric", "tit", *models, "--no-report", code=2)
        assert_words(out, self.refused)
