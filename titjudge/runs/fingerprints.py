"""What answers on this machine, pinned: weights, programs, embedders and recordings behind the names of a configuration.

The configuration of a run says `local/MODEL`, `external/NAME` or `recorded`; what stands behind such a name may change,
and a run that went on with it would mix the answers of two models under one name.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from titjudge.core.errors import UserError
from titjudge.core.run_records import Manifest
from titjudge.core.types import Item, Status
from titjudge.engine.roles import Roles
from titjudge.providers.recorded import Recorded
from titjudge.runs.run_folder import RunFolder

_ELSEWHERE = frozenset({"openai", "gemini", "litellm"})  # what answers there is pinned by address and version


class Pins:
    """The pins of the roles `names` (and of the judges of a panel), as far as they can be told without asking anything."""

    def __init__(self, roles: Roles, names: Iterable[str]) -> None:
        self.models: dict[str, str] = {}
        self.recorded: dict[str, Recorded] = {}
        for name in roles.with_panel(names):
            with contextlib.suppress(UserError):  # not to be had: said when it is asked, if it is
                if name == "embedder":
                    self.models[name] = ",".join(f"{key}={value}" for key, value in roles.embedder().identity.items())
                elif (config := roles.config.role(name)) is not None and config.provider not in _ELSEWHERE:
                    provider = roles.made(config)
                    if isinstance(provider, Recorded):
                        self.recorded[name] = provider
                    elif provider.base_url:
                        self.models[name] = provider.base_url

    def record(self, before: Manifest) -> dict[str, Any]:
        """Give the pins as keys of a manifest, on top of those of earlier sessions."""
        files = {file for provider in self.recorded.values() for file in (provider.file, provider.answers)}
        hashes = {file.name: _sha256(file) for file in sorted(files) if file.is_file()}
        found = {"pins": before.pins | self.models, "recordings": before.recordings | hashes}
        return {name: value for name, value in found.items() if value}

    def check(self, folder: RunFolder, *, together: bool) -> None:
        """Check that what answers now is what answered before; a recording may have grown.

        Args:
            folder: the run that goes on.
            together: whether a metric of it asks about other images of the prompt, too.

        Raises:
            UserError: something has changed; says what.
        """
        before = folder.manifest()
        for name, pin in self.models.items():
            then = before.pins.get(name, pin)
            if then != pin:
                was, now = set(then.split(",")), set(pin.split(","))
                told = (
                    f"{', '.join(sorted(was - now)) or 'nothing'} then, {', '.join(sorted(now - was)) or 'nothing'} now"
                )
                raise UserError(
                    f"{folder.path}: what answers as {name} has changed since this run began ({told}): choose another --out"
                )
        if self.recorded and before.recordings != self.record(Manifest()).get("recordings", {}):
            self._check_recorded(folder, together)

    def _check_recorded(self, folder: RunFolder, together: bool) -> None:
        images: dict[str, Path] = {}
        images_of: dict[str, set[Path]] = {}
        prompt_of: dict[str, str] = {}
        for item in folder.items():
            if isinstance(item, Item) and item.image is not None:
                images[item.id] = item.image
                images_of.setdefault(item.prompt_id, set()).add(item.image)
                prompt_of[item.id] = item.prompt_id
        for reply in folder.replies():
            provider = self.recorded.get(reply["role"])
            if provider is None or reply["provider"] != Recorded.name or reply["status"] != Status.OK:
                continue
            asked = reply["item"]
            shown = (
                images_of.get(prompt_of.get(asked, ""), set())
                if together
                else {images[asked]}
                if asked in images
                else {}
            )
            said = reply["messages"], reply["sample"], reply["template"]
            now = [provider.recall(*said, image, reply.get("choices", ())) for image in shown]
            if shown and reply["text"] not in [found.text for found in now if found is not None]:
                file = next((found.endpoint for found in now if found is not None), provider.answers.name)
                raise UserError(
                    f"{folder.path}: {file} no longer says what this run was told of {asked} ({reply['template']}): "
                    "choose another --out"
                )


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
