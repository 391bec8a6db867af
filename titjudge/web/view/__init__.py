"""The live view: `serve_view` shows the runs of a folder while they go on, and their reports.

| module | what it does |
|---|---|
| `runs` | what there is: status, progress, money and report of every run below a folder |
| `server` | the page, its data, the reports |
"""
