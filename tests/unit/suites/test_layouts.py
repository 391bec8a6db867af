"""Folders of images with one list of prompts: what people have is recognised, and what is in doubt is refused."""

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from commands import cli
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from titjudge.core.errors import DataError, Unclear
from titjudge.core.types import InvalidItem, Item
from titjudge.suites.base import SuiteInputs
from titjudge.suites.folder import Folder

LINES = [f"a thing {number}" for number in range(12)]
STEPS = ("step_1000", "step_2000")


def laid(folder: Path, names: Iterable[str], files: Mapping[str, str] | None = None) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    for name, text in (files or {"prompts.txt": "\n".join(LINES) + "\n"}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def loaded(folder: Path, prompt_file: str = "") -> dict[str, tuple[str, str, int]]:
    items = list(Folder(SuiteInputs(prompt_file=prompt_file)).load(folder))
    return {item.id: (item.prompt, item.generator, item.sample) for item in items if isinstance(item, Item)}


def options_of(folder: Path) -> list[str]:
    with pytest.raises(Unclear) as refused:
        loaded(folder)
    return [options.replace(f"{folder}/", "") for options, _ in refused.value.options]


@pytest.mark.parametrize(
    ("form", "samples"),
    [
        ("{g}/{n:04}.png", [0]),
        ("{g}/{n}.jpg", [0]),
        ("images/{g}/{n:03}.png", [0]),
        ("{g}/img_{n:05}.png", [0]),
        ("{g}/{n:04}_{s}.png", [0, 1, 2, 3]),
        ("{g}/{n:04}-seed{s}.png", [42, 43]),
        ("{g}/{n:04}/{s}.png", [0, 1, 2, 3]),
        ("{g}/seed_{s}/{n}.png", [7, 8]),
        ("{g}/seed{s}_{n:04}.png", [7, 8]),
        ("{g}/{n:04}/sample-{s}.png", [0, 1]),
    ],
)
@pytest.mark.parametrize("first", [0, 1])
def test_checkpoints_as_folders_are_read_from_0_and_from_1(
    tmp_path: Path, form: str, samples: list[int], first: int
) -> None:
    made = {
        form.format(g=g, n=number + first, s=s): (prompt, g, s)
        for g in STEPS
        for number, prompt in enumerate(LINES)
        for s in samples
    }
    assert loaded(laid(tmp_path, made)) == made


@pytest.mark.parametrize("form", ["images/{}/{}.png", "data/images/{}/{}.png", "{}/images/{}.png"])
def test_folders_around_those_of_generators_name_none(tmp_path: Path, form: str) -> None:
    found = loaded(laid(tmp_path, [form.format("flux", number) for number in range(12)]))
    assert {generator for _, generator, _ in found.values()} == {"flux"}


def test_one_folder_of_images_is_one_generator_without_a_name(tmp_path: Path) -> None:
    flat = laid(tmp_path / "flat", [f"{number:04}.png" for number in range(12)])
    assert loaded(flat)["0011.png"] == ("a thing 11", "", 0)
    by_prompt = laid(tmp_path / "deep", [f"{number:04}/{s}.png" for number in range(1, 13) for s in range(3)])
    assert loaded(by_prompt)["0012/2.png"] == ("a thing 11", "", 2)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("prompts.csv", "id,prompt\ncat,a cat\ndog,a dog\n"),
        ("prompts.jsonl", '{"prompt_id": "cat", "prompt": "a cat"}\n{"prompt_id": "dog", "prompt": "a dog"}\n'),
        ("prompts.json", '{"cat": "a cat", "dog": "a dog"}'),
        ("metadata.jsonl", '{"id": "cat", "text": "a cat"}\n{"id": "dog", "text": "a dog"}\n'),
    ],
)
@pytest.mark.parametrize(("form", "sample"), [("{g}/{n}.png", 0), ("{g}/{n}_3.png", 3)])
def test_images_are_named_by_the_ids_of_any_list(tmp_path: Path, name: str, text: str, form: str, sample: int) -> None:
    names = [form.format(g=g, n=n) for g in STEPS for n in ("cat", "dog")]
    found = loaded(laid(tmp_path, names, {name: text}))
    assert found[names[-1]] == ("a dog", "step_2000", sample)
    assert len(found) == 4


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(("name", "line"), [("prompts.csv", "{}"), ("prompts.jsonl", '{{"prompt": "{}"}}')])
def test_rows_of_a_list_without_ids_are_counted(tmp_path: Path, name: str, line: str, first: int) -> None:
    text = "\n".join([*(["prompt"] if name.endswith("csv") else []), *map(line.format, LINES)])
    names = [f"{g}/{number + first:04}.png" for g in STEPS for number in range(12)]
    assert loaded(laid(tmp_path, names, {name: text}))[names[-1]][0] == "a thing 11"


