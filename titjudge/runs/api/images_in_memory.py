"""Write images in memory (PIL, NumPy, torch, bytes of a file) to a temporary folder, named by their content."""

from __future__ import annotations

import hashlib
import io
import math
import os
import shutil
import sys
import tempfile
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from titjudge.core.errors import UserError, must_be, unknown
from titjudge.core.types import Json, Score
from titjudge.data import images
from titjudge.data.image_decoding import ORIENTATION, upright
from titjudge.runs.api.judged_scores import small

ACCEPTED = (
    "a path (str or pathlib.Path), a PIL image, the bytes of an image file, or a NumPy array or torch tensor "
    "(height x width x 3, or 3 x height x width)"
)
_COLOURS = (1, 3, 4)  # grey, RGB, RGBA
_STEP = 1 / 255  # of eight bits: values at most this far outside come from rounding in half precision
_KEPT = 256  # released files that are kept: a training loop must not fill the disk
_AS_PNG = frozenset("1 L LA P RGB RGBA I;16".split())

_loading = threading.Lock()  # two threads that load one PIL image at once would garble it


class Placed(NamedTuple):
    """An image as a file.

    Attributes:
        name: Its name in messages: the path, or `picture-SHA256` of one from memory.
        path: The file.
        thumbnail: A WebP file, if the image was decoded here.
        refusal: Why it is not an image; empty if it is one.
    """

    name: str
    path: Path
    thumbnail: bytes | None = None
    refusal: str = ""


class ImagesInMemory:
    """A temporary folder of images, made when first needed and deleted by `close` or the garbage collector.

    Several threads may use it at once, as `Judge.score_many` does.

    Attributes:
        shows: Whether an image can still be looked at when it is judged.
    """

    shows = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._finalizer: weakref.finalize[Any, Any] | None = None
        self._used: Counter[Path] = Counter()
        self._unused: dict[Path, None] = {}  # released, the oldest first

    def place(self, image: Any) -> Placed:
        """Return name and path of an image, and write one in memory to the file `picture-SHA256`.

        The file stays until `release` was called as often as `place`.

        Raises:
            TypeError: It is not an image.
            ValueError: An array of a shape or with values that no image has.
        """
        if isinstance(image, str | os.PathLike):
            return Placed(str(image), Path(image))
        content, thumbnail = _content(image)
        name = f"picture-{hashlib.sha256(content).hexdigest()}"
        with self._lock:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="titjudge-"))
                self._finalizer = weakref.finalize(self, _remove, self._folder, os.getpid())
            file = self._folder / name
            if not file.exists():
                file.write_bytes(content)
            self._used[file] += 1
            self._unused.pop(file, None)
        return Placed(name, file, thumbnail)

    def __contains__(self, path: Path) -> bool:
        """Return True if `place` has written this file and it is not released yet."""
        return path in self._used

    def release(self, path: Path) -> list[Path]:
        """Release an image that is judged; returns the older files that were deleted."""
        with self._lock:
            if path not in self._used:
                return []
            self._used[path] -= 1
            if not self._used[path]:
                del self._used[path]
                self._unused[path] = None
            deleted = list(self._unused)[: max(0, len(self._unused) - _KEPT)]
            for file in deleted:
                del self._unused[file]
                file.unlink(missing_ok=True)
            return deleted

    def close(self) -> None:
        with self._lock:
            self._used.clear()
            self._unused.clear()
            if self._finalizer is not None:
                self._finalizer()
            self._folder = self._finalizer = None


class HeldImages(ImagesInMemory):
    """Keeps images in memory instead of a folder, for as long as they are judged: for a server, which shows none of them."""

    shows = False

    def __init__(self) -> None:
        super().__init__()
        self._no_folder = Path(f"/in-memory-{id(self)}")

    def place(self, image: Any) -> Placed:
        content, _ = _content(image, with_thumbnail=False)
        digest = hashlib.sha256(content).hexdigest()
        name = f"picture-{digest}"
        path = self._no_folder / name
        with self._lock:
            images.hold(path, content, digest)
            self._used[path] += 1
        return Placed(name, path)

    def release(self, path: Path) -> list[Path]:
        with self._lock:
            self._used[path] -= 1
            if self._used[path]:
                return []
            del self._used[path]
            images.let_go(path)
        return [path]

    def close(self) -> None:
        with self._lock:
            for path in self._used:
                images.let_go(path)
            self._used.clear()


