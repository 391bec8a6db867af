"""Which generator is better: differences by prompt, planning, stopping early, slices, published tables.

| module | what it computes |
| --- | --- |
| `paired_differences` | differences of metrics, or runs, on the same pairs or images |
| `generator_differences` | differences of generators on the same prompts, and the gate for a candidate |
| `comparison_tables` | their tables: standings, categories, tiers |
| `slices` | categories of prompts, first places, tiers |
| `planning` | numbers of prompts, images and answers that a difference needs, from a pilot |
| `sequential` | confidence sequences: stop as soon as one generator is known to be better; and when a finished run could have stopped |
| `published_tables` | leaderboards published in papers |
"""
