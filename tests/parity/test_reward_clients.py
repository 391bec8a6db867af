"""The reward clients of five training frameworks, unchanged but for the lines of docs/how-to/reward-server.md, against our server.

TITJUDGE_OFFICIAL names a folder with checkouts, each under its own name (what is not there is skipped):

    flow_grpo     github.com/yifan123/flow_grpo
    verl-omni     github.com/verl-project/verl-omni
    EditScore     github.com/VectorSpaceLab/EditScore
    Flow-Factory  github.com/X-GenGroup/Flow-Factory
    UniRL         github.com/Tencent-Hunyuan/UniRL

What the clients import of their own framework beside them (base classes of reward models) is stood in for.
"""

import ast
import asyncio
import io
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
import yaml
from pages import page_text
from PIL import Image
from serving import TOKEN, expected, rating, serving
from test_official_code import module, official

from tests.kit import Server
from titjudge import Judge
from titjudge.apps.rewards import flow_grpo_reward

requests = pytest.importorskip("requests")
PROMPTS = ["a red cube", "ein grüner Würfel", "一只猫坐在窗台上"]
BAD = "please refuse this one"


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    with Server(rating) as judge, serving(judge.openai, tmp_path) as address:
        yield address


def arrays() -> np.ndarray:
    return np.random.default_rng(5).integers(0, 255, (len(PROMPTS), 16, 16, 3), np.uint8)


def encoded(array: np.ndarray, format: str, **options: Any) -> bytes:
    """The file that a client makes of an image."""
    out = io.BytesIO()
    Image.fromarray(array).save(out, format, **options)
    return out.getvalue()


def wanted(format: str, **options: Any) -> list[float]:
    files = [encoded(array, format, **options) for array in arrays()]
    return [expected(file, prompt) for file, prompt in zip(files, PROMPTS, strict=True)]


def lines(framework: str, address: str) -> str:
    """The lines that docs/how-to/reward-server.md gives a framework, with the address and the metric of the server of these tests."""
    page = page_text("reward-server")
    block = re.search(rf"\n\*\*{framework}\*\*.*?```text\n(.*?)```", page, re.DOTALL)
    assert block is not None, framework
    parts = urlsplit(address)
    told = block[1].replace("http://serve:TOKEN@127.0.0.1:8767", address).replace("tit-llm, tit", "lmm-score")
    told = told.replace("tit-llm", "lmm-score").replace("TOKEN", TOKEN).replace("8767", str(parts.port))
    assert f"serve:{TOKEN}@127.0.0.1" in told
    return told


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    made = ModuleType(name)
    vars(made).update(content)
    monkeypatch.setitem(sys.modules, name, made)


