"""manifest.json and results.json of a run folder as typed records.

Both are published as JSON schemas (docs/schemas). Within a version keys may be added, and a reader keeps those it does
not know; a new version is needed if a key is removed or changes its meaning.
"""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from titjudge.core.declarations import Declaration
from titjudge.core.errors import DataError, rule_of
from titjudge.core.files import open_regular, write_json
from titjudge.core.registry import first_metric
from titjudge.core.serialization import with_checksum
from titjudge.core.types import CONSTRUCTION, PEOPLE, InvalidItem, Item, Note, Pair, Table

SCHEMA_VERSION = 1
Interval = tuple[float, float]
"""A 95% confidence interval."""


class Record(BaseModel):
    """A JSON object of a file; unknown keys are kept."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    def to_json(self) -> dict[str, Any]:
        """Return the object as in the file, without keys that it does not have there."""
        return self.model_dump(mode="json", exclude_unset=True)

    def with_(self, **changes: Any) -> Self:
        """Copy it with some keys changed, and validate the copy."""
        return type(self).model_validate(self.to_json() | changes)

    def joined(self, *others: Self) -> Self:
        """Copy it with the keys that the others have."""
        return self.model_copy(
            update={name: getattr(other, name) for other in others for name in other.model_fields_set}
        )


class _File(Record):
    schema_version: int = Field(default=SCHEMA_VERSION, le=SCHEMA_VERSION)
    """Version of this format; a program that reads version 1 does not read a later one."""

    @classmethod
    def read(cls, file: Path, repair: str) -> Self:
        """Read a file.

        Args:
            file: Its path.
            repair: How to make the file again, as a sentence for the message when it is damaged.

        Raises:
            OSError: The file cannot be read.
            DataError: It is not a file, is damaged, or was written by a later version of titjudge.
        """
        try:
            with open_regular(file) as opened:
                return cls.model_validate_json(opened.read(), strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            if first["loc"] == ("schema_version",) and first["type"] == "less_than_equal":
                raise DataError(
                    f"a newer titjudge wrote it (format {first['input']}). Update titjudge", file
                ) from error
            key = ".".join(map(str, first["loc"]))
            where = f"{key}: " if key else ""
            raise DataError(f"damaged: {where}{rule_of(first)}. {repair}", file) from error

    def write(self, file: Path, *, sync: bool = True) -> None:
        """Write a file, whole or not at all; `sync` waits until the disk has it.

        Raises:
            OSError: It cannot be written; an existing file is unchanged.
        """
        write_json(file, self.to_json(), sync=sync)


class AnsweredRecord(Record):
    """Number of answers of one version of a model at one endpoint."""

    version: str = ""
    endpoint: str = ""
    answers: int = 0


class Tokens(Record):
    """Tokens that a role has used."""

    input: int = 0
    output: int = 0
    thinking: int = 0


class RoleRecord(Record):
    """The model of a role (captioner, judge, embedder, ...) and its counts."""

    model: str = ""
    """`provider/model` that was asked."""
    base_url: str = ""
    answered: list[AnsweredRecord] = []
    """The versions that answered, by endpoint."""
    asked: int = 0
    """Requests sent."""
    cached: int = 0
    """Answers from the cache, in the last session."""
    errors: int = 0
    trouble: str = ""
    """The last error, as long as no answer has come since."""
    unusable: int = 0
    spent: float = 0.0
    """USD."""
    unpriced: int = 0
    """Requests without a known price; their cost is not in `spent`."""
    not_sent: list[str] = []
    """Parameters that were wanted, and that the model does not take or its server has refused."""
    seconds: float = 0.0
    """Time spent waiting for answers, summed over requests."""
    tokens: Tokens = Tokens()

    def plus(self, other: RoleRecord) -> RoleRecord:
        """Add the counts of the same role in another session or part of the run; model and address are the other's."""
        answers: Counter[tuple[str, str]] = Counter()
        for record in (*self.answered, *other.answered):
            answers[record.version, record.endpoint] += record.answers
        return other.with_(
            answered=[{"version": v, "endpoint": e, "answers": n} for (v, e), n in sorted(answers.items())],
            asked=self.asked + other.asked,
            cached=self.cached + other.cached,
            errors=self.errors + other.errors,
            unusable=self.unusable + other.unusable,
            spent=round(self.spent + other.spent, 6),
            unpriced=self.unpriced + other.unpriced,
            not_sent=sorted({*self.not_sent, *other.not_sent}),
            seconds=round(self.seconds + other.seconds, 3),
            tokens={name: getattr(self.tokens, name) + getattr(other.tokens, name) for name in Tokens.model_fields},
        )


