"""The Dockerfiles without Docker: what they name exists, what they run as is nobody's root, and no key is built in."""

import fnmatch
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
FILES = ["Dockerfile", "docker/Dockerfile.vllm"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def argument(name: str, text: str) -> str:
    found = re.search(rf'^ARG {name}="(.*)"$', text, re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("file", FILES)
def test_extras_exist_and_nothing_runs_as_root(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    assert set(argument("EXTRAS", text).split(",")) <= set(PROJECT["optional-dependencies"])
    assert re.findall(r"^USER (\d+)$", text, re.MULTILINE)[-1] != "0"
    assert text.index("\nUSER") < text.index("\nENTRYPOINT")
    assert re.findall(r"(?i)^(?:ARG|ENV)\b.*(?:key|token|secret)", text, re.MULTILINE) == []


def test_the_gpu_image_has_a_vllm_that_fits() -> None:
    version = argument("VLLM_VERSION", (ROOT / "docker/Dockerfile.vllm").read_text(encoding="utf-8"))
    (wanted,) = (Requirement(one) for one in PROJECT["optional-dependencies"]["vllm"])
    assert version in wanted.specifier


def test_the_build_gets_what_the_wheel_is_made_of_and_no_more() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    allowed = [line[1:] for line in lines if line.startswith("!")]
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]
    needed = [*build["packages"], *build["force-include"], PROJECT["readme"], *PROJECT["license-files"]]
    assert "*" in lines
    assert sorted(allowed) == sorted([*needed, "pyproject.toml", "constraints.txt"])
    assert all((ROOT / name).exists() for name in allowed)
    assert not any(fnmatch.fnmatch(".env", name) for name in allowed)
