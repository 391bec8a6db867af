"""`batch export` and `batch import`: the questions of a run as a file, and answers from anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from titjudge.cli.options import JSON, PATH, model_options, model_overrides

F = TypeVar("F", bound=Callable[..., Any])
_SHOWN = 10  # names of each kind

_WHAT = (
    click.option("--data", type=PATH, metavar="DIR", help="Data folder, or one manifest (.jsonl or .csv)."),
    click.option("--suite", metavar="NAME", help="How the data are read; see `suites`  [default: folder]."),
    click.option(
        "--metric", "metrics", multiple=True, metavar="NAME", help="A metric; repeatable  [default: the suite's]."
    ),
    click.option("--limit", type=int, metavar="N", help="Only the first N items."),
)


def _run_options(function: F) -> F:
    for option in reversed(_WHAT):
        function = option(function)
    return function


@click.group()
def batch() -> None:
    """Offline batches: take the questions of a run elsewhere, and bring the answers back.

    Give the options that `judge` will get: questions and answers belong together by provider, model, prompt, picture and
    parameters. (`judge --batch` sends jobs to OpenAI or Gemini by itself.)

    \b
    Examples:
      python cli.py batch export --data my_images --provider openai --out questions.jsonl
      python cli.py batch import --data my_images --provider openai answers.jsonl
      python cli.py judge --data my_images --provider openai
    """


@batch.command()
@_run_options
@model_options
@click.option("--out", type=PATH, required=True, metavar="FILE", help="Where the questions go, as OpenAI batch JSONL.")
@JSON
def export(**flags: Any) -> int:
    """Write the questions a run would ask now; nothing is sent.

    An item's second question (the judge's) can be exported once its first (the captioner's) has been imported.
    """
    from titjudge.cli.show import write_json
    from titjudge.offline import export as export_requests

    session = _session(flags)
    try:
        done = export_requests(session, flags["out"])
    finally:
        session.cache.close()
    if not done.requests:
        click.echo("nothing to ask: every answer is there already")
    for file in done.files:
        click.echo(f"wrote {file}")
    if done.requests:
        click.echo(f"{done.requests} questions; bring the answers back with `batch import` and the same options")
    write_json(flags["json_file"], {"requests": done.requests, "files": [str(file) for file in done.files]})
    return 0


@batch.command("import")
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE...")
@_run_options
@model_options
@JSON
def import_(**flags: Any) -> int:
    """Put answers into the cache, where `judge` finds them.

    A line of FILE is one of an OpenAI batch's output, or {"custom_id": KEY, "text": "..."}. An answer that is there
    already is never replaced. The exit code is 1 when no line was of use.
    """
    from dataclasses import asdict

    from titjudge.cli.show import write_json
    from titjudge.offline import import_answers

    session = _session(flags)
    found = {}
    try:
        for file in flags["files"]:
            found[str(file)] = import_answers(session, file)
    finally:
        session.cache.close()
    for name, one in found.items():
        click.echo(f"{name}: {one.imported} answers imported, {one.already} were there already")
        _name("unusable", [f"{key}: {reason}" for key, reason in one.unusable])
        _name("not asked by this run (or not yet)", one.unknown)
        _name("malformed", one.bad)
    write_json(flags["json_file"], {name: asdict(one) for name, one in found.items()})
    return 0 if any(one.imported or one.already for one in found.values()) else 1


def _name(what: str, lines: list[str]) -> None:
    if not lines:
        return
    click.echo(f"  {len(lines)} {what}:", err=True)
    for line in lines[:_SHOWN]:
        click.echo("    " + "".join(each if each.isprintable() else "?" for each in line), err=True)
    if len(lines) > _SHOWN:
        click.echo(f"    ... and {len(lines) - _SHOWN} more", err=True)


def _session(flags: dict[str, Any]) -> Any:
    from titjudge.config import load_config
    from titjudge.session import Session

    overrides = model_overrides(flags)
    overrides |= {
        "data": flags["data"],
        "suite": flags["suite"],
        "metrics": list(flags["metrics"]) or None,
        "limit": flags["limit"],
    }
    return Session(load_config(flags["config_file"], overrides))
