"""The learned baselines as a table: what each one is, where its weights lie, what may be done with them, how far it reads.

A row is a metric (`titjudge.metrics.learned`) and the model `scorer/<key>` behind it (`titjudge.providers.learned.provider`).
Formulas, preprocessing and traps: the sources named in each row, read in November 2026.
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


@dataclass(frozen=True, slots=True)
class Baseline:
    """One learned metric.

    `adapter` is dual (two encoders), itm (image-text matching head), t5 (CLIP-FlanT5), prob (answer probability of a
    vision-language model), labels (expected value of answer labels), head (a head on one token's state), mps, or external
    (a command of the person's own); it is empty where the captioner and the judge are asked. `weights` is `owner/name` or `owner/name:file` on the hub (empty: not there, the
    person names a folder); `base` gives configuration, processor and tokenizer. `tokens` is how much of a text is read,
    special tokens included (0: as much as the model you name). `range` is the span of values; higher is better throughout. `options` belong
    to the adapter; `dtype` among them is the default of the row. `gigabytes` is the size of the weights where the hub's
    listing has been seen; `whole_base` says that `base` gives weights as well; `size` is there for every model
    that runs here.
    """

    key: str
    summary: str
    adapter: str
    weights: str
    base: str
    licence: str
    tokens: int
    range: tuple[float, float]
    source: str
    status: str = NATIVE
    options: Mapping[str, Any] = field(default_factory=dict)
    gigabytes: float = 0
    whole_base: bool = False
    size: Size | None = None

    @property
    def also(self) -> str:
        """The second repository that is needed besides the weights, "" where there is none."""
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
    "hpsv2",
    "Human Preference Score v2.0: cosine, image letterboxed; not comparable with v2.1.",
    "dual",
    "xswu/HPSv2:HPS_v2_compressed.pt",
    _CLIP_H,
    "Apache-2.0",
    77,
    (-1, 1),
    "github.com/tgxs002/HPSv2",
    options={"letterbox": True, "clean": True},
    gigabytes=1.97,
    size=clip_h(334),
)
_BLIP2_ITM = Baseline(
    "blip2-itm",
    "BLIP-2 image-text matching: probability that they match; saturates, so the logit difference is kept.",
    "itm",
    "Salesforce/blip2-itm-vit-g",
    "Salesforce/blip2-itm-vit-g",
    "BSD-3-Clause (code); see model card",
    35,
    (0, 1),
    "github.com/salesforce/LAVIS; max_length 35 as evalscope and t2v-metrics",
    options={"readout": "itm"},
    size=blip2(324),
)
_CLIP_FLANT5_XXL = Baseline(
    "vqascore-clip-flant5-xxl",
    "VQAScore: sqrt(P(Yes) P(end | Yes)) of CLIP-FlanT5-XXL.",
    "t5",
    "zhiqiulin/clip-flant5-xxl",
    "openai/clip-vit-large-patch14-336",
    "Apache-2.0",
    2048,
    (0, 1),
    "github.com/linzhiqiu/t2v_metrics 3.0",
    options={"template": _T2V, "answer": "Yes", "dtype": "bfloat16"},
    whole_base=True,
    size=Size(11.5, 0, 0, 0, 4096, 10240, 576 + TEXT),
)
_MPS = Baseline(
    "mps",
    "MPS, overall: CLIP ViT-H/14 tokens, cross-attention under a condition mask of threshold 0.3 (their evaluation).",
    "mps",
    "RE-N-Y/mpsv1:model.safetensors",
    _CLIP_H,
    "code MIT; weights: none stated",
    77,
    (-100, 100),
    "github.com/Kwai-Kolors/MPS, eval_overall_mps_on_hpdv2.py; mask scaled by each sample, not by its batch (evalscope's "
    "gives one row of a matrix for several prompts)",
    options={"threshold": 0.3},
    gigabytes=4.42,
    size=clip_h(411, 1.1),
)
_VQASCORE_QWEN25 = Baseline(
    "vqascore-qwen2.5-vl-7b",
    "VQAScore with Qwen2.5-VL-7B: P(Yes) over the whole vocabulary at the first token.",
    "prob",
    "Qwen/Qwen2.5-VL-7B-Instruct",
    "",
    "Apache-2.0",
    32768,
    (0, 1),
    "github.com/linzhiqiu/t2v_metrics 3.1, where the model's own repetition penalty (1.05) counts as well",
    options={"template": _VQA, "answer": "Yes", "dtype": "bfloat16"},
    size=qwen_7b(37 * 37 + TEXT),
)
_ROWS = (
    Baseline(
        "clipscore-hessel",
        "CLIPScore as published: 2.5 * max(cos, 0), ViT-B/32, 'A photo depicts' before the prompt.",
        "dual",
        "openai/clip-vit-base-patch32",
        "openai/clip-vit-base-patch32",
        "MIT",
        77,
        (0, 2.5),
        "github.com/jmhessel/clipscore",
        options={"prefix": "A photo depicts ", "scale": 2.5, "clamp": True, **_OPENAI},
        size=Size(0.151, 0, 0, 0, 768, 3072, 127, 4),
    ),
    Baseline(
        "clipscore-torchmetrics",
        "CLIPScore of torchmetrics: 100 * cos, ViT-L/14; long prompts keep their end token, which torchmetrics loses.",
        "dual",
        "openai/clip-vit-large-patch14",
        "openai/clip-vit-large-patch14",
        "MIT",
        77,
        (-100, 100),
        "torchmetrics.multimodal.CLIPScore; clamped per data set there, not per image",
        options={"scale": 100.0},
        size=clip_l(334),
    ),
    Baseline(
        "clipscore-cosine",
        "CLIPScore of t2v-metrics: the bare cosine, ViT-L/14 at 336 pixels; evalscope's is computed with GELU for QuickGELU.",
        "dual",
        "openai/clip-vit-large-patch14-336",
        "openai/clip-vit-large-patch14-336",
        "MIT",
        77,
        (-1, 1),
        "github.com/linzhiqiu/t2v_metrics (open_clip to 2.26); range of TIT-Score Fig. 4",
        options=_OPENAI,
        size=clip_l(654),
    ),
    Baseline(
        "longclip",
        "The bare cosine of Long-CLIP, which reads 248 tokens; the weights are a fine-tune by zer0int, not the authors' own.",
        "dual",
        "zer0int/LongCLIP-GmP-ViT-L-14",
        "openai/clip-vit-large-patch14",
        "see model card",
        248,
        (-1, 1),
        "github.com/beichenzbc/Long-CLIP, text and image as its own code reads them",
        options=_OPENAI,
        size=clip_l(505),
    ),
    Baseline(
        "pickscore",
        "PickScore: exp(logit_scale) * cos of a preference-tuned ViT-H/14.",
        "dual",
        "yuvalkirstain/PickScore_v1",
        _CLIP_H,
        "code MIT; weights: none stated",
        77,
        (-100, 100),
        "github.com/yuvalkirstain/PickScore",
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
        "imagereward",
        "ImageReward: BLIP ViT-L and an MLP, standardised.",
        "itm",
        "THUDM/ImageReward:ImageReward.pt",
        "bert-base-uncased",
        "Apache-2.0",
        35,
        (-_INF, _INF),
        "github.com/zai-org/ImageReward",
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
        "fga-blip2",
        "FGA-BLIP2 as its evaluation prints it: 4 * mean over queries of the match probability + 1, first 50 words.",
        "itm",
        "hanshuhao/FGA-BLIP2:fga_blip2.pth",
        "Salesforce/blip2-itm-vit-g-coco",
        "Apache-2.0",
        512,
        (1, 5),
        "github.com/DYEvaLab/EvalMuse @0fa141b, element_score(); forward(), of its demo, reads 32 word pieces",
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
        "lmm-score-expected-qwen2.5-vl-7b",
        "LMM score as an expected value: ten digits weighted by their chance, Qwen2.5-VL-7B; few ties.",
        "labels",
        "Qwen/Qwen2.5-VL-7B-Instruct",
        "",
        "Apache-2.0",
        32768,
        (0, 9),
        "TIT-Score paper, Table 4 (integer form); prompt ours",
        options={
            "template": learned_metric_texts.DIGIT,
            "labels": {str(n): float(n) for n in range(10)},
            "dtype": "bfloat16",
        },
        size=qwen_7b(37 * 37 + TEXT),
    ),
    Baseline(
        "q-eval-score",
        "Q-Eval-Score: five words from Excellent (1) to Bad (0), weighted by their chance, Qwen2-VL-7B.",
        "labels",
        "AGI-Eval-Official/Q-Eval-Score",
        "",
        "none stated",
        32768,
        (0, 1),
        "github.com/zzc-1998/Q-Eval @b7bf67b, utils/infer.py (float16 there); rows and columns count as "
        "positions, as in its training; the transformers 4.46.0 that it pins counts tokens",
        options={
            "template": learned_metric_texts.Q_EVAL,
            "labels": {"Excellent": 1.0, "Good": 0.75, "Fair": 0.5, "Poor": 0.25, "Bad": 0.0},
            "dtype": "bfloat16",
        },
        size=qwen_7b(37 * 37 + TEXT),
    ),
    Baseline(
        "hpsv3",
        "HPSv3: mean of a preference distribution, read by a head at a reward token of Qwen2-VL-7B.",
        "head",
        "MizzenAI/HPSv3:HPSv3.safetensors",
        "Qwen/Qwen2-VL-7B-Instruct",
        "MIT",
        32768,
        (-_INF, _INF),
        "github.com/MizzenAI/HPSv3, hpsv3/inference.py; positions counted as in its trainer (text alone)",
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
        "librehps",
        "LibreHPS: overall preference, 0 to 1, read by a head at a reward token of Qwen3.5-4B; every licence is permissive.",
        "head",
        "LibreHPS/LibreHPS-4B-v1.1",
        "",
        "Apache-2.0 (code MIT)",
        262144,
        (0, 1),
        "package librehps 1.1.2, LibreHPS.score_image; sigmoid of the mean, in float32 behind the model's bfloat16",
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
        "longt2iexpert",
        "LongT2IExpert: alignment read by a head at a level token of a Qwen2-VL; weights from its authors, in your folder.",
        "head",
        "",
        "",
        "none stated",
        32768,
        (0, 1),
        "github.com/yzc-ippl/LongT2IBench @f7006de, test_score.py, which loads Qwen2-VL; the paper says Qwen2.5-VL-7B",
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
        "lmm4lmm",
        "LMM4LMM: InternVL2.5-8B (16.2 GB) with a score head (needs transformers 4.37 and the model's own code).",
        "external",
        "IntMeGroup/LMM4LMM-Correspondence",
        "",
        "none stated",
        4096,
        (0, _INF),
        "github.com/IntMeGroup/LMM4LMM",
        COMMAND,
    ),
    Baseline(
        "visionreward",
        "VisionReward: weighted yes/no answers of a CogVLM2 (needs SwissArmyTransformer).",
        "external",
        "THUDM/VisionReward-Image-bf16",
        "",
        "Apache-2.0 (code)",
        2048,
        (-_INF, _INF),
        "github.com/zai-org/VisionReward",
        COMMAND,
        gigabytes=38.99,
    ),
)

TABLE: Mapping[str, Baseline] = {row.key: row for row in _ROWS}
BUILT_IN: tuple[Baseline, ...] = tuple(row for row in _ROWS if row.status == NATIVE)
EXTERNAL: tuple[Baseline, ...] = tuple(row for row in _ROWS if row.status == COMMAND)

_UR = "github.com/CodeGoat24/UnifiedReward"
_ASK_ROWS = (
    Baseline("dsg", "Davidsonian Scene Graph: yes/no questions with dependencies.", "", "", "", "Apache-2.0 (rules)", 0,
             (0, 1), "github.com/j-min/DSG", ASKED),
    Baseline("tifa", "TIFA: multiple-choice questions.", "", "", "", "Apache-2.0 (rules)", 0, (0, 1),
             "github.com/Yushi-Hu/tifa", ASKED),
    Baseline("viescore", "VIEScore: root of semantic consistency times perceptual quality.", "", "", "", "MIT (prompts)",
             0, (0, 10), "github.com/TIGER-AI-Lab/VIEScore", ASKED),
    Baseline("unifiedreward", "UnifiedReward 1.0, point-wise.", "", "CodeGoat24/UnifiedReward-qwen-7b", "", "MIT", 32768,
             (1, 5), _UR, ASKED, size=qwen_7b(37 * 37 + 2 * TEXT)),
    Baseline("unifiedreward-2", "UnifiedReward 2.0, point-wise: alignment.", "", "CodeGoat24/UnifiedReward-2.0-qwen-7b",
             "", "MIT", 32768, (1, 5), _UR, ASKED, size=qwen_7b(37 * 37 + 2 * TEXT)),
    Baseline("lmm-score", "LMM score: one rating.", "", "", "", "ours", 0, (0, 100), "TIT-Score paper, Table 4", ASKED),
    Baseline("vqascore", "VQAScore: P(Yes).", "", "", "", "Apache-2.0 (question)", 0, (0, 1), _VQASCORE_QWEN25.source, ASKED),
    Baseline("lmm-score-expected", "LMM score: expected value.", "", "", "", "ours", 0, (0, 9), "TIT-Score paper, Table 4",
             ASKED),
    replace(TABLE["q-eval-score"], key="q-eval", adapter="", status=ASKED),
)  # fmt: skip
LISTED: tuple[Baseline, ...] = (*_ROWS, *_ASK_ROWS)
"""Every baseline a person may compare with, those that ask the captioner and the judge included."""
