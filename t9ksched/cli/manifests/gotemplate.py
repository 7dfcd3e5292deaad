"""Go templates as Helm charts use them: the part that our chart keeps to. A test compares what comes out with Helm's.

Known are `if`, `else`, `range`, `with`, `define`, `include`, variables, comments, trimmed white space, pipelines with
parentheses, and the functions of `functions.py`. Whatever else a template says is a `TemplateError`, never skipped.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

_ACTION: Final = re.compile(r"\{\{(?P<left>-(?=\s))?\s*(?P<code>/\*.*?\*/|.*?)\s*(?P<right>(?<=\s)-)?\}\}", re.DOTALL)
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|`[^`]*`)|(?P<number>-?\d+)|(?P<variable>\$\w*(?:\.\w+)*)"""
    r"""|(?P<field>\.\w+(?:\.\w+)*|\.)|(?P<name>\w+)|(?P<sign>:=|[()|,]))"""
)
_ESCAPES: Final = {"n": "\n", "t": "\t"}

Function = Callable[..., Any]


class TemplateError(ValueError):
    """A template that cannot be read or carried out; the message names the template."""


class _Token(NamedTuple):
    kind: str
    text: str


@dataclass(frozen=True)
class _Call:
    """A command of a pipeline: one operand, or a function with its arguments."""

    words: "tuple[_Operand, ...]"


@dataclass(frozen=True)
class _Operand:
    """`kind` as tokens have it; `pipeline` of one in parentheses."""

    kind: str
    text: str = ""
    pipeline: "tuple[_Call, ...]" = ()


_Pipeline = tuple[_Call, ...]


@dataclass
class _Block:
    """A piece of a template: text, an expression (`out`), or `if`, `with`, `range`, `set` and what is in them."""

    kind: str
    text: str = ""
    names: tuple[str, ...] = ()
    pipeline: _Pipeline = ()
    body: "list[_Block]" = field(default_factory=list)
    otherwise: "list[_Block]" = field(default_factory=list)


class Templates:
    """Templates that can include each other. `functions` are those of Go and Helm that they may call."""

    def __init__(self, sources: Mapping[str, str], functions: Mapping[str, Function]) -> None:
        """Read them all.

        Raises:
            TemplateError: one of them cannot be read.
        """
        self._functions = {**functions, "include": self._include}
        self._defined: dict[str, list[_Block]] = {}
        for name, source in sources.items():
            reader = _TemplateReader(name, source)
            self._defined[name] = reader.blocks(())
            self._defined.update(reader.defined)

    def render(self, name: str, data: Any) -> str:
        """What a template makes of `data`.

        Raises:
            TemplateError: it asks for what is not there, or says itself that it fails.
        """
        try:
            return "".join(self._run(self._defined[name], data, {"$": data}))
        except TemplateError as error:
            raise TemplateError(f"{name}: {error}") from None

    def _include(self, name: str, data: Any) -> str:
        if name not in self._defined:
            raise TemplateError(f"there is no template {name!r}")
        return "".join(self._run(self._defined[name], data, {"$": data}))

    def _run(self, blocks: Sequence[_Block], dot: Any, variables: dict[str, Any]) -> Iterator[str]:
        for block in blocks:
            if block.kind == "text":
                yield block.text
                continue
            value = self._value(block.pipeline, dot, variables)
            match block.kind:
                case "out":
                    yield shown(value)
                case "set":
                    variables[block.names[0]] = value
                case "if":
                    yield from self._run(block.body if truth(value) else block.otherwise, dot, {**variables})
                case "with":
                    chosen, inner = (block.body, value) if truth(value) else (block.otherwise, dot)
                    yield from self._run(chosen, inner, {**variables})
                case "range":
                    yield from self._range(block, value, dot, variables)

    def _range(self, block: _Block, value: Any, dot: Any, variables: dict[str, Any]) -> Iterator[str]:
        pairs = sorted(value.items()) if isinstance(value, Mapping) else list(enumerate(value or ()))
        for pair in pairs:
            named = dict(zip(block.names, pair if len(block.names) == 2 else pair[1:], strict=False))
            yield from self._run(block.body, pair[1], {**variables, **named})
        if not pairs:
            yield from self._run(block.otherwise, dot, {**variables})

    def _value(self, pipeline: _Pipeline, dot: Any, variables: dict[str, Any]) -> Any:
        piped: tuple[Any, ...] = ()
        for call in pipeline:
            first, *rest = call.words
            if first.kind == "name" and first.text not in ("true", "false", "nil"):
                function = self._functions.get(first.text)
                if function is None:
                    raise TemplateError(f"the function {first.text!r} is not known here")
            else:
                function = self._operand(first, dot, variables)
                if not callable(function):
                    if rest or piped:
                        raise TemplateError(f"{first.text!r} is no function")
                    piped = (function,)
                    continue
            piped = (function(*(self._operand(word, dot, variables) for word in rest), *piped),)
        return piped[0]

    def _operand(self, word: _Operand, dot: Any, variables: dict[str, Any]) -> Any:
        match word.kind:
            case "text":
                return word.text
            case "number":
                return int(word.text)
            case "pipeline":
                return self._value(word.pipeline, dot, variables)
            case "name":
                return {"true": True, "false": False, "nil": None}[word.text]
            case "field":
                return _reached(dot, word.text.split(".")[1:], word.text) if word.text != "." else dot
            case _:
                name, *path = word.text.split(".")
                if name not in variables:
                    raise TemplateError(f"there is no variable {name}")
                return _reached(variables[name], path, word.text)


