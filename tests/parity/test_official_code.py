"""Our arithmetic beside the official code, where that code is fetched.

TITJUDGE_OFFICIAL names a folder with checkouts of the repositories, each under its own name; what is not there is skipped:

    CLIP            github.com/openai/CLIP                 tokens of cleaned texts
    t2v_metrics     github.com/linzhiqiu/t2v_metrics       CLIP-FlanT5: token ids around the picture, the padded square
    MPS             github.com/Kwai-Kolors/MPS             cross-attention (needs the package einops)
    HPSv3           pip download hpsv3==1.0.0, unpacked    size of the picture
    VIEScore        github.com/TIGER-AI-Lab/VIEScore       prompts
    UnifiedReward   github.com/CodeGoat24/UnifiedReward    prompts

The centre crop is compared with torchvision, where that is installed (official_code.py finds the checkouts).
"""

import gzip
import math
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import tiny_models
from learned_prompts import learned_prompt
from official_code import functions, module, official, strings, template

from titjudge.data.learned_metrics import TABLE
from titjudge.providers.learned import clip_and_blip, vqascore

TEXTS = [
    "a red cube on the left",
    "a “curly” sign that says ‘it’s’ …",
    "ｆｕｌｌ ｗｉｄｔｈ ﬁgures &amp;amp; entities &lt;b&gt;",
    "一只红色的猫，坐在“窗台”上。",
    "  spaces\n\nand\tlines  ",
    "Caf\u0065\u0301 cre\u0300me",
    "long " * 120 + "end",
]


# -- texts -------------------------------------------------------------------------------------------------------------


def test_cleaned_texts_have_the_tokens_of_openais_clip() -> None:
    from transformers import CLIPTokenizer

    if find_spec("regex") is None:
        pytest.skip("OpenAI's tokenizer needs the package regex")
    theirs = module(official("CLIP/clip/simple_tokenizer.py"), "official_clip_tokenizer").SimpleTokenizer()
    raw = gzip.decompress(official("CLIP/clip/bpe_simple_vocab_16e6.txt.gz").read_bytes()).decode().split("\n")
    merges = [tuple(line.split()) for line in raw[1 : 49152 - 256 - 2 + 1]]
    ours = CLIPTokenizer(vocab=theirs.encoder, merges=merges)
    for text in TEXTS:
        wanted = [49406, *theirs.encode(text), 49407]
        if len(wanted) > 77:
            wanted = [*wanted[:76], 49407]
        assert ours(clip_and_blip.cleaned(text), truncation=True, max_length=77)["input_ids"] == wanted, text
    changed = [text for text in TEXTS if ours(text)["input_ids"] != ours(clip_and_blip.cleaned(text))["input_ids"]]
    assert changed  # so the cleaning matters


def test_flant5_reads_the_ids_that_upstream_reads() -> None:
    file = official("t2v_metrics/t2v_metrics/models/vqascore_models/mm_utils.py")
    theirs = functions(file, "t5_tokenizer_image_token", IMAGE_TOKEN_INDEX=-200)["t5_tokenizer_image_token"]
    tok, row = tiny_models.t5_tokenizer(), TABLE["vqascore-clip-flant5-xl"]
    before, after = learned_prompt(row.key).split("<image>")
    for text in ("a red cube", "ab " * 900):
        ids = theirs(learned_prompt(row.key, text), tok)[: row.tokens]
        at = ids.index(-200)
        head, tail = tok(before)["input_ids"], tok(after.format(text), verbose=False)["input_ids"]
        assert (ids[:at], ids[at + 1 :]) == (head, tail[: row.tokens - len(head) - 1])


def test_the_prompts_of_viescore() -> None:
    theirs: dict[str, Any] = {}
    exec(official("VIEScore/viescore/vie_prompts.py").read_text(encoding="utf-8"), theirs)
    head = theirs["_context_no_delimit"]
    semantics = [head, theirs["_prompts_0shot_one_image_gen_rule"], theirs["_prompts_0shot_t2i_rule_SC"]]
    assert template("viescore/semantics") == "\n".join(semantics).replace("<prompt>", "{}").strip()
    assert template("viescore/quality") == "\n".join([head, theirs["_prompts_0shot_rule_PQ"]]).strip()


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("unifiedreward/point", "inference_qwen/image_generation/qwen_point_score_image_generation.py"),
        ("unifiedreward/point_2", "inference_qwen/UnifiedReward-2.0-inference/point_score_ACS_image_generation.py"),
    ],
)
def test_the_prompts_of_unifiedreward(name: str, path: str) -> None:
    plain = {
        re.sub(r"\{ ?\w* ?\}", "{}", each.replace("<image>", "")).strip()
        for each in strings(official(f"UnifiedReward/{path}"))
    }
    assert template(name) in plain


