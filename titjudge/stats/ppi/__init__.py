"""Few human labels and many scores of a judge: prediction-powered estimates, cascades, bridges between judges.

| module | what it computes |
| --- | --- |
| `inference` | prediction-powered inference: few preferences of people and many of a judge |
| `ppi_leaderboard` | a leaderboard by it |
| `two_tier` | a cheap judge on all prompts and a dear one on a random part |
| `cascade` | cheap judges first, further ones where they are unsure |
| `cascade_rules` | when a judge is unsure |
| `bridging` | an old judge's leaderboard on a new judge's scale |
| `judge_pool` | the mean of at most three judges that agrees best with people |
"""
