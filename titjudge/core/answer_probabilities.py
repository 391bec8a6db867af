"""How likely each answer to a question is, read off the probabilities of the first token.

A model in this process knows them all. A server tells the likeliest tokens only (20, as a rule): what it does not list is
bounded by the least likely one that it lists, so a probability is an interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

TOP = 20  # tokens that are asked for where not all can be had: the most that OpenAI, vLLM and Gemini give unless told
LEAST = -9999.0  # log probability of what cannot be, as OpenAI writes it: JSON has no infinity
_TRACE = 1e-12  # what is left, at the least, for tokens that a server does not list

Choices = Sequence[str] | Mapping[str, Sequence[str]]


class Probability(NamedTuple):
    """How likely a choice is: at least and at most. Both are the same where every token of it is known."""

    lower: float
    upper: float


class Expectation(NamedTuple):
    """An expected value over the tokens that are known, and how far the others can move it."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class FirstToken:
    """What a model says of the first token of its answer.

    Attributes:
        tokens: Text and log probability of each token that is known.
        rest: How likely any other token is at most; 0 where all that were asked for are known.
    """

    tokens: tuple[tuple[str, float], ...]
    rest: float = 0.0

    @classmethod
    def of(cls, top: Sequence[tuple[str, float]], chosen: tuple[str, float] | None = None) -> FirstToken | None:
        """Take what a server tells: the likeliest tokens, and the one it chose. None where it tells nothing, or thinks first.

        Raises:
            ValueError: a log probability is no number.
        """
        if any(math.isnan(logprob) for _, logprob in (*top, *([chosen] if chosen else []))):
            raise ValueError("a log probability is no number")
        likeliest = max(top, key=lambda each: each[1], default=chosen)
        if likeliest is None or likeliest[0].lstrip().startswith("<think"):
            return None
        tokens = tuple(top)
        if chosen is not None and chosen[0] not in dict(top):
            tokens += (chosen,)
        unknown = max(_TRACE, 1.0 - sum(math.exp(min(0.0, logprob)) for _, logprob in tokens))
        least = math.exp(min(0.0, min(logprob for _, logprob in top))) if top else 1.0
        return cls(tuple((text, max(LEAST, min(0.0, logprob))) for text, logprob in tokens), min(unknown, least))

    def record(self) -> dict[str, Any]:
        """Write it as files keep it."""
        return {"tokens": [list(each) for each in self.tokens], "rest": self.rest}

    @classmethod
    def read(cls, record: Any) -> FirstToken:
        """Read what `record` wrote.

        Raises:
            ValueError, TypeError, LookupError: it is something else.
        """
        tokens = tuple((str(text), float(logprob)) for text, logprob in record["tokens"])
        rest = float(record["rest"])
        if not 0 <= rest <= 1 or not all(logprob <= 0 for _, logprob in tokens):
            raise ValueError("no log probabilities")
        return cls(tokens, rest)


def wanted(choices: Choices) -> dict[str, tuple[str, ...]]:
    """List the tokens that count for each choice: those given, else its spellings (case, with a blank before it or without).

    Raises:
        ValueError: two choices share a token, or one has none.
    """
    if isinstance(choices, Mapping):
        found = {choice: tuple(dict.fromkeys(tokens)) for choice, tokens in choices.items()}
    else:
        found = {choice: _spellings(choice) for choice in choices}
    every = [token for tokens in found.values() for token in tokens]
    if not all(every) or not all(found.values()):
        raise ValueError("a choice is empty")
    if len(set(every)) < len(every):
        raise ValueError(f"two of the choices {', '.join(found)} are spelled alike")
    return found


def _spellings(choice: str) -> tuple[str, ...]:
    cases = (choice, choice.lower(), choice.capitalize(), choice.upper())
    return tuple(dict.fromkeys(blank + case for blank in ("", " ") for case in cases))


def probabilities(first: FirstToken, tokens: Mapping[str, Sequence[str]]) -> dict[str, Probability]:
    """Compute how likely each choice is: the probabilities of its tokens together.

    Raises:
        ValueError: none of a choice's spellings is a token of the model.
    """
    chances: dict[str, float] = {}
    for text, logprob in first.tokens:
        chances[text] = chances.get(text, 0.0) + math.exp(logprob)
    unknown = max(0.0, 1.0 - sum(chances.values())) if first.rest else 0.0
    found = {}
    for choice, texts in tokens.items():
        known = sum(chances.get(text, 0.0) for text in texts)
        absent = sum(text not in chances for text in texts)
        if absent == len(texts) and not first.rest:
            raise ValueError(f"'{choice}' is no single token of this model")
        found[choice] = Probability(min(1.0, known), min(1.0, known + min(absent * first.rest, unknown)))
    return found


def expectation(chances: Mapping[str, Probability], values: Mapping[str, float]) -> Expectation | None:
    """Compute the expected value of choices, their probabilities taken to sum to one; None where none of them is known.

    The bounds are reached where all choices above some value are as likely as can be and the others as unlikely, or the
    other way round.
    """
    order = sorted(values, key=values.__getitem__)
    if not any(chances[choice].lower for choice in order):
        return None

    def mean(weights: Sequence[float]) -> float:
        return sum(weight * values[choice] for weight, choice in zip(weights, order, strict=True)) / sum(weights)

    low = [chances[choice].lower for choice in order]
    high = [chances[choice].upper for choice in order]
    cuts = range(len(order) + 1)
    return Expectation(
        mean(low),
        min(mean([*high[:cut], *low[cut:]]) for cut in cuts),
        max(mean([*low[:cut], *high[cut:]]) for cut in cuts),
    )
