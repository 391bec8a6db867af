"""Options that several commands share, and the configuration (`RunConfig`) that they make."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, reduce, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from titjudge.cli.option_groups import METRIC, MODELS, MONEY, OUTPUT, Option, place_of_key
from titjudge.cli.terminal import say
from titjudge.core.errors import UserError, must_be
from titjudge.core.names import plain
from titjudge.core.paths import run_schema

if TYPE_CHECKING:
    from titjudge.core.config import RunConfig
    from titjudge.report.sinks import Target


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
    from titjudge.providers.retirements import default_model

    if kind == "prompts":
        return prompt_names(template_folders())
    if kind != "models":
        return registry.names(kind)
    providers = registry.names("providers")
    return [f"{name}/{default_model(name)}" if registry.needs_model(name) else name for name in providers]


F = TypeVar("F", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)


_TYPES: dict[str | None, Any] = {
    "FILE": PATH,
    "DIR": PATH,
    "RUN": PATH,
    "N": int,
    "GENERATOR": plain,
    **dict.fromkeys(("A,B", "A,B|all", "A,B[,C...]"), plain),
}


def option(flag: str, text: str, metavar: str | None = None, name: str = "", **attributes: Any) -> Callable[[F], F]:
    """Make a click option whose help shows the default, if there is one; a shell completes names of models, metrics, ...

    Args:
        flag: The flag, or two with a slash between.
        text: Its purpose.
        metavar: Placeholder of its value in the help. FILE, DIR and RUN are paths, N a whole number, unless `type` is given.
        name: The parameter of the command, if it is not named like the flag.
        attributes: Further arguments of `click.option`; `group` and `brief` are as in `Option`.
    """
    attributes.setdefault("show_default", attributes.get("default") not in (None, ""))
    if metavar in _TYPES:
        attributes.setdefault("type", _TYPES[metavar])
    if flag in COMPLETED:
        attributes["shell_complete"] = completer(COMPLETED[flag])
    return click.option(flag, *([name] if name else []), cls=Option, help=text, metavar=metavar, **attributes)


def _json_file(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    import contextlib
    import sys

    from titjudge.cli.output import STDOUT, check_writable

    check_writable(path)
    if str(path) == "-":  # standard output then has the JSON and nothing else
        context.meta[STDOUT] = sys.stdout
        context.with_resource(contextlib.redirect_stdout(sys.stderr))
    return path


JSON = option(
    "--json",
    "Also write the results as JSON; - is standard output (other text then goes to standard error).",
    "FILE",
    name="json_file",
    callback=_json_file,
    hidden=True,  # as all global options: `titjudge --help` lists them
)


def _explain(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    from titjudge.cli.output import EXPLAIN as KEY

    context.meta[KEY] = value


EXPLAIN = option(
    "--explain",
    "Also print what the columns of the tables mean, and how their intervals and p-values are computed.",
    is_flag=True,
    expose_value=False,
    callback=_explain,
    hidden=True,
)
DRY_RUN = option(
    "--dry-run",
    "Count the requests, tokens and cost; send nothing.",
    is_flag=True,
    group=MONEY,
    brief="Only count requests and cost.",
)
TABLE_FILE = option("--out", "Write the tables to a file: Markdown, LaTeX or CSV (.md, .tex, .csv).", "FILE")
PROMPT_COLUMNS = option(
    "--columns",
    "Columns of the id and the prompt in a list of prompts, if they have other names.",
    "ID,PROMPT",
    default="",
)


def with_options(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Combine options into one decorator; `--help` lists them in this order."""
    return lambda function: reduce(lambda decorated, add: add(decorated), reversed(options), function)


