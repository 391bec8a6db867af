"""A loopback server that bills: every request that reaches it costs what it asked and was answered, whoever reads the answer.

It is the server of the tests (`tests/batch_server.py`: the wires of OpenAI, Gemini and Anthropic, and both batch services) with
faults drawn from a seed and a ledger of its own. `money_chaos` starts it as a process of its own and speaks JSON lines with it:
`{"reset": {...}}` begins a schedule, `{"heal": true}` ends its faults, `{"bill": true}` asks what was billed.
"""

from __future__ import annotations

import json
import random
import sys
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from batch_server import BatchServer, Job, Plan

from tests.kit import Scripted, Seen
from tests.kit.wires import text_for

USD_PER_TOKEN = 1e-3
LATE = 1.6  # seconds; later than any client of a schedule waits
HALF_EMOJI = "\ud83d"

# What may happen to one question: the answer, and whether the provider bills it. A good answer is `ok` or `slow`.
UNBILLED = {"429", "500", "503", "400", "413", "401", "403", "404"}
FAULTS = {
    **{code: Scripted.fault(int(code), retry_after=0.05 if code == "429" else None) for code in sorted(UNBILLED)},
    "502": Scripted.fault("html"),
    "504": Scripted.fault(504),
    "408": Scripted.fault(408),
    "lost": Scripted.fault("drop_before"),
    "cut": Scripted.fault("drop_after"),
    "half": Scripted.fault("malformed"),
    "late": Scripted(latency=LATE),
    "slow": Scripted(latency=0.3),
    "nothing": Scripted(body=b""),
    "page": Scripted(body=b"<html>hello</html>"),
    "list": Scripted(body=[1, 2]),
    "deep": Scripted(body=b'{"choices":' + b"[" * 5000 + b"]" * 5000 + b"}"),
    "error in 200": Scripted(body={"error": {"message": "overloaded", "code": 500}}),
    "prose": Scripted("I would say 100 out of 100. {"),
    "half an emoji": Scripted('{"reason": "nice \\ud83d", "score": 50}'),
    "emoji in all": Scripted(f"A cube {HALF_EMOJI}."),
    "refusal": Scripted.fault("refusal"),
    "filter": Scripted.fault("content_filter"),
    "length": Scripted.fault("length"),
    "thought": Scripted.fault("thought"),
    "empty": Scripted.fault("empty"),
    "usage: none": Scripted(usage=dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"))),
    "usage: negative": Scripted(usage={"prompt_tokens": -50, "completion_tokens": -5, "total_tokens": -1}),
    "usage: huge": Scripted(usage={"prompt_tokens": 10**15, "completion_tokens": 10**15}),
    "usage: text": Scripted(usage={"prompt_tokens": "many", "completion_tokens": "few"}),
    "usage: zero": Scripted(usage={"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}),
    "usage: true": Scripted(usage={"prompt_tokens": True, "completion_tokens": True}),
}
FATAL = {"401", "403", "404"}
JOB_FAULTS = {
    **{code: Scripted.fault(int(code)) for code in ("401", "403", "404", "429", "500", "502")},
    "lost": Scripted.fault("drop_before"),
    "cut": Scripted.fault("drop_after"),
    "nothing": Scripted(body=b"{"),
    "no id": Scripted(body={"id": None, "name": None, "metadata": {}}),
    "odd": Scripted(body={"id": 7, "status": ["x"], "state": 3}),
}
_USAGE = {  # by wire: the names of what was sent, answered, and both
    "openai": ("prompt_tokens", "completion_tokens", "total_tokens"),
    "gemini": ("promptTokenCount", "candidatesTokenCount", "totalTokenCount"),
    "anthropic": ("input_tokens", "output_tokens", ""),
}


class MoneyServer(BatchServer):
    """See the module."""

    def __init__(self) -> None:
        super().__init__(self._answered)
        self._guard = threading.Lock()
        self.reset({})

    def reset(self, weather: dict[str, Any]) -> None:
        """Forget everything; `weather` has `seed`, `faults` and `job_faults` (name to probability), `latency`, `missing`."""
        with self._guard:
            self.weather = weather
            self.billed, self.lines_known, self._asked = 0.0, Counter[str](), Counter[str]()
            self.fired: Counter[str] = Counter()
            self.jobs.clear()
            self.files.clear()
            self._counts.clear()
            self.requests.clear()
            self.lines.clear()
            self._job_requests = 0

    def _drawn(self, name: str, table: dict[str, float]) -> str:
        """Draw a fault for the n-th time that something happens; the same seed draws the same."""
        chance = random.Random(f"{self.weather.get('seed')} {name}").random()
        for fault, share in table.items():
            if chance < share:
                self.fired[fault] += 1
                return fault
            chance -= share
        return ""

    def _answered(self, seen: Seen) -> Scripted:
        """Answer a question, live or as a line of a job, and bill it."""
        with self._guard:
            key = seen.digest.hex()
            self._asked[key] += 1
            kind = self._drawn(f"{key} {self._asked[key]}", self.weather.get("faults", {}))
            scripted = FAULTS[kind] if kind else Scripted()
            if kind == "half an emoji" and seen.schema is None:
                scripted = FAULTS["emoji in all"]
            text = text_for(seen) if scripted.text is None else scripted.text
            usage = _usage(seen, text)
            if kind not in UNBILLED:
                self.billed += sum(usage[:2]) * USD_PER_TOKEN
            if kind in ("", "slow"):
                self.lines_known[key] += 1
            said = scripted.text if scripted.text is not None or scripted.kind else text
            if kind == "prose" and seen.api == "anthropic":  # a tool's input is JSON, whatever it says
                said = json.dumps({"odd": said})
            names = _USAGE.get(seen.api, _USAGE["openai"])
            true = {name: tokens for name, tokens in zip(names, usage, strict=True) if name}
            odd = {names[_USAGE["openai"].index(name)]: value for name, value in scripted.usage.items()}
            odd.pop("", None)
            latency = scripted.latency or self.weather.get("latency", 0.0)
            if seen.api == "embeddings" and scripted.body is None and scripted.status == 200 and scripted.kind == "":
                return Scripted(latency=latency)
            return replace(scripted, text=said, usage=true | odd, latency=latency)

    def _handle(self, seen: Seen) -> Scripted | str | None:
        if "atch" in seen.path or "file" in seen.path:
            with self._guard:
                self._job_requests += 1
                kind = self._drawn(f"job {self._job_requests}", self.weather.get("job_faults", {}))
            if kind:
                creates = seen.method == "POST" and ("batches" in seen.path or "batchGenerate" in seen.path)
                if creates and kind not in ("401", "403", "404", "429"):
                    super()._handle(seen)  # created all the same
                return JOB_FAULTS[kind]
        return super()._handle(seen)

    def _new(self, source: str, tag: str) -> tuple[Job, Scripted | None]:
        chance = random.Random(f"{self.weather.get('seed')} plan {len(self.jobs)}")
        end = "completed"
        if chance.random() < self.weather.get("ended", 0.0):
            end = chance.choice(["expired", "failed", "cancelled"])
        self.plans.append(Plan(end=end, polls=chance.choice([1, 1, 3])))
        return super()._new(source, tag)

    def _finish(self, job: Job) -> None:
        """End a job; some of its lines, billed as they are, may be missing from its answers.

        Not where a job of Gemini's ends early: there a request without a line is one that was not worked off.
        """
        super()._finish(job)
        early = job.plan.end != "completed" and any("key" in line for line in self.source_of(job))
        if early or not job.output or not (share := self.weather.get("missing", 0.0)):
            return
        lines = self.files[job.output].splitlines()
        draw = random.Random(f"{self.weather.get('seed')} missing {job.id}")
        left = [line for line in lines if draw.random() >= share]
        if len(left) < len(lines):
            self.fired["missing"] += len(lines) - len(left)
            self.lines_known.clear()  # the key of a line is not the one that it was counted under
        self.files[job.output] = b"\n".join(left) + b"\n"

    def account(self) -> dict[str, Any]:
        """Finish all jobs, and say what was billed in USD, and how often a question was answered well again."""
        self.held = False
        for job in list(self.jobs.values()):
            if not job.ended:
                job.plan.polls = 0
                self._looked_at(job.id)
        with self._guard:
            again = sum(times - 1 for times in self.lines_known.values())
            return {"billed": self.billed, "again": again, "requests": len(self.requests), "fired": dict(self.fired)}


def _usage(seen: Seen, text: str) -> tuple[int, int, int]:
    """What a question and its answer are billed as: less than a byte of text or an image can be."""
    if seen.api == "embeddings":
        given = seen.body["input"]
        sent = sum(len(str(each)) // 4 + 1 for each in ([given] if isinstance(given, str) else given))
        return sent, 0, sent
    sent = len(seen.text) // 4 + (1 if seen.api == "anthropic" else 85) * len(seen.images) + 7
    out = min(len(text) // 4 + 1, 50)
    return sent, out, sent + out


def main() -> None:
    with MoneyServer() as server:
        print(json.dumps({"port": server.port}), flush=True)
        for line in sys.stdin:
            asked = json.loads(line)
            if "reset" in asked:
                server.reset(asked["reset"])
            if "heal" in asked:
                server.weather = {"seed": 0}
            print(json.dumps(server.account() if "bill" in asked else {}), flush=True)


if __name__ == "__main__":
    main()
