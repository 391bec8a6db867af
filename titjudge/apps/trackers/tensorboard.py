"""TensorBoard: event files in PROJECT/RUN (`tensorboard --logdir PROJECT`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from titjudge.core.errors import MissingExtra
from titjudge.core.types import Table
from titjudge.report.sinks import JudgedImage, Sink
from titjudge.report.tables import markdown

try:
    from torch.utils.tensorboard import SummaryWriter
except ImportError:
    raise MissingExtra("tensorboard", "tensorboard", "--sink tensorboard") from None


class TensorBoard(Sink):
    default_project = "tensorboard"

    def __init__(self, project: str, run: str, config: Mapping[str, str]) -> None:
        self._writer = SummaryWriter(str(Path(project) / run))
        self._writer.add_text("config", "\n".join(f"- {name}: {text}" for name, text in config.items()))

    def numbers(self, numbers: Mapping[str, float], step: int) -> None:
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)

    def table(self, table: Table, step: int) -> None:
        self._writer.add_text(table.title, markdown([table]), step)

    def images(self, images: Sequence[JudgedImage], step: int) -> None:
        for image in images:
            self._writer.add_image(f"images/{image.name}", np.asarray(image.image), step, dataformats="HWC")
            self._writer.add_text(f"images/{image.name}", image.caption, step)

    def close(self) -> None:
        self._writer.close()
