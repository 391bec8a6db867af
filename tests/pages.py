"""The pages of the documentation, by name: a page may move to another folder without a change in the tests."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"


def all_pages() -> list[Path]:
    """README and all pages below docs/."""
    return [README, *sorted(DOCS.rglob("*.md"))]


def page_of(name: str) -> Path:
    """Return the page with this name; it must be the only one."""
    (found,) = DOCS.rglob(f"{name}.md")
    return found


def extension_text() -> str:
    """The pages on extensions, whose examples are one package."""
    return "\n".join(page.read_text(encoding="utf-8") for page in sorted((DOCS / "extend").glob("*.md")))


def page_text(name: str) -> str:
    return page_of(name).read_text(encoding="utf-8")


def relative(path: Path) -> str:
    """Path below the repository, as an id of a test."""
    return path.relative_to(ROOT).as_posix()
