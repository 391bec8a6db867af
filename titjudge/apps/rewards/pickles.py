"""Read pickles of plain data from untrusted clients: no class is imported and nothing is called.

`pickletools` splits a pickle into opcodes. The few that plain data need are executed here; any other is refused. NumPy
arrays and scalars and PIL images are recognised by the names in their pickles, and built from their bytes.
"""

from __future__ import annotations

import math
import pickletools
import re
import sys
from collections.abc import Callable
from typing import Any

MAX_STEPS = 1_000_000  # opcodes; a batch of images has some hundreds, and each may create an object
_DTYPE = re.compile(r"([biufUS])(\d{1,9})")
_MODES = {"L": 1, "RGB": 3, "RGBA": 4}
_MOST_KEY = 2**60  # larger integers and floats may share a hash, and a dict of such keys takes for ever; so may tuples
_PIL = re.compile(r"PIL\.(Image\.Image|(\w+)ImagePlugin\.(\w+)ImageFile)")


class Refused(ValueError):
    """The bytes are no pickle of plain data; the text says why."""


class _Name:
    """A global name in a pickle; it is never imported."""

    def __init__(self, text: str) -> None:
        self.text = text


class _Unbuilt:
    """An object whose state comes with a later BUILD opcode, which then sets `value`."""

    def __init__(self, kind: str, given: Any = None) -> None:
        self.kind, self.given = kind, given
        self.value: Any = self


def loads(data: bytes) -> Any:
    """Read lists, tuples, dicts, text, bytes, numbers, NumPy arrays of numbers or text, and PIL images.

    Arrays of text become lists. Protocols 3 to 5 are supported.

    Raises:
        Refused: The pickle holds anything else, or is damaged.
    """
    try:
        return _checked(_Machine().run(data))
    except Refused:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise Refused(f"the body is no pickle of plain data ({type(error).__name__})") from error


def _checked(value: Any) -> Any:
    """Refuse a value that contains a name, or an object without its state."""
    waiting, seen = [value], set()
    while waiting:
        each = waiting.pop()
        if isinstance(each, _Name | _Unbuilt):
            raise Refused("the pickle holds an object that is no plain data")
        if isinstance(each, list | tuple | dict) and id(each) not in seen:
            seen.add(id(each))
            waiting.extend(each.values() if isinstance(each, dict) else each)
    return value


