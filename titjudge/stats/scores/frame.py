"""One table of scores: a row for each score, with the same names for generators and prompts in all runs that are joined."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from titjudge.core.errors import ConfigError, DataError, nearest
from titjudge.core.grouping import grouped
from titjudge.core.registry import base_metric, metric_of, names
from titjudge.core.score_parts import LEVELS
from titjudge.core.types import InvalidItem, Item, Note, Pair, Score, Status, prompt_of
from titjudge.core.words import SHORT_EN, SHORT_ZH, count_words, is_texts, script
from titjudge.stats.bootstrap import Floats, Interval, unit_sums
from titjudge.stats.scores.families import Families, families
from titjudge.stats.scores.part_scores import PARTS, part_scores
from titjudge.stats.scores.per_prompt import MEAN, PerPrompt
from titjudge.stats.scores.population import FEWEST
from titjudge.stats.scores.scores_table import IMAGE_COLUMNS, Entry, ScoreTable, score_table

NOT_JUDGED = "the run has not judged this image"
VALUES = 60  # of a category
COLUMNS = 4  # categories
# Columns that belong to one image or prompt, and are not categories.
_NUMBERS = frozenset({"cluster", "description", "index", "line", "number", "pair", "seed", *IMAGE_COLUMNS})
PartRow = tuple[str, str, str, float]  # prompt, generator, value and number of a part


def _length_of(prompt: str) -> str:
    """Return the bin of a prompt's length in words; the names of the bins sort in order."""
    bins = {15: "1 to 15 words", 40: "16 to 40 words", 100: "41 to 100 words"}
    words = count_words(prompt)
    return next((name for most, name in bins.items() if words <= most), "more than 100 words")


def _characters_of(prompt: str) -> str:
    """Return `short` or `long`, by the characters of a prompt as in Qwen-Image-Bench."""
    return "short" if len(prompt) <= (SHORT_ZH if script(prompt) == "CJK" else SHORT_EN) else "long"


_LENGTH = "prompt_length"
DERIVED: dict[str, Callable[[str], str]] = {
    _LENGTH: _length_of,
    "prompt_characters": _characters_of,
    "language": lambda prompt: f"{script(prompt) or 'LATIN'} letters",
}
"""Categories that come from the text of a prompt."""


def images_of(listed: Iterable[Item | InvalidItem]) -> list[Item | InvalidItem]:
    """Return the images of the data, those included that cannot be judged: the base of every coverage."""
    return [item for item in listed if isinstance(item, Item) or item.is_image]


def not_applicable(
    images: Collection[Item | InvalidItem], scores: Collection[Score], metrics: Mapping[str, Any]
) -> dict[str, frozenset[str]]:
    """List the ids of the images to which a metric does not apply, by metric; their absent score is not missing.

    To an image that cannot be judged a metric applies unless it applies to none of the other images of the prompt.
    """
    excluded = {}
    for name, metric in metrics.items():
        ids = {image.id for image in images if isinstance(image, Item) and not metric.applies(image)}
        if not ids:
            continue
        valid = [image for image in images if isinstance(image, Item)]
        prompts = {prompt_of(image) for image in valid} - {prompt_of(image) for image in valid if image.id not in ids}
        ids |= {image.id for image in images if isinstance(image, InvalidItem) and prompt_of(image) in prompts}
        ids -= {score.item_id for score in scores if base_metric(score.metric) == name}
        if ids:
            excluded[name] = frozenset(ids)
    return excluded


