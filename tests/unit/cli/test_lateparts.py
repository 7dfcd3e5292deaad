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
        "print(*({'sqlalchemy.orm', 'uvicorn.main', 'idna.core'} & set(sys.modules)))",
    )
    assert out == ""


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
