"""A run spread over a Ray cluster: each worker judges a shard of the prompts, and the shards are merged.

`cluster.Cluster` runs a configuration; caps apply to all workers together. Without Ray it raises `MissingExtra`.
"""
