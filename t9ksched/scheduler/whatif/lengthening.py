"""Whose planned starts a longer time limit of a job would move later: the planner itself is asked, once, in a worker
process, on the present with the longer limit. So what lies between, such as other plans of the job's own queue, counts
as it would.
"""

import asyncio
import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any, Final

import msgspec
import structlog
from msgspec import structs

from t9ksched.model.reservation import rounded_up
from t9ksched.scheduler.decide.loop import Loop
from t9ksched.scheduler.report.job_shape import job_shape
from t9ksched.scheduler.report.observed_job import ObservedJob, identity, observed_job
from t9ksched.scheduler.state.end_rules import EndRules
from t9ksched.scheduler.state.objects import timestamp
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.scheduler.whatif.allowance import MOST_A_MINUTE, MOST_AT_ONCE, Allowance, NotAnswered
from t9ksched.scheduler.whatif.capture import NoCycle, capture
from t9ksched.scheduler.whatif.process import WorkerFailed, answer
from t9ksched.scheduler.whatif.simulations import public
from t9ksched.simulation.present import Present, written

log = structlog.get_logger(__name__)

Json = dict[str, Any]
LONGEST_SECONDS: Final = 25.0
"""After that the worker is ended, and the limit is not lengthened."""
_SECOND: Final = 1_000_000_000
_WORKER: Final = (sys.executable, "-I", "-m", "t9ksched.scheduler.whatif.plan_worker")


class Wish(msgspec.Struct, frozen=True):
    """A limit that a job is to get: by whom, in seconds, 0 for none; `uid` is that under which it is recorded."""

    user: str
    uid: str
    seconds: int


class LengtheningLimits(msgspec.Struct, frozen=True):
    """What a question may take; `command` starts a worker."""

    at_once: int = MOST_AT_ONCE
    a_minute: int = MOST_A_MINUTE
    longest_seconds: float = LONGEST_SECONDS
    command: tuple[str, ...] = _WORKER


