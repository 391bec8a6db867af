"""Looks at an image: permitted requests of the judge, refusals, and how looks are carried out.

Every look but OCR goes through `ask`, and so through cache, cap and retry. Text that a model wrote is truncated.

The inventory of an image: a first look at the whole and at enlarged parts of it, in one request, that lists what is where.

A model sees an image scaled down, often to 768 pixels. If the image is larger and the prompt long, one look at the whole
misses small things. Its parts in the same request show them larger, for the price of as many images. The smallest thing decides
how many parts there are; there are none if the whole image shows it well. Beside parts, the whole image is sent at 512 pixels: it
shows what is where, the parts show the rest, also to a model that reads all pixels.

Crops of an image, enlarged; boxes are in fractions of its width and height.

A crop is enlarged until its longer side has as many pixels as the longer side of the image (or 1,024; 512 for one of
several in a request, where each costs by its pixels), at most fourfold, and never to more pixels than the image has, so
that a crop costs no more tokens than the image. A side under 64 pixels is enlarged to 64 in any case. A crop is never
scaled down, but that one of several has at most 1,024 pixels a side.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import math
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, WithJsonSchema

from titjudge.core.errors import ConfigError, DataError, MissingExtra, Unanswered
from titjudge.core.refusals import declines, refusal
from titjudge.core.structured_output import Number, after_thinking
from titjudge.core.types import Ask, Item, Reply, Status, Values
from titjudge.data.image_decoding import inspect, on_white, open_image, upright
from titjudge.data.images import read
from titjudge.metrics import ocr
from titjudge.metrics._shared import image_of
from titjudge.metrics.agent.claims import fenced, null_as, shortened
from titjudge.metrics.tit import describe

Box = tuple[float, float, float, float]  # left, top, right, bottom; fractions of width and height, origin top left

_ROUNDING = 1e-9  # of sides, so that a box that was just extended is not too small
SLACK = 0.05  # a corner this far outside the image is moved to its edge
SMALLEST = 0.02  # least width and height of a box
SMALLEST_SIDE = 64  # pixels
ENLARGED_BY = 4.0  # times
READ = 1024  # pixels of the longer side at which a picture is taken to be read
Sides = tuple[float, float]  # pixels of a longer side: to which a crop is enlarged, and to which it is scaled down
ALONE: Sides = (READ, math.inf)  # a crop in a request of its own
AMONG_OTHERS: Sides = (512, READ)
PART: Sides = (READ, READ)
OVERVIEW: Sides = (512, 512)  # the whole image beside parts
WHOLE: Box = (0.0, 0.0, 1.0, 1.0)
_MOST_ENLARGED = 4096  # pixels of the longer side of an enlarged crop


def place_of(box: Box) -> str:
    """Write a box as models read and write it."""
    return f"[{', '.join(f'{value:g}' for value in box)}]"


@dataclass(frozen=True, slots=True)
class BoxFit:
    """A box within the image, and whether it was clamped; or no box, and the `problem` with the one given."""

    box: Box | None = None
    clamped: bool = False
    problem: str = ""


def fit_box(box: Sequence[float], *, grown: bool = False) -> BoxFit:
    """Validate a box: four finite fractions, corners at most 0.05 outside of the image, both sides at least 0.02.

    With `grown`, a smaller one is extended on all sides instead.
    """
    if len(box) != 4 or not all(math.isfinite(value) for value in box):
        return BoxFit(problem="a box is four numbers [left, top, right, bottom]")
    if any(value < -SLACK or value > 1 + SLACK for value in box):
        return BoxFit(problem="the box lies outside the image; its numbers are fractions from 0 to 1, not pixels")
    left, top, right, bottom = (min(1.0, max(0.0, float(value))) for value in box)
    if right <= left or bottom <= top:
        return BoxFit(problem="the box is empty: left must be less than right and top less than bottom")
    if grown:
        left, right = _extended(left, right)
        top, bottom = _extended(top, bottom)
    if right - left < SMALLEST - _ROUNDING or bottom - top < SMALLEST - _ROUNDING:
        return BoxFit(problem=f"the box is too small: at least {SMALLEST:g} of width and height")
    inside = (left, top, right, bottom)
    return BoxFit(inside, clamped=inside != tuple(map(float, box)))


def _extended(start: float, end: float) -> tuple[float, float]:
    """Extend a span to the minimum width of a box, inside the image."""
    more = max(0.0, SMALLEST - (end - start))
    start = min(max(0.0, start - more / 2), 1 - SMALLEST) if more else start
    return start, max(end, start + SMALLEST)


def size_of(path: Path) -> tuple[int, int]:
    """Return width and height of an image in pixels, upright (by its EXIF tag).

    Raises:
        DataError: The image cannot be used.
    """
    with _opened(path) as image:
        width, height = image.size
    return width, height


def crop(path: Path, boxes: Sequence[Box], sides: Sides = ALONE) -> list[bytes]:
    """Cut parts out of an image, as PNG, from the upright image (by its EXIF tag), which is decoded once.

    Raises:
        DataError: The image cannot be used.
    """
    with _opened(path) as image:
        whole, parts = image.size, [_cut(image, box) for box in boxes]
    return [_png(part, whole, sides) for part in parts]


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    raw = read(path)
    inspect(raw, path)
    with open_image(raw, path) as image:
        yield on_white(upright(image))


def _cut(image: Any, box: Box) -> Any:
    return image.crop(_pixels(image.size, box))


def _pixels(size: tuple[int, int], box: Box) -> tuple[int, int, int, int]:
    width, height = size
    left, top = math.floor(box[0] * width), math.floor(box[1] * height)
    right, bottom = math.ceil(box[2] * width), math.ceil(box[3] * height)
    return left, top, max(right, left + 1), max(bottom, top + 1)


def enlargement(size: tuple[int, int], box: Box, sides: Sides) -> float:
    """Return how many times its pixels, across, a part of an image of `size` is sent."""
    left, top, right, bottom = _pixels(size, box)
    return _scale((right - left, bottom - top), size, sides)


def _png(part: Any, whole: tuple[int, int], sides: Sides) -> bytes:
    """Encode a part of an image of `whole` pixels, scaled."""
    from PIL import Image

    scale = _scale(part.size, whole, sides)
    if scale != 1:
        width, height = (min(_MOST_ENLARGED, round(side * scale)) for side in part.size)
        part = part.resize((width, height), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    part.save(out, "PNG")
    return out.getvalue()


def _scale(part: tuple[int, int], whole: tuple[int, int], sides: Sides) -> float:
    enlarged_to, most = sides
    if max(part) > most:
        return most / max(part)
    enlargement = min(
        ENLARGED_BY, min(enlarged_to, max(whole)) / max(part), math.sqrt(whole[0] * whole[1] / (part[0] * part[1]))
    )
    return max(1.0, enlargement, SMALLEST_SIDE / min(part))


@dataclass(frozen=True, slots=True)
class Origin:
    """The image file that a crop was cut from, and the box."""

    image: Path
    box: Box


_origins: dict[Path, Origin] = {}  # of the crops that exist now


def origin(path: Path) -> Origin | None:
    """Return where a crop was cut from; None for a file that is not a crop, or removed."""
    return _origins.get(path)


class Crops:
    """A temporary folder of crops, made when first needed and removed at the end of the `with` block."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            for path in [path for path in _origins if path.parent == Path(self._folder.name)]:
                del _origins[path]
            self._folder.cleanup()

    async def cut(self, path: Path, boxes: Sequence[Box], sides: Sides = ALONE) -> list[Path]:
        """Write crops and return their files, each named by a hash of its content and its place.

        Raises:
            DataError: The image cannot be used.
        """
        contents = await asyncio.to_thread(crop, path, boxes, sides)
        return [self._written(content, Origin(path, box)) for content, box in zip(contents, boxes, strict=True)]

    def _written(self, content: bytes, cut_from: Origin) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="titjudge-zoom-")
        file = Path(self._folder.name) / f"{hashlib.sha256(content + repr(cut_from.box).encode()).hexdigest()[:32]}.png"
        if not file.exists():
            file.write_bytes(content)
            _origins[file] = cut_from
        return file


