"""The interface of a sink, and the data that a run sends to it: numbers, tables, and images with scores. Never a secret."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from titjudge.core import registry
from titjudge.core.errors import TitjudgeError, UserError
from titjudge.core.redaction import environment_secrets, one_line, redact
from titjudge.core.run_records import StoredRun
from titjudge.core.types import Json, Table
from titjudge.data.image_decoding import open_image
from titjudge.report.model import ImageEntry, Report, load
from titjudge.report.thumbnails import thumbnail

_IMAGES = 64  # of a run, the images with the lowest scores
_EDGE, _QUALITY = 512, 85
_TEXT = 500  # characters of a prompt or a reason in a caption


@dataclass(frozen=True, slots=True)
class JudgedImage:
    """An image with its scores.

    Attributes:
        name: The item.
        image: A PIL image in RGB, at most 512 pixels wide and high.
        caption: Scores, generator, prompt and reasons.
    """

    name: str
    image: Any
    caption: str


class Sink(ABC):
    """An experiment tracker that shows the results of a run. Methods are called in the order of their definition.

    Attributes:
        default_project: The project if the flag names none. A sink that writes files into a folder of that name has a
            different one: in a clone of titjudge, `titjudge` is the package.

    Args:
        project: The tracker's project.
        run: The run's name there: the same name is the same run, to which steps are added.
        config: Suite, protocol, models and metrics.

    Raises:
        MissingExtra: The tracker's package is not installed.
    """

    default_project = "titjudge"

    @abstractmethod
    def __init__(self, project: str, run: str, config: Mapping[str, str]) -> None: ...

    @abstractmethod
    def numbers(self, numbers: Mapping[str, float], step: int) -> None:
        """Log numbers, by names such as `tit/mean` or `tit/GENERATOR/mean`."""

    @abstractmethod
    def table(self, table: Table, step: int) -> None:
        """Log a table."""

    @abstractmethod
    def images(self, images: Sequence[JudgedImage], step: int) -> None:
        """Log images with their scores."""

    @abstractmethod
    def close(self) -> None:
        """Send what is not sent yet."""


class Target(NamedTuple):
    """A sink as a flag names it: NAME, NAME:PROJECT or NAME:PROJECT/RUN; a PROJECT that begins with "/" goes to the last "/"."""

    name: str
    project: str
    run: str

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read a flag, and check that its sink can be imported.

        Raises:
            UserError: There is no such sink, its package is not installed, or a run has no project.
        """
        name, _, place = text.partition(":")
        project, _, run = place.rpartition("/") if place.startswith("/") else place.partition("/")
        sink = registry.load("sinks", name)
        if run and not project:
            raise UserError(f"--sink {text}: the project before '/{run}' is missing. Write {name}:PROJECT/RUN")
        return cls(name, project or getattr(sink, "default_project", Sink.default_project), run)


def send(run: StoredRun, targets: Sequence[Target], step: int = 0) -> list[str]:
    """Send a run to sinks; returns errors, a line each: no failure of a tracker harms the run.

    Args:
        run: A finished run.
        targets: Sinks.
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
    """Return the configuration to log. Addresses and options of models may be private, and are left out."""
    manifest = report.runs[0].manifest
    config = {"titjudge": manifest.titjudge, "suite": manifest.suite.name, "protocol": manifest.protocol}
    config |= {f"model/{name}": role.model for name, role in manifest.roles.items()}
    config |= {f"metric/{name}": str(metric.version) for name, metric in manifest.metrics.items()}
    return {name: _clean(text) for name, text in config.items()}


def _numbers(report: Report) -> dict[str, float]:
    """Return the numbers to log: statistics of metrics, of generators, and costs."""
    run, numbers = report.runs[0], Json()
    for name, metric in run.results.metrics.items():
        kinds = ("mean", "coverage", "scored", "accuracy", "srcc")
        numbers |= {f"{name}/{kind}": getattr(metric, kind) for kind in kinds}
    for place in run.results.to_json().get("leaderboard", ()):
        for name, metric in place["metrics"].items():
            numbers |= {f"{name}/{place['generator']}/{kind}": metric.get(kind) for kind in ("mean", "mean_rank")}
    numbers |= {"spent_usd": run.spent, "list_cost_usd": run.list_cost}
    return {_clean(name): float(value) for name, value in numbers.items() if value is not None}


def _tables(report: Report) -> list[Table]:
    """Return the tables of the results, without secrets."""

    def cell(value: Any) -> Any:
        return _clean(value) if isinstance(value, str) else value

    tables = [record.table() for record in report.runs[0].results.tables]
    return [replace(table, rows=tuple(tuple(map(cell, row)) for row in table.rows)) for table in tables]


def _images(report: Report) -> Iterator[JudgedImage]:
    """Yield the images with the lowest scores by the first metric; those without a score come first."""
    if not report.judges:
        return
    first, sign = 0, report.judges[0].scale.sign

    def place(entry: ImageEntry) -> float:
        score = entry.scores.get(first)
        return float("-inf") if score is None or score.value is None else sign * score.value

    for entry in sorted((entry for entry in report.entries if entry.shown is not None), key=place)[:_IMAGES]:
        assert entry.shown is not None
        thumb = thumbnail(entry.shown, _EDGE, _QUALITY)
        if isinstance(thumb, bytes):
            with open_image(thumb, Path("thumbnail.webp")) as image:
                rgb = image.convert("RGB")
            yield JudgedImage(_clean(entry.id), rgb, _clean(_caption(report, entry)))


def _caption(report: Report, entry: ImageEntry) -> str:
    """Write the scores of an image with their reasons, its generator and its prompt in one line."""
    lines = []
    for number, judge in enumerate(report.judges):
        lean = entry.scores.get(number)
        if lean is not None:
            score = report.whole(number, lean)
            value = "no score" if score.value is None else f"{score.value:.{judge.scale.digits}f}"
            reason = f": {score.reason[:_TEXT]}" if score.reason else ""
            lines.append(f"{judge.metric} {value}{reason}")
    return " | ".join([*lines, *([entry.generator] if entry.generator else []), entry.prompt[:_TEXT]])


def parse_targets(texts: Sequence[str], step: int | None) -> list[Target]:
    """Read the `--sink` flags.

    Raises:
        UserError: There is no such sink, its package is not installed, or `--step` is given without a sink.
    """
    if step is not None and not texts:
        raise UserError("--step requires --sink. Add --sink NAME:PROJECT")
    return [Target.parse(text) for text in texts]
