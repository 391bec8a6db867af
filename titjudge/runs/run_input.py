"""What a run reads: the items of its data, as far as `--limit` and its shard go, and what there is to say of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from titjudge.core.config import RunConfig
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.grouped_reasons import brief
from titjudge.core.serialization import storable
from titjudge.core.types import InvalidItem, Item, Pair
from titjudge.metrics import Metric
from titjudge.runs.prompt_languages import Foreign
from titjudge.runs.subset import Drawn, prompt_of
from titjudge.suites.samples import cells


class RunInput:
    """Reads the data again each time it is asked, so that no run needs them all in memory.

    Raises:
        ConfigError: a seed for what `--limit` draws, and no limit.
    """

    def __init__(self, config: RunConfig, suite: Any) -> None:
        if config.limit_seed is not None and config.limit is None:
            raise ConfigError("--limit-seed draws what --limit N takes: give both")
        self._config, self._suite = config, suite
        self._drawn: Drawn | None = None
        self._foreign = Foreign()

    def listed(self) -> Iterator[tuple[Item | InvalidItem, int | None]]:
        """Yield what is to be judged; for a shard with its place among all items.

        Shards are dealt whole prompts: all images of one are then judged by the same questions, which are paid once.
        """
        found = self._found()
        if self._config.shard is None:
            yield from ((item, None) for item in found)
            return
        first, step = self._config.share
        prompts: dict[str, int] = {}
        for place, item in enumerate(found):
            if prompts.setdefault(prompt_of(item), len(prompts)) % step == first:
                yield item, place

    def _found(self) -> Iterator[Item | InvalidItem]:
        if self._config.limit is None:
            return self._load()
        if self._drawn is None:
            self._drawn = Drawn.of(self._load, self._config.limit, self._config.limit_seed)
        return self._drawn.items(self._load)

    def _load(self) -> Iterator[Item | InvalidItem]:
        assert self._config.data is not None
        return map(self._foreign.look, map(storable, cells(self._suite.load(self._config.data), self._config.grid)))

    def check(self) -> None:
        """Check that something can be judged: data without are an error, and no run.

        Raises:
            DataError: names the commonest reasons.
        """
        refused: list[tuple[str, str]] = []
        for item, _ in self.listed():
            if isinstance(item, Item):
                return
            refused.append((item.id, item.reason))
        if refused and self._config.shard is None:
            raise DataError(f"none of {len(refused):,} can be judged: {brief(refused)}", self._config.data)

    def notes(
        self, metrics: Iterable[Metric], pairs: Sequence[Pair] = (), kept: Collection[Pair] | None = None
    ) -> list[str]:
        """Give lines for people; `kept` are those of the pairs whose images are among the items."""
        said = list(getattr(self._suite, "notes", ()))
        said += [self._drawn.line] if self._drawn is not None and self._drawn.line else []
        if said and pairs and kept is not None and not kept:
            said.append(f"none of the {len(pairs):,} human pairs is among these images: a higher --limit has some")
        return [*said, *self._foreign.notes(self._config, metrics)]
