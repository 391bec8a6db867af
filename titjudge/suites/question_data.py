"""Read the prompts and questions of a suite from official files of any layout, as its YAML file describes them."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError, model_validator

from titjudge.core import item_meta, registry
from titjudge.core.cells import ImageCell
from titjudge.core.config import key_problem
from titjudge.core.errors import ConfigError, DataError, must_be, unknown
from titjudge.core.files import read_json, read_yaml
from titjudge.core.numbers import is_number
from titjudge.core.structured_output import first_problem
from titjudge.core.types import InvalidItem, Json, Values
from titjudge.core.words import is_texts
from titjudge.data.data_paths import inside, is_stray
from titjudge.data.tables import scan_table
from titjudge.metrics.answer_rules import VisualQuestion
from titjudge.metrics.questions import Asking
from titjudge.metrics.text_reading import Wanted, compare, listed
from titjudge.suites.base import reason_of
from titjudge.suites.patterns import fields_of, filled

_ASKING = ("questions", "soft-tifa")
"""The metrics that ask the questions of the data."""


class JoinedTable(BaseModel, extra="forbid"):
    """Another table, below the data folder, with further columns of the prompts.

    Attributes:
        file: The table.
        id: Its column of the prompt's id.
        where: As for prompts.
    """

    file: str
    id: str = "id"
    where: dict[str, str | bool | int] = {}


class PromptFiles(BaseModel, extra="forbid"):
    """The places of prompts below the data folder.

    A column is a key of a row; `a.b` is the key b of the object a (which may be JSON in a text), `a[]` every entry of a
    list, `a[].0` the first part of every entry, `$key` the row's key in a JSON object of rows, `$value` a row that is a
    text, `$row` its number from 0, `$file` the name of its file without the ending, `$folder` the name of the folder it
    is in. A field whose column ends in `?` is empty if a row does not have it; `=text` is the same text for every row.

    Attributes:
        folders: Possible folders of the files; the first folder that has any is used, or all that fit a pattern with `*`.
        files: Names or patterns of .csv, .jsonl, .parquet or .json files; all that exist are read.
        id: The column of the prompt's id.
        prompt: The column of its text.
        fields: Further columns that tables and templates need, by name.
        bands: Fields by ranges of numeric prompt ids: {category: {CULTURE: [1, 400], ...}}.
        groups: Fields by groups of the values of another field: {dimension: {category: {Space: [viewpoint, position], ...}}}.
        absent: Fields that are true if the row has no cell in a column that other rows have (NaN in a pandas table), by name.
        unique: How ids that are unique only within a folder are made unique, from fields and {prompt_id}; the fields are
            also in the paths of images.
        rows: A row is a prompt, or one question of it (the rows of a prompt then have the same id).
        where: Columns of the files with the value that a row must have to count, such as {language: en}.
        join: A table with further columns.
        digits: Fewest digits of an id in the paths of new images.
        ending: The ending of an id that is the name of an image, such as `.png`; the id is read without it.
    """

    folders: list[str] = Field(default=["."], min_length=1)
    files: list[str] = Field(min_length=1)
    id: str = "prompt_id"
    prompt: str = "prompt"
    fields: dict[str, str] = {}
    bands: dict[str, dict[str, tuple[int, int]]] = {}
    groups: dict[str, dict[str, dict[str, list[str]]]] = {}
    absent: dict[str, str] = {}
    unique: str = "{prompt_id}"
    rows: Literal["prompts", "questions"] = "prompts"
    where: dict[str, str | bool | int] = {}
    join: JoinedTable | None = None
    digits: int = 0
    ending: str = ""


class TextColumn(BaseModel, extra="forbid"):
    """The column of the texts that an image must show, a list, and the rule by which they are compared (`text_reading.Wanted`).

    By the rule `oneig` the list is written as in Python. `max_tokens` is the maximum number of tokens of a reply;
    `longer` is a number of words, and the maximum if there are more words.
    """

    column: str
    rule: Literal["words", "signs", "oneig"]
    max_tokens: int = 1024
    longer: tuple[int, int] | None = None


class SourceImages(BaseModel, extra="forbid"):
    """The places of the images that an edit was made from.

    Attributes:
        paths: Patterns of their paths below the data folder, with fields of the image's path and of the prompt; the first for
            which there are images counts. A field that is a list means several images, in its order.
        column: The column of the prompts' table with the images themselves, for edits without such a file.
        reference: Pattern of the path of an image of the right result, for the prompts that have all of its fields.
    """

    paths: list[str] = []
    column: str = ""
    reference: str = ""


class QuestionColumns(BaseModel, extra="forbid"):
    """The columns of the questions; lists in several columns are combined entry by entry, objects by their keys, which are the ids."""

    question: str
    category: str = ""
    id: str = ""
    parents: str = ""
    answer: str = ""
    weight: str = ""


class TableSpec(BaseModel, extra="forbid"):
    """A table: means by category for each generator.

    Attributes:
        id: Stable name of the table, for programs.
        mean: Of images, of prompts (the mean of their images first), of single answers or of the words of texts that were read.
        by: The field (or `category` of answers) whose values are the columns; without it there is one mean.
        upto: Texts at which values are cut off, one after the other: with "-", `entity - whole` is `entity`.
        order: The columns that come first.
        overall: The mean of the columns, of everything, or weights by column; null for none.
        times: The factor of all means.
        counted: Answers as they enter the score (after their parents), or as given.
        value: A part of the score instead of its value, for images and prompts; of several, each that a score has counts.
        where: Fields with the value, or one of the values, that an image must have to count.
        columns: Of the words of texts: fields whose values are the columns.
        edits: Of the words of texts by the rule `oneig`: the edits of a text that count as most; then their mean is shown, too.
        metric: The metric whose scores count, if it is not the suite's first: its name, or `further`, which makes a table
            for each metric that is not the suite's.
        bounds: The worst and the best value. A further table then has, for each column, the images without a score by the
            reason, those scored in part, and the mean if all missing scores were the worst or the best.
    """

    title: str
    id: str = ""
    mean: Literal["images", "prompts", "answers", "words"] = "images"
    by: str = ""
    upto: list[str] = []
    order: list[str] = []
    overall: Literal["columns", "all"] | dict[str, float] | None = "columns"
    times: float = 100.0
    counted: bool = True
    value: str | list[str] = ""
    where: dict[str, str | bool | int | list[str]] = {}
    columns: list[str] = []
    edits: int = 0
    metric: str = ""
    bounds: tuple[float, float] | None = None

    @property
    def parts(self) -> list[str]:
        """The parts of a score that count; "" is its value."""
        return [self.value] if isinstance(self.value, str) else self.value


class Official(BaseModel, extra="forbid"):
    """Differences of `--protocol official`, which follows the published script.

    Attributes:
        ask: Keys of `ask` with other values.
        skip_rows: Rows at the start of the data that the script does not read.
        grids: The images of a prompt count as one: it has no score if one of them has none, and tables of answers use
            only the last one.
        files: The layout of the files of scores that its scripts write (`--official-files`).
    """

    ask: Json = {}
    skip_rows: int = Field(default=0, ge=0)
    grids: bool = False
    files: Literal["", "gedit", "imgedit", "kris", "rise"] = ""


class PromptSet(BaseModel, extra="forbid"):
    """Prompts, and the questions about their images.

    Attributes:
        prompts: The places of prompts.
        questions: The columns of the questions, or the questions themselves if they are the same for every prompt; `geneval`:
            questions made of the metadata of GenEval.
        texts: The texts that an image must show.
    """

    prompts: PromptFiles
    questions: QuestionColumns | list[VisualQuestion] | Literal["geneval"] = []
    texts: TextColumn | None = None


class QuestionSpec(PromptSet):
    """A whole suite; for prompts, questions and texts see `PromptSet`.

    Attributes:
        name: Its name in results.
        summary: A description in one line.
        version: Raised whenever the same answers would give other tables.
        source: Its publication.
        images: Patterns of image paths below the data folder, without ending, as for `--images`; the first that fits counts.
        sets: Sets of prompts that are read one after the other: other values of the keys of `PromptSet`; one without them.
        sources: The places of the images that edits were made from.
        metric: How answers become a score: parsed by a rule (`questions`), or by their probabilities (`soft-tifa`); or any
            other metric, which asks other questions.
        also: Further metrics.
        ask: How questions are asked.
        official: The differences of `--protocol official`.
        tables: The tables.
        deviations: Differences from the results of the published script, in words.
        variants: Keys with other values for another set of the benchmark (`--suite-option variant=NAME`), by its name.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")
    summary: str
    version: str = "1"
    source: str = ""
    images: list[str] = ["images/{generator}/{prompt_id}_{sample}", "images/{generator}/{prompt_id}"]
    sets: list[Json] = []
    sources: SourceImages = SourceImages()
    metric: str = "questions"
    also: list[str] = []
    ask: Asking = Asking()
    official: Official = Official()
    tables: list[TableSpec] = Field(min_length=1)
    deviations: list[str] = []
    variants: dict[str, Json] = {}

    @model_validator(mode="after")
    def _fits_together(self) -> QuestionSpec:
        """Check that metric, questions, protocols, variants and tables name only what there is."""
        for name in (self.metric, *self.also):
            if name not in (known_metrics := registry.names("metrics")):
                raise ValueError(f"metric: {unknown('metric', name, known_metrics)}")
        made: dict[str, tuple[type[BaseModel], Callable[[], object]]] = {
            "official.ask.": (Asking, lambda: self.asking("official")),
            "sets.": (PromptSet, lambda: self.prompt_sets),
            **{f"variants.{name}.": (QuestionSpec, partial(self.variant, name)) for name in self.variants},
        }
        for above, (model, make) in made.items():
            try:
                make()
            except ValidationError as error:
                raise ValueError(key_problem(error, model, above)) from error
        if (self.metric in _ASKING) is all(prompts.questions == [] for prompts in self.prompt_sets):
            raise ValueError(
                f"questions: {self.metric} {'requires them' if self.metric in _ASKING else 'has fixed questions'}"
            )
        prompt_fields = (*self.prompts.fields, *self.prompts.bands, *self.prompts.groups, *self.prompts.absent)
        fields = {"", *prompt_fields, *fields_of(" ".join(self.images))}
        for number, table in enumerate(self.tables):
            if table.metric not in ("", "further", self.metric, *self.also):
                raise ValueError(
                    f"tables.{number}.metric: {unknown('metric', table.metric, (self.metric, *self.also))}"
                )
            if table.by not in fields and (table.mean, table.by) != ("answers", "category"):
                raise ValueError(f"tables.{number}.by: {unknown('field', table.by, fields)}")
            if strange := {*table.where, *table.columns} - fields:
                raise ValueError(f"tables.{number}.where: {unknown('field', min(strange), fields)}")
        return self

    @property
    def prompt_sets(self) -> list[PromptSet]:
        """The sets of prompts."""
        keys = self.model_dump(include={*PromptSet.model_fields})
        return [PromptSet.model_validate(_merged(keys, changes)) for changes in self.sets or [{}]]

    def asking(self, protocol: str) -> Asking:
        """Return how questions are asked under a protocol."""
        changes = self.official.ask if protocol == "official" else {}
        return Asking.model_validate(self.ask.model_dump() | changes)

    def variant(self, name: str) -> QuestionSpec:
        """Return the spec with the keys of a variant."""
        return QuestionSpec.model_validate(_merged(self.model_dump(exclude={"variants"}), self.variants[name]))


