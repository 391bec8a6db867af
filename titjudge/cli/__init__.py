"""The command line. Only the standard library is imported until the command is known."""

from __future__ import annotations

import gc
import os
import sys

from titjudge.cli.commands import GROUPS

COMPLETE = "_TITJUDGE_COMPLETE"  # environment variable with the request of a shell that completes a command

_HELP = """\
Usage: {program} COMMAND [OPTIONS] [ARGUMENTS]

  titjudge judges text-to-image outputs against their prompts with
  vision-language models, language models and embeddings, and measures how far
  the judgement agrees with people.

{commands}

Examples:
  {program} judge             the bundled example: no key, no network
  {program} judge --data my_images --provider gemini --max-cost 5
  {program} score --prompt "a red cube" --provider openai image.png
  {program} COMMAND --help    options and examples of a command

Options:
  --version  Show the version and exit.
  --help     Show this message and exit.
"""


def help_text(program: str) -> str:
    """Format the help that lists all commands."""
    import textwrap

    width = max(len(name) for group in GROUPS.values() for name in group) + 2
    parts = []
    for title, group in GROUPS.items():
        lines = [
            textwrap.fill(text, 79, initial_indent=f"  {name:<{width}}", subsequent_indent=" " * (width + 2))
            for name, (_, text) in group.items()
        ]
        parts.append("\n".join([f"{title}:", *lines]))
    return _HELP.format(program=program, commands="\n\n".join(parts))


def _program(started: str) -> str:
    """Tell how titjudge was started, for messages that show a command."""
    if started.endswith("__main__.py"):
        return "python -m titjudge"
    return "titjudge" if started.endswith("titjudge") else "python cli.py"


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit.

    Exit codes: 0 done, 1 failed, 2 an error that the user can correct, 3 the cap was reached, 4 too few images were scored
    (`--min-coverage`), 130 interrupted.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if os.environ.get(COMPLETE):
        from titjudge.cli.completion import complete

        sys.exit(complete(COMPLETE))
    program = _program(sys.argv[0])
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        print(help_text(program), end="")
        return
    if arguments[0] in ("--version", "-V"):
        import titjudge

        print(f"titjudge {titjudge.__version__}")
        return
    from titjudge.core.signals import INTERRUPTED, end_interrupted, ended_by_ctrl_c

    gc.set_threshold(10_000, 50, 50)  # by default the search for cycles takes 8% of a run and finds hardly any
    with ended_by_ctrl_c():
        from titjudge.cli.dispatch import run_command
    try:
        code = run_command(program, arguments)
    except KeyboardInterrupt:  # a second one, while the first is told
        code = INTERRUPTED
    if code == INTERRUPTED:
        end_interrupted()
    sys.exit(code)
