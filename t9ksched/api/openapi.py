"""The OpenAPI document: what FastAPI makes of the endpoints, and what it cannot see.

Added here are the shapes that endpoints read and write themselves, descriptions and examples of all fields, and the
headers of answers. A test holds the document to rules: see `tests/unit/api/test_openapi.py`.
"""

from collections.abc import Iterator
from typing import Any, Final

from fastapi import FastAPI

from t9ksched.api.schemas.accounts import TokenBody
from t9ksched.api.schemas.base import ProblemShape, Shape
from t9ksched.api.schemas.examples import EXAMPLES
from t9ksched.api.schemas.jobs import ExecBody, ExecPart, PriorityBody, ScaleBody, TrialResultBody, UpdateBody
from t9ksched.api.schemas.nodes import CardBody
from t9ksched.api.schemas.notifications import NotificationBody
from t9ksched.api.schemas.queues import AccessQuestion, MembersBody, QueueBody, QueueChange, StopBody
from t9ksched.api.schemas.reports import StreamedEvent
from t9ksched.api.schemas.reservations import ReservationBody, ReservationChange
from t9ksched.api.schemas.simulations import SimulationBody
from t9ksched.api.schemas.words import DESCRIPTIONS, PARAMETERS

Json = dict[str, Any]
_BODIES: Final = (
    ProblemShape,
    QueueBody,
    QueueChange,
    MembersBody,
    ReservationBody,
    ReservationChange,
    AccessQuestion,
    PriorityBody,
    UpdateBody,
    TrialResultBody,
    ExecBody,
    ExecPart,
    ScaleBody,
    StopBody,
    CardBody,
    TokenBody,
    NotificationBody,
    SimulationBody,
    StreamedEvent,
    Shape,
)
_OBJECT: Final = {
    "apiVersion": "batch.tensorstack.dev/v1beta1",
    "kind": "PyTorchTrainingJob",
    "metadata": {"name": "resnet", "namespace": "default"},
    "spec": {
        "scheduler": {"t9kScheduler": {"queue": "a100"}},
        "replicaSpecs": [
            {
                "type": "node",
                "replicas": 2,
                "template": {
                    "spec": {
                        "containers": [
                            {
                                "name": "pytorch",
                                "image": "pytorch/pytorch",
                                "resources": {"limits": {"nvidia.com/gpu": "4"}, "requests": {"nvidia.com/gpu": "4"}},
                            }
                        ]
                    }
                },
            }
        ],
    },
}
"""What a body of the shape `Shape` may be: any Kubernetes object."""
_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "array": list,
    "object": dict,
    "boolean": bool,
    "null": type(None),
}
_NONE: Final = object()
HEADERS: Final[dict[str, Json]] = {
    "X-Request-Id": {"description": "Of this request; the service's log has it", "example": "4f1b9c22d0aa"},
    "RateLimit-Limit": {"description": "Requests that you may make in a minute", "example": "12000"},
    "RateLimit-Remaining": {"description": "How many of them are left now", "example": "11999"},
    "RateLimit-Reset": {"description": "Seconds until none of them is used", "example": "1"},
    "RateLimit-Policy": {"description": "The limit, and the seconds that it is for", "example": "12000;w=60"},
    "Retry-After": {"description": "Seconds after which to ask again", "example": "1"},
    "ETag": {
        "description": "Of lists and jobs a hash for `If-None-Match`; of queues and reservations their revision, for"
        " `If-Match`",
        "example": 'W/"d41d8cd98f00b204e9800998"',
    },
    "Location": {"description": "Where the one thing that was made is", "example": "/apis/v1/workloads/default/Job/a"},
    "T9ksched-Leader-Age": {
        "description": "Seconds since the scheduler was heard of, where the answer is without what it knows",
        "example": "12",
    },
    "Idempotent-Replayed": {
        "description": "`true` if this is the stored answer to the same request",
        "example": "true",
    },
    "WWW-Authenticate": {"description": "What is wrong with the token", "example": 'Bearer realm="t9ksched"'},
}


