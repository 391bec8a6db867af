"""`prompts review`: the page where people accept, edit or reject the prompts of a set."""

PORT = 8768  # tried first
