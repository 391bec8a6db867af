"""`label`: people say which of two images follows a prompt better, or mark the elements of one image.

| module | what it does |
|---|---|
| `questions` | what is asked and answered, what a form of questions does, and the content of a store |
| `pair_form`, `element_form` | the two forms: what is shown, allowed, settled, left to experts and exported |
| `forms` | a form by its name, or that of a store |
| `votes`, `marks`, `rankings` | what answers decide: pairs by the rules of A.11, elements by majority; ranks of images |
| `elements` | what is marked in one image: questions, facets, a graph, pillars; allowed values, dependencies, known values |
| `dataset` | prompts and images of a data folder, gold pairs, and the only access to image files |
| `queues`, `question_order` | the questions of one annotator, and which pair to ask next: functions of the answers so far |
| `store` | answers on disk (SQLite), append-only |
| `people` | the names of annotators: numbered, given, or typed by themselves |

| `service` | all annotators: links, people who join by one link, blinded images; writes an answer to disk, then returns the next question |
| `organiser` | who has done how much, and how far people agree so far |
| `server` | `serve_label` and `serve_experts`: the pages |
| `reliability` | whether an annotator answers checks right, and when to stop one who does not |
| `export` | `export_labels`: what the answers decide, as files |
"""

PORT = 8765  # tried first
