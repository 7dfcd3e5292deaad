"""A job as REST, the CLI and history show it, from the scheduler's state."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from t9ksched.model.card_worth import asked
from t9ksched.model.job import JobMembers, JobView
from t9ksched.model.podclass import PodClass
from t9ksched.model.quantity import CARD, as_cards
from t9ksched.model.run_times import Likeness
from t9ksched.scheduler.report.job_phase import goes_on, phase, why_ended
from t9ksched.scheduler.report.job_reason import shown_reason
from t9ksched.scheduler.report.observed_job import (
    ObservedJob,
    former_submitters,
    is_past,
    observed_job,
    submitter,
)
from t9ksched.scheduler.report.planned_shape import expected_start, learned_limit, told_start, with_expectation
from t9ksched.scheduler.report.single_pod import timestamp, to_start, view_of
from t9ksched.scheduler.state.limits import limit_of
from t9ksched.scheduler.state.owners import Root
from t9ksched.scheduler.state.records import FINISHED, GangRecord
from t9ksched.scheduler.state.state import ClusterState

Json = dict[str, Any]


def job_shape(view: ObservedJob, state: ClusterState) -> Json:
    """The JSON of a job."""
    return job_view(view, state).to_json()


def job_of(state: ClusterState, uid: str) -> JobView | None:
    """The job of that UID as users see it; None where it is not there."""
    if (single := to_start(state, uid)) is not None:
        return view_of(state.gangs_by_uid[uid], single, state)
    view = observed_job(state, uid)
    return None if view is None else _job_view(view, state)


def job_view(view: ObservedJob, state: ClusterState) -> JobView:
    """The job as users see it."""
    if (single := to_start(state, view.uid)) is not None:
        return view_of(view.gangs[0], single, state)
    return _job_view(view, state)


def _job_view(view: ObservedJob, state: ClusterState) -> JobView:
    gangs, pods = view.gangs, view.pods
    first = gangs[0] if gangs else None
    record, now = view.record, phase(view, state)
    over = now in FINISHED
    waiting = None
    for gang in gangs:
        if gang.reasons:
            waiting = None if over or goes_on(view, now) else gang
            break
    limited = why_ended(state, view.uid)
    ended = state.clocks.by_job[view.uid].run.ended_at if limited is not None and not waiting else 0
    if not ended and over:
        ended = max((pod.ended for pod in pods), default=0)
    bound, cards, lost = 0, _Cards(), _Cards()
    layouts = state.node_events.card_layouts
    counts: dict[str, int] = {}
    root = state.owners.root(first) if first and first.owner else _root_of(state, view)
    least = total = 0
    for gang in gangs:
        past = not over and is_past(gang)
        if not past:
            least, total = least + gang.minimum.members, total + len(gang.members)
        for pod in gang.members.values():
            counts[pod.phase] = counts.get(pod.phase, 0) + 1
            if pod.node and pod.phase not in FINISHED:
                bound += 1
            if pod.pod_class is not None and not past:
                charge = state.charges.get(pod.uid)
                worth = charge.worth if charge is not None else pod.worth or asked(pod.pod_class, layouts)
                (lost if pod.phase == "Failed" else cards).add(pod.pod_class, worth)
    running, succeeded, failed = counts.get("Running", 0), counts.get("Succeeded", 0), counts.get("Failed", 0)
    started = _start(view, root, state, ended=over)
    if over:
        had = record.had if record is not None else None
        if had is None:
            accepted = first.acceptance if first is not None and first.owner is None else None
            total = max(total, (accepted and accepted.replicas) or 0)  # ended pods may be gone
            cards = cards.and_ended(lost, sum(accepted.cards.values()) if accepted is not None else 0)
        else:  # replaced pods are still there, or ended ones are gone
            least, total, cards = had.minimum, had.total, _Cards()
            for of, count in had.classes:
                cards.add(of, asked(of, layouts), count)
            succeeded, failed = max(succeeded, had.succeeded), max(failed, had.failed)
    above = root if root is not None and root.uid != view.uid else None
    plan = told_start(gangs, state) if waiting else None
    by, limit = submitter(view, state), limit_of(state, gangs, view.uid)
    if not limit.enforced and by is not None and (waiting is not None or now == "Running"):
        likeness = Likeness(by, view.queue or "", view.kind, (total, cards.number))
        limit = learned_limit(likeness, 0 if waiting else started, state)
    return JobView(
        api_version=view.api_version,
        namespace=view.namespace,
        kind=view.kind,
        name=view.name,
        uid=view.uid,
        group=_group(gangs),
        queue=view.queue,
        priority=first.priority if first else (record.priority if record else 0),
        submitter=by,
        phase=now,
        members=JobMembers(least, total, bound, running, succeeded, failed),
        gpus=cards.number,
        cards=as_cards(cards.worth),
        submitted_at=timestamp(view.created),
        started_at=timestamp(started),
        finished_at=timestamp(record.finished if record else ended if over else 0),
        position=waiting.position if waiting else None,
        reason=with_expectation(shown_reason(view, now, waiting, limited, state), plan),
        planned_start=plan,
        expected_start=expected_start(gangs, state) if waiting else None,
        time_limit=limit,
        labels=_labels(view),
        former_submitters=former_submitters(view, state),
        root=above.title if above else "",
        root_uid=above.uid if above else "",
    )


def _group(gangs: Iterable[GangRecord]) -> str | None:
    """The first PodGroup that is an object."""
    for gang in gangs:
        if not (gang.virtual or gang.foreign):
            return gang.name
    return None


def _labels(view: ObservedJob) -> Mapping[str, str]:
    """The labels of its object; of one that is not watched none, but those of a plain pod."""
    if view.record is not None:
        return view.record.labels
    alone = bool(view.pods) and view.gangs[0].virtual and view.gangs[0].owner is None
    return view.pods[0].labels if alone else {}


class _Cards(msgspec.Struct):
    """Cards that pods have a part of, and how much that is of cards, in parts of `quantity.CARD`."""

    number: int = 0
    worth: int = 0

    def add(self, of: PodClass, worth: int, pods: int = 1) -> None:
        """Those of pods that have so much each."""
        self.number += pods * sum(of.card_counts.values())
        self.worth += pods * worth

    def and_ended(self, lost: "_Cards", least: int) -> "_Cards":
        """Those of an ended job: with its failed pods, and `least` whole cards where its pods are gone."""
        number = self.number + lost.number
        return _Cards(max(number, least), self.worth + lost.worth + max(0, least - number) * CARD)


def _root_of(state: ClusterState, view: ObservedJob) -> Root | None:
    """The root owner of a job without groups; None if the job is known to have none."""
    owner = state.owners.titled(view.uid) if view.record is None else None
    if owner is None or owner.above is None:
        return None
    above = owner.above
    return Root(above.uid, above.api_version, above.kind, view.namespace, above.name, state.owners.titled(above.uid))


def _start(view: ObservedJob, root: Root | None, state: ClusterState, *, ended: bool) -> int:
    """When the job's present run began, else its last one; 0 if it never had a place.

    While the clock of its limit is known, that is the moment it counts from. What was recorded of the job, or of the
    root owner that it belongs to, outlives clock and pods. Without either the pods that are there tell. A batch Job's
    own `startTime` is when its controller first saw it, so it counts only where nothing else is known.
    """
    clock = state.clocks.by_job.get(view.uid)
    if clock is not None and clock.run.ran_at:
        return clock.run.ran_at
    acceptance = state.acceptances.get(root.uid if root is not None else view.uid)
    if acceptance is not None and acceptance.started_at is not None:
        return int(acceptance.started_at.timestamp() * 1e9)
    times = [pod.started for pod in view.pods if pod.started]
    if view.record is not None and (view.record.kind != "Job" or (ended and not times)) and view.record.started:
        times.append(view.record.started)
    return min(times, default=0)
