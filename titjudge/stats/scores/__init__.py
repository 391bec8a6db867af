"""The scores of a run as tables: by prompt, by part, claims met, missing scores.

| module | what it computes |
| --- | --- |
| `scores_table` | scores by prompt and generator, from a table file |
| `per_prompt` | means of the images of a prompt |
| `part_scores` | scores of parts: claims, questions, facets |
"""
