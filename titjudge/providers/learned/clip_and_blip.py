"""Learned metrics with two encoders (CLIPScore, PickScore, HPSv2) or a matching head (BLIP-2, FGA-BLIP2, ImageReward).

Stock transformers classes; the formulas are those of the source named in each row of `titjudge.core.learned_metrics.TABLE`. A score
depends on its own image and text alone. Imported in the worker thread only.
"""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from titjudge.core.errors import UserError
from titjudge.core.learned_metrics import Baseline
from titjudge.providers.learned import state_dicts as rename
from titjudge.providers.local import hub, loading

IMAGEREWARD_MEAN, IMAGEREWARD_STD = 0.16717362830052426, 1.0333394966054072
_CLIP_MEAN, _CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a row's files lie: `weights` and `base` as transformers takes them (folder or name), `file` if there is one."""

    weights: str
    weights_commit: str
    base: str
    base_commit: str
    file: Path | None
    dtype: str
    device: str

    def of_weights(self) -> dict[str, Any]:
        return _pinned(self.weights_commit)

    def of_base(self) -> dict[str, Any]:
        return _pinned(self.base_commit)

    def state(self) -> dict[str, Any]:
        """Load the state dict in `file`; a pickle that holds more than tensors is refused."""
        assert self.file is not None
        if self.file.suffix == ".safetensors":
            from safetensors.torch import load_file

            return dict(load_file(self.file))
        import torch

        return dict(torch.load(self.file, map_location="cpu", weights_only=True))


def _pinned(commit: str) -> dict[str, Any]:
    return {"revision": commit, "local_files_only": hub.offline()} if commit else {}


Pair = tuple[Any, str]
Measured = dict[str, Any]


def _settled(model: Any, source: Source) -> Any:
    import torch

    return model.to(device=source.device, dtype=getattr(torch, source.dtype)).eval()


def chat_model(row: Baseline, source: Source, options: Mapping[str, Any]) -> loading.Loaded:
    """Load the chat model with eyes that a row scores with.

    Raises:
        UserError: it cannot be loaded, or reads no images.
    """
    folder, commit = hub.folder_of(source.weights, source.weights_commit)
    chosen = {"dtype": source.dtype, "device": source.device, **dict(options.get("local") or {})}
    loaded = loading.load(source.weights, folder, commit, chosen)
    if not loaded.images:
        raise UserError(f"'{row.key}' needs a model that reads images; '{source.weights}' reads none")
    return loaded


def measured(score: float, length: tuple[int, int], **parts: float) -> Measured:
    """Compute what a scorer says of one image and text."""
    return {"score": score, "tokens_used": length[0], "tokens_total": length[1], "parts": parts}


def counted(tokenizer: Any, texts: Sequence[str], limit: int) -> list[tuple[int, int]]:
    """(tokens read, tokens there are) of each text, special tokens included."""
    ids = tokenizer(list(texts), truncation=False, padding=False, verbose=False)["input_ids"]
    return [(min(len(each), limit), len(each)) for each in ids]