class MetricRecord(Record):
    """A metric, as it was during the run."""

    version: str = ""
    range: tuple[float | None, float | None] | None = None
    """Lowest and highest value; null for an open end."""
    source: str = ""
    """The paper or code that it follows."""
    higher_is_better: bool | None = None
    options: dict[str, Any] = {}

    @property
    def limits(self) -> tuple[float, float] | None:
        """Lowest and highest value of a metric that has both."""
        if self.range is None or self.range[0] is None or self.range[1] is None:
            return None
        return self.range[0], self.range[1]


class SuiteRecord(Record):
    name: str = ""
    version: str = ""
    deviations: list[str] = []
    """Deviations of the suite from its source."""


class ProgressRecord(Record):
    """The progress of a run."""

    total: int | None = None
    """Number of items, including invalid ones."""
    done: int = 0
    resumed: int = 0
    """Items of `done` that earlier sessions have judged."""
    scored: int = 0
    """Scores with a value."""
    failed: int = 0
    """Scores without one."""
    answers: int = 0
    """Questions that the last session has had answered, by a model or the cache."""
    expected: int | None = None
    """Answers that it is likely to get in all; None if unknown."""
    waits: list[str] = Field(default_factory=list)
    """Reasons why questions and texts wait, one line each."""


class MergedRecord(Record):
    """A run that was merged into this one."""

    run: str = ""
    shard: str | None = None
    status: str | None = None


class CanaryRecord(Record):
    """The result of the canaries: frozen questions, asked before a run, that show whether a model has changed."""

    state: str = ""
    """`frozen`, `same`, `drift` or `incomplete`."""
    asked: int = 0
    flips: list[dict[str, Any]] = []
    """Questions whose answer has changed since they were frozen."""
    own_flip_rate: float | None = None
    """Share of flips between the rounds in which they were frozen."""
    p_value: float | None = None
    """Probability that a model which has not changed flips as often."""
    versions: dict[str, dict[str, list[str]]] = {}
    backends: dict[str, list[str]] = {}
    effect: float | None = None
    """Mean change of the values, in units of the metric."""
    file: str = ""
    fingerprint: str = ""
    why: str = ""


class Manifest(_File):
    """manifest.json: the configuration, the models and the progress of a run."""

    kind: str = "judge"
    """`judge`, `probe` for a run that tested a judge, `serve` for the rewards of a training, or `python` for a `Judge`."""
    titjudge: str = ""
    """Version of titjudge that wrote it."""
    identity: dict[str, Any] = {}
    """The keys of run.yaml on which the scores depend; a run is resumed only with the same ones."""
    limits: dict[str, Any] = {}
    """The limits of the last session, as in run.yaml."""
    protocol: str = ""
    metrics: dict[str, MetricRecord] = {}
    prompts: dict[str, str] = {}
    """SHA-256 of every prompt template that was used."""
    roles: dict[str, RoleRecord] = {}
    pins: dict[str, str] = {}
    """Identity of the models that ran on this machine: weights, program, embedder."""
    recordings: dict[str, str] = {}
    """SHA-256 of the files of recorded answers."""
    suite: SuiteRecord = SuiteRecord()
    status: str = "unknown"
    """`running`, `complete`, `incomplete: WHY` or `failed: WHY`."""
    started: float | None = None
    """Unix time at which the last session began."""
    updated: float | None = None
    """Unix time at which this file was written."""
    progress: ProgressRecord | None = None
    spent: float | None = None
    """USD; null if no price is known."""
    unpriced: int = 0
    """Requests without a known price; their cost is in no sum."""
    list_cost: float | None = None
    """USD that all answers used cost at list price, including those from the cache."""
    uncertain: float | None = None
    """USD that requests without an answer may have cost in addition."""
    mixed: list[Note] = []
    """Models that answered instead of the requested ones, in words."""
    canary: CanaryRecord | None = None
    merged: list[MergedRecord] | None = None
    """The runs that this one was merged from."""
    seal: str = ""
    """First 16 hexadecimal digits of the SHA-256 over the other keys, sorted."""

    @property
    def incomplete(self) -> bool:
        """Whether images are not judged yet: the run goes on, was stopped or failed."""
        return self.status not in ("complete", "settled", "unknown")

    @property
    def lacking(self) -> str:
        """Why not all images of the data are judged: the status, or the shard that the run is; empty if they are."""
        shard, why = self.identity.get("shard"), self.status.removeprefix("incomplete: ")
        if self.incomplete:
            return "stopped, or not finished yet" if why == "running" else why
        return f"shard {shard}" if shard else ""

    def write(self, file: Path, *, sync: bool = True) -> None:
        """Write a file as `Results` do, with its checksum."""
        write_json(file, with_checksum(self.to_json()), sync=sync)


