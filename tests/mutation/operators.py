"""Small faults that can be put into a module of the project, one at a time, by changing its syntax tree.

A fault is what a slip makes: a comparison turned or off by one, a condition negated, a term left out, a number one off,
a statement that is not there, two arguments in the wrong order. Only bodies of functions are changed. Texts, logging,
what is raised and annotations are left as they are: they are words, and invariants do not judge words. So are counts of
the work done (`meter.spent`): they say when a plan lets others have their turn, and decide nothing.
"""

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_EXCHANGED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}
_EITHER_WAY = ("min", "max", "np.minimum", "np.maximum", "np.add", "np.array_equal")
"""Functions that give the same for two arguments in either order."""
_ORDERED = ast.Name | ast.Attribute | ast.Subscript
"""Arguments that may be written in the wrong order."""


@dataclass(frozen=True)
class Fault:
    """One change. `number` tells apart equal changes of one function, from 0."""

    where: str
    line: int
    before: str
    after: str
    number: int

    @property
    def key(self) -> str:
        """What names it in the list of survivors; lines that move do not change it."""
        more = f" #{self.number + 1}" if self.number else ""
        return f"{self.where}: {self.before} -> {self.after}{more}"


class _Sites(ast.NodeVisitor):
    """Walks a tree; at each place that can be changed `found` grows by the fault and by how the change is made."""

    def __init__(self) -> None:
        self.found: list[tuple[str, ast.AST, str, Callable[[], None]]] = []
        self._path: list[str] = []
        self._inside = False

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._path.append(node.name)
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.visit(statement)
        self._path.pop()

    def visit_Module(self, node: ast.Module) -> None:
        self.visit_ClassDef(ast.ClassDef("", [], [], node.body, []))

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name in ("__repr__", "__str__"):
            return
        self._path.append(node.name)
        outer, self._inside = self._inside, True
        self._statements(node.body)
        for statement in node.body:
            self.visit(statement)
        self._inside = outer
        self._path.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Raise(self, node: ast.Raise) -> None:
        """What is raised is words."""

    visit_Assert = visit_JoinedStr = visit_Raise  # type: ignore[assignment]

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if not _counts_work(node):
            self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def _site(self, node: ast.AST, after: ast.AST | None, change: Callable[[], None]) -> None:
        if self._inside:
            self.found.append((".".join(filter(None, self._path)), node, ast.unparse(after) if after else "", change))

    def _replaced(self, node: ast.expr, new: ast.expr) -> None:
        """`node` becomes `new`, in its place."""

        def change() -> None:
            kept = {name: getattr(node, name) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset")}
            node.__class__ = new.__class__
            node.__dict__.clear()
            node.__dict__.update(copy.deepcopy(new.__dict__) | kept)

        self._site(node, new, change)

    def visit_Compare(self, node: ast.Compare) -> None:
        for at, operator in enumerate(node.ops):
            if type(operator) in _TURNED:
                new = copy.deepcopy(node)
                new.ops[at] = _TURNED[type(operator)]()
                self._replaced(node, new)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for at in range(len(node.values)):
            new = copy.deepcopy(node)
            del new.values[at]
            self._replaced(node, new if len(new.values) > 1 else new.values[0])
        new = copy.deepcopy(node)
        new.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._replaced(node, new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.USub):
            self._replaced(node, node.operand)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        texts = (ast.Constant, ast.JoinedStr)
        words = any(isinstance(one, texts) and not isinstance(getattr(one, "value", ""), int) for one in _ends(node))
        if type(node.op) in _EXCHANGED and not words:
            new = copy.deepcopy(node)
            new.op = _EXCHANGED[type(node.op)]()
            self._replaced(node, new)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replaced(node, ast.Constant(not node.value))
        elif isinstance(node.value, int):
            self._replaced(node, ast.Constant(node.value + 1))

    def visit_Call(self, node: ast.Call) -> None:
        if (
            isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "log"
        ):
            return
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in _NAMES:
            new = copy.deepcopy(node)
            setattr(new.func, "id" if isinstance(new.func, ast.Name) else "attr", _NAMES[name])
            self._replaced(node, new)
        ordered = len(node.args) > 1 and all(isinstance(one, _ORDERED) for one in node.args[:2])
        if ordered and ast.unparse(node.func) not in _EITHER_WAY:
            new = copy.deepcopy(node)
            new.args[:2] = new.args[1], new.args[0]
            self._replaced(node, new)
        self.generic_visit(node)

    def visit_If(self, node: ast.If | ast.IfExp | ast.While) -> None:
        if not isinstance(node.test, ast.Compare | ast.UnaryOp | ast.Constant):
            self._replaced(node.test, ast.UnaryOp(ast.Not(), copy.deepcopy(node.test)))
        self.generic_visit(node)

    visit_IfExp = visit_While = visit_If

    def generic_visit(self, node: ast.AST) -> None:
        for _, value in ast.iter_fields(node):
            if isinstance(value, list):
                self._statements(value)
        super().generic_visit(node)

    def _statements(self, body: list[Any]) -> None:
        for at, one in enumerate(body):
            if isinstance(one, ast.stmt) and _can_be_left_out(one):
                self._site(one, None, _left_out(body, at))


def _ends(node: ast.BinOp) -> Iterator[ast.expr]:
    for side in (node.left, node.right):
        yield from _ends(side) if isinstance(side, ast.BinOp) else (side,)


def _can_be_left_out(node: ast.stmt) -> bool:
    """Statements without which the rest still runs."""
    if isinstance(node, ast.Expr):
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        return isinstance(call, ast.Call) and not ast.unparse(call).startswith("log.")
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    return isinstance(node, ast.AugAssign | ast.Continue | ast.Delete) and not _counts_work(node)


def _counts_work(node: ast.stmt) -> bool:
    """Whether a statement only counts the work that was done."""
    return isinstance(node, ast.AugAssign) and ast.unparse(node.target).endswith("meter.spent")


def _left_out(body: list[ast.stmt], at: int) -> Callable[[], None]:
    def change() -> None:
        body[at] = ast.copy_location(ast.Pass(), body[at])

    return change


def _sites(tree: ast.Module) -> list[tuple[Fault, Callable[[], None]]]:
    walk = _Sites()
    walk.visit(tree)
    seen: Counter[tuple[str, str, str]] = Counter()
    found = []
    for where, node, after, change in walk.found:
        before = " ".join(ast.unparse(node).split())
        same = (where, before, after or "nothing")
        found.append((Fault(where, node.lineno, before, same[2], seen[same]), change))  # type: ignore[attr-defined]
        seen[same] += 1
    return found


def faults(source: str) -> list[Fault]:
    """Every fault that can be put into a module, in the order of its text."""
    return [fault for fault, _ in _sites(ast.parse(source))]


def with_fault(source: str, key: str) -> ast.Module:
    """The tree of the module with the fault of that key.

    Raises:
        KeyError: the module has no such fault.
    """
    tree = ast.parse(source)
    for fault, change in _sites(tree):
        if fault.key == key:
            change()
            return ast.fix_missing_locations(tree)
    raise KeyError(key)
