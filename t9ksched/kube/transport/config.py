"""Which cluster to connect to, and as which user: kubeconfig files and service accounts, read by the official client.

`connect(path)` gives a `Client`. Without a path it takes `$KUBECONFIG` or `~/.kube/config` as kubectl does, and
inside a pod the service account. A kubeconfig is checked before the official loader sees it, so that every fault is a
`ConfigError` naming the file, the field and what to do. Tokens in files and from exec plugins are read again in time.
One with an address and a token alone, such as the dev cluster's, needs no loader, which is slow to import.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t9ksched.kube.transport.client import Client
from t9ksched.kube.transport.credentials import LARGEST_PEM, Access, Credentials
from t9ksched.model.text import YamlFault, read
from t9ksched.regular_file import NotAFile, read_file

if TYPE_CHECKING:
    from kubernetes.aio.client import Configuration

_FILE_FRESH = 60.0
"""Seconds before tokens and certificates in files are read again; they are renewed long before their end."""
_EXPIRY_MARGIN = 60.0
_PLUGIN_FRESH = 300.0
"""Seconds before a plugin is asked for a certificate again: the official loader does not tell when one ends."""
_LARGEST = 8 << 20
"""Bytes of a kubeconfig."""
_DATA_FIELDS = ("certificate-authority-data", "client-certificate-data", "client-key-data")


class ConfigError(ValueError):
    """The cluster cannot be found from the configuration: `source` (a file), `field` in it, and what is wrong."""

    def __init__(self, source: str, field: str, problem: str) -> None:
        super().__init__(f"{source}: {field}: {problem}" if field else f"{source}: {problem}")
        self.source = source
        self.field = field
        self.problem = problem


def connect(
    kubeconfig: Path | None = None,
    *,
    connections: int = 128,
    timeout: float = 30.0,
    write_timeout: float | None = None,
) -> Client:
    """A client of the cluster that `kubeconfig` names (see the module for what None means).

    Use it as `async with connect(path) as client`; entering raises ConfigError. `connections` is the most requests in
    flight (watches not counted), `timeout` the seconds one request may take, `write_timeout` the same for writes.
    """
    return Client(credentials(kubeconfig), connections=connections, timeout=timeout, write_timeout=write_timeout)


def credentials(kubeconfig: Path | None = None) -> Credentials:
    """The credentials of `connect`, for code that builds its own client."""

    async def source() -> Access:
        if kubeconfig is not None:
            return await load_file(str(kubeconfig))
        usual = usual_place()
        return await load_file(usual) if _existing(usual) else load_pod()

    return Credentials(source)


def usual_place() -> str:
    """Where kubectl looks for kubeconfigs."""
    return os.environ.get("KUBECONFIG") or os.path.expanduser("~/.kube/config")


def load_pod() -> Access:
    """The service account of the pod we run in. Raises ConfigError outside of a pod."""
    from kubernetes.aio.client import Configuration
    from kubernetes.aio.config import ConfigException, load_incluster_config

    configuration = Configuration()
    try:
        load_incluster_config(  # type: ignore[no-untyped-call]
            client_configuration=configuration, try_refresh_token=False
        )
    except (ConfigException, OSError) as failure:
        raise ConfigError(
            usual_place(),
            "",
            f"no kubeconfig there, and no service account of a pod here ({failure}). "
            "Give one with --kubeconfig PATH or KUBECONFIG",
        ) from failure
    return _access(configuration, fresh_for=_FILE_FRESH)


async def load_file(paths: str) -> Access:
    """The current context of the kubeconfig at `paths` (several joined as in $KUBECONFIG). Raises ConfigError."""
    cluster, user = check(paths)
    if (plain := _plain(cluster, user)) is not None:
        return plain
    from kubernetes.aio.client import Configuration
    from kubernetes.aio.config import load_kube_config

    configuration = Configuration()
    try:
        loader = await load_kube_config(  # type: ignore[no-untyped-call]
            config_file=paths, client_configuration=configuration, persist_config=False
        )
        expiry = getattr(loader, "exec_plugin_expiry", None)
        fresh_for = _fresh_for(cluster, user, expiry, certificate=bool(configuration.cert_file))
        access = _access(configuration, fresh_for=fresh_for)
        if access.cert_file or access.ca_file:
            _try_certificates(access)
    except ConfigError:
        raise
    except ssl.SSLError as failure:
        raise ConfigError(paths, "certificate-authority or client-certificate", f"not usable PEM: {failure}") from None
    except Exception as failure:  # the loader and its plugins raise whatever they meet
        raise ConfigError(paths, "", f"cannot be used: {failure}") from failure
    # The official loader logs a failed plugin and goes on without credentials; every request would then be a 401.
    if "exec" in user and not (access.authorization or access.cert_file):
        command = " ".join([str(user["exec"]["command"]), *map(str, user["exec"].get("args") or ())])
        raise ConfigError(paths, "users[].user.exec", f"the plugin gave no credentials; run it to see why: {command}")
    return access


def _plain(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> Access | None:
    """What the loader makes of an address and a token; None of anything else."""
    token = user.get("token")
    if cluster.keys() != {"server"} or user.keys() - {"token"} or not isinstance(token, str | None):
        return None
    return Access(str(cluster["server"]).rstrip("/"), f"Bearer {token}".strip() if token else None)


def _access(configuration: Configuration, fresh_for: float | None) -> Access:
    token = configuration.api_key.get("BearerToken")
    return Access(
        host=configuration.host.rstrip("/"),
        authorization=str(token).strip() if token else _basic(configuration),
        ca_file=configuration.ssl_ca_cert,
        cert_file=configuration.cert_file,
        key_file=configuration.key_file,
        verify=bool(configuration.verify_ssl),
        server_name=configuration.tls_server_name,
        proxy=configuration.proxy,
        fresh_for=fresh_for,
    )


def _basic(configuration: Configuration) -> str | None:
    return str(configuration.get_basic_auth_token()) if configuration.username else None


def _fresh_for(
    cluster: Mapping[str, Any], user: Mapping[str, Any], expiry: datetime | None, *, certificate: bool
) -> float | None:
    if "exec" in user and expiry is not None:
        left = (expiry - datetime.now(UTC)).total_seconds() - _EXPIRY_MARGIN
        return max(left, 10.0)
    if "exec" in user and certificate:
        return _PLUGIN_FRESH
    in_files = "client-certificate" in user or ("tokenFile" in user and "token" not in user)
    in_files = in_files or ("certificate-authority" in cluster and "exec" not in user)
    return _FILE_FRESH if in_files else None


def _try_certificates(access: Access) -> None:
    context = ssl.create_default_context(cafile=access.ca_file)
    if access.cert_file:
        context.load_cert_chain(access.cert_file, access.key_file)


def check(paths: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """See that the kubeconfig at `paths` names a cluster we can reach; returns cluster and user of its current context.

    Raises ConfigError naming file and field.
    """
    sections: dict[str, list[Any]] = {"clusters": [], "contexts": [], "users": []}
    current: Any = None
    existing = _existing(paths)
    if not existing:
        raise ConfigError(paths, "", "no such file; give a kubeconfig with --kubeconfig PATH or KUBECONFIG")
    for path in existing:
        document = _read(path)
        for section, entries in sections.items():
            values = document.get(section) or []
            if not isinstance(values, list):
                raise ConfigError(str(path), section, "must be a list of entries with a name")
            for index, entry in enumerate(values):
                if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                    raise ConfigError(str(path), f"{section}[{index}].name", "must be a text")
            entries += values
        current = document.get("current-context") or current
    if not isinstance(current, str):
        raise ConfigError(paths, "current-context", "is missing; set it with kubectl config use-context NAME")
    context = _entry(paths, sections, "contexts", current, "current-context")
    place = f"contexts[name={current}].context"
    cluster_name = context.get("cluster")
    cluster = _entry(paths, sections, "clusters", cluster_name, f"{place}.cluster")
    server = cluster.get("server")
    if not isinstance(server, str) or not server.startswith(("http://", "https://")):
        raise ConfigError(
            paths, f"clusters[name={cluster_name}].cluster.server", f"must be an http(s) URL, not {server!r}"
        )
    _check_data(paths, f"clusters[name={cluster_name}].cluster", cluster)
    if context.get("user") is None:
        if server.startswith("https"):
            raise ConfigError(paths, f"{place}.user", "is missing; https needs an entry of users, which may be empty")
        return cluster, {}
    user = _entry(paths, sections, "users", context["user"], f"{place}.user")
    place = f"users[name={context['user']}].user"
    _check_data(paths, place, user)
    if "exec" in user:
        plugin = user["exec"]
        for key in ("command", "apiVersion"):
            if not isinstance(plugin, dict) or not isinstance(plugin.get(key), str):
                raise ConfigError(paths, f"{place}.exec.{key}", "must be a text")
    return cluster, user


def _existing(paths: str) -> list[Path]:
    found = (Path(item).expanduser() for item in paths.split(os.pathsep) if item)
    return [path for path in found if path.exists()]


def _read(path: Path) -> dict[str, Any]:
    try:
        document = read(read_file(path, _LARGEST), repeated=True)
    except OSError as failure:
        raise ConfigError(str(path), "", f"cannot be read: {failure.strerror}") from None
    except YamlFault as fault:
        raise ConfigError(str(path), f"line {fault.line}" if fault.line else "", "is not YAML") from None
    if not isinstance(document, dict):
        raise ConfigError(str(path), "", "is not a kubeconfig: a mapping with clusters, contexts and users is expected")
    return document


def _entry(
    paths: str, sections: Mapping[str, list[Any]], section: str, name: Any, mentioned_at: str
) -> Mapping[str, Any]:
    """The body of the entry `name` of a section; each entry of `contexts` holds its body under `context`, and so on."""
    if not isinstance(name, str):
        raise ConfigError(paths, mentioned_at, f"must name an entry of {section}")
    entry = next((item for item in sections[section] if item["name"] == name), None)
    if entry is None:
        known = ", ".join(repr(item["name"]) for item in sections[section]) or "none"
        raise ConfigError(paths, mentioned_at, f"{section} has no entry {name!r} (there: {known})")
    body = entry.get(section[:-1])
    if body is None and section == "users":
        raise ConfigError(paths, f"users[name={name}].user", "is missing; it may be empty: {}")
    if not isinstance(body, dict):
        raise ConfigError(paths, f"{section}[name={name}].{section[:-1]}", "must be a mapping")
    return body


def _check_data(paths: str, place: str, body: Mapping[str, Any]) -> None:
    for key in _DATA_FIELDS:
        if key in body:
            try:
                base64.b64decode(body[key], validate=True)
            except (binascii.Error, TypeError, ValueError):
                raise ConfigError(paths, f"{place}.{key}", "is not base64") from None
    for key in ("certificate-authority", "client-certificate", "client-key", "tokenFile"):
        file = body.get(key)
        if not isinstance(file, str):
            continue
        if os.path.isabs(file) and not os.path.exists(file):
            raise ConfigError(paths, f"{place}.{key}", f"no such file: {file}")
        if (wrong := _not_a_file(paths, file)) is not None:
            raise ConfigError(paths, f"{place}.{key}", f"{file}: {wrong}")


def _not_a_file(paths: str, file: str) -> str | None:
    """Why the loader must not open `file`. A relative path counts from the kubeconfig that names it, one of `paths`."""
    for home in _existing(paths):
        try:
            read_file(home.parent / file, LARGEST_PEM)
        except NotAFile as failure:
            return failure.strerror
        except OSError:
            continue  # the loader says what it cannot read
    return None
