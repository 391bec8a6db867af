"""`ask(choices=...)`: the same number from a model in this process and from a server, kept, recorded, exported, priced."""

import asyncio
import io
import json
import math
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny_models
from batch_server import BatchServer
from builders import read_lines, write_lines
from learned_prompts import learned_prompt

from tests.kit import Scripted, Seen, Server
from titjudge.core.config import RoleConfig, RunConfig, load_config
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import Item, Score, Status
from titjudge.engine.cache import AnswerCache
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.engine.scoring import score_item
from titjudge.metrics import metric
from titjudge.providers import make_provider
from titjudge.providers.batch.provider import Batches, BatchTiming
from titjudge.runs.check.verify import verify
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.offline.batch import export, import_answers
from titjudge.runs.offline.recording import record
from titjudge.runs.session import Session

METRICS = ["vqascore", "lmm-score-expected", "q-eval"]
TOPS = [("Yes", math.log(0.6)), (" yes", math.log(0.1)), ("No", math.log(0.2)), ("3", math.log(0.05))]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for n in range(3):
        tiny_models.picture(80 + 40 * n, 60, n).save(folder / f"{n}.png")
    lines = [{"image": f"{n}.png", "prompt": f"{n} red dogs {{}} on grass"} for n in range(3)]
    write_lines(folder / "m.jsonl", *lines)
    return folder / "m.jsonl"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    monkeypatch.setenv("GEMINI_API_KEY", "g-test-0123456789")
    with Server() as made:
        yield made


def config(data: Path, out: Path, **changes: Any) -> Any:
    settings = {"data": data, "out": out, "cache": out.parent / "cache", "report": False, **changes}
    return load_config(None, settings)


def judged(data: Path, out: Path, **changes: Any) -> list[Score]:
    Session(config(data, out, **changes)).run()
    return [score for _, score in sorted(RunFolder(out).scores().items())]


# -- one model, in this process and behind a server --------------------------------------------------------------------


WORDS = {
    "vqascore-qwen2.5-vl-7b": ["Yes", "No"],
    "lmm-score-expected-qwen2.5-vl-7b": list("0123456789"),
    "q-eval-score": ["Excellent", "Good", "Fair", "Poor", "Bad"],
}


class Serving:
    """A tiny Qwen2.5-VL in a folder, whose likeliest first tokens are the words of the question that it is asked.

    Called with a chat completion it tells them, as vLLM and SGLang do.
    """

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import AutoModelForImageTextToText

        from titjudge.providers.local.loading import load_processor

        words = [word for each in WORDS.values() for word in each]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(tiny_models, "CORPUS", [*tiny_models.CORPUS, *(word for word in words for _ in range(9))])
            tiny_models.qwen25_vl(folder)
        self.model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
        self.processor = load_processor(str(folder))
        self.model.lm_head.weight = torch.nn.Parameter(self.model.lm_head.weight * 0.1)  # no longer that of the input
        with torch.no_grad():
            for key, answers in WORDS.items():
                question = learned_prompt(key, "two dogs")
                state = self.states(tiny_models.picture(80, 60, 5), question)
                for at, word in enumerate(answers):
                    (ident,) = self.processor.tokenizer(word, add_special_tokens=False)["input_ids"]
                    self.model.lm_head.weight[ident] = state / state.norm() * (0.9 - 0.03 * at)
        for config in (self.model.config, self.model.config.get_text_config()):
            config.tie_word_embeddings = False
        self.model.save_pretrained(folder)

    def states(self, image: Any, text: str) -> Any:
        turns = [{"role": "user", "content": [{"type": "image", "image": image}, {"type": "text", "text": text}]}]
        inputs = self.processor.apply_chat_template(
            [turns], add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
        )
        return self.model.model(**inputs).last_hidden_state[0, -1]

    def __call__(self, seen: Seen) -> Scripted:
        import torch
        from PIL import Image

        image, text = seen.body["messages"][0]["content"]
        shown = Image.open(io.BytesIO(b64decode(image["image_url"]["url"].partition(",")[2]))).convert("RGB")
        with torch.no_grad():
            logits = self.model.lm_head(self.states(shown, text["text"]))
        values, ids = logits.log_softmax(-1).topk(20)
        tokens = [self.processor.tokenizer.decode([ident]) for ident in ids.tolist()]
        return Scripted(tokens[0], "length", tops=list(zip(tokens, values.tolist(), strict=True)))


