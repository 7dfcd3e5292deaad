"""A `Pool` as a present that a walk on virtual time starts from, written and read on the way."""

from dataclasses import replace

from msgspec import structs

from t9ksched.engine.policy import Policy
from t9ksched.model.gang import Gang, RunningPod
from t9ksched.simulation.outlook import Outlook
from t9ksched.simulation.present import Occupant, Present, read, written
from tests.ahead import HOUR, Pool
from tests.builders import gang, pod_class


def present(pool: Pool, hour: float = 0, *, grace: float = 0, policy: Policy | None = None) -> Present:
    """What there is in the pool at that hour; evicted pods take `grace` hours to end."""
    occupants = []
    for name in sorted(pool.running):
        of, at, places = pool.job(name)
        pods = tuple(
            RunningPod(member.uid, member.name, member.role, member.pod_class, where, cards)  # type: ignore[arg-type]
            for member, (where, cards) in zip(of.waiting, places, strict=True)
        )
        ends = at + of.lasts if of.lasts else 0
        occupants.append(Occupant(of, pods, started=at, ends=ends, grace=round(grace * HOUR)))
    view = replace(pool.view(hour), expected_ends=())
    made = Present(round(hour * HOUR), view, policy or pool.policy, tuple(occupants))
    return copy(made)


def copy(made: Present) -> Present:
    """The present as another process reads it."""
    text = b"".join(written(made))
    again = read(text, dict)
    assert b"".join(written(again)) == text
    return again


def hours(found: Outlook) -> dict[str, float]:
    """When each group starts, in hours."""
    return {uid: one.at / HOUR for uid, one in found.starts.items()}


def new(name: str, pods: int, lasts: float = 0, *, of: str = "q", priority: int = 0, cards: int = 1) -> Gang:
    """A gang that is submitted now; it runs no longer than `lasts` hours, or for ever when that is 0."""
    shape = pod_class(cpu=0, memory=0, gpu=cards)
    made = gang(name, of, pods, of=shape, created=1 << 40, priority=priority)
    return structs.replace(made, lasts=round(lasts * HOUR))
