"""Which reservations a longer time limit of a running job would take room from."""

from t9ksched.model.advance_reservation import Occurrence
from t9ksched.model.wall_clock import moment_at, written_moment
from t9ksched.scheduler.report.job_shape import Json
from t9ksched.scheduler.report.observed_job import ObservedJob
from t9ksched.scheduler.state.advance_book import KnownReservation
from t9ksched.scheduler.state.advance_conflicts import EndOf, blockers, may_evict
from t9ksched.scheduler.state.end_rules import EndRules
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.scheduler.state.state import ClusterState


def reserved_ahead(
    view: ObservedJob, state: ClusterState, rules: EndRules, now: int, seconds: int | None
) -> list[Json]:
    """The reservations whose room the job would still hold, or hold for longer, with a limit of so many seconds, None
    for no limit: each with its `name`, the `nodes` of the job in it, and `from` and `to` of the first occurrence.

    Those that the job may use, and those that have it evicted when they begin, lose nothing.
    """
    now_ends, later = dict[GangRecord, int](), dict[GangRecord, int | None]()
    for gang in view.gangs:
        pods = rules.holding(gang)
        end = rules.end(gang, pods, now) if pods else None
        if end is None:  # it holds nothing, or holds it for ever already
            continue
        longer = rules.end(gang, pods, now, limit=seconds)
        if longer is None or longer > end:
            now_ends[gang], later[gang] = end, longer

    def end_of(gang: GangRecord) -> int | None:
        return later[gang] if gang in later else rules.end(gang, rules.holding(gang), now)

    found: dict[str, Json] = {}
    for gang, end in now_ends.items():
        nodes = {charge.node for uid in gang.members if (charge := state.charges.get(uid)) is not None}
        for name, held in state.advance.known.items():
            there = [node for node in held.record.nodes if node in nodes]
            if there and not may_evict(state, held.reservation, gang):
                _add(found, name, _taken(state, held, gang, there, end, end_of))
    return [found[name] for name in sorted(found)]


def _taken(
    state: ClusterState, held: KnownReservation, gang: GangRecord, nodes: list[str], end: int, end_of: EndOf
) -> Json | None:
    """What a gang that ends at `end` now takes from the next occurrence, on these nodes, if it ends by `end_of`."""
    of = next(held.reservation.occurrences(end, held.ended), None)
    if of is None:
        return None
    left = Occurrence(max(of.begin, end), of.end)
    for one in blockers(state, held.reservation, nodes, left, end_of):
        if one.gang is gang:
            begin, to = (written_moment(moment_at(moment)) for moment in of)
            return {"name": held.name, "nodes": list(one.nodes), "from": begin, "to": to}
    return None


def _add(found: dict[str, Json], name: str, taken: Json | None) -> None:
    if taken is None:
        return
    before = found.get(name)
    if before is not None:
        taken["nodes"] = sorted({*before["nodes"], *taken["nodes"]})
    found[name] = taken
