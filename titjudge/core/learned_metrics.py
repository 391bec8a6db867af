"""The table of learned metrics: what each one computes, its weights and their licence, how many tokens it reads.

A row is a metric (`titjudge.metrics.learned`) and the model `scorer/<key>` behind it
(`titjudge.providers.learned.provider`). Formulas and preprocessing follow the source named in each row, as of November
2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from titjudge.core import learned_metric_texts
from titjudge.core.model_sizes import TEXT, Size, blip2, clip_h, clip_l, qwen_7b

NATIVE = "built in"
COMMAND = "by your command"  # titjudge.providers.learned.external
ASKED = "by the models you name"  # captioner and judge; titjudge.metrics.dsg, viescore, lmm_score


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """One learned metric; for all of them, a higher value is better.

    Attributes:
        key: Name of the metric.
        summary: What it computes, in a line.
        adapter: dual (two encoders), itm (image-text matching head), t5 (CLIP-FlanT5), prob (probability of an answer
            of a vision-language model), labels (expected value of answer labels), head (a head on the state of one
            token), mps, or external (the user's own command); empty where the captioner and the judge are asked.
        weights: `owner/name` or `owner/name:file` on the Hugging Face hub; empty where they are not there and the user
            names a folder.
        base: Repository of configuration, processor and tokenizer; empty where they are with the weights.
        licence: Licence of weights and code.
        tokens: Tokens of a text that are read, special tokens included; 0: as many as the user's model reads.
        range: Lowest and highest value.
        source: Paper or code that it follows.
        status: Where it runs: NATIVE, COMMAND or ASKED.
        options: Options of the adapter; `dtype` among them is the default of the row.
        gigabytes: Size of the weights, where it is known from the hub's listing.
        whole_base: Whether weights of `base` are needed, too.
        size: Memory it takes, for models that run in this process.
    """

    key: str
    summary: str
    adapter: str = ""
    weights: str = ""
    base: str = ""
    licence: str
    tokens: int = 0
    range: tuple[float, float]
    source: str
    status: str = NATIVE
    options: Mapping[str, Any] = field(default_factory=dict)
    gigabytes: float = 0
    whole_base: bool = False
    size: Size | None = None

    @property
    def also(self) -> str:
        """The second repository that is needed besides that of the weights; empty where there is none."""
        return self.base if self.base != self.weights.partition(":")[0] else ""


_INF = float("inf")
_OPENAI = {"clean": True, "crop": "torchvision"}  # as OpenAI's CLIP and open_clip read text and image
_CLIP_H = "laion/CLIP-ViT-H-14-laion2B-s32B-b79K"
_T2V = (
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and "
    "polite answers to the user's questions. USER: <image>\n"
    'Does this figure show "{}"? Please answer yes or no. ASSISTANT: '
)
_VQA = 'Does this figure show "{}"? Please answer Yes or No.'

_HPSV2 = Baseline(
    key="hpsv2",
    summary="Human Preference Score v2.0: cosine, image letterboxed; not comparable with v2.1.",
    adapter="dual",
    weights="xswu/HPSv2:HPS_v2_compressed.pt",
    base=_CLIP_H,
    licence="Apache-2.0",
    tokens=77,
    range=(-1, 1),
    source="github.com/tgxs002/HPSv2",
    options={"letterbox": True, "clean": True},
    gigabytes=1.97,
    size=clip_h(334),
)
_BLIP2_ITM = Baseline(
    key="blip2-itm",
    summary="BLIP-2 image-text matching: probability that they match; saturates, so the logit difference is kept.",
    adapter="itm",
    weights="Salesforce/blip2-itm-vit-g",
    licence="BSD-3-Clause (code); see model card",
    tokens=35,
    range=(0, 1),
    source="github.com/salesforce/LAVIS; max_length 35 as evalscope and t2v-metrics",
    options={"readout": "itm"},
    size=blip2(324),
)
_CLIP_FLANT5_XXL = Baseline(
    key="vqascore-clip-flant5-xxl",
    summary="VQAScore: sqrt(P(Yes) P(end | Yes)) of CLIP-FlanT5-XXL.",
    adapter="t5",
    weights="zhiqiulin/clip-flant5-xxl",
    base="openai/clip-vit-large-patch14-336",
    licence="Apache-2.0",
    tokens=2048,
    range=(0, 1),
    source="github.com/linzhiqiu/t2v_metrics 3.0",
    options={"template": _T2V, "answer": "Yes", "dtype": "bfloat16"},
    whole_base=True,
    size=Size(11.5, 0, 0, 0, 4096, 10240, 576 + TEXT),
)
_MPS = Baseline(
    key="mps",
    summary="MPS, overall: CLIP ViT-H/14 tokens, cross-attention under a condition mask of threshold 0.3 (their evaluation).",
    adapter="mps",
    weights="RE-N-Y/mpsv1:model.safetensors",
    base=_CLIP_H,
    licence="code MIT; weights: none stated",
    tokens=77,
    range=(-100, 100),
    source="github.com/Kwai-Kolors/MPS, eval_overall_mps_on_hpdv2.py; mask scaled by each sample, not by its batch (evalscope's "
    "gives one row of a matrix for several prompts)",
    options={"threshold": 0.3},
    gigabytes=4.42,
    size=clip_h(411, 1.1),
)
_VQASCORE_QWEN25 = Baseline(
    key="vqascore-qwen2.5-vl-7b",
    summary="VQAScore with Qwen2.5-VL-7B: P(Yes) over the whole vocabulary at the first token.",
    adapter="prob",
    weights="Qwen/Qwen2.5-VL-7B-Instruct",
    licence="Apache-2.0",
    tokens=32768,
    range=(0, 1),
    source="github.com/linzhiqiu/t2v_metrics 3.1, where the model's own repetition penalty (1.05) counts as well",
    options={"template": _VQA, "answer": "Yes", "dtype": "bfloat16"},
    size=qwen_7b(37 * 37 + TEXT),
)
_ROWS = (
    Baseline(
        key="clipscore-hessel",
        summary="CLIPScore as published: 2.5 * max(cos, 0), ViT-B/32, 'A photo depicts' before the prompt.",
        adapter="dual",
        weights="openai/clip-vit-base-patch32",
        licence="MIT",
        tokens=77,
        range=(0, 2.5),
        source="github.com/jmhessel/clipscore",
        options={"prefix": "A photo depicts ", "scale": 2.5, "clamp": True, **_OPENAI},
        size=Size(0.151, 0, 0, 0, 768, 3072, 127, 4),
    ),
    Baseline(
        key="clipscore-torchmetrics",
        summary="CLIPScore of torchmetrics: 100 * cos, ViT-L/14; long prompts keep their end token, which torchmetrics loses.",
        adapter="dual",
        weights="openai/clip-vit-large-patch14",
        licence="MIT",
        tokens=77,
        range=(-100, 100),
        source="torchmetrics.multimodal.CLIPScore; clamped per data set there, not per image",
        options={"scale": 100.0},
        size=clip_l(334),
    ),
    Baseline(
        key="clipscore-cosine",
        summary="CLIPScore of t2v-metrics: the bare cosine, ViT-L/14 at 336 pixels; evalscope's is computed with GELU for QuickGELU.",
        adapter="dual",
        weights="openai/clip-vit-large-patch14-336",
        licence="MIT",
        tokens=77,
        range=(-1, 1),
        source="github.com/linzhiqiu/t2v_metrics (open_clip to 2.26); range of TIT-Score Fig. 4",
        options=_OPENAI,
        size=clip_l(654),
    ),
    Baseline(
        key="longclip",
        summary="The bare cosine of Long-CLIP, which reads 248 tokens; the weights are a fine-tune by zer0int, not the authors' own.",
        adapter="dual",
        weights="zer0int/LongCLIP-GmP-ViT-L-14",
        base="openai/clip-vit-large-patch14",
        licence="see model card",
        tokens=248,
        range=(-1, 1),
        source="github.com/beichenzbc/Long-CLIP, text and image as its own code reads them",
        options=_OPENAI,
        size=clip_l(505),
    ),
    Baseline(
        key="pickscore",
        summary="PickScore: exp(logit_scale) * cos of a preference-tuned ViT-H/14.",
        adapter="dual",
        weights="yuvalkirstain/PickScore_v1",
        base=_CLIP_H,
        licence="code MIT; weights: none stated",
        tokens=77,
        range=(-100, 100),
        source="github.com/yuvalkirstain/PickScore",
        options={"scale": "logit"},
        gigabytes=3.94,
        size=clip_h(334),
    ),
    _HPSV2,
    replace(
        _HPSV2,
        key="hpsv2.1",
        summary="Human Preference Score v2.1: cosine, image letterboxed.",
        weights="xswu/HPSv2:HPS_v2.1_compressed.pt",
    ),
    Baseline(
        key="imagereward",
        summary="ImageReward: BLIP ViT-L and an MLP, standardised.",
        adapter="itm",
        weights="THUDM/ImageReward:ImageReward.pt",
        base="bert-base-uncased",
        licence="Apache-2.0",
        tokens=35,
        range=(-_INF, _INF),
        source="github.com/zai-org/ImageReward",
        options={"readout": "imagereward"},
        gigabytes=1.79,
        size=Size(0.447, 0, 0, 0, 1024, 4096, 232, 4),
    ),
    _BLIP2_ITM,
    replace(
        _BLIP2_ITM,
        key="blip2-itc",
        summary="BLIP-2 image-text contrast: the highest cosine over the 32 queries.",
        range=(-1, 1),
        source="github.com/salesforce/LAVIS",
        options={"readout": "itc"},
    ),
    Baseline(
        key="fga-blip2",
        summary="FGA-BLIP2 as its evaluation prints it: 4 * mean over queries of the match probability + 1, first 50 words.",
        adapter="itm",
        weights="hanshuhao/FGA-BLIP2:fga_blip2.pth",
        base="Salesforce/blip2-itm-vit-g-coco",
        licence="Apache-2.0",
        tokens=512,
        range=(1, 5),
        source="github.com/DYEvaLab/EvalMuse @0fa141b, element_score(); forward(), of its demo, reads 32 word pieces",
        options={"readout": "fga", "elements": True},
        size=blip2(784),
    ),
    _CLIP_FLANT5_XXL,
    replace(
        _CLIP_FLANT5_XXL,
        key="vqascore-clip-flant5-xl",
        summary="VQAScore: sqrt(P(Yes) P(end | Yes)) of CLIP-FlanT5-XL.",
        weights="zhiqiulin/clip-flant5-xl",
        gigabytes=6.32,
        size=Size(3.16, 0, 0, 0, 2048, 5120, 576 + TEXT),
    ),
    _VQASCORE_QWEN25,
    replace(
        _VQASCORE_QWEN25,
        key="vqascore-qwen3-vl-8b",
        summary="VQAScore with Qwen3-VL-8B: P(Yes) over the whole vocabulary at the first token.",
        weights="Qwen/Qwen3-VL-8B-Instruct",
        tokens=262144,
        source="github.com/linzhiqiu/t2v_metrics 3.1",
        size=Size(8.77, 36, 8, 128, 4096, 12288, 32 * 32 + TEXT),
    ),
    Baseline(
        key="lmm-score-expected-qwen2.5-vl-7b",
        summary="LMM score as an expected value: ten digits weighted by their probability, Qwen2.5-VL-7B; few ties.",
        adapter="labels",
        weights="Qwen/Qwen2.5-VL-7B-Instruct",
        licence="Apache-2.0",
        tokens=32768,
        range=(0, 9),
        source="TIT-Score paper, Table 4 (integer form); prompt ours",
        options={
            "template": learned_metric_texts.DIGIT,
            "labels": {str(n): float(n) for n in range(10)},
            "dtype": "bfloat16",
        },
        size=qwen_7b(37 * 37 + TEXT),
    ),
    Baseline(
        key="q-eval-score",
        summary="Q-Eval-Score: five words from Excellent (1) to Bad (0), weighted by their probability, Qwen2-VL-7B.",
        adapter="labels",
        weights="AGI-Eval-Official/Q-Eval-Score",
        licence="none stated",
        tokens=32768,
        range=(0, 1),
        source="github.com/zzc-1998/Q-Eval @b7bf67b, utils/infer.py (float16 there); rows and columns count as "
        "positions, as in its training; the transformers 4.46.0 that it pins counts tokens",
        options={
            "template": learned_metric_texts.Q_EVAL,
            "labels": {"Excellent": 1.0, "Good": 0.75, "Fair": 0.5, "Poor": 0.25, "Bad": 0.0},
            "dtype": "bfloat16",
        },
        size=qwen_7b(37 * 37 + TEXT),
    ),
    Baseline(
        key="hpsv3",
        summary="HPSv3: mean of a preference distribution, read by a head at a reward token of Qwen2-VL-7B.",
        adapter="head",
        weights="MizzenAI/HPSv3:HPSv3.safetensors",
        base="Qwen/Qwen2-VL-7B-Instruct",
        licence="MIT",
        tokens=32768,
        range=(-_INF, _INF),
        source="github.com/MizzenAI/HPSv3, hpsv3/inference.py; positions counted as in its trainer (text alone)",
        options={
            "template": learned_metric_texts.HPSV3,
            "token": "<|Reward|>",
            "head": "rm_head.",
            "pixels": (256 * 28 * 28, 256 * 28 * 28),
            "positions": "text",
            "dtype": "bfloat16",
        },
        size=qwen_7b(256 + 2 * TEXT),
    ),
    Baseline(
        key="librehps",
        summary="LibreHPS: overall preference, 0 to 1, read by a head at a reward token of Qwen3.5-4B; every licence is permissive.",
        adapter="head",
        weights="LibreHPS/LibreHPS-4B-v1.1",
        licence="Apache-2.0 (code MIT)",
        tokens=262144,
        range=(0, 1),
        source="package librehps 1.1.2, LibreHPS.score_image; sigmoid of the mean, in float32 behind the model's bfloat16",
        options={
            "template": learned_metric_texts.LIBREHPS,
            "raw": True,
            "token": "<|Reward|>",
            "head": "multi_axis_head.proj.",
            "axes": ("overall", "alignment", "coherence", "style"),
            "sigmoid": True,
            "pixels": (256 * 28 * 28, 256 * 28 * 28),
            "dtype": "bfloat16",
        },
        size=Size(4.54, 8, 4, 256, 2560, 9216, 196 + 2 * TEXT),
    ),
    Baseline(
        key="longt2iexpert",
        summary="LongT2IExpert: alignment read by a head at a level token of a Qwen2-VL; weights from its authors, in your folder.",
        adapter="head",
        licence="none stated",
        tokens=32768,
        range=(0, 1),
        source="github.com/yzc-ippl/LongT2IBench @f7006de, test_score.py, which loads Qwen2-VL; the paper says Qwen2.5-VL-7B",
        options={
            "template": learned_metric_texts.LONGT2I,
            "system": learned_metric_texts.LONGT2I_SYSTEM,
            "token": "<level>",
            "answer": "<level>",
            "head": "score_head.pt",
            "text_first": True,
            "sigmoid": True,
            "pixels": (56 * 56, 1024 * 1024 * 3),
            "dtype": "bfloat16",
        },
        size=qwen_7b(37 * 37 + 2 * TEXT),
    ),
    _MPS,
    replace(
        _MPS,
        key="mps-readme",
        summary="MPS, overall, with the condition mask of threshold 0.01 of its README and model code.",
        source="github.com/Kwai-Kolors/MPS, trainer/models/clip_model.py; mask scaled by each sample, not by its batch",
        options={"threshold": 0.01},
    ),
    Baseline(
        key="lmm4lmm",
        summary="LMM4LMM: InternVL2.5-8B (16.2 GB) with a score head (needs transformers 4.37 and the model's own code).",
        adapter="external",
        weights="IntMeGroup/LMM4LMM-Correspondence",
        licence="none stated",
        tokens=4096,
        range=(0, _INF),
        source="github.com/IntMeGroup/LMM4LMM",
        status=COMMAND,
    ),
    Baseline(
        key="visionreward",
        summary="VisionReward: weighted yes/no answers of a CogVLM2 (needs SwissArmyTransformer).",
        adapter="external",
        weights="THUDM/VisionReward-Image-bf16",
        licence="Apache-2.0 (code)",
        tokens=2048,
        range=(-_INF, _INF),
        source="github.com/zai-org/VisionReward",
        status=COMMAND,
        gigabytes=38.99,
    ),
)

TABLE: Mapping[str, Baseline] = {row.key: row for row in _ROWS}
BUILT_IN: tuple[Baseline, ...] = tuple(row for row in _ROWS if row.status == NATIVE)
EXTERNAL: tuple[Baseline, ...] = tuple(row for row in _ROWS if row.status == COMMAND)

_UR = "github.com/CodeGoat24/UnifiedReward"
_ASK_ROWS = (
    Baseline(key="dsg", summary="Davidsonian Scene Graph: yes/no questions with dependencies.", status=ASKED,
             licence="Apache-2.0 (rules)", range=(0, 1), source="github.com/j-min/DSG"),
    Baseline(key="tifa", summary="TIFA: multiple-choice questions.", status=ASKED,
             licence="Apache-2.0 (rules)", range=(0, 1), source="github.com/Yushi-Hu/tifa"),
    Baseline(key="viescore", summary="VIEScore: root of semantic consistency times perceptual quality.", status=ASKED,
             licence="MIT (prompts)", range=(0, 10), source="github.com/TIGER-AI-Lab/VIEScore"),
    Baseline(key="unifiedreward", summary="UnifiedReward 1.0, point-wise.", weights="CodeGoat24/UnifiedReward-qwen-7b",
             licence="MIT", tokens=32768, range=(1, 5), source=_UR, status=ASKED, size=qwen_7b(37 * 37 + 2 * TEXT)),
    Baseline(key="unifiedreward-2", summary="UnifiedReward 2.0, point-wise: alignment.",
             weights="CodeGoat24/UnifiedReward-2.0-qwen-7b",
             licence="MIT", tokens=32768, range=(1, 5), source=_UR, status=ASKED, size=qwen_7b(37 * 37 + 2 * TEXT)),
    Baseline(key="lmm-score", summary="LMM score: one rating.", status=ASKED,
             licence="ours", range=(0, 100), source="TIT-Score paper, Table 4"),
    Baseline(key="vqascore", summary="VQAScore: P(Yes).", status=ASKED,
             licence="Apache-2.0 (question)", range=(0, 1), source=_VQASCORE_QWEN25.source),
    Baseline(key="lmm-score-expected", summary="LMM score: expected value.", status=ASKED,
             licence="ours", range=(0, 9), source="TIT-Score paper, Table 4"),
    replace(TABLE["q-eval-score"], key="q-eval", adapter="", status=ASKED),
)  # fmt: skip
LISTED: tuple[Baseline, ...] = (*_ROWS, *_ASK_ROWS)
"""Every learned metric, with those that ask the captioner and the judge."""
