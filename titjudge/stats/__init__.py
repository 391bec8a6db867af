"""How far a metric agrees with people: pure functions over plain records, no model, hardly a file.

| module | what it answers |
|---|---|
| `agreement` | everything at once: `agreement(items, scores, pairs)`, what `judge`, `compare` and the report show |
| `pairwise` | accuracy on human pairs, its interval, exact thresholds, tie-optimised accuracy |
| `ranks` | rank correlation and nDCG inside each prompt, averaged over prompts |
| `leaderboard` | generators by mean rank over prompts |
| `differences` | is one metric, or one run, better than another on the same pairs or images |
| `correlation` | scores against human scores over all images; `compare ranks` |
| `votes` | votes of annotators to one preference a pair, and how far annotators agree |
| `bradley_terry` | strengths of generators from pairs, where a finite fit exists |
| `claims`, `forgetting` | claims out of scores; how often they are met by place in the prompt, kind and length |
| `files` | votes and human scores from CSV or JSON lines |
| `tables` | `agreement` as people read it |
| `resample` | the one bootstrap: prompts are drawn, with all that belongs to them |

Everything here is undefined rather than zero where there is too little to say: the value is None and a reason is given.
"""
