"""What a body says: JSON or YAML, one document or several, `kind: List` included.

Both are read within the same limits on depth and values, and a key that is there twice is a fault in both.
"""

import json
import math
from collections.abc import Callable
from typing import Any, Final

import msgspec

from t9ksched.api.http.problems import Problem
from t9ksched.model.errors import FieldError, shown
from t9ksched.model.text import Limits, YamlFault, read_all

LIMITS: Final = Limits()


def parse(body: bytes, *, is_json: bool) -> list[tuple[str, Any]]:
    """The documents of a body, each with the prefix of its fields' paths (empty for a single document).

    Raises:
        Problem: it is not JSON or YAML, is empty, or breaks a limit.
    """
    documents = [_load_json(body)] if is_json else _load_yaml(body)
    documents = [document for document in documents if document is not None]
    if not documents:
        raise Problem("Malformed", "the body holds no object: send one as JSON or YAML")
    several = len(documents) > 1
    found: list[tuple[str, Any]] = []
    for index, document in enumerate(documents):
        prefix = f"[{index}]." if several else ""
        _check(document)
        if isinstance(document, dict) and document.get("kind") == "List" and isinstance(document.get("items"), list):
            found += [(f"{prefix}items[{i}].", item) for i, item in enumerate(document["items"])]
        else:
            found.append((prefix, document))
    if not found:
        raise Problem("Malformed", "the list holds no object")
    return found


def _load_json(body: bytes) -> Any:
    try:
        document = msgspec.json.decode(body)
        repeated = _repeated(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem("Malformed", f"the body is not JSON: {error}") from None
    except RecursionError:
        raise Problem("Malformed", f"the body is nested deeper than {LIMITS.depth} levels") from None
    if repeated is not None:
        raise Problem("Malformed", f"the body has the key {repeated[:100]!r} twice in one object")
    return document


def _repeated(body: bytes) -> str | None:
    """The first key found twice in one object of a JSON text."""
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        if not found and len({key for key, _ in pairs}) < len(pairs):
            seen: set[str] = set()
            found.append(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]

    json.loads(body, object_pairs_hook=look, parse_int=str, parse_float=str)
    return found[0] if found else None


def _load_yaml(body: bytes) -> list[Any]:
    try:
        return read_all(body, LIMITS)
    except YamlFault as fault:
        where = f" in {fault.where}" if fault.where else ""
        faults = [FieldError(fault.path, fault.problem)] if fault.path else []
        raise Problem("Malformed", f"the body is not YAML that can be read: {fault.problem}{where}", faults) from None


def _check(document: Any) -> None:
    """See that a document could be written as JSON, and is not too deep or too large."""
    left = LIMITS.values

    def walk(value: Any, path: str, depth: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Problem("Malformed", f"the body holds more than {LIMITS.values} values")
        if depth > LIMITS.depth:
            raise Problem("Malformed", f"the body is nested deeper than {LIMITS.depth} levels")
        if fault := _fault(value):
            raise Problem("Malformed", f"{path or 'the body'} {fault}", [FieldError(path, fault)])
        if isinstance(value, dict):
            for key, item in value.items():
                place = f"{path}.{key}" if path else str(key)
                if not isinstance(key, str):
                    fault = f"has the key {shown(key)}, which is no text: put it in quotes"
                    raise Problem("Malformed", f"{path or 'the body'} {fault}", [FieldError(path, fault)])
                walk(item, place, depth + 1)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                walk(item, f"{path}[{index}]", depth + 1)

    walk(document, "", 0)


_FAULTS: Final[tuple[tuple[Callable[[Any], bool], str], ...]] = (
    (lambda v: isinstance(v, float) and not math.isfinite(v), "is not a finite number"),
    (lambda v: isinstance(v, int) and not -(2**63) <= v < 2**63, "is larger than 64 bits"),
    (lambda v: isinstance(v, str) and ("\x00" in v or not _encodes(v)), "holds a character that is not allowed"),
    (
        lambda v: v is not None and not isinstance(v, str | bool | int | float | dict | list),
        "is of a type JSON does not have",
    ),
)


def _fault(value: Any) -> str:
    return next((message for broken, message in _FAULTS if broken(value)), "")


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
