"""`serve`: rewards over HTTP, in the wire formats of reinforcement-learning frameworks."""

PORT = 8767  # tried first
