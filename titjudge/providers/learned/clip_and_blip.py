"""Learned metrics with two encoders (CLIPScore, PickScore, HPSv2) or a matching head (BLIP-2, FGA-BLIP2, ImageReward).

Stock transformers classes; the formulas come from the source named in each row of `titjudge.data.learned_metrics.TABLE`.
A score depends only on its image and text. Imported in the worker thread only.
"""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from titjudge.core.errors import UserError
from titjudge.data.learned_metrics import LearnedMetric
from titjudge.providers.learned import state_dicts
from titjudge.providers.learned.base import Adapter, ImageAndText, Measured, ModelCheckpoint, counted, measured
from titjudge.providers.local import hub

IMAGEREWARD_MEAN, IMAGEREWARD_STD = 0.16717362830052426, 1.0333394966054072
_CLIP_MEAN, _CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


class DualEncoder(Adapter):
    """Cosine of image and text vector times a scale. The text is cut so that it keeps its end token."""

    def __init__(self, row: LearnedMetric, checkpoint: ModelCheckpoint, options: Mapping[str, Any]) -> None:
        from transformers import AutoConfig, CLIPModel

        super().__init__(row, checkpoint, options)
        if checkpoint.file:
            config = checkpoint.config()
        else:
            config = AutoConfig.from_pretrained(checkpoint.weights, **checkpoint.weights_pin)
        config.text_config.max_position_embeddings = max(config.text_config.max_position_embeddings, row.tokens)
        if checkpoint.file:
            model = CLIPModel(config)
            state_dicts.fill(model, state_dicts.open_clip(checkpoint.state()), row.key)
        else:
            model = CLIPModel.from_pretrained(checkpoint.weights, config=config, **checkpoint.weights_pin)
        self.model = checkpoint.on_device(model)
        self.tokenizer, self.images = checkpoint.tokenizer(), checkpoint.image_processor()
        self.antialias = bool(options.get("antialias", True))

    def score(self, pairs: Sequence[ImageAndText]) -> list[Measured]:
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
    """Clean a text as OpenAI's CLIP and open_clip tokenise it: characters repaired, HTML entities resolved twice."""
    import ftfy

    return html.unescape(html.unescape(ftfy.fix_text(text))).strip()


def centred(processor: Any, images: Sequence[Any]) -> Any:
    """Make the processor's pixels, cropped where torchvision crops: its margin is rounded half to even, transformers' is floored.

    They differ by a pixel where the longer side has an odd number of pixels too many, as 1216x832 has at 224.
    """
    import torch

    height, width = processor.crop_size["height"], processor.crop_size["width"]
    crops = []
    for image in images:
        pixels = processor(image, do_center_crop=False, return_tensors="pt")["pixel_values"][0]
        top, left = round((pixels.shape[1] - height) / 2), round((pixels.shape[2] - width) / 2)
        crops.append(pixels[:, top : top + height, left : left + width])
    return torch.stack(crops)


