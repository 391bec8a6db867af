"""`probe`: how far a judge can be believed."""

from __future__ import annotations

from typing import Any

import click

from titjudge.cli.options import JSON, PATH, model_options, option, overrides_of
from titjudge.cli.terminal import say


@click.command()
@option("--data", "A folder of known answers  [default: the bundled example].", "DIR", type=PATH)
@option(
    "--metric",
    "How the judge is asked; see `metrics`  [default: tit-llm; lmm-score without a --judge].",
    "NAME",
    default=None,
)
@model_options
@option("--repeats", "How often the same question is asked.", "N", type=click.IntRange(min=2), default=3)
@option(
    "--edits",
    "Errors of each kind that are planted in the prompt, one at a time, for each image; fewer cost less and say less.",
    "N",
    type=click.IntRange(min=2),
    default=6,
)
@option("--out", "The run folder  [default: runs/probe-DATA-HASH].", "DIR", type=PATH)
@option("--dry-run", "Count requests and tokens and price them; send nothing.", is_flag=True)
@JSON
def probe(**flags: Any) -> int:
    """Put a judge to known answers, planted errors, bribes and harmless changes, and print its trust card.

    Each line has an effect, an interval, a p-value and a verdict: pass, caught, or not enough data, with the number of
    prompts that it lacks. With several judges each gets a card, and those of other families describe the images and judge
    each other's descriptions (self-preference). About 1,000 scores, 600 with --edits 2; answers are cached, so that a
    second time costs nothing.

    \b
    Examples:
      python cli.py probe --provider openai --dry-run
      python cli.py probe --provider openai --max-cost 10
      two cards, with self-preference:
      python cli.py probe --judge openai/gpt-4o --judge gemini/gemini-2.5-flash
      recorded descriptions, so that no image is sent:
      python cli.py probe --judge gemini/gemini-2.5-flash
      python cli.py probe --metric lmm-score --provider gemini --edits 2
      no key, no network:
      python cli.py probe --metric tit
    """
    from titjudge.cli.output import show_tables, write_json
    from titjudge.core.config import load_config
    from titjudge.runs.probe_run import dry_run, probe_folder, run_probe
    from titjudge.runs.run_folder import rest_of_caps

    overrides = overrides_of(flags)
    config = load_config(flags["config_file"], overrides)
    metric = flags["metric"] or (config.metrics[0] if config.metrics else "tit-llm" if config.judge else "lmm-score")
    config = load_config(flags["config_file"], overrides | {"metrics": [metric]})
    cards = []
    incomplete = False
    judges = [config.judge, *config.panel]
    chosen_for = []
    for number, judge in enumerate(judges):
        changes: dict[str, Any] = {"judge": judge, "panel": []}
        if config.panel and config.out is not None:
            changes["out"] = config.out / f"judge-{number + 1}"
        chosen_for.append(config.model_copy(update=changes))
    folders = [probe_folder(each) for each in chosen_for]
    for number, (judge, chosen) in enumerate(zip(judges, chosen_for, strict=True)):
        rivals = [each for each in judges if each is not None and each is not judge]
        limits = rest_of_caps(config.limits, folders[:number] + folders[number + 1 :])
        chosen = chosen.model_copy(update={"limits": limits})
        if flags["dry_run"]:
            found = dry_run(chosen, repeats=flags["repeats"], edits=flags["edits"], rivals=rivals)
            show_tables([found.table()])
            cards.append(found.to_json())
            continue
        card, folder = run_probe(
            chosen,
            repeats=flags["repeats"],
            edits=flags["edits"],
            rivals=rivals,
            say=lambda line: say(line, err=True),
        )
        show_tables(card.tables())
        say(f"card {folder / 'card.json'}")
        cards.append(card.to_json())
        incomplete = incomplete or bool(card.notes)
    write_json(flags["json_file"], cards[0] if len(cards) == 1 else cards)
    return 3 if incomplete else 0
