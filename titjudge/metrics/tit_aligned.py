"""TIT-Aligned: each sentence of the prompt is compared with the part of the description that is closest to it.

The cosine of two whole texts hardly changes if a single detail is wrong. The match of a sentence does:

    match   (cosine with the closest sentence or clause of the description + share of words found) / 2
    score   mean match of the sentences of the prompt

The share of words found counts each content word of the sentence, and each pair of words in their order: two words at most
`REACH` words apart that follow each other within `REACH + 1` words of the description. Pairs notice exchanged colours.
The rule is ours; its measurements are in docs/measurements/judges.md.

TIT-Aligned-LLM adds a second stage: a language model checks the few sentences with the worst match:

    score   (mean match + share of the checked sentences that the description confirms) / 2
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from statistics import fmean
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from titjudge.core.patterns import lazy_pattern
from titjudge.core.score_parts import Aligned, SentenceMatch
from titjudge.core.types import Ask, Embedding, Item, Reply, Score
from titjudge.core.words import FUNCTION_WORDS, sentences, words_of
from titjudge.metrics import metric
from titjudge.metrics._shared import unreadable
from titjudge.metrics.tit import cosine, describe

WEAKEST = 3  # sentences that are reported as reasons
REACH = 2  # words from the first to the second word of a pair of the prompt

_CLAUSE_END = lazy_pattern(r"(?:[,:;，、；：]\s*|\s+)(?:and|with|while|but)\s+|[,:;，、；：]\s*")


class Unconfirmed(BaseModel):
    """The answer of the judge of TIT-Aligned-LLM: numbers of sentences, from 1."""

    model_config = ConfigDict(extra="ignore")

    wrong: list[int]


@metric("tit-aligned", roles=("captioner", "embedder"), range=(-1, 1), source="titjudge; description as in TIT-Score")
async def tit_aligned(item: Item, ask: Ask) -> Score:
    """TIT-Aligned: mean match between the sentences of the prompt and the description."""
    read = await _align(item, ask)
    return Score.of(read.mean, status=read.description.status, **read.parts)


@metric(
    "tit-aligned-llm",
    roles=("captioner", "judge", "embedder"),
    range=(-0.5, 1),
    source="titjudge; description as in TIT-Score",
)
async def tit_aligned_llm(
    item: Item,
    ask: Ask,
    *,
    checked: Annotated[int, Field(ge=1, description="sentences that the judge checks, those with the worst match")] = 5,
) -> Score:
    """TIT-Aligned-LLM: a language model also checks the sentences of the prompt with the worst match."""
    read = await _align(item, ask)
    asked = [entry["sentence"] for entry in read.matches[:checked]]
    text = read.description.text.strip()
    reply = await ask("tit/check", role="judge", schema=Unconfirmed, sentences=asked, description=text)
    wrong = sorted({*reply.data.wrong})
    if wrong and not 1 <= wrong[0] <= wrong[-1] <= len(asked):
        raise unreadable(reply, f"about sentences other than 1 to {len(asked)}")
    found = [asked[number - 1] for number in wrong]
    value = (read.mean + 1 - len(found) / len(asked)) / 2
    reason = f"not confirmed: {found[0]}" if found else "every checked sentence is confirmed"
    return Score.of(value, reason=reason, status=read.description.status, **read.parts, contradicted=found)


class _Reading(NamedTuple):
    """A description beside a prompt: the matches of the prompt's sentences, worst first, and what a score keeps."""

    description: Reply
    matches: list[SentenceMatch]
    parts: Aligned

    @property
    def mean(self) -> float:
        return fmean(entry["match"] for entry in self.matches)


async def _align(item: Item, ask: Ask) -> _Reading:
    """Match each sentence of the prompt with the description.

    Raises:
        Unanswered: There is no description.
    """
    description = await describe(item, ask)
    asked = sentences(item.prompt) or [item.prompt]
    described = _parts_of(description.text)
    vectors = await ask.embed([*asked, *described])
    wanted, found = vectors[: len(asked)], vectors[len(asked) :]
    known = set(terms(content_words(description.text), REACH + 1))
    matches = [
        _match(sentence, vector, described, found, known) for sentence, vector in zip(asked, wanted, strict=True)
    ]
    matches.sort(key=lambda entry: entry["match"])
    parts = Aligned(
        prompt_tokens_used=sum(vector.tokens_used for vector in wanted),
        prompt_tokens=sum(vector.tokens_total for vector in wanted),
        description_tokens_used=sum(vector.tokens_used for vector in found),
        description_tokens=sum(vector.tokens_total for vector in found),
        weakest=matches[:WEAKEST],
        description=description.text,
    )
    return _Reading(description, matches, parts)


def _match(
    sentence: str, vector: Embedding, described: Sequence[str], found: Sequence[Embedding], known: Collection[object]
) -> SentenceMatch:
    """Match a sentence with the description; without content words, by its cosine alone."""
    similar, place = max((cosine(vector, part), -place) for place, part in enumerate(found))
    words = share_found(sentence, known)
    match = similar if words is None else (similar + words) / 2
    return SentenceMatch(sentence=sentence, closest=described[-place], match=match)


def _parts_of(description: str) -> list[str]:
    """List each sentence of a description, and its clauses of at least two words."""
    parts = []
    for sentence in sentences(description):
        clauses = (clause.strip() for clause in _CLAUSE_END.split(sentence))
        parts += [sentence, *(clause for clause in clauses if len(words_of(clause)) > 1)]
    return [*dict.fromkeys(parts)]


def share_found(text: str, known: Collection[object], reach: int = REACH) -> float | None:
    """Compute the share of the terms of a text that are known, 0 to 1; None if it has no content words."""
    wanted = list(terms(content_words(text), reach))
    return sum(term in known for term in wanted) / len(wanted) if wanted else None


def content_words(text: str) -> list[str]:
    """List the words of a text in their order, without function words, in lower case."""
    words = (text[start:end].casefold() for start, end in words_of(text))
    return [word for word in words if word not in FUNCTION_WORDS]


def terms(words: Sequence[str], reach: int) -> Iterator[tuple[str, ...]]:
    """Yield each word, and each pair of words in their order that are at most `reach` words apart."""
    for place, word in enumerate(words):
        yield (word,)
        for other in words[place + 1 : place + 1 + reach]:
            yield (word, other)
