"""Every combination of captioners, embedders, judges and prompts, one table at the end (TIT-Score paper, Tables 2 and 4).

    data: my_images
    captioners: [openai/gpt-4o, gemini/gemini-2.5-pro]
    judges: [openai/gpt-4o, gemini/gemini-2.5-pro]
    metrics: [tit, tit-llm]
    limits: {max_cost: 20}

All combinations share one cache (a second judge asks no captioner anything) and one cap (each gets what the others have
left). Every combination is a run folder of its own, so that a sweep goes on where it stopped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import orjson

from titjudge.core.config import RoleConfig, RunConfig, load_config
from titjudge.core.errors import ConfigError, FatalProviderError, UserError
from titjudge.core.files import read_yaml
from titjudge.core.types import Pair, Score, Status, Table
from titjudge.engine.forecast import Forecast
from titjudge.metrics import Metric
from titjudge.runs.identity import without_credentials
from titjudge.runs.outcome import Outcome
from titjudge.runs.resolve import load_metrics, resolve
from titjudge.runs.run_folder import RunFolder, rest_of_caps
from titjudge.runs.session import Session, Watcher
from titjudge.stats.judge_pool import Pool, best_pool

DIMENSIONS = {"captioners": "captioner", "embedders": "embedder", "judges": "judge", "prompts": "prompts"}
_COLUMNS = (
    "metric", "captioner", "embedder", "judge", "prompts", "accuracy", "low", "high", "SRCC", "KRCC", "nDCG",
    "USD per 1,000", "seconds per 1,000", "refusals", "tie rate", "coverage", "below the best by", "p adjusted",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Combination:
    """One run of a sweep: its place, its name and its configuration."""

    number: int
    slug: str
    config: RunConfig

    @property
    def folder(self) -> str:
        return f"{self.number:02d}-{self.slug}"


@dataclass(slots=True)
class Row:
    """One metric with the models it used. Costs are list prices; `seconds` is the models' own time, asked now or before."""

    metric: str
    models: dict[str, str]
    run: str
    numbers: Mapping[str, Any]
    price: float | None
    seconds: float | None
    refusals: int
    higher_is_better: bool
    values: dict[str, float | None] = field(repr=False, default_factory=dict)
    below: float | None = None
    p_adjusted: float | None = None

    @property
    def name(self) -> str:
        used = ", ".join(f"{role} {model}" for role, model in self.models.items() if model)
        return f"{self.metric} ({used})" if used else self.metric

    def to_json(self) -> dict[str, Any]:
        keep = ("accuracy", "accuracy_interval", "srcc", "krcc", "ndcg", "tie_rate", "coverage", "pairs")
        return {
            "metric": self.metric,
            **self.models,
            "run": self.run,
            **{name: self.numbers.get(name) for name in keep},
            "list_cost_per_1000": self.price,
            "seconds_per_1000": self.seconds,
            "refusals": self.refusals,
            "below_best": self.below,
            "p_adjusted": self.p_adjusted,
        }


@dataclass(slots=True)
class Swept:
    """What a sweep found. `failed`: name and reason of combinations that stopped at a wrong key, model or quota."""

    folder: Path
    rows: list[Row]
    outcomes: dict[str, Outcome]
    failed: dict[str, str]
    spent: float
    status: str
    pool: Pool | None = None

    def table(self) -> Table:
        notes = [
            "accuracy with its 95% interval; below the best: the paired difference in accuracy over the same pairs, p for the "
            "largest difference of as many rows that are exchanged within prompts (the best was chosen on these pairs)",
            "USD: list price of the answers used, cached or not, of 1,000 images; seconds: the models' own time for them, "
            "one after the other",
        ]
        notes += [self.pool.line()] if self.pool is not None else []
        notes += [f"{name} failed: {reason}" for name, reason in self.failed.items()]
        rows = [_cells(row) for row in self.rows]
        for at in (1, 2, 3):
            labels, same = _without_shared([cells[at] for cells in rows])
            rows = [(*cells[:at], label, *cells[at + 1 :]) for cells, label in zip(rows, labels, strict=True)]
            notes += [f"every {_COLUMNS[at]}: {same}"] if same else []
        shown = [at for at, name in enumerate(_COLUMNS) if name != "prompts" or any(cells[at] for cells in rows)]
        columns = tuple(_COLUMNS[at] for at in shown)
        return Table("Sweep", columns, tuple(tuple(cells[at] for at in shown) for cells in rows), tuple(notes))

    def to_json(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "spent": round(self.spent, 6),
            "rows": [row.to_json() for row in self.rows],
            "runs": {name: outcome.status for name, outcome in self.outcomes.items()},
            "failed": self.failed,
            "pool": None if self.pool is None else self.pool.to_json(),
        }


