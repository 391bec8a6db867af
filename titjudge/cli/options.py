"""Options of commands from `option_table`, and the configuration (`RunConfig`) that they make."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, reduce, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from titjudge.cli.option_groups import Option
from titjudge.cli.option_table import PATH, SPECS, flag_of
from titjudge.cli.terminal import say
from titjudge.core.errors import ConfigError, UserError, must_be, nearest
from titjudge.core.paths import run_schema
from titjudge.core.redaction import redact, url_parts

if TYPE_CHECKING:
    from titjudge.core.config import RunConfig
    from titjudge.report.sinks import Target

F = TypeVar("F", bound=Callable[..., Any])
COMPLETED = {
    "captioner": "models",
    "embedder": "embedders",
    "judge": "models",
    "metrics": "metrics",
    "provider": "providers",
    "settings": "settings",
    "suite": "suites",
}
"""Option -> the kind of its values; any other value is accepted, too."""


def completer(kind: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Make the `shell_complete` of a click option or argument whose values are names of a kind."""
    return lambda context, parameter, typed: [name for name in known_values(kind) if name.startswith(typed)]


def known_values(kind: str) -> list[str]:
    """List the names of a kind; models are the default models of the providers."""
    from titjudge.core import registry
    from titjudge.core.prompts import prompt_names, template_folders
    from titjudge.providers.retirements import default_model

    if kind == "prompts":
        return prompt_names(template_folders())
    if kind == "settings":
        return [f"{key}=" for key in _keys()]
    if kind != "models":
        return registry.names(kind)
    providers = registry.names("providers")
    return [f"{name}/{default_model(name)}" if registry.needs_model(name) else name for name in providers]


def option(name: str, **own: Any) -> Callable[[F], F]:
    """Make an option of `option_table`.

    Args:
        name: The parameter of the command that gets the value. `metric` is the option of `metrics` if it is given once.
        own: Arguments of `click.option` that may differ between commands: default, required, multiple, and `shown`, a default
            that only the help has.

    Raises:
        LookupError: There is no such option, or the schema of run.yaml does not have its key.
    """
    once = name not in SPECS
    name = f"{name}s" if once else name
    spec, schema = SPECS[name], _keys().get(name)
    kind, text = spec.type, spec.text
    if schema:
        kind, text = kind or _type_of(schema), text or schema["description"]
        if not own.keys() & {"default", "required"}:  # a default, even None, would make a required option optional
            own |= {"default": None, "shown": schema.get("default")}
    elif not text:
        raise LookupError(f"docs/schemas/run.schema.json does not have the key {name}: run `make docs`")
    is_flag = kind is bool or not (kind or spec.metavar)
    if name in COMPLETED:
        own["shell_complete"] = completer(COMPLETED[name])
    shown = own.get("default") not in (None, "", ())
    own = {"multiple": spec.multiple and not once, "show_default": shown, "callback": _CALLBACKS.get(name)} | own
    return click.option(
        *spec.flags,
        name[:-1] if once else name,
        cls=Option,
        help=text,
        metavar=spec.metavar or None,
        type=None if is_flag else kind,
        is_flag=is_flag or None,
        group=spec.group,
        brief=spec.brief,
        **own,
    )


def options(*names: str, **defaults: Any) -> Callable[[F], F]:
    """Make several options of `option_table`: those of `names`, and others with a default (`...`: required; None: no default)."""
    given = dict.fromkeys(names) | defaults
    return with_options(*(option(name, **_own(value)) for name, value in given.items()))


def _own(default: Any) -> dict[str, Any]:
    """Return the arguments of an option with a default (`...`: required; None: no default)."""
    return {} if default is None else {"required": True} if default is ... else {"default": default}


def with_options(*adds: Callable[[Any], Any]) -> Callable[[F], F]:
    """Combine options into one decorator; `--help` lists them in this order."""
    return lambda function: reduce(lambda decorated, add: add(decorated), reversed(adds), function)


def gathered(parameter: str, kind: Any, **own: Any) -> Callable[[F], F]:
    """Make a decorator that adds the options of a named tuple to a command, which gets their values as one argument.

    Args:
        parameter: Name of the argument.
        kind: The named tuple. Its `check` is called if it has one.
        own: By field: arguments of `option`, another decorator instead of the option, or None for no option.
    """

    def adds(name: str) -> Any:
        found = own.get(name, {})
        if callable(found):
            return found
        default = kind._field_defaults.get(name)
        return option(name, **_own(None if default is False else default) | found)

    def decorate(function: Any) -> Any:
        @wraps(function)
        def command(**flags: Any) -> int:
            values = kind(**{name: flags.pop(name) for name in kind._fields if name in flags})
            if hasattr(values, "check"):
                values.check()
            code: int = function(**{parameter: values}, **flags)
            return code

        return with_options(*(adds(name) for name in kind._fields if own.get(name, {}) is not None))(command)

    return decorate


