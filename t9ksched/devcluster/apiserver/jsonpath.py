"""The small JSONPath of printer columns and selectable fields.

Known are `.a.b`, `.a[0]`, `.a['b.c']`, `[*]` and `[?(@.type=="Ready")]`.
"""

import re
from typing import Any, Final

_STEP: Final = re.compile(
    r"\.(?P<name>(?:\\.|[^.\[\]\\])+)|\[(?P<index>-?\d+)\]|\[(?P<quote>['\"])(?P<quoted>.*?)(?P=quote)\]|(?P<every>\[\*\]|\.\*)"
    r"|\[\?\(@\.(?P<key>[\w.]+)\s*(?P<operator>==|!=)\s*(?P<q2>['\"])(?P<value>.*?)(?P=q2)\s*\)\]"
)


class Path:
    """A parsed path; ValueError when it uses what is not known here."""

    def __init__(self, text: str) -> None:
        self._steps: list[re.Match[str]] = []
        at = 0
        text = text.strip().removeprefix("{").removesuffix("}").removeprefix("$")
        while at < len(text):
            match = _STEP.match(text, at)
            if match is None:
                raise ValueError(f"cannot read {text[at:]!r} in the path {text!r}")
            self._steps.append(match)
            at = match.end()

    def find(self, obj: Any) -> list[Any]:
        """All values at the path."""
        found = [obj]
        for step in self._steps:
            found = [value for node in found for value in _follow(node, step)]
        return found

    def first(self, obj: Any) -> Any:
        """The first value, or None."""
        found = self.find(obj)
        return found[0] if found else None

    def text(self, obj: Any) -> str:
        """The first value as a field selector compares it; empty when absent."""
        value = self.first(obj)
        if isinstance(value, bool):
            return "true" if value else "false"
        return "" if value is None else str(value)

    def printed(self, obj: Any) -> Any:
        """All values as one cell of text, or None."""
        found = self.find(obj)
        if not found or found == [None]:
            return None
        return ",".join(str(value).lower() if isinstance(value, bool) else str(value) for value in found)


def _follow(node: Any, step: re.Match[str]) -> list[Any]:
    if step["every"]:
        values = node.values() if isinstance(node, dict) else node
        return list(values) if isinstance(node, dict | list) else []
    if step["index"] is not None:
        index = int(step["index"])
        return [node[index]] if isinstance(node, list) and -len(node) <= index < len(node) else []
    if step["key"] is not None:
        if not isinstance(node, list):
            return []
        wanted = step["operator"] == "=="
        return [item for item in node if (str(_dig(item, step["key"])) == step["value"]) is wanted]
    name = step["quoted"] if step["name"] is None else re.sub(r"\\(.)", r"\1", step["name"])
    return [node[name]] if isinstance(node, dict) and name in node else []


def _dig(node: Any, path: str) -> Any:
    for part in path.split("."):
        node = node.get(part) if isinstance(node, dict) else None
    return node
