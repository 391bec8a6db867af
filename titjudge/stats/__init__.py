"""Statistics of scores: agreement of metrics with people, and comparisons of generators; pure functions.

| package or module | content |
| --- | --- |
| `people` | agreement of judges with people |
| `ranking` | ranks, strengths and rank correlation |
| `generators` | comparisons of generators, and the number of prompts for them |
| `verdict` | the main result of a run, in plain sentences |
| `scores` | the scores of a run as tables |
| `ppi` | few human labels with many scores of a judge |
| `pairwise_accuracy` | accuracy on human pairs, its interval, tie-optimised accuracy |
| `chance_level` | accuracy by chance, and significance thresholds |
| `significance` | permutation tests, Holm, Benjamini-Hochberg |
| `intervals`, `bootstrap` | intervals over prompts that keep their coverage when prompts are few |
| `equality` | which scores are equal, up to rounding |

Shares and p-values are from 0 to 1, intervals are 95% and over prompts, unless stated. A statistic that is undefined is None,
never zero, and has a reason.
"""