def _remove(folder: Path, process: int) -> None:
    """Remove a folder, unless this is a fork of the process that made it, which still uses the folder."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def check(image: Any) -> None:
    """Check by type and shape that this is an image, without decoding it.

    Raises:
        TypeError, ValueError: As `ImagesInMemory.place`.
    """
    if isinstance(image, str | os.PathLike | bytes | bytearray | memoryview):
        return
    if is_array(image):
        if not _is_image_shape(tuple(image.shape)):
            hint = ": score_many(images, prompts) takes a batch" if len(image.shape) == 4 else ""
            raise ValueError(
                f"an image must be an array of height x width, with colours x 3 or x 4, or 3 or 4 x height x width, "
                f"not {_shape(image)}{hint}"
            )
        return
    from PIL import Image

    if not isinstance(image, Image.Image):
        raise TypeError(must_be("an image", ACCEPTED, image))


def is_array(image: Any) -> bool:
    """Return True if this is a NumPy array or scalar, or a torch tensor, without importing either library."""
    return type(image).__module__.partition(".")[0] == "numpy" or _is_tensor(image)


def _is_tensor(image: Any) -> bool:
    torch = sys.modules.get("torch")  # imported already, if this is a tensor
    return torch is not None and isinstance(image, torch.Tensor)


def images_of(batch: Any) -> Sequence[Any]:
    """List the images of a batch: a sequence as it is, an array or tensor along its first dimension.

    Raises:
        TypeError, ValueError: It is one image, not many.
    """
    if is_array(batch):
        if batch.ndim != 4:
            raise ValueError(f"a batch of images must have four dimensions, not {_shape(batch)}")
        return [batch[number] for number in range(len(batch))]
    if isinstance(batch, str | bytes | bytearray | os.PathLike) or not isinstance(batch, Sequence):
        raise TypeError(must_be("a batch of images", "a list, or an array or tensor of four dimensions", batch))
    return batch


def _content(image: Any, *, with_thumbnail: bool = True) -> tuple[bytes, bytes | None]:
    """Encode an image: the bytes of a file stay as they are, anything else becomes PNG, with a thumbnail on request."""
    check(image)
    if isinstance(image, bytes | bytearray | memoryview):
        return bytes(image), None
    if is_array(image):
        image = _from_array(image)
    with _loading:
        image.load()
        rotated = image.getexif().get(ORIENTATION, 1) not in (0, 1)
    if rotated or image.mode not in _AS_PNG:
        image = upright(image)
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue(), small(image) if with_thumbnail else None


def _from_array(image: Any) -> Any:
    """Convert an array of 0 to 255 (integers), or of 0 to 1 (floats, as diffusers gives them), to a PIL image.

    The colours are the last dimension or the first. If both are possible, they are the last of a NumPy array and the
    first of a tensor, as usual.
    """
    import numpy as np
    from PIL import Image

    is_tensor = _is_tensor(image)
    array = _to_numpy(image) if is_tensor else image
    if array.ndim == 3 and array.shape[0] in _COLOURS and (is_tensor or array.shape[2] not in _COLOURS):
        array = np.moveaxis(array, 0, 2)
    flat = array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array
    if np.issubdtype(flat.dtype, np.floating):
        lowest, highest = (float(flat.min()), float(flat.max())) if flat.size else (0.0, 1.0)
        if not (lowest >= -_STEP and highest <= 1 + _STEP):
            raise ValueError(f"an image of floats must have values from 0 to 1; {_about(lowest, highest)}")
        flat = np.rint(np.clip(flat, 0, 1) * 255)
    elif flat.dtype != np.uint8 and flat.size and not (int(flat.min()) >= 0 and int(flat.max()) <= 255):
        raise ValueError(f"an image of integers must have values from 0 to 255, not {flat.min()} to {flat.max()}")
    return Image.fromarray(np.ascontiguousarray(flat, dtype=np.uint8))


def _about(lowest: float, highest: float) -> str:
    """Write the values of an array of floats outside 0 to 1, and how to convert it to an image."""
    if not (math.isfinite(lowest) and math.isfinite(highest)):
        return "this one has values that are not finite"
    has = f"this one from {lowest:.4g} to {highest:.4g}"
    if lowest < 0 and lowest >= -1 - _STEP and highest <= 1 + _STEP:
        return f"{has}: `image / 2 + 0.5` makes one of -1 to 1"
    if lowest >= 0 and 1 < highest <= 255:
        return f"{has}: `image / 255` makes one of 0 to 255"
    return has


def _to_numpy(tensor: Any) -> Any:
    """Copy a tensor to a NumPy array; floats become single precision, as NumPy has no bfloat16."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.is_floating_point() else tensor).numpy()


