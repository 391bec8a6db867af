"""Which generator is better: differences by prompt, planning, stopping early, slices, published tables."""
