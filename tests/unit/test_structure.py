"""Files, classes and constructors stay small enough to be read: one responsibility each."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.sources import statements, texts, trees

FOLDERS = ("t9ksched",)
MOST_LINES = 400
MOST_PARAMETERS = 8


def files() -> Iterator[tuple[str, str]]:
    """Path and text of each source file."""
    yield from texts(*FOLDERS).items()


@pytest.fixture(scope="module")
def classes() -> dict[str, list[tuple[str, ast.ClassDef]]]:
    """Each class of the project by its name, with the file that it stands in."""
    found: defaultdict[str, list[tuple[str, ast.ClassDef]]] = defaultdict(list)
    for path, tree in trees(*FOLDERS):
        for node in statements(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].append((path, node))
    return found


def bases(node: ast.ClassDef) -> Iterator[str]:
    """The names of the classes that this one derives from."""
    for base in node.bases:
        named = base.value if isinstance(base, ast.Subscript) else base
        if isinstance(named, (ast.Name, ast.Attribute)):
            yield named.id if isinstance(named, ast.Name) else named.attr


def lines_of(path: str, node: ast.ClassDef, classes: dict[str, list[tuple[str, ast.ClassDef]]], seen: set[str]) -> int:
    """Lines of the class and of its bases in this project, each base once."""
    seen.add(f"{path}:{node.name}")
    total = (node.end_lineno or node.lineno) - node.lineno + 1
    for name in bases(node):
        there = classes.get(name, [])
        for where, base in [one for one in there if one[0] == path] or there[:1]:
            if f"{where}:{base.name}" not in seen:
                total += lines_of(where, base, classes, seen)
    return total


def test_no_file_is_too_long() -> None:
    long = {path for path, text in files() if len(text.splitlines()) > MOST_LINES}
    assert long == set(), "split by responsibility"


def test_no_class_is_too_long_with_its_bases(classes: dict[str, list[tuple[str, ast.ClassDef]]]) -> None:
    long = {
        name
        for name, there in classes.items()
        if any(lines_of(path, node, classes, set()) > MOST_LINES for path, node in there)
    }
    assert long == set(), "split by responsibility"


def test_no_constructor_takes_too_much(classes: dict[str, list[tuple[str, ast.ClassDef]]]) -> None:
    """Values (dataclasses, structs, settings) name their fields instead of taking parts to work with."""
    found = {}
    for name, there in classes.items():
        for path, node in there:
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                    arguments = part.args
                    given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs][1:]
                    if len(given) > MOST_PARAMETERS:
                        found[f"{path}:{name}"] = len(given)
    assert found == {}, "pass a value with named fields"


def test_only_the_dev_cluster_reads_its_own_annotations() -> None:
    inside = {path for path, _ in files() if path.startswith("t9ksched/devcluster/")}
    named = {path for path, text in files() if "devcluster.tensorstack.dev" in text}
    assert named <= inside, "a real cluster has none of them, so no other room may trust one"
    assert "t9ksched/devcluster/names.py" in named


def test_no_class_name_stands_twice_in_a_package() -> None:
    found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for path, tree in trees(*FOLDERS):
        package = "/".join(path.split("/")[:2])
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                found[package, node.name].add(path)
    assert {key: paths for key, paths in found.items() if len(paths) > 1} == {}, "each name means one thing"


def test_the_inside_of_a_card_grant_is_known_to_three_files() -> None:
    inside = {"t9ksched/model/cards.py", "t9ksched/engine/cards.py", "t9ksched/engine/card_links.py"}
    outside = [(path, text) for path, text in files() if path not in inside]
    assert [path for path, text in outside if re.search(r"\.masks\b|\.packed\(|bit_count\(|bitwise_count", text)] == []
