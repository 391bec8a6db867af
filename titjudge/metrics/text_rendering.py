"""Text rendering as TIIF-Bench measures it: the words that OCR reads, and those asked for (paper, 3.3, Figure A5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from titjudge.core import item_meta
from titjudge.core.refusals import declines, refusal
from titjudge.core.types import Ask, Item, Score, Status
from titjudge.metrics import metric, ocr
from titjudge.metrics._shared import image_of
from titjudge.metrics.text_reading import read_reply

_MOST_TOKENS = 512  # of a model's reply


def gold_words(item: Item) -> list[str] | None:
    """Return `meta["text_words"]`, otherwise the words in the questions; None when `text_words` is not a list of words."""
    words = item_meta.TEXT_WORDS.get(item)
    if words is None:
        return ocr.words_from_questions(str(question) for question in item_meta.QUESTIONS.get(item) or ())
    return list(words) if item_meta.TEXT_WORDS.form.fits(words) else None


def asks_for_words(item: Item) -> bool:
    """Return True if the prompt asks for words; an invalid `text_words` counts, so that its score names the mistake."""
    return gold_words(item) != []


@metric(
    "text-rendering",
    roles=(),
    range=(0, 1),
    version="2",  # 1 did not split the phrases asked for under the strict protocol
    source="TIIF-Bench paper, 3.3; cal_gned_and_recall_models.py",
    needs=("text_words",),
    higher_is_better=False,
    extra="ocr",
    package="rapidocr",
    applies=asks_for_words,
)
async def text_rendering(item: Item, ask: Ask) -> Score:
    """GNED: distance between the words in the image and the words of the prompt; 0 is perfect, 1 is worst.

    Under the strict protocol, phrases are split at blanks as the text that is read; the published script splits only that.
    Needs the extra `ocr`. Parts: recall, pned, gold, read (the strings as OCR gave them), engine. It does not apply to
    an item without words to look for; an image that cannot be decoded is bad input.

    Raises:
        MissingExtra: Rapidocr is not installed.
    """
    return await _measured(item, ask, _by_ocr)


@metric(
    "text-rendering-vlm",
    roles=("captioner",),
    range=(0, 1),
    version="2",  # 1 did not split the phrases asked for under the strict protocol
    source="TIIF-Bench paper, 3.3; the request to read is LongText-Bench's",
    needs=("text_words",),
    higher_is_better=False,
    applies=asks_for_words,
)
async def text_rendering_vlm(item: Item, ask: Ask) -> Score:
    """GNED as in `text-rendering`, with the words read by the captioner instead of an OCR engine."""

    async def read(image: Path) -> tuple[list[str], str]:
        params = {"max_tokens": _MOST_TOKENS, "temperature": 0.0}
        reply = await ask("text_reading/read", role="captioner", images=[image], params=params)
        return read_reply(reply.text, official="").splitlines(), reply.model_version

    return await _measured(item, ask, read)


async def _by_ocr(image: Path) -> tuple[list[str], str]:
    return await ocr.read_text_async(image), ocr.engine_version()


async def _measured(item: Item, ask: Ask, reader: Callable[[Path], Awaitable[tuple[list[str], str]]]) -> Score:
    """Score the words of an image; `reader` returns the strings, and the engine or model that read them."""
    gold = gold_words(item)
    if gold is None:
        return Score.none(Status.BAD_INPUT, "text_words is not a list of words")
    if not any(map(str.split, gold)):
        return Score.none(Status.MISSING, "no words are asked for in this image")
    image = image_of(item)
    try:
        read, engine = await reader(image)
    except ValueError as error:
        return Score.none(Status.BAD_INPUT, str(error))
    errors = ocr.text_errors(gold, read, strict=ask.protocol != "official")
    if errors.recall == 0 and declines(text := " ".join(read)):
        return Score.none(Status.REFUSED, refusal(text), read=read, engine=engine)
    return Score.of(errors.gned, recall=errors.recall, pned=errors.pned, gold=gold, read=read, engine=engine)
