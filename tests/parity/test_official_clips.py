"""HPSv2, Long-CLIP, MPS, Q-Eval, LibreHPS and VQAScore with Qwen beside their official code, on tiny random weights, where that code is fetched.

TITJUDGE_OFFICIAL names a folder with, each under its own name (what is not there is skipped):

    hpsv2       pip download --no-deps hpsv2==1.2.0, unpacked    the whole model behind the score
    Long-CLIP   github.com/beichenzbc/Long-CLIP                  the whole model, 248 positions
    MPS         github.com/Kwai-Kolors/MPS (needs einops)        the whole model and its evaluation script
    Q-Eval      github.com/zzc-1998/Q-Eval                       prompt, and words weighed to a score
    librehps    pip download --no-deps librehps==1.1.2, unpacked (asks for Python 3.12)    the whole model
    t2v_metrics github.com/linzhiqiu/t2v_metrics (needs qwen-vl-utils, accelerate)    VQAScore with Qwen2.5-VL and Qwen3-VL

The pictures are this project's (the official transforms need torchvision). ImageReward and LAVIS' BLIP-2, with FGA-BLIP2,
import parts that transformers 5 no longer has: test_older_transformers.py; LongT2IExpert is a script around its checkpoint.
"""

import asyncio
import hashlib
import io
import json
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tiny_models
from learned_prompts import learned_prompt
from test_official_code import functions, module, official, strings

from titjudge.core.types import ImageFile, Message, Request
from titjudge.data.learned_metrics import TABLE
from titjudge.providers import ProviderSettings
from titjudge.providers.learned import clip_and_blip, state_dicts
from titjudge.providers.learned.provider import Scorer

TEXTS = ("two dogs", "a red cube on the left of a blue ball", "no " * 60)


def pictures() -> list[Any]:
    return [
        tiny_models.picture(width, height, seed) for seed, (width, height) in enumerate(((90, 50), (56, 56), (40, 70)))
    ]


def scores(key: str, images: Sequence[Any], **options: Any) -> list[float]:
    def written(image: Any) -> bytes:
        buffer = io.BytesIO()
        image.save(buffer, "PNG")
        return buffer.getvalue()

    return scored(key, list(zip(map(written, images), TEXTS, strict=True)), **options)


def scored(key: str, pairs: Sequence[tuple[bytes, str]], **options: Any) -> list[float]:
    """The score that a learned metric gives each (PNG, text)."""
    return [float(found["score"]) for found in measured(key, pairs, **options)]


def measured(
    key: str,
    pairs: Sequence[tuple[bytes | tuple[bytes, ...], str]],
    elements: Sequence[Sequence[str]] = (),
    **options: Any,
) -> list[dict[str, Any]]:
    """What a learned metric says of each (PNG, text), or of an edit ((source, result), text), and of the elements of each text."""
    provider = Scorer(ProviderSettings(key, options={"device": "cpu", **options}))

    def asked(number: int, pictures: bytes | tuple[bytes, ...], text: str) -> Request:
        turns = (Message("system", (json.dumps(elements[number]),)),) if elements else ()
        shown = [
            ImageFile(hashlib.sha256(raw).hexdigest(), "image/png", 0, 0, Path("x.png"), lambda raw=raw: raw)
            for raw in (pictures if isinstance(pictures, tuple) else (pictures,))
        ]
        return Request("scorer", key, (*turns, Message("user", (*shown, text))))

    async def run() -> list[Any]:
        try:
            return await asyncio.gather(*(provider.complete(asked(n, *pair)) for n, pair in enumerate(pairs)))
        finally:
            await provider.aclose()

    return [json.loads(reply.text) for reply in asyncio.run(run())]


def randomised(model: Any) -> Any:
    import torch

    torch.manual_seed(7)
    for name, value in model.named_parameters():
        norm = name.endswith("weight") and "ln_" in name
        value.data = 1 + 0.2 * torch.randn_like(value) if norm else torch.randn_like(value) * 0.3
    return model.eval()


