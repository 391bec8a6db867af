"""Measure how far a metric agrees with people, and which generator is better: pure functions over plain records.

| module | what it answers |
| --- | --- |
| `agreement` | everything at once: `agreement(items, scores, pairs)`, what `judge`, `compare` and the report show |
| `pairwise_accuracy` | accuracy on human pairs, its interval, tie-optimised accuracy |
| `chance_level` | how many pairs guessing gets right, and the thresholds that follow |
| `rank_agreement` | rank correlation and nDCG inside each prompt, averaged over prompts |
| `correlation` | scores against human scores over all images; `compare ranks` |
| `leaderboard` | generators by mean rank over prompts |
| `bradley_terry` | strengths of generators from pairs, where a finite fit exists |
| `paired_differences` | is one metric, or one run, better than another on the same pairs or images |
| `generator_differences` | is one generator better than another on the same prompts, with a gate |
| `planning` | how many prompts, images and answers a wanted difference needs, from a pilot |
| `sequential` | when it is settled which of two generators is better, looking after every prompt |
| `scores_table` | scores by prompt and generator from a plain table: what the last three read |
| `slices` | what categories of prompts tell apart, and first places |
| `bridging` | an old judge's leaderboard on a new judge's scale |
| `judge_pool` | which mean of at most three judges agrees best with people |
| `ppi`, `ppi_leaderboard` | few preferences of people joined with many of a judge |
| `two_tier` | a cheap judge on all prompts joined with a dear one on a random part |
| `duels` | strengths of generators over comparisons drawn at random |
| `published_tables` | leaderboards that papers have published, as data |
| `cascade` | the cheapest judges first, further ones where they are unsure |
| `votes` | votes of annotators to one preference a pair, and how far annotators agree |
| `forgetting` | how often claims are met by place in the prompt, kind and length |
| `intervals`, `bounds`, `bootstrap` | intervals over prompts that keep their level when prompts are few |

Everything here is undefined rather than zero where there is too little to say: the value is None and a reason is given.
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
    "slices",
    "two_tier",
    "votes",
]
