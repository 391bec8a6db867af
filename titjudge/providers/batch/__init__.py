"""Batch jobs of OpenAI and Gemini: requests answered within a day, at a discount.

`provider.BatchProvider` replaces a hosted provider, `queue.BatchQueue` collects and sends the requests, `journal.JobJournal` keeps
the jobs on disk. An interrupted run continues with its live jobs.
"""
