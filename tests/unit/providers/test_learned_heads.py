"""BLIP-2, FGA-BLIP2, ImageReward and VQAScore on tiny random weights: formulas written out, and every silent trap."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import tiny_models
from learned_prompts import learned_prompt
from test_clip_and_blip import score

from titjudge.core.errors import UserError
from titjudge.core.types import ImageFile
from titjudge.data.learned_metrics import TABLE
from titjudge.providers.learned import clip_and_blip, vqascore
from titjudge.providers.learned.base import ModelCheckpoint

pytestmark = pytest.mark.slow  # many in all, each of them short

PROMPTS = ["a red cube on the left", "two dogs", "no"]


def opened(shown: ImageFile) -> Any:
    from PIL import Image

    return Image.open(io.BytesIO(shown.load())).convert("RGB")


@pytest.fixture(scope="module")
def blip2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.blip2(tmp_path_factory.mktemp("blip2"))


def logits(folder: Path, shown: ImageFile, text: str, length: int = 35) -> Any:
    """Matching logits of each query, shape (queries, 2), from the parts of the model."""
    import torch
    from transformers import AutoTokenizer, Blip2ForImageTextRetrieval, BlipImageProcessorPil

    model = Blip2ForImageTextRetrieval.from_pretrained(folder).eval()
    tokens = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt", truncation=True, max_length=length)
    pixels = BlipImageProcessorPil.from_pretrained(folder)(opened(shown), return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        seen = model.vision_model(pixels).last_hidden_state
        joined = model.embeddings(input_ids=tokens["input_ids"], query_embeds=model.query_tokens)
        mask = torch.ones(1, joined.shape[1], dtype=torch.long)
        states = model.qformer(
            query_embeds=joined,
            query_length=4,
            attention_mask=mask,
            encoder_hidden_states=seen,
            encoder_attention_mask=torch.ones(1, seen.shape[1], dtype=torch.long),
        ).last_hidden_state
        return model.itm_head(states[0, :4])


def test_itm_is_the_softmax_of_the_mean_logits(blip2: Path) -> None:
    """One softmax, not the two of transformers' docstring; the logit difference survives saturation."""
    import torch

    pairs = [(tiny_models.image_file(seed=n), text) for n, text in enumerate(PROMPTS)]
    for pair, found in zip(pairs, score("blip2-itm", pairs, weights=blip2), strict=True):
        mean = logits(blip2, *pair).mean(dim=0)
        assert found["score"] == pytest.approx(float(torch.softmax(mean, dim=0)[1]), abs=1e-5)
        assert found["parts"]["logit"] == pytest.approx(float(mean[1] - mean[0]), abs=1e-4)


def test_an_image_token_index_does_not_eat_the_text(blip2: Path, tmp_path: Path) -> None:
    """With one in config.json, forward() drops the first `num_query_tokens` ids of a plainly tokenised text."""
    import shutil

    folder = Path(shutil.copytree(blip2, tmp_path / "indexed"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "image_token_index": 3}))
    pairs = [(tiny_models.image_file(), "a red cube")]
    for key in ("blip2-itm", "blip2-itc"):
        plain, indexed = (score(key, pairs, weights=each)[0]["score"] for each in (blip2, folder))
        assert indexed == pytest.approx(plain, abs=1e-6)


def test_itc_is_the_best_cosine_over_the_queries(blip2: Path) -> None:
    import torch
    from torch.nn.functional import normalize
    from transformers import AutoTokenizer, Blip2ForImageTextRetrieval, BlipImageProcessorPil

    pairs = [(tiny_models.image_file(seed=n), text) for n, text in enumerate(PROMPTS)]
    found = score("blip2-itc", pairs, weights=blip2)
    model = Blip2ForImageTextRetrieval.from_pretrained(blip2).eval()
    tokenizer, images = AutoTokenizer.from_pretrained(blip2), BlipImageProcessorPil.from_pretrained(blip2)
    for (shown, text), each in zip(pairs, found, strict=True):
        tokens = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            seen = model.vision_model(images(opened(shown), return_tensors="pt")["pixel_values"]).last_hidden_state
            queries = model.qformer(query_embeds=model.query_tokens, encoder_hidden_states=seen).last_hidden_state
            words = model.qformer(
                query_embeds=model.embeddings(input_ids=tokens["input_ids"]),
                query_length=0,
                attention_mask=tokens["attention_mask"],
            ).last_hidden_state
            left = normalize(model.vision_projection(queries[0]), dim=-1)
            right = normalize(model.text_projection(words[0, 0]), dim=-1)
        assert each["score"] == pytest.approx(float((left @ right).max()), abs=1e-5)
        assert -1 <= each["score"] <= 1


