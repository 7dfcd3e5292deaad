"""What users may do in the namespaces of the cluster that `t9ksched up` makes, asked as `kubectl --as` does."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from t9ksched.kube.transport.config import credentials
from tests.acceptance.conftest import Json, Up
from tests.acceptance.test_upgrade import installed
from tests.integration.world import KUBECONFIG

SYSTEM = ("kube-system", "kube-public", "kube-node-lease", "t9k-system")
RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@pytest.fixture
def former(tmp_path: Path) -> Iterator[Up]:
    """Today's program on a cluster whose users had one grant for all namespaces."""
    service = Up(installed(tmp_path))
    yield service
    service.stop()


@pytest.fixture(params=["up", "former"])
def open_up(request: pytest.FixtureRequest) -> Up:
    """A cluster that `up` makes itself, new or from a former release."""
    if request.param == "up" and KUBECONFIG in os.environ:
        pytest.skip("a cluster that another runs grants its users what its administrator says")
    service = request.getfixturevalue(request.param)
    assert isinstance(service, Up)
    return service


def ask(up: Up, user: str, method: str, path: str, body: Json | None = None) -> int:
    """The status of a user's request to the Kubernetes API."""

    async def asked() -> int:
        who = credentials(up.kubeconfig)
        await who.open()
        headers = {"Impersonate-User": user, "Authorization": await who.authorization() or ""}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.request(method, who.access.host + path, json=body) as answer,
        ):
            return answer.status

    return asyncio.run(asked())


def reviewed(up: Up, verb: str, resource: str, namespace: str) -> bool:
    """What the cluster says that mallory may do, asked as REST and `kubectl auth can-i --as` do."""
    attributes = {"verb": verb, "group": "", "resource": resource, "namespace": namespace}
    spec = {"user": "mallory", "groups": ["system:authenticated"], "resourceAttributes": attributes}
    status, answer = up.kube("POST", REVIEWS, {"spec": spec})
    assert status == 201, answer
    return bool(answer["status"]["allowed"])


def test_users_work_in_their_namespaces_and_in_no_system_namespace(open_up: Up) -> None:
    config = {"metadata": {"name": "scheduler-config"}, "data": {"scheduler.conf": "actions: allocate"}}
    for namespace in SYSTEM:
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        assert ask(open_up, "mallory", "POST", path, config) == 403
        assert ask(open_up, "mallory", "GET", path) == 403
        for verb, resource in (("create", "configmaps"), ("create", "pods"), ("delete", "pods"), ("list", "pods")):
            assert not reviewed(open_up, verb, resource, namespace), (namespace, verb, resource)
    assert ask(open_up, "mallory", "GET", "/api/v1/configmaps") == 403, "the lists of all namespaces show those too"

    assert open_up.kube("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})[0] == 201
    for namespace in ("default", "team"):
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        assert ask(open_up, "ann", "POST", path, {"metadata": {"name": "hers"}, "data": {}}) == 201, namespace
        assert ask(open_up, "ann", "DELETE", f"{path}/hers") == 200
        assert reviewed(open_up, "create", "pods", namespace)
    assert open_up.kube("DELETE", "/api/v1/namespaces/team")[0] == 200
