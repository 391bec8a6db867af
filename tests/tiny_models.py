"""Builders of tiny models with random weights, saved to a folder: real architectures and file formats, no download.

Each takes the folder to fill and returns it. They import torch and transformers when called.
"""

import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from titjudge.core.types import ImageFile

QWEN_SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
QWEN_CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif c['type'] == 'text' %}{{ c['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
CORPUS = ["a red sphere on a checkerboard floor", "the picture shows a small dog beside two cats on grass"]


def tokenizer(special: tuple[str, ...], size: int = 400, **kwargs: Any) -> Any:
    """A byte-level BPE tokenizer that encodes any text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=list(special), initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator(CORPUS, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=bpe, **kwargs)


def _qwen_tokenizer() -> Any:
    return tokenizer(
        QWEN_SPECIAL,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        padding_side="left",
        model_max_length=32768,
        chat_template=QWEN_CHAT,
    )


def _seed(number: int = 0) -> None:
    import torch

    torch.manual_seed(number)


def qwen3_embedding_plain(folder: Path, positions: int = 32768, dtype: str = "float32") -> Path:
    """A bare transformers folder of Qwen3-Embedding's shape: chat template, closing token, no modules.json."""
    import torch
    from tokenizers.processors import TemplateProcessing
    from transformers import Qwen3Config, Qwen3Model

    tok = _qwen_tokenizer()
    tok.backend_tokenizer.post_processor = TemplateProcessing(
        single="$A <|endoftext|>", pair="$A $B <|endoftext|>", special_tokens=[("<|endoftext|>", 0)]
    )
    _seed()
    config = Qwen3Config(
        vocab_size=len(tok),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=positions,
        pad_token_id=0,
        eos_token_id=0,
    )
    Qwen3Model(config).to(getattr(torch, dtype)).save_pretrained(folder)
    tok.save_pretrained(folder)
    return folder


def qwen3_embedding(folder: Path, positions: int = 32768, dtype: str = "float32") -> Path:
    """The same as an older sentence-transformers saved it, as the published repository is: last token, normalised."""
    qwen3_embedding_plain(folder, positions, dtype)
    parts = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(parts)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    pooling = folder / "1_Pooling"
    pooling.mkdir()
    modes = {
        f"pooling_mode_{mode}": False for mode in ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    }
    (pooling / "config.json").write_text(
        json.dumps({"word_embedding_dimension": 64, **modes, "pooling_mode_lasttoken": True, "include_prompt": True})
    )
    prompts = {"query": "Instruct: find passages\nQuery:", "document": ""}
    (folder / "config_sentence_transformers.json").write_text(
        json.dumps({"prompts": prompts, "default_prompt_name": None, "similarity_fn_name": "cosine"})
    )
    return folder


def bert_embedding(folder: Path, positions: int = 64, reads: int = 32) -> Path:
    """A mean-pooled BERT whose folder says it reads fewer tokens than it has positions, as MiniLM's does."""
    from transformers import BertConfig, BertModel, BertTokenizer

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted({w for text in CORPUS for w in text.split()})]
    tok = BertTokenizer(vocab={word: i for i, word in enumerate(words)}, model_max_length=positions)
    _seed()
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=positions,
    )
    BertModel(config).save_pretrained(folder)
    tok.save_pretrained(folder)
    (folder / "modules.json").write_text(
        json.dumps(
            [
                {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            ]
        )
    )
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True})
    )
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": reads, "do_lower_case": False}))
    return folder


# -- models that write -------------------------------------------------------------------------------------------------

_TEXT: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def _end_ids(tok: Any) -> dict[str, int]:
    return {"bos_token_id": tok.pad_token_id, "eos_token_id": tok.eos_token_id, "pad_token_id": tok.pad_token_id}


def _save(folder: Path, model: Any, tok: Any, images: Any = None, processor: dict[str, Any] | None = None) -> Path:
    model.save_pretrained(folder)
    tok.save_pretrained(folder)
    if images is not None:
        images.save_pretrained(folder)
    if processor is not None:
        (folder / "processor_config.json").write_text(json.dumps(processor))
    return folder


