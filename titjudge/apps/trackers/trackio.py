"""Trackio: a database on this machine (`trackio show`), or what TRACKIO_SERVER_URL names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from titjudge.core.errors import MissingExtra
from titjudge.core.types import Table
from titjudge.report.sinks import JudgedImage, Sink

try:
    import pandas
    import trackio
except ImportError:
    raise MissingExtra("trackio", "trackio", "--sink trackio") from None


class Trackio(Sink):
    def __init__(self, project: str, run: str, config: Mapping[str, str]) -> None:
        self._run = trackio.init(project=project, name=run, resume="allow", config=dict(config), embed=False)

    def numbers(self, numbers: Mapping[str, float], step: int) -> None:
        self._run.log(dict(numbers), step=step)

    def table(self, table: Table, step: int) -> None:
        rows = [["" if cell is None else str(cell) for cell in row] for row in table.rows]
        logged_table = trackio.Table(dataframe=pandas.DataFrame(rows, columns=list(table.columns)))
        self._run.log({table.title: logged_table}, step=step)

    def images(self, images: Sequence[JudgedImage], step: int) -> None:
        for image in images:
            self._run.log({f"images/{image.name}": trackio.Image(image.image, caption=image.caption)}, step=step)

    def close(self) -> None:
        trackio.finish()
