"""Agreement of judges with people: votes, pairs, ranks, elements.

| module | what it computes |
| --- | --- |
| `agreement` | all of it: `agreement(items, scores, pairs)`, what `judge`, `judges agreement` and the report show |
| `agreement_tables` | its tables |
| `agreement_cuts` | accuracy by length of the prompt, category, gap of scores or ranks |
| `votes` | votes of annotators to one preference a pair, and their agreement |
| `score_correlation` | correlation of metrics and their parts with human scores |
| `element_agreement` | marks of elements, against marks of people |
"""
