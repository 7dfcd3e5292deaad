"""What `t9ksched doctor --server URL` looks at: whether REST is ready, its version and its certificate."""

import socket
import ssl
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from t9ksched import version
from t9ksched.cli.client import Client
from t9ksched.kube.setup.findings import Finding, Level
from t9ksched.kube.setup.installation import SOON

_SECONDS: Final = 10.0


def examine_service(server: str) -> list[Finding]:
    """Findings about a REST service. Raises Failure for what is no address."""
    address = Client.at(server, "").server
    found = _certificate(address)
    try:
        ready = httpx.get(f"{address}/readyz", timeout=_SECONDS)
        told = httpx.get(f"{address}/version", timeout=_SECONDS)
    except httpx.HTTPError as error:
        remedy = "check the address, the Service or Ingress before it, network policies, and that its pods run"
        why = str(error) or type(error).__name__
        return [*found, Finding("service", Level.BLOCKS, address, f"does not answer: {why}", remedy)]
    found += judge_readiness(address, ready.status_code, _json(ready))
    return found + judge_version(address, _json(told))


def _json(answer: httpx.Response) -> dict[str, Any]:
    try:
        value = answer.json()
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def judge_readiness(address: str, status: int, told: dict[str, Any]) -> list[Finding]:
    """What `/readyz` says."""
    if status == 200:
        return [Finding("service", Level.OK, address, "answers and is ready")]
    lacks = [f"{one.get('path', '')}: {one.get('message', '')}" for one in told.get("errors") or ()]
    if not lacks:
        text, remedy = f"answers {status} to /readyz", "is this the address of a t9ksched service?"
        return [Finding("service", Level.BLOCKS, address, text, remedy)]
    remedy = "mend what it names; t9ksched doctor --db and --kubeconfig look at each"
    return [Finding("service", Level.BLOCKS, address, f"is not ready: {'; '.join(lacks)}", remedy)]


def judge_version(address: str, told: dict[str, Any]) -> list[Finding]:
    """Whether the service is of this program's version."""
    theirs = told.get("version")
    if not isinstance(theirs, str) or theirs == version():
        return []
    text = f"is version {theirs}, this program is {version()}"
    return [Finding("versions", Level.NOTE, address, text, "use the program of the same version")]


def _certificate(address: str) -> list[Finding]:
    """When the certificate of an https address ends."""
    parts = urlsplit(address)
    if parts.scheme != "https" or parts.hostname is None:
        return []
    context = ssl.create_default_context()
    try:
        with (
            socket.create_connection((parts.hostname, parts.port or 443), _SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=parts.hostname) as secured,
        ):
            shown = secured.getpeercert() or {}
    except ssl.SSLError as error:
        text, remedy = f"is not trusted here: {error.reason or error}", "check its certificate, name and authority"
        return [Finding("certificates", Level.WARNING, address, text, remedy)]
    except OSError:
        return []  # that nothing answers is told by what follows
    ends = datetime.fromtimestamp(ssl.cert_time_to_seconds(str(shown["notAfter"])), UTC)
    if ends <= datetime.now(UTC) + SOON:
        text, remedy = f"its certificate ends on {ends:%Y-%m-%d}", "renew the Secret of its Ingress or listener"
        return [Finding("certificates", Level.WARNING, address, text, remedy)]
    return [Finding("certificates", Level.OK, address, f"its certificate ends on {ends:%Y-%m-%d}")]
