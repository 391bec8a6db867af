"""`label`: people choose which of two images follows a prompt better, or mark the elements of one image.

| module | what it does |
|---|---|
| `questions` | questions and answers, the accuracy of an annotator on checks, the base of the forms, the content of a store |
| `pair_form`, `element_form` | the two forms: content of a question, allowed answers, decisions, items for experts, exports |
| `forms` | a form by its name, the content of a store, and `export_labels`: the decisions, as files |
| `votes` | what answers on pairs decide, by the rules of A.11, and the ranks of images |
| `elements` | the elements to mark in one image (questions, facets, a graph, pillars), their values, decisions by majority |
| `dataset` | prompts and images of a data folder, gold pairs, and the only access to image files |
| `queues` | the questions of one annotator, and which pair to ask next: functions of the answers so far |
| `store` | answers on disk (SQLite), append-only, and the names of annotators |
| `service` | all annotators: links, people who join by one link, blinded images; writes an answer to disk, then returns the next question |
| `server` | `serve_label` and `serve_experts`: the pages of annotators, experts and the organiser |
"""

from pathlib import Path
from typing import NamedTuple

PORT = 8765  # tried first


class Rules(NamedTuple):
    """How people are asked.

    Attributes:
        mode: `pairs`, `rank`, or what is marked in single images: `yes-no`, `facets`, `graph`, `rating`.
        open_link: One link for everyone, with a page on which people type their names.
        plan: Which pairs are asked: `all`, or `merge` (merge sort over the images of a prompt); None: as the store was begun,
            and all in a new one.
        both_bad: Whether "both bad" is an answer, beside left, right and tie.
        votes: Stop asking about an item after this number of answers, or fewer if they decide it; 0: ask everyone.
        gold: Attention checks to mix in: pairs with known answers (as `pairs.jsonl`), or elements with known values (image,
            element, value).
        gold_share: Share of checks among the questions, at most a third; None: about 1 in 12, more if there are few questions.
        gold_least: Stop asking an annotator whose share of right checks is certainly lower.
        seed: Seed of orders and sides; recorded in the store.
    """

    mode: str = "pairs"
    open_link: bool = False
    plan: str | None = None
    both_bad: bool = True
    votes: int = 0
    gold: Path | None = None
    gold_share: float | None = None
    gold_least: float = 0.7
    seed: int = 0
