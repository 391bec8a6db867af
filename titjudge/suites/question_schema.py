"""The keys of a suite's YAML file: where prompts and questions are, how they are asked, and which means are published."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, ValidationError, model_validator

from titjudge.core import registry
from titjudge.core.config import key_problem
from titjudge.core.errors import ConfigError, nearest
from titjudge.core.files import read_yaml
from titjudge.core.types import Json
from titjudge.metrics.answer_rules import VisualQuestion
from titjudge.metrics.questions import Asking
from titjudge.suites.patterns import fields_of

_ASKING = ("questions", "soft-tifa")
"""The metrics that ask the questions of the data."""


class PromptFiles(BaseModel, extra="forbid"):
    """Where prompts are below the data folder.

    A column is a key of a row; `a.b` is the key b of the object a (which may be JSON in a text), `a[]` every entry of a list,
    `a[].0` the first part of every entry, `$key` the row's key in a JSON object of rows, `$row` its number from 0, `$file` the
    name of its file without the ending, `$folder` that of the folder it is in. A field whose column ends in `?` is empty where
    a row lacks it.

    Attributes:
        folders: Where the files may be; the first folder that has any is used, or all that fit a pattern with `*`.
        files: Names or patterns of .csv, .jsonl, .parquet or .json files; all that exist are read.
        id: The column of the prompt's id.
        prompt: The column of its text.
        fields: Further columns that tables and templates need, by name.
        bands: Fields by ranges of numeric prompt ids: {category: {CULTURE: [1, 400], ...}}.
        groups: Fields by groups of the values of another field: {dimension: {category: {Space: [viewpoint, position], ...}}}.
        absent: Fields that say whether the row has no cell in a column that other rows have (NaN in a pandas table), by name.
        unique: How ids are made unique where they are so only within a folder, from fields and {prompt_id}; the fields stand in the
            paths of images too.
        rows: A row is a prompt, or one question of it (the rows of a prompt then have the same id).
        where: Columns with the value that a row must have to count, such as {language: en}.
        digits: Fewest digits of an id in the paths of new images.
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
    digits: int = 0


class TextColumn(BaseModel, extra="forbid"):
    """The column of the texts that an image must show, a list, and the rule by which they are compared (`text_reading.Wanted`)."""

    column: str
    rule: Literal["words", "signs"]


class SourceImages(BaseModel, extra="forbid"):
    """Where the images are that an edit was made from.

    Attributes:
        paths: Patterns of their paths below the data folder, with fields of the image's path and of the prompt; the first for
            which there are images counts. A field that is a list means several images, in its order.
        column: The column of the prompts' table that holds the images themselves, for edits without such a file.
        reference: Pattern of the path of an image of the right result, for the prompts that have all of its fields.
    """

    paths: list[str] = []
    column: str = ""
    reference: str = ""


class QuestionColumns(BaseModel, extra="forbid"):
    """The columns of the questions; lists in several columns are combined entry by entry."""

    question: str
    category: str = ""
    id: str = ""
    parents: str = ""
    answer: str = ""


class TableSpec(BaseModel, extra="forbid"):
    """A table: means by category for each generator.

    Attributes:
        mean: Of images, of prompts (the mean of their images first), of single answers or of the words of texts that were read.
        by: The field (or `category` of answers) whose values are the columns; without it there is one mean.
        upto: Texts at which values are cut off, one after the other: with "-", `entity - whole` is `entity`.
        order: The columns that come first.
        overall: The mean of the columns, of everything, or weights by column; null for none.
        times: The factor of all means.
        counted: Answers as they enter the score (after their parents), or as given.
        value: A part of the score instead of its value, for images and prompts; of several, each that a score has counts.
        where: Fields with the value that an image must have to count.
        columns: Of the words of texts: fields whose values are the columns.
        bounds: The worst and the best value. A further table then has, for each column, the images without a score by the
            reason, those scored in part, and what the mean would be if all that is missing were the worst or the best.
    """

    title: str
    mean: Literal["images", "prompts", "answers", "words"] = "images"
    by: str = ""
    upto: list[str] = []
    order: list[str] = []
    overall: Literal["columns", "all"] | dict[str, float] | None = "columns"
    times: float = 100.0
    counted: bool = True
    value: str | list[str] = ""
    where: dict[str, str | bool | int] = {}
    columns: list[str] = []
    bounds: tuple[float, float] | None = None

    @property
    def parts(self) -> list[str]:
        """The parts of a score that count; "" is its value."""
        return [self.value] if isinstance(self.value, str) else self.value


