"""The page `docs/reference/rest.md`, written from the OpenAPI document; a test keeps it current.

Run `python -m t9ksched.api.reference > docs/reference/rest.md` after changing an endpoint.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any, cast

from t9ksched.api.app import create_app
from t9ksched.api.http.problems import STATUS
from t9ksched.api.services import Services

Json = dict[str, Any]

_HEAD = """# REST reference

Written from the service's OpenAPI document by `python -m t9ksched.api.reference`; `/docs` of a running service shows
the same, to be tried out.

Requests carry `Authorization: Bearer TOKEN`. Answers are JSON; where an object is expected, JSON and YAML are read.
Errors are `application/problem+json` (RFC 9457): `code` is stable, `errors` names faulty fields, `remedy` says what to
do. Answers given without the scheduler while it is away carry `T9ksched-Leader-Age`: seconds since it was heard of.
Lists of jobs then tell what it had written down, which may be some seconds older: a job that has just begun to run may
be listed as waiting. A job that is asked for by its name is told as the cluster has it.
"""


def render() -> str:
    """The whole page."""
    document = create_app(cast(Services, None)).openapi()
    lines = [_HEAD, "## Codes", "", "| code | usual status |", "| --- | --- |"]
    lines += [f"| `{code}` | {status} |" for code, status in STATUS.items()]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            summary = operation["summary"]
            lines += ["", f"## `{method.upper()} {path}`", "", summary if summary.endswith("?") else f"{summary}."]
            lines += ["", f"Operation `{operation['operationId']}`."]
            if "description" in operation:
                lines += ["", operation["description"]]
            lines += _parameters(operation)
            lines += _answers(operation)
    lines += ["", "## Shapes"]
    for name, schema in sorted(document["components"]["schemas"].items()):
        if name != "Shape":
            lines += ["", f"### {name}", "", schema.get("description", "")]
            lines += ["", "| field | type | |", "| --- | --- | --- |"]
            required = schema.get("required", [])
            for key, field in schema.get("properties", {}).items():
                told = [field.get("description", ""), "" if key in required else _default(field)]
                lines.append(f"| `{key}` | {_type(field)} | {'; '.join(filter(None, told))} |")
    return "\n".join(lines) + "\n"


def _parameters(operation: Json) -> Iterator[str]:
    body = operation.get("requestBody")
    if body:
        media = ", ".join(f"`{name}`" for name in body["content"])
        shape = _type(next(iter(body["content"].values()))["schema"])
        yield from ("", f"Body: {'a Kubernetes object' if shape == '[Shape](#shape)' else shape} as {media}.")
    parameters = [one for one in operation.get("parameters", ()) if one["in"] != "path"]
    if parameters:
        yield from ("", "| parameter | in | type | |", "| --- | --- | --- | --- |")
        for one in parameters:
            yield f"| `{one['name']}` | {one['in']} | {_type(one['schema'])} | {one.get('description', '')} |"


def _answers(operation: Json) -> Iterator[str]:
    yield ""
    good, problems = [], []
    for status, response in sorted(operation["responses"].items()):
        content = response.get("content", {})
        if "application/problem+json" in content:
            problems.append(status)
        elif "application/json" in content and content["application/json"].get("schema"):
            good.append(f"{status} with {_type(content['application/json']['schema'])}")
        else:
            good.append(status)
    told = f"Answers: {' or '.join(good)}"
    yield f"{told}; problems {', '.join(problems)}." if problems else f"{told}."


def _type(schema: Json) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(part) for part in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return " or ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"mapping to {_type(schema['additionalProperties'])}"
    return kind


def _default(schema: Json) -> str:
    default = schema.get("default")
    return (
        ""
        if default in (None, "", [], {}) or isinstance(default, dict)
        else f"default `{json.dumps(default) if isinstance(default, bool) else default}`"
    )


if __name__ == "__main__":
    sys.stdout.write(render())