class DualEncoder:
    """Cosine of image and text vector times a scale. The text is cut so that it keeps its end token."""

    def __init__(self, row: Baseline, source: Source, options: Mapping[str, Any]) -> None:
        from transformers import AutoConfig, AutoImageProcessor, AutoTokenizer, CLIPModel

        self.row, self.source = row, source
        config = AutoConfig.from_pretrained(
            source.base if source.file else source.weights, **(source.of_base() if source.file else source.of_weights())
        )
        config.text_config.max_position_embeddings = max(config.text_config.max_position_embeddings, row.tokens)
        if source.file:
            self.model = CLIPModel(config)
            rename.fill(self.model, rename.open_clip(source.state()), row.key)
        else:
            self.model = CLIPModel.from_pretrained(source.weights, config=config, **source.of_weights())
        self.model = _settled(self.model, source)
        self.tokenizer = AutoTokenizer.from_pretrained(source.base, **source.of_base())
        self.images = AutoImageProcessor.from_pretrained(source.base, backend="pil", **source.of_base())
        self.antialias = bool(options.get("antialias", True))

    def score(self, pairs: Sequence[Pair]) -> list[Measured]:
        """One measurement for each (PIL image, text)."""
        import torch

        options = self.row.options
        texts = [str(options.get("prefix", "")) + text for _, text in pairs]
        if options.get("clean"):
            texts = [cleaned(text) for text in texts]
        tokens = self.tokenizer(texts, truncation=True, max_length=self.row.tokens, padding=True, return_tensors="pt")
        pixels = self._pixels([image for image, _ in pairs]).to(self.model.dtype)
        device = self.model.device
        with torch.inference_mode():
            out = self.model(
                input_ids=tokens["input_ids"].to(device),
                attention_mask=tokens["attention_mask"].to(device),
                pixel_values=pixels.to(device),
            )
            cosines = (out.image_embeds.float() * out.text_embeds.float()).sum(dim=1)
            scale = options.get("scale", 1.0)
            factor = float(self.model.logit_scale.float().exp()) if scale == "logit" else float(scale)
            values = cosines.clamp(min=0) if options.get("clamp") else cosines
        lengths = counted(self.tokenizer, texts, self.row.tokens)
        return [
            measured(float(value) * factor, length, cosine=float(cosine))
            for value, cosine, length in zip(values, cosines, lengths, strict=True)
        ]

    def _pixels(self, images: Sequence[Any]) -> Any:
        if self.row.options.get("crop") == "torchvision":
            return centred(self.images, images)
        if not self.row.options.get("letterbox"):
            return self.images(list(images), return_tensors="pt")["pixel_values"]
        import torch

        size = self.model.config.vision_config.image_size
        return torch.stack([letterbox(image, size, antialias=self.antialias) for image in images])


def cleaned(text: str) -> str:
    """Clean a text as OpenAI's CLIP and open_clip tokenise it: characters mended, HTML entities resolved twice."""
    import ftfy

    return html.unescape(html.unescape(ftfy.fix_text(text))).strip()


def centred(processor: Any, images: Sequence[Any]) -> Any:
    """Make the processor's pixels, cropped where torchvision crops: its margin is rounded half to even, transformers' is floored.

    They differ by a pixel where the longer side has an odd number of pixels too many, as 1216x832 has at 224.
    """
    import torch

    crop = processor.crop_size
    made = []
    for image in images:
        whole = processor(image, do_center_crop=False, return_tensors="pt")["pixel_values"][0]
        top, left = round((whole.shape[1] - crop["height"]) / 2), round((whole.shape[2] - crop["width"]) / 2)
        made.append(whole[:, top : top + crop["height"], left : left + crop["width"]])
    return torch.stack(made)


