"""A namespace of its own for each test, so that tests do not meet, on a shared cluster neither."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from t9ksched.kube.client import Client
from t9ksched.kube.resources import NAMESPACES


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    name = f"kube-{uuid4().hex[:10]}"
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    await client.delete(NAMESPACES, name)
