"""How notebooks show answers: a table of what people look at first. Every text is escaped."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any, Final

_COLUMNS: Final[Mapping[str, Sequence[str]]] = {
    "Job": ("namespace", "kind", "name", "queue", "phase", "gpus", "position", "submitter", "submitted_at", "reason"),
    "Queue": ("name", "priority", "quota", "free", "closed", "draining"),
    "Node": ("name", "ready", "schedulable", "mode", "cards", "held"),
    "Event": ("id", "at", "type", "kind", "namespace", "name", "queue", "actor"),
    "SimulatedJob": ("namespace", "kind", "name", "verdict", "start", "nodes", "reasons"),
    "Effect": ("job", "queue", "start_before", "start_after", "preempted"),
}
"""What is shown of lists, by the name of the class."""


def of_many(values: Iterable[Any]) -> str:
    """A table with a row for each value."""
    rows = list(values)
    if not rows:
        return "<p>none</p>"
    columns = _columns(rows[0])
    head = "".join(f"<th>{escape(column.replace('_', ' '))}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(_cell(_shown(row, column)) for column in columns)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def of_one(value: Any) -> str:
    """A table with a row for each field that says something."""
    rows = []
    for name in value.__struct_fields__:
        content = getattr(value, name)
        if content in (None, "", [], {}):
            continue
        shown = of_many(content) if _is_listed(content) else escape(_text(content))
        rows.append(f"<tr><th>{escape(name.replace('_', ' '))}</th><td>{shown}</td></tr>")
    return f"<table><tbody>{''.join(rows)}</tbody></table>"


def _is_listed(content: Any) -> bool:
    return isinstance(content, list) and type(content[0]).__name__ in _COLUMNS


def _columns(value: Any) -> Sequence[str]:
    return _COLUMNS.get(type(value).__name__) or tuple(value.__struct_fields__)


def _shown(value: Any, column: str) -> Any:
    """A field, or what is worked out of others."""
    match type(value).__name__, column:
        case "Queue", "priority" | "closed":
            return value.spec.get(column)
        case "Queue", "quota":
            return (value.spec.get("quota") or {}).get("requests")
        case "Queue", "free":
            return (value.status or {}).get("free")
        case "Node", "cards":
            return len(value.gpus) + sum(one.get("has", 0) for one in value.counted)
        case "Node", "held":
            return sum(bool(card.get("holders")) for card in value.gpus) + sum(
                one.get("held", 0) for one in value.counted
            )
    return getattr(value, column)


def _cell(content: Any) -> str:
    return f"<td>{escape(_text(content))}</td>"


def _text(content: Any) -> str:
    if content is None:
        return "–"
    if isinstance(content, bool):
        return "yes" if content else "no"
    if isinstance(content, datetime):
        return f"{content:%Y-%m-%d %H:%M:%S %Z}".strip()
    if isinstance(content, Mapping):
        return ", ".join(f"{key}={_text(value)}" for key, value in content.items())
    if isinstance(content, Sequence) and not isinstance(content, str):
        return ", ".join(map(_text, content))
    if hasattr(content, "code") and hasattr(content, "message"):
        return f"{content.code}: {content.message}"
    if hasattr(content, "__struct_fields__"):
        return ", ".join(f"{name}={_text(getattr(content, name))}" for name in content.__struct_fields__)
    return str(content)
