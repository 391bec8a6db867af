"""`bench`: images are generated for prompts and judged in rounds, under one cap, while money is left.

`benchmark.Benchmark` has the prompts, generators and folder; `benchmark.rounds` the sizes of the rounds. Money is USD.
"""