def test_the_list_may_be_in_each_checkpoint_or_beside_all(tmp_path: Path) -> None:
    names, text = [f"{g}/{number}.png" for g in STEPS for number in range(12)], "\n".join(LINES)
    inside = laid(tmp_path / "a", names, {f"{g}/prompts.txt": text for g in STEPS})
    beside = laid(tmp_path / "b" / "samples", names, {"../prompts.txt": text})
    assert loaded(inside) == loaded(beside)
    assert loaded(inside)["step_2000/11.png"] == ("a thing 11", "step_2000", 0)


def test_a_list_of_another_name_is_said(tmp_path: Path) -> None:
    folder = laid(tmp_path, [f"{g}/{number}.png" for g in STEPS for number in range(12)], {"p.txt": "\n".join(LINES)})
    assert loaded(folder, f"{folder}/p.txt")["step_1000/3.png"][0] == "a thing 3"
    with pytest.raises(DataError, match="no subfolder has images for the prompts of"):
        loaded(folder / "p.txt", "p.txt")


@pytest.mark.parametrize(
    ("numbers", "lines", "ways"),
    [
        (range(1, 12), LINES, [":0", ":1"]),  # the last is missing, or the first
        (range(12), ["prompts", *LINES], [":0", ":-1"]),  # a title line
        (range(12), ["of a set", *LINES], [":0", ":-1"]),  # a title line that looks like a prompt
        (range(13), LINES, [":0", ":1"]),  # more images than lines
        (range(2, 14), LINES, [":0", ":1"]),  # shifted by two
        (range(5, 8), LINES, [":0", ":1"]),
    ],
)
def test_numbers_that_do_not_say_what_they_count_are_refused_with_a_command_for_each_way(
    tmp_path: Path, numbers: range, lines: list[str], ways: list[str]
) -> None:
    names = [f"{g}/{number:04}.png" for g in STEPS for number in numbers]
    said = options_of(laid(tmp_path, names, {"prompts.txt": "\n".join(lines)}))
    assert said == [f"--images '{{generator}}/{{prompt_id}}.png' --prompt-file prompts.txt{way}" for way in ways]


def test_a_generator_that_may_count_in_another_way_is_refused(tmp_path: Path) -> None:
    names = [*(f"a/{number}.png" for number in range(12)), *(f"b/{number}.png" for number in range(1, 12))]
    assert options_of(laid(tmp_path, names)) == [
        "--images '{generator}/{prompt_id}.png' --prompt-file prompts.txt:0",
        "--images 'b/{prompt_id}.png' --prompt-file prompts.txt:1",
    ]


def test_a_generator_with_fewer_images_counts_as_the_complete_one_where_both_begin_with_0(tmp_path: Path) -> None:
    names = [*(f"a/{number}.png" for number in range(12)), *(f"b/{number}.png" for number in range(11))]
    assert loaded(laid(tmp_path, names))["b/10.png"][0] == "a thing 10"


def test_folders_that_may_be_prompts_or_generators_are_refused(tmp_path: Path) -> None:
    names = [f"{one}/{two}.png" for one in range(4) for two in range(4)]
    assert options_of(laid(tmp_path, names, {"prompts.txt": "a\nb\nc\nd\n"})) == [
        "--images '{generator}/{prompt_id}.png' --prompt-file prompts.txt:0",
        "--images '{prompt_id}/{sample}.png' --prompt-file prompts.txt:0",
        "--images '{sample}/{prompt_id}.png' --prompt-file prompts.txt:0",
    ]


def test_empty_lines_that_may_count_are_refused(tmp_path: Path) -> None:
    text = "\n".join([*LINES[:4], "", *LINES[4:]])
    folder = laid(tmp_path, [f"a/{number}.png" for number in range(12)], {"prompts.txt": text})
    with pytest.raises(Unclear, match="whether the empty lines of the list count: take them out"):
        loaded(folder)


@pytest.mark.parametrize("numbers", [range(1, 13), range(1, 9)])
def test_a_table_with_numbers_from_0_and_images_from_1_is_refused(tmp_path: Path, numbers: range) -> None:
    table = "id,prompt\n" + "".join(f"{number},{prompt}\n" for number, prompt in enumerate(LINES))
    folder = laid(tmp_path, [f"a/{number}.png" for number in numbers], {"prompts.csv": table})
    assert options_of(folder)[-1] == "--images '{generator}/{prompt_id}.png' --prompt-file 'prompts.csv:#1,prompt'"