class Lengthening:
    """Judges longer limits on the state, one at a time. `clock` gives nanoseconds since the epoch; `suppose` is told of
    a limit that delays nothing, which counts from then on.
    """

    def __init__(
        self,
        state: ClusterState,
        loop: Loop,
        clock: Callable[[], int],
        suppose: Callable[[str, int, str], None],
        limits: LengtheningLimits = LengtheningLimits(),
    ) -> None:
        self._state = state
        self._loop = loop
        self._clock = clock
        self._suppose = suppose
        self.limits = limits
        self._allowance = Allowance("changes of time limits beside planned starts of other queues")
        self._turn = asyncio.Lock()
        """Of two limits that delay nothing each by itself, both together may."""
        self._delays: dict[str, int] = {}
        """How much longer limits have delayed planned starts, each by less than is noticed, in nanoseconds, by UID."""

    async def served(self, view: ObservedJob, text: bytes) -> tuple[int, Json]:
        """Status and body of the answer to a `Wish` in JSON: `delayed`, the planned starts of other queues that would
        move later by more than the policy's `resolution`, all limits together, the earliest first. Each has `at`,
        `after`, None for no start that is planned any more, and the `job`.
        """
        try:
            return 200, {"delayed": await self._judged(view, msgspec.json.decode(text, type=Wish))}
        except msgspec.DecodeError as error:
            return 422, NotAnswered(422, "InvalidField", f"the question cannot be read: {error}").to_json()
        except NotAnswered as why:
            return why.status, why.to_json()

    async def _judged(self, view: ObservedJob, wish: Wish) -> list[Json]:
        own = {gang.queue for gang in view.gangs}
        gangs = {gang.uid for gang in view.gangs if gang.uid}
        if not self._plans(own) or not self._longer(gangs, wish.seconds or None):
            return []
        with self._allowance.used(wish.user, self.limits.at_once, self.limits.a_minute):
            async with self._turn:
                return await self._look(own, gangs, wish)

    async def _look(self, own: set[str], gangs: set[str], wish: Wish) -> list[Json]:
        try:
            present = await capture(self._state, self._loop, rules=False)
        except NoCycle as error:
            raise NotAnswered(503, "Unavailable", str(error), again=5) from None
        before = {one.owner: one.since for one in present.view.reservations if one.kind.planned}
        starts = await self._planned(self._lengthened(present, gangs, wish.seconds or None))
        step = self._state.resolution
        delayed, new = [], False
        plans = self._plans(own)  # as they are by now
        for owner, at in plans.items():
            after, allowed = starts.get(owner), step - self._delays.get(owner, 0)
            if not _later(at, after, allowed, present.at):
                continue
            if owner in before and _later(before[owner], after, allowed, present.at):
                delayed.append((at, after, owner))
            else:
                new = True
        if new and not delayed:
            text = "starts were planned while it was found out whether the limit delays any"
            raise NotAnswered(503, "Unavailable", text, again=2)
        if not delayed:
            self._suppose(wish.uid, wish.seconds, wish.user)
            planned = self._state.reservations.planned
            self._delays = {owner: delay for owner, delay in self._delays.items() if owner in planned}
            for owner, at in plans.items():
                self._delays[owner] = self._delays.get(owner, 0) + max(0, starts[owner] - max(at, present.at))
        return [shape for one in sorted(delayed, key=lambda one: (one[0], one[2])) if (shape := self._shape(*one))]

    def _plans(self, own: Iterable[str]) -> dict[str, int]:
        """When gangs of other queues are planned to start, nanoseconds since the epoch, by UID."""
        found = {}
        for owner, rows in self._state.reservations.planned.items():
            gang = self._state.gangs_by_uid.get(owner)
            if gang is not None and gang.queue not in own:
                found[owner] = rows[0].since
        return found

    def _rules(self) -> EndRules:
        policy = self._loop.policy
        return EndRules(self._state, policy.start_timeout_seconds, policy.preemption.max_grace_seconds)

    def _longer(self, uids: Iterable[str], limit: int | None) -> bool:
        """Whether any of these groups ends later with a limit of so many seconds, None for none, than it does now."""
        now, rules, known = self._clock(), self._rules(), self._state.gangs_by_uid
        for gang in (known[uid] for uid in uids if uid in known):
            pairs = [(rules.lasts(gang), rules.lasts(gang, limit))]
            if pods := rules.holding(gang):
                pairs.append((rules.end(gang, pods, now) or 0, rules.end(gang, pods, now, limit) or 0))
            if any(was and (not then or then > was) for was, then in pairs):
                return True
        return False

    def _lengthened(self, present: Present, uids: Collection[str], limit: int | None) -> Present:
        """The present if these groups had that limit."""
        rules, known = self._rules(), self._state.gangs_by_uid
        gangs = tuple(
            structs.replace(gang, lasts=rules.lasts(known[gang.uid], limit))
            if gang.uid in uids and gang.uid in known
            else gang
            for gang in present.view.gangs
        )
        occupants = []
        for one in present.occupants:
            record = known.get(one.gang.uid) if one.gang.uid in uids else None
            if record is not None and (pods := rules.holding(record)):
                gang = structs.replace(one.gang, lasts=rules.lasts(record, limit))
                one = structs.replace(one, gang=gang, ends=rules.end(record, pods, present.at, limit) or 0)
            occupants.append(one)
        return replace(present, view=replace(present.view, gangs=gangs), occupants=tuple(occupants))

    async def _planned(self, present: Present) -> dict[str, int]:
        """When gangs start now or are planned to, as a worker finds."""
        limits = self.limits
        try:
            out = await answer(limits.command, written(present), limits.longest_seconds)
            return msgspec.json.decode(out, type=dict[str, int])
        except (WorkerFailed, msgspec.DecodeError) as error:
            log.error("whether a longer limit delays planned starts was not found out", error=str(error))
            text = f"whether the limit delays planned starts was not found out: {public(error)}"
            raise NotAnswered(503, "Unavailable", text, again=30) from None

    def _shape(self, at: int, after: int | None, owner: str) -> Json | None:
        record = self._state.gangs_by_uid.get(owner)
        job = observed_job(self._state, identity(record)[0]) if record is not None else None
        if job is None:
            return None
        first, then = (
            None if one is None else timestamp(rounded_up(one, self._state.resolution)) for one in (at, after)
        )
        return {"at": first, "after": then, "job": job_shape(job, self._state)}


def _later(at: int, after: int | None, step: int, now: int) -> bool:
    """Whether a start is later than it was planned, by more than `step`; one that is overdue is expected now."""
    return after is None or after > max(at, now) + step
