"""The OpenAPI document, held to rules: what a stranger needs to know of every operation and every field is there."""

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from fastapi import FastAPI

from t9ksched.api.openapi import HEADERS, operations
from t9ksched.api.schemas.examples import EXAMPLES
from t9ksched.api.schemas.words import DESCRIPTIONS, PARAMETERS
from tests.unit.api.test_matrix import PUBLIC

Json = dict[str, Any]
_VERBS = (
    "list|get|create|replace|change|delete|submit|cancel|explain|update|hold|release|prioritise|close|open|drain|set|end"
    "|take|review|revoke|simulate|who|watch|stream|pause|resume|scale|resubmit|add|test|exec|read"
)


@pytest.fixture(scope="module")
def document(app: FastAPI) -> Json:
    return app.openapi()


def fields(document: Json) -> Iterator[tuple[str, str, Json]]:
    for shape, schema in document["components"]["schemas"].items():
        for field, described in schema.get("properties", {}).items():
            yield shape, field, described


def test_every_operation_has_a_name_that_a_person_would_choose(document: Json) -> None:
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(names)) == len(names)
    odd = [name for name in names if not re.fullmatch(f"(?:{_VERBS})(?:[A-Z][A-Za-z]*)?", name)]
    assert not odd, "give the endpoint an operation_id: a verb and a noun, such as listJobs"


def test_every_operation_has_a_summary_and_a_tag(document: Json) -> None:
    for method, path, operation in operations(document):
        summary = operation["summary"]
        assert 8 <= len(summary) <= 160, (method, path)
        assert not summary.endswith("."), (method, path)
        assert len(operation["tags"]) == 1, (method, path)


def test_every_parameter_is_described(document: Json) -> None:
    bare = [
        (operation["operationId"], parameter["name"])
        for _, _, operation in operations(document)
        for parameter in operation.get("parameters", ())
        if not parameter.get("description")
    ]
    assert not bare, "describe it at the endpoint, or in t9ksched/api/schemas/words.py"


def test_every_field_is_described(document: Json) -> None:
    bare = [f"{shape}.{field}" for shape, field, described in fields(document) if not described.get("description")]
    assert not bare, "describe it where it is defined, or in t9ksched/api/schemas/words.py"


def test_every_shape_has_an_example_that_is_one(document: Json) -> None:
    """Every field stands in it, with a value that the document allows there."""
    for name, schema in document["components"]["schemas"].items():
        (example,) = schema["examples"]
        if name != "Shape":
            without = set(schema.get("properties", {})) - set(example)
            assert not without, f"{name}: give {without} an example in t9ksched/api/schemas/examples.py"
        whole = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        faults = [fault.message for fault in jsonschema_rs.Draft202012Validator(whole).iter_errors(example)]
        assert not faults, name


def test_every_body_and_every_answer_has_an_example(document: Json) -> None:
    for method, path, operation in operations(document):
        contents = [operation.get("requestBody", {}).get("content", {})]
        contents += [answer.get("content", {}) for answer in operation["responses"].values()]
        bare = [
            media
            for content in contents
            for media in content
            if media.endswith("json") and "example" not in content[media]
        ]
        assert not bare, (method, path)


def test_no_words_and_examples_are_left_over(document: Json) -> None:
    """Of fields that are gone, or that are described where they are defined."""
    known = {f"{shape}.{field}" for shape, field, _ in fields(document)}
    known |= {field for _, field, _ in fields(document)}
    parameters = {one["name"] for _, _, operation in operations(document) for one in operation.get("parameters", ())}
    assert not set(DESCRIPTIONS) - known
    assert not set(EXAMPLES) - known
    assert not set(PARAMETERS) - parameters


def test_refusals_and_headers_are_declared(document: Json) -> None:
    for method, path, operation in operations(document):
        answers = operation["responses"]
        for status, answer in answers.items():
            assert answer["description"], (method, path, status)
            assert status == "304" or "X-Request-Id" in answer["headers"], (method, path, status)
        if method == "get" and "application/json" in answers["200"].get("content", {}):
            assert "304" in answers, path
            assert "ETag" in answers["200"]["headers"], path
        if path in PUBLIC:
            continue
        assert {"400", "401", "429"} <= set(answers), (method, path)
        assert "WWW-Authenticate" in answers["401"]["headers"]
        assert {"Retry-After", "RateLimit-Remaining"} <= set(answers["429"]["headers"])
        if "201" in answers:
            assert "Location" in answers["201"]["headers"], (method, path)
    assert set(document["components"]["headers"]) == set(HEADERS)


def test_fields_of_few_values_name_them(document: Json) -> None:
    """A field that is a text, of which the description lists the values, would be an enum."""
    plain = [
        f"{shape}.{field}"
        for shape, field, described in fields(document)
        if field in ("phase", "verdict", "role", "mode", "cardMode", "basis", "outcome", "source", "what")
        and not re.search(r"'(?:enum|const)'", str(described))
    ]
    assert plain == ["MisheldCards.what"]
