"""`view`: the page that shows the runs of a folder while they run, and their reports.

| module | what it does |
|---|---|
| `runs` | find every run below a folder |
| `run_state` | what the list shows of one run: status, scores, coverage, cost, time left |
| `score_tail` | scores.jsonl while it is written |
| `live_run` | the images of one run as they are judged |
| `report_folder` | the report of a run that is a folder, and its files |
| `tickets` | what opens a report, once, and the files of one that is a folder |
| `server` | `serve_view`: the pages, their data, the reports, some of which are made when they are opened |
"""

PORT = 8766  # tried first
