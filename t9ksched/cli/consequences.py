"""What a change of a job means for its gang, in sentences that are said before it is made."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from t9ksched.model.job import FINISHED

Json = Mapping[str, Any]


def is_up(job: Json) -> bool:
    """Whether pods of it have a place, which a stop takes from them."""
    members = job.get("members") or {}
    return job.get("phase") not in FINISHED and bool(members.get("bound") or members.get("running"))


def of_cancelling(job: Json) -> list[str]:
    """What is lost with a job."""
    if job.get("phase") in FINISHED:
        return [f"{_title(job)} has ended ({job.get('phase')}): its object, its pods and their logs are deleted."]
    if is_up(job):
        return [f"{_title(job)}: {_stopped(job)}", "  Its pods and their logs are deleted."]
    place = job.get("position")
    lost = f", and loses place {place} in queue {job.get('queue')}" if place is not None else ""
    return [f"{_title(job)} has no pod on a node ({job.get('phase')}): it is deleted{lost}."]


def of_pausing(job: Json) -> list[str]:
    """What a pause takes from a job, and what a resumption does not give back."""
    told = _stopped(job) if is_up(job) else f"no pod of it is on a node ({job.get('phase')}): it does not start."
    least = (job.get("members") or {}).get("min") or 1
    whole = f"{least} pods at once, or none" if least > 1 else "when there is room"
    return [
        f"{_title(job)}: {told}",
        f"  Resumed, it waits in queue {job.get('queue') or 'of another scheduler'} for room again and starts {whole}.",
    ]


def of_limiting(job: Json, seconds: int, now: datetime | None = None) -> list[str]:
    """What a time limit that has passed already means for a job; nothing for any other limit."""
    try:
        began = datetime.fromisoformat(str(job.get("startedAt")))
    except ValueError:
        return []
    ran = int(((now or datetime.now(UTC)) - began).total_seconds())
    if not is_up(job) or ran < seconds:
        return []
    return [f"{_title(job)} has run for {ran} s already, and is ended at once: {_stopped(job)}"]


def of_moving(job: Json, queue: str) -> list[str]:
    """What another queue means for a job that waits."""
    return [
        f"{_title(job)}: a job keeps its queue for good, so it is submitted again in queue {queue} under another name,"
        " with the priority that it was submitted with, and cancelled here. It is young there, and what waits for it"
        " (--after) waits for the old name."
    ]


def of_scaling(job: Json, replicas: int) -> list[str]:
    """What another size means for a job that runs."""
    members = job.get("members") or {}
    total = int(members.get("total") or 0)
    each = (job.get("gpus") or 0) / total if total else 0
    if not is_up(job) or replicas == total:
        return []
    count, cards = abs(replicas - total), abs(replicas - total) * each
    asked = f" with {_of(cards, 'card')}" if each else ""
    if replicas > total:
        return [
            f"{_title(job)}: {_of(count, 'more pod')}{asked} {'is' if count == 1 else 'are'} made, to start when there"
            " is room; the others run on meanwhile."
        ]
    fewer = f"{count} of {_of(total, 'pod')}{asked} {'is' if count == 1 else 'are'} stopped"
    return [f"{_title(job)}: {fewer}, and what was not saved there is lost; the others run on."]


def _stopped(job: Json) -> str:
    members = job.get("members") or {}
    up = max(int(members.get("running") or 0), int(members.get("bound") or 0))
    of = max(int(members.get("total") or 0), int(members.get("min") or 0), up)
    cards = job.get("gpus") or 0
    free = f" on {_of(cards, 'card')}" if cards else ""
    pods = f"its pod runs{free} and is stopped" if of == 1 else f"{up} of {of} pods run{free}: all of them are stopped"
    given = f", and the {'card is' if cards == 1 else 'cards are'} free for others" if cards else ""
    return f"{pods}{given}. What was not saved is lost."


def _of(number: float, thing: str) -> str:
    return f"{number:g} {thing}{'' if number == 1 else 's'}"


def _title(job: Json) -> str:
    return f"{job.get('kind')}/{job.get('name')}"
