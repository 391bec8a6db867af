"""The reward server: who may ask, every wire format, what becomes of failures, the cache, the cap and the receipts."""

import asyncio
import contextlib
import gzip
import hashlib
import http.client
import json
import math
import pickle
import re
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jsonschema
import numpy as np
import pytest
from builders import image_file, read_lines
from pages import page_text
from serving import TOKEN, expected, rating, serving, text_of

from tests.kit import Scripted, Server
from titjudge.apps.rewards.server import Rewards, serve_rewards
from titjudge.core.config import load_config
from titjudge.core.errors import ConfigError, UserError
from titjudge.providers.local.base import LoadOnce
from titjudge.runs.folder.run_folder import RunFolder

A, B, C = (image_file(number) for number in (1, 2, 3))
BAD = "please refuse this one"


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    with Server(rating) as server:
        yield server


def ask(address: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    """Send a request with the token of the address; returns status and body."""
    parts = urlsplit(address)
    request = urllib.request.Request(f"http://{parts.hostname}:{parts.port}{path}", data=body, headers=headers)
    if parts.password and "Authorization" not in headers:
        request.add_header("Authorization", f"Bearer {parts.password}")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def own(address: str, *samples: tuple[bytes, str], **more: Any) -> tuple[int, Any]:
    body = {"samples": [{"image": text_of(image), "prompt": prompt} for image, prompt in samples], **more}
    status, answer = ask(address, "/v1/rewards", json.dumps(body).encode())
    return status, json.loads(answer)


def values(results: list[dict[str, Any]]) -> list[float | None]:
    return [each["lmm-score"]["value"] for each in results]


def bodies(*samples: tuple[bytes, str]) -> dict[str, tuple[str, bytes]]:
    """The same samples as each client sends them: path and body, by the format's name."""
    images, prompts = [image for image, _ in samples], [prompt for _, prompt in samples]
    shown = [text_of(image) for image in images]
    metas = [{"prompt": prompt, "tag": "colors"} for prompt in prompts]
    requests = [
        {"history": [{"text": prompt, "image_b64": image}], "required_rewards": ["lmm-score"], "metadata": None}
        for image, prompt in zip(shown, prompts, strict=True)
    ]
    return {
        "flow_grpo": ("/", pickle.dumps({"images": images, "prompts": np.array(prompts)})),
        "geneval": ("/", pickle.dumps({"images": images, "meta_datas": metas, "only_strict": True})),
        "verl": ("/lmm-score", pickle.dumps({"images": images, "prompts": prompts, "metadata": {}})),
        "editscore": ("/", pickle.dumps({
            "input_images": [[] for _ in images], "output_image": images, "server_type": "vlm",
            "meta_datas": [json.dumps({"instruction": prompt}) for prompt in prompts],
        })),
        "flow_factory": ("/compute", json.dumps({"prompt": prompts, "image": shown, "video": None}).encode()),
        "flow_factory_metric": ("/lmm-score/compute", json.dumps({"prompt": prompts, "image": shown}).encode()),
        "unirl": ("/score", json.dumps({"requests": requests}).encode()),
        "own": ("/v1/rewards", json.dumps({"samples": [
            {"prompt": prompt, "image": f"data:image/png;base64,{image}"}
            for image, prompt in zip(shown, prompts, strict=True)
        ]}).encode()),
    }  # fmt: skip


def rewards(name: str, content: bytes) -> list[Any]:
    """The rewards of an answer, as the client of that name reads them."""
    if name in ("flow_grpo", "geneval", "verl", "editscore"):
        answer = pickle.loads(content)  # noqa: S301 - ours
        return answer[{"flow_grpo": "outputs", "editscore": "rewards"}.get(name, "scores")]
    answer = json.loads(content)
    if name == "unirl":
        return [each.get("lmm-score", {}).get("lmm-score") for each in answer["results"]]
    return answer["rewards"] if "flow_factory" in name else values(answer["results"])


def test_every_format_gets_the_same_rewards_for_one_question_each(judge: Server, tmp_path: Path) -> None:
    samples = (A, "a red cube"), (B, "ein grüner Würfel"), (C, "一只猫")
    with serving(judge.openai, tmp_path) as address:
        for name, (path, body) in bodies(*samples).items():
            status, content = ask(address, path, body)
            assert status == 200, content
            assert rewards(name, content) == [expected(*sample) for sample in samples], name
        _, metas = ask(address, *bodies(*samples)["editscore"])
        assert pickle.loads(metas)["meta_data"][0] == '{"instruction": "a red cube"}'  # noqa: S301
        assert pickle.loads(metas)["reasoning"] == ["because"] * 3  # noqa: S301
    assert judge.count() == 3


def test_no_format_gets_a_number_for_a_failed_judgement(judge: Server, tmp_path: Path) -> None:
    with serving(judge.openai, tmp_path) as address:
        for name, (path, body) in bodies((A, "a red cube"), (B, BAD)).items():
            status, content = ask(address, path, body)
            if name == "own":  # each sample has its status
                first, second = json.loads(content)["results"]
                assert status == 200
                assert first["lmm-score"]["value"] == expected(A, "a red cube")
                assert (second["lmm-score"]["value"], second["lmm-score"]["status"]) == (None, "refused")
                assert "declined" in second["lmm-score"]["reason"]
                continue
            if name == "unirl":
                answer = json.loads(content)
                assert status == 200
                assert answer["results"] == [{"lmm-score": {"lmm-score": expected(A, "a red cube")}}, {}]
                assert answer["errors"][0] == {}
                assert answer["errors"][1]["lmm-score"].startswith("refused")
                continue
            assert status == 422
            told = pickle.loads(content) if path in ("/", "/lmm-score") else json.loads(content)  # noqa: S301
            assert list(told) == ["error"]
            assert "1 of 2 images have no lmm-score: refused" in told["error"]
        _, text = ask(address, "/metrics")
    assert b'titjudge_rewards_missing_total{metric="lmm-score",policy="error"} 8' in text
    assert b'titjudge_rewards_total{metric="lmm-score",status="refused"} 8' in text
    assert b'titjudge_requests_total{format="unirl",code="200"} 1' in text


def test_skip_leaves_no_number_in_the_place(judge: Server, tmp_path: Path) -> None:
    with serving(judge.openai, tmp_path, missing="skip") as address:
        for name, (path, body) in bodies((A, BAD), (B, "a red cube")).items():
            status, content = ask(address, path, body)
            assert status == 200
            first, second = rewards(name, content)
            assert first is None or math.isnan(first)
            assert second == expected(B, "a red cube")


def test_group_mean_is_of_the_same_prompt_in_the_request_and_never_of_nothing(judge: Server, tmp_path: Path) -> None:
    def handler(seen: Any) -> Any:
        return Scripted.fault("refusal") if seen.images[0] == refused else rating(seen)

    refused, judge.handler = hashlib.sha256(C).hexdigest(), handler
    group = (A, "a red cube"), (B, "a red cube"), (C, "a red cube"), (A, "another prompt")
    mean = (expected(A, "a red cube") + expected(B, "a red cube")) / 2
    with serving(judge.openai, tmp_path, missing="group-mean") as address:
        for name, (path, body) in bodies(*group).items():
            status, content = ask(address, path, body)
            assert status == 200
            assert rewards(name, content)[2] == pytest.approx(mean), name
        _, told = own(address, *group)
        assert told["results"][2]["lmm-score"]["status"] == "refused"
        status, answer = own(address, (A, "a red cube"), (C, "another prompt"))
        assert (status, values(answer["results"])) == (200, [expected(A, "a red cube"), None])
        path, body = bodies((A, "a red cube"), (C, "another prompt"))["flow_grpo"]
        assert ask(address, path, body)[0] == 422


def test_a_token_is_needed_everywhere_but_for_health(judge: Server, tmp_path: Path) -> None:
    basic = b64encode(f"anybody:{TOKEN}".encode()).decode()
    with serving(judge.openai, tmp_path) as address:
        path, body = bodies((A, "a red cube"))["flow_grpo"]
        for header in ("", "Bearer wrong", "Bearer", "Basic !!!", f"Basic {b64encode(b'a:b').decode()}", "Bearer ä"):
            for way, content in ((path, body), ("/metrics", None), ("/rewards", None), ("/openapi.json", None)):
                assert ask(address, way, content, Authorization=header)[0] == 401, (header, way)
        assert judge.count() == 0
        assert ask(address, path, body, Authorization=f"Basic {basic}")[0] == 200
        for open_to_all in ("/health", "/ping", "/healthz", "/lmm-score/health", "/lmm-score/ping"):
            status, content = ask(address, open_to_all, Authorization="")
            assert (status, json.loads(content)) == (200, {"status": "ok", "rewards": {"lmm-score": ["ready"]}})
            assert ask(address, open_to_all, b"x", Authorization="")[0] == 401
        assert ask(address, "/livez", Authorization="") == (200, b'{"status":"alive"}')
        assert ask(address, "/tit/health", Authorization="")[0] == 404


def test_without_a_token_only_loopback_names_are_answered(judge: Server, tmp_path: Path) -> None:
    with serving(judge.openai, tmp_path, token="") as address:
        assert ask(address, "/rewards")[0] == 200
        assert ask(address, "/rewards", Host="evil.example")[0] == 403
        assert ask(address, "/v1/rewards", b"{}", Origin="http://evil.example")[0] == 403


def test_what_cannot_be_used_is_said_and_costs_nothing(judge: Server, tmp_path: Path) -> None:
    one = {"prompt": "p", "image": text_of(A)}
    turn = {"text": "p", "image_b64": text_of(A)}
    bad = [
        ("/v1/rewards", b"{", 400, "not JSON"),
        ("/v1/rewards", b"[]", 400, "must be a JSON object, not []"),
        ("/v1/rewards", b"{}", 400, "'samples' is missing"),
        ("/v1/rewards", json.dumps({"samples": [{"prompt": "p"}]}).encode(), 400, "no 'image'"),
        ("/v1/rewards", json.dumps({"samples": [{**one, "image": "%%"}]}).encode(), 400, "not valid base64"),
        ("/v1/rewards", json.dumps({"samples": [{**one, "prompt": 3}]}).encode(), 400, "a prompt must be text"),
        ("/v1/rewards", json.dumps({"samples": [one], "metrics": ["tit"]}).encode(), 404, "Choose from: lmm-score"),
        ("/v1/rewards", json.dumps({"samples": [one], "metrics": "tit"}).encode(), 400, "list of names"),
        ("/v1/rewards", json.dumps({"samples": [one], "weights": [1]}).encode(), 400, "unknown key 'weights'"),
        ("/v1/rewards", json.dumps({"samples": [{**one, "metrics": ["tit"]}]}).encode(), 400, "unknown key 'metrics'"),
        ("/compute", json.dumps({"prompt": ["p"], "image": ["aGVsbG8="]}).encode(), 422, "bad_input: the file cannot"),
        ("/compute", json.dumps({"prompt": [" "], "image": [text_of(A)]}).encode(), 422, "the prompt is empty"),
        ("/compute", json.dumps({"prompt": ["a", "b"], "image": [text_of(A)]}).encode(), 400, "1 images do not fit 2 prompts"),
        ("/compute", json.dumps({"prompt": ["a"], "video": [[text_of(A)]]}).encode(), 400, "videos"),
        ("/nix/compute", json.dumps({"prompt": ["a"], "image": [text_of(A)]}).encode(), 404, "no metric nix"),
        ("/score", json.dumps({"requests": [{"history": [], "required_rewards": []}]}).encode(), 400, "history"),
        ("/score", json.dumps({"requests": [{"history": [turn], "required_rewards": ["x"]}]}).encode(), 404, "no metric"),
        ("/", pickle.dumps({"images": [A], "prompts": ["a", "b"]}), 400, "1 images do not fit 2 prompts"),
        ("/", pickle.dumps({"images": ["/etc/passwd"], "prompts": ["a"]}), 400, "an image must be the bytes"),
        ("/", pickle.dumps({"images": [np.zeros((2, 2, 7))], "prompts": ["a"]}), 400, "image 0"),
        ("/", pickle.dumps([A]), 400, "must be a dict, not ["),
        ("/", b"cos\nsystem\n(X\x04\x00\x00\x00truetR.", 400, "os.system"),
        ("/", pickle.dumps({"output_image": [A], "meta_datas": ["{}"]}), 400, "no prompt or instruction"),
    ]  # fmt: skip
    with serving(judge.openai, tmp_path) as address:
        for path, body, code, told in bad:
            status, content = ask(address, path, body)
            answer = pickle.loads(content) if path == "/" else json.loads(content)  # noqa: S301
            assert (status, list(answer)) == (code, ["error"]), (path, content)
            assert told in answer["error"]
    assert judge.count() == 0


def test_edited_images_are_refused_unless_their_inputs_may_be_ignored(judge: Server, tmp_path: Path) -> None:
    turns = [{"text": "p", "image_b64": text_of(image)} for image in (B, A)]
    asked = {
        "/": pickle.dumps({"input_images": [[B]], "output_image": [A], "meta_datas": [{"instruction": "p"}]}),
        "/compute": json.dumps({"prompt": ["p"], "image": [text_of(A)], "condition_images": [[text_of(B)]]}).encode(),
        "/score": json.dumps({"requests": [{"history": turns, "required_rewards": ["lmm-score"]}]}).encode(),
    }
    with serving(judge.openai, tmp_path / "a") as address:
        for path, body in asked.items():
            status, content = ask(address, path, body)
            assert (status, b"--set ignore_sources=yes" in content) == (400, True)
    assert judge.count() == 0
    with serving(judge.openai, tmp_path / "b", ignore_inputs=True) as address:
        for path, body in asked.items():
            status, content = ask(address, path, body)
            assert status == 200
            assert str(expected(A, "p")).encode() in content or path == "/"


def edits(*samples: tuple[bytes, bytes, str]) -> dict[str, tuple[str, bytes]]:
    """Results with their sources and instructions as each client of edits sends them, for the metric `preservation-l1`."""
    results, sources, texts = zip(*samples, strict=True)
    shown = [text_of(image) for image in results]
    before = [text_of(image) for image in sources]
    turns = [
        [{"text": text, "image_b64": source}, {"text": text, "image_b64": result}]
        for result, source, text in zip(shown, before, texts, strict=True)
    ]
    return {
        "editscore": ("/preservation-l1", pickle.dumps({
            "input_images": [[source] for source in sources], "output_image": list(results), "server_type": "vlm",
            "meta_datas": [json.dumps({"instruction": text}) for text in texts],
        })),
        "flow_factory": ("/preservation-l1/compute", json.dumps(
            {"prompt": texts, "image": shown, "condition_images": [[source] for source in before]}
        ).encode()),
        "unirl": ("/score", json.dumps(
            {"requests": [{"history": history, "required_rewards": ["preservation-l1"]} for history in turns]}
        ).encode()),
        "own": ("/v1/rewards", json.dumps({"metrics": ["preservation-l1"], "samples": [
            {"prompt": text, "image": result, "sources": [source]}
            for result, source, text in zip(shown, before, texts, strict=True)
        ]}).encode()),
    }  # fmt: skip


def edit_rewards(name: str, content: bytes) -> list[float]:
    answer = pickle.loads(content) if name == "editscore" else json.loads(content)  # noqa: S301 - ours
    if name == "unirl":
        return [each["preservation-l1"]["preservation-l1"] for each in answer["results"]]
    return [each["preservation-l1"]["value"] for each in answer["results"]] if name == "own" else answer["rewards"]


def test_a_metric_of_edits_gets_the_sources_in_every_format(judge: Server, tmp_path: Path) -> None:
    far, near = image_file(255), image_file(3)  # both from image_file(1)
    with serving(judge.openai, tmp_path, metrics=("lmm-score", "preservation-l1")) as address:
        for name, (path, body) in edits((near, A, "p"), (far, A, "p"), (near, B, "p")).items():
            status, content = ask(address, path, body)
            assert status == 200, content
            first, second, third = edit_rewards(name, content)
            assert first == pytest.approx(2 / 255 / 3), name
            assert second == pytest.approx(254 / 255 / 3), name
            assert third == pytest.approx(1 / 255 / 3), name
    records = read_lines(tmp_path / "run" / "scores.jsonl")
    assert len({record["item"] for record in records}) == 3  # one result from two sources is two edits
    assert judge.count() == 0


def test_a_metric_of_edits_has_no_reward_for_an_image_without_a_source(judge: Server, tmp_path: Path) -> None:
    with serving(judge.openai, tmp_path, metrics=("preservation-l1",)) as address:
        body = json.dumps({"samples": [{"prompt": "p", "image": text_of(A)}]}).encode()
        result = json.loads(ask(address, "/v1/rewards", body)[1])["results"][0]["preservation-l1"]
    assert (result["value"], result["status"]) == (None, "bad_input")
    assert "no source image" in result["reason"]


def test_the_group_of_a_missing_reward_of_an_edit_has_the_same_source(judge: Server, tmp_path: Path) -> None:
    broken = A[:40]
    samples = (broken, A, "p"), (image_file(255), A, "p"), (image_file(3), B, "p")
    with serving(judge.openai, tmp_path, metrics=("preservation-l1",), missing="group-mean") as address:
        status, content = ask(address, *edits(*samples)["flow_factory"])
    assert status == 200, content
    first, second, third = json.loads(content)["rewards"]
    assert first == second != third


def test_turns_with_several_instructions_are_refused(judge: Server, tmp_path: Path) -> None:
    turns = [{"text": text, "image_b64": text_of(image)} for text, image in (("make it red", A), ("now blue", B))]
    with serving(judge.openai, tmp_path) as address:
        body = json.dumps({"requests": [{"history": turns, "required_rewards": ["lmm-score"]}]}).encode()
        status, content = ask(address, "/score", body)
    assert (status, b"each turn is a separate edit" in content) == (400, True)


def test_a_compressed_body_is_refused_with_a_word_that_says_so(judge: Server, tmp_path: Path) -> None:
    with serving(judge.openai, tmp_path) as address:
        status, content = ask(address, "/v1/rewards", gzip.compress(b"{}"), **{"Content-Encoding": "gzip"})
    assert (status, b"the body is compressed (gzip)" in content) == (415, True)


def test_images_may_come_as_one_array(judge: Server, tmp_path: Path) -> None:
    array = np.zeros((2, 8, 8, 3), np.uint8)
    with serving(judge.openai, tmp_path) as address:
        for images in (array, list(array)):
            status, content = ask(address, "/", pickle.dumps({"images": images, "prompts": ["a", "b"]}))
            assert status == 200, content
    assert judge.count() == 2


def test_prometheus_reads_the_counters_with_their_types(judge: Server, tmp_path: Path) -> None:
    with serving(judge.openai, tmp_path) as address:
        own(address, (A, "a red cube"))
        own(address, (A, "a red cube"))
        lines = ask(address, "/metrics")[1].decode().splitlines()
    types = dict(line.removeprefix("# TYPE ").split() for line in lines if line.startswith("# TYPE "))
    told = {line.split()[2] for line in lines if line.startswith("# HELP ")}
    assert told == set(types)
    assert types["titjudge_rewards_total"] == "counter"
    assert types["titjudge_spent_usd"] == types["titjudge_in_flight"] == "gauge"
    assert types["titjudge_request_seconds"] == "histogram"
    samples = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    for name in samples:
        assert re.sub(r"(_bucket|_sum|_count)?(\{.*)?$", "", name) in types
    buckets = [int(count) for name, count in samples.items() if "_bucket" in name]
    assert buckets == sorted(buckets)
    assert samples['titjudge_request_seconds_bucket{le="+Inf"}'] == samples["titjudge_request_seconds_count"] == "2"
    assert "titjudge_request_seconds_sum" in samples


@pytest.mark.parametrize("metric", ["yes-no", "text-rendering-vlm", "checklist"])
def test_a_metric_that_needs_what_no_client_sends_stops_the_start(tmp_path: Path, metric: str) -> None:
    keys = {"metrics": [metric], "captioner": {"model": "fake/any"}, "judge": {"model": "fake/any"}}
    with pytest.raises(ConfigError, match=f"{metric} requires .* with each prompt, which no training framework sends"):
        Rewards(load_config(None, {**keys, "out": tmp_path / "run"}))
    assert not (tmp_path / "run").exists()


def test_each_reward_of_a_metric_that_compares_is_a_line(judge: Server, tmp_path: Path) -> None:
    judge.handler = None
    with serving(judge.openai, tmp_path, metrics=["pairwise"], judge={"model": "openai/gpt-4o"}) as address:
        given = []
        for group in ((A, B, C), (A, B), (A, B)):
            path, body = bodies(*((image, "p") for image in group))["flow_grpo"]
            status, content = ask(address, path, body)
            assert status == 200, content
            given.append(pickle.loads(content)["outputs"])  # noqa: S301 - ours
    lines = read_lines(tmp_path / "run" / "scores.jsonl")
    of_a = [line["value"] for line in lines if hashlib.sha256(A).hexdigest()[:16] in line["item"]]
    assert of_a == [value for value, _ in groupby(values[0] for values in given)]
    assert len(of_a) == 2, "the answers of the model must give it another reward in another group"


def documented(framework: str) -> str:
    """The block of docs/how-to/reward-server.md with the lines to change in a framework."""
    page = page_text("reward-server")
    block = re.search(rf"\n\*\*{framework}\*\*.*?```\w+\n(.*?)```", page, re.DOTALL)
    assert block is not None, framework
    return block[1]


@pytest.mark.parametrize(
    ("framework", "wire", "ending"),
    [("flow_grpo", "flow_grpo", ""), ("verl-omni", "verl", ""), ("Flow-Factory", "flow_factory", "/compute"),
     ("UniRL", "unirl", "/score"), ("Anything else", "own", "")],
)  # fmt: skip
def test_the_address_that_the_docs_give_a_framework_is_answered_as_its_client_asks_it(
    judge: Server, tmp_path: Path, framework: str, wire: str, ending: str
) -> None:
    given = re.search(r"http://serve:\$?\w+@127\.0\.0\.1:8767(/[\w/-]*)?", documented(framework))
    assert given is not None
    path = (given[1] or "").replace("tit-llm", "lmm-score")
    with serving(judge.openai, tmp_path) as address:
        if framework == "Flow-Factory":  # before it begins to train
            assert ask(address, f"{path}/health")[0] == 200
        status, content = ask(address, f"{path}{ending}" or "/", bodies((A, "a red cube"))[wire][1])
        assert (status, rewards(wire, content)) == (200, [expected(A, "a red cube")])


def test_a_body_that_is_too_large_is_refused(judge: Server, tmp_path: Path) -> None:
    with serving(judge.openai, tmp_path, max_body=2**20) as address:
        status, content = ask(address, "/v1/rewards", b"x" * (2**20 + 1))
        assert (status, b"larger than 1 MiB" in content) == (413, True)
        parts = urlsplit(address)
        with contextlib.closing(http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)) as announced:
            announced.putrequest("POST", "/v1/rewards")
            announced.putheader("Authorization", f"Bearer {parts.password}")
            announced.putheader("Content-Length", str(400 * 2**20))
            announced.endheaders()
            assert announced.getresponse().status == 413, "what is only announced is not waited for"


