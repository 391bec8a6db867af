"""The labelling page: people say which of two images follows a prompt better, or mark the elements of one image.

| module | what it does |
|---|---|
| `question_order` | which pair to ask next: merge sort with ties, or all pairs; a pure function of the answers so far |
| `dataset` | prompts and images of a data folder, gold pairs, and the only door to image files |
| `store` | votes on disk (SQLite), append-only: an undo is a row of its own |
| `annotator` | one annotator: votes so far to the next question, sides, gold pairs, progress |
| `service` | all annotators: links, blinded images; takes a vote, puts it on disk, gives the next question |
| `server` | `serve_label`: the page |
| `reliability` | is an annotator right where the answer is known, and when to stop one who is not |
| `collected` | whose votes count, what they decide, and what is left for experts |
| `experts` | the page on what is open, with what the annotators said |
| `aggregate`, `rankings`, `export` | `export_labels`: votes to pairs, ranks, agreement and a list for experts |
| `elements` | what is marked of one image: questions, facets, a graph, pillars; which values, and what locks what |
| `element_service`, `element_export` | marks on disk before the next image; majority and agreement |
| `label_studio` | tasks for Label Studio, and its annotations back |
"""
