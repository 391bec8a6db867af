"""How far judges agree with people: votes, pairs, ranks, elements.

| module | what it computes |
| --- | --- |
| `agreement` | all of it: `agreement(items, scores, pairs)`, what `judge`, `compare` and the report show |
| `agreement_tables` | its tables |
| `agreement_cuts` | accuracy by length of the prompt, category, gap of scores or ranks |
| `votes` | votes of annotators to one preference a pair, and their agreement |
| `pair_conflicts` | pairs that contradict one another |
| `element_agreement` | marks of elements, against those of people |
"""
