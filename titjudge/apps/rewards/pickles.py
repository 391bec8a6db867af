"""Read pickles of plain data from untrusted clients: no class is imported and none of their code is called.

Python's own unpickler reads a pickle after each of its opcodes has been found to be one that plain data need. A name in
it never
leads to a class: it becomes a `_Name`, which builds NumPy arrays and scalars and PIL images from their bytes and refuses
all else.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import re
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

MAX_STEPS = 1_000_000  # opcodes; a batch of images has some hundreds, and each may create an object
MOST_LEVELS = 32  # of lists, tuples and dicts in each other
_DTYPE = re.compile(r"([biufUS])(\d{1,9})")
_MODES = {"L": 1, "RGB": 3, "RGBA": 4}
_MOST_KEY = 2**60  # larger integers and floats may share a hash, and a dict of such keys takes for ever; so may tuples
_PIL = re.compile(r"PIL\.(Image\.Image|(\w+)ImagePlugin\.(\w+)ImageFile)")
_OPCODES = """
PROTO FRAME STOP MARK NONE NEWTRUE NEWFALSE EMPTY_LIST EMPTY_DICT EMPTY_TUPLE BININT BININT1 BININT2 LONG1 LONG4 BINFLOAT
SHORT_BINUNICODE BINUNICODE BINUNICODE8 SHORT_BINBYTES BINBYTES BINBYTES8 BYTEARRAY8 TUPLE TUPLE1 TUPLE2 TUPLE3 APPEND APPENDS
SETITEM SETITEMS MEMOIZE BINPUT LONG_BINPUT BINGET LONG_BINGET GLOBAL STACK_GLOBAL REDUCE NEWOBJ BUILD
"""
_ALLOWED = frozenset(_OPCODES.split())
_PYTHON: Any = pickle._Unpickler  # the one written in Python: its steps can be replaced


class RefusedPickle(ValueError):
    """The bytes are not a pickle of plain data; the text has the reason."""


class _Name:
    """A global name in a pickle; it is never imported. Calling it builds what NumPy or PIL mean by it."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __call__(self, *arguments: Any) -> Any:
        short = self.text.replace("numpy.core.", "numpy._core.")
        if short == "numpy.dtype":
            return _Unbuilt(partial(_dtype, arguments[0]))
        if (
            short == "numpy._core.multiarray._reconstruct"
            and isinstance(arguments[0], _Name)
            and arguments[0].text == "numpy.ndarray"
        ):
            return _Unbuilt(lambda state: _array(state[4], state[2], state[1], "F" if state[3] else "C"))
        if short == "numpy._core.numeric._frombuffer":
            return _array(*arguments)
        if short == "numpy._core.multiarray.scalar":
            dtype, raw = arguments
            return _array(raw, dtype, (1,), "C")[0]
        if _PIL.fullmatch(self.text) and not arguments:
            return _Unbuilt(_image)
        raise RefusedPickle(f"the pickle contains {self.text[:100]}, which is not plain data")


class _Unbuilt:
    """An object whose state comes with a later BUILD opcode, which then sets `value`."""

    __slots__ = ("build", "value")

    def __init__(self, build: Callable[[Any], Any]) -> None:
        self.build, self.value = build, None


class _Unpickler(_PYTHON):  # type: ignore[misc]
    """Python's unpickler, whose objects are built by `_Name` and `_Unbuilt` alone."""

    def find_class(self, module: str, name: str) -> _Name:
        """Return a substitute for a name."""
        return _Name(f"{module}.{name}")

    def load_build(self) -> None:
        """Give its state to an object that waits for it."""
        state = self.stack.pop()
        unbuilt = self.stack[-1]
        if not isinstance(unbuilt, _Unbuilt) or unbuilt.value is not None:
            raise RefusedPickle("the pickle gives a state to an object that has none")
        self.stack[-1] = unbuilt.value = unbuilt.build(state)

    def load_setitem(self) -> None:
        """Set one item of a dict."""
        value = self.stack.pop()
        self._set([self.stack.pop(), value])

    def load_setitems(self) -> None:
        """Set items of a dict."""
        self._set(self.pop_mark())

    def _set(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not dict:
            raise RefusedPickle("the pickle sets items of a value that is not a dict")
        if not all(isinstance(key, str | bytes) or (type(key) is int and abs(key) < _MOST_KEY) for key in items[::2]):
            raise RefusedPickle("the pickle has a key that is neither text nor a small whole number")
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))

    def load_binget(self) -> None:
        """Fetch an object that came before."""
        self._fetch(self.read(1))

    def load_long_binget(self) -> None:
        """Fetch an object that came before, by a number of four bytes."""
        self._fetch(self.read(4))

    def _fetch(self, place: bytes) -> None:
        value = self.memo[int.from_bytes(place, "little")]
        self.append(value.value if isinstance(value, _Unbuilt) and value.value is not None else value)

    dispatch: ClassVar[dict[int, Any]] = _PYTHON.dispatch | {
        pickle.BUILD[0]: load_build,
        pickle.SETITEM[0]: load_setitem,
        pickle.SETITEMS[0]: load_setitems,
        pickle.NEWOBJ[0]: _PYTHON.load_reduce,
        pickle.BINGET[0]: load_binget,
        pickle.LONG_BINGET[0]: load_long_binget,
    }


