"""`generate`: images made for the prompts of a suite, by a command, a pipeline on this machine or a hosted model.

`generating.generate` makes the missing images of a list and records them; `image_makers` has the makers, `image_prices` the prices
in USD. An image that moderation refuses is recorded, and is not requested again by default.
"""
