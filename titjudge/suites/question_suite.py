"""Suites that are defined by a YAML file: prompts with questions or source images, how they are judged, means by category.

The registry finds the bundled files, which are beside this module, by their names; `--suite my_suite.yaml` reads one of your own (docs/suites.md). A file is data: it
names columns, rules and prompt templates, and holds no code.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from titjudge.core import item_meta
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.types import InvalidItem, Item, Items, Score, Table, Values
from titjudge.suites.base import Suite, SuiteInputs
from titjudge.suites.edit_files import write_files
from titjudge.suites.image_tree import ImageTree, find_tree, listed_images
from titjudge.suites.patterns import compiled
from titjudge.suites.prompt_places import PromptPlace, filled, source_field
from titjudge.suites.question_data import PromptRecord, read_prompts
from titjudge.suites.question_schema import QuestionSpec, SourceImages, read_spec
from titjudge.suites.question_tables import make_tables
from titjudge.suites.sources import find_reference, find_sources


class QuestionSuite(Suite):
    """Prompts, how images of them are judged, and means by category.

    Args:
        template: Another prompt template than the suite's.
        images: A pattern of image paths from the working directory, where they are not where the suite expects them; or a
            .json file, an object {prompt: image path}.
        variant: Another set of the benchmark.
        sources: A pattern of the paths of source images from the working directory, where they are not where the suite expects
            them.
    """

    metrics: tuple[str, ...] = ("questions",)
    spec: QuestionSpec

    def __init__(
        self,
        inputs: SuiteInputs = SuiteInputs(),
        *,
        template: str = "",
        images: str = "",
        variant: str = "",
        sources: str = "",
    ) -> None:
        super().__init__(inputs)
        self._template, self._images, self._sources = template, images, sources
        if variant:
            if variant not in self.spec.variants:
                has = ", ".join(self.spec.variants) or "none"
                raise ConfigError(f"the suite {self.name} has no variant '{variant}': it has {has}")
            self.spec = self.spec.variant(variant)

    def load(self, folder: Path) -> Items:
        """Yield the images with their prompts and questions.

        Raises:
            DataError: There are no prompts, or no images.
        """
        prompts, problems = self._read(folder)
        yield from problems
        asking = self.spec.asking(self.protocol)
        if self._template:
            asking = asking.model_copy(update={"template": self._template})
        how = asking.model_dump()
        for item in self._images_of(folder, {name: record.prompt for name, record in prompts.items()}):
            if isinstance(item, InvalidItem):
                yield item
                continue
            record = prompts[item.prompt_id]
            meta = {**item_meta.without(item, item_meta.SUFFIX), **record.fields}
            if record.questions:
                questions = [question.model_dump(exclude_defaults=True) for question in record.questions]
                meta[item_meta.ASKED.name] = {**how, "questions": questions}
            yield self._with_sources(replace(item, meta=meta), record, folder)

    def _images_of(self, folder: Path, prompts: Mapping[str, str]) -> Items:
        if self._images.endswith(".json"):
            yield from listed_images(Path(self._images), prompts, self.image_roots, self._notes)
            return
        root, (pattern, *others) = find_tree(folder, self.spec.images, self._images)
        tree = ImageTree(pattern, "the suite", prompts, others, unique=self.spec.prompts.unique)
        for item in tree.items(root, self.image_roots, self._notes):
            if not (isinstance(item, InvalidItem) and self._is_source(item.id)):
                yield item

    def _is_source(self, path: str) -> bool:
        """Tell whether an image that belongs to no prompt is, by its name, a source that lies beside the results."""
        names = (PurePosixPath(pattern).name for pattern in (self._sources, *self.spec.sources.paths))
        beside = (f"{name}.{{suffix}}" for name in names if re.fullmatch(r"\{prompt_id\}[^{}.]+", name))
        return any(compiled(pattern).fullmatch(PurePosixPath(path).name) for pattern in beside)

    def _with_sources(self, item: Item, record: PromptRecord, folder: Path) -> Item | InvalidItem:
        """Return an item with the images that it was made from, where the suite is one of edits."""
        where = self.spec.sources
        if where == SourceImages():
            return item
        values = {**item.meta, "generator": item.generator, "prompt_id": record.key}
        try:
            sources = self._sources_of(values, record, folder)
            reference = find_reference(folder, where.reference, values, self.image_roots)
        except DataError as error:
            return InvalidItem(item.id, error.message, item.generator, item.prompt_id)
        reference_meta = {item_meta.REFERENCE_IMAGE.name: os.path.realpath(reference)} if reference else {}
        return replace(item, sources=sources, meta={**item.meta, **reference_meta})

    def _sources_of(self, values: Values, record: PromptRecord, folder: Path) -> tuple[Path, ...]:
        """Return the sources of an edit: where the suite or the user has them, else those in the table of prompts.

        Raises:
            DataError: There are none.
        """
        try:
            return find_sources(folder, self.spec.sources.paths, values, self.image_roots, self._sources)
        except DataError:
            if self._sources or not record.sources:
                raise
            return record.sources

    def prompts(self, folder: Path) -> Iterator[PromptPlace | InvalidItem]:
        """Yield the prompts; images belong where others are, else where the suite's first pattern has them.

        Raises:
            DataError: There are no prompts.
        """
        prompts, problems = self._read(folder)
        yield from problems
        try:
            root, (pattern, *_) = find_tree(folder, self.spec.images, self._images)
            pattern = pattern if self._images else (root.relative_to(folder) / pattern).as_posix()
        except DataError:
            pattern = f"{self.spec.images[0]}.png"
        edits = self.spec.sources != SourceImages()
        for name, record in prompts.items():
            number = record.key.zfill(self.spec.prompts.digits)
            values = {**record.fields, "prompt_id": number, "suffix": "png"}
            try:
                fields = source_field(self._sources_of(values, record, folder)) if edits else {}
            except DataError as error:
                fields = {}
                self._notes[f"{name}: {error.message}"] = None
            yield PromptPlace(name, record.prompt, filled(pattern, values), fields)

    def _read(self, folder: Path) -> tuple[dict[str, PromptRecord], list[InvalidItem]]:
        skip_rows = self.spec.official.skip_rows if self.protocol == "official" else 0
        parents_exist = self.spec.asking(self.protocol).parents == "direct"
        return read_prompts(folder, self.spec, skip_rows=skip_rows, parents_exist=parents_exist)

    def aggregate(self, items: Sequence[Item], scores: Sequence[Score]) -> list[Table]:
        """Make the suite's tables."""
        grids = self.protocol == "official" and self.spec.official.grids
        metric_scores = self._metric_scores(scores)
        return [table for spec in self.spec.tables for table in make_tables(spec, items, metric_scores, grids=grids)]

    @property
    def writes_official(self) -> bool:
        """Whether it writes the files of the official scripts: its YAML file names their layout."""
        return bool(self.spec.official.files)

    def write_official(self, items: Sequence[Item], scores: Sequence[Score], folder: Path) -> int:
        """Write the files of scores of the official scripts into a folder; returns their number.

        Raises:
            ConfigError: No such files are known.
        """
        if not self.writes_official:
            return super().write_official(items, scores, folder)
        return write_files(self.spec.official.files, items, self._metric_scores(scores), folder)

    def _metric_scores(self, scores: Sequence[Score]) -> list[Score]:
        return [score for score in scores if score.metric == self.spec.metric]


def suite_of(file: Path | str) -> type[QuestionSuite]:
    """Make the class of a suite from its YAML file.

    Raises:
        ConfigError: The file is wrong; names file and key.
    """
    spec = read_spec(Path(file))
    attributes = {
        "name": spec.name,
        "spec": spec,
        "metrics": (spec.metric,),
        "VERSION": spec.version,
        "DEVIATIONS": tuple(spec.deviations),
        "__doc__": spec.summary,
        "__module__": __name__,
    }
    return type(re.sub(r"\W", "_", spec.name), (QuestionSuite,), attributes)
