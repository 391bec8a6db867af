"""Reports about how a model's reply is read."""

from kinds import Said

REPORTS = [
    Said(
        "modelscope/evalscope#1578", "the last bare number of a sentence is taken for the score",
        "lmm-score", ["Of 100 points I would give some, perhaps 3 or 40."], status="unparsed",
    ),
]
