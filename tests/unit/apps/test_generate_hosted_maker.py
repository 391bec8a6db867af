"""Images by a hosted model: what is paid is in its place, what fails is named, and no cap is passed."""

import base64
import io
import json
import os
import random
import signal
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import read_lines, write_lines
from image_service import ENCODED, PRICE, ImageService, form, picture, prompt_of, todo
from PIL import Image

from tests.kit import Scripted, Seen, Server
from titjudge.apps.generate.generating import Generated, ImageFolder, Making, generate, generate_all, read_wanted
from titjudge.apps.generate.image_makers import HostedMaker, hosted_maker
from titjudge.apps.generate.image_models import ImageRequest, OpenAIImages
from titjudge.core.errors import ConfigError, UserError
from titjudge.core.signals import terminated_like_ctrl_c
from titjudge.core.types import Item
from titjudge.engine import retry
from titjudge.runs.folder.run_folder import FolderLock, RunFolder
from titjudge.suites.base import SuiteInputs
from titjudge.suites.folder import Folder


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    monkeypatch.setattr(retry.random, "random", lambda: 0.0)


def maker(server: Server, **keys: Any) -> HostedMaker:
    prices = keys.pop("prices", [f"openai/painter={PRICE}"])
    return hosted_maker("openai/painter", keys.pop("options", {}), 20.0, prices, {"base_url": server.openai, **keys})


def made(folder: Path, server: Server, *, count: int = 6, retry_failed: bool = False, **keys: Any) -> Generated:
    failed: list[tuple[str, str]] = []
    file = folder / "todo.jsonl" if (folder / "todo.jsonl").is_file() else todo(folder, count)
    out = folder / "out"
    wanted = list(read_wanted(file, out, "painter", failed))
    return generate(wanted, out, maker(server, **keys), failed, lambda progress: None, retry_failed=retry_failed)


def ledger(folder: Path) -> RunFolder:
    return RunFolder(folder / "out" / ".generate" / "painter")


def test_each_image_is_in_its_place_and_listed_with_what_it_was_made_with(tmp_path: Path) -> None:
    service = ImageService(latency=0.05)
    with Server(service) as server:
        result = made(tmp_path, server, max_cost=1.0)
    assert (result.made, result.missing, service.images) == (6, 0, 6)
    assert all((tmp_path / "out" / "painter" / f"{number}.png").read_bytes() == picture() for number in range(6))
    lines = read_lines(tmp_path / "out" / "metadata.jsonl")
    assert {line["file_name"] for line in lines} == {f"painter/{number}.png" for number in range(6)}
    assert {line["made_with"]["model"] for line in lines} == {"openai/painter"}
    assert {line["made_with"]["cost"] for line in lines} == {PRICE}
    assert all(0.05 <= line["made_with"]["seconds"] < 20 for line in lines)


def test_what_is_there_is_not_asked_for_again(tmp_path: Path) -> None:
    service = ImageService()
    with Server(service) as server:
        made(tmp_path, server)
        (tmp_path / "out" / "painter" / "3.png").unlink()
        result = made(tmp_path, server)
    assert (result.made, result.there, service.images) == (1, 5, 7)


def test_a_cap_holds_over_all_sessions_and_a_higher_one_goes_on(tmp_path: Path) -> None:
    service = ImageService()
    with Server(service) as server:
        for _ in range(3):
            result = made(tmp_path, server, max_cost=0.035, concurrency=4)
            assert result.outcome is not None
            assert (result.outcome.budget, result.outcome.spent) == (True, pytest.approx(0.03))
        assert service.billed == pytest.approx(0.03)
        assert made(tmp_path, server, max_cost=1.0).missing == 0
    assert service.billed == pytest.approx(6 * PRICE) == ledger(tmp_path).money().spent


@pytest.mark.parametrize("cap", [1.0, 0.0])
def test_a_cap_needs_a_price(tmp_path: Path, server: Server, cap: float) -> None:
    with pytest.raises(
        ConfigError, match=r"no price is known for images by openai/painter.*--image-price openai/painter=USD"
    ):
        maker(server, prices=[], max_cost=cap)
    assert maker(server, prices=[]).price is None


def test_an_unknown_price_is_said_to_be_unknown(tmp_path: Path) -> None:
    with Server(ImageService()) as server:
        result = made(tmp_path, server, prices=[])
    assert result.outcome is not None
    assert (result.outcome.spent, result.outcome.unpriced) == (0.0, 6)


