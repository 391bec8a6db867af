"""`bench`: from prompts to a verdict under one cap, with a service that makes images and a judge that sees which it was."""

import base64
import hashlib
import json
import math
import re
import shlex
import shutil
import signal
import threading
import time
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from builders import read_lines, write_lines
from commands import Started, cli, start
from image_service import PRICE, ImageService, form, picture
from pages import page_text

from tests.kit import Scripted, Seen, Server
from titjudge.runs.folder.run_folder import FolderLock, RunFolder

COLOURS = {"good": "green", "bad": "red"}
SHAS = {name: hashlib.sha256(picture(colour)).hexdigest() for name, colour in COLOURS.items()}
COUNT = 16


class Service:
    """Makes green images by `good` and red ones by `bad`; a judge prefers green; bills both."""

    def __init__(self, latency: float = 0.0) -> None:
        self.painter = ImageService(self._paint)
        self.latency = latency

    def _paint(self, seen: Seen) -> Scripted | None:
        if "forbidden" in seen.body["prompt"]:
            return Scripted(status=400, body={"error": {"code": "moderation_blocked", "message": "no"}})
        image = base64.b64encode(picture(COLOURS[seen.model])).decode()
        return Scripted(body={"data": [{"b64_json": image}]}, latency=self.latency)

    def __call__(self, seen: Seen) -> Scripted | str | None:
        if seen.path.endswith("/images/generations"):
            return self.painter(seen)
        if seen.images:
            return next(name for name, sha in SHAS.items() if sha == seen.images[0])
        number = int((re.findall(r"number ([0-9]+)", seen.text) or ["0"])[0])
        score = (80 if "good" in seen.text else 30) + number % 7
        return json.dumps({"missing": [], "contradicted": [], "reason": "as it is", "score": score})


def prompts(folder: Path, count: int = COUNT, **others: str) -> None:
    lines = [others.get(f"p{number}", f"a scene, number {number}") for number in range(count)]
    (folder / "prompts.txt").write_text("\n".join(lines))


WORDS = (
    "bench", "prompts.txt", "--generator", "openai/good", "--generator", "openai/bad", "--image-price", f"good={PRICE}",
    "--image-price", f"bad={PRICE}", "--provider", "openai/gpt-4o", "--metric", "tit-llm", "--price", "gpt-4o=2.5,10",
)  # fmt: skip
KEY = "sk-test-0123456789"


def bench(folder: Path, server: Server, *more: str, code: int = 0) -> str:
    return cli(folder, *WORDS, *more, code=code, OPENAI_API_KEY=KEY, OPENAI_BASE_URL=server.openai)


def record(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "bench" / "run" / "results.json").read_text())
    return found


def test_prompts_become_images_scores_and_a_verdict_and_nothing_is_paid_twice(tmp_path: Path) -> None:
    prompts(tmp_path)
    service = Service()
    with Server(service) as server:
        said = bench(tmp_path, server, "--max-cost", "5")
        paid = server.count()
        again = bench(tmp_path, server, "--max-cost", "5")
        assert server.count() == paid
    assert service.painter.images == 2 * COUNT
    for text in (said, again):
        assert re.search(r"good beats bad by [0-9.]+ of 100", text)
        assert f"${2 * COUNT * PRICE:.4f} for images" in text
    assert (tmp_path / "bench" / "run" / "report.html").is_file()
    assert len(read_lines(tmp_path / "bench" / "images.jsonl")) == 2 * COUNT


def test_the_cap_holds_for_images_and_judgements_together_and_rounds_are_whole(tmp_path: Path) -> None:
    prompts(tmp_path)
    service = Service()
    with Server(service) as server:
        said = bench(tmp_path, server, "--max-cost", "0.2", code=3)
        assert "run the command again" in said
        spent = float(re.findall(r"spent \$([0-9.]+) in all", said)[0])
        assert service.painter.billed <= spent <= 0.2
        assert record(tmp_path)["items"] == service.painter.images  # what was paid was judged
        assert "stopped after" not in bench(tmp_path, server, "--max-cost", "5")
    assert service.painter.images == 2 * COUNT


def test_the_money_of_a_generator_that_is_no_longer_named_counts_against_the_cap(tmp_path: Path) -> None:
    prompts(tmp_path, 8)
    service = Service()
    cap = 24.5 * PRICE
    with Server(service) as server:
        for name in "cdef":
            bench(tmp_path, server, "--generator", f"{name}=openai/good", "--max-cost", str(cap), code=3)
    assert service.painter.billed <= cap + 1e-9


