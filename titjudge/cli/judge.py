"""`judge`: the main job."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from titjudge.cli.options import (
    JSON,
    PATH,
    key_option,
    key_values,
    model_options,
    option,
    overrides_of,
    send_to_sinks,
    sink_options,
)
from titjudge.cli.terminal import say


@click.command(epilog="See docs/configuration.md for run.yaml and docs/metrics.md for the metrics.")
@key_option("data", "DATA")
@key_option("images", "PATTERN")
@key_option("prompt_file", "FILE[:ID,PROMPT]")
@key_option("columns", "image=COLUMN,prompt=...")
@key_option("image_root", "DIR", multiple=True)
@key_option("pairs", "FILE")
@key_option("suite", "NAME")
@key_option("metrics", "NAME", "--metric", multiple=True)
@model_options
@key_option("limit", "N")
@key_option("limit_seed", "S")
@key_option("max_requests", "N")
@key_option("max_tokens", "N")
@key_option("min_coverage", "SHARE")
@key_option("rpm", "N")
@key_option("tpm", "N")
@key_option("out", "DIR")
@key_option("batch")
@option("--dry-run", "Count requests and tokens and price them; send nothing.", is_flag=True)
@key_option("shard", "K/N")
@key_option("engine")
@key_option("ray_address", "ADDRESS")
@key_option("workers", "N")
@key_option("canary")
@key_option("retry_failed")
@option(
    "--settle",
    "Judge these generators, prompts in random order, only until it is known which one is better. For one question: "
    "a full ranking costs as much as judging everything.",
    "A,B[,C...]",
)
@option(
    "--margin",
    "With --settle: stop also when they lie within M of each other.",
    "M",
    type=click.FloatRange(min=0, min_open=True),
)
@key_option("grid", "ROWSxCOLUMNS")
@option(
    "--squash",
    "Show the models images with a longer side than N pixels as squares of N (Q-Judger: 1024).",
    "N",
    type=click.IntRange(min=64),
)
@key_option("per_prompt", "mean|best|any|all")
@key_option("report", flag="--report/--no-report")
@key_option("suite_options", "KEY=VALUE", "--suite-option", multiple=True)
@key_option("metric_options", "METRIC.KEY=VALUE", "--metric-option", multiple=True)
@option(
    "--max-looks",
    "Looks of tit-agent at one image, 1 to 64; short for tit-agent.max_looks  [default: 8].",
    "N",
    type=int,
)
@option(
    "--official-files",
    "Also write what the official scripts of the suite write (Qwen-Image-Bench, TIIF-Bench, LongT2IBench).",
    "DIR",
    type=PATH,
)
@key_option("samples", "N")
@key_option("vote")
@key_option("quorum", "N")
@sink_options
@JSON
def judge(**flags: Any) -> int:
    """Judge the images of a data folder, and say how far each metric agrees with people.

    Without arguments: the bundled example, with recorded descriptions and the embedded model. The same command run
    again asks only what is missing.

    \b
    DATA is one of
      a folder with prompts.jsonl (prompt_id, prompt)
        and images.jsonl (image, prompt_id[, generator]),
        and, where people have compared images, pairs.jsonl
        (prompt_id, image_a, image_b, preference: a, b, tie)
      a manifest (.jsonl, .csv, .parquet): image, prompt[, generator, prompt_id];
        other names of columns: file_name, text, caption, ... or --columns
      a Hugging Face imagefolder: images beside metadata.jsonl or metadata.csv
      a Hugging Face data set: a .parquet with images inside, or a folder of them
        (also .arrow of `datasets`, and .tar of WebDataset)
      a folder of images with same-named prompts:
        [GENERATOR/]NAME.png and NAME.txt
    or --images 'out/{generator}/{prompt_id}_{sample}.png'
       with --prompt-file prompts.csv:index,prompt_en

    \b
    Examples:
      python cli.py judge
      python cli.py judge --provider gemini --max-cost 2
      python cli.py judge --data my_images --provider openai --dry-run
      python cli.py judge --provider openai --metric tit-agent --max-looks 12
      python cli.py judge --suite known-answer
      python cli.py judge --config run.yaml --limit 50
      python cli.py judge --data my_images --settle old,new --max-cost 2
    """
    from titjudge.cli.output import show_forecast
    from titjudge.core.config import load_config
    from titjudge.report.sinks.base import parse_targets
    from titjudge.runs.session import Session

    overrides = overrides_of(flags) | {
        "suite_options": key_values("--suite-option", flags["suite_options"]) or None,
        "metric_options": metric_options_of(flags["metric_options"], flags["max_looks"]),
    }
    config = load_config(flags["config_file"], overrides)
    question = _question(flags["settle"], flags["margin"], config)
    sinks = parse_targets(flags["sinks"], flags["step"])
    official = flags["official_files"]
    if official is not None:
        _check_official(config)
    if config.engine == "ray" and not flags["dry_run"]:
        from titjudge.runs.ray_cluster import Cluster

        cluster = Cluster(config, address=config.ray_address, workers=config.workers, say=say)
        return _run(cluster.config, cluster.run, flags["json_file"], sinks, flags["step"], official)
    session = Session(config) if question is None else _settling(config, question)
    if flags["dry_run"]:
        found = session.dry_run()
        for line in notices(session.config):
            say(f"  note: {line}")
        if question is not None:
            say("  note: all that --settle could cost: it stops when the question is settled")
        show_forecast(found, flags["json_file"])
        return 0 if found.items else 1
    from titjudge.cli.progress import watcher

    cap = session.config.limits.max_cost
    work = lambda: session.run(watcher(cap))  # noqa: E731
    return _run(session.config, work, flags["json_file"], sinks, flags["step"], official)


def run_prompts(flags: dict[str, Any], task: dict[str, Any]) -> tuple[int, Path | None, bool]:
    """Run a metric over prompts without images, or price that.

    Args:
        flags: Of the command, those of `model_options`, `dry_run` and `json_file` among them.
        task: Further keys of the configuration: the metric, the suite and its options.

    Returns:
        The exit code, the run folder where there is one, and whether every prompt has been worked on.
    """
    from titjudge.cli.output import show_forecast
    from titjudge.cli.progress import watcher
    from titjudge.core.config import load_config
    from titjudge.runs.session import Session

    session = Session(load_config(flags["config_file"], overrides_of(flags) | {"report": False} | task))
    if flags["dry_run"]:
        found = session.dry_run()
        show_forecast(found, flags["json_file"])
        return (0 if found.items else 1), None, False
    for line in notices(session.config):
        say(f"  note: {line}")
    outcome = session.run(watcher(session.config.limits.max_cost))
    outcome.tables.clear()  # they rank generators, and there are none
    code = _tell(outcome, flags["json_file"], session.config.limits.min_coverage, "prompts")
    return code, outcome.folder, outcome.status == "complete"


def _settling(config: Any, question: Any) -> Any:
    from titjudge.runs.settling import SettlingSession

    return SettlingSession(config, question)


def _question(names: str | None, margin: float | None, config: Any) -> Any:
    """Make the question that --settle asks; None without it."""
    from titjudge.core.errors import ConfigError
    from titjudge.runs.settling import Question

    if names is None:
        if margin is not None:
            raise ConfigError("--margin goes with --settle A,B")
        return None
    for clash, flag in (
        (config.limits.batch, "--batch"),
        (config.shard, "--shard"),
        (config.engine == "ray", "--engine ray"),
    ):
        if clash:
            raise ConfigError(
                f"--settle stops as answers come, and {flag} asks everything at once: leave one of them out"
            )
    if config.per_prompt != "mean":
        raise ConfigError("--settle averages the images of a prompt: leave out --per-prompt")
    return Question(tuple(name.strip() for name in names.split(",")), margin)


def metric_options_of(options: tuple[str, ...], max_looks: int | None = None) -> dict[str, dict[str, Any]] | None:
    """Read METRIC.KEY=VALUE flags."""
    from titjudge.core.errors import UserError

    found: dict[str, dict[str, Any]] = {} if max_looks is None else {"tit-agent": {"max_looks": max_looks}}
    for pair in options:
        name, equals, value = pair.partition("=")
        metric, _, key = name.rpartition(".")  # a metric's name may hold a dot
        if not (equals and metric and key):
            raise UserError(f"--metric-option {pair!r}: expected METRIC.KEY=VALUE, for example tit-agent.max_looks=12")
        found.setdefault(metric, {})[key] = value
    return found or None


def _check_official(config: Any) -> None:
    """Refuse a suite whose official files are not known, before anything is asked."""
    from titjudge.core.errors import ConfigError
    from titjudge.runs.resolve import load_suite
    from titjudge.suites.base import Suite

    if getattr(type(load_suite(config)), "write_official", Suite.write_official) is Suite.write_official:
        raise ConfigError(
            f"--official-files: what the official scripts of the suite {config.suite} write is not known here"
        )


def _write_official(config: Any, outcome: Any, folder: Path) -> None:
    from titjudge.runs.resolve import load_suite
    from titjudge.runs.run_folder import RunFolder

    run = RunFolder(outcome.folder)
    count = load_suite(config).write_official(list(run.judged()), list(run.scores().values()), folder)
    say(f"official files: {count:,} written to {folder}")


def _run(
    config: Any,
    work: Callable[[], Any],
    json_file: Path | None,
    sinks: Sequence[Any] = (),
    step: int | None = None,
    official: Path | None = None,
) -> int:
    say(_opening(config))
    for line in notices(config):
        say(f"  note: {line}")
    outcome = work()
    code = _tell(outcome, json_file, config.limits.min_coverage)
    if official is not None:
        _write_official(config, outcome, official)
    return code if send_to_sinks(outcome.folder, sinks, step) else code or 1


def _tell(outcome: Any, json_file: Path | None, least: float | None, noun: str = "images") -> int:
    """Show the results of a run, and write them as JSON; returns the exit code."""
    from titjudge.cli.output import show_notes, show_tables, write_json

    write_json(json_file, _as_json(outcome.results))
    nothing = outcome.failures and not any(each.get("scored") for each in outcome.results["metrics"].values())
    if not nothing:
        show_tables(outcome.tables)
    show_notes(outcome.warnings, () if nothing else outcome.tables)
    _failures(outcome.failures)
    if nothing:
        say(f"\nnothing was judged: no {noun.removesuffix('s')} got a score")
    spent, listed = outcome.results["spent"], outcome.results["list_cost"]
    unsure = (
        f"; requests that got no answer may have cost up to ${outcome.uncertain:.4f} more" if outcome.uncertain else ""
    )
    say(f"\nspent ${spent:.4f} (list price of all answers used: ${listed:.4f}{unsure})")
    if "settle" in outcome.results:
        from titjudge.runs.settling import verdict_line

        say(verdict_line(outcome.results["settle"]))
    if outcome.status not in ("complete", "settled"):
        say(goes_on(outcome.status, outcome.reason))
    for line in outcome.mixed:
        say(line)
    say(f"run    {outcome.folder}")
    if outcome.report is not None:
        say(f"report {outcome.report}")
    reached = _coverage(outcome, least, noun)
    if outcome.status.startswith("incomplete: budget"):
        return 3
    if not reached:
        return 4
    return (
        1
        if nothing
        else 0
        if outcome.status in ("complete", "settled")
        else 130
        if "interrupted" in outcome.status
        else 1
    )


def _as_json(results: dict[str, Any]) -> dict[str, Any]:
    """Take what --json writes from the results of a run.

    Of a run with --settle, `pairs` are those of the verdict, as `compare settle` writes them.
    """
    record = {key: value for key, value in results.items() if key != "tables"}
    if "settle" in record:
        record |= {"pairs": record["settle"]["pairs"], "human_pairs": record["pairs"]}
    return record


def _coverage(outcome: Any, least: float | None, noun: str) -> bool:
    """Say what a complete run has left without a score; returns whether the share that was asked for is reached."""
    if outcome.status != "complete":
        return True
    name, scored, images = outcome.covered or ("any metric", 0, len(outcome.failures))
    share = scored / images if images else 0.0
    reached = least is None or share >= least
    if scored < images:
        wanted = "" if reached else f", less than the {least:.1%} asked for"
        line = f"{images - scored:,} of {images:,} {noun} have no score by {name}: coverage {share:.1%}{wanted}"
        say(line, colour="yellow" if reached else "red")
    return reached


def goes_on(status: str, reason: str = "") -> str:
    """Say what is left to do after a run, or a sweep, that is incomplete."""
    if not status.startswith("incomplete: budget"):
        return f"{status}: the same command goes on where it stopped"
    why = f": {reason}" if reason else ""
    return f"{status}{why}; the same command with a higher cap goes on where it stopped"


def notices(config: Any) -> list[str]:
    """List which models of a configuration retire, and when."""
    from titjudge.core import retirements

    return retirements.notices((role.provider, role.model_name) for role in config.roles.values())


def _opening(config: Any) -> str:
    roles = [
        f"{name} {role.provider}/{role.model_name}" if role.model_name else f"{name} {role.model}"
        for name, role in config.roles.items()
    ]
    return f"judging {config.data} with {', '.join(config.metrics)} ({'; '.join(roles)}; protocol {config.protocol})"


def _failures(failures: list[tuple[str, str, str]]) -> None:
    """Show what has no score, and why."""
    from titjudge.cli.output import show_problems

    if not failures:
        return
    lines = list(dict.fromkeys(failures))  # what several metrics say of one image is said once
    causes = f", for {len(lines)} reasons" if 1 < len(lines) < len(failures) else ""
    say(f"\n{len(failures)} without a score{causes}:", err=True)
    said = [(item, f"{status}: {_said(item, reason)}") for item, status, reason in lines]
    show_problems(said, all_in=" (all in results.json)")


def _said(item: str, reason: str) -> str:
    """Leave out the file and line that a reason begins with, where the item is named after them."""
    return re.sub(rf"^\S*{re.escape(item)}: ", "", reason) if re.search(r":\d+$", item) else reason
