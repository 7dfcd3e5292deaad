"""Decides about one replica, from its recorded state and the status of its pod.

The memory of a replica is kept in the job's status (`tasks[].replicas[]`), so that nothing is counted twice or
forgotten when the controller dies: a failed pod's UID is written there, with the count, before the pod is deleted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

import msgspec

from t9ksched.workloads import phase
from t9ksched.workloads.actions import Event, Object, name_of, uid_of
from t9ksched.workloads.jobspec import RETRYABLE_EXIT_CODES, RestartPolicy

MAX_DELAY = 60.0
"""Seconds a replica that keeps failing waits at most before it is made anew."""


@dataclass(frozen=True, slots=True)
class Record:
    """What is remembered of a replica.

    Attributes:
        phase: of its last pod.
        restarts: how often it was made anew after a failure of its own.
        disruptions: how often because the cluster took its pod.
        last_failed: UID of the failed pod that is already counted in one of the two.
    """

    name: str
    uid: str = ""
    phase: str = "Pending"
    restarts: int = 0
    disruptions: int = 0
    last_failed: str = ""
    containers: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> "Record":
        """From the job's status."""
        return cls(
            name=raw.get("name", ""),
            uid=raw.get("uid", ""),
            phase=raw.get("phase", "Pending"),
            restarts=raw.get("restartCount", 0),
            disruptions=raw.get("disruptionCount", 0),
            last_failed=raw.get("lastFailedUid", ""),
            containers=tuple(raw.get("containers") or ()),
        )

    def write(self) -> Object:
        """For the job's status; zeros are left out."""
        raw: Object = {"name": self.name, "uid": self.uid, "phase": self.phase, "containers": list(self.containers)}
        extra = {
            "restartCount": self.restarts,
            "disruptionCount": self.disruptions,
            "lastFailedUid": self.last_failed,
        }
        return raw | {key: value for key, value in extra.items() if value}

    def deleted(self) -> "Record":
        """The replica once its pod is deleted on purpose; its restarts stay counted."""
        return replace(self, uid="", phase="Deleted", containers=(), last_failed="")

    @property
    def succeeded(self) -> bool:
        """Whether its last pod succeeded, and no other takes its place."""
        return self.phase == "Succeeded" and not self.counted

    @property
    def counted(self) -> bool:
        """Whether the failure of the last pod is counted already, so that a new pod may take its place."""
        return bool(self.last_failed) and self.last_failed == self.uid


class Fate(msgspec.Struct, frozen=True):
    """What follows for a replica.

    Attributes:
        record: what to remember from now on.
        step: `keep` its pod or its absence, `create` a pod, `delete` the failed one.
        lost: why it may not be made anew, empty if it may or need not.
        last_words: what the program of a lost one said last, as the end of a sentence.
        exhausted: it is lost because the restarts all replicas share are used up.
        wait: seconds until `step` may change with time alone.
    """

    record: Record
    step: Literal["keep", "create", "delete"] = "keep"
    lost: str = ""
    last_words: str = ""
    exhausted: bool = False
    wait: float | None = None
    event: Event | None = None


class Allowance(msgspec.Struct, frozen=True):
    """Restarts that remain: of all replicas together, and of this replica type; None without limit."""

    shared: int | None = None
    own: int | None = None


def judge(record: Record, pod: Object | None, policy: RestartPolicy, left: Allowance, now: datetime) -> Fate:
    """Decide about one replica from its memory and its pod."""
    if pod is None:
        return _judge_absent(record, policy, left)
    seen = replace(record, uid=uid_of(pod), phase=phase.phase(pod), containers=tuple(phase.containers(pod)))
    if phase.is_terminating(pod):
        # It is being deleted. Its end is no failure of the job, and its name is free only once it is gone.
        return Fate(replace(seen, phase="Pending") if seen.phase == "Failed" else seen)
    if seen.succeeded and not _again(policy, left):
        return Fate(seen)
    if seen.phase not in ("Succeeded", "Failed"):
        return Fate(seen)
    if seen.phase == "Failed" and phase.was_disrupted(pod):
        return _remake_disrupted(seen, pod, now)
    return _restart(seen, pod, policy, left, now)


def _again(policy: RestartPolicy, left: Allowance) -> bool:
    """Whether a replica that succeeded is started again."""
    return policy.policy == "Always" and (left.own is None or left.own > 0)


def _judge_absent(record: Record, policy: RestartPolicy, left: Allowance) -> Fate:
    if record.succeeded and not _again(policy, left):
        return Fate(record)
    if record.phase == "Failed" and not record.counted:
        return Fate(record, lost=f"pod {record.name} failed and is gone")
    return Fate(record, "create")


def _remake_disrupted(seen: Record, pod: Object, now: datetime) -> Fate:
    event = None
    if not seen.counted:
        seen = replace(seen, disruptions=seen.disruptions + 1, last_failed=seen.uid)
        status = pod.get("status") or {}
        why = ": ".join(part for key in ("reason", "message") if (part := str(status.get(key) or ""))) or "disrupted"
        event = Event("Remade", f"pod {seen.name} was taken by the cluster ({why}): it is made anew", "Warning")
    wait = _delay(seen.disruptions, pod, now)
    return Fate(seen, "keep" if wait else "delete", wait=wait or None, event=event)


def _used_up(limit: int | None) -> str:
    """That a replica type may not be restarted any more, in words."""
    if not limit:
        return "its type is not restarted (its limit is 0)"
    return "the 1 restart of its type is used up" if limit == 1 else f"the {limit} restarts of its type are used up"


def _restart(seen: Record, pod: Object, policy: RestartPolicy, left: Allowance, now: datetime) -> Fate:
    code, ending = phase.exit_code(pod), phase.ending(pod)
    how, said = f"pod {name_of(pod)} {ending.how}", ending.last_words
    event = None
    if not seen.counted:
        if not _retryable(policy, code):
            return Fate(seen, lost=f"{how}, and its restart policy is {policy.policy}", last_words=said)
        if left.own is not None and left.own <= 0:
            return Fate(seen, lost=f"{how}, and {_used_up(policy.limit)}", last_words=said)
        if left.shared is not None and left.shared <= 0:
            return Fate(seen, lost=f"{how}, and the job's restarts are used up", last_words=said, exhausted=True)
        seen = replace(seen, restarts=seen.restarts + 1, last_failed=seen.uid)
        event = Event("Restarted", f"{how}: it is made anew (restart {seen.restarts}){said}", "Warning")
    wait = _delay(seen.restarts, pod, now)
    return Fate(seen, "keep" if wait else "delete", wait=wait or None, event=event)


def _retryable(policy: RestartPolicy, code: int | None) -> bool:
    if policy.policy == "ExitCode":
        return code in RETRYABLE_EXIT_CODES
    return policy.policy in ("OnFailure", "Always")


def pause(times: int) -> float:
    """Seconds from the end of a replica's pod to the next one: none the first time, then 2, 4, 8 … at most a minute."""
    return 0.0 if times <= 1 else min(MAX_DELAY, 2.0 ** min(times - 1, 10))


def _delay(times: int, pod: Object, now: datetime) -> float:
    """Seconds of the pause that are still to wait."""
    since = phase.ended_at(pod) or now
    return max(0.0, pause(times) - (now - since).total_seconds()) if times > 1 else 0.0
