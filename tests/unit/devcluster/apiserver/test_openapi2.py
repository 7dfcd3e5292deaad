"""OpenAPI version 2: the JSON document, and that the Protocol Buffer says the same."""

import json
from typing import Any

import pytest

from t9ksched.devcluster.apiserver import openapi2
from t9ksched.devcluster.apiserver.kinds import Registry
from t9ksched.devcluster.apiserver.openapi import OpenApi
from t9ksched.devcluster.apiserver.protobuf import _fields

SCALARS = {1: "$ref", 2: "format", 4: "description"}


def text(value: bytes | int) -> str:
    assert isinstance(value, bytes)
    return value.decode()


def named(raw: bytes | int) -> dict[str, Any]:
    """`Definitions` and `Properties`: lists of `NamedSchema`."""
    assert isinstance(raw, bytes)
    pairs = (dict(_fields(one)) for _, one in _fields(raw) if isinstance(one, bytes))
    return {text(pair[1]): schema(pair.get(2, b"")) for pair in pairs}


def inner(raw: bytes | int, number: int) -> bytes | int:
    assert isinstance(raw, bytes)
    return dict(_fields(raw))[number]


def schema(raw: bytes | int) -> dict[str, Any]:
    """A `Schema`, read by the field numbers of gnostic's OpenAPIv2.proto."""
    assert isinstance(raw, bytes)
    found: dict[str, Any] = {}
    for number, value in _fields(raw):
        if number in SCALARS:
            found[SCALARS[number]] = text(value)
        elif number == 19:
            found.setdefault("required", []).append(text(value))
        elif number == 20:
            found.setdefault("enum", []).append(json.loads(text(inner(value, 2))))
        elif number == 21:
            found["additionalProperties"] = schema(inner(value, 1))
        elif number == 22:
            found["type"] = text(inner(value, 1))
        elif number == 23:
            found["items"] = schema(inner(value, 1))
        elif number == 25:
            found["properties"] = named(value)
        else:
            assert number == 31, number
            found[text(inner(value, 1))] = json.loads(text(inner(inner(value, 2), 2)))
    return found


@pytest.fixture
def answers() -> OpenApi:
    return OpenApi(Registry())


def test_the_protocol_buffer_says_what_the_json_says(answers: OpenApi) -> None:
    plain = answers.answer("/openapi/v2", {"Accept": "application/json"})
    assert plain.headers["Content-Type"] == "application/json"
    assert isinstance(plain.body, bytes)
    document = json.loads(plain.body)
    assert document["definitions"]["io.k8s.api.V1PodSpec"]["properties"]["containers"]["items"] == {
        "$ref": "#/definitions/io.k8s.api.V1Container"
    }

    for spelling in ("application/com.github.proto-openapi.spec.v2@v1.0+protobuf", openapi2.MEDIA):
        answer = answers.answer("/openapi/v2", {"Accept": spelling})
        assert answer.headers["Content-Type"] == openapi2.MEDIA
        assert isinstance(answer.body, bytes)
        fields = dict(_fields(answer.body))
        assert text(fields[1]) == document["swagger"]
        assert named(fields[9]) == document["definitions"]


def test_each_form_has_a_tag_of_its_own(answers: OpenApi) -> None:
    tags = [answers.answer("/openapi/v2", {"Accept": a}).headers["ETag"] for a in ("*/*", openapi2.MEDIA)]
    assert len(set(tags)) == 2
    assert answers.answer("/openapi/v2", {"Accept": openapi2.MEDIA, "If-None-Match": tags[1]}).status == 304
    assert answers.answer("/openapi/v2", {"Accept": openapi2.MEDIA, "If-None-Match": tags[0]}).status == 200


def test_numbers_or_texts_have_no_type() -> None:
    described = {
        "x": {"type": "integer", "x-kubernetes-int-or-string": True},
        "y": {"allOf": [{"$ref": "#/components/schemas/x"}]},
    }
    found = openapi2.document({"title": "t", "version": "v"}, described)["definitions"]
    assert found == {"x": {"x-kubernetes-int-or-string": True}, "y": {"$ref": "#/definitions/x"}}
