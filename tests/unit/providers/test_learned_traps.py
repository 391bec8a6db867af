"""Silent traps of the learned metrics that no other test meets, each where a number would change without a word.

Elsewhere: 77 tokens with the end token, dialects and letterbox (test_clip_and_blip); one softmax, the image token, element
scores, layer norms, two label tokens, tied layers (test_learned_heads); literal <image>, reward and level tokens, MPS by sample
(test_chat_heads); dependencies and choices (test_dsg_question_graph); no random guess, scales (test_viescore); masks and
replaced pictures (test_external_examples); cut prompts (test_learned); published figures (test_paper_dsg_numbers).
"""

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import pytest
import tiny_models
from learned_prompts import learned_prompt
from test_clip_and_blip import score

from titjudge.core.types import ImageFile
from titjudge.data.learned_metrics import TABLE, LearnedMetric
from titjudge.metrics.dsg import SceneGraph
from titjudge.providers.learned import clip_and_blip, vqascore
from titjudge.providers.learned.base import ModelCheckpoint

TOKENS = {
    "clipscore-hessel": 77, "clipscore-torchmetrics": 77, "clipscore-cosine": 77, "pickscore": 77, "hpsv2": 77, "hpsv2.1": 77,
    "mps": 77, "mps-readme": 77, "longclip": 248, "imagereward": 35, "blip2-itm": 35, "blip2-itc": 35, "fga-blip2": 512,
    "vqascore-clip-flant5-xxl": 2048, "vqascore-clip-flant5-xl": 2048,
}  # fmt: skip


@pytest.mark.parametrize("key", list(TOKENS))
def test_a_metric_reads_as_much_as_its_authors_code(key: str) -> None:
    assert TABLE[key].tokens == TOKENS[key]


def edged(colour: str, size: tuple[int, int] = (200, 60)) -> ImageFile:
    """Grey, with a strip of colour at its left edge, which a centre crop cuts off."""
    from PIL import Image

    image = Image.new("RGB", size, "grey")
    image.paste(Image.new("RGB", (30, size[1]), colour), (0, 0))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return ImageFile(colour.ljust(64, "0"), "image/png", *size, Path("x"), buffer.getvalue)


def test_blip2_squashes_the_picture_and_crops_nothing(tmp_path: Path) -> None:
    folder = tiny_models.blip2(tmp_path)
    red, blue = score("blip2-itm", [(edged("red"), "a"), (edged("blue"), "a")], weights=folder)
    assert abs(red["parts"]["logit"] - blue["parts"]["logit"]) > 1e-4


def test_clip_crops_the_centre(tmp_path: Path) -> None:
    folder = tiny_models.clip(tmp_path)
    red, blue = score("pickscore", [(edged("red"), "a"), (edged("blue"), "a")], weights=folder)
    assert red["score"] == pytest.approx(blue["score"], abs=1e-6)


def test_itm_saturates_and_its_logit_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Probabilities of 0.9999... tie after rounding; the logit difference still orders them."""
    import torch
    from transformers import Blip2ForImageTextRetrieval

    folder = tiny_models.blip2(tmp_path)
    model = Blip2ForImageTextRetrieval.from_pretrained(folder)
    model.itm_head.bias.data = torch.tensor([-50.0, 50.0])
    model.save_pretrained(folder)
    one, two = score(
        "blip2-itm",
        [(tiny_models.image_file(seed=1), "a red cube"), (tiny_models.image_file(seed=2), "two dogs")],
        weights=folder,
    )
    assert one["score"] == two["score"] == 1
    assert one["parts"]["logit"] != two["parts"]["logit"]


def test_itc_is_a_cosine_and_no_probability(tmp_path: Path) -> None:
    assert TABLE["blip2-itc"].range == (-1, 1)
    folder = tiny_models.blip2(tmp_path)
    pairs = [
        (tiny_models.image_file(seed=n), text)
        for n, text in enumerate(("a red cube", "two dogs", "no", "blue", "x y z", "cat"))
    ]
    assert all(-1 <= each["score"] <= 1 for each in score("blip2-itc", pairs, weights=folder))


def test_fga_has_the_small_epsilon_of_lavis(tmp_path: Path) -> None:
    """LAVIS' ln_vision has 1e-5, transformers' post_layernorm the configuration's 1e-6."""
    import torch
    from test_learned_heads import lavis_state

    base = tiny_models.blip2(tmp_path / "base")
    torch.save({"model": lavis_state(base)}, tmp_path / "fga.pth")
    source = ModelCheckpoint("w", "", str(base), "", tmp_path / "fga.pth", "float32", "cpu")
    model = clip_and_blip.ItmHead(TABLE["fga-blip2"], source, {}).model
    assert model.vision_model.post_layernorm.eps == 1e-5
    assert model.vision_model.encoder.layers[0].layer_norm1.eps == 1e-6


