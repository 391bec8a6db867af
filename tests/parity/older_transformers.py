"""Runs official code that needs transformers before 5, in an interpreter that has one: `python older_transformers.py KIND CHECKOUT FOLDER`.

KIND is imagereward, blip2, fga, hpsv3, editreward or flant5. FOLDER holds `bert-base-uncased/vocab.txt` and `pairs.json`,
[[image file, text], ...]; for fga also `elements.json`, the elements of each text. The official classes are made in a tiny
size with random weights; `weights.pth`, as they are released, and `scores.json` are written there (hpsv3 and flant5: also the
folders that their loaders read).
Nothing of titjudge is imported. Where a package is missing, the last line on stderr says which (exit code 3).
"""

import importlib
import importlib.machinery
import json
import os
import sys
import types
from functools import partial
from pathlib import Path

HIDDEN = 32
ENDS = ("<|im_end|>", "<|endoftext|>")


def packages(root: Path, *names: str) -> None:
    """Packages of a checkout without what their __init__ imports (decord, diffusers, ...)."""
    for name in names:
        made = types.ModuleType(name)
        made.__path__ = [str(root / name.replace(".", "/"))]
        sys.modules[name] = made


def transforms() -> None:
    """Import torchvision; one that was built for another torch lacks operators that no transform needs."""
    import torch

    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        transforms.operators = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            transforms.operators.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        importlib.import_module("torchvision")