def test_every_image_of_an_answer_may_be_billed(tmp_path: Path) -> None:
    two = Scripted(body={"data": [{"b64_json": ENCODED}] * 2})
    with Server(ImageService(lambda seen: two)) as server:
        made(tmp_path, server, count=2)
    assert ledger(tmp_path).money().spent == pytest.approx(4 * PRICE)


@pytest.mark.parametrize("body", [{"data": [None]}, {"data": [{"b64_json": 5}]}, {"data": [{"url": "https://[::1"}]}])
def test_the_cap_holds_over_answers_of_an_odd_form(tmp_path: Path, body: Any) -> None:
    service = ImageService(lambda seen: Scripted(body=body))
    with Server(service) as server:
        for _ in range(2):
            made(tmp_path, server, count=60, max_cost=0.05)
    assert service.billed <= ledger(tmp_path).used()["max_cost"] <= 0.05 + 1e-9


@pytest.mark.parametrize("edits", [False, True])
def test_a_refusal_is_listed_and_asked_again_only_when_told_to(tmp_path: Path, edits: bool) -> None:
    def moderate(seen: Seen) -> Scripted | None:
        refused = {"error": {"code": "moderation_blocked", "message": "not this"}}
        return Scripted(status=400, body=refused) if "knife" in prompt_of(seen) else None

    todo(tmp_path, 6, edits=edits, i2="a knife")
    with Server(ImageService(moderate)) as server:
        first = made(tmp_path, server)
        assert (first.made, first.missing, [name for name, _ in first.refused]) == (5, 1, ["row 3, painter/2.png"])
        assert server.count() == 6  # it is not asked for again
        second = made(tmp_path, server)
        assert (server.count(), len(second.refused)) == (6, 1)
        assert "refused before: " in second.refused[0][1]
        made(tmp_path, server, retry_failed=True)
        assert server.count() == 7
    (line, *_) = read_lines(tmp_path / "out" / "refused.jsonl")
    assert (line["file_name"], line["generator"], "not this" in line["reason"]) == ("painter/2.png", "painter", True)
    assert not (tmp_path / "out" / "painter" / "2.png").exists()


UNUSABLE = [
    Scripted(body=b"<html>busy</html>"), Scripted(body={"data": [{"b64_json": ENCODED[:40]}]}), Scripted(body={"data": [{"b64_json": "aGVsbG8="}]}),
    Scripted(body={"data": [None]}), Scripted(body={"data": [{"url": "http://elsewhere.example/a.png"}]}), Scripted(body=b""),
]  # fmt: skip


@pytest.mark.parametrize("answer", UNUSABLE, ids=["html", "cut", "no image", "odd", "no address", "empty"])
def test_an_image_that_is_paid_in_vain_is_asked_for_twice_and_then_when_told_to(
    tmp_path: Path, answer: Scripted
) -> None:
    todo(tmp_path, 3, i1="a cursed scene")
    service = ImageService(lambda seen: answer if "cursed" in prompt_of(seen) else None)
    with Server(service) as server:
        first = made(tmp_path, server)
        assert (first.made, [name for name, _ in first.failed], server.count()) == (2, ["row 2, painter/1.png"], 4)
        second = made(tmp_path, server)
        assert (second.there, second.missing, len(second.failed), server.count()) == (2, 1, 1, 4)
        made(tmp_path, server, retry_failed=True)
        assert server.count() == 6
        service.fault = lambda seen: None
        assert made(tmp_path, server, retry_failed=True).missing == 0
        assert made(tmp_path, server).there == 3
    (line, *_) = read_lines(tmp_path / "out" / "failed.jsonl")
    assert (line["file_name"], line["reason"] != "") == ("painter/1.png", True)
    money = ledger(tmp_path).money()
    assert money.spent + money.uncertain >= service.billed - 1e-9


def test_what_is_not_as_it_was_asked_for_is_said(tmp_path: Path) -> None:
    two = Scripted(body={"data": [{"b64_json": ENCODED}] * 3})
    with Server(ImageService(lambda seen: two if seen.nth == 1 and "0" in prompt_of(seen) else None)) as server:
        result = made(tmp_path, server, count=2, options={"size": "1024x1024"})
    assert sorted(result.odd) == [
        ("painter/0.png", "24 x 24 pixels, not 1024 x 1024"),
        ("painter/0.png", "the answer had 2 more, which are not kept"),
        ("painter/1.png", "24 x 24 pixels, not 1024 x 1024"),
    ]
    assert [line["made_with"]["size"] for line in read_lines(tmp_path / "out" / "metadata.jsonl")] == [[24, 24]] * 2