def test_the_same_image_at_the_same_time_is_asked_once(judge: Server, tmp_path: Path) -> None:
    judge.latency = 0.2
    with serving(judge.openai, tmp_path) as address, ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: own(address, (A, "a red cube")), range(16)))
    assert {(status, values(answer["results"])[0]) for status, answer in found} == {(200, expected(A, "a red cube"))}
    assert judge.count() == 1


def test_a_server_goes_on_with_its_cache_its_ledger_and_its_receipts(judge: Server, tmp_path: Path) -> None:
    with serving(judge.openai, tmp_path) as address:
        own(address, (A, "a red cube"), (B, BAD))
        own(address, (A, "a red cube"))
    run = RunFolder(tmp_path / "run")
    spent = run.money().spent
    assert spent > 0
    assert run.manifest().kind == "serve"
    assert run.manifest().status == "complete"
    assert run.manifest().spent == pytest.approx(spent, abs=1e-6)
    assert sorted((score.value, str(score.status)) for score in run.scores().values() if score.value is not None) == [
        (expected(A, "a red cube"), "ok")
    ]
    assert sorted(item.prompt for item in run.items()) == ["a red cube", BAD]
    with serving(judge.openai, tmp_path) as address:
        assert values(own(address, (A, "a red cube"))[1]["results"]) == [expected(A, "a red cube")]
        _, text = ask(address, "/metrics")
        assert f"titjudge_spent_usd {spent:g}".encode() in text
    assert judge.count() == 2
    assert len((tmp_path / "run" / "scores.jsonl").read_text().splitlines()) == 2
    with serving(
        judge.openai, tmp_path, limits={"max_cost": spent}
    ) as address:  # what was spent counts against the cap
        status, answer = own(address, (C, "a red cube"))
        assert (status, answer["results"][0]["lmm-score"]["status"]) == (200, "budget")
        path, body = bodies((C, "a red cube"))["flow_grpo"]
        status, content = ask(address, path, body)
        assert (status, b"no lmm-score: budget" in content) == (402, True)
        status, content = ask(address, "/health")
        health = json.loads(content)
        assert (status, health["status"], health["rewards"]) == (503, "capped", {"lmm-score": ["capped"]})
        assert "cap reached" in health["reason"]
        assert ask(address, "/livez")[0] == 200
        assert own(address, (A, "a red cube"))[0] == 200
    assert judge.count() == 2


