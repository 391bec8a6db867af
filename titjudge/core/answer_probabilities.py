"""Probabilities of the answers to a question, from the log probabilities of the first token.

A model in this process gives the probabilities of all tokens. A server returns the likeliest tokens only (20, as a rule):
any other is at most as likely as the least likely one that it returns, so the probability of an answer is an interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

TOP = 20  # tokens asked for from a server: the most that OpenAI, vLLM and Gemini give by default
LEAST = -9999.0  # log probability of an impossible token, as OpenAI writes it: JSON has no infinity
_TRACE = 1e-12  # least probability left for the tokens that a server does not return

Choices = Sequence[str] | Mapping[str, Sequence[str]]


class Probability(NamedTuple):
    """Least and greatest possible probability of a choice; the same if all its tokens are known."""

    lower: float
    upper: float


class Expectation(NamedTuple):
    """An expected value over the known tokens, and its bounds whatever the probabilities of the others."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class FirstToken:
    """The probabilities of the first token of an answer.

    Attributes:
        tokens: Text and log probability of each known token.
        rest: Greatest possible probability of any other token; 0 if all wanted tokens are known.
    """

    tokens: tuple[tuple[str, float], ...]
    rest: float = 0.0

    @classmethod
    def from_top(cls, top: Sequence[tuple[str, float]], chosen: tuple[str, float] | None = None) -> FirstToken | None:
        """Make it from a server's likeliest tokens and the sampled one; None without any, or if the model thinks first.

        Raises:
            ValueError: A log probability is not a number.
        """
        if any(math.isnan(logprob) for _, logprob in filter(None, (*top, chosen))):
            raise ValueError("a log probability is not a number")
        likeliest = max(top, key=lambda token: token[1], default=chosen)
        if likeliest is None or likeliest[0].lstrip().startswith("<think"):
            return None
        tokens = tuple(top)
        if chosen is not None and chosen[0] not in dict(top):
            tokens += (chosen,)
        unknown = max(_TRACE, 1.0 - sum(math.exp(min(0.0, logprob)) for _, logprob in tokens))
        least = math.exp(min(0.0, min(logprob for _, logprob in top))) if top else 1.0
        return cls(tuple((text, max(LEAST, min(0.0, logprob))) for text, logprob in tokens), min(unknown, least))

    def record(self) -> dict[str, Any]:
        """Convert it to JSON types."""
        return {"tokens": [list(token) for token in self.tokens], "rest": self.rest}

    @classmethod
    def read(cls, record: Any) -> FirstToken:
        """Make it from what `record` returned.

        Raises:
            ValueError, TypeError, LookupError: It is something else.
        """
        tokens = tuple((str(text), float(logprob)) for text, logprob in record["tokens"])
        rest = float(record["rest"])
        if not 0 <= rest <= 1 or not all(logprob <= 0 for _, logprob in tokens):
            raise ValueError("log probabilities must be 0 or less, and add up to at most 1")
        return cls(tokens, rest)


def tokens_by_choice(choices: Choices) -> dict[str, tuple[str, ...]]:
    """Return the tokens that count for each choice: the given ones, otherwise its spellings (cases, also after a space).

    Raises:
        ValueError: Two choices share a token, or one has none.
    """
    if isinstance(choices, Mapping):
        tokens_of = {choice: tuple(dict.fromkeys(tokens)) for choice, tokens in choices.items()}
    else:
        tokens_of = {choice: _spellings(choice) for choice in choices}
    every = [token for tokens in tokens_of.values() for token in tokens]
    if not all(every) or not all(tokens_of.values()):
        raise ValueError("a choice is empty")
    if len(set(every)) < len(every):
        raise ValueError(f"two of the choices {', '.join(tokens_of)} are spelled alike")
    return tokens_of


def _spellings(choice: str) -> tuple[str, ...]:
    cases = (choice, choice.lower(), choice.capitalize(), choice.upper())
    return tuple(dict.fromkeys(blank + case for blank in ("", " ") for case in cases))


def probabilities(first: FirstToken, tokens: Mapping[str, Sequence[str]]) -> dict[str, Probability]:
    """Compute the probability of each choice, the sum over its tokens.

    Raises:
        ValueError: None of a choice's spellings is a token of the model.
    """
    by_text = dict[str, float]()
    for text, logprob in first.tokens:
        by_text[text] = by_text.get(text, 0.0) + math.exp(logprob)
    unknown = max(0.0, 1.0 - sum(by_text.values())) if first.rest else 0.0
    result = {}
    for choice, texts in tokens.items():
        likelihood = sum(by_text.get(text, 0.0) for text in texts)
        absent = sum(text not in by_text for text in texts)
        if absent == len(texts) and not first.rest:
            raise ValueError(f"'{choice}' is not a single token of this model")
        result[choice] = Probability(min(1.0, likelihood), min(1.0, likelihood + min(absent * first.rest, unknown)))
    return result


def expectation(chances: Mapping[str, Probability], values: Mapping[str, float]) -> Expectation | None:
    """Compute the expected value of choices, with their probabilities normalised; None if none of them is known.

    A bound is reached if all choices above some value have their greatest probability and the others their least, or
    the other way round.
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
