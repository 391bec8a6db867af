"""Reward functions for a judge in the training process, each in the form in which a trainer calls it.

| trainer       | its call                                                                   | adapter            |
| ------------- | -------------------------------------------------------------------------- | ------------------ |
| TRL           | reward(prompts=..., completions=..., completion_ids=..., **columns)        | `trl_reward`       |
| ms-swift      | reward(completions, **columns), with a column of messages                  | `trl_reward`       |
| flow_grpo     | fn(images, prompts, metadata), which gives (scores, {})                    | `flow_grpo_reward` |
| verl          | compute_score(data_source=, solution_str=, ground_truth=, extra_info=)     | `verl_reward`      |
| verl-omni     | the same with solution_image=, height x width x 3 or 3 x height x width    | `verl_reward`      |

A judgement that failed is not a reward. Its replacement has no default: `missing` is `"error"` (raise), `"group-mean"` (the
mean of the other rewards of the prompt in the same call; an error if there are none), `"skip"` (no number, for a trainer
that leaves such samples out) or a number.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from titjudge.apps.rewards.formats import Missing, group_mean
from titjudge.core.errors import ConfigError, UserError, must_be
from titjudge.core.types import Json, Score, Status, Values
from titjudge.runs.api.judge import Judge

_log = logging.getLogger("titjudge.apps.rewards")
_NO_IMAGE = "the completion has no image"


def trl_reward(
    judge: Judge,
    image: str | Callable[[Any], Any],
    *,
    missing: Missing | float,
    prompt: str = "",
) -> Callable[..., list[float | None]]:
    """Make a reward function for TRL's GRPOTrainer and for ms-swift.

    Args:
        judge: A judge with one metric.
        image: Makes an image of a completion (None if it has none), or the name of a column with images.
        missing: The replacement for a missing reward: `"error"` (raise), `"group-mean"` (the mean of the other rewards of
            the prompt), `"skip"` or a number. `"skip"` gives None; trainers that sum over reward functions with
            `nansum` (older TRL, ms-swift) treat that as 0 if no other function has a reward.
        prompt: The column with the prompts; without it TRL's own prompts, or the user's last message of ms-swift's.

    Raises:
        ConfigError: The judge cannot give rewards, or `missing` is none of these.
    """
    fill = _filling(judge, missing, ("error", "group-mean", "skip"))

    def titjudge_reward(
        completions: Sequence[Any], prompts: Sequence[Any] | None = None, **columns: Any
    ) -> list[float | None]:
        images = columns[image] if isinstance(image, str) else [image(completion) for completion in completions]
        texts = [_text(value) for value in (columns[prompt] if prompt else prompts or columns["messages"])]
        return fill(_scores(judge, images, texts), texts)

    return titjudge_reward


def flow_grpo_reward(judge: Judge, *, missing: Missing | float) -> Callable[..., tuple[list[float | None], Json]]:
    """Make a reward function for flow_grpo's `multi_score`.

    Args:
        judge: A judge with one metric.
        missing: The replacement for a missing reward: `"error"`, `"group-mean"` or a number. A NaN would spoil its whole batch.

    Raises:
        ConfigError: As `trl_reward`.
    """
    fill = _filling(judge, missing, ("error", "group-mean"))

    def titjudge_reward(images: Any, prompts: Sequence[str], metadata: Any = None) -> tuple[list[float | None], Json]:
        texts = [str(text) for text in prompts]
        return fill(_scores(judge, images, texts), texts), {}

    return titjudge_reward


def verl_reward(
    judge: Judge,
    image: str | Callable[[Any], Any] | None = None,
    *,
    missing: Missing | float,
    prompt: str = "ground_truth",
) -> Callable[..., float | None]:
    """Make a `compute_score` for verl and verl-omni.

    Args:
        judge: A judge with one metric.
        image: Makes an image of verl's `solution_str` (None if it has none), or the key of `extra_info` with the image;
            without it verl-omni's `solution_image`.
        missing: The replacement for a missing reward: `"error"` or a number. verl hands over one sample at a time, and a NaN
            would spoil its batch.
        prompt: `ground_truth`, or the key of `extra_info` with the prompt.

    Raises:
        ConfigError: As `trl_reward`.
    """
    fill = _filling(judge, missing, ("error",))

    def compute_score(
        data_source: Any = None,
        solution_str: Any = None,
        ground_truth: Any = None,
        extra_info: Values | None = None,
        *,
        solution_image: Any = None,
        **kwargs: Any,
    ) -> float | None:
        further = extra_info or {}
        if image is None:
            solution = solution_image
        else:
            solution = further[image] if isinstance(image, str) else image(solution_str)
        texts = [_text(ground_truth if prompt == "ground_truth" else further[prompt])]
        return fill(_scores(judge, [solution], texts), texts)[0]

    return compute_score


def _filling(
    judge: Judge, missing: Missing | float, allowed: Sequence[str]
) -> Callable[[Sequence[Score], Sequence[str]], list[float | None]]:
    """Check a judge and a policy; returns a function that turns scores and their prompts into rewards."""
    if len(judge.metrics) != 1:
        raise ConfigError(
            f"a reward requires a Judge with one metric, not {', '.join(judge.metrics)}. Choose one of them"
        )
    name, metric = next(iter(judge.metrics.items()))
    if not metric.higher_is_better:
        raise ConfigError(
            f"Metric '{name}' cannot be a reward, because lower is better. Choose a metric where higher is better"
        )
    is_number = isinstance(missing, int | float) and not isinstance(missing, bool) and math.isfinite(missing)
    if not is_number and missing not in allowed:
        raise ConfigError(must_be("missing", f"a number, or one of {', '.join(allowed)}", missing))

    def fill(scores: Sequence[Score], prompts: Sequence[str]) -> list[float | None]:
        values = [score.value if score.value is not None and math.isfinite(score.value) else None for score in scores]
        return [
            value if value is not None else _instead(score, missing, group_mean(prompt, prompts, values))
            for score, prompt, value in zip(scores, prompts, values, strict=True)
        ]

    return fill


def _instead(score: Score, missing: Missing | float, of_group: float | None) -> float | None:
    """Return the replacement for a missing score by the policy `missing`; `of_group` is the mean of its prompt.

    Raises:
        UserError: The policy is to fail, or the prompt has no other reward.
    """
    _log.warning("no %s (%s): %s", score.metric, score.status, score.reason)
    if missing == "skip":
        return None
    value = of_group if missing == "group-mean" else None if missing == "error" else float(missing)
    if value is None:
        raise UserError(
            f"an image has no score of {score.metric} ({score.status}: {score.reason}). Choose another `missing`"
        )
    return value


def _scores(judge: Judge, images: Sequence[Any], prompts: Sequence[str]) -> list[Score]:
    """Score images, in order; an image without a score has a missing one."""
    numbers = [number for number, image in enumerate(images) if image is not None]
    name = next(iter(judge.metrics))
    scores: list[Score] = [Score("", name, None, Status.MISSING, _NO_IMAGE)] * len(prompts)
    judged = judge.score_many([(images[number], prompts[number]) for number in numbers], progress=False)
    for number, score in zip(numbers, judged, strict=True):
        scores[number] = score
    return scores


def _text(prompt: Any) -> str:
    """Return the text of a prompt: of a conversation the text of the user's last message.

    Raises:
        UserError: It has none.
    """
    if isinstance(prompt, str):
        return prompt
    users = [message for message in prompt if isinstance(message, Mapping) and message.get("role") == "user"]
    if not users:
        raise UserError(f"none of {len(prompt)} messages has the role user. Add one, or give the prompt as text")
    content = users[-1]["content"]
    return (
        content
        if isinstance(content, str)
        else "\n".join(part["text"] for part in content if part.get("type") == "text")
    )
