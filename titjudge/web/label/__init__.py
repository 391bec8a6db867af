"""The labelling page: people see a prompt and two images, and say which follows the prompt better.

| module | what it does |
|---|---|
| `question_order` | which pair to ask next: merge sort with ties, or all pairs; a pure function of the answers so far |
| `dataset` | prompts and images of a data folder, gold pairs, and the only door to image files |
| `store` | votes on disk (SQLite), append-only: an undo is a row of its own |
| `annotator` | one annotator: votes so far to the next question, sides, gold pairs, progress |
| `service` | all annotators: takes a vote, puts it on disk, gives the next question |
| `server` | `serve_label`: the page |
| `aggregate`, `export` | `export_labels`: votes to pairs, ranks, agreement and a list for experts |
| `label_studio` | tasks for Label Studio, and its annotations back |
"""