def stopped_by(status: str) -> str:
    """Return the cause that stopped a run, by its status: `budget`, `interrupted`, `disk` or `shard`; empty if it is not incomplete."""
    kind, _, why = status.partition(": ")
    return why.partition(" ")[0] if kind == "incomplete" else ""


class _Statistics(Record):
    """Statistics of one metric. An undefined one is null, and `reasons` gives the reason."""

    reasons: dict[str, str] = {}


class MeanScore(_Statistics):
    """The mean score over prompts and generators, and how many images have one."""

    mean: float | None = None
    images: int | None = None
    """Images to which the metric applies."""
    scored: int | None = None
    """Images with a score."""
    coverage: float | None = None
    higher_is_better: bool | None = None


class PairAgreement(_Statistics):
    """Agreement with people over human pairs."""

    accuracy: float | None = None
    """Share of the human pairs with a preference that the metric orders the same way; a predicted tie is wrong."""
    accuracy_interval: Interval | None = None
    tie_rate: float | None = None
    half_credit_accuracy: float | None = None
    half_credit_interval: Interval | None = None
    pairs: int | None = None
    pairs_scored: int | None = None
    pair_coverage: float | None = None
    human_ties: int | None = None
    correct: int | None = None
    wrong: int | None = None
    ties: int | None = None
    threshold_05: int | None = None
    """Number of correct pairs that guessing reaches with probability 0.05."""
    threshold_001: int | None = None
    p_value: float | None = None
    """Probability of as many correct pairs by guessing, one-sided."""
    paper_threshold_05: int | None = None
    paper_threshold_001: int | None = None


class TieAgreement(_Statistics):
    """Accuracy over human pairs with an optimised threshold for ties."""

    tie_optimised_accuracy: float | None = None
    tie_epsilon: float | None = None


class PromptAgreement(_Statistics):
    """Agreement with people on the order of the images of a prompt, averaged over prompts."""

    srcc: float | None = None
    srcc_interval: Interval | None = None
    srcc_prompts: int | None = None
    krcc: float | None = None
    krcc_interval: Interval | None = None
    krcc_prompts: int | None = None
    ndcg: float | None = None
    ndcg_interval: Interval | None = None
    ndcg_prompts: int | None = None
    ndcg_gain: str = ""
    ndcg_ties: str = ""
    ndcg_chance: float | None = None
    """nDCG that a random order of the same images is expected to reach."""
    ndcg_paper_fit: float | None = None
    """nDCG with another gain: a fit to the values of the TIT-Score paper's Table 2, which names no gain."""
    ndcg_paper_fit_interval: Interval | None = None
    ndcg_paper_fit_chance: float | None = None
    """The same of a random order."""
    ndcg_paper_fit_gain: str = ""
    prompts: int | None = None


class PeopleAgreement(PromptAgreement, TieAgreement, PairAgreement):
    """All agreement with people over one set of pairs."""


class MetricResult(PeopleAgreement, MeanScore):
    """All results of one metric."""

    ranks_images: bool = True
    """False if, on these data, the score marks the judge and not the image."""
    common: PeopleAgreement | None = None
    """The agreement over the images that all compared metrics have scored, if they have scored different images."""


class _RankRange(Record):
    rank_low: int | None = None
    """The best rank that the tests leave open; null if the generator is not compared."""
    rank_high: int | None = None
    """The worst rank that the tests leave open."""

    @property
    def ranks(self) -> tuple[int, int] | None:
        """Both ranks; None if the generator is not compared."""
        return None if self.rank_low is None or self.rank_high is None else (self.rank_low, self.rank_high)

    def ranked(self, ranks: tuple[int, int] | None) -> Self:
        """Copy it with both ranks; with None it has none."""
        return self if ranks is None else self.model_copy(update={"rank_low": ranks[0], "rank_high": ranks[1]})


