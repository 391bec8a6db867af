"""What the recipes share: rows, conversations whose last answer is learnt, LoRA, and training that goes on where it was."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from transformers import AutoModelForImageTextToText, Trainer, TrainingArguments, set_seed

from titjudge.core.errors import ConfigError, DataError, UserError
from titjudge.core.files import write_atomic
from titjudge.data.image_decoding import open_image, upright
from titjudge.data.images import check_header
from titjudge.data.tables import read_table
from titjudge.providers.learned.chat_heads import inputs_of
from titjudge.providers.local.base import rgb
from titjudge.providers.local.loading import load_processor

try:
    from peft import LoraConfig, get_peft_model
except ImportError:
    print("training needs peft: pip install 'titjudge[train]'", file=sys.stderr)
    sys.exit(2)

Row = dict[str, Any]
LAYERS = r".*language_model.*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)"


def parser(about: str, lr: float) -> argparse.ArgumentParser:
    """The flags that every recipe has."""
    flags = argparse.ArgumentParser(description=about, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    flags.add_argument("--model", required=True, help="folder or repository of the model to start from")
    flags.add_argument("--train", type=Path, required=True, help="rows to learn from: a part of `export split`")
    flags.add_argument("--val", type=Path, help="rows to measure on, of other prompts")
    flags.add_argument("--out", type=Path, required=True, help="folder for the model; the same command goes on there")
    flags.add_argument("--epochs", type=positive, default=3, help="times that every row is seen")
    flags.add_argument("--batch-size", type=positive, default=1, help="rows at once")
    flags.add_argument("--accumulate", type=positive, default=16, help="batches to a step")
    flags.add_argument("--lr", type=float, default=lr, help="learning rate of LoRA")
    flags.add_argument("--save-every", type=positive, metavar="STEPS", help="steps between checkpoints, else an epoch")
    flags.add_argument("--max-pixels", type=positive, default=1024 * 1024, help="larger images are made smaller")
    flags.add_argument(
        "--dtype", choices=("bfloat16", "float16", "float32"), default="bfloat16", help="of frozen weights"
    )
    flags.add_argument("--seed", type=int, default=0, help="of order, dropout and new weights")
    return flags


def positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError
    return number


def rows(file: Path, needed: tuple[str, ...], wrong: Callable[[Row], str] = lambda row: "") -> list[Row]:
    """The rows of a file, every image of theirs looked at; a bad row is named before anything is trained."""
    found = []
    for line, row in read_table(file, needed):
        images = row.get("images")
        if not isinstance(images, list) or not images or not all(isinstance(each, str) for each in images):
            raise DataError("images is no list of files", file, line)
        for image in images:
            try:
                check_header(Path(image))
            except DataError as error:
                raise DataError(str(error), file, line) from error
        if "messages" in row:
            _check(row["messages"], len(images), file, line)
        if reason := wrong(row):
            raise DataError(reason, file, line)
        found.append(row)
    if not found:
        raise DataError("no rows", file)
    return found


def _check(messages: Any, images: int, file: Path, line: int) -> None:
    try:
        shown = sum(part["type"] == "image" for turn in messages for part in turn["content"])
        answered = messages[-1]["role"] == "assistant"
    except (TypeError, KeyError, IndexError):
        raise DataError("messages are no conversation; write it by `export sft --framework trl`", file, line) from None
    if not answered or shown != images:
        raise DataError(f"the conversation ends with no answer, or shows {shown} images of {images}", file, line)


def picture(file: str) -> Any:
    """The image as judges of this machine see it."""
    with open_image(Path(file).read_bytes(), Path(file)) as image:
        return rgb(upright(image), on_white=False)


def conversation(row: Row) -> list[dict[str, Any]]:
    """The row's messages, with its images where they are shown."""
    images = iter(row["images"])
    return [
        {**turn, "content": [{**part, "image": picture(next(images))} if part["type"] == "image" else part
                             for part in turn["content"]]}
        for turn in row["messages"]
    ]  # fmt: skip


