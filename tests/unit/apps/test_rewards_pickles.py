"""Pickles of a reward request: plain data is read as it was written, and everything else is refused without being run."""

import contextlib
import pickle
import struct
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from titjudge.apps.rewards.pickles import MOST_LEVELS, RefusedPickle, loads

CALLS = [
    ("os", "system", "touch {file}"),
    ("posix", "system", "touch {file}"),
    ("subprocess", "getoutput", "touch {file}"),
    ("builtins", "eval", "open({file!r}, 'w')"),
    ("builtins", "exec", "open({file!r}, 'w')"),
    ("builtins", "__import__", "antigravity"),
    ("builtins", "compile", "1"),
    ("builtins", "open", "{file}"),
    ("builtins", "bytearray", "9"),
    ("io", "FileIO", "{file}"),
    ("_io", "open", "{file}"),
    ("pathlib", "Path", "{file}"),
    ("importlib", "import_module", "antigravity"),
    ("runpy", "run_path", "{file}"),
    ("pickle", "loads", "N."),
    ("numpy", "load", "{file}"),
    ("numpy", "fromfile", "{file}"),
    ("numpy.core.multiarray", "fromstring", "x"),
    ("numpy._core.multiarray", "_reconstruct.__globals__", "x"),
    ("numpy", "ndarray.__reduce__", "x"),
    ("numpy", "dtype.type", "x"),
    ("PIL.Image", "open", "{file}"),
    ("PIL.Image", "Image.open", "{file}"),
    ("PIL.ImageShow", "show", "{file}"),
    ("titjudge.apps.rewards.pickles", "loads", "N."),
    ("torch", "load", "{file}"),
]