class PlaceRecord(_RankRange):
    """The place of a generator by one metric, or by people."""

    rank: int | None = None
    mean_rank: float | None = None
    """Mean rank over the prompts with several generators; 1 is best."""
    mean_rank_interval: Interval | None = None
    mean: float | None = None
    interval: Interval | None = None
    coverage: float | None = None
    images: int | None = None
    scored: int | None = None
    prompts: int | None = None
    spread: float | None = None
    """Standard deviation of the images of one prompt, if some have several."""
    first_places: int | None = None
    """Of people: prompts on which no generator has a better rank, if people's ranks are given."""


class StandingRecord(Record):
    """One generator of the leaderboard."""

    generator: str = ""
    metrics: dict[str, PlaceRecord] = {}
    human: PlaceRecord | None = None


class GeneratorStrength(Record):
    """Log strength of a generator, mean 0 over generators: a lead of d means e^d wins for each loss."""

    generator: str = ""
    strength: float
    interval: tuple[float | None, float | None] | None = None
    """95%, by resampling prompts; null for an infinite end."""


class BradleyTerryRecord(Record):
    """Strengths of generators by the Bradley-Terry model with ties, strongest first."""

    generators: list[GeneratorStrength] = []
    """Empty, with a `reason`, if there is no finite fit on all pairs."""
    tie: float | None = None
    """Weight t of ties (0: none occur; null: only ties): P(tie) = 2t sqrt(pq) / (p + q + 2t sqrt(pq)) for strengths p, q on
    the exponential scale."""
    pairs: int = 0
    """Pairs of two different generators."""
    resamples: int = 0
    """Resamples with a finite fit."""
    degenerate: int = 0
    """Resamples without one: who never loses to the rest is infinitely strong there, who never wins infinitely weak."""
    reason: str = ""


class PairRecord(Record):
    """A human preference between two images of a prompt."""

    prompt_id: str = ""
    a: str
    b: str
    preference: str
    both_bad: bool = False
    """The tie is one of two bad images."""
    ranks: tuple[float, float] | None = None
    """The ranks that people gave to `a` and `b` among the images of the prompt, if the preference comes from them; 1 is best."""
    family: str = ""
    """The family of the prompt, whose prompts are one unit of all statistics."""
    annotator: str = ""
    """The only person who made the choice, if known."""

    @classmethod
    def of_pair(cls, pair: Pair) -> Self:
        """Record a pair, without fields that it does not have."""
        marks = {name: value for name in ("both_bad", "ranks", "family", "annotator") if (value := getattr(pair, name))}
        record = cls(prompt_id=pair.prompt_id, a=pair.a, b=pair.b, preference=pair.preference)
        return record.model_copy(update=marks) if marks else record


class PopulationRecord(Record):
    """The basis of a table of a run, if scores are missing or prompts are in families."""

    sizes: dict[str, list[int]] = {}
    """Number of units of each population, by its id, or the lowest and the highest; of images for each metric in order."""
    excluded: dict[str, dict[str, list[str]]] = {}
    """Ids of things that are not counted, by reason and by kind."""
    families: bool = False
    """Whether families of prompts are the unit."""
    doubts: dict[str, str] = {}
    """Why the level of a row is not reliable, by its name: `few_units`, `few_people`, `disagree`, `one_score` or `coarse`."""