def test_long_texts_are_cut_at_35_and_counted(blip2: Path) -> None:
    text = "abcdefghij" * 5
    one, tail = score(
        "blip2-itm", [(tiny_models.image_file(), text), (tiny_models.image_file(), text + "zzz")], weights=blip2
    )
    assert one["score"] == pytest.approx(tail["score"], abs=1e-6)
    assert (one["tokens_used"], one["tokens_total"], tail["tokens_total"]) == (35, 52, 55)


def test_batch_mates_and_padding_do_not_matter(blip2: Path) -> None:
    pairs = [(tiny_models.image_file(seed=n), "ab " * (n + 1)) for n in range(4)]
    for key in ("blip2-itm", "blip2-itc"):
        together = [each["score"] for each in score(key, pairs, weights=blip2)]
        alone = [score(key, [pair], weights=blip2)[0]["score"] for pair in pairs]
        assert together == pytest.approx(alone, abs=1e-5)


# -- FGA-BLIP2 ---------------------------------------------------------------------------------------------------------


def lavis_state(folder: Path) -> dict[str, Any]:
    """The tiny BLIP-2's weights under LAVIS' names, with what training leaves in the file besides."""
    import torch
    from transformers import Blip2ForImageTextRetrieval

    names = {
        "vision_model.embeddings.class_embedding": "visual_encoder.cls_token",
        "vision_model.embeddings.position_embedding": "visual_encoder.pos_embed",
        "qformer.layernorm": "Qformer.bert.embeddings.LayerNorm",
        "vision_model.post_layernorm": "ln_vision",
        "vision_projection": "vision_proj",
        "text_projection": "text_proj",
    }
    state: dict[str, Any] = {}
    for name, value in Blip2ForImageTextRetrieval.from_pretrained(folder).state_dict().items():
        for new, old in names.items():
            name = name.replace(new, old)
        name = name.replace("vision_model.embeddings.patch_embedding", "visual_encoder.patch_embed.proj")
        name = name.replace("vision_model.encoder.layers", "visual_encoder.blocks").replace("layer_norm", "norm")
        name = name.replace("self_attn.qkv", "attn.qkv").replace("self_attn.projection", "attn.proj")
        if name.startswith("qformer."):
            name = name.replace("qformer.", "Qformer.bert.", 1).replace("attention.attention.", "attention.self.")
        if name.startswith("embeddings."):
            name = f"Qformer.bert.{name}"
        if name.endswith("attn.qkv.bias"):
            q, _, v = value.chunk(3)
            state[name.replace("qkv.bias", "q_bias")], state[name.replace("qkv.bias", "v_bias")] = q, v
        else:
            state[name] = value.clone()
    state["Qformer.cls.predictions.bias"], state["mask_proj.weight"] = torch.ones(3), torch.ones(2, 2)
    state["Qformer.bert.embeddings.position_ids"] = torch.arange(4)[None]
    return state