def _merged(keys: Json, changes: Json) -> Json:
    """Return `keys` updated with `changes`, mappings within them too."""
    return keys | {
        key: _merged(keys[key], value) if isinstance(value, dict) and isinstance(keys.get(key), dict) else value
        for key, value in changes.items()
    }


def read_spec(file: Path) -> QuestionSpec:
    """Read a suite's YAML file.

    Raises:
        ConfigError: It is not YAML, or a key is unknown, missing or wrong; names file and key.
    """
    try:
        return QuestionSpec.model_validate(read_yaml(file, "a suite"))
    except ValidationError as error:
        raise ConfigError(f"{file}: {key_problem(error, QuestionSpec)}. Correct this key") from error


Row = tuple[str, Json | DataError]
"""The number or the key of a row, and its cells."""


@dataclass(slots=True)
class PromptRecord:
    """A prompt with its questions.

    Attributes:
        where: Its file and line.
        key: Its id in the file, which may be unique only within a folder.
        sources: The images that edits by it are made from, if its table has them.
    """

    id: str
    prompt: str
    where: str
    key: str = ""
    fields: Json = field(default_factory=dict)
    questions: list[VisualQuestion] = field(default_factory=list)
    sources: tuple[Path, ...] = ()


def read_prompts(
    folder: Path, spec: QuestionSpec, *, skip_rows: int = 0, parents_exist: bool = True
) -> tuple[dict[str, PromptRecord], list[InvalidItem]]:
    """Read the prompts by their ids, without prompts with a malformed row, and the faults of rows.

    Args:
        folder: The data folder.
        spec: The places of prompts and questions.
        skip_rows: Rows at the start of the data to be left out.
        parents_exist: Whether a question may depend only on questions that exist.

    Raises:
        DataError: There are no files, or one cannot be read.
    """
    records: dict[str, PromptRecord] = {}
    problems: list[InvalidItem] = []
    wrong: set[str] = set()
    columns: set[str] = set()
    by_rows = spec.prompts.rows == "questions"
    for part, file, place, row in _rows_of(folder, spec):
        if skip_rows:
            skip_rows -= 1
            continue
        where, name = f"{file.name}:{place}", ""
        try:
            if isinstance(row, DataError):
                raise row
            columns |= row.keys()
            if not counts(row, part.prompts.where):
                continue
            name = _id(row, part.prompts, file)
            record = _record(row, part, spec, file, where, name)
            record.fields |= {field: row.get(column, math.nan) for field, column in part.prompts.absent.items()}
            name = record.id
            if name not in records:
                records[name] = record
            elif not by_rows:
                name = "" if record.prompt == records[name].prompt else name  # of two equal ones the first counts
                raise DataError(f"duplicate prompt '{record.id}'. Remove one of the rows")
            else:
                records[name].questions += record.questions
        except DataError as error:
            problems.append(InvalidItem(where, f"{where}: {error.message}", prompt_id=name))
            wrong.add(name)
    if not records and not problems:
        conditions = ", ".join(f"{column}={value}" for column, value in spec.prompts.where.items())
        raise DataError(
            f"the file has no rows {f'with {conditions}' if conditions else 'below the first line'}. Add prompts",
            find_files(folder, spec.prompts)[0],
        )
    for name, column in spec.prompts.absent.items():
        cells = [record.fields[name] for record in records.values()]
        for record, absent in zip(records.values(), _absent(cells), strict=True):
            record.fields[name] = absent and column in columns
    for record in records.values():
        problem = inconsistent_ids(record, parents_exist=parents_exist)
        if problem and record.id not in wrong:
            problems.append(InvalidItem(record.where, f"{record.where}: {problem}. Correct them", prompt_id=record.id))
            wrong.add(record.id)
    return {name: record for name, record in records.items() if name not in wrong}, problems


