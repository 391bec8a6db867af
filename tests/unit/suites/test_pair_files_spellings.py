"""A name in several spellings is one name; files are opened by their real names; what an operating system leaves is skipped."""

import unicodedata
from pathlib import Path

import pytest
from builders import png, write_lines
from commands import cli
from loading import loaded, loaded_with_notes

from titjudge.core.types import Item
from titjudge.suites.folder import Folder
from titjudge.suites.pair_files import read_pairs

NAMES = ["café", "고양이", "ガラス"]


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


@pytest.mark.parametrize(("file", "listed"), [(nfd, nfc), (nfc, nfd)])
@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_found_by_its_name_in_the_other_unicode_form(tmp_path: Path, name: str, file, listed) -> None:  # type: ignore[no-untyped-def]
    images = [png(tmp_path / kind / file(name) / f"{file(name)}.png") for kind in ("texts", "table", "list")]
    (images[0].parent / f"{listed(name)}.txt").write_text("a cat")
    (tmp_path / "table" / "m.csv").write_text(f"image,prompt\n{listed(name)}/{listed(name)}.png,a cat\n")
    (tmp_path / "list" / "prompts.csv").write_text(f"id,prompt\n{listed(name)},a cat\n")
    for place, image in zip(("texts", "table/m.csv", "list"), images, strict=True):
        (item,), bad = loaded(tmp_path / place)
        assert (item.prompt, item.image, bad) == ("a cat", image, {})
        assert item.id == f"{nfc(name)}/{nfc(name)}.png"
        assert {item.generator, item.prompt_id} <= {nfc(name), "", "a cat"}


def test_two_files_whose_names_look_the_same_are_two_images(tmp_path: Path) -> None:
    for form in (nfc, nfd):
        png(tmp_path / f"{form('é')}.png")
    (tmp_path / "é.txt").write_text("a cat")
    items, bad = loaded(tmp_path)
    assert sorted(item.id for item in items) == ["é.png", "é.png (2)"]
    assert (len({item.image for item in items}), {item.prompt_id for item in items}, bad) == (2, {"é"}, {})


@pytest.mark.parametrize("kind", ["csv", "jsonl", "images.jsonl"])
def test_generators_and_prompts_that_differ_by_blanks_are_one_and_a_note_reports_it(tmp_path: Path, kind: str) -> None:
    generators = ["flux", "flux ", " flux", "flux\u00a0", "flux\u200b", "Flux"]
    rows = [
        {"image": f"{n}.png", "prompt": f"thing {n % 2}{' ' * (n // 2)}", "generator": g}
        for n, g in enumerate(generators)
    ]
    for row in rows:
        png(tmp_path / row["image"])
    place = tmp_path / f"m.{kind}"
    if kind == "csv":
        place.write_text("image,prompt,generator\n" + "".join(f"{','.join(row.values())}\n" for row in rows))
    elif kind == "jsonl":
        write_lines(place, *rows)
    else:
        place = tmp_path
        write_lines(tmp_path / "images.jsonl", *({**row, "prompt_id": row["prompt"]} for row in rows))
        write_lines(
            tmp_path / "prompts.jsonl", *({"prompt_id": f"thing {n}", "prompt": f"thing {n}"} for n in range(2))
        )
    items, bad, notes = loaded_with_notes(place)
    assert ({item.generator for item in items}, {item.prompt_id for item in items}) == (
        {"flux", "Flux"},
        {"thing 0", "thing 1"},
    )
    assert (len(items), bad) == (6, {})
    assert [note for note in notes if "5 spellings" in note and "'flux'" in note]
    assert [note for note in notes if "3 spellings" in note and "'thing 0'" in note]


@pytest.mark.parametrize(
    "stray",
    [
        "._0.png",
        ".DS_Store",
        "Thumbs.db",
        "desktop.ini",
        ".thumbs/0.png",
        "__MACOSX/m/0.png",
        "m/._0.txt",
        "@eaDir/0.png",
    ],
)
@pytest.mark.parametrize("layout", ["list", "texts", "table"])
def test_what_an_operating_system_leaves_is_skipped_and_counted(tmp_path: Path, layout: str, stray: str) -> None:
    for n in range(2):
        png(tmp_path / "m" / f"{n}.png")
        if layout == "texts":
            (tmp_path / "m" / f"{n}.txt").write_text(f"thing {n}")
    if layout == "list":
        (tmp_path / "prompts.txt").write_text("thing 0\nthing 1\n")
    elif layout == "table":
        (tmp_path / "m" / "metadata.csv").write_text("file_name,text\n0.png,thing 0\n1.png,thing 1\n")
        (tmp_path / "m" / "._metadata.csv").write_bytes(b"\0\5\x16\7")
    (tmp_path / stray).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / stray).write_bytes(b"\0\5\x16\7")
    items, bad, notes = loaded_with_notes(tmp_path)
    assert ({item.id: item.prompt for item in items}, bad) == ({"m/0.png": "thing 0", "m/1.png": "thing 1"}, {})
    skipped = 1 + (layout == "table")
    assert [note for note in notes if note.startswith(f"skipped {skipped} hidden or system file")]


def test_the_command_reports_what_it_skips_and_merges(tmp_path: Path) -> None:
    for generator in ("x", "x\u00a0"):
        png(tmp_path / "data" / generator / "0.png")
    (tmp_path / "data" / "x" / "._0.png").write_bytes(b"x")
    (tmp_path / "data" / "prompts.csv").write_text("id,prompt\n0,a cat\n")
    out = cli(tmp_path, "judge", "data", "--captioner", "fake/any", "--metric", "tit", "--dry-run")
    assert "1 generator x 1 prompt x 2 images" in out
    assert "2 spellings count as one generator, 'x'" in out
    assert "skipped 1 hidden or system file, such as x/._0.png" in out


def test_pairs_name_images_in_any_unicode_form(tmp_path: Path) -> None:
    for generator in "ab":
        png(tmp_path / generator / f"{nfd('é')}.png")
    write_lines(tmp_path / "prompts.jsonl", {"prompt_id": nfd("é"), "prompt": "a cat"})
    listed = [{"image": f"{g}/{nfd('é')}.png", "prompt_id": nfc("é"), "generator": g} for g in "ab"]
    write_lines(tmp_path / "images.jsonl", *listed)
    pair = {"prompt_id": "é ", "image_a": f"a/{nfd('é')}.png", "image_b": f"b/{nfc('é')}.png", "preference": "a"}
    write_lines(tmp_path / "pairs.jsonl", pair)
    battle = {"prompt_id": nfd("é"), "model_a": "a ", "model_b": "b", "winner": "model_a"}
    ids = [item.id for item in Folder().items(tmp_path) if isinstance(item, Item)]
    for found in (
        Folder().pairs(tmp_path),
        read_pairs(write_lines(tmp_path / "battles.jsonl", battle), items=lambda: loaded(tmp_path)[0]),
    ):
        assert [(found[0].a, found[0].b, found[0].prompt_id)] == [(*ids, "é")]
