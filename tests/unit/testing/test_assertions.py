"""`assert_image` passes on a score that is high enough; a failure says score, reason and file."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import image_file
from PIL import Image
from serving import expected, rating_judge

from titjudge import Judge
from titjudge.testing import assert_image


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Judge]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    with rating_judge(tmp_path / "cache") as made:
        yield made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cube.png"
    path.write_bytes(image_file(1))
    return path


def test_an_image_passes_with_the_score_it_must_have_at_least(judge: Judge, file: Path) -> None:
    value = expected(image_file(1), "a red cube")
    assert assert_image(file, "a red cube", judge=judge, at_least=value).value == value


def test_the_failure_says_score_reason_prompt_and_file(judge: Judge, file: Path) -> None:
    with pytest.raises(AssertionError) as caught:
        assert_image(str(file), "a red cube", judge=judge, at_least=101)
    assert str(caught.value).splitlines() == [
        f"lmm-score is {expected(image_file(1), 'a red cube'):.4g}, less than 101",
        "  reason: because",
        f"  image:  {file}",
        "  prompt: a red cube",
    ]


def test_an_image_without_a_score_fails_and_says_why(judge: Judge, file: Path) -> None:
    with pytest.raises(AssertionError, match=r"no lmm-score \(refused\)\n  reason: .+\n  image:"):
        assert_image(file, "please refuse this one", judge=judge, at_least=-1)


def test_an_image_in_memory_is_kept_where_it_fails(judge: Judge) -> None:
    with pytest.raises(AssertionError) as caught:
        assert_image(Image.new("RGB", (8, 8), "red"), "a red cube", judge=judge, at_least=101)
    kept = Path(re.search(r"image:  (.+)", str(caught.value))[1])  # type: ignore[index]
    judge.close()
    with Image.open(kept) as image:
        assert image.size == (8, 8)
    kept.unlink()
    kept.parent.rmdir()


def test_without_a_judge_its_settings_make_one(file: Path, tmp_path: Path) -> None:
    score = assert_image(file, "a cat", metric="tit-llm", at_least=0, provider="fake", cache=tmp_path / "cache")
    assert (score.metric, score.value) == ("tit-llm", 0)
