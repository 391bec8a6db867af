"""Reports about how names of files and folders meet prompts."""

import io
import json
from typing import Any

from kinds import Files
from PIL import Image
from PIL.PngImagePlugin import PngInfo


def with_chunk(graph: dict[str, Any]) -> bytes:
    out, chunks = io.BytesIO(), PngInfo()
    chunks.add_text("prompt", json.dumps(graph))
    Image.new("RGB", (8, 8)).save(out, "PNG", pnginfo=chunks)
    return out.getvalue()


def commented(kind: str, text: str) -> bytes:
    """An image of A1111: the text in a chunk of a PNG, or in the comment of a JPEG."""
    out, chunks, exif = io.BytesIO(), PngInfo(), Image.Exif()
    chunks.add_text("parameters", text)
    exif.get_ifd(0x8769)[0x9286] = b"UNICODE\0" + text.encode("utf-16-be")
    Image.new("RGB", (8, 8)).save(out, kind, **({"pnginfo": chunks} if kind == "PNG" else {"exif": exif}))
    return out.getvalue()


LINES = "a green bench and a blue bowl\na red apple on a table\ntwo dogs, one cat\n"
TEXTS = LINES.splitlines()
THREE = {"0000.png": 1, "0001.png": 2, "0002.png": 3}

REPORTS = [
    Files(
        "AgMMU/AgMMU#5", "the names begin at 0, the list at 1",
        {**THREE, "prompts.txt": "a cat\na dog\na fox\n"},
        reads={"0000.png": "a cat", "0001.png": "a dog", "0002.png": "a fox"},
    ),
    Files(
        "basujindal/stable-diffusion#2", "folders named by the cut words of prompts, as many samples as prompts",
        {**{f"{t.replace(' ', '_')[:10]}/seed_42_{n:05}.png": n for t in TEXTS for n in range(3)}, "prompts.txt": LINES},
        reads={f"{t.replace(' ', '_')[:10]}/seed_42_{n:05}.png": t for t in TEXTS for n in range(3)},
        generators=[""],
    ),
    Files(
        "basujindal/stable-diffusion#2", "folders named by a hash, as many samples as prompts",
        {**{f"{name}/{n}.png": n for name in ("1f0a3c", "b27d90", "c41e77") for n in range(3)}, "prompts.txt": LINES},
        refused=["{generator}/{prompt_id}.png", "{prompt_id}/{sample}.png"],
    ),
    Files(
        "Karine-Huang/T2I-CompBench#18", "images are named by their prompt and a number",
        {**{f"samples/{text}_{n:06}.png": n for text in TEXTS for n in (0, 1)}, "prompts.txt": LINES},
        reads={f"samples/{text}_{n:06}.png": text for text in TEXTS for n in (0, 1)},
    ),
    Files(
        "AUTOMATIC1111/stable-diffusion-webui#3791", "names are number, seed and prompt",
        {**{f"{n:05}-{1929657107 + n}-{text}.png": n for n, text in enumerate(TEXTS)}, "prompts.txt": LINES},
        reads={f"{n:05}-{1929657107 + n}-{text}.png": text for n, text in enumerate(TEXTS)},
    ),
    Files(
        "nnnth/UniLIP#24", "the tree of GenEval: the record of each prompt lies beside its images",
        {
            **{f"flux/{n:05}/samples/{s:04}.png": 2 * n + s for n in range(3) for s in (0, 1)},
            **{f"flux/{n:05}/metadata.jsonl": [{"tag": "two_object", "prompt": text}] for n, text in enumerate(TEXTS)},
        },
        reads={f"flux/{n:05}/samples/{s:04}.png": TEXTS[n] for n in range(3) for s in (0, 1)}, generators=["flux"],
    ),
    Files(
        "AgMMU/AgMMU#5", "folder and name repeat the prompt's number",
        {**{f"000{n}/000{n}_{s}.png": s for n in range(3) for s in (1, 2)}, "prompts.txt": LINES},
        reads={f"000{n}/000{n}_{s}.png": TEXTS[n] for n in range(3) for s in (1, 2)}, generators=[""],
    ),
    Files(
        "receyuki/stable-diffusion-prompt-reader#82", "a graph joins two prompts",
        {"a.png": with_chunk({
            "1": {"class_type": "CLIPTextEncode", "inputs": {"text": "a red fox"}},
            "2": {"class_type": "CLIPTextEncode", "inputs": {"text": "a blue bird on a fence"}},
            "3": {"class_type": "ConditioningCombine", "inputs": {"conditioning_1": ["1", 0], "conditioning_2": ["2", 0]}},
            "4": {"class_type": "KSampler", "inputs": {"positive": ["3", 0]}},
        })},
        refused=["no prompt"],
    ),
    Files(
        "basujindal/stable-diffusion#2", "folders named by whole prompts with _ for blanks",
        {**{f"{t.replace(' ', '_')}/{n:05}.png": n for t in TEXTS for n in range(3)}, "prompts.txt": LINES},
        reads={f"{t.replace(' ', '_')}/{n:05}.png": t for t in TEXTS for n in range(3)}, generators=[""],
    ),
    Files(
        "Karine-Huang/T2I-CompBench#18", "the same without a list: nothing but the names says the prompts",
        {f"samples/{text}_{n:06}.png": n for text in TEXTS for n in (0, 1)},
        refused=["prompt"],
    ),
    Files(
        "nnnth/UniLIP#24", "the tree of GenEval below folders of two models",
        {
            **{f"{g}/{n:05}/samples/0000.png": n for g in ("flux", "sdxl") for n in range(3)},
            **{f"{g}/{n:05}/metadata.jsonl": [{"prompt": t}] for g in ("flux", "sdxl") for n, t in enumerate(TEXTS)},
        },
        reads={f"{g}/{n:05}/samples/0000.png": TEXTS[n] for g in ("flux", "sdxl") for n in range(3)}, generators=["flux", "sdxl"],
    ),
    Files(
        "AgMMU/AgMMU#5", "a generator has images of a part of the prompts only",
        {**{f"a/{n}.png": n for n in range(6)}, **{f"b/{n}.png": n + 9 for n in range(3)}, "prompts.txt": "\n".join("uvwxyz")},
        reads={**{f"a/{n}.png": "uvwxyz"[n] for n in range(6)}, **{f"b/{n}.png": "uvwxyz"[n] for n in range(3)}},
    ),
    Files(
        "Automaticism/Promptvision#5", "prompts in JPEG and PNG files are not found",
        {f"{n}.{kind}": commented(kind.upper(), f"a cup, {kind}\nNegative prompt: blur\nSteps: 20, Sampler: Euler, Seed: 4")
         for n, kind in enumerate(("png", "jpeg"))},
        reads={"0.png": "a cup, png", "1.jpeg": "a cup, jpeg"},
    ),
    Files(
        "easydiffusion/easydiffusion#99", "a table was written on Windows: paths have backslashes",
        {"m/0.png": 1, "m/1.png": 2, "images.csv": "image,prompt\nm\\0.png,a cup\n.\\m\\1.png,a hat\n"},
        reads={"m\\0.png": "a cup", ".\\m\\1.png": "a hat"}, place="images.csv",
    ),
    Files(
        "vladmandic/sdnext#2369", "a colon in a name leaves an empty file without ending",
        {"(car": b"", "0.png": 1, "0.txt": "a (car:1.2)"},
        reads={"0.png": "a (car:1.2)"},
    ),
    *(
        Files(
            source, f"a name has the reserved signs {name}",
            {f"{name}/0.png": 1, f"{name}/1.png": 2, "prompts.txt": "a cup\na hat\n"},
            reads={f"{name}/0.png": "a cup", f"{name}/1.png": "a hat"},
        )
        for source, name in (
            ("AUTOMATIC1111/stable-diffusion-webui#1597", "sd[3]{x}*?"),
            ("AUTOMATIC1111/stable-diffusion-webui#1597", "50% #1 $HOME"),
            ("d8ahazard/sd_dreambooth_extension#921", "it's \"new\""),
            ("d8ahazard/sd_dreambooth_extension#921", "模型🎨"),
        )
    ),
]
