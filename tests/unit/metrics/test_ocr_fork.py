"""The OCR engine after a fork: a child has its own, and does not end the one of its parent."""

import os
import sys
import types
import warnings
from collections.abc import Iterator

import pytest

from titjudge.metrics import ocr


class Engine:
    """Ends as onnxruntime does: it waits for its threads, of which a fork has none."""

    def __init__(self, **_: object) -> None:
        self.process = os.getpid()

    def __del__(self) -> None:
        if os.getpid() != self.process:
            os._exit(9)


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    module = types.ModuleType("rapidocr")
    module.RapidOCR = Engine  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rapidocr", module)
    ocr._engine.cache_clear()
    yield
    ocr._engine.cache_clear()


def test_a_fork_makes_its_own_engine_and_never_ends_the_inherited_one() -> None:
    ocr._engine()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12: this process has threads
        child = os.fork()
    if not child:
        os._exit(0 if ocr._engine().process == os.getpid() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ocr._engine().process == os.getpid()