class Official(BaseModel, extra="forbid"):
    """What differs with `--protocol official`, where it follows the published script.

    Attributes:
        ask: Keys of `ask` with other values.
        skip_rows: Rows at the start of the data that the script does not read.
        grids: The images of a prompt count as one: it has no score where one of them has none, and tables of answers are of
            the last one alone.
        files: The layout of the files of scores that its scripts write (`--official-files`).
    """

    ask: Json = {}
    skip_rows: int = Field(default=0, ge=0)
    grids: bool = False
    files: Literal["", "gedit", "imgedit", "kris", "rise"] = ""


class QuestionSpec(BaseModel, extra="forbid"):
    """A whole suite.

    Attributes:
        name: Its name in results.
        summary: A description in one line.
        version: Raised whenever the same answers would give other tables.
        source: Where it was published.
        images: Patterns of image paths below the data folder, without ending, as for `--images`; the first that fits counts.
        prompts: Where prompts are.
        sources: Where the images are that edits were made from.
        questions: The columns of the questions, or the questions themselves where they are the same for every prompt; `geneval`:
            questions made of the metadata of GenEval.
        texts: The texts that an image must show.
        metric: How answers become a score: parsed by a rule (`questions`), or by their probabilities (`soft-tifa`); or any
            other metric, which asks questions of its own.
        ask: How questions are asked.
        official: What differs with `--protocol official`.
        tables: The tables.
        deviations: Where results differ from those of the published script, in words.
        variants: Keys with other values for another set of the benchmark (`--suite-option variant=NAME`), by its name.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")
    summary: str
    version: str = "1"
    source: str = ""
    images: list[str] = ["images/{generator}/{prompt_id}_{sample}", "images/{generator}/{prompt_id}"]
    prompts: PromptFiles
    sources: SourceImages = SourceImages()
    questions: QuestionColumns | list[VisualQuestion] | Literal["geneval"] = []
    texts: TextColumn | None = None
    metric: str = "questions"
    ask: Asking = Asking()
    official: Official = Official()
    tables: list[TableSpec] = Field(min_length=1)
    deviations: list[str] = []
    variants: dict[str, Json] = {}

    @model_validator(mode="after")
    def _fits_together(self) -> QuestionSpec:
        """Check that metric, questions, protocols, variants and tables name only what there is."""
        if self.metric not in (known_metrics := registry.names("metrics")):
            raise ValueError(f"metric: there is no metric '{self.metric}'.{nearest(self.metric, known_metrics)}")
        if (self.metric in _ASKING) is (self.questions == []):
            raise ValueError(
                f"questions: {self.metric} asks {'them' if self.metric in _ASKING else 'questions of its own'}"
            )
        try:
            self.asking("official")
        except ValidationError as error:
            raise ValueError(key_problem(error, Asking, "official.ask.")) from error
        for name in self.variants:
            try:
                self.variant(name)
            except ValidationError as error:
                raise ValueError(key_problem(error, QuestionSpec, f"variants.{name}.")) from error
        prompt_fields = (*self.prompts.fields, *self.prompts.bands, *self.prompts.groups, *self.prompts.absent)
        fields = {"", *prompt_fields, *fields_of(" ".join(self.images))}
        for number, table in enumerate(self.tables):
            if table.by not in fields and (table.mean, table.by) != ("answers", "category"):
                raise ValueError(f"tables.{number}.by: '{table.by}' is no field of the prompts")
            if unknown := {*table.where, *table.columns} - fields:
                raise ValueError(f"tables.{number}.where: '{min(unknown)}' is no field of the prompts")
        return self

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
        ConfigError: It is no YAML, or a key is unknown, missing or wrong; names file and key.
    """
    try:
        return QuestionSpec.model_validate(read_yaml(file, "a suite"))
    except ValidationError as error:
        raise ConfigError(f"{file}: {key_problem(error, QuestionSpec)}") from error