def test_lists_that_differ_between_checkpoints_are_refused(tmp_path: Path) -> None:
    names, text = [f"{g}/{number}.png" for g in STEPS for number in range(12)], "\n".join(LINES)
    folder = laid(tmp_path, names, {"step_1000/prompts.txt": text, "step_2000/prompts.txt": f"{text}\nmore"})
    with pytest.raises(DataError, match=r"not the same prompts as in .*Judge these folders separately"):
        loaded(folder)
    (folder / "step_2000" / "prompts.txt").unlink()
    with pytest.raises(DataError, match=r"prompts\.txt is missing\. Add --prompt-file .* if it applies"):
        loaded(folder)


def test_a_list_beside_the_folder_with_prompts_that_have_no_image_is_asked_about(tmp_path: Path) -> None:
    names = [f"a/{number}.png" for number in range(9)]
    folder = laid(tmp_path / "samples", names, {"../prompts.txt": "\n".join(LINES)})
    with pytest.raises(Unclear, match="is it the right one"):
        loaded(folder)


def test_a_list_that_names_images_is_a_table_to_judge_itself(tmp_path: Path) -> None:
    folder = laid(tmp_path, ["0.png"], {"prompts.csv": "image,prompt\n0.png,a cat\n"})
    with pytest.raises(DataError, match=r"prompts\.csv:? .*Judge the file instead of its folder"):
        loaded(folder)


def test_other_layouts_are_read_as_before(tmp_path: Path) -> None:
    texts = laid(tmp_path / "texts", ["a/0.png"], {"a/0.txt": "a cat", "prompts.txt": "a dog"})
    assert loaded(texts)["a/0.png"][0] == "a cat"
    tables = laid(
        tmp_path / "tables", ["0.png"], {"metadata.csv": "file_name,text\n0.png,a cat\n", "prompts.txt": "a dog"}
    )
    assert loaded(tables)["0.png"][0] == "a cat"


def test_a_name_unlike_all_others_is_refused_alone(tmp_path: Path) -> None:
    folder = laid(tmp_path, [*(f"a/{number}.png" for number in range(12)), "a/grid.png"])
    bad = [item.id for item in Folder().load(folder) if isinstance(item, InvalidItem)]
    assert (bad, len(loaded(folder))) == (["a/grid.png"], 12)


@st.composite
def layouts(draw: st.DrawFn) -> tuple[dict[str, str], list[str]]:
    """Images with the prompts they were made from, as a script may have named them, and the lines of their list."""
    lines = [f"thing {number}" for number in range(draw(st.integers(1, 8)))]
    flat, deep = ["{n}", "{n:03}", "{n}_{s}", "{s}_{n}"], ["{n}/{s}", "{s}/{n}", "seed{s}/{n}"]
    form = draw(
        st.sampled_from(["{g}_{n}.png", *(f"{top}{name}.png" for top in ("", "{g}/") for name in [*flat, *deep])])
    )
    title = draw(st.sampled_from([[], ["Prompts:"], ["a list"]]))
    generators = draw(st.sampled_from([["a"], ["a", "b"], ["0", "1"], ["1", "2", "3"]]))
    one_number = "s}" not in form and "_" not in form and generators[0] == "a"
    first = draw(st.integers(0, 2 if one_number else 1))
    made = {}
    for g in generators:
        least = len(lines) if title == ["a list"] else 0  # it is seen by the number of images only
        for number in draw(st.sets(st.integers(0, len(lines) - 1), min_size=least)):
            for s in range(draw(st.integers(1, 3))):
                made[form.format(g=g, n=number + first, s=s)] = lines[number]
    return made, [*title, *lines]


@settings(max_examples=400, deadline=None)
@given(layouts())
def test_no_image_is_judged_by_the_prompt_of_another(layout: tuple[dict[str, str], list[str]]) -> None:
    made, lines = layout
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = loaded(laid(Path(folder), made, {"prompts.txt": "\n".join(lines)}))
        except DataError:
            return
    assert {name: prompt for name, (prompt, _, _) in found.items() if prompt != made[name]} == {}


