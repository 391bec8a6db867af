"""Names of folders and servers that pages and copies for others must not show."""

from __future__ import annotations

import html
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from titjudge.core.run_records import Manifest
from titjudge.core.serialization import json_bytes
from titjudge.core.types import InvalidItem, Item

SERVER = "http://own-server"  # instead of the address of a server


class LocalNames:
    """Takes folders and server addresses out of texts: `/home/me/data/a.png` becomes `a.png`.

    Args:
        folders: The folders; a path below one keeps what comes after it.
        addresses: The addresses; each becomes `SERVER`.
    """

    def __init__(self, folders: Iterable[Path], addresses: Iterable[str] = ()) -> None:
        paths = {str(folder) for folder in folders if folder.is_absolute() and len(folder.parts) > 1}
        hosts = {urlsplit(address).netloc.rpartition("@")[2] for address in addresses} - {""}
        self._raw = [json_bytes(name)[1:-1] for name in (*paths, *hosts)]
        self._paths, self._hosts = _any(paths), _any(hosts)
        self._path = re.compile(rf"(?<![\w./:-])(?:{self._paths})(?:/|(?![\w.-]))") if paths else None
        self._address = (
            re.compile(rf"(?:\w+://(?:[^\s/@]*@)?)?(?<![\w.-])(?:{self._hosts})(?![\w.-])") if hosts else None
        )

    @classmethod
    def of_runs(cls, runs: Iterable[tuple[Path, Manifest, Iterable[Item | InvalidItem]]]) -> Self:
        """Find the names in runs: folders of images, data and runs, the current, the user's and the temporary folder; their servers.

        Args:
            runs: Folder, manifest and items of each.
        """
        folders, addresses = {Path.cwd(), Path.home(), Path(tempfile.gettempdir())}, set[str]()
        for folder, manifest, items in runs:
            valid = [item for item in items if isinstance(item, Item)]
            folders |= {image.parent for item in valid for image in (item.image, *item.sources) if image is not None}
            data = {Path(str(manifest.identity[key])) for key in ("data", "prompts") if manifest.identity.get(key)}
            folders |= {*(path.parent for path in data), folder.resolve(), folder.resolve().parent}
            folders -= data  # the name of a data folder is shown, not its path
            addresses |= set(_addresses(manifest))
        return cls(folders, addresses)

    def strip(self, value: Any) -> Any:
        """Return JSON data with these names taken out of all texts."""
        raw = json_bytes(value)
        return self._cleaned(value) if any(name in raw for name in self._raw) else value

    def text(self, text: str) -> str:
        """Return a text without these names."""
        if self._address is not None:
            text = self._address.sub(SERVER, text)
        return text if self._path is None else self._path.sub("", text)

    def _cleaned(self, value: Any) -> Any:
        if isinstance(value, str):
            return value and (self.text(value) or ".")
        if isinstance(value, Mapping):
            return {self._cleaned(key): self._cleaned(child) for key, child in value.items()}
        return [self._cleaned(child) for child in value] if isinstance(value, list | tuple) else value


def _any(names: Iterable[str]) -> str:
    """Write the pattern of any of the names, as they are or escaped for HTML, the longest first."""
    written = {form for name in names for form in (name, html.escape(name))}
    return "|".join(map(re.escape, sorted(written, key=len, reverse=True)))


def _addresses(manifest: Manifest) -> Iterator[str]:
    """Yield the addresses that the user gave, and the non-public addresses of the roles."""
    values = manifest.identity.values()
    for role in (role for value in values for role in (value if isinstance(value, list) else [value])):
        if isinstance(role, Mapping):
            yield from re.split(r"[\s,]+", str(role.get("base_url") or ""))
    for record in manifest.roles.values():
        for address in re.split(r"[\s,]+", record.base_url):
            host = urlsplit(address).hostname or ""
            if "." not in host or host.replace(".", "").isdigit() or urlsplit(address).port:
                yield address
