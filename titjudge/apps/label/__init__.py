"""`label`: people say which of two images follows a prompt better, or mark the elements of one image.

| module | what it does |
|---|---|
| `question_order` | which pair to ask next: merge sort with ties, or all pairs; a pure function of the answers so far |
| `dataset` | prompts and images of a data folder, gold pairs, and the only access to image files |
| `store` | votes on disk (SQLite), append-only: an undo is a row of its own |
| `annotator` | the questions of one annotator: the next one, sides, gold pairs, progress |
| `service` | all annotators: links, blinded images; writes a vote to disk, then returns the next question |
| `server` | `serve_label` and `serve_experts`: the page |
| `reliability` | whether an annotator answers checks right, and when to stop one who does not |
| `collected` | whose votes count, what they decide, and what is left for experts |
| `experts` | the page for experts, with what the annotators said |
| `aggregate`, `rankings`, `export` | `export_labels`: votes to pairs, ranks, agreement and a list for experts |
| `elements` | what is marked in one image: questions, facets, a graph, pillars; allowed values and dependencies |
| `element_service`, `element_export` | the same as `service` and `export` for marks |
| `label_studio` | tasks for Label Studio, and its annotations back |
"""
