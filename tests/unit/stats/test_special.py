"""The compiled part of `scipy.special`: its values are those of the whole, to the last bit."""

import importlib
import subprocess
import sys
import threading
from types import ModuleType

import pytest

from titjudge.stats import special

PARITY = """
import sys
import numpy as np
from titjudge.stats import special
x, p, df = np.linspace(-40, 40, 801), np.linspace(0, 1, 501), np.arange(1, 60)[:, None]
cases = [("stdtr", df, x), ("stdtrit", df, p), ("ndtr", x), ("ndtri", p), ("expit", x), ("logit", p)]
got = [getattr(special, name)(*values) for name, *values in cases]
assert "scipy.special" not in sys.modules
import scipy.special
for (name, *values), found in zip(cases, got, strict=True):
    function = getattr(scipy.special, name)
    assert function is getattr(special, name)
    assert function(*values).tobytes() == found.tobytes(), name
import scipy.stats
print(round(scipy.stats.t.ppf(0.975, 9), 6), scipy.special.legendre(2)(1.0))
"""


def test_the_values_are_those_of_scipy_which_can_still_be_imported() -> None:
    done = subprocess.run([sys.executable, "-c", PARITY], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2.262157", "1.0"]


def found_anew(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for name in [name for name in sys.modules if name.startswith("scipy.special")]:
        monkeypatch.delitem(sys.modules, name)
    return special._functions.__wrapped__()


def test_beside_another_thread_the_whole_package_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(importlib, "import_module", lambda name: asked.append(name) or ModuleType(name))
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        found_anew(monkeypatch)
    finally:
        done.set()
        thread.join()
    assert asked == ["scipy.special"]


def test_a_scipy_of_another_form_is_imported_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 1)

    def another(name: str) -> ModuleType:
        assert ("scipy.special" in sys.modules) == (name != "scipy.special")
        if name == "scipy.special._ufuncs":
            raise ImportError(name)
        return ModuleType(name)

    monkeypatch.setattr(importlib, "import_module", another)
    assert found_anew(monkeypatch).__name__ == "scipy.special"
