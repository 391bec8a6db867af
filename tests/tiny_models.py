"""Builders of tiny models with random weights, saved to a folder: real architectures and file formats, no download.

Each takes the folder to fill and returns it. They import torch and transformers when called.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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


def _seed() -> None:
    import torch

    torch.manual_seed(0)


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