def qwen3_llm(folder: Path, chat: str | None = QWEN_CHAT, positions: int = 4096) -> Path:
    """A text-only Qwen3."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    tok = _qwen_tokenizer()
    tok.chat_template = chat
    _seed()
    config = Qwen3Config(
        vocab_size=len(tok),
        head_dim=16,
        max_position_embeddings=positions,
        initializer_range=0.2,
        **_TEXT,
        **_end_ids(tok),
    )
    return _save(folder, Qwen3ForCausalLM(config), tok)


def _qwen_text(tok: Any, sections: list[int], **more: Any) -> dict[str, Any]:
    """The text part of a Qwen-VL; `sections` of its rotary embedding are for time, height and width."""
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": sections}
    return {"vocab_size": len(tok), "rope_parameters": rope, "initializer_range": 0.2, **_TEXT, **_end_ids(tok), **more}


def _qwen_vision(patch_size: int, **more: Any) -> dict[str, Any]:
    """Its vision part."""
    size = {"depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 64}
    return {**size, "patch_size": patch_size, **more}


def _qwen_ids(tok: Any) -> dict[str, int]:
    ids = tok.convert_tokens_to_ids
    return {
        "image_token_id": ids("<|image_pad|>"),
        "video_token_id": ids("<|video_pad|>"),
        "vision_start_token_id": ids("<|vision_start|>"),
        "vision_end_token_id": ids("<|vision_end|>"),
    }


def qwen25_vl(folder: Path, max_pixels: int = 28 * 28 * 64, **text: Any) -> Path:
    """Qwen2.5-VL; `text` changes its text part."""
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2VLImageProcessorPil

    tok = _qwen_tokenizer()
    _seed()
    config = Qwen2_5_VLConfig(
        text_config=_qwen_text(tok, [2, 3, 3], **text),
        vision_config=_qwen_vision(14, fullatt_block_indexes=[1], window_size=56),
        **_qwen_ids(tok),
    )
    images = Qwen2VLImageProcessorPil(min_pixels=56 * 56, max_pixels=max_pixels)
    _save(folder, Qwen2_5_VLForConditionalGeneration(config), tok, images)
    return pixels_as_released(folder, "Qwen2_5_VLProcessor")


def pixels_as_released(folder: Path, kind: str) -> Path:
    """preprocessor_config.json as Qwen2-VL and Qwen2.5-VL were released: with min_pixels and max_pixels, without `size`."""
    file = folder / "preprocessor_config.json"
    about = json.loads(file.read_text())
    size = about.pop("size")
    pixels = {"min_pixels": size["shortest_edge"], "max_pixels": size["longest_edge"], "processor_class": kind}
    file.write_text(json.dumps({**about, **pixels}))
    return folder


def qwen3_vl(folder: Path) -> Path:
    """Qwen3-VL."""
    from transformers import Qwen2VLImageProcessorPil, Qwen3VLConfig, Qwen3VLForConditionalGeneration

    tok = _qwen_tokenizer()
    _seed()
    config = Qwen3VLConfig(
        text_config=_qwen_text(tok, [4, 2, 2], head_dim=16),
        vision_config=_qwen_vision(16, num_position_embeddings=64, deepstack_visual_indexes=[0]),
        **_qwen_ids(tok),
    )
    images = Qwen2VLImageProcessorPil(patch_size=16, min_pixels=64 * 64, max_pixels=32 * 32 * 64)
    return _save(folder, Qwen3VLForConditionalGeneration(config), tok, images)


def librehps(folder: Path) -> Path:
    """A Qwen3.5 with a reward token, and a head for five axes among its weights, as LibreHPS is released."""
    import torch
    from safetensors.torch import load_file, save_file
    from transformers import Qwen2VLImageProcessorPil, Qwen3_5Config, Qwen3_5ForConditionalGeneration

    tok = _qwen_tokenizer()
    tok.add_tokens(["<|Reward|>"], special_tokens=True)
    _seed()
    text = {**_TEXT, "num_hidden_layers": 4, "head_dim": 16, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
            "linear_num_key_heads": 2, "linear_num_value_heads": 4, "initializer_range": 0.2}  # fmt: skip
    rope = {"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1]}
    config = Qwen3_5Config(
        text_config={"vocab_size": len(tok), "rope_parameters": rope, **text, **_end_ids(tok)},
        vision_config=_qwen_vision(16, num_position_embeddings=64),
        **_qwen_ids(tok),
    )
    images = Qwen2VLImageProcessorPil(
        patch_size=16, min_pixels=64 * 64, max_pixels=32 * 32 * 64, image_mean=[0.5] * 3, image_std=[0.5] * 3
    )
    _save(folder, Qwen3_5ForConditionalGeneration(config), tok, images, {"processor_class": "Qwen3VLProcessor"})
    state = load_file(folder / "model.safetensors")
    for at, (wide, narrow) in {0: (64, 1024), 3: (1024, 16), 5: (16, 10)}.items():
        layer = torch.nn.Linear(wide, narrow)
        state |= {f"multi_axis_head.proj.{at}.{name}": 3 * value.detach() for name, value in layer.named_parameters()}
    state |= {"scalar_head.proj.weight": torch.ones(1, 64), "scalar_head.proj.bias": torch.ones(1)}
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    return folder


SIMPLE_SPECIAL = ("<pad>", "</s>", "<s>", "<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>")
SIMPLE_CHAT = (
    "{% for m in messages %}{{ m['role'] }}: {% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for c in m['content'] %}{% if c['type'] == 'image' %}<image>{% else %}{{ c['text'] }}{% endif %}{% endfor %}"
    "{% endif %}</s>{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
)


def _simple_tokenizer(special: tuple[str, ...] = SIMPLE_SPECIAL, image: str = "<image>", **kwargs: Any) -> Any:
    return tokenizer(
        special,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        padding_side="left",
        model_max_length=32768,
        chat_template=SIMPLE_CHAT.replace("<image>", image),
        **kwargs,
    )


def llava(folder: Path) -> Path:
    """LLaVA 1.5: CLIP tower, Llama."""
    from transformers import CLIPImageProcessorPil, LlavaConfig, LlavaForConditionalGeneration

    tok = _simple_tokenizer()
    image = tok.convert_tokens_to_ids("<image>")
    _seed()
    config = LlavaConfig(
        text_config={"model_type": "llama", "vocab_size": len(tok), "initializer_range": 0.2, **_TEXT, **_end_ids(tok)},
        vision_config={
            "model_type": "clip_vision_model",
            "image_size": 56,
            "patch_size": 14,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 3,
            "num_attention_heads": 2,
        },
        image_token_index=image,
        image_seq_length=16,
    )
    size = {"shortest_edge": 56}
    images = CLIPImageProcessorPil(size=size, crop_size={"height": 56, "width": 56})
    about = {
        "processor_class": "LlavaProcessor",
        "patch_size": 14,
        "vision_feature_select_strategy": "default",
        "num_additional_image_tokens": 1,
    }
    return _save(folder, LlavaForConditionalGeneration(config), tok, images, about)


def smolvlm(folder: Path) -> Path:
    """SmolVLM; its processor needs num2words."""
    from transformers import SmolVLMConfig, SmolVLMForConditionalGeneration, SmolVLMImageProcessorPil

    tok = _simple_tokenizer()
    _seed()
    config = SmolVLMConfig(
        text_config={"model_type": "llama", "vocab_size": len(tok), "initializer_range": 0.2, **_TEXT, **_end_ids(tok)},
        vision_config={
            "image_size": 64,
            "patch_size": 16,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
        },
        scale_factor=2,
        image_token_id=tok.convert_tokens_to_ids("<image>"),
        pad_token_id=tok.pad_token_id,
    )
    images = SmolVLMImageProcessorPil(size={"longest_edge": 128}, max_image_size={"longest_edge": 64})
    about = {"processor_class": "SmolVLMProcessor", "image_seq_len": 4}
    return _save(folder, SmolVLMForConditionalGeneration(config), tok, images, about)


def internvl(folder: Path) -> Path:
    """InternVL3.5 in its transformers form: Qwen3 is its language model."""
    from transformers import GotOcr2ImageProcessorPil, InternVLConfig, InternVLForConditionalGeneration

    special = ("<pad>", "</s>", "<s>", "<img>", "</img>", "<IMG_CONTEXT>", "<video>")
    extra = {
        "context_image_token": "<IMG_CONTEXT>",
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "video_token": "<video>",
    }
    tok = _simple_tokenizer(special, image="<IMG_CONTEXT>\n", extra_special_tokens=extra)
    _seed()
    config = InternVLConfig(
        text_config={
            "model_type": "qwen3",
            "vocab_size": len(tok),
            "head_dim": 16,
            "initializer_range": 0.2,
            **_TEXT,
            **_end_ids(tok),
        },
        vision_config={
            "image_size": [56, 56],
            "patch_size": [14, 14],
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
        },
        image_token_id=tok.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=4,
        downsample_ratio=0.5,
    )
    images = GotOcr2ImageProcessorPil(size={"height": 56, "width": 56}, crop_to_patches=False)
    about = {"processor_class": "InternVLProcessor", "image_seq_length": 4}
    return _save(folder, InternVLForConditionalGeneration(config), tok, images, about)


def gemma3(folder: Path) -> Path:
    """Gemma 3: SigLIP tower, sliding and full attention."""
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration, Gemma3ImageProcessorPil

    special = ("<pad>", "</s>", "<s>", "<start_of_image>", "<end_of_image>", "<image_soft_token>")
    extra = {"image_token": "<image_soft_token>", "boi_token": "<start_of_image>", "eoi_token": "<end_of_image>"}
    tok = _simple_tokenizer(special, image="<start_of_image>", extra_special_tokens=extra)
    ids = tok.convert_tokens_to_ids
    _seed()
    config = Gemma3Config(
        text_config={"vocab_size": len(tok), "head_dim": 16, "initializer_range": 0.2, **_TEXT, **_end_ids(tok)},
        vision_config={
            "image_size": 56,
            "patch_size": 14,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
        },
        mm_tokens_per_image=4,
        boi_token_index=ids("<start_of_image>"),
        eoi_token_index=ids("<end_of_image>"),
        image_token_index=ids("<image_soft_token>"),
    )
    images = Gemma3ImageProcessorPil(size={"height": 56, "width": 56})
    about = {"processor_class": "Gemma3Processor", "image_seq_length": 4}
    return _save(folder, Gemma3ForConditionalGeneration(config), tok, images, about)


def gemma3n(folder: Path) -> Path:
    """Gemma 3n: MobileNet v5 tower (of timm, which needs torchvision), audio tower, layers that share key-value caches."""
    from transformers import (
        Gemma3nAudioFeatureExtractor,
        Gemma3nConfig,
        Gemma3nForConditionalGeneration,
        SiglipImageProcessorPil,
    )

    special = ("<pad>", "</s>", "<s>", "<start_of_image>", "<end_of_image>", "<image_soft_token>", "<start_of_audio>",
               "<end_of_audio>", "<audio_soft_token>")  # fmt: skip
    names = ("boi_token", "eoi_token", "image_token", "boa_token", "eoa_token", "audio_token")
    extra = dict(zip(names, special[3:], strict=True))
    tok = _simple_tokenizer(special, image="<image_soft_token>", extra_special_tokens=extra)
    size = len(tok)
    _seed(1)  # with 0, it answers nothing
    config = Gemma3nConfig(
        text_config={
            **_TEXT,
            **_end_ids(tok),
            "vocab_size": size,
            "vocab_size_per_layer_input": size,
            "hidden_size_per_layer_input": 8,
            "num_hidden_layers": 4,
            "num_kv_shared_layers": 2,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "activation_sparsity_pattern": [0.0] * 4,
            "head_dim": 16,
            "laurel_rank": 4,
            "altup_num_inputs": 2,
            "initializer_range": 0.2,
        },
        vision_config={
            "architecture": "mobilenetv5_300m_enc",
            "hidden_size": 2048,
            "vocab_size": 8,
            "vocab_offset": size,
            "model_args": {"channel_multiplier": 0.05, "msfa_output_resolution": 4},
            "do_pooling": False,
        },
        audio_config={
            "vocab_size": 8,
            "vocab_offset": size + 8,
            "hidden_size": 16,
            "conf_num_attention_heads": 2,
            "conf_num_hidden_layers": 1,
            "sscp_conv_channel_size": (4, 2),
        },
        vision_soft_tokens_per_image=16,
        audio_soft_tokens_per_image=4,
        image_token_id=tok.convert_tokens_to_ids("<image_soft_token>"),
        audio_token_id=tok.convert_tokens_to_ids("<audio_soft_token>"),
        boi_token_id=tok.convert_tokens_to_ids("<start_of_image>"),
        eoi_token_id=tok.convert_tokens_to_ids("<end_of_image>"),
    )
    images = SiglipImageProcessorPil(size={"height": 64, "width": 64}, do_normalize=False)
    about = {"processor_class": "Gemma3nProcessor", "image_seq_length": 16, "audio_seq_length": 4}
    _save(folder, Gemma3nForConditionalGeneration(config), tok, images, about)
    file = folder / "preprocessor_config.json"  # one file for eyes and ears, as published
    ears = json.loads(Gemma3nAudioFeatureExtractor().to_json_string())
    file.write_text(json.dumps({**ears, **json.loads(file.read_text())}))
    return folder


def mimo_vl(folder: Path) -> Path:
    """MiMo-VL: Qwen2.5-VL's classes, a text part of another shape, and a config.json that is flat, as published."""
    qwen25_vl(folder, num_hidden_layers=3, num_key_value_heads=4, tie_word_embeddings=False)
    about = json.loads((folder / "config.json").read_text())
    text = about.pop("text_config")
    text.pop("model_type")
    (folder / "config.json").write_text(json.dumps({**text, **about}))
    return folder