@pytest.mark.slow
def test_a_server_that_ends_keeps_what_it_has_asked(judge: Server, tmp_path: Path) -> None:
    judge.latency = 3
    with ThreadPoolExecutor(1) as pool:
        with serving(judge.openai, tmp_path, patience=1) as address:
            asked = pool.submit(own, address, (A, "a red cube"))
            end = time.monotonic() + 60
            while not judge.count():
                assert time.monotonic() < end
                time.sleep(0.02)
        status, answer = asked.result()
    assert (status, "the server is ending" in answer["error"]) == (503, True)
    money = RunFolder(tmp_path / "run").money()
    assert (money.spent > 0, money.uncertain) == (True, 0)
    with serving(judge.openai, tmp_path) as address:
        assert values(own(address, (A, "a red cube"))[1]["results"]) == [expected(A, "a red cube")]
    assert judge.count() == 1


def test_a_wrong_key_is_said_and_health_says_so(judge: Server, tmp_path: Path) -> None:
    judge.handler = lambda seen: Scripted.fault("bad_key")
    with serving(judge.openai, tmp_path) as address:
        for path, body in bodies((A, "a red cube")).values():
            status, content = ask(address, path, body)
            assert status == 503
            assert b"error" in content
            assert b"sk-loopback" not in content
        status, content = ask(address, "/health")
        assert (status, json.loads(content)["status"]) == (503, "failed")


