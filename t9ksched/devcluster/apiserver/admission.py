"""What admission must know of other objects: priority classes, service addresses, node ports."""

import ipaddress
from typing import Any, Final

from t9ksched.devcluster.apiserver.storage import Storage
from t9ksched.devcluster.apiserver.strategy import Context

_NETWORK: Final = ipaddress.ip_network("10.96.0.0/12")
_PORTS: Final = range(30000, 32768)


class StorageContext(Context):
    """Answers from what is stored."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._next_address = 10
        self._next_port = 0

    def priority_class(self, name: str) -> dict[str, Any] | None:
        """The class of that name; with an empty name, the one marked as default."""
        classes = self._storage.collection("priorityclasses.scheduling.k8s.io").entries
        if name:
            found = classes.get(name)
            return found.object if found else None
        for entry in classes.values():
            if entry.object.get("globalDefault"):
                return entry.object
        return None

    def _specs(self) -> list[dict[str, Any]]:
        return [entry.object["spec"] for entry in self._storage.collection("services").entries.values()]

    def allocate_ip(self, wanted: str) -> str:
        """A free address of the service network.

        Raises:
            ValueError: the wanted address is taken, or is none.
        """
        taken = {spec.get("clusterIP") for spec in self._specs()}
        if wanted:
            if ipaddress.ip_address(wanted) not in _NETWORK:
                raise ValueError(f"{wanted} is not in the service network {_NETWORK}")
            if wanted in taken:
                raise ValueError(f"{wanted} belongs to another service")
            return wanted
        while True:
            self._next_address += 1
            address = str(_NETWORK[self._next_address % (_NETWORK.num_addresses - 2) + 1])
            if address not in taken:
                return address

    def allocate_port(self, wanted: int) -> int:
        """A free node port.

        Raises:
            ValueError: the wanted port is taken, or none is left.
        """
        taken = {port.get("nodePort") for spec in self._specs() for port in spec.get("ports") or []}
        if wanted:
            if wanted in taken:
                raise ValueError(f"port {wanted} belongs to another service")
            return wanted
        for _ in _PORTS:
            self._next_port += 1
            port = _PORTS[self._next_port % len(_PORTS)]
            if port not in taken:
                return port
        raise ValueError("no node port is free")