def test_judge_prints_what_it_understood_first_and_each_command_where_it_must_ask(tmp_path: Path) -> None:
    for name in (f"samples/{g}/{number:04}.png" for g in STEPS for number in range(12)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    (tmp_path / "samples" / "prompts.txt").write_text("\n".join(LINES))
    judge = ("judge", "samples", "--captioner", "fake/any", "--judge", "fake/any", "--metric", "tit-llm")
    understood = '2 generators x 12 prompts; step_1000/0000.png <- "a thing 0"'
    assert cli(tmp_path, *judge, "--dry-run").splitlines()[0] == understood
    assert understood in cli(tmp_path, *judge, "--no-report")
    for step in STEPS:
        (tmp_path / "samples" / step / "0000.png").unlink()
    said = cli(tmp_path, *judge, code=2).splitlines()
    commands = [line.partition("   #")[0].strip() for line in said if line.startswith("  ")]
    assert [command.rpartition(":")[2] for command in commands] == ["0", "1"]
    rest = commands[1].removeprefix("python cli.py ").replace("'", "").split()
    assert '2 generators x 11 prompts; step_1000/0001.png <- "a thing 0"' in cli(tmp_path, *rest, "--dry-run")


def test_the_folder_is_an_argument_or_the_value_of_data(tmp_path: Path) -> None:
    said = cli(tmp_path, "judge", "one", "--data", "two", code=2)
    assert "two data folders are given: one and --data two" in said


@pytest.mark.parametrize("names", [["pics/1.png", "pics/2.png"], []])
@pytest.mark.parametrize("table", ["auswertung.csv", "sub/results.tsv", "list.xlsx"])
def test_a_table_that_is_not_read_is_named(tmp_path: Path, names: list[str], table: str) -> None:
    laid(tmp_path / "d", names, {table: "Bild;Text\n1.png;a cat\n"})
    said = cli(tmp_path, "judge", "d", "--captioner", "fake/c", "--metric", "tit", "--dry-run", code=1 if names else 2)
    assert f"d/{table} is not read" in said
    assert "--prompt-file" in said


SHORT = ["a red cube", "boat at night", "two boats", "a cup"]


@pytest.mark.parametrize(
    ("names", "options"),
    [
        # a word of a prompt is no beginning of it, and numbers after two words belong to two series
        (["0_cup.png", "0_boat.png", "1_cup.png"], None),
        (["cup (0).png", "cup (1).png", "boat (1).png"], None),
        # folders by number with any names: the names may be the prompts
        (["0/cube.png", "0/boat.png", "1/cube.png", "1/boat.png"], None),
        # categories that count their images, and shards of one list
        (["animals/0.png", "animals/1.png", "cars/0.png", "cars/1.png"], ["{generator}/{prompt_id}.png"]),
        (["rank0/0.png", "rank0/1.png", "rank1/2.png", "rank1/3.png"], ["{category}/{prompt_id}.png"]),
        (["animals/a red cube.png", "boats/two boats.png"], ["{generator}/{prompt_id}.png", "{category}/{prompt_id}.png"]),
        # samples or generators
        ([f"run_{run}/{text}.png" for run in (1, 2) for text in SHORT], ["{generator}/{prompt_id}.png", "run_{sample}/"]),
        ([f"{run}/{number}.png" for run in (0, 1) for number in range(4)], ["{generator}/{prompt_id}.png", "{sample}/"]),
        # prompts or generators
        ([f"{name}/{number}.png" for name in ["3f2a9c", "77b01d", "a91e04", "c0ffee"] for number in range(4)],
         ["{generator}/{prompt_id}.png", "{prompt_id}/{sample}.png"]),
        ([f"{name}/{number}.png" for name in ("cube", "boat", "boats", "cup") for number in range(4)],
         ["{generator}/{prompt_id}.png", "{prompt_id}/{sample}.png"]),
        ([f"{name}_{number}.png" for name in ("cube", "boat") for number in range(4)],
         ["{generator}_{prompt_id}.png", "{prompt_id}_{sample}.png"]),
    ],
)  # fmt: skip
def test_names_that_could_mean_something_else_are_refused_with_each_reading(
    tmp_path: Path, names: list[str], options: list[str] | None
) -> None:
    said = options_of(laid(tmp_path, names, {"prompts.txt": "\n".join(SHORT)}))
    assert [option for option in options or () if not any(option in line for line in said)] == []


def test_checkpoints_in_names_are_generators(tmp_path: Path) -> None:
    names = [f"step_{step}_{number}.png" for step in (1000, 2000) for number in range(12)]
    assert loaded(laid(tmp_path, names))["step_2000_3.png"] == ("a thing 3", "step_2000", 0)


def test_a_cut_name_that_two_prompts_begin_with_has_none_of_them(tmp_path: Path) -> None:
    texts = ["a cat on a mat", "a cat on a roof", "a cat", "two dogs in the snow"]
    folder = laid(
        tmp_path, [f"{text[:10]}/{n}.png" for text in texts for n in range(2)], {"prompts.txt": "\n".join(texts)}
    )
    assert {name.split("/")[0]: prompt for name, (prompt, _, _) in loaded(folder).items()} == {
        "a cat": "a cat", "two dogs i": "two dogs in the snow",
    }  # fmt: skip


@pytest.mark.parametrize("top", ["", "outputs/"])
@pytest.mark.parametrize("samples", [1, 3])
def test_the_grids_of_geneval_and_a_folder_above_the_models_do_not_matter(
    tmp_path: Path, top: str, samples: int
) -> None:
    prompts = [f"{top}{model}/{number:05}" for model in ("flux", "sdxl") for number in range(3)]
    records = {f"{place}/metadata.jsonl": f'{{"tag": "x", "prompt": "thing {place[-1]}"}}\n' for place in prompts}
    names = [f"{place}/samples/{sample:04}.png" for place in prompts for sample in range(samples)]
    found = loaded(laid(tmp_path, [*names, *(f"{place}/grid.png" for place in prompts)], records))
    assert found == {
        name: (f"thing {name.split('/samples')[0][-1]}", name.removeprefix(top).split("/")[0], int(name[-5]))
        for name in names
    }


@pytest.mark.parametrize("number", [3, 4, 10, 40])
@pytest.mark.parametrize(
    "makers", [("ours", "mine"), ("Alice", "Bob"), ("old", "new"), ("2024-01-01", "2024-02-15"), ("모델1", "모델2")]
)
def test_two_folders_of_any_names_with_an_image_of_each_prompt_are_generators(
    tmp_path: Path, makers: tuple[str, str], number: int
) -> None:
    texts = [f"an old thing {index} near a new tree" for index in range(number)]
    made = {f"{g}/{n:04}.png": (text, g, 0) for g in makers for n, text in enumerate(texts)}
    if number > 3 or makers != ("old", "new"):
        assert loaded(laid(tmp_path, made, {"prompts.txt": "\n".join(texts)})) == made


@pytest.mark.parametrize("names", [("bench", "apple"), ("3f2a9c1", "b27d901"), ("one", "two", "six")])
def test_folders_that_may_be_prompts_are_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    texts = ["a green bench", "a red apple", "two dogs"]
    laid(tmp_path, [f"{name}/{n}.png" for name in names for n in range(3)], {"prompts.txt": "\n".join(texts)})
    assert any("{prompt_id}/{sample}.png" in options for options in options_of(tmp_path))


@pytest.mark.parametrize(
    "form", ["{n:03}_{t}/{s}.png", "{n}-{t}/img_{s}.png", "{t}_{n}/{s:05}.png", "flux/{n:03}_{t}/{s}.png"]
)
def test_a_number_beside_the_text_of_a_folder_is_not_that_of_a_sample(tmp_path: Path, form: str) -> None:
    texts = ["a green bench", "a red apple", "two dogs"]
    made = {
        form.format(n=n, t=text.replace(" ", "_"), s=s): (text, "flux" if form.startswith("flux") else "", s)
        for n, text in enumerate(texts)
        for s in range(3)
    }
    assert loaded(laid(tmp_path, made, {"prompts.txt": "\n".join(texts)})) == made


def test_numbers_of_images_in_the_folder_of_a_prompt_may_be_samples_of_generators(tmp_path: Path) -> None:
    texts = ["a green bench", "a red apple", "two dogs"]
    names = [f"{text}/{maker}_{s}.png" for text in texts for maker in ("flux", "sdxl") for s in range(3)]
    options = options_of(laid(tmp_path, names, {"prompts.txt": "\n".join(texts)}))
    assert [option.split("'")[1] for option in options] == [
        "{prompt_id}/{generator}.png",
        "{prompt_id}/{generator}_{sample}.png",
    ]


def test_a_name_that_ends_with_a_separator_is_cut_there(tmp_path: Path) -> None:
    texts = ["a brown dog", "a brown dog on a mat", "a large cat in a box", "two small birds"]
    names = [f"{name}/{n}.png" for name in ("a_brown_dog_", "a_large_cat_", "two_small_bi") for n in range(2)]
    made = loaded(laid(tmp_path, names, {"prompts.txt": "\n".join(texts)}))
    assert {name.split("/")[0]: of[0] for name, of in made.items()} == {
        "a_large_cat_": texts[2],
        "two_small_bi": texts[3],
    }


def test_names_may_be_quoted_as_in_addresses(tmp_path: Path) -> None:
    made = {
        f"{text.replace(' ', '%20')}_{s}.png": (text, "", s)
        for text in ("a green bench", "a red apple")
        for s in (0, 1)
    }
    assert loaded(laid(tmp_path, made, {"prompts.txt": "a green bench\na red apple"})) == made