class Frame:
    """The scores of runs, or of a file, as rows of run, generator, prompt, image, metric and value.

    A generator of several runs is listed with its run, and a run whose images name no generator is one itself. Prompts have
    their ids if these mean the same texts in all runs, otherwise their texts.

    Args:
        listed: The items of each run, by its name, those included that cannot be judged.
        scores: The scores of each run by image and metric. Those of other images are left out.
        asked: The metrics of each run, those included that have no score yet.
        lacking: Why not all images of a run are judged (field of the same name in the manifest); empty if they are.
        pairs: Human pairs, which may name families of prompts.

    Attributes:
        images: The images of each run by their ids, those included that cannot be judged.
        metrics: The metrics that have scores, in the order of these.
    """

    def __init__(
        self,
        listed: Mapping[str, Iterable[Item | InvalidItem]],
        scores: Mapping[str, Mapping[tuple[str, str], Score]],
        asked: Mapping[str, Collection[str]] | None = None,
        lacking: Mapping[str, str] | None = None,
        pairs: Sequence[Pair] = (),
    ) -> None:
        self.images = {name: {image.id: image for image in images_of(of_run)} for name, of_run in listed.items()}
        self._scores, self._asked, self.pairs = scores, asked or {}, pairs
        self._lacking = {name: why for name, why in (lacking or {}).items() if why}
        self.source = ", ".join(listed)
        self.metrics = list(dict.fromkeys(metric for of_run in scores.values() for _, metric in of_run))
        short = [Path(name).resolve().name for name in listed]
        self.run_names = dict(zip(listed, short if len(set(short)) == len(short) else listed, strict=True))
        self._runs_of: dict[str, set[str]] = {}
        for name, images in self.images.items():
            for image in images.values():
                self._runs_of.setdefault(image.generator or self.run_names[name], set()).add(name)
        self._by_text = len(listed) > 1 and not self._same_ids()
        self._texts = {  # by run and prompt, for images that cannot be judged
            (name, prompt_of(item)): item.prompt
            for name in (listed if self._by_text else ())
            for item in self.items(name)
            if item.prompt
        }

    @property
    def unscored(self) -> set[str]:
        """The metrics without a score of any image."""
        found = {score.metric for run in self._scores.values() for score in run.values() if score.value is not None}
        return {*self.metrics} - found

    def items(self, run: str) -> list[Item]:
        """List the images of a run that can be judged."""
        return [image for image in self.images[run].values() if isinstance(image, Item)]

    def _all_items(self) -> Iterator[Item]:
        return (item for run in self.images for item in self.items(run))

    def notes(self) -> list[Note]:
        """Return a line for each run that has not judged all images."""
        return [Note("run_incomplete", f"{name}: the run is incomplete: {why}") for name, why in self._lacking.items()]

    def families(self) -> Families:
        """Find the families of the prompts."""
        return families(self._all_items(), self.prompt, self.pairs)

    def _same_ids(self) -> bool:
        """Return True if the runs have ids of prompts in common, and all of these mean the same texts."""
        texts: dict[str, str] = {}
        known = (item for item in self._all_items() if item.prompt)
        same = all(texts.setdefault(prompt_of(item), item.prompt) == item.prompt for item in known)
        return same and bool(set.intersection(*({*map(prompt_of, self.items(run))} for run in self.images)))

    def generator(self, run: str, item: Item | InvalidItem) -> str:
        """Name the generator of an image of a run."""
        name = item.generator or self.run_names[run]
        return name if len(self._runs_of.get(name, ())) < 2 else f"{name} ({self.run_names[run]})"

    def prompt(self, item: Item | InvalidItem, run: str = "") -> str:
        """Name the prompt of an image; of one that cannot be judged as other images of its run have it."""
        text = item.prompt if isinstance(item, Item) else self._texts.get((run, prompt_of(item)), "")
        return (text if self._by_text else "") or prompt_of(item)

    def rows(self, metric: str) -> Iterator[tuple[str, Item, Score]]:
        """Yield run, image and score of a metric, in the order of the images; without images of which a run has no record."""
        for run in self.images:
            for item in self.items(run):
                if (score := self._scores[run].get((item.id, metric))) is not None:
                    yield run, item, score

    def cells(self, metric: str) -> Iterator[tuple[str, Item | InvalidItem, Score]]:
        """Yield run, image and score of all images to which a metric applies, in the order of the images.

        An image of which its run has no record was not judged (status `missing`), or cannot be (`bad_input`).
        """
        for run, images in self.images.items():
            found = {id: score for (id, name), score in self._scores[run].items() if name == metric}
            if not found and metric not in self._asked.get(run, ()):
                continue
            known = {base: metric_of(base)} if (base := base_metric(metric)) in names("metrics") else {}
            excluded = not_applicable(images.values(), found.values(), known).get(base, ())
            for id, image in images.items():
                why = (Status.MISSING, NOT_JUDGED) if isinstance(image, Item) else (Status.BAD_INPUT, image.reason)
                if id not in excluded:
                    yield run, image, found.get(id) or Score(id, metric, None, *why)

    def values(self, metric: str) -> dict[str, float | None]:
        """Map the images of one run to their scores, negated if less is better; None for a failure."""
        sign = 1.0 if metric_of(metric).higher_is_better else -1.0
        return {item.id: None if score.value is None else sign * score.value for _, item, score in self.rows(metric)}

    def entries(self, metric: str, *, answers: bool = False) -> list[Entry]:
        """List the cells of a metric; with `answers` one for each answer of the judge behind a score."""
        return [
            Entry(self.prompt(image, run), self.generator(run, image), image.id, value, run)
            for run, image, score in self.cells(metric)
            for value in (_answers(score) if answers else [score.value])
        ]

    def table(
        self,
        metric: str,
        by: Sequence[str] | None = (),
        *,
        answers: bool = False,
        bounds: Interval | None = None,
        higher_is_better: bool = True,
        per_prompt: PerPrompt = MEAN,
        cost: float | None = None,
    ) -> ScoreTable:
        """Arrange the scores of a metric by prompt and generator.

        Args:
            metric: Its name.
            by: Categories to slice by: keys of the items' meta, `DERIVED` and `PARTS`. None for all parts and categories
                that have several values of six prompts or more.
            answers: Whether to keep the several answers of the judge behind a score apart.
            bounds: Ends of the metric's scale, if it has them.
            higher_is_better: Whether more is better.
            per_prompt: How several images of a prompt become one score.
            cost: USD for all scores, if known.

        Raises:
            ConfigError: No prompt has such a category, no score such parts; or `per_prompt` does not fit the metric.
        """
        entries = self.entries(metric, answers=answers)
        wanted = list(PARTS) if by is None else [column for column in by if column in PARTS]
        parts = self._parts(metric, wanted, strict=by is not None)
        if by is None:
            by_prompt = categories(self._all_items(), prompt=self.prompt)
        else:
            several = {column: found for column in by if (found := self._several(metric, column))}
            parts |= several
            wanted += several
            by_prompt = {column: self._category(column) for column in by if column not in parts and column not in PARTS}
            if empty := [column for column in wanted if column not in parts]:
                what = f"the scores of {metric} have no {PARTS[empty[0]]}: remove --by {empty[0]}"
                raise ConfigError(f"{next(iter(self.images))}: {what}")
        table = score_table(
            entries,
            metric=metric,
            source=self.source,
            categories=by_prompt,
            parts={column: parts[column] for column in wanted if column in parts},
            bounds=bounds,
            higher_is_better=higher_is_better,
            per_prompt=per_prompt,
            cost=cost / judged if cost and (judged := sum(1 for _ in self.rows(metric))) else None,
            texts={self.prompt(item): hash(item.prompt) for item in self._all_items()},
            families=self.families(),
        )
        same = identical_files((self.generator(run, item), self.prompt(item), s) for run, item, s in self.rows(metric))
        lacking = "; ".join(f"{name}: {why}" for name, why in self._lacking.items())
        table = replace(table, incomplete=lacking, notes=(*table.notes, *same))
        return table if by is not None else replace(table, slices=_large_slices(table, [*parts, *table.slices]))

    def _parts(self, metric: str, columns: Iterable[str], *, strict: bool) -> dict[str, list[PartRow]]:
        """List prompt, generator, value and number of the parts of scores, by column.

        Without `strict` the claims of a run are left out if any claim is malformed.
        """
        found: dict[str, list[PartRow]] = {}
        by_run = grouped(self.rows(metric), lambda row: row[0]) if columns else {}
        for run, rows in by_run.items():
            items, scores = {item.id: item for item in self.items(run)}, [score for *_, score in rows]
            try:
                by_column = part_scores(items, scores, columns)
            except DataError:
                if strict:
                    raise
                by_column = part_scores(items, scores, LEVELS)
            for column, by_item in by_column.items():
                found.setdefault(column, []).extend(
                    (self.prompt(items[id]), self.generator(run, items[id]), value, number)
                    for id, numbers in by_item.items()
                    for value, number in numbers.items()
                )
        return found

    def _several(self, metric: str, column: str) -> list[PartRow]:
        """List prompt, generator, value and score for a column of lists, such as themes; empty if these have only one value."""
        found = [
            (self.prompt(item), self.generator(run, item), value, score.value)
            for run, item, score in self.rows(metric)
            if score.value is not None and is_texts(values := item.meta.get(column))
            for value in values
        ]
        return found if len({value for _, _, value, _ in found}) > 1 else []

    def _category(self, column: str) -> dict[str, str]:
        """Map each prompt to its value of a column; empty if it has none.

        Raises:
            ConfigError: No prompt has one, or images of one prompt have several.
        """
        every = list(self._all_items())
        values: dict[str, str] = {}
        for item in every:
            prompt, value = self.prompt(item), _category_of(item, column)
            if value and values.setdefault(prompt, value) != value and column not in DERIVED:
                both = " and ".join(f"'{name}'" for name in sorted({value, values[prompt]}))
                raise ConfigError(
                    f"--by {column}: images of prompt '{prompt}' have {both}, and a prompt must have one value"
                )
        if not values:
            named = dict.fromkeys(str(name) for item in every for name in item.meta if _category_of(item, name))
            known = dict.fromkeys((*DERIVED, *PARTS, *named))
            what = f"its prompts have no '{column}'.{nearest(column, known)} Known: {', '.join(known)}"
            if column in DERIVED:
                what = f"--by {column} needs a column 'prompt' with the texts of the prompts. Add it"
            raise ConfigError(f"{next(iter(self.images))}: {what}")
        return values


