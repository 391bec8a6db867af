"""Images in memory (PIL, NumPy, bytes of a file) as files of a temporary folder, named by their content."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import threading
from pathlib import Path
from typing import Any

ACCEPTED = (
    "a path (str or pathlib.Path), a PIL image, the bytes of an image file, or a NumPy array (height x width x 3)"
)
_AS_PNG = frozenset({"1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16"})


class ImagesInMemory:
    """A folder that is made when first needed and gone when closed, or with the last reference to it.

    Safe to use from several threads: `Judge.score_many` places images from all of its threads at once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def place(self, image: Any) -> tuple[str, Path]:
        """Give name and path of an image: a path as it is given, an image in memory as a file `picture-SHA256`.

        Raises:
            TypeError: it is no image; names what is.
            ValueError: an array of a shape or with values that no image has.
        """
        if isinstance(image, str | os.PathLike):
            return str(image), Path(image)
        content = _content(image)
        name = f"picture-{hashlib.sha256(content).hexdigest()}"
        with self._lock:  # one folder, and no reader of half a file
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="titjudge-", ignore_cleanup_errors=True)
            file = Path(self._folder.name) / name
            if not file.exists():
                file.write_bytes(content)
        return name, file

    def close(self) -> None:
        with self._lock:
            if self._folder is not None:
                self._folder.cleanup()
                self._folder = None


def _content(image: Any) -> bytes:
    """Encode an image: the bytes of a file as they are, anything else as PNG."""
    from PIL import Image

    if isinstance(image, bytes | bytearray | memoryview):
        return bytes(image)
    if type(image).__module__.partition(".")[0] == "numpy":
        image = _from_array(image)
    if not isinstance(image, Image.Image):
        raise TypeError(f"an image is {ACCEPTED}; not {type(image).__name__}")
    out = io.BytesIO()
    (image if image.mode in _AS_PNG else image.convert("RGB")).save(out, "PNG")
    return out.getvalue()


def _from_array(array: Any) -> Any:
    """Convert an array of 0 to 255 (integers), or of 0 to 1 (floats, as diffusers gives them), to a PIL image."""
    import numpy as np
    from PIL import Image

    if (
        not isinstance(array, np.ndarray)
        or array.ndim not in (2, 3)
        or (array.ndim == 3 and array.shape[2] not in (1, 3, 4))
    ):
        shape = "x".join(map(str, np.shape(array))) or "no"
        raise ValueError(
            f"a picture is an array of height x width, x 3 or x 4 with colours; this one has {shape} values"
        )
    flat = array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array
    if np.issubdtype(flat.dtype, np.floating):
        if flat.size and not (float(flat.min()) >= 0 and float(flat.max()) <= 1):
            raise ValueError("a picture of floats has values from 0 to 1")
        flat = np.rint(flat * 255)
    elif flat.dtype != np.uint8 and flat.size and not (int(flat.min()) >= 0 and int(flat.max()) <= 255):
        raise ValueError("a picture of integers has values from 0 to 255")
    return Image.fromarray(np.ascontiguousarray(flat, dtype=np.uint8))
