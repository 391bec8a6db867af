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

PORT = 8765  # tried first
