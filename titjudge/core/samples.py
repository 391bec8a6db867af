"""Sample numbers of repeated requests, with a range for each purpose.

The number is part of a reply's cache key (`titjudge.core.keys`): the same question with another number is asked again.
So that no two requests share a reply by accident, the numbers are assigned here:

    the k-th judgement of a run (`--samples`)    100 k + attempt; for the judge only, other roles are asked once
    the k-th repetition of a probe               100 k + attempt; for all roles
    the k-th round of canaries                   1,000,000 + 1,000 k + attempt; for all roles

A probe's repetitions thus share the judge's replies with a run that has as many samples.
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
    """One repetition of a request.

    Attributes:
        repeat: Number of the repetition of the whole judgement, from 0.
        attempt: Number of the attempt of the metric within it, from 0 (the `sample` that a metric passes to `ask`).
        purpose: Why it is repeated.
    """

    repeat: int = 0
    attempt: int = 0
    purpose: Purpose = Purpose.JUDGEMENT

    @property
    def number(self) -> int:
        """The sample number of the request.

        Raises:
            ValueError: It would be in the range of another repetition or purpose.
        """
        first, step = _FIRST_AND_STEP[self.purpose]
        if self.repeat and self.attempt >= step:
            raise ValueError(f"a repeated judgement has sample numbers for {step} attempts, not {self.attempt + 1}")
        number = first + step * self.repeat + self.attempt
        if self.repeat and self.purpose is not Purpose.CANARY and number >= _FIRST_AND_STEP[Purpose.CANARY][0]:
            raise ValueError(f"there are sample numbers for 10,000 repetitions, not {self.repeat + 1:,}")
        return number

    def repeats(self, role: str) -> bool:
        """Tell whether the requests to a role are repeated: in a run those to the judge, in probes and canaries all."""
        return role == "judge" or self.purpose is not Purpose.JUDGEMENT


ONCE = Sample()
