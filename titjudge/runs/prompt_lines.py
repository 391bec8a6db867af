"""What a run over prompts has found, as lines of a file: one for each prompt that got an answer, with its provenance."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from titjudge.core.files import write_atomic
from titjudge.core.types import Item
from titjudge.runs.run_folder import RunFolder


def prompt_lines(run: Path, metric: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of each prompt with a score, in their order.

    A line has `prompt_id`, `prompt`, the parts of the score (or of each of its `lines`) and `provenance`.

    Args:
        run: The run folder.
        metric: Whose parts.
    """
    folder = RunFolder(run)
    manifest, scores = folder.manifest(), folder.scores()
    provenance = {
        "models": {name: role.model for name, role in manifest.roles.items() if role.asked or role.cached},
        "templates": dict(manifest.prompts),
        "metric": f"{metric} {manifest.metrics[metric].version}" if metric in manifest.metrics else metric,
    }
    for item in folder.items():
        score = scores.get((item.id, metric))
        if isinstance(item, Item) and score is not None and score.value is not None:
            own = {"prompt_id": item.prompt_id, "prompt": item.prompt}
            for line in score.parts.get("lines", [score.parts]):
                yield own | line | {"provenance": provenance}


def write_prompt_lines(run: Path, metric: str, out: Path) -> int:
    """Write `prompt_lines` as JSON lines, whole or not at all; returns how many."""
    lines = [json.dumps(line, ensure_ascii=False) + "\n" for line in prompt_lines(run, metric)]
    write_atomic(out, "".join(lines))
    return len(lines)