class TableRecord(Record):
    title: str = ""
    columns: list[str] = []
    rows: list[list[Any]] = []
    notes: list[Note] = []
    keys: list[str] = []
    """Stable names of the columns; empty if these are their titles."""
    id: str = ""
    population: str = ""
    """The id of what its numbers are over (docs/reference/populations.md)."""
    unit: str = ""
    by_column: dict[str, str] = {}
    sizes: dict[str, list[int]] = {}
    excluded: dict[str, dict[str, list[str]]] = {}
    constructed: bool = False
    """Whether the preferences come from how the images were made."""

    @classmethod
    def of_table(cls, table: Table) -> Self:
        """Record a table; cells, and values of a suite of another package that are not JSON, become text."""
        rows = [
            [value if isinstance(value, str | int | float | None) else str(value) for value in row]
            for row in table.plain_rows
        ]
        record = cls(title=table.title, columns=list(table.columns), rows=rows, notes=list(table.all_notes))
        declared = asdict(table.sized)
        known = {
            name: str(value) if isinstance(value, str) else value for name in _DECLARED if (value := declared[name])
        }
        return record.model_copy(update=known | ({"keys": list(table.keys)} if table.keys else {}))

    def table(self) -> Table:
        """Return the table."""
        declared = Declaration(**{name: getattr(self, name) for name in _DECLARED})
        rows, keys = tuple(map(tuple, self.rows)), tuple(self.keys)
        return Table(self.title, tuple(self.columns), rows, tuple(self.notes), declared=declared, keys=keys)


_DECLARED = "id", "population", "unit", "by_column", "sizes", "excluded", "constructed"  # of a `Declaration`


class InvalidRecord(Record):
    """An input that could not be judged."""

    id: str = ""
    reason: str = ""


class FailureRecord(Record):
    """A score, or an input, without a value."""

    item: str = ""
    status: str = ""
    reason: str = ""
    cause: str = ""
    """`crowded`, `unanswered` or `rejected` if the status is `failed`; any other status is itself the cause."""


class CutRecord(Record):
    """Texts that a model truncated; lengths in tokens."""

    scores: int = 0
    read: int = 0
    longest: int = 0


class DescriptionsRecord(Record):
    """Lengths of the descriptions that a metric has read."""

    images: int = 0
    words: float = 0.0
    """The mean."""
    in_range: float = 0.0
    """Share, 0 to 1, of descriptions with 250 to 350 words, as the template asks (TIT-Score paper, A.4.1)."""


class QuestionsRecord(Record):
    """Questions about the images that have a score (`asked`), those without an answer, and the images with such."""

    asked: int = 0
    skipped: int = 0
    images: int = 0


class SettledPair(Record):
    """The verdict on two generators (`a`, `b`), or on several that raced for the best (`generators`)."""

    a: str = ""
    b: str = ""
    generators: list[str] = []
    left: list[str] = []
    """The generators of a race that no other has beaten."""
    verdict: str = ""
    """The better one, `equivalent` or `open`."""
    used: int = 0
    """Prompts that the verdict takes into account."""
    of: int = 0
    """Prompts that there are."""
    interval: Interval | None = None
    """Of the first mean minus the second, valid at every moment; null in a race."""
    method: str = ""
    """`betting`, or `asymptotic` on a scale without ends."""
    without_score: dict[str, int] = {}
    """By generator: prompts that were left out because its score is missing there."""
    reason: str = ""
    """Why the scores that are left out may decide."""

    @property
    def names(self) -> list[str]:
        """The generators that were compared."""
        return self.generators or [self.a, self.b]


class SettleRecord(Record):
    """Which generator is better, for a run that stopped as soon as that was decided."""

    metric: str = ""
    margin: float | None = None
    """Within it two generators count as equivalent."""
    pairs: list[SettledPair] = []
    images: int = 0
    """Images that were judged."""
    of_images: int = 0
    """Images that there are."""
    spent: float | None = None
    """USD; null if no price is known."""
    saved: float | None = None
    """USD that judging the remaining images would have cost, at list price."""


class JudgedExample(Record):
    """The image of one generator for a prompt of a verdict."""

    run: str = ""
    """Name of the run, in a verdict on several."""
    item: str = ""
    score: float | None = None
    reason: str = ""
    """The judge's reason; empty for a metric that gives none."""


class PromptExample(Record):
    """A prompt on which two generators differ most: `difference` is the score of the first minus the score of the second."""

    prompt_id: str = ""
    difference: float = 0.0
    first: JudgedExample = JudgedExample()
    second: JudgedExample = JudgedExample()


class WeakSpot(Record):
    """A category of prompts, or a kind of claim, in which one of two generators is shown to be the worse."""

    column: str = ""
    value: str = ""
    generator: str = ""
    """The worse one there."""
    behind: float = 0.0
    """By how much, in units of the score."""
    p: float | None = None
    """Adjusted by Benjamini and Hochberg over all categories."""
    prompts: int = 0


