"""A metric is an async function `(item, ask) -> Score` with a few facts about itself, attached by `@metric`."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_type_hints

from titjudge.core.errors import ConfigError, nearest
from titjudge.core.types import Ask, Item, Score

__all__ = ["Metric", "metric"]

MetricFunction = Callable[..., Awaitable[Score]]
Scope = Literal["item", "prompt"]
SIBLINGS = "siblings"  # among `needs`: how metrics asked for the other images, in `item.meta`, before there was a scope


def everywhere(item: Item) -> bool:
    """Most metrics apply to every item."""
    return True


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric function and its facts.

    Attributes:
        name: What `--metric` takes.
        function: The async function `(item, ask, **options) -> Score`.
        roles: The models it asks: captioner, judge, embedder, or a fixed `provider/model`.
        range: The ends of its values.
        version: Raised whenever the same answers would give another number.
        source: The paper or code it follows.
        needs: Keys that it reads from `item.meta`.
        higher_is_better: Whether a higher value is a better image.
        summary: The first line of the function's docstring.
        extra: The optional extra without which it cannot run at all.
        package: The module that shows whether that extra is installed.
        options: Values for the function's keyword-only parameters, where some were given.
        applies: Says of an item whether there is anything to measure: one without it gets no score, and lacks none.
        scope: "prompt" where a score depends on the other images of the prompt (`ask.siblings`), else "item".
    """

    name: str
    function: MetricFunction
    roles: tuple[str, ...]
    range: tuple[float, float]
    version: str
    source: str
    needs: tuple[str, ...]
    higher_is_better: bool
    summary: str
    extra: str = ""
    package: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    applies: Callable[[Item], bool] = everywhere
    scope: Scope = "item"

    def __post_init__(self) -> None:
        if SIBLINGS in self.needs:
            object.__setattr__(self, "scope", "prompt")

    async def __call__(self, item: Item, ask: Ask) -> Score:
        if SIBLINGS in self.needs and item.same_prompt:
            item = replace(item, meta={**item.meta, SIBLINGS: list(item.same_prompt)})
        return await self.function(item, ask, **self.options)

    @property
    def defaults(self) -> dict[str, Any]:
        """The options there are: name and default of each keyword-only parameter of the function."""
        parameters = inspect.signature(self.function).parameters.values()
        return {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}

    @property
    def about_options(self) -> dict[str, str]:
        """What each option is, in a line; empty where its annotation has no `Field(description=...)`."""
        hints = get_type_hints(self.function, include_extras=True)
        found = {name: getattr(hints.get(name), "__metadata__", ()) for name in self.defaults}
        return {
            name: next((text for each in facts if (text := getattr(each, "description", None))), "")
            for name, facts in found.items()
        }

    def configured(self, given: Mapping[str, Any]) -> Metric:
        """Make the metric with these options, each read as its parameter's annotation says ("8" is the whole number 8).

        Raises:
            ConfigError: an option it does not have, or a value that does not fit; says what there is.
        """
        return (
            replace(self, options={name: self._read(name, value) for name, value in given.items()}) if given else self
        )

    def _read(self, name: str, value: Any) -> Any:
        from pydantic import TypeAdapter, ValidationError

        known = self.defaults
        if name not in known:
            has = ", ".join(f"{each} (default {default})" for each, default in known.items())
            raise ConfigError(
                f"the metric {self.name} has no option '{name}'.{nearest(name, known)} It has: {has or 'none'}"
            )
        hint = get_type_hints(self.function, include_extras=True).get(name, Any)
        try:
            return TypeAdapter(hint).validate_python(value)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]["msg"]
            raise ConfigError(f"the option {self.name}.{name}: {problem} (got {value!r})") from error


def metric(
    name: str,
    *,
    roles: tuple[str, ...],
    range: tuple[float, float],
    version: str = "1",
    source: str = "",
    needs: tuple[str, ...] = (),
    higher_is_better: bool = True,
    extra: str = "",
    package: str = "",
    applies: Callable[[Item], bool] = everywhere,
    scope: Scope = "item",
) -> Callable[[MetricFunction], Metric]:
    """Declare a metric: `@metric(name, roles=..., range=...)` above an async function `(item, ask) -> Score`.

    The first line of the function's docstring becomes the summary, its keyword-only parameters (annotated, with defaults) the
    options. Raise `version` whenever the same answers would give another number; `Metric` says what the others are.
    """

    def declare(function: MetricFunction) -> Metric:
        summary = (function.__doc__ or "").strip().partition("\n")[0]
        return Metric(
            name, function, roles, range, version, source, needs, higher_is_better, summary, extra, package,
            applies=applies, scope=scope,
        )  # fmt: skip

    return declare
