"""Few human labels and many scores of a judge: prediction-powered estimates, and bridges between judges.

| module | what it computes |
| --- | --- |
| `inference` | prediction-powered inference: few preferences of people and many of a judge |
| `ppi_leaderboard` | a leaderboard by it |
| `bridging` | an old judge's leaderboard on a new judge's scale |
"""