def test_several_metrics_at_once_and_each_by_its_name(judge: Server, tmp_path: Path) -> None:
    def handler(seen: Any) -> Any:
        return rating(seen) if "whatever it says" in seen.text and seen.images else None

    judge.handler = handler
    metrics = {"metrics": ["lmm-score", "tit-llm"], "judge": {"model": "openai/gpt-4o"}}
    with serving(judge.openai, tmp_path, **metrics) as address:
        _, answer = own(address, (A, "a red cube"), metrics=["tit-llm", "lmm-score"])
        (one,) = answer["results"]
        assert one["lmm-score"]["value"] == expected(A, "a red cube")
        assert 0 <= one["tit-llm"]["value"] <= 100
        status, content = ask(address, "/tit-llm", bodies((A, "a red cube"))["verl"][1])
        assert (status, pickle.loads(content)["scores"]) == (200, [one["tit-llm"]["value"]])  # noqa: S301
        assert json.loads(ask(address, "/rewards")[1]) == {"rewards": ["lmm-score", "tit-llm"]}
        turn = {"text": "a red cube", "image_b64": text_of(A)}
        requests = [
            {"history": [turn], "required_rewards": names} for names in (["tit-llm"], ["tit-llm", "lmm-score"], [])
        ]
        _, content = ask(address, "/score", json.dumps({"requests": requests}).encode())
        assert [sorted(each) for each in json.loads(content)["results"]] == [["tit-llm"], ["lmm-score", "tit-llm"], []]
    assert judge.count() == 3


