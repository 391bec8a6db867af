"""What a sink is, and what of a run goes to it: numbers, tables, and images with their judgement. Never a secret."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from titjudge.core import registry
from titjudge.core.errors import TitjudgeError, UserError
from titjudge.core.image_decoding import open_image
from titjudge.core.redaction import environment_secrets, one_line, redact
from titjudge.core.run_records import StoredRun
from titjudge.core.types import Table
from titjudge.report.model import Entry, Report, load
from titjudge.report.thumbnails import thumbnail

PROJECT = "titjudge"
_IMAGES = 64  # of a run, those with the lowest scores
_EDGE, _QUALITY = 512, 85
_TEXT = 500  # characters of a prompt or a reason in a caption


@dataclass(frozen=True, slots=True)
class JudgedImage:
    """An image with what was found.

    Attributes:
        name: The item.
        image: A PIL image in RGB, at most 512 pixels wide and high.
        caption: Scores, generator, prompt and reasons.
    """

    name: str
    image: Any
    caption: str


class Sink(ABC):
    """Shows results of a run in an experiment tracker. Methods are called in the order in which they stand here.

    Args:
        project: What the tracker files runs under.
        run: The run's name there: the same name is the same run, to which steps are added.
        config: What judged: suite, protocol, models, metrics.

    Raises:
        MissingExtra: The tracker's package is not installed.
    """

    @abstractmethod
    def __init__(self, project: str, run: str, config: Mapping[str, str]) -> None: ...

    @abstractmethod
    def numbers(self, numbers: Mapping[str, float], step: int) -> None:
        """Show numbers, by names such as `tit/mean` or `tit/GENERATOR/mean`."""

    @abstractmethod
    def table(self, table: Table, step: int) -> None:
        """Show a table."""

    @abstractmethod
    def images(self, images: Sequence[JudgedImage], step: int) -> None:
        """Show images with their judgement."""

    @abstractmethod
    def close(self) -> None:
        """Send what is left."""


class Target(NamedTuple):
    """A sink as a flag names it: NAME, NAME:PROJECT or NAME:PROJECT/RUN."""

    name: str
    project: str
    run: str

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read a flag, and check that its sink can be imported.

        Raises:
            UserError: There is no such sink, or its package is not installed.
        """
        name, _, place = text.partition(":")
        project, _, run = place.partition("/")
        registry.load("sinks", name)
        return cls(name, project or PROJECT, run)


def send(run: StoredRun, targets: Sequence[Target], step: int = 0) -> list[str]:
    """Send a run to sinks; returns what went wrong, a line each: what is measured stays, whatever a tracker does.

    Args:
        run: A finished run.
        targets: Where to.
        step: The training step of the checkpoint that was judged.
    """
    report = load([run])
    config, numbers, tables, images = _config(report), _numbers(report), _tables(report), list(_images(report))
    failures = []
    for target in targets:
        try:
            sink: Sink = registry.load("sinks", target.name)(target.project, target.run or run.path.name, config)
            try:
                sink.numbers(numbers, step)
                for table in tables:
                    sink.table(table, step)
                if images:
                    sink.images(images, step)
            finally:
                sink.close()
        except TitjudgeError as error:
            failures.append(str(error))
        except Exception as error:  # whatever a tracker's library raises
            failures.append(f"{target.name}: {one_line(str(error), environment_secrets()) or type(error).__name__}")
    return failures


def _clean(text: str) -> str:
    return redact(text, environment_secrets())


def _config(report: Report) -> dict[str, str]:
    """Tell what judged. Addresses and options of models stay here: they may hold what is nobody's business."""
    manifest = report.runs[0].manifest
    told = {"titjudge": manifest.titjudge, "suite": manifest.suite.name, "protocol": manifest.protocol}
    told |= {f"model/{name}": role.model for name, role in manifest.roles.items()}
    told |= {f"metric/{name}": str(metric.version) for name, metric in manifest.metrics.items()}
    return {name: _clean(text) for name, text in told.items()}


def _numbers(report: Report) -> dict[str, float]:
    run, found = report.runs[0], dict[str, Any]()
    for name, metric in run.results.metrics.items():
        kinds = ("mean", "coverage", "scored", "accuracy", "srcc")
        found |= {f"{name}/{kind}": getattr(metric, kind) for kind in kinds}
    for place in run.results.to_json().get("leaderboard", ()):
        for name, metric in place["metrics"].items():
            found |= {f"{name}/{place['generator']}/{kind}": metric.get(kind) for kind in ("mean", "mean_rank")}
    found |= {"spent_usd": run.spent, "list_cost_usd": run.list_cost}
    return {_clean(name): float(value) for name, value in found.items() if value is not None}


def _tables(report: Report) -> list[Table]:
    def cell(value: Any) -> Any:
        return _clean(value) if isinstance(value, str) else value

    tables = [
        Table(each["title"], tuple(each["columns"]), tuple(map(tuple, each["rows"])), tuple(each["notes"]))
        for each in report.runs[0].results.to_json().get("tables", ())
    ]
    return [replace(table, rows=tuple(tuple(map(cell, row)) for row in table.rows)) for table in tables]


def _images(report: Report) -> Iterator[JudgedImage]:
    """Show the images with the lowest scores by the first metric, those without a score before all."""
    if not report.judges:
        return
    first, sign = 0, 1 if report.judges[0].higher else -1

    def place(entry: Entry) -> float:
        score = entry.scores.get(first)
        return float("-inf") if score is None or score.value is None else sign * score.value

    for entry in sorted((each for each in report.entries if each.shown is not None), key=place)[:_IMAGES]:
        assert entry.shown is not None
        made = thumbnail(entry.shown, _EDGE, _QUALITY)
        if isinstance(made, bytes):
            with open_image(made, Path("thumbnail.webp")) as image:
                shown = image.convert("RGB")
            yield JudgedImage(_clean(entry.id), shown, _clean(_caption(report, entry)))


def _caption(report: Report, entry: Entry) -> str:
    found = []
    for number, judge in enumerate(report.judges):
        score = entry.scores.get(number)
        if score is not None:
            value = "no score" if score.value is None else f"{score.value:.{judge.digits}f}"
            told = f": {score.reason[:_TEXT]}" if score.reason else ""
            found.append(f"{judge.metric} {value}{told}")
    return " | ".join(
        [*found, entry.generator, entry.prompt[:_TEXT]] if entry.generator else [*found, entry.prompt[:_TEXT]]
    )


def parse_targets(texts: Sequence[str], step: int | None) -> list[Target]:
    """Read the `--sink` flags.

    Raises:
        UserError: There is no such sink, its package is not installed, or `--step` is given without a sink.
    """
    if step is not None and not texts:
        raise UserError("--step goes with --sink")
    return [Target.parse(text) for text in texts]
