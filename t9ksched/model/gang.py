"""Gangs as the engine sees them: a pod group with those of its members that still need a place."""

from dataclasses import dataclass, field

from t9ksched.model.podclass import PodClass
from t9ksched.model.reasons import Reason


@dataclass(frozen=True, slots=True)
class Member:
    """A pod that waits for a place.

    Attributes:
        uid: identifies the pod.
        name: for people, `namespace/name`.
        role: its role in the gang, empty without one.
        pod_class: what decides where it may run.
    """

    uid: str
    name: str
    role: str
    pod_class: PodClass


@dataclass(frozen=True, slots=True)
class Gang:
    """A group that asks for room.

    Attributes:
        uid: of the PodGroup, or of the pod for a virtual group.
        name: for people, `namespace/name`.
        queue, priority: as recorded at acceptance, not as labelled now.
        created: nanoseconds since the epoch; the older gang goes first.
        min_member, roles: the minimum that must run together; `roles` are `(role, minimum)`.
        waiting: members without a place, in the order in which they are placed.
        placed: members that hold a place already (bound, assumed or succeeded), by role (`""` for none).
        total: members that exist and did not fail, waiting and blocked ones included; `total_roles` by role.
        ran: the group has been placed before: it is refilled before anything new of its queue.
        accepted: it was in the queue before the queue was closed, so closing does not stop it.
        blocked: why some members cannot be placed whatever room there is (gates, volumes, claims).
    """

    uid: str
    name: str
    queue: str
    priority: int = 0
    created: int = 0
    min_member: int = 1
    roles: tuple[tuple[str, int], ...] = ()
    waiting: tuple[Member, ...] = ()
    placed: tuple[tuple[str, int], ...] = ()
    total: int = 0
    total_roles: tuple[tuple[str, int], ...] = ()
    ran: bool = False
    accepted: bool = False
    blocked: tuple[Reason, ...] = field(default=())
