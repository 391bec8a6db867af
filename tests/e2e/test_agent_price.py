"""What the agentic judge costs where an image is easy: the recorded answers of the example, billed at a list price."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from builders import read_lines

from titjudge.core.config import load_config
from titjudge.runs.session import Session
from titjudge.testing import Scripted, Seen, Server

INPUT, OUTPUT, PICTURE = 2.5e-6, 10e-6, 765  # gpt-4o: USD a token; tokens of a picture of 768 x 768


class Recording:
    """Answers what was recorded, in the protocol that it is asked in, and adds up what it bills."""

    def __init__(self, example: Path) -> None:
        def lines(name: str) -> list[dict[str, Any]]:
            return read_lines(example / name)

        digest = {each["image"]: hashlib.sha256((example / each["image"]).read_bytes()).hexdigest() for each in lines("descriptions.jsonl")}  # fmt: skip
        self.descriptions = {digest[each["image"]]: each["description"] for each in lines("descriptions.jsonl")}
        answers = lines("answers.jsonl")
        self.looks = {digest[each["images"][0]]: each["answer"] for each in answers if each["template"] == "agent/ask"}
        self.splits = [(each["question"], each["answer"]) for each in answers if each["template"] == "agent/split"]
        self.turns = [(each["question"], each["answer"]) for each in answers if each["template"] == "agent/orchestrate"]
        self.compared = {each["question"]: each["answer"] for each in answers if each["template"] == "tit/compare"}
        self.bills, self.asked = defaultdict[str, float](float), Counter[str]()

    @property
    def billed(self) -> float:
        return sum(self.bills.values())

    def __call__(self, seen: Seen) -> Scripted:
        kind, answer = self._answer(seen)
        body = json.dumps({**seen.body, "messages": []}, ensure_ascii=False)  # tools and schema are billed too
        sent = (len(seen.text) + len(body)) // 4 + PICTURE * len(seen.images)
        said = answer.text + json.dumps([arguments for _, arguments in answer.calls or ()])
        self.bills[kind] += sent * INPUT + len(said) // 4 * OUTPUT
        self.asked[kind] += 1
        usage = {"prompt_tokens": sent, "completion_tokens": len(said) // 4, "total_tokens": sent + len(said) // 4}
        return Scripted(answer.text, calls=answer.calls, usage=usage)

    def _answer(self, seen: Seen) -> tuple[str, Scripted]:
        if seen.images:
            asked = "<question>" in seen.text
            return ("look", Scripted(self.looks[seen.images[0]])) if asked else ("describe", Scripted(self.descriptions[seen.images[0]]))  # fmt: skip
        if "You compare texts" in seen.text:
            return "compare", Scripted(next(said for asked, said in self.compared.items() if _same(asked, seen.text)))
        if "Take the prompt below apart" in seen.text:
            return "split", Scripted(next(said for asked, said in self.splits if _prompt(asked) == _prompt(seen.text)))
        if re.search(r"^Verify: \d", seen.text, re.MULTILINE):  # the recording is from before there were verifications
            return "verify", _in_protocol('{"thought": "", "settle": [], "looks": []}', seen)
        looked = "E2 ask(" in seen.text
        turns = (said for asked, said in self.turns if ("E2 ask(" in asked) == looked and _evidence(asked) in seen.text)
        return "turn", _in_protocol(next(turns), seen)


def _same(one: str, two: str) -> bool:
    return one.split() == two.split()


def _prompt(text: str) -> str:
    found = re.search(r"<prompt>(.*?)</prompt>", text, re.DOTALL)
    assert found is not None
    return found[1].strip()


def _evidence(text: str) -> str:
    found = re.search(r"E1 describe\(\): .*", text)
    assert found is not None
    return found[0]


def _in_protocol(answer: str, seen: Seen) -> Scripted:
    if not seen.body.get("tools"):
        return Scripted(answer)
    said = json.loads(answer)
    looks = [(look["tool"], {"question": look["question"]}) for look in said["looks"]]
    return Scripted(said["thought"], calls=[("settle", {"verdicts": said["settle"]}), *looks])


def billed(metric: str, example: Path, tmp_path: Path, tools: bool) -> tuple[Recording, list[dict[str, Any]]]:
    recording = Recording(example)
    with Server(recording) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
        patch.setenv("OPENAI_BASE_URL", server.openai)
        model = {"model": "openai/gpt-4o", "options": {"tools": tools}}
        given = {"data": example, "suite": "known-answer", "metrics": [metric], "captioner": "openai/gpt-4o", "judge": model,
                 "out": tmp_path / metric, "cache": tmp_path / f"cache-{metric}", "report": False}  # fmt: skip
        outcome = Session(load_config(None, given)).run()
    assert outcome.status == "complete", outcome.failures[:3]
    return recording, read_lines(outcome.folder / "scores.jsonl")


@pytest.mark.slow
@pytest.mark.parametrize("tools", [False, True])
def test_an_easy_image_costs_one_look_and_two_judgements_at_most(example: Path, tmp_path: Path, tools: bool) -> None:
    """A single judgement is TIT-Score-LLM: a description of the image, and its comparison with the prompt."""
    agent, scores = billed("tit-agent", example, tmp_path, tools)
    single, _ = billed("tit-llm", example, tmp_path, tools)
    assert (agent.asked["split"], agent.asked["describe"]) == (6, 24)
    assert not [score["reason"] for score in scores if score["value"] is None]
    looks = [score["parts"]["counts"]["looks"] - 1 for score in scores]
    assert sum(looks) == agent.asked["look"] <= len(scores)
    assert max(looks) == 1
    assert {score["parts"]["protocol"] for score in scores} == {"tools" if tools else "json"}
    easy = agent.billed - agent.bills["verify"]
    assert easy <= 2 * single.billed, f"{easy / single.billed:.2f} single judgements"
    assert 0 < agent.asked["verify"] < len(scores) / 2, (
        "where few things are contradicted it is asked whether that is so"
    )
    assert agent.billed <= 2.4 * single.billed, f"{agent.billed / single.billed:.2f} single judgements"
