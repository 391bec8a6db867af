"""Images made for the prompts of a suite, by a command or a pipeline."""
