"""A second process that decodes large images, which would keep Python's global lock for too long in this one.

Pillow decodes a WebP or AVIF in one call that keeps the lock for a tenth of a second or more; for other formats freeing
tens of megabytes of pixels does. Even in a thread that would stop the event loop, and with it all requests in flight.
The process starts with the first such image and ends with its parent. If it cannot be started, or dies, images are
decoded in this process.

It is not a `multiprocessing` pool, which imports the caller's main module again: a script that judges images without an
`if __name__ == "__main__"` would start itself a second time.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

from titjudge.core.errors import DataError
from titjudge.data.image_decoding import as_png, inspect, resized

_CODE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from titjudge.data.image_process import serve; serve()"
)
_OK, _FAILED = b"+", b"-"
_one_at_a_time = threading.Lock()
_running: list[subprocess.Popen[bytes]] = []  # none or one


def call(job: str, raw: bytes, path: Path) -> bytes:
    """Run a job on an image: `inspect` (returns JSON), `png`, `scaled WIDTH HEIGHT` or `squashed WIDTH HEIGHT`.

    Raises:
        DataError: The image cannot be decoded.
        OSError: The process cannot be started, or has died.
    """
    with _one_at_a_time:
        process = _running.pop() if _running else _started()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            _write(process.stdin, job.encode(), str(path).encode(errors="surrogateescape"), raw)
            verdict, answer = _read(process.stdout), _read(process.stdout)
        except BaseException:
            process.kill()
            _end(process)
            raise
        _running.append(process)
    if verdict == _FAILED:
        raise DataError(answer.decode(errors="surrogateescape"), path)
    return answer


def _after_fork() -> None:
    """Leave the process to the parent: it ends when no other process can write to it."""
    global _one_at_a_time
    _one_at_a_time = threading.Lock()
    while _running:
        process = _running.pop()
        process.returncode = 0  # it is not a child of this process
        _close_pipes(process)


os.register_at_fork(after_in_child=_after_fork)


def _started() -> subprocess.Popen[bytes]:
    """Start the process, in a new session so that Ctrl-C does not reach it."""
    return subprocess.Popen(
        [sys.executable, "-c", _CODE, json.dumps(sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    _close_pipes(process)
    process.wait()


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


@atexit.register
def close() -> None:
    """End the process, if it runs."""
    with _one_at_a_time:
        while _running:
            _end(_running.pop())


def _write(pipe: IO[bytes], *parts: bytes) -> None:
    for part in parts:
        pipe.write(struct.pack(">Q", len(part)))
        pipe.write(part)
    pipe.flush()


def _read(pipe: IO[bytes]) -> bytes:
    """Read one part of a message.

    Raises:
        OSError: The other side has ended.
    """

    def exactly(length: int) -> bytes:
        content = pipe.read(length)
        if len(content) < length:
            raise OSError("the other side has ended")
        return content

    (length,) = struct.unpack(">Q", exactly(8))
    return exactly(length)


def serve() -> None:
    """Serve jobs until the other side ends."""
    os.nice(5)  # requests in flight go first
    jobs: dict[str, Callable[..., bytes]] = {
        "inspect": lambda raw, path: json.dumps(inspect(raw, path)).encode(),
        "png": as_png,
        "scaled": lambda raw, path, width, height: resized(raw, path, (int(width), int(height))),
        "squashed": lambda raw, path, width, height: resized(raw, path, (int(width), int(height)), jpeg=False),
    }
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    with contextlib.suppress(OSError):
        while True:
            job, path, raw = (_read(requests) for _ in range(3))
            try:
                name, *arguments = job.decode().split()
                answer = _OK, jobs[name](raw, Path(path.decode(errors="surrogateescape")), *arguments)
            except DataError as error:
                answer = _FAILED, error.message.encode(errors="surrogateescape")
            _write(replies, *answer)
