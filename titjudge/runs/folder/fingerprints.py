"""Fingerprints of models: addresses, weights, programs, embedders and recordings behind the names of a configuration.

A configuration says `openai/MODEL`, `local/MODEL`, `external/NAME` or `recorded`. The model behind such a name may change, also
by a variable of the environment that names another server, and a run that is resumed with another one would mix the answers of
two models under one name.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from titjudge.core.errors import UserError
from titjudge.core.run_records import Manifest
from titjudge.core.types import Status
from titjudge.engine.roles import Roles
from titjudge.providers.recorded import Recorded
from titjudge.runs.folder.run_folder import RunFolder


class Pins:
    """Fingerprints of the models of some roles computed without asking them.

    Attributes:
        models: Fingerprint by role.
        recorded: The providers of recorded answers, by role.
    """

    def __init__(self, roles: Roles, names: Iterable[str]) -> None:
        self.models: dict[str, str] = {}
        self.recorded: dict[str, Recorded] = {}
        for name in sorted(names):
            with contextlib.suppress(UserError):  # a model that is missing is reported when it is asked
                if name == "embedder":
                    self.models[name] = ",".join(f"{key}={value}" for key, value in roles.embedder().identity.items())
                elif (config := roles.config.role(name)) is not None:
                    provider = roles.new_provider(config)
                    if isinstance(provider, Recorded):
                        self.recorded[name] = provider
                    elif provider.address:
                        self.models[name] = provider.address

    def record(self, before: Manifest) -> dict[str, Any]:
        """Return the fingerprints as keys of a manifest, added to those of earlier sessions."""
        files = {file for provider in self.recorded.values() for file in (provider.file, provider.answers)}
        hashes = {file.name: _sha256(file) for file in sorted(files) if file.is_file()}
        keys = {"pins": before.pins | self.models, "recordings": before.recordings | hashes}
        return {name: value for name, value in keys.items() if value}

    def check(self, folder: RunFolder, *, together: bool) -> None:
        """Check that the models are those of the run's earlier sessions; a recording may have grown.

        Args:
            folder: The run to resume.
            together: Whether one of its metrics asks about other images of the prompt, too.

        Raises:
            UserError: A model or an answer in a recording has changed.
        """
        manifest = folder.manifest()
        for name, pin in self.models.items():
            then, now = set(manifest.pins.get(name, pin).split(",")), set(pin.split(","))
            if then != now:
                gone, new = (", ".join(sorted(parts)) or "nothing" for parts in (then - now, now - then))
                raise UserError(
                    f"{folder.path}: what answers as {name} has changed since this run began ({gone} then, {new} now): "
                    "choose another --out"
                )
        if self.recorded and manifest.recordings != self.record(Manifest()).get("recordings", {}):
            self._check_recorded(folder, together)

    def _check_recorded(self, folder: RunFolder, together: bool) -> None:
        """Check that the recordings still give the answers that the run has used."""
        images: dict[str, set[Path]] = {}  # by item; with `together`, all those of its prompt
        by_prompt: dict[str, set[Path]] = {}
        for item in folder.judged():
            if item.image is not None:
                images[item.id] = by_prompt.setdefault(item.prompt_id, set()) if together else set()
                images[item.id] |= {item.image, *item.sources}
        for reply in folder.replies():
            provider = self.recorded.get(reply["role"])
            if provider is None or reply["provider"] != Recorded.name or reply["status"] != Status.OK:
                continue
            paths = images.get(reply["item"], ())
            question = reply["messages"], reply["sample"], reply["template"]
            recalled = [provider.recall(*question, image, reply.get("choices", ())) for image in paths]
            answers = [answer for answer in recalled if answer is not None]
            if paths and reply["text"] not in [answer.text for answer in answers]:
                file = answers[0].endpoint if answers else provider.answers.name
                raise UserError(
                    f"{folder.path}: {file} no longer says what this run was told of {reply['item']} "
                    f"({reply['template']}): choose another --out"
                )


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
