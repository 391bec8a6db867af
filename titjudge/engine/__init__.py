"""Ask models: cache, budget, rate limits, retries, prices, forecasts."""