class Sweep:
    """The combinations of a sweep file.

    Args:
        file: run.yaml with lists under `captioners`, `embedders`, `judges` and `prompts` (a list element may be anything
            the single key takes; a judge may be a list, which is a panel; `default` under prompts is the bundled ones).
        out: the folder for the run folders; else the file's `out`, else `runs/<name of the file>`.
        overrides: keys that go before those of the file.

    Raises:
        ConfigError: the file is malformed, or names both a list and the single key.
    """

    def __init__(self, file: Path, out: Path | None = None, overrides: Mapping[str, Any] | None = None) -> None:
        content = _read(file)
        lists = {name: content.pop(name) for name in DIMENSIONS if isinstance(content.get(name), list)}
        for name in lists:
            single = DIMENSIONS[name]
            if single != name and single in content:
                raise ConfigError(f"{file}: '{name}' and '{single}' are both given: keep one")
            if not lists[name]:
                raise ConfigError(f"{file}: '{name}' is an empty list")
        base = {**content, **{k: v for k, v in (overrides or {}).items() if v is not None}}
        base["limits"] = {**(content.get("limits") or {}), **((overrides or {}).get("limits") or {})}
        self.folder = out or (Path(base["out"]) if base.get("out") else Path("runs") / file.stem)
        base.pop("out", None)
        self.combinations = list(_combinations(base, lists, self.folder, file))
        self.limits = self.combinations[0].config.limits

    def dry_run(self) -> list[tuple[Combination, Forecast]]:
        """Price every combination without sending anything; what several would ask is counted in each."""
        return [(each, Session(each.config).dry_run()) for each in self.combinations]

    def run(self, watcher: Callable[[RunConfig], Watcher] | None = None, say: Callable[[str], None] = print) -> Swept:
        """Judge every combination, one after the other.

        A combination that stops at a wrong key, model or quota does not stop the others; an interruption does.

        Raises:
            FatalProviderError, UserError: every combination failed; the last one's error.
        """
        outcomes: dict[str, Outcome] = {}
        failed: dict[str, str] = {}
        status = "complete"
        for each in self.combinations:
            config = self._with_rest_of_cap(each)
            say(f"{each.number} of {len(self.combinations)}: {each.folder}")
            try:
                outcome = Session(config).run(watcher(config) if watcher else None)
            except (FatalProviderError, UserError) as error:
                failed[each.folder] = str(error)
                if len(failed) == len(self.combinations):
                    raise
                continue
            outcomes[each.folder] = outcome
            if outcome.status != "complete":
                status = outcome.status
            if "interrupted" in outcome.status or "disk" in outcome.status:
                break
        if failed and status == "complete":
            status = f"incomplete: {len(failed)} of {len(self.combinations)} combinations failed"
        return self._finish(outcomes, failed, status)

    def _finish(self, outcomes: dict[str, Outcome], failed: dict[str, str], status: str) -> Swept:
        rows: dict[tuple[Any, ...], Row] = {}
        pairs: dict[Pair, None] = {}
        for each in self.combinations:
            outcome = outcomes.get(each.folder)
            if outcome is None:
                continue
            pairs |= dict.fromkeys(RunFolder(outcome.folder).results().human_pairs)
            for row in rows_of(each, outcome):
                rows.setdefault((row.metric, *row.models.values()), row)  # the same models need no second row
        ordered = _ranked(list(rows.values()), list(pairs))
        spent = sum(RunFolder(self.folder / each.folder).money()["spent"] for each in self.combinations)
        pool = best_pool(list(pairs), {row.name: _higher(row) for row in ordered})
        found = Swept(self.folder, ordered, outcomes, failed, spent, status, pool)
        if outcomes:
            text = orjson.dumps(found.to_json(), option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY)
            RunFolder(self.folder).write("sweep.json", text)
        return found

    def _with_rest_of_cap(self, combination: Combination) -> RunConfig:
        """Lower the caps of a combination by what the others have used."""
        others = [self.folder / each.folder for each in self.combinations if each is not combination]
        config = combination.config
        return config.model_copy(update={"limits": rest_of_caps(config.limits, others)})


def _read(file: Path) -> dict[str, Any]:
    content = read_yaml(file, "a sweep")
    if not content:
        raise ConfigError(f"{file}: the file is empty: a sweep is a mapping of keys")
    return content


def _combinations(
    base: dict[str, Any], lists: Mapping[str, list[Any]], folder: Path, file: Path
) -> Iterator[Combination]:
    names = list(lists)
    for number, values in enumerate(product(*lists.values()), 1):
        own = {DIMENSIONS[name]: value for name, value in zip(names, values, strict=True)}
        slug = "-".join(filter(None, (_slug(value) for value in own.values()))) or "run"
        if own.get("prompts") in ("default", None):
            own.pop("prompts", None)
        settings = {**base, **own, "out": str(folder / f"{number:02d}-{slug[:80]}")}
        try:
            config = load_config(None, settings)
        except ConfigError as error:
            raise ConfigError(f"{file}: combination {number} ({slug}): {error}") from error
        yield Combination(number, slug[:80], config)


