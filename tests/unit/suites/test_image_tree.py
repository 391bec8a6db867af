"""Trees of images: the path says generator, prompt and sample."""

import os
from pathlib import Path

import pytest
from commands import cli
from loading import sorted_out

from titjudge.core.config import RunConfig
from titjudge.core.errors import ConfigError, DataError, Unclear, UserError
from titjudge.core.types import InvalidItem, Item
from titjudge.runs.folder.identity import identity
from titjudge.suites.image_tree import ImageTree, find_tree
from titjudge.suites.loading import open_suite


@pytest.fixture
def out(tmp_path: Path) -> Path:
    for name in ("a_b/cat_2_0.png", "a_b/cat_2_11.png", "c/007_1.jpg", "c/dog_0.png", "c/x.png", "c/notes.txt"):
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).touch()
    return tmp_path / "out"


def loaded(out: Path, pattern: str, prompts: str) -> tuple[list[Item], dict[str, str], list[str]]:
    notes: dict[str, None] = {}
    items, bad = sorted_out(ImageTree(pattern, prompts).items(out, (), notes))
    return items, bad, list(notes)


def test_fields_of_paths_are_what_an_image_is(out: Path) -> None:
    table = out.parent / "p.csv"
    table.write_text("n;de;en\ncat_2;Katze;a cat\n7;Hund;a dog\n9;;\n")
    items, bad, notes = loaded(out, "{generator}/{prompt_id}_{sample}.{suffix}", f"{table}:n,en")
    assert [(item.id, item.prompt, item.generator, item.prompt_id, item.meta["sample"]) for item in items] == [
        ("a_b/cat_2_0.png", "a cat", "a_b", "cat_2", "0"),
        ("a_b/cat_2_11.png", "a cat", "a_b", "cat_2", "11"),
        ("c/007_1.jpg", "a dog", "c", "7", "1"),
    ]
    assert bad == {
        "p.csv:4": "p.csv:4: 'en' must be a prompt, not ''",
        "c/dog_0.png": f"{table}:n,en has no prompt 'dog'. Add it, or rename the image",
    }
    assert notes == [
        "not used: de (2 values)",
        "1 images do not fit '{generator}/{prompt_id}_{sample}.{suffix}' and are left out",
        "1 of 2 prompts have no image by a_b",
        "1 of 2 prompts have no image by c",
    ]


def test_a_field_that_looks_like_the_generator_is_said(out: Path) -> None:
    table = out.parent / "p.csv"
    table.write_text("id,prompt\ncat_2,a cat\n7,a dog\n")
    note = (
        "{theme} has 2 values, and all images count as one generator's: write {generator} in its place to compare these"
    )
    assert note in loaded(out, "{theme}/{prompt_id}_{sample}.{suffix}", str(table))[2]
    assert note not in loaded(out, "{generator}/{prompt_id}_{sample}.{suffix}", str(table))[2]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("p.jsonl", '{"prompt_id": 7, "text": "a dog"}\nno\n{"id": 1}\n', ""),
        ("p.csv", "index,prompt\n7,a dog\n", ""),
        ("p.txt", "\n\n\n\n\n\n\na dog\n", ""),
        ("p.txt", "\na dog\n", ":6"),
    ],
)
def test_prompts_are_a_table_or_lines(out: Path, name: str, content: str, told: str) -> None:
    (out.parent / name).write_text(content)
    items, bad, _ = loaded(out, "c/{prompt_id}_{sample}.jpg", f"{out.parent / name}{told}")
    assert [(item.prompt, item.prompt_id) for item in items] == [("a dog", "7")]
    assert list(bad) == (["p.jsonl:2", "p.jsonl:3"] if name == "p.jsonl" else [])


def test_what_cannot_be_meant_is_said(out: Path) -> None:
    table = out.parent / "p.csv"
    table.write_text("index,words\n7,a dog\n")
    for pattern, message in (
        ("c/{generator}.png", "must contain {prompt_id}"),
        ("{prompt_id}/{1}.png", "a brace is not part of a field"),
    ):
        with pytest.raises(ConfigError, match=message):
            ImageTree(pattern, str(table))
    with pytest.raises(DataError, match=r"no column is the prompt \(there are: index, words\).*p\.csv:ID,PROMPT"):
        loaded(out, "{prompt_id}.png", str(table))
    with pytest.raises(DataError, match=r"'no' is missing \(there are: index, words\)"):
        loaded(out, "{prompt_id}.png", f"{table}:index,no")
    with pytest.raises(DataError, match="none of 5 images fits"):
        loaded(out, "none/{prompt_id}.png", f"{table}:index,words")
    (out / "c" / "7.png").symlink_to(os.devnull)
    assert "leads outside the data folder" in loaded(out, "c/{prompt_id}.png", f"{table}:index,words")[1]["c/7.png"]


def test_a_file_name_that_is_not_utf8_is_named(out: Path) -> None:
    (out.parent / "p.txt").write_text("a cat\n")
    try:
        (out / os.fsdecode(b"\xff_0.png")).touch()
        (out / "0_0.png").touch()
    except OSError:
        pytest.skip("this file system takes UTF-8 only")
    items, bad, _ = loaded(out, "{prompt_id}_{sample}.png", str(out.parent / "p.txt"))
    assert ([item.id for item in items], bad) == (
        ["0_0.png"],
        {"\\udcff_0.png": "the file name is not UTF-8. Rename it"},
    )


