"""Local web servers: shared parts of all pages, and a live view of runs.

`http_guard` checks the host, the origin and the key of each request, `page_app` serves a page with one key per person, and `view`
shows the runs of a folder. A server listens on 127.0.0.1 by default; an address that cannot be used raises `UserError`.
"""

from typing import NamedTuple


class PageAddress(NamedTuple):
    """The address of a page.

    Attributes:
        host: The address.
        port: The port; None for the usual one, or a free one if that is taken.
        url: The address by which others reach the page; empty if this is the address of `host`.
    """

    host: str = "127.0.0.1"
    port: int | None = None
    url: str = ""
