"""Several judges, or one judge several times: one score from many votes, with a quorum and the disagreement beside it."""

from __future__ import annotations

import asyncio
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from titjudge.core.config import RunConfig
from titjudge.core.samples import Sample
from titjudge.core.score_parts import PanelVotes, Samples, Vote
from titjudge.core.types import Item, Score, Status
from titjudge.engine.ask import measure
from titjudge.engine.budget import Reservation
from titjudge.engine.pipeline import Engine
from titjudge.metrics import Metric


@dataclass(frozen=True, slots=True)
class Panel:
    """Who votes and how votes become a score.

    `judges` are role names; `rule` is mean, median or majority (the value more than half of the votes agree on);
    `quorum` is the least number of judges that must have answered.
    """

    judges: tuple[str, ...] = ("judge",)
    samples: int = 1
    rule: str = "mean"
    quorum: int = 1

    @classmethod
    def of(cls, config: RunConfig) -> Panel:
        judges = tuple(config.judge_roles)
        return cls(judges, config.samples, config.vote, config.quorum or len(judges) // 2 + 1)

    def votes_on(self, metric: Metric) -> bool:
        return "judge" in metric.roles and (len(self.judges) > 1 or self.samples > 1)

    async def measure(
        self, engine: Engine, item: Item, name: str, metric: Metric, reservation: Reservation | None = None
    ) -> list[Score]:
        """The metric's score, and each judge's own (named `metric [model]`) when there are several."""
        if not self.votes_on(metric):
            return [await measure(engine, item, name, metric, reservation)]
        results = await asyncio.gather(
            *(
                measure(engine, item, name, metric, reservation, alias={"judge": judge}, sample=Sample(sample))
                for judge in self.judges
                for sample in range(self.samples)
            ),
            return_exceptions=True,  # every vote that is on its way is awaited, also when the run is ending
        )
        votes: list[Score] = []
        for result in results:
            if isinstance(result, BaseException):
                raise result
            votes.append(result)
        each = [
            self._repeated(votes[i * self.samples : (i + 1) * self.samples], engine.roles[judge].label)
            for i, judge in enumerate(self.judges)
        ]
        if len(self.judges) == 1:
            return [each[0][1]]
        own = [replace(score, metric=f"{name} [{label}]") for label, score in each]
        return [self._together(each, item, name), *own]

    def _repeated(self, votes: Sequence[Score], label: str) -> tuple[str, Score]:
        """One judge's score: the rule over its samples; `spread` is their standard deviation."""
        given = [vote.value for vote in votes if vote.value is not None]
        first = next((vote for vote in votes if vote.value is not None), votes[0])
        if self.samples == 1:
            return label, first
        replies = tuple(dict.fromkeys(key for vote in votes for key in vote.replies))
        parts = {**first.parts, **Samples(samples=[vote.value for vote in votes], spread=_spread(given))}
        if not given:
            return label, replace(first, replies=replies, parts=parts)
        value = combine(given, self.rule)
        if value is None:
            return label, replace(
                first, value=None, status=Status.UNPARSED, reason=_NO_MAJORITY, replies=replies, parts=parts
            )
        return label, replace(first, value=value, replies=replies, parts=parts)

    def _together(self, each: Sequence[tuple[str, Score]], item: Item, name: str) -> Score:
        given = [score.value for _, score in each if score.value is not None]
        votes = [
            Vote(judge=label, value=score.value, status=str(score.status), reason=score.reason) for label, score in each
        ]
        parts = PanelVotes(votes=votes, disagreement=max(given) - min(given) if given else None)
        replies = tuple(dict.fromkeys(key for _, score in each for key in score.replies))
        blank = Score(item.id, name, None, Status.FAILED, "", parts, replies, item.generator, item.prompt_id)
        if len(given) < self.quorum:
            status = Counter(score.status for _, score in each if score.value is None).most_common(1)[0][0]
            reason = f"no quorum: {len(given)} of {len(each)} judges answered, {self.quorum} are needed"
            return replace(blank, status=status, reason=reason)
        value = combine(given, self.rule)
        if value is None:
            return replace(blank, status=Status.UNPARSED, reason=_NO_MAJORITY)
        first = next(score for _, score in each if score.value is not None)
        shared = {key: first.parts[key] for key in ("description",) if key in first.parts}
        return replace(blank, value=value, status=first.status, reason=first.reason, parts={**shared, **parts})


_NO_MAJORITY = "no value has a majority of the votes"


def combine(values: Sequence[float], rule: str) -> float | None:
    """One value from votes: mean, median, or the value more than half agree on (None when there is none)."""
    if rule == "mean":
        return statistics.fmean(values)
    if rule == "median":
        return float(statistics.median(values))
    value, count = Counter(values).most_common(1)[0]
    return value if 2 * count > len(values) else None


def _spread(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None
