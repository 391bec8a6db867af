"""Options that several commands share, and how flags become a configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)


def _json_file(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    import contextlib
    import sys

    from titjudge.cli.output import STDOUT, check_writable

    check_writable(path)
    if str(path) == "-":  # standard output belongs to the JSON alone: whatever else is said goes to standard error
        context.meta[STDOUT] = sys.stdout
        context.with_resource(contextlib.redirect_stdout(sys.stderr))
    return path


JSON = click.option(
    "--json",
    "json_file",
    type=PATH,
    metavar="FILE",
    callback=_json_file,
    help="Write the results as JSON too (-: to standard output, and all else to standard error).",
)

MODELS = (
    click.option("--provider", metavar="NAME", help="Captioner and judge at once: openai, gemini, ... with its default model."),
    click.option("--captioner", metavar="PROVIDER/MODEL", help="The vision-language model that describes images; `recorded` replays descriptions.jsonl and answers.jsonl."),
    click.option("--judge", multiple=True, metavar="PROVIDER/MODEL", help="The language model that compares prompt and description; several make a panel; `recorded` replays answers.jsonl."),
    click.option("--embedder", metavar="PROVIDER/MODEL", help="The embedding model of TIT-Score  [default: the embedded MiniLM]."),
    click.option("--base-url", metavar="URL", help="Address of a compatible server for captioner and judge; several, comma-separated, share the load."),
    click.option("--trust-remote-code", is_flag=True, default=None, help="Let models that run here run the code that comes with them."),
    click.option("--config", "config_file", type=PATH, metavar="FILE", help="run.yaml; flags go before its keys."),
    click.option("--protocol", type=click.Choice(["strict", "official"]), help="strict mends the quirks of the official code; official keeps them  [default: strict]."),
    click.option("--prompts", type=PATH, metavar="DIR", help="Templates that replace the bundled ones of the same name."),
    click.option("--cache", type=PATH, metavar="DIR", help="Where answers are kept  [default: $TITJUDGE_CACHE or cache/]."),
    click.option("--max-cost", type=float, metavar="USD", help="Hard cap on what the run may spend, over all roles and retries."),
    click.option("--price", "price", multiple=True, metavar="MODEL=IN,OUT[,CACHED]", help="Price in USD per million tokens; repeatable."),
    click.option("--concurrency", type=int, metavar="N", help="Most requests in flight for each account  [default: 32]."),
    click.option("--timeout", type=float, metavar="SECONDS", help="Longest time for one request  [default: 120]."),
    click.option("--lenient", is_flag=True, default=None, help="Repair malformed JSON answers, and flag them."),
)  # fmt: skip


def model_options(function: F) -> F:
    for option in reversed(MODELS):
        function = option(function)
    return function


def model_overrides(flags: dict[str, Any]) -> dict[str, Any]:
    """The configuration keys that the shared flags set."""
    from titjudge.engine.prices import parse_price_flag

    captioner = flags["captioner"] or flags["provider"]
    judges = [{"model": judge} for judge in flags["judge"] or filter(None, [flags["provider"]])]
    prices = {}
    for flag in flags["price"]:
        model, price = parse_price_flag(flag)
        prices[model] = price
    return {
        "captioner": {"model": captioner} if captioner else None,
        "judge": judges[0] if len(judges) == 1 else judges or None,
        "embedder": {"model": flags["embedder"]} if flags["embedder"] else None,
        "base_url": flags["base_url"],
        "trust_remote_code": flags["trust_remote_code"],
        "protocol": flags["protocol"],
        "prompts": flags["prompts"],
        "cache": flags["cache"],
        "lenient": flags["lenient"],
        "limits": {"max_cost": flags["max_cost"], "concurrency": flags["concurrency"], "timeout": flags["timeout"]},
        "prices": prices or None,
    }
