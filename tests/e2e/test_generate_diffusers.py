"""`generate --model diffusers/...` with a tiny pipeline of random weights."""

import json
from pathlib import Path
from string import ascii_lowercase

import pytest
from builders import read_lines, write_lines
from commands import cli
from PIL import Image

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A whole Stable Diffusion, of 8 numbers wide and one layer deep, that reads letters."""
    diffusers = pytest.importorskip("diffusers")
    import torch
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

    torch.manual_seed(0)
    folder = tmp_path / "tiny"
    folder.mkdir()
    words = ["<|startoftext|>", "<|endoftext|>", *ascii_lowercase, *(f"{letter}</w>" for letter in ascii_lowercase)]
    (folder / "vocab.json").write_text(json.dumps({word: at for at, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    text = CLIPTextConfig(
        vocab_size=len(words), hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2,
        projection_dim=8, bos_token_id=0, eos_token_id=1, pad_token_id=1,
    )  # fmt: skip
    unet = diffusers.UNet2DConditionModel(
        sample_size=8, block_out_channels=(8,), layers_per_block=1, norm_num_groups=4, cross_attention_dim=8,
        down_block_types=("CrossAttnDownBlock2D",), up_block_types=("CrossAttnUpBlock2D",), attention_head_dim=4,
    )  # fmt: skip
    pipeline = diffusers.StableDiffusionPipeline(
        vae=diffusers.AutoencoderKL(block_out_channels=(8,), norm_num_groups=4),
        text_encoder=CLIPTextModel(text),
        tokenizer=CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=77),
        unet=unet, scheduler=diffusers.DDIMScheduler(), safety_checker=None, feature_extractor=None,
        requires_safety_checker=False,
    )  # fmt: skip
    pipeline.save_pretrained(folder)
    return folder


def test_a_seed_is_an_image(tiny: Path, tmp_path: Path) -> None:
    seeds = (3, 4, 3)
    wanted = [{"prompt": "a cat", "image": f"{{generator}}/{k}.png", "seed": seed} for k, seed in enumerate(seeds)]
    write_lines(tmp_path / "todo.jsonl", *wanted)
    model = ("generate", "todo.jsonl", "--model", f"diffusers/{tiny}", "--out", "out")
    options = [part for option in ("num_inference_steps=1", "height=16", "width=24") for part in ("--option", option)]
    assert "3 images made" in cli(tmp_path, *model, *options)
    images = [(tmp_path / "out" / "tiny" / f"{k}.png").read_bytes() for k in range(3)]
    assert images[0] == images[2] != images[1]
    with Image.open(tmp_path / "out" / "tiny" / "0.png") as image:
        assert image.size == (24, 16)
    lines = read_lines(tmp_path / "out" / "metadata.jsonl")
    assert lines[0]["made_with"]["options"] == {"num_inference_steps": 1, "height": 16, "width": 24}
    assert lines[0]["generator"] == "tiny"
    assert "Did you mean 'num_inference_steps'" in cli(tmp_path, *model, "--option", "num_inference_step=1", code=2)
    assert "must be a torch type" in cli(tmp_path, *model, "--option", "dtype=half16", code=2)
    said = cli(tmp_path, "generate", "todo.jsonl", "--model", "diffusers/./nowhere", "--out", "out", code=2)
    assert "diffusers/./nowhere cannot be loaded" in said


def test_a_pipeline_of_edits_gets_the_source_and_one_that_makes_none_refuses_it(tiny: Path, tmp_path: Path) -> None:
    Image.new("RGBA", (16, 16), "red").save(tmp_path / "s.png")
    line = {"prompt": "a cat", "image": "{generator}/0.png", "source_image": "s.png"}
    (tmp_path / "todo.jsonl").write_text(json.dumps(line) + "\n")
    options = ("--option", "num_inference_steps=2", "--option", "strength=0.5")
    model = ("generate", "todo.jsonl", "--model", f"diffusers/{tiny}", "--out", "out")
    assert "tiny cannot use source images" in cli(tmp_path, *model, *options[:2], code=2)
    index = json.loads((tiny / "model_index.json").read_text())
    (tiny / "model_index.json").write_text(json.dumps({**index, "_class_name": "StableDiffusionImg2ImgPipeline"}))
    assert "1 images made" in cli(tmp_path, *model, *options)