VLMS = {
    "qwen2.5-vl": qwen25_vl,
    "qwen3-vl": qwen3_vl,
    "llava": llava,
    "smolvlm": smolvlm,
    "internvl": internvl,
    "gemma3": gemma3,
    "gemma3n": gemma3n,
    "mimo-vl": mimo_vl,
}


def picture(width: int, height: int, seed: int = 0) -> Any:
    """A PIL picture of coloured noise in large blocks."""
    import numpy as np
    from PIL import Image

    blocks = np.random.default_rng(seed).integers(0, 256, (max(1, height // 8), max(1, width // 8), 3), dtype=np.uint8)
    return Image.fromarray(blocks).resize((width, height), Image.Resampling.NEAREST)


def image_file(width: int = 80, height: int = 60, seed: int = 0, mode: str = "RGB") -> ImageFile:
    """That picture as a PNG file in memory, as providers get it."""
    buffer = io.BytesIO()
    picture(width, height, seed).convert(mode).save(buffer, "PNG")
    raw = buffer.getvalue()
    return ImageFile(hashlib.sha256(raw).hexdigest(), "image/png", width, height, Path("x.png"), lambda: raw)


# -- models that score -------------------------------------------------------------------------------------------------

_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,!?\"'()-:"


def clip_tokenizer() -> Any:
    """CLIP's tokenizer with one token a letter; the end token has the highest id, as in the real one."""
    from transformers import CLIPTokenizer

    pieces = [*_LETTERS, *(f"{letter}</w>" for letter in _LETTERS), "<|startoftext|>", "<|endoftext|>"]
    return CLIPTokenizer(vocab={piece: at for at, piece in enumerate(pieces)}, merges=[], model_max_length=77)


def clip(folder: Path, positions: int = 77, hidden_act: str = "quick_gelu") -> Path:
    """CLIP with its processor."""
    from transformers import CLIPConfig, CLIPImageProcessorPil, CLIPModel

    tok = clip_tokenizer()
    _seed()
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    shape |= {"hidden_act": hidden_act, "projection_dim": 16}  # type: ignore[dict-item]
    config = CLIPConfig(
        text_config={
            "vocab_size": len(tok),
            "max_position_embeddings": positions,
            "bos_token_id": tok.bos_token_id,
            "eos_token_id": tok.eos_token_id,
            "pad_token_id": tok.pad_token_id,
            **shape,
        },
        vision_config={"image_size": 56, "patch_size": 14, **shape},
        projection_dim=16,
        initializer_factor=20.0,
    )
    CLIPModel(config).save_pretrained(folder)
    tok.save_pretrained(folder)
    size = {"height": 56, "width": 56}
    CLIPImageProcessorPil(size={"shortest_edge": 56}, crop_size=size).save_pretrained(folder)
    return folder


def dinov2(folder: Path) -> Path:
    """DINOv2 with its processor."""
    from transformers import BitImageProcessorPil, Dinov2Config, Dinov2Model

    _seed()
    Dinov2Model(Dinov2Config(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, image_size=28, patch_size=14, initializer_range=0.5,
    )).save_pretrained(folder)  # fmt: skip
    size = {"height": 28, "width": 28}
    BitImageProcessorPil(size={"shortest_edge": 32}, crop_size=size).save_pretrained(folder)
    return folder


def bert_tokenizer(extra: int = 0) -> Any:
    """BERT's tokenizer with one token a letter."""
    from transformers import BertTokenizer

    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *_LETTERS, *(f"##{letter}" for letter in _LETTERS)]
    pieces += [f"[unused{n}]" for n in range(extra)]
    return BertTokenizer(vocab={piece: at for at, piece in enumerate(pieces)}, model_max_length=512)


def _noisy(model: Any, scale: float = 0.2) -> Any:
    """Random values everywhere, so that no bias is zero and no norm the identity."""
    import torch

    generator = torch.Generator().manual_seed(1)
    for value in model.parameters():
        value.data.add_(torch.randn(value.shape, generator=generator) * scale)
    return model


def blip2(folder: Path, image_token: int | None = None) -> Path:
    """BLIP-2 for image-text matching, with its picture processor and tokenizer."""
    from transformers import Blip2Config, Blip2ForImageTextRetrieval, BlipImageProcessorPil

    tok = bert_tokenizer()
    _seed()
    config = Blip2Config(
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 56,
            "patch_size": 14,
        },
        qformer_config={
            "vocab_size": len(tok),
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 64,
            "encoder_hidden_size": 32,
            "cross_attention_frequency": 2,
            "use_qformer_text_input": True,
        },
        text_config={"model_type": "opt", "vocab_size": 8, "hidden_size": 8, "num_hidden_layers": 1, "ffn_dim": 8,
                     "num_attention_heads": 1, "word_embed_proj_dim": 8},
        num_query_tokens=4,
        image_text_hidden_size=16,
        image_token_index=image_token,
    )  # fmt: skip
    _noisy(Blip2ForImageTextRetrieval(config)).save_pretrained(folder)
    tok.save_pretrained(folder)
    BlipImageProcessorPil(size={"height": 56, "width": 56}).save_pretrained(folder)
    return folder


def blip(folder: Path) -> Path:
    """BLIP of ImageReward's kind, with a BERT tokenizer."""
    from transformers import BlipConfig, BlipForImageTextRetrieval

    tok = bert_tokenizer(extra=2)
    _seed()
    config = BlipConfig(
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 64,
            "patch_size": 16,
            "layer_norm_eps": 1e-6,
        },
        text_config={
            "vocab_size": len(tok),
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 64,
            "encoder_hidden_size": 32,
        },
        image_text_hidden_size=16,
    )
    _noisy(BlipForImageTextRetrieval(config)).save_pretrained(folder)
    tok.save_pretrained(folder)
    return folder


