"""People at the pages that the commands of the docs serve: whoever has a link answers what it asks, as the page would send it."""

import json
import re
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit


def answer_all(links: list[str]) -> None:
    """Everybody with a link answers every question, each with another opinion."""
    for person, link in enumerate(links):
        where = urlsplit(link)
        if where.path == "/":
            _answer(f"{where.scheme}://{where.netloc}/api", where.fragment, person)


def links_in(said: str) -> list[str]:
    """The personal links in what a command printed."""
    return re.findall(r"http://127\.0\.0\.1:\d+/\S*#\S+", said)


def _answer(api: str, key: str, person: int) -> None:
    try:
        state = _ask(f"{api}/state", key)
    except urllib.error.HTTPError:  # a page of prompts
        return _review(api, key)
    while state["sheet"] is not None:
        state = _ask(f"{api}/vote", key, {"question": state["question"], "answer": _opinion(state["sheet"], person)})


def _opinion(sheet: dict[str, Any], person: int) -> Any:
    if "ranks" in sheet:
        return [1 + (place + person) % len(sheet["ranks"]) for place in range(len(sheet["ranks"]))]
    if "elements" not in sheet:
        return ("left", "tie", "right")[person % 3]
    return [element["values"][person // 2 % len(element["values"])] for element in sheet["elements"]]


def _review(api: str, key: str) -> None:
    shown = _ask(f"{api}/prompt?at=0", key)
    while shown["next"] is not None:
        shown = _ask(f"{api}/prompt?at={shown['next']}", key)
        shown = _ask(f"{api}/decide", key, {"at": shown["at"], "seen": shown["seen"], "decision": "accepted"})


def _ask(address: str, key: str, body: Any = None) -> Any:
    sent = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(address, data, sent), timeout=60) as reply:
        return json.loads(reply.read())
