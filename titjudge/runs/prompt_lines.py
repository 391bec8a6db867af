"""What a run over prompts has found, as lines of a file: one for each prompt that got an answer, with its provenance."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
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


def write_prompt_lines(lines: Sequence[Mapping[str, Any]], out: Path, *, whole: bool) -> str:
    """Write lines as JSON lines; those of a run that was stopped go to a file of their own, and what is in `out` stays.

    Args:
        lines: What a run has found.
        out: Where all of it goes.
        whole: Whether every prompt has been worked on.

    Returns:
        Where they are, in words.
    """
    part = out.with_suffix(f".part{out.suffix}")
    write_atomic(out if whole else part, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    if not whole:
        return f"{part}, which is not all: the same command goes on and writes {out}"
    part.unlink(missing_ok=True)
    return str(out)
