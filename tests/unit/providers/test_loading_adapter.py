"""A LoRA adapter (`adapter`) is merged into a local model as peft merges it; one belongs to this model is refused."""

import re
from pathlib import Path
from typing import Any

import pytest
import tiny_models
from test_local_vlm import ask, complete

from titjudge.core.errors import UserError
from titjudge.core.types import ProviderSettings
from titjudge.providers.local.huggingface import Local

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
QUESTION = "What differs between the images?"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("peft", reason="an adapter needs peft: pip install 'titjudge[train]'")
    return tiny_models.qwen25_vl(tmp_path_factory.mktemp("base"))


def save_adapter(base: Path, folder: Path) -> Path:
    """Save an adapter with random weights, of which none is without effect."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForImageTextToText

    model = AutoModelForImageTextToText.from_pretrained(base, dtype=torch.float32)
    tuned = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    torch.manual_seed(5)
    for name, value in tuned.named_parameters():
        if "lora_" in name:
            value.data = torch.randn_like(value) * 0.5
    tuned.save_pretrained(folder)
    return folder


def renamed(folder: Path, target: Path, pattern: str, replacement: str) -> Path:
    """Copy an adapter with other names of its weights."""
    from safetensors.torch import load_file, save_file

    target.mkdir()
    (target / "adapter_config.json").write_bytes((folder / "adapter_config.json").read_bytes())
    weights = load_file(folder / "adapter_model.safetensors")
    changed = {re.sub(pattern, replacement, name): value for name, value in weights.items()}
    assert changed.keys() != weights.keys()
    save_file(changed, target / "adapter_model.safetensors")
    return target


def merged(base: Path, adapter: Path, target: Path) -> Path:
    """The model with the adapter merged by peft alone."""
    import shutil

    import torch
    from peft import PeftModel
    from transformers import AutoModelForImageTextToText

    shutil.copytree(base, target)
    model = AutoModelForImageTextToText.from_pretrained(base, dtype=torch.float32)
    PeftModel.from_pretrained(model, str(adapter)).merge_and_unload().save_pretrained(target)
    return target


def answers(folder: Path, **options: Any) -> list[str]:
    shown = [tiny_models.image_file(64, 64, seed=n) for n in range(2)]
    replies = complete(
        folder, [ask(*shown, QUESTION, max_tokens=12), ask(shown[0], QUESTION, max_tokens=12)], **options
    )
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return [reply.text for reply in replies]


def test_an_adapter_is_merged_as_peft_merges_it_also_under_the_names_of_older_versions(base: Path, tmp_path: Path) -> None:  # fmt: skip
    adapter = save_adapter(base, tmp_path / "adapter")
    old = renamed(adapter, tmp_path / "old", r"model\.language_model\.layers", "model.layers")
    expected = answers(merged(base, adapter, tmp_path / "merged"))
    assert answers(base, adapter=str(adapter)) == expected
    assert answers(base, adapter=str(old)) == expected
    assert answers(base) != expected


def test_an_adapter_of_another_model_is_refused(base: Path, tmp_path: Path) -> None:
    adapter = save_adapter(base, tmp_path / "adapter")
    foreign = renamed(adapter, tmp_path / "foreign", r"layers\.0\.", "layers.7.")
    with pytest.raises(UserError, match="belongs to this model"):
        answers(base, adapter=str(foreign))


def test_an_adapter_is_part_of_what_pins_the_weights(base: Path, tmp_path: Path) -> None:
    adapter = save_adapter(base, tmp_path / "adapter")

    def pinned(**options: Any) -> str:
        return Local(ProviderSettings(str(base), options={"device": "cpu", **options})).base_url

    plain, tuned = pinned(), pinned(adapter=str(adapter))
    assert plain != tuned
    other = renamed(adapter, tmp_path / "other", r"layers\.0\.", "layers.7.")
    assert pinned(adapter=str(other)) not in (plain, tuned)
