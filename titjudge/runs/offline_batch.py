"""Walk the real metrics of a run with other answerers in place of its models: what offline batches and recordings share.

`offline_export` writes down what is asked, `offline_import` and `recording` answer from a file. What may be kept, what
fits its schema and what follows from it are the engine's to decide, as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from titjudge.core import structured_output
from titjudge.core.config import RoleConfig
from titjudge.core.errors import Unanswered
from titjudge.core.keys import request_key
from titjudge.core.types import Embedding, Reply, Request, Status
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.engine.scoring import Panel
from titjudge.metrics.agent.crops import Origin, origin
from titjudge.providers import Embedder, Provider, make_provider
from titjudge.runs.loop import RunLoop
from titjudge.runs.session import Session

Journal = Callable[[str, dict[str, Any]], None]


@dataclass(slots=True)
class Asked:
    """One question as it was met on a walk: who asked it, the parts of images it shows, and what was wrong with its answer."""

    template: str
    items: dict[str, None] = field(default_factory=dict)
    parts: dict[str, Origin] = field(default_factory=dict)  # by the hash of what is sent
    problem: str = ""

    def refusal(self, reason: str = "") -> str:
        """Say why its answer is of no use, with an item and the template, so that people find it."""
        return (
            f"{next(iter(self.items))}, {self.template}: {self.problem or reason or 'it does not say what was asked'}"
        )


def only_recorded(session: Session) -> bool:
    """Tell whether every model that the metrics of a run ask is `recorded`."""
    roles = {role for metric in session.metrics.values() for role in metric.roles} - {"embedder"}
    if "judge" in roles:
        roles.update(session.config.judge_roles)
    found = [session.config.role(role) for role in roles]
    return bool(found) and all(role is not None and role.provider == "recorded" for role in found)


async def walk(
    session: Session,
    seat: Callable[[RoleConfig, Provider], Provider],
    journal: Journal | None = None,
    *,
    seen: dict[str, Asked],
) -> None:
    """Put every item through every metric that asks a model, with `seat(config, real)` in place of each provider.

    `seen` is filled with every question that is asked, by its key.
    """
    config = session.config

    def make(role: RoleConfig) -> Provider:
        settings = role.settings(config.limits.timeout)
        if role.provider == "recorded":  # nothing need be recorded yet
            settings = replace(settings, options={**settings.options, "new": True})
        return seat(role, make_provider(role.provider, settings))

    metrics = {name: metric for name, metric in session.metrics.items() if set(metric.roles) - {"embedder"}}
    roles = Roles(config, make=make, embedder=lambda _: _NoEmbedder())
    roles.check_recordings(role for metric in metrics.values() for role in metric.roles)
    engine = _NotingEngine(
        seen,
        roles,
        session.library,
        session.cache,
        journal=journal,
        failed="drop",
    )
    loop = RunLoop(engine, metrics, panel=Panel.of(config), on_score=lambda score, of: None, in_flight=16)
    try:
        await loop.run(session.items())
    finally:
        await engine.aclose()


class _NotingEngine(Engine):
    """An engine that notes every question put to it, also one that is shared with another item."""

    def __init__(self, seen: dict[str, Asked], *rest: Any, **named: Any) -> None:
        super().__init__(*rest, **named)
        self._seen = seen

    async def answer(self, role: Any, request: Request, **rest: Any) -> Reply:
        key = request_key(request)
        asked = self._seen.setdefault(key, Asked(request.template))
        asked.items[request.item_id] = None
        for picture in request.images:
            if (part := origin(picture.path)) is not None:
                asked.parts[picture.sha256] = part
        return await super().answer(role, request, **rest)

    async def _repair(self, role: Any, request: Request, reply: Reply, schema: Any, reservation: Any) -> Reply:
        if not request.attempt:
            self._seen[request_key(request)].problem = structured_output.problem(reply.text, schema)
        return await super()._repair(role, request, reply, schema, reservation)


class _NoEmbedder(Embedder):
    """Vectors are made by the run itself."""

    name = "none"

    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        raise Unanswered(Status.MISSING, "no vectors here")
