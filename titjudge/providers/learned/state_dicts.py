"""Rename released state dicts to the parameters of transformers' classes; nothing is dropped silently.

Each function takes a state dict and returns a new one. `fill` loads it and refuses what is missing or left over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from titjudge.core.errors import UserError
from titjudge.core.types import Json, Values

State = Json


def unwrapped(state: Values) -> State:
    """Return the tensors themselves; some files have them under `state_dict` or `model`, or with the prefix `module.`."""
    for key in ("state_dict", "model"):
        if isinstance(state.get(key), Mapping):
            state = state[key]
    return {name.removeprefix("module."): value for name, value in state.items()}


def _renamed(name: str, rules: tuple[tuple[str, str], ...]) -> str:
    """Apply rules, each a pattern and its replacement, to the name of a parameter, one after the other."""
    for pattern, replacement in rules:
        name = re.sub(pattern, replacement, name)
    return name


_OPEN_CLIP = (
    (r"transformer\.resblocks\.", "encoder.layers."),
    (r"\.attn\.out_proj\.", ".self_attn.out_proj."),
    (r"\.ln_([12])\.", r".layer_norm\1."),
    (r"\.mlp\.c_fc\.", ".mlp.fc1."),
    (r"\.mlp\.c_proj\.", ".mlp.fc2."),
    (r"^ln_pre\.", "pre_layrnorm."),
    (r"^ln_post\.", "post_layernorm."),
    (r"^ln_final\.", "final_layer_norm."),
    (r"^class_embedding$", "embeddings.class_embedding"),
    (r"^positional_embedding$", "embeddings.position_embedding.weight"),
    (r"^conv1\.weight$", "embeddings.patch_embedding.weight"),
    (r"^token_embedding\.weight$", "embeddings.token_embedding.weight"),
)


def open_clip(state: Values) -> State:
    """Convert open_clip's CLIP (HPSv2) for `CLIPModel`."""
    converted: State = {}
    for name, value in unwrapped(state).items():
        if name == "attn_mask":
            continue
        if name == "logit_scale":
            converted[name] = value
        elif name == "visual.proj":
            converted["visual_projection.weight"] = value.T.contiguous()
        elif name == "text_projection":
            converted["text_projection.weight"] = value.T.contiguous()
        else:
            side = "vision_model" if name.startswith("visual.") else "text_model"
            plain = _renamed(name.removeprefix("visual."), _OPEN_CLIP)
            packed = re.fullmatch(r"(.*)\.attn\.in_proj_(weight|bias)", plain)
            if packed:
                for letter, part in zip("qkv", value.chunk(3), strict=True):
                    converted[f"{side}.{packed[1]}.self_attn.{letter}_proj.{packed[2]}"] = part.contiguous()
            else:
                converted[f"{side}.{plain}"] = value
    return converted


_BLOCKS = (
    (r"^vision_model\.cls_token$", "vision_model.embeddings.class_embedding"),
    (r"^vision_model\.pos_embed$", "vision_model.embeddings.position_embedding"),
    (r"^vision_model\.patch_embed\.proj\.", "vision_model.embeddings.patch_embedding."),
    (r"^vision_model\.blocks\.(\d+)\.norm([12])\.", r"vision_model.encoder.layers.\1.layer_norm\2."),
    (r"^vision_model\.blocks\.(\d+)\.attn\.qkv\.", r"vision_model.encoder.layers.\1.self_attn.qkv."),
    (r"^vision_model\.blocks\.(\d+)\.attn\.proj\.", r"vision_model.encoder.layers.\1.self_attn.projection."),
    (r"^vision_model\.blocks\.(\d+)\.mlp\.", r"vision_model.encoder.layers.\1.mlp."),
    (r"^vision_model\.norm\.", "vision_model.post_layernorm."),
)
_QFORMER = (
    (r"^ln_vision\.", "vision_model.post_layernorm."),
    (r"^Qformer\.bert\.embeddings\.LayerNorm\.", "qformer.layernorm."),
    (r"^Qformer\.bert\.embeddings\.", "embeddings."),
    (r"^Qformer\.bert\.", "qformer."),
    (r"\.attention\.self\.", ".attention.attention."),
    (r"\.crossattention\.self\.", ".crossattention.attention."),
    (r"^vision_proj\.", "vision_projection."),
    (r"^text_proj\.", "text_projection."),
)