def _rows_of(folder: Path, spec: QuestionSpec) -> Iterator[tuple[PromptSet, Path, str, Json | DataError]]:
    """Yield the rows of all files, with the set of prompts, the file and the place of each, and the columns of joined tables."""
    for part in spec.prompt_sets:
        table = part.prompts.join
        joined = _joined(folder, table) if table else {}
        for file in find_files(folder, part.prompts):
            for place, row in _rows(file):
                if table and not isinstance(row, DataError):
                    try:
                        if counts(row, part.prompts.where):
                            row = {**joined[_id(row, part.prompts, file)], **row}
                    except DataError as error:
                        row = error
                    except KeyError as error:
                        row = DataError(f"{table.file} has no row {error}. Add it")
                yield part, file, place, row


def _joined(folder: Path, table: JoinedTable) -> dict[str, Json]:
    """Read the rows of a joined table by the ids of prompts; a row that is malformed is none."""
    file = inside(folder, table.file, "file")
    try:
        rows = [row for _, row in _rows(file) if not isinstance(row, DataError) and counts(row, table.where)]
        return {str(_one(row, table.id, file)): row for row in rows}
    except DataError as error:
        raise DataError(error.message, file) from error


def _absent(cells: Sequence[Any]) -> list[bool]:
    """Return the cells that are NaN in a pandas table: missing ones, and an empty one (null) only among numbers."""
    given = [cell for cell in cells if cell is not None and cell == cell]
    numbers = bool(given) and all(map(is_number, given))
    return [cell != cell or (cell is None and numbers) for cell in cells]


