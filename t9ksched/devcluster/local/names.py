"""Names and addresses of the pods on this machine: each pod has a loopback address, and finds others by their names.

A pod's address follows from its namespace and name, so that one that takes the place of another has its address too.
The names are those that a cluster's DNS gives pods of a headless Service (`HOST.SERVICE` and longer forms). They stand
in a file a namespace, mounted over `/etc/hosts` for its processes; where that cannot be, they are replaced by addresses
in what a container is started with. All headless Services share the ports of the machine, so one whose port another has
is given another port.
"""

import hashlib
import json
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

Object = dict[str, Any]
HOSTS: Final = Path("/etc/hosts")
_DOMAIN: Final = "cluster.local"
_MOST_TRIES: Final = 2000


def path_pattern(paths: Iterable[str]) -> re.Pattern[str]:
    """Finds these paths, and what lies below them, in a text; the group `path` is the path itself."""
    alternatives = "|".join(re.escape(path) for path in sorted(paths, key=len, reverse=True))
    return re.compile(rf"(?<![\w./-])(?P<path>{alternatives})(?![\w.-])")


def hostname(pod: Object) -> str:
    """What the pod calls itself."""
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])


def names_of(pod: Object) -> list[str]:
    """The names of a pod within its namespace, the longest first."""
    namespace, subdomain = pod["metadata"]["namespace"], pod["spec"].get("subdomain")
    own = hostname(pod)
    if not subdomain:
        return [own]
    short = f"{own}.{subdomain}"
    return [f"{short}.{namespace}.svc.{_DOMAIN}", f"{short}.{namespace}.svc", f"{short}.{namespace}", short, own]


class Names:
    """The addresses of pods, and the files that say which name has which; files are in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._addresses: dict[str, str] = {}
        self._owners: dict[str, str] = {}
        self._names: dict[str, dict[str, str]] = {}
        self._written: dict[str, set[str]] = {}

    def learn(self, pod: Object) -> str:
        """The address of a pod; from now on its names are known."""
        namespace = pod["metadata"]["namespace"]
        address = self._address(f"{namespace}/{pod['metadata']['name']}")
        names = names_of(pod)
        self._names.setdefault(namespace, {}).update(dict.fromkeys(names, address))
        if namespace in self._written:
            self._append(namespace, f"{address} {' '.join(names)}\n")
        return address

    def _address(self, key: str) -> str:
        if key in self._addresses:
            return self._addresses[key]
        number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big")
        while True:
            place = number % ((64 << 16) - 2) + 1
            address = f"127.{64 + (place >> 16)}.{place >> 8 & 255}.{place & 255}"
            if address not in self._owners:
                self._addresses[key], self._owners[address] = address, key
                return address
            number += 1

    def known(self, namespace: str) -> Mapping[str, str]:
        """Addresses by the names that pods of a namespace may use."""
        return self._names.get(namespace, {})

    def file(self, namespace: str) -> Path:
        """The hosts file for pods of a namespace. It only grows while it may be mounted: a file cannot be replaced
        under a mount, and an address never goes over to another name.
        """
        path = self._folder / namespace
        if namespace not in self._written:
            self._written[namespace] = set()
            if not path.exists():
                path.write_text(HOSTS.read_text(errors="replace").rstrip("\n") + "\n" if HOSTS.exists() else "")
            self._written[namespace].update(path.read_text().splitlines(keepends=True))
            for address, names in self._by_address(namespace).items():
                self._append(namespace, f"{address} {' '.join(names)}\n")
        return path

    def _by_address(self, namespace: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, address in self._names.get(namespace, {}).items():
            found.setdefault(address, []).append(name)
        return found

    def _append(self, namespace: str, line: str) -> None:
        if line not in self._written[namespace]:
            self._written[namespace].add(line)
            with (self._folder / namespace).open("a") as file:
                file.write(line)

    def clear(self) -> None:
        """Begin all files anew; only while no container runs that has one mounted."""
        for path in self._folder.iterdir():
            path.unlink()


class Ports:
    """Which port of this machine each port of a headless Service has; kept in `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Another service on this machine chooses others, also while nobody listens yet.
        self._first = int.from_bytes(hashlib.sha256(str(path).encode()).digest()[:2], "big") % _MOST_TRIES
        try:
            self._given: dict[str, dict[str, int]] = json.loads(path.read_bytes())
        except (OSError, ValueError):
            self._given = {}

    def of(self, service: str, wanted: Iterable[int], existing: Iterable[str]) -> dict[int, int]:
        """The ports of a Service, by the ones it names. Services are UIDs; those that do not exist give theirs back."""
        alive = {*existing, service}
        self._given = {uid: ports for uid, ports in self._given.items() if uid in alive}
        own = self._given.setdefault(service, {})
        for port in wanted:
            if str(port) not in own:
                own[str(port)] = self._free(port)
        self._path.write_text(json.dumps(self._given))
        return {int(port): local for port, local in own.items()}

    def _free(self, port: int) -> int:
        taken = {local for ports in self._given.values() for local in ports.values()}
        return next((one for one in self._candidates(port) if one not in taken and _listens_nobody(one)), port)

    def _candidates(self, port: int) -> Iterator[int]:
        below = (port + (self._first + number) % _MOST_TRIES for number in range(_MOST_TRIES))
        return (one for one in below if one < 65536)


def _listens_nobody(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


class Translation:
    """What is written for a cluster, as it is on this machine: other ports, addresses for `names` if they are given,
    and for `paths` the ones that they have here.
    """

    def __init__(
        self,
        gang: Iterable[str],
        ports: Mapping[int, int],
        names: Mapping[str, str] | None = None,
        paths: Mapping[str, str] | None = None,
    ) -> None:
        self._paths = dict(paths or {})
        self._places = path_pattern(self._paths)
        self._moved = {port: local for port, local in ports.items() if port != local}
        # A name without a dot may be any word.
        self._gang = frozenset(name for name in gang if "." in name)
        self._names = {name: address for name, address in (names or {}).items() if "." in name}
        hosts = "|".join(re.escape(name) for name in sorted({*self._gang, *self._names}, key=len, reverse=True))
        self._pattern = re.compile(rf"(?<![\w.-])(?P<host>{hosts})(?![\w-]|\.\w)(?::(?P<port>\d{{1,5}})\b)?")

    def text(self, text: str) -> str:
        """A value or an argument, with what it says about hosts and paths as it is here."""
        if self._paths:
            text = self._places.sub(lambda found: self._paths[found["path"]], text)
        return self._pattern.sub(self._replace, text) if self._gang or self._names else text

    def _replace(self, found: re.Match[str]) -> str:
        host, port = found["host"], found["port"]
        if port and host in self._gang:
            port = str(self._moved.get(int(port), int(port)))
        host = self._names.get(host, host)
        return f"{host}:{port}" if port else host

    def variables(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Variables; those named `…_PORT` follow the ports of the Service."""
        found = {key: self.text(value) for key, value in variables.items()}
        for key, value in found.items():
            if key.endswith("_PORT") and value.isascii() and value.isdigit():
                found[key] = str(self._moved.get(int(value), int(value)))
        return found
