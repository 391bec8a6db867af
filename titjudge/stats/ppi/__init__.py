"""Few human labels and many scores of a judge: prediction-powered estimates, and bridges between judges.

| module | what it computes |
| --- | --- |
| `ppi_leaderboard` | generators as people would rank them: prediction-powered inference from few preferences of people and many of a judge |
| `bridging` | an old judge's leaderboard on a new judge's scale |
"""
