"""The verdict on runs: which generator is better, and which metric can be trusted.

| module | what it does |
| --- | --- |
| `verdict` | the verdict on one or several runs, as results.json has it, with the metric that agrees best with people |
| `judged_runs` | runs with their items and scores, joined to one table of scores |
| `better_generator` | the best generator against the runner-up, or a baseline |
| `sentences` | all of it in plain sentences, for the terminal and the report |
"""
