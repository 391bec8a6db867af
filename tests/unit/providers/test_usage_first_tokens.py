"""Probabilities of answers from the first token: spellings summed, intervals where not all tokens are known."""

import itertools
import math
import random

import pytest

from titjudge.core.answer_probabilities import (
    LEAST,
    FirstToken,
    Probability,
    expectation,
    probabilities,
    tokens_by_choice,
)
from titjudge.core.serialization import reply_from, reply_record, request_key, request_record
from titjudge.core.types import Message, Reply, Request
from titjudge.providers.usage import gemini_first_token, openai_first_token


def told(*chances: float, texts: str = "abcdefghij") -> list[tuple[str, float]]:
    return [(text, math.log(chance)) for text, chance in zip(texts, chances, strict=False)]


def test_all_spellings_of_a_choice_count_together() -> None:
    tokens = tokens_by_choice(("yes", "no"))
    assert tokens["yes"] == ("yes", "Yes", "YES", " yes", " Yes", " YES")
    first = FirstToken.from_top(
        [("Yes", math.log(0.5)), (" yes", math.log(0.2)), ("no", math.log(0.2)), ("The", math.log(0.1))]
    )
    assert first is not None
    found = probabilities(first, tokens)
    assert found["yes"] == pytest.approx((0.7, 0.7))
    assert found["no"] == pytest.approx((0.2, 0.2))


def test_named_tokens_are_taken_as_they_stand() -> None:
    tokens = tokens_by_choice({"Yes": ["Yes", "Yes"]})
    assert tokens == {"Yes": ("Yes",)}
    first = FirstToken((("Yes", math.log(0.25)), (" Yes", math.log(0.5))))
    assert probabilities(first, tokens)["Yes"] == pytest.approx((0.25, 0.25))


@pytest.mark.parametrize("choices", [("yes", "Yes"), ("", "no"), {"yes": []}, {"a": ["x"], "b": ["x"]}])
def test_choices_that_cannot_be_told_apart_are_refused(choices: object) -> None:
    with pytest.raises(ValueError, match=r"alike|empty"):
        tokens_by_choice(choices)  # type: ignore[arg-type]


def test_what_a_server_does_not_list_is_bounded_by_what_it_lists() -> None:
    """Two spellings are missing: each at most as likely as the last listed token, together at most what is left."""
    first = FirstToken.from_top(told(0.6, 0.2, 0.05))
    assert first is not None
    assert first.rest == pytest.approx(0.05)
    found = probabilities(first, {"a": ("a", "x"), "q": ("q", "r"), "b": ("b",), "z": ("1", "2", "3", "4")})
    assert found["a"] == pytest.approx((0.6, 0.65))
    assert found["q"] == pytest.approx((0.0, 0.1))
    assert found["b"] == pytest.approx((0.2, 0.2))
    assert found["z"] == pytest.approx((0.0, 0.15))  # not 0.2: 0.15 is left


def test_the_interval_holds_the_truth() -> None:
    rng = random.Random(4)
    for _ in range(300):
        weights = [rng.random() ** 6 for _ in range(40)]
        chances = [weight / sum(weights) for weight in weights]
        ranked = sorted(((f"t{n}", math.log(chance)) for n, chance in enumerate(chances)), key=lambda each: -each[1])
        drawn = ranked[rng.randrange(40)]
        first = FirstToken.from_top(ranked[:8], drawn)
        assert first is not None
        mine = {choice: rng.sample(range(choice * 10, choice * 10 + 10), 3) for choice in range(3)}
        found = probabilities(first, {str(c): [f"t{n}" for n in ns] for c, ns in mine.items()})
        for choice, places in mine.items():
            true = sum(chances[n] for n in places)
            low, high = found[str(choice)]
            assert low - 1e-12 <= true <= high + 1e-12
        values = {"0": 0.0, "1": 1.0, "2": 0.25}
        sums = {str(c): sum(chances[n] for n in ns) for c, ns in mine.items()}
        true = sum(values[c] * sums[c] for c in values) / sum(sums.values())
        between = expectation(found, values)
        if between is not None:
            assert between.lower - 1e-12 <= true <= between.upper + 1e-12