class _Machine:
    """Executes the opcodes of one pickle."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        for steps, (code, given, _) in enumerate(pickletools.genops(data)):
            if code.name == "STOP":
                (value,) = self._stack
                return value
            if steps >= MAX_STEPS:
                raise Refused(f"the pickle has more than {MAX_STEPS:,} instructions")
            if code.name in _CONSTANTS:
                self._stack.append(_CONSTANTS[code.name]())
            elif code.name in _VALUES:
                self._stack.append(given)
            elif code.name in _STEPS:
                _STEPS[code.name](self, given)
            elif code.name not in _IGNORED:
                raise Refused(f"the pickle has the instruction {code.name}: only plain data is read")
        raise Refused("the pickle has no end")

    # -- opcodes -----------------------------------------------------------------------------------------------------

    def mark(self, _: Any) -> None:
        self._marks.append(len(self._stack))

    def _since_mark(self) -> list[Any]:
        start = self._marks.pop()
        values, self._stack[start:] = self._stack[start:], []
        return values

    def tuple(self, _: Any) -> None:
        self._stack.append((*self._since_mark(),))

    def tuple_of(self, count: int) -> None:
        values, self._stack[-count:] = (*self._stack[-count:],), []
        if len(values) != count:
            raise IndexError
        self._stack.append(values)

    def append(self, _: Any) -> None:
        value = self._stack.pop()
        self._list().append(value)

    def appends(self, _: Any) -> None:
        values = self._since_mark()
        self._list().extend(values)

    def _list(self) -> list[Any]:
        if type(self._stack[-1]) is not list:
            raise Refused("the pickle appends to what is no list")
        return self._stack[-1]

    def set_item(self, _: Any) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._set([key, value])

    def set_items(self, _: Any) -> None:
        self._set(self._since_mark())

    def _set(self, pairs: list[Any]) -> None:
        if type(self._stack[-1]) is not dict or len(pairs) % 2:
            raise Refused("the pickle sets items of what is no dict")
        if not all(isinstance(key, str | bytes) or (type(key) is int and abs(key) < _MOST_KEY) for key in pairs[::2]):
            raise Refused("the keys of a dict are text or small whole numbers")
        self._stack[-1].update(zip(pairs[::2], pairs[1::2], strict=True))

    def memoize(self, _: Any) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def put(self, place: int) -> None:
        self._memo[place] = self._stack[-1]

    def get(self, place: int) -> None:
        value = self._memo[place]
        self._stack.append(value.value if isinstance(value, _Unbuilt) else value)

    def name(self, given: str) -> None:
        self._stack.append(_Name(given.replace(" ", ".", 1)))

    def name_of_stack(self, _: Any) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        if not (isinstance(name, str) and isinstance(module, str)):
            raise Refused("the pickle has a name that is no text")
        self._stack.append(_Name(f"{module}.{name}"))

    def make(self, _: Any) -> None:
        """Build what `NAME(arguments)` stands for, where NAME is one that NumPy or PIL use."""
        given, name = self._stack.pop(), self._stack.pop()
        if not isinstance(name, _Name) or not isinstance(given, tuple):
            raise Refused("the pickle calls what is no name")
        self._stack.append(_made(name.text, given))

    def build(self, _: Any) -> None:
        state, made = self._stack.pop(), self._stack[-1]
        if not isinstance(made, _Unbuilt) or made.value is not made:
            raise Refused("the pickle gives a state to an object that has none")
        made.value = _BUILT[made.kind](made.given, state)
        self._stack[-1] = made.value


def _made(name: str, given: tuple[Any, ...]) -> Any:
    short = name.replace("numpy.core.", "numpy._core.")
    if short == "numpy.dtype":
        return _Unbuilt("dtype", given[0])
    if short == "numpy._core.multiarray._reconstruct":
        if not isinstance(given[0], _Name) or given[0].text != "numpy.ndarray":
            raise Refused("the pickle holds an array that is no numpy.ndarray")
        return _Unbuilt("array")
    if short == "numpy._core.numeric._frombuffer":
        raw, dtype, shape, order = given
        return _array(raw, dtype, shape, order)
    if short == "numpy._core.multiarray.scalar":
        dtype, raw = given
        (value,) = _array(raw, dtype, (1,), "C")
        return value
    if _PIL.fullmatch(name) and given == ():
        return _Unbuilt("image")
    raise Refused(f"the pickle names {name[:100]}: only plain data, NumPy arrays and PIL images are read")


def _dtype(text: Any, state: Any) -> Any:
    """Make the dtype of `text` (such as `U12` or `f4`); its state holds the byte order."""
    import numpy as np

    if not isinstance(text, str) or not _DTYPE.fullmatch(text) or state[1] not in ("<", ">", "|", "="):
        raise Refused("the pickle holds an array of objects: only numbers and text are read")
    order = "" if state[1] in "|=" else state[1]
    return np.dtype(f"{order}{text}")


def _array(raw: Any, dtype: Any, shape: Any, order: Any) -> Any:
    import numpy as np

    if not isinstance(dtype, np.dtype) or not isinstance(raw, bytes | bytearray) or order not in ("C", "F"):
        raise Refused("the pickle holds a damaged array")
    if not isinstance(shape, tuple) or not all(type(side) is int and 0 <= side <= len(raw) for side in shape):
        raise Refused("the pickle holds an array of a damaged shape")
    if math.prod(shape) * dtype.itemsize != len(raw):
        raise Refused("the pickle holds an array whose shape does not fit its bytes")
    if dtype.kind == "U" and (np.frombuffer(raw, np.dtype("u4").newbyteorder(dtype.byteorder)) > sys.maxunicode).any():
        raise Refused("the pickle holds text that is none")
    array = np.frombuffer(raw, dtype).reshape(shape, order=order)
    if dtype.kind not in "US":
        return array
    if array.size > MAX_STEPS:  # each of them becomes an object
        raise Refused(f"the pickle has an array of more than {MAX_STEPS:,} texts")
    return array.tolist()


def _image(_: Any, state: Any) -> Any:
    from PIL import Image

    mode, size, raw = state[1], state[2], state[4]
    if mode not in _MODES or not isinstance(raw, bytes):
        raise Refused(f"the pickle holds an image that is none of {', '.join(_MODES)}")
    width, height = size
    sides_fit = type(width) is type(height) is int and 0 < width <= len(raw) and 0 < height <= len(raw)
    if not sides_fit or width * height * _MODES[mode] != len(raw):
        raise Refused("the pickle holds an image whose size does not fit its bytes")
    return Image.frombytes(mode, (width, height), raw)


_BUILT: dict[str, Callable[[Any, Any], Any]] = {
    "dtype": _dtype,
    "array": lambda _, state: _array(state[4], state[2], state[1], "F" if state[3] else "C"),
    "image": _image,
}
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False,
    "EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple,
}  # fmt: skip
_VALUES = frozenset({
    "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8",
    "SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8",
})  # fmt: skip
_IGNORED = frozenset({"PROTO", "FRAME"})
_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    "MARK": _Machine.mark, "TUPLE": _Machine.tuple,
    "TUPLE1": lambda machine, _: machine.tuple_of(1), "TUPLE2": lambda machine, _: machine.tuple_of(2),
    "TUPLE3": lambda machine, _: machine.tuple_of(3),
    "APPEND": _Machine.append, "APPENDS": _Machine.appends, "SETITEM": _Machine.set_item, "SETITEMS": _Machine.set_items,
    "MEMOIZE": _Machine.memoize, "BINPUT": _Machine.put, "LONG_BINPUT": _Machine.put,
    "BINGET": _Machine.get, "LONG_BINGET": _Machine.get,
    "GLOBAL": _Machine.name, "STACK_GLOBAL": _Machine.name_of_stack,
    "REDUCE": _Machine.make, "NEWOBJ": _Machine.make, "BUILD": _Machine.build,
}  # fmt: skip
