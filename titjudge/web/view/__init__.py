"""`view`: the page that shows the runs of a folder while they run, and their reports.

| module | what it does |
|---|---|
| `runs` | find every run below a folder, and the files of its report |
| `run_state` | what the list shows of one run: status, scores (read while they are written), coverage, cost, time left |
| `server` | `serve_view`: the list, and reports, which a ticket opens once and which are made again while a run goes on |
"""

PORT = 8766  # tried first
