"""Gangs as the engine sees them: a pod group with those of its members that still need a place, or that run.

Structs of msgspec, because thousands are made: they cost a fifth of dataclasses and are not tracked by the garbage
collector.
"""

from collections.abc import Sequence

import msgspec

from t9ksched.model.cards import NO_CARDS, CardGrant
from t9ksched.model.podclass import PodClass
from t9ksched.model.podrules import PodTerm
from t9ksched.model.reasons import Reason

Labels = tuple[tuple[str, str], ...]


class Member(msgspec.Struct, frozen=True, gc=False):
    """A pod that waits for a place.

    Attributes:
        uid: identifies the pod.
        name: for people, `namespace/name`.
        role: its role in the gang, empty without one.
        pod_class: what decides where it may run.
        labels: its labels, sorted: terms of other pods may select it.
    """

    uid: str
    name: str
    role: str
    pod_class: PodClass
    labels: Labels = ()

    @property
    def namespace(self) -> str:
        """The namespace of the pod."""
        return self.name.partition("/")[0]


class Neighbours(msgspec.Struct, frozen=True, gc=False):
    """Placed pods that are alike in namespace, labels and rules, whichever scheduler placed them.

    Attributes:
        apart: their required anti-affinity, which holds against newcomers too.
        nodes: how many of them there are by node.
        preferred_terms: their preferred affinity with its weights, negative for anti-affinity; it ranks nodes for
            newcomers too.
        leaving: they are being deleted; they do not count where pods are spread evenly.
    """

    namespace: str
    labels: Labels
    nodes: tuple[tuple[str, int], ...]
    apart: tuple[PodTerm, ...] = ()
    preferred_terms: tuple[tuple[int, PodTerm], ...] = ()
    leaving: bool = False


class Gang(msgspec.Struct, frozen=True, gc=False):
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
        refilling: members hold places, or were lost a short while ago without being evicted: it goes before anything
            new of its queue.
        ran: the group has been placed before, so closing its queue does not stop it.
        accepted: it was in the queue before the queue was closed, so closing does not stop it.
        blocked: why some members cannot be placed whatever room there is (gates, volumes, claims).
        topology: whether its members must, or should, be within one domain: `None`, `Preferred`, `Required`.
        levels: node labels that make domains, from narrow to wide.
        nodes: where its placed members are.
        card_nodes: for roles with placed members that ask for cards, the node of one of them.
        evicts_from: nanoseconds since the epoch; before this no gang is evicted for it.
        lasts: nanoseconds for which it holds its room at most once it has it; 0 where nothing enforces its end.
        user: who submitted it, empty when not known; `groups` are the user's, read only where room is reserved for
            groups.
        reservation: the reservation by administrators that it asks for; it uses no other room.
    """

    uid: str
    name: str
    queue: str
    priority: int = 0
    created: int = 0
    min_member: int = 1
    roles: tuple[tuple[str, int], ...] = ()
    waiting: Sequence[Member] = ()
    placed: tuple[tuple[str, int], ...] = ()
    total: int = 0
    total_roles: tuple[tuple[str, int], ...] = ()
    refilling: bool = False
    ran: bool = False
    accepted: bool = False
    blocked: tuple[Reason, ...] = ()
    topology: str = "None"
    levels: tuple[str, ...] = ("kubernetes.io/hostname",)
    nodes: tuple[str, ...] = ()
    card_nodes: tuple[tuple[str, str], ...] = ()
    evicts_from: int = 0
    lasts: int = 0
    user: str = ""
    groups: tuple[str, ...] = ()
    reservation: str = ""


class ExpectedEnd(msgspec.Struct, frozen=True, gc=False):
    """Room that a gang gives back at a moment that is enforced.

    Attributes:
        gang: its UID.
        queue: the queue that pays for the room until then.
        at: nanoseconds since the epoch.
        rooms: node, class of pods and how many of them it has there.
        parts: node and divided cards of each of its pods that has some: which come free.
    """

    gang: str
    queue: str
    at: int
    rooms: tuple[tuple[str, PodClass, int], ...]
    parts: tuple[tuple[str, CardGrant], ...] = ()


class RunningPod(msgspec.Struct, frozen=True, gc=False):
    """A member that holds a place.

    Attributes:
        cards: the cards it holds; empty when they are unknown.
        leaving: it is being deleted, or about to be; its room comes free without an eviction.
        asked: the eviction was sent to the API server. A victim that was only chosen may still stay.
        kept: the member was lost, or is about to be, and its gang keeps this room for it; it does not run.
    """

    uid: str
    name: str
    role: str
    pod_class: PodClass
    node: str
    cards: CardGrant = NO_CARDS
    leaving: bool = False
    asked: bool = True
    kept: bool = False


class Running(msgspec.Struct, frozen=True, gc=False):
    """A group that holds places, as a candidate for eviction.

    Attributes:
        uid, name, queue, priority, min_member, roles: as in `Gang`.
        created: nanoseconds since the epoch; of equals the youngest goes first.
        started: when it got its places, nanoseconds since the epoch; 0 when not known, which counts as long ago.
        pods: in the order of their indices, rank 0 first.
        succeeded: members that ended well and count towards the minimum, by role.
        evictions: how often its job was evicted in the last 24 hours.
        guarded: evicting it breaks a PodDisruptionBudget; others of its queue priority go before it.
        grace: nanoseconds that its pods take to end at most once they are evicted.
    """

    uid: str
    name: str
    queue: str
    pods: tuple[RunningPod, ...]
    priority: int = 0
    created: int = 0
    started: int = 0
    min_member: int = 1
    roles: tuple[tuple[str, int], ...] = ()
    succeeded: tuple[tuple[str, int], ...] = ()
    evictions: int = 0
    guarded: bool = False
    grace: int = 30_000_000_000
