"""The service keeps what its OpenAPI document says, whatever is sent: no 5xx, every answer of the shape it promises."""

import asyncio

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.unit.api.test_jobs import live
from tests.unit.api.world import World, pytorch

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 12
THERE = {"namespace": "default", "kind": "pytorchtrainingjob", "what": "scheduling"}
"""Path parameters of things that exist; every other request asks for them."""


@pytest.fixture
async def furnished(world: World) -> World:
    """A service with something of everything, so that answers have content to be checked."""
    await world.admin("POST", "/apis/v1/admin/queues", {"name": "a100", "members": {"users": ["ann"]}})
    made = (await world.admin("POST", "/apis/v1/workloads", pytorch())).body
    world.leader.job_list = [made, live("walk") | {key: made[key] for key in made.keys() - live("x").keys()}]
    world.leader.queue_status = {"a100": {"allocated": {"cpu": "1"}, "pods": {"running": 1}}}
    await world.admin("PUT", "/apis/v1/admin/stops/preemption", {"why": "a test"})
    return world


async def test_every_answer_is_as_documented(furnished: World) -> None:
    schema = schemathesis.openapi.from_dict(furnished.app.openapi())
    faults = await asyncio.to_thread(_ask_everything, schema, furnished.admin.url, str(furnished.admin.token))
    assert not faults, "\n\n".join(faults)


def _ask_everything(schema: schemathesis.BaseSchema, url: str, token: str) -> list[str]:
    faults = []
    for result in schema.get_all_operations():
        operation = result.ok()

        @given(case=operation.as_strategy(), known=st.booleans())
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        def ask(case: schemathesis.Case, known: bool) -> None:
            if known:
                names = THERE | {"name": "resnet" if "workloads" in case.path else "a100"}
                case.path_parameters = {key: names[key] for key in case.path_parameters}
            response = case.call(base_url=url, headers={"Authorization": f"Bearer {token}"})
            case.validate_response(response, checks=CHECKS)

        try:
            ask()
        except (Exception, ExceptionGroup) as error:
            parts = error.exceptions if isinstance(error, ExceptionGroup) else [error]
            faults += [f"{operation.method.upper()} {operation.path}: {part}" for part in parts]
    return faults
