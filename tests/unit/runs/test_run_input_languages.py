"""A prompt that the embedder cannot read is said once a run."""

import warnings
from pathlib import Path

import pytest
from report_runs import picture

from titjudge import Judge
from titjudge.cli.commands import run_command
from titjudge.core.config import load_config
from titjudge.core.types import Item
from titjudge.core.words import language, script
from titjudge.runs.resolve import load_metrics
from titjudge.runs.run_input import UnfitPrompts


@pytest.mark.parametrize(
    ("prompt", "found"),
    [
        ("a red cube on a blue ball", ""),
        ("ein grüner Würfel über einem Bär, déjà vu, niño", ""),
        ("一只红色的立方体放在蓝色的球上", "CJK"),
        ("Красный куб на синем шаре", "CYRILLIC"),
        ("빨간 정육면체", "HANGUL"),
        ("مكعب أحمر", "ARABIC"),
        ("a shop in a narrow street at night with a neon sign that reads 拉麺", ""),
        ("the angle α of the triangle on the blackboard, in white chalk", ""),
        ("12345 !!! \N{BOWL WITH SPOON}", ""),
        ("", ""),
    ],
)
def test_the_script_of_a_prompt(prompt: str, found: str) -> None:
    assert script(prompt) == found


@pytest.mark.parametrize(
    ("prompt", "found"),
    [
        ("a red cube on a blue ball", ""),
        ("A portrait of a woman, oil on canvas", ""),
        ("portrait, oil, canvas", ""),
        ("Ein roter Würfel liegt auf dem Tisch neben einer Vase", "German"),
        ("Un chat noir dort sur le canapé avec une pelote", "French"),
        ("Un perro negro con una pelota en la playa", "Spanish"),
        ("Een rode fiets met een mand voor het huis", "Dutch"),
        ("Il gatto nero dorme su una sedia con il cane", "Italian"),
        ("Um gato preto com uma bola na praia", "Portuguese"),
        ("a sign in the window of a shop in Paris reads 'Le Chat et la Lune'", ""),
        ("the la la land poster on a wall", ""),
        ("一只红色的立方体", "CJK"),
        ("", ""),
    ],
)
def test_the_language_of_a_prompt(prompt: str, found: str) -> None:
    assert language(prompt) == found


def test_long_prompts_are_counted_for_the_default_embedder() -> None:
    long, unfit = "word, " * 300, UnfitPrompts()
    for number, prompt in enumerate((long, long, "short", long)):
        unfit.look(Item(f"{number}.png", prompt, None, prompt_id=f"p{number % 3}"))
    for embedder, count in (("default", 1), ("sentence-transformers/BAAI/bge-m3", 0)):
        config = load_config(None, {"embedder": embedder, "metrics": ["tit"], "captioner": "fake"})
        notes = unfit.notes(config, load_metrics(config).values())
        assert [note.startswith("2 prompts longer than the 510 tokens") for note in notes] == [True] * count


@pytest.mark.parametrize(
    ("embedder", "metric", "said"),
    [
        ("default", "tit", True),
        ("sentence-transformers/all-mpnet-base-v2", "tit", True),
        ("sentence-transformers/BAAI/bge-large-en-v1.5", "tit", True),
        ("sentence-transformers/BAAI/bge-m3", "tit", False),
        ("openai/text-embedding-3-large", "tit", False),
        ("default", "tit-llm", False),
    ],
)
def test_only_an_english_embedder_that_is_asked_is_named(embedder: str, metric: str, said: bool) -> None:
    config = load_config(None, {"embedder": embedder, "metrics": [metric], "captioner": "fake", "judge": "fake"})
    unfit = UnfitPrompts()
    for number in range(3):
        unfit.look(Item(f"{number}.png", "一只猫", None, prompt_id=f"p{number // 2}"))
    notes = unfit.notes(config, load_metrics(config).values())
    assert bool(notes) == said
    if said:
        assert notes[0].startswith("2 prompts not in English (CJK)")
        assert "--embedder sentence-transformers/BAAI/bge-m3" in notes[0]


def test_a_dry_run_says_it_before_anything_is_paid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture(tmp_path / "a.png")
    (tmp_path / "a.txt").write_text("一只红色的立方体", encoding="utf-8")
    asked = ["judge", "--data", str(tmp_path), "--captioner", "fake", "--metric", "tit", "--dry-run"]
    assert run_command("titjudge", [*asked, "--set", f"cache={tmp_path / 'cache'}"]) == 0
    assert capsys.readouterr().out.count("1 prompt not in English (CJK)") == 1


def test_the_python_api_warns_once(tmp_path: Path) -> None:
    image = picture(tmp_path / "a.png")
    with (
        Judge("tit", captioner="fake/x", cache=str(tmp_path / "cache")) as judge,
        warnings.catch_warnings(record=True) as said,
    ):
        warnings.simplefilter("always")
        for prompt in ("a red cube", "一只红色的立方体", "一只蓝色的立方体"):
            judge.score(image, prompt)
    mine = [str(each.message) for each in said if each.category is UserWarning]
    assert len(mine) == 1
    assert mine[0].startswith("1 prompt not in English (CJK)")
