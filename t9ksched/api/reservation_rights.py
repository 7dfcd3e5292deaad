"""What managers of queues may reserve; administrators may reserve everything.

A manager may reserve room for queues that the manager manages, where it takes room from no other queue: jobs in its way
are of such queues, too, no other queue's planned start moves, and what is reserved lies within the quotas of the queues
it is for, so that it is no more than jobs of these queues could hold anyhow. No job without an end starts there from
now on, so that none of another queue is in its way later.
"""

import math
from dataclasses import dataclass, replace
from datetime import timedelta

from t9ksched.api.auth import Caller
from t9ksched.api.authorization import place_of, usable
from t9ksched.api.http.problems import Problem
from t9ksched.api.http.responses import Json
from t9ksched.api.services import Services
from t9ksched.model.advance_reservation import AdvanceReservation
from t9ksched.model.card_worth import least_cards
from t9ksched.model.duration import parse_duration
from t9ksched.model.errors import Invalid
from t9ksched.model.quantity import CARDS
from t9ksched.model.queue import parse_queue_spec
from t9ksched.model.reservation_form import parse_reservation
from t9ksched.model.wall_clock import nanoseconds
from t9ksched.store.advance_reservations import ReservationRecord

_SECOND = 1_000_000_000
_LONGEST = timedelta(days=366)


@dataclass(frozen=True, slots=True)
class Sight:
    """What a caller sees of reservations: administrators and managers everything, others those that are for them,
    without the names of other users. `only` are the queues that such a caller may use, None for all reservations.
    """

    caller: Caller
    only: frozenset[str] | None = None

    @classmethod
    async def of(cls, services: Services, caller: Caller) -> "Sight":
        """The caller's."""
        if caller.is_admin or caller.ruled:
            return cls(caller)
        owned = sorted(await services.namespaces.owned_by(caller.user))
        places = [await place_of(services, caller, name) for name in (None, *owned)]
        return cls(caller, frozenset(record.name for record, _ in usable(caller, places)))

    def sees(self, record: ReservationRecord) -> bool:
        """Whether the caller may know of the reservation."""
        one = parse_reservation(record.spec)
        if self.only is None:
            return True
        return not one.queues.isdisjoint(self.only) or one.admits("", self.caller.user, self.caller.groups)

    def shown(self, shape: Json) -> Json:
        """What is shown of a reservation that the caller sees."""
        whom = shape["for"]
        if self.only is None or not isinstance(whom, dict):
            return shape
        mine = {"queues": self.only, "users": {self.caller.user}, "groups": self.caller.groups}
        own = {key: [name for name in names if name in mine[key]] for key, names in whom.items()}
        return shape | {"for": own, "createdBy": None}


def of_manager(caller: Caller, wanted: AdvanceReservation, now: int) -> AdvanceReservation:
    """The reservation as this caller may make it; `now` in nanoseconds since the epoch.

    Raises:
        Problem: `Forbidden`, with what only administrators may do.
        Invalid: it begins later than a manager may reserve.
    """
    if caller.is_admin:
        return wanted
    if wanted.on_conflict != "Preempt" or wanted.force:
        raise _forbidden(caller, "makes reservations with onConflict: Preempt and without force only")
    others = sorted(wanted.queues - caller.ruled)
    if wanted.maintenance or wanted.users or wanted.groups or others:
        named = f", not for {', '.join(others)}" if others else ""
        raise _forbidden(caller, f"reserves room for queues only that the user manages{named}")
    ahead = timedelta(seconds=math.ceil((nanoseconds(wanted.begins) - now) / _SECOND))
    if ahead > _LONGEST:
        raise Invalid.at("from", "lies more than a year ahead: only administrators reserve so early")
    if ahead <= (parse_duration(wanted.drain_ahead) or timedelta()):
        return wanted
    return replace(wanted, drain_ahead=f"{round(ahead.total_seconds())}s")


def within_rights(caller: Caller, wanted: AdvanceReservation, judged: Json) -> None:
    """Check what the leader found that the reservation touches.

    Raises:
        Problem: `Forbidden`: it takes room from queues that the caller does not manage, or more than the quotas.
    """
    if caller.is_admin:
        return
    for what, entries in (("jobs", judged["jobs"]), ("planned starts", judged["plans"])):
        queues = sorted({str(one["queue"]) for one in entries} - caller.ruled)
        if queues:
            raise _forbidden(caller, f"does not manage every queue whose {what} give way: {', '.join(queues)}")
    queues_for = [record for name, record in caller.decided.queues.items() if name in wanted.queues]
    quotas = [parse_queue_spec(record.spec).quota for record in queues_for]
    takes = sorted(judged["takes"].items())
    if any(CARDS in quota for quota in quotas):
        takes.append((CARDS, least_cards(judged["takes"], ())))
    for resource, amount in takes:
        limits = [quota.get(resource) for quota in quotas]
        most = sum(limit for limit in limits if limit is not None)
        if None not in limits and amount > most:
            names = ", ".join(sorted(wanted.queues))
            raise _forbidden(caller, f"reserves more {resource} than the quota of {names} allows")


def made_by(caller: Caller, record: ReservationRecord) -> None:
    """Check that the caller may delete a reservation.

    Raises:
        Problem: `Forbidden`: it is another user's, and the caller is no administrator.
    """
    if not caller.is_admin and record.created_by != caller.user:
        raise _forbidden(caller, f"did not make the reservation {record.name!r}")


def _forbidden(caller: Caller, what: str) -> Problem:
    return Problem("Forbidden", f"the user {caller.user!r} {what}", remedy="ask an administrator")