def find_files(folder: Path, prompts: PromptFiles) -> list[Path]:
    """List the files of the first folder that has any.

    Raises:
        DataError: None has any, or a file lies outside of the data folder.
    """
    for below in prompts.folders if folder.is_dir() else ():
        places = sorted(folder.glob(below)) if "*" in below else [inside(folder, below, "folder")]
        if files := [file for place in places for file in _files(place, prompts.files)]:
            return [inside(folder, os.path.relpath(file, folder), "file") for file in files]
    others = " or ".join(f"{below}/" for below in prompts.folders if below != ".")
    raise DataError(
        f"no prompts found here{f' or in {others}' if others else ''}. Add {', '.join(prompts.files)}", folder
    )


def _files(place: Path, patterns: Sequence[str]) -> list[Path]:
    names = dict.fromkeys(
        path.name for name in patterns for path in sorted(place.glob(Path(name).name)) if not is_stray(path.name)
    )
    return [inside(place, name, "file") for name in names if (place / name).is_file()]


def _rows(file: Path) -> Iterator[Row]:
    """Yield the rows of a table, or of a JSON file: a list of objects, or an object of objects (whose keys are `$key`)."""
    if file.suffix.lower() != ".json":
        for index, (number, row) in enumerate(scan_table(file)):
            yield str(number), row if isinstance(row, DataError) else {**row, "$row": index}
        return
    content = read_json(file)
    if not isinstance(content, list | dict):
        raise DataError(must_be("the content", "a list or an object of rows", content), file)
    entries = content.items() if isinstance(content, dict) else (("", entry) for entry in content)
    for index, (key, row) in enumerate(entries):
        row = {"$value": row} if key and isinstance(row, str) else row
        place = key or str(index + 1)
        yield (
            place,
            {**row, "$key": key, "$row": index}
            if isinstance(row, dict)
            else DataError(must_be("the row", "an object", row)),
        )


