"""What a start leaves out of libraries is there when it is asked for. Each case is a process of its own."""

import subprocess
import sys

import pytest

LATE = """
import ssl, sys
from t9ksched.cli.lateparts import late
"""


def run(*lines: str) -> str:
    """What a program prints that begins with `late`."""
    program = LATE + "\n".join(lines)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_service_is_loaded_without_what_it_does_not_use() -> None:
    out = run(
        "with late():",
        "    import t9ksched.cli.runtime, t9ksched.cli.roles",
        "print({'sqlalchemy.orm', 'uvicorn.main', 'idna.core', 'rich.traceback'} & set(sys.modules))",
        "from fastapi.openapi.models import OpenAPI",
        "made = OpenAPI(openapi='3', info={'title': 'a', 'version': '1'}, paths={})",
        "print(OpenAPI.__pydantic_complete__, made.info.title)",
        "from pydantic import BaseModel, create_model",
        "print(create_model('Own', number=(int, ...)).__pydantic_complete__, BaseModel.model_config)",
        "import rich, rich.console, rich.traceback, rich.pretty",
    )
    assert out.splitlines() == [
        "set()",
        "True a",
        "True {}",
    ]


def test_entry_points_are_read_once() -> None:
    out = run(
        "with late():",
        "    from importlib import metadata",
        "read, count = metadata.distributions, []",
        "metadata.distributions = lambda: count.append(1) or read()",
        "names = {entry.name for entry in metadata.entry_points(group='console_scripts')}",
        "print('t9ksched' in names, len(metadata.entry_points(group='none')), len(count))",
    )
    assert out == "True 0 1"


@pytest.mark.parametrize(
    "use",
    [
        "from sqlalchemy.ext.asyncio import AsyncSession; print(AsyncSession.__name__)",
        "import sqlalchemy.ext.asyncio.engine as it; print(sqlalchemy.ext.asyncio.AsyncSession.__name__)",
        "from sqlalchemy.ext.asyncio import *; print(AsyncSession.__name__)",
        "from sqlalchemy.ext.asyncio import result; print(result.AsyncResult and 'AsyncSession')",
    ],
)
def test_all_of_a_package_is_there_when_it_is_asked_for(use: str) -> None:
    assert run("with late():", "    import sqlalchemy.ext.asyncio", use) == "AsyncSession"


def test_what_is_not_there_is_an_error_as_ever() -> None:
    out = run(
        "with late():",
        "    import idna, uvicorn",
        "print(hasattr(idna, 'never'), idna.encode('xn--4ca').decode(), uvicorn.run.__name__, hasattr(uvicorn, 'no'))",
    )
    assert out == "False xn--4ca run False"


def test_certificates_are_read_with_the_first_connection() -> None:
    out = run(
        "with late():",
        "    import aiohttp.connector as connector",
        "used, other = connector._SSL_CONTEXT_VERIFIED, ssl.create_default_context()",
        "read, count = ssl.SSLContext.set_default_verify_paths, []",
        "ssl.SSLContext.set_default_verify_paths = lambda self: count.append(1) or read(self)",
        "used.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname='example.org')",
        "used.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname='example.org')",
        "print(len(count), used.cert_store_stats() == other.cert_store_stats(), used.verify_mode == ssl.CERT_REQUIRED)",
    )
    assert out == "1 True True"


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads as Linux shows them")
@pytest.mark.parametrize(("named", "threads"), [("", 1), ("os.environ['OPENBLAS_NUM_THREADS'] = '3'", 3)])
def test_numpy_has_one_thread_unless_the_environment_says_how_many(named: str, threads: int) -> None:
    out = run(
        "import os",
        "os.environ.pop('OPENBLAS_NUM_THREADS', None)",
        named,
        "before = dict(os.environ)",
        "with late():",
        "    import numpy",
        "assert (numpy.ones((300, 300)) @ numpy.ones((300, 300))).sum() == 300 ** 3",
        "assert dict(os.environ) == before",
        "print(len(os.listdir('/proc/self/task')))",
    )
    assert int(out) <= threads