def test_flow_grpo(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its addresses stand in the code; here the connection is led elsewhere, in training they are what to change."""
    client = module(official("flow_grpo/flow_grpo/rewards.py"), "flow_grpo_rewards")
    import torch

    send, parts = requests.adapters.HTTPAdapter.send, urlsplit(address)

    def redirected(self: Any, request: Any, **more: Any) -> Any:
        assert urlsplit(request.url).port in (18085, 18086)
        request.prepare_url(f"http://{parts.hostname}:{parts.port}/", None)
        request.prepare_auth(("flow_grpo", TOKEN))
        return send(self, request, **more)

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", redirected)
    scores, _ = client.unifiedreward_score_remote("cpu")(arrays(), PROMPTS, None)
    assert scores == wanted("JPEG")
    tensor = torch.from_numpy(arrays()).permute(0, 3, 1, 2) / 255
    assert client.unifiedreward_score_remote("cpu")(tensor, PROMPTS, None)[0] == wanted("JPEG")
    metas = [{"prompt": prompt, "tag": "colors"} for prompt in PROMPTS]
    scores, rewards, strict, *_ = client.geneval_score("cpu")(arrays(), PROMPTS, metas, True)
    assert scores == rewards == strict == wanted("JPEG")
    with pytest.raises(KeyError):  # no number
        client.unifiedreward_score_remote("cpu")(arrays(), [BAD, *PROMPTS[1:]], None)
    with pytest.raises(KeyError):  # DeQA sends no prompts, without which nothing is judged
        client.deqa_score_remote("cpu")(arrays(), PROMPTS, None)


def test_flow_grpo_with_the_lines_of_the_docs(address: str, tmp_path: Path) -> None:
    url, entry, config = lines("flow_grpo", address).splitlines()
    code = official("flow_grpo/flow_grpo/rewards.py").read_text(encoding="utf-8")
    before, function, after = code.partition("def unifiedreward_score_remote(")
    code = before + function + re.sub(r'url = "http://\S+"', url, after, count=1)
    code = re.sub(r'"unifiedreward": \w+,', entry, code)
    (tmp_path / "rewards.py").write_text(code, encoding="utf-8")
    client = module(tmp_path / "rewards.py", "flow_grpo_edited")
    reward_fn = ast.literal_eval(config.partition(" = ")[2])
    details, _ = client.multi_score("cpu", reward_fn)(arrays(), PROMPTS, {})
    assert details["avg"] == details["unifiedreward"] == wanted("JPEG")


def test_flow_grpo_in_its_own_process(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our reward function among those of its `multi_score`, which weighs and adds them up."""
    import torch

    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    code = official("flow_grpo/flow_grpo/rewards.py").read_text(encoding="utf-8")
    code = code.replace('"unifiedreward": ', '"titjudge": titjudge_score,\n        "unifiedreward": ', 1)
    (tmp_path / "rewards.py").write_text(code, encoding="utf-8")
    with (
        Server(rating) as model,
        Judge("lmm-score", captioner="openai/gpt-4o", base_url=model.openai, cache=tmp_path / "c") as judge,
    ):
        client = module(tmp_path / "rewards.py", "flow_grpo_in_process")
        client.titjudge_score = lambda: flow_grpo_reward(judge, missing="group-mean")
        tensor = torch.from_numpy(arrays()).permute(0, 3, 1, 2) / 255
        details, _ = client.multi_score("cpu", {"titjudge": 0.5})(tensor, PROMPTS, {})
    assert details["titjudge"] == wanted("PNG")
    assert details["avg"] == [0.5 * value for value in wanted("PNG")]


def test_verl_omni(address: str) -> None:
    file = official("verl-omni/verl_omni/utils/reward_score/http_scorer_client.py")
    client = module(file, "verl_omni_client")
    import torch

    told = dict(re.findall(r"\+reward\.reward_functions\.judge\.(\w+)=([^\s'\"]+)", lines("verl-omni", address)))
    assert told["path"] == "pkg://verl_omni.utils.reward_score.http_scorer_client"
    assert told["required"] == "true"

    async def scored(prompt: str, array: np.ndarray) -> float:
        image = torch.from_numpy(array).permute(2, 0, 1)
        return (await getattr(client, told["name"])(image, prompt, server_url=told["server_url"]))["score"]

    async def run() -> list[float]:
        try:
            found = await asyncio.gather(*map(scored, PROMPTS, arrays()))
            with pytest.raises(RuntimeError, match="1 of 1 images have no lmm-score: refused"):
                await scored(BAD, arrays()[0])
            return found
        finally:
            await client.compute_score._session.close()

    assert asyncio.run(run()) == wanted("JPEG")


def test_editscore(address: str) -> None:
    client = module(official("EditScore/examples/OmniGen2-RL/omnigen2/grpo/reward_client_edit.py"), "editscore_client")
    told = yaml.safe_load(lines("EditScore, OmniGen2-RL", address))["server"]
    where = {"proxy_host": told["hosts"][0], "proxy_port": told["proxy_port"]}
    metas = [json.dumps({"instruction": prompt, "id": str(n)}) for n, prompt in enumerate(PROMPTS)]
    for images in (
        [encoded(array, "PNG") for array in arrays()],
        [Image.fromarray(array) for array in arrays()],  # as its training sends them
    ):
        scores, rewards, reasoning, meta = client.evaluate_images([[], [], []], images, metas, **where)
        assert scores == rewards == wanted("PNG")
        assert (reasoning, meta) == (["because"] * 3, metas)
    bad = [json.dumps({"instruction": BAD})]
    assert client.evaluate_images([[]], images[:1], bad, **where) is None
    assert client.evaluate_images([[images[0]]], images[:1], metas[:1], **where) is None  # an edit, not looked at
    assert client.RewardClient(**where).ping()


def test_flow_factory(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class RewardModel:
        def __init__(self, config: Any, accelerator: Any) -> None:
            self.device = torch.device("cpu")

    for name in ("flow_factory", "flow_factory.rewards"):
        stand_in(monkeypatch, name)
    models = {"GroupwiseRewardModel": RewardModel, "PointwiseRewardModel": RewardModel}
    stand_in(monkeypatch, "flow_factory.rewards.abc", **models, RewardModelOutput=SimpleNamespace)
    stand_in(monkeypatch, "flow_factory.hparams", RewardArguments=object)
    stand_in(monkeypatch, "accelerate", Accelerator=object)
    client = module(official("Flow-Factory/src/flow_factory/rewards/my_reward_remote.py"), "flow_factory_client")
    import torch

    images = [Image.fromarray(array) for array in arrays()]
    (told,) = yaml.safe_load(lines("Flow-Factory", address))["rewards"]
    assert told["reward_model"] == "flow_factory.rewards.my_reward_remote.RemotePointwiseRewardModel"
    for kind in (client.RemotePointwiseRewardModel, client.RemoteGroupwiseRewardModel):
        model = kind(SimpleNamespace(**told), None)  # asks for the health of the server
        found = model(prompt=PROMPTS, image=images).rewards
        assert torch.equal(found, torch.tensor(wanted("PNG"), dtype=torch.float32))
        with pytest.raises(RuntimeError):
            model(prompt=[BAD, *PROMPTS[1:]], image=images)


def test_unirl_service_client(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "unirl_client")  # dataclasses look for their module
    client = module(official("UniRL/unirl-reward-service/reward_service/client.py"), "unirl_client")
    asked = client.RewardClient(address)
    assert asked.rewards() == ["lmm-score"]
    assert asked.health() == {"status": "ok", "rewards": {"lmm-score": ["ready"]}}
    sent = [
        client.RewardRequest([(prompt, Image.fromarray(array))], ["lmm-score"])
        for array, prompt in zip((*arrays(), arrays()[0]), [*PROMPTS, BAD], strict=True)
    ]
    numbers = wanted("JPEG", quality=95)
    assert asked.score(sent) == [*({"lmm-score": {"lmm-score": number}} for number in numbers), {}]


def test_unirl_training_client(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("unirl", "unirl.config", "unirl.reward", "unirl.types"):
        stand_in(monkeypatch, name)
    stand_in(monkeypatch, "unirl.types.reward", RewardRequest=object, RewardResponse=SimpleNamespace)
    for name in ("config.require", "reward.base"):
        made = module(official(f"UniRL/unirl/{name.replace('.', '/')}.py"), name)
        monkeypatch.setitem(sys.modules, f"unirl.{name}", made)
    name = "unirl.reward.remote"
    stand_in(monkeypatch, name)
    client = module(official("UniRL/unirl/reward/remote.py"), name)
    told = yaml.safe_load(lines("UniRL", address))
    assert told.pop("_target_") == f"{name}.RemoteRewardSpec"
    spec = client.RemoteRewardSpec(**told, image_format="PNG")
    backend = client.RemoteRewardBackend(config=spec, base_device="cpu")
    assert backend.is_available()
    request = SimpleNamespace(
        is_video=False, batch_size=4, images=[Image.fromarray(array) for array in (*arrays(), arrays()[0])],
        prompts=[*PROMPTS, BAD], metadata=None, primitives={},
    )  # fmt: skip
    found = backend.compute_rewards(request)
    assert found.rewards[:3] == wanted("PNG")
    assert found.successes == [True, True, True, False]
    assert found.errors[3].startswith("lmm-score: refused")
    backend.dispose()
