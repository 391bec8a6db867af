"""Parameter counts of the known models, from their shapes: every one is built on a device without memory and counted."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from titjudge.providers.local.hardware import KNOWN, KnownModel

pytestmark = pytest.mark.slow  # many in all, each of them short

Build = Callable[[KnownModel], tuple[str, Any]]


def counted(kind: str, config: Any) -> int:
    """Parameters of an architecture that takes no memory; shared ones once."""
    import torch
    import transformers

    with torch.device("meta"):
        model = getattr(transformers, kind)(config)
    return sum(value.numel() for value in dict(model.named_parameters()).values())


def text(model: KnownModel, heads: int, vocabulary: int, **more: Any) -> dict[str, Any]:
    return {
        "vocab_size": vocabulary,
        "hidden_size": model.size.hidden,
        "intermediate_size": model.size.intermediate,
        "num_hidden_layers": model.size.layers,
        "num_attention_heads": heads,
        "num_key_value_heads": model.size.kv_heads,
        **more,
    }


_MROPE = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]}


def qwen25(heads: int, *, vocabulary: int = 152064, wide: int = 3456, tied: bool = False) -> Build:
    def build(model: KnownModel) -> tuple[str, Any]:
        from transformers import Qwen2_5_VLConfig

        inner = text(model, heads, vocabulary, rope_parameters=_MROPE, tie_word_embeddings=tied)
        eyes = {
            "depth": 32,
            "hidden_size": 1280,
            "intermediate_size": wide,
            "num_heads": 16,
            "out_hidden_size": model.size.hidden,
        }
        config = Qwen2_5_VLConfig(text_config=inner, vision_config=eyes, tie_word_embeddings=tied)
        return "Qwen2_5_VLForConditionalGeneration", config

    return build


def qwen2(model: KnownModel) -> tuple[str, Any]:
    from transformers import Qwen2VLConfig

    inner = text(model, 28, 152064, rope_parameters=_MROPE, tie_word_embeddings=False)
    eyes = {"depth": 32, "embed_dim": 1280, "hidden_size": model.size.hidden, "mlp_ratio": 4, "num_heads": 16}
    config = Qwen2VLConfig(text_config=inner, vision_config=eyes, tie_word_embeddings=False)
    return "Qwen2VLForConditionalGeneration", config


def qwen3vl(heads: int, *, small: bool) -> Build:
    def build(model: KnownModel) -> tuple[str, Any]:
        from transformers import Qwen3VLConfig

        depth, width, wide, deep = (24, 1024, 4096, [5, 11, 17]) if small else (27, 1152, 4304, [8, 16, 24])
        inner = text(model, heads, 151936, head_dim=128, tie_word_embeddings=small)
        eyes = {"depth": depth, "hidden_size": width, "intermediate_size": wide, "num_heads": 16,
                "out_hidden_size": model.size.hidden, "deepstack_visual_indexes": deep}  # fmt: skip
        config = Qwen3VLConfig(text_config=inner, vision_config=eyes, tie_word_embeddings=small)
        return "Qwen3VLForConditionalGeneration", config

    return build


def internvl(heads: int, *, large: bool = False) -> Build:
    def build(model: KnownModel) -> tuple[str, Any]:
        from transformers import InternVLConfig

        width, wide, depth, eyes_heads = (3200, 12800, 45, 25) if large else (1024, 4096, 24, 16)
        eyes = {"hidden_size": width, "intermediate_size": wide, "num_hidden_layers": depth, "num_attention_heads": eyes_heads,
                "image_size": [448, 448], "patch_size": [14, 14], "attention_bias": not large, "use_qk_norm": large,
                "norm_type": "rms_norm" if large else "layer_norm"}  # fmt: skip
        inner = text(model, heads, 151936, model_type="qwen3", head_dim=128, tie_word_embeddings=False)
        config = InternVLConfig(text_config=inner, vision_config=eyes, tie_word_embeddings=False)
        return "InternVLForConditionalGeneration", config

    return build


def smolvlm(heads: int, *, large: bool = False) -> Build:
    def build(model: KnownModel) -> tuple[str, Any]:
        from transformers import SmolVLMConfig

        width, wide, depth, eyes_heads, image, patch = (
            (1152, 4304, 27, 16, 384, 14) if large else (768, 3072, 12, 12, 512, 16)
        )
        eyes = {"hidden_size": width, "intermediate_size": wide, "num_hidden_layers": depth,
                "num_attention_heads": eyes_heads, "image_size": image, "patch_size": patch}  # fmt: skip
        inner = text(model, heads, 49280, model_type="llama", tie_word_embeddings=False)
        scale = 3 if large else 4
        config = SmolVLMConfig(text_config=inner, vision_config=eyes, scale_factor=scale, tie_word_embeddings=False)
        return "SmolVLMForConditionalGeneration", config

    return build


def qwen3(kind: str, heads: int, vocabulary: int) -> Build:
    def build(model: KnownModel) -> tuple[str, Any]:
        from transformers import Qwen3Config

        return kind, Qwen3Config(**text(model, heads, vocabulary, head_dim=model.size.head_dim))

    return build


def qwen35(model: KnownModel) -> tuple[str, Any]:
    """Every fourth of 32 layers keeps keys and values; a head of three layers on top is too small to count."""
    from transformers import Qwen3_5Config

    heads = {"num_attention_heads": 16, "linear_num_key_heads": 16, "linear_num_value_heads": 32}
    inner = {**text(model, 16, 248320), **heads, "num_hidden_layers": 32, "head_dim": 256, "tie_word_embeddings": True}
    eyes = {"depth": 24, "hidden_size": 1024, "intermediate_size": 4096, "num_heads": 16, "out_hidden_size": 2560}
    config = Qwen3_5Config(text_config=inner, vision_config=eyes, tie_word_embeddings=True)
    assert config.text_config.layer_types.count("full_attention") == model.size.layers
    return "Qwen3_5ForConditionalGeneration", config


CLIPS = {
    "B/32 at 224": ((512, 2048, 12, 8), (768, 3072, 12, 12), 32, 224),
    "L/14 at 224": ((768, 3072, 12, 12), (1024, 4096, 24, 16), 14, 224),
    "L/14 at 336": ((768, 3072, 12, 12), (1024, 4096, 24, 16), 14, 336),
    "H/14 at 224": ((1024, 4096, 24, 16), (1280, 5120, 32, 16), 14, 224),
}


def clip(name: str, positions: int = 77) -> Build:
    def build(model: KnownModel) -> tuple[str, Any]:
        from transformers import CLIPConfig

        keys = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
        inner, eyes, patch, image = CLIPS[name]
        config = CLIPConfig(
            text_config={**dict(zip(keys, inner, strict=True)), "max_position_embeddings": positions},
            vision_config={**dict(zip(keys, eyes, strict=True)), "patch_size": patch, "image_size": image},
            projection_dim=inner[0],
        )
        if model.name != "scorer/clipscore-hessel" and "mps" not in model.name:  # whose larger half is the text's
            assert model.size.tokens == (image // patch) ** 2 + 1 + positions
        return "CLIPModel", config

    return build


def dinov2(model: KnownModel) -> tuple[str, Any]:
    from transformers import Dinov2Config

    return "Dinov2Model", Dinov2Config(hidden_size=768, num_hidden_layers=12, num_attention_heads=12, image_size=518)


def blip2(image: int) -> Build:
    def build(model: KnownModel) -> tuple[str, Any]:
        from transformers import Blip2Config

        eyes = {"hidden_size": 1408, "intermediate_size": 6144, "num_hidden_layers": 39, "num_attention_heads": 16,
                "image_size": image, "patch_size": 14}  # fmt: skip
        unused = {"model_type": "opt", "vocab_size": 8, "hidden_size": 8, "num_hidden_layers": 1, "ffn_dim": 8,
                  "num_attention_heads": 1, "word_embed_proj_dim": 8}  # fmt: skip
        queries = {"vocab_size": 30523, "use_qformer_text_input": True, "encoder_hidden_size": 1408}
        config = Blip2Config(vision_config=eyes, qformer_config=queries, text_config=unused, image_text_hidden_size=256)
        return "Blip2ForImageTextRetrieval", config

    return build


BUILDS: dict[str, Build] = {
    "local/Qwen/Qwen2.5-VL-3B-Instruct": qwen25(16, vocabulary=151936, wide=3420, tied=True),
    "local/Qwen/Qwen2.5-VL-7B-Instruct": qwen25(28, wide=3420),
    "local/Qwen/Qwen2.5-VL-32B-Instruct": qwen25(40),
    "local/Qwen/Qwen2.5-VL-72B-Instruct": qwen25(64),
    "local/XiaomiMiMo/MiMo-VL-7B-RL": qwen25(32, vocabulary=151680),
    "local/Qwen/Qwen3-VL-2B-Instruct": qwen3vl(16, small=True),
    "local/Qwen/Qwen3-VL-4B-Instruct": qwen3vl(32, small=True),
    "local/Qwen/Qwen3-VL-8B-Instruct": qwen3vl(32, small=False),
    "local/Qwen/Qwen3-VL-32B-Instruct": qwen3vl(64, small=False),
    "local/OpenGVLab/InternVL3_5-4B-HF": internvl(32),
    "local/OpenGVLab/InternVL3_5-8B-HF": internvl(32),
    "local/OpenGVLab/InternVL3_5-14B-HF": internvl(40),
    "local/OpenGVLab/InternVL3_5-38B-HF": internvl(64, large=True),
    "local/HuggingFaceTB/SmolVLM-256M-Instruct": smolvlm(9),
    "local/HuggingFaceTB/SmolVLM-500M-Instruct": smolvlm(15),
    "local/HuggingFaceTB/SmolVLM-Instruct": smolvlm(32, large=True),
    "local/Qwen/Qwen3-8B": qwen3("Qwen3ForCausalLM", 32, 151936),
    "local/Qwen/Qwen3-14B": qwen3("Qwen3ForCausalLM", 40, 151936),
    "sentence-transformers/Qwen/Qwen3-Embedding-0.6B": qwen3("Qwen3Model", 16, 151669),
    "sentence-transformers/Qwen/Qwen3-Embedding-4B": qwen3("Qwen3Model", 32, 151665),
    "sentence-transformers/Qwen/Qwen3-Embedding-8B": qwen3("Qwen3Model", 32, 151665),
    "scorer/clipscore-hessel": clip("B/32 at 224"),
    "scorer/clipscore-torchmetrics": clip("L/14 at 224"),
    "scorer/clipscore-cosine": clip("L/14 at 336"),
    "scorer/longclip": clip("L/14 at 224", 248),
    **dict.fromkeys(("scorer/pickscore", "scorer/hpsv2", "scorer/hpsv2.1"), clip("H/14 at 224")),
    **dict.fromkeys(("scorer/blip2-itm", "scorer/blip2-itc"), blip2(224)),
    "scorer/fga-blip2": blip2(364),
    **dict.fromkeys(
        ("scorer/vqascore-qwen2.5-vl-7b", "scorer/lmm-score-expected-qwen2.5-vl-7b"), qwen25(28, wide=3420)
    ),
    "scorer/vqascore-qwen3-vl-8b": qwen3vl(32, small=False),
    "scorer/librehps": qwen35,
    "scorer/preservation-dino": dinov2,
    "scorer/editreward": qwen25(32, vocabulary=151680),
    "scorer/editreward-qwen2.5-vl-7b": qwen25(28, wide=3420),
    **dict.fromkeys(("scorer/q-eval-score", "scorer/hpsv3", "scorer/longt2iexpert"), qwen2),
}


@pytest.mark.parametrize("name", list(BUILDS))
def test_a_count_is_that_of_its_shape(name: str) -> None:
    model = next(each for each in KNOWN if each.name == name)
    assert counted(*BUILDS[name](model)) / 1e9 == pytest.approx(model.size.parameters, rel=0.01)


PARTS = {
    "scorer/imagereward",
    "scorer/mps",
    "scorer/mps-readme",
    "scorer/vqascore-clip-flant5-xl",
    "scorer/vqascore-clip-flant5-xxl",
}


def test_every_known_model_is_counted_or_said_to_be_about() -> None:
    assert {model.name for model in KNOWN if not model.about} == {*BUILDS, *PARTS}


def parameters(name: str) -> float:
    return next(model.size.parameters for model in KNOWN if model.name == name)


def test_imagereward_is_blip_and_five_layers() -> None:
    from titjudge.providers.learned.base import ModelCheckpoint
    from titjudge.providers.learned.clip_and_blip import _blip_config

    shape = _blip_config(ModelCheckpoint("", "", "none", "", None, "float32", "cpu"))
    widths = (768, 1024, 128, 64, 16, 1)
    head = sum(a * b + b for a, b in itertools.pairwise(widths))
    assert (counted("BlipForImageTextRetrieval", shape) + head) / 1e9 == pytest.approx(
        parameters("scorer/imagereward"), rel=0.01
    )


def test_mps_is_clip_and_its_cross_attention() -> None:
    import torch

    from titjudge.providers.learned.mps import CrossModel

    model = next(each for each in KNOWN if each.name == "scorer/mps")
    with torch.device("meta"):
        cross = CrossModel(4, 1024, 16, 64, 4)
    own = sum(value.numel() for value in cross.parameters())
    whole = (counted(*clip("H/14 at 224")(model)) + own) / 1e9
    assert whole == pytest.approx(model.size.parameters, rel=0.01)
    assert parameters("scorer/mps-readme") == model.size.parameters


@pytest.mark.parametrize(("name", "width", "inner", "heads"), [("xl", 2048, 5120, 32), ("xxl", 4096, 10240, 64)])
def test_clip_flant5_is_t5_with_its_own_output_layer_a_tower_and_a_projector(
    name: str, width: int, inner: int, heads: int
) -> None:
    from transformers import CLIPVisionConfig, T5Config

    shape = T5Config(
        vocab_size=32128, d_model=width, d_kv=64, d_ff=inner, num_layers=24, num_decoder_layers=24, num_heads=heads,
        feed_forward_proj="gated-gelu",
    )  # fmt: skip
    tower = CLIPVisionConfig(
        hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16, image_size=336, patch_size=14
    )  # fmt: skip
    t5 = counted("T5ForConditionalGeneration", shape) + 32128 * width  # transformers ties what the checkpoint does not
    projector = 1024 * width + width + width * width + width
    whole = (t5 + counted("CLIPVisionModel", tower) + projector) / 1e9
    assert whole == pytest.approx(parameters(f"scorer/vqascore-clip-flant5-{name}"), rel=0.01)


@pytest.mark.parametrize("name", ["gemma-3n-E2B-it", "gemma-3n-E4B-it"])
def test_gemma_3n_without_its_eyes(name: str) -> None:
    """Its MobileNet (0.294 B parameters, counted once with timm) comes from timm, which needs torchvision."""
    from transformers import Gemma3nAudioConfig, Gemma3nTextConfig

    model = next(each for each in KNOWN if each.name.endswith(name))
    shared = {"num_kv_shared_layers": 10} if model.size.layers == 30 else {}
    shape = Gemma3nTextConfig(num_hidden_layers=model.size.layers, intermediate_size=model.size.intermediate, **shared)
    whole = counted("Gemma3nForCausalLM", shape) + counted("Gemma3nAudioEncoder", Gemma3nAudioConfig())
    assert whole / 1e9 + 0.294 == pytest.approx(model.size.parameters, rel=0.01)
    assert (shape.num_key_value_heads, shape.head_dim, shape.hidden_size) == (
        model.size.kv_heads,
        model.size.head_dim,
        model.size.hidden,
    )
