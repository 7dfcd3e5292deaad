"""A Kubernetes API on loopback, composed of its parts: storage, operations, HTTP, collector, custom kinds.

`DevCluster` starts and stops it. With a data directory the cluster survives its process; without one it lives in memory
only. Our CRDs are installed at start. Nodes given at start are created, or brought up to date when they exist.
"""

import asyncio
import contextlib
import json
import os
import secrets
import socket
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from t9ksched import packaged
from t9ksched.devcluster.apiserver import shapes
from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.auth import MASTERS, Authenticator, Authorizer, User
from t9ksched.devcluster.apiserver.crd import DEFINITIONS, Definitions
from t9ksched.devcluster.apiserver.gc import GarbageCollector
from t9ksched.devcluster.apiserver.http import Frontend
from t9ksched.devcluster.apiserver.inprocess import InProcessPort
from t9ksched.devcluster.apiserver.journal import Journal
from t9ksched.devcluster.apiserver.kinds import Kind, Registry
from t9ksched.devcluster.apiserver.options import WriteOptions
from t9ksched.devcluster.apiserver.storage import Storage
from t9ksched.devcluster.apiserver.tokens import AccountTokens
from t9ksched.devcluster.apiserver.users import open_to_users
from t9ksched.devcluster.faults.faults import Faults
from t9ksched.kube.setup import crds
from t9ksched.model.names import SYSTEM_NAMESPACE
from t9ksched.regular_file import read_file
from t9ksched.serving import ConnectionLimits, listen
from t9ksched.serving.aiohttp_site import AcceptingSite, handler_runner

Object = dict[str, Any]
_HOST: Final = "127.0.0.1"
_MOST_FIELD_BYTES: Final = 65536
"""Of the request line and of each header field."""
_TOKEN_FILE: Final = "cluster.token"
_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease", SYSTEM_NAMESPACE)


class DevCluster:
    """A dev cluster's API server, from `start` to `stop`.

    Args:
        data_dir: where the cluster is kept; None keeps it in memory only.
        nodes: Node objects that exist from the start.
        port: the TCP port on 127.0.0.1; 0 takes a free one.
        token: the administrator's bearer token; None makes one, and keeps it in the data directory.
        users: further users by their tokens, with the rights that stored roles give them.
        controllers: whether the garbage collector and the namespace controller run.
        open_to_users: whether every authenticated user may work in all namespaces but the system's.
        limits: of its connections.

    Attributes:
        machine_logs: where the containers of a node that is this machine are kept, with their logs; set before `start`.
    """

    def __init__(
        self,
        data_dir: Path | None,
        nodes: list[Object],
        port: int = 0,
        token: str | None = None,
        *,
        users: dict[str, User] | None = None,
        controllers: bool = True,
        open_to_users: bool = False,
        limits: ConnectionLimits | None = None,
    ) -> None:
        self._data_dir = data_dir
        self._nodes = nodes
        self._wanted_port = port
        self._token = token
        self._users = dict(users or {})
        self._controllers = controllers
        self._open_to_users = open_to_users
        self.machine_logs: Path | None = None
        self._limits = limits or ConnectionLimits()
        self.faults = Faults()
        self._journal: Journal | None = None
        self._runner: web.ServerRunner | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._api: Api | None = None
        self._frontend: Frontend | None = None
        self._port = 0

    async def start(self) -> None:
        """Open the data directory, install what every cluster has, and listen.

        Raises:
            DirectoryInUse: another process has the data directory.
            CorruptJournal: the data directory is damaged.
            PortInUse: the port is taken.
        """
        listener = self._listen()
        try:
            storage = self._open()
            self._compose(storage)
            await self._serve(listener)
        except BaseException:
            listener.close()
            await self.stop()
            raise

    def _listen(self) -> socket.socket:
        listener = listen(_HOST, self._wanted_port)
        self._port = listener.getsockname()[1]
        return listener

    def _open(self) -> Storage:
        if self._data_dir is None:
            self._token = self._token or secrets.token_urlsafe(32)
            return Storage()
        self._journal = Journal(self._data_dir, shapes.faults)
        storage = self._journal.open()
        kept = self._data_dir / _TOKEN_FILE
        if self._token is None and kept.exists():
            self._token = read_file(kept, 4096).decode().strip()
        self._token = self._token or secrets.token_urlsafe(32)
        with open(kept, "w", opener=_private) as file:
            file.write(self._token)
        return storage

    def _compose(self, storage: Storage) -> None:
        api = self._api = Api(storage, Registry())
        Definitions(api)
        install(api, self._nodes)
        if self._open_to_users:
            open_to_users(api)
        if self._controllers:
            collector = GarbageCollector(api)
            self._tasks.append(asyncio.create_task(collector.run(), name="garbage-collector"))
        users = {**self._users, self.token: User("admin", (MASTERS,))}
        accounts = AccountTokens(storage, self.token)
        authenticator = Authenticator(users, accounts.find)
        self._frontend = Frontend(api, authenticator, Authorizer(storage), self.faults, accounts, self.machine_logs)

    async def _serve(self, listener: socket.socket) -> None:
        assert self._frontend is not None
        self._runner = handler_runner(self._frontend.handle, _MOST_FIELD_BYTES)  # a watch ends with its connection
        await self._runner.setup()
        await AcceptingSite(self._runner, listener, self._limits, "dev cluster").start()

    async def stop(self) -> None:
        """Stop listening and release the data directory; safe to call twice."""
        for task in [*self._tasks, *(self._frontend.requests.watches if self._frontend else ())]:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    @property
    def url(self) -> str:
        """Where the API listens."""
        return f"http://{_HOST}:{self._port}"

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        if self._token is None:
            raise RuntimeError("the cluster has not been started")
        return self._token

    @property
    def api(self) -> Api:
        """The operations behind the API."""
        if self._api is None:
            raise RuntimeError("the cluster has not been started")
        return self._api

    @property
    def frontend(self) -> Frontend:
        """The HTTP front end; its `middleware` may be set to put faults between clients and cluster."""
        if self._frontend is None:
            raise RuntimeError("the cluster has not been started")
        return self._frontend

    @property
    def port_api(self) -> InProcessPort:
        """The cluster for callers in this process."""
        return InProcessPort(self.api)

    def write_kubeconfig(self, path: Path) -> None:
        """Write a kubeconfig file for the administrator, readable by its owner only."""
        name = "t9ksched-dev"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": f"{self.url}/as/{self.token}"}}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": "admin", "namespace": "default"}}],
            "current-context": name,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "w", opener=_private) as file:
            json.dump(config, file, indent=2)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def install(api: Api, nodes: list[Object]) -> None:
    """Make the namespaces, our custom kinds and the nodes, as far as they are not there already."""
    namespaces = api.kind("", "v1", "namespaces")
    for name in _NAMESPACES:
        _ensure(api, namespaces, {"metadata": {"name": name}})
    for definition in crds.read(packaged.folder("crds")):
        _ensure(api, DEFINITIONS, definition, update=True)
    kind = api.kind("", "v1", "nodes")
    for node in nodes:
        _ensure(api, kind, node)


def _ensure(api: Api, kind: Kind, obj: Object, *, update: bool = False) -> None:
    name = obj["metadata"]["name"]
    found = api.collection(kind).entries.get(name)
    if found is None:
        api.create(kind, None, obj)
    elif update:
        fresh = {**obj, "metadata": {**found.object["metadata"], **obj["metadata"]}}
        api.replace(kind, None, name, fresh, WriteOptions())