def identical_files(cells: Iterable[tuple[str, str, Score]]) -> list[Note]:
    """Name every two generators whose images led to the same answers on half of their common prompts or more: their files are the same.

    Args:
        cells: Generator, prompt and score of each image; scores without `replies` do not count.
    """
    answers: dict[str, dict[str, set[frozenset[str]]]] = {}
    for generator, prompt, score in cells:
        if score.replies:
            answers.setdefault(generator, {}).setdefault(prompt, set()).add(frozenset(score.replies))
    notes = []
    for a, b in combinations(sorted(answers), 2):
        common = answers[a].keys() & answers[b]
        same = sum(answers[a][prompt] == answers[b][prompt] for prompt in common)
        if 1 < same >= len(common) / 2:
            line = f"{a} and {b} have identical image files on {same:,} of their {len(common):,} common prompts."
            notes.append(Note("identical_files", line))
    return notes


def _answers(score: Score) -> list[float | None]:
    """Return the value of a score, or the several answers of the judge whose mean it is."""
    if score.value is None:
        return [None]
    samples = [value for value in score.parts.get("samples") or () if isinstance(value, int | float)]
    of_samples = len(samples) > 1 and abs(sum(samples) / len(samples) - score.value) < 1e-9
    return [*samples] if of_samples else [score.value]