def _id(row: Values, prompts: PromptFiles, file: Path) -> str:
    name = _one(row, prompts.id, file)
    if not isinstance(name, str | int) or isinstance(name, bool) or not str(name).strip():
        raise DataError(must_be(f"'{prompts.id}'", "an id", name))
    return str(name).removesuffix(prompts.ending)


def _record(row: Values, part: PromptSet, spec: QuestionSpec, file: Path, where: str, name: str) -> PromptRecord:
    """Make the record of a row: its prompt, fields, questions and source images.

    Raises:
        DataError: A column is missing, or does not fit.
    """
    text = _one(row, part.prompts.prompt, file)
    if not isinstance(text, str) or not text.strip():
        raise DataError(must_be(f"'{part.prompts.prompt}'", "a prompt", text))
    fields = {key: _field(row, column, file) for key, column in part.prompts.fields.items()}
    for key, bands in part.prompts.bands.items():
        fits = [band for band, (low, high) in bands.items() if name.isdecimal() and low <= int(name) <= high]
        if not fits:
            raise DataError(f"no {key} has the id {name}. Correct the id")
        fields[key] = fits[0]
    for key, by_field in part.prompts.groups.items():
        for source, groups in by_field.items():
            fields[key] = next((group for group, members in groups.items() if fields.get(source) in members), "")
    if part.texts is not None:
        fields[item_meta.TEXT.name] = _wanted(row, part.texts)
    images = row.get(spec.sources.column)
    cells = [cell for cell in (images if isinstance(images, list) else [images]) if isinstance(cell, ImageCell)]
    unique = filled(part.prompts.unique, {**fields, "prompt_id": name})
    places = tuple(cell.place for cell in cells)
    return PromptRecord(unique, text, where, name, fields, _questions(row, part, file, spec.ask.each), places)


