"""Ranks and strengths: mean ranks of a leaderboard, Bradley-Terry, rank correlation.

| module | what it computes |
| --- | --- |
| `leaderboard` | generators by mean rank over prompts |
| `bradley_terry` | strengths of generators from pairs, where a finite fit exists |
| `duels` | strengths of generators over comparisons drawn at random |
| `rank_agreement` | rank correlation and nDCG inside each prompt, averaged over prompts |
| `correlation` | SRCC, PLCC and KRCC with human scores over all images; `compare ranks` |
| `rankdata` | ranks with ties |
"""