def _category_of(item: Item, column: str) -> str:
    if column in item.meta:
        value = item.meta[column]
        return str(value) if isinstance(value, str | int | float) and column != "generator" else ""
    return DERIVED[column](item.prompt) if column in DERIVED and item.prompt else ""


def categories(
    items: Iterable[Item], fewest: int = FEWEST, prompt: Callable[[Item], str] = prompt_of
) -> dict[str, dict[str, str]]:
    """Find the categories of prompts in the meta of items, and the prompts' length: column -> prompt -> value.

    A category has two to sixty values, the same for all images of a prompt, each of `fewest` prompts or more.
    """
    columns: dict[str, dict[str, str]] = {}
    places: dict[str, int] = {}
    mixed: set[str] = set()
    for item in items:
        name = prompt(item)
        labels = {
            key: str(value)
            for key, value in item.meta.items()
            if isinstance(value, str | int) and value != "" and key not in _NUMBERS
        }
        for place, (key, value) in enumerate((labels | {_LENGTH: _length_of(item.prompt)}).items()):
            places[key] = max(place, places.get(key, 0))
            if columns.setdefault(key, {}).setdefault(name, value) != value:
                mixed.add(key)
    usable = {
        key: columns[key]
        for key in sorted(columns, key=lambda key: (places[key], key))
        if key not in mixed and _sizes_fit(columns[key], fewest)
    }
    return dict(list(usable.items())[:COLUMNS])


def _sizes_fit(values: Mapping[str, str], fewest: int) -> bool:
    counts = np.unique(list(values.values()), return_counts=True)[1]
    return 2 <= len(counts) <= VALUES and int(counts.min()) >= fewest


def _large_slices(table: ScoreTable, columns: Iterable[str]) -> dict[str, dict[str, Floats]]:
    """Return the first columns of slices with several values that enough prompts have."""
    enough = {
        column: {
            value: means
            for value, means in table.slices[column].items()
            if len(unit_sums(np.where(np.isfinite(means).any(axis=1), 0.0, np.nan), table.unit)[0]) >= FEWEST
        }
        for column in columns
    }
    return dict([(column, values) for column, values in enough.items() if len(values) > 1][:COLUMNS])
