"""`python -m t9ksched.cli.healthcheck`: asks the process of this container after its health, as a kubelet does.

Leaves with 0 when it answers, and with 1 when it does not, with the reason on stderr: the `HEALTHCHECK` of the image.
"""

import sys
from http.client import HTTPConnection, HTTPException
from typing import Final

from t9ksched.settings import Settings, SettingsError

_SECONDS: Final = 8.0
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def failing(settings: Settings) -> str:
    """Why the process does not count as healthy; empty when it does."""
    if settings.health_port is None:
        return "T9KSCHED_HEALTH_PORT names no port to ask"
    host = _EVERYWHERE.get(settings.health_host, settings.health_host)
    connection = HTTPConnection(host, settings.health_port, timeout=_SECONDS)
    try:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        said = answer.read(200).decode(errors="replace").strip()
    except (OSError, HTTPException) as error:
        return f"{host}:{settings.health_port} does not answer: {error}"
    finally:
        connection.close()
    return "" if answer.status == 200 else f"{answer.status}: {said}"


def main() -> int:
    """Ask, and say why not."""
    try:
        reason = failing(Settings.load())
    except SettingsError as error:
        reason = str(error)
    if reason:
        sys.stderr.write(f"{reason}\n")
    return int(bool(reason))


if __name__ == "__main__":
    sys.exit(main())
