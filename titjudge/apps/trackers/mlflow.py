"""MLflow: the server or store that MLFLOW_TRACKING_URI names, or its default."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from titjudge.core.errors import MissingExtra
from titjudge.core.types import Table
from titjudge.report.sinks import JudgedImage, Sink
from titjudge.report.tables import markdown

try:
    from mlflow.tracking import MlflowClient
except ImportError:
    raise MissingExtra("mlflow", "mlflow", "--sink mlflow") from None


class MLflow(Sink):
    def __init__(self, project: str, run: str, config: Mapping[str, str]) -> None:
        self._client = MlflowClient()
        existing = self._client.get_experiment_by_name(project)
        experiment = existing.experiment_id if existing else self._client.create_experiment(project)
        earlier_runs = [
            record
            for record in self._client.search_runs([experiment])
            if record.info.run_name == run  # a filter would need the name quoted
        ]
        self._id = (earlier_runs[0] if earlier_runs else self._client.create_run(experiment, run_name=run)).info.run_id
        for name, text in config.items():
            self._client.set_tag(self._id, _name(name), text)

    def numbers(self, numbers: Mapping[str, float], step: int) -> None:
        for name, value in numbers.items():
            self._client.log_metric(self._id, _name(name), value, step=step)

    def table(self, table: Table, step: int) -> None:
        self._client.log_text(self._id, markdown([table]), f"tables/{step}/{_name(table.title)}.md")

    def images(self, images: Sequence[JudgedImage], step: int) -> None:
        for number, image in enumerate(images):
            self._client.log_image(self._id, image.image, f"images/{step}/{number:03d}.png")
        captions = "\n".join(f"{n:03d} {image.name}: {image.caption}" for n, image in enumerate(images))
        self._client.log_text(self._id, captions, f"images/{step}/captions.txt")

    def close(self) -> None:
        self._client.set_terminated(self._id)


def _name(text: str) -> str:
    """Leave the characters that MLflow takes in names."""
    return re.sub(r"[^\w./ -]", "_", text).replace("..", "_").strip("/")
