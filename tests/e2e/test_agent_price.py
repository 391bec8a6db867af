"""What the agentic judge costs where an image is easy: the recorded answers of the example, billed at a list price."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from builders import read_lines

from tests.kit import Scripted, Seen, Server
from titjudge.core.config import load_config
from titjudge.runs.session import Session

INPUT, OUTPUT, PICTURE = 2.5e-6, 10e-6, 765  # gpt-4o: USD a token; tokens of a picture of 768 x 768


class Recording:
    """Answers what was recorded, in the protocol that it is asked in, and adds up what it bills.

    Args:
        example: The bundled example.
        turns: The judge's turns on each image, in order, by what describes it.
    """

    def __init__(self, example: Path, turns: Mapping[str, Sequence[str]]) -> None:
        digests = {row["image"]: hashlib.sha256((example / row["image"]).read_bytes()).hexdigest() for row in read_lines(example / "descriptions.jsonl")}  # fmt: skip
        self.descriptions = {digests[row["image"]]: row["description"] for row in read_lines(example / "descriptions.jsonl")}  # fmt: skip
        self.answers = {
            " ".join(row["question"].split()): row["answer"] for row in read_lines(example / "answers.jsonl")
        }
        self.turns = turns
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
        if seen.images and "question" not in seen.text:
            return "describe", Scripted(self.descriptions[seen.images[0]])
        if seen.body.get("tools"):  # a conversation grows, and no question of it was recorded
            image = next(description for description in self.turns if description in seen.text)
            said = self.turns[image][sum(message["role"] == "assistant" for message in seen.body["messages"])]
            return "turn", _in_protocol(said, seen)
        kind = "look" if seen.images else "compare" if "You compare texts" in seen.text else "split" if "Take the prompt below apart" in seen.text else "turn"  # fmt: skip
        return kind, Scripted(self.answers[" ".join(seen.text.split())])


def recorded_turns(example: Path, out: Path) -> dict[str, list[str]]:
    """The judge's turns on each image, in order, by the description of the image: a replay of the recording."""
    given = {"data": example, "suite": "known-answer", "metrics": ["tit-agent"], "captioner": "recorded", "judge": "recorded",
             "out": out, "report": False}  # fmt: skip
    folder = Session(load_config(None, given)).run().folder
    texts = {row["key"]: row["text"] for row in read_lines(folder / "replies.jsonl")}
    turns = {}
    for score in read_lines(folder / "scores.jsonl"):
        of_item = [texts[key] for key in score["replies"] if key in texts]
        turns[score["parts"]["evidence"][0]["text"]] = [text for text in of_item if '"settle"' in text]
    return turns


def _in_protocol(answer: str, seen: Seen) -> Scripted:
    if not seen.body.get("tools"):
        return Scripted(answer)
    said = json.loads(answer)
    looks = [
        (look["tool"], {"question": look.get("question", ""), **({"box": look["box"]} if look.get("box") else {})})
        for look in said["looks"]
    ]
    return Scripted(said["thought"], calls=[("settle", {"verdicts": said["settle"]}), *looks])


def billed(metric: str, example: Path, tmp_path: Path, tools: bool) -> tuple[Recording, list[dict[str, Any]]]:
    recording = Recording(example, recorded_turns(example, tmp_path / f"replay-{metric}") if tools else {})
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
def test_what_the_recorded_agent_would_have_cost(example: Path, tmp_path: Path, tools: bool) -> None:
    """A single judgement is TIT-Score-LLM: a description of the image, and its comparison with the prompt."""
    agent, scores = billed("tit-agent", example, tmp_path, tools)
    single, _ = billed("tit-llm", example, tmp_path, tools)
    assert (agent.asked["split"], agent.asked["describe"]) == (6, 24)
    assert not [score["reason"] for score in scores if score["value"] is None]
    looks = [score["parts"]["counts"]["looks"] - 1 for score in scores]
    assert sum(looks) == agent.asked["look"] <= 2 * len(scores)
    assert {score["parts"]["protocol"] for score in scores} == {"tools" if tools else "json"}
    assert agent.billed <= (3.9 if tools else 3.5) * single.billed, (
        f"{agent.billed / single.billed:.2f} single judgements"
    )