def test_the_bounds_of_an_expectation_are_reached() -> None:
    chances = {"a": Probability(0.1, 0.3), "b": Probability(0.2, 0.25), "c": Probability(0.0, 0.4)}
    values = {"a": 1.0, "b": 0.5, "c": 0.0}
    corners = [
        sum(weight * values[choice] for weight, choice in zip(weights, chances, strict=True)) / sum(weights)
        for weights in itertools.product(*chances.values())
    ]
    found = expectation(chances, values)
    assert found is not None
    assert (found.lower, found.upper) == pytest.approx((min(corners), max(corners)))
    assert expectation(dict.fromkeys(values, Probability(0.0, 0.1)), values) is None


def test_a_drawn_token_behind_the_likeliest_does_not_narrow_the_interval() -> None:
    first = FirstToken.from_top(told(0.5, 0.2), ("z", math.log(0.001)))
    assert first is not None
    assert first.rest == pytest.approx(0.2)
    alone = FirstToken.from_top([], ("z", math.log(0.3)))
    assert alone is not None
    assert alone.rest == pytest.approx(0.7)


def test_nothing_told_and_thoughts_are_no_probabilities() -> None:
    assert FirstToken.from_top([]) is None
    assert FirstToken.from_top([("<think>", -0.1), ("Yes", -3.0)]) is None
    with pytest.raises(ValueError, match="not a number"):
        FirstToken.from_top([("Yes", math.nan)])
    with pytest.raises(ValueError, match="not a number"):
        FirstToken.from_top([], ("Yes", math.nan))


def test_a_choice_that_is_no_token_of_a_model_is_no_zero() -> None:
    with pytest.raises(ValueError, match="'Excellent' is not a single token"):
        probabilities(FirstToken((("Bad", -0.1),)), {"Excellent": ("Excellent",), "Bad": ("Bad",)})


def test_replies_and_requests_keep_their_form_where_no_choices_are() -> None:
    """Cache keys, records and files of what was asked before are what they were."""
    plain = Request("openai", "m", (Message("user", ("hello",)),), {"max_tokens": 5})
    assert request_key(plain) == "ask:951ec2b917a034d96759ab76ee4d12dfed0212387b97c9409789c9795a3e72e7"
    assert "choices" not in request_record(plain)
    assert "first_token" not in reply_record(Reply("x"))
    asked = Request("openai", "m", plain.messages, plain.params, choices=("Yes",))
    assert request_key(asked) != request_key(plain)
    assert request_record(asked)["choices"] == ["Yes"]
    first = FirstToken.from_top([("Yes", -0.5), ("No", -math.inf)])
    kept = reply_from(reply_record(Reply("Yes", first_token=first)))
    assert kept.first_token == first
    assert first is not None
    assert first.tokens[1][1] == LEAST


@pytest.mark.parametrize(
    "logprobs",
    [
        [],
        ["x"],
        {"content": None},
        {"content": [{}]},
        {"content": [None]},
        {"content": [{"token": "Yes", "logprob": None}]},
        {"content": [{"token": "Yes", "logprob": -1, "top_logprobs": [{"token": "Yes", "logprob": "NaN"}]}]},
        {"tokens": ["Yes"], "token_logprobs": [-1.0]},
    ],
)
def test_odd_log_probabilities_are_none_and_no_error(logprobs: object) -> None:
    """An ordinary answer beside them is as good as ever: it is not asked again."""
    assert openai_first_token({"message": {"content": "Yes"}, "logprobs": logprobs}) is None
    assert gemini_first_token({"logprobsResult": logprobs}) is None


def test_what_a_model_thinks_first_is_no_answer() -> None:
    told = {"content": [{"token": "Okay", "logprob": -0.1, "top_logprobs": []}]}
    thought = {"message": {"content": "", "reasoning_content": "Okay"}, "logprobs": told}
    assert openai_first_token(thought) is None
    assert openai_first_token({"message": {"content": "Okay"}, "logprobs": told}) is not None