@pytest.fixture(scope="module")
def fga(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(base folder without key biases, which LAVIS does not have; released file)."""
    import torch
    from transformers import Blip2ForImageTextRetrieval

    base = tiny_models.blip2(tmp_path_factory.mktemp("base"))
    model = Blip2ForImageTextRetrieval.from_pretrained(base)
    for layer in model.vision_model.encoder.layers:
        layer.self_attn.qkv.bias.data[32:64] = 0
    model.save_pretrained(base)
    file = tmp_path_factory.mktemp("fga") / "fga_blip2.pth"
    torch.save({"model": lavis_state(base)}, file)
    return base, file


def test_fga_averages_probabilities_not_logits(fga: tuple[Path, Path]) -> None:
    """4 * mean(softmax)[1] + 1; with BLIP-2's mean of logits first it would be another number."""
    import torch

    base, file = fga
    pair = (
        tiny_models.image_file(),
        "a red cube and many more things than two dogs",
    )  # more than 32 word pieces: forward() would cut
    (found,) = score("fga-blip2", [pair], weights=file, base=base)
    each = logits(base, *pair, length=512)
    assert found["score"] == pytest.approx(float(4 * torch.softmax(each, dim=-1)[:, 1].mean() + 1), abs=1e-3)
    (itm,) = score("blip2-itm", [pair], weights=base)
    assert abs(found["score"] - (4 * itm["score"] + 1)) > 1e-3
    assert 1 <= found["score"] <= 5


def test_fga_reads_fifty_words_in_lower_case_without_signs(fga: tuple[Path, Path]) -> None:
    assert clip_and_blip.caption('A "Red" cube!\n(left);  blue~') == "a red cube left blue"
    assert len(clip_and_blip.caption("word " * 80).split()) == 50
    base, file = fga
    loud, plain = score(
        "fga-blip2",
        [(tiny_models.image_file(), "A RED cube!"), (tiny_models.image_file(), "a red cube")],
        weights=file,
        base=base,
    )
    assert loud["score"] == pytest.approx(plain["score"], abs=1e-6)
    (long,) = score("fga-blip2", [(tiny_models.image_file(), "ab " * 60)], weights=file, base=base)
    assert (long["tokens_used"], long["tokens_total"]) == (102, 122)


def element_scores(source: tuple[Path, Path], text: str, elements: list[str]) -> dict[str, float]:
    import asyncio

    from titjudge.core.types import Message, Request
    from titjudge.providers import ProviderSettings
    from titjudge.providers.learned.provider import Scorer

    provider = Scorer(ProviderSettings("fga-blip2", options={"device": "cpu", "weights": source[1], "base": source[0]}))

    async def run() -> Any:
        turns = (Message("system", (json.dumps(elements),)), Message("user", (tiny_models.image_file(), text)))
        plain = Request("scorer", "fga-blip2", (Message("user", (tiny_models.image_file(seed=1), "two dogs")),))
        try:
            return await asyncio.gather(
                provider.complete(Request("scorer", "fga-blip2", turns)), provider.complete(plain)
            )
        finally:
            await provider.aclose()

    asked, plain = (json.loads(reply.text) for reply in asyncio.run(run()))
    assert not [name for name in plain["parts"] if name.startswith("element")]
    (alone,) = score("fga-blip2", [(tiny_models.image_file(), text)], weights=source[1], base=source[0])
    assert asked["score"] == pytest.approx(alone["score"], abs=1e-5)  # elements do not change the score
    return {name: value for name, value in asked["parts"].items() if name.startswith("element: ")}


def test_fga_scores_an_element_by_its_tokens_in_the_prompt(fga: tuple[Path, Path]) -> None:
    """The matching head on the text's own tokens, averaged over the element's; not found is no score (upstream: 0)."""
    import torch
    from transformers import AutoTokenizer, Blip2ForImageTextRetrieval, BlipImageProcessorPil

    base, _ = fga
    text, elements = "A red cube, two dogs", ["Red Cube", "dogs", "cat", "cube two", "a red cat"]
    found = element_scores(fga, text, elements)
    assert set(found) == {"element: Red Cube", "element: dogs"}  # "cube , two" has a sign between
    model = Blip2ForImageTextRetrieval.from_pretrained(base).eval()
    model.vision_model.post_layernorm.eps = 1e-5
    tok = AutoTokenizer.from_pretrained(base)
    ids = tok("a red cube, two dogs", return_tensors="pt")["input_ids"]
    pixels = BlipImageProcessorPil.from_pretrained(base)(opened(tiny_models.image_file()), return_tensors="pt")[
        "pixel_values"
    ]
    with torch.no_grad():
        seen = model.vision_model(pixels).last_hidden_state
        joined = model.embeddings(input_ids=ids, query_embeds=model.query_tokens)
        states = model.qformer(
            query_embeds=joined,
            query_length=4,
            attention_mask=torch.ones(1, joined.shape[1], dtype=torch.long),
            encoder_hidden_states=seen,
            encoder_attention_mask=torch.ones(1, seen.shape[1], dtype=torch.long),
        ).last_hidden_state[0, 4:]
        alike = model.itm_head(states).softmax(-1)[:, 1]
    pieces = tok.convert_ids_to_tokens(ids[0].tolist())
    dogs = pieces.index("d")  # one letter a piece
    assert found["element: dogs"] == pytest.approx(float(alike[dogs : dogs + 4].mean()), abs=1e-4)
    red = pieces.index("r")
    assert found["element: Red Cube"] == pytest.approx(float(alike[red : red + 7].mean()), abs=1e-4)


def test_an_element_beyond_what_is_read_has_no_score(fga: tuple[Path, Path]) -> None:
    found = element_scores(fga, "ab " * 49 + "cube dogs", ["ab", "cube", "dogs"])
    assert set(found) == {"element: ab", "element: cube"}


# -- ImageReward -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reward(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[Any]]:
    """(base folder, released file, the MLP's layers)."""
    import torch
    from transformers import BlipForImageTextRetrieval

    base = tiny_models.blip(tmp_path_factory.mktemp("base"))
    state: dict[str, Any] = {}
    for name, value in BlipForImageTextRetrieval.from_pretrained(base).state_dict().items():
        if name.startswith("itm_head."):
            continue
        for new, old in (
            ("vision_model.embeddings.class_embedding", "visual_encoder.cls_token"),
            ("vision_model.embeddings.position_embedding", "visual_encoder.pos_embed"),
            ("vision_model.embeddings.patch_embedding", "visual_encoder.patch_embed.proj"),
            ("vision_model.post_layernorm", "visual_encoder.norm"),
            ("vision_model.encoder.layers", "visual_encoder.blocks"),
            ("self_attn.qkv", "attn.qkv"),
            ("self_attn.projection", "attn.proj"),
        ):
            name = name.replace(new, old)
        if name.startswith("visual_encoder."):
            name = name.replace("layer_norm", "norm")
        state[f"blip.{name}"] = value.clone()
    state["blip.text_encoder.embeddings.position_ids"] = torch.arange(4)[None]
    torch.manual_seed(2)
    layers = [torch.nn.Linear(a, b) for a, b in ((32, 16), (16, 8), (8, 4), (4, 2), (2, 1))]
    for number, layer in zip((0, 2, 4, 6, 7), layers, strict=True):
        state[f"mlp.layers.{number}.weight"], state[f"mlp.layers.{number}.bias"] = layer.weight.data, layer.bias.data
    file = tmp_path_factory.mktemp("reward") / "ImageReward.pt"
    torch.save(state, file)
    return base, file, layers


def test_image_reward_is_a_linear_readout_of_cls_standardised(reward: tuple[Path, Path, list[Any]]) -> None:
    import torch
    from transformers import AutoTokenizer, BlipForImageTextRetrieval, CLIPImageProcessorPil

    base, file, layers = reward
    pairs = [(tiny_models.image_file(90 + n, 70, seed=n), text) for n, text in enumerate(PROMPTS)]
    found = score("imagereward", pairs, weights=file, base=base)
    model = BlipForImageTextRetrieval.from_pretrained(base).eval()
    assert model.vision_model.post_layernorm.eps == 1e-6
    images = CLIPImageProcessorPil(size={"shortest_edge": 64}, crop_size={"height": 64, "width": 64})
    for (shown, text), each in zip(pairs, found, strict=True):
        tokens = AutoTokenizer.from_pretrained(base)(text, return_tensors="pt", padding="max_length", max_length=35)
        whole = images(opened(shown), return_tensors="pt", do_center_crop=False)["pixel_values"]
        left = round((whole.shape[3] - 64) / 2.0)  # as torchvision cuts
        pixels = whole[:, :, :, left : left + 64]
        with torch.no_grad():
            inputs = {"input_ids": tokens["input_ids"], "attention_mask": tokens["attention_mask"]}
            value = model(pixel_values=pixels, **inputs).question_embeds[:, 0]
            for layer in layers:
                value = layer(value)
        wanted = (float(value) - 0.16717362830052426) / 1.0333394966054072
        assert each["score"] == pytest.approx(wanted, abs=1e-5)


def test_image_reward_shape_has_the_small_epsilon() -> None:
    source = ModelCheckpoint("w", "", "bert-base-uncased", "", None, "float32", "cpu")
    config = clip_and_blip._blip_config(source)
    assert config.vision_config.layer_norm_eps == 1e-6
    assert config.text_config.encoder_hidden_size == config.vision_config.hidden_size == 1024


# -- VQAScore ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def flan(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return tiny_models.clip_flant5(tmp_path_factory.mktemp("flan"))


def by_hand(folders: tuple[Path, Path], shown: ImageFile, text: str, limit: int = 2048) -> tuple[float, float]:
    """(P(Yes), P(end | Yes)) from the parts, one decoder step after the other."""
    import torch
    from safetensors.torch import load_file
    from transformers import CLIPImageProcessorPil, CLIPVisionModel, T5Config, T5ForConditionalGeneration

    main, tower = folders
    tok = tiny_models.t5_tokenizer()
    state = load_file(main / "model.safetensors")
    config = T5Config.from_pretrained(main)
    config.scale_decoder_outputs = False
    model = T5ForConditionalGeneration.from_pretrained(main, config=config).eval()
    assert torch.equal(model.lm_head.weight, state["lm_head.weight"])
    template = learned_prompt("vqascore-clip-flant5-xl", text)
    before, after = template.split("<image>")
    square = vqascore.padded(opened(shown), (122, 116, 104))
    pixels = CLIPImageProcessorPil.from_pretrained(tower)(square, return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        seen = CLIPVisionModel.from_pretrained(tower).eval()(pixels, output_hidden_states=True).hidden_states[-2][:, 1:]
        seen = torch.nn.functional.gelu(seen @ state["mm_projector.0.weight"].T + state["mm_projector.0.bias"])
        seen = seen @ state["mm_projector.2.weight"].T + state["mm_projector.2.bias"]
        head = tok(before)["input_ids"]
        tail = tok(after, verbose=False)["input_ids"][
            : limit - len(head) - 1
        ]  # the picture is one token when it is cut
        parts = [model.shared(torch.tensor([each])) for each in (head, tail)]
        embeds = torch.cat([parts[0], seen, parts[1]], dim=1)
        yes, end = tok("Yes")["input_ids"]
        first, last = (
            model(inputs_embeds=embeds, decoder_input_ids=torch.tensor([[0, *before]]))
            .logits[0, -1, : len(tok)]
            .softmax(-1)
            for before in ([], [yes])
        )
    return float(first[yes]), float(last[end])


def test_vqascore_is_the_geometric_mean_of_yes_and_end(flan: tuple[Path, Path]) -> None:
    """exp(-mean CE) over two label tokens; P(Yes) alone is another number."""
    main, tower = flan
    pairs = [(tiny_models.image_file(90, 60, seed=n), text) for n, text in enumerate(PROMPTS)]
    found = score("vqascore-clip-flant5-xl", pairs, weights=main, base=tower, dtype="float32")
    for pair, each in zip(pairs, found, strict=True):
        yes, end = by_hand(flan, *pair)
        assert each["score"] == pytest.approx((yes * end) ** 0.5, rel=1e-3)
        assert abs(each["score"] - yes) > 1e-3 * yes
        assert each["parts"]["answer"] == pytest.approx(yes, rel=1e-3)
    alone = [
        score("vqascore-clip-flant5-xl", [pair], weights=main, base=tower, dtype="float32")[0]["score"]
        for pair in pairs
    ]
    assert [each["score"] for each in found] == pytest.approx(alone, rel=1e-4)


def test_the_text_is_cut_where_the_picture_is_one_token_still(
    flan: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    row = dataclasses.replace(TABLE["vqascore-clip-flant5-xl"], tokens=300)
    monkeypatch.setattr("titjudge.data.learned_metrics.TABLE", {**TABLE, row.key: row})
    pair = (tiny_models.image_file(90, 60), "ab " * 40)
    (found,) = score(row.key, [pair], weights=flan[0], base=flan[1], dtype="float32")
    assert found["tokens_used"] < found["tokens_total"]
    yes, end = by_hand(flan, *pair, limit=300)
    assert found["score"] == pytest.approx((yes * end) ** 0.5, rel=1e-4)


def test_the_label_is_two_tokens_and_both_halves_end(flan: tuple[Path, Path]) -> None:
    tok = tiny_models.t5_tokenizer()
    assert tok("Yes")["input_ids"] == [tok.convert_tokens_to_ids("▁Yes"), tok.eos_token_id]
    before, after = learned_prompt("vqascore-clip-flant5-xl").split("<image>")
    assert all(tok(each)["input_ids"][-1] == tok.eos_token_id for each in (before, after))


def test_the_released_layout_loads(flan: tuple[Path, Path], tmp_path: Path) -> None:
    """Shards of pytorch_model.bin with an index, and beside them training_args.bin: a pickle that is no weights."""
    import argparse
    import shutil

    import torch
    from safetensors.torch import load_file

    main = Path(shutil.copytree(flan[0], tmp_path / "released", ignore=shutil.ignore_patterns("*.safetensors")))
    state = load_file(flan[0] / "model.safetensors")
    shards: dict[str, dict[str, Any]] = {f"pytorch_model-0000{n}-of-00002.bin": {} for n in (1, 2)}
    for name, value in state.items():
        shards[f"pytorch_model-0000{1 + ('mm_projector.2' in name)}-of-00002.bin"][name] = value
    for name, part in shards.items():
        torch.save(part, main / name)
    parts = {parameter: name for name, part in shards.items() for parameter in part}
    index = {"metadata": {"total_size": 1}, "weight_map": parts}
    (main / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    torch.save(argparse.Namespace(learning_rate=1.0), main / "training_args.bin")
    pair = (tiny_models.image_file(90, 60), PROMPTS[0])
    found, wanted = (
        score("vqascore-clip-flant5-xl", [pair], weights=each, base=flan[1])[0] for each in (main, flan[0])
    )
    assert found == wanted


def test_a_tied_output_layer_is_refused(flan: tuple[Path, Path], tmp_path: Path) -> None:
    """transformers 5 ties T5's layers when the file lacks one: the score would be of another model."""
    import shutil

    from safetensors.torch import load_file, save_file

    main = Path(shutil.copytree(flan[0], tmp_path / "tied"))
    state = load_file(main / "model.safetensors")
    del state["lm_head.weight"]
    save_file(state, main / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match="output layer"):
        score("vqascore-clip-flant5-xl", [(tiny_models.image_file(), "a")], weights=main, base=flan[1])


def test_a_plain_t5_is_refused(flan: tuple[Path, Path], tmp_path: Path) -> None:
    import shutil

    from safetensors.torch import load_file, save_file

    main = Path(shutil.copytree(flan[0], tmp_path / "plain"))
    state = {name: value for name, value in load_file(main / "model.safetensors").items() if "projector" not in name}
    save_file(state, main / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match="mm_projector"):
        score("vqascore-clip-flant5-xl", [(tiny_models.image_file(), "a")], weights=main, base=flan[1])


def test_a_prompt_with_braces_is_text(flan: tuple[Path, Path]) -> None:
    (found,) = score(
        "vqascore-clip-flant5-xl", [(tiny_models.image_file(), "a {0} sign {x}")], weights=flan[0], base=flan[1]
    )
    assert 0 < found["score"] < 1


def test_vqascore_of_a_chat_model_is_the_chance_of_its_first_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    import torch
    from transformers import AutoModelForImageTextToText

    from titjudge.data import learned_metrics
    from titjudge.providers.local.loading import load_processor

    folder = tiny_models.qwen25_vl(tmp_path)
    row = learned_metrics.TABLE["vqascore-qwen2.5-vl-7b"]
    with pytest.raises(UserError, match="must be one"):
        score(row.key, [(tiny_models.image_file(), "a")], weights=folder)
    short = dataclasses.replace(row, options={**row.options, "answer": "Y"})
    monkeypatch.setattr("titjudge.data.learned_metrics.TABLE", {**learned_metrics.TABLE, row.key: short})
    pairs = [(tiny_models.image_file(60 + 30 * n, 60, seed=n), text) for n, text in enumerate(PROMPTS)]
    found = score(row.key, pairs, weights=folder, dtype="float32")
    processor = load_processor(str(folder))
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    (yes,) = processor.tokenizer("Y")["input_ids"]
    for (shown, text), each in zip(pairs, found, strict=True):
        question = f'Does this figure show "{text}"? Please answer Yes or No.'
        content = [{"type": "image", "image": opened(shown)}, {"type": "text", "text": question}]
        inputs = processor.apply_chat_template(
            [{"role": "user", "content": content}],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
        )
        made = model.generate(
            **inputs, max_new_tokens=1, do_sample=False, output_logits=True, return_dict_in_generate=True
        )
        assert each["score"] == pytest.approx(float(made.logits[0][0].softmax(-1)[yes]), rel=1e-3)
