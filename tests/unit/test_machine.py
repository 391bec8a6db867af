"""What fits on a machine: the formula by hand, the table against models built on paper, reports without torch."""

from __future__ import annotations

import builtins
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from titjudge import machine
from titjudge.baselines import BUILT_IN, TABLE
from titjudge.machine import GIB, KNOWN, RESERVE, SHARE, Device, Model, batch_size, local_report, place

TINY = Model("m", 1.0, layers=2, kv_heads=4, head_dim=8, hidden=100, intermediate=300, tokens=1000)


def known(name: str) -> Model:
    return next(model for model in KNOWN if model.name.endswith(name))


def test_the_formula_by_hand() -> None:
    assert TINY.weights == 2_000_000_000
    assert TINY.row == 1000 * 2 * (2 * 2 * 4 * 8 + 600 + 400)
    free = int((TINY.weights + RESERVE + 5.5 * TINY.row) / SHARE)
    assert batch_size(TINY, free) == 5
    assert batch_size(TINY, TINY.weights) == 0
    assert batch_size(TINY, 10**15) == machine.MOST


def test_where_a_model_is_placed() -> None:
    cpu = Device("cpu", "", 64 * GIB, 64 * GIB)
    gpus = [Device(f"cuda:{n}", "", 24 * GIB, (22 + n) * GIB) for n in range(2)]
    seven, thirtytwo = known("Qwen2.5-VL-7B-Instruct"), known("Qwen2.5-VL-32B-Instruct")
    assert "on cuda:1" in place(seven, [*gpus, cpu])[2]
    assert "on the processor" in place(seven, [cpu])[2]
    assert place(thirtytwo, [*gpus])[1] == "too large"
    assert "over 4 devices" in place(thirtytwo, [*gpus, *gpus])[2]
    name, state, facts = place(known("72B-Instruct"), [*gpus, cpu])
    assert (name, state) == ("local/Qwen/Qwen2.5-VL-72B-Instruct", "too large")
    assert "needs 15" in facts


def test_more_memory_never_means_less() -> None:
    for model in KNOWN:
        sizes = [batch_size(model, gib * GIB) for gib in (1, 8, 16, 24, 48, 80, 140, 300)]
        assert sizes == sorted(sizes)
        assert sizes[-1] > 0


def test_the_table_holds_every_model_that_was_asked_for() -> None:
    names = {model.name for model in KNOWN}
    assert len(names) == len(KNOWN)
    assert {f"scorer/{row.key}" for row in BUILT_IN} <= names
    for part in (
        "2.5-VL-3B",
        "2.5-VL-72B",
        "Qwen3-VL-8B",
        "InternVL3_5",
        "gemma-3n",
        "MiMo-VL",
        "SmolVLM",
        "Embedding-0.6B",
    ):
        assert any(part in name for name in names), part
    assert not any(name.removeprefix("scorer/") in TABLE and TABLE[name.removeprefix("scorer/")].adapter == "external" for name in names)  # fmt: skip


def test_bytes_are_those_of_the_rows_own_dtype() -> None:
    for row in BUILT_IN:
        wide = row.options.get("dtype", "float32") == "float32"
        assert known(f"scorer/{row.key}").bytes == (4 if wide else 2), row.key


def counted(kind: str, config: Any) -> float:
    """Parameters in billions of an architecture that takes no memory."""
    import torch
    import transformers

    with torch.device("meta"):
        model = getattr(transformers, kind)(config)
    return float(sum(value.numel() for value in dict(model.named_parameters()).values())) / 1e9


def qwen3(shape: Model, vocabulary: int, heads: int) -> Any:
    from transformers import Qwen3Config

    return Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
    )


@pytest.mark.parametrize(
    ("name", "vocabulary", "heads"),
    [("Embedding-0.6B", 151669, 16), ("Embedding-4B", 151665, 32), ("Embedding-8B", 151665, 32)],
)
def test_embedding_counts_are_those_of_their_shapes(name: str, vocabulary: int, heads: int) -> None:
    model = known(name)
    assert counted("Qwen3Model", qwen3(model, vocabulary, heads)) == pytest.approx(model.parameters, rel=0.01)


@pytest.mark.parametrize(("name", "heads"), [("local/Qwen/Qwen3-8B", 32), ("local/Qwen/Qwen3-14B", 40)])
def test_judge_counts_are_those_of_their_shapes(name: str, heads: int) -> None:
    model = known(name)
    found = counted("Qwen3ForCausalLM", qwen3(model, 151936, heads))
    assert found == pytest.approx(model.parameters, rel=0.01)


