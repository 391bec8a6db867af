"""Report what this machine can run: memory, devices, libraries, and which of the known models fit, at what batch size.

Nothing is loaded or downloaded. The formula, an estimate:

    weights = parameters * bytes
    row     = tokens * bytes * (2 * layers * kv_heads * head_dim  +  2 * intermediate + 4 * hidden)
    batch   = (SHARE * free memory - RESERVE - weights) / row

A row is one request: image of 1024 x 1024, prompt and answer together, in tokens; the first term is its key-value cache
(none in an encoder: layers = 0), the second the memory of one layer while it reads. `bytes` is 2 (bfloat16) for chat and
embedding models and the size of the row's dtype for learned metrics. SHARE leaves memory for fragments, RESERVE for the
runtime. Parameter counts follow from the shapes of the released models: the tests build every one of them, without
memory, and count; "about" marks models that they cannot build whole.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from titjudge.data.learned_metrics import NATIVE, ModelSize, rows

SHARE = 0.9  # of the free memory
RESERVE = 2**29  # bytes
MOST = 512  # no batch is larger
GIB = 2**30
LIBRARIES = tuple("torch transformers sentence-transformers accelerate vllm ray".split())
TOO_LARGE = "too large"
Row = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Device:
    """A memory that a model can be loaded into. On a Mac, `mps` and `cpu` share one memory.

    Attributes:
        name: As torch names it.
        label: Its description.
        total: Bytes.
        free: Bytes that no process uses.
    """

    name: str
    label: str
    total: int
    free: int


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A known model.

    Attributes:
        name: `provider/model`.
        size: From which its memory follows.
        about: Its parameters could not be counted from the shapes.
    """

    name: str
    size: ModelSize
    about: bool = False


def _known() -> Iterator[KnownModel]:
    """Read the models in `hardware.toml`, and the learned metrics of a known size."""
    content = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    for row in content["models"]:
        name, about = row.pop("name"), row.pop("about", False)
        yield KnownModel(name, ModelSize(**row), about)
    yield from (KnownModel(f"scorer/{row.key}", row.size) for row in rows(NATIVE) if row.size is not None)


KNOWN = tuple(_known())


def batch_size(model: ModelSize, free: int) -> int:
    """Count the requests that fit into `free` bytes beside the weights; 0 when the model does not fit with one."""
    room = int(SHARE * free) - RESERVE - model.weights
    return max(0, min(MOST, room // model.row))


def place(model: KnownModel, devices: Sequence[Device]) -> Row:
    """Return the devices on which a model fits: on one accelerator, on several together (device_map: auto), on the processor, or nowhere."""
    accelerators = [device for device in devices if device.name != "cpu"]
    places: list[tuple[int, str]] = []  # free bytes, and where
    if accelerators:
        best = max(accelerators, key=lambda device: device.free)
        places.append((best.free, f"on {best.name}"))
    if len(accelerators) > 1:
        together = sum(device.free for device in accelerators) - RESERVE * (len(accelerators) - 1)
        places.append((together, f"over {len(accelerators)} devices (device_map: auto)"))
    places += [(device.free, "on the processor (slow)") for device in devices if device.name == "cpu"]
    about, size = "about " if model.about else "", model.size
    facts = f"{about}{size.parameters:g} B parameters, {_gib(size.weights)} + {_gib(size.row)} a row"
    for free, where in places:
        if rows := batch_size(size, free):
            return (model.name, "fits", f"{facts}; batch size {rows} {where}")
    needed = (size.weights + size.row + RESERVE) / SHARE
    return (model.name, TOO_LARGE, f"{facts}; needs {_gib(int(needed))} free")


def _gib(count: int) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB / 2 else f"{count / 2**20:.0f} MiB"


# -- what there is -----------------------------------------------------------------------------------------------------


def memory() -> Device:
    """Measure main memory, or the share of it that this container may use; 0 if it cannot be measured."""
    total, free = _main_memory()
    limit, used = _container()
    if limit is not None and limit < total:
        total, free = limit, min(free, max(0, limit - used))
    return Device("cpu", f"{os.cpu_count() or 1} processors", total, free)


def _main_memory() -> tuple[int, int]:
    """Measure the main memory in bytes, as (total, free); if the free part is unknown, half counts as free."""
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text("ascii").splitlines())
        return int(lines["MemTotal"].split()[0]) * 1024, int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError, IndexError):
        pass
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 0, 0
    return total, total // 2


def _container(root: Path = Path("/sys/fs/cgroup")) -> tuple[int | None, int]:
    """Read the memory limit of this container's cgroup and the bytes in use; no limit is None."""
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            most, now = int((root / limit).read_text("ascii")), int((root / used).read_text("ascii"))
        except (OSError, ValueError):  # none, or the word "max"
            continue
        return most, max(0, now - _cached_files((root / used).parent))
    return None, 0


def _cached_files(folder: Path) -> int:
    """Count the bytes of cached files: they count as used, but the system frees them when needed."""
    try:
        lines = (folder / "memory.stat").read_text("ascii").splitlines()
        return next(
            int(line.split()[1]) for line in lines if line.startswith(("inactive_file ", "total_inactive_file "))
        )
    except (OSError, ValueError, IndexError, StopIteration):
        return 0


def accelerators() -> list[Device]:
    """List the graphics processors that torch can use; none if torch does not load."""
    try:
        import torch

        if torch.cuda.is_available():
            return [_cuda_device(number) for number in range(torch.cuda.device_count())]
        if torch.backends.mps.is_available():
            main = memory()
            return [Device("mps", "Apple GPU (shares the main memory)", main.total, main.free)]
    except Exception:  # a broken installation raises of every kind; the report goes on without it
        pass
    return []


def _cuda_device(number: int) -> Device:
    import torch

    free, total = torch.cuda.mem_get_info(number)
    return Device(f"cuda:{number}", torch.cuda.get_device_name(number), int(total), int(free))


def _library(name: str) -> Row:
    try:
        return (name, "ok", version(name))
    except PackageNotFoundError:
        return (name, "not installed", f"pip install {name}")


def local_report() -> list[Row]:
    """List (what, state, facts) of memory, devices, libraries, and each known model: `fits` or `too large`."""
    main, devices = memory(), accelerators()
    rows: list[Row] = [
        ("memory", "ok" if main.total else "unknown", f"{_gib(main.total)}, {_gib(main.free)} free; {main.label}")
    ]
    for device in devices:
        rows.append((f"device {device.name}", "ok", f"{device.label}: {_gib(device.total)}, {_gib(device.free)} free"))
    if not devices:
        rows.append(("device", "none", "no graphics processor found: local models run on the processor, slowly"))
    rows += [_library(name) for name in LIBRARIES]
    return rows + [place(model, [*devices, main]) for model in KNOWN]