def padded(tokenizer: Any, text: str, length: int) -> Any:
    """Ids as the official tokenizers give them: zeros behind the end token, which the models find by its number."""
    import torch

    ids = tokenizer(text, truncation=True, max_length=length)["input_ids"]
    return torch.tensor([ids + [0] * (length - len(ids))])


def cosine(image: Any, text: Any) -> float:
    import torch

    return float(torch.nn.functional.cosine_similarity(image, text))


@pytest.mark.slow
def test_hpsv2_scores_as_its_own_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    folder = official("hpsv2/hpsv2/src/open_clip/model.py").parent
    package = ModuleType("official_hpsv2")
    package.__path__ = [str(folder)]  # its own __init__ wants training's packages
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "official_hpsv2", package)
        other = ModuleType("official_hpsv2.hf_model")  # text towers of other makers
        other.HFTextEncoder = None  # type: ignore[attr-defined]
        patch.setitem(sys.modules, other.__name__, other)
        if find_spec("torchvision") is None:  # a class for freezing ResNets, which is not used here
            misc = ModuleType("torchvision.ops.misc")
            misc.FrozenBatchNorm2d = type("FrozenBatchNorm2d", (), {})  # type: ignore[attr-defined]
            for stub in (ModuleType("torchvision"), ModuleType("torchvision.ops"), misc):
                patch.setitem(sys.modules, stub.__name__, stub)
        code = import_module("official_hpsv2.model")
    tok = tiny_models.clip_tokenizer()
    vision = {"layers": 2, "width": 32, "head_width": 16, "patch_size": 14, "image_size": 56, "mlp_ratio": 2.0}
    text = {"context_length": 77, "vocab_size": len(tok), "width": 32, "heads": 2, "layers": 2}
    theirs = randomised(code.CLIP(16, vision, text))
    base = tiny_models.clip(tmp_path / "base", hidden_act="gelu")
    config = json.loads((base / "config.json").read_text())
    config["text_config"]["intermediate_size"] = 128
    (base / "config.json").write_text(json.dumps(config))
    torch.save({"state_dict": theirs.state_dict()}, tmp_path / "HPS_v2.1_compressed.pt")
    found = scores("hpsv2.1", pictures(), weights=tmp_path / "HPS_v2.1_compressed.pt", base=base)
    with torch.no_grad():
        wanted = [
            cosine(
                theirs.encode_image(clip_and_blip.letterbox(image, 56)[None]),
                theirs.encode_text(padded(tok, each, 77)),
            )
            for image, each in zip(pictures(), TEXTS, strict=True)
        ]
    assert found == pytest.approx(wanted, abs=1e-5)
    assert np.ptp(wanted) > 0.01


@pytest.mark.slow
def test_longclip_scores_as_its_own_model(tmp_path: Path) -> None:
    import torch
    from transformers import CLIPConfig, CLIPImageProcessorPil, CLIPModel

    tok = tiny_models.clip_tokenizer()
    code = module(official("Long-CLIP/model/model_longclip.py"), "official_longclip")
    theirs = randomised(code.CLIP(16, 56, 2, 128, 14, 248, len(tok), 128, 2, 2, load_from_clip=False))
    state = theirs.state_dict()
    rest = state.pop("positional_embedding_res")
    state["positional_embedding"] = torch.cat([state["positional_embedding"][:20], rest[20:]])  # as the rows are used
    shape = {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 2}
    shape |= {"projection_dim": 16, "hidden_act": "quick_gelu"}  # type: ignore[dict-item]
    ends = {"bos_token_id": tok.bos_token_id, "eos_token_id": tok.eos_token_id, "pad_token_id": tok.pad_token_id}
    words = {"vocab_size": len(tok), "max_position_embeddings": 248, **ends, **shape}
    ours = CLIPModel(
        CLIPConfig(text_config=words, vision_config={"image_size": 56, "patch_size": 14, **shape}, projection_dim=16)
    )
    state_dicts.fill(ours, state_dicts.open_clip(state), "longclip")
    ours.save_pretrained(tmp_path)
    tok.save_pretrained(tmp_path)
    processor = CLIPImageProcessorPil(size={"shortest_edge": 56}, crop_size={"height": 56, "width": 56})
    processor.save_pretrained(tmp_path)
    found = scores("longclip", pictures(), weights=tmp_path)
    with torch.no_grad():
        wanted = [
            cosine(
                theirs.encode_image(clip_and_blip.centred(processor, [image])),
                theirs.encode_text(padded(tok, text, 248)),
            )
            for image, text in zip(pictures(), TEXTS, strict=True)
        ]
    assert found == pytest.approx(wanted, abs=1e-5)
    assert np.ptp(wanted) > 0.01


