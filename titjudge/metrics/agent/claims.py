"""The atomic claims of a long prompt: one fact each, with the words of the prompt it comes from, and its weight.

A language model takes the prompt apart; everything it says of the prompt is checked here against the prompt.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from titjudge.core.types import Ask

KINDS = ("entity", "attribute", "relation", "text", "style")
MAX_CLAIMS = 100  # of one prompt; further ones are left out and counted
MAX_CLAIM = 300  # characters of one claim that are shown to the judge
DECODING = {"temperature": 0, "max_tokens": 8192}
_FUZZY = 90.0  # least similarity (0 to 100) of a span that is not quoted exactly
_FUZZY_LENGTH = 12  # characters; shorter spans must be exact
_WORDS_IN_CLAIM = 6  # of a planned claim
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|(?:(?![\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])[\w'’\-])+"
)
_SENTENCE = re.compile(r"""[.!?]["'”’»)\]]*\s+|[。！？]|\n+""")  # the end of one
_FUNCTION_WORDS = frozenset(  # of English: a prompt is not less covered because nobody quotes them
    re.findall(
        r"\w+",
        "a an the this that these those and or but nor so as if than then while of in on at to from by with into onto over "
        "under above below between behind before after near next across along around through toward towards against upon "
        "off out up down for is are was were be been being am has have had having do does did it its he him his she her "
        "hers they them their there here which who whom whose what where when how very just also too such own like",
    )
)
_TAG = re.compile(r"<(?=\s*/?\s*(?:prompt|claims|evidence|verdicts|question|thing|description)\b)", re.IGNORECASE)
_SAME = {ord(a): b for a, b in zip("‘’‚“”„«»–—−‐‑\u00a0", '\'\'\'"""""----- ', strict=True)}


def fenced(text: str) -> str:
    """Disarm text that goes between the tags of a prompt: it cannot close or open one of them."""
    return _TAG.sub("‹", text)


def shortened(text: str, longest: int) -> str:
    """Cut a text to `longest` characters on one line, and mark the cut."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[:longest].rstrip()} [...]"


def words_of(prompt: str) -> list[tuple[int, int]]:
    """Find start and end of each word; each Chinese, Japanese or Korean character counts as one."""
    return [match.span() for match in _WORD.finditer(prompt)]


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


class SplitClaim(BaseModel):
    """One claim."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    claim: str = Field(min_length=1)
    kind: Annotated[Literal["entity", "attribute", "relation", "text", "style"], BeforeValidator(_lower)]
    level: Annotated[Literal["macro", "micro", "generic"], BeforeValidator(_lower)] = "micro"
    span: str
    things: Annotated[list[str], BeforeValidator(lambda value: [] if value is None else value)] = []


class Split(BaseModel):
    """The claims of a prompt."""

    model_config = ConfigDict(extra="ignore")

    claims: list[SplitClaim] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim and the words of the prompt it comes from.

    `number` counts from 1, sentence by sentence of the prompt and in a sentence as the claims were given: a thing before
    its attributes. `start` and `end` are characters of the prompt. `things` names what the claim is about, the subject
    first, in words that all claims about it share (case and spaces folded).
    """

    number: int
    text: str
    kind: str
    level: str
    start: int
    end: int
    things: tuple[str, ...] = ()

    @property
    def introduces(self) -> str:
        """The thing that is in the image where this claim holds; empty for all but entities that the prompt asks for."""
        return self.things[0] if self.kind == "entity" and self.level != "generic" and self.things else ""


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a prompt.

    `unfounded` are claims whose span is not in the prompt: they are shown and take no part. `repeated` said something
    twice, `over` came after the first `MAX_CLAIMS`. `covered` is the share of the prompt's words inside some span, articles,
    prepositions and the like (of English) left out.
    """

    claims: tuple[Claim, ...]
    unfounded: tuple[str, ...] = ()
    repeated: int = 0
    over: int = 0
    covered: float = 0.0


async def split(prompt: str, ask: Ask) -> Claims:
    """Take a prompt apart: one question to the judge, the same for all images of a prompt.

    Raises:
        Unanswered: there is no usable answer.
    """
    reply = await ask("agent/split", role="judge", schema=Split, params=DECODING, prompt=fenced(prompt))
    answer: Split = reply.data
    return check_claims(answer.claims, prompt)


