"""`generate` with a hosted model, killed and interrupted at any moment: nothing paid is lost, and the cap holds.

Each schedule is one of images of prompts, and of edits with a source each.
"""

import signal
import time
from pathlib import Path

import pytest
from commands import cli, start
from image_service import PRICE, ImageService, picture, todo

from tests.kit import Server
from titjudge.runs.folder.run_folder import RunFolder

COUNT = 12
KEY = {"OPENAI_API_KEY": "sk-test-0123456789"}


@pytest.fixture(params=["generations", "edits"])
def endpoint(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the images that are wanted in `tmp_path` are asked for."""
    todo(tmp_path, COUNT, edits=request.param == "edits")
    return f"/v1/images/{request.param}"


def arguments(folder: Path, server: Server, cap: float) -> list[str]:
    return [
        "generate", str(folder / "todo.jsonl"), "--model", "openai/painter", "--image-price", f"openai/painter={PRICE}",
        "--base-url", server.openai, "--max-cost", str(cap), "--concurrency", "3", "--out", str(folder / "out"),
    ]  # fmt: skip


def images(folder: Path) -> list[Path]:
    return sorted((folder / "out" / "painter").glob("*.png"))


def test_killed_at_any_moment_it_goes_on_and_its_ledger_says_no_less_than_was_billed(
    tmp_path: Path, endpoint: str
) -> None:
    service = ImageService(latency=0.15)
    with Server(service) as server:
        for enough in (2, 5, 8):
            process = start(tmp_path, *arguments(tmp_path, server, 1.0), **KEY)
            deadline = time.monotonic() + 60
            while service.images < enough and time.monotonic() < deadline:
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=60)
            assert all(image.read_bytes() == picture() for image in images(tmp_path))  # whole or not there
        cli(tmp_path, *arguments(tmp_path, server, 1.0), **KEY)
        assert {seen.path for seen in server.requests} == {endpoint}
    money = RunFolder(tmp_path / "out" / ".generate" / "painter").money()
    assert len(images(tmp_path)) == COUNT
    assert money.spent + money.uncertain >= service.billed - 1e-9
    assert service.images <= COUNT + 3 * 3  # at most what was on its way at each kill is paid twice


def test_ctrl_c_waits_for_what_is_paid_and_sends_nothing_new(tmp_path: Path, endpoint: str) -> None:
    service = ImageService(latency=1.0)
    with Server(service) as server:
        process = start(tmp_path, *arguments(tmp_path, server, 1.0), **KEY)
        deadline = time.monotonic() + 60
        while service.images < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert {seen.path for seen in server.requests} == {endpoint}
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert len(images(tmp_path)) == service.images == 3
    money = RunFolder(tmp_path / "out" / ".generate" / "painter").money()
    assert (money.spent, money.uncertain) == (pytest.approx(service.billed), 0.0)


def test_a_cap_in_the_middle_ends_with_3_and_says_how_to_go_on(tmp_path: Path, endpoint: str) -> None:
    service = ImageService()
    with Server(service) as server:
        dry = cli(tmp_path, *arguments(tmp_path, server, 0.05), "--dry-run", **KEY)
        assert f"{COUNT} images would be made, 0 are there, $0.1200 at most" in dry
        assert server.count() == 0
        said = cli(tmp_path, *arguments(tmp_path, server, 0.05), "--json", "out.json", code=3, **KEY)
        assert "5 images made, 0 were there, 7 missing" in said
        assert "spent $0.0500" in said
        assert "again with a higher --max-cost" in said
        assert "7 images made, 5 were there" in cli(tmp_path, *arguments(tmp_path, server, 1.0), **KEY)
        assert {seen.path for seen in server.requests} == {endpoint}
    assert service.billed == pytest.approx(COUNT * PRICE)
