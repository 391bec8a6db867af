"""How a benchmark goes through its prompts, and what it calls their images."""

import itertools
from pathlib import Path

import pytest
from builders import png, write_lines
from hypothesis import given
from hypothesis import strategies as st

from titjudge.apps.bench.benchmark import DOUBLING, FIRST, SETTLING, Benchmark, Generator, read_generators, rounds
from titjudge.core.errors import ConfigError, DataError


@given(st.integers(1, 500), st.integers(0, 600), st.sampled_from([DOUBLING, SETTLING]))
def test_rounds_end_with_all_prompts_and_each_covers_more_than_the_one_before(
    count: int, begun: int, growth: float
) -> None:
    ends = list(rounds(count, lambda done: count, begun, growth=growth))
    assert ends[-1] == count
    assert ends == sorted(set(ends))
    assert all(later <= max(FIRST, int((1 + growth) * done)) + FIRST for done, later in itertools.pairwise(ends))


def test_a_round_is_no_longer_than_the_money_left_is_likely_to_pay_for() -> None:
    assert list(rounds(100, lambda done: 10 - done)) == [4, 8, 10]


def two(**options: str) -> list[Generator]:
    return read_generators(["openai/gpt-image-2", "g=gemini/gemini-2.5-flash-image"], options)


def test_settings_go_to_all_models_or_to_the_one_that_they_name() -> None:
    first, second = two(**{"size": "1024x1024", "gpt-image-2.quality": "low", "g.imageSize": "2K"})
    assert (first.name, first.model, first.options) == (
        "gpt-image-2", "openai/gpt-image-2", {"size": "1024x1024", "quality": "low"},
    )  # fmt: skip
    assert (second.name, second.options) == ("g", {"size": "1024x1024", "imageSize": "2K"})


@pytest.mark.parametrize("texts", [[], ["openai/a"], ["openai/a", "gemini/a"], ["a=openai/a", "a=openai/b"]])
def test_generators_are_two_or_more_with_names_of_their_own(texts: list[str]) -> None:
    with pytest.raises(ConfigError, match="--generator"):
        read_generators(texts, {})


def test_images_have_short_names_of_their_own_whatever_their_prompts_are_called(tmp_path: Path) -> None:
    names = ["1", "a/b", "a:b", "../../etc", ".", "x" * 300, "x" * 299 + "y", "ü ö"]
    benchmark = Benchmark(tmp_path, dict.fromkeys(names, "a prompt"), two())
    places = [one.place for one in benchmark.images_to_make(benchmark.generators[0], names)]
    assert len(set(places)) == len(names)
    assert all(place.resolve().parent == (tmp_path / "images" / "gpt-image-2").resolve() for place in places)
    assert all(len(place.name) < 120 for place in places)


@pytest.mark.parametrize(
    "names",
    [
        ["00000.png", "00001.png", "00002.png"],
        ["0_0.png", "1_0.png", "2_0.png"],
        ["0/0.png", "1/0.png", "2/0.png"],
        ["00000-seed42.png", "00001-seed42.png", "00002-seed42.png"],
        ["00001.png", "00002.png", "00003.png"],
        ["images/0.png", "images/1.png", "images/2.png"],
        ["A red cube.png", "a_blue_ball_on_a_table.png", "a-dog.png"],
    ],
)
def test_images_of_a_folder_are_found_as_judge_finds_them(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        png(tmp_path / "ci" / "release" / name)
    prompts = {"0": "a red cube", "1": "a blue ball on a table", "2": "a dog"}
    generators = [Generator("release", folder=tmp_path / "ci" / "release"), Generator("g", "openai/gpt-image-2")]
    listed = tmp_path / "prompts.txt"
    listed.write_text("\n".join(prompts.values()))
    rows = list(Benchmark(tmp_path / "b", prompts, generators, prompt_file=str(listed))._lines(["0", "1", "2"]))
    assert [(row["prompt_id"], str(Path(row["image"]).relative_to(tmp_path / "ci" / "release"))) for row in rows] == [
        ("0", names[0]),
        ("1", names[1]),
        ("2", names[2]),
    ]


def test_images_of_a_folder_are_known_by_the_ids_of_their_prompts(tmp_path: Path) -> None:
    for name in ("p1.png", "p2_0.png", "p2_1.png", "other.png"):
        png(tmp_path / "old" / name)
    generators = [Generator("old", folder=tmp_path / "old"), Generator("new", "openai/new")]
    listed = write_lines(tmp_path / "prompts.jsonl", {"id": "p1", "prompt": "one"}, {"id": "p2", "prompt": "two"})
    benchmark = Benchmark(tmp_path / "bench", {"p1": "one", "p2": "two"}, generators, prompt_file=str(listed))
    assert benchmark.write_list(["p1", "p2"]) == 3
    images = (tmp_path / "bench" / "images.jsonl").read_text()
    assert images.count('"generator":"old"') == 3
    assert "other.png" not in images


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (
            "a cat\na dog\na cow",
            r"in doubt .*prompts.txt:0 \(1.png <- .a dog.\) or .*prompts.txt:1 \(1.png <- .a cat.\)",
        ),
        ("a cat", "do not match the prompts"),
    ],
)
def test_images_that_may_belong_to_other_prompts_are_refused(tmp_path: Path, lines: str, why: str) -> None:
    for number in (1, 2):
        png(tmp_path / "old" / f"{number}.png")
    (tmp_path / "prompts.txt").write_text(lines)
    prompts = {str(number): line for number, line in enumerate(lines.splitlines())}
    with pytest.raises(DataError, match=why):
        Benchmark(
            tmp_path / "bench",
            prompts,
            [Generator("old", folder=tmp_path / "old")],
            prompt_file=str(tmp_path / "prompts.txt"),
        )
