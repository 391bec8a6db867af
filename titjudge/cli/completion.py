"""Names that a shell completes: of metrics, suites, providers, models and prompts."""

from __future__ import annotations

from collections.abc import Callable

import click

COMPLETED = {
    "--suite": "suites",
    "--metric": "metrics",
    "--provider": "providers",
    "--captioner": "models",
    "--judge": "models",
    "--embedder": "embedders",
    "--detector": "models",
}
"""Flag -> the kind of its values; any other value is accepted, too."""


def completer(kind: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Make the `shell_complete` of a click option or argument whose values are names of a kind."""
    return lambda context, parameter, typed: [name for name in known_values(kind) if name.startswith(typed)]


def known_values(kind: str) -> list[str]:
    """List the names of a kind; models are the default models of the providers."""
    from titjudge.core import registry
    from titjudge.core.prompts import prompt_names, template_folders
    from titjudge.core.retirements import default_model

    if kind == "prompts":
        return prompt_names(template_folders())
    if kind != "models":
        return registry.names(kind)
    providers = registry.names("providers")
    return [f"{name}/{default_model(name)}" if registry.needs_model(name) else name for name in providers]