def test_ctrl_c_while_images_are_made_leaves_whole_prompts_that_are_judged(tmp_path: Path) -> None:
    prompts(tmp_path, 64)
    service = Service(latency=0.2)
    with Server(service) as server:
        process = start(tmp_path, *WORDS, "--concurrency", "2", OPENAI_API_KEY=KEY, OPENAI_BASE_URL=server.openai)
        while service.painter.images < 22 and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 130, out + err
        made = service.painter.images
        assert 22 <= made < 32  # of a round that ends with 32
        scores = RunFolder(tmp_path / "bench" / "run").scores()
        assert made - 1 <= len(scores) <= made
        assert "good beats bad" in bench(tmp_path, server)
    assert service.painter.images == 2 * 64


def test_ctrl_c_before_the_last_answer_of_a_round_begins_no_other(tmp_path: Path) -> None:
    """The round is complete, but the user has stopped the command."""
    noticed, compared, service, running = threading.Event(), count(1), Service(), list[Started]()

    def answer(seen: Seen) -> Scripted | str | None:
        judges = not seen.images and not seen.path.endswith("/images/generations")
        if judges and next(compared) == 8:  # of 4 prompts and 2 generators
            running[0].send_signal(signal.SIGINT)
            assert any(line.startswith("stopping") for line in running[0].stderr)
            noticed.set()
        return service(seen)

    prompts(tmp_path)
    with Server(answer) as server:
        running.append(start(tmp_path, *WORDS, OPENAI_API_KEY=KEY, OPENAI_BASE_URL=server.openai))
        assert noticed.wait(60)
        out, err = running[0].communicate(timeout=60)
        assert running[0].returncode == 130, out + err
        assert f"stopped after 4 of {COUNT} prompts: interrupted" in err
        assert service.painter.images == len(RunFolder(tmp_path / "bench" / "run").scores()) == 8
        assert "good beats bad" in bench(tmp_path, server)
    assert service.painter.images == 2 * COUNT


def test_two_sessions_with_other_generators_share_a_lock(tmp_path: Path) -> None:
    prompts(tmp_path, 4)
    with Server(Service()) as server, closing(FolderLock(tmp_path / "bench")):
        assert "another titjudge is writing there" in bench(tmp_path, server, code=2)
        assert server.count() == 0


def test_settling_makes_no_more_images_than_the_question_takes(tmp_path: Path) -> None:
    prompts(tmp_path, 64)
    service = Service()
    with Server(service) as server:
        said = bench(tmp_path, server, "--settle", "good,bad", "--max-cost", "5")
    assert "good" in said
    assert record(tmp_path)["settle"]["pairs"][0]["verdict"] == "good"
    assert service.painter.images < 2 * 64


@pytest.mark.parametrize(("baseline", "code"), [("good", 1), ("bad", 0)])
def test_a_gate_is_the_one_of_compare_generators(tmp_path: Path, baseline: str, code: int) -> None:
    prompts(tmp_path)
    with Server(Service()) as server:
        said = bench(tmp_path, server, "--baseline", baseline, "--fail-if-worse", "5", code=code)
    assert "bad is" in said or "good is" in said
    assert "worse" in said


def test_a_dry_run_asks_nobody_and_names_both_prices(tmp_path: Path) -> None:
    prompts(tmp_path)
    with Server(Service()) as server:
        said = bench(tmp_path, server, "--max-cost", "5", "--dry-run", "--json", "out.json")
        assert server.count() == 0
    assert f"good: {COUNT} images to make, $0.16 at most, less than 1 min" in said
    assert f"judging {2 * COUNT} images: about $" in said
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["images"]["bad"] == {"missing": COUNT, "max_cost": pytest.approx(COUNT * PRICE)}
    assert 0 < found["judging"]["likely"] <= found["judging"]["max"]
    assert (
        f"together: ${0.32 + found['judging']['max']:.2f} at most, up to 2 min (with 10 to 40 s for a hosted image"
        in said
    )
    assert found["requests"] == 2 * 2 * COUNT  # a description and a comparison of each
    assert not (tmp_path / "bench").exists()


