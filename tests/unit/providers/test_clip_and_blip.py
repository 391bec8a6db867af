"""CLIPScore, PickScore and HPSv2 on tiny random weights: the three dialects, the cut that keeps its end, the renames."""

import asyncio
import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models

from titjudge.core.errors import ConfigError, Unanswered, UserError
from titjudge.core.types import FailureKind, ImageFile, Message, Request
from titjudge.data.learned_metrics import TABLE
from titjudge.providers import ProviderSettings
from titjudge.providers.learned import clip_and_blip, state_dicts
from titjudge.providers.learned.provider import Scorer

pytestmark = pytest.mark.slow  # many in all, each of them short


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.clip(tmp_path_factory.mktemp("clip"))


def score(key: str, pairs: Sequence[tuple[ImageFile, str]], **options: Any) -> list[dict[str, Any]]:
    provider = Scorer(ProviderSettings(key, options={"device": "cpu", **options}))

    async def run() -> list[Any]:
        try:
            requests = [Request("scorer", key, (Message("user", pair),)) for pair in pairs]
            return await asyncio.gather(*map(provider.complete, requests))
        finally:
            await provider.aclose()

    return [json.loads(reply.text) for reply in asyncio.run(run())]


def cosine(folder: Path, shown: ImageFile, text: str) -> float:
    """The cosine as transformers' own processor and model give it for one picture and one text."""
    import torch
    from PIL import Image
    from transformers import AutoTokenizer, CLIPImageProcessorPil, CLIPModel

    tokens = AutoTokenizer.from_pretrained(folder)([text], return_tensors="pt", truncation=True, max_length=77)
    image = Image.open(io.BytesIO(shown.load())).convert("RGB")
    pixels = CLIPImageProcessorPil.from_pretrained(folder)(image, return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        out = CLIPModel.from_pretrained(folder).eval()(**tokens, pixel_values=pixels)
    return float((out.image_embeds * out.text_embeds).sum())


def test_three_dialects_of_clipscore(clip: Path) -> None:
    """torchmetrics 100 cos; t2v-metrics cos; Hessel 2.5 max(cos, 0) with a prefix."""
    pairs = [(tiny_models.image_file(seed=n), text) for n, text in enumerate(("a red cube", "two dogs", "no", "blue"))]
    plain = [cosine(clip, *pair) for pair in pairs]
    prefixed = [cosine(clip, shown, f"A photo depicts {text}") for shown, text in pairs]
    assert min(plain) < 0 < max(plain)
    found = {key: score(key, pairs, weights=clip) for key in TABLE if key.startswith("clipscore")}
    assert [each["score"] for each in found["clipscore-cosine"]] == pytest.approx(plain, abs=1e-6)
    assert [each["score"] for each in found["clipscore-torchmetrics"]] == pytest.approx(
        [100 * c for c in plain], abs=1e-4
    )
    hessel = [2.5 * max(c, 0) for c in prefixed]
    assert [each["score"] for each in found["clipscore-hessel"]] == pytest.approx(hessel, abs=1e-5)
    assert [each["parts"]["cosine"] for each in found["clipscore-hessel"]] == pytest.approx(prefixed, abs=1e-6)


def test_pickscore_is_scaled_by_the_learned_temperature(clip: Path) -> None:
    import torch
    from transformers import CLIPModel

    scale = float(torch.exp(CLIPModel.from_pretrained(clip).logit_scale.detach()))
    shown = tiny_models.image_file()
    (found,) = score("pickscore", [(shown, "a red cube")], weights=clip)
    assert scale > 2
    assert found["score"] == pytest.approx(scale * cosine(clip, shown, "a red cube"), rel=1e-5)


@pytest.mark.parametrize("key", ["clipscore-hessel", "clipscore-torchmetrics", "clipscore-cosine", "pickscore"])
def test_a_long_prompt_is_cut_with_its_end_token_and_counted(clip: Path, key: str) -> None:
    """torchmetrics loses the end token at 77 and gives every longer prompt the same vector."""
    shown, one, other = tiny_models.image_file(), "abcdefghij" * 12, "jihgfedcba" * 12
    found = score(key, [(shown, one), (shown, one + " tail"), (shown, other), (shown, "short")], weights=clip)
    first, tail, different, short = found
    assert first["parts"]["cosine"] == pytest.approx(tail["parts"]["cosine"], abs=1e-6)
    assert abs(first["parts"]["cosine"] - different["parts"]["cosine"]) > 1e-3
    assert first["tokens_used"] == tail["tokens_used"] == 77 < first["tokens_total"] < tail["tokens_total"]
    assert short["tokens_used"] == short["tokens_total"]


READ_AS_OPENAI = ["clipscore-hessel", "clipscore-cosine", "longclip", "hpsv2", "hpsv2.1"]
DIRTY = "a “red” cube &amp;amp; ｔｗｏ dogs"
CLEAN = 'a "red" cube & two dogs'


def test_texts_are_cleaned_where_the_source_cleans_them(clip: Path) -> None:
    """OpenAI's CLIP and open_clip mend characters and resolve entities twice; those built on transformers do not."""
    assert clip_and_blip.cleaned(f" {DIRTY}\n") == CLEAN
    assert {key for key, row in TABLE.items() if row.options.get("clean")} == set(READ_AS_OPENAI)
    for key in ("clipscore-hessel", "clipscore-cosine"):
        dirty, clean = score(key, [(tiny_models.image_file(), DIRTY), (tiny_models.image_file(), CLEAN)], weights=clip)
        assert dirty["parts"] == pytest.approx(clean["parts"], abs=1e-6)
        assert (dirty["tokens_used"], dirty["tokens_total"]) == (clean["tokens_used"], clean["tokens_total"])
    dirty, clean = score(
        "pickscore", [(tiny_models.image_file(), DIRTY), (tiny_models.image_file(), CLEAN)], weights=clip
    )
    assert abs(dirty["score"] - clean["score"]) > 1e-3


@pytest.mark.parametrize(("width", "height", "corner"), [(59, 56, (2, 0)), (56, 63, (0, 4)), (57, 56, (0, 0))])
def test_the_middle_is_where_the_source_cuts_it(clip: Path, width: int, height: int, corner: tuple[int, int]) -> None:
    """torchvision rounds half of an odd margin to even; transformers rounds it down."""
    from PIL import Image

    noise = np.random.default_rng(3).integers(0, 256, (height, width, 3), dtype=np.uint8)

    def stored(image: Any) -> ImageFile:
        buffer = io.BytesIO()
        image.save(buffer, "PNG")
        raw = buffer.getvalue()
        return ImageFile(hashlib.sha256(raw).hexdigest(), "image/png", *image.size, Path("x.png"), lambda: raw)

    def square(left: int, top: int) -> ImageFile:
        return stored(Image.fromarray(noise[top : top + 56, left : left + 56]))

    whole, floored = stored(Image.fromarray(noise)), ((width - 56) // 2, (height - 56) // 2)
    found = {key: score(key, [(whole, "a")], weights=clip)[0]["score"] for key in ("clipscore-cosine", "pickscore")}
    scale = score("pickscore", [(square(0, 0), "a")], weights=clip)[0]["score"] / cosine(clip, square(0, 0), "a")
    assert found["clipscore-cosine"] == pytest.approx(cosine(clip, square(*corner), "a"), abs=1e-5)
    assert found["pickscore"] / scale == pytest.approx(cosine(clip, square(*floored), "a"), abs=1e-5)
    if corner != floored:
        assert abs(found["clipscore-cosine"] - found["pickscore"] / scale) > 1e-4


def test_longclip_reads_on(tmp_path: Path) -> None:
    folder = tiny_models.clip(tmp_path, positions=248)
    shown, text = tiny_models.image_file(), "abcdefghij" * 12
    one, other = score("longclip", [(shown, text), (shown, text + " tail")], weights=folder)
    assert one["tokens_used"] == one["tokens_total"] > 77
    assert abs(one["score"] - other["score"]) > 1e-5


def test_batch_mates_do_not_matter(clip: Path) -> None:
    pairs = [(tiny_models.image_file(40 + 20 * n, 60, seed=n), "word " * (n + 1)) for n in range(5)]
    together = score("pickscore", pairs, weights=clip)
    alone = [score("pickscore", [pair], weights=clip)[0] for pair in pairs]
    assert [each["score"] for each in together] == pytest.approx([each["score"] for each in alone], abs=1e-4)


def test_grey_and_transparent_pictures(clip: Path) -> None:
    found = score(
        "clipscore-cosine", [(tiny_models.image_file(mode=mode), "a") for mode in ("L", "RGBA")], weights=clip
    )
    assert all(np.isfinite(each["score"]) for each in found)


# -- HPSv2: open_clip's weights and its letterbox ----------------------------------------------------------------------


def reference_text(state: dict[str, Any], ids: Any, heads: int) -> Any:
    """open_clip's text tower written with torch.nn.MultiheadAttention, which is what its names come from."""
    import torch
    from torch.nn import functional as f

    width = state["positional_embedding"].shape[1]
    x = state["token_embedding.weight"][ids] + state["positional_embedding"][: ids.shape[1]]
    mask = torch.full((ids.shape[1], ids.shape[1]), float("-inf")).triu(1)
    x = reference_blocks(state, "transformer", x, heads, mask)
    x = f.layer_norm(x, (width,), state["ln_final.weight"], state["ln_final.bias"])
    x = x[torch.arange(len(x)), ids.argmax(dim=1)] @ state["text_projection"]
    return f.normalize(x, dim=-1)


def reference_image(state: dict[str, Any], pixels: Any, heads: int) -> Any:
    import torch
    from torch.nn import functional as f

    x = f.conv2d(pixels, state["visual.conv1.weight"], stride=state["visual.conv1.weight"].shape[-1])
    x = x.flatten(2).transpose(1, 2)
    x = torch.cat([state["visual.class_embedding"].expand(len(x), 1, -1), x], dim=1)
    x = x + state["visual.positional_embedding"]
    width = (x.shape[-1],)
    x = f.layer_norm(x, width, state["visual.ln_pre.weight"], state["visual.ln_pre.bias"])
    x = reference_blocks(state, "visual.transformer", x, heads, None)
    x = f.layer_norm(x[:, 0], width, state["visual.ln_post.weight"], state["visual.ln_post.bias"])
    return f.normalize(x @ state["visual.proj"], dim=-1)


def reference_blocks(state: dict[str, Any], stem: str, x: Any, heads: int, mask: Any) -> Any:
    import torch
    from torch.nn import functional as f

    width = x.shape[-1]
    for n in range(2):
        here = {name.removeprefix(f"{stem}.resblocks.{n}."): value for name, value in state.items()}
        attention = torch.nn.MultiheadAttention(width, heads, batch_first=True)
        parts = ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
        attention.load_state_dict({name: here[f"attn.{name}"] for name in parts})
        y = f.layer_norm(x, (width,), here["ln_1.weight"], here["ln_1.bias"])
        x = x + attention(y, y, y, need_weights=False, attn_mask=mask)[0]
        y = f.layer_norm(x, (width,), here["ln_2.weight"], here["ln_2.bias"])
        y = f.gelu(f.linear(y, here["mlp.c_fc.weight"], here["mlp.c_fc.bias"]))
        x = x + f.linear(y, here["mlp.c_proj.weight"], here["mlp.c_proj.bias"])
    return x


def open_clip_state(vocabulary: int, width: int = 32, out: int = 16) -> dict[str, Any]:
    """A random state dict under open_clip's names, of the tiny CLIP's shape."""
    import torch

    torch.manual_seed(3)
    state: dict[str, Any] = {
        "positional_embedding": (77, width),
        "text_projection": (width, out),
        "token_embedding.weight": (vocabulary, width),
        "ln_final.weight": (width,),
        "ln_final.bias": (width,),
        "visual.class_embedding": (width,),
        "visual.positional_embedding": (17, width),
        "visual.proj": (width, out),
        "visual.conv1.weight": (width, 3, 14, 14),
    }
    state |= {f"visual.{ln}.{kind}": (width,) for ln in ("ln_pre", "ln_post") for kind in ("weight", "bias")}
    for stem in ("transformer", "visual.transformer"):
        for n in range(2):
            at = f"{stem}.resblocks.{n}"
            state |= {f"{at}.{ln}.{kind}": (width,) for ln in ("ln_1", "ln_2") for kind in ("weight", "bias")}
            shapes = {"attn.in_proj_": (3 * width, width), "attn.out_proj.": (width, width)}
            shapes |= {"mlp.c_fc.": (2 * width, width), "mlp.c_proj.": (width, 2 * width)}
            for name, shape in shapes.items():
                state |= {f"{at}.{name}weight": shape, f"{at}.{name}bias": shape[:1]}
    made = {name: torch.randn(shape) * 0.3 for name, shape in state.items()}
    return {**made, "logit_scale": torch.tensor(4.0), "attn_mask": torch.zeros(77, 77)}


@pytest.fixture(scope="module")
def hps(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(folder of configuration and processor, released file)."""
    import torch

    base = tiny_models.clip(tmp_path_factory.mktemp("base"), hidden_act="gelu")
    file = tmp_path_factory.mktemp("hps") / "HPS_v2.1_compressed.pt"
    torch.save({"state_dict": open_clip_state(len(tiny_models.clip_tokenizer()))}, file)
    return base, file


def test_hpsv2_is_open_clip_under_other_names(hps: tuple[Path, Path]) -> None:
    import torch

    base, file = hps
    state = torch.load(file, weights_only=True)["state_dict"]
    shown, text = tiny_models.image_file(90, 50), "two dogs"
    (found,) = score("hpsv2.1", [(shown, text)], weights=file, base=base)
    from PIL import Image

    pixels = clip_and_blip.letterbox(Image.open(io.BytesIO(shown.load())), 56)[None]
    ids = tiny_models.clip_tokenizer()([text], return_tensors="pt")["input_ids"]
    wanted = float((reference_image(state, pixels, 2) * reference_text(state, ids, 2)).sum().detach())
    assert found["score"] == pytest.approx(wanted, abs=1e-5)


def test_letterbox_keeps_the_whole_picture_and_pads_before_normalising() -> None:
    import torch
    from PIL import Image

    wide = Image.new("RGB", (112, 56), (255, 255, 255))
    made = clip_and_blip.letterbox(wide, 56)
    mean, std = torch.tensor(clip_and_blip._CLIP_MEAN), torch.tensor(clip_and_blip._CLIP_STD)
    assert made.shape == (3, 56, 56)
    assert torch.allclose(made[:, 0, 0], -mean / std)
    assert torch.allclose(made[:, 28, 0], (1 - mean) / std, atol=1e-5)
    noisy = tiny_models.picture(300, 200)
    difference = clip_and_blip.letterbox(noisy, 56) - clip_and_blip.letterbox(noisy, 56, antialias=False)
    assert difference.abs().max() > 0.01


def test_hpsv2_sees_the_edges_that_clip_crops(hps: tuple[Path, Path]) -> None:
    from PIL import Image

    base, file = hps

    def edged(colour: str) -> ImageFile:
        image = Image.new("RGB", (160, 56), "grey")
        image.paste(Image.new("RGB", (30, 56), colour), (0, 0))
        buffer = io.BytesIO()
        image.save(buffer, "PNG")
        raw = buffer.getvalue()
        return ImageFile(hashlib.sha256(raw).hexdigest(), "image/png", 160, 56, Path("x"), lambda: raw)

    pairs = [(edged("red"), "a"), (edged("blue"), "a")]
    red, blue = score("hpsv2.1", pairs, weights=file, base=base)
    assert abs(red["score"] - blue["score"]) > 1e-4
    red, blue = score("clipscore-cosine", pairs, weights=base)
    assert red["score"] == pytest.approx(blue["score"], abs=1e-6)


def test_weights_of_another_shape_are_one_line(hps: tuple[Path, Path], tmp_path: Path) -> None:
    import torch

    base, file = hps
    state = torch.load(file, weights_only=True)["state_dict"]
    state.pop("visual.ln_post.bias")
    torch.save(state, tmp_path / "HPS.pt")
    with pytest.raises(UserError, match=r"1 missing \(vision_model\.post_layernorm\.bias\)"):
        score("hpsv2.1", [(tiny_models.image_file(), "a")], weights=tmp_path / "HPS.pt", base=base)
    with pytest.raises(UserError, match="1 left over"):
        state_dicts.fill(torch.nn.Linear(1, 1), {**torch.nn.Linear(1, 1).state_dict(), "x": torch.ones(1)}, "m")


def test_a_pickle_with_code_is_refused(hps: tuple[Path, Path], tmp_path: Path) -> None:
    import torch

    class Evil:
        def __reduce__(self) -> tuple[Any, tuple[Path]]:
            return (Path.touch, (tmp_path / "ran",))

    torch.save({"state_dict": Evil()}, tmp_path / "HPS.pt")
    with pytest.raises(UserError, match="pickle"):
        score("hpsv2.1", [(tiny_models.image_file(), "a")], weights=tmp_path / "HPS.pt", base=hps[0])
    assert not (tmp_path / "ran").exists()


# -- the provider ------------------------------------------------------------------------------------------------------


def test_names_are_checked() -> None:
    with pytest.raises(ConfigError, match="pickscore"):
        Scorer(ProviderSettings("pickscor"))
    with pytest.raises(ConfigError, match="external/lmm4lmm"):
        Scorer(ProviderSettings("lmm4lmm"))
    with pytest.raises(ConfigError, match="weigths"):
        Scorer(ProviderSettings("pickscore", options={"weigths": "x"}))


def test_no_weights_is_one_line() -> None:
    with pytest.raises(UserError, match=r"PickScore_v1.*HF_HUB_OFFLINE"):
        score("pickscore", [(tiny_models.image_file(), "a")])
    with pytest.raises(UserError, match="no weights of 'pickscore'"):
        score("pickscore", [(tiny_models.image_file(), "a")], weights="./none")


def test_a_folder_named_by_the_environment(clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pickscore").symlink_to(clip)
    monkeypatch.setenv("TITJUDGE_WEIGHTS", str(tmp_path))
    (found,) = score("pickscore", [(tiny_models.image_file(), "a")])
    assert found["score"] == pytest.approx(
        score("pickscore", [(tiny_models.image_file(), "a")], weights=clip)[0]["score"]
    )


def test_the_cache_key_holds_the_weights(clip: Path, tmp_path: Path) -> None:
    other = tiny_models.clip(tmp_path, hidden_act="gelu")
    urls = {
        Scorer(ProviderSettings("pickscore", options=options)).base_url
        for options in ({}, {"weights": clip}, {"weights": other}, {"weights": clip, "dtype": "bfloat16"})
    }
    assert len(urls) == 4


def test_not_a_number_is_a_failure(clip: Path) -> None:
    provider = Scorer(ProviderSettings("pickscore", options={"weights": clip, "device": "cpu"}))
    assert isinstance(provider._reply(clip_and_blip.measured(float("nan"), (1, 1))), ArithmeticError)
    assert provider.classify(ArithmeticError("x")).kind is FailureKind.REJECTED


def test_a_bad_picture_fails_alone(clip: Path) -> None:
    broken = ImageFile("0" * 64, "image/png", 4, 4, Path("x.png"), lambda: b"not a picture")
    provider = Scorer(ProviderSettings("pickscore", options={"weights": clip, "device": "cpu"}))

    async def run() -> list[Any]:
        requests = [
            Request("scorer", "pickscore", (Message("user", (shown, "a")),))
            for shown in (tiny_models.image_file(), broken)
        ]
        requests.append(Request("scorer", "pickscore", (Message("user", ("a",)),)))
        try:
            return await asyncio.gather(*map(provider.complete, requests), return_exceptions=True)
        finally:
            await provider.aclose()

    good, bad, none = asyncio.run(run())
    assert json.loads(good.text)["tokens_used"] == 3
    assert isinstance(bad, Unanswered)
    assert isinstance(none, Unanswered)