def _is_image_shape(shape: tuple[int, ...]) -> bool:
    if 0 in shape:
        return False
    return len(shape) == 2 or (len(shape) == 3 and (shape[0] in _COLOURS or shape[2] in _COLOURS))


def _shape(array: Any) -> str:
    return f"{'x'.join(map(str, array.shape)) or 'no'} values"


def _after_fork() -> None:
    global _loading
    _loading = threading.Lock()  # another thread may have had it


os.register_at_fork(after_in_child=_after_fork)


@dataclass(frozen=True, slots=True)
class ImageInTable:
    """An image that is read from its table only when it is judged: a data set need not fit into memory.

    Attributes:
        load: Reads it: a PIL image, or the content of a cell of the table.
    """

    load: Callable[[], Any]


class ImageTable:
    """Reads the rows of a table and adds columns to a copy of it; arguments as in `Judge.judge_table`.

    Raises:
        TypeError: It is no such table.
        UserError: It has no such column.
    """

    def __init__(self, table: Any, image: str, prompt: str, sources: Sequence[str] = ()) -> None:
        library = type(table).__module__.partition(".")[0]
        if library == "pandas" and hasattr(table, "iloc") and hasattr(table, "columns"):
            self._columns = [str(name) for name in table.columns]
        elif library == "datasets" and hasattr(table, "select_columns") and hasattr(table, "__len__"):
            self._columns = list(table.column_names)
        else:
            raise TypeError(must_be("the table", "a pandas.DataFrame or a datasets.Dataset", table))
        self._table, self._is_pandas = table, library == "pandas"
        for name in (image, prompt, *sources):
            if self._columns.count(name) != 1:
                if name in self._columns:
                    raise UserError(f"the table has two columns '{name}'. Rename one")
                raise UserError(unknown("column", name, self._columns))
        names = list(dict.fromkeys((image, *sources)))
        self._images = table[names] if self._is_pandas else table.select_columns(names)
        self._image, self._sources = image, sources
        self._prompts = [text if isinstance(text, str) else "" for text in table[prompt]]

    def entries(self) -> list[tuple[ImageInTable, str, list[ImageInTable]]]:
        """Return the image of each row with its prompt and its sources; none is read yet."""
        return [
            (self._cell(row, self._image), prompt, [self._cell(row, source) for source in self._sources])
            for row, prompt in enumerate(self._prompts)
        ]

    def _cell(self, row: int, column: str) -> ImageInTable:
        return ImageInTable(lambda: self._load(row, column))

    def _load(self, row: int, column: str) -> Any:
        value = self._images[column].iloc[row] if self._is_pandas else self._images[row][column]
        if isinstance(value, dict) and {"bytes", "path"} & set(value):
            value = value.get("bytes") or value.get("path")
        return value

    def check_free(self, columns: Iterable[str]) -> None:
        """Check that the table has none of these columns.

        Raises:
            UserError: It has one.
        """
        if taken := [name for name in columns if name in self._columns]:
            raise UserError(f"the table already has a column '{taken[0]}'. Call judge_table(..., prefix='new_')")

    def with_columns(self, columns: Json) -> Any:
        if self._is_pandas:
            return self._table.assign(**columns)
        table = self._table
        for name, values in columns.items():
            table = table.add_column(name, values)
        return table


def score_columns(metrics: Iterable[str], prefix: str) -> dict[str, list[str]]:
    """Name the columns of each metric: value, status and reason."""
    return {name: [f"{prefix}{name}", f"{prefix}{name}_status", f"{prefix}{name}_reason"] for name in metrics}


def filled(names: Sequence[str], scores: Sequence[Score]) -> Json:
    """Return the columns of one metric by name; if there is no score the value is NaN."""
    import numpy as np

    values = np.array([np.nan if score.value is None else score.value for score in scores], dtype=np.float64)
    statuses, reasons = [str(score.status) for score in scores], [score.reason for score in scores]
    return dict(zip(names, (values, statuses, reasons), strict=True))
