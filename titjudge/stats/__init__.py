"""Statistics of scores: agreement of metrics with people, and comparisons of generators; pure functions.

| module | what it computes |
| --- | --- |
| `agreement` | all of it: `agreement(items, scores, pairs)`, what `judge`, `compare` and the report show |
| `pairwise_accuracy` | accuracy on human pairs, its interval, tie-optimised accuracy |
| `chance_level` | accuracy by chance, and significance thresholds |
| `rank_agreement` | rank correlation and nDCG inside each prompt, averaged over prompts |
| `correlation` | SRCC, PLCC and KRCC with human scores over all images; `compare ranks` |
| `leaderboard` | generators by mean rank over prompts |
| `bradley_terry` | strengths of generators from pairs, where a finite fit exists |
| `paired_differences` | differences of metrics, or runs, on the same pairs or images |
| `generator_differences` | differences of generators on the same prompts, with a gate |
| `significance` | permutation tests, Holm, Benjamini-Hochberg |
| `planning` | numbers of prompts, images and answers that a wanted difference needs, from a pilot |
| `sequential` | confidence sequences: stop as soon as one generator is known to be better |
| `scores_table` | scores by prompt and generator, from a table file |
| `slices` | categories of prompts, first places, tiers |
| `bridging` | an old judge's leaderboard on a new judge's scale |
| `judge_pool` | the mean of at most three judges that agrees best with people |
| `ppi`, `ppi_leaderboard` | prediction-powered inference: few preferences of people and many of a judge |
| `two_tier` | a cheap judge on all prompts and a dear one on a random part |
| `duels` | strengths of generators over comparisons drawn at random |
| `published_tables` | leaderboards published in papers |
| `cascade` | cheap judges first, further ones where they are unsure |
| `votes` | votes of annotators to one preference a pair, and their agreement |
| `forgetting` | share of claims met by position in the prompt, kind and length |
| `intervals`, `bounds`, `bootstrap` | intervals over prompts that keep their coverage when prompts are few |

A statistic that is undefined is None, never zero, and has a reason.
"""

__all__ = [
    "agreement",
    "bootstrap",
    "bounds",
    "bradley_terry",
    "bridging",
    "cascade",
    "chance_level",
    "correlation",
    "duels",
    "forgetting",
    "generator_differences",
    "intervals",
    "judge_pool",
    "leaderboard",
    "paired_differences",
    "pairwise_accuracy",
    "planning",
    "ppi",
    "ppi_leaderboard",
    "published_tables",
    "rank_agreement",
    "scores_table",
    "sequential",
    "significance",
    "slices",
    "two_tier",
    "votes",
]
