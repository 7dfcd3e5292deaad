"""Judges a reservation of administrators before it is written: its nodes, and what is in its way."""

from collections.abc import Callable
from typing import Any

from t9ksched.model.advance_reservation import AdvanceReservation, Occurrence
from t9ksched.model.errors import FieldWarning
from t9ksched.model.reservation import rounded_up
from t9ksched.model.reservation_form import parse_reservation
from t9ksched.model.wall_clock import moment_at, written_moment
from t9ksched.scheduler.act.room_clearing import RoomClearing
from t9ksched.scheduler.keep.reservation_keeper import read
from t9ksched.scheduler.report.job_shape import Json
from t9ksched.scheduler.report.observed_job import identity
from t9ksched.scheduler.state.advance_book import KnownReservation
from t9ksched.scheduler.state.advance_conflicts import (
    Blocker,
    EndOf,
    Overlap,
    blockers,
    choose,
    new_blockers,
    overlaps,
    taken,
    unless_evicted,
)
from t9ksched.scheduler.state.end_rules import EndRules
from t9ksched.scheduler.state.objects import timestamp
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.store import Store


class ReservationJudge:
    """Answers API replicas. `rules` gives, in seconds, within which time a bound group must run, and the longest time
    that a pod gets to end; `clock` nanoseconds since the epoch.
    """

    def __init__(
        self,
        state: ClusterState,
        store: Store,
        clearing: RoomClearing,
        rules: Callable[[], tuple[int, int]],
        clock: Callable[[], int],
    ) -> None:
        self._state = state
        self._clearing = clearing
        self._store = store
        self._rules = rules
        self._clock = clock

    async def judge(self, raw: Any) -> Json:
        """What a reservation would do: `nodes` for it, `faults` of what it asks for, `conflicts`, the `jobs` that hold
        its room beyond its beginning, with what of them is evicted then, and the `plans` that lie in its time; what it
        `takes` in all, by resource; and `seen`, the newest revision when the other reservations were read.
        Of an edit, only what it makes worse is a fault or a conflict; `warnings` name the jobs inside that it does not
        end: they may run beyond an end that comes earlier.

        Raises:
            Invalid: it is none.
            StoreError: the database is away.
        """
        one = parse_reservation(raw)
        seen = await self._store.changes.head()
        held, _ = read(await self._store.reservations.list())
        before = next((other for other in held if other.name == one.name), None)
        others = [other for other in held if other.name != one.name]
        now, rules = self._clock(), EndRules(self._state, *self._rules())

        def end_of(gang: GangRecord) -> int | None:
            return rules.end(gang, rules.holding(gang), now)

        keep: tuple[str, ...] = ()
        ended: int | None = None
        if before is not None:
            keep = before.record.nodes
            ended = None if before.ended is None else before.reservation.still_over(one, before.ended, now)
        of = one.current(now, ended)
        if of is None and before is not None and before.present(now) is None:
            empty = {key: list[Json]() for key in ("faults", "conflicts", "jobs", "plans")}
            return empty | {"nodes": list(keep), "takes": {}, "seen": seen}
        if of is None:
            faults = [{"path": "to", "message": "lies in the past: the reservation would be over"}]
            return {"faults": faults, "seen": seen} | {key: [] for key in ("nodes", "conflicts", "jobs", "plans")}
        nodes, found = choose(self._state, one, keep, others, now, end_of, ended, before)
        holders = blockers(self._state, one, nodes, of, end_of)
        evicted = self._evicted(one, nodes, of, end_of) if one.on_conflict == "Preempt" else {}
        jobs = [_job(each, evicted.get(each.gang.uid, 0)) for each in holders]
        stay = new_blockers(self._state, one, nodes, of, unless_evicted(self._state, one, end_of), before)
        conflicts = [_other(each) for each in overlaps(self._state, one, nodes, others, now, ended, before)]
        return {
            "nodes": nodes,
            "faults": [{"path": fault.path, "message": fault.message} for fault in found],
            "conflicts": conflicts + ([] if one.on_conflict == "Wait" else [_job(each, 0) for each in stay]),
            "jobs": jobs,
            "plans": self._plans(one, nodes, of),
            "takes": taken(self._state, one, nodes),
            "seen": seen,
            "warnings": [] if before is None else self._outlasting(before, of, now, end_of),
        }

    def _outlasting(self, before: KnownReservation, of: Occurrence, now: int, end_of: EndOf) -> list[Json]:
        """Of an edit that ends the occurrence in force earlier: the jobs inside that would have ended before its end,
        and may now run beyond it.
        """
        was = before.present(now)
        if was is None or max(was.begin, of.begin) > now:
            return []
        inside = dict[str, tuple[GangRecord, set[str]]]()
        for gang, node, _ in self._state.advance.holding(before):
            inside.setdefault(gang.uid, (gang, set()))[1].add(node)
        found = []
        for gang, nodes in inside.values():
            end = end_of(gang)
            if end is not None and of.end < end <= was.end:
                where = ", ".join(sorted(nodes))
                text = f"job {_title(gang)} on {where} may run beyond it, until {_at(end)}: an edit does not end it"
                found.append(FieldWarning("to", text))
        return [warning.to_dict() for warning in sorted(found, key=lambda warning: warning.message)]

    def _evicted(self, one: AdvanceReservation, nodes: list[str], of: Occurrence, end_of: EndOf) -> dict[str, int]:
        """How many pods of each group are evicted when the occurrence begins, as things are now, by UID."""

        def gone(gang: GangRecord) -> bool:
            end = end_of(gang)
            return end is not None and end <= of.begin

        return {one.gang.uid: len(one.pods) for one in self._clearing.victims(one, nodes, gone)}

    def _plans(self, one: AdvanceReservation, nodes: list[str], of: Occurrence) -> list[Json]:
        """The planned starts that need the room at that time, of groups that it is not for."""
        state, found = self._state, []
        for owner, plan in sorted(state.reservations.planned.items()):
            gang = state.gangs_by_uid.get(owner)
            there = sorted({each.node for each in plan} & set(nodes))
            late = plan[0].since >= of.end or (plan[0].until and plan[0].until <= of.begin)
            if gang is None or not there or late:
                continue
            permissions = state.permissions
            groups = permissions.groups_of_submitter(gang)
            if not one.admits(gang.queue, permissions.submitter(gang) or "", groups):
                at = timestamp(rounded_up(plan[0].since, state.resolution))
                found.append({"job": _title(gang), "queue": gang.queue, "at": at, "nodes": there})
        return found


def _job(blocker: Blocker, evicted: int) -> Json:
    gang, until = blocker.gang, blocker.until
    ends = None if until is None else _at(until)
    about: Json = {"kind": "job", "name": _title(gang), "queue": gang.queue, "nodes": list(blocker.nodes)}
    return about | {"until": ends, "evicted": evicted}


def _other(other: Overlap) -> Json:
    begin, end = (_at(moment) for moment in other.at)
    return {"kind": "reservation", "name": other.name, "nodes": list(other.nodes), "from": begin, "until": end}


def _title(gang: GangRecord) -> str:
    _, kind, _, name = identity(gang)
    return f"{gang.namespace}/{kind}/{name}"


def _at(moment: int) -> str:
    return written_moment(moment_at(moment).replace(microsecond=0))
