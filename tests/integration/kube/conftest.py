"""A namespace of its own for each test, so that tests do not meet, on a shared cluster neither."""

import pytest

from tests.integration.world import World


@pytest.fixture
def namespace(world: World) -> str:
    return world.namespace
