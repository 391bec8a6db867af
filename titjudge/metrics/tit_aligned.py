"""TIT-Aligned: each sentence of the prompt is compared with the part of the description that is closest to it.

The cosine of two whole texts hardly changes if a single detail is wrong. The match of a sentence does:

    match   (cosine with the closest sentence or clause of the description + share of words found) / 2
    score   mean match of the sentences of the prompt

The share of words found counts each content word of the sentence, and each pair of words in their order: two words at most
`REACH` words apart that follow each other within `REACH + 1` words of the description. Pairs notice exchanged colours.
The rule is ours; its measurements are in docs/measurements/judges.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from titjudge.core.patterns import lazy_pattern
from titjudge.core.score_parts import Aligned, SentenceMatch
from titjudge.core.types import Ask, Embedding, Item, Score
from titjudge.core.words import FUNCTION_WORDS, sentences, words_of
from titjudge.metrics import metric
from titjudge.metrics.tit import cosine, describe

WEAKEST = 3  # sentences that are reported as reasons
REACH = 2  # words from the first to the second word of a pair of the prompt

_CLAUSE_END = lazy_pattern(r"(?:[,:;，、；：]\s*|\s+)(?:and|with|while|but)\s+|[,:;，、；：]\s*")


@metric("tit-aligned", roles=("captioner", "embedder"), range=(-1, 1), source="titjudge; description as in TIT-Score")
async def tit_aligned(item: Item, ask: Ask) -> Score:
    """TIT-Aligned: mean match between the sentences of the prompt and the description."""
    description = await describe(item, ask)
    asked = sentences(item.prompt) or [item.prompt]
    described = _parts_of(description.text)
    vectors = await ask.embed([*asked, *described])
    wanted, found = vectors[: len(asked)], vectors[len(asked) :]
    known = set(terms(content_words(description.text), REACH + 1))
    matches = [
        _match(sentence, vector, described, found, known) for sentence, vector in zip(asked, wanted, strict=True)
    ]
    weakest = sorted(matches, key=lambda entry: entry["match"])[:WEAKEST]
    read = Aligned(
        prompt_tokens_used=sum(vector.tokens_used for vector in wanted),
        prompt_tokens=sum(vector.tokens_total for vector in wanted),
        description_tokens_used=sum(vector.tokens_used for vector in found),
        description_tokens=sum(vector.tokens_total for vector in found),
        weakest=weakest,
        description=description.text,
    )
    value = sum(entry["match"] for entry in matches) / len(matches)
    return Score.of(value, status=description.status, **read)


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
