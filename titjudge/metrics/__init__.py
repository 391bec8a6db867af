"""Metrics and tasks: async functions that ask models about an item, declared by `@metric` and `@task`.

A metric returns a score in its `range`, or a score without a value. A task returns lines, such as the prompts that it has
written. Refusals, outages and unreadable answers raise `Unanswered` in `ask`: you need not catch it, it becomes the
status of the score.

    @metric("mood", roles=("captioner",), range=(0, 100))
    async def mood(item, ask):
        # How well the mood of the image fits the prompt.
        reply = await ask("mine/mood", role="captioner", images=[item.image], schema=Answer, prompt=item.prompt)
        return Score.of(reply.data.score, reason=reply.data.reason)
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from pickle import PicklingError
from typing import Any, Literal, TypedDict, Unpack, get_type_hints

from titjudge.core import registry
from titjudge.core.errors import ConfigError, nearest, rule_of
from titjudge.core.types import Ask, Item, Json, Score, Values

__all__ = ["Metric", "Task", "metric", "task"]

Line = Values
MetricFunction = Callable[..., Awaitable[Score]]
TaskFunction = Callable[..., Awaitable[Sequence[Line]]]
Scope = Literal["item", "prompt"]
Sources = Literal["ignored", "optional", "required"]
JUDGE_RESULT_ALONE = "--set ignore_sources=yes judges the result alone"


def everywhere(item: Item) -> bool:
    """Apply to every item: the default of `Metric.applies`."""
    return True


def nothing_to_note(protocol: str, options: Values) -> str:
    """Return an empty text: the default of `Metric.note`."""
    return ""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric function with its metadata.

    Attributes:
        name: Name for `--metric`.
        function: The async function `(item, ask, **options) -> Score`.
        roles: Roles of the models it uses: captioner, judge, embedder, or a fixed `provider/model`.
        optional_roles: Roles that it uses only if they are configured (`ask.has_role`).
        range: Lowest and highest value; infinite for a scale without ends.
        version: Raised whenever the same answers would give another value.
        source: Paper or code that it follows.
        needs: Keys that it reads from `item.meta`.
        higher_is_better: Whether a higher value is a better image.
        summary: The first line of the function's docstring.
        extra: The optional extra (`titjudge[EXTRA]`) without which it cannot run.
        package: A module of that extra, by which it is known to be installed.
        options: Values of the function's keyword-only parameters that differ from their defaults.
        applies: Returns whether there is anything to measure in an item; if not, the item gets no score and does not
            lower the coverage.
        scope: "prompt" if a score depends on the other images of the prompt (`ask.siblings`), otherwise "item".
        sources: Whether it looks at the images that an edit was made from (`item.sources`): "ignored", "optional" (if
            there are any) or "required".
        note: Returns a remark for people on runs with this protocol and these options; empty if there is none.
    """

    name: str
    function: Callable[..., Awaitable[Any]]
    roles: tuple[str, ...]
    range: tuple[float, float]
    version: str = "1"
    source: str = ""
    needs: tuple[str, ...] = ()
    higher_is_better: bool = True
    summary: str = ""
    extra: str = ""
    package: str = ""
    options: Values = field(default_factory=dict)
    applies: Callable[[Item], bool] = everywhere
    scope: Scope = "item"
    sources: Sources = "ignored"
    optional_roles: tuple[str, ...] = ()
    note: Callable[[str, Values], str] = nothing_to_note

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the place where the metric is declared, and the attributes that have been changed since.

        Pickle cannot find the function itself, because its name in the module refers to the metric.

        Raises:
            PicklingError: It is declared inside a function, and the registry does not know it.
        """
        for place in ((self.function.__module__, self.function.__qualname__), ("", self.name)):
            declared = _declared(*place)
            if isinstance(declared, Metric) and declared.function is self.function:
                names = [attribute.name for attribute in fields(self)]
                changed = {
                    name: getattr(self, name) for name in names if getattr(self, name) != getattr(declared, name)
                }
                return _restored, (*place, changed)
        raise PicklingError(f"the metric {self.name} is declared inside a function. Declare it in a module")

    @property
    def asks(self) -> str:
        """The roles of its models, as text for lists of metrics."""
        return ", ".join([*self.roles, *(f"{role} (optional)" for role in self.optional_roles)])

    async def __call__(self, item: Item, ask: Ask) -> Score:
        score: Score = await self.function(item, ask, **self.options)
        return score

    def sources_problem(self, item: Item, *, ignore_sources: bool = False) -> str:
        """Return the reason why the metric cannot judge an item, such as an edit; empty if it can.

        Args:
            item: The item to judge.
            ignore_sources: Whether the result of an edit may be judged without what it was made from.
        """
        if item.sources and self.sources == "ignored" and not ignore_sources:
            return f"this is an edit, and {self.name} does not look at its source: {JUDGE_RESULT_ALONE}"
        if not item.sources and self.sources == "required":
            return f"{self.name} judges edits, and there is no source image"
        return ""

    @property
    def defaults(self) -> Json:
        """Name and default of every option, which are the keyword-only parameters of the function."""
        parameters = inspect.signature(self.function).parameters.values()
        return {option.name: option.default for option in parameters if option.kind is option.KEYWORD_ONLY}

    @property
    def about_options(self) -> dict[str, str]:
        """A line of help on every option, from its `Field(description=...)`; empty if its annotation has none."""
        hints = get_type_hints(self.function, include_extras=True)
        fields = {name: getattr(hints.get(name), "__metadata__", ()) for name in self.defaults}
        return {
            name: next((text for field in metadata if (text := getattr(field, "description", None))), "")
            for name, metadata in fields.items()
        }

    def configured(self, options: Values) -> Metric:
        """Make the metric with these options, each validated by its parameter's annotation ("8" is the whole number 8).

        Raises:
            ConfigError: The metric has no such option, or the value does not fit.
        """
        if not options:
            return self
        return replace(self, options={name: self._validated(name, value) for name, value in options.items()})

    def _validated(self, name: str, value: Any) -> Any:
        from pydantic import TypeAdapter, ValidationError

        defaults = self.defaults
        if name not in defaults:
            has = ", ".join(f"{option} (default {default})" for option, default in defaults.items())
            raise ConfigError(
                f"unknown option '{name}' of {self.name}.{nearest(name, defaults)} Known: {has or 'none'}"
            )
        hint = get_type_hints(self.function, include_extras=True).get(name, Any)
        try:
            return TypeAdapter(hint).validate_python(value)
        except ValidationError as error:
            problem = rule_of(error.errors(include_url=False)[0])
            raise ConfigError(f"the option {self.name}.{name} {problem}, not {value!r:.80}") from error


def _declared(module: str, name: str) -> Any:
    """Find what is declared as `name` in a module, or in the registry of metrics and tasks if `module` is empty."""
    if module:
        return getattr(sys.modules.get(module) or importlib.import_module(module), name, None)
    return next((registry.load(kind, name) for kind in ("metrics", "tasks") if name in registry.names(kind)), None)


def _restored(module: str, name: str, changed: Values) -> Metric:
    """Undo `Metric.__reduce__`."""
    declared: Metric = _declared(module, name)
    return replace(declared, **changed) if changed else declared


class MetricAttributes(TypedDict, total=False):
    """The attributes of a `Metric` that have defaults, which describes them."""

    version: str
    source: str
    needs: tuple[str, ...]
    higher_is_better: bool
    extra: str
    package: str
    applies: Callable[[Item], bool]
    scope: Scope
    sources: Sources
    optional_roles: tuple[str, ...]
    note: Callable[[str, Values], str]


def metric(
    name: str, *, roles: tuple[str, ...], range: tuple[float, float], **attributes: Unpack[MetricAttributes]
) -> Callable[[MetricFunction], Metric]:
    """Declare a metric: `@metric(name, roles=..., range=...)` above an async function `(item, ask) -> Score`.

    The first line of the function's docstring becomes the summary, its keyword-only parameters (annotated, with
    defaults) become the options. Raise `version` whenever the same answers would give another number. The other
    arguments are described at `Metric`.
    """
    return lambda function: Metric(name, function, roles, range, summary=_summary(function), **attributes)


@dataclass(frozen=True, slots=True)
class Task(Metric):
    """A task of a model for each prompt, such as rewriting it, with lines instead of a number as result.

    A run records a task that is done as a score of 1 with the lines among its parts. Cap, cache, ledger and resumption are
    the same as for metrics.
    """

    async def __call__(self, item: Item, ask: Ask) -> Score:
        lines: Sequence[Line] = await self.function(item, ask, **self.options)
        return Score.of(1, lines=[dict(line) for line in lines])


def task(
    name: str, *, roles: tuple[str, ...], version: str = "1", source: str = "", needs: tuple[str, ...] = ()
) -> Callable[[TaskFunction], Task]:
    """Declare a task: `@task(name, roles=...)` above an async function `(item, ask) -> lines`, which are JSON objects.

    Everything else is as for `metric`; a suite with `TASKS` set runs it.
    """
    return lambda function: Task(name, function, roles, (0, 1), version, source, needs, summary=_summary(function))


def _summary(function: Callable[..., Any]) -> str:
    return (function.__doc__ or "").strip().partition("\n")[0]
