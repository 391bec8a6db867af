"""The documentation site: every page and every exported name is on it, and its links lead to pages of the site."""

import ast
import importlib.util
import inspect
import pkgutil
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import titjudge

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site() -> ModuleType:
    found = importlib.util.spec_from_file_location("site_of_the_docs", ROOT / "docs" / "site.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture
def project(site: ModuleType, tmp_path: Path) -> Path:
    site.lay_out(tmp_path)
    return tmp_path


def test_every_page_is_in_the_navigation_once(project: Path) -> None:
    def places(entries: list[dict[str, object]]) -> list[str]:
        return [
            place
            for entry in entries
            for value in entry.values()
            for place in (places(value) if isinstance(value, list) else [str(value)])
        ]

    navigation = tomllib.loads((project / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    pages = sorted(page.relative_to(project / "docs").as_posix() for page in (project / "docs").rglob("*.md"))
    assert sorted(places(navigation)) == pages
    assert {"index.md", "reference/metrics.md", "api/titjudge.md"} <= set(pages)


def test_links_of_the_site_lead_to_its_pages_and_pictures(project: Path, site: ModuleType) -> None:
    links = [
        (page, link[2])
        for page in (project / "docs").rglob("*.md")
        for text in site.FENCE.split(page.read_text(encoding="utf-8"))
        if not text.startswith("```")
        for link in site.LINK.finditer(text)
        if "://" not in link[2]
    ]
    assert len(links) > 10
    assert [(page.name, link) for page, link in links if not (page.parent / link).exists()] == []


def test_every_page_links_to_the_glossary(project: Path) -> None:
    pages = {page: page.read_text(encoding="utf-8") for page in (project / "docs").rglob("*.md")}
    glossary = project / "docs" / "reference" / "glossary.md"
    without = [
        page.name
        for page, text in pages.items()
        if glossary.resolve()
        not in [(page.parent / link).resolve() for link in re.findall(r"\]\(([^)#]+\.md)\)", text)]
    ]
    assert len(pages) > 40
    assert without == ["glossary.md"]


def test_the_reference_has_every_exported_name(project: Path) -> None:
    text = (project / "docs" / "api" / "titjudge.md").read_text(encoding="utf-8")
    asked = re.findall(r"^::: titjudge\.(\w+)$", text, re.MULTILINE)
    assert asked == [name for name in sorted(titjudge.__all__) if name != "__version__"]


def test_what_is_exported_says_what_it_is(site: ModuleType) -> None:
    plain = ("to_json", "tables", "table")

    def bare(name: str, found: object) -> list[str]:
        if inspect.ismodule(found):
            own = {
                key: value for key, value in vars(found).items() if getattr(value, "__module__", "") == found.__name__
            }
            return [
                one for key, value in own.items() if not key.startswith("_") for one in bare(f"{name}.{key}", value)
            ]
        if not (inspect.isclass(found) or inspect.isroutine(found) or isinstance(found, property)):
            return []
        members = (
            {key: getattr(found, key) for key in vars(found) if key[0] != "_" and key not in plain}
            if inspect.isclass(found)
            else {}
        )
        below = [one for key, value in members.items() for one in bare(f"{name}.{key}", value)]
        return below if inspect.getdoc(found) else [name, *below]

    pages = "".join(site.api_pages().values())
    names = re.findall(r"^::: ([\w.]+)$", pages, re.MULTILINE)
    assert len(names) > 40
    assert [one for name in names for one in bare(name, pkgutil.resolve_name(name))] == []


def test_a_link_that_leaves_the_site_is_named(
    site: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "ROOT", tmp_path)
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    page.write_text("```md\n[in code](nowhere.md)\n```\n[the code](../setup.py), [elsewhere](https://example.org)\n")
    with pytest.raises(SystemExit, match=r"docs/page\.md: \.\./setup\.py is no page"):
        site.with_site_links(page, {page: "page.md"})


def test_former_addresses_lead_to_pages(site: ModuleType, tmp_path: Path) -> None:
    site.redirect(tmp_path)
    assert [new for new in site.MOVED.values() if not (ROOT / "docs" / f"{new}.md").is_file()] == []
    assert 'url=../how-to/judge-images/"' in (tmp_path / "data" / "index.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(site: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("zensical", reason="needs `pip install 'titjudge[docs]'`")
    site.build(tmp_path / "site")
    page = (tmp_path / "site" / "api" / "titjudge" / "index.html").read_text(encoding="utf-8")
    assert 'id="titjudge.Judge.score_many"' in page
    assert "fonts.googleapis" not in page
    assert (tmp_path / "site" / "report-overview.webp").exists()
    assert 'href="titjudge/"' in (tmp_path / "site" / "api" / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("file", sorted((ROOT / "titjudge").rglob("__init__.py")), ids=lambda file: file.parent.name)
def test_the_modules_that_a_package_lists_are_there(file: Path) -> None:
    listed = re.findall(r"^\| (`.*?) \|", file.read_text(encoding="utf-8").partition('"""\n\n')[0], re.MULTILINE)
    names = [name for cell in listed for name in re.findall(r"`([\w/]+)`", cell)]
    assert [
        name for name in names if not (file.parent / name).exists() and not (file.parent / f"{name}.py").exists()
    ] == []


def test_lazy_exports_are_those_that_type_checkers_see() -> None:
    import importlib

    for file in (ROOT / "titjudge").rglob("__init__.py"):
        text = file.read_text(encoding="utf-8")
        if "lazy_exports(" not in text:
            continue
        package = importlib.import_module(".".join(file.parent.relative_to(ROOT).parts))
        imports = [
            node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom) and node.col_offset > 0
        ]
        seen = [(node.module, name.name) for node in imports for name in node.names]
        assert sorted(name for _, name in seen) == sorted(name for name in package.__all__ if name != "__version__")
        for module, name in seen:
            assert getattr(package, name) is getattr(importlib.import_module(str(module)), name)
