"""A client generated from the OpenAPI document that the service serves submits, lists, waits and cancels.

The generator reads the whole document; every answer is taken apart by the code that it wrote for that operation, so a
field that is missing or of another type breaks the client here as it would break a user's.
"""

import json
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from openapi_python_client import generate
from openapi_python_client.config import Config, ConfigFile, MetaType
from openapi_python_client.parser.errors import ErrorLevel

from tests.acceptance.conftest import EXAMPLES, TIMEOUT_SECONDS, Up, request, until

PACKAGE = "generated_t9ksched"
YAML_IS_NOT_KNOWN = "Unsupported content type application/yaml"
"""Operations that read both take JSON from this client."""


@dataclass
class Generated:
    """The generated package, calling one service."""

    client: Any

    def shape(self, name: str) -> Any:
        """A model by the name of its schema."""
        return getattr(import_module(f"{PACKAGE}.models"), name)

    def __call__(self, operation: str, *path: str, tag: str = "workloads", **parameters: Any) -> Any:
        """What the operation, named as its file, answered, as the model of that status."""
        module = import_module(f"{PACKAGE}.api.{tag}.{operation}")
        answer = module.sync_detailed(*path, client=self.client, **parameters)
        assert answer.parsed is not None, (answer.status_code, answer.content)
        return answer.parsed


@pytest.fixture(scope="module")
def generated(up: Up, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("generated")
    document = folder / "openapi.json"
    document.write_text(json.dumps(request("GET", f"{up.server}/openapi.json", up.token)[1]))
    config = Config.from_sources(
        ConfigFile(post_hooks=[]), MetaType.NONE, document, "utf-8", overwrite=False, output_path=folder / PACKAGE
    )
    faults = [(fault.level, fault.header, fault.detail) for fault in generate(config=config)]
    assert {detail for _, _, detail in faults} <= {YAML_IS_NOT_KNOWN}, faults
    assert {level for level, _, _ in faults} <= {ErrorLevel.WARNING}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        package = import_module(PACKAGE)
        options = {"base_url": up.server, "token": up.token, "timeout": TIMEOUT_SECONDS}
        with package.AuthenticatedClient(raise_on_unexpected_status=True, **options) as client:
            yield Generated(client)


def pytorch(name: str) -> dict[str, Any]:
    """The example as a body, under another name."""
    job: dict[str, Any] = yaml.safe_load((Path(EXAMPLES) / "pytorch.yaml").read_text())
    job["metadata"]["name"] = name
    return job


SUBMIT, LIST = "submit_jobs", "list_jobs"
GET = "get_job"
CANCEL = "cancel_job"


def test_it_submits_lists_waits_and_cancels(up: Up, generated: Generated) -> None:
    body = generated.shape("Shape").from_dict
    tried = generated(SUBMIT, body=body(pytorch("client-a")), dry_run=True)
    assert (type(tried).__name__, len(tried.items), tried.warnings) == ("Submitted", 1, [])
    several = {"apiVersion": "v1", "kind": "List", "items": [pytorch("client-a"), pytorch("client-b")]}
    assert [job.name for job in generated(SUBMIT, body=body(several), dry_run=True).items] == ["client-a", "client-b"]

    (made,) = generated(SUBMIT, body=body(pytorch("client-a"))).items
    where = (made.namespace, made.kind, made.name)
    try:
        assert made.uid in [job.uid for job in generated(LIST).items]
        until(lambda: generated(GET, *where).phase == "Running", "the job")
    finally:
        assert generated(CANCEL, *where).uid == made.uid
    until(lambda: up.held() == 0, "free cards")


def test_it_asks_about_everything_else(up: Up, generated: Generated) -> None:
    """What the Python client has methods for."""
    assert generated("who_am_i", tag="about").role == "admin"
    assert generated("get_version", tag="about").version
    queues = generated("list_queues", tag="queues", label=["!none"]).items
    assert {"a100", "a40"} <= {queue.name for queue in queues}
    nodes = generated("list_nodes", tag="nodes").items
    assert generated("get_node", nodes[0].name, tag="nodes").gpus == nodes[0].gpus
    body = generated.shape("SimulationBody").from_dict({"submit": [pytorch("client-c")]})
    told = generated("simulate", tag="simulations", body=body, queue="a100")
    assert [(job.name, job.verdict) for job in told.jobs] == [("client-c", "Starts")]
    (made,) = generated(SUBMIT, body=generated.shape("Shape").from_dict(pytorch("client-c"))).items
    where = (made.namespace, made.kind, made.name)
    try:
        until(lambda: generated(GET, *where).phase == "Running", "the job")
        assert generated("explain_job", *where).verdict == "Placed"
        # A job of another test that has just gone is listed until that is written.
        newest = generated.shape("ListJobsOrder").NEWEST
        listed = generated(LIST, queue=["a100"], limit=1, order=newest).items
        assert [job.uid for job in listed] == [made.uid]
        assert "submitted" in [event.event for event in generated("list_job_events", *where).items]
    finally:
        assert generated(CANCEL, *where).uid == made.uid
    until(lambda: up.held() == 0, "free cards")


def test_a_refusal_is_a_problem(generated: Generated) -> None:
    refused = generated(SUBMIT, body=generated.shape("Shape").from_dict({"kind": "Nonsense"}))
    assert (type(refused).__name__, refused.status) == ("ProblemShape", 422)
    assert refused.code in ("InvalidField", "UnknownKind")
