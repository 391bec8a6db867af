"""A small cap judges what it can pay for: what is set aside for an item is what it is likely to cost."""

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from answers import verdict

from tests.kit import Scripted, Seen, Server
from titjudge.core.config import load_config
from titjudge.core.paths import example_folder
from titjudge.runs.outcome import Outcome
from titjudge.runs.session import Session, Watcher

INPUT, OUTPUT = 2.5e-6, 10e-6  # USD a token: gpt-4o's list price


class Account:
    """A model that plays all roles at the length such answers have, and adds up what it bills."""

    def __init__(self, latency: float = 0.0) -> None:
        place = example_folder()
        assert place is not None
        lines = (place / "prompts.jsonl").read_text(encoding="utf-8").splitlines()
        self.prompts = [json.loads(line)["prompt"] for line in lines]
        self.billed, self.latency = 0.0, latency
        self._lock = threading.Lock()

    def __call__(self, seen: Seen) -> Scripted:
        text = self._text(seen)
        sent, out = len(seen.text) // 4 + 1105 * len(seen.images), len(text) // 4
        with self._lock:
            self.billed += sent * INPUT + out * OUTPUT
        usage = {"prompt_tokens": sent, "completion_tokens": out, "total_tokens": sent + out}
        return Scripted(text, usage=usage, latency=self.latency)

    def _text(self, seen: Seen) -> str:
        if seen.images:
            return f"{seen.digest.hex()[:6]} It is there, in front of the wall. " * (
                40 if "Describe" in seen.text else 5
            )
        if "Take the prompt below apart" in seen.text:
            prompt = next(prompt for prompt in self.prompts if prompt[:200] in seen.text)
            parts = [part for part in re.split(r"[,.;] ", prompt) if len(part) > 8]
            claims = [{"claim": p, "kind": "entity", "level": "macro", "span": p} for p in parts]
            return json.dumps({"claims": claims})
        if "E2" not in seen.text:
            looks = [{"tool": "ask", "question": f"What is there, {n}?", "box": []} for n in range(4)]
            return json.dumps({"thought": "so " * 100, "settle": [], "looks": looks})
        settled = [{"claim": n, "verdict": "met", "evidence": "E1"} for n in range(1, 80)]
        return json.dumps({"thought": "so " * 100, "settle": settled, "looks": []})


def judged(
    tmp_path: Path, server: Server, metric: str, cap: float, watcher: Watcher | None = None, **more: Any
) -> Outcome:
    price = {"gpt-4o": {"input": 2.5, "output": 10}}
    settings = {"metrics": [metric], "captioner": "openai/gpt-4o", "judge": "openai/gpt-4o", "prices": price,
                "data": example_folder(), "limits": {"max_cost": cap}, "report": False}  # fmt: skip
    places = {"out": tmp_path / "run", "cache": tmp_path / "cache"}
    return Session(load_config(None, {**settings, **places, **more})).run(watcher)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")


@pytest.mark.parametrize(("cap", "least"), [pytest.param(2.0, 20, marks=pytest.mark.slow), (0.5, 8)])
def test_a_few_dollars_judge_what_they_can_pay_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cap: float, least: int
) -> None:
    account = Account()
    with Server(account) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai)
        outcome = judged(tmp_path, server, "tit-agent", cap)
    assert outcome.results.metrics["tit-agent"].scored >= least
    assert account.billed <= cap
    assert outcome.results.spent == pytest.approx(account.billed, abs=1e-5)


def test_the_embedder_of_this_machine_needs_no_price_under_a_cap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(lambda seen: "A red cube.") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai)
        outcome = judged(tmp_path, server, "tit", 2.0)
    assert outcome.results.metrics["tit"].coverage == 1


class Listening(Watcher):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)


@pytest.mark.parametrize(("cap", "said_at_all"), [(0.001, True), (0.15, True), (1000.0, False)])
def test_a_run_says_at_its_start_how_far_its_cap_carries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cap: float, said_at_all: bool
) -> None:
    heard, usage = Listening(), {"prompt_tokens": 1500, "completion_tokens": 300, "total_tokens": 1800}
    with Server(lambda seen: Scripted("A cube." if seen.images else verdict(61), usage=usage)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai)
        outcome = judged(tmp_path, server, "tit-llm", cap, watcher=heard)
    said = [line for line in heard.said if "the cap leaves" in line]
    assert len(said) == said_at_all
    if cap == 0.001:
        assert outcome.results.spent == 0
        assert "nothing is asked. Raise --max-cost by $0." in said[0]
        assert "a smaller max_tokens of the" in said[0]
    elif said:
        match = re.search(r"for (\d+) of \d+ images at worst .* likely for (\d+) ", said[0])
        assert match is not None
        scored = outcome.results.metrics["tit-llm"].scored
        assert int(match[1]) <= scored <= int(match[2]) * 1.5
        assert f"${outcome.results.spent:.4f} spent" in outcome.reason  # one output, one sum
