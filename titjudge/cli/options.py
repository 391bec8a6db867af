"""Options that several commands share, and how flags become a configuration."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import cache, reduce
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)


class GroupByDefault(click.Group):
    """A group whose command `default` is meant where the first word is the name of none."""

    default = ""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        from titjudge.core.errors import UserError, nearest

        if args and args[0] not in (*self.commands, "--help"):
            if not Path(args[0]).exists() and (meant := nearest(args[0], self.commands)):
                raise UserError(f"{args[0]}: no such command, file or folder.{meant}")
            args = [self.default, *args]
        return super().parse_args(ctx, args)


def option(flag: str, text: str, metavar: str | None = None, name: str = "", **attributes: Any) -> Callable[[F], F]:
    """Make an option of click with its help, and with its default shown where it has one."""
    attributes.setdefault("show_default", attributes.get("default") not in (None, ""))
    return click.option(flag, *([name] if name else []), help=text, metavar=metavar, **attributes)


def _json_file(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    import contextlib
    import sys

    from titjudge.cli.output import STDOUT, check_writable

    check_writable(path)
    if str(path) == "-":  # standard output belongs to the JSON alone: whatever else is said goes to standard error
        context.meta[STDOUT] = sys.stdout
        context.with_resource(contextlib.redirect_stdout(sys.stderr))
    return path


JSON = option(
    "--json",
    "Write the results as JSON too (-: to standard output, and all else to standard error).",
    "FILE",
    name="json_file",
    type=PATH,
    callback=_json_file,
)


def sink_options(function: F) -> F:
    """Decorate a command that has a run with `--sink` and `--step`."""
    return with_options(
        option(
            "--sink",
            "Show the results in trackio, wandb, mlflow or tensorboard, too; repeatable.",
            "NAME[:PROJECT[/RUN]]",
            "sinks",
            multiple=True,
        ),
        option("--step", "With --sink: the training step of what was judged  [default: 0].", "N", type=int),
    )(function)


def send_to_sinks(run: Path, sinks: Sequence[Any], step: int | None) -> bool:
    """Send a run to its sinks, and say so; returns whether all took it."""
    from titjudge.cli.terminal import say
    from titjudge.report.sinks.base import send
    from titjudge.runs.run_folder import RunFolder

    if not sinks:
        return True
    failures = send(RunFolder(run), sinks, step or 0)
    for line in failures:
        say(f"not sent to a sink: {line}", err=True, colour="red")
    if not failures:
        say(f"sent   {', '.join(sink.name for sink in sinks)}")
    return not failures


class _Key(NamedTuple):
    """A key of run.yaml, as the source of `core.config` has it."""

    annotation: ast.expr
    default: Any
    text: str

    def type(self) -> Any:
        """Choose the click type of the values; bool for a flag."""
        names = [node.id for node in ast.walk(self.annotation) if isinstance(node, ast.Name)]
        if "Literal" in names:
            choices = (node.slice for node in ast.walk(self.annotation) if isinstance(node, ast.Subscript))
            return click.Choice(ast.literal_eval(next(choices)))
        types = {"Path": PATH, "bool": bool, "float": float, "int": int, "Positive": int}
        return next((types[name] for name in names if name in types), str)


@cache
def _keys() -> dict[str, _Key]:
    """Read the keys of run.yaml and of its `limits` from their source: importing pydantic would make `--help` slow."""
    module = "titjudge.core.config"
    loader: Any = getattr(find_spec(module), "loader", None)
    found = {}
    for model in ast.parse(loader.get_source(module)).body:
        if isinstance(model, ast.ClassDef) and model.name in ("Limits", "RunConfig"):
            for field, text in pairwise(model.body):
                match field, text:
                    case ast.AnnAssign(ast.Name(name), annotation, value), ast.Expr(ast.Constant(str(doc))):
                        given = next(
                            (each.value for each in getattr(value, "keywords", ()) if each.arg == "default"), value
                        )
                        found[name] = _Key(annotation, given.value if isinstance(given, ast.Constant) else None, doc)
    return found


def key_option(key: str, metavar: str | None = None, flag: str = "", **attributes: Any) -> Callable[[F], F]:
    """Make the flag of a key of run.yaml: its type, choices, text and default are those of the key, where `help` gives no other text.

    Args:
        key: a field of `RunConfig` or of its `Limits`.
        metavar: what stands for the value in the help.
        flag: how the flag is written, where not as `--the-key`.
        attributes: whatever else `click.option` takes.
    """
    known = _keys()[key]
    kind, help_text = known.type(), attributes.pop("help", known.text)
    if kind is bool:
        attributes |= {"default": None, "is_flag": True}
    elif attributes.get("multiple"):
        help_text += " Repeatable."
    if known.default is not None and known.default is not False:
        shown = "yes" if known.default is True else known.default
        help_text = f"{help_text.removesuffix('.')}  [default: {shown}]."
    declared = flag or f"--{key.replace('_', '-')}"
    return click.option(declared, key, type=kind, metavar=metavar, help=help_text, **attributes)


def key_values(flag: str, given: Sequence[str]) -> dict[str, str]:
    """Read what a repeatable flag was given, KEY=VALUE each.

    Raises:
        UserError: one is no such pair.
    """
    from titjudge.core.errors import UserError

    found = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise UserError(f"{flag} {pair!r}: expected KEY=VALUE")
        found[key.strip()] = value
    return found


def with_options(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Decorate a command with several options, in their order."""
    return lambda function: reduce(lambda decorated, add: add(decorated), reversed(options), function)


model_options: Callable[[F], F] = with_options(
    option("--provider", "Captioner and judge at once: openai, gemini, ... with its default model.", "NAME"),
    key_option("captioner", "PROVIDER/MODEL"),
    key_option("judge", "PROVIDER/MODEL", multiple=True),
    key_option("embedder", "PROVIDER/MODEL"),
    option(
        "--base-url",
        "Address of a compatible server for captioner and judge; several, comma-separated, share the load.",
        "URL",
    ),
    option(
        "--trust-remote-code", "Let models that run here run the code that comes with them.", is_flag=True, default=None
    ),
    option("--config", "run.yaml; flags go before its keys.", "FILE", name="config_file", type=PATH),
    key_option("protocol"),
    key_option("prompts", "DIR"),
    key_option("cache", "DIR"),
    key_option("max_cost", "USD"),
    option("--price", "Price in USD per million tokens; repeatable.", "MODEL=IN,OUT[,CACHED]", multiple=True),
    key_option("concurrency", "N"),
    key_option("timeout", "SECONDS"),
    key_option("lenient"),
)


def overrides_of(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Collect the configuration keys that flags set, each flag under the name of its key."""
    from titjudge.core.config import Limits, RunConfig
    from titjudge.engine.prices import parse_price_flag

    captioner = flags["captioner"] or flags["provider"]
    judges = [{"model": judge} for judge in flags["judge"] or filter(None, [flags["provider"]])]
    return {
        **{key: flags[key] for key in RunConfig.model_fields if key in flags},
        "metrics": list(flags.get("metrics", ())) or None,
        "captioner": {"model": captioner} if captioner else None,
        "judge": judges[0] if len(judges) == 1 else judges or None,
        "embedder": {"model": flags["embedder"]} if flags["embedder"] else None,
        "base_url": flags["base_url"],
        "trust_remote_code": flags["trust_remote_code"],
        "squash": flags.get("squash"),
        "limits": {key: flags[key] for key in Limits.model_fields if key in flags},
        "prices": dict(map(parse_price_flag, flags["price"])) or None,
    }
