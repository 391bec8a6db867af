"""Teach a vision-language model the answers of a judge, as Q-Judger was taught those of experts: supervised fine-tuning.

Rows have the form of `titjudge export sft --framework trl`; the model in OUT is a judge: `judge --judge local/OUT`.
"""

from __future__ import annotations

from recipe import answers_learnt, begin, conversation, parser, rows, run, save, train, with_lora


def main(words: list[str] | None = None) -> None:
    flags = parser(str(__doc__), lr=1e-4).parse_args(words)
    learn = rows(flags.train, ("messages", "images"))
    measure = rows(flags.val, ("messages", "images")) if flags.val else []
    model, processor = begin(flags)
    trainer = train(
        with_lora(model), flags, learn, measure,
        lambda batch: answers_learnt(processor, [conversation(row) for row in batch]),
    )  # fmt: skip
    if measure:
        print(f"loss on {len(measure)} rows of {flags.val}: {trainer.evaluate()['eval_loss']:.4f}")
    save(trainer.model.merge_and_unload(), processor, flags.out)
    print(f"{flags.out}: a judge, as in `judge --judge local/{flags.out}`")


if __name__ == "__main__":
    run(main)
