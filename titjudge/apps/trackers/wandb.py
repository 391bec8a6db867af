"""Weights & Biases; `WANDB_MODE=offline` writes here what `wandb sync` sends later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from titjudge.core.errors import MissingExtra
from titjudge.core.types import Table
from titjudge.report.sinks import JudgedImage, Sink

try:
    import wandb
except ImportError:
    raise MissingExtra("wandb", "wandb", "--sink wandb") from None


class Wandb(Sink):
    def __init__(self, project: str, run: str, config: Mapping[str, str]) -> None:
        settings = wandb.Settings(console="off", disable_git=True, save_code=False, x_disable_meta=True)
        self._run = wandb.init(
            project=project, name=run, id=run, resume="allow", config=dict(config), settings=settings
        )

    def numbers(self, numbers: Mapping[str, float], step: int) -> None:
        self._run.log(dict(numbers), step=step)

    def table(self, table: Table, step: int) -> None:
        rows = [["" if cell is None else str(cell) for cell in row] for row in table.rows]  # a column has one type
        self._run.log({table.title: wandb.Table(columns=list(table.columns), data=rows)}, step=step)

    def images(self, images: Sequence[JudgedImage], step: int) -> None:
        self._run.log({"images": [wandb.Image(image.image, caption=image.caption) for image in images]}, step=step)

    def close(self) -> None:
        self._run.finish()
