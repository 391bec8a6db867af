"""Assert in a test that an image shows its prompt."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError, UserError
from titjudge.core.words import truncated
from titjudge.data.image_decoding import open_image
from titjudge.runs.api.judge import Judge
from titjudge.runs.api.judged_scores import JudgedScore

_LONGEST = 200  # characters of a prompt in a message


def assert_image(
    image: Any, prompt: str, *, at_least: float, metric: str = "tit", judge: Judge | None = None, **settings: Any
) -> JudgedScore:
    """Judge an image, and fail if its score is below a limit, or there is none.

        def test_the_model_still_draws_a_red_cube():
            assert_image(generate("a red cube"), "a red cube", metric="tit-llm", at_least=80, provider="openai")

    Args:
        image: An image as for `Judge.score`; one in memory is kept as a file if the assertion fails.
        prompt: The expected content.
        at_least: The lowest score that passes, in the range of the metric.
        metric: The metric, if no judge is given.
        judge: A judge with one metric, for many assertions; it stays open.
        **settings: Arguments of `Judge`, if no judge is given: `provider`, `captioner`, `max_cost`, ...

    Returns:
        The score, with image and prompt.

    Raises:
        AssertionError: The score is too low, or missing; the message has the score, its reason and the image file.
        UserError: Lower values of the metric are better.
    """
    __tracebackhide__ = True
    opened = judge or Judge(metric, **settings)
    try:
        (used,) = opened.metrics.values()
        if not used.higher_is_better:
            raise UserError(
                f"metric '{used.name}' is better when lower, so at_least does not apply. Choose another metric"
            )
        score = opened.score(image, prompt)
        if score.value is None or score.value < at_least:
            raise AssertionError(_message(score, _file(image, score), at_least))
        return score
    finally:
        if judge is None:
            opened.close()


def _message(score: JudgedScore, file: str, at_least: float) -> str:
    prompt = truncated(score.prompt, _LONGEST)
    if score.value is None:
        what = f"no {score.metric} ({score.status})"
    else:
        what = f"{score.metric} is {score.value:.4g}, less than {at_least:g}"
    return "\n".join(
        [what, *([f"  reason: {score.reason}"] if score.reason else []), f"  image:  {file}", f"  prompt: {prompt}"]
    )


def _file(image: Any, score: JudgedScore) -> str:
    """Return the file of an image; of one in memory a copy that stays when the judge is closed."""
    if score.image is None or score.image == Path(str(image)):
        return str(score.image or image)
    copy = Path(tempfile.mkdtemp(prefix="titjudge-failed-")) / f"image{_suffix(score.image)}"
    shutil.copyfile(score.image, copy)
    return str(copy)


def _suffix(file: Path) -> str:
    try:
        with open_image(file.read_bytes(), file, decode=False) as opened:
            return f".{(opened.format or 'png').lower()}"
    except (DataError, OSError):
        return ""
