"""The copy of a run on a board: without paths of this machine, with checksums and digests that hold."""

from pathlib import Path
from typing import Any

import orjson
from report_runs import picture, score, write_run

from titjudge.core.serialization import checksum_differs, with_checksum
from titjudge.core.types import Item
from titjudge.runs.folder.run_folder import Digests, RunFolder
from titjudge.runs.publishing import published_files


def run_of(folder: Path, **changes: Any) -> RunFolder:
    """A run of two images whose lines have checksums, and whose scores the digests of what was judged."""
    items = [Item(f"{n}.png", "A boat", picture(folder / "img" / f"{n}.png", (n, n, n)), "one", "p1") for n in (1, 2)]
    run = write_run(
        folder / "run", items, [score(item, "tit", 0.5, reason=f"{folder}/img/x.png") for item in items], **changes
    )
    digests = Digests(run.read("items.jsonl"), prompts=True)
    of = [digests.digest(item.id, together=together) for item, together in zip(items, (False, True), strict=True)]
    records = [record | {"of": digest} for record, digest in zip(run.read("scores.jsonl"), of, strict=True)]
    (run.path / "scores.jsonl").write_bytes(b"".join(orjson.dumps(with_checksum(record)) + b"\n" for record in records))
    return run


def copied(run: RunFolder, to: Path) -> RunFolder:
    for name, pieces in published_files(run, lambda path: f"../../images/{path.name}"):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        (to / name).write_bytes(b"".join(pieces))
    return RunFolder(to)


def test_images_are_relative_to_the_copy_and_texts_name_no_folder(tmp_path: Path) -> None:
    copy = copied(run_of(tmp_path / "a"), tmp_path / "board" / "runs" / "run")
    assert [record["image"] for record in copy.read("items.jsonl")] == ["../../images/1.png", "../../images/2.png"]
    assert [item.image for item in copy.judged()] == [tmp_path / "board" / "images" / f"{n}.png" for n in (1, 2)]
    assert {score.reason for score in copy.scores().values()} == {"x.png"}
    for file in copy.path.rglob("*"):
        assert str(tmp_path).encode() not in (file.read_bytes() if file.is_file() else b"")


def test_a_copy_names_no_server_of_its_user(tmp_path: Path) -> None:
    server = "http://gpu-17:8000/v1"
    identity = {"suite": "folder", "judge": {"model": "openai/m", "base_url": server}}
    roles = {"judge": {"model": "openai/m", "base_url": server, "trouble": f"{server}/models: HTTP 500"}}
    copy = copied(run_of(tmp_path / "a", identity=identity, roles=roles), tmp_path / "copy")
    assert b"own-server" in (copy.path / "manifest.json").read_bytes()
    assert not [file for file in copy.path.rglob("*") if file.is_file() and b"gpu-17" in file.read_bytes()]


def test_checksums_and_digests_are_those_of_the_copy(tmp_path: Path) -> None:
    copy = copied(run_of(tmp_path / "a"), tmp_path / "copy")
    assert not any(checksum_differs(record) for record in copy.read("scores.jsonl"))
    assert all("seal" in record for record in copy.read("scores.jsonl"))
    now = Digests(copy.read("items.jsonl"), prompts=True)
    of = {record["item"]: record["of"] for record in copy.read("scores.jsonl")}
    assert of == {"1.png": now.digest("1.png", together=False), "2.png": now.digest("2.png", together=True)}
    assert not checksum_differs(orjson.loads((copy.path / "manifest.json").read_bytes()))


def test_templates_and_suite_of_the_user_go_along_under_their_own_names(tmp_path: Path) -> None:
    overlay, suite = tmp_path / "prompts", tmp_path / "mine.yaml"
    (overlay / "mine").mkdir(parents=True)
    (overlay / "mine" / "ask.md").write_text("Ask.")
    (tmp_path / "secret.md").write_text("secret")
    suite.write_text("name: mine\n")
    identity = {"suite": str(suite), "prompts": str(overlay), "data": str(tmp_path / "a" / "img")}
    run = run_of(tmp_path / "a", identity=identity, prompts={"mine/ask": "0" * 64, "../secret": "0" * 64})
    copy = copied(run, tmp_path / "copy")
    assert copy.manifest().identity == {"suite": "suite.yaml", "prompts": "prompts", "data": "img"}
    assert (copy.path / "prompts" / "mine" / "ask.md").read_text() == "Ask."
    assert (copy.path / "suite.yaml").read_text() == "name: mine\n"
    assert not list(tmp_path.glob("copy/**/secret.md"))