def t5_tokenizer() -> Any:
    """T5's tokenizer: letters, and `▁Yes` as one piece."""
    from transformers import T5Tokenizer

    letters = sorted({*_LETTERS, *_LETTERS.upper(), "▁", "\n"})
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁Yes", -1.0), *((each, -3.0) for each in letters)]
    return T5Tokenizer(vocab=pieces, extra_ids=0)


def clip_flant5(folder: Path) -> tuple[Path, Path]:
    """CLIP-FlanT5: (folder of the T5 part with projector and its own output layer, folder of the CLIP tower)."""
    import torch
    from safetensors.torch import save_file
    from transformers import (
        CLIPImageProcessorPil,
        CLIPVisionConfig,
        CLIPVisionModel,
        T5Config,
        T5ForConditionalGeneration,
    )

    tok = t5_tokenizer()
    _seed()
    config = T5Config(
        vocab_size=len(tok) + 4, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_decoder_layers=2, num_heads=2,
        feed_forward_proj="gated-gelu", decoder_start_token_id=0, pad_token_id=0, eos_token_id=1, tie_word_embeddings=False,
    )  # fmt: skip
    model = T5ForConditionalGeneration(config)
    state = {name: value.clone() for name, value in model.state_dict().items() if "embed_tokens" not in name}
    state["lm_head.weight"] = torch.randn(len(tok) + 4, 32)  # T5 has rows that no token uses
    state["mm_projector.0.weight"], state["mm_projector.0.bias"] = torch.randn(32, 24) / 5, torch.randn(32)
    state["mm_projector.2.weight"], state["mm_projector.2.bias"] = torch.randn(32, 32) / 5, torch.randn(32)
    main, tower = folder / "t5", folder / "tower"
    config.save_pretrained(main)
    about = json.loads((main / "config.json").read_text())
    (main / "config.json").write_text(json.dumps({**about, "tie_word_embeddings": False}))
    tok.save_pretrained(main)
    save_file(state, main / "model.safetensors", metadata={"format": "pt"})
    vision = CLIPVisionConfig(
        hidden_size=24, intermediate_size=48, num_hidden_layers=3, num_attention_heads=2, image_size=56, patch_size=14
    )
    CLIPVisionModel(vision).save_pretrained(tower)
    size = {"height": 56, "width": 56}
    CLIPImageProcessorPil(size={"shortest_edge": 56}, crop_size=size).save_pretrained(tower)
    return main, tower


