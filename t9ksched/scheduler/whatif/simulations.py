"""Answers what-if questions: few at once, few a minute for each user, each in a process of its own that is ended when
it takes too long.
"""

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
import structlog

from t9ksched.model.errors import Invalid
from t9ksched.model.gang import Gang
from t9ksched.model.queue import Queue
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.decide.loop import Loop
from t9ksched.scheduler.decide.plugins import installed
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.scheduler.whatif.allowance import MOST_A_MINUTE, MOST_AT_ONCE, Allowance, NotAnswered
from t9ksched.scheduler.whatif.answers import Answers
from t9ksched.scheduler.whatif.capture import NoCycle, capture
from t9ksched.scheduler.whatif.newcomers import Newcomer, joined, newcomers, ruled, without_labels
from t9ksched.scheduler.whatif.process import WorkerFailed, answer
from t9ksched.scheduler.whatif.question import Question, read_change
from t9ksched.scheduler.whatif.worker import Told, task
from t9ksched.simulation.present import Present
from t9ksched.simulation.whatif import Change

log = structlog.get_logger(__name__)

Json = dict[str, Any]
WALK_SECONDS: Final = 8.0
"""How long each of the two walks of a question may take; what it has found until then is the answer."""
LONGEST_SECONDS: Final = 25.0
"""After that a worker is ended, and there is no answer."""
_SECOND: Final = 1_000_000_000
WORKER: Final = (sys.executable, "-I", "-m", "t9ksched.scheduler.whatif.worker")


class Limits(msgspec.Struct, frozen=True):
    """What workers may take; `command` starts one."""

    at_once: int = MOST_AT_ONCE
    a_minute: int = MOST_A_MINUTE
    walk_seconds: float = WALK_SECONDS
    longest_seconds: float = LONGEST_SECONDS
    command: tuple[str, ...] = WORKER


class Simulations:
    """Takes questions about the state, whose views the loop shows. `clock` gives nanoseconds since the epoch."""

    def __init__(self, state: ClusterState, loop: Loop, clock: Callable[[], int], limits: Limits = Limits()) -> None:
        self._state = state
        self._loop = loop
        self._clock = clock
        self.limits = limits
        self._allowance = Allowance("simulations")

    async def served(self, text: bytes) -> tuple[int, Json]:
        """Status and body of the answer to a `Question` in JSON."""
        try:
            return 200, await self.ask(text)
        except NotAnswered as why:
            return why.status, why.to_json()

    async def ask(self, text: bytes) -> Json:
        """The answer to a `Question` in JSON.

        Raises:
            NotAnswered: there is none.
        """
        try:
            question = msgspec.json.decode(text, type=Question)
        except msgspec.DecodeError as error:
            raise NotAnswered(422, "InvalidField", f"the question cannot be read: {error}") from None
        try:
            change = read_change(question, self._state, installed)
        except Invalid as error:
            raise _invalid(error) from None
        try:
            with self._allowance.used(question.user, self.limits.at_once, self.limits.a_minute):
                return await self._answer(question, change)
        except Invalid as error:
            raise _invalid(error) from None
        except NoCycle as error:
            raise NotAnswered(503, "Unavailable", str(error), again=5) from None

    async def _answer(self, question: Question, change: Change) -> Json:
        state, now = self._state, self._clock()
        queues = dict(state.queues)
        for name, spec in change.queues.items():
            queues[name] = replace(queues[name], spec=spec) if name in queues else Queue(name, spec)
        policy = change.policy or self._loop.policy
        whose = question.user, tuple(question.groups)
        found = await newcomers(question.items, whose, state, queues, policy, now)
        rules = ruled(found)
        present = await capture(state, self._loop, rules=rules)
        if not (rules or present.view.neighbours):
            without_labels(found)
        gangs = self._in_place(found, present)
        later = {gang.uid: one.later for one in found if one.later for gang in one.gangs}
        turns = {gang.uid: one.turn for one in found if one.turn is not None for gang in one.gangs}
        change = replace(change, later=later, turns=turns)
        view = replace(present.view, gangs=(*present.view.gangs, *gangs))
        until = present.at + question.horizon * _SECOND
        pieces = task(replace(present, view=view), len(gangs), change, until, self.limits.walk_seconds)
        told, digest = await self._work(pieces)
        if told.error:
            raise NotAnswered(503, "Unavailable", told.error)
        return Answers(told, present, digest, state).document(found)

    def _in_place(self, found: Sequence[Newcomer], present: Present) -> list[Gang]:
        """The groups that are submitted; where a pod joins a group that there is, that group with it."""
        gangs: dict[str, Gang] = {}
        waiting = {gang.uid: gang for gang in present.view.gangs}
        for one in found:
            if one.joins is None:
                gangs.update((gang.uid, gang) for gang in one.gangs)
                continue
            record = self._state.gangs.get(one.joins)
            key = "/".join(one.joins)
            if record is None or not record.uid:
                message = f"its pod names the PodGroup {key}, which does not exist"
                unblocks = (f"create the PodGroup {key}",)
                one.reasons, one.gangs = (Reason(Code.GANG_INCOMPLETE, message, unblocks=unblocks),), []
                continue
            uid = record.uid
            base = gangs.get(uid) or waiting.get(uid) or record.snapshot() or _empty(record.uid, one, present)
            one.gangs = [joined(base, each) for each in one.gangs]
            one.only = {member.uid for member in one.members} - {member.uid for member in base.waiting}
            gangs.update((gang.uid, gang) for gang in one.gangs)
        return list(gangs.values())

    async def _work(self, pieces: Iterable[bytes]) -> tuple[Told, str]:
        """What a worker says of a task, and the beginning of the task's SHA-256."""
        digest, limits = hashlib.sha256(), self.limits

        def hashed() -> Iterator[bytes]:
            for piece in pieces:
                digest.update(piece)
                yield piece

        try:
            out = await answer(limits.command, hashed(), limits.longest_seconds)
            return msgspec.json.decode(out, type=Told), digest.hexdigest()[:16]
        except (WorkerFailed, msgspec.DecodeError) as error:
            log.error("a simulation failed", error=str(error))
            raise NotAnswered(503, "Unavailable", f"the simulation failed: {public(error)}", again=30) from None


def public(error: Exception) -> str:
    """Why a worker gave no answer, without what it wrote of itself."""
    text = str(error)
    if "MemoryError" in text:
        return "it needs more memory than it may take"
    return text.partition(":")[0] if isinstance(error, WorkerFailed) else "its answer cannot be read"


def _empty(uid: str, one: Newcomer, present: Present) -> Gang:
    """The group that is joined, when nothing of it waits."""
    for occupant in present.occupants:
        if occupant.gang.uid == uid:
            roles: dict[str, int] = dict(occupant.gang.placed)
            for pod in occupant.pods:
                roles[pod.role] = roles.get(pod.role, 0) + 1
            placed = tuple(sorted(roles.items()))
            return msgspec.structs.replace(occupant.gang, waiting=(), placed=placed, refilling=True)
    first = one.gangs[0]
    return msgspec.structs.replace(first, uid=uid, waiting=(), blocked=(), total=0, total_roles=())


def _invalid(error: Invalid) -> NotAnswered:
    return NotAnswered(422, "InvalidField", str(error), errors=error.errors)
