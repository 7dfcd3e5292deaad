"""The program's own source files, read and parsed once a process."""

import ast
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]


@cache
def texts(*folders: str) -> dict[str, str]:
    """Text of each source file by its path."""
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def trees(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """Path and syntax tree of each source file."""
    for path, text in texts(*folders).items():
        yield path, _parsed(text)


def script(path: str) -> ModuleType:
    """A source file that is in no package, as a module of its own."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All statements in a node, inner ones too; a tenth of what `ast.walk` goes through."""
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        inner = getattr(node, name, ())
        for one in inner if isinstance(inner, list) else ():
            if isinstance(one, ast.stmt):
                yield one
            yield from statements(one)