# -- detectors ---------------------------------------------------------------------------------------------------------


def owlv2(folder: Path, side: int = 64) -> Path:
    """OWLv2, whose texts have 16 tokens at most."""
    import torch
    from transformers import Owlv2Config, Owlv2ForObjectDetection, Owlv2ImageProcessorPil, Owlv2Processor

    tok = clip_tokenizer()
    tok.model_max_length = 16
    layers = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    _seed()
    config = Owlv2Config(
        text_config={
            **layers,
            "vocab_size": len(tok),
            "max_position_embeddings": 16,
            "bos_token_id": tok.bos_token_id,
            "eos_token_id": tok.eos_token_id,
            "pad_token_id": tok.pad_token_id,
        },
        vision_config={**layers, "image_size": side, "patch_size": 16},
        projection_dim=32,
    )
    model = Owlv2ForObjectDetection(config)
    with torch.no_grad():
        for weights in model.box_head.parameters():  # as they begin, boxes have no width
            weights.mul_(0.1)
    model.save_pretrained(folder)
    Owlv2Processor(Owlv2ImageProcessorPil(size={"height": side, "width": side}), tok).save_pretrained(folder)
    return folder


def grounding_dino(folder: Path, words: Sequence[str] = (), longest: int = 256) -> Path:
    """Grounding DINO over a Swin of two stages, with a vocabulary of these words; it reads `longest` tokens at once."""
    import torch
    from transformers import (
        BertConfig,
        BertTokenizer,
        GroundingDinoConfig,
        GroundingDinoForObjectDetection,
        GroundingDinoImageProcessorPil,
        GroundingDinoProcessor,
        SwinConfig,
    )

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "?", *words]
    tok = BertTokenizer(vocab={word: at for at, word in enumerate(vocabulary)}, model_max_length=512)
    _seed()
    config = GroundingDinoConfig(
        backbone_config=SwinConfig(
            image_size=64, window_size=4, embed_dim=16, depths=[1, 1, 1], num_heads=[2, 2, 2], out_features=["stage2", "stage3"]
        ),
        text_config=BertConfig(
            vocab_size=2048, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
        ),
        d_model=32, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=64, decoder_ffn_dim=64, num_queries=8, num_feature_levels=2, max_text_len=longest,
    )  # fmt: skip
    model = GroundingDinoForObjectDetection(config)
    with torch.no_grad():
        for weights in model.parameters():  # as they begin, all boxes and scores are alike
            weights.add_(torch.randn_like(weights), alpha=0.2)
    model.save_pretrained(folder)
    images = GroundingDinoImageProcessorPil(size={"shortest_edge": 64, "longest_edge": 96})
    GroundingDinoProcessor(images, tok).save_pretrained(folder)
    return folder
