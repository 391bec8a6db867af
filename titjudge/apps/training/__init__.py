"""`export`: finished runs as training data for reward models.

`files.sft_lines` makes conversations of a judge's answers, `files.preferences` makes pairs of images, and `files.split` divides
prompts into training, validation and test parts. A folder that is not a run raises `DataError`.
"""