def letterbox(image: Any, size: int, *, antialias: bool = True) -> Any:
    """HPSv2's input, shape (3, size, size): longest side to `size` on the tensor (bicubic), zero padding, then normalised.

    The environment of the publication had no antialiasing on tensors; today's torchvision has, and so have we by default.
    """
    import numpy as np
    import torch

    tensor = torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1).float() / 255
    height, width = tensor.shape[1:]
    scale = size / max(height, width)
    if scale != 1:
        target = (round(height * scale), round(width * scale))
        tensor = torch.nn.functional.interpolate(
            tensor[None], size=target, mode="bicubic", align_corners=False, antialias=antialias
        )[0]
        height, width = target
    down, across = size - height, size - width
    tensor = torch.nn.functional.pad(tensor, (across // 2, across - across // 2, down // 2, down - down // 2))
    mean, std = torch.tensor(_CLIP_MEAN)[:, None, None], torch.tensor(_CLIP_STD)[:, None, None]
    return (tensor - mean) / std


# -- matching heads ----------------------------------------------------------------------------------------------------


class ItmHead:
    """BLIP-2 and BLIP with their image-text matching head; `readout` is itm, itc, fga or imagereward."""

    def __init__(self, row: Baseline, source: Source, options: Mapping[str, Any]) -> None:
        from transformers import AutoTokenizer

        self.row, self.source = row, source
        self.readout = str(row.options["readout"])
        self.tokenizer = AutoTokenizer.from_pretrained(source.base, **source.of_base())
        model, head = self._blip() if self.readout == "imagereward" else (self._blip2(), None)
        self.model = _settled(model, source)
        self._alike: list[list[float]] = []  # of the last batch: match probability of each text token
        self._mlp: Any = None if head is None else _settled(head, source)
        self.images = self._image_processor()

    def _blip2(self) -> Any:
        from transformers import AutoConfig, Blip2ForImageTextRetrieval

        source = self.source
        if source.file is None:
            model = Blip2ForImageTextRetrieval.from_pretrained(source.weights, **source.of_weights())
        else:
            model = Blip2ForImageTextRetrieval(AutoConfig.from_pretrained(source.base, **source.of_base()))
            rename.fill(model, rename.lavis_blip2(source.state()), self.row.key)
            model.vision_model.post_layernorm.eps = 1e-5  # LAVIS' ln_vision
        model.config.image_token_index = None  # else forward would drop the first tokens of the text
        return model

    def _blip(self) -> tuple[Any, Any]:
        import torch
        from transformers import BlipForImageTextRetrieval

        if self.source.file is None:
            raise UserError(f"'{self.row.key}' needs its released file, {self.row.weights.partition(':')[2]}")
        state, head = rename.image_reward(self.source.state())
        model = BlipForImageTextRetrieval(_blip_config(self.source))
        rename.fill(model, state, self.row.key, spare=("itm_head.",))
        widths = [head["0.weight"].shape[1], *(head[f"{n}.weight"].shape[0] for n in (0, 2, 4, 6, 7))]
        layers = [torch.nn.Linear(a, b) for a, b in itertools.pairwise(widths)]
        mlp = torch.nn.Sequential(*layers)  # no activation between, as released
        numbered = {
            f"{at}.{kind}": head[f"{n}.{kind}"] for at, n in enumerate((0, 2, 4, 6, 7)) for kind in ("weight", "bias")
        }
        rename.fill(mlp, numbered, self.row.key)
        return model, mlp

    def _image_processor(self) -> Any:
        from transformers import AutoImageProcessor, CLIPImageProcessorPil

        if self.readout != "imagereward":
            return AutoImageProcessor.from_pretrained(self.source.base, backend="pil", **self.source.of_base())
        size = self.model.config.vision_config.image_size
        return CLIPImageProcessorPil(size={"shortest_edge": size}, crop_size={"height": size, "width": size})

    def score(self, pairs: Sequence[Pair], elements: Sequence[Sequence[str]] = ()) -> list[Measured]:
        """One measurement for each (PIL image, text); with FGA-BLIP2 also of each text's `elements`."""
        import torch

        texts = [caption(text) if self.readout == "fga" else text for _, text in pairs]
        tokens = self.tokenizer(
            texts,
            truncation=True,
            max_length=self.row.tokens,
            padding="max_length" if self.readout == "imagereward" else True,
            return_tensors="pt",
        )
        images = [image for image, _ in pairs]
        if self.readout == "imagereward":
            pixels = centred(self.images, images)
        else:
            pixels = self.images(images, return_tensors="pt")["pixel_values"]
        device = self.model.device
        with torch.inference_mode():
            found = self._read(
                tokens["input_ids"].to(device),
                tokens["attention_mask"].to(device),
                pixels.to(device=device, dtype=self.model.dtype),
            )
        for row, wanted in enumerate(elements):
            found[row][1].update(self._elements(tokens["input_ids"][row].tolist(), self._alike[row], wanted))
        lengths = self._lengths([text for _, text in pairs], texts)
        return [measured(score, length, **parts) for (score, parts), length in zip(found, lengths, strict=True)]

    def _lengths(self, texts: Sequence[str], read: Sequence[str]) -> list[tuple[int, int]]:
        lengths = counted(self.tokenizer, read, self.row.tokens)
        if self.readout != "fga":
            return lengths
        whole = counted(self.tokenizer, [caption(text, words=None) for text in texts], self.row.tokens)
        return [(used, total) for (used, _), (_, total) in zip(lengths, whole, strict=True)]

    def _read(self, ids: Any, mask: Any, pixels: Any) -> list[tuple[float, dict[str, float]]]:
        import torch

        if self.readout == "imagereward":
            return self._reward(ids, mask, pixels)
        if self.readout == "itc":
            out = self.model(
                pixel_values=pixels, input_ids=ids, attention_mask=mask, use_image_text_matching_head=False
            )
            return [(float(value), {}) for value in out.logits_per_image.float().diagonal()]
        seen: list[Any] = []
        hook = self.model.qformer.register_forward_hook(lambda module, args, out: seen.append(out.last_hidden_state))
        try:
            self.model(pixel_values=pixels, input_ids=ids, attention_mask=mask, use_image_text_matching_head=True)
        finally:
            hook.remove()
        logits = self.model.itm_head(seen[0]).float()  # (rows, queries and then text tokens, 2)
        queries = self.model.config.num_query_tokens
        if self.readout == "fga":
            alike = torch.softmax(logits, dim=-1)[..., 1]
            self._alike = alike[:, queries:].tolist()
            return [(float(4 * value + 1), {"probability": float(value)}) for value in alike[:, :queries].mean(dim=1)]
        mean = logits[:, :queries].mean(dim=1)
        difference = mean[:, 1] - mean[:, 0]
        return [(float(torch.sigmoid(each)), {"logit": float(each)}) for each in difference]

    def _elements(self, ids: list[int], alike: list[float], wanted: Sequence[str]) -> dict[str, float]:
        """FGA-BLIP2's score of each element, 0 to 1: the mean match probability of the element's tokens in the prompt.

        An element whose tokens are not in the prompt as read has none (upstream says 0).
        """
        found = {}
        for element in wanted:
            own = self.tokenizer(caption(element), add_special_tokens=False)["input_ids"]
            starts = range(1, len(ids) - len(own) + 1) if own else ()
            at = next((start for start in starts if ids[start : start + len(own)] == own), None)
            if at is not None:
                found[f"element: {element}"] = sum(alike[at : at + len(own)]) / len(own)
        return found

    def _reward(self, ids: Any, mask: Any, pixels: Any) -> list[tuple[float, dict[str, float]]]:
        import torch

        seen = self.model.vision_model(pixel_values=pixels).last_hidden_state
        everywhere = torch.ones(seen.shape[:-1], dtype=torch.long, device=seen.device)
        states = self.model.text_encoder(
            input_ids=ids, attention_mask=mask, encoder_hidden_states=seen, encoder_attention_mask=everywhere
        ).last_hidden_state
        raw = self._mlp(states[:, 0, :]).float().squeeze(1)
        return [(float((each - IMAGEREWARD_MEAN) / IMAGEREWARD_STD), {"raw": float(each)}) for each in raw]


def caption(text: str, words: int | None = 50) -> str:
    """LAVIS' `blip_caption` processing: lower case, no punctuation, the first 50 words."""
    plain = re.sub(r"([.!\"()*#:;~])", " ", text.lower())
    plain = re.sub(r"\s{2,}", " ", plain).rstrip("\n").strip(" ")
    return " ".join(plain.split(" ")[:words])


def _blip_config(source: Source) -> Any:
    """ImageReward's shape: BLIP ViT-L/16 at 224, BERT base with cross-attention; LAYER NORM EPS 1e-6, not 1e-5."""
    from transformers import BlipConfig

    own = Path(source.base) / "config.json"
    if own.is_file():
        about = hub.read_json(Path(source.base), "config.json")
        if about.get("model_type") == "blip":
            return BlipConfig(**about)
    vision = {
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
        "image_size": 224,
        "patch_size": 16,
        "layer_norm_eps": 1e-6,
    }
    text = {
        "vocab_size": 30524,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "encoder_hidden_size": 1024,
    }
    return BlipConfig(vision_config=vision, text_config=text, image_text_hidden_size=256)