def answers_learnt(processor: Any, talks: list[list[dict[str, Any]]]) -> Any:
    """Inputs of whole conversations; `labels` are the tokens of the last answer of each, and nothing else."""
    made = inputs_of(processor, talks, generate=False, pad_left=False)
    asked = inputs_of(processor, [talk[:-1] for talk in talks], generate=True, pad_left=False)
    made["labels"] = made["input_ids"].masked_fill(made["attention_mask"] == 0, -100)
    for at, length in enumerate(asked["attention_mask"].sum(dim=1).tolist()):
        if not torch.equal(made["input_ids"][at, :length], asked["input_ids"][at, :length]):
            raise UserError("the chat template of the model writes a question otherwise once it is answered")
        made["labels"][at, :length] = -100
    return made


def begin(flags: argparse.Namespace, *, least_pixels: int = 56 * 56) -> tuple[Any, Any]:
    """The model and its processor; refuses a folder that another training was begun in."""
    told = {name: str(value) for name, value in vars(flags).items() if name not in ("out", "val", "save_every")}
    told["train"] = hashlib.sha256(flags.train.read_bytes()).hexdigest()
    note = flags.out / "training.json"
    if note.exists() and (before := json.loads(note.read_text())) != told:
        changed = ", ".join(sorted(name for name in told if before.get(name) != told[name]))
        raise ConfigError(f"{flags.out}: training was begun there with another {changed}; choose another --out")
    set_seed(flags.seed)
    size = {"shortest_edge": least_pixels, "longest_edge": flags.max_pixels}
    try:
        model = AutoModelForImageTextToText.from_pretrained(flags.model, dtype=getattr(torch, flags.dtype))
        processor = load_processor(flags.model, size=size)
    except (OSError, ValueError) as error:  # of many kinds, in many lines
        raise ConfigError(f"--model {flags.model} cannot be loaded: {str(error).splitlines()[0]}") from error
    flags.out.mkdir(parents=True, exist_ok=True)
    write_atomic(note, json.dumps(told, indent=1) + "\n")
    return model, processor


def with_lora(model: Any, **more: Any) -> Any:
    """The model with LoRA in the linear layers of its language part; everything else is frozen."""
    return get_peft_model(model, LoraConfig(r=32, lora_alpha=64, lora_dropout=0.05, target_modules=LAYERS, **more))


def train(
    model: Any, flags: argparse.Namespace, learn: list[Row], measure: list[Row], collate: Callable[[list[Row]], Any],
    kind: type[Trainer] = Trainer, **more: Any,
) -> Trainer:  # fmt: skip
    """Train, from the last whole checkpoint on where there is one."""
    folder = flags.out / "checkpoints"
    settings = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=flags.epochs,
        per_device_train_batch_size=flags.batch_size,
        per_device_eval_batch_size=flags.batch_size,
        gradient_accumulation_steps=flags.accumulate,
        learning_rate=flags.lr,
        seed=flags.seed,
        save_strategy="steps" if flags.save_every else "epoch",
        save_steps=flags.save_every or 500,
        save_total_limit=2,
        logging_steps=10,
        report_to="none",
        remove_unused_columns=False,
        dataloader_pin_memory=torch.cuda.is_available(),
    )
    trainer = kind(model, settings, collate, learn, measure or None, **more)
    whole = [file.parent for file in folder.glob("checkpoint-*/trainer_state.json")]  # written last of its files
    last = max(whole, key=lambda each: int(each.name.rpartition("-")[2]), default=None)
    trainer.train(resume_from_checkpoint=None if last is None else str(last))
    return trainer


def save(model: Any, processor: Any, out: Path) -> None:
    """The model with LoRA merged into its weights, as any program of transformers loads it."""
    model.save_pretrained(out)
    if isinstance(getattr(processor, "video_processor", None), SimpleNamespace):
        del processor.video_processor  # a stand-in where torchvision is missing
    processor.save_pretrained(out)
    processor.image_processor.save_pretrained(out)  # in a file of its own, as models are released


def run(main: Callable[[], None]) -> None:
    """Run a program: errors of its user in one line, exit code 2; Ctrl-C says how it goes on."""
    try:
        main()
    except UserError as error:
        sys.exit(_told(str(error), 2))
    except OSError as error:
        sys.exit(_told(f"{error.filename or error}: {error.strerror}" if error.strerror else str(error), 2))
    except KeyboardInterrupt:
        sys.exit(_told("interrupted; the same command goes on from the last checkpoint", 130))


def _told(message: str, code: int) -> int:
    print(message.splitlines()[0], file=sys.stderr)
    return code
