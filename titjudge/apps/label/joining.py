"""People come by one link and type their names; a name that is taken is theirs who took it, unless they say that it is them."""

from __future__ import annotations

import logging
from typing import Any

from titjudge.apps.label.people import name_of
from titjudge.apps.label.service import Service
from titjudge.web.http_guard import same

_log = logging.getLogger("titjudge.apps.label")


class Joining:
    """Gives people the keys of the names that they type. Methods may be called from any thread."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def join(self, typed: str, key: str = "", *, sure: bool = False) -> dict[str, Any]:
        """Return `name` and its `key`; where the name is taken, `taken` by whom, with how much they have done, instead.

        Args:
            typed: The name as it was typed.
            key: The key that this browser has from before; empty where it has none.
            sure: Whether the person says that the name is theirs, from another browser.

        Raises:
            DataError: It cannot be a name, or as many people have come as may.
        """
        name = name_of(typed)
        if self._service.admit(name):
            return self._card(name)
        taken_name = self._service.store.person(name) or name
        if same(self._service.token(taken_name), key):
            return self._card(taken_name)
        if sure:
            _log.warning("%s goes on in another browser", taken_name)
            return self._card(taken_name)
        progress = self._service.progress_of(taken_name)
        return {"taken": {"name": taken_name, "done": progress.done, "last": progress.last}}

    def _card(self, name: str) -> dict[str, Any]:
        return {"name": name, "key": self._service.token(name)}
