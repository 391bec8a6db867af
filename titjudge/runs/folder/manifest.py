"""Make the manifest of a run: models, endpoints, prompts, metrics and progress; and fingerprints of its models.

A configuration contains `openai/MODEL`, `local/MODEL`, `external/NAME` or `recorded`. The model behind such a name may
change, also by a variable of the environment that names another server, and a run that is resumed with another one would
mix the answers of two models under one name.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import titjudge
from titjudge.core.config import RunConfig
from titjudge.core.errors import UserError
from titjudge.core.types import Json, Note, Status
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles, RoleStats
from titjudge.metrics import Metric
from titjudge.providers.recorded import Recorded
from titjudge.providers.retirements import same_model
from titjudge.runs.folder.identity import identity
from titjudge.runs.folder.run_folder import RunFolder

if TYPE_CHECKING:
    from titjudge.core.run_records import Manifest, RoleRecord


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

    def record(self, before: Manifest) -> Json:
        """Return the fingerprints as keys of a manifest, added to the fingerprints of earlier sessions."""
        keys = {"pins": before.pins | self.models, "recordings": before.recordings | self._recordings()}
        return {name: value for name, value in keys.items() if value}

    def _recordings(self) -> dict[str, str]:
        """Return the checksum of each file of recorded answers."""
        files = {file for provider in self.recorded.values() for file in (provider.file, provider.answers)}
        return {file.name: _sha256(file) for file in sorted(files) if file.is_file()}

    def check(self, folder: RunFolder, *, together: bool) -> None:
        """Check that the models are the same as in the run's earlier sessions; a recording may have grown.

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
                    f"{folder.path}: the model of {name} has changed since this run began (from {gone} to {new}). "
                    "Choose another --out"
                )
        if self.recorded and manifest.recordings != self._recordings():
            self._check_recorded(folder, together)

    def _check_recorded(self, folder: RunFolder, together: bool) -> None:
        """Check that the recordings still give the answers that the run has used."""
        images: dict[str, set[Path]] = {}  # by item; with `together`, all of its prompt
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
                    f"{folder.path}: {file} no longer has the answer that this run used for {reply['item']} "
                    f"({reply['template']}). Choose another --out"
                )


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def make_manifest(
    config: RunConfig, engine: Engine, metrics: Mapping[str, Metric], before: Manifest | None = None, **more: Any
) -> Manifest:
    """Describe a run: models, versions, endpoints, prompts, metric versions, software.

    Args:
        config: The configuration of this session.
        engine: The engine, which has counted the answers of this session.
        metrics: The metrics by name.
        before: The manifest of the run's earlier sessions; its roles and prompts are kept and added to.
        more: Further keys of the manifest.
    """
    from titjudge.core.run_records import SCHEMA_VERSION, Manifest, RoleRecord

    before = before or Manifest()
    sessions = {
        role.name: _role(role.label, role.provider.base_url, role.tally).with_(
            not_sent=sorted({*role.unsent(config.protocol), *role.provider.refused})
        )
        for role in engine.roles.open()
    }
    embedder = engine.roles.embedded
    if embedder.asked or embedder.cached:
        sessions["embedder"] = _role(engine.roles.embedder().name, "", embedder)
    roles = {name: role.to_json() for name, role in before.roles.items()}
    for name, session in sessions.items():
        total = before.roles.get(name, RoleRecord()).plus(session)
        roles[name] = total.with_(cached=session.cached).to_json()
    return Manifest.model_validate(
        {
            "schema_version": SCHEMA_VERSION,
            "titjudge": titjudge.__version__,
            "identity": identity(config),
            "limits": config.limits.model_dump(),
            "protocol": config.protocol,
            "metrics": {name: _metric(metric) for name, metric in metrics.items()},
            "prompts": {**before.prompts, **engine.library.used},
            "roles": roles,
            **more,
        }
    )


def _role(label: str, base_url: str, stats: RoleStats) -> RoleRecord:
    """Return the counts of a role in this session."""
    from titjudge.core.run_records import RoleRecord

    usage = stats.usage
    return RoleRecord.model_validate(
        {
            "model": label,
            "base_url": base_url,
            "answered": [
                {"version": version, "endpoint": endpoint, "answers": count}
                for (version, endpoint), count in stats.versions.items()
            ],
            "asked": stats.asked,
            "cached": stats.cached,
            "errors": stats.errors,
            **({"trouble": stats.trouble} if stats.trouble else {}),
            "unusable": stats.unusable,
            "spent": stats.spent,
            "unpriced": stats.unpriced,
            "seconds": stats.seconds,
            "tokens": {"input": usage.input, "output": usage.output, "thinking": usage.thinking},
        }
    )


def _metric(metric: Metric) -> Json:
    record: Json = {
        "version": metric.version,
        "range": [end if math.isfinite(end) else None for end in metric.range],  # JSON has no infinity
        "source": metric.source,
        "higher_is_better": metric.higher_is_better,
    }
    return record | ({"options": dict(metric.options)} if metric.options else {})


def mixed(roles: Mapping[str, RoleRecord]) -> list[Note]:
    """List warnings for the roles in which another model answered too, a line each."""
    lines = []
    for role in roles.values():
        model = role.model.partition("/")[2]
        answers = {record.version: record.answers for record in role.answered if record.version}
        others = {version: count for version, count in answers.items() if not same_model(model, version)}
        if others:
            names = ", ".join(sorted({version.partition("@")[0] for version in others}))
            line = (
                f"mixed run: {sum(others.values()):,} of {sum(answers.values()):,} answers to {role.model} came from {names}; "
                "they are not kept for other runs, and scores of the two models are not comparable"
            )
            lines.append(Note("mixed_models", line))
    return lines


def changed_versions(manifest: Manifest) -> list[Note]:
    """List warnings for the models that changed their version during the run, a line each."""
    lines = []
    for role in manifest.roles.values():
        versions = sorted({record.version for record in role.answered if record.version})
        if len(versions) > 1:
            line = f"{role.model} answered as {len(versions)} model versions in this run: {', '.join(versions)}"
            lines.append(Note("several_versions", line))
    return lines
