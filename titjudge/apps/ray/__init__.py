"""A run spread over a Ray cluster."""
