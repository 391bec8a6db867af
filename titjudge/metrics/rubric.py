"""Published rubrics: `rubrics/METRIC.yaml` declares which questions they ask about an item, of which images and for which ratings."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from titjudge.core import item_meta
from titjudge.core.files import read_yaml
from titjudge.core.structured_output import plain_number
from titjudge.core.types import Ask, Item, Json, Reply, Values
from titjudge.metrics._shared import image_of, sources_of, unreadable

RUBRICS = Path(__file__).with_name("rubrics")
T = TypeVar("T")
Labelled = list[tuple[str, Path]]
"""Images, each with the label that comes before it."""
ImageNames = list[str] | dict[str, str] | str
"""Images in the words of a rubric."""


class RubricAnswer(BaseModel):
    """A structured answer to a rubric: the reasons, and below them the ratings."""

    model_config = ConfigDict(extra="ignore")

    reasoning: str = ""


class Declared(BaseModel, frozen=True, extra="forbid"):
    """A question as a rubric declares it.

    Attributes:
        template: The prompt; its words are in `prompts/`. A question without one asks nothing.
        when: Conditions on the item's meta, and on `official`: a key has one of these values, or (true, false) any or none.
        images: In their order: source (the first), sources, result, reference. In a mapping, the keys are labels that
            come before images. One word stands for images that the metric chooses.
        variables: Variables of the template, each with its key in the item's meta; `KEY?` is empty if an item does not have it.
        answer: The name of the structured answer. Name, `about`, `ratings` and `texts` are in the keys of answers on disk.
        about: Description of the structured answer.
        ratings: The aspects that it rates, on the `scale`.
        texts: Its further fields.
        planned: A reply, for the price estimate of a dry run; without it a line `RATING: 3` for each.
    """

    template: str = ""
    when: dict[str, bool | list[str]] = {}
    images: ImageNames = ["result"]
    variables: dict[str, str] = {"prompt": "prompt"}
    answer: str = ""
    about: str | None = None
    ratings: list[str] = []
    texts: list[str] = []
    scale: tuple[int, int] = (1, 5)
    planned: str = ""

    def fits(self, facts: Values) -> bool:
        """Return True if its conditions are met."""
        return all(
            bool(facts.get(key)) is wanted if isinstance(wanted, bool) else facts.get(key) in wanted
            for key, wanted in self.when.items()
        )

    @property
    def planned_reply(self) -> str:
        """A reply for the price estimate of a dry run."""
        return self.planned or "\n".join(f"{rating}: 3" for rating in self.ratings)

    @functools.cached_property
    def schema_of_answer(self) -> type[RubricAnswer] | None:
        """The model of a structured answer; None if it is declared elsewhere."""
        low, high = self.scale
        points = Annotated[int, Field(ge=low, le=high), BeforeValidator(plain_number)]
        fields: Json = {field_name(rating): (points, ...) for rating in self.ratings}
        fields |= dict.fromkeys(self.texts, (str, ""))
        return create_model(self.answer, __base__=RubricAnswer, __doc__=self.about, **fields) if self.answer else None


class Rubric(BaseModel, extra="forbid"):
    """The questions of a metric, and their common settings.

    Attributes:
        role: The role that answers.
        params: Sampling parameters.
        official: Those of the official protocol, if they differ.
        questions: By what they rate. Of several, the first is asked whose conditions fit the item.
    """

    role: str = "judge"
    params: Json | None = None
    official: Json | None = None
    questions: dict[str, list[Declared]]


@functools.cache
def rubric_of(metric: str) -> Rubric:
    """Read the rubric of a metric."""
    return Rubric.model_validate(read_yaml(RUBRICS / f"{metric}.yaml", "a rubric"))


def field_name(rating: str) -> str:
    """Return the field of a rating: `physical_detail_integrity` of `Physical & Detail Integrity`."""
    return re.sub(r"\W+", "_", rating.lower())


class RubricQuestion(NamedTuple):
    """A question about an item.

    Attributes:
        declared: Its declaration in the rubric.
        request: The arguments of `ask`: template, role, params, images and variables.
    """

    declared: Declared
    request: Json

    async def rated(
        self, ask: Ask, read: Callable[[str], T | None], *, expected: str, schema: Any = None, **further: Any
    ) -> tuple[Reply, Any]:
        """Ask for ratings; return the reply and its content: under the official protocol the result of `read` for its text.

        Args:
            ask: Asks the models.
            read: Parses a reply as the published code does; None if there are no ratings.
            expected: The content that such a reply must have, for the error message.
            schema: The model of a structured answer, if the rubric declares none.
            further: Further arguments of the request.

        Raises:
            Unanswered: There are no ratings.
        """
        request = {**self.request, **further}
        if ask.protocol != "official":
            reply = await ask(schema=schema or self.declared.schema_of_answer, **request)
            return reply, reply.data
        reply = await ask(planned=self.declared.planned_reply, accept_empty=True, **request)
        ratings = read(reply.text)
        if ratings is None:
            raise unreadable(reply, expected)
        return reply, ratings


def questions(metric: str, item: Item, ask: Ask, **shown: Callable[[Item], Labelled]) -> dict[str, RubricQuestion]:
    """Return the questions that a metric's rubric asks about an item, by the aspect that they rate.

    Args:
        metric: The metric.
        item: The item.
        ask: Says the protocol: the official one may have other questions.
        shown: Functions that choose the images, by the words for them in the rubric.

    Raises:
        DataError: The item does not have the data that a question needs.
        Unanswered: It has no image, or no source.
    """
    rubric, official = rubric_of(metric), ask.protocol == "official"
    facts = {**item.meta, "official": official}
    params = (official and rubric.official) or rubric.params
    asked = {}
    for name, possible in rubric.questions.items():
        declared = next((question for question in possible if question.fits(facts)), Declared())
        if declared.template:
            request = {"template": declared.template, "role": rubric.role, "params": params}
            request |= _images(declared.images, item, shown)
            request |= {variable: _value(key, item) for variable, key in declared.variables.items()}
            asked[name] = RubricQuestion(declared, request)
    return asked


def _images(named: ImageNames, item: Item, shown: Mapping[str, Callable[[Item], Labelled]]) -> Json:
    """Return the arguments of a request for its images, and for the labels before them."""
    if isinstance(named, list):
        return {"images": [image for name in named for image in _named(name, item)]}
    if isinstance(named, str):
        labelled = shown[named](item)
    else:
        labelled = [(label, image) for label, name in named.items() for image in _named(name, item)]
    return {"images": [image for _, image in labelled], "labels": [label for label, _ in labelled]}


def _named(name: str, item: Item) -> list[Path]:
    if name == "result":
        return [image_of(item)]
    if name == "reference":
        return [Path(item_meta.REFERENCE_IMAGE.required(item))]
    return list(sources_of(item)[: 1 if name == "source" else None])


def _value(key: str, item: Item) -> Any:
    if key == "prompt":
        return item.prompt
    known = item_meta.KEYS[key.removesuffix("?")]
    return known.get(item, "") if key.endswith("?") else known.required(item)
