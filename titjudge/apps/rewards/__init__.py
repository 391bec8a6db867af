"""`serve`: rewards over HTTP, in the wire formats of reinforcement-learning frameworks."""
