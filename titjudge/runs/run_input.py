"""Read the items of a run: the part of its data that `--limit` and the shard leave, with notes for people.

Of prompts that `--limit` takes, all images are taken, so that generators can still be compared.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from titjudge.core.config import RunConfig
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.grouping import brief, random_place
from titjudge.core.item_meta import CLUSTER
from titjudge.core.numbers import several
from titjudge.core.serialization import storable
from titjudge.core.types import InvalidItem, Item, Note, Pair, prompt_of
from titjudge.core.words import language
from titjudge.metrics import Metric
from titjudge.stats.scores.families import Alike, cluster_of
from titjudge.suites.base import Suite
from titjudge.suites.readings import pairing
from titjudge.suites.samples import cells

MULTILINGUAL = "sentence-transformers/BAAI/bge-m3"
DEFAULT_READS = 510  # tokens of a text, between the two that the default embedder adds
_TOKEN = re.compile(r"\w+|[^\w\s]")  # a word may be several tokens of the embedder
_ENGLISH = re.compile(r"(^|/)all-|[-_.]en([-_.]|$)", re.IGNORECASE)  # names of English sentence embedders


class UnfitPrompts:
    """Collects the prompts that an English embedder reads badly: in another language, or longer than it reads."""

    def __init__(self) -> None:
        self._languages: dict[str, str] = {}  # by prompt id
        self._long: set[str] = set()  # prompt ids

    def look(self, item: Item | InvalidItem) -> Item | InvalidItem:
        """Note language and length of an item's prompt, and return the item."""
        if isinstance(item, Item) and (prompt := prompt_of(item)) not in self._languages:
            self._languages[prompt] = language(item.prompt)
            if len(item.prompt) > DEFAULT_READS < len(_TOKEN.findall(item.prompt)):
                self._long.add(prompt)
        return item

    def notes(self, config: RunConfig, metrics: Iterable[Metric]) -> list[Note]:
        """Return a line for each problem; none if the embedder may be multilingual, or no metric embeds."""
        concerned = ", ".join(metric.name for metric in metrics if "embedder" in metric.roles)
        default = config.embedder.provider == "default"
        name = "all-MiniLM-L6-v2" if default else config.embedder.model_name
        languages = Counter(filter(None, self._languages.values()))
        lines = []
        if concerned and languages and (default or _ENGLISH.search(name)):
            kinds = ", ".join(kind for kind, _ in languages.most_common(3))
            line = (
                f"{several(languages.total(), 'prompt')} not in English ({kinds}); the embedder {name} was trained on English, so "
                f"{concerned} means little there: use a multilingual one, --embedder {MULTILINGUAL}"
            )
            lines.append(Note("prompts_not_english", line))
        if concerned and default and self._long:
            line = (
                f"{several(len(self._long), 'prompt')} longer than the {DEFAULT_READS} tokens that the embedder {name} reads, so "
                f"{concerned} compares only the beginning: --embedder {MULTILINGUAL} reads 8,192"
            )
            lines.append(Note("prompts_longer_than_embedder", line))
        return lines


Load = Callable[[], Iterator[Item | InvalidItem]]


class RunInput:
    """The items of a run. They are read again each time, so that no run needs them all in memory.

    Raises:
        ConfigError: There is a seed for `--limit`, and no limit.
    """

    def __init__(self, config: RunConfig, suite: Suite) -> None:
        if config.limit_seed is not None and config.limit is None:
            raise ConfigError("limit_seed requires --limit. Add --limit N")
        self._config, self._suite = config, suite
        self._drawn: Drawn | None = None
        self._unfit, self._alike, self._clusters = UnfitPrompts(), Alike(), dict[str, str]()
        self._counts = Counts()

    def listed(self) -> Iterator[tuple[Item | InvalidItem, int | None]]:
        """Yield the items; items of a shard with their position in the data, others with None.

        A shard contains whole prompts: all images of a prompt are judged by the same questions, which are paid once.
        """
        self._counts = Counts()
        for item, place in self._placed():
            self._counts.add(item)
            yield item, place

    def _placed(self) -> Iterator[tuple[Item | InvalidItem, int | None]]:
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
            self._drawn = Drawn.draw(self._load, self._config.limit, self._config.limit_seed)
        return self._drawn.items(self._load)

    def _load(self) -> Iterator[Item | InvalidItem]:
        assert self._config.data is not None
        items = map(storable, cells(self._suite.items(self._config.data), self._config.grid))
        return map(self._alike.look, map(self._unfit.look, map(self._in_one_cluster, items)))

    def _in_one_cluster(self, item: Item | InvalidItem) -> Item | InvalidItem:
        """Check that the prompt of an item is in one family, and return the item."""
        if isinstance(item, Item):
            cluster_of(item.meta, prompt_of(item), self._clusters, self._config.data)
        return item

    def check(self) -> None:
        """Check that at least one item can be judged, and that no prompt is in two families.

        Raises:
            DataError: All items are invalid (names the commonest reasons), or a prompt is in two families.
        """
        invalid: list[tuple[str, str]] = []
        valid = False
        for item, _ in self.listed():
            if isinstance(item, InvalidItem):
                invalid.append((item.id, item.reason))
            elif CLUSTER.is_in(item):
                valid = True
            else:
                return
        if valid:
            return
        if invalid and self._config.shard is None:
            raise DataError(
                f"none of {len(invalid):,} can be judged: {brief(invalid)}. Correct the data", self._config.data
            )

    def check_sources(self, metrics: Iterable[Metric]) -> None:
        """Check that each metric can judge at least one item: an edit, or an image that is not an edit.

        Raises:
            ConfigError: A metric can judge none; the message gives the reason.
        """
        without: dict[str, Metric] = {metric.name: metric for metric in metrics}
        reasons: dict[str, str] = {}
        for item in self._limited():
            if not isinstance(item, Item):
                continue
            for name, metric in list(without.items()):
                reasons[name] = metric.sources_problem(item, ignore_sources=self._config.ignore_sources)
                if not reasons[name]:
                    del without[name]
            if not without:
                return
        if unusable := [reason for name, reason in reasons.items() if name in without]:
            raise ConfigError(f"none of the items can be judged: {unusable[0]}. Choose another metric")

    @property
    def summary(self) -> Note:
        """A description of the data and the items as they were understood, once they have been read; empty without images."""
        return Note("data", "; ".join(filter(None, (self._suite.data_set, self._counts.line()))))

    def data_notes(
        self, metrics: Iterable[Metric], pairs: Sequence[Pair] = (), kept: Collection[Pair] | None = None
    ) -> list[Note]:
        """List notes on the data and the metrics; `kept` are the human pairs whose images are among the items."""
        metrics = list(metrics)
        notes = [*self._suite.notes]
        notes += [Note("images_drawn", self._drawn.line)] if self._drawn is not None and self._drawn.line else []
        if notes and pairs and kept is not None and not kept:
            line = f"none of the {len(pairs):,} human pairs is among these images: a higher --limit has some"
            notes.append(Note("no_pair_among_images", line))
        lines = (metric.note(self._config.protocol, metric.options) for metric in metrics)
        notes += (Note("metric", line) for line in lines if line)
        return [*notes, *self.embedder_notes(metrics), *self._alike.notes()]

    def embedder_notes(self, metrics: Iterable[Metric]) -> list[Note]:
        """List notes on the prompts that the embedder reads badly, once the items have been read."""
        return self._unfit.notes(self._config, metrics)