@pytest.mark.slow
def test_a_served_model_gives_the_number_of_one_in_this_process(
    data: Path, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a server, from transformers as the captioner, and by the rows that name the model themselves."""
    folder = tmp_path / "model"
    server.handler = Serving(folder)
    local = {"model": f"local/{folder}", "options": {"dtype": "float32", "device": "cpu"}}
    official = {"metrics": METRICS, "protocol": "official"}  # one spelling of each answer, as in the published code
    here = judged(data, tmp_path / "here", captioner=local, **official)
    served = judged(data, tmp_path / "served", captioner="openai/m", base_url=server.openai, **official)
    assert len(here) == len(served) == 9
    for mine, theirs in zip(here, served, strict=True):
        assert (mine.item_id, mine.metric) == (theirs.item_id, theirs.metric)
        assert mine.status is theirs.status is Status.OK, theirs.reason
        assert theirs.value == pytest.approx(mine.value, abs=1e-6)
        assert "lower" not in {**mine.parts, **theirs.parts}  # every answer is among the 20 likeliest
    assert len({score.value for score in here}) == 9
    options = {"all": {"weights": str(folder), "dtype": "float32", "device": "cpu"}}
    (tmp_path / "weights.yaml").write_text(json.dumps(options))
    monkeypatch.setenv("TITJUDGE_SCORERS", str(tmp_path / "weights.yaml"))
    rows = judged(data, tmp_path / "rows", metrics=list(WORDS))
    by_row = dict(zip(WORDS, METRICS, strict=True))
    own = {(score.item_id, by_row[score.metric]): score.value for score in rows}
    assert own == {(score.item_id, score.metric): pytest.approx(score.value, abs=1e-6) for score in here}
    assert not verify(tmp_path / "served").problems
    assert {seen.body["max_tokens"] for seen in server.requests} == {1}


# -- servers -----------------------------------------------------------------------------------------------------------


@metric("soft", roles=("captioner",), range=(0, 1))
async def soft(item: Item, ask: Any) -> Score:
    """A soft yes/no question."""
    reply = await ask("dsg/answer", role="captioner", images=[item.image], question="Dogs?", choices=("yes", "no"))
    return Score.of(reply.probabilities["yes"].lower, text=reply.text, upper=reply.probabilities["yes"].upper)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from titjudge.core import registry

    monkeypatch.setitem(registry.TABLES["metrics"], "soft", f"{__name__}:soft")


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    "model",
    ["openai/gpt-4o", "gemini/gemini-2.0-flash", pytest.param("litellm/openai/gpt-4o", marks=pytest.mark.slow)],
)
def test_a_server_is_asked_once_and_spellings_are_summed(
    model: str, data: Path, tmp_path: Path, server: Server
) -> None:
    server.handler = lambda seen: Scripted("Yes", "length", tops=TOPS)
    address = server.url if model.startswith("gemini") else server.openai
    settings = {"metrics": ["soft"], "captioner": model, "base_url": address}
    first = judged(data, tmp_path / "run", **settings)
    assert [score.value for score in first] == [pytest.approx(0.7)] * 3
    assert [score.parts["upper"] for score in first] == [pytest.approx(0.75)] * 3  # 0.05 of the mass is not told
    body = server.last.body
    wanted = (True, 20) if "logprobs" in body else (None, None)
    assert (body.get("logprobs"), body.get("top_logprobs")) == wanted
    asked = server.count()
    again = judged(data, tmp_path / "again", **settings)
    assert server.count() == asked
    assert [score.value for score in again] == [score.value for score in first]
    assert not verify(tmp_path / "run").problems


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    ("model", "answer", "status", "said", "sent"),
    [
        ("openai/gpt-4o", Scripted("Yes"), Status.UNPARSED, "without the probabilities", 3),
        ("openai/gpt-4o", Scripted("<think>", tops=[("<think>", -0.1), ("Yes", -3.0)]), Status.UNPARSED, "thinks", 3),
        ("openai/gpt-4o", Scripted(kind="refusal", tops=TOPS), Status.REFUSED, "declined", 3),
        ("openai/o3", Scripted("Yes", tops=TOPS), Status.FAILED, "no probabilities", 0),
        ("gemini/gemini-2.0-flash", Scripted("Yes"), Status.UNPARSED, "without the probabilities", 3),
    ],
)
def test_where_none_are_given_there_is_a_status_and_no_number(
    model: str, answer: Scripted, status: Status, said: str, sent: int, data: Path, tmp_path: Path, server: Server
) -> None:
    server.handler = lambda seen: answer
    address = server.openai if model.startswith("openai") else server.url
    scores = judged(data, tmp_path / "run", metrics=["soft"], captioner=model, base_url=address)
    assert [(score.value, score.status) for score in scores] == [(None, status)] * 3
    assert said in scores[0].reason
    assert server.count() == sent


def test_a_score_says_how_far_the_tokens_that_are_not_told_can_move_it(
    data: Path, tmp_path: Path, server: Server
) -> None:
    server.handler = lambda seen: Scripted(
        "A", tops=[("Good", math.log(0.5)), ("A", math.log(0.2)), ("B", math.log(0.1))]
    )
    settings = {"metrics": METRICS, "captioner": "openai/m", "base_url": server.openai, "protocol": "official"}
    scores = {score.metric: score for score in judged(data, tmp_path / "run", **settings)}
    vqa, q_eval, expected = scores["vqascore"], scores["q-eval"], scores["lmm-score-expected"]
    assert (vqa.value, vqa.parts) == (0, {"mass": 0, "lower": 0, "upper": pytest.approx(0.1)})
    assert "only the likeliest tokens are known" in vqa.reason
    assert "0.0% of the probability" in vqa.reason  # as published, but not in silence
    assert (q_eval.value, q_eval.parts["mass"]) == pytest.approx((0.75, 0.5))
    assert q_eval.parts["lower"] == pytest.approx((0.5 * 0.75 + 0.1 * 0.5 + 0.1 * 0.25) / 0.8)
    assert q_eval.parts["upper"] == pytest.approx((0.5 * 0.75 + 0.1) / 0.6)
    assert (expected.value, expected.status) == (None, Status.UNPARSED)  # no digit is told: no mean of nothing


@pytest.mark.parametrize("token", ["**", "Okay", "Thinking", "[THINK]", "<|channel|>", "The", "It", " ", "\u662f", "I"])
def test_a_model_that_begins_with_something_else_has_no_score(
    token: str, data: Path, tmp_path: Path, server: Server
) -> None:
    server.handler = lambda seen: Scripted(token, tops=[(token, -0.01), ("Yes", -6.0), ("3", -7.0), ("Good", -7.0)])
    settings = {"metrics": METRICS, "captioner": "openai/m", "base_url": server.openai}
    scores = judged(data, tmp_path / "run", **settings)
    assert {(score.value, score.status) for score in scores} == {(None, Status.UNPARSED)}
    assert all(repr(token) in score.reason and "% of the probability" in score.reason for score in scores)


@pytest.mark.parametrize("token", ["Yes", "yes", " Yes", "YES", " yes"])
def test_every_spelling_of_yes_counts(token: str, data: Path, tmp_path: Path, server: Server) -> None:
    server.handler = lambda seen: Scripted(token, tops=[(token, math.log(0.7)), ("No", math.log(0.2))])
    settings = {"metrics": ["vqascore"], "captioner": "openai/m", "base_url": server.openai}
    first = judged(data, tmp_path / "run", **settings)[0]
    assert (first.value, first.parts["mass"]) == pytest.approx((0.7, 0.9))


@pytest.mark.usefixtures("asked")
def test_a_server_that_tells_fewer_tokens_is_asked_for_fewer(data: Path, tmp_path: Path, server: Server) -> None:
    server.handler = lambda seen: Scripted("Yes", "length", tops=TOPS)
    role = {"model": "openai/m", "top_logprobs": 2, "max_tokens": 3, "base_url": server.openai}
    scores = judged(data, tmp_path / "run", metrics=["soft"], captioner=role)
    assert (server.last.body["top_logprobs"], server.last.body["max_tokens"]) == (2, 3)
    assert [(score.value, score.parts["upper"]) for score in scores] == [(pytest.approx(0.7), pytest.approx(1.0))] * 3


@pytest.mark.usefixtures("asked")
def test_an_empty_answer_has_probabilities_all_the_same(data: Path, tmp_path: Path, server: Server) -> None:
    """A model that would end its answer at once: the first token is known, and nothing is asked again."""
    server.handler = lambda seen: Scripted(kind="empty", tops=[("<|im_end|>", math.log(0.7)), ("Yes", math.log(0.3))])
    scores = judged(data, tmp_path / "run", metrics=["soft"], captioner="openai/m", base_url=server.openai)
    assert [score.value for score in scores] == [pytest.approx(0.3)] * 3
    assert server.count() == 3


@pytest.mark.usefixtures("asked")
def test_a_dry_run_prices_one_token(data: Path, tmp_path: Path, server: Server) -> None:
    settings = {"metrics": ["soft"], "captioner": "openai/gpt-4o", "base_url": server.openai}
    session = Session(config(data, tmp_path / "run", **settings))
    found = session.dry_run()
    role = found.roles["captioner"]
    assert (role.requests, role.high.output, server.count()) == (3, 3, 0)
    assert found.total is not None
    other = {**settings, "captioner": "openai/o3"}
    refused = Session(config(data, tmp_path / "run", **other)).dry_run().refused
    assert [reason.partition(".")[0] for _, reason in refused] == ["openai/o3 returns no probabilities of answers"] * 3
    assert 0 < found.total[1] < 0.01


@pytest.mark.usefixtures("asked")
def test_answers_go_through_batch_files_and_recordings(data: Path, tmp_path: Path, server: Server) -> None:
    settings = {"metrics": ["soft"], "captioner": "openai/gpt-4o", "base_url": server.openai}
    done = export(Session(config(data, tmp_path / "run", **settings)), tmp_path / "ask.jsonl")
    lines = read_lines(tmp_path / "ask.jsonl")
    assert done.requests == 3
    assert {(line["body"]["logprobs"], line["body"]["top_logprobs"]) for line in lines} == {(True, 20)}
    from tests.kit.wires import openai_answer, read

    answered = []
    for line in lines:
        seen = read("POST", "/v1/chat/completions", {}, json.dumps(line["body"]).encode())
        body = openai_answer(seen, "Yes", Scripted("Yes", "length", tops=TOPS), server)
        answered.append({"custom_id": line["custom_id"], "response": {"status_code": 200, "body": body}})
    write_lines(tmp_path / "said.jsonl", *answered)
    session = Session(config(data, tmp_path / "run", **settings))
    assert import_answers(session, tmp_path / "said.jsonl").imported == 3
    assert [score.value for score in judged(data, tmp_path / "run", **settings)] == [pytest.approx(0.7)] * 3
    assert server.count() == 0
    answers = data.parent / "answers.jsonl"
    kept = record(Session(config(data, tmp_path / "run", **settings)), [], answers)
    assert kept.imported == 3
    recorded = {"model": "recorded", "options": {"answers": str(answers)}}
    replayed = {"metrics": ["soft"], "captioner": recorded, "cache": tmp_path / "other"}
    scores = judged(data, tmp_path / "replayed", **replayed)
    assert [score.value for score in scores] == [pytest.approx(0.7)] * 3, scores[0].reason


@pytest.mark.slow
@pytest.mark.usefixtures("asked")
@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
@pytest.mark.parametrize("model", ["openai/gpt-4o", "gemini/gemini-2.0-flash"])
def test_a_batch_job_tells_them_and_a_later_session_takes_them_again(
    model: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut at one token is no failure: an answer that the job gave is there for a session with an empty cache, too."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    monkeypatch.setenv("GEMINI_API_KEY", "g-test-0123456789")
    pace = BatchTiming(poll=0.02, idle=0.05, settle=0.0)

    async def judge(server: BatchServer, cache: Path) -> list[float | None]:
        address = server.openai if model.startswith("openai") else server.url
        role = RoleConfig(model=model, base_url=address)
        batches = Batches(tmp_path / "batches", pace=pace)
        roles = Roles(
            RunConfig(data=data, captioner=role),
            make=lambda which: batches.wrap(make_provider(which.provider, which.settings(60))),
        )
        engine = Engine(roles, PromptLibrary(None), AnswerCache(cache))
        try:
            images = [Item(f"{n}.png", "dogs", data.parent / f"{n}.png") for n in range(3)]
            return [
                score.value for score in await asyncio.gather(*(score_item(engine, i, "soft", soft) for i in images))
            ]
        finally:
            await engine.aclose()

    with BatchServer(lambda seen: Scripted("Yes", "length", tops=TOPS)) as server:
        for cache in ("one", "two"):
            assert asyncio.run(judge(server, tmp_path / cache)) == [pytest.approx(0.7)] * 3
        assert len(server.jobs) == 1
