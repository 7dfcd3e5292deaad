"""Takes the present of the live cluster: the view of a cycle, and which groups hold what until when.

Tables are copied in the moment of the view, in well under a millisecond a thousand pods; what they say is gathered
afterwards, in slices. Nothing of the state is changed.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgspec
from msgspec import structs

from t9ksched.engine.policy import Policy
from t9ksched.engine.view import View
from t9ksched.model.gang import Gang, Neighbours, RunningPod
from t9ksched.model.reasons import Code
from t9ksched.scheduler.decide.loop import Loop
from t9ksched.scheduler.decide.standstill import stopped
from t9ksched.scheduler.state.charges import Charge
from t9ksched.scheduler.state.enforced_ends import EnforcedEnds
from t9ksched.scheduler.state.objects import natural
from t9ksched.scheduler.state.pod_affinity_index import own_labels
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.simulation.present import Occupant, Present, members
from t9ksched.store.job_overrides import SCHEDULING

_SECOND: Final = 1_000_000_000
_A_SLICE: Final = 100
"""Pods that are looked at before other tasks run, about a millisecond."""
_LONGEST_WAIT: Final = 5.0
"""Seconds for a cycle to begin."""


class NoCycle(Exception):
    """The scheduling loop did not begin a cycle in time."""


class _Moment(msgspec.Struct):
    """The view of a cycle, and the state's tables at that time."""

    view: View
    policy: Policy
    now: int
    gangs: list[GangRecord]
    pods: dict[str, PodRecord]
    charges: dict[str, Charge]
    pauses: bool


async def capture(state: ClusterState, loop: Loop, *, rules: bool) -> Present:
    """The present, as of a cycle that begins now. With `rules` something is to be submitted that has rules about other
    pods: then their labels are told, too.

    Raises:
        NoCycle: no cycle began in time.
    """
    moment = await _moment(state, loop)
    view, policy = moment.view, moment.policy
    rules = rules or bool(view.neighbours) or any(one.labels for gang in view.gangs for one in gang.waiting)
    ends = state.enforced_ends
    temporary = ends is None
    if ends is None:
        ends = EnforcedEnds(state, policy.start_timeout_seconds, policy.preemption.max_grace_seconds)
    try:
        if temporary:
            await _look_ahead(ends, moment.now)
        later = _later(moment, state, ends)
        gangs = await _waiting(moment, state, ends if temporary else None, later, rules=rules)
        occupants = await _occupants(moment, state, ends, rules=rules)
    finally:
        if temporary:
            ends.close()
    neighbours = await _neighbours(moment) if rules else ()
    stop = next((one for one in state.stops if one.what == SCHEDULING), None)
    return Present(
        at=moment.now,
        view=replace(
            view,
            gangs=gangs,
            running=(),
            expected_ends=(),
            neighbours=neighbours,
            namespaces={name: dict(labels) for name, labels in state.namespaces.labels.items()} if rules else {},
        ),
        policy=policy,
        occupants=occupants,
        stopped=stopped(state.stops) if moment.pauses else None,
        later={uid: at for uid, (at, _) in later.items()},
        resumes=int(stop.until.timestamp() * _SECOND) if moment.pauses and stop and stop.until else 0,
    )


async def _moment(state: ClusterState, loop: Loop) -> _Moment:
    found: asyncio.Future[_Moment] = asyncio.get_running_loop().create_future()

    def look(view: View, policy: Policy, now: int) -> None:
        if not found.done():
            gangs, pods, charges = list(state.gangs.values()), dict(state.pods), state.charges.all()
            found.set_result(_Moment(view, policy, now, gangs, pods, charges, loop.paused))

    loop.show_next(look)
    try:
        async with asyncio.timeout(_LONGEST_WAIT):
            return await found
    except TimeoutError:
        raise NoCycle("the scheduler is busy: it began no cycle within five seconds") from None


async def _look_ahead(ends: EnforcedEnds, now: int) -> None:
    """Find when running groups end, for a policy that plans no starts and follows no ends."""
    for _ in ends.follow(now):
        await asyncio.sleep(0)


def _later(moment: _Moment, state: ClusterState, ends: EnforcedEnds) -> dict[str, tuple[int, Gang]]:
    """Groups that ask for a start after a moment to come, with that moment."""
    found = {}
    for record in moment.gangs:
        early = record.start_after > moment.now and any(
            reason.code == Code.START_TIME_NOT_REACHED for reason in record.reasons
        )
        if early and record.uid and (gang := record.snapshot()) is not None:
            user = state.permissions.submitter(record) or ""
            found[record.uid] = record.start_after, structs.replace(gang, lasts=ends.lasts(record), user=user)
    return found