def gathered(parameter: str, kind: Any, *options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Make a decorator that adds options to a command, which gets their values as one argument.

    Args:
        parameter: Name of the argument.
        kind: Its type: a named tuple with a field for each option, whose `check` is called. A field without its option
            keeps its default.
        options: The options.
    """

    def decorate(function: Any) -> Any:
        @wraps(function)
        def command(**flags: Any) -> int:
            values = kind(**{name: flags.pop(name) for name in kind._fields if name in flags})
            values.check()
            code: int = function(**{parameter: values}, **flags)
            return code

        return with_options(*options)(command)

    return decorate


def address_options(port: int) -> Callable[[F], F]:
    """Add `--host` and `--port` to a command that serves a page; `port` is the one it tries first."""
    return with_options(
        option("--host", "Address to listen on.", default="127.0.0.1"),
        option("--port", f"Port  [default: {port}, or a free one if that is taken].", "N"),
    )


def page_options(port: int) -> Callable[[F], F]:
    """Add `--host`, `--port` and `--url` to a command that serves a page; `port` is the one it tries first."""
    return with_options(
        address_options(port),
        option(
            "--url",
            "The address by which others reach the page, through a tunnel or a proxy; links begin with it, and only pages from there can write.",
            "URL",
            default="",
            show_default=False,
            callback=_url,
        ),
    )


def _url(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Refuse a value that is not the address of a page."""
    if value and not _is_page(value):
        raise click.BadParameter(must_be("the address", "like https://label.example.org", value))
    return value


def _is_page(url: str) -> bool:
    from titjudge.core.redaction import url_parts

    parts = url_parts(url)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query + parts.fragment


def say_address(lines: Sequence[str], link: str, usual: int, port: int | None) -> None:
    """Print the address of a server, a hint if it could not take its usual port, and that others read along without TLS.

    Args:
        lines: The lines to print.
        link: A link to the server.
        usual: The port it tries first.
        port: The port of `--port`; None without it.
    """
    from titjudge.core.redaction import url_parts
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

    sinks: Sequence[str]
    step: int | None

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


sink_options: Callable[[F], F] = gathered(
    "sinks",
    Sinks,
    option(
        "--sink",
        "Also send the results to an experiment tracker, such as wandb (an unknown NAME lists all); repeatable.",
        "NAME[:PROJECT[/RUN]]",
        "sinks",
        multiple=True,
        group=OUTPUT,
    ),
    option("--step", "With --sink: the training step that was judged  [default: 0].", "N", group=OUTPUT),
)


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


def key_option(key: str, metavar: str | None = None, flag: str = "", **attributes: Any) -> Callable[[F], F]:
    """Make the flag of a key of run.yaml; type, choices, help and default come from the key.

    Args:
        key: A field of `RunConfig` or of its `Limits`.
        metavar: Placeholder of the value in the help.
        flag: The flag, if it is not `--the-key`.
        attributes: Further arguments of `click.option`; `help` replaces the text of the key.
    """
    if key not in _keys():
        raise LookupError(f"docs/schemas/run.schema.json does not have the key {key}: run `make docs`")
    schema = _keys()[key]
    kind, default, text = _type_of(schema), schema.get("default"), attributes.pop("help", schema["description"])
    if kind is bool:
        attributes |= {"default": None, "is_flag": True}
    elif attributes.get("multiple"):
        text += " Repeatable."
    if default not in (None, False) and not isinstance(default, dict):
        text = f"{text.removesuffix('.')}  [default: {'yes' if default is True else default}]."
    flag = flag or f"--{key.replace('_', '-')}"
    return option(flag, text, metavar, key, type=kind, **place_of_key(key) | attributes)


def key_options(**metavars: str | None) -> Callable[[F], F]:
    """Make the flags of several keys of run.yaml, given with the placeholders of their values."""
    return with_options(*(key_option(key, metavar) for key, metavar in metavars.items()))


def key_values(flag: str, pairs: Sequence[str]) -> dict[str, str]:
    """Read the KEY=VALUE pairs that a repeatable flag was given.

    Raises:
        UserError: A value has another form.
    """
    values = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise UserError(must_be(flag, "KEY=VALUE", pair))
        values[key.strip()] = value
    return values


_FOR_SEVERAL_ROLES = ("provider", "base_url", "trust_remote_code", "squash")  # flags that set a key of several roles


def _metric_options(options: Sequence[str], max_looks: int | None) -> dict[str, dict[str, Any]]:
    """Read the METRIC.KEY=VALUE pairs of `--metric-option`, and `--max-looks`.

    Raises:
        UserError: A value has another form.
    """
    by_metric: dict[str, dict[str, Any]] = {} if max_looks is None else {"tit-agent": {"max_looks": max_looks}}
    for pair in options:
        name, equals, value = pair.partition("=")
        metric, _, key = name.rpartition(".")  # the name of a metric may contain a dot
        if not (equals and metric and key):
            raise UserError(must_be("--metric-option", "METRIC.KEY=VALUE, for example tit-agent.max_looks=12", pair))
        by_metric.setdefault(metric, {})[key] = value
    return by_metric


metric_options: Callable[[F], F] = with_options(
    key_option("metric_options", "METRIC.KEY=VALUE", "--metric-option", multiple=True),
    option(
        "--max-looks",
        "How often tit-agent may look at one image, 1 to 64; short for --metric-option tit-agent.max_looks=N  [default: 8].",
        "N",
        group=METRIC,
    ),
)
SUITE_OPTION = key_option("suite_options", "KEY=VALUE", "--suite-option", multiple=True)
OFFICIAL_FILES = option(
    "--official-files",
    "Also write the files that the official scripts of the suite write (Qwen-Image-Bench, TIIF-Bench, LongT2IBench).",
    "DIR",
    group=OUTPUT,
)
panel_options: Callable[[F], F] = key_options(samples="N", vote=None, quorum="N")
model_options: Callable[[F], F] = with_options(
    option(
        "--provider",
        "Provider of captioner and judge, with its default model: openai, gemini, ...",
        "NAME",
        group=MODELS,
        brief="openai, gemini, ...: with its default model.",
    ),
    key_option("captioner", "PROVIDER/MODEL"),
    key_option("judge", "PROVIDER/MODEL", multiple=True),
    key_option("embedder", "PROVIDER/MODEL"),
    key_option("detector", "PROVIDER/MODEL"),
    option(
        "--base-url",
        "Address of a compatible server for captioner and judge; several, separated by commas, share the load. An embedder of "
        "the same provider needs a separate address (embedder.base_url of a configuration file).",
        "URL",
        group=MODELS,
        brief="Address of a compatible server (vLLM, ...).",
    ),
    option(
        "--trust-remote-code",
        "Let models on this machine run the Python code that comes with them.",
        is_flag=True,
        default=None,
        group=MODELS,
    ),
    option(
        "--config",
        "Configuration file (run.yaml); flags override its keys.",
        "FILE",
        name="config_file",
        group=MODELS,
        brief="Configuration file (run.yaml).",
    ),
    key_options(protocol=None, prompts="DIR", cache="DIR", max_cost="USD"),
    option(
        "--price", "Price in USD per million tokens; repeatable.", "MODEL=IN,OUT[,CACHED]", multiple=True, group=MONEY
    ),
    key_options(concurrency="N", timeout="SECONDS", attempts="N", patience="SECONDS", lenient=None),
)


class RunKeys(dict[str, Any]):
    """The values of a command's flags of keys of run.yaml, by parameter."""

    def config(self, **changes: Any) -> RunConfig:
        """Load the configuration: the file of `--config`, then these flags, then `changes`.

        Raises:
            ConfigError, UserError: A value has another form, or the file cannot be used.
        """
        from titjudge.core.config import Limits, RunConfig, load_config
        from titjudge.engine.prices import parse_price_flag

        keys = {key: value for key, value in self.items() if value not in (None, ())}
        roles: dict[str, Any] = {
            role: {"model": keys[role]} for role in ("captioner", "embedder", "detector") if role in keys
        }
        if judges := [{"model": judge} for judge in keys.get("judge", ())]:
            roles["judge"] = judges[0] if len(judges) == 1 else judges
        overrides = {key: keys[key] for key in (*RunConfig.model_fields, *_FOR_SEVERAL_ROLES) if key in keys}
        overrides |= roles | {
            "limits": {key: keys[key] for key in Limits.model_fields if key in keys},
            "prices": dict(map(parse_price_flag, keys.get("price", ()))),
            "suite_options": key_values("--suite-option", keys.get("suite_options", ())),
            "metric_options": _metric_options(keys.get("metric_options", ()), keys.get("max_looks")),
        }
        file = keys.get("config_file")
        if file is not None and not file.exists():
            from titjudge.suites.loading import check_paths

            check_paths(load_config(None, {"pairs": keys.get("pairs")}), keys.get("data"), file)
        return load_config(file, {**overrides, **changes})


def configured(function: Callable[..., int]) -> Callable[..., int]:
    """Make a decorator that gives a command all flags except its parameters as one argument, `keys`."""
    own = function.__annotations__.keys() - {"keys", "return"}

    @wraps(function)
    def command(**flags: Any) -> int:
        others = {name: flags.pop(name) for name in own}
        return function(keys=RunKeys(flags), **others)

    return command
