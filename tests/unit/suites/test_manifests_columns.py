"""Which column is the prompt, the generator or the sample: if several readings are possible, nothing is judged."""

import csv
import json
import shlex
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from builders import png
from commands import cli
from loading import loaded_with_notes

from titjudge.core.errors import DataError, Unclear
from titjudge.suites.manifests import may_be_prompt

Row = dict[str, Any]


def table(folder: Path, kind: str, rows: list[Row]) -> Path:
    """Write a manifest; its images are made."""
    for row in rows:
        png(folder / row["image"])
    place = folder / f"m.{kind}"
    match kind:
        case "csv":
            with place.open("w", newline="") as file:
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
        case "jsonl":
            place.write_text("".join(json.dumps(row) + "\n" for row in rows))
        case "json":
            place.write_text(json.dumps(rows))
        case "parquet":
            pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
            parquet.write_table(pyarrow.Table.from_pylist(rows), place)
        case "xlsx":
            book = pytest.importorskip("openpyxl").Workbook()
            for values in (list(rows[0]), *(list(row.values()) for row in rows)):
                book.active.append(values)
            book.save(place)
    return place


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json", "parquet", "xlsx"])
@pytest.mark.parametrize(
    "names",
    [
        ("caption", "text"),
        ("prompt_zh", "prompt_en"),
        ("original_prompt", "revised_prompt"),
        ("prompt", "revised_prompt"),
        ("txt", "long_caption", "short_caption"),
        ("Prompt (English)", "Prompt (German)"),
        ("promptEN", "promptDE"),
    ],
)
def test_columns_that_may_be_the_prompt_are_asked_about(tmp_path: Path, kind: str, names: tuple[str, ...]) -> None:
    rows = [{"image": f"{n}.png", **{name: f"{name} {n}" for name in names}} for n in range(2)]
    place = table(tmp_path, kind, rows)
    with pytest.raises(Unclear) as caught:
        loaded_with_notes(place)
    assert sorted(options for options, _ in caught.value.options) == sorted(
        f"--columns {shlex.quote(f'prompt={name}')}" for name in names
    )
    items, bad, notes = loaded_with_notes(place, prompt=[names[1]])
    assert ([item.prompt for item in items], bad) == ([f"{names[1]} 0", f"{names[1]} 1"], {})
    assert [note for note in notes if note.startswith("not used: ") and f"{names[0]} (2 values)" in note]


@pytest.mark.parametrize(
    "rows",
    [
        [{"caption": "a cat", "text": "a cat"}, {"caption": "a dog", "text": "a dog "}],
        [{"caption": "", "text": "a cat"}, {"caption": "", "text": "a dog"}],
        [{"caption": "a cat", "negative_prompt": "ugly"}, {"caption": "a dog", "negative_prompt": "bad"}],
        [{"prompt": "a cat", "caption": "x"}, {"prompt": "a dog", "caption": "y"}],
        [{"prompt": "a cat", "prompt_zh": "x"}, {"prompt": "a dog", "prompt_zh": "y"}],
        [{"prompt": "a cat", "prompt_type": "x"}, {"prompt": "a dog", "prompt_type": "y"}],
    ],
)
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_one_column_that_can_be_the_prompt_is_taken(tmp_path: Path, kind: str, rows: list[Row]) -> None:
    items, bad, _ = loaded_with_notes(
        table(tmp_path, kind, [{"image": f"{n}.png", **row} for n, row in enumerate(rows)])
    )
    assert ([item.prompt.strip() for item in items], bad) == (["a cat", "a dog"], {})


@pytest.mark.parametrize(
    "name", ["prompt_id", "negative_prompt", "text_words", "prompt_hash", "caption_length", "context", "image"]
)
def test_columns_with_other_names_are_no_prompts(name: str) -> None:
    assert not may_be_prompt(name)


def crossed(*sizes: int, prompts: int = 3) -> list[Row]:
    """Rows in which the columns `Modell`, `Saat`, `cfg` have so many values, each with each prompt."""
    names = ["Modell", "Saat", "cfg"][: len(sizes)]
    values = product(*(range(size) for size in sizes))
    cells = [dict(zip(names, combination, strict=True)) for combination in values]
    return [
        {"prompt": f"thing {p}", **{k: f"{k[0]}{v}" for k, v in cell.items()}} for p in range(prompts) for cell in cells
    ]


def with_images(rows: list[Row]) -> list[Row]:
    return [{"image": f"{n}.png", **row} for n, row in enumerate(rows)]


@pytest.mark.parametrize("missing", [0, 1])
@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((2,), {"generator=Modell", "sample=Modell"}),
        ((3,), {"generator=Modell", "sample=Modell"}),
        ((3, 2), {"generator=Modell,sample=Saat", "generator=Saat,sample=Modell"}),
        ((2, 2, 2), {f"{role}={name}" for role in ("generator", "sample") for name in ("Modell", "Saat", "cfg")}),
    ],
)
def test_a_column_crossed_with_the_prompts_is_asked_about(
    tmp_path: Path, sizes: tuple[int, ...], options: set[str], missing: int
) -> None:
    rows = with_images(crossed(*sizes))
    place = table(tmp_path, "csv", rows[missing:])
    with pytest.raises(Unclear) as caught:
        loaded_with_notes(place)
    assert {said.removeprefix("--columns ") for said, _ in caught.value.options} == options


