"""The schema of `Item.meta`: the facts about an item that data and suites give to metrics, tables and reports.

Meta are JSON. A data set may have any further columns, which templates and tables by category can use; the keys that
titjudge reads are defined here, each with the form of its value, its writers and its readers. No other file reads `meta`
by a key in quotes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, overload

from titjudge.core.errors import DataError, must_be
from titjudge.core.numbers import is_number

T = TypeVar("T")


class HasMeta(Protocol):
    """An item, or what stands for one in a report."""

    @property
    def meta(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class MetaForm(Generic[T]):
    """The form of a value: in words, and as a test."""

    words: str
    fits: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class MetaKey(Generic[T]):
    """A key of `Item.meta`.

    Attributes:
        name: The key itself.
        form: The form of its value.
        written: Its writers; "data" if it comes from the user's files.
        read: Its readers.
    """

    name: str
    form: MetaForm[T]
    written: str
    read: str

    def is_in(self, item: HasMeta) -> bool:
        """Return True if the item has the key."""
        return self.name in item.meta

    @overload
    def get(self, item: HasMeta) -> T | None: ...
    @overload
    def get(self, item: HasMeta, default: T) -> T: ...
    def get(self, item: HasMeta, default: T | None = None) -> T | None:
        """Return the value as it is, for readers that make do with any; `default` if there is none."""
        value: T | None = item.meta.get(self.name, default)
        return value

    def required(self, item: HasMeta) -> T:
        """Return the value.

        Raises:
            DataError: There is none, or it has another form.
        """
        value = self.checked(item)
        if value is None:
            raise DataError(f"the item has no {self.name}. Add {self.form.words}")
        return value

    def checked(self, item: HasMeta) -> T | None:
        """Return the value; None if there is none.

        Raises:
            DataError: It has another form.
        """
        value: T | None = item.meta.get(self.name)
        if value is not None and not self.form.fits(value):
            raise DataError(must_be(f"'{self.name}'", self.form.words, value))
        return value


def without(item: HasMeta, *keys: MetaKey[Any]) -> dict[str, Any]:
    """Return the meta of an item without some keys."""
    names = {key.name for key in keys}
    return {name: value for name, value in item.meta.items() if name not in names}


def _is_list(value: Any, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, list | tuple) and all(map(fits, value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _are_runs(value: Any) -> bool:
    return _is_list(value, lambda number: type(number) is int and number >= 0) and len(value) % 2 == 0


_TEXT: MetaForm[str] = MetaForm("a text", _is_text)
_TEXTS: MetaForm[list[str]] = MetaForm("a list of texts", lambda value: _is_list(value, _is_text))
_TEXT_OR_TEXTS: MetaForm[str | list[str]] = MetaForm(
    "a text or a list of texts", lambda value: _is_text(value) or _is_list(value, _is_text)
)
_WORDS: MetaForm[list[str]] = MetaForm("a list of words", lambda value: _is_list(value, _is_word))
_NUMBER: MetaForm[float] = MetaForm("a number", is_number)
_WHOLE: MetaForm[int] = MetaForm("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool))
_OBJECT: MetaForm[Mapping[str, Any]] = MetaForm("an object", lambda value: isinstance(value, Mapping))
_OBJECTS: MetaForm[list[Any]] = MetaForm("a list of objects", lambda value: isinstance(value, list | tuple))
EDIT_TYPES = tuple("add adjust replace remove background style extract action compose".split())
_EDIT_TYPE: MetaForm[str] = MetaForm(f"one of {', '.join(EDIT_TYPES)}", lambda value: value in EDIT_TYPES)
_MASK: MetaForm[str | list[int]] = MetaForm(
    "a file name, or runs of pixels [start, length, ...]", lambda value: _is_text(value) or _are_runs(value)
)
_ANYTHING: MetaForm[Any] = MetaForm("anything", lambda value: True)

# fmt: off
# What metrics ask about
DESCRIPTION = MetaKey("description", _TEXT, "data; probes", "tit and all metrics that compare descriptions, if there is no image")
QUESTIONS = MetaKey("questions", _TEXTS, "data; tiif; prompts make", "yes-no; text-rendering; labelling by questions")
GOLD_ANSWERS = MetaKey("gold_answers", _TEXTS, "data; tiif; known-answer; prompts make", "yes-no; tables of suites; probes")
TEMPLATE = MetaKey("template", _ANYTHING, "data", "yes-no: 1, 2, 3, random, or the name of a prompt template")
TEMPLATE_SEED = MetaKey("template_seed", _ANYTHING, "data", "yes-no, with the template random")
ASKED = MetaKey("asked", _OBJECT, "question suites", "questions; soft-tifa (titjudge.metrics.questions.Asked)")
DSG = MetaKey("dsg", _OBJECTS, "data", "dsg: questions that replace the judge's")
TIFA = MetaKey("tifa", _OBJECTS, "data", "tifa: questions that replace the judge's")
TEXT = MetaKey("text", _OBJECT, "longtext-bench; oneig-bench", "text-reading (titjudge.metrics.text_reading.Wanted)")
TEXT_WORDS = MetaKey("text_words", _WORDS, "data; tiif; known-answer", "text-rendering: the words that the image must show")
GRAPH = MetaKey("graph", _OBJECT, "data; known-answer; prompts make", "graph-alignment; probes: entities, attributes, relations")
ELEMENTS = MetaKey("elements", _WORDS, "data", "fga-blip2: phrases of the prompt that are scored one by one")
FACETS = MetaKey("facets", _ANYTHING, "facets.jsonl; qwen-image-bench; prompts make", "checklist: {pillar: [[sub-capability, facet]]}")
RUBRIC_FACETS = MetaKey("rubric_facets", _WHOLE, "qwen-image-bench", "checklist: 56, or 38 for the shorter rubric")
MAX_LOOKS = MetaKey("max_looks", _ANYTHING, "data", "tit-agent: maximum number of image requests for this image")
EDIT_TYPE = MetaKey("edit_type", _EDIT_TYPE, "imgedit; data", "imgedit: by which rubric an edit is rated; tables of imgedit")
CATEGORY = MetaKey("category", _TEXT, "kris-bench; rise-bench; data", "kris; rise: by which rubric an edit is judged; tables")
EXPLANATION = MetaKey("explanation", _TEXT, "kris-bench; wise; data", "kris: content of a right edit, and why")
REFERENCE = MetaKey("reference", _TEXT, "rise-bench", "rise: content of a right edit")
REFERENCE_TEXT = MetaKey("reference_txt", _TEXT, "rise-bench", "rise: the answer to a logical problem")
REFERENCE_IMAGE = MetaKey("reference_image", _TEXT, "kris-bench; rise-bench", "kris; rise: the image of a right edit")
REASONING_IMAGE = MetaKey("reasoning_image", _ANYTHING, "rise-bench", "rise: whether reasoning is judged beside the source")
WITHOUT_INSTRUCTION = MetaKey(
    "without_instruction", _ANYTHING, "rise-bench",
    "rise: whether a logical problem is judged without its words",
)
CONSISTENCY_FREE = MetaKey("consistency_free", _ANYTHING, "rise-bench", "rise: whether consistency does not count")
CONSISTENCY_FREE_ABSENT = MetaKey(
    "consistency_free_absent", _ANYTHING, "rise-bench",
    "rise: whether this edit has no consistency_free, and another one has",
)

# Keys that tables and reports group by
TYPE = MetaKey("type", _TEXT, "data; tiif; prompts make", "tables of tiif; slices of the report; labelling")
LENGTH = MetaKey("length", _TEXT, "tiif; prompts make", "tables of tiif; slices of the report: short or long")
INDEX = MetaKey("index", _WHOLE, "tiif; longt2ibench", "official files; pairs of short and long prompts in the report")
SET = MetaKey("set", _TEXT, "tiif", "tables of tiif: which set of prompts is complete")
CLASS = MetaKey("class", _TEXT, "oneig-bench", "tables of oneig-bench")
GENERATED_FROM = MetaKey("generated_from", _TEXT, "oneig-bench", "prompts of oneig-bench: the text that a generator got")
TASK_TYPE = MetaKey("task_type", _TEXT, "gedit-bench", "tables and official files of gedit-bench")
INSTRUCTION_LANGUAGE = MetaKey("instruction_language", _TEXT, "gedit-bench", "official files of gedit-bench: en or cn")
INTERSECTION = MetaKey("intersection", _ANYTHING, "gedit-bench", "tables and official files of gedit-bench")
THEME = MetaKey("theme", _TEXT_OR_TEXTS, "data; prompts make", "tables of lpg-bench; families of prompts")
CLUSTER = MetaKey("cluster", _ANYTHING, "data", "statistics: prompts with one value are a family, the unit of all intervals and tests")
PAIR = MetaKey("pair", _ANYTHING, "prompts make", "families of prompts: the short and the long wording of one prompt have one value")
PROMPT_FROM = MetaKey("prompt_from", _TEXT, "folder", "notes of folder: where in the image file the prompt was found")
SUFFIX = MetaKey("suffix", _TEXT, "lists of prompts", "file names of generated images")
MADE_WITH = MetaKey("made_with", _OBJECT, "generate", "the report: USD (`cost`) and `seconds` of an image")
VENDOR = MetaKey("vendor", _TEXT, "data", "the report: who offers the generator")
LICENCE = MetaKey("licence", _TEXT, "data", "the report: the licence of the generator")
IMAGE_PATH = MetaKey("image_path", _TEXT, "tables with images in their cells", "not used: the name that the table gives the image")
MASK: MetaKey[str | list[int]] = MetaKey(
    "mask", _MASK, "tables of edits",
    "preservation: image of the region that may change (white); or its runs in a grid of 512 x 512 (PIE-Bench)",
)

# Ratings of people on an image, and facts known from its construction
ANNOTATION = MetaKey(
    "annotation", _OBJECT, "longt2ibench; known-answer",
    "their tables; probes: the elements and, if marked, whether they are true",
)
ALIGN_RATIO = MetaKey("align_ratio", _NUMBER, "longt2ibench", "tables of longt2ibench: people's score")
ALIGNMENT = MetaKey("alignment", _NUMBER, "known-answer", "tables of known-answer; probes: the true share of elements, 0 to 1")
LEVEL = MetaKey("level", _WHOLE, "known-answer", "tables of known-answer; probes: how many edits away from the prompt, from 0")
GRAPH_TRUTH = MetaKey("graph_truth", _OBJECT, "known-answer", "tables of known-answer; probes: whether each element is true")
PROMPT_ANSWERS = MetaKey("prompt_answers", _TEXTS, "known-answer", "tables of known-answer; probes: answers that are true for the prompt")
PROMPT_WORDS = MetaKey("prompt_words", _TEXTS, "known-answer", "probes: words that the prompt asks for")

# The inputs of a recipe of `prompts make`
CONCEPTS = MetaKey("concepts", _TEXTS, "prompts make", "tiif")
THEME_CLASS = MetaKey("theme_class", _TEXT, "prompts make", "six-block")
TAGS = MetaKey("tags", _ANYTHING, "prompts make; data", "six-block")
ABOUT = MetaKey("about", _TEXT, "prompts make", "six-block: subject of a class of themes")
NUMBER = MetaKey("number", _ANYTHING, "prompts make", "six-block: distinguishes themes of one class")
FEWEST = MetaKey("fewest", _WHOLE, "prompts make", "long-graph: fewest words")
MOST = MetaKey("most", _WHOLE, "prompts make", "long-graph: the words stay below this")
# fmt: on

FAMILY_KEYS = (CLUSTER, PAIR, THEME, TYPE, INDEX, LENGTH)
"""What `stats.scores.families` reads."""

KEYS: dict[str, MetaKey[Any]] = {key.name: key for key in tuple(globals().values()) if isinstance(key, MetaKey)}
"""All keys by name."""
