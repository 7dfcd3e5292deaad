"""Limits of CPU and memory by control groups, where this machine lets its user make some.

With cgroup v2 they are made beside the group of this process, with v1 below it, for each controller that allows it. A
user may do so below `systemd --user`; root may anywhere.
"""

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

_PERIOD: Final = 100_000
_OOM_KILLS: Final = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


class Limits(msgspec.Struct, frozen=True):
    """Of one container: CPU in thousandths of a core, memory in bytes; None without a limit."""

    cpu: int | None = None
    memory: int | None = None
    cpu_request: int = 0


class Cgroups:
    """The groups of all containers; `bases` are ours by their controllers, `unified` says that they are v2."""

    def __init__(self, bases: dict[str, Path], *, unified: bool) -> None:
        self._bases = bases
        self._unified = unified

    @property
    def kinds(self) -> tuple[str, ...]:
        """The controllers that keep limits here: `cpu`, `memory`, both or none."""
        return tuple(sorted(self._bases))

    def make(self, name: str, limits: Limits) -> list[str]:
        """Make the groups of a container; the files into which its process writes its number."""
        files: dict[Path, None] = {}
        for kind, base in self._bases.items():
            group = base / name
            try:
                group.mkdir(exist_ok=True)
                for file, text in self._settings(kind, limits):
                    with contextlib.suppress(FileNotFoundError):  # one that this kernel does not have
                        (group / file).write_text(text)
            except OSError:
                continue  # then it runs without
            files[group / "cgroup.procs"] = None
        return [str(file) for file in files]

    def _settings(self, kind: str, limits: Limits) -> Iterator[tuple[str, str]]:
        if kind == "memory" and limits.memory is not None:
            if self._unified:
                yield from (("memory.max", str(limits.memory)), ("memory.swap.max", "0"), ("memory.oom.group", "1"))
            else:
                yield "memory.limit_in_bytes", str(limits.memory)
        if kind == "cpu":
            share = max(2, limits.cpu_request * 1024 // 1000)
            quota = None if limits.cpu is None else max(1000, limits.cpu * _PERIOD // 1000)
            if self._unified:
                yield "cpu.weight", str(min(10_000, 1 + (share - 2) * 9999 // 262_142))
                if quota is not None:
                    yield "cpu.max", f"{quota} {_PERIOD}"
            else:
                yield "cpu.shares", str(min(share, 262_144))
                if quota is not None:
                    yield from (("cpu.cfs_period_us", str(_PERIOD)), ("cpu.cfs_quota_us", str(quota)))

    def out_of_memory(self, name: str) -> bool:
        """Whether the kernel ended a process of the container because it needed more memory than its limit."""
        base = self._bases.get("memory")
        if base is None:
            return False
        try:
            text = (base / name / ("memory.events" if self._unified else "memory.oom_control")).read_text()
        except OSError:
            return False
        found = _OOM_KILLS.search(text)
        return found is not None and int(found[1]) > 0

    def remove(self, name: str) -> None:
        """Take the groups of a container away that has ended."""
        for base in self._bases.values():
            with contextlib.suppress(OSError):
                (base / name).rmdir()


def find(key: str) -> Cgroups:
    """The controllers that this process may use; `key` tells its groups from those of another `up`."""
    ours = f"t9ksched-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    own = dict(_own_groups())
    if "" in own:
        unified = next((point for point, kind, _ in _mounts() if kind == "cgroup2"), None)
        if unified is not None and (bases := _second_version(unified, own[""], ours)):
            return Cgroups(bases, unified=True)
    bases = {}
    for point, kind, options in _mounts():
        for controller in ("cpu", "memory") if kind == "cgroup" else ():
            if controller in options and controller in own and controller not in bases:
                for above in (point / own[controller].lstrip("/"), point):
                    if made := _made(above / ours):
                        bases[controller] = made
                        break
    return Cgroups(bases, unified=False)


def _second_version(root: Path, own: str, ours: str) -> dict[str, Path]:
    above = (root / own.lstrip("/")).parent if own != "/" else root
    for place in (above, root):
        try:
            allowed = (place / "cgroup.subtree_control").read_text().split()
        except OSError:
            continue
        wanted = [kind for kind in ("cpu", "memory") if kind in allowed]
        if not wanted or not os.access(place / "cgroup.procs", os.W_OK) or not (made := _made(place / ours)):
            continue
        with contextlib.suppress(OSError):
            (made / "cgroup.subtree_control").write_text(" ".join(f"+{kind}" for kind in wanted))
            return dict.fromkeys(wanted, made)
    return {}


def _made(path: Path) -> Path | None:
    try:
        path.mkdir(exist_ok=True)
    except OSError:
        return None
    return path if os.access(path / "cgroup.procs", os.W_OK) else None


def _own_groups() -> Iterator[tuple[str, str]]:
    """The groups of this process by controller; that of v2 has an empty name."""
    for line in _lines("/proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, path


def _mounts() -> Iterator[tuple[Path, str, list[str]]]:
    """Where hierarchies are mounted, with their kind and options."""
    for line in _lines("/proc/self/mounts"):
        _, point, kind, options = line.split()[:4]
        if kind in ("cgroup", "cgroup2"):
            yield Path(point), kind, options.split(",")


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
