"""Reward functions in the calls of TRL, ms-swift, flow_grpo, verl and verl-omni; a missing score is what the caller chose."""

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from builders import image_file
from serving import expected, rating_judge

from titjudge import Judge, UserError
from titjudge.apps.rewards import flow_grpo_reward, trl_reward, verl_reward
from titjudge.core.errors import ConfigError

PROMPTS = ["a red cube", "a red cube", "a blue ball"]
REFUSED = "please refuse this one"


@pytest.fixture
def judge(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Judge]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    with rating_judge(tmp_path / "cache") as made:
        yield made


def render(completion: Any) -> bytes | None:
    """The image that a trainer's own code makes of a completion; the second kind of completion holds none."""
    text = completion if isinstance(completion, str) else completion[-1]["content"]
    return None if text == "no image" else image_file(int(text))


def test_trl_calls_with_keywords_and_gets_a_reward_for_each_completion(judge: Judge) -> None:
    reward = trl_reward(judge, render, missing="skip")
    more: dict[str, Any] = {"completion_ids": [[1], [2], [3]], "theme": ["x"] * 3, "trainer_state": object()}
    wanted = [expected(image_file(number), prompt) for number, prompt in enumerate(PROMPTS)]
    assert reward(prompts=PROMPTS, completions=["0", "1", "2"], **more) == wanted
    talks = [[{"role": "system", "content": "draw"}, {"role": "user", "content": prompt}] for prompt in PROMPTS]
    answers = [[{"role": "assistant", "content": str(number)}] for number in range(3)]
    assert reward(prompts=talks, completions=answers, **more) == wanted
    assert reward.__name__ == "titjudge_reward"  # TRL names its charts by it
    assert not inspect.iscoroutinefunction(reward)


def test_ms_swift_calls_with_completions_alone_and_its_own_columns(judge: Judge) -> None:
    reward = trl_reward(judge, render, missing="skip")
    parts = [{"type": "text", "text": "a blue ball"}]
    messages = [[{"role": "user", "content": "a red cube"}], [{"role": "user", "content": parts}]]
    found = reward(["4", "5"], messages=messages, solution=["", ""], trainer_state=object())
    assert found == [expected(image_file(4), "a red cube"), expected(image_file(5), "a blue ball")]


def test_images_and_prompts_may_be_columns_of_the_data(judge: Judge) -> None:
    reward = trl_reward(judge, "image", prompt="caption", missing="error")
    columns = {"image": [image_file(1), image_file(2)], "caption": ["a", "b"]}
    found = reward(prompts=["rewrite a", "rewrite b"], completions=["", ""], **columns)
    assert found == [expected(image_file(1), "a"), expected(image_file(2), "b")]


def test_a_missing_score_is_none_or_the_mean_of_its_prompt_or_a_number_or_an_error(judge: Judge) -> None:
    completions, prompts = ["0", "no image", "1"], ["a red cube"] * 3
    first, last = expected(image_file(0), "a red cube"), expected(image_file(1), "a red cube")

    def rewards(missing: Any, texts: list[str] = prompts) -> list[float | None]:
        return trl_reward(judge, render, missing=missing)(prompts=texts, completions=completions)

    assert rewards("skip") == [first, None, last]
    assert rewards("group-mean") == [first, pytest.approx((first + last) / 2), last]
    assert rewards(-1) == [first, -1.0, last]
    with pytest.raises(UserError, match=r"an image has no score of lmm-score \(missing: the completion has no image\)"):
        rewards("error")
    with pytest.raises(UserError, match=r"an image has no score of lmm-score \(refused"):
        rewards("group-mean", [REFUSED] * 3)  # nobody of the group has a score


def test_flow_grpo_gets_a_reward_for_each_image_of_a_tensor_or_an_array(judge: Judge) -> None:
    torch = pytest.importorskip("torch")
    reward = flow_grpo_reward(judge, missing="group-mean")
    arrays = np.random.default_rng(5).integers(0, 255, (3, 16, 16, 3), np.uint8)
    tensor = torch.from_numpy(arrays).permute(0, 3, 1, 2) / 255
    of_arrays, meta = reward(arrays, tuple(PROMPTS), [{}] * 3)
    assert meta == {}
    assert reward(tensor, PROMPTS, [{}] * 3)[0] == of_arrays
    assert all(isinstance(0.5 * value, float) for value in of_arrays)  # it weighs them one by one
    with pytest.raises(UserError, match=r"has no score of lmm-score \(refused"):
        reward(arrays, [REFUSED, *PROMPTS[1:]], [{}] * 3)


def test_verl_gets_the_reward_of_a_response_and_verl_omni_that_of_an_image(judge: Judge) -> None:
    torch = pytest.importorskip("torch")
    compute_score = verl_reward(judge, render, prompt="caption", missing=0.0)
    row: dict[str, Any] = {"data_source": "mine", "ground_truth": "", "extra_info": {"caption": "a red cube"}}
    assert compute_score(solution_str="7", **row) == expected(image_file(7), "a red cube")
    assert compute_score(solution_str="no image", **row) == 0.0
    of_image = verl_reward(judge, missing="error")
    pixels = torch.zeros((3, 8, 8), dtype=torch.uint8)
    given: dict[str, Any] = {"data_source": "mine", "solution_image": pixels, "extra_info": {"num_turns": 1}}
    assert of_image(ground_truth="a red cube", **given) == judge.score(pixels, "a red cube").value
    with pytest.raises(UserError, match=r"has no score of lmm-score \(refused"):
        of_image(ground_truth=REFUSED, **given)


def test_what_a_trainer_could_not_use_is_refused_before_it_trains(judge: Judge, tmp_path: Any) -> None:
    for make in (lambda: flow_grpo_reward(judge, missing="skip"), lambda: verl_reward(judge, missing="group-mean")):
        with pytest.raises(ConfigError, match="must be a number, or one of error"):
            make()
    with pytest.raises(ConfigError, match="missing must be a number, or one of error, group-mean, skip, not nan"):
        trl_reward(judge, render, missing=float("nan"))
    with (
        Judge(["lmm-score", "lmm-score-expected"], captioner="fake/x", cache=tmp_path) as two,
        pytest.raises(ConfigError, match="a reward requires a Judge with one metric, not lmm-score, lmm-score-"),
    ):
        trl_reward(two, render, missing="skip")
