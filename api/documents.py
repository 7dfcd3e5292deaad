"""Reading bodies: JSON or YAML, one document or several, `kind: List` included.

YAML is read as Kubernetes does (dates stay texts, a doubled key is a fault), within limits: size, depth, and the number
of values after aliases are counted out, so that no small text becomes a large one.
"""

import math
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, cast

import msgspec
import yaml
from starlette.requests import Request

from api.problems import Problem
from t9ksched.model.errors import FieldError

MAX_DEPTH: Final = 64
MAX_VALUES: Final = 200_000


class _Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
    """YAML that becomes JSON."""

    yaml_implicit_resolvers: Mapping[str, list[Any]] = {
        first: [pair for pair in resolvers if pair[0] != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag != "tag:yaml.org,2002:merge":
                key = self.construct_object(key_node, deep=True)
                if isinstance(key, Hashable) and key in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key!r} is there twice", key_node.start_mark
                    )
                seen.add(key if isinstance(key, Hashable) else str(key))
        return cast("dict[Hashable, Any]", super().construct_mapping(node, deep))


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body.

    Raises:
        Problem: it is larger than `limit` bytes; the rest is not read.
    """
    declared = request.headers.get("content-length", "")
    too_large = declared.isdigit() and int(declared) > limit
    body = bytearray()
    if not too_large:
        async for chunk in request.stream():
            body += chunk
            if len(body) > limit:
                too_large = True
                break
    if too_large:
        raise Problem(
            "Malformed",
            f"the body is larger than {limit // 1024} KiB, the most that is read",
            status=413,
            remedy="split it into several requests",
            headers={"Connection": "close"},
        )
    return bytes(body)


def parse(body: bytes, content_type: str) -> list[tuple[str, Any]]:
    """The documents of a body, each with the prefix of its fields' paths (empty for a single document).

    Raises:
        Problem: it is not JSON or YAML, is empty, or breaks a limit.
    """
    is_json = content_type.split(";")[0].strip().lower().endswith("json")
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


async def read_mapping(request: Request, limit: int) -> dict[str, Any]:
    """A body that must be one mapping, such as a queue.

    Raises:
        Problem: it is something else.
    """
    documents = parse(await read_body(request, limit), request.headers.get("content-type", ""))
    if len(documents) != 1 or not isinstance(documents[0][1], dict):
        raise Problem("Malformed", "the body must be one JSON or YAML mapping")
    return cast(dict[str, Any], documents[0][1])


def _load_json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem("Malformed", f"the body is not JSON: {error}") from None


def _load_yaml(body: bytes) -> list[Any]:
    try:
        return list(yaml.load_all(body.decode("utf-8-sig"), Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        place = error.problem_mark or error.context_mark
        where = f" in line {place.line + 1}, column {place.column + 1}" if place else ""
        raise Problem("Malformed", f"the body is not YAML: {error.problem or error.context}{where}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise Problem("Malformed", f"the body is not YAML: {error}") from None


def _check(document: Any) -> None:
    """See that a document could be written as JSON, and is not too deep or too large."""
    left = MAX_VALUES

    def walk(value: Any, path: str, depth: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Problem("Malformed", f"the body holds more than {MAX_VALUES} values")
        if depth > MAX_DEPTH:
            raise Problem("Malformed", f"the body is nested deeper than {MAX_DEPTH} levels")
        if fault := _fault(value):
            raise Problem("Malformed", f"{path or 'the body'} {fault}", [FieldError(path, fault)])
        if isinstance(value, dict):
            for key, item in value.items():
                place = f"{path}.{key}" if path else str(key)
                if not isinstance(key, str):
                    fault = f"has the key {key!r}, which is no text: put it in quotes"
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
