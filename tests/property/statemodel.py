"""What the scheduler's state must say of a `World`, worked out anew from its objects each time.

Nothing here is kept event by event but what only events tell: since when a group has run, and whether its places were
taken away on purpose. Whatever the state keeps up to date must be what a look at everything finds.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import combinations
from typing import Any

from t9ksched.kube.write.eviction import OTHERS
from t9ksched.model import names
from t9ksched.model.gang import Gang
from t9ksched.model.pod import decode_pod
from t9ksched.model.podgroup import PodGroupSpec
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.state.gang_snapshot import built
from t9ksched.scheduler.state.objects import nanoseconds, natural
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.scheduler.state.sharing import Sharing
from t9ksched.store.acceptances import Acceptance
from tests.property.accessrules import Asks, Word
from tests.property.statecycle import is_ours
from tests.property.stateobjects import ENDED, GPU, KINDS
from tests.property.statetold import Told
from tests.property.stateworld import World

PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")


def annotations(raw: dict[str, Any]) -> dict[str, str]:
    return raw["metadata"].get("annotations") or {}


def controller(raw: dict[str, Any]) -> dict[str, Any]:
    """Its controlling owner, empty without one."""
    return next(iter(raw.get("ownerReferences") or ()), {})


def title(raw: dict[str, Any]) -> str:
    """Its controlling owner for people, empty without one."""
    owner = controller(raw)
    return f"{owner['kind']}/{owner['name']}" if owner else ""


class Model:
    """Follows one world. `ran` and `displaced` are of groups, by what `_identity` says."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._state: Any = None
        self.ran: dict[GangRecord, tuple[str, bool]] = {}
        self.began_with: dict[GangRecord, tuple[int, dict[str, int]]] = {}
        """The minimum with which a group began, in all and by role, as it was seen or stands in SQL."""
        self.leaving: dict[GangRecord, set[str]] = {}
        """Members that had places when those of the whole group were taken away."""
        self._told = Told(world)

    def check(self) -> None:
        """Everything, once the state has settled."""
        if self._state is not self.world.state:
            self._state = self.world.state
            self._bypassing = self._state.feed.bypassing.follow()
            self.ran.clear()
            self.began_with.clear()
            self.leaving.clear()
            self._told = Told(self.world)
        for _ in self._state.changes.settling():
            pass
        self.pods()
        self.members()
        self.groups()
        self.numbers()
        self.charges()
        self.lists()
        self._told.check()

    # Pods, one by one

    def place(self, uid: str) -> str:
        """Where a pod is, or is decided to be."""
        return self.world.pods[uid]["spec"].get("nodeName") or self.world.assumed.get(uid, "")

    def holds(self, uid: str) -> bool:
        """Whether a pod takes room."""
        raw = self.world.pods[uid]
        return bool(self.place(uid)) and raw["status"]["phase"] not in ENDED and uid not in self.broken

    def waits(self, uid: str) -> bool:
        raw = self.world.pods[uid]
        ended = raw["status"]["phase"] in ENDED or "deletionTimestamp" in raw["metadata"]
        return not ended and not self.place(uid)

    def pods(self) -> None:
        state, world = self._state, self.world
        self.broken = {uid for uid, record in state.pods.items() if record.pod_class is None}
        assert state.pods.keys() == world.pods.keys()
        for uid, raw in world.pods.items():
            self._pod(state.pods[uid], raw)

    def _pod(self, record: PodRecord, raw: dict[str, Any]) -> None:
        meta, spec, status = raw["metadata"], raw["spec"], raw["status"]
        first, ours, state = self.world.seen[record.uid], is_ours(raw), self._state
        agreed = state.acceptances.get(record.uid)
        alone = agreed is not None and agreed.by_itself and ours
        owner = None if alone else controller(first).get("uid")
        pod = decode_pod(raw)
        assert (record.namespace, record.name, record.ours) == (meta["namespace"], meta["name"], ours)
        says = (meta.get("labels") or {}).get(names.ROLE_LABEL, "")
        assert record.role == (first["role"] if self.place(record.uid) else says)
        assert record.claimed_by == ("" if owner else title(meta))
        assert record.labels == (meta.get("labels") or {})
        assert (record.phase, record.node) == (status["phase"], spec.get("nodeName", ""))
        assert record.assumed == self.world.assumed.get(record.uid, "")
        assert record.deleting == ("deletionTimestamp" in meta)
        assert record.created == nanoseconds(meta.get("creationTimestamp", ""))
        assert record.started == nanoseconds(status.get("startTime", ""))
        assert (record.owner and record.owner.uid) == owner
        assert record.orphaned == (owner is not None and not meta.get("ownerReferences"))
        assert record.asks.limit == annotations(raw).get(names.TIME_LIMIT_ANNOTATION, "")
        assert record.asks.start == annotations(raw).get(names.START_AFTER_ANNOTATION, "")
        assert record.active_deadline == spec.get("activeDeadlineSeconds")
        assert record.system == (spec.get("priority", 0) >= 2_000_000_000)
        assert record.evicted == (pod.disruption not in OTHERS)
        assert len(record.gates) == bool(ours and not spec.get("nodeName") and spec.get("schedulingGates"))
        requests = spec["containers"][0]["resources"]["requests"]
        assert (record.pod_class is None) == (requests.get("cpu") == "one")
        if record.pod_class is None:
            assert record.unbound[-1].code == "InvalidPod"
        else:
            assert record.template is not None
            if not (record.assumed or record.node or record.finished):
                meaning = state.storage.claimants.meaning(record)
                assert (record.unbound, record.to_bind) == (meaning.reasons, meaning.unbound)
                own = Sharing().meaning_of(pod.spec, "ns", first.get("labels", {}))[0]
                assert record.pod_class == meaning.on(own)
            cards = {GPU: int(requests[GPU])} if GPU in requests else {}
            assert record.template.requests == {"cpu": 1000 * int(requests["cpu"])} | cards
        if ours and record.phase in ENDED:
            assert record.ended == nanoseconds(pod.status.ended_at)
        if ours:
            ending = pod.status.ending
            assert record.ending == (ending.how + ending.last_words if record.phase == "Failed" else "")
        assert state.pod_named("ns", record.name) is record
        there = bool(record.node) and record.phase not in ENDED
        assert state.holds_a_place("ns", record.name) == there

    # Groups

    def members(self) -> None:
        """Each pod is a member where it belongs, or a stranger."""
        state = self._state
        for uid, record in state.pods.items():
            group = self._of(uid)["group"]
            if not record.ours:
                assert record.gang is record.outside is None
                continue
            if not group:
                self._alone(record)
                continue
            gang = state.gangs.get(("ns", group))
            member = gang is not None and gang.members.get(uid) is record
            assert member == (record.gang is gang and gang is not None)
            stranger = gang is not None and record in state.membership.strangers(gang)
            assert member != stranger
            assert (record.outside is gang) == stranger
            if record.node:
                assert member, "what has a place is a member"
            elif record.waiting:
                assert stranger == (self._why_not(record, gang) is not None)
            if stranger:
                assert record.unpermitted == (self._why_not(record, gang),) or not record.waiting
                assert record.gang is None or (record.gang.virtual and record.gang.kept_out is not None)

    def _of(self, uid: str) -> dict[str, str]:
        """Group and queue of a pod: those with which it got its place, while it has one."""
        return self.world.seen[uid] if self.place(uid) else self.world.says(uid)

    def _why_not(self, record: PodRecord, gang: GangRecord) -> Any:
        state, world = self._state, self.world
        if not gang.uid or state.membership.unread():
            return None
        above = {
            uid: (KINDS[uid.partition("-")[0]], controller(raw["metadata"]).get("uid"))
            for uid, raw in world.owners.items()
        }
        word = Word(state.acceptances, above, frozenset({"StatefulSet"}), world.members, {}, world.spaces)
        pod, group = (
            Asks(one.uid, one.owner and one.owner.uid, one.owner.kind if one.owner else "", "ns", one.name)
            for one in (record, gang)
        )
        if word.came_with(pod, group, single=gang.virtual):
            return None
        told = word.stranger(pod, group, state.queues.get(gang.queue))
        return told and Reason(Code(told[0]), told[1], unblocks=told[2])

    def _alone(self, record: PodRecord) -> None:
        gang = record.gang
        assert gang is not None
        assert gang.virtual
        assert gang.uid == record.uid
        assert gang.members == {record.uid: record}
        assert gang is self._state.gangs["", record.uid] is self._state.gangs_by_uid[record.uid]
        first = self.world.seen[record.uid]
        asked = self._of(record.uid)["asked"]
        if gang.acceptance is None and not gang.agreed:
            assert gang.queue == (first["queue"] or asked)
        assert gang.spec.queue in (asked, first["queue"])
        assert (gang.spec.min_member, gang.created, gang.owner) == (1, record.created, record.owner)

    def groups(self) -> None:
        state, world = self._state, self.world
        expected = {("ns", name) for name in world.groups}
        for gang in state.gangs.values():
            key = ("", gang.uid) if gang.virtual else (gang.namespace, gang.name)
            assert state.gangs[key] is gang
            assert key in expected or gang.members, "a group that nothing is left of"
            assert state.gangs_by_uid.get(gang.uid) is (gang if gang.uid else None)
            if gang.owner is not None:
                assert gang in state.gangs_of_owner(gang.owner.uid)
                assert state.knows(gang.owner.uid)
            assert not gang.uid or state.knows(gang.uid)
            if not gang.virtual:
                self._group(gang, world.groups.get(gang.name))
            self._counts(gang)
        assert expected <= state.gangs.keys()
        assert len(state.gangs_by_uid) == sum(bool(gang.uid) for gang in state.gangs.values())
        for uid, gangs in state._by_owner.items():
            assert gangs, uid
            assert all(gang in state.gangs.values() for gang in gangs), uid

    def _group(self, gang: GangRecord, raw: dict[str, Any] | None) -> None:
        if raw is None:
            assert gang.uid == ""
            assert gang.acceptance is None
            return
        meta = raw["metadata"]
        assert (gang.uid, gang.created) == (meta["uid"], nanoseconds(meta["creationTimestamp"]))
        domains = annotations(raw).get(names.TOPOLOGY_KEY_ANNOTATION, "")
        keys = [key.strip() for key in domains.split(",")]
        assert gang.levels == (tuple(key for key in keys if key) or ("kubernetes.io/hostname",))
        assert gang.asks.limit == annotations(raw).get(names.TIME_LIMIT_ANNOTATION, "")
        assert gang.asks.start == annotations(raw).get(names.START_AFTER_ANNOTATION, "")
        alone = self._state.acceptances.get(gang.uid)
        owner = None if alone is not None and alone.by_itself else controller(meta).get("uid")
        assert (gang.owner and gang.owner.uid) == owner
        assert gang.claimed_by == ("" if owner else title(meta))
        assert bool(gang.spec_faults) == (raw["spec"]["minMember"] == 0 or (bool(domains.strip()) and not any(keys)))
        assert gang.spec_faults or gang.spec == PodGroupSpec.parse(raw["spec"])
        assert gang.status == raw["status"]
        agreed = self._state.acceptances.get(gang.uid)
        if agreed is not None and self._pays_elsewhere(gang, agreed):
            assert (gang.acceptance, gang.agreed, gang.queue) == (None, "", gang.kept)
            return
        assert (gang.acceptance is None) == (agreed is None)
        if agreed is not None and agreed.queue:
            assert gang.acceptance is not None
            assert gang.acceptance.queue == agreed.queue == gang.queue
        assert ("deletionTimestamp" not in meta) or gang.uid in self._state.deleted

    @staticmethod
    def _pays_elsewhere(gang: GangRecord, agreed: Acceptance) -> bool:
        """Whether a member got its place in an earlier group of the name, in another queue than the recorded one."""
        those = [pod for pod in gang.members.values() if (pod.node or pod.assumed) and pod.phase not in ENDED]
        here = {"", gang.uid}
        earlier = gang.owner is None and any(pod.placed_in not in here for pod in those)
        return earlier and bool(gang.kept and agreed.queue) and agreed.queue != gang.kept

    def _counts(self, gang: GangRecord) -> None:
        """What a group says of itself, counted anew."""
        pods = {uid: self.world.pods[uid] for uid in gang.members}
        going = {uid for uid, raw in pods.items() if "deletionTimestamp" in raw["metadata"]}
        phase = {uid: raw["status"]["phase"] for uid, raw in pods.items()}
        placed = {
            uid
            for uid in pods.keys() - going
            if phase[uid] == "Succeeded" or (phase[uid] != "Failed" and self.place(uid))
        }
        living = {uid for uid in pods.keys() - going if phase[uid] != "Failed"}
        run = {uid for uid in pods.keys() - going if phase[uid] in ("Running", "Succeeded")}
        bound = placed - self.world.assumed.keys()
        holding = {uid for uid in pods.keys() - going if pods[uid]["spec"].get("nodeName") and phase[uid] not in ENDED}
        assert gang.placed_count() == len(placed)
        assert {pod.uid for pod in gang.living()} == living
        self._since(gang, bound, placed)
        assert gang.complete() == self._enough(gang, placed)
        assert gang.complete(bound=True) == self._enough(gang, bound)
        assert gang.gathered() == self._enough(gang, living)
        assert gang.runs() == self._enough(gang, run)
        some = set(self.world.rng.sample(sorted(pods), min(1, len(pods))))
        assert gang.runs(some) == self._enough(gang, run - some)
        assert gang.in_part() == (bool(holding) and not self._enough(gang, placed))
        assert gang.in_part(some) == (bool(holding) and not self._enough(gang, placed - some))
        waiting = any(self.waits(uid) for uid in pods)
        state = self._state
        assert (gang in state.pending) == waiting
        if not gang.virtual:
            assert (gang in state.partial) == bool(gang.uid and holding and not gang.complete())
        unnoted = gang.acceptance is None or not (gang.noted or (gang.virtual and gang.owner is None))
        assert gang.unnoted == unnoted
        assert waiting or (gang.reasons, gang.position) == ((), None)
        if not gang.stale:
            assert gang._snapshot == built(gang), "a group changed, and the engine is told what it was"
        self._snapshot(gang, living, placed, holding)

    def _since(self, gang: GangRecord, bound: set[str], placed: set[str]) -> None:
        """Whether it has run, which only events tell."""
        uid, ran = self.ran.get(gang, ("", False))
        if uid != gang.uid:
            going = any(pod.evicted and pod.deleting for pod in gang.members.values())
            assert not gang.displaced or going or not gang.uid, "another group of that name was evicted"
            assert not gang.noted or placed or not gang.uid, "another group of that name had started"
            conditions = {one["type"]: one["status"] for one in gang.status.get("conditions", ())}
            if gang.uid:  # of one that is gone nothing else is known than before
                self.began_with.pop(gang, None)
                row = self._state.acceptances.get(gang.uid)
                known = conditions.get("GroupScheduled") == "True" or (row is not None and bool(row.began_with))
                ran = known and conditions.get("Evicted") != "True"
        if self.world.log[-1:] in (["start_again"], ["limit_reached"]) and gang.uid in self.world.back - {""}:
            ran = False
            self.leaving[gang] = {uid for uid in gang.members if self.world.pods[uid]["spec"].get("nodeName")}
        if not ran:
            spec = gang.spec
            self.began_with.pop(gang, None)
            ran = bool(gang.uid and self._enough(gang, bound) and (gang.virtual or not self._leaves(gang)))
            if ran and not gang.virtual:
                self.began_with[gang] = max(spec.min_member, sum(least for _, least in spec.roles)), dict(spec.roles)
            elif not ran and not gang.displaced and (left := self._left_running(gang)):
                ran, self.began_with[gang] = True, (left.total(), dict(left))
        elif gang not in self.began_with and (row := self._state.acceptances.get(gang.uid)) and row.began_with:
            self.began_with[gang] = row.began_with, row.began_roles
        self.ran[gang] = gang.uid, ran
        assert gang.ran == ran or not gang.uid, gang.key
        assert not (gang.complete() and gang.fell)
        assert placed or gang.virtual or not gang.first_bound, gang.key

    def _snapshot(self, gang: GangRecord, living: set[str], placed: set[str], holding: set[str]) -> None:
        made: Gang | None = built(gang)
        waiting = sorted((uid for uid in gang.members if self.waits(uid)), key=self._natural)
        assert (made is None) == (not waiting and not gang.lost)
        if made is None:
            return
        roles = {uid: gang.members[uid].role for uid in gang.members}
        able = [uid for uid in waiting if not gang.members[uid].blocked and uid not in self.broken]
        assert [one.uid for one in made.waiting] == able
        for one in made.waiting:
            assert (one.role, one.name) == (roles[one.uid], f"ns/{gang.members[one.uid].name}")
            assert set(one.pod_class.avoided) == set(gang.avoid)
            assert one.pod_class.unrecorded == bool(gang.unrecorded and one.pod_class.cards)
        why = {(one.code, one.message) for uid in waiting for one in gang.members[uid].blocked}
        if never := {(one.code, one.message) for one in made.blocked if one.code == Code.NEVER_FITS}:
            assert not self._may_run_together(gang, living)
            why = {one for one in why if "in use by another pod" not in one[1]} | never
        assert sorted((one.code, one.message) for one in made.blocked) == sorted(why)
        assert dict(made.placed) == Counter(roles[uid] for uid in placed)
        assert (made.total, dict(made.total_roles)) == (len(living), Counter(roles[uid] for uid in living))
        held = bool(holding) or any(uid in self.world.assumed for uid in gang.members)
        assert made.refilling == (not gang.displaced and (held or gang.lost))
        assert (made.uid, made.name, made.queue, made.ran) == (gang.uid, gang.key, gang.queue, gang.ran)
        assert (made.min_member, made.roles, made.created) == (*self._least(gang), gang.created)
        assert made.accepted == (gang.acceptance is not None)
        control = gang.control.priority if gang.control else None
        agreed = gang.acceptance.priority if gang.acceptance else gang.spec.priority
        assert made.priority == (agreed if control is None else control)
        where = {self.place(uid) for uid in living if self.world.pods[uid]["status"]["phase"] not in ENDED} - {""}
        assert made.nodes == (tuple(sorted(where)) if gang.spec.topology_policy != "None" else ())
        assert (made.topology, made.levels) == (gang.spec.topology_policy, gang.levels)

    def _may_run_together(self, gang: GangRecord, living: set[str]) -> bool:
        """Whether some of the members are the minimum and share no claim that one pod at a time may use."""
        for count in range(len(living) + 1):
            for some in combinations(living, count):
                claims = [claim for uid in some for claim in gang.members[uid].exclusive]
                if len(claims) == len(set(claims)) and self._enough(gang, set(some)):
                    return True
        return False

    def _natural(self, uid: str) -> Any:
        return natural(self._state.pods[uid].name)

    def written(self) -> None:
        """What a scheduler that starts now would read of groups that run, once everything is written."""
        self._state.accept_running(self.world.now)
        self.world.sql()
        for gang, (members, roles) in self.began_with.items():
            row = self.world.acceptances.get(gang.uid)
            if row is not None and not self._state.outage.unread and gang.acceptance is not None:
                assert (row.began_with, row.began_roles) == (members, roles), gang.key

    def _leaves(self, gang: GangRecord) -> bool:
        """Whether members are still there whose places were taken away, which those of an earlier group of the name
        keep unless a scheduler evicts them.
        """
        own = {"", gang.uid, gang.owner.uid if gang.owner else ""}
        those = [gang.members[uid] for uid in self.leaving.get(gang, set()) & gang.members.keys()]
        return any(pod.evicted or pod.placed_in in own for pod in those)

    def _left_running(self, gang: GangRecord) -> Counter[str]:
        """By role, how many members run that were placed in an earlier PodGroup of the name."""
        own = {"", gang.uid, gang.owner.uid if gang.owner else ""}
        run = [pod for pod in gang.members.values() if pod.phase in ("Running", "Succeeded")]
        return Counter(
            pod.role
            for pod in run
            if pod.placed_in not in own and not (pod.evicted or pod.deleting) and gang.uid and not gang.virtual
        )

    def _least(self, gang: GangRecord) -> tuple[int, tuple[tuple[str, int], ...]]:
        """The minimum that counts: one that is known to be raised while the group runs does not."""
        spec, most = gang.spec, 0
        if self.ran.get(gang, ("", False))[1] and gang.ran:
            if gang in self.began_with:
                had, roles = self.began_with[gang]
                return min(had, spec.min_member), tuple(
                    (role, min(least, roles.get(role, 0))) for role, least in spec.roles
                )
            most = gang.acceptance.replicas or 0 if gang.acceptance else 0
        if not most:
            return spec.min_member, spec.roles
        together = sum(least for _, least in spec.roles)
        return (spec.min_member if spec.min_member < most else most), (() if together > most else spec.roles)

    def _enough(self, gang: GangRecord, uids: set[str]) -> bool:
        """Whether these members are the minimum, roles included."""
        members, minima = self._least(gang)
        roles = Counter(gang.members[uid].role for uid in uids)
        return len(uids) >= members and all(roles[role] >= least for role, least in minima)

    # Sums

    def numbers(self) -> None:
        state = self._state
        groups, pods = Counter(gang.queue for gang in state.gangs.values()), defaultdict(Counter)
        for uid, record in state.pods.items():
            if record.gang is not None:
                phase = self.world.pods[uid]["status"]["phase"]
                pods[record.gang.queue][phase if phase in PHASES else "Unknown"] += 1
        assert {queue: count for queue, count in state.counts.groups.items() if count} == groups
        told = {queue: +Counter(phases) for queue, phases in state.counts.pods.items()}
        assert {queue: phases for queue, phases in told.items() if phases} == pods

    def charges(self) -> None:
        state, world = self._state, self.world
        used: dict[str, Counter[str]] = {name: Counter() for name in world.nodes}
        paid: defaultdict[str, Counter[str]] = defaultdict(Counter)
        given: Counter[tuple[str, int]] = Counter()
        for uid, record in state.pods.items():
            charge = state.charges.get(uid)
            assert (charge is not None) == self.holds(uid), uid
            if charge is None:
                continue
            assert charge.node == self.place(uid)
            assert charge.queue == (record.gang.queue if record.gang else ""), uid
            amounts = dict(record.pod_class.requests)
            if charge.node in used:
                used[charge.node].update(amounts)
            if charge.queue:
                paid[charge.queue].update(amounts)
            row = world.rows.get(uid)
            if record.ours:
                expected = dict(row.grant.masks) if row is not None and row.node == charge.node else {}
                assert dict(charge.cards.masks) == dict(expected), uid
                assert not expected or charge.sure == row.honoured
                if expected and charge.sure and record.node:
                    self._card_notes(record, dict(charge.cards.masks))
                given.update((charge.node, card) for card in range(4) if charge.cards.has(GPU, card))
        assert set(given.values()) <= {1}, "a card is given twice"
        assert state.nodes.names == sorted(world.nodes) or set(state.nodes.names) == set(world.nodes)
        for name, amounts in used.items():
            assert state.nodes.used(name) == dict(amounts), name
        told = {queue: +Counter(amounts) for queue, amounts in state.charges.queue_used.items()}
        assert {queue: amounts for queue, amounts in told.items() if amounts} == paid

    def _card_notes(self, record: PodRecord, cards: Mapping[str, int]) -> None:
        """A bound pod whose annotations say other cards than are on record is told of, and no other."""
        notes = annotations(self.world.pods[record.uid])
        held = [str(card) for card in range(64) if sum(cards.values()) >> card & 1]
        said = [text for key, text in notes.items() if key.startswith(names.GPU_INDEX_PREFIX)]
        told, differs = record.uid in self._state.cards.drifting, said != [",".join(held)]
        assert differs or not told, (record.uid, said, held)
        assert told or not (differs and record.uid in self.world.compared), (record.uid, said, held)

    def lists(self) -> None:
        """What is kept beside: holds, pods that were put on nodes by their creators, objects being deleted."""
        state, world = self._state, self.world
        world.views.places()
        for uid, hold in state.reservations.refused.items():
            assert state.pods[uid].waiting
            assert hold.node in state.nodes
            assert hold.owner == state.pods[uid].gang.uid
        put: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for uid, raw in world.pods.items():
            owner = controller(world.seen[uid]).get("uid")
            if not is_ours(raw) and raw["spec"]["schedulerName"] == names.SCHEDULER_NAME and owner:
                put[owner][uid] = raw["spec"]["nodeName"]
        assert state.put_there == put
        assert {uid for *_, uid, _ in self._bypassing.take() if uid in world.pods} <= {
            uid for uid, raw in world.pods.items() if not is_ours(raw)
        }
        objects = {group["metadata"]["uid"] for group in world.groups.values()} | state._by_owner.keys()
        assert state.deleted <= objects | state.jobs.keys(), "nothing is kept of what is gone"
        owners = {uid for uid, raw in world.owners.items() if "deletionTimestamp" in raw["metadata"]}
        assert owners <= state.deleted
