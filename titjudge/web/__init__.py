"""Local web servers: shared parts of all pages, and a live view of runs.

`http_guard` checks the host, the origin and the key of each request, `page_app` serves a page with one key per person, and `view`
shows the runs of a folder. A server listens on 127.0.0.1 by default; an address that cannot be used raises `UserError`.
"""
