"""Shell completion of commands, options, files, and names of metrics, suites, providers and models."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from titjudge.cli.commands import COMMANDS
from titjudge.cli.dispatch import command_of


class _NamedValue(click.types.StringParamType):
    """A text for which the shell suggests the names of a kind; any text is accepted."""

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
    """List the names of a kind; models are the default models of the providers."""
    from titjudge.core import registry
    from titjudge.core.prompts import PromptLibrary
    from titjudge.core.retirements import default_model

    if kind == "prompts":
        return PromptLibrary(None).names()
    if kind != "models":
        return registry.names(kind)
    providers = registry.names("providers")
    return [f"{name}/{default_model(name)}" if registry.needs_model(name) else name for name in providers]


class _Commands(click.Group):
    """All commands as one click group, each imported when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = command_of(cmd_name)
        _complete_names(command)
        return command


def _complete_names(command: click.Command) -> None:
    """Let the options of a command, and of its subcommands, complete names."""
    for subcommand in command.commands.values() if isinstance(command, click.Group) else ():
        _complete_names(subcommand)
    for parameter in command.params:
        kind = "prompts" if (command.name, parameter.name) == ("show", "name") else OPTIONS.get(parameter.opts[0])
        if kind is not None:
            parameter.type = _NamedValue(kind)


def complete(variable: str) -> int:
    """Print the completion script (`bash_source`) or suggestions (`bash_complete`) that a shell requests.

    Args:
        variable: The environment variable that holds the request.

    Returns:
        The exit code: 0 if the shell got an answer.
    """
    try:
        _Commands("titjudge").main(prog_name="titjudge", complete_var=variable, standalone_mode=False)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 1
