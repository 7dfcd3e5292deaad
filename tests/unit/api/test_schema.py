"""The service keeps what its OpenAPI document says, whatever is sent: no 5xx, every answer of the shape it promises."""

import asyncio
import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from t9ksched.kube.errors import Unreachable
from tests.unit.api.test_jobs import live
from tests.unit.api.test_matrix import PUBLIC
from tests.unit.api.world import Json, World, pytorch

Check = Callable[..., Any]
CHECKS: list[Check] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
FEW = 2
"""Examples of each operation where an answer depends little on what is asked."""
THERE = {"namespace": "default", "kind": "pytorchtrainingjob", "what": "scheduling", "index": 0, "pod": "resnet-node-0"}
THERE["id"] = "3f2a9c71b0de"
"""Path parameters of things that exist; every other request asks for them."""


@pytest.fixture
async def furnished(world: World) -> World:
    """A service with something of everything, so that answers have content to be checked."""
    await world.admin("POST", "/apis/v1/admin/queues", {"name": "a100", "members": {"users": ["ann"]}})
    made = (await world.admin("POST", "/apis/v1/workloads", pytorch())).job
    world.leader.job_list = [made, live("walk") | {key: made[key] for key in made.keys() - live("x").keys()}]
    world.leader.queue_status = {"a100": {"allocated": {"cpu": "1"}, "pods": {"running": 1}}}
    await world.admin("PUT", "/apis/v1/admin/stops/preemption", {"why": "a test"})
    return world


@pytest.mark.parametrize(
    "examples", [pytest.param(5, id="short"), pytest.param(300, id="long", marks=pytest.mark.soak)]
)
async def test_every_answer_is_as_documented(furnished: World, examples: int) -> None:
    await _check(furnished, str(furnished.admin.token), examples, CHECKS)


@pytest.mark.parametrize(
    "examples", [pytest.param(3, id="short"), pytest.param(150, id="long", marks=pytest.mark.soak)]
)
async def test_what_breaks_the_document_is_refused_as_documented(furnished: World, examples: int) -> None:
    await _check(furnished, str(furnished.admin.token), examples, CHECKS, GenerationMode.NEGATIVE)


async def test_answers_to_a_user_are_as_documented(furnished: World) -> None:
    await _check(furnished, str(furnished.user.token), FEW, CHECKS)


async def test_answers_without_a_leader_are_as_documented(furnished: World) -> None:
    """503 is said where the document says so, and nowhere else."""
    furnished.leader.away = True
    await _check(furnished, str(furnished.admin.token), FEW, CHECKS[1:])


async def test_answers_without_a_cluster_are_as_documented(furnished: World) -> None:
    furnished.kube.faults = lambda *_: Unreachable("connection refused")
    await _check(furnished, str(furnished.admin.token), FEW, CHECKS[1:])


async def test_every_operation_tells_its_shape_and_its_refusals(world: World) -> None:
    document, wrong = world.app.openapi(), []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            answers = operation["responses"]
            good = [answers[status] for status in answers if status.startswith("2")]
            shapes = [media["schema"] for one in good for media in one.get("content", {}).values()]
            each = [one for shape in shapes for one in shape.get("anyOf", [shape])]
            named = all("$ref" in shape or shape.get("type") == "string" for shape in each)
            if not good or not named or (method == "get" and not shapes and path != "/docs"):
                wrong.append((method, path, "says nothing of its answer"))
            wanted = set() if path in PUBLIC else {"400", "401"}
            # Reservations are read by those whom they are for, too.
            open_to_all = method == "get" and path.startswith("/apis/v1/admin/reservations")
            wanted |= {"403"} if "/admin/" in path and not open_to_all else set()
            wanted |= {"413", "422"} if "requestBody" in operation else set()
            asked = [one["schema"] for one in operation.get("parameters", ()) if one["in"] == "query"]
            wanted |= {"422"} if any(set(one) - {"title"} and not free(one) for one in asked) else set()
            wrong += [(method, path, f"does not tell {status}") for status in wanted - answers.keys()]
            if path not in PUBLIC and not operation.get("security"):
                wrong.append((method, path, "does not tell that it needs a token"))
    assert not wrong


def free(schema: Json) -> bool:
    """Whether any text will do."""
    texts = ({"type": "string"}, {"type": "null"})
    return (
        all(one in texts for one in schema.get("anyOf", [{"type": schema.get("type")}])) and "maxLength" not in schema
    )


def without_streams(document: Json) -> Json:
    """The document without what has no end."""
    document = copy.deepcopy(document)
    del document["paths"]["/apis/v1/events"]
    for methods in document["paths"].values():
        for operation in methods.values():
            given = operation.get("parameters", ())
            operation["parameters"] = [one for one in given if one["name"] != "watch"]
    return document


async def _check(
    world: World, token: str, examples: int, checks: list[Check], mode: GenerationMode = GenerationMode.POSITIVE
) -> None:
    schema = schemathesis.openapi.from_dict(without_streams(world.app.openapi()))
    ask = partial(_ask_everything, schema, world.admin.url, token, examples, checks, mode)
    faults = await asyncio.to_thread(ask)
    assert not faults, "\n\n".join(faults)


def _ask_everything(
    schema: schemathesis.BaseSchema, url: str, token: str, examples: int, checks: list[Check], mode: GenerationMode
) -> list[str]:
    faults = []
    for result in schema.get_all_operations():
        operation = result.ok()

        # The same examples each time, but where there are many.
        @settings(
            max_examples=examples,
            deadline=None,
            derandomize=examples < 100,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode), known=st.booleans())
        def ask(case: schemathesis.Case, known: bool) -> None:
            if known:
                names = THERE | {"name": "resnet" if "workloads" in case.path else "a100"}
                case.path_parameters = {key: names[key] for key in case.path_parameters}
            response = case.call(base_url=url, headers={"Authorization": f"Bearer {token}"})
            case.validate_response(response, checks=checks)

        try:
            ask()
        except Unsatisfiable:
            continue  # nothing that could be sent would break this operation's description
        except (Exception, ExceptionGroup) as error:
            parts = error.exceptions if isinstance(error, ExceptionGroup) else [error]
            faults += [f"{operation.method.upper()} {operation.path}: {part}" for part in parts]
    return faults
