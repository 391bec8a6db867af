"""Images of benchmarks as the makers' scripts leave them: each is read with the command of docs/how-to/judge-images.md. Grids are cut."""

import hashlib
import io
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import write_lines
from commands import cli
from pages import page_text
from PIL import Image
from suite_data import corebench, dpg, oneig, tiif, unigenbench, wise

from titjudge.core.errors import ConfigError, DataError
from titjudge.core.types import InvalidItem, Item
from titjudge.data import images
from titjudge.data.grids import Grid
from titjudge.suites.samples import cells

COLOURS = ((255, 0, 0), (0, 255, 0), (0, 0, 255), (9, 9, 9))


def image(*places: Path, size: tuple[int, int] = (8, 6)) -> None:
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        grid = Image.new("RGB", size)
        for at, colour in enumerate(COLOURS):
            grid.paste(colour, (at % 2 * size[0] // 2, at // 2 * size[1] // 2, size[0], size[1]))
        grid.save(place)


def geneval_tree(root: Path) -> None:
    write_lines(
        root / "evaluation_metadata.jsonl", *({"tag": "single_object", "prompt": f"a cat {n}"} for n in range(2))
    )
    image(*(root / f"outputs/sdxl/{n:05}/samples/{k:04}.png" for n in range(2) for k in range(2)))


def dpg_tree(root: Path) -> None:
    (root / "dpg_bench").mkdir()
    dpg(root / "dpg_bench")
    image(root / "dpg_out" / "midjourney3.png", root / "dpg_out" / "7.png")


def unigenbench_tree(root: Path) -> None:
    (root / "UniGenBench").mkdir()
    unigenbench(root / "UniGenBench")
    image(*(root / f"UniGenBench/eval_data/en/flux/{n}_{k}.png" for n in range(2) for k in range(2)))


def corebench_tree(root: Path) -> None:
    (root / "T2I-CoReBench").mkdir()
    corebench(root / "T2I-CoReBench")
    image(*(root / f"T2I-CoReBench/logs/flux/{task}/{task}-001-{k}.png" for task in ("C-MI", "R-LR") for k in range(2)))


def oneig_tree(root: Path) -> None:
    (root / "OneIG-Benchmark").mkdir()
    oneig(root / "OneIG-Benchmark")
    image(root / "OneIG-Benchmark/images/anime/flux/000.webp")


def wise_tree(root: Path) -> None:
    (root / "WISE").mkdir()
    wise(root / "WISE")
    image(*(root / f"wise_out/flux/{n}.png" for n in (1, 410, 701)))


def tiif_tree(root: Path) -> None:
    tiif(root / "TIIF")
    image(
        *(
            root / f"TIIF/images/{kind}/flux/{length}_description/0.png"
            for kind in ("text", "style")
            for length in ("short", "long")
        )
    )


def qwen_tree(root: Path) -> None:
    row = {"prompt_en": "a cat", "dims_en": "Quality / Detail / Noise"}
    write_lines(
        root / "qwen_bench" / "bench.jsonl",
        *({"ID": n, **row, "flux": f"flux/{n}.png", "sd3": f"sd3/{n}.png"} for n in (1, 2)),
    )
    image(*(root / f"qwen_bench/{name}/{n}.png" for name in ("flux", "sd3") for n in (1, 2)))


TREES: dict[str, tuple[Callable[[Path], None], int]] = {
    "GenEval": (geneval_tree, 4),
    "DPG-Bench": (dpg_tree, 8),
    "UniGenBench": (unigenbench_tree, 4),
    "T2I-CoReBench": (corebench_tree, 4),
    "OneIG-Bench": (oneig_tree, 4),
    "WISE": (wise_tree, 3),
    "TIIF-Bench": (tiif_tree, 4),
    "Qwen-Image-Bench": (qwen_tree, 4),
}


def commands() -> dict[str, str]:
    page = page_text("judge-images")
    return dict(re.findall(r"^# (\S+)\npython cli\.py (judge .*)$", page, re.MULTILINE))


@pytest.mark.parametrize("name", TREES)
def test_each_is_read_by_the_command_of_the_page(name: str, tmp_path: Path) -> None:
    make, wanted = TREES[name]
    make(tmp_path)
    words = shlex.split(commands()[name])
    said = cli(tmp_path, *words, "--json", "plan.json", GEMINI_API_KEY="none")
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert (plan["items"], plan["bad_items"]) == (wanted, 0), said


def test_the_page_has_a_command_for_each() -> None:
    assert set(commands()) == set(TREES)


def test_rows_are_ids_where_there_are_none(tmp_path: Path) -> None:
    write_lines(tmp_path / "p.jsonl", {"prompt": "a cat"}, {"prompt": ""}, {"prompt": "a dog"})
    image(tmp_path / "out" / "1.png", tmp_path / "out" / "3.png")
    ask = ("--captioner", "fake/c", "--metric", "tit", "--dry-run", "--json", "plan.json")
    said = cli(tmp_path, "judge", "--images", "out/{prompt_id}.png", "--prompt-file", "p.jsonl:#1,prompt", *ask)
    assert json.loads((tmp_path / "plan.json").read_text())["items"] == 2, said


def test_cells_are_cut_in_order_and_never_written(tmp_path: Path) -> None:
    image(tmp_path / "a.png", size=(9, 7))
    before = sorted(tmp_path.rglob("*"))
    item = Item("a.png", "a cat", tmp_path / "a.png", "g", "p", sample=1)
    found = [each for each in cells([item], "2x2") if isinstance(each, Item)]
    assert [(each.id, each.sample) for each in found] == [(f"a.png (2x2: {k})", k + 3) for k in range(1, 5)]
    for each, colour, size in zip(found, COLOURS, ((4, 3), (5, 3), (4, 4), (5, 4)), strict=True):
        assert each.image is not None
        images.check_header(each.image)
        with Image.open(io.BytesIO(images.read(each.image))) as cell:
            assert (cell.size, cell.getpixel((1, 1))) == (size, colour)
    digests = {hashlib.sha256(images.read(each.image)).hexdigest() for each in found if each.image}
    assert len(digests) == 4
    assert sorted(tmp_path.rglob("*")) == before
    Image.new("RGB", (8, 6), (1, 2, 3)).save(tmp_path / "a.png")  # a changed file is cut anew
    assert found[0].image is not None
    with Image.open(io.BytesIO(images.read(found[0].image))) as cell:
        assert cell.getpixel((0, 0)) == (1, 2, 3)


def test_grids_that_cannot_be_cut_are_named(tmp_path: Path) -> None:
    for text in ("2", "0x2", "2x17", "x", "2x2x2"):
        with pytest.raises(ConfigError, match="--grid must be ROWSxCOLUMNS"):
            Grid.parse(text)
    Image.new("RGB", (1, 1)).save(tmp_path / "small.png")
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n broken")
    for name, message in (("small", "too few for a grid"), ("broken", "cannot be decoded"), ("none", "no such image")):
        with pytest.raises(DataError, match=message):
            images.read(tmp_path / f"{name}.png" / "2x2" / "1")
    image(tmp_path / "a.png")
    with pytest.raises(DataError, match="has no image 5"):
        images.read(tmp_path / "a.png" / "2x2" / "5")
    with pytest.raises(DataError, match="no such image file"):
        images.read(tmp_path / "a.png" / "other" / "1")
    item = Item("a", "a cat", tmp_path / "a.png" / "2x2" / "1")
    (found,) = cells([item], "2x2")
    assert isinstance(found, InvalidItem)


def test_a_run_of_grids_has_samples(tmp_path: Path) -> None:
    image(tmp_path / "data" / "g" / "a.png", tmp_path / "data" / "g" / "b.png", size=(8, 8))
    for name in "ab":
        (tmp_path / "data" / f"{name}.txt").write_text(f"a cat {name}")
    ask = ("--captioner", "fake/c", "--judge", "fake/j", "--metric", "tit-llm", "--grid", "2x2")
    cli(tmp_path, "prompts", "coverage", "--data", "data", "--grid", "2x2", "--images-per-prompt", "4")
    cli(tmp_path, "judge", "--data", "data", *ask, "--dry-run", "--json", "plan.json")
    assert json.loads((tmp_path / "plan.json").read_text())["items"] == 8
    assert "--grid must be ROWSxCOLUMNS" in cli(
        tmp_path, "judge", "--data", "data", *ask[:-1], "two", "--dry-run", code=2
    )
