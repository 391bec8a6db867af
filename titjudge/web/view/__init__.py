"""`view`: the page that shows the runs of a folder while they run, and their reports.

| module | what it does |
|---|---|
| `runs` | read status, progress, cost and report of every run below a folder |
| `server` | `serve_view`: the page, its data, the reports |
"""

PORT = 8766  # tried first
