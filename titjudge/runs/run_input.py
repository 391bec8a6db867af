"""Read the items of a run: those of its data that `--limit` and the shard leave, with notes for people."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from titjudge.core.config import RunConfig
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.grouped_reasons import brief
from titjudge.core.serialization import storable
from titjudge.core.types import InvalidItem, Item, Pair
from titjudge.metrics import Metric
from titjudge.runs.prompt_languages import Foreign
from titjudge.runs.subset import Drawn, prompt_of
from titjudge.suites.base import Suite
from titjudge.suites.samples import cells


class RunInput:
    """The items of a run. They are read again each time, so that no run needs them all in memory.

    Raises:
        ConfigError: there is a seed for `--limit`, and no limit.
    """

    def __init__(self, config: RunConfig, suite: Suite) -> None:
        if config.limit_seed is not None and config.limit is None:
            raise ConfigError("--limit-seed draws what --limit N takes: give both")
        self._config, self._suite = config, suite
        self._drawn: Drawn | None = None
        self._foreign = Foreign()

    def listed(self) -> Iterator[tuple[Item | InvalidItem, int | None]]:
        """Yield the items; those of a shard with their position in the data, others with None.

        A shard holds whole prompts: all images of a prompt are judged by the same questions, which are paid once.
        """
        items = self._limited()
        if self._config.shard is None:
            yield from ((item, None) for item in items)
            return
        first, step = self._config.share
        prompts: dict[str, int] = {}
        for place, item in enumerate(items):
            if prompts.setdefault(prompt_of(item), len(prompts)) % step == first:
                yield item, place

    def _limited(self) -> Iterator[Item | InvalidItem]:
        if self._config.limit is None:
            return self._load()
        if self._drawn is None:
            self._drawn = Drawn.of(self._load, self._config.limit, self._config.limit_seed)
        return self._drawn.items(self._load)

    def _load(self) -> Iterator[Item | InvalidItem]:
        assert self._config.data is not None
        return map(self._foreign.look, map(storable, cells(self._suite.load(self._config.data), self._config.grid)))

    def check(self) -> None:
        """Check that at least one item can be judged.

        Raises:
            DataError: all items are invalid; names the commonest reasons.
        """
        invalid: list[tuple[str, str]] = []
        for item, _ in self.listed():
            if isinstance(item, Item):
                return
            invalid.append((item.id, item.reason))
        if invalid and self._config.shard is None:
            raise DataError(f"none of {len(invalid):,} can be judged: {brief(invalid)}", self._config.data)

    def notes(
        self, metrics: Iterable[Metric], pairs: Sequence[Pair] = (), kept: Collection[Pair] | None = None
    ) -> list[str]:
        """List notes on the data; `kept` are those of the human pairs whose images are among the items."""
        notes = list(self._suite.notes)
        notes += [self._drawn.line] if self._drawn is not None and self._drawn.line else []
        if notes and pairs and kept is not None and not kept:
            notes.append(f"none of the {len(pairs):,} human pairs is among these images: a higher --limit has some")
        return [*notes, *self._foreign.notes(self._config, metrics)]
