"""ImageReward, BLIP-2, FGA-BLIP2, HPSv3, EditReward and CLIP-FlanT5 beside their official code, which needs a transformers before 5.

TITJUDGE_OFFICIAL_PYTHON names an interpreter that has one, and TITJUDGE_OFFICIAL a folder with the checkouts; without them
these tests are skipped:

    python3.11 -m venv OLD
    OLD/bin/pip install torch torchvision transformers==4.45.2 timm==0.6.13 fairscale omegaconf iopath sentencepiece \\
        protobuf 'pandas<3' 'numpy<2'

    ImageReward        github.com/zai-org/ImageReward     or: pip download --no-deps image-reward==1.5, unpacked
    LAVIS              github.com/salesforce/LAVIS
    EvalMuse           github.com/DYEvaLab/EvalMuse
    HPSv3              pip download --no-deps hpsv3==1.0.0, unpacked
    EditReward         github.com/TIGER-AI-Lab/EditReward at edb027e; needs transformers==4.57.1 in place of 4.45.2
    t2v_metrics-3.0    github.com/linzhiqiu/t2v_metrics at 335e4c2 (3.1 has no CLIP-FlanT5)

The official classes run there (older_transformers.py) on tiny random weights, from picture file and text to the score; what
they save is read here as the released file is.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import tiny_models
from official_code import official

from titjudge.core.score_parts import element_words

CHILD = Path(__file__).with_name("older_transformers.py")
TEXTS = (
    "two dogs",
    'A "Red" cube, on the left of a blue ball; (very) small!',
    "no dogs " * 30,  # more than 35 word pieces, and than 50 words
    "一只红色的猫 and a cat",
    "it's an “odd” sign",
)
ELEMENTS = (
    ["two (counting)", "dogs (animal/human)", "cat (animal/human)"],
    ["blue ball (object)", "Red (color)", "on the left of (spatial)", "left (location)", "very small (attribute)"],
    ["dogs (animal/human)", "dogs no (other)", "cat (animal/human)"],
    ["cat (animal/human)", "and a cat (other)"],
    ["odd (attribute)", "sign (object)"],
)
SIZES = ((224, 224), (333, 225), (90, 160), (512, 300), (64, 48))


def older(kind: str, checkout: str, folder: Path, vocabulary: list[str]) -> tuple[Path, dict[str, list[float]]]:
    """The file of weights and the scores that official code gives in an older transformers."""
    python = os.environ.get("TITJUDGE_OFFICIAL_PYTHON", "")
    if not python:
        pytest.skip(
            "TITJUDGE_OFFICIAL_PYTHON names no interpreter with a transformers before 5 (see the head of this file)"
        )
    (folder / "bert-base-uncased").mkdir()
    (folder / "bert-base-uncased/vocab.txt").write_text("\n".join(vocabulary))
    pairs = []
    for number, ((width, height), text) in enumerate(zip(SIZES, TEXTS, strict=True)):
        file = folder / f"{number}.png"
        tiny_models.picture(width, height, number).save(file)
        pairs.append((str(file), text))
    (folder / "pairs.json").write_text(json.dumps(pairs))
    (folder / "elements.json").write_text(json.dumps(ELEMENTS))
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [python, str(CHILD), kind, str(official(checkout).parents[len(Path(checkout).parts) - 2]), str(folder)],
        capture_output=True, text=True, env={**clean, "HF_HUB_OFFLINE": "1"}, check=False, timeout=300,
    )  # fmt: skip
    if done.returncode == 3:
        pytest.skip(f"{python} lacks a package: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr[-2000:]
    return folder / "weights.pth", json.loads((folder / "scores.json").read_text())


def ours(key: str, folder: Path, elements: Sequence[Sequence[str]] = (), **options: Any) -> list[dict[str, Any]]:
    from test_official_clips import measured

    pairs = json.loads((folder / "pairs.json").read_text())
    return measured(key, [(Path(image).read_bytes(), text) for image, text in pairs], elements, **options)


def values(found: Sequence[Mapping[str, Any]]) -> list[float]:
    return [float(each["score"]) for each in found]


def pieces() -> list[str]:
    vocabulary = tiny_models.bert_tokenizer().get_vocab()
    return sorted(vocabulary, key=vocabulary.__getitem__)


def changed(folder: Path, **parts: Any) -> Path:
    """A folder whose configuration is changed."""
    config = json.loads((folder / "config.json").read_text())
    for part, values in parts.items():
        config[part] = {**config[part], **values} if isinstance(values, dict) else values
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.slow
def test_imagereward_is_the_official_number(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    file, scores = older("imagereward", "ImageReward/ImageReward/ImageReward.py", tmp_path / "work", pieces())
    base = changed(tiny_models.blip(tmp_path / "base"), vision_config={"image_size": 224}, image_text_hidden_size=256)
    found = values(ours("imagereward", tmp_path / "work", weights=file, base=base))
    assert found == pytest.approx(scores["imagereward"], abs=1e-5)
    assert len(set(found)) == len(TEXTS)


def blip2(kind: str, checkout: str, folder: Path) -> tuple[dict[str, Path], dict[str, Any]]:
    """Where the weights lie, and what the official code says."""
    (folder / "work").mkdir()
    file, scores = older(kind, f"{checkout}/lavis/models/blip2_models/blip2.py", folder / "work", pieces())
    base = changed(tiny_models.blip2(folder / "base"), qformer_config={"vocab_size": len(pieces()) + 1})  # [DEC]
    return {"weights": file, "base": base}, scores


@pytest.mark.slow
def test_blip2_is_the_official_number(tmp_path: Path) -> None:
    source, scores = blip2("blip2", "LAVIS", tmp_path)
    for key in ("blip2-itm", "blip2-itc"):
        found = values(ours(key, tmp_path / "work", **source))
        assert found == pytest.approx(scores[key], abs=1e-5), key
        assert len(set(found)) == len(TEXTS)


@pytest.mark.slow
def test_fga_blip2_and_its_elements_are_the_official_numbers(tmp_path: Path) -> None:
    """Beside their eval.py; an element that it does not find has 0 there and no score here."""
    source, scores = blip2("fga", "EvalMuse", tmp_path)
    words = [[element_words(each)[0] for each in own] for own in ELEMENTS]
    found = ours("fga-blip2", tmp_path / "work", words, **source)
    assert values(found) == pytest.approx(scores["fga-blip2"], abs=1e-5)
    assert len(set(values(found))) == len(TEXTS)
    told = [
        {name: found[n]["parts"].get(f"element: {element_words(name)[0]}") for name in own}
        for n, own in enumerate(ELEMENTS)
    ]
    missing = [name for own in told for name, value in own.items() if value is None]
    assert missing == ["cat (animal/human)", "cat (animal/human)"]
    for own, theirs in zip(told, scores["elements"], strict=True):
        assert {name: value or 0 for name, value in own.items()} == pytest.approx(theirs, abs=1e-5)
    assert all(0 < value < 1 for own in told for value in own.values() if value is not None)


@pytest.mark.slow
def test_hpsv3_is_the_official_number(tmp_path: Path) -> None:
    _, scores = older("hpsv3", "HPSv3/hpsv3/inference.py", tmp_path, pieces())
    found = ours("hpsv3", tmp_path, weights=tmp_path / "HPSv3.safetensors", base=tmp_path / "base", dtype="float32")
    assert values(found) == pytest.approx(scores["hpsv3"], abs=1e-5)
    assert [each["parts"]["sigma"] for each in found] == pytest.approx(scores["sigma"], abs=1e-5)
    assert len(set(values(found))) == len(TEXTS)


@pytest.mark.slow
def test_editreward_is_the_official_number(tmp_path: Path) -> None:
    """The source of each edit is the image before it."""
    from test_official_clips import measured

    _, scores = older("editreward", "EditReward/EditReward/inference_edit.py", tmp_path, pieces())
    pairs = [(Path(image).read_bytes(), text) for image, text in json.loads((tmp_path / "pairs.json").read_text())]
    edits = [((pairs[n - 1][0], image), text) for n, (image, text) in enumerate(pairs)]
    place = {"weights": tmp_path / "model.safetensors", "base": tmp_path / "base", "dtype": "float32"}
    found = measured("editreward", edits, **place)
    assert values(found) == pytest.approx(scores["editreward"], abs=1e-5)
    assert [each["parts"]["sigma"] for each in found] == pytest.approx(scores["sigma"], abs=1e-5)
    assert len(set(values(found))) == len(TEXTS)


@pytest.mark.slow
def test_clip_flant5_is_the_official_number(tmp_path: Path) -> None:
    key = "vqascore-clip-flant5-xl"
    file = "t2v_metrics-3.0/t2v_metrics/models/vqascore_models/clip_t5_model.py"
    _, scores = older("flant5", file, tmp_path, pieces())
    found = values(ours(key, tmp_path, weights=tmp_path / "t5", base=tmp_path / "openai/tower", dtype="float32"))
    assert found == pytest.approx(scores[key], rel=1e-5, abs=0)  # probabilities, small ones too
    assert max(found) - min(found) > 1e-4
