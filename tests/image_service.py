"""A service that makes images, behind the loopback server: it bills what reaches it, and fails where it is told to."""

import base64
import io
import threading
from collections.abc import Callable
from email.parser import BytesParser
from email.policy import HTTP
from pathlib import Path
from typing import Any

from builders import write_lines
from PIL import Image

from tests.kit import Scripted, Seen

PRICE = 0.01  # USD an image


def picture(colour: str = "red") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (24, 24), colour).save(file, "PNG")
    return file.getvalue()


def form(seen: Seen) -> tuple[dict[str, str], list[tuple[str, bytes]]]:
    """The fields of a request as multipart form data, and its files in order, each with the name of its field."""
    head = f"Content-Type: {seen.headers['content-type']}\r\n\r\n".encode()
    texts, files = {}, []
    for part in BytesParser(policy=HTTP).parsebytes(head + seen.raw).iter_parts():
        name, content = str(part.get_param("name", header="content-disposition")), part.get_payload(decode=True)
        if part.get_filename() is None:
            texts[name] = content.decode()
        else:
            files.append((name, content))
    return texts, files


def prompt_of(seen: Seen) -> str:
    """The prompt of a request for an image, or the instruction of one for an edit."""
    return str((form(seen)[0] if seen.path.endswith("/images/edits") else seen.body)["prompt"])


ENCODED = base64.b64encode(picture()).decode()


class ImageService:
    """Handler of a `Server`. `fault` may return another answer to a request; `billed` is USD for requests it worked on."""

    def __init__(self, fault: Callable[[Seen], Scripted | None] = lambda seen: None, latency: float = 0.0) -> None:
        self.fault, self.latency = fault, latency
        self.billed, self.images = 0.0, 0
        self._lock = threading.Lock()

    def __call__(self, seen: Seen) -> Scripted:
        answer = self.fault(seen)
        if answer is not None and answer.status != 200:
            return answer
        with self._lock:
            self.billed += PRICE
            self.images += 1
        return answer or Scripted(body={"created": 1, "data": [{"b64_json": ENCODED}]}, latency=self.latency)


def todo(folder: Path, count: int = 6, *, edits: bool = False, **prompts: str) -> Path:
    """Write a list of wanted images, `{generator}/0.png` and so on; `prompts` are those of some, by `i` and number."""
    file = folder / "todo.jsonl"
    (folder / "source.png").write_bytes(picture("blue"))
    source = {"source_image": "source.png"} if edits else {}
    lines: list[dict[str, Any]] = [
        {
            "prompt": prompts.get(f"i{number}", f"a scene with {number} cubes"),
            "image": f"{{generator}}/{number}.png",
            **source,
        }
        for number in range(count)
    ]
    write_lines(file, *lines)
    return file