def bert(tokens: int) -> dict:
    """Save a tiny BERT where the official code looks for `bert-base-uncased`: in the working folder."""
    from transformers import BertConfig, BertForMaskedLM

    about = {"vocab_size": tokens, "hidden_size": HIDDEN, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(intermediate_size=64, **about)
    BertForMaskedLM(config).save_pretrained("bert-base-uncased", safe_serialization=False)
    return config.to_dict()


def randomised(model, width=0.2):
    """Random values everywhere, so that no bias is zero and no norm the identity."""
    import torch

    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for value in model.parameters():
            value.add_(torch.randn(value.shape, generator=generator) * width)
    return model.eval()


def imagereward(root: Path, pairs: list) -> tuple:
    packages(root, "ImageReward", "ImageReward.models", "ImageReward.models.BLIP")
    ours = importlib.import_module("ImageReward.ImageReward")
    blip, vit = (importlib.import_module(f"ImageReward.models.BLIP.{name}") for name in ("blip_pretrain", "vit"))
    vocabulary = len(Path("bert-base-uncased/vocab.txt").read_text().splitlines())
    config = {**bert(vocabulary), "vocab_size": vocabulary + 2, "add_cross_attention": True, "encoder_width": HIDDEN}
    Path("med_config.json").write_text(json.dumps(config))
    shape = {"patch_size": 16, "embed_dim": HIDDEN, "depth": 2, "num_heads": 2, "mlp_ratio": 2}
    blip.create_vit = lambda kind, size, *rest: (vit.VisionTransformer(img_size=size, **shape), HIDDEN)
    layers = ours.MLP
    ours.MLP = lambda width: layers(HIDDEN)
    model = randomised(ours.ImageReward(med_config="med_config.json"))
    return model.state_dict(), {"imagereward": [model.score(text, image) for image, text in pairs]}


def lavis(root: Path, name: str, **options):
    """Make a BLIP-2 of LAVIS, whose eyes are small; everything else is as it stands in the checkout."""
    import torch

    packages(root, "lavis", "lavis.common", "lavis.models", "lavis.models.blip_models", "lavis.models.blip2_models")
    packages(root, "lavis.processors")
    sys.modules["lavis.processors.randaugment"] = types.ModuleType("randaugment")  # OpenCV, for training alone
    sys.modules["lavis.processors.randaugment"].RandomAugment = None
    bert(len(Path("bert-base-uncased/vocab.txt").read_text().splitlines()))
    for part, name_ in (("models", "BaseModel"), ("processors", "BaseProcessor")):
        inside = importlib.import_module(f"lavis.{part}.base_{part.removesuffix('s')}")
        setattr(sys.modules[f"lavis.{part}"], name_, getattr(inside, name_))
    eva = importlib.import_module("lavis.models.eva_vit")
    base = importlib.import_module("lavis.models.blip2_models.blip2")
    shape = {"patch_size": 14, "embed_dim": HIDDEN, "depth": 2, "num_heads": 2, "mlp_ratio": 2, "qkv_bias": True}
    norm = partial(torch.nn.LayerNorm, eps=1e-6)
    base.create_eva_vit_g = lambda size, *rest: eva.VisionTransformer(
        img_size=size, use_mean_pooling=False, norm_layer=norm, **shape
    )
    kind = getattr(importlib.import_module(f"lavis.models.blip2_models.{name[0]}"), name[1])
    model = kind(img_size=56, vit_precision="fp32", num_query_token=4, embed_dim=16, **options)
    processors = importlib.import_module("lavis.processors.blip_processors")
    return randomised(model), processors.BlipImageEvalProcessor(image_size=56), processors.BlipCaptionProcessor()


def blip2(root: Path, pairs: list) -> tuple:
    import torch
    from PIL import Image

    model, eyes, _ = lavis(root, ("blip2_image_text_matching", "Blip2ITM"), max_txt_len=35)  # as evalscope, t2v_metrics
    found = {"blip2-itm": [], "blip2-itc": []}
    with torch.no_grad():
        for image, text in pairs:
            sample = {"image": eyes(Image.open(image).convert("RGB"))[None], "text_input": [text]}
            found["blip2-itm"].append(float(model(sample, match_head="itm").softmax(-1)[0, 1]))
            found["blip2-itc"].append(float(model(sample, match_head="itc")))
    return {"model": model.state_dict()}, found


def fga(root: Path, pairs: list) -> tuple:
    """Run the checkout's own eval.py; what it imports besides the model reads a file or is not called."""
    model, eyes, words = lavis(root, ("fga_blip2", "FGA_Blip2"))
    model.load_checkpoint = lambda path: None
    processors = {"eval": eyes}, {"eval": words}
    sys.modules["lavis.models"].load_model = None
    sys.modules["lavis.models"].load_model_and_preprocess = lambda *names, **options: (model, *processors)
    sys.modules["utils"] = types.ModuleType("utils")  # statistics
    sys.modules["utils"].compute_metrics = None
    sys.modules["utils"].load_data = lambda file, kind: json.loads(Path(file).read_text())
    elements = json.loads(Path("elements.json").read_text())
    rows = [
        {"img_path": image, "prompt": text, "element_score": dict.fromkeys(own, 0)}
        for (image, text), own in zip(pairs, elements)  # noqa: B905  (any Python)
    ]
    Path("test.json").write_text(json.dumps(rows))
    sys.path.insert(0, str(root))
    paths = {"data_file": "test.json", "save_path": "result.json", "model_path": "", "dataset_dir": ""}
    importlib.import_module("eval").eval(types.SimpleNamespace(**paths))
    found = json.loads(Path("result.json").read_text())
    scores = {"fga-blip2": [row["score_result"] for row in found], "elements": [row["element_result"] for row in found]}
    return {"model": model.state_dict()}, scores


class Training:
    """Stands for what training alone needs."""


def without(*names: str) -> None:
    """Packages that the official modules import for training alone, where they are not there."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            made = types.ModuleType(name)
            made.__path__, made.__spec__ = [], importlib.machinery.ModuleSpec(name, None)
            made.__getattr__ = lambda attribute: Training
            sys.modules[name] = made


def qwen2_vl(folder: Path) -> None:
    """Save a tiny Qwen2-VL as Qwen/Qwen2-VL-7B-Instruct was released."""
    from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration, Qwen2VLImageProcessor, Qwen2VLProcessor

    eyes = {"depth": 2, "embed_dim": 32, "hidden_size": 64, "mlp_ratio": 2, "num_heads": 2, "in_chans": 3}
    config = qwen_vl(folder, Qwen2VLConfig, Qwen2VLProcessor, eyes, image_processor=Qwen2VLImageProcessor())
    randomised(Qwen2VLForConditionalGeneration(config), 0.1).save_pretrained(folder)


def qwen25_vl(folder: Path) -> None:
    """Save a tiny Qwen2.5-VL as Qwen/Qwen2.5-VL-7B-Instruct was released."""
    from transformers import (
        Qwen2_5_VLConfig,
        Qwen2_5_VLForConditionalGeneration,
        Qwen2_5_VLProcessor,
        Qwen2VLImageProcessor,
        Qwen2VLVideoProcessor,
    )

    eyes = {"depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 64}
    eyes |= {"fullatt_block_indexes": [1], "window_size": 56}
    halves = {"image_processor": Qwen2VLImageProcessor(), "video_processor": Qwen2VLVideoProcessor()}
    config = qwen_vl(folder, Qwen2_5_VLConfig, Qwen2_5_VLProcessor, eyes, **halves)
    randomised(Qwen2_5_VLForConditionalGeneration(config), 0.1).save_pretrained(folder)


def qwen_vl(folder: Path, configuration, processor, eyes: dict, **halves):
    """Save tokenizer and processor, and return the configuration of a tiny model with these eyes."""
    from tiny_models import QWEN_CHAT, QWEN_SPECIAL, tokenizer
    from transformers import Qwen2TokenizerFast

    folder.mkdir()
    tokenizer(QWEN_SPECIAL).backend_tokenizer.model.save(str(folder))
    files = [str(folder / name) for name in ("vocab.json", "merges.txt")]
    words = Qwen2TokenizerFast(*files, eos_token=ENDS[0], pad_token=ENDS[1], chat_template=QWEN_CHAT)
    words.add_special_tokens({"additional_special_tokens": list(QWEN_SPECIAL[1:])})
    processor(tokenizer=words, chat_template=QWEN_CHAT, **halves).save_pretrained(folder)
    kinds = ("image_pad", "video_pad", "vision_start", "vision_end")
    ids = [words.convert_tokens_to_ids(f"<|{kind}|>") for kind in kinds]
    return configuration(
        vocab_size=len(words) + 5, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, rope_theta=1e6, rope_scaling={"type": "mrope", "mrope_section": [2, 3, 3]},
        image_token_id=ids[0], video_token_id=ids[1], vision_start_token_id=ids[2], vision_end_token_id=ids[3],
        vision_config=eyes,
    )  # fmt: skip


def hpsv3(root: Path, pairs: list) -> tuple:
    """The checkout's own loader and `reward`; the settings are its HPSv3_7B.yaml's in float32."""
    import torch
    from safetensors.torch import save_file

    sys.path.insert(0, str(root))
    without("trl", "peft", "datasets", "matplotlib", "matplotlib.pyplot", "matplotlib.patches", "fire", "pandas")
    without("torch.utils.tensorboard", "omegaconf")
    packages(root, "hpsv3")
    code = importlib.import_module("hpsv3.inference")
    sys.modules["hpsv3.train"].get_quantization_config = lambda about: None
    qwen2_vl(Path("base"))
    model = {"model_name_or_path": "base", "model_revision": "main", "torch_dtype": "float32", "output_dim": 2}
    model |= {"rm_head_type": "ranknet", "rm_head_kwargs": None, "use_special_tokens": True, "reward_token": "special"}
    training = {"disable_flash_attn2": True, "bf16": False, "fp16": False, "output_dir": "."}
    parts = [types.SimpleNamespace(**each) for each in (training, model, {"lora_enable": False})]
    code.parse_args_with_yaml = lambda *rest, **options: ((None, *parts), "x.yaml")
    made, _, _ = code.create_model_and_processor(parts[1], parts[2], parts[0])
    state = randomised(made, 0.1).state_dict()  # with wider values float32 strays by more than 1e-5 from float64
    save_file({name: value.clone() for name, value in state.items()}, "HPSv3.safetensors")
    scorer = code.HPSv3RewardInferencer("x.yaml", "HPSv3.safetensors", "cpu")
    with torch.no_grad():
        found = [scorer.reward([image], [text])[0].tolist() for image, text in pairs]
    return {}, {"hpsv3": [mean for mean, _ in found], "sigma": [sigma for _, sigma in found]}


def editreward(root: Path, pairs: list) -> tuple:
    """The checkout's own loader and `reward`; the settings are its EditReward-Qwen2.5-7B-VL.yaml's in float32.

    The source of each edit is the image before it in the list.
    """
    import torch
    from safetensors.torch import save_file

    sys.path.insert(0, str(root))
    without("trl", "peft", "datasets", "matplotlib", "matplotlib.pyplot", "matplotlib.patches", "fire", "pandas")
    without("torch.utils.tensorboard", "omegaconf", "requests")
    packages(root, "EditReward")
    code = importlib.import_module("EditReward.inference_edit")
    sys.modules["EditReward.train_qwen2_5_edit"].get_quantization_config = lambda about: None
    qwen25_vl(Path("base"))
    model = {"model_name_or_path": "base", "model_revision": "main", "torch_dtype": "float32", "output_dim": 2}
    model |= {"rm_head_type": "ranknet_multi_head", "rm_head_kwargs": None, "pooling_strategy": "mean"}
    model |= {"use_special_tokens": True, "reward_token": "special"}
    training = {"disable_flash_attn2": True, "bf16": False, "fp16": False, "output_dir": "."}
    parts = [types.SimpleNamespace(**each) for each in (training, model, {"lora_enable": False})]
    code.parse_args_with_yaml = lambda *rest, **options: ((None, *parts), "x.yaml")
    made, _, _ = code.create_model_and_processor(parts[1], parts[2], parts[0])
    state = randomised(made, 0.1).state_dict()
    save_file({name: value.clone() for name, value in state.items()}, "model.safetensors")
    scorer = code.EditRewardInferencer("x.yaml", ".", "cpu")
    sources = [image for image, _ in (pairs[-1], *pairs[:-1])]
    with torch.no_grad():
        found = [
            scorer.reward([text], [source], [image])[0].tolist()
            for source, (image, text) in zip(sources, pairs)  # noqa: B905  (any Python)
        ]
    return {}, {"editreward": [mean for mean, _ in found], "sigma": [sigma for _, sigma in found]}


def flant5(root: Path, pairs: list) -> tuple:
    """The checkout's own loader and `forward`, which computes in bfloat16; here the same weights in float32."""
    import sentencepiece
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, T5TokenizerFast

    base = "t2v_metrics.models.vqascore_models"
    packages(root, "t2v_metrics", "t2v_metrics.models", base)
    without("cv2")  # films
    code = importlib.import_module(f"{base}.clip_t5_model")
    parts = sys.modules[code.CLIPT5ForConditionalGeneration.__module__]
    words = [*(text for _, text in pairs), "Does this figure show? Please answer yes or no. USER: ASSISTANT:"]
    Path("words.txt").write_text("\n".join([*words, *["Yes"] * 99]))
    Path("t5").mkdir()
    about = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1, "hard_vocab_limit": False, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(input="words.txt", model_prefix="t5/spiece", vocab_size=120, **about)
    tokens = T5TokenizerFast("t5/spiece.model")
    tokens.save_pretrained("t5")
    shape = {"hidden_size": 24, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 2}
    eyes = {**shape, "image_size": 56, "patch_size": 14}
    towers = CLIPModel(CLIPConfig(text_config={**shape, "vocab_size": 9}, vision_config=eyes))  # released whole
    randomised(towers, 0.1).bfloat16().float().save_pretrained("openai/tower")
    size = {"height": 56, "width": 56}
    CLIPImageProcessor(size={"shortest_edge": 56}, crop_size=size).save_pretrained("openai/tower")
    config = parts.CLIPT5Config(
        vocab_size=len(tokens) + 28, d_model=HIDDEN, d_kv=16, d_ff=64, num_layers=2, num_heads=2,
        feed_forward_proj="gated-gelu", decoder_start_token_id=0, tie_word_embeddings=False,
        mm_vision_tower="openai/tower", mm_hidden_size=24, mm_projector_type="mlp2x_gelu", mm_vision_select_layer=-2,
    )  # fmt: skip
    model = randomised(code.CLIPT5ForConditionalGeneration(config), 0.1)
    model.lm_head.weight.data *= 0.2  # so that no answer is out of the question
    model.vision_tower.load_model()  # as it is released
    model.bfloat16().save_pretrained("t5", safe_serialization=False)
    about = code.CLIP_T5_MODELS["clip-flant5-xl"]
    about["tokenizer"]["path"] = about["model"]["path"] = "t5"
    scorer = code.CLIPT5Model("clip-flant5-xl", device="cpu")
    scorer.model.float()
    return {}, {"vqascore-clip-flant5-xl": [float(scorer.forward([image], [text])[0]) for image, text in pairs]}


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[1]))  # tiny_models
    kind, checkout, folder = sys.argv[1:]
    os.chdir(folder)
    try:
        import torch

        transforms()
        torch.manual_seed(0)
        state, scores = globals()[kind](Path(checkout), json.loads(Path("pairs.json").read_text()))
    except ImportError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(3)
    torch.save(state, "weights.pth")
    Path("scores.json").write_text(json.dumps(scores))
