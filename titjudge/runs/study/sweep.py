"""Run every combination of captioners, embedders, judges and prompts, and compare them in one table.

    data: my_images
    captioners: [openai/gpt-6-luna, gemini/gemini-3.8-flash]
    judges: [openai/gpt-6-luna, gemini/gemini-3.8-flash]
    metrics: [tit, tit-llm]
    limits: {max_cost: 20}

All combinations share one cache (a second judge asks no captioner anything) and one cap (each gets what the others have
left). Every combination has a separate run folder, so that a sweep can be resumed.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import orjson

from titjudge.core.config import RoleConfig, RunConfig, load_config
from titjudge.core.declarations import FACTS, Declaration, Excluded, Exclusion, Population, Unit
from titjudge.core.errors import ConfigError, FatalProviderError, UserError, must_be, not_combined
from titjudge.core.files import read_yaml, write_atomic
from titjudge.core.numbers import known_sum, sum_words
from titjudge.core.run_records import DescriptionsRecord, MetricResult, PeopleAgreement, joined_pairs, stopped_by
from titjudge.core.tables import Cell, CellFormat, Table, Value, dollars, p_value, percent, plain
from titjudge.core.types import Note, Pair, Score, Status
from titjudge.engine.forecast import Forecast
from titjudge.metrics import Metric
from titjudge.runs.folder.identity import without_credentials
from titjudge.runs.folder.run_folder import FolderLock, RunFolder, rest_of_caps
from titjudge.runs.outcome import Outcome
from titjudge.runs.resolve import ResolvedRun
from titjudge.runs.session import Session, Watcher
from titjudge.stats.pairwise_accuracy import Values
from titjudge.stats.people.agreement_tables import (
    AGREEMENT_IN_COMMON,
    chance_level,
    description_words,
    own_accuracy,
)
from titjudge.stats.ranking.rank_agreement import GAIN, PAPER_FIT_GAIN
from titjudge.stats.verdict.judged_runs import whole_frame

SWEEP = Declaration(
    "sweep", "agreement of each judge with {people}", Population.COMMON_PAIRS, Unit.PROMPT, order="accuracy, best first",
    correction="p of below best, over all compared rows",
    by_column={**AGREEMENT_IN_COMMON.by_column, "refusals": Population.ALL_IMAGES}
    | dict.fromkeys(("price", "seconds"), Population.ANSWERS),
)  # fmt: skip

MATRIX = Declaration(
    "sweep_matrix", "accuracy by captioner and way of judging", Population.COMMON_PAIRS, Unit.PROMPT, order="name"
)

_EXPLANATION = (
    Note(
        "about_sweep_accuracy",
        "Accuracy: with its 95% interval, on the pairs that all compared judges have scored; own accuracy: on all pairs of the judge. Chance threshold: the accuracy that scores without skill reach one time in twenty; p: how often "
        "they reach this one.",
    ),
    Note(
        "about_below_best",
        "Below best: the paired difference in accuracy over the same pairs; its p is for the largest difference of as many rows that are "
        "exchanged within prompts (the best was chosen on these pairs).",
    ),
    Note(
        "about_costs",
        "USD: list price of the answers used, cached or not, of 1,000 images; s: the models' own seconds for them, one after the other.",
    ),
    Note("about_sweep_ndcg", f"nDCG: {GAIN}; paper fit: nDCG with {PAPER_FIT_GAIN}; chance: a random order."),
)
DIMENSIONS = {"captioners": "captioner", "embedders": "embedder", "judges": "judge", "prompts": "prompts"}


@dataclass(frozen=True, slots=True)
class Combination:
    """One run of a sweep: its number, its name and its configuration.

    Attributes:
        number: Its place in the sweep, from 1.
        slug: Its models and prompts, as a name for files.
        config: Its configuration.
    """

    number: int
    slug: str
    config: RunConfig

    @property
    def folder(self) -> str:
        return f"{self.number:02d}-{self.slug}"


PAGE = "sweep.html"
_SECONDARY = tuple("description_words fit_chance fit ndcg_chance ndcg krcc srcc ties coverage refusals seconds".split())
_TITLES = {  # by key, where they differ
    "own_accuracy": "own accuracy", "threshold": "chance threshold", "below": "below best", "price": "USD per 1,000",
    "seconds": "s per 1,000", "srcc": "SRCC", "krcc": "KRCC", "ndcg": "nDCG", "ndcg_chance": "nDCG chance",
    "fit": "paper fit", "fit_chance": "paper fit chance",
    "description_words": "description words",
}  # fmt: skip
_OF_PAIRS = tuple(
    (
        "accuracy accuracy_interval p_value srcc krcc ndcg ndcg_chance ndcg_paper_fit ndcg_paper_fit_chance "
        "tie_rate pairs_scored"
    ).split()
)
_KEPT = (*_OF_PAIRS[:-1], "coverage", "pairs")


@dataclass(slots=True)
class Row:
    """A metric with the models it used.

    Attributes:
        metric: The metric.
        models: The model of each role; empty if the metric asks none.
        run: The folder of the run, below the folder of the sweep.
        numbers: The results of the metric.
        price: List price in USD of 1,000 scores; None if a price is unknown.
        seconds: Time in seconds that the models took for 1,000 scores.
        refusals: Number of scores that were refused.
        values: The scores by item id; more is better.
        common: The agreement over the images that all compared rows scored; None if all scored the same, or the row is
            not compared.
        unscored: The pairs of which it has no score of both images.
        below: The best row's accuracy minus this row's, on these common pairs; None for rows that are not compared.
        p_adjusted: The p-value of that difference (`stats.generators.paired_differences.below_the_best`).
        descriptions: The lengths of the descriptions that it read; None if it reads none.
    """

    metric: str
    models: Mapping[str, ModelLabel]
    run: str
    numbers: MetricResult
    price: float | None
    seconds: float | None
    refusals: int
    values: Values = field(repr=False, default_factory=dict)
    common: PeopleAgreement | None = None
    unscored: list[str] = field(default_factory=list)
    below: float | None = None
    p_adjusted: float | None = None
    descriptions: DescriptionsRecord | None = None

    def compared(self, *, in_common: bool) -> PeopleAgreement:
        """Return the agreement to compare with other rows; with `in_common`, over the images that all have scored."""
        return (self.common or PeopleAgreement()) if in_common else self.numbers

    @property
    def name(self) -> str:
        used = ", ".join(f"{role} {model}" for role, model in self.models.items() if model)
        return f"{self.metric} ({used})" if used else self.metric

    def to_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            **self.models,
            "run": self.run,
            **{name: getattr(self.numbers, name) for name in _KEPT},
            "list_cost_per_1000": self.price,
            "seconds_per_1000": self.seconds,
            "refusals": self.refusals,
            **({"descriptions": self.descriptions.to_json()} if self.descriptions else {}),
            **({"common": {name: getattr(self.common, name) for name in _OF_PAIRS}} if self.common else {}),
            "below_best": self.below,
            "p_adjusted": self.p_adjusted,
        }


@dataclass(slots=True)
class Swept:
    """The results of a sweep.

    Attributes:
        folder: The folder of the sweep.
        rows: A row for each metric and combination of models, the best first.
        outcomes: The outcome of each combination, by folder.
        failed: Why a combination stopped at a wrong key, model or quota, by folder.
        spent: USD spent by all combinations.
        status: How the sweep ended.
        unpriced: Requests without a known price; their cost is not in `spent`.
        families: Whether families of prompts are the unit.
    """

    folder: Path
    rows: list[Row]
    outcomes: dict[str, Outcome]
    failed: dict[str, str]
    spent: float
    status: str
    unpriced: int = 0
    families: bool = False

    @property
    def _uneven(self) -> bool:
        """Whether the rows have scored different images, so that they are compared over the common ones."""
        return any(row.common for row in self.rows)

    def _over(self, declaration: Declaration) -> Declaration:
        aside = [row.name for row in self.rows if self._uneven and row.common is None]
        shown = [row.common if self._uneven else row.numbers for row in self.rows]
        sizes = {
            Population.COMMON_PAIRS: [found.pairs_scored or 0 for found in shown if found],
            Population.OWN_PAIRS: [row.numbers.pairs_scored or 0 for row in self.rows],
        }
        no_score = {row.name: row.unscored for row in self.rows if row.unscored}
        excluded: Excluded = {Exclusion.NO_SCORE: no_score, Exclusion.FEW_PAIRS: {name: [] for name in aside}}
        constructed = any(outcome.results.constructed for outcome in self.outcomes.values())
        return declaration.over(sizes, excluded, families=self.families, constructed=constructed)

    def table(self) -> Table:
        notes = []
        rows = [_cells(row, own=self._uneven) for row in self.rows]
        for role in ("captioner", "embedder", "judge", "prompts"):
            rows, shared = _without_shared_model(rows, role)
            notes += [Note("shared_model", f"every {role}: {shared}")] if shared else []
        notes += (Note("combination_failed", f"{name} failed: {reason}") for name, reason in self.failed.items())
        keys, values = tuple(rows[0]) if rows else (), tuple(tuple(cells.values()) for cells in rows)
        return Table(
            "Sweep",
            tuple(_TITLES.get(key, key) for key in keys),
            values,
            tuple(notes),
            explanation=_EXPLANATION,
            secondary=_SECONDARY,
            estimates=True,
            declared=self._over(SWEEP),
            keys=keys,
        )

    def matrix(self) -> list[Table]:
        """Tabulate the accuracy by captioner and way of judging (TIT-Score paper, Table 4); no table for fewer than two of either."""
        rows = [row for row in self.rows if row.models["captioner"]]
        captioners = sorted({row.models["captioner"] for row in rows})
        ways: dict[str, dict[str, Row]] = {}
        for row in rows:
            ways.setdefault(self._way(row), {})[row.models["captioner"]] = row
        if len(captioners) < 2 or len(ways) < 2:
            return []

        def cell(row: Row | None) -> Value:
            return row and percent(row.compared(in_common=self._uneven).accuracy)

        cells = tuple((captioner, *(cell(ways[way].get(captioner)) for way in ways)) for captioner in captioners)
        declared = self._over(MATRIX)
        return [Table("Accuracy by captioner", ("captioner", *ways), cells, estimates=True, declared=declared)]

    def _way(self, row: Row) -> str:
        """Name the metric of a row, with its other models that the sweep varies."""
        same = [other for other in self.rows if other.metric == row.metric]
        roles = [role for role in row.models if role != "captioner" and len({other.models[role] for other in same}) > 1]
        return " ".join([row.metric, *(f"({row.models[role]})" for role in roles)])

    def write_page(self) -> Path:
        """Write the table as a page, with the runs below it; returns its place."""
        from titjudge.report.html import write_page

        spent = sum_words(self.spent, self.unpriced, f"${self.spent:.4f}")
        runs = [(name, outcome.status) for name, outcome in self.outcomes.items()]
        table = Table(
            "Runs", ("folder", "status"), tuple(runs + [(name, "failed") for name in self.failed]), declared=FACTS
        )
        lines = [f"{self.status}; spent {spent}. Each run has a report in its folder."]
        swept = self.table()
        named = swept.keys[: swept.keys.index("accuracy")]
        first = [key for key in swept.keys if key not in _SECONDARY]
        more = [key for key in swept.keys if key in _SECONDARY]
        tables = [_part(swept, first)]
        tables += self.matrix()
        for title, keys in (("Time, coverage and ties", more[:4]), ("Order within prompts", more[4:])):
            tables.append(replace(_part(swept, [*named, *keys]), title=title, explanation=(), notes=()))
        write_page(f"Sweep {self.folder.resolve().name}", lines, [], [*tables, table], self.folder / PAGE)
        return self.folder / PAGE

    def to_json(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "spent": known_sum(self.spent, self.unpriced),
            **({"unpriced": self.unpriced} if self.unpriced else {}),
            "rows": [row.to_json() for row in self.rows],
            "runs": {name: outcome.status for name, outcome in self.outcomes.items()},
            "failed": self.failed,
        }


class Sweep:
    """The combinations of a sweep file.

    Args:
        file: A run.yaml with lists under `captioners`, `embedders`, `judges` and `prompts` (a list element may be anything
            the single key takes; a judge may be a list, which is a panel; `default` under prompts is the bundled ones).
        out: The folder for the run folders; by default the file's `out`, otherwise `runs/<name of the file>`.
        overrides: Keys that replace keys of the file.

    Raises:
        ConfigError: The file is malformed, or names both a list and the single key.
    """

    def __init__(self, file: Path, out: Path | None = None, overrides: Mapping[str, Any] | None = None) -> None:
        content = read_yaml(file, "a sweep")
        if not content:
            raise ConfigError(f"{file}: the file is empty. Write the keys of a sweep")
        lists = {name: content.pop(name) for name in DIMENSIONS if isinstance(content.get(name), list)}
        for name in lists:
            single = DIMENSIONS[name]
            if single != name and single in content:
                raise ConfigError(f"{file}: {not_combined(f'{name!r}', f'{single!r}')}")
            if not lists[name]:
                raise ConfigError(f"{file}: '{name}' is an empty list. Add a value")
        base = {**content, **{k: v for k, v in (overrides or {}).items() if v is not None}}
        limits = content.get("limits") or {}
        if isinstance(limits, dict):  # otherwise `load_config` refuses it
            base["limits"] = {**limits, **((overrides or {}).get("limits") or {})}
        named = base.pop("out", None) or Path("runs") / file.stem
        if not isinstance(named, str | Path):
            raise ConfigError(f"{file}: 'out': {must_be('the value', 'a folder', named)}")
        self.folder = out or Path(named)
        self.combinations = list(_combinations(base, lists, self.folder, file))
        self.limits = self.combinations[0].config.limits

    def dry_run(self) -> list[tuple[Combination, Forecast]]:
        """Estimate the price of every combination; shared questions are counted in each."""
        return [(combination, Session(combination.config).dry_run()) for combination in self.combinations]

    def run(self, watcher: Callable[[RunConfig], Watcher] | None = None, say: Callable[[str], None] = print) -> Swept:
        """Judge every combination, one after the other.

        A combination that stops at a wrong key, model or quota does not stop the others; an interruption does.

        Raises:
            FatalProviderError, UserError: Every combination failed; the error of the last one. Or another process is
                writing there.
            CacheWriteError: The folder was moved, replaced or removed.
        """
        with contextlib.closing(FolderLock(self.folder)) as lock:
            return self._run(lock, watcher, say)

    def _run(
        self, lock: FolderLock, watcher: Callable[[RunConfig], Watcher] | None, say: Callable[[str], None]
    ) -> Swept:
        outcomes: dict[str, Outcome] = {}
        runs: dict[str, ResolvedRun] = {}
        failed: dict[str, str] = {}
        status = "complete"
        for combination in self.combinations:
            lock.check_round()
            config = self._with_rest_of_cap(combination)
            say(f"{combination.number} of {len(self.combinations)}: {combination.folder}")
            session = None
            try:
                session = Session(config)
                outcome = session.run(watcher(config) if watcher else None)
            except (FatalProviderError, UserError) as error:
                failed[combination.folder] = str(error)
                if len(failed) == len(self.combinations):
                    raise
            else:
                outcomes[combination.folder], runs[combination.folder] = outcome, session.resolved
                if outcome.status != "complete":
                    status = outcome.status
                if stopped_by(outcome.status) == "disk":
                    break
            if session and session.interrupted:
                if combination is not self.combinations[-1]:
                    status = "incomplete: interrupted"
                break
        lock.check_round()
        if failed and status == "complete":
            status = f"incomplete: {len(failed)} of {len(self.combinations)} combinations failed"
        return self._finish(outcomes, runs, failed, status)

    def _finish(
        self, outcomes: dict[str, Outcome], runs: Mapping[str, ResolvedRun], failed: dict[str, str], status: str
    ) -> Swept:
        rows: dict[tuple[Any, ...], Row] = {}
        for folder, outcome in outcomes.items():
            for row in _rows_of(folder, runs[folder], outcome):
                rows.setdefault((row.metric, *row.models.values()), row)  # one row for the same models
        pairs = joined_pairs(RunFolder(outcome.folder).results() for outcome in outcomes.values())
        ranked = _ranked(list(rows.values()), pairs)
        sums = [RunFolder(self.folder / combination.folder).money() for combination in self.combinations]
        spent, unpriced = sum(money.spent for money in sums), sum(money.unpriced for money in sums)
        swept = Swept(self.folder, ranked, outcomes, failed, spent, status, unpriced, any(p.family for p in pairs))
        if outcomes:
            text = orjson.dumps(swept.to_json(), option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY)
            write_atomic(self.folder / "sweep.json", text, sync=True)
            swept.write_page()
        return swept

    def _with_rest_of_cap(self, combination: Combination) -> RunConfig:
        """Lower the caps of a combination by the use of the others."""
        others = [self.folder / other.folder for other in self.combinations if other is not combination]
        config = combination.config
        return config.model_copy(update={"limits": rest_of_caps(config.limits, others)})


def _combinations(
    base: dict[str, Any], lists: Mapping[str, list[Any]], folder: Path, file: Path
) -> Iterator[Combination]:
    names = [DIMENSIONS[name] for name in lists]
    for number, values in enumerate(product(*lists.values()), 1):
        choices = dict(zip(names, values, strict=True))
        slug = "-".join(filter(None, map(_slug, values))) or "run"
        if choices.get("prompts") in ("default", None):
            choices.pop("prompts", None)
        settings = {**base, **choices, "out": str(folder / f"{number:02d}-{slug[:80]}")}
        try:
            config = load_config(None, settings)
        except ConfigError as error:
            raise ConfigError(f"{file}: combination {number} ({slug}): {error}") from error
        yield Combination(number, slug[:80], config)


def _slug(value: Any) -> str:
    """Make a short name, fit for a folder, of a model, a panel or a folder."""
    if isinstance(value, list):
        return "+".join(map(_slug, value))
    if isinstance(value, dict):
        value = value.get("model", "")
    return re.sub(r"[^A-Za-z0-9.]+", "-", str(value).rstrip("/").rpartition("/")[2]).strip("-.").lower()


def _rows_of(name_of_run: str, run: ResolvedRun, outcome: Outcome) -> list[Row]:
    """Make a row for each metric of a combination."""
    folder = RunFolder(outcome.folder)
    frame = whole_frame(folder)
    answers = {record["key"]: (record["list_cost"], record["seconds"]) for record in folder.replies()}
    rows = []
    for name, metric in run.metrics.items():
        judged = [score for *_, score in frame.rows(name)]
        numbers = outcome.results.metrics.get(name, MetricResult())
        refusals = sum(score.status is Status.REFUSED for score in judged)
        row = Row(name, _models(run.config, metric), name_of_run, numbers, *_per_thousand(judged, answers), refusals)
        row.values, row.descriptions = frame.values(name), outcome.results.descriptions.get(name)
        rows.append(row)
    return rows


class ModelLabel(str):
    """The name of a model with its settings in brackets, or the models of a panel, or a folder of prompts."""

    settings: str = ""

    @property
    def model(self) -> str:
        """The name without the settings."""
        return self.removesuffix(f" ({self.settings})")


def _models(config: RunConfig, metric: Metric) -> dict[str, ModelLabel]:
    """Name the models and prompts that a metric uses; empty if it uses none."""
    judges = [_label(role) for name in config.judge_roles if (role := config.role(name)) is not None]
    nothing = ModelLabel()
    named = {
        "captioner": _label(config.captioner) if config.captioner else nothing,
        "embedder": _label(config.embedder),
        "judge": judges[0] if len(judges) == 1 else ModelLabel(" + ".join(judges)),
    }
    models = {role: label if role in metric.roles else nothing for role, label in named.items()}
    asks = set(metric.roles) - {"embedder"}
    return {**models, "prompts": ModelLabel(config.prompts) if config.prompts and asks else nothing}


def _label(role: RoleConfig) -> ModelLabel:
    """Name a model and all its settings, so that two settings of one model are two rows."""
    more = role.model_dump(mode="json", exclude_defaults=True, exclude={"model"})
    if role.provider == "recorded":
        more.pop("options", None)
    if role.base_url:
        more["base_url"] = without_credentials(role.base_url)
    settings = ", ".join(f"{name} {value}" for name, value in more.items())
    label = ModelLabel(f"{role.model} ({settings})" if more else role.model)
    label.settings = settings
    return label


def _per_thousand(
    scores: Sequence[Score], answers: Mapping[str, tuple[float | None, float]]
) -> tuple[float | None, float | None]:
    """Compute list price (USD) and model time (seconds) of 1,000 scores; without a price if an answer has none."""
    if not scores:
        return None, None
    used = [answers[key] for score in scores for key in score.replies if key in answers]
    costs = [cost for cost, _ in used if cost is not None]
    share = 1000 / len(scores)
    price = sum(costs) * share if len(costs) == len(used) else None
    return price, sum(seconds for _, seconds in used) * share


def _ranked(rows: list[Row], pairs: Sequence[Pair]) -> list[Row]:
    """Sort rows by accuracy on the pairs that all of them scored, best first, and set the difference of each from the best.

    Rows that scored fewer than half of the pairs are not compared and come last.
    """
    from titjudge.stats.generators.paired_differences import below_the_best, common_accuracy
    from titjudge.stats.pairwise_accuracy import PairIndex
    from titjudge.stats.people.agreement import common_agreement, unscored

    if len(rows) < 2 or not pairs or all(row.numbers.accuracy is None for row in rows):
        return rows
    index = PairIndex.from_pairs(pairs)
    ranked = common_accuracy(index, [row.values for row in rows])
    common = common_agreement(index, {row.name: row.values for row in rows})
    for row in rows:
        row.common, row.unscored = common.get(row.name), unscored(index, row.values)
    compared = [rows[k] for k in ranked.order]
    p_values = below_the_best(index, [row.values for row in compared], len(compared))
    for row, right, p in zip(compared, ranked.right, [None, *p_values], strict=True):
        if ranked.pairs and row is not compared[0]:
            row.below = (ranked.right[0] - right) / ranked.pairs
        row.p_adjusted = p
    return [*compared, *(rows[k] for k in ranked.aside)]


def _cells(row: Row, *, own: bool) -> dict[str, Any]:
    """Return the cells of a row of the table by key; with `own` its separate accuracy is next to the common one."""
    numbers = row.compared(in_common=own)
    return {
        "metric": row.metric,
        **{role: model or None for role, model in row.models.items()},
        "accuracy": percent(numbers.accuracy, numbers.accuracy_interval, bar=True),
        **({"own_accuracy": own_accuracy(row.numbers)} if own else {}),
        "threshold": chance_level(numbers),
        "below": _below(row),
        "price": dollars(row.price),
        "seconds": plain(row.seconds, digits=1),
        "refusals": row.refusals,
        "coverage": percent(row.numbers.coverage),
        "ties": percent(numbers.tie_rate),
        "srcc": plain(numbers.srcc),
        "krcc": plain(numbers.krcc),
        "ndcg": plain(numbers.ndcg),
        "ndcg_chance": plain(numbers.ndcg_chance),
        "fit": plain(numbers.ndcg_paper_fit),
        "fit_chance": plain(numbers.ndcg_paper_fit_chance),
        "description_words": description_words(row.descriptions),
    }


def _part(table: Table, keys: Sequence[str]) -> Table:
    """Take some columns of a table."""
    columns, *rows = (tuple(row[table.keys.index(key)] for key in keys) for row in (table.columns, *table.rows))
    return replace(table, columns=columns, rows=tuple(rows), keys=tuple(keys))


def _below(row: Row) -> Cell | None:
    if row.below is None:
        return None
    return Cell(row.below, CellFormat.POINTS, note="" if row.p_adjusted is None else f"p {p_value(row.p_adjusted)}")


def _without_shared_model(rows: Sequence[dict[str, Any]], role: str) -> tuple[list[dict[str, Any]], str]:
    """Remove the column of a role that has one model in all rows, or the settings that its models share; and return these."""
    named: dict[ModelLabel, None] = {cells[role]: None for cells in rows if cells[role]}
    if len(named) < 2:
        return [{name: cell for name, cell in cells.items() if name != role} for cells in rows], next(iter(named), "")
    settings = {label.settings for label in named}
    if len(settings) > 1 or "" in settings:
        return list(rows), ""
    return [cells | {role: cells[role] and cells[role].model} for cells in rows], settings.pop()