def test_the_description_of_the_server_fits_its_answers(judge: Server, tmp_path: Path) -> None:
    with serving(judge.openai, tmp_path) as address:
        told = json.loads(ask(address, "/openapi.json")[1])
        status, answer = own(address, (A, "a red cube"))
        post = told["paths"]["/v1/rewards"]["post"]
        jsonschema.validate(answer, post["responses"][str(status)]["content"]["application/json"]["schema"])
        status, answer = own(address, (A, BAD))
        jsonschema.validate(answer, post["responses"][str(status)]["content"]["application/json"]["schema"])


def test_an_address_that_cannot_be_had_begins_no_run(tmp_path: Path) -> None:
    keys = {"metrics": ["lmm-score"], "captioner": {"model": "fake/any"}, "out": tmp_path / "run"}
    with pytest.raises(UserError, match="cannot listen on"):
        serve_rewards(load_config(None, keys), token=TOKEN, host="203.0.113.9", port=0)
    with pytest.raises(UserError, match="--no-token requires a loopback address"):
        serve_rewards(load_config(None, keys), token="", host="0.0.0.0", port=0)
    assert not (tmp_path / "run").exists()


def test_a_server_without_a_key_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    keys = {"metrics": ["lmm-score"], "captioner": {"model": "openai/gpt-4o"}, "out": tmp_path / "run"}
    with pytest.raises(
        UserError, match=r"api\.openai\.com requires an API key\. Set the environment variable OPENAI_API_KEY"
    ):
        Rewards(load_config(None, keys))
    assert not (tmp_path / "run").exists()