def counts(values: Values, where: Values) -> bool:
    """Return True if fields have the wanted values, or one of several; True and "true" are the same.

    Raises:
        DataError: There is no such field.
    """
    for name, expected in where.items():
        if name not in values:
            raise DataError(f"the key '{name}' is missing. Add it")
        wanted = expected if isinstance(expected, list) else [expected]
        if str(values[name]).lower() not in [str(value).lower() for value in wanted]:
            return False
    return True


def _wanted(row: Values, texts: TextColumn) -> Json:
    """Return the texts that an image must show, as `text-reading` takes them.

    Raises:
        DataError: They are not a list of texts, or have no words.
    """
    cell, limit = row.get(texts.column), texts.max_tokens
    written = cell if isinstance(cell, str) else ""
    if texts.longer and len(written.split()) > texts.longer[0]:
        limit = texts.longer[1]
    if texts.rule == "oneig":
        with contextlib.suppress(ValueError):
            cell = listed(written)
    if not is_texts(cell) or not cell:
        raise DataError(must_be(f"'{texts.column}'", "a list of texts", cell))
    wanted = Wanted(texts=cell, rule=texts.rule, source=written, max_tokens=limit)
    if not compare(wanted, "", official=False):
        raise DataError(f"'{texts.column}' has no words. Add the text to render")
    return wanted.model_dump(exclude_defaults=True)


def geneval_questions(row: Values) -> list[Json]:
    """Make the questions of a prompt of GenEval from its metadata: on each object, then on its colour and its place."""
    exact = {entry["class"] for entry in row.get("exclude", ())}
    questions: list[Json] = []
    for number, entry in enumerate(row["include"]):
        name, count = entry["class"], int(entry["count"])
        some = f"exactly {count} of the object '{name}'" if name in exact or count > 1 else f"at least one '{name}'"
        questions.append({"id": str(number), "question": f"Does the image show {some}?", "category": "object"})
        if "color" in entry:
            text = f"Is the {name} {entry['color']}?"
            questions.append({"id": f"{number} color", "question": text, "category": "color", "parents": [str(number)]})
        if "position" in entry:
            where, other = entry["position"]
            text = f"Is the {name} {where} the {row['include'][other]['class']}?"
            above = [str(number), str(int(other))]
            questions.append({"id": f"{number} position", "question": text, "category": "position", "parents": above})
    if not questions:
        raise ValueError("the prompt has no questions")
    return questions


def _questions(row: Values, part: PromptSet, file: Path, unit: str) -> list[VisualQuestion]:
    """Return the questions about a prompt: the questions of all prompts, or the questions in its row.

    Raises:
        DataError: There are none, or they are malformed.
    """
    if isinstance(part.questions, list):
        return list(part.questions)
    if isinstance(part.questions, QuestionColumns):
        return _listed_questions(row, part.questions, file, unit)
    try:
        return [VisualQuestion.model_validate(question) for question in geneval_questions(row)]
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise DataError(f"the row is not in the format of GenEval: {reason_of(error)}. Correct it") from error


