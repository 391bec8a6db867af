"""The recipes of examples/train on tiny models with random weights: what they write is loaded by the metric and the judge."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tiny_models
from builders import write_lines
from commands import cli
from test_clip_and_blip import score
from test_local_vlm import complete

from titjudge.core.types import Message, Request

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

RECIPES = Path(__file__).resolve().parents[3] / "examples" / "train"
TINY = ("--batch-size", "2", "--accumulate", "1", "--dtype", "float32", "--max-pixels", str(28 * 28 * 16))
PROMPT = "a red cube on the left of a blue ball " * 4


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    import importlib

    pytest.importorskip("peft", reason="the recipes need peft: pip install 'titjudge[train]'")
    monkeypatch.syspath_prepend(str(RECIPES))
    for name in ("recipe", "sft", "longt2iexpert"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module


def talk(question: str, answer: str) -> list[dict[str, Any]]:
    asked = [{"type": "image"}, {"type": "text", "text": question}]
    return [
        {"role": "user", "content": asked},
        {"role": "assistant", "content": [{"type": "text", "text": answer}]},
    ]


def write(file: Path, made: list[dict[str, Any]]) -> None:
    write_lines(file, *made)


def rows(folder: Path, score: float = 0.5, count: int = 4) -> list[dict[str, Any]]:
    made = []
    for at in range(count):
        image = folder / f"{at}.png"
        tiny_models.picture(84, 56, seed=at).save(image)
        made.append(
            {
                "prompt_id": str(at),
                "prompt": PROMPT + str(at),
                "images": [str(image)],
                "score": score,
                "messages": talk(f"Is {at} red?", "<level> all entity: cube" + " ball" * at),
            }
        )
    write(folder / "train.jsonl", made)
    return made


def words(folder: Path, out: str, *more: str) -> list[str]:
    return [
        "--model",
        str(folder / "base"),
        "--train",
        str(folder / "train.jsonl"),
        "--out",
        str(folder / out),
        *TINY,
        *more,
    ]


def test_the_metric_loads_what_longt2iexpert_writes(
    tmp_path: Path, recipe: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    tiny_models.qwen25_vl(tmp_path / "base")
    made = rows(tmp_path, score=0.9)
    del made[3]["messages"]  # a score without an interpretation
    write(tmp_path / "train.jsonl", made)
    more = (
        "--val",
        str(tmp_path / "train.jsonl"),
        "--epochs",
        "12",
        "--lr",
        "2e-3",
        "--head-lr",
        "2e-3",
        "--batch-size",
        "4",
    )
    recipe("longt2iexpert").main(words(tmp_path, "expert", *more))
    assert "30-50: 4" in capsys.readouterr().out
    found = score(
        "longt2iexpert",
        [(tiny_models.image_file(84, 56, seed=int(row["prompt_id"])), row["prompt"]) for row in made],
        weights=tmp_path / "expert",
        dtype="float32",
    )
    told = [
        json.loads(line)["predicted"] for line in (tmp_path / "expert" / "validation.jsonl").read_text().splitlines()
    ]
    assert [each["score"] for each in found] == pytest.approx(told, abs=1e-4)
    assert min(told) > 0.7  # a new head says about .5


def test_both_losses_of_longt2iexpert_are_those_of_the_paper(
    tmp_path: Path, recipe: Callable[[str], ModuleType]
) -> None:
    import torch
    from transformers import AutoModelForImageTextToText

    from titjudge.providers.local.loading import load_processor

    tiny_models.qwen25_vl(tmp_path / "base")
    made = rows(tmp_path, score=0.25, count=2)
    program = recipe("longt2iexpert")
    processor = load_processor(str(tmp_path / "base"))
    torch.manual_seed(0)
    model = program.expert(AutoModelForImageTextToText.from_pretrained(tmp_path / "base"), processor).eval()
    inputs = program.collate(processor, made)
    with torch.no_grad():
        loss = float(program.Expert.compute_loss(None, model, inputs))
        wrong = float(((program.scores(model, inputs) - 0.25) ** 2).mean())
        asked = inputs["interpretation"]
        logits = model(**{name: value for name, value in asked.items() if name != "labels"}).logits
    likely = torch.log_softmax(logits[:, :-1], -1).gather(2, asked["labels"][:, 1:].clamp(min=0)[..., None])[..., 0]
    learnt = asked["labels"][:, 1:] != -100
    assert loss == pytest.approx(10 * wrong - float(likely[learnt].mean()), rel=1e-4)
    answers = [processor.tokenizer.decode(row[mask]) for row, mask in zip(asked["labels"][:, 1:], learnt, strict=True)]
    assert answers == ["<level> all entity: cube<|im_end|>\n", "<level> all entity: cube ball<|im_end|>\n"]
    trained = {
        name.split(".lora_")[0].rpartition(".")[2]
        for name, value in model.named_parameters()
        if value.requires_grad and "lora_" in name
    }
    assert trained == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    assert not [name for name, value in model.named_parameters() if value.requires_grad and "visual" in name]


def test_a_judge_gives_the_answer_that_it_was_taught(tmp_path: Path, recipe: Callable[[str], ModuleType]) -> None:
    tiny_models.qwen25_vl(tmp_path / "base")
    write(tmp_path / "train.jsonl", [{**row, "messages": talk("Is it red?", "no, 0")} for row in rows(tmp_path)])
    recipe("sft").main(words(tmp_path, "judge", "--epochs", "15", "--lr", "1e-2"))
    asked = Request(
        "local", "judge", (Message("user", (tiny_models.image_file(84, 56, seed=1), "Is it red?")),), {"max_tokens": 8}
    )
    (reply,) = complete(tmp_path / "judge", [asked])
    assert reply.text == "no, 0"


def test_an_interrupted_training_goes_on_and_ends_the_same(
    tmp_path: Path,
    recipe: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from safetensors.torch import load_file
    from transformers import Trainer

    tiny_models.qwen25_vl(tmp_path / "base")
    rows(tmp_path)
    program = recipe("sft")
    more = ("--epochs", "2", "--save-every", "1", "--val", str(tmp_path / "train.jsonl"))
    program.main(words(tmp_path, "whole", *more))
    real, steps = Trainer.training_step, []

    def step(*args: Any, **kwargs: Any) -> Any:
        steps.append(1)
        if len(steps) == 3:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    monkeypatch.setattr(Trainer, "training_step", step)
    with pytest.raises(SystemExit, match="130"):
        program.run(lambda: program.main(words(tmp_path, "parts", *more)))
    assert "the same command goes on" in capsys.readouterr().err
    (tmp_path / "parts" / "checkpoints" / "checkpoint-3").mkdir()  # begun, and not whole
    program.main(words(tmp_path, "parts", *more))
    assert len(steps) == 3 + 2  # two of four steps were kept
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert all(value.equal(two[name]) for name, value in one.items())
    (tmp_path / "parts").rename(tmp_path / "moved")
    with pytest.raises(SystemExit, match="2"):
        program.run(lambda: program.main(words(tmp_path, "moved", "--seed", "1", *more)))
    assert "another seed, choose" in capsys.readouterr().err.replace(";", ",")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"images": ["gone.png"]}, "train.jsonl:4: gone.png"),
        ({"images": "a.png"}, "train.jsonl:4: images is no list of files"),
        ({"messages": "hello"}, "train.jsonl:4: messages are no conversation"),
        ({"messages": talk("x", "y")[:1]}, "ends with no answer"),
        ({"score": 7}, "train.jsonl:4: score is no number between 0 and 1"),
        ({"score": None}, "score"),
    ],
)
def test_a_bad_row_is_named_before_anything_is_loaded(
    change: dict[str, Any],
    said: str,
    tmp_path: Path,
    recipe: Callable[[str], ModuleType],
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = rows(tmp_path)
    write(tmp_path / "train.jsonl", [*made[:3], {**made[3], **change}])
    program = recipe("longt2iexpert")
    with pytest.raises(SystemExit, match="2"):
        program.run(lambda: program.main(words(tmp_path, "expert")))
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "expert").exists()


def test_a_run_is_exported_split_and_read(tmp_path: Path, recipe: Callable[[str], ModuleType]) -> None:
    cli(tmp_path, "judge", "--suite", "known-answer", "--metric", "tit", "--limit", "12", "--out", "run", "--no-report")
    cli(tmp_path, "export", "sft", "run", "--framework", "trl", "--template", "tit/describe", "-o", "sft.jsonl")
    cli(tmp_path, "export", "split", "sft.jsonl", "--val", "0.2", "--test", "0.2", "--out", "parts")
    program = recipe("sft")
    read = {
        part: program.rows(tmp_path / "parts" / f"{part}.jsonl", ("messages", "images")) for part in ("train", "val")
    }
    assert sum(map(len, read.values())) >= 6
    assert not {row["prompt"] for row in read["train"]} & {row["prompt"] for row in read["val"]}
    turns = program.conversation(read["train"][0])
    assert [part["image"].mode for turn in turns for part in turn["content"] if part["type"] == "image"] == ["RGB"]


def test_a_model_that_is_none_leaves_the_folder_free(
    tmp_path: Path, recipe: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    rows(tmp_path)
    program = recipe("sft")
    with pytest.raises(SystemExit, match="2"):
        program.run(lambda: program.main(words(tmp_path, "judge")))
    assert capsys.readouterr().err.startswith(f"--model {tmp_path / 'base'} cannot be loaded")
    assert not (tmp_path / "judge").exists()