def test_a_metric_without_its_model_or_a_folder_of_another_run_stops_the_start(judge: Server, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs a captioner"), serving("", tmp_path, captioner=None):
        pass
    assert not (tmp_path / "run").exists()
    with serving(judge.openai, tmp_path) as address:
        own(address, (A, "a red cube"))
    with pytest.raises(UserError, match="another"), serving(judge.openai, tmp_path, protocol="official"):
        pass


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that a model's name leads to; nothing in it can be loaded."""
    folder = tmp_path / "weights" / "pickscore"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "llava", "vision_config": {}}')
    (folder / "tokenizer_config.json").write_text("{}")
    monkeypatch.setenv("TITJUDGE_WEIGHTS", str(folder.parent))
    return folder


def test_models_of_this_machine_are_loaded_before_anything_is_answered(
    judge: Server, tmp_path: Path, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(LoadOnce, "__call__", lambda self: loaded.append(type(self._load.__self__).__name__))
    with serving(judge.openai, tmp_path, metrics=["tit", "pickscore", "lmm-score"]):
        assert sorted(loaded) == ["Scorer", "SentenceTransformers"]
    keys = {"metrics": ["lmm-score"], "captioner": {"model": f"local/{plain}"}, "out": tmp_path / "local"}
    said: list[str] = []
    rewards = Rewards(load_config(None, keys), said.append)
    assert (loaded[2:], said) == (["Local"], [f"local/{plain}"])
    asyncio.run(rewards.close())


def test_a_model_that_cannot_be_loaded_ends_the_start(
    tmp_path: Path, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: LoadOnce[Any]) -> None:
        raise UserError("cannot load 'pickscore': half a file")

    monkeypatch.setattr(LoadOnce, "__call__", broken)
    with pytest.raises(UserError, match="half a file"), serving("", tmp_path, metrics=["pickscore"], captioner=None):
        pass
    assert not (tmp_path / "run").exists()
