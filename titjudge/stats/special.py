"""The functions of `scipy.special` that titjudge needs: `from titjudge.stats.special import stdtrit`.

They are compiled. Importing the rest of `scipy.special` takes longer than all of a short run, so only the compiled part
is loaded.
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from types import ModuleType
from typing import Any

import scipy

_WHOLE, _PART = "scipy.special", "scipy.special._ufuncs"


@functools.cache
def _functions() -> ModuleType:
    # A module replaces the package while its part is loaded. No other thread may see it.
    if _WHOLE in sys.modules or threading.active_count() > 1:
        return importlib.import_module(_WHOLE)
    stand_in = sys.modules[_WHOLE] = ModuleType(_WHOLE)
    stand_in.__path__ = [f"{folder}/special" for folder in scipy.__path__]
    try:
        return importlib.import_module(_PART)
    except ImportError:  # another scipy
        sys.modules.pop(_PART, None)
    finally:
        del sys.modules[_WHOLE]
    return importlib.import_module(_WHOLE)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    function = globals()[name] = getattr(_functions(), name)  # the next import finds it without this function
    return function
