"""`batch export`, `batch import` and `batch record`: questions of a run as a file, answers from anywhere, kept or replayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from titjudge.cli.options import JSON, PATH, key_option, model_options, option, overrides_of, with_options
from titjudge.cli.terminal import say

F = TypeVar("F", bound=Callable[..., Any])
_SHOWN = 10  # names of each kind

_run_options: Callable[[F], F] = with_options(
    key_option("data", "DIR"),
    key_option("suite", "NAME"),
    key_option("metrics", "NAME", "--metric", multiple=True),
    key_option("limit", "N"),
    key_option("limit_seed", "S"),
)


@click.group()
def batch() -> None:
    """Offline batches: take the questions of a run elsewhere, and bring the answers back.

    Give the options that `judge` will get: questions and answers belong together by provider, model, prompt, image and
    parameters. (`judge --batch` sends jobs to OpenAI or Gemini by itself.)

    Answers can also be recorded beside the data, where `--captioner recorded --judge recorded` replays them anywhere,
    without a network: those of a person or model that can see the images, or those a run has paid for.

    \b
    Examples:
      python cli.py batch export --provider openai --out questions.jsonl
      python cli.py batch import --data my_images --provider openai answers.jsonl
      python cli.py judge --data my_images --provider openai
      python cli.py batch record --data my_images --provider openai
      python cli.py batch export --provider recorded --out open.jsonl
      python cli.py batch record --provider recorded --by me answered.jsonl
      python cli.py judge --data my_images --provider recorded

    docs/recorded.md goes through it step by step.
    """


@batch.command()
@_run_options
@model_options
@option("--out", "Where the questions go, as OpenAI batch JSONL.", "FILE", type=PATH, required=True)
@option("--crops", "Where parts of images go, as files  [default: into the lines].", "DIR", type=PATH)
@JSON
def export(**flags: Any) -> int:
    """Write the questions a run would ask now; nothing is sent.

    An item's second question (the judge's) can be exported once its first (the captioner's) has been imported. With
    `recorded` in all roles: what is not recorded yet, in plain lines (custom_id, item, template, images, question, schema),
    in the order of the items. When nothing is left to ask FILE is empty, and the exit code 0.
    """
    from titjudge.cli.output import write_json
    from titjudge.runs.offline_batch import only_recorded
    from titjudge.runs.offline_export import export as export_requests

    session = _session(flags)
    try:
        done = export_requests(session, flags["out"], crops=flags["crops"])
    finally:
        session.cache.close()
    if not done.requests:
        say(f"nothing to ask: every answer is there already; {flags['out']} is empty")
    for file in done.files if done.requests else ():
        say(f"wrote {file}")
    if done.requests:
        back = "record" if only_recorded(session) else "import"
        say(f"{done.requests} questions; bring the answers back with `batch {back}` and the same options")
    write_json(flags["json_file"], {"requests": done.requests, "files": [str(file) for file in done.files]})
    return 0


@batch.command("import")
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE...")
@_run_options
@model_options
@JSON
def import_(**flags: Any) -> int:
    """Put answers into the cache, where `judge` finds them.

    A line of FILE is one of an OpenAI batch's output, or {"custom_id": KEY, "text": "..."}, KEY being the custom_id of
    the exported question (`answer` is taken for `text`, and a JSON object for its text). An answer that is there already
    is never replaced. The exit code is 1 when no line was of use.
    """
    from dataclasses import asdict

    from titjudge.cli.output import write_json
    from titjudge.runs.offline_import import import_answers

    session = _session(flags)
    found = {}
    try:
        for file in flags["files"]:
            found[str(file)] = import_answers(session, file)
    finally:
        session.cache.close()
    for name, one in found.items():
        say(f"{name}: {one.imported} answers imported, {one.already} were there already")
        _name_rest(one)
    write_json(flags["json_file"], {name: asdict(one) for name, one in found.items()})
    return 0 if any(one.imported or one.already for one in found.values()) else 1


@batch.command()
@click.argument("files", nargs=-1, type=PATH, metavar="[FILE...]")
@_run_options
@model_options
@option("--to", "The recording  [default: answers.jsonl in the data folder].", "FILE", type=PATH)
@option("--by", "Who gave the answers  [default: the name of the model].", "WHO")
@option("--replace", "Correct recorded answers by those in FILE; what was built on them is dropped.", is_flag=True)
@JSON
def record(**flags: Any) -> int:
    """Record answers beside the data, where `recorded` replays them.

    Takes the answers in each FILE and those in the cache that a run with these options would use. A line of FILE is
    {"custom_id": KEY, "text": "..."}, KEY being the custom_id of the exported question (`answer` is taken for `text`, and
    a JSON object for its text), or one of an OpenAI batch's output. A line of the recording says what was asked, of which
    image, what was answered and by whom; its key holds no path, so the folder can be moved or given away. A recorded
    answer is replaced only with --replace. The exit code is 1 when there is none.
    """
    from dataclasses import asdict

    from titjudge.cli.output import write_json
    from titjudge.core.errors import ConfigError
    from titjudge.providers.recorded import ANSWERS
    from titjudge.runs.recording import record as record_answers

    session = _session(flags)
    try:
        data = session.config.data
        if flags["to"] is None and not data.is_dir():
            raise ConfigError(f"{data} is no folder that could hold {ANSWERS}: --to names the recording")
        to = flags["to"] or data / ANSWERS
        done = record_answers(session, flags["files"], to, by=flags["by"] or "", replace=flags["replace"])
    finally:
        session.cache.close()
    say(f"{to}: {done.imported} answers recorded, {done.already} were there already")
    if done.replaced:
        say(f"  {done.replaced} of them in the place of others; {done.dropped} answers built on those were dropped")
    _name("recorded otherwise before (--replace would correct them)", done.differing)
    _name_rest(done)
    write_json(flags["json_file"], asdict(done))
    return 0 if done.imported or done.already else 1


def _name_rest(done: Any) -> None:
    _name("unusable", [f"{key}: {reason}" for key, reason in done.unusable])
    _name("not asked by this run (or not yet)", done.unknown)
    _name("malformed", done.bad)


def _name(what: str, lines: list[str]) -> None:
    if not lines:
        return
    say(f"  {len(lines)} {what}:", err=True)
    for line in lines[:_SHOWN]:
        say("    " + "".join(each if each.isprintable() else "?" for each in line), err=True)
    if len(lines) > _SHOWN:
        say(f"    ... and {len(lines) - _SHOWN} more", err=True)


def _session(flags: dict[str, Any]) -> Any:
    from titjudge.core.config import load_config
    from titjudge.runs.session import Session

    overrides = overrides_of({**flags, "out": None})  # `--out` of an export is no run folder
    return Session(load_config(flags["config_file"], overrides))
