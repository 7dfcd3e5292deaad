"""Builders of model values with defaults, so that a test case is a line or two.

Amounts are written as users write them (`cpu="4"`, `memory="16Gi"`); `gpu=8` stands for `nvidia.com/gpu`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import count

from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.view import QueueState, View
from t9ksched.model.card_size import CardSize
from t9ksched.model.card_table import CardTable
from t9ksched.model.cards import CardGrant, SharedCards, WholeCards
from t9ksched.model.gang import Gang, Member, Running, RunningPod
from t9ksched.model.labels import LabelSelector, NodeSelector
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import HostPort, PodClass
from t9ksched.model.quantity import to_units
from t9ksched.model.queue import Ordering, QueueSpec
from t9ksched.model.reasons import Reason
from t9ksched.model.reservation import Reservation
from t9ksched.model.resources import is_card_resource
from t9ksched.model.start_windows import StartWindow
from t9ksched.model.taints import Taint, Toleration

GPU = "nvidia.com/gpu"
HONOURS = "honours-index"


def amounts(cpu: str | int = 0, memory: str | int = 0, gpu: int = 0, **more: str | int) -> dict[str, int]:
    """Amounts in units, zeros left out. Other resources by keyword dict: `**{"amd.com/gpu": 2}`."""
    named: dict[str, str | int] = {"cpu": cpu, "memory": memory, GPU: gpu, **more}
    units = {name: to_units(name, value) for name, value in named.items()}
    return {name: value for name, value in units.items() if value}


def node(
    name: str,
    *,
    cpu: str | int = 96,
    memory: str | int = "1Ti",
    gpu: int = 0,
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[Taint] = (),
    unschedulable: bool = False,
    ready: bool = True,
    deleting: bool = False,
    unusable: Mapping[str, int] | None = None,
    **more: str | int,
) -> NodeFacts:
    """A ready node with its hostname label."""
    allocatable = amounts(cpu, memory, gpu, pods=pods, **more)
    return NodeFacts(
        name=name,
        uid=f"uid-{name}",
        labels={"kubernetes.io/hostname": name, **(labels or {})},
        taints=tuple(taints),
        unschedulable=unschedulable,
        ready=ready,
        deleting=deleting,
        allocatable=allocatable,
        cards=CardTable(
            {resource: units for resource, units in allocatable.items() if is_card_resource(resource)},
            CardGrant.packed(unusable or {}),
        ),
        card_mode=HONOURS,
    )


def divided_node(name: str, cards: int, *, memory: int = 32_000, places: int = 10, **more: str | int) -> NodeFacts:
    """A node that gives parts of its GPUs, with so many MiB each."""
    made = node(name, gpu=cards * places, **more)  # type: ignore[arg-type]
    return replace(made, cards=CardTable({GPU: cards}, divided={GPU: (CardSize(memory, places),) * cards}), mode="HAMi")


def shared_class(
    cores: int = 0, memory: int = 0, cards: int = 1, *, percent: int = 0, cpu: str | int = 1, ram: str | int = "1Gi"
) -> PodClass:
    """A class of pods with a part of each of some GPUs: cores in thousandths, memory in MiB or percent."""
    asked = SharedCards("main", GPU, cards, cores=cores, memory=memory, memory_percent=percent)
    return replace(pod_class(cpu, ram, cards), cards=(asked,))


def pod_class(
    cpu: str | int = 1,
    memory: str | int = "1Gi",
    gpu: int = 0,
    *,
    selector: Mapping[str, str] | None = None,
    affinity: NodeSelector | None = None,
    tolerations: Iterable[Toleration] = (),
    ports: Iterable[int | HostPort] = (),
    volumes: Iterable[NodeSelector] = (),
    **more: str | int,
) -> PodClass:
    """A class of pods with one container, `main`, that asks for all the cards."""
    requests = {**amounts(cpu, memory, gpu, **more), "pods": 1}
    return PodClass(
        requests=tuple(sorted(requests.items())),
        cards=tuple(
            WholeCards("main", name, units) for name, units in sorted(requests.items()) if is_card_resource(name)
        ),
        node_selector=tuple(sorted((selector or {}).items())),
        node_affinity=affinity,
        tolerations=tuple(tolerations),
        host_ports=tuple(port if isinstance(port, HostPort) else HostPort(port) for port in ports),
        volume_affinity=tuple(volumes),
    )


_ages = count(1)


def member(uid: str, of: PodClass, role: str = "") -> Member:
    """A waiting pod."""
    return Member(uid=uid, name=f"test/{uid}", role=role, pod_class=of)


def gang(
    name: str,
    queue: str = "q",
    pods: int = 1,
    *,
    of: PodClass | None = None,
    members: Iterable[Member] | None = None,
    min_member: int | None = None,
    roles: Mapping[str, int] | None = None,
    placed: Mapping[str, int] | None = None,
    total: int | None = None,
    total_roles: Mapping[str, int] | None = None,
    priority: int = 0,
    created: int | None = None,
    refilling: bool | None = None,
    ran: bool = False,
    accepted: bool = False,
    blocked: Iterable[Reason] = (),
    **requests: str | int,
) -> Gang:
    """A gang of alike pods `name-0`, `name-1` …, all of them needed; younger than those built before it.

    It is being refilled when some of it is placed, unless said otherwise.
    """
    if members is None:
        shape = of or pod_class(**requests)  # type: ignore[arg-type]
        members = [member(f"{name}-{at}", shape) for at in range(pods)]
    waiting = tuple(members)
    held = dict(placed or {})
    by_role = dict(held)
    for one in waiting:
        by_role[one.role] = by_role.get(one.role, 0) + 1
    there = len(waiting) + sum(held.values())
    return Gang(
        uid=name,
        name=f"test/{name}",
        queue=queue,
        priority=priority,
        created=next(_ages) if created is None else created,
        min_member=there if min_member is None else min_member,
        roles=tuple(sorted((roles or {}).items())),
        waiting=waiting,
        placed=tuple(sorted(held.items())),
        total=there if total is None else total,
        total_roles=tuple(sorted((by_role if total_roles is None else dict(total_roles)).items())),
        refilling=bool(held) if refilling is None else refilling,
        ran=ran,
        accepted=accepted,
        blocked=tuple(blocked),
    )


def running(
    name: str,
    queue: str = "q",
    on: Iterable[str] = (),
    *,
    of: PodClass | None = None,
    min_member: int | None = None,
    roles: Mapping[str, int] | None = None,
    role_of: Iterable[str] = (),
    cards: Iterable[int] = (),
    priority: int = 0,
    created: int | None = None,
    started: int = 0,
    leaving: Iterable[int] = (),
    kept: Iterable[int] = (),
    evictions: int = 0,
    guarded: bool = False,
    grace: int = 0,
    **requests: str | int,
) -> Running:
    """A group with pods `name-0` … on the nodes `on`, none of which it can do without; `cards` are masks of GPUs.

    `leaving` and `kept` are positions: of those that leave, and of room that is kept for lost members; `grace` is in
    seconds.
    """
    shape = of or pod_class(**requests)  # type: ignore[arg-type]
    nodes, role_names, masks, going, lost = list(on), list(role_of), list(cards), set(leaving), set(kept)
    pods = tuple(
        RunningPod(
            uid=f"{name}-{at}",
            name=f"test/{name}-{at}",
            role=role_names[at] if role_names else "",
            pod_class=shape,
            node=where,
            cards=CardGrant.packed({GPU: masks[at]} if masks else {}),
            leaving=at in going,
            kept=at in lost,
        )
        for at, where in enumerate(nodes)
    )
    return Running(
        uid=name,
        name=f"test/{name}",
        queue=queue,
        pods=pods,
        priority=priority,
        created=next(_ages) if created is None else created,
        started=started,
        min_member=len(pods) if min_member is None else min_member,
        roles=tuple(sorted((roles or {}).items())),
        evictions=evictions,
        guarded=guarded,
        grace=grace * 1_000_000_000,
    )


def queue(
    *,
    quota: Mapping[str, str | int] | None = None,
    used: Mapping[str, str | int] | None = None,
    priority: int = 0,
    closed: bool = False,
    selector: Mapping[str, str] | None = None,
    ordering: Ordering = "BestEffort",
    preemptible: bool = True,
    start_windows: tuple[StartWindow, ...] = (),
) -> QueueState:
    """A queue and what it uses; without quota unless one is given."""
    return QueueState(
        spec=QueueSpec(
            quota={name: to_units(name, value) for name, value in sorted((quota or {}).items())},
            priority=priority,
            closed=closed,
            node_selector=LabelSelector.parse({"matchLabels": dict(selector)}) if selector else None,
            ordering=ordering,
            preemptible=preemptible,
            start_windows=start_windows,
        ),
        used={name: to_units(name, value) for name, value in (used or {}).items()},
    )


def table(nodes: Iterable[NodeFacts]) -> NodeTable:
    """A live table of these nodes."""
    found = NodeTable()
    for facts in nodes:
        found.upsert(facts)
    return found


def view(
    nodes: Iterable[NodeFacts] | NodeTable,
    gangs: Iterable[Gang] = (),
    queues: Mapping[str, QueueState] | None = None,
    reservations: Iterable[Reservation] = (),
    running: Iterable[Running] = (),
) -> View:
    """A view; queues that gangs name and that are not given exist without quota, unless `queues` is given.

    Running groups are charged on their nodes and to their queues, unless a whole table is given: that has them.
    """
    gangs, groups = tuple(gangs), tuple(running)
    found = dict(queues) if queues is not None else {one.queue: queue() for one in (*gangs, *groups)}
    if isinstance(nodes, NodeTable):
        return View(nodes.freeze(), found, gangs, tuple(reservations), groups)
    live = table(nodes)
    used = {name: dict(state.used) for name, state in found.items()}
    for group in groups:
        for pod in group.pods:
            live.charge(live.row(pod.node), pod.pod_class, pod.cards)
            charged = used.get(group.queue, {})
            for resource, units in pod.pod_class.requests:
                charged[resource] = charged.get(resource, 0) + units
    found = {name: replace(state, used=used[name]) for name, state in found.items()}
    return View(live.freeze(), found, gangs, tuple(reservations), groups)
