"""The records of each pod and group that the scheduler knows. They are the live, mutable side of the model: small,
slotted, changed in this package only. A `GangRecord` is a PodGroup with its members, or the virtual group of a single
pod; it knows when its snapshot for the engine is stale.
"""

from collections import Counter
from collections.abc import Collection, Container, Iterable
from typing import Any, Final

import msgspec

from t9ksched.model.gang import Gang
from t9ksched.model.pod import OwnerReference
from t9ksched.model.podclass import PodClass
from t9ksched.model.podgroup import PodGroupSpec
from t9ksched.model.reasons import Reason
from t9ksched.scheduler.state.asks import NOTHING_ASKED, Asks
from t9ksched.scheduler.state.gang_snapshot import built
from t9ksched.scheduler.state.minimum import Minimum
from t9ksched.scheduler.state.objects import HOSTNAME
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.job_overrides import JobControl
from t9ksched.workloads.shape import Template

FINISHED: Final = ("Succeeded", "Failed")
DEFAULT_GRACE: Final = 30
"""What Kubernetes writes into a pod that says nothing of it."""


class PodRecord(msgspec.Struct, eq=False):
    """A pod. `node` is where it is bound as the API server says; `assumed` where we have decided to bind it."""

    uid: str
    namespace: str
    name: str
    ours: bool
    pod_class: PodClass | None
    role: str = ""
    phase: str = "Pending"
    node: str = ""
    assumed: str = ""
    deleting: bool = False
    created: int = 0
    started: int = 0
    owner: OwnerReference | None = None
    orphaned: bool = False
    """Its owner was deleted and left it behind."""
    controller: str = ""
    """Its present controller, as `Kind/name`; empty without one."""
    claims: tuple[str, ...] = ()
    system: bool = False
    gates: tuple[Reason, ...] = ()
    unbound: tuple[Reason, ...] = ()
    to_bind: tuple[tuple[str, str], ...] = ()
    """Claims whose volumes are bound once a node was chosen, before the pod is; each with the resource by which free
    volumes are counted for it, empty where they are not."""
    exclusive: tuple[str, ...] = ()
    """Claims that only one pod may use at a time."""
    unpermitted: tuple[Reason, ...] = ()
    """Why it may not join the group that it names, or why that group gets no more members."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    template: Template | None = None
    """What the rules of admission read of it."""
    accepted: bool = False
    """It is one of the pods that were accepted with its owner."""
    gang: "GangRecord | None" = None
    """The group it is a member of; None for another scheduler's pod, and for a stranger that is not shown yet."""
    outside: "GangRecord | None" = None
    """The group that it names and may not join."""
    asks: Asks = NOTHING_ASKED
    """What its annotations ask."""
    active_deadline: int | None = None
    """Its activeDeadlineSeconds, which its kubelet enforces."""
    grace: int = DEFAULT_GRACE
    """Seconds that it gets to end once it is deleted."""
    retry_at: int = 0
    refusals: int = 0
    evicted: bool = False
    """A scheduler takes its place away."""
    placed_in: str = ""
    """UID of its job when it got its place: of its PodGroup's owner, else of the PodGroup; empty if not on record."""
    worth: int = 0
    """What it had of cards (`quantity.CARD`) when it gave its place back; 0 until then."""
    ended: int = 0
    """When its last container ended, in nanoseconds since the epoch; 0 until it has, and where no container says so."""
    ending: str = ""
    """How it failed, for people; empty unless it did."""
    hindrance: tuple[str, str] | None = None
    """What keeps it from running where it is bound, as its node says: a word and a sentence."""
    counted: tuple[str, str] | None = None
    """The queue and the phase in which it is counted (`counts.py`)."""

    @property
    def claimed_by(self) -> str:
        """The controller, as `Kind/name`, that was written into it later and has no effect."""
        return self.controller if self.owner is None else ""

    @property
    def blocked(self) -> tuple[Reason, ...]:
        """Why it cannot be placed whatever room there is: its own gates, its volume claims, its submitter."""
        return self.gates + self.unbound + self.unpermitted

    @property
    def key(self) -> str:
        """For people: `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def finished(self) -> bool:
        """Whether it has ended and holds nothing."""
        return self.phase in FINISHED

    @property
    def placed(self) -> bool:
        """Whether it counts towards its gang's minimum: it has a place, or it had one and succeeded."""
        return self.phase == "Succeeded" or (self.phase != "Failed" and bool(self.node or self.assumed))

    @property
    def holds(self) -> bool:
        """Whether the API server shows it on a node and it is not about to lose its place."""
        return bool(self.node) and not (self.phase in FINISHED or self.deleting)

    @property
    def did_its_part(self) -> bool:
        """Whether it is a member of a gang and succeeded: the gang needs no other in its place."""
        return self.phase == "Succeeded" and self.gang is not None and not self.gang.virtual

    @property
    def waiting(self) -> bool:
        """Whether it needs a place."""
        return not (self.node or self.assumed or self.phase in FINISHED or self.deleting)