def loads(data: bytes) -> Any:
    """Read lists, tuples, dicts, text, bytes, numbers, NumPy arrays of numbers or text, and PIL images.

    Arrays of text become lists. Protocols 3 to 5 are supported.

    Raises:
        RefusedPickle: The pickle contains anything else, or is damaged.
    """
    try:
        _check_opcodes(data)
        unpickler = _Unpickler(io.BytesIO(data))
        value = unpickler.load()
    except RefusedPickle:
        raise
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
        pickle.PickleError,
        EOFError,
    ) as error:
        raise RefusedPickle(f"the body is not a pickle of plain data ({type(error).__name__})") from error
    if unpickler.stack or unpickler.metastack:
        raise RefusedPickle("the pickle has more than one value")
    _height(value, MOST_LEVELS, {})
    return value


def _check_opcodes(data: bytes) -> None:
    """Refuse opcodes that plain data do not need, too many of them, and lengths beyond the end."""
    for steps, (code, _, _) in enumerate(pickletools.genops(data)):
        if steps >= MAX_STEPS:
            raise RefusedPickle(f"the pickle has more than {MAX_STEPS:,} instructions")
        if code.name not in _ALLOWED:
            raise RefusedPickle(f"the pickle has the instruction {code.name}, which plain data does not need")


def _height(value: Any, most: int, heights: dict[int, int]) -> int:
    """Count the levels of lists, tuples and dicts in each other; `heights` keeps the levels of containers by id.

    Raises:
        RefusedPickle: There are more than `most`, or the value contains a name or an object without its state.
    """
    if isinstance(value, _Name | _Unbuilt):
        raise RefusedPickle("the pickle has an object that is not plain data")
    if not isinstance(value, list | tuple | dict):
        return 0
    if most and id(value) not in heights:
        parts = value.values() if isinstance(value, dict) else value
        heights[id(value)] = 1 + max((_height(part, most - 1, heights) for part in parts), default=0)
    height = heights.get(id(value), 1)
    if height > most:
        raise RefusedPickle(f"the pickle nests deeper than {MOST_LEVELS} levels")
    return height


def _dtype(text: Any, state: Any) -> Any:
    """Make the dtype of `text` (such as `U12` or `f4`); its state has the byte order."""
    import numpy as np

    if not isinstance(text, str) or not _DTYPE.fullmatch(text) or state[1] not in ("<", ">", "|", "="):
        raise RefusedPickle("the pickle has an array of objects")
    order = "" if state[1] in "|=" else state[1]
    return np.dtype(f"{order}{text}")


def _array(raw: Any, dtype: Any, shape: Any, order: Any) -> Any:
    """Make an array of its bytes, or lists of its texts.

    Raises:
        RefusedPickle: Type, shape and bytes do not fit together.
    """
    import numpy as np

    if (
        not (isinstance(dtype, np.dtype) and isinstance(raw, bytes | bytearray) and order in ("C", "F"))
        or not isinstance(shape, tuple)
        or not all(type(side) is int and 0 <= side <= len(raw) for side in shape)
        or math.prod(shape) * dtype.itemsize != len(raw)
        or (
            dtype.kind == "U"
            and (np.frombuffer(raw, np.dtype("u4").newbyteorder(dtype.byteorder)) > sys.maxunicode).any()
        )
    ):
        raise RefusedPickle("the pickle has an array whose type, shape and bytes do not fit together")
    array = np.frombuffer(raw, dtype).reshape(shape, order=order)
    if dtype.kind not in "US":
        return array
    if array.size > MAX_STEPS:  # each of them becomes an object
        raise RefusedPickle(f"the pickle has an array of more than {MAX_STEPS:,} texts")
    return array.tolist()


def _image(state: Any) -> Any:
    """Make the image of a pickled PIL image's state.

    Raises:
        RefusedPickle: Mode, size and bytes do not fit together.
    """
    from PIL import Image

    mode, size, raw = state[1], state[2], state[4]
    if mode not in _MODES or not isinstance(raw, bytes):
        raise RefusedPickle(f"the pickle has an image with a mode other than {', '.join(_MODES)}")
    width, height = size
    sides_fit = type(width) is type(height) is int and 0 < width <= len(raw) and 0 < height <= len(raw)
    if not sides_fit or width * height * _MODES[mode] != len(raw):
        raise RefusedPickle("the pickle has an image with a size that does not fit its bytes")
    return Image.frombytes(mode, (width, height), raw)