def describe(app: FastAPI) -> None:
    """Complete the document of the app."""
    generate = app.openapi

    def openapi() -> Json:
        document = generate()
        if "headers" in document.get("components", {}):
            return document  # it is kept by the app, and complete
        schemas: Json = document.setdefault("components", {}).setdefault("schemas", {})
        for model in _BODIES:
            described = model.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas.update(described.pop("$defs", {}))
            schemas[model.__name__] = described
        for _, _, operation in operations(document):
            # FastAPI adds its own shape of 422; ours are problems.
            if "HTTPValidationError" in str(operation["responses"].get("422")):
                operation["responses"].pop("422")
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        _complete(document, schemas)
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    """Method, path and operation of each."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def _complete(document: Json, schemas: Json) -> None:
    headers = {name: {"schema": {"type": "string"}} | told for name, told in HEADERS.items()}
    document["components"]["headers"] = headers
    for name, schema in schemas.items():
        for field, described in schema.get("properties", {}).items():
            # A reference with words beside it is one again in OpenAPI 3.1.
            if not described.get("description") and (words := _told(DESCRIPTIONS, name, field)):
                described["description"] = words
    for name, schema in schemas.items():
        for field, described in schema.get("properties", {}).items():
            example = _of_field(name, field, described, schemas)
            if example is not _NONE and "$ref" not in str(described):
                described["examples"] = [example]
        schema["examples"] = [_of_shape(name, schemas)]
    for method, _, operation in operations(document):
        _complete_operation(method, operation, schemas)


def _complete_operation(method: str, operation: Json, schemas: Json) -> None:
    for parameter in operation.get("parameters", ()):
        if not parameter.get("description") and parameter["name"] in PARAMETERS:
            parameter["description"] = PARAMETERS[parameter["name"]]
    contents = [answer.get("content", {}) for answer in operation["responses"].values()]
    for content in (*contents, operation.get("requestBody", {}).get("content", {})):
        for media, told in content.items():
            if "schema" in told and "example" not in told and media.endswith("json"):
                example = _of(told["schema"], schemas)
                if example is not _NONE:
                    told["example"] = example
    secured = bool(operation.get("security"))
    for status, answer in list(operation["responses"].items()):
        names = ["X-Request-Id"]
        if secured and status not in ("400", "401"):
            names += ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "RateLimit-Policy"]
        if status == "401":
            names.append("WWW-Authenticate")
        if status in ("429", "503"):
            names.append("Retry-After")
        if status == "201":
            names += ["Location", *(["Idempotent-Replayed"] if operation["operationId"] == "submitJobs" else [])]
        if status == "200" and secured:
            names += ["T9ksched-Leader-Age", *(["ETag"] if method in ("get", "put", "patch") else [])]
        # Problems share one object for all their statuses.
        refs = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
        operation["responses"][status] = {**answer, "headers": refs | answer.get("headers", {})}
    ok = operation["responses"].get("200", {})
    if method == "get" and "application/json" in ok.get("content", {}):
        ok["headers"] = {"ETag": {"$ref": "#/components/headers/ETag"}} | ok.get("headers", {})
        operation["responses"]["304"] = {
            "description": "It did not change since the answer whose ETag came as `If-None-Match`",
            "headers": {"ETag": {"$ref": "#/components/headers/ETag"}},
        }


def _told(table: dict[str, Any], shape: str, field: str) -> Any:
    return table.get(f"{shape}.{field}", table.get(field))


def _of_shape(name: str, schemas: Json) -> Any:
    """The example of a shape, from those of its fields."""
    if name == Shape.__name__:
        return _OBJECT
    found = {
        field: _of_field(name, field, described, schemas)
        for field, described in schemas[name].get("properties", {}).items()
    }
    return {field: example for field, example in found.items() if example is not _NONE}


def _of_field(shape: str, field: str, schema: Json, schemas: Json) -> Any:
    """The example of a field: its own, one of a shape that it is, one of few values, or the one of its name."""
    if f"{shape}.{field}" in EXAMPLES:
        return EXAMPLES[f"{shape}.{field}"]
    made = _of(schema, schemas)
    if made is not _NONE:
        return made
    given = EXAMPLES.get(field, _NONE)
    return given if given is not _NONE and _fits(given, schema) else _NONE


def _of(schema: Json, schemas: Json) -> Any:
    """The example that follows from a type alone."""
    if "$ref" in schema:
        return _of_shape(schema["$ref"].rsplit("/", 1)[1], schemas)
    for several in ("anyOf", "oneOf", "allOf"):
        for part in schema.get(several, ()):
            if part.get("type") != "null" and (made := _of(part, schemas)) is not _NONE:
                return made
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    if schema.get("type") == "boolean":
        return bool(schema.get("default", True))
    if schema.get("type") == "array" and (one := _of(schema.get("items", {}), schemas)) is not _NONE:
        return [one]
    if schema.get("type") == "object" and isinstance(inner := schema.get("additionalProperties"), dict):
        one = _of(inner, schemas)
        return _NONE if one is _NONE else {"plan": one}
    return _NONE


def _fits(value: Any, schema: Json) -> bool:
    """Whether a value has one of the types that a field may have; more exactly a test looks."""
    types = [part.get("type") for part in schema.get("anyOf", [schema])]
    if None in types:
        return True
    return any(isinstance(value, _TYPES[str(one)]) and (one == "boolean") is isinstance(value, bool) for one in types)