class GangRecord(msgspec.Struct, eq=False):
    """A PodGroup with its members, or the virtual group of one pod (`virtual`)."""

    namespace: str
    name: str
    uid: str = ""
    """Empty while members name a PodGroup that does not exist yet."""
    virtual: bool = False
    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    spec_faults: str = ""
    asks: Asks = NOTHING_ASKED
    """What the annotations of the PodGroup ask."""
    start_after: int = 0
    """The moment before which it does not start, by the annotations as they were when it was looked at last, or since
    which the jobs that it waited for are over."""
    start_seen: int = -1
    """Its change counter at that time."""
    asked: Asks = NOTHING_ASKED
    """What the object that users made of its job asks, as it was when its change counter was `asked_seen`."""
    asked_seen: int = -1
    levels: tuple[str, ...] = (HOSTNAME,)
    """Node labels, narrow to wide, that `topologyPolicy` speaks of."""
    created: int = 0
    owner: OwnerReference | None = None
    claimed_by: str = ""
    """The controller, as `Kind/name`, that was written into the PodGroup later and has no effect."""
    acceptance: Acceptance | None = None
    agreed: str = ""
    """The queue in which its owner was accepted; it counts before the group itself is accepted."""
    kept: str = ""
    """The queue that is charged for members placed before the PodGroup was made anew; the new one is in it, too."""
    control: JobControl | None = None
    status: dict[str, Any] = msgspec.field(default_factory=dict)
    own_status: dict[str, Any] | None = None
    """The status of its object as this process wrote it, or found it right; others may have written another since."""
    members: dict[str, PodRecord] = msgspec.field(default_factory=dict)
    former: tuple[str, int] = ("", 0)
    """Of a PodGroup that is gone, its UID, and when its members were to end; empty where nothing was to end them."""
    gone_since: int = 0
    """When the scheduler found that the PodGroup is gone."""
    kept_out: Reason | None = None
    """Why its pod may not join the group that it names, if it waits by itself for that."""
    ran: bool = False
    began_with: Minimum | None = None
    """Its minimum when it began to run, roles included; None where that is not known."""
    leaving: frozenset[str] = frozenset()
    """UIDs of the members that had places when its whole place was last taken away."""
    scheduled: bool = False
    """Whether its minimum ever had places; unlike `ran` an eviction does not reset it."""
    evicted: tuple[str, str] | None = None
    """Reason and message of the eviction that took its whole place, until it has one again."""
    first_bound: int = 0
    fell: int = 0
    """Since when it has been below its minimum after it ran; 0 while it is whole."""
    displaced: bool = False
    """It was evicted on purpose and has not had its minimum since: it waits like any other group."""
    lost: bool = False
    """It lost members recently, and room may be reserved for them: the engine sees it although no member waits."""
    admitted: int = 0
    reasons: tuple[Reason, ...] = ()
    position: int | None = None
    avoid: frozenset[str] = frozenset()
    """Nodes that rejected members recently."""
    unrecorded: bool = False
    """The cards of its members cannot be recorded now: it gets none that are given by index."""
    evicts_from: int = 0
    """Before this time no victim is evicted for it: its last binding was refused."""
    unpermitted: Reason | None = None
    """Why it may not use its queue, as the last gate found."""
    judged: tuple[int, int] = (0, 0)
    """The version of the rules, and its own change counter, at the last judgement of the last gate."""
    turned_away: dict[str, tuple[object, Reason]] | None = None
    """Refusals that free room does not lift, each with what was judged: of the group, or of a member by UID."""
    noted: bool = False
    """The user's object above it is recorded as started; of a plain pod that is never checked."""
    nameless: int = 0
    """Since when its submitter or its owner has been unknown; 0 while both are known."""
    lasts: int = 0
    """For how long it holds its room once it has it, and its submitter: noted while starts are planned."""
    user: str = ""
    foreign: str = ""  # the object that stands for a PodGroup, for people; empty for a PodGroup and a single pod
    foreign_fault: str = ""  # why nothing of that object can start
    reservation: str = ""
    """The reservation by administrators that its job asks for."""
    reservation_seen: int = -1
    """Its change counter when that was read."""
    groups: tuple[str, ...] = ()
    """Its submitter's groups: noted while a reservation is for groups."""
    stale: bool = True
    counted: str | None = None
    """The queue in which it is counted (`counts.py`)."""
    waits_by: tuple[str, str] | None = None
    """The queue and the code of the reason by which it is counted while it waits (`waiting_gangs.py`)."""
    changes: int = 0
    """How often it or a member of it has changed."""
    _snapshot: Gang | None = None

    @property
    def key(self) -> str:
        """For people: `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def queue(self) -> str:
        """The queue that is charged: as recorded for the group, its owner or its members, else the requested one."""
        accepted = self.acceptance
        if accepted is not None and accepted.queue:
            return accepted.queue
        return self.agreed or self.kept or self.spec.queue

    @property
    def priority(self) -> int:
        """Order within the queue, as recorded at acceptance, unless a manager decided otherwise since."""
        if self.control is not None and self.control.priority is not None:
            return self.control.priority
        return self.acceptance.priority if self.acceptance else self.spec.priority

    @property
    def unnoted(self) -> bool:
        """Whether something is to be recorded once it has a place: itself, or that its owner has started."""
        return self.acceptance is None or not (self.noted or (self.virtual and self.owner is None))

    def terms(self) -> tuple[object, ...]:
        """The fields of its PodGroup on which its members' admission depends."""
        return self.uid, self.created, self.levels, self.owner, self.spec, self.spec_faults, self.asks

    def living(self) -> Iterable[PodRecord]:
        """Members that count: not failed, and not going away without a place."""
        return (pod for pod in self.members.values() if pod.phase != "Failed" and not pod.deleting)

    def placed_count(self) -> int:
        """Members that hold a place or succeeded."""
        count = 0
        for pod in self.members.values():
            count += pod.placed and not pod.deleting
        return count

    def inherited(self, pod: PodRecord) -> bool:
        """Whether the pod got its place in an earlier group of this name. This group's limits do not stop it: a user
        who creates a PodGroup again may not be allowed to delete the pods of the former one.
        """
        if not pod.placed_in or self.virtual:
            return False
        return pod.placed_in != self.uid and (self.owner is None or pod.placed_in != self.owner.uid)

    def leaves(self) -> bool:
        """Whether it was evicted or paused whole, and some of those members still look as if they ran. What an earlier
        group of the name left runs on, unless a scheduler takes its place away.
        """
        those = (pod for uid in self.leaving if (pod := self.members.get(uid)) is not None)
        return any(pod.evicted or not self.inherited(pod) for pod in those)

    def complete(self, *, bound: bool = False) -> bool:
        """Whether the minimum, roles included, holds a place; with `bound`, as the API server shows it."""
        if not self.virtual:
            members = self.members.values()
            return self._minimum(pod for pod in members if pod.placed and not (pod.deleting or (bound and pod.assumed)))
        for pod in self.members.values():  # noqa: SIM110 - asked of each pod several times: `any` costs twice
            if pod.placed and not (pod.deleting or (bound and pod.assumed)):
                return True
        return False

    @property
    def minimum(self) -> Minimum:
        """The minimum that counts. A group that runs keeps the one that it began with, in all and of each role: a
        larger one was written since, and counts when the group starts again. A smaller one counts at once. Of a group
        that an earlier release saw begin at most as many members count as were accepted.
        """
        spec, accepted, began = self.spec, self.acceptance, self.began_with
        if self.ran and began is not None:
            had = dict(began.roles)
            roles = tuple((role, min(least, had.get(role, 0))) for role, least in spec.roles)
            return Minimum(min(spec.min_member, began.members), roles)
        most = accepted.replicas if self.ran and accepted is not None else None
        if not most:
            return Minimum(spec.min_member, spec.roles)
        roles = spec.roles if sum(least for _, least in spec.roles) <= most else ()
        return Minimum(min(spec.min_member, most), roles)

    def gathered(self) -> bool:
        """Whether the minimum, roles included, is there, placed or not."""
        return self._minimum(self.living())

    def _minimum(self, having: Iterable[PodRecord]) -> bool:
        """Whether these are the minimum, roles included."""
        return self._are_minimum([pod.role for pod in having])

    def _are_minimum(self, roles: Collection[str]) -> bool:
        """Whether members of these roles are the minimum."""
        least = self.minimum
        if len(roles) < least.members or not least.roles:
            return len(roles) >= least.members
        counted = Counter(roles)
        return all(counted[role] >= minimum for role, minimum in least.roles)

    def in_part(self, besides: Container[str] = ()) -> bool:
        """Whether some members are bound and hold their places, and the minimum has no places yet; members `besides`,
        by UID, do not count.
        """
        if not any(pod.holds for pod in self.members.values()):
            return False
        others = [pod for uid, pod in self.members.items() if uid not in besides]
        return not self._minimum(pod for pod in others if pod.placed and not pod.deleting)

    def runs(self, without: Collection[str] = ()) -> bool:
        """Whether the minimum, roles included, runs or has succeeded; pods of these UIDs do not count."""
        run = [
            pod.role
            for pod in self.members.values()
            if pod.phase in ("Running", "Succeeded") and not pod.deleting and pod.uid not in without
        ]
        return self._are_minimum(run)

    def snapshot(self) -> Gang | None:
        """The gang for the engine, None when it needs no place. Built again only when something changed."""
        if self.stale:
            self._snapshot = built(self)
            self.stale = False
        return self._snapshot


def job_of(gang: GangRecord) -> str:
    """The key under which a refused pod is counted: a single pod's replacement is another group of the same owner."""
    return gang.owner.uid if gang.owner is not None else gang.uid