def letterbox(image: Any, size: int, *, antialias: bool = True) -> Any:
    """Make HPSv2's input, shape (3, size, size): longest side to `size` on the tensor (bicubic), zero padding, normalized.

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


class ItmHead(Adapter):
    """BLIP-2 and BLIP with their image-text matching head; `readout` is itm, itc, fga or imagereward."""

    def __init__(self, row: LearnedMetric, checkpoint: ModelCheckpoint, options: Mapping[str, Any]) -> None:
        super().__init__(row, checkpoint, options)
        self.readout = str(row.options["readout"])
        self.tokenizer = checkpoint.tokenizer()
        model, head = self._blip() if self.readout == "imagereward" else (self._blip2(), None)
        self.model = checkpoint.on_device(model)
        self._mlp: Any = None if head is None else checkpoint.on_device(head)
        self._token_matches: list[list[float]] = []  # of the last batch: match probability of each text token
        self.images = self._image_processor()

    def _blip2(self) -> Any:
        from transformers import Blip2ForImageTextRetrieval

        checkpoint = self.checkpoint
        if checkpoint.file is None:
            model = Blip2ForImageTextRetrieval.from_pretrained(checkpoint.weights, **checkpoint.weights_pin)
        else:
            model = Blip2ForImageTextRetrieval(checkpoint.config())
            state_dicts.fill(model, state_dicts.lavis_blip2(checkpoint.state()), self.row.key)
            model.vision_model.post_layernorm.eps = 1e-5  # LAVIS' ln_vision
        model.config.image_token_index = None  # otherwise forward would drop the first tokens of the text
        return model

    def _blip(self) -> tuple[Any, Any]:
        import torch
        from transformers import BlipForImageTextRetrieval

        if self.checkpoint.file is None:
            raise UserError(f"'{self.row.key}' requires its released file. Add {self.row.weights.partition(':')[2]}")
        state, head = state_dicts.image_reward(self.checkpoint.state())
        model = BlipForImageTextRetrieval(_blip_config(self.checkpoint))
        state_dicts.fill(model, state, self.row.key, spare=("itm_head.",))
        widths = [head["0.weight"].shape[1], *(head[f"{n}.weight"].shape[0] for n in (0, 2, 4, 6, 7))]
        layers = [torch.nn.Linear(a, b) for a, b in itertools.pairwise(widths)]
        mlp = torch.nn.Sequential(*layers)  # no activation between, as released
        numbered = {
            f"{index}.{kind}": head[f"{n}.{kind}"]
            for index, n in enumerate((0, 2, 4, 6, 7))
            for kind in ("weight", "bias")
        }
        state_dicts.fill(mlp, numbered, self.row.key)
        return model, mlp

    def _image_processor(self) -> Any:
        from transformers import CLIPImageProcessorPil

        if self.readout != "imagereward":
            return self.checkpoint.image_processor()
        size = self.model.config.vision_config.image_size
        return CLIPImageProcessorPil(size={"shortest_edge": size}, crop_size={"height": size, "width": size})

    def score(self, pairs: Sequence[ImageAndText], elements: Sequence[Sequence[str]] = ()) -> list[Measured]:
        """Measure each pair; with FGA-BLIP2 also how each text's `elements` match the image."""
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
            scores = self._read(
                tokens["input_ids"].to(device),
                tokens["attention_mask"].to(device),
                pixels.to(device=device, dtype=self.model.dtype),
            )
        for row, names in enumerate(elements):
            ids, matches = tokens["input_ids"][row].tolist(), self._token_matches[row]
            scores[row][1].update(self._element_scores(ids, matches, names))
        lengths = self._lengths([text for _, text in pairs], texts)
        return [measured(score, length, **parts) for (score, parts), length in zip(scores, lengths, strict=True)]

    def _lengths(self, texts: Sequence[str], read: Sequence[str]) -> list[tuple[int, int]]:
        lengths = counted(self.tokenizer, read, self.row.tokens)
        if self.readout != "fga":
            return lengths
        whole = counted(self.tokenizer, [caption(text, words=None) for text in texts], self.row.tokens)
        return [(used, total) for (used, _), (_, total) in zip(lengths, whole, strict=True)]

    def _read(self, ids: Any, mask: Any, pixels: Any) -> list[tuple[float, dict[str, float]]]:
        """Compute the score, and its parts, of each row."""
        import torch

        if self.readout == "imagereward":
            return self._reward(ids, mask, pixels)
        if self.readout == "itc":
            out = self.model(
                pixel_values=pixels, input_ids=ids, attention_mask=mask, use_image_text_matching_head=False
            )
            return [(float(value), {}) for value in out.logits_per_image.float().diagonal()]
        states: list[Any] = []
        hook = self.model.qformer.register_forward_hook(lambda module, args, out: states.append(out.last_hidden_state))
        try:
            self.model(pixel_values=pixels, input_ids=ids, attention_mask=mask, use_image_text_matching_head=True)
        finally:
            hook.remove()
        logits = self.model.itm_head(states[0]).float()  # (rows, queries and then text tokens, 2)
        queries = self.model.config.num_query_tokens
        if self.readout == "fga":
            matches = torch.softmax(logits, dim=-1)[..., 1]
            self._token_matches = matches[:, queries:].tolist()
            return [(float(4 * value + 1), {"probability": float(value)}) for value in matches[:, :queries].mean(dim=1)]
        mean = logits[:, :queries].mean(dim=1)
        difference = mean[:, 1] - mean[:, 0]
        return [(float(torch.sigmoid(logit)), {"logit": float(logit)}) for logit in difference]

    def _element_scores(self, ids: list[int], matches: list[float], elements: Sequence[str]) -> dict[str, float]:
        """Compute FGA-BLIP2's score of each element, 0 to 1: the mean match probability of its tokens in the prompt.

        An element whose tokens are not in the prompt as read has no score (upstream gives 0).
        """
        scores = {}
        for element in elements:
            element_ids = self.tokenizer(caption(element), add_special_tokens=False)["input_ids"]
            starts = range(1, len(ids) - len(element_ids) + 1) if element_ids else ()
            position = next((start for start in starts if ids[start : start + len(element_ids)] == element_ids), None)
            if position is not None:
                scores[f"element: {element}"] = sum(matches[position : position + len(element_ids)]) / len(element_ids)
        return scores

    def _reward(self, ids: Any, mask: Any, pixels: Any) -> list[tuple[float, dict[str, float]]]:
        import torch

        image = self.model.vision_model(pixel_values=pixels).last_hidden_state
        image_mask = torch.ones(image.shape[:-1], dtype=torch.long, device=image.device)
        states = self.model.text_encoder(
            input_ids=ids, attention_mask=mask, encoder_hidden_states=image, encoder_attention_mask=image_mask
        ).last_hidden_state
        raw = self._mlp(states[:, 0, :]).float().squeeze(1)
        return [(float((value - IMAGEREWARD_MEAN) / IMAGEREWARD_STD), {"raw": float(value)}) for value in raw]