# -- pictures ----------------------------------------------------------------------------------------------------------


def test_flant5_pads_as_upstream() -> None:
    from PIL import Image

    file = official("t2v_metrics/t2v_metrics/models/vqascore_models/mm_utils.py")
    theirs = functions(file, "expand2square", Image=Image)["expand2square"]
    for size in ((90, 60), (61, 90), (64, 64), (33, 12)):
        image = tiny_models.picture(*size)
        assert vqascore.padded(image, vqascore._PAD).tobytes() == theirs(image, vqascore._PAD).tobytes()


def test_hpsv3_sees_a_picture_of_the_official_size(tmp_path: Path) -> None:
    """From a released-style file with min_pixels and max_pixels, through the row's own option."""
    from titjudge.providers.learned.chat_heads import _sized
    from titjudge.providers.local.loading import load_processor

    names = ("smart_resize", "round_by_factor", "ceil_by_factor", "floor_by_factor")
    limits = {"IMAGE_FACTOR": 28, "MIN_PIXELS": 4 * 784, "MAX_PIXELS": 16384 * 784, "MAX_RATIO": 200}
    theirs = functions(official("HPSv3/hpsv3/dataset/utils.py"), *names, math=math, **limits)["smart_resize"]
    least, most = TABLE["hpsv3"].options["pixels"]
    processor = load_processor(str(tiny_models.qwen25_vl(tmp_path, 28 * 28 * 16384)), **_sized((least, most)))
    for width, height in ((512, 512), (1024, 1024), (1920, 1280), (547, 720), (100, 90)):
        wanted = theirs(height, width, min_pixels=least, max_pixels=most)
        made = processor(images=[tiny_models.picture(width, height)], text="<|image_pad|>", return_tensors="pt")
        assert [int(each) * 14 for each in made["image_grid_thw"][0][1:]] == list(wanted)


@pytest.mark.parametrize(
    "size", [(1216, 832), (832, 1216), (1344, 768), (333, 225), (224, 224), (512, 512), (301, 226)]
)
def test_the_middle_of_a_picture_is_torchvisions(size: tuple[int, int]) -> None:
    import torch
    from transformers import CLIPImageProcessorPil

    try:
        from torchvision.transforms import CenterCrop, Compose, InterpolationMode, Normalize, Resize, ToTensor
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"torchvision cannot be imported: {' '.join(str(error).split())[:80]}")
    noise = tiny_models.picture(*size, seed=5)
    mean, std = clip_and_blip._CLIP_MEAN, clip_and_blip._CLIP_STD
    steps = [Resize(224, interpolation=InterpolationMode.BICUBIC), CenterCrop(224), ToTensor(), Normalize(mean, std)]
    ours = clip_and_blip.centred(CLIPImageProcessorPil(), [noise])[0]
    assert torch.allclose(ours, Compose(steps)(noise), atol=1e-5)


# -- layers ------------------------------------------------------------------------------------------------------------


def test_mps_looks_from_picture_to_text_as_upstream() -> None:
    import torch

    from titjudge.providers.learned import mps, state_dicts

    if find_spec("einops") is None:
        pytest.skip("the official code needs the package einops")
    torch.manual_seed(3)
    file = official("MPS/trainer/models/cross_modeling.py")
    theirs = module(file, "official_mps_layers").Cross_model(dim=64, layer_num=2, dim_head=16, heads=4).eval()
    for name, value in theirs.named_parameters():
        value.data = (
            1 + 0.2 * torch.randn_like(value) if "norm" in name else torch.randn_like(value) / value.shape[-1] ** 0.5
        )
    _, cross = state_dicts.mps({f"mps.cross_model.{name}": value for name, value in theirs.state_dict().items()})
    ours = mps.CrossModel.shaped(cross)
    state_dicts.fill(ours, cross, "mps")
    picture, text = torch.randn(2, 17, 64), torch.randn(2, 11, 64)
    mask = torch.where(torch.rand(2, 1, 1, 11) > 0.4, 0.0, -math.inf)
    with torch.no_grad():
        wanted = theirs(picture, text, mask[:, 0].repeat(1, 17, 1))
        assert torch.allclose(ours(picture, text, mask), wanted, atol=1e-5)
