"""Score an item: by one metric, or by the votes of several judges and repetitions, with a quorum and the disagreement."""

from __future__ import annotations

import asyncio
import logging
import statistics
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from titjudge.core.config import RunConfig
from titjudge.core.errors import DataError, Unanswered
from titjudge.core.numbers import is_number
from titjudge.core.redaction import code_fault
from titjudge.core.score_parts import COULD_BE, TABLED, PanelVote, PanelVotes, Parts, QuestionCounts, Samples, objects
from titjudge.core.types import Cause, Item, Json, Score, Status
from titjudge.engine.ask import ONCE, BoundAsk, Sample, problem_of
from titjudge.engine.budget import Reservation
from titjudge.engine.pipeline import Engine
from titjudge.metrics import Metric

logger = logging.getLogger(__name__)


async def score_item(
    engine: Engine,
    item: Item,
    name: str,
    metric: Metric,
    reservation: Reservation | None = None,
    *,
    alias: Mapping[str, str] | None = None,
    sample: Sample = ONCE,
) -> Score:
    """Run one metric on one item. A question without an answer makes a score without a value.

    Args:
        engine: Sends the questions.
        item: The item to judge.
        name: Name of the metric in this run.
        metric: The metric.
        reservation: The part of the budget that is reserved for the item.
        alias: Roles whose place another role takes, by name.
        sample: Which repetition this is.

    Raises:
        Interrupted: The run is ending, and there is no score.
        BudgetExhausted: The run is ending, and there is no score.
        FatalProviderError: The run is ending, and there is no score.
    """
    ask = BoundAsk(engine, item, reservation, alias, sample)
    problem = metric.sources_problem(item, ignore_sources=engine.roles.config.ignore_sources)
    try:
        score = Score.none(Status.BAD_INPUT, problem) if problem else await metric(item, ask)
    except Unanswered as failure:
        score = Score.none(failure.status, failure.reason, **failure.parts)
        ask.causes.append(failure.cause)
    except DataError as error:
        score = Score.none(Status.BAD_INPUT, problem_of(error, item))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:  # odd data of one item
        fault = code_fault(error)
        logger.warning(
            "%(metric)s of %(item)s: %(fault)s", {"metric": name, "item": item.id, "fault": fault}, exc_info=error
        )
        score = Score.none(Status.FAILED, f"the metric could not use this item: {fault}")
    finally:
        ask.done()
    return replace(
        score,
        item_id=item.id,
        metric=name,
        replies=tuple(dict.fromkeys(ask.keys)),
        generator=item.generator,
        prompt_id=item.prompt_id,
        cause=_cause(score.status, ask.causes),
    )


def _cause(status: Status, causes: Collection[Cause | None]) -> Cause | None:
    return next((cause for cause in Cause if cause in causes), Cause.REJECTED) if status is Status.FAILED else None