def _listed_questions(row: Values, columns: QuestionColumns, file: Path, unit: str) -> list[VisualQuestion]:
    """Read the questions of a row from its columns, which have lists of one length.

    Raises:
        DataError: There are none, or the lists do not fit together.
    """
    named = {key: column for key, column in columns.model_dump().items() if column}
    lists = {key: values(row, column, file) for key, column in named.items()}
    cells = {key: _decoded(column[0]) for key, column in lists.items() if len(column) == 1}
    objects = {key: cell for key, cell in cells.items() if isinstance(cell, dict)}
    if objects:
        if other := lists.keys() - objects.keys():
            raise DataError(f"'{named[min(other)]}' must be an object of questions")
        ids = list(objects["question"])
        lists = {key: [cell.get(name, "") for name in ids] for key, cell in objects.items()} | {"id": ids}
    counts = {key: len(cells) for key, cells in lists.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{count} of '{named[key]}'" for key, count in counts.items())
        raise DataError(f"the lists of questions have different lengths: {listed}. Complete them")
    if not lists["question"]:
        raise DataError("the prompt has no questions. Add one")
    if unit == "question" and not all(str(text).strip() for text in lists["question"]):
        raise DataError("a question is empty. Write its text")
    try:
        return [
            VisualQuestion.model_validate({key: _part(key, value) for key, value in zip(lists, entry, strict=True)})
            for entry in zip(*lists.values(), strict=True)
        ]
    except ValidationError as error:
        raise DataError(f"a question: {first_problem(error)}. Correct it") from error


def _part(key: str, value: Any) -> Any:
    if key == "parents":  # "1, 2" or [1, 2]; 0 is not a parent
        names = value if isinstance(value, list) else str(value if value is not None else "").split(",")
        return [parent for name in names if (parent := str(name).strip()) not in ("", "0")]
    return str(value).strip() if isinstance(value, str | int) else value


def inconsistent_ids(record: PromptRecord, *, parents_exist: bool) -> str:
    """Return the fault in the ids of the questions; empty if there is none."""
    ids = [question.id for question in record.questions if question.id]
    if len(set(ids)) < len(ids):
        return f"two questions of '{record.id}' have one id"
    missing = [(entry.id, parent) for entry in record.questions for parent in entry.parents if parent not in ids]
    if missing and parents_exist:
        return f"question {missing[0][0]} of '{record.id}' has the parent {missing[0][1]}, which does not exist"
    return ""


def _field(row: Values, column: str, file: Path) -> Any:
    """Return the value of a field, empty if an optional column is missing in the row."""
    if column.startswith("="):
        return column[1:]
    name = column.removesuffix("?")
    if name == column:
        return _one(row, column, file)
    value = row.get(name)
    return "" if value is None or value != value else value  # a value that is not itself is NaN


def _one(row: Values, column: str, file: Path) -> Any:
    cells = values(row, column, file)
    if len(cells) != 1:
        raise DataError(f"'{column}' must have one value, not {len(cells)}")
    return cells[0]


def values(row: Values, column: str, file: Path) -> list[Any]:
    """Return the values of a column in a row.

    Raises:
        DataError: There is no such key, or not a list although a list is expected.
    """
    if column == "$file":
        return [file.stem]
    if column == "$folder":
        return [file.parent.name]
    cells = [row]
    for part in column.split("."):
        name, several = part.removesuffix("[]"), part.endswith("[]")
        cells = [_deeper(cell, name, column) for cell in cells]
        if several:
            entries = [_decoded(cell) for cell in cells]
            if not all(isinstance(cell, list) for cell in entries):
                raise DataError(f"'{column}': '{name}' must be a list")
            cells = [cell for entry in entries for cell in entry]
    return cells


def _deeper(value: Any, name: str, column: str) -> Any:
    value = _decoded(value)
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        raise DataError(f"'{column}': the cell is not JSON. Correct it")
    if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
        return value[int(name)]
    if not isinstance(value, Mapping) or name not in value:
        raise DataError(
            f"the key '{name}' is missing" + (f" (for '{column}'). Add it" if name != column else ". Add it")
        )
    return value[name]


def _decoded(value: Any) -> Any:
    """Parse a text that is JSON, as in a cell of a CSV file; return anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