def _json_file(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    import contextlib
    import sys

    from titjudge.cli.output import STDOUT, check_writable

    check_writable(path)
    if str(path) == "-":  # standard output then has the JSON and nothing else
        context.meta[STDOUT] = sys.stdout
        context.with_resource(contextlib.redirect_stdout(sys.stderr))
    return path


def _explain(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    from titjudge.cli.output import EXPLAIN as KEY

    context.meta[KEY] = value


def _url(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Refuse a value that is not the address of a page."""
    if value and not _is_page(value):
        raise UserError(must_be(parameter.opts[-1], "like https://label.example.org", value))
    return value


def _is_page(url: str) -> bool:
    parts = url_parts(url)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query + parts.fragment


_CALLBACKS: dict[str, Any] = {"json_file": _json_file, "explain": _explain, "url": _url}


def say_address(lines: Sequence[str], link: str, usual: int, port: int | None) -> None:
    """Print the address of a server, a hint if it could not take its usual port, and that others read along without TLS.

    Args:
        lines: The lines to print.
        link: A link to the server.
        usual: The port it tries first.
        port: The port of `--port`; None without it.
    """
    from titjudge.web.http_guard import is_loopback

    for line in lines:
        say(line)
    where = url_parts(link)
    if port is None and where.port not in (None, usual):
        say(
            f"port {usual} is in use, so these links are valid only until this command ends. Use --port N for a fixed port"
        )
    if where.scheme == "http" and not is_loopback(where.hostname or ""):
        say(
            "without TLS: anyone on the network path can read links and answers; docs/how-to/collect-votes.md describes a tunnel and a proxy with TLS"
        )


class Sinks(NamedTuple):
    """What `--sink` and `--step` name.

    Attributes:
        sinks: NAME, NAME:PROJECT or NAME:PROJECT/RUN of each.
        step: The training step that was judged; None counts as 0.
    """

    sinks: Sequence[str] = ()
    step: int | None = None

    def check(self) -> list[Target]:
        """Return the sinks.

        Raises:
            UserError: There is no such sink, its package is not installed, or a step is given without a sink.
        """
        if not self.sinks and self.step is None:
            return []
        from titjudge.report.sinks import parse_targets

        return parse_targets(self.sinks, self.step)

    def send(self, run: Path) -> bool:
        """Send a run and print what was sent; returns whether every sink took it."""
        if not self.sinks:
            return True
        from titjudge.report.sinks import send
        from titjudge.runs.folder.run_folder import RunFolder

        targets = self.check()
        failures = send(RunFolder(run), targets, self.step or 0)
        for line in failures:
            say(f"not sent to a sink: {line}", err=True, colour="red")
        if not failures:
            say(f"sent   {', '.join(target.name for target in targets)}")
        return not failures


@cache
def _keys() -> dict[str, dict[str, Any]]:
    """Read the keys of run.yaml, and of its `limits`, from their JSON schema: importing pydantic would make `--help` slow.

    `python docs/generate.py` writes the schema from `core.config`; a new key has no flag before that.
    """
    schema = json.loads(run_schema().read_bytes())
    return {**schema["$defs"]["Limits"]["properties"], **schema["properties"]}


def _type_of(schema: Mapping[str, Any]) -> Any:
    """Translate the JSON schema of a key, or of the values of its list, into a type of click."""
    match [kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]:
        case [{"type": "array", "items": values}]:
            return _type_of(values)
        case [{"enum": choices}]:
            return click.Choice(choices)
        case [{"format": "path"}]:
            return PATH
        case [{"type": name}]:
            return {"boolean": bool, "number": float, "integer": int}.get(name, str)
    return str


JSON = option("json_file", hidden=True)  # as all global options: `titjudge --help` lists them
EXPLAIN = option("explain", hidden=True, expose_value=False)
model_options: Callable[[F], F] = options(
    "provider",
    "captioner",
    "judge",
    "embedder",
    "base_url",
    "config_file",
    "max_cost",
    "price",
    "concurrency",
    "settings",
)


def key_values(flag: str, pairs: Sequence[str]) -> dict[str, str]:
    """Read the KEY=VALUE pairs that a repeatable flag was given.

    Raises:
        UserError: A value has another form.
    """
    values = dict[str, str]()
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise UserError(must_be(flag, "KEY=VALUE", redact(pair)))
        if (key := key.strip()) in values:
            raise UserError(
                redact(f"{flag} {key} is given twice, as '{values[key]}' and '{value}'. Remove one of them")
            )
        values[key] = value
    return values


class RunKeys(dict[str, Any]):
    """The values of a command's options that are keys of run.yaml, by parameter."""

    def settings(self) -> dict[str, Any]:
        """Read the KEY=VALUE pairs of `--set` as nested keys of run.yaml.

        Raises:
            UserError: There is no such key and no such metric, it has its own option, or a value has another form.
        """
        from titjudge.core import registry
        from titjudge.core.config import FOR_SEVERAL_ROLES, Limits, RunConfig, merge_keys
        from titjudge.core.files import load_yaml

        settings: dict[str, Any] = {}
        for key, text in key_values("--set", self.get("settings", ())).items():
            first = key.partition(".")[0]
            metric, dot, metric_key = key.rpartition(".")  # the name of a metric may contain a dot
            if key in Limits.model_fields:
                place = ["limits", key]
            elif first in RunConfig.model_fields or key in FOR_SEVERAL_ROLES:
                place = key.split(".")
            elif dot and any(metric in registry.names(kind) for kind in ("metrics", "tasks")):
                place = ["metric_options", metric, metric_key]
            else:
                known = (*RunConfig.model_fields, *Limits.model_fields, *FOR_SEVERAL_ROLES, *registry.names("metrics"))
                raise ConfigError(
                    f"--set {redact(key)}: unknown key.{nearest(first, known)} Choose a key of docs/reference/configuration.md"
                )
            name = key.removeprefix("limits.")
            if name in self:
                raise ConfigError(f"--set {key}: use the option {flag_of(name)} of this command instead")
            value: Any = text
            if text[:1] in ("[", "{") or ".options." in key or key == "trust_remote_code":  # not typed by the key
                value = load_yaml(text, f"--set {key}: ")
            if key == "trust_remote_code" and not isinstance(value, bool):
                raise ConfigError(must_be("--set trust_remote_code", "yes or no", text))
            for part in reversed(place):
                value = {part: value}
            settings = merge_keys(settings, value)
        return settings

    def config(self, **changes: Any) -> RunConfig:
        """Load the configuration: the file of `--config`, then these options, `--set` and `changes`, each over those before.

        Raises:
            ConfigError, UserError: A value has another form, or the file cannot be used.
        """
        from titjudge.core.config import FOR_SEVERAL_ROLES, Limits, RunConfig, load_config, merge_keys
        from titjudge.engine.prices import parse_price_flag

        keys = {key: value for key, value in self.items() if value not in (None, ())}
        overrides: dict[str, Any] = {
            key: keys[key] for key in (*RunConfig.model_fields, *FOR_SEVERAL_ROLES) if key in keys
        }
        overrides |= {role: {"model": keys[role]} for role in ("captioner", "embedder") if role in keys}
        if judges := [{"model": judge} for judge in keys.get("judge", ())]:
            overrides |= {"judge": judges[0], "panel": judges[1:]}
        overrides |= {
            "limits": {key: keys[key] for key in Limits.model_fields if key in keys},
            "prices": dict(map(parse_price_flag, keys.get("price", ()))),
            "suite_options": key_values("--suite-option", keys.get("suite_options", ())),
        }
        overrides = merge_keys(overrides, self.settings())
        file = keys.get("config_file")
        if file and not file.exists():
            from titjudge.suites.loading import check_paths

            check_paths(load_config(None, {"pairs": keys.get("pairs")}), keys.get("data"), file)
        return load_config(file, merge_keys(overrides, changes), flag_of)


def configured(function: Callable[..., int]) -> Callable[..., int]:
    """Make a decorator that gives a command the options that are none of its own parameters as one argument, `keys`."""
    own = function.__annotations__.keys() - {"keys", "return"}

    @wraps(function)
    def command(**flags: Any) -> int:
        others = {name: flags.pop(name) for name in own}
        return function(keys=RunKeys(flags), **others)

    return command