async def _waiting(
    moment: _Moment,
    state: ClusterState,
    ends: EnforcedEnds | None,
    later: Mapping[str, tuple[int, Gang]],
    *,
    rules: bool,
) -> tuple[Gang, ...]:
    """The groups that wait, with all that a walk asks of them. `ends` says how long they last; None where the view does
    so.
    """
    found = []
    known = {gang.uid for gang in moment.view.gangs}
    for nth, gang in enumerate((*moment.view.gangs, *(gang for uid, (_, gang) in later.items() if uid not in known))):
        one = gang
        record = state.gangs_by_uid.get(gang.uid)
        if ends is not None and record is not None:
            one = structs.replace(one, lasts=ends.lasts(record), user=state.permissions.submitter(record) or "")
        if rules and not any(member.labels for member in one.waiting):
            labelled = [(member, moment.pods.get(member.uid)) for member in one.waiting]
            waiting = (structs.replace(member, labels=own_labels(pod)) if pod else member for member, pod in labelled)
            one = structs.replace(one, waiting=tuple(waiting))
        found.append(one)
        if nth % _A_SLICE == _A_SLICE - 1:
            await asyncio.sleep(0)
    return tuple(found)


async def _occupants(moment: _Moment, state: ClusterState, ends: EnforcedEnds, *, rules: bool) -> tuple[Occupant, ...]:
    known = {one.uid: one for one in moment.view.running}
    preempts = "preempt" in moment.policy.actions
    found = []
    looked = 0
    for record in moment.gangs:
        holding = [pod for pod in record.members.values() if pod.uid in moment.charges and not record.inherited(pod)]
        looked += 1 + len(holding)
        if holding and (one := _occupant(record, holding, moment, state, ends, rules=rules)) is not None:
            running = known.get(record.uid)
            if running is not None:
                one = structs.replace(one, evictions=running.evictions, guarded=running.guarded)
            elif preempts:
                one = structs.replace(one, evictable=False)
            found.append(one)
        if looked >= _A_SLICE:
            looked = 0
            await asyncio.sleep(0)
    return tuple(found)


def _occupant(
    record: GangRecord,
    holding: list[PodRecord],
    moment: _Moment,
    state: ClusterState,
    ends: EnforcedEnds,
    *,
    rules: bool,
) -> Occupant | None:
    holding.sort(key=lambda pod: natural(pod.name))
    pods, labels = [], []
    for pod in holding:
        charge = moment.charges[pod.uid]
        leaving = pod.deleting
        pods.append(
            RunningPod(pod.uid, pod.key, pod.role, charge.pod_class, charge.node, charge.cards, leaving, leaving)
        )
        labels.append(own_labels(pod) if rules else ())
    succeeded = Counter(pod.role for pod in record.members.values() if pod.phase == "Succeeded")
    living = Counter(pod.role for pod in record.living())
    uid = record.uid or record.key
    gang = Gang(
        uid=uid,
        name=record.key,
        queue=record.queue,
        priority=record.priority,
        created=record.created,
        min_member=record.minimum.members,
        roles=record.minimum.roles,
        waiting=members(pods, labels),
        placed=tuple(sorted(succeeded.items())),
        total=sum(living.values()),
        total_roles=tuple(sorted(living.items())),
        ran=record.ran,
        accepted=True,
        topology=record.spec.topology_policy,
        levels=record.levels,
        lasts=ends.lasts(record),
        user=state.permissions.submitter(record) or "",
    )
    started = [pod.started for pod in holding if pod.started]
    return Occupant(
        gang,
        tuple(pods),
        started=min(started, default=record.first_bound or moment.now),
        ends=ends.end_of(record) or 0,
        grace=max(pod.grace for pod in holding) * _SECOND,
        evictable=bool(record.uid and record.acceptance) and not any(pod.assumed for pod in holding),
        remade=_remade(record, holding, state),
    )


def _remade(record: GangRecord, holding: list[PodRecord], state: ClusterState) -> bool:
    """Whether pods of the group that are lost are made again."""
    owner = holding[0].owner
    if owner is None or owner.uid in state.deleted:
        return False
    job = state.jobs.get(owner.uid)
    return job is None or job.wants_pods


async def _neighbours(moment: _Moment) -> tuple[Neighbours, ...]:
    """All pods that have a place, whichever scheduler gave it to them."""
    groups: defaultdict[object, Counter[str]] = defaultdict(Counter)
    heads: dict[object, Neighbours] = {}
    for nth, pod in enumerate(moment.pods.values()):
        if (place := pod.node or pod.assumed) and not pod.finished:
            one = _neighbour(pod)
            key = (one.namespace, one.labels, one.apart, one.preferred_terms, one.leaving)
            heads.setdefault(key, one)
            groups[key][place] += 1
        if nth % _A_SLICE == _A_SLICE - 1:
            await asyncio.sleep(0)
    return tuple(structs.replace(heads[key], nodes=tuple(sorted(nodes.items()))) for key, nodes in groups.items())


def _neighbour(pod: PodRecord) -> Neighbours:
    rules = pod.pod_class.rules if pod.pod_class is not None else None
    return Neighbours(
        pod.namespace,
        own_labels(pod),
        (),
        rules.apart if rules is not None else (),
        rules.prefer_pods if rules is not None else (),
        pod.deleting,
    )
