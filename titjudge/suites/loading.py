"""Find the data that a configuration names, and open the suite that reads them."""

from __future__ import annotations

import contextlib
import inspect
import os
from pathlib import Path

from titjudge.core import registry
from titjudge.core.config import RunConfig
from titjudge.core.errors import ConfigError, DataError, nearest
from titjudge.core.paths import example_folder
from titjudge.core.types import Json
from titjudge.suites.base import Suite, SuiteInputs
from titjudge.suites.patterns import split_pattern
from titjudge.suites.prompt_list import split_columns


def suite_class(name: str) -> type[Suite]:
    """Return the class of a suite by its registered name, or by the path of its YAML file.

    Raises:
        ConfigError: There is no such suite, its file is wrong, or another package's object is not a suite.
    """
    loaded = registry.load("suites", name)
    if not (inspect.isclass(loaded) and issubclass(loaded, Suite)):
        raise ConfigError(f"the suite '{name}' must be a class that inherits from titjudge.suites.Suite")
    return loaded


def with_image_tree(config: RunConfig) -> RunConfig:
    """Take the data folder from the pattern of the images (`--images`), if there is one.

    Raises:
        ConfigError: There is a pattern without prompts, or there are prompts without a pattern.
    """
    bundled = suite_class(config.suite).PROMPTS
    if bundled is not None and not config.prompt_file:
        place = {"prompt_file": str(bundled)} if config.images else {"data": config.data or bundled.parent}
        config = config.model_copy(update=place)
    if (config.images and not config.prompt_file) or (config.prompt_file and not (config.images or config.data)):
        example = f"--images '{config.data or 'out'}/{{generator}}/{{prompt_id}}.png' --prompt-file {config.prompt_file or 'prompts.txt'}"
        raise ConfigError(f"--images PATTERN and --prompt-file FILE must be given together, for example {example}")
    changes: Json = {}
    if config.prompt_file:  # absolute, for workers with another working directory
        changes["prompt_file"] = os.path.abspath(config.prompt_file)
    if config.data is None and config.images:
        changes["data"], changes["images"] = split_pattern(config.images)
    return config.model_copy(update=changes)


def with_data(config: RunConfig) -> RunConfig:
    """Set the data of a configuration (by default the bundled example), and the templates beside the file of a suite.

    Raises:
        ConfigError: As `with_image_tree`, there are no data, or paths do not exist.
    """
    given, config = config, with_image_tree(config)
    changes: Json = {}
    if registry.is_suite_file(config.suite):
        changes["suite"] = os.path.abspath(config.suite)
        templates = Path(changes["suite"]).parent / "prompts"
        if config.prompts is None and templates.is_dir():
            changes["prompts"] = templates
    if config.data is None:
        changes["data"] = example_folder()
        if changes["data"] is None or config.suite not in ("folder", "known-answer"):
            raise ConfigError("nothing to judge. Add --data DIR")
    config = config.model_copy(update=changes)
    check_paths(given, config.data)
    return config


def check_paths(config: RunConfig, data: Path | None, file: Path | None = None) -> None:
    """Check that the data and the other paths of a configuration exist; if some do not, also the files of its suite.

    Args:
        config: The configuration.
        data: The data folder.
        file: The file of the configuration (`--config`).

    Raises:
        ConfigError: Some do not; lists them.
    """
    prompts = split_columns(config.prompt_file or "")[0]
    paths = [("", data), ("--config ", file), ("--pairs ", config.pairs), ("--prompt-file ", prompts)]
    paths += (("--image-root ", root) for root in config.image_root)
    missing = [f"--image-root {root}: not a folder" for root in config.image_root if root.is_file()]
    missing += [
        f"{option}{path}: no such file or folder{_neighbour(path)}"
        for option, path in paths
        if path and not path.exists()
    ]
    if not missing:
        return
    if data and data.is_dir() and not suite_class(config.suite).TAKES_IMAGES:
        try:
            next(iter(open_suite(config).load(data)), None)
        except DataError as error:
            missing.insert(0, str(error))
    raise ConfigError("; ".join(missing))


def _neighbour(missing: Path) -> str:
    """Name what lies beside a path that is not there and is called much the same."""
    with contextlib.suppress(OSError):
        hint = nearest(missing.name, (beside.name for beside in missing.parent.iterdir()))
        return f".{hint}" if hint else ". Correct the path"
    return ". Correct the path"


def open_suite(config: RunConfig) -> Suite:
    """Make the suite of a configuration, with its options.

    Raises:
        ConfigError: There is no such suite or option, or the suite does not accept the settings of the configuration.
    """
    name, suite = config.suite, suite_class(config.suite)
    first, *options = inspect.signature(suite).parameters or ("",)
    if first != "inputs":
        raise ConfigError(
            f"the __init__ of the suite '{name}' must have `inputs` as its first parameter, and pass it on"
        )
    for option in config.suite_options:
        if option not in options:
            has = f"Known: {', '.join(options)}" if options else "Remove it"
            raise ConfigError(f"the suite {name} has no option '{option}'.{nearest(option, options)} {has}")
    inputs = SuiteInputs(
        config.protocol,
        tuple(config.image_root),
        {str(content): columns for content, columns in config.columns.items()},
        config.images or "",
        config.prompt_file or "",
        tuple(config.sources),
    )
    return suite(inputs, **config.suite_options)