def caption(text: str, words: int | None = 50) -> str:
    """Process a text as LAVIS' `blip_caption` does: lower case, no punctuation, the first 50 words."""
    plain = re.sub(r"([.!\"()*#:;~])", " ", text.lower())
    plain = re.sub(r"\s{2,}", " ", plain).rstrip("\n").strip(" ")
    return " ".join(plain.split(" ")[:words])


def _blip_config(checkpoint: ModelCheckpoint) -> Any:
    """Make ImageReward's configuration: BLIP ViT-L/16 at 224, BERT base with cross-attention; LAYER NORM EPS 1e-6, not 1e-5."""
    from transformers import BlipConfig

    config = hub.read_json(Path(checkpoint.base), "config.json")
    if config.get("model_type") == "blip":
        return BlipConfig(**config)
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


class ClassTokens(Adapter):
    """Cosine of the class tokens of two images, behind the last layer and its norm: DINO, DINOv2 and other vision transformers."""

    spare = ("pooler.", "embeddings.mask_token")

    def __init__(self, row: LearnedMetric, checkpoint: ModelCheckpoint, options: Mapping[str, Any]) -> None:
        from transformers import AutoModel

        super().__init__(row, checkpoint, options)
        self.model = checkpoint.on_device(AutoModel.from_pretrained(checkpoint.weights, **checkpoint.weights_pin))
        self.images = checkpoint.image_processor()

    def score(self, pairs: Sequence[tuple[Sequence[Any], str]]) -> list[Measured]:
        """Measure each pair: the source and the result, and a text that is not read."""
        import torch

        pixels = self.images([image for images, _ in pairs for image in images], return_tensors="pt")["pixel_values"]
        with torch.inference_mode():
            states = self.model(pixel_values=pixels.to(self.model.device, self.model.dtype)).last_hidden_state
        tokens = torch.nn.functional.normalize(states[:, 0].float(), dim=1)
        return [measured(float(cosine), (0, 0)) for cosine in (tokens[0::2] * tokens[1::2]).sum(dim=1)]
