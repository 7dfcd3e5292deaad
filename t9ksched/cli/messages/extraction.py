"""Finds the messages in source code: the sentences, phrases and headings that a person may read.

A message is a template: the text of a literal, where `{name}` stands in the place of each value that is known only when
it is made. F-strings, `+`, `Text.assemble` and texts for `str.format` are read alike; of `a if b else c` each choice is
a message of its own. Which literals count is decided by their words and by their place in the code: what is compared,
searched for, logged or documented is no message.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final, NamedTuple

HOLE: Final = re.compile(r"\{(\w+)\}")
_FORMAT: Final = re.compile(r"\{(\w*)(?:![rs])?(?::[^{}]*)?\}")
_WORD: Final = re.compile(r"""(?:^|(?<=[\s('"`–…>]))[A-Za-z]?[a-z]+(?=$|['"`)…?!]|[\s,;]|[.:](?:\s|$|['")]))""")
"""A word of prose: no part of a path, an address, an option or an identifier."""
_HEADING: Final = re.compile(r"[A-Z][A-Z %°/]+")
_MOST: Final = 16
"""Messages that one expression may stand for; with more, its choices become values."""
_SILENT: Final = frozenset(
    {
        *("startswith", "endswith", "removeprefix", "removesuffix", "split", "rsplit", "partition", "rpartition"),
        *("replace", "strip", "find", "index", "count", "strftime", "strptime", "encode", "getattr", "setattr"),
        *(
            "compile",
            "match",
            "fullmatch",
            "sub",
            "search",
            "findall",
            "TypeVar",
            "import_module",
            "get_logger",
            "Formatter",
        ),
        *("info", "debug", "warning", "exception", "AssertionError", "NotImplementedError", "RuntimeError"),
        *("Option", "Argument", "Typer", "Family", "field", "query_one"),
    }
)
"""Calls whose texts nobody reads as they are: patterns, logs, and what `helptexts` reads from the commands."""
_UNSAID: Final = re.compile(r"_?(DEFAULT_)?CSS|\w*STYLES|EXAMPLES|\w*_SCRIPT")
"""Names of style sheets, of styles, and of what is typed."""
_SPELT: Final = frozenset({"Text", "append", "word"})
"""Calls whose first text is a message also if it is a single word; the others are names of styles."""
_TABLES: Final = frozenset({"table", "Column", "add_column", "add_columns"})


class Hole(NamedTuple):
    """The place of a value."""

    name: str


Piece = str | Hole
Pieces = tuple[Piece, ...]


class Message(NamedTuple):
    """A template and the line of the code that it begins in."""

    text: str
    line: int


def messages_in(source: str) -> list[Message]:
    """The messages of a module, in their order."""
    return list(dict.fromkeys(_Reader(ast.parse(source)).messages()))


class _Reader:
    """Walks the tree of a module from the largest expressions that make a text to the texts in their values."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree

    def messages(self) -> Iterator[Message]:
        if any(map(_is_program, self._tree.body)):
            return
        for node in self._tree.body:
            yield from self._of(node)

    def _of(self, node: ast.AST, *, word: bool = False, heading: bool = False) -> Iterator[Message]:
        """The messages in a node; `word` and `heading` say whether a single word or capitals make one here."""
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # a docstring
        if isinstance(node, ast.expr) and _makes_text(node):
            for pieces in _pieces(node):
                text = _written(pieces)
                if _is_message(text, word=word) or (heading and _HEADING.fullmatch(text)):
                    yield Message(text, node.lineno)
            for value in _values(node):
                yield from self._of(value)
            return
        if isinstance(node, ast.Call):
            yield from self._of_call(node)
            return
        for child in _read(node):
            yield from self._of(child, word=word, heading=heading or _is_columns(node))

    def _of_call(self, node: ast.Call) -> Iterator[Message]:
        name = _called(node.func)
        if name not in _SILENT:
            yield from self._of(node.func)
        if name in _SPELT:
            for argument in node.args[:1]:
                yield from self._of(argument, word=True)
        elif name not in _SILENT:
            for argument in (*node.args, *(one.value for one in node.keywords)):
                yield from self._of(argument, heading=name in _TABLES)


