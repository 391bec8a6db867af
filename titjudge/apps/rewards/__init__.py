"""Rewards for training: `serve` answers over HTTP in the wire formats of frameworks; adapters judge in the trainer's process.

    from titjudge import Judge
    from titjudge.apps.rewards import trl_reward

    judge = Judge("tit-llm", provider="gemini", max_cost=5)
    reward = trl_reward(judge, "image", missing="skip")  # for trl.GRPOTrainer(reward_funcs=[reward], ...)

A reward is the score in the range of the metric. A failed judgement is not a reward: `missing` is required and sets its
replacement. A metric for which lower values are better raises `ConfigError`.
"""

from typing import TYPE_CHECKING

from titjudge.core.lazy import lazy_exports

PORT = 8767  # tried first

if TYPE_CHECKING:
    from titjudge.apps.rewards.adapters import flow_grpo_reward as flow_grpo_reward
    from titjudge.apps.rewards.adapters import trl_reward as trl_reward
    from titjudge.apps.rewards.adapters import verl_reward as verl_reward
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__, {"titjudge.apps.rewards.adapters": "flow_grpo_reward trl_reward verl_reward"}
    )
