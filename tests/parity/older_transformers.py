"""Runs official code that needs transformers before 5, in an interpreter that has one: `python older_transformers.py KIND CHECKOUT FOLDER`.

KIND is imagereward, blip2 or fga. FOLDER holds `bert-base-uncased/vocab.txt` and `pairs.json`, [[image file, text], ...]; for fga
also `elements.json`, the elements of each text. The official classes are made in a tiny size with random weights; `weights.pth`, as they are released, and `scores.json` are written there.
Nothing of titjudge is imported. Where a package is missing, the last line on stderr says which (exit code 3).
"""

import importlib
import json
import os
import sys
import types
from functools import partial
from pathlib import Path

HIDDEN = 32


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


def randomised(model):
    """Random values everywhere, so that no bias is zero and no norm the identity."""
    import torch

    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for value in model.parameters():
            value.add_(torch.randn(value.shape, generator=generator) * 0.2)
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


if __name__ == "__main__":
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