def text(value: str) -> bytes:
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def hostile(file: Path) -> Iterator[tuple[str, bytes]]:
    """A hundred and more pickles that would do harm, each with its name."""
    for module, name, given_ in CALLS:
        argument = text(given_.format(file=str(file)))
        named = f"c{module}\n{name}\n".encode()
        on_stack = text(module) + text(name) + b"\x93"
        yield f"{module}.{name} by REDUCE", b"\x80\x02" + named + argument + b"\x85R."
        yield f"{module}.{name} by STACK_GLOBAL", b"\x80\x04" + on_stack + argument + b"\x85R."
        yield f"{module}.{name} by NEWOBJ", b"\x80\x04" + on_stack + argument + b"\x85\x81."
        yield f"{module}.{name} by INST", b"(" + argument + f"i{module}\n{name}\n.".encode()
        yield f"{module}.{name} in a dict", b"\x80\x04}" + text("images") + on_stack + argument + b"\x85Rs."
    getattr_ = b"cbuiltins\ngetattr\n"
    yield "getattr of a module", getattr_ + b"(cos\nenviron\n" + text("copy") + b"tR)R."
    yield "getattr of text", getattr_ + b"(" + text("x") + text("__class__") + b"tR."
    yield "OBJ", b"(cos\nsystem\n" + text("true") + b"o."
    yield "NEWOBJ_EX", b"\x80\x04cos\nsystem\n)}\x92."
    yield "a persistent id", b"Psecret\n."
    yield "a persistent id on the stack", text("secret") + b"Q."
    for code, number in ((b"\x82", b"\x01"), (b"\x83", b"\x01\x00"), (b"\x84", b"\x01\x00\x00\x00")):
        yield f"an extension {code!r}", b"\x80\x02" + code + number + b"."
    yield "a buffer from elsewhere", b"\x80\x05\x97."
    yield "a name alone", b"cnumpy\nndarray\n."
    yield "a name in a list", b"]cnumpy\nndarray\na."
    yield "an array without its state", (b"cnumpy._core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85C\x01btR.")
    yield (
        "an array of another class",
        (b"cnumpy._core.multiarray\n_reconstruct\n(cos\nsystem\nK\x00\x85C\x01btR(K\x01K\x01\x85NNC\x00tb."),
    )
    yield "a dtype alone", b"cnumpy\ndtype\n(" + text("O8") + b"\x89\x88tR."
    yield "state for a list", b"](" + text("__class__") + b"cos\nsystem\ndb."
    yield "state for a name", b"cnumpy\nndarray\n}" + text("__reduce__") + b"Nsb."
    yield "state twice", pickle.dumps(Image.new("L", (1, 1)), 4)[:-1] + b"}b."
    for code, size in ((b"B", "<I"), (b"\x8e", "<Q"), (b"X", "<I"), (b"\x8d", "<Q"), (b"\x96", "<Q"), (b"\x8b", "<i")):
        yield f"{code!r} of a huge length", code + struct.pack(size, 2 ** (8 * struct.calcsize(size) - 2)) + b"x."
    yield "a length below zero", b"\x8b" + struct.pack("<i", -5) + b"."
    yield "a huge frame", b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b"N"
    yield "a huge place", b"Nr" + struct.pack("<I", 2**32 - 1)
    yield "a number of a million digits", b"I" + b"9" * 1_000_000 + b"\n."
    yield "too many instructions", b"](" + b"N" * 1_000_001 + b"e."
    yield "more texts than a batch has", pickle.dumps(np.zeros(1_000_001, "S1"), 4)
    yield "keys that are tuples of tuples", b"})" + b"2\x86" * 60 + b"Ns."
    yield "a key that is a tuple", b"}" + b"))\x86Ns."
    yield "a list as a key", b"}]Ns."
    yield "lists in lists", b"]" * 100_000 + b"a" * 99_999 + b"."
    yield "tuples in tuples", b")" + b"\x85" * 100_000 + b"."
    yield "tuples in tuples, each in a list too", b"\x80\x04]()" + b"\x85\x94h\x00" * 3 + b"\x85" * 100_000 + b"e."
    yield "a list in itself", b"\x80\x04]\x94h\x00a."
    yield "nothing", b""
    yield "no end", b"]"
    yield "an empty stack", b"."
    yield "two values", b"NN."
    yield "a mark that is not there", b"]e."
    yield "a memory that is not there", b"h\x05."
    yield "damaged text", b"X\x01\x00\x00\x00\xff."
    yield "JSON", b'{"images": []}'
    yield "a web page", b"<html>"
    yield "protocol 0", pickle.dumps({"a": "b"}, 0)
    for kind, value in {
        "an array of objects": np.array([{"a": 1}, object], dtype=object),
        "a structured array": np.zeros(2, dtype=[("a", "i4"), ("b", "O")]),
        "an array of dates": np.zeros(2, dtype="datetime64[s]"),
        "a complex array": np.zeros(2, dtype="c8"),
        "a masked array": np.ma.array([1, 2], mask=[0, 1]),
        "a matrix of records": np.rec.array([(1, 2)], dtype=[("a", int), ("b", int)]),
        "a path": Path("/"),
        "a set": {1, 2},
        "a frozen set": frozenset({1}),
        "a class": int,
        "a function": len,
        "an exception": ValueError("x"),
        "a complex number": 1j,
        "a range": range(3),
        "an ordered dict": OrderedDict(a=1),
        "a palette image": Image.new("P", (2, 2)),
    }.items():
        for protocol in (4, 5):
            yield f"{kind}, protocol {protocol}", pickle.dumps({"images": [value]}, protocol)
    plain = pickle.dumps(np.arange(6, dtype="i4").reshape(2, 3), 4)
    yield "an array of another shape", plain.replace(b"K\x02K\x03\x86", b"K\x02K\x04\x86")
    yield "an array of a shape below zero", plain.replace(b"K\x02K\x03\x86", b"J\xff\xff\xff\xffK\x03\x86")
    yield "an array of a huge shape", plain.replace(b"K\x02K\x03\x86", b"\x8a\x09" + b"\xff" * 8 + b"\x00K\x03\x86")
    yield "an array of a huge type", pickle.dumps(np.array(["ab"]), 4).replace(b"U2", b"U9")
    yield "text beyond Unicode", pickle.dumps(np.array(["a"]), 4).replace(b"a\x00\x00\x00", b"\xff\xff\xff\xff")
    shown = pickle.dumps(Image.new("RGB", (2, 3)), 4)
    yield "an image of another size", shown.replace(b"K\x02K\x03\x86", b"K\x02K\x09\x86")
    yield "an image of another mode", shown.replace(b"RGB", b"LAB")


