"""The program from outside: commands in processes of their own, REST and the Kubernetes API over HTTP.

With `T9KSCHED_TEST_KUBECONFIG` the service of most tests works on that cluster, with the rights of deploy/rbac.yaml.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from t9ksched.devcluster.audit.auditor import AuditReport, audit
from t9ksched.kube.errors import ApiError
from t9ksched.kube.transport.config import connect
from tests import forkserver
from tests.forkserver import Process
from tests.integration.accounts import EVERYTHING
from tests.integration.world import KUBECONFIG

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMEOUT_SECONDS = 180.0

Json = dict[str, Any]


def environment(data_dir: Path | None = None) -> dict[str, str]:
    """This process's environment without anything that would steer t9ksched; `data_dir` is its data directory."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("T9KSCHED_")}
    clean |= {"XDG_DATA_HOME": str(data_dir) if data_dir else "/nonexistent", "COLUMNS": "200", "T9KSCHED_LANG": "en"}
    return clean | ({"T9KSCHED_DATA_DIR": str(data_dir)} if data_dir else {})


@dataclass
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(*arguments: str, data_dir: Path | None = None, stdin: str = "", also: Mapping[str, str] | None = None) -> Done:
    """Run a command to its end, with `also` in its environment. It must never show a traceback."""
    variables = environment(data_dir) | dict(also or {})
    done = Done(*forkserver.run("t9ksched", arguments, variables, stdin=stdin, timeout=TIMEOUT_SECONDS))
    assert "Traceback" not in done.err, done.err
    return done


def request(
    method: str, url: str, token: str, body: Any = None, content_type: str = "application/json"
) -> tuple[int, Any]:
    """One HTTP request; the status and the decoded answer, of errors too."""
    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": content_type}
    try:
        with urlopen(Request(url, data, headers, method=method), timeout=TIMEOUT_SECONDS) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except HTTPError as error:
        with error:
            return error.code, json.loads(error.read() or b"null")


async def _kube(kubeconfig: Path, method: str, path: str, body: Any) -> tuple[int, Any]:
    async with connect(kubeconfig) as client:
        try:
            answer = await client.request(method, path, body=None if body is None else json.dumps(body).encode())
        except ApiError as error:
            return error.status, {"message": error.message}
    return 201 if method == "POST" else 200, json.loads(answer or b"null")


