"""A scorer of nothing: the words of the prompt, counted. It shows the whole way without any weights.

export TITJUDGE_EXTERNAL_LMM4LMM="python examples/external/stand_in.py"
python cli.py judge --metric lmm4lmm --limit 6
"""

from __future__ import annotations

import argparse

from protocol import Row, serve


def score(row: Row) -> Row:
    words = len(row["prompt"].split())
    return {
        "score": float(words),
        "tokens_used": words,
        "tokens_total": words,
        "reason": "stand-in: words of the prompt",
    }


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    serve(score)
