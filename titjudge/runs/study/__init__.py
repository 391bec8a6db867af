"""Questions asked of finished runs: which generator is better, which judge, how many images are missing."""