def _reached(value: Any, path: Sequence[str], whole: str) -> Any:
    """What a path of names leads to; None for a name that its mapping lacks, as in Go."""
    for name in filter(None, path):
        if not isinstance(value, Mapping):
            raise TemplateError(f"{whole}: there is no {name!r} in {value!r}")
        value = value.get(name)
    return value


def truth(value: Any) -> bool:
    """Whether Go takes a value as true: nothing empty is, and no zero."""
    return bool(value)


def shown(value: Any) -> str:
    """A value as Go prints it."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


class _TemplateReader:
    """Reads one template; `defined` has what it defines for others."""

    def __init__(self, name: str, source: str) -> None:
        self._name = name
        self._pieces = iter(list(self._split(source)))
        self.defined: dict[str, list[_Block]] = {}

    @staticmethod
    def _split(source: str) -> Iterator[tuple[str, str]]:
        """Text and actions in turn, white space trimmed as the actions say."""
        start, trim = 0, False
        for action in _ACTION.finditer(source):
            text = source[start : action.start()]
            text = text.lstrip() if trim else text
            yield "text", text.rstrip() if action["left"] else text
            if not action["code"].startswith("/*"):
                yield "action", action["code"]
            start, trim = action.end(), bool(action["right"])
        text = source[start:]
        yield "text", text.lstrip() if trim else text

    def blocks(self, ends: tuple[str, ...]) -> list[_Block]:
        """The blocks up to one of the words that end them; `self.ended` is then that action."""
        found: list[_Block] = []
        for kind, text in self._pieces:
            if kind == "text":
                found += [_Block("text", text)] if text else []
                continue
            word, _, rest = text.partition(" ")
            if word in ends:
                self.ended = text
                return found
            match word:
                case "if" | "with" | "range":
                    found.append(self._nested(word, rest))
                case "define":
                    self.defined[_Words(self._name, rest).text()] = self.blocks(("end",))
                case "else" | "end" | "block" | "template" | "break" | "continue":
                    raise TemplateError(f"{self._name}: {text!r} is not expected here")
                case _:
                    names, pipeline = _Words(self._name, text).assigned()
                    found.append(_Block("set" if names else "out", names=names, pipeline=pipeline))
        if ends:
            raise TemplateError(f"{self._name}: an end is missing")
        return found

    def _nested(self, word: str, rest: str) -> _Block:
        names, pipeline = _Words(self._name, rest).assigned()
        block = _Block(word, names=names, pipeline=pipeline)
        block.body = self.blocks(("else", "end"))
        if self.ended.startswith("else"):
            inner, _, condition = self.ended.removeprefix("else").strip().partition(" ")
            block.otherwise = [self._nested(inner, condition)] if inner else self.blocks(("end",))
        return block


class _Words:
    """Reads the expression of an action."""

    def __init__(self, name: str, text: str) -> None:
        self._tokens: list[_Token] = []
        position = 0
        while text[position:].strip():
            found = _TOKEN.match(text, position)
            if found is None or found.lastgroup is None:
                raise TemplateError(f"{name}: {text[position:].strip()!r} is not understood")
            self._tokens.append(_Token(found.lastgroup, found[found.lastgroup]))
            position = found.end()
        self._where = f"{name}: {text}"

    def text(self) -> str:
        """The one text that this is."""
        return self._operand().text

    def assigned(self) -> tuple[tuple[str, ...], _Pipeline]:
        """The variables that get the value, and the pipeline that makes it."""
        signs = [token.text for token in self._tokens]
        if ":=" not in signs:
            return (), self._pipeline()
        at = signs.index(":=")
        names = tuple(token.text for token in self._tokens[:at] if token.kind == "variable")
        del self._tokens[: at + 1]
        return names, self._pipeline()

    def _pipeline(self) -> _Pipeline:
        calls = [self._call()]
        while self._tokens and self._tokens[0].text == "|" and self._tokens[0].kind == "sign":
            del self._tokens[0]
            calls.append(self._call())
        return tuple(calls)

    def _call(self) -> _Call:
        words = []
        while self._tokens and not (self._tokens[0].kind == "sign" and self._tokens[0].text in "|)"):
            words.append(self._operand())
        if not words:
            raise TemplateError(f"{self._where}: a value is missing")
        return _Call(tuple(words))

    def _operand(self) -> _Operand:
        if not self._tokens:
            raise TemplateError(f"{self._where}: a value is missing")
        kind, text = self._tokens.pop(0)
        if kind == "sign" and text == "(":
            pipeline = self._pipeline()
            if not self._tokens or self._tokens.pop(0).text != ")":
                raise TemplateError(f"{self._where}: ')' is missing")
            return _Operand("pipeline", pipeline=pipeline)
        if kind == "sign":
            raise TemplateError(f"{self._where}: {text!r} is not expected")
        if kind == "text":
            inner = text[1:-1]
            text = inner if text[0] == "`" else re.sub(r"\\(.)", lambda one: _ESCAPES.get(one[1], one[1]), inner)
        return _Operand(kind, text)
