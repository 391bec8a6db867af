"""A fake provider whose answers wait."""

import asyncio

from titjudge.core.types import Reply, Request
from titjudge.providers.fake import Fake


class GatedFake(Fake):
    """Answers wait for `gate`, where there is one."""

    gate: asyncio.Event | None = None

    async def complete(self, request: Request) -> Reply:
        reply = await super().complete(request)
        if self.gate is not None:
            await self.gate.wait()
        return reply