@pytest.mark.slow
def test_librehps_scores_as_its_own_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`LibreHPS.score_image` from prompt and picture on; its loader, which wants CUDA or bfloat16, is left out."""
    import torch
    from transformers import AutoTokenizer

    from titjudge.providers.local.loading import load_processor

    monkeypatch.syspath_prepend(str(official("librehps/librehps/inference.py").parents[1]))
    if find_spec("loguru") is None:
        quiet = ModuleType("loguru")
        quiet.logger = type("Quiet", (), dict.fromkeys(("info", "warning", "debug"), lambda *_: None))  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "loguru", quiet)
    code = import_module("librehps.inference")
    reward = import_module("librehps.model.qwen3_5_reward")
    monkeypatch.setattr(reward, "_fa4_patched", True)  # no CUDA kernel
    folder = tiny_models.librehps(tmp_path)
    model = reward.Qwen3_5RewardModelBT.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model.bind_reward_token(tokenizer)
    eyes = load_processor(str(folder), size={"shortest_edge": 256 * 28 * 28, "longest_edge": 256 * 28 * 28})

    class Images:
        constants = type("Constants", (), {"merge_size": 2})

        def from_paths_or_pil(self, images: Any) -> Any:
            return eyes.image_processor(images, return_tensors="pt")

    theirs = code.LibreHPS(
        model=model, tokenizer=tokenizer, image_processor=Images(), video_processor=None, device=torch.device("cpu"),
        dtype=torch.float32, is_moe=False, checkpoint_path=folder,
    )  # fmt: skip
    wanted = [
        theirs.score_image(image=image, prompt=text).overall.mean for image, text in zip(pictures(), TEXTS, strict=True)
    ]
    assert scores("librehps", pictures(), weights=folder, dtype="float32") == pytest.approx(wanted, abs=1e-5)
    assert np.ptp(wanted) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "name", "build"),
    [
        ("vqascore-qwen2.5-vl-7b", "Qwen2VL", tiny_models.qwen25_vl),
        ("vqascore-qwen3-vl-8b", "Qwen3VL", tiny_models.qwen3_vl),
    ],
)
def test_vqascore_of_a_chat_model_is_the_official_number(
    key: str, name: str, build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The official class from file and text to score; weights in float32, without a repetition penalty of the model."""
    import torch
    from transformers import AutoModelForImageTextToText, AutoTokenizer

    from titjudge.providers.local.loading import load_processor

    root = official(f"t2v_metrics/t2v_metrics/models/vqascore_models/{name.lower()}_model.py").parents[2]
    for needed in ("qwen_vl_utils", "accelerate"):
        if find_spec(needed) is None:
            pytest.skip(f"the official code needs the package {needed}")
    with monkeypatch.context() as patch:
        for stub in ("decord", "torchvision", "torchvision.io", "torchvision.transforms"):  # films
            made = ModuleType(stub)
            made.__path__ = []
            made.__getattr__ = lambda attribute: None  # type: ignore[method-assign]
            patch.setitem(sys.modules, stub, made)
        for package in ("t2v_metrics", "t2v_metrics.models", "t2v_metrics.models.vqascore_models"):
            made = ModuleType(package)  # their own __init__ imports every model
            made.__path__ = [str(root.parent / package.replace(".", "/"))]
            patch.setitem(sys.modules, package, made)
        code = import_module(f"t2v_metrics.models.vqascore_models.{name.lower()}_model")
    folder = build(tmp_path / "model")
    words = AutoTokenizer.from_pretrained(folder)
    words.add_tokens(["Yes"])
    model = AutoModelForImageTextToText.from_pretrained(folder)
    model.resize_token_embeddings(len(words))
    for saved in (words, model):
        saved.save_pretrained(folder)
    monkeypatch.setattr(code, "AutoProcessor", type("Images", (), {"from_pretrained": staticmethod(load_processor)}))
    known = getattr(code, f"{name.upper().replace('VL', '_VL')}_MODELS")[key.removeprefix("vqascore-")]
    known["model"].update(path=str(folder), torch_dtype=torch.float32)
    known["tokenizer"]["path"] = str(folder)
    theirs = getattr(code, f"{name}Model")(key.removeprefix("vqascore-"), device="cpu")
    files = [str(tmp_path / f"{number}.png") for number in range(len(TEXTS))]
    for file, image in zip(files, pictures(), strict=True):
        image.save(file)
    wanted = theirs.forward(files, list(TEXTS)).tolist()
    found = scores(key, pictures(), weights=folder, dtype="float32")
    assert found == pytest.approx(wanted, rel=1e-5, abs=0)  # probabilities, small ones too
    assert np.ptp(wanted) > 1e-4


