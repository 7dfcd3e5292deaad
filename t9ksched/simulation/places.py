"""What groups hold in a walk on virtual time: charged on nodes and to queues, and given back."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from t9ksched.engine.nodes import FrozenNodes, NodeTable
from t9ksched.engine.plan import Assignment
from t9ksched.engine.view import QueueState, View
from t9ksched.model.card_worth import held
from t9ksched.model.cards import CardGrant
from t9ksched.model.gang import ExpectedEnd, Gang, Member, Neighbours, Running, RunningPod
from t9ksched.model.podclass import PodClass
from t9ksched.model.podrules import PodTerm
from t9ksched.model.quantity import CARDS
from t9ksched.simulation.present import Occupant

_Key = tuple[str, tuple[tuple[str, str], ...], tuple[PodTerm, ...], tuple[tuple[int, PodTerm], ...]]


class Place(msgspec.Struct):
    """What one group holds; attributes are as in `Occupant`. `members` and `pods` belong together, in order."""

    gang: Gang
    members: list[Member] = msgspec.field(default_factory=list)
    pods: list[RunningPod] = msgspec.field(default_factory=list)
    started: int = 0
    ends: int = 0
    grace: int = 0
    evictable: bool = True
    evictions: int = 0
    guarded: bool = False
    remade: bool = True
    _running: Running | None = None
    _expected: ExpectedEnd | None = None

    @classmethod
    def of(cls, one: Occupant) -> "Place":
        """What a group holds at the beginning."""
        return cls(
            one.gang,
            list(one.gang.waiting),
            list(one.pods),
            one.started,
            one.ends,
            one.grace,
            one.evictable,
            one.evictions,
            one.guarded,
            one.remade,
        )

    @property
    def complete(self) -> bool:
        """Whether its minimum holds places, those that succeeded and those that are about to go included."""
        return len(self.pods) + sum(count for _, count in self.gang.placed) >= self.gang.min_member

    def changed(self) -> None:
        """Its pods or its end are others than before."""
        self._running = self._expected = None

    @property
    def running(self) -> Running:
        """As a possible victim; the same value until something changes."""
        if self._running is None:
            gang = self.gang
            self._running = Running(
                gang.uid,
                gang.name,
                gang.queue,
                tuple(self.pods),
                gang.priority,
                gang.created,
                self.started,
                gang.min_member,
                gang.roles,
                gang.placed,
                self.evictions,
                self.guarded,
                self.grace,
            )
        return self._running

    @property
    def expected(self) -> ExpectedEnd:
        """Its end; the same value until something changes."""
        if self._expected is None:
            rooms = Counter((pod.node, pod.pod_class) for pod in self.pods)
            found = tuple((node, of, pods) for (node, of), pods in rooms.items())
            parts = tuple((pod.node, pod.cards.divided) for pod in self.pods if pod.cards.parts)
            self._expected = ExpectedEnd(self.gang.uid, self.gang.queue, self.ends, found, parts)
        return self._expected


class Books:
    """The nodes and queues of a walk, and the pods that rules about pods select."""

    def __init__(self, view: View) -> None:
        self.nodes = thawed(view.nodes)
        self._queues = view.queues
        self._used = {name: dict(state.used) for name, state in view.queues.items()}
        self._counts_cards = any(CARDS in state.spec.quota for state in view.queues.values())
        self._near: dict[_Key, Counter[str]] | None = None
        self._others: tuple[Neighbours, ...] = ()
        if view.neighbours or any(one.pod_class.rules is not None for gang in view.gangs for one in gang.waiting):
            self._near = {}
            self._others = tuple(one for one in view.neighbours if one.leaving)
            for one in view.neighbours:
                if not one.leaving:
                    key = (one.namespace, one.labels, one.apart, one.preferred_terms)
                    self._near.setdefault(key, Counter()).update(dict(one.nodes))

    def queues(self) -> dict[str, QueueState]:
        """The queues with what they use now."""
        return {
            name: QueueState(state.spec, dict(self._used[name]), state.draining) for name, state in self._queues.items()
        }

    def neighbours(self) -> tuple[Neighbours, ...]:
        """The pods that have a place, where rules about pods are asked."""
        if self._near is None:
            return ()
        return self._others + tuple(
            Neighbours(namespace, labels, tuple(sorted((+nodes).items())), apart, preferred)
            for (namespace, labels, apart, preferred), nodes in self._near.items()
            if +nodes
        )

    def take(self, place: Place, member: Member, one: Assignment) -> None:
        """The member has this place now."""
        self._charge(place.gang.queue, member, one.node, one.grant, 1)
        place.members.append(member)
        place.pods.append(RunningPod(member.uid, member.name, member.role, member.pod_class, one.node, one.grant))
        place.changed()

    def give_back(self, place: Place, pods: Iterable[str]) -> list[Member]:
        """Members with these UIDs hold their places no longer; returns them."""
        going = set(pods)
        gone = []
        for member, pod in zip(place.members, place.pods, strict=True):
            if pod.uid in going:
                gone.append(member)
                self._charge(place.gang.queue, member, pod.node, pod.cards, -1)
        place.members = [member for member in place.members if member.uid not in going]
        place.pods = [pod for pod in place.pods if pod.uid not in going]
        place.changed()
        return gone

    def _charge(self, queue: str, member: Member, node: str, cards: CardGrant, sign: int) -> None:
        of = member.pod_class
        if node in self.nodes:
            change = self.nodes.charge if sign > 0 else self.nodes.discharge
            change(self.nodes.row(node), of, cards)
        used = self._used.get(queue)
        if used is not None:
            for resource, amount in of.requests:
                used[resource] = used.get(resource, 0) + sign * amount
            if self._counts_cards:
                facts = self.nodes.facts(node) if node in self.nodes else None
                used[CARDS] = used.get(CARDS, 0) + sign * held(of, facts, cards)
        if self._near is not None:
            nodes = self._near.setdefault(_key(member), Counter())
            nodes[node] = max(0, nodes[node] + sign)


def thawed(nodes: FrozenNodes) -> NodeTable:
    """A live table that is as these nodes are."""
    found, static = NodeTable(), nodes.static
    for row, facts in enumerate(static.facts):
        at = found.upsert(facts)
        found.generation[at] = static.generation[row]
        used = {name: int(nodes.used[column, row]) for column, name in enumerate(static.resources)}
        requests = tuple((name, amount) for name, amount in used.items() if amount)
        ports = nodes.ports.get(facts.name, ())
        found.charge(at, PodClass(requests, host_ports=ports), static.cards.grant(nodes.cards_used, row))
        found.restore(facts.name, nodes.volumes.get(facts.name, {}))
    return found


def by_gang(assignments: Sequence[Assignment]) -> Mapping[str, list[Assignment]]:
    """What a plan decided, by UID of the gang, in its order."""
    found: dict[str, list[Assignment]] = {}
    for one in assignments:
        found.setdefault(one.gang, []).append(one)
    return found


def _key(member: Member) -> _Key:
    rules = member.pod_class.rules
    apart = rules.apart if rules is not None else ()
    preferred = rules.prefer_pods if rules is not None else ()
    return member.namespace, member.labels, apart, preferred
