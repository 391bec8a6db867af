"""Folders of this machine and addresses of its servers leave what is shown to others."""

from pathlib import Path

import pytest

from titjudge.core.local_names import SERVER, LocalNames
from titjudge.core.run_records import Manifest
from titjudge.core.types import Item


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("/home/me/data/a.png: no image", "a.png: no image"),
        ("in '/home/me/data/sub/a.png'", "in 'sub/a.png'"),
        ("line\n/home/me/data/a.png", "line\na.png"),
        ("https://host/home/me/data/a.png", "https://host/home/me/data/a.png"),
        ("/home/me/database.png", "/home/me/database.png"),
        ("/home/me/data", "."),
        ("nothing", "nothing"),
        ("http://gpu-17:8000/v1", f"{SERVER}/v1"),
        ("http://me:secret@gpu-17:8000/v1/models: refused", f"{SERVER}/v1/models: refused"),
        ("cannot connect to gpu-17:8000", f"cannot connect to {SERVER}"),
        ("http://other:8000/v1 and agpu-17:8000", "http://other:8000/v1 and agpu-17:8000"),
    ],
)
def test_folders_and_servers_leave_texts(text: str, cleaned: str) -> None:
    names = LocalNames({Path("/home/me/data")}, {"http://gpu-17:8000/v1"})
    assert names.strip({"a": [text], text: 1, "b": ""}) == {"a": [cleaned], cleaned: 1, "b": ""}


def test_without_names_nothing_changes() -> None:
    assert LocalNames(()).strip({"a": "/home/me"}) == {"a": "/home/me"}


def test_addresses_are_those_that_the_user_gave_and_private_ones_of_roles() -> None:
    roles = {
        "judge": {"model": "m", "base_url": "http://10.0.0.5/v1"},
        "captioner": {"model": "m", "base_url": "https://api.vendor.com/v1"},
    }
    identity = {
        "judge": {"model": "m"},
        "panel": [{"base_url": "https://a.corp.example/v1, https://b.corp.example/v1"}],
    }
    manifest = Manifest.model_validate({"identity": identity, "roles": roles})
    names = LocalNames.of_runs([(Path("/runs/a"), manifest, [])])
    hosts = ("10.0.0.5", "api.vendor.com", "a.corp.example", "b.corp.example")
    assert [host for host in hosts if host in names.text(" ".join(hosts))] == ["api.vendor.com"]


def test_a_data_folder_keeps_its_name_without_its_place(tmp_path: Path) -> None:
    """Of a folder whose images lie in it, or below it, only the name is shown."""
    data = tmp_path / "samples"
    items = [Item(name, "p", data / name, "g", "p") for name in ("a.png", "sub/b.png")]
    names = LocalNames.of_runs([(Path("/runs/a"), Manifest.model_validate({"identity": {"data": str(data)}}), items)])
    assert names.text(str(data)) == "samples"
    assert names.text(f"{data}/a.png: empty; {data}/sub/b.png: empty") == "samples/a.png: empty; b.png: empty"
