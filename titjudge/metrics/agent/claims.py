"""Atomic claims of a long prompt: one fact each, with the words of the prompt that state it.

The judge decomposes the prompt; the span that it quotes for each claim is checked against the prompt here.

The scale of tit-agent, 0 to 100: the weight of a claim, and the cost of a wrong one.

The TIT-Score paper (A.11) has annotators check core subjects, setting and key relations first, and details only when
these are right. It gives no numbers; these are ours:

    adherence   half the met share of macro claims, four tenths the share of details, at most one tenth the share of style
    core        the met share of macro claims, and no more than 0.95 for each clear error
    score       100 x core x adherence

A clear error is a claim about a core subject that is not met (the subject itself or an attribute of it), or an exclusion
that is violated ("no people"). If a thing is absent or replaced by another, no claim about it is met. Claims that are
true for nearly any image ("generic") weigh nothing. A written word is a detail of the thing that carries it, and a claim
about style weighs at most twice a detail: else one wrong letter could cost more than ten wrong details.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from titjudge.core.types import Ask, Json
from titjudge.core.words import FUNCTION_WORDS, NUMBER_WORDS, SENTENCE_END, words_of

KINDS = ("entity", "attribute", "relation", "text", "style")
MAX_CLAIMS = 400  # of one prompt; further ones are dropped and counted
MAX_CLAIM = 300  # characters of a claim that the judge is shown
DECODING = {"temperature": 0, "max_tokens": 8192}
_FUZZY = 90.0  # least similarity (0 to 100) of a span that is not quoted exactly
_FUZZY_LENGTH = 12  # characters; shorter spans must be quoted exactly
_WORDS_IN_CLAIM, _FACTS_OF_A_THING = 4, 3  # as a dry run expects them
_TAG = re.compile(r"<(?=\s*/?\s*(?:prompt|claims|evidence|verdicts|question|thing|description)\b)", re.IGNORECASE)
_NUMBERS = NUMBER_WORDS[1:]  # "one" is more often a pronoun
_NUMBER = re.compile(
    r"(?:\b(row|column|block|box|bay|compartment|shelf|line|page|number|no)\W{1,2})?(?<![\w.,:/$€£#-])"
    rf"(\d{{1,3}}|{'|'.join(_NUMBERS)})\b(?![:/%]|[.,]\d|-[a-z])",
    re.IGNORECASE,
)  # of things, and what says that it is the name of a place
_MARK = re.compile(r"\[(\s*\d[^\[\]]*)\]")
_QUOTED = re.compile(r"""(?<!\w)(["'])(.+?)\1(?!\w)""")
_EASILY_MISREAD = re.compile(
    r"""\b(?:
        (?P<touch>touch\w*|hold\w*\ hands|hand\ in\ hand|lean\w*|hug\w*|embrac\w*|overlap\w*)
        | (?P<pose>sits?|sitting|kneel\w*|crouch\w*|squat\w*|lying|bend\w*|bow(?:s|ing)|wav(?:es?|ing)|point\w*|arms?|hands?|legs?|knees?
          |cross(?:es|ed)|rais(?:es?|ed|ing)|look(?:s|ing)|fac(?:es|ing))
        | (?P<held>holds?\ (?:up|an?|the|his|her|its|their)|holding|held|carr(?:y|ies|ying))
        | (?P<one>(?:each|one|none|all|only|every|any)\ (?:of|but|second|third|one)|others?|rest|only|except|every|another|exactly\ one|between)
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)
_COUNTED = 6  # things that are counted at a glance
_SAME = {ord(a): b for a, b in zip("‘’‚“”„«»–—−‐‑\u00a0", '\'\'\'"""""----- ', strict=True)}


def fenced(text: str) -> str:
    """Escape text that goes between the tags of a template, so that it can neither open nor close one of them."""
    return _TAG.sub("‹", text)


def shortened(text: str, longest: int) -> str:
    """Put a text on one line and truncate it to `longest` characters, with a mark."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[:longest].rstrip()} [...]"


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


def null_as(empty: Any) -> BeforeValidator:
    """Read a null in a model's answer as an empty value: under a strict schema it has to write all fields."""
    return BeforeValidator(lambda value: empty if value is None else value)


class SplitClaim(BaseModel):
    """One claim: what has to hold, and the words of the prompt that state it."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    claim: str = Field(min_length=1)
    kind: Annotated[Literal["entity", "attribute", "relation", "text", "style"], BeforeValidator(_lower)]
    level: Annotated[Literal["macro", "micro", "generic"], BeforeValidator(_lower)] = "micro"
    span: str
    things: Annotated[list[str], null_as([])] = []


class SplitThing(BaseModel):
    """A thing of the prompt, and phrases of the prompt that each state a fact about it."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    thing: str = Field(min_length=1)
    span: str
    level: Annotated[Literal["macro", "micro", "generic"], BeforeValidator(_lower), null_as("micro")] = "micro"
    details: Annotated[list[str], null_as([])] = []
    key: Annotated[list[str], null_as([])] = []
    text: Annotated[list[str], null_as([])] = []


class Split(BaseModel):
    """The things of a prompt with what it says of each, and its style."""

    model_config = ConfigDict(extra="ignore")

    things: Annotated[list[SplitThing], null_as([])] = []
    style: Annotated[list[str], null_as([])] = []
    claims: SkipJsonSchema[list[SplitClaim]] = []  # answers to the template before version 4

    @model_validator(mode="after")
    def _says_something(self) -> Split:
        if not (self.things or self.style or self.claims):
            raise ValueError("there is no thing")
        return self

    def listed(self) -> list[SplitClaim]:
        """List its claims: that a thing is there, then each fact about it, then the style."""
        names = [thing.thing for thing in self.things]
        claims = [claim for thing in self.things for claim in _claims_about(thing, names)]
        styles = [SplitClaim(claim=phrase, kind="style", span=phrase) for phrase in self.style if phrase.strip()]
        return [*self.claims, *claims, *styles]


def _claims_about(thing: SplitThing, names: Sequence[str]) -> Iterator[SplitClaim]:
    """Yield the claims about a thing; a phrase that names another thing is a relation between the two.

    A thing without further description is claimed in the words of the prompt ("a green frame").
    """
    bare = not any(map(str.strip, (*thing.details, *thing.key, *thing.text)))
    there = thing.span if thing.span and (bare or thing.level == "generic") else f"There is: {thing.thing}"
    yield SplitClaim(claim=there, kind="entity", level=thing.level, span=thing.span, things=[thing.thing])
    for kind, level, phrases in (("", "macro", thing.key), ("", "micro", thing.details), ("text", "macro", thing.text)):
        for phrase in filter(str.strip, phrases):
            others = [name for name in names if name != thing.thing and _names(phrase, name)]
            yield SplitClaim.model_validate(
                {
                    "claim": phrase if _names(phrase, thing.thing) else f"{thing.thing}: {phrase}",
                    "kind": kind or ("relation" if others else "attribute"),
                    "level": level,
                    "span": phrase,
                    "things": [thing.thing, *others],
                }
            )


def _names(phrase: str, name: str) -> bool:
    """Return True if a phrase contains the name of a thing, as whole words."""
    return next(_occurrences(_name(name), _name(phrase)), None) is not None


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim and the words of the prompt that state it.

    Attributes:
        number: From 1, in the order of the prompt's sentences; within a sentence in the order given, a thing before its
            attributes.
        kind: Entity, attribute, relation, text or style.
        level: Macro, micro or generic.
        start: First character of the span in the prompt.
        end: The character behind the span.
        things: Names of the things that the claim is about, the subject first (case and spaces folded); all claims
            about a thing use the same name.
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
        """The thing that must be in the image by this claim; empty except for entities that the prompt asks for."""
        return self.things[0] if self.kind == "entity" and self.level != "generic" and self.things else ""

    @property
    def place(self) -> str:
        """The thing that the claim is about, which is where one looks."""
        return self.things[0] if self.things else self.text

    @property
    def risk(self) -> int:
        """How many kinds of misreading it invites: a count above six, touch, a pose, a held thing, one of many."""
        kinds = {found.lastgroup for found in _EASILY_MISREAD.finditer(self.text)}
        return len(kinds) + any(number > _COUNTED for number in numbers_of(self.text))


def numbers_of(text: str) -> list[int]:
    """Return the numbers of things in a text, in digits or in English words from two on; not in quotes, and not "row 3"."""
    found = _NUMBER.findall(_QUOTED.sub(" ", text.translate(_SAME)))
    return [int(n) if n.isdigit() else _NUMBERS.index(n.lower()) + 2 for place, n in found if not place]


def _letters_of(text: str) -> list[str]:
    """Return the quotations in a text, without case, spaces and punctuation."""
    quoted = _QUOTED.findall(text.translate(_SAME))
    return ["".join(filter(str.isalnum, letters.casefold())) for _, letters in quoted]


def contradicts(claim: str, seen: str, line: str) -> bool:
    """Return True if claim and words seen have one number each, or one quotation each, and these differ.

    Args:
        claim: The words of a claim.
        seen: The words on its place in the image.
        line: All claims that these words settle, this one included. They may be about the number or quotation of another one.
    """
    return any(
        len(found := of(seen)) == 1 == len({*of(claim)}) and found[0] not in of(line)
        for of in (numbers_of, _letters_of)
    )


def smallest_share(claims: Collection[Claim]) -> float:
    """Estimate the side of the smallest thing, as a share of the side of a square as large as the image.

    The things share the image evenly, those of a number share the place of their thing, and each covers half of the width that it has.
    """
    numbers: dict[str, int] = {}
    for claim in claims:
        if claim.kind != "style":
            numbers[claim.place] = max(numbers.get(claim.place, 1), *numbers_of(claim.text), 1)
    return 0.5 / math.sqrt(len(numbers) * max(numbers.values())) if numbers else 1.0


def numbered(prompt: str, wanted: Collection[Claim]) -> str:
    """Write a prompt with the numbers of claims, in square brackets, behind the words that state them.

    Sentences without a wanted claim are left out, except the one before a sentence with one.
    """
    behind: dict[int, list[str]] = {}
    for claim in wanted:
        behind.setdefault(claim.end, []).append(f"{claim.number}{' generic' * (claim.level == 'generic')}")
    prompt = _MARK.sub(r"(\1)", prompt)  # what looks like a number of a claim; as long as before
    spans = list(pairwise([0, *(match.end() for match in SENTENCE_END.finditer(prompt)), len(prompt)]))
    holds = [any(start < end <= stop for end in behind) for start, stop in spans]
    written: list[str] = []
    for (start, stop), here, next_ in zip(spans, holds, [*holds[1:], False], strict=True):
        if not (here or next_):
            written += ["[...] "] * (written[-1:] != ["[...] "])
            continue
        for one, two in pairwise([start, *sorted({stop, *(end for end in behind if start < end < stop)})]):
            written += [prompt[one:two], f" [{', '.join(behind[two])}] "] if two in behind else [prompt[one:two]]
    return fenced(" ".join("".join(written).split()))


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a prompt.

    Attributes:
        claims: Those that are judged.
        unfounded: Claims whose span is not in the prompt; they are reported and not judged.
        repeated: Number of claims that repeat another one.
        over: Number of claims beyond `MAX_CLAIMS`.
        covered: Share of the prompt's words inside some span, without English function words.
    """

    claims: tuple[Claim, ...]
    unfounded: tuple[str, ...] = ()
    repeated: int = 0
    over: int = 0
    covered: float = 0.0


async def split(prompt: str, ask: Ask) -> Claims:
    """Have the judge decompose a prompt into claims: one request, the same for all images of the prompt.

    Raises:
        Unanswered: There is no usable answer.
    """
    reply = await ask(
        "agent/split",
        role="judge",
        schema=Split,
        params=DECODING,
        planned=expected_split(prompt),
        prompt=fenced(prompt),
    )
    answer: Split = reply.data
    return check_claims(answer.listed(), prompt)


def check_claims(given: Sequence[SplitClaim], prompt: str) -> Claims:
    """Keep the claims that quote words of the prompt, in the order of its sentences.

    Style and mood are details (A.11), whatever level the model gave them.
    """
    located: list[tuple[int, int, SplitClaim]] = []
    unfounded: list[str] = []
    seen: set[str] = set()
    repeated, after = 0, 0
    places: dict[str, int] = {}
    folded = _Folded(prompt)
    for claim in given[:MAX_CLAIMS]:
        if (key := _name(claim.claim)) in seen:
            repeated += 1
            continue
        seen.add(key)
        thing = _name(claim.things[0]) if claim.things else ""
        span = locate(claim.span, prompt, places.get(thing, after), folded, in_sentence=thing in places)
        if span is None:
            unfounded.append(shortened(f"{claim.claim} ({claim.span})", MAX_CLAIM))
            continue
        after = span[0]
        places.setdefault(thing, after)  # short words about a thing ("blue") are searched around its words
        located.append((*span, claim))
    ends = [match.end() for match in SENTENCE_END.finditer(prompt)]
    located.sort(key=lambda entry: bisect_right(ends, entry[0]))
    claims = tuple(
        Claim(number, claim.claim, claim.kind, _level(claim), start, end, tuple(filter(None, map(_name, claim.things))))
        for number, (start, end, claim) in enumerate(located, 1)
    )
    over = max(0, len(given) - MAX_CLAIMS)
    return Claims(claims, tuple(unfounded), repeated, over, _covered(claims, prompt))


def _level(claim: SplitClaim) -> str:
    return "micro" if claim.kind == "style" and claim.level == "macro" else claim.level


def _name(text: str) -> str:
    """Normalise case, quotation marks, dashes and spaces, to compare claims and names of things."""
    return " ".join(_fold(text).split())


def _covered(claims: Sequence[Claim], prompt: str) -> float:
    words = [(start, end) for start, end in words_of(prompt) if _fold(prompt[start:end]) not in FUNCTION_WORDS]
    inside = sum(any(claim.start < end and start < claim.end for claim in claims) for start, end in words)
    return inside / len(words) if words else 0.0


def _fold(text: str) -> str:
    return "".join(part.lower() for part in text.translate(_SAME))


class _Folded:
    """A text with case, spaces, quotation marks and dashes normalised, and the original index of each character."""

    def __init__(self, text: str) -> None:
        chars: list[str] = []
        self.origins: list[int] = []
        for index, char in enumerate(text.translate(_SAME)):
            folded = " " if char.isspace() else char.lower()
            if folded == " " and (not chars or chars[-1] == " "):
                continue
            chars.extend(folded)
            self.origins.extend([index] * len(folded))
        self.text = "".join(chars)

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Map a span of the normalised text to one of the original."""
        return self.origins[start], self.origins[end - 1] + 1


def locate(
    span: str, prompt: str, after: int = 0, folded: _Folded | None = None, *, in_sentence: bool = False
) -> tuple[int, int] | None:
    """Find a span in a prompt and return its (start, end); None when it is not there.

    Exact matches come first; then matches but for case, spaces, quotation marks and dashes; then, for 12 characters or more, a
    similarity of at least 90 in 100 (`rapidfuzz` partial ratio). Of several matches it is the next one from `after` on,
    otherwise the last one before. With `in_sentence` it is the closest one, where the way back counts twice, and those in the
    sentence of `after` come first.
    """
    span = span.strip()
    if not any(char.isalnum() for char in span):
        return None
    matches = [(start, start + len(span)) for start in _occurrences(span, prompt)]
    if not matches:
        folded = folded or _Folded(prompt)
        wanted = _Folded(span).text.strip(" .,;:!?\"'()")
        matches = [folded.original(start, start + len(wanted)) for start in _occurrences(wanted, folded.text)]
        if not matches:
            return _similar(wanted, folded)
    back = 2 if in_sentence else len(prompt)  # times that the way back counts: with the latter, any way on is shorter
    return min(
        matches,
        key=lambda at: (
            in_sentence and bool(SENTENCE_END.search(prompt, *sorted((at[0], after)))),
            max(at[0] - after, back * (after - at[0])),
        ),
    )


def _occurrences(span: str, text: str) -> Iterator[int]:
    """Yield the indices at which `span` occurs as whole words."""
    index = text.find(span)
    while index >= 0:
        end = index + len(span)
        if not (_in_one_word(text[index - 1 : index], span[0]) or _in_one_word(span[-1], text[end : end + 1])):
            yield index
        index = text.find(span, index + 1)


def _in_one_word(one: str, two: str) -> bool:
    """Return True if two adjacent characters belong to one word (of a script with spaces between words)."""
    return bool(one and two) and (one + two).isascii() and one.isalnum() and two.isalnum()


def _similar(wanted: str, folded: _Folded) -> tuple[int, int] | None:
    from rapidfuzz.fuzz import partial_ratio_alignment

    text = folded.text
    if not _FUZZY_LENGTH <= len(wanted) <= len(text):
        return None
    best = partial_ratio_alignment(wanted, text, score_cutoff=_FUZZY)
    if best is None or best.dest_end <= best.dest_start:
        return None
    start, end = best.dest_start, best.dest_end  # exactly as long as the span: extended to the ends of words
    while start > 0 and _in_one_word(text[start - 1], text[start]):
        start -= 1
    while end < len(text) and _in_one_word(text[end - 1], text[end]):
        end += 1
    return folded.original(start, end)


def expected_split(prompt: str) -> Json:
    """Make up the answer of a dry run: things and facts of the number and length to be expected of a prompt."""
    words = words_of(prompt)
    phrases = [
        prompt[words[first][0] : words[min(first + _WORDS_IN_CLAIM, len(words)) - 1][1]]
        for first in range(0, len(words), _WORDS_IN_CLAIM)
    ][:MAX_CLAIMS]
    of_each = [
        phrases[first : first + 1 + _FACTS_OF_A_THING] for first in range(0, len(phrases), 1 + _FACTS_OF_A_THING)
    ]
    return {
        "things": [
            {"thing": f"thing {number}", "span": span, "details": details}
            for number, (span, *details) in enumerate(of_each, 1)
        ]
    }


SHARES = {"macro": 50.0, "micro": 40.0, "style": 10.0}
"""Percent of the adherence, by group of claims; the share of style is a maximum. The share of an empty group goes to the others."""

STYLE_TO_DETAIL = 2.0  # most that a claim about style weighs, in details

CLEAR_ERROR = 0.95  # factor of each clear error


def group_of(claim: Claim) -> str:
    """Return the group of a claim: macro, micro, style, or generic, which weighs nothing. A written word is a detail."""
    if claim.level == "generic":
        return "generic"
    return {"style": "style", "text": "micro"}.get(claim.kind, claim.level)


def weights(claims: Collection[Claim]) -> dict[int, float]:
    """Return the weight of each claim, by its number: 100 in all, the same for all claims of a group."""
    sizes = Counter(map(group_of, claims))
    shares = _shares(sizes)
    return {claim.number: shares.get(group, 0.0) / sizes[group] for claim in claims for group in [group_of(claim)]}


def _shares(sizes: Mapping[str, int]) -> dict[str, float]:
    """Divide 100 among the groups that are not empty, given the number of their claims."""
    present = {group: share for group, share in SHARES.items() if sizes.get(group)}
    content = sum(share for group, share in present.items() if group != "style")
    style = present.get("style", 0.0) if content else 100.0
    if content and "micro" in present:
        most = STYLE_TO_DETAIL * present["micro"] / content * sizes.get("style", 0) / sizes["micro"]
        style = min(style, 100.0 * most / (1 + most))
    return {group: style if group == "style" else share * (100.0 - style) / content for group, share in present.items()}


def absent_things(claims: Collection[Claim], verdicts: Mapping[int, str]) -> dict[str, int]:
    """Return the things that are not in the image, each with the number of the claim that introduces it.

    Args:
        claims: The claims of the prompt.
        verdicts: Verdicts by the number of the claim.
    """
    absent: dict[str, int] = {}
    present: set[str] = set()
    for claim in claims:
        if verdicts.get(claim.number) == "not_met":
            absent.setdefault(claim.introduces, claim.number)
        else:
            present.add(claim.introduces)
    return {thing: number for thing, number in absent.items() if thing and thing not in present}


def adherence_score(claims: Collection[Claim], verdicts: Mapping[int, str]) -> float | None:
    """Score the verdicts, 0 to 100; None if no claim with a weight is decided.

    Args:
        claims: The claims of the prompt.
        verdicts: Verdicts by the number of the claim, also verdicts that follow from absent things.
    """
    met: dict[str, list[bool]] = {}
    for claim in claims:
        if (verdict := verdicts.get(claim.number)) in ("met", "not_met"):
            met.setdefault(group_of(claim), []).append(verdict == "met")
    errors = sum(verdicts.get(claim.number) == "not_met" for claim in clear_claims(claims))
    held = {group: sum(marks) / len(marks) for group, marks in met.items()}
    shares = _shares({group: len(marks) for group, marks in met.items()})
    if not shares:
        return None
    adherence = sum(share * held[group] for group, share in shares.items())
    leading = next(held[group] for group in SHARES if group in held)
    return min(leading, CLEAR_ERROR**errors) * adherence


def score_bounds(claims: Collection[Claim], verdicts: Mapping[int, str]) -> tuple[float, float] | None:
    """Bound the score by the possible outcomes of the open claims: all not met, or all met; None if nothing is open.

    A claim that cannot be seen is not open, nor is one that is true for nearly any image ("no people"): the agent does
    not look for it, and it counts only if a report happens to show that it is violated.

    Args: as `adherence_score`.
    """
    open_claims = [claim.number for claim in claims if claim.number not in verdicts and claim.level != "generic"]
    if not open_claims:
        return None
    low, high = (
        adherence_score(claims, {**verdicts, **dict.fromkeys(open_claims, verdict)}) for verdict in ("not_met", "met")
    )
    return None if low is None or high is None else (low, high)


def clear_claims(claims: Collection[Claim]) -> list[Claim]:
    """List the claims that are a clear error when they are not met: those about a core subject, and exclusions."""
    core = {claim.introduces for claim in claims if claim.level == "macro"} - {""}
    return [
        claim
        for claim in claims
        if group_of(claim) in ("macro", "generic") or (claim.kind != "style" and set(claim.things[:1]) & core)
    ]