class Cluster:
    """A cluster that another program runs, as `tests.acceptance.cluster` says; `kubeconfigs` by user."""

    def __init__(self, folder: Path) -> None:
        given = {key: value for key, value in os.environ.items() if key == KUBECONFIG}
        reading, writing = os.pipe()
        self._open = os.fdopen(writing)
        self._log = folder / "cluster.log"
        with os.fdopen(reading) as stdin, self._log.open("w") as log:
            self._process = forkserver.start(
                "tests.acceptance.cluster",
                [str(folder)],
                environment() | given,
                stdin=stdin,
                stderr=log,
                piped=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self._log.read_text()
        self.kubeconfigs = {name: Path(path) for name, path in json.loads(line).items()}

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    def stop(self) -> None:
        """End it."""
        self._open.close()
        self._process.wait(TIMEOUT_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()


class Up:
    """A running `t9ksched up`."""

    def __init__(
        self,
        data_dir: Path,
        *options: str,
        admin: Path | None = None,
        files: int | None = None,
        fresh: bool = False,
        below: Sequence[str] = (),
        also: Mapping[str, str] | None = None,
    ) -> None:
        """`also` is in its environment. `admin` is the kubeconfig with which `kube` speaks to the cluster; usually what
        `up` told.

        `files` is how many descriptors the process may have. With `fresh` it is started from nothing, as users do it;
        with `below` by that command.
        """
        self.data_dir = data_dir
        self._log = (data_dir.parent / f"{data_dir.name}.log").open("a")
        arguments = ["up", "--port", "0", "-o", "json", "--data-dir", str(data_dir), *options]
        self.process: Process | subprocess.Popen[str]
        if fresh or files or below:
            limited = ["bash", "-c", f'ulimit -n {files}; exec "$0" "$@"'] if files else []
            self.process = subprocess.Popen(
                [*below, *limited, sys.executable, "-m", "t9ksched", *arguments],
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
                env=environment() | dict(also or {}),
            )
        else:
            variables = environment() | dict(also or {})
            self.process = forkserver.start("t9ksched", arguments, variables, stderr=self._log, piped=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, Path(self._log.name).read_text()
        told = json.loads(line)
        self.server, self.token = told["server"], told["token"]
        assert told["dataDir"] == str(data_dir)
        self.kubeconfig = admin or Path(told["kubeconfig"])

    def cli(self, *arguments: str, stdin: str = "") -> Done:
        """A client command that finds this service by its data directory."""
        return run(*arguments, data_dir=self.data_dir, stdin=stdin)

    def must(self, *arguments: str, stdin: str = "") -> str:
        """A client command that must succeed; what it printed."""
        done = self.cli(*arguments, stdin=stdin)
        assert done.code == 0, done.err
        return done.out

    def rest(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> tuple[int, Any]:
        """A REST request as the administrator."""
        return request(method, self.server + path, self.token, body, content_type)

    def kube(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """A request to the Kubernetes API, as its administrator."""
        return asyncio.run(_kube(self.kubeconfig, method, path, body))

    def pods(self, namespace: str = "default") -> list[Json]:
        """The pods of a namespace, as Kubernetes has them."""
        return list(self.kube("GET", f"/api/v1/namespaces/{namespace}/pods")[1]["items"])

    def audit(self) -> AuditReport:
        """What the auditor says of the cluster as it stands."""
        groups = "/apis/scheduler.tensorstack.dev/v1beta1/podgroups"
        nodes, pods, podgroups = (
            self.kube("GET", path)[1]["items"] for path in ("/api/v1/nodes", "/api/v1/pods", groups)
        )
        return audit(nodes, pods, podgroups)

    def held(self) -> int:
        """How many cards of the cluster are held."""
        nodes = self.rest("GET", "/apis/v1/nodes")[1]["items"]
        return sum(bool(card["holders"]) for node in nodes for card in node["gpus"])

    def kill(self) -> None:
        """End it without any chance to tidy up."""
        self.process.kill()
        self._reap()

    def stop(self) -> int:
        """Ask it to stop; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self._reap()

    def _reap(self) -> int:
        code = self.process.wait(TIMEOUT_SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()
        return code

    @property
    def log(self) -> str:
        """What it logged."""
        return Path(self._log.name).read_text()


def until(look: Callable[[], Any], what: str = "it") -> Any:
    """Look until the answer is truthy; the answer."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while not (seen := look()):
        assert time.monotonic() < end, f"{what} did not come within {TIMEOUT_SECONDS:.0f} s"
        time.sleep(0.05)
    return seen


def queue(name: str, cards: int, product: str, **spec: Any) -> Json:
    """The body of a queue with a quota of cards on nodes with a product."""
    return {
        "name": name,
        "labels": {},
        "spec": {
            "quota": {"requests": {"nvidia.com/gpu": str(cards)}},
            "nodeSelector": {"matchLabels": {"nvidia.com/gpu.product": product}},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
            **spec,
        },
    }


@pytest.fixture(scope="session")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A service with the demo's nodes and the queues a100 and a40, for all tests that leave it as they found it."""
    folder = tmp_path_factory.mktemp("up")
    cluster = Cluster(folder) if KUBECONFIG in os.environ else None
    if cluster is None:
        service = Up(folder / "data")
    else:
        files = cluster.kubeconfigs
        service = Up(folder / "data", "--kubeconfig", str(files[EVERYTHING]), admin=files["admin"])
    try:
        for name, cards, product in (("a100", 32, "NVIDIA-A100-PCIE-80GB"), ("a40", 16, "NVIDIA-A40-40GB")):
            assert service.rest("POST", "/apis/v1/admin/queues", queue(name, cards, product))[0] == 201
        yield service
        assert service.process.poll() is None, service.log
        assert service.audit().ok, str(service.audit())
    finally:
        service.stop()
        if cluster is not None:
            cluster.stop()
