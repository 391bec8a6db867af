"""Suites that are defined by a YAML file: prompts with questions or source images, how they are judged, means by category.

The registry finds the bundled files, which are beside this module, by their names; `--suite my_suite.yaml` reads your
suite (docs/how-to/run-a-benchmark.md). A file is data: it names columns, rules and prompt templates, and contains no
code.
"""

from __future__ import annotations

import csv
import io
import json
import os
import pickle
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from titjudge.core import item_meta
from titjudge.core.declarations import Exclusion
from titjudge.core.errors import ConfigError, DataError, unknown
from titjudge.core.grouping import grouped
from titjudge.core.score_parts import could_be
from titjudge.core.score_parts import questions as questions_of
from titjudge.core.types import InvalidItem, Item, Items, Json, Note, Score, Status, Table, Values
from titjudge.metrics import rise
from titjudge.metrics.text_reading import matched_share
from titjudge.suites.base import Scored, Suite, SuiteInputs, benchmark_table, by_generator, check_generator
from titjudge.suites.image_tree import ImageTree, find_tree, listed_images
from titjudge.suites.patterns import PromptPlace, compiled, fields_of, filled, source_field
from titjudge.suites.question_data import (
    PromptRecord,
    QuestionSpec,
    SourceImages,
    TableSpec,
    counts,
    read_prompts,
    read_spec,
)
from titjudge.suites.sources import find_reference, find_sources

Files = Iterator[tuple[str, bytes]]
"""Path below the folder of a generator, and content."""

_GEDIT_TYPES = """
    background_change color_alter material_alter motion_change ps_human style_change subject-add subject-remove
    subject-replace text_change tone_transfer
""".split()
_GEDIT_COLUMNS = """
    source_image edited_image instruction sementics_score quality_score intersection_exist instruction_language
""".split()
_GEDIT_LANGUAGES = {"cn": "zh"}  # the statistics script takes `--language zh`, which no row of the data has


def write_files(layout: str, items: Sequence[Item], scores: Sequence[Score], folder: Path) -> int:
    """Write the files of a layout, for each generator into a folder of its name; returns their number.

    Raises:
        DataError: A generator's name is not a file name.
    """
    count = 0
    for generator, _, scored in by_generator(items, scores):
        for path, content in LAYOUTS[layout](generator, scored):
            place = folder / check_generator(generator) / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            count += 1
    return count


def _gedit(generator: str, scored: Sequence[Scored]) -> Files:
    """Make gpt4o/eval_results_new/GENERATOR_TYPE_gpt_score.csv of each type of edit, and one of all types together."""
    rows = {
        name: [_gedit_row(item, score) for item, score in scored if item_meta.TASK_TYPE.required(item) == name]
        for name in _GEDIT_TYPES
    }
    rows["combined"] = [row for of_type in rows.values() for row in of_type]
    for name, lines in rows.items():
        table = io.StringIO(newline="")
        csv.writer(table).writerows([_GEDIT_COLUMNS, *lines])
        yield f"gpt4o/eval_results_new/{generator}_{name}_gpt_score.csv", table.getvalue().encode()


def _gedit_row(item: Item, score: Score) -> tuple[Any, ...]:
    language = item_meta.INSTRUCTION_LANGUAGE.required(item)
    return (
        item.sources[0],
        item.image,
        item.prompt,
        score.parts["SC"],
        score.parts["PQ"],
        str(item_meta.INTERSECTION.get(item)).lower() == "true",
        _GEDIT_LANGUAGES.get(language, language),
    )


def _imgedit(generator: str, scored: Sequence[Scored]) -> Files:
    """Make result.json: replies by the key of the edit; under the strict protocol the lines of a reply with its ratings."""
    replies = {item.prompt_id: _imgedit_reply(score) for item, score in scored}
    yield "result.json", json.dumps(replies, indent=4).encode()


def _imgedit_reply(score: Score) -> str:
    if "output" in score.parts:
        return str(score.parts["output"])
    ratings = {name: rating for name, rating in score.parts.items() if name != "given"} or {"Score": score.value}
    return "\n".join(f"{name}: {rating:.0f}" for name, rating in ratings.items())