def test_hpsv2_takes_pictures_with_transparency(tmp_path: Path) -> None:
    """Upstream lets four channels through and breaks."""
    from PIL import Image

    base = Image.new("RGB", (40, 30), "red")
    clear = base.copy()
    clear.putalpha(0)
    made = [clip_and_blip.letterbox(each, 56) for each in (base, clear)]
    assert made[0].shape == made[1].shape == (3, 56, 56)
    assert (made[0] - made[1]).abs().max() == 0


def test_both_thresholds_of_mps_have_a_name() -> None:
    thresholds = {key: TABLE[key].options["threshold"] for key in ("mps", "mps-readme")}
    assert thresholds == {"mps": 0.3, "mps-readme": 0.01}


def test_the_two_templates_of_vqascore_differ_in_capitals() -> None:
    """3.0 asks CLIP-FlanT5 for "yes or no", 3.1 asks chat models for "Yes or No"; the answer is "Yes" in both."""
    flan, qwen = TABLE["vqascore-clip-flant5-xxl"].options, TABLE["vqascore-qwen2.5-vl-7b"].options
    assert 'show "{}"? Please answer yes or no. ASSISTANT: ' in learned_prompt("vqascore-clip-flant5-xxl")
    assert learned_prompt("vqascore-clip-flant5-xxl").count("<image>") == 1
    assert learned_prompt("vqascore-qwen2.5-vl-7b") == 'Does this figure show "{}"? Please answer Yes or No.'
    assert flan["answer"] == qwen["answer"] == "Yes"
    assert TABLE["vqascore-qwen3-vl-8b"].options == qwen


def test_clip_flant5_pads_to_a_square_with_clips_mean_colour() -> None:
    from PIL import Image

    square = vqascore.padded(Image.new("RGB", (40, 20), "white"), (122, 116, 104))
    assert square.size == (40, 40)
    assert square.getpixel((0, 0)) == (122, 116, 104)
    assert square.getpixel((20, 20)) == (255, 255, 255)
    assert vqascore._PAD == (122, 116, 104)


def test_t5s_outputs_are_not_scaled(tmp_path: Path) -> None:
    """transformers scales them where it thinks the output layer tied; FLAN-T5's is its own."""
    main, tower = tiny_models.clip_flant5(tmp_path)
    source = ModelCheckpoint(str(main), "", str(tower), "", None, "float32", "cpu")
    model = vqascore.ClipFlanT5(TABLE["vqascore-clip-flant5-xl"], source, {}).model
    assert model.config.scale_decoder_outputs is False


def with_answer(monkeypatch: pytest.MonkeyPatch, key: str, answer: str) -> LearnedMetric:
    row = dataclasses.replace(TABLE[key], options={**TABLE[key].options, "answer": answer})
    monkeypatch.setattr("titjudge.data.learned_metrics.TABLE", {**TABLE, key: row})
    return row


@pytest.mark.parametrize("key", ["vqascore-qwen2.5-vl-7b", "vqascore-qwen3-vl-8b"])
def test_a_models_own_generation_settings_do_not_touch_vqascore(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repetition penalty, as Qwen ships it, changes what generate() calls scores, and not the logits."""
    with_answer(monkeypatch, key, "Y")
    folder = (tiny_models.qwen3_vl if "qwen3" in key else tiny_models.qwen25_vl)(tmp_path)
    pairs = [(tiny_models.image_file(), "a red cube")]
    (plain,) = score(key, pairs, weights=folder, dtype="float32")
    (folder / "generation_config.json").write_text(
        json.dumps({"repetition_penalty": 1.9, "do_sample": True, "temperature": 9.0})
    )
    (other,) = score(key, pairs, weights=folder, dtype="float32")
    assert other["score"] == plain["score"]


def test_the_expected_rating_uses_digits_of_one_token() -> None:
    """ "10" is two tokens in most vocabularies: 0 to 9 only."""
    labels: dict[str, Any] = dict(TABLE["lmm-score-expected-qwen2.5-vl-7b"].options["labels"])
    assert labels == {str(n): n for n in range(10)}
    assert TABLE["lmm-score-expected-qwen2.5-vl-7b"].range == (0, 9)


def test_hpsv3_sees_pictures_of_one_size() -> None:
    assert TABLE["hpsv3"].options["pixels"] == [256 * 28 * 28, 256 * 28 * 28]
    assert learned_prompt("hpsv3").endswith("<|Reward|>\n\nEND\n")


def test_a_bar_in_a_tuple_breaks_no_graph() -> None:
    """Upstream's parser splits at it and raises."""
    row = {
        "id": 1,
        "tuple": "attribute - color (door, red | blue)",
        "question": "Is the door red or blue?",
        "parents": [0],
    }
    assert SceneGraph.model_validate({"questions": [row]}).questions[0].tuple.endswith("red | blue)")


def test_the_two_versions_of_hps_are_two_metrics() -> None:
    """They are not comparable, and hpsv2.score() defaults to the older."""
    assert TABLE["hpsv2"].weights != TABLE["hpsv2.1"].weights
    assert "not comparable" in TABLE["hpsv2"].summary
