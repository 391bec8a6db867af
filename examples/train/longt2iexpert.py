"""Train LongT2IExpert: one model that interprets the alignment of an image with a long prompt and scores it at a token.

Rows have images, prompt and score (0 to 1), and messages where there is an interpretation (`titjudge export sft
--metric graph-alignment --framework trl`). The metric `longt2iexpert` loads OUT.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from recipe import Row, answers_learnt, begin, conversation, parser, picture, rows, run, save, train, with_lora
from torch import nn
from transformers import Trainer

from titjudge.cli.output import show_tables
from titjudge.core.files import write_atomic
from titjudge.core.numbers import finite
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import Table
from titjudge.data.learned_metrics import TABLE
from titjudge.providers.learned.chat_heads import controls_of, inputs_of, question
from titjudge.suites.longt2ibench.statistics import by_interval, interval, tables, words

OPTIONS = TABLE["longt2iexpert"].options  # of the metric: what is learnt is what it will ask
PROMPT = PromptLibrary().get(OPTIONS["template"])
TOKEN = str(OPTIONS["token"])
WEIGHT = 10.0  # of the loss of scores: L = L_I + 10 L_S


class Expert(Trainer):
    """The interpretation is learnt token by token (L_I), the score as the head reads it at the level token (L_S)."""

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:
        loss = WEIGHT * nn.functional.mse_loss(scores(model, inputs), inputs["score"])
        if "interpretation" in inputs:
            loss = loss + model(**inputs["interpretation"]).loss
        return loss


def scores(model: Any, inputs: Any) -> torch.Tensor:
    """What the head reads off the last state of the level token of each question."""
    states = model(**inputs["question"], output_hidden_states=True, logits_to_keep=1).hidden_states[-1]
    read = states[torch.arange(len(states), device=states.device), inputs["place"]]
    return torch.sigmoid(model.get_base_model().score_head(read.float())[:, 0])


def collate(processor: Any, batch: list[Row]) -> dict[str, Any]:
    """What a step reads: the question of the metric with the score, and the interpretations that there are."""
    controls = controls_of(processor.tokenizer)
    asked = [question(PROMPT, OPTIONS, picture(row["images"][0]), row["prompt"], controls) for row in batch]
    inputs = inputs_of(processor, asked, generate=False, pad_left=False)
    level = processor.tokenizer.convert_tokens_to_ids(TOKEN)
    made = {
        "question": inputs,
        "place": torch.tensor([int((row == level).nonzero()[-1]) for row in inputs["input_ids"]]),
        "score": torch.tensor([float(row["score"]) for row in batch]),
    }
    if talks := [conversation(row) for row in batch if "messages" in row]:
        made["interpretation"] = answers_learnt(processor, talks)
    return made


def optimizer(model: Any, lr: float, head_lr: float) -> torch.optim.Optimizer:
    named = [(name, value) for name, value in model.named_parameters() if value.requires_grad]
    head = [value for name, value in named if "score_head" in name]
    rest = [value for name, value in named if "score_head" not in name]
    return torch.optim.AdamW([{"params": rest, "lr": lr}, {"params": head, "lr": head_lr}], weight_decay=0.0)


def wrong(row: Row) -> str:
    score = finite(row["score"])
    if score is None or not 0 <= score <= 1:
        return "score is no number between 0 and 1"
    return "" if isinstance(row["prompt"], str) else "prompt is no text"


@torch.inference_mode()
def predictions(trainer: Trainer, processor: Any, held_out: list[Row], size: int) -> Iterator[tuple[Row, float]]:
    """Score rows with the trained model."""
    trainer.model.eval()
    for at in range(0, len(held_out), size):
        batch = held_out[at : at + size]
        inputs = trainer._prepare_inputs(collate(processor, batch))
        yield from zip(batch, scores(trainer.model, inputs).tolist(), strict=True)


def measured(found: list[tuple[Row, float]]) -> list[Table]:
    """Tables of SRCC and PLCC with the scores of rows, overall and by the five intervals of length."""
    pairs = [(str(row["prompt"]), score, float(row["score"])) for row, score in found]
    short = sum(not interval(words(prompt)) for prompt, _, _ in pairs)
    return tables(
        {"correlation": by_interval(pairs), "short_prompts": short, "coverage": {"rows": len(pairs)}, "problems": []}
    )


def expert(model: Any, processor: Any) -> Any:
    """Add the token, the head of three layers, and LoRA."""
    tokenizer = processor.tokenizer
    tokenizer.add_tokens([TOKEN], special_tokens=True)
    if len(tokenizer) > model.get_input_embeddings().num_embeddings:
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    width = model.config.get_text_config().hidden_size
    drop = nn.Dropout(0.1)
    model.score_head = nn.Sequential(
        nn.Linear(width, 512), nn.ReLU(), drop, nn.Linear(512, 256), nn.ReLU(), drop, nn.Linear(256, 1)
    ).to(model.device)
    level = tokenizer.convert_tokens_to_ids(TOKEN)
    return with_lora(model, modules_to_save=["score_head"], trainable_token_indices={"embed_tokens": [level]})


def main(argv: list[str] | None = None) -> None:
    flags_of = parser(str(__doc__), lr=5e-5)
    flags_of.add_argument("--head-lr", type=float, default=2e-4, help="learning rate of the head")
    flags = flags_of.parse_args(argv)
    needed = ("images", "prompt", "score")
    learn = rows(flags.train, needed, wrong)
    held_out = rows(flags.val, needed, wrong) if flags.val else []
    counted = Counter(interval(words(row["prompt"])) or "below 30" for row in learn)
    print("rows by words of the prompt:", ", ".join(f"{name}: {count}" for name, count in sorted(counted.items())))
    base, processor = begin(flags, least_pixels=OPTIONS["pixels"][0])
    model = expert(base, processor)
    trainer = train(
        model, flags, learn, [], lambda batch: collate(processor, batch), Expert,
        optimizers=(optimizer(model, flags.lr, flags.head_lr), None),
    )  # fmt: skip
    if held_out:
        found = list(predictions(trainer, processor, held_out, flags.batch_size))
        lines = [json.dumps({**row, "predicted": score}, ensure_ascii=False) + "\n" for row, score in found]
        write_atomic(flags.out / "validation.jsonl", "".join(lines))
        show_tables(measured(found))
    merged = model.merge_and_unload()
    head = merged.score_head
    del merged.score_head
    save(merged, processor, flags.out)
    torch.save(head.state_dict(), flags.out / str(OPTIONS["head"]))
    print(f"{flags.out}: weights of the metric longt2iexpert")


if __name__ == "__main__":
    run(main)
