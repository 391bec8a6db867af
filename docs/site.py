"""Build the documentation site: `python docs/site.py [--out site]`; a broken link or an unknown name is an error.

The pages of docs/ and of the repository's root are laid out in a temporary folder as the site has them, with their links
made to fit, beside one page of API reference for each package that exports names. Each page ends with a link to the
glossary. zensical.toml has the navigation and the settings.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOT_PAGES = {"README.md": "index.md"} | {name: name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")}
MOVED = {
    "architecture": "explanation/architecture", "benchmarks": "reference/benchmarks", "configuration": "reference/configuration",
    "data": "how-to/judge-images", "docker": "how-to/scale-out", "edits": "how-to/judge-edits", "extending": "extend/metric",
    "generating": "how-to/generate-images", "metrics": "reference/metrics", "models": "how-to/choose-models",
    "people": "how-to/collect-votes", "populations": "reference/populations", "prompts": "how-to/prompt-sets",
    "python": "how-to/python", "recorded": "how-to/recorded-answers", "serve": "how-to/reward-server",
    "speed": "measurements/speed", "study": "measurements/study", "study-edits": "measurements/study-edits",
    "suites": "how-to/run-a-benchmark", "training": "how-to/training-data", "trust": "how-to/test-a-judge",
    "verdicts": "how-to/compare-generators",
}  # fmt: skip
"""Former addresses of pages and where each page is now: the site redirects them."""
REDIRECT = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=../{0}/"><a href="../{0}/">{0}</a>\n'
GLOSSARY = "reference/glossary.md"
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
FENCE = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)


def site_places() -> dict[Path, str]:
    """Return the place on the site of each page and picture of the repository."""
    in_docs = [
        path for path in sorted((ROOT / "docs").rglob("*")) if path.suffix in (".md", ".css", ".webp", ".svg", ".json")
    ]
    return {ROOT / name: place for name, place in ROOT_PAGES.items()} | {
        path: path.relative_to(ROOT / "docs").as_posix() for path in in_docs
    }


def with_site_links(page: Path, places: dict[Path, str]) -> str:
    """The text of a page with its links as they are on the site; those outside of code blocks."""

    def moved(link: re.Match[str]) -> str:
        if "://" in link[2] or link[2].startswith("mailto:"):
            return link[0]
        target = (page.parent / link[2]).resolve()
        if target not in places:
            sys.exit(f"{page.relative_to(ROOT)}: {link[2]} is no page of the site")
        return f"{link[1]}{os.path.relpath(places[target], Path(places[page]).parent)}{link[3]}"

    parts = FENCE.split(page.read_text(encoding="utf-8"))
    return "".join(part if part.startswith("```") else LINK.sub(moved, part) for part in parts)


def with_footer(text: str, place: str) -> str:
    """Add a last line that links to the glossary, except to the glossary itself."""
    if place == GLOSSARY:
        return text
    link = os.path.relpath(GLOSSARY, Path(place).parent)
    return f"{text.rstrip()}\n\n---\n\nIs a word new to you? See the [glossary]({link}).\n"


def api_pages() -> dict[str, str]:
    """Place and text of a page of the API reference for each package that exports names, and of the page that lists them."""
    pages = {}
    for file in sorted((ROOT / "titjudge").rglob("__init__.py")):
        package = ".".join(file.parent.relative_to(ROOT).parts)
        names = [name for name in getattr(importlib.import_module(package), "__all__", ()) if not name.startswith("__")]
        if names:
            own = f"::: {package}\n    options: {{members: false, show_root_heading: false}}"
            pages[f"api/{package}.md"] = "\n\n".join(
                [f"# {package}", own, *(f"::: {package}.{name}" for name in names)]
            )
    listed = [f"- [{Path(place).stem}]({Path(place).name})" for place in pages]
    return {"api/index.md": "\n".join(["# API", "", *listed]), **pages}


def lay_out(folder: Path) -> None:
    """Write the project that the site generator builds: its configuration, the pages, the code whose docstrings it reads."""
    places = site_places()
    for source, place in places.items():
        target = folder / "docs" / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            target.write_text(with_footer(with_site_links(source, places), place), encoding="utf-8")
        else:
            shutil.copyfile(source, target)
    api = api_pages()
    for place, text in api.items():
        (folder / "docs" / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / "docs" / place).write_text(with_footer(text, place), encoding="utf-8")
    configuration = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    for place in (*places.values(), *api):
        if place.endswith(".md") and place not in api and f'"{place}"' not in configuration:
            sys.exit(f"zensical.toml: nav does not have {place}")
    reference = ", ".join(
        f'{{ "{"All packages" if place == "api/index.md" else Path(place).stem}" = "{place}" }}' for place in api
    )
    configuration = configuration.replace("\n]\n", f'\n  {{ "API" = [{reference}] }},\n]\n', 1)
    (folder / "zensical.toml").write_text(configuration, encoding="utf-8")
    (folder / "titjudge").symlink_to(ROOT / "titjudge")


def redirect(site: Path) -> None:
    """Write a page that leads to the new address at each former address."""
    for old, new in MOVED.items():
        (site / old).mkdir(parents=True, exist_ok=True)
        (site / old / "index.html").write_text(REDIRECT.format(new), encoding="utf-8")


def build(out: Path) -> None:
    """Build the site into `out`; a warning of the generator, or of its reader of docstrings, ends this program."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lay_out(folder)
        command = [sys.executable, "-m", "zensical", "build", "--strict"]
        environment = os.environ | {"NO_COLOR": "1"}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode != 0 or "griffe: " in done.stderr:
            sys.exit(f"the site was not built:\n{done.stdout}{done.stderr.partition('Traceback')[0]}")
        redirect(folder / "site")
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(folder / "site", out)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "site")
    build(parser.parse_args().out)