@dataclass(slots=True)
class Counts:
    """Facts about the items that can be judged.

    Attributes:
        first: The first image, with its prompt.
        images: How many there are.
        generators: Their names.
        prompts: Hashes of the prompt ids.
    """

    first: str = ""
    images: int = 0
    generators: set[str] = field(default_factory=set)
    prompts: set[int] = field(default_factory=set)

    def add(self, item: Item | InvalidItem) -> None:
        """Count an item."""
        if isinstance(item, InvalidItem) or item.image is None:
            return
        self.first = self.first or pairing(item.id, item.prompt)
        self.images += 1
        self.generators.add(item.generator)
        self.prompts.add(hash(item.prompt_id))

    def line(self) -> str:
        """Return the counts as a line: `2 generators x 38 prompts; step_1000/0000.png <- "A top-down ..."`; empty without images."""
        if not self.images:
            return ""
        generators = "" if self.generators <= {""} else f"{several(len(self.generators), 'generator')} x "
        samples, rest = divmod(self.images, len(self.generators) * len(self.prompts))
        images = f", {several(self.images, 'image')}" if rest else f" x {samples:,} images" if samples > 1 else ""
        return f"{generators}{several(len(self.prompts), 'prompt')}{images}; {self.first}"


@dataclass(frozen=True, slots=True)
class Drawn:
    """The prompts that `--limit` takes: as many as fit, in the order of the data or, with a seed, at random.

    If not even the first prompt fits, part of its images are taken. With the same seed a larger limit takes all that a
    smaller one does.

    Attributes:
        limit: The most items that can be judged.
        prompts: The prompts that are taken.
        line: Describes the choice for people; empty if all prompts are taken.
    """

    limit: int
    prompts: frozenset[str]
    line: str

    @classmethod
    def draw(cls, load: Load, limit: int, seed: int | None = None) -> Drawn:
        """Choose the prompts, reading the data once."""
        sizes: dict[str, int] = {}
        only_prompts = True  # no item has an image
        for item in load():
            only_prompts = only_prompts and not (isinstance(item, Item) and item.image)
            sizes[prompt_of(item)] = sizes.get(prompt_of(item), 0) + isinstance(item, Item)
        if seed is not None:
            sizes = {prompt: sizes[prompt] for prompt in sorted(sizes, key=lambda prompt: random_place(prompt, seed))}
        taken: dict[str, int] = {}
        images = 0
        for prompt, size in sizes.items():
            if images + size > limit:
                break
            taken[prompt] = size
            images += size
        full = {prompt: size for prompt, size in sizes.items() if size}
        if not images and full:  # the first prompt has more images than the limit
            first = next(iter(full))
            line = f"the first {limit:,} of {full[first]:,} images of one prompt, of {len(full):,} prompts"
            return cls(limit, frozenset({*taken, first}), f"--limit {limit}: {line}")
        if len(taken) == len(sizes):
            return cls(limit, frozenset(taken), "")
        prompts = sum(map(bool, taken.values()))
        line = f"{prompts:,} of {len(full):,} prompts{'' if seed is None else ', drawn at random'}"
        if not only_prompts or images > prompts:
            line = f"{images:,} of {sum(full.values()):,} images, all those of {line}"
        return cls(limit, frozenset(taken), f"--limit {limit}: {line}")

    def items(self, load: Load) -> Iterator[Item | InvalidItem]:
        """Yield the items of the chosen prompts."""
        seen = 0
        for item in load():
            if prompt_of(item) not in self.prompts:
                continue
            seen += isinstance(item, Item)
            if seen <= self.limit:
                yield item