@pytest.mark.parametrize("format", ["JPEG", "WEBP", "GIF", "PNG"])
def test_a_png_file_holds_png(tmp_path: Path, format: str) -> None:
    drawn = Image.new("RGB", (24, 24), "teal")
    file = io.BytesIO()
    drawn.save(file, format)
    body = {"data": [{"b64_json": base64.b64encode(file.getvalue()).decode()}]}
    with Server(ImageService(lambda seen: Scripted(body=body))) as server:
        made(tmp_path, server, count=1)
    with Image.open(tmp_path / "out" / "painter" / "0.png") as stored, Image.open(file) as sent:
        assert stored.format == "PNG"
        assert stored.convert("RGB").tobytes() == sent.convert("RGB").tobytes()


@pytest.mark.parametrize("edits", [False, True])
def test_a_refusal_is_one_of_its_prompt_and_source_alone(tmp_path: Path, edits: bool) -> None:
    refused = Scripted(status=400, body={"error": {"code": "moderation_blocked", "message": "not this"}})
    todo(tmp_path, 1, edits=edits)
    with Server(ImageService(lambda seen: refused)) as server:
        assert len(made(tmp_path, server).refused) == 1
    if edits:
        (tmp_path / "source.png").write_bytes(picture("green"))
    else:
        todo(tmp_path, 1, i0="a spoon")
    with Server(ImageService()) as server:
        result = made(tmp_path, server)
    assert (result.made, result.refused) == (1, [])


def once(answer: Scripted) -> Callable[[Seen], Scripted | None]:
    """The first request for each image gets an answer of its own."""
    return lambda seen: answer if seen.nth == 1 else None


@pytest.mark.parametrize("edits", [False, True])
@pytest.mark.parametrize(
    "answer",
    [
        Scripted.fault(429, retry_after=0), Scripted.fault(503, retry_after=0), Scripted.fault(500), Scripted.fault("drop_before"),
        Scripted.fault("drop_after"), Scripted.fault("html"), Scripted(body={"data": [{"b64_json": "iVBORw0KGgo="}]}),
    ],
    ids=["429", "503", "500", "drop_before", "drop_after", "html", "half an image"],
)  # fmt: skip
def test_a_fault_costs_no_image_and_the_ledger_never_says_less_than_was_billed(
    tmp_path: Path, answer: Scripted, edits: bool
) -> None:
    service = ImageService(once(answer))
    todo(tmp_path, edits=edits)
    with Server(service) as server:
        result = made(tmp_path, server, max_cost=1.0)
    money = ledger(tmp_path).money()
    assert (result.made, result.failed) == (6, [])
    assert {seen.path for seen in server.requests} == {f"/v1/images/{'edits' if edits else 'generations'}"}
    assert money.spent + money.uncertain >= service.billed - 1e-9


@pytest.mark.parametrize("edits", [False, True])
def test_under_faults_at_random_the_cap_holds_against_what_the_service_billed(tmp_path: Path, edits: bool) -> None:
    for seed in range(6):
        dice = random.Random(seed)
        faults = [
            None,
            None,
            Scripted.fault(500),
            Scripted.fault("drop_after"),
            Scripted(body={"data": [{"b64_json": "AAAA"}]}),
        ]
        place = tmp_path / str(seed)
        place.mkdir()
        todo(place, 10, edits=edits)
        service = ImageService(lambda seen, dice=dice, faults=faults: dice.choice(faults))
        with Server(service) as server:
            for _ in range(3):
                made(place, server, count=10, max_cost=0.055, concurrency=3)
        money = ledger(place).money()
        assert service.billed - 1e-9 <= money.spent + money.uncertain <= 0.055 + 1e-9


def test_a_wrong_key_stops_everything_after_what_is_on_its_way(tmp_path: Path) -> None:
    with Server(lambda seen: Scripted.fault("bad_key")) as server:
        result = made(tmp_path, server, count=40, concurrency=2)
        assert server.count() <= 2
    assert result.made == 0
    assert "HTTP 401" in result.stopped


def test_an_image_on_its_way_is_kept_when_another_request_stops_everything(tmp_path: Path) -> None:
    """The first reason is the one that is told."""

    def slow_or_barred(seen: Seen) -> Scripted | None:
        number = int(prompt_of(seen).split()[3])
        return (
            Scripted(status=401, body={"error": {"message": f"no {number}"}}, latency=0.2 * number) if number else None
        )

    with Server(ImageService(slow_or_barred, latency=0.8)) as server:
        result = made(tmp_path, server, count=3, concurrency=3)
        assert server.count() == 3
    assert result.made == 1
    assert "no 1" in result.stopped