def test_both_flags_go_together_and_make_a_run_of_their_own(out: Path) -> None:
    said = cli(out.parent, "judge", "--images", "out/{prompt_id}.png", "--captioner", "fake/any", code=2)
    assert "--images PATTERN and --prompt-file FILE must be given together, for example --images '" in said
    config = RunConfig(data=out, images="{prompt_id}.png", prompt_file="p.csv", suite="tiif")
    with pytest.raises(ConfigError, match="a fixed layout"):
        open_suite(config)
    assert identity(config)["images"] == "{prompt_id}.png"
    assert "images" not in identity(RunConfig(data=out))


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ("p.csv:prompt_en", r"must be FILE:ID,PROMPT with two columns \(there are: index, prompt_en\)"),
        ("typo.csv:prompt_en", r"typo\.csv: cannot be read: No such file"),
        ("p.csv:index,prompt", r"p\.csv:1: the column 'prompt' is missing \(there are: index, prompt_en\)"),
    ],
)
def test_a_slip_in_the_columns_names_those_that_are_there(out: Path, told: str, reason: str) -> None:
    (out.parent / "p.csv").write_text("index,prompt_en\n1,a red cube\n")
    with pytest.raises(UserError, match=reason):
        loaded(out, "{generator}/{prompt_id}_{sample}.png", str(out.parent / told))


def test_each_image_counts_by_the_first_pattern_that_gives_it_a_prompt(tmp_path: Path) -> None:
    for name in ("a/1_0.png", "a/1_1.png", "b/01.png", "b/cat_2.png", "b/sheet.png", "b/dog_7.png"):
        (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "images" / name).touch()
    patterns = ["images/{generator}/{prompt_id}_{sample}", "images/{generator}/{prompt_id}", "else/{prompt_id}"]
    root, (pattern, *others) = find_tree(tmp_path, patterns)
    notes: dict[str, None] = {}
    found = list(ImageTree(pattern, "prompts", {"1": "one", "cat_2": "a cat"}, others).items(root, (), notes))
    ids = {item.id: item.prompt_id for item in found if isinstance(item, Item)}
    assert ids == {"a/1_0.png": "1", "a/1_1.png": "1", "b/01.png": "1", "b/cat_2.png": "cat_2"}
    assert [item.id for item in found if isinstance(item, InvalidItem)] == ["b/dog_7.png"]
    assert [note.id for note in notes] == ["images_outside_pattern", "prompts_without_image"]


def numbered(folder: Path, numbers: range, lines: int, first: str = "a thing 0") -> tuple[Path, str]:
    for number in numbers:
        (folder / "step").mkdir(exist_ok=True)
        (folder / "step" / f"{number:04}.png").touch()
    texts = [first, *(f"a thing {number}" for number in range(1, lines))]
    (folder / "prompts.txt").write_text("\n".join(texts) + "\n")
    return folder, str(folder / "prompts.txt")


@pytest.mark.parametrize(
    ("numbers", "lines", "ways"),
    [
        (range(1, 39), 38, [":1"]),
        (range(38), 39, [":0", ":-1"]),
        (range(1, 39), 39, [":0", ":1"]),
        (range(38), 37, [":0", ":1"]),
        (range(5, 8), 38, [":0", ":1"]),
    ],
)
def test_numbers_of_which_it_is_in_doubt_what_they_count_are_refused_with_the_options_for_each_way(
    tmp_path: Path, numbers: range, lines: int, ways: list[str]
) -> None:
    folder, file = numbered(tmp_path, numbers, lines)
    with pytest.raises(Unclear) as refused:
        loaded(folder, "{generator}/{prompt_id}.png", file)
    said = [f"--images '{{generator}}/{{prompt_id}}.png' --prompt-file {file}{way}" for way in ways]
    assert [options for options, _ in refused.value.options] == said


@pytest.mark.parametrize(
    ("numbers", "lines", "said", "first"),
    [
        (range(38), 38, "", "a thing 0"),
        (range(20), 38, "", "a thing 0"),
        (range(1, 39), 38, ":1", "a thing 0"),
        (range(38), 39, ":-1", "a thing 1"),
        (range(38), 39, ":0", "a thing 0"),
        (range(5, 8), 38, ":0", "a thing 5"),
    ],
)
def test_numbers_that_are_said_or_plain_are_read_so(
    tmp_path: Path, numbers: range, lines: int, said: str, first: str
) -> None:
    folder, file = numbered(tmp_path, numbers, lines)
    items, bad, _ = loaded(folder, "{generator}/{prompt_id}.png", f"{file}{said}")
    assert (len(items), bad, items[0].prompt) == (len(numbers), {}, first)


@pytest.mark.parametrize(("numbers", "shift"), [(range(1, 5), 0), (range(4), 1)])
def test_a_table_whose_numbers_are_all_one_off_is_refused(tmp_path: Path, numbers: range, shift: int) -> None:
    folder, _ = numbered(tmp_path, numbers, 4)
    table = tmp_path / "p.csv"
    table.write_text("index,prompt\n" + "".join(f"{number + shift},a thing {number}\n" for number in range(4)))
    with pytest.raises(DataError, match="each image would get its neighbour's prompt"):
        loaded(folder, "{generator}/{prompt_id}.png", str(table))
