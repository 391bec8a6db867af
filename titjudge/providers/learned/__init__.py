"""Learned metrics as providers: models that were trained to score images, in this process or by a command.

`provider.Scorer` runs the models of `titjudge.data.learned_metrics`, `external.External` runs a command of the user. An answer is
JSON with the score and the numbers of tokens that were read.
"""
