"""What fits on a machine: the formula by hand, the table against models built on paper, reports without torch."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from titjudge.data.learned_metrics import NATIVE, TABLE, ModelSize, rows
from titjudge.providers.local import hardware
from titjudge.providers.local.hardware import (
    GIB,
    KNOWN,
    RESERVE,
    SHARE,
    Device,
    KnownModel,
    batch_size,
    local_report,
    place,
)

TINY = ModelSize(1.0, layers=2, kv_heads=4, head_dim=8, hidden=100, intermediate=300, tokens=1000)


def known(name: str) -> KnownModel:
    return next(model for model in KNOWN if model.name.endswith(name))


def test_the_formula_by_hand() -> None:
    assert TINY.weights == 2_000_000_000
    assert TINY.row == 1000 * 2 * (2 * 2 * 4 * 8 + 600 + 400)
    free = int((TINY.weights + RESERVE + 5.5 * TINY.row) / SHARE)
    assert batch_size(TINY, free) == 5
    assert batch_size(TINY, TINY.weights) == 0
    assert batch_size(TINY, 10**15) == hardware.MOST


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
        sizes = [batch_size(model.size, gib * GIB) for gib in (1, 8, 16, 24, 48, 80, 140, 300)]
        assert sizes == sorted(sizes)
        assert sizes[-1] > 0


def test_the_table_holds_every_model_that_was_asked_for() -> None:
    names = {model.name for model in KNOWN}
    assert len(names) == len(KNOWN)
    assert {f"scorer/{row.key}" for row in rows(NATIVE)} <= names
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


def test_what_could_not_be_counted_is_said_to_be_about() -> None:
    cpu = Device("cpu", "", 64 * GIB, 64 * GIB)
    assert "about 5.44 B parameters" in place(known("gemma-3n-E2B-it"), [cpu])[2]
    assert "about" not in place(known("Qwen3-VL-8B-Instruct"), [cpu])[2]


def test_bytes_are_those_of_the_rows_own_dtype() -> None:
    for row in rows(NATIVE):
        wide = row.options.get("dtype", "float32") == "float32"
        assert known(f"scorer/{row.key}").size.bytes == (4 if wide else 2), row.key


# -- the machine -------------------------------------------------------------------------------------------------------


def test_the_report_names_memory_devices_libraries_and_models() -> None:
    rows = local_report()
    assert all(len(row) == 3 and all(isinstance(cell, str) and cell for cell in row) for row in rows)
    named = [row[0] for row in rows]
    assert named[0] == "memory"
    assert {"torch", "transformers", "vllm"} <= set(named)
    assert named[-len(KNOWN) :] == [model.name for model in KNOWN]
    assert {row[1] for row in rows[-len(KNOWN) :]} <= {"fits", "too large"}


def test_importing_the_module_is_light() -> None:
    code = "import sys, titjudge.providers.local.hardware; print([m for m in ('torch', 'transformers', 'numpy', 'pydantic') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_a_broken_torch_does_not_break_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert hardware.accelerators() == []
    assert ("device", "none") in [row[:2] for row in local_report()]


def test_graphics_processors_are_listed_with_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda number: (139 * GIB, 140 * GIB))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number: "H200")
    assert ("device cuda:0", "ok", "H200: 140.0 GiB, 139.0 GiB free") in local_report()


def test_a_container_has_its_own_limit(tmp_path: Path) -> None:
    assert hardware._container(tmp_path) == (None, 0)
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("5\n")
    assert hardware._container(tmp_path) == (None, 0)
    (tmp_path / "memory.max").write_text("1000\n")
    assert hardware._container(tmp_path) == (1000, 5)
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 3\n")
    assert hardware._container(tmp_path) == (1000, 2)  # what is cached of files is free


def test_doctor_local_prints_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from titjudge.cli.doctor import doctor

    monkeypatch.setattr(hardware, "accelerators", list)
    result = CliRunner().invoke(doctor, ["--local"], standalone_mode=False)
    assert "Qwen2.5-VL-7B" in result.output
    assert "no graphics processor" in " ".join(result.output.split())


def test_metrics_lists_what_the_learned_ones_are() -> None:
    from titjudge.cli.catalog import metrics

    result = CliRunner().invoke(metrics, [], standalone_mode=False)
    assert result.exit_code == 0, result.output
    for word in ("learned metrics", "by your command", "THUDM/ImageReward", "Apache-2.0"):
        assert word in result.output