def test_what_the_user_has_said_ends_the_questions(tmp_path: Path) -> None:
    place = table(tmp_path, "csv", with_images(crossed(3, 2, 2)))
    for columns in ({"generator": ["Modell"]}, {"sample": ["Saat"]}):
        with pytest.raises(Unclear):
            loaded_with_notes(place, **columns)
    items, bad, notes = loaded_with_notes(place, generator=["Modell"], sample=["Saat"])
    assert ({item.generator for item in items}, len(items), bad) == ({"M0", "M1", "M2"}, 36, {})
    assert "not used: cfg (2 values)" in notes


@pytest.mark.parametrize(
    "column",
    [
        [f"{n * 977 % 1000}" for n in range(12)],  # of each image its own
        [f"theme {n // 4 % 2}" for n in range(12)],  # of each prompt one
        ["x"] * 12,
        ["yes", "yes", "no", "yes", "no", "no", "no", "yes", "yes", "yes", "yes", "no"],  # anything
        [""] * 12,
    ],
)
def test_other_columns_are_only_reported(tmp_path: Path, column: list[str]) -> None:
    rows = [{"image": f"{n}.png", "prompt": f"thing {n // 4}", "note": cell} for n, cell in enumerate(column)]
    items, bad, notes = loaded_with_notes(table(tmp_path, "csv", rows))
    assert (len(items), bad) == (12, {})
    assert len(notes) == 1
    assert notes[0].startswith("not used: note")
    assert (f"({len({*column})} value" in notes[0]) == any(column)


def test_a_column_that_repeats_the_samples_or_rates_the_images_is_no_factor(tmp_path: Path) -> None:
    rows = [
        {"image": f"{n}.png", "prompt": f"thing {n // 2}", "seed": n % 2, "variant": "ab"[n % 2], "rating": 1 + n % 2}
        for n in range(8)
    ]
    items, bad, notes = loaded_with_notes(table(tmp_path, "csv", rows))
    assert ([item.sample for item in items], bad) == ([0, 1] * 4, {})
    assert "not used: variant (2 values), rating (2 values)" in notes


def test_one_error_names_all_columns_that_are_missing(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("Bild,Satz\n1.png,a cat\n")
    for columns in ({}, {"image": ["image"], "prompt": ["prompt"]}):
        with pytest.raises(DataError, match=r"m\.csv:1: .*'image', 'prompt' are missing \(there are: Bild, Satz\)"):
            loaded_with_notes(tmp_path / "m.csv", **columns)


def test_a_table_of_descriptions_needs_its_prompts(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("image,description\n1.png,a cat\n")
    with pytest.raises(DataError, match="'prompt' is missing"):
        loaded_with_notes(tmp_path / "m.csv")


def test_the_printed_commands_can_be_run(tmp_path: Path) -> None:
    rows = [
        {"image": f"{n}.png", "text": row["prompt"], "caption": f"x {n}", **row} for n, row in enumerate(crossed(2))
    ]
    table(tmp_path, "csv", [{name: cell for name, cell in row.items() if name != "prompt"} for row in rows])
    command = "judge m.csv --columns image=image --captioner fake/any --metric tit --dry-run"
    for chosen in ("prompt=text", "generator=Modell"):
        said = cli(tmp_path, *shlex.split(command), code=2)
        (line,) = (line for line in said.splitlines() if f"{chosen}   #" in line)
        command = line[line.index("judge m.csv") :].partition("   #")[0]
    assert "2 generators x 3 prompts" in cli(tmp_path, *shlex.split(command))


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json"])
@pytest.mark.parametrize("names", [("caption", "text"), ("prompt_zh", "prompt_en"), ("prompt", "prompt_long")])
@pytest.mark.parametrize("ids", [True, False])
def test_a_list_with_several_columns_that_may_be_the_prompt_is_asked_about(
    tmp_path: Path, kind: str, names: tuple[str, ...], ids: bool
) -> None:
    for n in range(3):
        png(tmp_path / "m" / f"{n}.png")
    rows = [{**({"id": n} if ids else {}), **{name: f"{name} {n}" for name in names}} for n in range(3)]
    with (tmp_path / f"prompts.{kind}").open("w", newline="") as file:
        if kind == "csv":
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        else:
            file.write(json.dumps(rows) if kind == "json" else "".join(json.dumps(row) + "\n" for row in rows))
    asked = ("judge", ".", "--captioner", "fake/any", "--metric", "tit", "--dry-run")
    said = cli(tmp_path, *asked, code=2)
    lines = [line.partition("   #")[0] for line in said.splitlines() if "--prompt-file" in line]
    assert sorted(line.strip("'").rpartition(",")[2] for line in lines) == sorted(names)
    (line,) = (line for line in lines if line.strip("'").endswith(f",{names[1]}"))
    assert f'<- "{names[1]} 0"' in cli(tmp_path, *shlex.split(line[line.index("judge") :]))


def test_an_object_with_one_list_of_prompts_is_a_list(tmp_path: Path) -> None:
    for n in range(2):
        png(tmp_path / "m" / f"{n}.png")
    (tmp_path / "prompts.json").write_text('{"prompts": ["a cat", "a dog"]}')
    items, bad, _ = loaded_with_notes(tmp_path)
    assert ([item.prompt for item in items], bad) == (["a cat", "a dog"], {})