def check_claims(given: Sequence[SplitClaim], prompt: str) -> Claims:
    """Keep the claims that quote words of the prompt, in the order of its sentences.

    Style and mood are details (A.11), whatever level the model gave them.
    """
    found: list[tuple[int, int, SplitClaim]] = []
    unfounded: list[str] = []
    seen: set[str] = set()
    repeated, after = 0, 0
    fold = _Folded(prompt)
    for each in given[:MAX_CLAIMS]:
        key = " ".join(_fold(each.claim).split())
        if key in seen:
            repeated += 1
            continue
        seen.add(key)
        where = locate(each.span, prompt, after, fold)
        if where is None:
            unfounded.append(shortened(f"{each.claim} ({each.span})", MAX_CLAIM))
            continue
        after = where[0]
        found.append((*where, each))
    ends = [match.end() for match in _SENTENCE.finditer(prompt)]
    found.sort(key=lambda entry: bisect_right(ends, entry[0]))
    claims = tuple(
        Claim(number, each.claim, each.kind, _level(each), start, end, tuple(filter(None, map(_name, each.things))))
        for number, (start, end, each) in enumerate(found, 1)
    )
    over = max(0, len(given) - MAX_CLAIMS)
    return Claims(claims, tuple(unfounded), repeated, over, _covered(claims, prompt))


def _level(claim: SplitClaim) -> str:
    return "micro" if claim.kind == "style" and claim.level == "macro" else claim.level


def _name(thing: str) -> str:
    return " ".join(_fold(thing).split())


def _covered(claims: Sequence[Claim], prompt: str) -> float:
    words = [(start, end) for start, end in words_of(prompt) if _fold(prompt[start:end]) not in _FUNCTION_WORDS]
    inside = sum(any(claim.start < end and start < claim.end for claim in claims) for start, end in words)
    return inside / len(words) if words else 0.0


def _fold(text: str) -> str:
    return "".join(part.lower() for part in text.translate(_SAME))


class _Folded:
    """A text without differences of case, spaces, quotation marks and dashes, and where each character came from."""

    def __init__(self, text: str) -> None:
        chars: list[str] = []
        self.at: list[int] = []
        for index, char in enumerate(text.translate(_SAME)):
            folded = " " if char.isspace() else char.lower()
            if folded == " " and (not chars or chars[-1] == " "):
                continue
            chars.extend(folded)
            self.at.extend([index] * len(folded))
        self.text = "".join(chars)

    def back(self, start: int, end: int) -> tuple[int, int]:
        return self.at[start], self.at[end - 1] + 1


def locate(span: str, prompt: str, after: int = 0, fold: _Folded | None = None) -> tuple[int, int] | None:
    """Find a span in a prompt, as (start, end); None when it is not there.

    Exactly as written, from `after` on and then from the beginning; else without regard to case, spaces, quotation
    marks and dashes; else, from 12 characters on, with a similarity of at least 90 in 100 (`rapidfuzz` partial ratio).
    """
    span = span.strip()
    if not any(char.isalnum() for char in span):
        return None
    for start in (after, 0):
        exact = next(_occurrences(span, prompt, start), None)
        if exact is not None:
            return exact, exact + len(span)
    fold = fold or _Folded(prompt)
    wanted = _Folded(span).text.strip(" .,;:!?\"'()")
    if not wanted:
        return None
    places = [fold.back(at, at + len(wanted)) for at in _occurrences(wanted, fold.text, 0)]
    if places:
        return next((place for place in places if place[0] >= after), places[0])
    return _similar(wanted, fold)


def _occurrences(span: str, text: str, start: int) -> Iterator[int]:
    """Find `span` as whole words."""
    at = text.find(span, start)
    while at >= 0:
        if not (_glued(text[at - 1 : at], span[0]) or _glued(span[-1], text[at + len(span) : at + len(span) + 1])):
            yield at
        at = text.find(span, at + 1)


def _glued(one: str, two: str) -> bool:
    """Whether two characters are inside one word (of a script that puts spaces between words)."""
    return bool(one and two) and (one + two).isascii() and one.isalnum() and two.isalnum()


def _similar(wanted: str, fold: _Folded) -> tuple[int, int] | None:
    from rapidfuzz.fuzz import partial_ratio_alignment

    if not _FUZZY_LENGTH <= len(wanted) <= len(fold.text):
        return None
    best = partial_ratio_alignment(wanted, fold.text, score_cutoff=_FUZZY)
    if best is None or best.dest_end <= best.dest_start:
        return None
    start, end = best.dest_start, best.dest_end  # as long as the span: to the ends of the words that it cuts
    while start > 0 and _glued(fold.text[start - 1], fold.text[start]):
        start -= 1
    while end < len(fold.text) and _glued(fold.text[end - 1], fold.text[end]):
        end += 1
    return fold.back(start, end)


def expected_claims(prompt: str) -> Claims:
    """Make up about as many claims, of about the length, as a prompt will give: for dry runs."""
    words = words_of(prompt)
    claims = []
    for number, first in enumerate(range(0, len(words), _WORDS_IN_CLAIM), 1):
        start, end = words[first][0], words[min(first + _WORDS_IN_CLAIM, len(words)) - 1][1]
        claims.append(Claim(number, f"The image shows {prompt[start:end]}", "attribute", "micro", start, end))
    return Claims(tuple(claims[:MAX_CLAIMS]))
