"""Send questions to models: cache, budget, rate limits, retries, prices and forecasts.

`pipeline.Engine` answers the questions of metrics, `scoring.score_item` runs a metric on an item, `budget.Budget` keeps the caps,
`cache.AnswerCache` the answers, and `forecast` estimates requests and costs of a dry run. Costs are USD, prices USD per million
tokens, times seconds. A question without a usable answer raises `Unanswered`; `FatalProviderError` and `BudgetExhausted` end
the run.
"""

import logging

logging.getLogger("titjudge").addHandler(logging.NullHandler())  # silent unless the caller configures logging
