"""Ranks and strengths: mean ranks of a leaderboard, Bradley-Terry, rank correlation.

| module | what it computes |
| --- | --- |
| `leaderboard` | generators by mean rank over prompts |
| `bradley_terry` | strengths of generators from pairs, or comparisons drawn at random, where a finite fit exists |
| `rank_agreement` | rank correlation and nDCG inside each prompt, averaged over prompts |
| `correlation` | SRCC, PLCC and KRCC with human scores over all images; `judges ranks` |
"""
