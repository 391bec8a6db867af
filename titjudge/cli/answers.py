"""`answers export`, `import` and `record`: write the questions of a run to a file, and read answers from a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from titjudge.cli.commands import Group
from titjudge.cli.option_table import PATH
from titjudge.cli.options import JSON, F, RunKeys, configured, model_options, options, with_options
from titjudge.cli.output import write_json
from titjudge.cli.terminal import say
from titjudge.core.errors import ConfigError

if TYPE_CHECKING:
    from titjudge.runs.session import Session

_SHOWN = 10  # problems printed of each kind

_run_options: Callable[[F], F] = with_options(options("data", "suite", "metrics", "limit", "protocol"), model_options)


@click.group(cls=Group, resumed=True)
def answers() -> None:
    """Export the questions of a run to a file, and import or record answers from a file.

    Give the same options as to `judge`: an answer belongs to a question with the same provider, model, prompt, image and
    parameters. (`judge --batch` itself sends batch jobs to OpenAI or Gemini.)

    Answers can also be recorded beside the data: answers of a person, of another model, or those a run has paid for.
    `--captioner recorded --judge recorded` then replays them on any machine, without a network.

    \b
    Examples:
      python cli.py answers export --provider openai --out questions.jsonl
      python cli.py answers import --data my_images --provider openai \\
        answers.jsonl
      python cli.py judge --data my_images --provider openai
      python cli.py answers record --data my_images --provider openai
      python cli.py answers export --provider recorded --out open.jsonl
      python cli.py answers record --provider recorded --author me answered.jsonl
      python cli.py judge --data my_images --provider recorded

    docs/how-to/recorded-answers.md explains it step by step.
    """


@answers.command()
@_run_options
@options(out=..., crops=None)
@JSON
@configured
def export(keys: RunKeys, out: Path, crops: Path | None, json_file: Path | None) -> int:
    """Write the questions that a run would ask now; nothing is sent.

    The file is batch input of OpenAI (JSON lines). A question that depends on another answer (the judge's on the captioner's) can be exported once that answer has been
    imported. With `recorded` in all roles it writes what is not recorded yet, in plain lines (custom_id, item, template,
    images, question, schema), all of one image together and the images in random order. If nothing is left to ask, the file is empty and the exit code is 0.

    \b
    Example:
      python cli.py answers export --provider openai --out questions.jsonl
    """
    from titjudge.runs.offline.batch import export as export_requests
    from titjudge.runs.offline.batch import only_recorded

    session = _session(keys)
    exported = export_requests(session, out, crops=crops)
    if exported.requests:
        for part in exported.files:
            say(f"wrote {part}")
        back = "record" if only_recorded(session) else "import"
        say(f"{exported.requests} questions; bring the answers back with `answers {back}` and the same options")
    else:
        say(f"nothing to ask: every answer is there already; {out} is empty")
    write_json(json_file, {"requests": exported.requests, "files": [str(part) for part in exported.files]})
    return 0


@answers.command("import")
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE...")
@_run_options
@JSON
@configured
def import_(keys: RunKeys, files: tuple[Path, ...], json_file: Path | None) -> int:
    """Put answers into the cache, where `judge` finds them.

    Each line of FILE is a line of an OpenAI batch's output, or {"custom_id": KEY, "text": "..."} with the custom_id of the
    exported question (`answer` instead of `text` works, and so does a JSON object instead of a text). An answer that is
    already there is never replaced. The exit code is 1 if no line could be used.

    \b
    Example:
      python cli.py answers import --data my_images --provider openai \\
        answers.jsonl
    """
    from dataclasses import asdict

    from titjudge.runs.offline.batch import import_answers

    session = _session(keys)
    imports = {str(file): import_answers(session, file) for file in files}
    for name, result in imports.items():
        say(f"{name}: {result.imported} answers imported, {result.already} were there already")
        _show_unused(result)
    write_json(json_file, {name: asdict(result) for name, result in imports.items()})
    return 0 if any(result.imported or result.already for result in imports.values()) else 1


@answers.command()
@click.argument("files", nargs=-1, type=PATH, metavar="[FILE...]")
@_run_options
@options("out", "author", "replace")
@JSON
@configured
def record(
    keys: RunKeys, files: tuple[Path, ...], out: Path | None, author: str | None, replace: bool, json_file: Path | None
) -> int:
    """Record answers next to the data, for the provider `recorded`.

    They are kept in answers.jsonl of the data folder, or --out. Records the answers in each FILE, and the cached answers that a run with these options would use. Each line of FILE has
    one of the forms that `answers import` reads. A line of the recording has the question, the image, the answer and its
    author; its key contains no path, so the folder can be moved or given away. A recorded answer is replaced only with
    --replace. The exit code is 1 if there is nothing to record.

    \b
    Example:
      python cli.py answers record --provider recorded --author me answered.jsonl
    """
    from dataclasses import asdict

    from titjudge.providers.recorded import ANSWERS
    from titjudge.runs.offline.recording import record as record_answers

    session = _session(keys)
    folder = Path(session.config.data or "")
    if out is None and not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder, so it cannot contain {ANSWERS}. Add --out FILE")
    out = out or folder / ANSWERS
    result = record_answers(session, files, out, by=author or "", replace=replace)
    say(f"{out}: {result.imported} answers recorded, {result.already} were there already")
    if result.replaced:
        say(
            f"  {result.replaced} of them replace earlier answers; {result.dropped} answers that depended on these were dropped"
        )
    _show_some("recorded otherwise before (--replace would correct them)", result.differing)
    _show_unused(result)
    write_json(json_file, asdict(result))
    return 0 if result.imported or result.already else 1


def _show_unused(result: Any) -> None:
    _show_some("unusable", [f"{key}: {reason}" for key, reason in result.unusable])
    _show_some("not asked by this run (or not yet)", result.unknown)
    _show_some("malformed", result.bad)


def _show_some(what: str, lines: Sequence[str]) -> None:
    if not lines:
        return
    say(f"  {len(lines)} {what}:", err=True)
    for line in lines[:_SHOWN]:
        say("    " + "".join(character if character.isprintable() else "?" for character in line), err=True)
    if len(lines) > _SHOWN:
        say(f"    ... and {len(lines) - _SHOWN} more", err=True)


def _session(keys: RunKeys) -> Session:
    from titjudge.runs.session import Session

    return Session(keys.config())
