"""`t9ksched up --here`: a cluster whose one node is this machine."""

import ipaddress
import os
import socket
import sys
from pathlib import Path
from typing import Final

from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.output import console, paragraph
from t9ksched.devcluster.local.machine import Machine, NotPossible, is_machine
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import NODES
from t9ksched.settings import Settings

_kept: Final[list[socket.socket]] = []
"""Open for as long as the process lives."""


async def this_machine(data_dir: Path, settings: Settings) -> Machine:
    """The machine on which this runs, with the processes of an earlier start that still run.

    Raises:
        Failure: it cannot be a node, or others could reach what runs processes on it.
    """
    if not _is_loopback(settings.host):
        raise Failure(
            f"REST would listen on {settings.host}, and who reaches it may start processes as you.",
            remedy="Leave T9KSCHED_HOST out: `up --here` answers on loopback only.",
            code=BAD_USAGE,
        )
    _look_for_others()
    try:
        return await Machine.open(data_dir / "machine")
    except NotPossible as error:
        raise Failure(f"{str(error)[:1].upper()}{str(error)[1:]}.") from None


def _look_for_others() -> None:
    """Tell of another service that gives out the same CPUs, memory and cards. The kernel keeps the name by which it is
    known for as long as its process lives.
    """
    name = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        name.bind(f"\0t9ksched-up-here-{os.getuid()}")
    except OSError:
        paragraph(
            console(sys.stderr),
            "Another `t9ksched up --here` of yours runs on this machine: both give out the same CPUs, memory and cards."
            " End one of them, unless both are only tried.",
        )
        name.close()
        return
    _kept.append(name)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def check_nodes(port: ClusterPort, machine: Machine | None, data_dir: Path) -> None:
    """A cluster is either simulated or this machine: jobs would else run where nothing runs, or the other way round.

    Raises:
        Failure: the data directory has nodes of the other sort.
    """
    nodes = (await port.list(NODES)).items
    names = [node["metadata"]["name"] for node in nodes]
    here = [node["metadata"]["name"] for node in nodes if is_machine(node)]
    if machine is None and here:
        raise Failure(
            f"The data directory {data_dir} is that of a machine, {here[0]}, whose jobs are processes.",
            remedy="Start it with `t9ksched up --here`, or name another directory with --data-dir.",
        )
    others = sorted(set(names) - ({machine.name} if machine else set(names)))
    if machine is not None and others:
        raise Failure(
            f"The data directory {data_dir} has other nodes:"
            f" {', '.join(others[:3])}{', …' if len(others) > 3 else ''}.",
            remedy="A node that is this machine needs a directory of its own: name another one with --data-dir.",
        )