def test_an_image_that_cannot_be_written_stops_what_would_be_paid_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(folder: ImageFolder, name: Path, raw: bytes) -> None:
        raise OSError(28, "No space left on device", str(name))

    monkeypatch.setattr(ImageFolder, "_write", full)
    service = ImageService()
    with Server(service) as server:
        result = made(tmp_path, server, count=40, concurrency=2, max_cost=1.0)
    money = ledger(tmp_path).money()
    assert "No space left" in result.stopped
    assert service.images <= 2
    assert money.spent + money.uncertain >= service.billed - 1e-9


def test_two_sessions_at_once_are_refused(tmp_path: Path, server: Server) -> None:
    with (
        closing(FolderLock(tmp_path / "out" / ".generate" / "painter")),
        pytest.raises(UserError, match="another titjudge is writing there"),
    ):
        made(tmp_path, server)
    assert server.count() == 0


def test_the_key_is_in_no_file(tmp_path: Path) -> None:
    error = {"error": {"message": "Incorrect API key provided: sk-test-0123456789"}}
    with Server(ImageService(lambda seen: Scripted(status=400, body=error))) as server:
        result = made(tmp_path, server)
    assert "sk-test" not in json.dumps(result.failed) + result.stopped
    assert not any(b"sk-test" in file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file())


def test_the_sources_of_an_edit_go_with_it_and_are_paid_for(tmp_path: Path) -> None:
    """The worst case of an edit has its sources, as input that is an image."""
    (tmp_path / "s.png").write_bytes(picture("green"))
    (line,) = read_lines(todo(tmp_path, 1))
    write_lines(tmp_path / "todo.jsonl", {**line, "source_image": ["s.png", "source.png"]})
    with Server(ImageService()) as server:
        result = made(tmp_path, server)
        texts, files = form(server.last)
    assert result.made == 1
    assert texts["prompt"] == line["prompt"]
    assert files == [("image[]", picture("green")), ("image[]", picture("blue"))]
    (listed,) = read_lines(tmp_path / "out" / "metadata.jsonl")
    assert [Path(source).name for source in listed["source_image"]] == ["s.png", "source.png"]
    dear = hosted_maker("openai/gpt-image-2", {"quality": "low", "size": "1024x1024"}, 20.0, [], {})
    plain = ImageRequest("a.png", "make it blue", 0)
    edit = replace(plain, sources=(tmp_path / "s.png",))
    assert (dear.most([edit]) or 0) - (dear.most([plain]) or 0) == pytest.approx(7_168 * 8e-6)


def test_two_models_go_prompt_by_prompt_and_none_is_begun_while_one_is_away(tmp_path: Path) -> None:
    service = ImageService(
        lambda seen: Scripted(status=503) if seen.model == "bad" and service.images >= 20 else None, latency=0.02
    )
    file, out = todo(tmp_path, 60), tmp_path / "out"
    with Server(service) as server:
        makings = []
        for name in ("good", "bad"):
            keys = {"base_url": server.openai, "concurrency": 4, "patience": 1, "max_cost": 5.0}
            wanted = list(read_wanted(file, out, name, []))
            model = hosted_maker(f"openai/{name}", {}, 20.0, [f"openai/{name}={PRICE}"], keys)
            makings.append(Making(wanted, model, Generated(len(wanted)), lambda progress: None))
        generate_all(makings, out, say=lambda line: None, by_prompt=True)
    good, bad = (one.progress for one in makings)
    assert "no answer for 1 seconds" in good.stopped
    assert bad.made >= 8
    assert good.made <= bad.made + 16
    assert len(good.untried) == 60 - good.made
    paid = [RunFolder(out / ".generate" / name).money().spent for name in ("good", "bad")]
    assert paid == pytest.approx([good.made * PRICE, bad.made * PRICE])


def test_an_edit_whose_source_is_gone_is_not_asked_for(tmp_path: Path) -> None:
    todo(tmp_path, 2, edits=True)
    failed: list[tuple[str, str]] = []
    wanted = list(read_wanted(tmp_path / "todo.jsonl", tmp_path / "out", "painter", failed))
    (tmp_path / "source.png").unlink()
    with Server(ImageService()) as server:
        result = generate(wanted, tmp_path / "out", maker(server, max_cost=1.0), failed, lambda progress: None)
        assert server.count() == 0
    assert ledger(tmp_path).money().spent == ledger(tmp_path).money().uncertain == 0
    assert [("source.png" in reason) for _, reason in result.failed] == [True, True]