def _slug(value: Any) -> str:
    """Make a short name of a model, a panel or a folder, fit for a folder name."""
    if isinstance(value, list):
        return "+".join(_slug(each) for each in value)
    if isinstance(value, dict):
        value = value.get("model", "")
    return re.sub(r"[^A-Za-z0-9.]+", "-", str(value).rstrip("/").rpartition("/")[2]).strip("-.").lower()


def rows_of(combination: Combination, outcome: Outcome) -> list[Row]:
    """Make a row for each metric of a combination, with the models that metric uses."""
    config = resolve(combination.config)
    folder = RunFolder(outcome.folder)
    scores = folder.scores()
    answers = {record["key"]: (record["list_cost"], record["seconds"]) for record in folder.replies()}
    found = []
    for name, metric in load_metrics(config).items():
        own = [score for (_, metric_name), score in scores.items() if metric_name == name]
        price, seconds = _per_thousand(own, answers)
        found.append(
            Row(
                name, _models(config, metric), combination.folder, outcome.results["metrics"].get(name, {}), price,
                seconds, sum(score.status is Status.REFUSED for score in own), metric.higher_is_better,
                {score.item_id: score.value for score in own},
            )
        )  # fmt: skip
    return found


def _models(config: RunConfig, metric: Metric) -> dict[str, str]:
    """Name the models a metric uses, by role, and the prompts; empty where it uses none."""
    judges = [_label(role) for name in config.judge_roles if (role := config.role(name)) is not None]
    named = {
        "captioner": _label(config.captioner) if config.captioner else "",
        "embedder": _label(config.embedder),
        "judge": " + ".join(judges),
    }
    models = {role: label if role in metric.roles else "" for role, label in named.items()}
    asks = set(metric.roles) - {"embedder"}
    return {**models, "prompts": str(config.prompts) if config.prompts and asks else ""}


def _label(role: RoleConfig) -> str:
    """Name the model, and whatever else was set for it, so that two settings of one model are two rows."""
    more = role.model_dump(mode="json", exclude_defaults=True, exclude={"model"})
    if role.provider == "recorded":
        more.pop("options", None)
    if role.base_url:
        more["base_url"] = without_credentials(role.base_url)
    return f"{role.model} ({', '.join(f'{name} {value}' for name, value in more.items())})" if more else role.model


def _per_thousand(
    scores: Sequence[Score], answers: Mapping[str, tuple[float | None, float]]
) -> tuple[float | None, float | None]:
    """Reckon list price in USD and model seconds of 1,000 scores; the price is None when one of the answers has none."""
    if not scores:
        return None, None
    used = [answers[key] for score in scores for key in score.replies if key in answers]
    seconds = sum(each[1] for each in used)
    costs = [each[0] for each in used]
    cost = None if any(each is None for each in costs) else sum(each or 0.0 for each in costs)
    share = 1000 / len(scores)
    return None if cost is None else cost * share, seconds * share


def _ranked(rows: list[Row], pairs: Sequence[Pair]) -> list[Row]:
    """Sort rows by accuracy, best first, and give each its paired difference from the best."""
    from titjudge.stats.paired_differences import below_the_best, paired_differences

    rows.sort(key=lambda row: -1.0 if row.numbers.get("accuracy") is None else row.numbers["accuracy"], reverse=True)
    if len(rows) < 2 or not pairs or rows[0].numbers.get("accuracy") is None:
        return rows
    values = {row.name: _higher(row) for row in rows}
    best = rows[0].name
    found = {each.first: each for each in paired_differences(pairs, values, baseline=best)}
    p_values = below_the_best(pairs, [values[row.name] for row in rows])
    for row, p_value in zip(rows[1:], p_values, strict=True):
        difference = found[row.name]
        row.below = None if difference.difference is None else -difference.difference
        row.p_adjusted = p_value
    return rows


def _higher(row: Row) -> dict[str, float | None]:
    if row.higher_is_better:
        return row.values
    return {item: None if value is None else -value for item, value in row.values.items()}


def _without_shared(labels: Sequence[str | None]) -> tuple[list[str | None], str]:
    """Take from the labels the settings that all of them have, and return those: a column of one long address is wide."""
    found = [label for label in labels if label]
    endings = {label.partition(" (")[2] for label in found}
    if len(endings) != 1 or "" in endings or any(" + " in label for label in found):
        return list(labels), ""
    return [label and label.partition(" (")[0] for label in labels], endings.pop().removesuffix(")")


def _cells(row: Row) -> tuple[Any, ...]:
    numbers = row.numbers
    low, high = numbers.get("accuracy_interval") or (None, None)
    return (
        row.metric, *(model or None for model in row.models.values()), numbers.get("accuracy"), low, high,
        numbers.get("srcc"), numbers.get("krcc"), numbers.get("ndcg"), row.price, row.seconds, row.refusals,
        numbers.get("tie_rate"), numbers.get("coverage"), row.below, row.p_adjusted,
    )  # fmt: skip