def test_a_refused_image_is_missing_and_no_score(tmp_path: Path) -> None:
    prompts(tmp_path, 8, p3="something forbidden, number 3")
    with Server(Service()) as server:
        said = bench(tmp_path, server, "--max-cost", "5")
    assert "no image for" in said
    assert record(tmp_path)["items"] == 2 * 7
    assert {line["prompt_id"] for line in read_lines(tmp_path / "bench" / "images" / "refused.jsonl")} == {"3"}


def test_a_round_whose_images_are_all_refused_is_followed_by_the_next(tmp_path: Path) -> None:
    prompts(tmp_path, 8, **{f"p{number}": f"something forbidden, number {number}" for number in range(4)})
    with Server(Service()) as server:
        bench(tmp_path, server, "--max-cost", "5")
    assert record(tmp_path)["items"] == 2 * 4


def test_without_any_image_there_is_no_judging(tmp_path: Path) -> None:
    prompts(tmp_path, 5, **{f"p{number}": f"something forbidden, number {number}" for number in range(5)})
    with Server(service := Service()) as server:
        said = bench(tmp_path, server, "--max-cost", "5", code=1)
    assert "stopped after 0 of 5 prompts: there is no image to judge" in said
    assert service.painter.images == 0
    assert not (tmp_path / "bench" / "run").exists()