@pytest.mark.parametrize(
    ("name", "heads", "out"), [("Qwen2.5-VL-7B-Instruct", 28, 3584), ("Qwen2.5-VL-32B-Instruct", 40, 5120), ("2.5-VL-72B-Instruct", 64, 8192)]
)  # fmt: skip
def test_vision_language_counts_are_those_of_their_shapes(name: str, heads: int, out: int) -> None:
    from transformers import Qwen2_5_VLConfig

    model = known(name)
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": 152064,
            "hidden_size": model.hidden,
            "intermediate_size": model.intermediate,
            "num_hidden_layers": model.layers,
            "num_attention_heads": heads,
            "num_key_value_heads": model.kv_heads,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]},
        },
        vision_config={
            "depth": 32,
            "hidden_size": 1280,
            "intermediate_size": 3456 if out == 5120 or out == 8192 else 3420,
            "num_heads": 16,
            "out_hidden_size": out,
        },
        tie_word_embeddings=False,
    )
    assert counted("Qwen2_5_VLForConditionalGeneration", config) == pytest.approx(model.parameters, rel=0.01)


@pytest.mark.parametrize(
    ("name", "text", "vision", "patch", "image"),
    [
        ("clipscore-hessel", (512, 2048, 12, 8), (768, 3072, 12, 12), 32, 224),
        ("clipscore-cosine", (768, 3072, 12, 12), (1024, 4096, 24, 16), 14, 336),
        ("scorer/pickscore", (1024, 4096, 24, 16), (1280, 5120, 32, 16), 14, 224),
    ],
)
def test_clip_counts_are_those_of_their_shapes(
    name: str, text: tuple[int, ...], vision: tuple[int, ...], patch: int, image: int
) -> None:
    from transformers import CLIPConfig

    keys = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    config = CLIPConfig(
        text_config=dict(zip(keys, text, strict=True)),
        vision_config={**dict(zip(keys, vision, strict=True)), "patch_size": patch, "image_size": image},
        projection_dim=text[0],
    )
    model = known(name)
    assert counted("CLIPModel", config) == pytest.approx(model.parameters, rel=0.01)
    assert model.tokens == (image // patch) ** 2 + 1 + 77 or name == "clipscore-hessel"


# -- the machine -------------------------------------------------------------------------------------------------------


def test_the_report_names_memory_devices_libraries_and_models() -> None:
    rows = local_report()
    assert all(len(row) == 3 and all(isinstance(cell, str) and cell for cell in row) for row in rows)
    named = [row[0] for row in rows]
    assert named[0] == "memory"
    assert {"torch", "transformers", "vllm"} <= set(named)
    assert named[-len(KNOWN) :] == [model.name for model in KNOWN]
    assert {row[1] for row in rows[-len(KNOWN) :]} <= {"fits", "too large"}


def test_without_torch_nothing_imports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def guarded(name: str, *args: Any, **kwargs: Any) -> Any:
        assert name.partition(".")[0] not in ("torch", "transformers"), name
        return real(name, *args, **kwargs)

    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    monkeypatch.setattr(builtins, "__import__", guarded)
    assert len(local_report()) > len(KNOWN)


def test_importing_the_module_is_light() -> None:
    code = "import sys, titjudge.machine; print([m for m in ('torch', 'transformers', 'numpy', 'pydantic') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_a_broken_torch_does_not_break_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> list[Device]:
        raise RuntimeError("driver mismatch")

    monkeypatch.setattr(machine, "_by_torch", broken)
    monkeypatch.setattr(machine, "_by_nvidia_smi", lambda: [Device("cuda:0", "H200", 140 * GIB, 139 * GIB)])
    assert ("device cuda:0", "ok", "H200: 140.0 GiB, 139.0 GiB free") in local_report()


def test_nvidia_smi_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA H200, 143771, 143000'\necho 'odd line'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert machine._by_nvidia_smi() == [Device("cuda:0", "NVIDIA H200", 143771 * 2**20, 143000 * 2**20)]


def test_a_container_has_its_own_limit(tmp_path: Path) -> None:
    assert machine._container(tmp_path) == (None, 0)
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("5\n")
    assert machine._container(tmp_path) == (None, 0)
    (tmp_path / "memory.max").write_text("1000\n")
    assert machine._container(tmp_path) == (1000, 5)
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 3\n")
    assert machine._container(tmp_path) == (1000, 2)  # what is cached of files is free


def test_doctor_local_prints_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from titjudge.cli.doctor import doctor

    monkeypatch.setattr(machine, "accelerators", list)
    result = CliRunner().invoke(doctor, ["--local"], standalone_mode=False)
    assert "Qwen2.5-VL-7B" in result.output
    assert "no graphics processor" in " ".join(result.output.split())


def test_metrics_lists_what_the_learned_ones_are() -> None:
    from titjudge.cli.lists import metrics

    result = CliRunner().invoke(metrics, [], standalone_mode=False)
    assert result.exit_code == 0, result.output
    for word in ("learned baselines", "by your command", "THUDM/ImageReward", "Apache-2.0"):
        assert word in result.output
