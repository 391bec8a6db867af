"""Shell completion: commands, options, files, and the names that a value can have."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from titjudge.cli.commands import COMMANDS
from titjudge.cli.dispatch import command_of


class _Known(click.types.StringParamType):
    """A value that is best one of the known names of a kind; other values pass."""

    def __init__(self, kind: str) -> None:
        self.name = self.kind = kind

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in known_values(self.kind) if name.startswith(incomplete)]


OPTIONS = {
    "--suite": "suites",
    "--metric": "metrics",
    "--provider": "providers",
    "--captioner": "models",
    "--judge": "models",
    "--embedder": "embedders",
}


def known_values(kind: str) -> list[str]:
    """List the names of a kind; a model is its provider's default one, or begins with its provider."""
    from titjudge.core import registry
    from titjudge.core.prompts import PromptLibrary
    from titjudge.core.retirements import default_model

    if kind == "prompts":
        return PromptLibrary(None).names()
    if kind != "models":
        return registry.names(kind)
    alone = ("recorded", "fake")
    return [name if name in alone else f"{name}/{default_model(name)}" for name in registry.names("providers")]


class _Commands(click.Group):
    """All commands as one group, each imported when it is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = command_of(cmd_name)
        _complete_names(command)
        return command


def _complete_names(command: click.Command) -> None:
    """Let the options of a command, and of those below it, complete names."""
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        _complete_names(below)
    for parameter in command.params:
        kind = "prompts" if (command.name, parameter.name) == ("show", "name") else OPTIONS.get(parameter.opts[0])
        if kind is not None:
            parameter.type = _Known(kind)


def complete(variable: str) -> int:
    """Answer what a shell asks in `variable`: the script to source (`bash_source`), or what may follow (`bash_complete`).

    Args:
        variable: Name of the environment variable that holds the shell's request.

    Returns:
        The exit code, 0 where the shell got an answer.
    """
    try:
        _Commands("titjudge").main(prog_name="titjudge", complete_var=variable, standalone_mode=False)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 1