ONE_LOOK = 1_600_000  # pixels of an image that is seen in one look: 1,536 x 1,024 and less
CLEAR = 14  # pixels of a thing that is seen well
MANY_CLAIMS = 25  # claims from which an inventory of a large image pays
MOST_ITEMS = 250
_MOST_ACROSS, _OVERLAP = 3, 0.02  # parts; of width and height, on each inner side
_LONGER = 0.25  # by which a part may be longer in one direction than in the other
_LONGEST = 400  # characters of an item
_NUMBER = re.compile(r"^(?:[-*•]\s*)?(?:\d+\s*[.):]\s*)?")
_PLACE = re.compile(r"\[\s*" + r"(?:\s*[,;]\s*|\s+)".join([r"(\d+(?:\.\d+)?|\.\d+)"] * 4) + r"\s*\]")
_SCALES = (1.0, 100.0, 1000.0)  # fractions, percent, and the thousandths that some models are trained on
_UNSURE = re.compile(r"[(\[]\s*unsure\s*[)\]]|\bunsure\W*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class InventoryItem:
    """One line of an inventory: a thing, its place, and whether the reader is sure of it."""

    text: str
    box: Box | None = None
    sure: bool = True

    @property
    def shown(self) -> str:
        """The line as the orchestrator reads it."""
        place = "" if self.box is None else f" {place_of(self.box)}"
        return f"{fenced(self.text)}{place}{'' if self.sure else ' (unsure)'}"


def parts_of(width: int, height: int, smallest: float) -> list[Box]:
    """Divide an image into at most nine parts, which overlap a little and show its smallest thing with 14 pixels.

    An image of at most 1.6 million pixels has none, as models see it in one look; nor one whose smallest thing is seen in the whole.

    Args:
        width: Of the image, pixels.
        height: Of the image, pixels.
        smallest: Side of its smallest thing, as a share of the side of a square as large as the image.
    """
    longer, wanted = max(width, height), CLEAR / (smallest * math.sqrt(width * height))
    parts = min(_MOST_ACROSS, math.ceil(wanted * longer / READ))  # along the longer side
    if width * height <= ONE_LOOK or parts < 2:
        return []
    columns, rows = (max(1, math.ceil(side * parts / longer - _LONGER)) for side in (width, height))
    return [(left, top, right, bottom) for top, bottom in _spans(rows) for left, right in _spans(columns)]


def _spans(parts: int) -> list[tuple[float, float]]:
    """Return where each part of a side begins and ends, as fractions of it."""
    return [
        (round(max(0.0, number / parts - _OVERLAP), 3), round(min(1.0, (number + 1) / parts + _OVERLAP), 3))
        for number in range(parts)
    ]


def read_items(text: str) -> tuple[InventoryItem, ...]:
    """Parse an inventory: one item per line, with its place in brackets and "(unsure)" if the reader is unsure.

    Places are in percent, as the template asks, in fractions or in thousandths: the smallest of these that all of them fit.
    """
    lines = [_NUMBER.sub("", line.strip()) for line in text.splitlines()]
    largest = max((float(side) for match in _PLACE.finditer(text) for side in match.groups()), default=0.0)
    scale = next((scale for scale in _SCALES if largest <= scale * (1 + SLACK)), 0.0)
    return tuple(_item(line, scale) for line in lines if any(map(str.isalnum, line)))[:MOST_ITEMS]


def _item(line: str, scale: float) -> InventoryItem:
    places = [
        (match, box)
        for match in _PLACE.finditer(line)
        if scale and (box := fit_box([float(side) / scale for side in match.groups()], grown=True).box)
    ]
    place, box = places[-1] if places else (None, None)
    words = line if place is None else line[: place.start()] + line[place.end() :]
    said = _UNSURE.sub("", words)
    return InventoryItem(shortened(said.strip(" ,;-–—"), _LONGEST), box, said == words)


TOOLS = ("describe", "ask", "zoom", "count", "read_text")
ASKING = ("ask", "zoom", "count")  # tools that take a question
TOGETHER, MOST_TOGETHER = ("ask", "zoom"), 6  # tools that take several questions, and how many
JOINED, MOST_JOINED = (
    ("zoom", "count", "describe"),
    4,
)  # tools whose parts of the image share a request, and how many parts
QUESTION_TOKENS, TEXT_TOKENS = 700, 500  # maximum number of tokens of an answer to questions; of the text in an image
MAX_QUESTION = 1200  # characters
INVENTORY_TOKENS = 8192
MAX_REPORT, MAX_DESCRIPTION = 3000, 16_000  # characters of an answer, and of a description, that the orchestrator reads
DECODING = {"temperature": 0, "max_tokens": QUESTION_TOKENS}
ENDS_ITEM = (Status.FAILED, Status.BAD_INPUT)  # statuses (outage, bad image) after which the item has no score


class Look(BaseModel):
    """One look at the image."""

    # The schema lists the tools, and yet any name validates: an invented tool is refused and counted, the rest is used.
    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    tool: Annotated[str, WithJsonSchema({"type": "string", "enum": list(TOOLS)})]
    question: Annotated[str, null_as("")] = ""
    box: Annotated[list[Number], null_as([])] = []


@dataclass(slots=True)
class LookRequest:
    """A valid look.

    Attributes:
        clamped: Its box was clamped to the image.
        cut: A question was truncated.
        further: Further questions that are asked in the same request.
    """

    tool: str
    question: str = ""
    box: Box | None = None
    clamped: bool = False
    cut: bool = False
    further: list[str] = field(default_factory=list)

    @property
    def keys(self) -> list[tuple[Any, ...]]:
        """Keys of its questions, by which a repetition is recognised."""
        return [
            (self.tool, " ".join(question.casefold().split()).rstrip(" ?.!"), self._rounded_box)
            for question in (self.question, *self.further)
        ]

    @property
    def _rounded_box(self) -> tuple[float, ...] | None:
        return None if self.box is None else tuple(round(value, 2) for value in self.box)

    @property
    def questions(self) -> str:
        """Its question; several are numbered."""
        if not self.further:
            return self.question
        return " ".join(f"({number}) {text}" for number, text in enumerate((self.question, *self.further), 1))

    @property
    def joins(self) -> bool:
        """Whether it is about a part of the image that can be shown in one request with other parts."""
        return self.box is not None and self.tool in JOINED

    @property
    def instruction(self) -> str:
        """The question about the part, if several are shown in one request."""
        if self.tool == "count":
            return f"Count {self.question}, one after the other: where each one is, and then the number."
        return "Describe what can be seen." if self.tool == "describe" else self.questions

    def takes(self, other: LookRequest) -> bool:
        """Return True if the other look's question can join this request: both are about the same part of the image."""
        same_part = self.tool == other.tool in TOGETHER and self._rounded_box == other._rounded_box
        return same_part and len(self.further) + 1 < MOST_TOGETHER

    def add(self, other: LookRequest) -> None:
        """Add the other look's question."""
        self.further.append(other.question)
        self.cut |= other.cut

    @property
    def shown(self) -> str:
        """The look as the orchestrator reads it: `zoom([0, 0, 0.5, 0.5], "...")`."""
        parts = [] if self.box is None else [place_of(self.box)]
        if self.question:
            parts.append(f'"{self.questions}"')
        return f"{self.tool}({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class Refused:
    """A look that is not carried out: the name of its count, and the note for the orchestrator."""

    count: str
    note: str


def check_request(look: Look, *, enlarge: bool = False) -> LookRequest | Refused:
    """Validate a look; it is refused for an unknown tool, a missing question or an unusable box.

    With `enlarge`, the part that it names is shown enlarged: it needs a box and no question.
    """
    tool = look.tool.strip().lower()
    if tool not in TOOLS:
        name = shortened(look.tool, 40)
        return Refused("invented_tools", f"there is no tool '{name}'; there are: {', '.join(TOOLS)}")
    question = " ".join(look.question.split()) if tool in ASKING else ""
    if not enlarge and tool in ASKING and not any(char.isalnum() for char in question):
        return Refused("empty_questions", f"{tool} needs a question")
    fit = fit_box(look.box) if tool == "zoom" or look.box else BoxFit()
    if fit.problem:
        return Refused("bad_boxes", f"{tool}: {fit.problem}")
    if tool == "ask" and fit.box is not None:
        tool = "zoom"  # a question about a part of the image
    if enlarge and fit.box is None:
        return Refused("bad_boxes", f"{tool}: name the part to be shown enlarged")
    cut = len(question) > MAX_QUESTION
    return LookRequest(tool, question[:MAX_QUESTION].rstrip(), fit.box, fit.clamped, cut)


@dataclass(frozen=True, slots=True)
class Observation:
    """The result of a look.

    Attributes:
        cut: It was truncated.
        source: The OCR engine, if it was not a model.
        items: The lines of an inventory.
    """

    text: str
    cut: bool = False
    source: str = ""
    items: tuple[InventoryItem, ...] = ()


class CostTrackingAsk:
    """Ask, and sum the list prices of the answers in `cost` (USD).

    Args:
        ask: The `ask` of the metric.
        priced: Whether every answer must have a price.
    """

    def __init__(self, ask: Ask, *, priced: bool = False) -> None:
        self._ask, self._priced = ask, priced
        self.protocol, self.siblings, self.dry_run = ask.protocol, ask.siblings, ask.dry_run
        self.cost = 0.0

    async def __call__(self, template: str, **rest: Any) -> Reply:
        """Ask one question.

        Raises:
            ConfigError: The answer has no price, and must have one.
        """
        reply: Reply = await self._ask(template, **rest)
        self.cost += reply.list_cost or 0.0
        if reply.list_cost is None and self._priced:
            raise ConfigError(
                f"the price of the {rest['role']} is unknown, and a budget per item requires a price. Add --price"
            )
        return reply

    def has_tools(self, role: str) -> bool:
        return self._ask.has_tools(role)

    def has_role(self, role: str) -> bool:
        return self._ask.has_role(role)

    async def embed(self, texts: Any) -> Any:
        return await self._ask.embed(texts)


class ImageInspector:
    """Carry out looks at the image of one item.

    Args:
        item: The item.
        ask: Asks the models.
        crops: Keeps the enlarged parts of the image.
    """

    def __init__(self, item: Item, ask: Ask, crops: Crops) -> None:
        self._item, self.image, self._ask, self._crops = item, image_of(item), ask, crops
        self.smallest = 1.0  # side of its smallest thing: of a square as large as the image
        self.size = (0, 0)  # pixels, once its parts are known
        self.whole_at = 1.0  # scale at which the whole image is sent

    async def look(self, request: LookRequest) -> Observation:
        """Carry out one look.

        Raises:
            Unanswered: There is no result (refused, failed, or not on file where answers are recorded).
        """
        if request.tool == "inventory":
            return await self._inventory()
        if request.tool == "describe" and request.box is None:
            return await self._describe()
        image = self.image if request.box is None else (await self.pictures([request.box], ALONE))[0]
        if request.tool == "read_text":
            return await self._read_text(image)
        if request.tool == "count":
            return await self._question("agent/count", image, thing=fenced(request.question))
        if request.tool == "describe":
            return await self._question("agent/describe", image)
        template = "agent/ask" if request.box is None else "agent/zoom"
        return await self._question(template, image, question=fenced(request.questions))

    async def look_together(self, requests: Sequence[LookRequest]) -> list[Observation]:
        """Carry out several looks, each at its part of the image, in one request.

        An answer that does not show which sentence is about which part is the report on each of them.

        Raises:
            Unanswered: As `look`.
        """
        if len(requests) == 1:
            return [await self.look(requests[0])]
        images = await self.pictures([request.box for request in requests if request.box is not None])
        questions = [fenced(request.instruction) for request in requests]
        params = {**DECODING, "max_tokens": QUESTION_TOKENS * len(requests)}
        reply = await self._ask(
            "agent/parts", role="captioner", images=images, params=params, accept_truncated=True, questions=questions
        )
        whole = _observation_of(reply, MAX_REPORT * len(requests))
        return [Observation(shortened(text, MAX_REPORT), whole.cut) for text in reports_of(whole.text, len(requests))]

    async def parts(self) -> list[Box]:
        """Divide the image into parts that show its smallest thing; [] if the whole image does.

        Raises:
            Unanswered: The image cannot be used.
        """
        if self.size == (0, 0):
            try:
                self.size = await asyncio.to_thread(size_of, self.image)
            except DataError as error:
                raise Unanswered(Status.BAD_INPUT, str(error)) from error
        return parts_of(*self.size, self.smallest)

    async def show(self) -> tuple[list[Path], list[str]]:
        """Return the whole image and enlarged parts of it, and for each part where it is and how much enlarged.

        Raises:
            Unanswered: The image cannot be used.
        """
        boxes = await self.parts()
        if not boxes:
            return [self.image], []
        files = [await self.overview(), *await self.pictures(boxes, PART)]
        return files, [self.part(box, PART) for box in boxes]

    async def overview(self) -> Path:
        """Scale the whole image down: from then on it is what parts are enlarged in comparison with.

        Raises:
            Unanswered: The image cannot be used.
        """
        self.whole_at = enlargement(self.size, WHOLE, OVERVIEW)
        (file,) = await self.pictures([WHOLE], OVERVIEW)
        return file

    def part(self, box: Box, sides: Sides = AMONG_OTHERS) -> str:
        """Write which part a picture shows, and how much larger than the picture of the whole image."""
        times = enlargement(self.size, box, sides) / self.whole_at
        return f"its part {place_of(box)}, enlarged {times:.1f} times"

    async def pictures(self, boxes: Sequence[Box], sides: Sides = AMONG_OTHERS) -> list[Path]:
        """Cut out parts of the image, enlarged.

        Raises:
            Unanswered: The image cannot be used.
        """
        if not boxes:
            return []
        try:
            return await self._crops.cut(self.image, boxes, sides)
        except DataError as error:
            raise Unanswered(Status.BAD_INPUT, str(error)) from error

    async def _inventory(self) -> Observation:
        """List things with their places, seen in the whole image and in its enlarged parts, which share one request."""
        files, places = await self.show()
        reply = await self._ask(
            "agent/inventory",
            role="captioner",
            images=files,
            accept_truncated=True,
            params={**DECODING, "max_tokens": INVENTORY_TOKENS},
            describes=True,
            places=places,
        )
        items = read_items(after_thinking(reply.text))
        if not items:
            raise Unanswered(Status.UNPARSED, "the inventory is empty", reply)
        text = "\n".join(item.shown for item in items)
        return Observation(text, reply.status is Status.TRUNCATED, items=items)

    async def _describe(self) -> Observation:
        """Describe the image with the request of the TIT metrics, so that all of them share one reply."""
        try:
            reply = await describe(self._item, self._ask)
        except Unanswered as failure:
            if failure.status is not Status.TRUNCATED or failure.reply is None:
                raise
            reply = failure.reply  # a truncated description is still evidence
        return _observation_of(reply, MAX_DESCRIPTION)

    async def _question(self, template: str, image: Path, params: Values = DECODING, **variables: Any) -> Observation:
        reply = await self._ask(
            template, role="captioner", images=[image], params=params, accept_truncated=True, **variables
        )
        return _observation_of(reply, MAX_REPORT)

    async def _read_text(self, image: Path) -> Observation:
        """Read the text by OCR if it is installed and can read the file, otherwise by the captioner."""
        try:
            strings = await ocr.read_text_async(image)
        except (MissingExtra, ValueError):
            params = {**DECODING, "max_tokens": TEXT_TOKENS}
            return await self._question("agent/read_text", image, params)
        text = " | ".join(strings)
        return Observation(
            shortened(text, MAX_REPORT) or "no text was found", len(text) > MAX_REPORT, source=ocr.engine_version()
        )


def reports_of(text: str, parts: int) -> list[str]:
    """Split an answer about several pictures into the report on each; all of it for each if it cannot be split."""
    pieces = re.split(r"[*#\s]*\bpicture (\d{1,4})[*\s]*:[*\s]*", text, flags=re.IGNORECASE)
    by_number = dict(zip(map(int, pieces[1::2]), pieces[2::2], strict=True))
    if (
        not pieces[0].strip()
        and list(by_number) == list(range(1, parts + 1))
        and all(map(str.strip, by_number.values()))
    ):
        return [report.strip() for report in by_number.values()]
    return [text] * parts


def _observation_of(reply: Reply, longest: int) -> Observation:
    text = " ".join(after_thinking(reply.text).split())
    if not text:
        raise Unanswered(Status.UNPARSED, "the answer is empty", reply)
    if declines(text, answers=True):
        raise Unanswered(Status.REFUSED, refusal(text), reply)
    return Observation(shortened(text, longest), reply.status is Status.TRUNCATED or len(text) > longest)
