"""Load a suite by its name, with what a run says to it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from titjudge.core import registry
from titjudge.core.errors import ConfigError, nearest
from titjudge.suites.base import Suite, SuiteInputs


def suite_class(name: str) -> type[Suite]:
    """Return the class of a suite by its registered name, or by the path of its YAML file.

    Raises:
        ConfigError: There is no such suite, its file is wrong, or another package's object is no suite.
    """
    found = registry.load("suites", name)
    if not (inspect.isclass(found) and issubclass(found, Suite)):
        raise ConfigError(f"the suite '{name}' is no class that inherits from titjudge.suites.Suite")
    return found


def open_suite(name: str, inputs: SuiteInputs, options: Mapping[str, Any]) -> Suite:
    """Make a suite.

    Args:
        name: Its registered name, or the path of its YAML file.
        inputs: What the run says to it.
        options: Values of its own options (`--suite-option`) by their names.

    Raises:
        ConfigError: There is no such suite or option, or the suite does not take what the run says.
    """
    suite = suite_class(name)
    first, *known = inspect.signature(suite).parameters or ("",)
    if first != "inputs":
        raise ConfigError(f"the suite '{name}' takes no inputs: its __init__ takes `inputs` first, and hands it on")
    for option in options:
        if option not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ConfigError(f"the suite {name} has no option '{option}': {has}.{nearest(option, known)}")
    return suite(inputs, **options)
