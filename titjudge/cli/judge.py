"""`judge`: judge the images of a data folder."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from titjudge.cli import BUDGET_REACHED, TOO_FEW_SCORED
from titjudge.cli.commands import Command
from titjudge.cli.compare_options import SettleFlags
from titjudge.cli.option_table import PATH
from titjudge.cli.options import EXPLAIN, JSON, RunKeys, Sinks, configured, gathered, model_options, options
from titjudge.cli.output import (
    declared,
    paragraph,
    show_forecast,
    show_notes,
    show_places,
    show_problems,
    show_tables,
    terminal_width,
    write_json,
)
from titjudge.cli.terminal import printable, say
from titjudge.core.errors import ConfigError
from titjudge.core.numbers import sum_words, uncertain_words
from titjudge.core.types import Note

if TYPE_CHECKING:
    from titjudge.core.config import Limits, RunConfig
    from titjudge.runs.outcome import Outcome
    from titjudge.runs.resolve import ResolvedRun
    from titjudge.runs.session import Session
    from titjudge.runs.study.settling import SettlingQuestion
    from titjudge.suites.base import Suite


@click.command(
    cls=Command,
    resumed=True,
    epilog="See docs/reference/configuration.md for run.yaml and docs/reference/metrics.md for the metrics.",
)
@click.argument("folder", type=PATH, required=False, metavar="[DATA]")
@options("data", "images", "prompt_file", "columns", "sources", "image_root", "pairs", "suite", "metrics")
@model_options
@options("limit", "min_coverage", "rpm", "out", "batch", "dry_run", "shard", "canary", "retry_failed")
@gathered("settling", SettleFlags)
@options("grid", "per_prompt", "report", "protocol", "suite_options", "official_files")
@gathered("sinks", Sinks)
@EXPLAIN
@JSON
@configured
def judge(
    keys: RunKeys,
    folder: Path | None,
    settling: SettleFlags,
    official_files: Path | None,
    sinks: Sinks,
    dry_run: bool,
    json_file: Path | None,
) -> int:
    """Judge the images of a data folder, and measure how well each metric agrees with people.

    Without arguments it judges the bundled example: no key and no network. Run the command again to request only what is missing.

    \b
    Examples:
      python cli.py judge
      python cli.py judge my_images --provider openai --dry-run
      python cli.py judge my_images --provider gemini --max-cost 2
      python cli.py judge --suite known-answer
      python cli.py judge --config run.yaml --limit 50
    \f

    \b
      python cli.py judge --provider openai --metric tit-agent \\
        --set tit-agent.max_looks=12
      python cli.py judge my_images --settle old,new

    \b
    DATA is one of
      a folder with prompts.jsonl (prompt_id, prompt)
        and images.jsonl (image, prompt_id[, generator]),
        and, where people have compared images, pairs.jsonl
        (prompt_id, image_a, image_b, preference: a, b, tie)
      a manifest (.jsonl, .json, .csv, .tsv, .xlsx, .parquet):
        image, prompt[, generator, prompt_id];
        other names of columns: file_name, text, caption, ... or --columns;
        also COCO's captions_*.json and DiffusionDB's part-*.json
      a Hugging Face imagefolder: images beside metadata.jsonl, .csv or .json
      a Hugging Face data set: a .parquet with images inside, or a folder of them
        (also .arrow of `datasets`, .tar and .tar.gz of WebDataset);
        a list of images in a row is a sample each
      a folder of images with same-named prompts:
        [GENERATOR/]NAME.png and NAME.txt
      a folder of images with one list of prompts (prompts.txt, .csv, .jsonl, ...)
        in it or beside it: [GENERATOR/]0001.png, 0001_0.png, 0001-seed42.png,
        0001/0.png, ID.png, ...
    or --images 'out/{generator}/{prompt_id}_{sample}.png'
       with --prompt-file prompts.csv:index,prompt_en
    """
    from titjudge.core import registry

    keys["data"] = _data(folder, keys["data"])
    config = keys.config()
    question = settling.question(config)
    runner = registry.load("runners", config.engine) if config.engine != "local" and not dry_run else None
    judging = _session(config, question) if runner is None else runner(config, say=say)
    run = judging.resolved
    _check_official(run, official_files)
    if dry_run:
        note = Note("cost_of_settling", "all that --settle could cost: it stops when the question is settled")
        return _show_dry_run(judging, json_file, None if question is None else note)
    say(_opening(run.config))
    _show_retirements(run.config)
    outcome = _run(judging) if runner is None else judging.run(None)
    code = _show_outcome(outcome, json_file, run.config.limits)
    if official_files is not None:
        _write_official(run.suite, outcome, official_files)
    return code if sinks.send(outcome.folder) else code or 1


def _data(folder: Path | None, data: Path | None) -> Path | None:
    """Return DATA, which is an argument or the value of `--data`.

    Raises:
        ConfigError: Both are there, and are not the same.
    """
    if folder and data and folder != data:
        raise ConfigError(f"two data folders are given: {folder} and --data {data}. Remove one of them")
    return folder or data


def _session(config: RunConfig, question: SettlingQuestion | None) -> Session:
    """Prepare a run in this process."""
    from titjudge.runs.session import Session

    if question is None:
        return Session(config)
    from titjudge.runs.study.settling import SettlingSession

    return SettlingSession(config, question)


def _show_dry_run(session: Session, json_file: Path | None, note: Note | None = None) -> int:
    """Print what a run would cost; returns the exit code."""
    forecast = session.dry_run()
    if note:
        say(f"  note: {note}")
    show_forecast(forecast, json_file)
    _show_retirements(session.config)
    return 0 if forecast.items else 1


def run_images(session: Session, json_file: Path | None, *, dry_run: bool = False) -> int:
    """Run a session, or price it, and print what came of it; returns the exit code.

    Args:
        session: The run.
        json_file: The file for the results as JSON.
        dry_run: Only price it.
    """
    if dry_run:
        return _show_dry_run(session, json_file)
    return _show_outcome(_run(session), json_file, session.config.limits)


def _run(session: Session) -> Outcome:
    """Run a session, and show its progress."""
    from titjudge.cli.progress import watcher

    return session.run(watcher(session.config.limits.max_cost))


def run_prompts(keys: RunKeys, json_file: Path | None, *, dry_run: bool, **task: Any) -> tuple[int, Path | None, bool]:
    """Run a metric over prompts without images, or price that.

    Args:
        keys: The flags of the command, among them `model_options`.
        json_file: The file for the results as JSON.
        dry_run: Only price it.
        **task: Further keys of the configuration: the metric, the suite and its options.

    Returns:
        The exit code, the run folder (None after a dry run), and whether every prompt has been processed.
    """
    from titjudge.runs.session import Session

    session = Session(keys.config(report=False, **task))
    if dry_run:
        return _show_dry_run(session, json_file), None, False
    _show_retirements(session.config)
    limits = session.config.limits.model_copy(
        update={"min_coverage": None}
    )  # drafts that fail their checks are no failure
    outcome = _run(session)
    outcome.tables.clear()  # they rank generators, and there are none
    code = _show_outcome(outcome, json_file, limits, "prompts")
    return code, outcome.folder, outcome.status == "complete"


def _check_official(run: ResolvedRun, folder: Path | None) -> None:
    """Refuse a suite that cannot write official files, before anything is asked."""
    if folder and not run.suite.writes_official:
        raise ConfigError(f"--official-files: the suite {run.config.suite} has no official files. Remove the option")


def _write_official(suite: Suite, outcome: Outcome, folder: Path) -> None:
    from titjudge.runs.folder.run_folder import RunFolder

    run = RunFolder(outcome.folder)
    count = suite.write_official(list(run.judged()), list(run.scores().values()), folder)
    say(f"official files: {count:,} written to {folder}")


def _show_outcome(outcome: Outcome, json_file: Path | None, limits: Limits, noun: str = "images") -> int:
    """Print the results of a run and write them as JSON; returns the exit code."""
    write_json(json_file, results_json(outcome))
    unscored = outcome.failures and not any(metric.scored for metric in outcome.results.metrics.values())
    if not unscored:
        _show_verdict(outcome, noun)
        show_tables(outcome.tables)
    show_notes(outcome.warnings, () if unscored else outcome.tables)
    _show_failures(outcome, noun)
    if unscored:
        say(f"\nnothing was judged: no {noun.removesuffix('s')} got a score")
    _show_costs(outcome)
    if outcome.results.list_cost == 0 and not unscored:  # recorded answers, or those of a local model
        command = f"python cli.py judges costs {shlex.quote(str(outcome.folder))} --priced-as openai/gpt-6-luna"
        say(f"at a hosted model's price: {command}")
    if outcome.status not in ("complete", "settled"):
        say(how_to_resume(outcome.status, outcome.reason))
    for line in outcome.mixed:
        say(line)
    show_places(outcome)
    covered = _show_coverage(outcome, limits.min_coverage, noun)
    _show_advice(outcome, limits)
    code = exit_code(outcome.status)
    if unscored:
        return code or 1
    return code if covered else TOO_FEW_SCORED


def _show_costs(outcome: Outcome) -> None:
    """Print what was spent, and the list price of the answers."""
    spent, listed, unpriced = outcome.results.spent, outcome.results.list_cost, outcome.results.unpriced
    used = sum_words(listed, unpriced, f"${listed or 0.0:.4f}") + uncertain_words(outcome.uncertain)
    say(f"\nspent {sum_words(spent, unpriced, f'${spent or 0.0:.4f}')} (list price of all answers used: {used})")


def _show_verdict(outcome: Outcome, noun: str) -> None:
    """Print what is to be known first: which generator is better, and which metric can be trusted."""
    from titjudge.core.redaction import redact
    from titjudge.stats.verdict.sentences import sentences

    if outcome.results.verdict is None or noun != "images":
        return
    command = printable(redact(shlex.join(["python", "cli.py", *sys.argv[1:]])))
    if lines := sentences(outcome.results.verdict, outcome.results.settle, outcome.lacking, command):
        width = terminal_width()
        say("\n" + "\n".join(line if line.endswith(command) else paragraph(line, width, "") for line in lines))


def exit_code(status: str) -> int:
    """Choose the exit code for the status of a run, or of a sweep."""
    from titjudge.core.run_records import stopped_by

    codes = {"budget": BUDGET_REACHED, "interrupted": 130}
    return 0 if status in ("complete", "settled") else codes.get(stopped_by(status), 1)


def results_json(outcome: Outcome) -> Any:
    """Select the results of a run that `--json` writes; with `--settle`, `pairs` are the same as of `compare early-stopping`."""
    record = {key: value for key, value in outcome.results.to_json().items() if key != "tables"}
    if "settle" in record:
        record |= {"pairs": record["settle"]["pairs"], "human_pairs": record["pairs"]}
    return declared(record, outcome.tables)


def _show_coverage(outcome: Outcome, min_coverage: float | None, noun: str) -> bool:
    """Print how many images, and questions about the others, of a complete run have no score or no answer.

    Returns:
        Whether `min_coverage` is reached by both.
    """
    if outcome.status != "complete":
        return True
    lowest = outcome.covered or ("any metric", 0, len(outcome.failures))  # `min_coverage` is for every metric
    decides = outcome.results.covered or lowest
    counts = [(f"{noun} have no score", *metric) for metric in dict.fromkeys((decides, lowest))]
    if outcome.answered is not None:
        counts.append(("questions about scored images have no answer", *outcome.answered))
    reached = True
    for what, name, count, total in counts:
        share = count / total if total else 0.0
        enough = min_coverage is None or share >= min_coverage
        reached = reached and enough
        if count < total:
            less = "" if enough else f", less than the {min_coverage:.1%} that --min-coverage asks for"
            line = f"{total - count:,} of {total:,} {what} by {name}: coverage {share:.1%}{less}"
            say(line, colour="yellow" if enough else "red")
    return reached


def _show_advice(outcome: Outcome, limits: Limits) -> None:
    """Print what to do about images without a score."""
    from titjudge.core.failure_advice import advice

    lines = advice(outcome.results.failures, limits.model_dump())
    if lines:
        say("\nimages without a score:", err=True)
    for line in lines:
        say(f"  {line}", err=True)


def how_to_resume(status: str, reason: str = "") -> str:
    """Print how to continue a run, or a sweep, that is incomplete."""
    from titjudge.core.run_records import stopped_by

    if stopped_by(status) != "budget":
        return f"{status}: to continue, run the command again"
    why = f": {reason}" if reason else ""
    return f"{status}{why}; to continue, run the command again with a higher cap"


def _show_retirements(config: RunConfig) -> None:
    """Print which models of a configuration will be retired, and when."""
    from titjudge.providers import retirements

    show_notes(retirements.notices((role.provider, role.named) for role in config.roles.values()))


def _opening(config: RunConfig) -> str:
    roles = (f"{name} {role.label}" for name, role in config.roles.items())
    return f"judging {config.data} with {', '.join(config.metrics)} ({'; '.join(roles)}; protocol {config.protocol})"


def without_score(outcome: Outcome, noun: str = "images") -> str:
    """Print how many images have no score by the metric that decides; if all have one, how many other failures there were."""
    name, scored, images = outcome.results.covered or ("", 0, 0)
    if scored < images:
        return f"{images - scored:,} without a score (of {images:,} {noun}, by {name})"
    return f"{len({item for item, _, _ in outcome.failures}):,} without a score"


def _show_failures(outcome: Outcome, noun: str) -> None:
    """Print how many images have no score, and why."""
    if not outcome.failures:
        return
    distinct = list(dict.fromkeys(outcome.failures))  # several metrics may give the same reason for an image
    causes = f", for {len(distinct)} reasons" if 1 < len(distinct) < len(outcome.failures) else ""
    say(f"\n{without_score(outcome, noun)}{causes}:", err=True)
    problems = [(item, f"{status}: {_without_place(item, reason)}") for item, status, reason in distinct]
    show_problems(problems, all_in=" (all in results.json)")


def _without_place(item: str, reason: str) -> str:
    """Remove FILE:LINE from the start of a reason if the item is named after it."""
    return re.sub(rf"^\S*{re.escape(item)}: ", "", reason) if re.search(r":\d+$", item) else reason
