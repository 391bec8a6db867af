"""Judge text-to-image outputs against their prompts, and measure how well the scores agree with people.

`Judge` scores images with metrics and models that you name, and `frame` returns scores as a data frame. `metric`, `task` and
`Provider` are for custom metrics, tasks and models. The other names are the records that these exchange.

    from titjudge import Judge

    with Judge("tit-llm", provider="gemini", max_cost=5) as judge:  # at most 5 USD
        score = judge.score("image.png", "a red cube on a blue ball")
    print(score.value, score.status, score.reason)

A score is a number in the range of its metric (`Metric.range`), or None with a status and a reason. Costs are USD, times are
seconds. All errors are `TitjudgeError`; a `UserError` is a mistake that you can correct, with a message of one line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from titjudge.core.lazy import lazy_exports

__version__ = "0.1.0"

if TYPE_CHECKING:
    from titjudge.core.errors import TitjudgeError as TitjudgeError
    from titjudge.core.errors import Unanswered as Unanswered
    from titjudge.core.errors import UserError as UserError
    from titjudge.core.types import Embedding as Embedding
    from titjudge.core.types import Failure as Failure
    from titjudge.core.types import FailureKind as FailureKind
    from titjudge.core.types import Item as Item
    from titjudge.core.types import Message as Message
    from titjudge.core.types import Pair as Pair
    from titjudge.core.types import Reply as Reply
    from titjudge.core.types import Request as Request
    from titjudge.core.types import Score as Score
    from titjudge.core.types import Status as Status
    from titjudge.core.types import Tool as Tool
    from titjudge.core.types import Usage as Usage
    from titjudge.metrics import Metric as Metric
    from titjudge.metrics import metric as metric
    from titjudge.metrics import task as task
    from titjudge.providers import Capabilities as Capabilities
    from titjudge.providers import Provider as Provider
    from titjudge.providers import ProviderSettings as ProviderSettings
    from titjudge.runs.api.frames import frame as frame
    from titjudge.runs.api.judge import Judge as Judge
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "titjudge.runs.api.frames": "frame",
            "titjudge.runs.api.judge": "Judge",
            "titjudge.metrics": "Metric metric task",
            "titjudge.providers": "Capabilities Provider ProviderSettings",
            "titjudge.core.errors": "TitjudgeError Unanswered UserError",
            "titjudge.core.types": "Embedding Failure FailureKind Item Message Pair Reply Request Score Status Tool Usage",
        },
    )
    __all__ += ["__version__"]