class WeakPart(Record):
    """The kind of claim, or the part of a score, in which a generator does worst."""

    column: str = ""
    value: str = ""
    generator: str = ""
    mean: float = 0.0
    """In units of the score; of claims the share that is met."""


class RankedGenerator(_RankRange):
    """A generator of a verdict."""

    generator: str = ""
    mean: float | None = None
    """Over one set of prompts (`stats.scores.population.adjusted_scores`); its separate mean if it is not compared."""
    prompts: int = 0
    tier: int | None = None
    """1 is best; a tier ends before the first that is clearly worse than its best. Null with too few prompts."""


class PromptsNeeded(Record):
    """How many prompts would show a difference between two generators, with a power of 80%."""

    difference: float
    prompts: int
    range: tuple[int, int]
    """The ranks that the prompts at hand leave open."""


class BetterGenerator(Record):
    """Which generator is better by one metric: the best (`first`) against the runner-up, or the baseline (`second`)."""

    metric: str = ""
    metric_range: tuple[float, float] | None = None
    """Ends of the scale of the scores; null if it has none."""
    higher_is_better: bool = True
    ranking: list[RankedGenerator] = []
    """The generators, best first; uncompared ones come last."""
    set_aside: dict[str, int] = {}
    """Generators that are not compared, with the number of prompts that each shares with the best one."""
    to_judge: list[str] = []
    """The prompts on which each of them, or a leader with missing scores, has no score, in words."""
    first: str = ""
    second: str = ""
    better: bool = False
    """Whether `first` is shown to be the better one."""
    difference: float | None = None
    """How much better the first is than the second: a positive number favours it, even if less is better."""
    interval: Interval | None = None
    """Of the difference, 95%; of three or more generators they are simultaneous."""
    p: float | None = None
    """By exchange within prompts; of three or more generators it allows for the best being chosen on these prompts."""
    prompts: int = 0
    """Prompts on which both have a score."""
    families: int | None = None
    """Families of these prompts, which are the unit of interval and p; null if each prompt is its only member."""
    images: tuple[int, int] | None = None
    """The smallest and the largest number of scored images of these prompts; null if all are equal."""
    wins: int = 0
    same: int = 0
    losses: int = 0
    detectable: float | None = None
    """The smallest difference that these prompts would have shown, with a power of 80%."""
    needed: PromptsNeeded | None = None
    """Present if there is no verdict."""
    weak: WeakSpot | None = None
    weakest: WeakPart | None = None
    won: list[PromptExample] = []
    """The prompts on which the first is furthest ahead."""
    lost: list[PromptExample] = []
    """The prompts on which it is furthest behind."""
    others: dict[str, str] = {}
    """Results of the other metrics of the run on the two: `same`, `opposite` or `open`."""
    reason: str = ""
    """Why there is no verdict, if the reason is not too few prompts."""
    doubt: str = ""
    """Why the level of the interval is not reliable: `few_units`, `disagree`, `one_score` or `coarse`; empty if it is."""

    @property
    def signed_means(self) -> dict[str, float | None]:
        """The mean of each generator, negated if less is better."""
        sign = 1 if self.higher_is_better else -1
        return {ranked.generator: None if ranked.mean is None else sign * ranked.mean for ranked in self.ranking}


class RankedJudge(Record):
    """How often a metric agrees with people."""

    metric: str = ""
    accuracy: float | None = None
    pairs: int = 0
    """Pairs that it has scored."""
    p: float | None = None
    """Probability of as much agreement by guessing, one-sided."""


class BestJudge(Record):
    """Which metric agrees best with people: the best (`first`) against the runner-up (`second`), on the pairs that both scored."""

    reference: str = PEOPLE
    """As in the results."""
    ranking: list[RankedJudge] = []
    """The metrics, best first."""
    first: str = ""
    second: str = ""
    better: bool = False
    """Whether `first` is shown to agree more often."""
    first_accuracy: float | None = None
    second_accuracy: float | None = None
    difference: float | None = None
    interval: Interval | None = None
    p: float | None = None
    """Of three or more metrics it allows for the best being chosen on these pairs."""
    pairs: int = 0
    """Pairs that both have scored."""
    level_with: list[str] = []
    """The metrics that cannot be distinguished from the first."""