@dataclass(frozen=True, slots=True)
class Panel:
    """Combine the votes of several judges, or of one judge asked repeatedly, in one score.

    Attributes:
        judges: Names of their roles.
        samples: How often each judge is asked.
        rule: Mean, median or majority (the value that more than half of the votes agree on).
        quorum: Minimum number of judges that must have answered.
    """

    judges: tuple[str, ...] = ("judge",)
    samples: int = 1
    rule: str = "mean"
    quorum: int = 1

    @classmethod
    def from_config(cls, config: RunConfig) -> Panel:
        judges = tuple(config.judge_roles)
        return cls(judges, config.samples, config.vote, config.quorum or len(judges) // 2 + 1)

    def votes_on(self, metric: Metric) -> bool:
        return "judge" in metric.roles and (len(self.judges) > 1 or self.samples > 1)

    async def score(
        self, engine: Engine, item: Item, name: str, metric: Metric, reservation: Reservation | None = None
    ) -> list[Score]:
        """Return the metric's score, followed by each judge's score (named `metric [model]`) if there are several."""
        if not self.votes_on(metric):
            return [await score_item(engine, item, name, metric, reservation)]
        results = await asyncio.gather(
            *(
                score_item(engine, item, name, metric, reservation, alias={"judge": judge}, sample=Sample(sample))
                for judge in self.judges
                for sample in range(self.samples)
            ),
            return_exceptions=True,  # await questions already sent, also when the run is ending: they are paid for
        )
        votes: list[Score] = []
        for result in results:
            if isinstance(result, BaseException):
                raise result
            votes.append(result)
        by_judge = [
            self._repeated(votes[i * self.samples : (i + 1) * self.samples], engine.roles[judge].label)
            for i, judge in enumerate(self.judges)
        ]
        if len(self.judges) == 1:
            return [by_judge[0][1]]
        judge_scores = [replace(score, metric=f"{name} [{label}]") for label, score in by_judge]
        return [self._together(by_judge, item, name), *judge_scores]

    def _repeated(self, votes: Sequence[Score], label: str) -> tuple[str, Score]:
        """Combine the samples of one judge; `spread` is their standard deviation."""
        values = [vote.value for vote in votes if vote.value is not None]
        first = next((vote for vote in votes if vote.value is not None), votes[0])
        if self.samples == 1:
            return label, first
        replies = tuple(dict.fromkeys(key for vote in votes for key in vote.replies))
        shared = joined([vote.parts for vote in votes if vote.value is not None], self.rule)
        samples = Samples(
            samples=[vote.value for vote in votes], spread=statistics.stdev(values) if len(values) > 1 else None
        )
        of_first = {key: part for key, part in first.parts.items() if key != COULD_BE}
        parts = {**of_first, **shared, **samples}
        score = replace(first, replies=replies, parts=parts)
        if not values:
            return label, score
        value = combine(values, self.rule)
        if value is None:
            score = replace(score, status=Status.UNPARSED, reason=_NO_MAJORITY)
        return label, replace(score, value=value)

    def _together(self, scores: Sequence[tuple[str, Score]], item: Item, name: str) -> Score:
        """Combine the scores of several judges in one, with the votes in its parts; without a quorum it has no value."""
        values = [score.value for _, score in scores if score.value is not None]
        votes = [
            PanelVote(judge=label, value=score.value, status=str(score.status), reason=score.reason)
            for label, score in scores
        ]
        parts = PanelVotes(votes=votes, disagreement=max(values) - min(values) if values else None)
        replies = tuple(dict.fromkeys(key for _, score in scores for key in score.replies))
        blank = Score(item.id, name, None, Status.FAILED, "", parts, replies, item.generator, item.prompt_id)
        if len(values) < self.quorum:
            silent = [score for _, score in scores if score.value is None]
            status = Counter(score.status for score in silent).most_common(1)[0][0]
            reasons = list(dict.fromkeys(score.reason for score in silent))
            reason = "; ".join(reasons)
            if values or len(reasons) > 1:
                reason = (
                    f"no quorum: {len(values)} of {len(scores)} judges answered, {self.quorum} are needed ({reason})"
                )
            return replace(blank, status=status, reason=reason, cause=_cause(status, [s.cause for s in silent]))
        value = combine(values, self.rule)
        if value is None:
            return replace(blank, status=Status.UNPARSED, reason=_NO_MAJORITY)
        first = next(score for _, score in scores if score.value is not None)
        shared = {key: first.parts[key] for key in ("description",) if key in first.parts}
        shared |= joined([score.parts for _, score in scores if score.value is not None], self.rule)
        return replace(blank, value=value, status=first.status, reason=first.reason, parts={**shared, **parts})


_NO_MAJORITY = "no value has a majority of the votes"


def combine(values: Sequence[float], rule: str) -> float | None:
    """Combine votes in one value: mean, median, or the value more than half agree on (None when there is none)."""
    if rule == "mean":
        return statistics.fmean(values)
    if rule == "median":
        return float(statistics.median(values))
    value, count = Counter(values).most_common(1)[0]
    return value if 2 * count > len(values) else None


def joined(votes: Sequence[Parts], rule: str) -> Json:
    """Join the parts of several votes that suites make tables of; numbers are joined as the values are."""
    joined_parts: Json = {}
    for key in TABLED:
        values = [parts[key] for parts in votes if key in parts]
        if len(values) == len(votes) and not (key == "questions" and any(map(_has_verdicts, values))):
            joined_parts[key] = _joined(values, rule)
    for key in QuestionCounts.__annotations__:
        if values := [parts[key] for parts in votes if key in parts]:
            joined_parts[key] = sum(values)
    return {key: value for key, value in joined_parts.items() if value is not None}


def _joined(values: Sequence[Any], rule: str) -> Any:
    """Join numbers, the lists and mappings of them included; of other things only what all have alike (else None)."""
    if all(isinstance(value, Mapping) for value in values):
        names = dict.fromkeys(name for value in values for name in value)
        parts = {name: _joined([value[name] for value in values if name in value], rule) for name in names}
        return {name: value for name, value in parts.items() if value is not None}
    if all(isinstance(value, list) for value in values) and len(set(map(len, values))) == 1:
        return [_joined(values_at, rule) for values_at in zip(*values, strict=True)]
    if numbers := [value for value in values if is_number(value)]:
        return combine(numbers, rule)
    return values[0] if all(value == values[0] for value in values) else None


def _has_verdicts(questions: Any) -> bool:
    """Return True if questions have a yes or no instead of a number, as in DSG and TIFA: these have no mean."""
    return any("answer" not in question for question in objects(questions))
