"""What a person reads when a local model does not load, and what pins one in the cache key."""

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny_models

from titjudge.core.errors import ConfigError, UserError
from titjudge.core.types import FailureKind, Message, Request
from titjudge.providers import ProviderSettings
from titjudge.providers.local import hub, loading
from titjudge.providers.local.huggingface import Local

pytestmark = pytest.mark.slow  # many in all, each of them short


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.qwen3_llm(tmp_path_factory.mktemp("llm"))


@pytest.fixture
def copy(llm: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(llm, tmp_path / "copy"))


def make(model: Path | str, **options: Any) -> Local:
    return Local(ProviderSettings(str(model), options={"device": "cpu", **options}))


def said(provider: Local) -> str:
    """The one line, after checking that it is one, that it is fatal, and that it stays the same when asked again."""

    async def run() -> list[Any]:
        request = Request("local", "m", (Message("user", ("Hi",)),), {"max_tokens": 2})
        try:
            return [(await asyncio.gather(provider.complete(request), return_exceptions=True))[0] for _ in "ab"]
        finally:
            await provider.aclose()

    first, second = asyncio.run(run())
    assert isinstance(first, UserError)
    assert first is second
    assert "\n" not in str(first)
    assert provider.classify(first).kind is FailureKind.FATAL
    return str(first)


def test_not_there() -> None:
    assert "HF_HUB_OFFLINE" in said(make("nobody/nothing-7b"))
    assert "is not a model folder" in said(make("./not/there"))
    with pytest.raises(UserError, match="nobody/nothing-7b"):
        _ = make("nobody/nothing-7b").capabilities


def test_damaged_weights(copy: Path) -> None:
    path = copy / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    assert "damaged or incomplete" in said(make(copy))


def test_weights_that_do_not_fit_the_config(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "hidden_size": 32}))
    assert "do not fit its config.json" in said(make(copy))


def test_missing_weights(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    assert "model.safetensors" in said(make(copy))


def test_a_pickle_that_could_run_code(copy: Path, tmp_path: Path) -> None:
    import torch

    class Evil:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return (Path.touch, (tmp_path / "ran",))

    (copy / "model.safetensors").unlink()
    torch.save({"model.embed_tokens.weight": Evil()}, copy / "pytorch_model.bin")
    assert "pickle" in said(make(copy))
    assert not (tmp_path / "ran").exists()


def test_unknown_architecture(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "model_type": "flux9000"}))
    assert "does not know its architecture" in said(make(copy))


OWN_CODE = """
from pathlib import Path
from transformers import Qwen3Config, Qwen3ForCausalLM
Path({ran!r}).touch()
class Config(Qwen3Config):
    model_type = "own"
class Model(Qwen3ForCausalLM):
    config_class = Config
"""


def with_own_code(folder: Path) -> Path:
    """The model under a name that transformers does not know, with the code for it beside; returns what it leaves behind."""
    ran = folder.parent / "ran"
    about = json.loads((folder / "config.json").read_text())
    code = {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}
    (folder / "config.json").write_text(json.dumps({**about, "model_type": "own", "auto_map": code}))
    (folder / "own.py").write_text(OWN_CODE.format(ran=str(ran)))
    return ran


def test_remote_code_is_refused(copy: Path) -> None:
    ran = with_own_code(copy)
    assert "--set trust_remote_code=yes" in said(make(copy))
    with pytest.raises(UserError, match="contains Python code"):
        make(copy).ready()
    assert not ran.exists()


def test_remote_code_runs_where_it_is_trusted(copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import dynamic_module_utils

    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    ran = with_own_code(copy)
    loaded = make(copy, trust_remote_code=True)._loaded()
    assert type(loaded.model).__name__ == "Model"
    assert ran.exists()


def test_an_architecture_that_needs_another_package(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gemma 3n's eyes are timm's: transformers says so when it builds them."""
    import transformers

    def needs(*_: Any, **__: Any) -> Any:
        raise ImportError("TimmWrapperModel requires the timm library\nbut it was not found")

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", needs)
    assert "a package that is not installed (TimmWrapperModel requires the timm library but" in said(make(copy))


def test_no_chat_template(tmp_path: Path) -> None:
    folder = tiny_models.qwen3_llm(tmp_path, chat=None)
    assert "without chat template" in said(make(folder))


def test_too_large_for_this_machine(llm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "free_bytes", lambda device: 1000)
    assert "GiB free" in said(make(llm))


def test_what_a_container_may_use_is_all_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("titjudge.providers.local.hardware._main_memory", lambda: (64 * 2**30, 32 * 2**30))
    monkeypatch.setattr("titjudge.providers.local.hardware._container", lambda: (2 * 2**30, 2**30))
    found = loading.free_bytes("cpu")
    assert found == (2**30 if Path("/proc/meminfo").is_file() else None)


def test_weight_bytes_follow_the_dtype(llm: Path) -> None:
    stored = loading.weight_bytes(llm, "auto")
    assert stored == (llm / "model.safetensors").stat().st_size
    assert loading.weight_bytes(llm, "bfloat16") == stored // 2


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried")]
)
def test_out_of_memory_while_loading(error: Exception) -> None:
    assert "does not fit into memory" in str(hub.loading_error("m", error))


def test_options_are_checked(llm: Path) -> None:
    with pytest.raises(ConfigError, match="dtpye"):
        make(llm, dtpye="float32")
    with pytest.raises(ConfigError, match="local/MODEL"):
        Local(ProviderSettings(""))


def test_the_cache_key_holds_what_changes_an_answer(llm: Path, copy: Path) -> None:
    base = make(llm).base_url
    assert base == make(copy).base_url
    assert base == make(llm, batch_size=3, device="cuda").base_url
    changed = [
        make(llm, **each).base_url for each in ({"dtype": "float16"}, {"attention": "eager"}, {"enable_thinking": True})
    ]
    assert len({base, *changed}) == 4
    assert str(llm) not in base


def test_pictures_go_through_pil_even_where_torchvision_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers prefers torchvision's image processing, whose pixels differ by up to 0.03."""
    import transformers

    folder = tiny_models.llava(tmp_path)
    pil = loading.load_processor(str(folder)).image_processor
    assert type(pil).__name__.endswith("Pil")
    asked: list[dict[str, Any]] = []

    def recorded(source: str, **arguments: Any) -> Any:
        asked.append(arguments)
        return pil

    monkeypatch.setattr("transformers.utils.is_torchvision_available", lambda: True)
    monkeypatch.setattr(transformers.AutoImageProcessor, "from_pretrained", recorded)
    asked.clear()
    assert loading.load_processor(str(folder), size={"shortest_edge": 56}).image_processor is pil
    assert {"backend": "pil", "size": {"shortest_edge": 56}} in asked


def test_a_processor_option_reaches_the_processor(tmp_path: Path) -> None:
    folder = tiny_models.qwen25_vl(tmp_path)
    size = {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 9}
    loaded = make(folder, processor={"size": size})._loaded()
    sizes = [loaded.processor.image_processor.size, loading.load_processor(str(folder)).image_processor.size]
    assert [each["longest_edge"] for each in sizes] == [28 * 28 * 9, 28 * 28 * 64]
