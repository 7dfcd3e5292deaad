"""Records the history of each gang: why it waits, that it was placed, how it was ended.

The newest reasons are in memory. A row in SQL and an event are written when the code of the reason changes, not when a
number in it does. The latest state of each job is written by `job_recorder.py`, at most once a second.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final

from msgspec import structs

from t9ksched.engine.plan import Waiting
from t9ksched.kube.write.dialects.table import dialect_of
from t9ksched.model import names
from t9ksched.model.card_worth import held
from t9ksched.model.cards import NO_CARDS
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.report.cards_told import model_of, of_models, physical
from t9ksched.scheduler.report.event_writer import EventWriter
from t9ksched.scheduler.report.job_recorder import SLICE, JobRecorder, moment
from t9ksched.scheduler.report.job_shape import Json
from t9ksched.scheduler.report.node_recorder import NodeRecorder
from t9ksched.scheduler.report.observed_job import identity
from t9ksched.scheduler.report.sql_writer import SqlWriter
from t9ksched.scheduler.report.warnings import Warnings
from t9ksched.scheduler.state import objects
from t9ksched.scheduler.state.node_backoff import TurnedAway
from t9ksched.scheduler.state.progress import of_a_kind
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store import history
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.history import Event
from t9ksched.store.usage import Holder

JOB_PERIOD: Final = 1.0
_A_WHILE: Final = 5_000_000_000
"""Nanoseconds; what was longer ago is told with the time that the nodes say, in whole seconds."""
_ACCEPTING_PAUSE: Final = 0.02
_NOTHING: Final[Mapping[str, int]] = MappingProxyType({})
_POD: Final = "Pod"
_REFUSALS: Final = frozenset({str(Code.NOT_PERMITTED), str(Code.SUBMITTER_UNKNOWN)})
"""Reasons of the last gate: the group is not waiting for room."""


class HistoryRecorder:
    """Writes to SQL and to events. `clock` gives nanoseconds since the epoch."""

    def __init__(
        self, state: ClusterState, sql_writer: SqlWriter, events: EventWriter, clock: Callable[[], int]
    ) -> None:
        self._state = state
        self._sql_writer = sql_writer
        self._events = events
        self._clock = clock
        self.jobs = JobRecorder(state, sql_writer, events, clock)
        self.nodes = NodeRecorder(state, sql_writer, clock)
        self._warnings = Warnings(state, events)
        self._accepted = state.feed.acceptances.follow()
        self._owners = state.feed.owners.follow()
        self._ended = state.feed.ended.follow()
        self._unsaid: dict[str, tuple[str, set[str]]] = {}
        """Of gangs with pods that take turns on their nodes: what is said once these, by name, are bound."""
        self._released_before: set[str] = set()
        """UIDs of pods of which it was told at the start that they released their cards."""
        self.begun = asyncio.Event()
        """Set once what history says was taken in: until then nobody knows what was told."""
        self.first: Callable[[], Awaitable[None]] | None = None
        """Tells what must be told before anything else of jobs that end."""
        self._told: dict[str, tuple[Reason, ...]] = {}
        """What was recorded last about gangs that wait."""
        self._work = asyncio.Event()

    def wake(self) -> None:
        """Something about a job changed."""
        self._work.set()

    def waits(self, uid: str, reasons: tuple[Reason, ...], position: int | None, now: int) -> None:
        """A gang waits, for these reasons, at this place of its queue."""
        gang = self._state.gangs_by_uid.get(uid)
        if gang is None:
            return
        told, before = self._told.get(uid), gang.reasons
        if told is reasons is before and gang.position == position:
            return  # so it is for nearly all of a hundred thousand that wait
        if not self._state.progress.waits(gang, reasons, position) and told is before:
            self._told[uid] = reasons
            return
        codes = _codes(reasons)
        if codes == {str(Code.GANG_INCOMPLETE)}:
            return  # every job has this reason while its pods are being created; the group's status shows it
        if codes:
            self._told[uid] = reasons
        if codes and (told is None or _codes(told) != codes):
            message = "; ".join(reason.message for reason in reasons)
            refused = codes <= _REFUSALS or any(reason.refused for reason in reasons)
            event = history.REFUSED if refused else history.WAITING
            self._note(event, gang, now, {"codes": sorted(codes), "message": message})
            self._events.gang(gang, names.EVENT_REFUSED if refused else names.EVENT_WAITING, message, warning=refused)

    def other_numbers(self, told: Iterable[Waiting], now: int) -> None:
        """As `waits`, for many gangs of which nothing but numbers should differ from what a plan said before."""
        gangs, known, progress = self._state.gangs_by_uid, self._told, self._state.progress
        for waiting in told:
            uid, reasons = waiting.gang, waiting.reasons
            gang = gangs.get(uid)
            before = gang.reasons if gang is not None else ()
            if gang is not None and before and known.get(uid) is before and of_a_kind(before, reasons):
                progress.other_reasons(gang, reasons, waiting.position or None)
                known[uid] = reasons
            else:
                self.waits(uid, reasons, waiting.position or None, now)

    def accepted(self) -> None:
        """Groups were accepted: record the acceptances of the groups and of their owners in SQL."""
        known = self._state.acceptances
        owners = {uid: known[uid] for uid in self._owners.take() if uid in known}
        others: dict[str, Acceptance] = {}
        for acceptance in self._accepted.take():
            uid = acceptance.uid
            gang = self._state.gangs_by_uid.get(uid)
            if gang is None:
                others[uid] = acceptance
                continue
            detail: Json = {
                "priority": acceptance.priority,
                "group": acceptance.group_name,
                "submitter": acceptance.submitter,
                "permittedBy": acceptance.permitted_by,
            }
            event = self._event(history.ACCEPTED, gang, int(acceptance.accepted_at.timestamp() * 1e9), detail)
            if event.uid == uid and event.kind == _POD:
                self._sql_writer.accepted_pod(owners.pop(uid, acceptance), event)  # it is its own owner
            else:
                self._sql_writer.event(event)
                others[uid] = acceptance
        if others or owners:
            self._sql_writer.accepted(list((others | owners).values()))

    def placed(self, uid: str, now: int) -> None:
        """A gang, or more members of it, got their places."""
        gang = self._state.gangs_by_uid.get(uid)
        if gang is None:
            return
        self._told.pop(uid, None)
        waited = self._state.progress.placed(gang, now)
        if waited is None and not (uid in self._unsaid and gang.complete()):
            return  # the places that it has were said before, or will be said
        nodes: dict[str, int] = {}
        for pod in gang.members.values():
            if pod.placed:
                node = pod.assumed or pod.node
                nodes[node] = nodes.get(node, 0) + 1
        if waited is not None:
            self._note(history.ADMITTED, gang, now, {"nodes": nodes, "waitedSeconds": waited // 1_000_000_000})
        each = sorted(nodes.items()) if len(nodes) > 1 else nodes.items()
        places = ", ".join([f"{node} ×{count}" if count > 1 else node for node, count in each])
        pods = "1 pod" if len(gang.members) == 1 else f"{sum(nodes.values())} pods"
        said = f"{pods} placed on {places}"
        busy = [node for node in nodes if self._in_turn(node)]
        if turns := {pod.name for pod in gang.members.values() if pod.assumed in busy} if busy else set():
            self._unsaid[uid] = said, turns
        else:
            self._unsaid.pop(uid, None)
            self._events.gang(gang, names.EVENT_SCHEDULED, said)

    def placed_before(self, gang: GangRecord, at: int) -> None:
        """A gang had its places from then on, which a former scheduler did not write; nor that it was accepted, if that
        is not on record.
        """
        self._state.gate.accept(gang, at, runs=True)
        self.accepted()
        nodes = Counter(pod.node for pod in gang.members.values() if pod.node)
        waited = max(0, at - gang.created) // 1_000_000_000
        self._note(history.ADMITTED, gang, at, {"nodes": dict(nodes), "waitedSeconds": waited})
        self._state.progress.placed_before(gang, at)

    def _in_turn(self, node: str) -> bool:
        """Whether pods are bound to the node one by one, which may take long."""
        known = self._state.node_objects.get(node)
        return known is not None and dialect_of(known[1]).protocol is not None

    def bound(
        self,
        gang: GangRecord,
        record: PodRecord,
        node: str,
        cards: Mapping[str, Sequence[int]],
        now: int,
    ) -> None:
        """One member is bound.

        Where a node's cards have no indices, history is told their number and how the node hands them out; where they
        are divided, how much of each the pod has.
        """
        if (unsaid := self._unsaid.get(gang.uid)) is not None:
            unsaid[1].discard(record.name)
            if not unsaid[1]:
                del self._unsaid[gang.uid]
                self._events.gang(gang, names.EVENT_SCHEDULED, unsaid[0])
        known = self._state.node_objects.get(node)
        facts = known[1] if known else None
        charge = self._state.charges.get(record.uid)
        pod_class = record.pod_class
        of = charge.pod_class if charge is not None else pod_class
        asked = pod_class.card_counts if pod_class is not None else _NOTHING
        # One that has ended may have had less, of cards that are divided.
        worth = charge.worth if charge is not None else held(of, facts, NO_CARDS) if of and facts else 0
        indexed = facts.cards.counts if facts is not None else asked
        counted: dict[str, int] = {}
        if not asked.keys() <= indexed.keys():
            counted = {name: count for name, count in asked.items() if name not in indexed}
        if facts and facts.part_worths and of is not None:
            counted |= {name: count for name, count in of.requests if name in facts.part_worths}
        detail: Json = {
            "pod": record.name,
            "node": node,
            "cards": dict(cards),
            "model": model_of(facts, charge) if facts and (cards or counted) else None,
        }
        if cards or counted:
            first = pod_class.cards[0].resource if pod_class is not None and pod_class.cards else None
            detail["resource"] = first or min(counted, default=None)
        if counted and facts:
            detail |= {"counted": counted, "mode": facts.mode}
        if worth:
            detail[history.PHYSICAL] = physical(worth)
        if charge is not None and charge.cards.parts:
            if worth and (models := of_models(facts, charge, detail)):
                detail[history.MODELS] = models
            detail["parts"] = [list(structs.astuple(part)) for part in charge.cards.parts]
        if gang.acceptance is not None and _has_no_past(gang, record):
            detail["submitter"] = gang.acceptance.submitter
        self._note(history.BOUND, gang, now, detail, record.placed_in)

    def released(self, gang: GangRecord, pod: PodRecord) -> None:
        """A pod released its cards, some time ago if no scheduler was there to see it. That its job started is told
        first; if that job is gone, that the pod ran may not be recorded yet.
        """
        if pod.uid in self._released_before:
            self._released_before.remove(pod.uid)
            return
        detail: Json = {"pod": pod.name}
        if pod.did_its_part:
            detail |= {history.SUCCEEDED: True} | ({"role": pod.role} if pod.role else {})
        if pod.started and (gang.inherited(pod) or not self.jobs.started(identity(gang)[0])):
            detail["ran"] = objects.timestamp(pod.started)
        now = self._clock()
        long_ago = pod.finished and 0 < pod.ended < now - _A_WHILE
        self._note(history.RELEASED, gang, pod.ended if long_ago else now, detail, pod.placed_in)

    def released_before(self, gang: GangRecord, pod: PodRecord) -> None:
        """The same at a start, once, of a pod of which the state may tell it, too."""
        if pod.uid not in self._released_before:
            self.released(gang, pod)
            self._released_before.add(pod.uid)

    def released_unseen(self, pod: Holder) -> None:
        """A pod that is gone released its cards, nobody knows when."""
        self._sql_writer.event(pod.released(moment(self._clock())))

    def continues(self, times: Mapping[str, datetime]) -> None:
        """A former scheduler told of these jobs, by UID, and the last time that it told was this."""
        self._sql_writer.continues(times)

    def preempted(self, gang: GangRecord, pod: str, by: str, why: str, now: int) -> None:
        """A member was evicted so that another gang can start."""
        winner = self._state.gangs_by_uid.get(by)
        queue = winner.queue if winner else ""
        detail = {"pod": pod, "by": _job(winner) if winner else "", "byUid": by, "byQueue": queue, "why": why}
        record = self._state.pod_named(gang.namespace, pod)
        self._note(history.PREEMPTED, gang, now, detail, record.placed_in if record else "")
        self._events.gang(gang, names.EVENT_PREEMPTED, why, warning=True)

    def cleared(self, gang: GangRecord, pod: str, reservation: str, why: str, now: int) -> None:
        """A member was evicted from room that administrators reserved."""
        record = self._state.pod_named(gang.namespace, pod)
        detail = {"pod": pod, "reservation": reservation, "why": why}
        self._note(history.PREEMPTED, gang, now, detail, record.placed_in if record else "")
        self._events.gang(gang, names.EVENT_PREEMPTED, why, warning=True)

    def taken_back(self, gang: GangRecord, message: str, now: int) -> None:
        """An incomplete gang was evicted."""
        self._note(history.TAKEN_BACK, gang, now, {"message": message})
        self._events.gang(gang, names.EVENT_GANG_TAKEN_BACK, message, warning=True)

    def ended(self, gang: GangRecord, event: str, message: str, now: int, *, notice: str = "") -> None:
        """The job of a group was ended by a limit, or did not start in time: `event` is for history, `notice`, if any,
        the reason of an event on the job.
        """
        self._note(event, gang, now, {"message": message})
        if notice:
            self._events.gang(gang, notice, message, warning=True)
        self.jobs.tell(identity(gang)[0], due=True)  # a single pod is gone in a moment, its end unrecorded

    def ends_soon(self, gang: GangRecord, message: str, now: int) -> None:
        """The job of a group is ended by its time limit in a few minutes."""
        self._note(history.TIME_LIMIT_NEAR, gang, now, {"message": message})
        self._events.gang(gang, names.EVENT_TIME_LIMIT_NEAR, message)

    def turned_away(self, refused: TurnedAway, now: int) -> None:
        """A node did not admit a member that was bound to it."""
        detail = {"pod": refused.pod, "node": refused.node, "message": refused.why}
        self._note(history.TURNED_AWAY, refused.gang, now, detail)
        message = f"node {refused.node} did not admit pod {refused.pod} ({refused.why}): it is avoided for a while"
        self._events.gang(refused.gang, names.EVENT_REFUSED, message, warning=True)

    def _note(self, event: str, gang: GangRecord, now: int, detail: Json, job: str = "") -> None:
        """Write an event of the group's job; of the job of this UID if one of its pods was placed in an earlier one."""
        self._sql_writer.event(self._event(event, gang, now, detail, job))

    @staticmethod
    def _event(event: str, gang: GangRecord, now: int, detail: Json, job: str = "") -> Event:
        """The same, not written."""
        uid, kind, _, name = identity(gang)
        if job and job != uid:
            uid, kind, name = job, "PodGroup", gang.name
        return Event(
            event=event,
            at=moment(now),
            kind=kind,
            namespace=gang.namespace,
            name=name,
            uid=uid,
            queue=gang.queue,
            actor="scheduler",
            detail=detail,
        )

    async def accept_running(self) -> None:
        """Record gangs that ran before this process started, a few at a time: a large cluster has a hundred
        thousand.
        """
        while True:
            if not await self._accept_some():
                return
            await asyncio.sleep(_ACCEPTING_PAUSE)

    async def _accept_some(self) -> bool:
        """Accept some of the gangs that run, and record who was accepted; whether there are more."""
        for _ in self._state.changes.settling():  # thousands may have been bound within a second
            await asyncio.sleep(0)
        more = self._state.accept_running(self._clock())
        self.accepted()
        return more

    def hand_over(self) -> None:
        """Give the writer all acceptances that are not with it yet: the service stops."""
        while self._state.accept_running(self._clock()):
            pass
        self.accepted()

    async def run(self) -> None:
        """Write the latest state of jobs that changed, until cancelled; once it is known what was told before."""
        await self.begun.wait()
        if self.first is not None:
            await self.first()
        while True:
            await self._wait()
            self._work.clear()
            more = self._state.progress.other_numbers.publish(asyncio.get_running_loop().time())
            if await self._accept_some() or more:
                self._work.set()  # there are more: continue
            self.nodes.note()
            await self._warnings.tell()
            for count, (gang, pod) in enumerate(self._ended.take(), start=1):
                self.released(gang, pod)
                if count % SLICE == 0:
                    await asyncio.sleep(0)
            await self.jobs.write()
            if len(self._told) > 2 * len(self._state.gangs_by_uid) + 1000:
                self._told = {uid: told for uid, told in self._told.items() if uid in self._state.gangs_by_uid}
            self._unsaid = {uid: said for uid, said in self._unsaid.items() if uid in self._state.gangs_by_uid}
            await asyncio.sleep(JOB_PERIOD)

    async def _wait(self) -> None:
        """Wait until something changed, or a postponed job is due."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self.jobs.due()):
                await self._work.wait()


def _codes(reasons: Iterable[Reason]) -> frozenset[str]:
    return frozenset(str(reason.code) for reason in reasons)


def _has_no_past(gang: GangRecord, pod: PodRecord) -> bool:
    """Whether a bound pod is a job of its own, of which history has nothing but its acceptance."""
    return gang.virtual and gang.owner is None and not pod.placed_in and pod.phase == "Pending"


def _job(gang: GangRecord) -> str:
    """The job a group belongs to, as explanations name it."""
    return f"{gang.namespace}/{'/'.join(identity(gang)[1::2])}"
