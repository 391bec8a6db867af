"""Numbers of repeated answers: one space of integers, shared out in this one place.

The number is part of an answer's key (`titjudge.core.keys`): the same question under another number is asked anew. So
that no two askings share an answer by accident, each purpose has numbers of its own:

    the k-th judgement of a run (`--samples`)    100 k + attempt; the judge's questions only, others are asked once
    the k-th repetition of a probe               100 k + attempt; all questions
    the k-th round of canaries                   1,000,000 + 1,000 k + attempt; all questions

A probe's repetitions thereby share the judge's answers with a run that samples it as often.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Purpose(StrEnum):
    """Why a question is asked again."""

    JUDGEMENT = "judgement"
    PROBE = "probe"
    CANARY = "canary"


_FIRST_AND_STEP = {Purpose.JUDGEMENT: (0, 100), Purpose.PROBE: (0, 100), Purpose.CANARY: (1_000_000, 1_000)}


@dataclass(frozen=True, slots=True)
class Sample:
    """One asking of a question.

    Args:
        repeat: which repetition of the whole judgement, from 0.
        attempt: which try of the metric within it, from 0 (the `sample` that a metric gives to `ask`).
        purpose: whose repetitions these are.
    """

    repeat: int = 0
    attempt: int = 0
    purpose: Purpose = Purpose.JUDGEMENT

    @property
    def number(self) -> int:
        """The sample number of the request.

        Raises:
            ValueError: it would be that of another repetition or purpose.
        """
        first, step = _FIRST_AND_STEP[self.purpose]
        if self.repeat and self.attempt >= step:
            raise ValueError(f"a repeated judgement has sample numbers for {step} attempts, not {self.attempt + 1}")
        number = first + step * self.repeat + self.attempt
        if self.repeat and self.purpose is not Purpose.CANARY and number >= _FIRST_AND_STEP[Purpose.CANARY][0]:
            raise ValueError(f"there are sample numbers for 10,000 repetitions, not {self.repeat + 1:,}")
        return number

    def repeats(self, role: str) -> bool:
        """Tell whether the questions of a role are repeated: a run repeats its judge, probes and canaries everything."""
        return role == "judge" or self.purpose is not Purpose.JUDGEMENT


ONCE = Sample()
