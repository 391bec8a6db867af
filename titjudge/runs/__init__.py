"""Run, resume, merge, verify and replay whole evaluations.

`Session` runs a configuration and returns an `Outcome`; `RunFolder` reads the files of a run; `Judge` scores images without a run
folder, and returns `JudgedScore` or `Scores`.

    from pathlib import Path
    from titjudge.core.config import load_config
    from titjudge.runs import Session

    outcome = Session(load_config(Path("run.yaml"))).run()
    print(outcome.status, outcome.folder, outcome.report)

Sums of money are USD. A run that a cap or Ctrl-C ends keeps its answers, and the same configuration continues it. A mistake in the
configuration or the data raises `UserError`; a wrong key or an empty quota raises `FatalProviderError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from titjudge.core.lazy import lazy_exports

if TYPE_CHECKING:
    from titjudge.runs.api.judge import Judge as Judge
    from titjudge.runs.api.judged_scores import JudgedScore as JudgedScore
    from titjudge.runs.api.judged_scores import Scores as Scores
    from titjudge.runs.api.judged_scores import ScoreStream as ScoreStream
    from titjudge.runs.folder.run_folder import RunFolder as RunFolder
    from titjudge.runs.outcome import Outcome as Outcome
    from titjudge.runs.session import Session as Session
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "titjudge.runs.api.judge": "Judge",
            "titjudge.runs.api.judged_scores": "JudgedScore Scores ScoreStream",
            "titjudge.runs.folder.run_folder": "RunFolder",
            "titjudge.runs.outcome": "Outcome",
            "titjudge.runs.session": "Session",
        },
    )
