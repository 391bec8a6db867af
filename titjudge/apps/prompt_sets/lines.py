"""Write the results of a run over prompts as JSON lines, with their provenance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from titjudge.core.files import write_jsonl
from titjudge.runs.folder.run_folder import RunFolder


def prompt_lines(run: Path, metric: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of each prompt that has a score by `metric`.

    A line has `prompt_id`, `prompt`, the parts of the score (or of each of its `lines`) and `provenance`.
    """
    folder = RunFolder(run)
    manifest, scores = folder.manifest(), folder.scores()
    provenance = {
        "models": {name: role.model for name, role in manifest.roles.items() if role.asked or role.cached},
        "templates": dict(manifest.prompts),
        "metric": f"{metric} {manifest.metrics[metric].version}" if metric in manifest.metrics else metric,
    }
    for item in folder.judged():
        score = scores.get((item.id, metric))
        if score is not None and score.value is not None:
            prompt = {"prompt_id": item.prompt_id, "prompt": item.prompt}
            for line in score.parts.get("lines", [score.parts]):
                yield prompt | line | {"provenance": provenance}


def write_prompt_lines(lines: Sequence[Mapping[str, Any]], out: Path, *, complete: bool) -> str:
    """Write lines to `out` or, while they are not `complete`, to NAME.part.jsonl beside it.

    Returns:
        Where they are, in words for the user.
    """
    part = out.with_suffix(f".part{out.suffix}")
    write_jsonl(out if complete else part, lines)
    if not complete:
        return f"{part}, which is not all: the same command goes on and writes {out}"
    part.unlink(missing_ok=True)
    return str(out)