def _read(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node in which messages may be."""
    match node:
        case ast.Compare():
            yield from (one for one in (node.left, *node.comparators) if not isinstance(one, ast.Constant))
        case ast.Subscript():
            yield node.value
        case ast.Dict():
            yield from node.values
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)) if _UNSAID.fullmatch(
            name
        ):
            return
        case ast.AnnAssign():
            yield from [node.value] if node.value is not None else []
        case ast.arguments():
            # What Typer is told stands in annotations, and `helptexts` reads it from the commands.
            yield from (one for one in (*node.defaults, *node.kw_defaults) if one is not None)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield node.args
            yield from node.body
        case ast.match_case():
            yield from node.body
        case _:
            yield from ast.iter_child_nodes(node)


def _is_program(node: ast.stmt) -> bool:
    """Whether a module is a program of its own, which writes documents."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


def _is_columns(node: ast.AST) -> bool:
    """Whether a node names the columns of a table."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return any(isinstance(one, ast.Name) and one.id.lower().strip("_").endswith("columns") for one in targets)


def _makes_text(node: ast.expr) -> bool:
    """Whether an expression makes a text from a literal."""
    match node:
        case ast.Constant():
            return isinstance(node.value, str)
        case ast.JoinedStr():
            return True
        case ast.BinOp(op=ast.Add()):
            return _makes_text(node.left) or _makes_text(node.right)
        case ast.IfExp():
            return _makes_text(node.body) or _makes_text(node.orelse)
        case ast.BoolOp(op=ast.Or()):
            return any(map(_makes_text, node.values))
        case ast.Call(func=ast.Attribute(attr="assemble")):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str()), attr="format")):
            return True
    return False


def _pieces(node: ast.expr) -> list[Pieces]:
    """What an expression may make, one entry a choice."""
    match node:
        case ast.Constant(value=str() as text):
            return [_formatted(text)]
        case ast.JoinedStr():
            return _joined([_pieces_of_part(one) for one in node.values])
        case ast.BinOp(op=ast.Add()):
            return _joined([_pieces(node.left), _pieces(node.right)])
        case ast.IfExp() if _makes_text(node):
            return _pieces(node.body) + _pieces(node.orelse)
        case ast.BoolOp(op=ast.Or()) if _makes_text(node):
            return [pieces for one in node.values for pieces in _pieces(one)]
        case ast.Call(func=ast.Attribute(attr="assemble")):
            return _joined([_pieces(one.elts[0] if isinstance(one, ast.Tuple) else one) for one in node.args])
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str() as text), attr="format")):
            return [_formatted(text)]
    return [(Hole(_named(node)),)]


def _pieces_of_part(part: ast.expr) -> list[Pieces]:
    if isinstance(part, ast.Constant):
        return [(str(part.value),)]
    assert isinstance(part, ast.FormattedValue)
    if part.format_spec is None and part.conversion == -1 and _makes_text(part.value):
        return _pieces(part.value)
    return [(Hole(_named(part.value)),)]


def _joined(parts: Sequence[list[Pieces]]) -> list[Pieces]:
    """All ways to choose one of each part; where these are too many, parts with choices become values."""
    count = 1
    for part in parts:
        count *= len(part)
    if count > _MOST:
        parts = [part if len(part) == 1 else [(Hole("value"),)] for part in parts]
    return [tuple(piece for chosen in each for piece in chosen) for each in product(*parts)]


def _formatted(text: str) -> Pieces:
    """A literal; the places of `str.format` in it are values, by number where they have no name."""
    pieces: list[Piece] = []
    end = at = 0
    for found in _FORMAT.finditer(text):
        pieces += [text[end : found.start()], Hole(found[1] or f"value{at or ''}")]
        at, end = at + 1, found.end()
    return (*pieces, text[end:])


def _written(pieces: Pieces) -> str:
    """The template, without blanks at its ends; values of one name are numbered."""
    names: dict[str, int] = {}
    parts = []
    for piece in pieces:
        if isinstance(piece, str):
            parts.append(piece)
            continue
        names[piece.name] = names.get(piece.name, 0) + 1
        count = names[piece.name]
        parts.append("{" + piece.name + (str(count) if count > 1 else "") + "}")
    return "".join(parts).strip()


def _is_message(text: str, *, word: bool) -> bool:
    """Whether a person would read it: it has a word, and more than that unless a word is enough here."""
    bare = HOLE.sub("\0", text)
    if not _WORD.search(bare) or text.startswith("#!"):
        return False
    return word or "\0" in bare or len(bare.split()) > 1


def _values(node: ast.expr) -> Iterator[ast.expr]:
    """The expressions that make the values of a text."""
    match node:
        case ast.JoinedStr():
            for part in node.values:
                if isinstance(part, ast.FormattedValue):
                    yield from _values(part.value) if _makes_text(part.value) else [part.value]
        case ast.BinOp(op=ast.Add()):
            yield from (*_values(node.left), *_values(node.right))
        case ast.IfExp():
            yield from (*_values(node.body), *_values(node.orelse), node.test)
        case ast.BoolOp():
            yield from (value for one in node.values for value in _values(one))
        case ast.Call(func=ast.Attribute(attr="assemble" | "format")):
            for one in (*node.args, *(each.value for each in node.keywords)):
                parts = one.elts[:1] if isinstance(one, ast.Tuple) else [one]
                yield from (value for part in parts for value in _values(part))
        case ast.Constant():
            return
        case _:
            yield node


def _called(function: ast.expr) -> str:
    match function:
        case ast.Name():
            return function.id
        case ast.Attribute():
            return function.attr
    return ""


def _named(node: ast.expr) -> str:
    """A name for the value of an expression."""
    match node:
        case ast.Name():
            return node.id.strip("_") or "value"
        case ast.Attribute():
            return node.attr
        case ast.Subscript(slice=ast.Constant(value=str() as key)) if key.isidentifier():
            return key
        case ast.Subscript() | ast.Await() | ast.Starred():
            return _named(node.value)
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str() as key), *_]) if (
            key.isidentifier()
        ):
            return key
        case ast.Call(func=ast.Attribute(attr="join"), args=[one]):
            return _named(one)
        case ast.Call(args=[one, *_]) if _called(node.func) in ("len", "str", "sorted", "map", "int", "round", "repr"):
            return _named(node.args[-1])
        case ast.Call() if name := _called(node.func).strip("_"):
            return name
        case ast.BoolOp():
            return _named(node.values[0])
        case ast.BinOp():
            return _named(node.left)
        case ast.GeneratorExp() | ast.ListComp():
            return _named(node.generators[0].iter)
        case ast.IfExp():
            return _named(node.body)
    return "value"
