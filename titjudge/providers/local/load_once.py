"""Load a model at its first use: once, and one model after the other in a process.

transformers changes classes of its own while it loads a model (it stops weights from being tied, for example) and changes
them back: where two models load at the same time, in two threads, the change can stay, and models loaded later are wrong.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from titjudge.core.errors import UserError

M = TypeVar("M")
_one_at_a_time = threading.Lock()


class LoadOnce(Generic[M]):
    """A model that the first call loads; one that could not be loaded is not tried again."""

    def __init__(self, load: Callable[[], M]) -> None:
        self._load = load
        self._broken: UserError | None = None
        self.model: M | None = None

    def __call__(self) -> M:
        """Return the model.

        Raises:
            UserError: It cannot be loaded.
        """
        if self.model is not None:
            return self.model
        with _one_at_a_time:
            if self._broken is not None:
                raise self._broken
            if self.model is None:  # another thread may have loaded it meanwhile
                try:
                    self.model = self._load()
                except UserError as error:
                    self._broken = error
                    raise
            return self.model

    def drop(self) -> None:
        """Forget the model."""
        self.model = None


def _after_fork() -> None:
    global _one_at_a_time
    _one_at_a_time = threading.Lock()  # another thread may have held it


os.register_at_fork(after_in_child=_after_fork)
