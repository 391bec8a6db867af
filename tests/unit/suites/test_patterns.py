"""Patterns of image paths: fields in braces."""

from pathlib import Path

import pytest
from builders import png
from commands import cli

from titjudge.core.errors import ConfigError
from titjudge.suites.patterns import checked_pattern, compiled, filled, split_pattern


def test_a_pattern_is_split_where_its_fields_begin() -> None:
    assert split_pattern("/a/b/{generator}/x/{prompt_id}.png") == (Path("/a/b"), "{generator}/x/{prompt_id}.png")
    assert split_pattern("{prompt_id}.png") == (Path(), "{prompt_id}.png")


def test_a_model_is_a_generator_where_the_pattern_names_no_other() -> None:
    assert checked_pattern("{model}/{prompt_id}.png") == "{generator}/{prompt_id}.png"
    assert checked_pattern("{model}/{generator}/{prompt_id}.png") == "{model}/{generator}/{prompt_id}.png"


@pytest.mark.parametrize("slip", ["generater", "Generator", "models", "gen"])
def test_a_slip_in_the_name_of_the_generator_is_named(slip: str) -> None:
    with pytest.raises(ConfigError, match=rf"unknown field {{{slip}}}. Did you mean {{generator}}"):
        checked_pattern(f"{{{slip}}}/{{prompt_id}}.png")


def test_a_slip_in_the_name_of_the_prompt_is_named() -> None:
    with pytest.raises(ConfigError, match=r"Did you mean {prompt_id}"):
        checked_pattern("{generator}/{prompt}.png")


def test_other_fields_stay_with_the_image() -> None:
    assert checked_pattern("{theme}/{prompt_id}.png") == "{theme}/{prompt_id}.png"


def test_a_pattern_without_the_prompt_or_with_a_broken_field_is_refused() -> None:
    for pattern, reason in (
        ("{generator}/x.png", "must contain {prompt_id}"),
        ("{prompt_id}/{1}.png", "a brace is not part of a field"),
    ):
        with pytest.raises(ConfigError, match=reason):
            checked_pattern(pattern)


def test_a_field_twice_is_the_same_text_twice() -> None:
    regex = compiled("{prompt_id}/{prompt_id}_{sample}.png")
    assert regex.fullmatch("cat/cat_1.png")
    assert not regex.fullmatch("cat/dog_1.png")


def test_doubled_braces_are_braces_of_a_name() -> None:
    assert split_pattern("out/sd{{3}}/{{x/{prompt_id}.png") == (Path("out/sd{3}/{x"), "{prompt_id}.png")
    pattern = checked_pattern("{model}/{{model}}/{{{prompt_id}}}_{sample}.png")
    assert pattern == "{generator}/{{model}}/{{{prompt_id}}}_{sample}.png"
    match = compiled(pattern).fullmatch("a/{model}/{7}_2.png")
    assert match
    assert match.groupdict() == {"generator": "a", "prompt_id": "7", "sample": "2"}
    assert filled(pattern, match.groupdict()) == "a/{model}/{7}_2.png"


def test_images_in_a_folder_with_braces_are_read(tmp_path: Path) -> None:
    png(tmp_path / "out" / "sd{3}" / "a" / "x{1}.png")
    (tmp_path / "p.csv").write_text("id,prompt\n1,a cat\n")
    for images in ("out/sd{{3}}/{generator}/x{{{prompt_id}}}.png", "out/{generator}/a/x{{{prompt_id}}}.png"):
        asked = ("judge", "--images", images, "--prompt-file", "p.csv")
        assert '<- "a cat"' in cli(tmp_path, *asked, "--captioner", "fake/any", "--metric", "tit", "--dry-run")