@pytest.mark.parametrize(
    ("model", "edits"),
    [
        ("openai/gpt-image-2", True), ("openai/dall-e-3", False), ("litellm/openai/dall-e-3", False),
        ("litellm/black_forest_labs/flux-kontext-pro", True), ("gemini/gemini-2.5-flash-image", True),
        ("gemini/imagen-4.0-generate-001", False),
    ],
)  # fmt: skip
def test_a_model_says_whether_it_makes_edits(model: str, edits: bool) -> None:
    assert hosted_maker(model, {}, 20.0, [f"{model}=0.01"], {}).makes_edits == edits


def test_an_edit_is_not_paid_for_by_a_model_without_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = todo(tmp_path, 3, edits=True)
    first, *edits = read_lines(file)
    write_lines(file, {key: first[key] for key in ("prompt", "image")}, *edits)
    monkeypatch.setattr(OpenAIImages, "source_tokens", 0)
    with Server(ImageService()) as server:
        with pytest.raises(
            ConfigError,
            match=r"painter cannot use source images, but 2 of 3 images are edits. Use a model that makes edits",
        ):
            made(tmp_path, server, max_cost=1.0)
        assert server.count() == 0
        write_lines(file, {key: first[key] for key in ("prompt", "image")})
        assert made(tmp_path, server, max_cost=1.0).made == 1


@pytest.mark.parametrize("edits", [False, True])
def test_an_image_of_another_prompt_or_source_is_named_and_made_anew_once_it_is_deleted(
    tmp_path: Path, edits: bool
) -> None:
    def change() -> None:
        if edits:
            (tmp_path / "source.png").write_bytes(picture("green"))
        else:
            todo(tmp_path, 3, i1="another scene")

    todo(tmp_path, 3, edits=edits)
    service = ImageService()
    with Server(service) as server:
        made(tmp_path, server)
        change()
        result = made(tmp_path, server)
        stale = [0, 1, 2] if edits else [1]
        assert [name for name, _ in result.failed] == [f"row {number + 1}, painter/{number}.png" for number in stale]
        what = "made from another source image" if edits else "made of another prompt"
        assert all(reason.startswith(f"it is there, {what}: delete the file") for _, reason in result.failed)
        assert (result.there, service.images) == (3 - len(stale), 3)
        (tmp_path / "out" / "painter" / "1.png").unlink()
        assert (made(tmp_path, server).made, service.images) == (1, 4)
        again = made(tmp_path, server)
    assert (len(again.failed), again.there, service.images) == (len(stale) - 1, 4 - len(stale), 4)
    folder = Folder(SuiteInputs(image_roots=(tmp_path,)))
    items = [item for item in folder.load(tmp_path / "out") if isinstance(item, Item)]
    assert len(items) == 3  # the image that was made anew is listed once
    assert {item.prompt for item in items if item.id == "painter/1.png"} == {
        "a scene with 1 cubes" if edits else "another scene"
    }


@pytest.mark.parametrize("way", ["background", "unread"])
def test_an_image_on_its_way_is_kept_when_the_process_is_stopped(tmp_path: Path, way: str) -> None:
    """Also if a shell has started it in the background, with Ctrl-C ignored, or if nobody reads its lines any more."""
    stopped = threading.Event()

    def answer(seen: Seen) -> None:
        if service.images == 2:
            os.kill(os.getpid(), signal.SIGTERM if way == "background" else signal.SIGINT)
            stopped.wait(5)

    def say(line: str) -> None:
        stopped.set()
        if way == "unread":
            raise BrokenPipeError

    service, before = ImageService(answer), signal.getsignal(signal.SIGINT)
    wanted = list(read_wanted(todo(tmp_path), tmp_path / "out", "painter", []))
    with Server(service) as server, terminated_like_ctrl_c():
        one = maker(server, concurrency=1)
        signal.signal(signal.SIGINT, signal.SIG_IGN if way == "background" else signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                generate(wanted, tmp_path / "out", one, [], lambda progress: None, say=say)
        finally:
            signal.signal(signal.SIGINT, before)
    assert stopped.is_set()
    assert len(list((tmp_path / "out" / "painter").glob("*.png"))) == service.images == 3
