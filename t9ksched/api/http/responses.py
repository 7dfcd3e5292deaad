"""Writing answers: JSON by msgspec, times as Kubernetes writes them, and what OpenAPI says about both."""

from collections.abc import Mapping
from datetime import UTC, datetime
from types import UnionType
from typing import Any, Final

import msgspec
from pydantic import BaseModel
from starlette.responses import Response

from t9ksched.api.http.problems import MEDIA_TYPE
from t9ksched.api.schemas.base import ProblemShape

Json = dict[str, Any]


def answer(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(msgspec.json.encode(body), status, headers, media_type="application/json")


def at(moment: datetime | None) -> str | None:
    """A time as JSON shows it, to the second."""
    return None if moment is None else f"{moment.astimezone(UTC).isoformat()[:19]}Z"


BODY: Final = (408, 413, 415, 429)
"""Statuses of a body that is not read."""


def documented(ok: Mapping[int, type[BaseModel] | UnionType | None], *more: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of an endpoint: its shapes of success, and the statuses of more problems.

    400, 401, 422 and 429 are always among them.
    """
    shapes: dict[int | str, dict[str, Any]] = {}
    for status, model in ok.items():
        shapes[status] = {"model": model} if model else {"description": "Done"}
    return shapes | problems(400, 401, 422, 429, *more)


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of an endpoint that are problems."""
    schema = {"$ref": f"#/components/schemas/{ProblemShape.__name__}"}
    shape = {"description": "Problem", "content": {MEDIA_TYPE: {"schema": schema}}}
    return dict.fromkeys(statuses, shape)


def body_of(model: type[BaseModel], *media_types: str) -> Json:
    """The `openapi_extra` of an endpoint that reads its body itself."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    media = media_types or ("application/json", "application/yaml")
    return {"requestBody": {"required": True, "content": {name: {"schema": schema} for name in media}}}