def lavis_blip2(state: Values) -> State:
    """Convert LAVIS' BLIP-2 first stage (FGA-BLIP2) for `Blip2ForImageTextRetrieval`; heads used in training only are dropped."""
    import torch

    converted: State = {}
    plain = unwrapped(state)
    for name, value in plain.items():
        if name.startswith(("Qformer.cls.", "mask_proj.")) or name.endswith("position_ids") or name == "temp":
            continue
        if name.endswith(".attn.v_bias"):
            continue
        if name.endswith(".attn.q_bias"):
            stem = name.removesuffix("q_bias").replace("visual_encoder.", "vision_model.", 1)
            bias = torch.cat([value, torch.zeros_like(value), plain[name.removesuffix("q_bias") + "v_bias"]])
            converted[_renamed(f"{stem}qkv.bias", _BLOCKS)] = bias
            continue
        renamed = re.sub(r"^visual_encoder\.", "vision_model.", name)
        converted[_renamed(renamed, _BLOCKS + _QFORMER)] = value
    return converted


def image_reward(state: Values) -> tuple[State, State]:
    """Convert ImageReward.pt for `BlipForImageTextRetrieval`; returns it and the five linear layers of its MLP."""
    converted: State = {}
    head: State = {}
    for name, value in unwrapped(state).items():
        if name.startswith("mlp.layers."):
            head[name.removeprefix("mlp.layers.")] = value
        elif name.startswith("blip.") and not name.endswith("position_ids"):
            plain = re.sub(r"^visual_encoder\.", "vision_model.", name.removeprefix("blip."))
            converted[_renamed(plain, _BLOCKS)] = value
    return converted, head


def mps(state: Values) -> tuple[State, State]:
    """Convert MPS for `CLIPModel`; returns it and its cross-attention layers, without the residual wrapper's `fn.`.

    The prefix before `cross_model.` (none as released, `mps.` in the hub's copy) is removed from every name.
    """
    clip: State = {}
    cross: State = {}
    plain = unwrapped(state)
    outer = next((name.partition("cross_model.")[0] for name in plain if "cross_model." in name), "")
    for name, value in plain.items():
        name = name.removeprefix(outer)
        if name.endswith(("position_ids", "inv_freq")):
            continue
        if name.startswith("cross_model."):
            cross[name.removeprefix("cross_model.").replace(".fn.", ".")] = value
        else:
            clip[name.removeprefix("model.")] = value
    return clip, cross


def fill(model: Any, state: State, name: str, *, spare: tuple[str, ...] = ()) -> None:
    """Load `state` into `model`; parameters that start with one of `spare` may be missing (they are not used).

    Raises:
        UserError: A parameter is missing, left over, or of another shape.
    """
    try:
        outcome = model.load_state_dict(state, strict=False)
    except RuntimeError as error:
        first = " ".join(str(error).split())[:300]
        raise UserError(
            f"the weights of '{name}' do not fit its architecture: {first}. Download the weights again"
        ) from error
    missing = [name for name in outcome.missing_keys if not name.startswith(spare) and "position_ids" not in name]
    if missing or outcome.unexpected_keys:
        raise UserError(
            f"the weights of '{name}' do not fit its architecture: {len(missing)} missing "
            f"({', '.join(missing[:2])}), {len(outcome.unexpected_keys)} left over ({', '.join(outcome.unexpected_keys[:2])}). Download them again"
        )
