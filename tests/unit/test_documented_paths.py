"""Files that pages name exist, and links between pages lead somewhere."""

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ["ARCHITECTURE.md", "README.md"]
PAGES += [page.relative_to(ROOT).as_posix() for page in sorted((ROOT / "docs").rglob("*.md"))]
NAMED = re.compile(r"`([\w./*-]+\.(?:py|txt|md))`")
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([\w-]+))?\)")
TWO_PAGES = 130
"""Lines of ARCHITECTURE.md: it is read whole before the first change."""


@pytest.fixture(scope="module")
def paths() -> list[str]:
    return [f"/{path.relative_to(ROOT).as_posix()}" for path in found(ROOT)]


def found(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_dir():
            if not path.name.startswith(".") and path.name != "__pycache__":
                yield from found(path)
        else:
            yield path


def anchors(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_named_files_exist(page: str, paths: list[str]) -> None:
    names = set(NAMED.findall((ROOT / page).read_text()))
    assert [name for name in sorted(names) if not any(fnmatch(path, f"*/{name}") for path in paths)] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    here = ROOT / page
    for target, anchor in LINK.findall(here.read_text()):
        if "://" in target:
            continue
        there = (here.parent / target).resolve() if target else here
        assert there.exists(), f"{page}: {target}"
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), f"{page}: {target}#{anchor}"


def test_the_architecture_page_is_short() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) <= TWO_PAGES


def test_every_decision_has_a_number_of_its_own_and_a_row() -> None:
    folder = ROOT / "docs" / "decisions"
    pages = sorted(page.name for page in folder.glob("0*.md"))
    assert [page[:4] for page in pages] == [f"{number:04}" for number in range(1, len(pages) + 1)]
    assert [(folder / page).read_text()[2:6] for page in pages] == [page[:4] for page in pages]
    rows = re.findall(r"^\| (\d{4}) \| \[.*\]\((.*)\) \|", (folder / "index.md").read_text(), re.MULTILINE)
    assert rows == [(page[:4], page) for page in pages]