def test_every_hostile_pickle_is_refused_and_none_is_run(tmp_path: Path) -> None:
    """The same file would appear if Python's own reader read the first of them."""
    file = tmp_path / "harm"
    table = list(hostile(file))
    assert len(table) >= 100
    assert len({name for name, _ in table}) == len(table)
    for name, data in table:
        with pytest.raises(RefusedPickle) as refusal:
            print(name, loads(data))
        assert "\n" not in str(refusal.value)
        assert len(str(refusal.value)) < 300
        assert not file.exists()
    pickle.loads(table[0][1])  # noqa: S301 - that this one does harm is what the test is about
    assert file.exists()


@given(st.binary(max_size=200))
def test_no_bytes_do_anything_but_be_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(RefusedPickle):
        loads(b"\x80\x04" + data + b".")


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(-(2**59), 2**59), inner)
    ),
    max_leaves=8,
)


@settings(max_examples=40)
@given(PLAIN, st.sampled_from([3, 4, 5]))
def test_plain_data_is_read_as_it_was_written(value: Any, protocol: int) -> None:
    assert loads(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_arrays_and_images_are_read_as_they_were_written(protocol: int) -> None:
    arrays = [
        np.arange(24, dtype=np.uint8).reshape(2, 4, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([True, False]), np.zeros((0,), np.float32), np.arange(4, dtype=">i4"), np.float32(2.5), np.int64(-3),
    ]  # fmt: skip
    texts = np.array_split(["a red cube", "ein Würfel", ""], 1)[0]
    image = Image.new("RGB", (3, 2), (1, 2, 3))
    given_ = {"arrays": arrays, "texts": texts, "one": texts[1], "images": [image, image.convert("L")], "again": texts}
    read = loads(pickle.dumps(given_, protocol))
    for found, array in zip(read["arrays"], arrays, strict=True):
        assert np.array_equal(found, array)
        assert found.dtype == array.dtype
    assert read["texts"] == read["again"] == ["a red cube", "ein Würfel", ""]
    assert read["one"] == "ein Würfel"
    assert [each.tobytes() for each in read["images"]] == [image.tobytes(), image.convert("L").tobytes()]
    assert read["images"][0].size == (3, 2)


@pytest.mark.parametrize("key", [2**61 - 1, -(2**61), 1.5, True, (1, 2)])
def test_keys_that_may_all_share_a_hash_are_refused(key: Any) -> None:
    """A dict of a hundred thousand multiples of 2**61 - 1 takes minutes."""
    with pytest.raises(RefusedPickle, match="a key that is neither"):
        loads(pickle.dumps({key: 1}))
    assert loads(pickle.dumps({"a": 1, b"b": 2, -7: 3})) == {"a": 1, b"b": 2, -7: 3}


def test_nesting_is_bounded_where_parts_are_shared_too() -> None:
    """A chain of which each link is in a list as well is as deep as it is long."""
    links: list[Any] = [[]]
    for _ in range(MOST_LEVELS):
        links.append([links[-1]])
    for value in (links, links[-1], {"deep": links[-1]}):
        with pytest.raises(RefusedPickle, match="deeper than"):
            loads(pickle.dumps(value))
    assert loads(pickle.dumps(links[-3])) == links[-3]
