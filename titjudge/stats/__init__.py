"""Statistics of scores: agreement of metrics with people, and comparisons of generators; pure functions.

| package or module | content |
| --- | --- |
| `people` | agreement of judges with people |
| `ranking` | ranks, strengths and rank correlation |
| `generators` | comparisons of generators, and the number of prompts for them |
| `verdict` | what is to be known first of a run, in plain sentences |
| `scores` | the scores of a run as tables |
| `ppi` | few human labels with many scores of a judge |
| `pairwise_accuracy` | accuracy on human pairs, its interval, tie-optimised accuracy |
| `chance_level` | accuracy by chance, and significance thresholds |
| `significance` | permutation tests, Holm, Benjamini-Hochberg |
| `intervals`, `bootstrap` | intervals over prompts that keep their coverage when prompts are few |
| `equality` | which scores are equal, up to rounding |

A statistic that is undefined is None, never zero, and has a reason.
"""
