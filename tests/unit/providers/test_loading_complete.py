"""Weights on disk that do not fit their model are refused by every loader, in one line that names the first parameter."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny_models

from titjudge.core.errors import UserError
from titjudge.providers import ProviderSettings
from titjudge.providers.learned.provider import Scorer
from titjudge.providers.local import loading
from titjudge.providers.local.huggingface import Local
from titjudge.providers.local.sentence_transformers import SentenceTransformers
from titjudge.providers.local.zero_shot_detection import ZeroShotDetection

pytestmark = pytest.mark.slow  # tiny models are made

Tensors = dict[str, Any]


def settings(model: Path | str, **options: Any) -> ProviderSettings:
    return ProviderSettings(str(model), options={"device": "cpu", **options})


def embedder(folder: Path, **options: Any) -> Any:
    return SentenceTransformers(str(folder), settings(folder, **options))


LOADERS: dict[str, tuple[Callable[[Path], Any], Callable[[Path], Any]]] = {
    "captioner": (tiny_models.qwen25_vl, lambda folder: Local(settings(folder))),
    "captioner qwen3-vl": (tiny_models.qwen3_vl, lambda folder: Local(settings(folder))),
    "captioner llava": (tiny_models.llava, lambda folder: Local(settings(folder))),
    "judge": (tiny_models.qwen3_llm, lambda folder: Local(settings(folder))),
    "embedder": (tiny_models.qwen3_embedding, embedder),
    "embedder bert": (tiny_models.bert_embedding, embedder),
    "embedder without modules.json": (
        tiny_models.qwen3_embedding_plain,
        lambda folder: embedder(folder, pooling="lasttoken"),
    ),
    "embedder clip": (tiny_models.clip, embedder),
    "detector owlv2": (tiny_models.owlv2, lambda folder: ZeroShotDetection(settings(folder))),
    "detector grounding dino": (tiny_models.grounding_dino, lambda folder: ZeroShotDetection(settings(folder))),
    "similarity": (tiny_models.dinov2, lambda folder: Scorer(settings("preservation-dino", weights=folder))),
    "clip": (tiny_models.clip, lambda folder: Scorer(settings("clipscore-cosine", weights=folder))),
    "blip": (tiny_models.blip2, lambda folder: Scorer(settings("blip2-itm", weights=folder))),
}


def change(folder: Path, changed: Callable[[Tensors], Tensors]) -> None:
    from safetensors.torch import load_file, save_file

    (file,) = folder.rglob("model.safetensors")
    save_file(changed(load_file(file)), file, metadata={"format": "pt"})


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    made: dict[str, Path] = {}

    def of(kind: str) -> Path:
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp("model")
            LOADERS[kind][0](made[kind])
        return made[kind]

    return of


DAMAGES: dict[str, tuple[Callable[[Tensors], Tensors], str]] = {
    "module.": (lambda tensors: {f"module.{name}": value for name, value in tensors.items()}, "'module.'"),
    "compiled": (lambda tensors: {f"_orig_mod.{name}": value for name, value in tensors.items()}, "'_orig_mod.'"),
    "a part is gone": (lambda tensors: {n: v for n, v in tensors.items() if not _of_a_layer(n)}, "layer"),
    "one tensor is gone": (lambda tensors: {n: v for n, v in tensors.items() if n != _one(tensors)}, ""),
    "other names": (lambda tensors: {name.replace("weight", "w"): value for name, value in tensors.items()}, "weight"),
}


def _of_a_layer(name: str) -> bool:
    return ".1." in name


def _one(tensors: Tensors) -> str:
    return max(name for name in tensors if "norm" in name.lower())


@pytest.mark.parametrize("damage", list(DAMAGES))
@pytest.mark.parametrize("kind", list(LOADERS))
def test_weights_that_do_not_fit_are_refused(
    kind: str, damage: str, models: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(models(kind), tmp_path / "copy"))
    changed, said = DAMAGES[damage]
    change(folder, changed)
    with pytest.raises(UserError) as caught:
        LOADERS[kind][1](folder)._load()
    text = str(caught.value)
    assert said in text
    assert len(text) < 500
    assert "\n" not in text


@pytest.mark.parametrize("kind", list(LOADERS))
def test_whole_weights_load(kind: str, models: Callable[[str], Path]) -> None:
    LOADERS[kind][1](models(kind))._load()


@pytest.mark.parametrize("damage", ["module.", "a part is gone", "one tensor is gone"])
@pytest.mark.parametrize("part", ["weights", "base"])
def test_both_parts_of_vqascore_are_whole(damage: str, part: str, tmp_path: Path) -> None:
    weights, base = tiny_models.clip_flant5(tmp_path)
    options = {"weights": weights, "base": base, "dtype": "float32"}
    Scorer(settings("vqascore-clip-flant5-xl", **options))._load()
    changed, said = DAMAGES[damage]
    change(options[part], changed)  # type: ignore[arg-type]
    with pytest.raises(UserError) as caught:
        Scorer(settings("vqascore-clip-flant5-xl", **options))._load()
    assert said in str(caught.value)


@pytest.mark.parametrize("kind", ["embedder bert", "similarity"])
def test_a_pooler_that_nothing_reads_may_be_missing(kind: str, models: Callable[[str], Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(models(kind), tmp_path / "copy"))
    change(folder, lambda tensors: {name: value for name, value in tensors.items() if "pooler." not in name})
    LOADERS[kind][1](folder)._load()


def test_a_program_beside_titjudge_still_loads_what_it_likes(models: Callable[[str], Path], tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    folder = Path(shutil.copytree(models("judge"), tmp_path / "copy"))
    with loading.complete_weights("whole"):
        AutoModelForCausalLM.from_pretrained(folder)
    change(folder, DAMAGES["module."][0])
    model, report = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert report["missing_keys"]
    assert AutoModelForCausalLM.from_pretrained(folder).num_parameters() == model.num_parameters()


def test_further_weights_of_another_part_are_no_fault() -> None:
    loading.refuse_incomplete("m", [], ["text_model.norm", "ema.norm", "mtp.layers.0.norm", "inv_freq"], ["norm"])
    with pytest.raises(UserError, match="module"):
        loading.refuse_incomplete("m", [], ["module.norm", "other"], ["norm"])
