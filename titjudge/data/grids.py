"""Images that are grids of several images: each cell is cut out when it is read.

`out/7.png/2x2/3` is the third cell, row by row, of out/7.png.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from titjudge.core.cells import version
from titjudge.core.errors import ConfigError, DataError, must_be
from titjudge.data.image_decoding import open_image, quietly, upright

_SIZE = re.compile(r"([1-9]|1[0-6])x([1-9]|1[0-6])")
MAGIC = (b"\x89PNG", b"\xff\xd8\xff", b"RIFF", b"GIF8", b"BM", b"II*\0", b"MM\0*")


@dataclass(frozen=True, slots=True)
class Grid:
    """A number of rows and columns of images."""

    rows: int
    columns: int

    @classmethod
    def parse(cls, text: str) -> Grid:
        """Parse `2x2`, rows first.

        Raises:
            ConfigError: It is not a grid.
        """
        match = _SIZE.fullmatch(text)
        if match is None:
            raise ConfigError(must_be("--grid", "ROWSxCOLUMNS, each 1 to 16, for example 2x2", text))
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}"

    def places(self, path: Path) -> list[Path]:
        """List the paths of the cells of an image."""
        return [path / str(self) / str(number) for number in range(1, self.rows * self.columns + 1)]


def is_grid(folder: str) -> bool:
    """Return True if a folder name in a path is a grid, such as `2x2`."""
    return _SIZE.fullmatch(folder) is not None


def read(file: Path, grid: str, cell: int) -> bytes:
    """Read a cell as a PNG.

    Raises:
        DataError: The file is not an image, is too small, or has no such cell.
    """
    size = Grid.parse(grid)
    if not 1 <= cell <= size.rows * size.columns:
        raise DataError(f"a grid of {grid} has no image {cell}. Correct the number", file)
    return _cells(file, size, version(file))[cell - 1]


@lru_cache(maxsize=4)  # a cell is read once to check it and once to send it
def _cells(file: Path, size: Grid, _version: tuple[int, int]) -> list[bytes]:
    """Cut an image into the cells of a grid, row by row, each as a PNG."""
    cells = []
    with quietly(), open_image(file.read_bytes(), file) as opened:
        try:
            image = upright(opened)
        except (OSError, SyntaxError, ValueError) as error:
            raise DataError("the file cannot be decoded or is not an image. Save it again", file) from error
        width, height = image.size
        if width < size.columns or height < size.rows:
            raise DataError(f"{width} x {height} pixels are too few for a grid of {size}. Correct --grid", file)
        for row in range(size.rows):
            for column in range(size.columns):
                left, right = column * width // size.columns, (column + 1) * width // size.columns
                box = (left, row * height // size.rows, right, (row + 1) * height // size.rows)
                out = io.BytesIO()
                image.crop(box).save(out, "PNG")
                cells.append(out.getvalue())
    return cells