def test_images_that_exist_compete_with_those_that_are_made(tmp_path: Path) -> None:
    prompts(tmp_path, 8)
    (tmp_path / "old").mkdir()
    for number in range(8):
        (tmp_path / "old" / f"{number}.png").write_bytes(picture("red"))
    service = Service()
    with Server(service) as server:
        said = cli(
            tmp_path, "bench", "prompts.txt", "--generator", "old", "--generator", "new=openai/good", "--image-price",
            f"good={PRICE}", "--provider", "openai/gpt-4o", "--metric", "tit-llm", "--out", "board",
            OPENAI_API_KEY="sk-test-0123456789", OPENAI_BASE_URL=server.openai,
        )  # fmt: skip
    assert "new beats old" in said
    assert service.painter.images == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--generator must be given at least twice"),
        (("--generator", "openai/a"), "--generator must be given at least twice"),
        (("--generator", "openai/a", "--generator", "x=openai/b", "--option", "y.size=1"), "--option y.size: unknown generator 'y'"),
        (("--generator", "openai/a", "--generator", "openai/b", "--baseline", "a"), "--baseline requires --fail-if-worse DELTA"),
        (("--generator", "openai/a", "--generator", "nowhere"), "must be a folder or PROVIDER/MODEL"),
        (("--generator", "openai/a", "--generator", "openai/b", "--max-cost", "1"), "the price of openai/gpt-4o"),
        (("nowhere.jsonl", "--generator", "openai/a", "--generator", "openai/b"), "nowhere.jsonl: No such file"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_before_anything_is_paid(
    tmp_path: Path, server: Server, arguments: tuple[str, ...], message: str
) -> None:
    prompts(tmp_path)
    keys = {"OPENAI_API_KEY": "sk-test-0123456789", "OPENAI_BASE_URL": server.openai}
    named = arguments if arguments[:1] == ("nowhere.jsonl",) else ("prompts.txt", *arguments)
    assert message in cli(tmp_path, "bench", *named, "--provider", "openai/gpt-4o", code=2, **keys)
    assert server.count() == 0


class Editors:
    """Two models that edit: `good` returns the source with a green corner, `bad` the source as it is; a judge sees which."""

    def __init__(self) -> None:
        self.painter = ImageService(self._edit)
        self.sources: list[list[bytes]] = []

    def _edit(self, seen: Seen) -> Scripted:
        texts, files = form(seen)
        self.sources.append([content for _, content in files])
        colour = COLOURS["good"] if texts["model"] == "good" else "blue"
        return Scripted(body={"data": [{"b64_json": base64.b64encode(picture(colour)).decode()}]})

    def __call__(self, seen: Seen) -> Scripted | str | None:
        if seen.path.endswith("/images/edits"):
            return self.painter(seen)
        score = 9 if SHAS["good"] in seen.images else 1
        return json.dumps({"reasoning": "as it is", "score": [score, score]})


def edits(folder: Path, count: int = 8) -> None:
    (folder / "src").mkdir()
    rows = []
    for number in range(count):
        (folder / "src" / f"{number}.png").write_bytes(picture("blue"))
        rows.append(
            {"prompt_id": f"e{number}", "prompt": f"make part {number} green", "source_image": f"src/{number}.png"}
        )
    write_lines(folder / "edits.jsonl", *rows)


def bench_edits(folder: Path, server: Server, *more: str, code: int = 0) -> str:
    return cli(
        folder, "bench", "edits.jsonl", "--generator", "openai/good", "--generator", "openai/bad", "--image-price", f"good={PRICE}",
        "--image-price", f"bad={PRICE}", "--judge", "openai/gpt-4o", "--price", "gpt-4o=2.5,10", *more, code=code,
        OPENAI_API_KEY="sk-test-0123456789", OPENAI_BASE_URL=server.openai,
    )  # fmt: skip


def test_edits_are_made_from_their_sources_and_judged_with_them(tmp_path: Path) -> None:
    edits(tmp_path)
    service = Editors()
    with Server(service) as server:
        bench_edits(tmp_path, server, "--metric", "viescore-edit", "--max-cost", "5", "--dry-run")
        assert server.count() == 0
        said = bench_edits(tmp_path, server, "--metric", "viescore-edit", "--max-cost", "5")
        made = server.count()
        bench_edits(tmp_path, server, "--metric", "viescore-edit", "--max-cost", "5")
        assert server.count() == made
    assert "good beats bad" in said
    assert service.sources == [[picture("blue")]] * 16
    assert record(tmp_path)["items"] == 16


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_images_of_a_source_that_changed_since_are_not_judged_as_if_made_from_it(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    edits(tmp_path, 2)
    with Server(Editors()) as server:
        bench_edits(tmp_path, server, "--metric", "viescore-edit", "--max-cost", "5")
        made = server.count()
        (tmp_path / "src" / "1.png").write_bytes(picture("white"))
        said = bench_edits(tmp_path, server, "--metric", "viescore-edit", "--max-cost", "5", *more, code=2)
        assert server.count() == made
    assert "good/e1.png: it is there, made from another source image: delete the file" in said
    assert "(and 1 more)" not in said  # of one generator


@pytest.mark.parametrize(
    ("metric", "file", "message"),
    [("tit-llm", "edits.jsonl", "source"), ("viescore-edit", "prompts.txt", "source")],
)
def test_a_metric_that_cannot_judge_them_is_said_before_an_image_is_paid(
    tmp_path: Path, server: Server, metric: str, file: str, message: str
) -> None:
    edits(tmp_path)
    prompts(tmp_path)
    said = cli(
        tmp_path, "bench", file, "--generator", "openai/good", "--generator", "openai/bad", "--provider", "openai/gpt-4o",
        "--metric", metric, code=2, OPENAI_API_KEY="sk-test-0123456789", OPENAI_BASE_URL=server.openai,
    )  # fmt: skip
    assert message in said
    assert server.count() == 0


def test_the_page_says_what_five_usual_set_ups_cost(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    part = page_text("generate-images").partition("### Prices of five setups")[2].partition("\n## ")[0]
    commands = re.findall(r"python cli.py (bench .*)", part.replace("\\\n", ""))
    rows = re.findall(r"^\|[^|]+\| ([0-9.]+) \| ([0-9.]+) \| ([0-9.]+) \|$", part, re.MULTILINE)
    assert len(commands) == len(rows) == 5
    (tmp_path / "examples").symlink_to(root / "examples")
    for command, row in zip(commands, rows, strict=True):
        cli(tmp_path, *shlex.split(command), "--json", "it.json", OPENAI_API_KEY="sk-test", GEMINI_API_KEY="test")
        said = json.loads((tmp_path / "it.json").read_text())
        images = math.fsum(one["max_cost"] for one in said["images"].values())
        assert [f"{usd:.2f}" for usd in (images, said["judging"]["likely"], said["judging"]["max"])] == list(row)


def test_without_arguments_it_judges_the_bundled_example(main_job: Path, tmp_path: Path) -> None:
    shutil.copytree(main_job / "cache", tmp_path / "cache")  # the vectors
    assert "model_a" in cli(tmp_path, "bench")
    assert "model_a" in cli(tmp_path, "bench", "--out", "here")
    assert (tmp_path / "here" / "run" / "results.json").is_file()
    assert len([*(tmp_path / "runs").iterdir()]) == 1
