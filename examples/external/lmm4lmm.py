"""LMM4LMM for titjudge: the authors' own script, run once for a batch.

You supply
  - a checkout of github.com/IntMeGroup/LMM4LMM (it names no licence) and the environment its README asks for: Python 3.9,
    transformers 4.37.2, flash-attn, deepspeed, one GPU;
  - the weights, IntMeGroup/LMM4LMM-Correspondence on the hub (or -Perception, with --dimension perception).

    export TITJUDGE_EXTERNAL_LMM4LMM="/envs/lmm4lmm/bin/python examples/external/lmm4lmm.py --repository /src/LMM4LMM"
    python cli.py judge --data my_images --metric lmm4lmm

The score is the authors' head after their conversation, about 0 to 100. Two things their script does are mended here: a
prompt of several lines would shift all that follow (its file has one prompt a line), so breaks become blanks; and for a
picture it cannot open it scores another one instead, so a picture with no line, or two, has no score. Not tried with the
real weights: the arguments are those of shell/infer_correspondence.sh and shell/infer_perception.sh.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from protocol import Row, answers, line, rows

SCRIPTS = {"perception": "eval_scores_infer.py", "correspondence": "eval_scores_infer2.py"}
PUBLISHED = {
    "conv_style": "internlm2-chat",
    "overwrite_output_dir": "True",
    "force_image_size": "448",
    "max_dynamic_patch": "6",
    "down_sample_ratio": "0.5",
    "drop_path_rate": "0.1",
    "freeze_llm": "True",
    "freeze_mlp": "True",
    "freeze_backbone": "True",
    "vision_select_layer": "-1",
    "dataloader_num_workers": "4",
    "bf16": "True",
    "num_train_epochs": "100",
    "per_device_train_batch_size": "1",
    "gradient_accumulation_steps": "1",
    "evaluation_strategy": "no",
    "save_strategy": "steps",
    "save_steps": "4800",
    "save_total_limit": "1",
    "learning_rate": "4e-5",
    "weight_decay": "0.01",
    "warmup_ratio": "0.03",
    "lr_scheduler_type": "cosine",
    "logging_steps": "1",
    "max_seq_length": "4096",
    "do_train": "True",
    "grad_checkpoint": "True",
    "group_by_length": "True",
    "dynamic_image_size": "True",
    "use_thumbnail": "True",
    "ps_version": "v2",
    "deepspeed": "zero_stage1_config.json",
    "report_to": "none",
}


def written(wanted: list[Row], folder: Path) -> Path:
    """The authors' input files: pictures and prompts, one a line, and the file that names both."""
    images, prompts, meta = folder / "images.txt", folder / "prompts.txt", folder / "meta.json"
    images.write_text("".join(f"{Path(row['image']).resolve()}\n" for row in wanted), encoding="utf-8")
    prompts.write_text("".join(" ".join(row["prompt"].split()) + "\n" for row in wanted), encoding="utf-8")
    about = {"root": str(folder), "annotation_infer": str(images), "img_prompt": str(prompts), "data_augment": False, "repeat_time": 1}  # fmt: skip
    meta.write_text(json.dumps({"titjudge": about}), encoding="utf-8")
    return meta


def command(given: argparse.Namespace, meta: Path, table: Path) -> list[str]:
    """Their inference script with the published arguments."""
    return [
        *given.launcher.split(),
        str(Path("internvl") / "train" / SCRIPTS[given.dimension]),
        "--model_name_or_path", given.weights, "--meta_path", str(meta), "--output_file", str(table),
        "--output_dir", str(table.parent / "output"), *(word for name, value in PUBLISHED.items() for word in (f"--{name}", value)),
    ]  # fmt: skip


def table_of(path: Path) -> dict[str, list[float]]:
    """Scores by picture, as their table has them."""
    found: dict[str, list[float]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["imgname"], []).append(float(row["pred_score"]))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", type=Path, required=True, help="Checkout of IntMeGroup/LMM4LMM.")
    parser.add_argument("--dimension", choices=sorted(SCRIPTS), default="correspondence")
    parser.add_argument("--weights", help="Folder or name on the hub  [default: IntMeGroup/LMM4LMM-<Dimension>].")
    parser.add_argument(
        "--launcher",
        default=f"{sys.executable} -m torch.distributed.run --standalone --nnodes=1 --nproc_per_node=1",
        help="What starts their script  [default: torchrun of this Python].",
    )
    given = parser.parse_args()
    given.weights = given.weights or f"IntMeGroup/LMM4LMM-{given.dimension.capitalize()}"
    if not (given.repository / "internvl" / "train" / SCRIPTS[given.dimension]).is_file():
        parser.error(f"{given.repository} is no checkout of IntMeGroup/LMM4LMM")
    wanted = rows(sys.stdin)
    with answers() as out, tempfile.TemporaryDirectory() as scratch:
        meta, table = written(wanted, Path(scratch)), Path(scratch) / "scores.csv"
        environment = {**os.environ, "LAUNCHER": "pytorch", "PYTHONPATH": str(given.repository.resolve())}
        subprocess.run(command(given, meta, table), cwd=given.repository, env=environment, check=True)
        found = table_of(table)
        for row in wanted:
            scores = found.get(str(Path(row["image"]).resolve()), [])
            why = "" if len(scores) == 1 else f"their table has {len(scores)} lines for this picture (unreadable?)"
            out.write(line(row, scores[0] if len(scores) == 1 else None, why))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
