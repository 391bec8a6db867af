"""The command line. Nothing but the standard library is imported until a command is known."""

from __future__ import annotations

import sys

COMMANDS = {
    "judge": (
        "titjudge.cli.judge:judge",
        "Judge the images of a data folder, and say how far the judges agree with people.",
    ),
    "score": ("titjudge.cli.score:score", "Score images against one prompt on the spot."),
    "batch": ("titjudge.cli.batch:batch", "Take the questions of a run elsewhere as a file, and bring answers back."),
    "compare": (
        "titjudge.cli.compare:compare",
        "Compare runs with human pairs, votes or ranks; rank for people, cascade judges, see what generators forget.",
    ),
    "aggregate": ("titjudge.cli.aggregate:aggregate", "Tables from answers that exist already; no model is asked."),
    "verify": (
        "titjudge.cli.verify:verify",
        "Compute a run again from its stored answers, and name what does not hold.",
    ),
    "merge": ("titjudge.cli.merge:merge", "Join the run folders of shards into one run."),
    "sweep": (
        "titjudge.cli.sweep:sweep",
        "Run captioners x embedders x judges x templates, and compare them in one table.",
    ),
    "probe": ("titjudge.cli.probe:probe", "Put a judge to known answers, errors and bribes; print its trust card."),
    "known-answer": (
        "titjudge.cli.known_answer:known_answer",
        "Make test images whose adherence is known by construction.",
    ),
    "report": ("titjudge.cli.report:report", "Write the report of one or several runs again, or export their tables."),
    "label": ("titjudge.cli.label:label", "Serve a page where people vote; turn votes into pairs and ranks."),
    "view": ("titjudge.cli.label:view", "Serve the runs folder: progress, spend, reports."),
    "metrics": ("titjudge.cli.lists:metrics", "List the metrics, what each needs and where it comes from."),
    "providers": ("titjudge.cli.lists:providers", "List the providers and embedders and the keys they read."),
    "suites": ("titjudge.cli.lists:suites", "List the suites, their versions and deviations."),
    "prompts": ("titjudge.cli.lists:prompts", "List or show the prompt templates."),
    "cache": ("titjudge.cli.cache:cache", "Show or clear the cache of answers."),
    "doctor": ("titjudge.cli.doctor:doctor", "Say what works here: keys, models, cache, endpoints."),
}

_HELP = """\
Usage: {program} COMMAND [OPTIONS] [ARGUMENTS]

  titjudge judges text-to-image outputs against their prompts with vision-language models, language models and
  embeddings, and says how far the judgement agrees with people.

Commands:
{commands}

Examples:
  {program} judge                                   the bundled example: no key, no network
  {program} judge --data my_images --provider gemini --max-cost 5
  {program} score --prompt "a red cube on a blue ball" --provider openai image.png
  {program} COMMAND --help                          options and examples of a command

Options:
  --version  Show the version and exit.
  --help     Show this message and exit.
"""


def help_text(program: str) -> str:
    width = max(map(len, COMMANDS)) + 2
    return _HELP.format(
        program=program, commands="\n".join(f"  {name:<{width}}{text}" for name, (_, text) in COMMANDS.items())
    )


def _program(started: str) -> str:
    """How the person has started us, for messages that show a command."""
    if started.endswith("__main__.py"):
        return "python -m titjudge"
    return "titjudge" if started.endswith("titjudge") else "python cli.py"


def main(arguments: list[str] | None = None) -> None:
    """Run a command; exit codes: 0 done, 2 the person can mend it, 3 the cap was reached, 130 interrupted."""
    arguments = sys.argv[1:] if arguments is None else arguments
    program = _program(sys.argv[0])
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        print(help_text(program), end="")
        return
    if arguments[0] in ("--version", "-V"):
        import titjudge

        print(f"titjudge {titjudge.__version__}")
        return
    from titjudge.cli.run import run_command

    sys.exit(run_command(program, arguments))
