"""How many calls a request passes on its way from a metric to the network."""

import asyncio
import sys
from types import FrameType

from titjudge.core.config import load_config
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import Item
from titjudge.engine.ask import BoundAsk
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.providers.hosted.http import Answer, Transport
from titjudge.providers.hosted.openai import OpenAI

MOST = 11  # calls, the metric's `ask` and the transport's `post_json` among them


def calls(frame: FrameType | None) -> list[str]:
    """The functions of titjudge on the running task's stack, the innermost first."""
    found = []
    while frame is not None:
        if "/titjudge/" in frame.f_code.co_filename.replace("\\", "/") and "/tests/" not in frame.f_code.co_filename:
            found.append(frame.f_code.co_qualname)
        frame = frame.f_back
    return found


class Counting(Transport):
    """Answers itself and keeps the stack of what asked it: of its own task, and of the tasks that wait for that."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []

    async def post_json(self, url: str, *, headers: object, body: bytes, timeout: float) -> Answer:
        self.stack = calls(sys._getframe())
        for task in asyncio.all_tasks() - {asyncio.current_task()}:  # type: ignore[arg-type]
            waiting = task.get_coro()
            while waiting is not None:
                frame = getattr(waiting, "cr_frame", None)
                self.stack += calls(frame)[:1]
                waiting = getattr(waiting, "cr_await", None)  # type: ignore[assignment]
        return Answer(
            200, {}, b'{"choices": [{"message": {"content": "a cube"}, "finish_reason": "stop"}], "usage": {}}'
        )


def test_a_request_passes_at_most_eleven_calls_from_the_metric_to_the_network() -> None:
    transport = Counting()
    address = "http://127.0.0.1:9/v1"
    config = load_config(None, {"judge": "openai/m", "base_url": address})

    async def work() -> str:
        roles = Roles(config, make=lambda role: OpenAI(role.settings(60.0), transport))
        engine = Engine(roles, PromptLibrary())
        reply = await BoundAsk(engine, Item("i", "a cube", None))(
            "tit/compare", role="judge", prompt="a cube", description="a cube"
        )
        await engine.aclose()
        return reply.text

    assert asyncio.run(work()) == "a cube"
    assert {"BoundAsk.__call__", "Hosted.complete"} <= set(transport.stack)
    assert len(transport.stack) + 1 <= MOST, transport.stack  # and `post_json`