def _kris(generator: str, scored: Sequence[Scored]) -> Files:
    """Make CATEGORY/metrics.json, with the ratings by the number of the edit, as BAGEL's summarize.py reads them."""
    records = dict[str, Json]()
    for item, score in scored:
        category, key = item.prompt_id.split("/", 1)
        explanation = item_meta.EXPLANATION.get(item, "")
        record = {"instruction": item.prompt, "explain": explanation, **score.parts["ratings"]}
        records.setdefault(category, {})[key] = record
    for category, record in records.items():
        yield f"{check_generator(category)}/metrics.json", json.dumps(record, indent=2, ensure_ascii=False).encode()


def _rise(generator: str, scored: Sequence[Scored]) -> Files:
    """Make GENERATOR.pkl, with a reply to each question by the index of the edit, from which gpt_eval.py makes its tables."""
    yield f"{generator}.pkl", pickle.dumps({item.prompt_id: _rise_replies(item, score) for item, score in scored})


def _rise_replies(item: Item, score: Score) -> dict[str, str | None]:
    logical = item_meta.CATEGORY.get(item) == rise.LOGICAL
    names = (rise.CONSISTENCY, rise.REASONING) if logical else (rise.CONSISTENCY, rise.REASONING, rise.PLAUSIBILITY)
    marks = {name: (rating - 1) // 4 if logical else rating for name, rating in score.parts["ratings"].items()}
    return {
        f"judge{number}": f"**Final Score:** **{marks[name]}**" if name in marks else None
        for number, name in enumerate(names, 1)
    }


LAYOUTS = {"gedit": _gedit, "imgedit": _imgedit, "kris": _kris, "rise": _rise}
"""Functions that make the files of a generator in each layout, by the name in a suite's YAML file."""


_IN_PART = "scored in part"


def make_tables(spec: TableSpec, items: Sequence[Item], scores: Sequence[Score], *, grids: bool = False) -> list[Table]:
    """Make a table and, if it has bounds and images have no score, the table of these images.

    Args:
        spec: Its content.
        items: All images.
        scores: Scores of the suite's metric.
        grids: The images of a prompt count as one, see `Official`.
    """
    if spec.by and spec.mean != "answers" and items and not any(_column(spec, item) for item in items):
        return []  # the data do not have this field
    selected = [item for item in items if counts(item.meta, spec.where)]
    if items and not selected:
        return []
    if spec.mean == "words":
        return [_words_table(spec, selected, scores)]
    tables = [make_table(spec, selected, scores, grids=grids)]
    complete = {score.item_id for score in scores if score.value is not None and not could_be(score.parts)}
    if spec.bounds and any(item.id not in complete for item in selected):
        tables.append(_unscored(spec, selected, scores, spec.bounds))
    return tables


def make_table(spec: TableSpec, items: Sequence[Item], scores: Iterable[Score], *, grids: bool = False) -> Table:
    """Make one table, a row for each generator.

    Args:
        spec: Its content.
        items: All images.
        scores: Scores of the suite's metric.
        grids: The images of a prompt count as one, see `Official`.
    """
    counts = dict[str, tuple[int, int]]()
    means = dict[str, dict[str, float]]()
    overall = dict[str, float | None]()
    unscored = dict[str, list[str]]()
    for generator, images, scored in by_generator(items, scores):
        counts[generator] = len(images), len(scored)
        done = {item.id for item, _ in scored}
        if lacking := [item.id for item in images if item.id not in done]:
            unscored[generator] = lacking
        if grids:
            incomplete = {item.prompt_id for item in images if item.id not in done}
            scored = [(item, score) for item, score in scored if item.prompt_id not in incomplete]
        values = _answers(spec, _last(scored) if grids else scored) if spec.mean == "answers" else _images(spec, scored)
        means[generator] = {key: spec.times * sum(column) / len(column) for key, column in values.items() if column}
        overall[generator] = _overall(spec, means[generator], [value for column in values.values() for value in column])
    keys = set[str]().union(*means.values())
    order = [key for key in spec.order if key in keys] + sorted(keys - set(spec.order)) if spec.by else []
    overall_column = ("overall",) if spec.overall is not None else ()
    rows = tuple(
        (name, *counts[name], *([overall[name]] if overall_column else ()), *map(means[name].get, order))
        for name in counts
    )
    columns = ("generator", "images", "scored", *overall_column, *order)
    table = benchmark_table(spec.title, columns, rows, id=spec.id)
    return replace(table, declared=table.declared.over(None, {Exclusion.NO_SCORE: unscored}))


def _words_table(spec: TableSpec, items: Sequence[Item], scores: Iterable[Score]) -> Table:
    """Make the table of the shares of words that were read: over all images, and by the values of fields."""
    columns = [
        (key, value) for key in spec.columns for value in sorted({str(item.meta.get(key, "")) for item in items} - {""})
    ]
    rows = [
        (
            generator,
            len(images),
            len(scored),
            *_text_scores([score for _, score in scored], spec.edits),
            *(
                matched_share([score for item, score in scored if str(item.meta.get(key, "")) == value])
                for key, value in columns
            ),
        )
        for generator, images, scored in by_generator(items, scores)
    ]
    edits = ("ED", "CR", "WAC") if spec.edits else ()
    titles = ("generator", "images", "scored", *edits, "text score", *(f"{key} {value}" for key, value in columns))
    return benchmark_table(spec.title, titles, rows, id=spec.id)


def _text_scores(scores: Sequence[Score], farthest: int) -> tuple[float | None, ...]:
    """Compute the share of words; or, of OneIG-Bench, edit distance, share without an error, share of words, and the score of all three."""
    words = matched_share(scores)
    if not farthest or words is None:
        return (words,) * (4 if farthest else 1)
    distance = sum(score.parts["distance"] for score in scores) / len(scores)
    complete = sum(score.parts["distance"] == 0 for score in scores) / len(scores)
    return distance, complete, words, 1 - min(farthest, distance) * (1 - complete) * (1 - words) / farthest


def _unscored(spec: TableSpec, items: Sequence[Item], scores: Iterable[Score], bounds: tuple[float, float]) -> Table:
    """Count the images without a score, or with a part of one, and bound the means by the worst and the best that is missing."""
    by_id = {score.item_id: score for score in scores}
    parts = _parts_by_column(spec, items, by_id)
    filled = ([_filled(item, by_id, bounds, end, parts[_column(spec, item)]) for item in items] for end in (0, 1))
    means, worst, best = (_means(spec, items, which) for which in (by_id.values(), *filled))
    lacking = dict[tuple[str, str], Counter[str]]()
    for item in items:
        score = by_id.get(item.id, Score.none(Status.MISSING, ""))
        if score.value is None or could_be(score.parts):
            reason = _IN_PART if score.value is not None else str(score.status)
            for column in ("overall", _column(spec, item)):
                lacking.setdefault((item.generator, column), Counter())[reason] += 1
    reasons = [
        reason for reason in (*map(str, Status), _IN_PART) if any(reason in by_reason for by_reason in lacking.values())
    ]
    rows = [
        (*key, *(by_reason[reason] for reason in reasons), means.get(key), worst.get(key), best.get(key))
        for key, by_reason in lacking.items()
    ]
    columns = ("generator", "category", *reasons, "mean", "if all were worst", "if all were best")
    return benchmark_table(f"{spec.title}: images without a score", columns, rows)


def _parts_by_column(spec: TableSpec, items: Iterable[Item], by_id: Mapping[str, Score]) -> dict[str, list[str]]:
    """Return the parts that scores have in each column; if no image of it has a score, all that the table needs."""
    parts = dict[str, set[str]]()
    for item in items:
        score = by_id.get(item.id)
        parts.setdefault(_column(spec, item), set()).update(
            _values(spec, score) if score and score.value is not None else ()
        )
    return {column: sorted(names) or spec.parts for column, names in parts.items()}


def _means(spec: TableSpec, items: Sequence[Item], scores: Iterable[Score]) -> dict[tuple[str, str], Any]:
    """Return the means of a table by generator and column."""
    table = make_table(spec, items, scores)
    return {(row[0], column): cell for row in table.rows for column, cell in zip(table.columns, row, strict=True)}


def _filled(
    item: Item, by_id: Mapping[str, Score], bounds: tuple[float, float], end: int, parts: Iterable[str]
) -> Score:
    """Return the score of an item, with the worst (end 0) or the best (1) instead of missing values."""
    score = by_id.get(item.id) or Score(item.id, "", None)
    if score.value is None:
        return replace(score, value=bounds[end], parts=dict.fromkeys(parts, bounds[end]))
    ends = {name: pair[end] for name, pair in could_be(score.parts).items()}
    return replace(score, value=ends.pop("", score.value), parts={**score.parts, **ends}) if ends else score


def _column(spec: TableSpec, item: Item) -> str:
    return _key(spec, item.meta.get(spec.by)) if spec.by else ""


def _images(spec: TableSpec, scored: Sequence[Scored]) -> dict[str, list[float]]:
    """Return values by column: of images, or of prompts as the mean of their images."""
    by_column = dict[str, dict[str, list[float]]]()
    for item, score in scored:
        unit = item.prompt_id if spec.mean == "prompts" else item.id
        for name, value in _values(spec, score).items():
            by_column.setdefault(_column(spec, item), {}).setdefault(f"{unit} {name}", []).append(value)
    return {key: [sum(values) / len(values) for values in units.values()] for key, units in by_column.items()}


def _values(spec: TableSpec, score: Score) -> dict[str, float]:
    """Return the values of a score for the means, by the name of its part: its value, or the parts of the table."""
    values = {name: score.parts.get(name) if name else score.value for name in spec.parts}
    return {name: value for name, value in values.items() if isinstance(value, int | float)}


def _answers(spec: TableSpec, scored: Sequence[Scored]) -> dict[str, list[float]]:
    by_column = dict[str, list[float]]()
    for item, score in scored:
        for question in questions_of(score.parts):
            answer = question.get("counted" if spec.counted else "answer")
            if isinstance(answer, int | float):
                named = question.get("category") if spec.by == "category" else item.meta.get(spec.by)
                by_column.setdefault(_key(spec, named) if spec.by else "", []).append(float(answer))
    return by_column


def _last(scored: Sequence[Scored]) -> list[Scored]:
    """Return the last image of each prompt."""
    in_order = sorted(scored, key=lambda pair: pair[0].sample)
    return list({item.prompt_id: (item, score) for item, score in in_order}.values())


def _key(spec: TableSpec, value: Any) -> str:
    text = str(value if value is not None else "")
    for end in spec.upto:
        text = text.split(end, 1)[0].strip()
    return text


def _overall(spec: TableSpec, means: Mapping[str, float], values: Sequence[float]) -> float | None:
    if not means or spec.overall is None:
        return None
    if spec.overall == "all":
        return spec.times * sum(values) / len(values)
    if spec.overall == "columns":
        return sum(means.values()) / len(means)
    if any(key not in means for key in spec.overall):
        return None
    return sum(weight * means[key] for key, weight in spec.overall.items())


class QuestionSuite(Suite):
    """Prompts, how images of them are judged, and means by category.

    Args:
        template: Another prompt template than the suite's.
        images: A pattern of image paths from the working directory, if they are not at the place that the suite expects; or a
            .json file, an object {prompt: image path}.
        variant: Another set of the benchmark.
        sources: A pattern of the paths of source images from the working directory, if they are not at the place that the
            suite expects.
    """

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
            if variant.lower() not in self.spec.variants:
                raise ConfigError(f"the suite {self.name}: {unknown('variant', variant, self.spec.variants)}")
            self.spec = self.spec.variant(variant.lower())
        needed = {*fields_of(self.spec.prompts.unique)} - {"prompt_id", *fields_of(images)}
        if images and not images.endswith(".json") and needed:
            raise ConfigError(
                f"images={images} must contain {{{min(needed)}}}, because ids are unique only in one folder"
            )

    def load(self, folder: Path) -> Items:
        """Yield the images with their prompts and questions.

        Raises:
            DataError: There are no prompts, or no images.
        """
        prompts, problems = self._read(folder)
        if not prompts:
            raise DataError(f"no prompt can be used. Correct the first fault: {problems[0].reason}", folder)
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

    def _images_of(self, folder: Path, prompts: dict[str, str]) -> Items:
        if self._images.endswith(".json"):
            yield from listed_images(Path(self._images), prompts, self.image_roots, self._notes)
            return
        root, (pattern, *others) = find_tree(folder, self.spec.images, self._images)
        tree = ImageTree(pattern, "the suite", prompts, others, unique=self.spec.prompts.unique)
        for item in tree.items(root, self.image_roots, self._notes):
            if not (isinstance(item, InvalidItem) and self._is_source(item.id)):
                yield item

    def _is_source(self, path: str) -> bool:
        """Return True if an image that belongs to no prompt is, by its name, a source that lies beside the results."""
        names = (PurePosixPath(pattern).name for pattern in (self._sources, *self.spec.sources.paths))
        beside = (f"{name}.{{suffix}}" for name in names if re.fullmatch(r"\{prompt_id\}[^{}.]+", name))
        return any(compiled(pattern).fullmatch(PurePosixPath(path).name) for pattern in beside)

    def _with_sources(self, item: Item, record: PromptRecord, folder: Path) -> Item | InvalidItem:
        """Return an item with the images that it was made from, if the suite is one of edits."""
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
        """Return the sources of an edit: from the place of the suite or the user, otherwise from the table of prompts.

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
        """Yield the prompts; images belong next to other ones, otherwise at the place of the suite's first pattern.

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
                self._notes[Note("source_missing", f"{name}: {error.message}")] = None
            text = record.fields.get(item_meta.GENERATED_FROM.name, record.prompt)
            yield PromptPlace(name, text, filled(pattern, values), fields)

    def _read(self, folder: Path) -> tuple[dict[str, PromptRecord], list[InvalidItem]]:
        skip_rows = self.spec.official.skip_rows if self.protocol == "official" else 0
        parents_exist = self.spec.asking(self.protocol).parents == "direct"
        return read_prompts(folder, self.spec, skip_rows=skip_rows, parents_exist=parents_exist)

    def aggregate(self, items: Sequence[Item], scores: Sequence[Score]) -> list[Table]:
        """Make the suite's tables."""
        grids = self.protocol == "official" and self.spec.official.grids
        by_metric = grouped(scores, lambda score: score.metric)
        tables = []
        for spec in self.spec.tables:
            names = [spec.metric or self.spec.metric]
            if spec.metric == "further":
                ids = {item.id for item in items if counts(item.meta, spec.where)}
                further = sorted(by_metric.keys() - {*self.metrics})
                names = [name for name in further if any(score.item_id in ids for score in by_metric[name])]
            for name in names:
                named = spec.model_copy(update={"title": spec.title.format(metric=name)})
                tables += make_tables(named, items, by_metric.get(name, []), grids=grids)
        return tables

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
        counted = [score for score in scores if score.metric == self.spec.metric]
        return write_files(self.spec.official.files, items, counted, folder)


def suite_of(file: Path | str) -> type[QuestionSuite]:
    """Make the class of a suite from its YAML file.

    Raises:
        ConfigError: The file is wrong; names file and key.
    """
    spec = read_spec(Path(file))
    attributes = {
        "name": spec.name,
        "spec": spec,
        "metrics": (spec.metric, *spec.also),
        "VERSION": spec.version,
        "DEVIATIONS": tuple(spec.deviations),
        "__doc__": spec.summary,
        "__module__": __name__,
    }
    return type(re.sub(r"\W", "_", spec.name), (QuestionSuite,), attributes)