def test_q_eval_asks_and_weighs_as_upstream() -> None:
    file = official("Q-Eval/utils/infer.py")
    row = TABLE["q-eval-score"]
    assert learned_prompt("q-eval-score") in strings(file)
    wa5 = functions(file, "wa5")["wa5"]
    labels = dict(row.options["labels"])
    logits = dict(zip(labels, np.random.default_rng(1).normal(0, 2, len(labels)), strict=True))
    chances = np.exp(list(logits.values())) / np.exp(list(logits.values())).sum()
    assert wa5(logits) == pytest.approx(float(chances @ list(labels.values())))


@pytest.mark.slow
def test_mps_scores_as_its_own_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From picture file and text to the score of their evaluation script, with its condition mask."""
    import torch
    from PIL import Image
    from transformers import AutoTokenizer, CLIPImageProcessor

    if find_spec("einops") is None:
        pytest.skip("the official code needs the package einops")
    script = official("MPS/eval_overall_mps_on_hpdv2.py")
    monkeypatch.syspath_prepend(str(script.parent))
    monkeypatch.setattr(torch.Tensor, "half", lambda self: self)  # on a CPU everything is float32
    base = tiny_models.clip(tmp_path / "base")
    layers = import_module("trainer.models.cross_modeling").Cross_model
    made = import_module("trainer.models.clip_model")
    width = json.loads((base / "config.json").read_text())["projection_dim"]
    monkeypatch.setattr(made, "Cross_model", lambda **_: layers(dim=width, layer_num=2, dim_head=16, heads=4))
    model = made.CLIPModel(str(base)).eval()
    torch.manual_seed(5)
    for name, value in model.cross_model.named_parameters():
        noise = torch.randn_like(value)
        value.data = 1 + 0.2 * noise if "norm" in name else noise / value.shape[-1] ** 0.5
    names = {"einsum": torch.einsum, "torch": torch, "Image": Image, "BytesIO": io.BytesIO}
    score = functions(script, "infer_one_sample", **names)["infer_one_sample"]
    images, texts = CLIPImageProcessor.from_pretrained(base), AutoTokenizer.from_pretrained(base)
    pairs = []
    wanted = []
    for number, text in enumerate(TEXTS):
        tiny_models.picture(90 + 7 * number, 60, number).save(tmp_path / f"{number}.png")
        pairs.append(((tmp_path / f"{number}.png").read_bytes(), text))
        wanted.append(float(score(str(tmp_path / f"{number}.png"), text, model, images, texts, "cpu")))
    torch.save(model.state_dict(), tmp_path / "MPS_overall_state_dict.pt")
    state = {"weights": tmp_path / "MPS_overall_state_dict.pt", "base": base}
    found = scored("mps", pairs, **state)
    assert found == pytest.approx(wanted, abs=1e-5)
    assert len({round(each, 4) for each in found}) == len(TEXTS)
    assert scored("mps-readme", pairs, **state) != pytest.approx(wanted, abs=1e-3)  # the mask shuts something
