"""Spreadsheets (.xlsx) as manifests: the values that are saved in them, and nothing that is to be computed."""

import io
import re
import sys
import warnings
import zipfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from commands import cli
from loading import loaded
from PIL import Image

from titjudge.core.errors import DataError, MissingExtra
from titjudge.data.tables import scan_table, table_columns

openpyxl: Any = pytest.importorskip("openpyxl", reason="needs `pip install 'titjudge[xlsx]'`")
ROWS = [["image", "prompt", "model", "seed"], ["a.png", "a cat", "x", 3], ["b.png", "a dog", "x"]]


def book(file: Path, *rows: list[Any], second: list[Any] | None = None) -> Path:
    made = openpyxl.Workbook()
    for row in rows:
        made.active.append(row)
    if second is not None:
        made.create_sheet("other").append(second)
    made.save(file)
    for name in ("a", "b"):
        Image.new("RGB", (8, 8), "red").save(file.parent / f"{name}.png")
    return file


def changed(file: Path, part: str, change: Callable[[str], str]) -> Path:
    """Write a part of a file anew."""
    with zipfile.ZipFile(file) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    parts[part] = change(parts[part].decode()).encode()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
        for name, content in parts.items():
            new.writestr(name, content)
    return file


SHEET = "xl/worksheets/sheet1.xml"


def test_the_first_sheet_is_a_manifest(tmp_path: Path) -> None:
    file = book(tmp_path / "m.xlsx", [], *ROWS, [None, None], ["b.png", None, "x"], second=["no"])
    items, bad = loaded(file)
    assert [(item.id, item.prompt, item.generator, item.sample) for item in items] == [
        ("a.png", "a cat", "x", 3),
        ("b.png", "a dog", "x", 0),
    ]
    assert bad == {"b.png": "the prompt must be a text, not None"}
    assert table_columns(file) == ("image", "prompt", "model", "seed")
    assert [number for number, _ in scan_table(file)][:2] == [3, 4]


def test_formulas_have_the_value_that_was_saved_with_them_and_errors_none(tmp_path: Path) -> None:
    file = book(tmp_path / "m.xlsx", ["image", "prompt"], ["a.png", "=WEBSERVICE(1)"], ["a.png", "#REF!"])
    assert [record for _, record in scan_table(file)] == [{"image": "a.png", "prompt": None}] * 2
    changed(file, SHEET, lambda text: re.sub(r'<c r="B2">(.*?)<v ?/>', r'<c r="B2" t="str">\1<v>a cat</v>', text))
    assert [record["prompt"] for _, record in scan_table(file) if isinstance(record, dict)] == ["a cat", None]


def test_cells_that_are_no_texts_can_be_written_as_json(tmp_path: Path) -> None:
    file = book(tmp_path / "m.xlsx", ["n", "day", None, "yes"], [2.5, datetime(2026, 1, 2), "no name", True])
    ((_, record),) = scan_table(file)
    assert record == {"n": 2.5, "day": "2026-01-02 00:00:00", "yes": True}


def test_a_missing_column_and_a_missing_package_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = book(tmp_path / "m.xlsx", ["image", "words"], ["a.png", "a cat"])
    with pytest.raises(DataError, match=r"m\.xlsx:1: the column 'prompt' is missing \(there are: image, words\)"):
        loaded(file)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtra, match=r"pip install 'titjudge\[xlsx\]'"):
        loaded(file)


BOMB = "<!DOCTYPE s [" + "".join(
    f'<!ENTITY e{k} "{f"&e{k - 1};" * 10 if k else "ha" * 50}">' for k in range(9)
) + "]>"  # fmt: skip


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        (SHEET, lambda text: BOMB + text.replace("a cat", "&e8;"), "cannot be read as xlsx"),
        (SHEET, lambda text: text.replace("a cat", "x" * 40_000), "a cell has 40,000 characters"),
        (SHEET, lambda text: text + " " * 2**26, "it unpacks to 64 MiB, more than 64. Save it as CSV"),
        (SHEET, lambda text: text.replace('r="A1"', 'r="ZZZ1"'), ""),
        (SHEET, lambda text: text.replace('r="C1"', 'r="IW1"'), "more than 256 columns"),
        (SHEET, lambda text: text.replace('<row r="3"', '<row r="999999999999"'), ""),
        (
            SHEET,
            lambda text: text.replace('t="inlineStr"><is><t>a.png</t></is>', 't="s"><v>99999</v>'),
            "cannot be read as xlsx",
        ),
        (SHEET, lambda _: "", "cannot be read as xlsx"),
        ("xl/workbook.xml", lambda text: re.sub("<sheet .*?/>", "", text), "no sheet"),
    ],
)
def test_a_hostile_spreadsheet_is_one_line(tmp_path: Path, part: str, change: Any, message: str) -> None:
    file = changed(book(tmp_path / "m.xlsx", *ROWS), part, change)
    said = "; ".join(loaded_or_error(file))
    assert message in said
    assert "\n" not in said
    assert len(said) < 500


def loaded_or_error(file: Path) -> list[str]:
    try:
        return list(loaded(file)[1].values())
    except DataError as error:
        return [str(error)]


def test_a_sheet_that_says_it_is_as_large_as_can_be_is_read_at_once(tmp_path: Path) -> None:
    file = book(tmp_path / "m.xlsx", *ROWS)
    changed(file, SHEET, lambda text: text.replace('ref="A1:D3"', 'ref="A1:XFD1048576"'))
    assert [item.id for item in loaded(file)[0]] == ["a.png", "b.png"]


def test_warnings_of_the_reader_do_not_reach_the_terminal(tmp_path: Path) -> None:
    extension = '<extLst><ext uri="{CCE6A557-97BC-4B89-ADB6-D9C93CAAB3DF}"/></extLst>'
    file = changed(
        book(tmp_path / "m.xlsx", *ROWS), SHEET, lambda text: text.replace("</worksheet>", f"{extension}</worksheet>")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(loaded(file)[0]) == 2


def test_every_damaged_spreadsheet_gives_rows_or_one_error(tmp_path: Path) -> None:
    file, random = book(tmp_path / "m.xlsx", *ROWS), Random(2)
    whole = file.read_bytes()
    with zipfile.ZipFile(file) as parts:
        contents = {name: parts.read(name) for name in parts.namelist()}
    for number in range(200):
        damaged = bytearray(whole)
        if number % 2:  # inside of a part, which zip would notice by its checksum
            name = random.choice([SHEET, "xl/workbook.xml", "xl/styles.xml"])
            part = bytearray(contents[name])
            for _ in range(3):
                part[random.randrange(len(part))] = random.choice([*b'<>/"09', random.randrange(256)])
            out = io.BytesIO()
            with zipfile.ZipFile(out, "w") as new:
                for other, content in contents.items():
                    new.writestr(other, bytes(part) if other == name else content)
            damaged = bytearray(out.getvalue())
        else:
            damaged[random.randrange(len(damaged))] = random.randrange(256)
            damaged = damaged[: random.choice([len(damaged), random.randrange(len(damaged))])]
        file.write_bytes(damaged)
        assert all("\n" not in said for said in loaded_or_error(file))


def test_the_command_judges_a_spreadsheet(tmp_path: Path) -> None:
    book(tmp_path / "m.xlsx", ["file_name", "caption"], ["a.png", "a cat"])
    said = cli(tmp_path, "judge", "--data", "m.xlsx", "--captioner", "fake/any", "--metric", "tit", "--dry-run")
    assert "'file_name' is read as image, 'caption' is read as prompt" in said
