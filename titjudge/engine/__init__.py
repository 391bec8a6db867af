"""Ask models: cache, budget, rate limits, retries, prices, forecasts."""

import logging

logging.getLogger("titjudge").addHandler(logging.NullHandler())  # silent unless the caller configures logging