class Verdict(Record):
    """The main result: the better generator, and with human pairs the metric that can be trusted."""

    runs: list[str] = []
    """Names of the runs, if there are several."""
    apart: list[str] = []
    """Why their generators are not compared with each other."""
    generators: BetterGenerator | None = None
    judges: BestJudge | None = None


class Results(_File):
    """results.json: the results of a run, as `judge --json` prints them."""

    status: str = ""
    spent: float | None = None
    """USD; null if no price is known."""
    unpriced: int = 0
    """Requests without a known price; their cost is in no sum."""
    list_cost: float | None = None
    items: int | None = None
    bad_items: list[InvalidRecord] = []
    failures: list[FailureRecord] = []
    metrics: dict[str, MetricResult] = {}
    leaderboard: list[StandingRecord] = []
    leaderboard_srcc: dict[str, float | None] = {}
    """Rank correlation of the generators under a metric with their order under people."""
    bradley_terry: dict[str, BradleyTerryRecord] = {}
    pairs: list[PairRecord] | None = None
    """The human pairs with which the metrics were compared."""
    reference: str = PEOPLE
    """The source of the preferences: `people` or `construction`."""
    cut: dict[str, CutRecord] = {}
    descriptions: dict[str, DescriptionsRecord] = {}
    questions: dict[str, QuestionsRecord] = {}
    """Questions behind the scores of each metric that is made of such; facets of `checklist`."""
    not_applicable: dict[str, int] = {}
    """Number of images to which each metric does not apply."""
    populations: dict[str, PopulationRecord] = {}
    """By id of a table."""
    intervals: str = ""
    """The id of the method of the intervals."""
    per_prompt: str = "mean"
    """How several images of a prompt became one score in the leaderboard."""
    tables: list[TableRecord] = []
    notes: list[Note] = []
    explained: int = 0
    """How many of the first notes explain columns."""
    warnings: list[Note] = []
    settle: SettleRecord | None = None
    verdict: Verdict | None = None
    """Null if the run has no tables yet: reports compute it."""
    saved: float | None = None
    """USD that judging the remaining images would have cost."""

    @property
    def unscored(self) -> set[str]:
        """The metrics without a score of any image."""
        return {name for name, result in self.metrics.items() if result.scored == 0}

    @property
    def covered(self) -> tuple[str, int, int] | None:
        """The coverage of the run: the metric that decides, the images that it scored, and all images; None if unknown."""
        counted = [name for name, result in self.metrics.items() if result.images and result.scored is not None]
        decides = self.verdict.generators.metric if self.verdict and self.verdict.generators else ""
        if decides not in counted:
            decides = first_metric(counted) if counted else ""
        result = self.metrics.get(decides)
        return (decides, result.scored or 0, result.images or 0) if result else None

    @property
    def constructed(self) -> bool:
        """Whether the preferences come from how the images were made."""
        return self.reference == CONSTRUCTION

    @property
    def human_pairs(self) -> list[Pair]:
        """The pairs in the form that statistics take."""
        source = CONSTRUCTION if self.constructed else ""
        return [
            Pair(
                pair.prompt_id,
                pair.a,
                pair.b,
                pair.preference,
                source,
                pair.both_bad,
                pair.ranks,
                pair.family,
                pair.annotator,
            )
            for pair in self.pairs or ()
        ]


def joined_pairs(runs: Iterable[Results]) -> list[Pair]:
    """Return the human pairs of several runs, each as often as the run has it that has it most often."""
    counts: Counter[Pair] = Counter()
    for results in runs:
        counts |= Counter(results.human_pairs)
    return list(counts.elements())


class StoredRun(Protocol):
    """A run folder, for reports. Its methods raise DataError if the folder is not a run, or is damaged."""

    path: Path

    def manifest(self) -> Manifest: ...

    def results(self) -> Results: ...

    def items(self) -> Iterable[Item | InvalidItem]: ...

    def located(self, name: str) -> Iterable[tuple[int, dict[str, Any]]]:
        """Read the records of a JSONL file, each with the offset at which a `JsonlReader` reads it again."""
        ...

    def source_stats(self) -> dict[str, Any]: ...
    def stats(self) -> dict[str, Any]: ...


def is_locked(run: Path) -> bool:
    """Return True if a process is writing to a run folder, by trying to take a shared lock on it."""
    try:
        lock = os.open(run / ".lock", os.O_RDONLY | os.O_NONBLOCK)  # a pipe would wait for a writer
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(lock)
