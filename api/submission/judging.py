"""Checks a submission against all rules before anything is created."""

from collections import Counter
from dataclasses import replace

from api.auth import Caller
from api.authorization import Place, may_caller_use, rules_of, usable
from api.http.aside import aside
from api.http.problems import Problem, refused
from api.leader import LeaderAway
from api.services import Services
from api.submission.creation import may_create
from api.submission.kinds import owner_reference
from api.submission.submission import Item, check
from t9ksched.admission import Verdict
from t9ksched.admission.access import within_maximum
from t9ksched.kube.errors import NotFound
from t9ksched.kube.resources import PODGROUPS
from t9ksched.model.errors import FieldError, child
from t9ksched.model.names import DEFAULT_QUEUE, GROUP_LABEL
from t9ksched.model.quantity import to_units
from t9ksched.store.queues import QueueRecord


async def judge(services: Services, caller: Caller, items: list[Item]) -> None:
    """Check the submission against all rules.

    Raises:
        Problem: a rule refuses it.
    """
    await services.allowances.waiting(
        caller.user, Counter(item.workload.queue for item in items if item.is_job and item.workload.queue)
    )
    for resource, namespace in {(item.resource, item.workload.namespace) for item in items}:
        await may_create(services, caller, resource, namespace)
    await _join_existing_groups(services, caller, items)
    named = {item.workload.queue for item in items if item.ours}
    records = {name: caller.decided.queues[name] for name in named if name in caller.decided.queues}
    for item in items:
        if item.ours and item.group is None and item.workload.queue in records:
            await _permit(services, caller, item, records[item.workload.queue])
    queues = {name: rules_of(record)[0] for name, record in records.items()}
    wanted = [queues[item.workload.queue] for item in items if item.workload.queue in queues]
    held = await _held(services) if any(queue.spec.over_quota == "Reject" for queue in wanted) else None
    await aside(
        services,
        len(items),
        check,
        items,
        queues,
        held,
        () if named <= records.keys() else await usable_names(services, caller),
    )


async def _permit(services: Services, caller: Caller, item: Item, record: QueueRecord) -> None:
    """Check that the caller may use the queue at that priority, and note by which rule."""
    access = may_caller_use(caller, record, await Place.of(services, caller, item.workload.namespace))
    verdict: Verdict = access
    if access.allowed:
        verdict = within_maximum(access, item.workload.priority, record.name, item.priority_path)
    if not verdict.allowed:
        faults = verdict.errors or (FieldError(item.queue_path, verdict.message),)
        raise refused(replace(verdict, errors=faults))
    for part in (item, *item.members):
        part.permitted_by = access.rule


async def _join_existing_groups(services: Services, caller: Caller, items: list[Item]) -> None:
    """A pod that joins a PodGroup of the cluster is charged to that group's queue. Into the group of a job only the
    job's own submitter may submit pods, and the last gate admits them.

    Raises:
        Problem: the group belongs to another user's job.
    """
    for item in items:
        if item.workload.group is None or item.group is not None or not item.ours:
            continue
        try:
            group = await services.kube.get(PODGROUPS, item.workload.group, item.workload.namespace)
        except NotFound:
            continue  # it waits until the group appears
        if (above := owner_reference(group)) is not None:
            record = await services.store.acceptances.get(str(above.get("uid")))
            if record is None or record.submitter != caller.user:
                title = f"{above.get('kind')}/{above.get('name')}"
                text = f"PodGroup/{item.workload.group} is that of {title}, whose controller makes its pods"
                path = child(f"{item.prefix}metadata.labels", GROUP_LABEL)
                remedy = "leave the label out, or name a PodGroup of your own"
                raise Problem("Forbidden", text, [FieldError(path, text)], remedy=remedy)
        queue = (group.get("spec") or {}).get("queue") or DEFAULT_QUEUE
        item.workload = replace(item.workload, queue=queue)


async def _held(services: Services) -> dict[str, dict[str, int]] | None:
    """What each queue holds now, in units; None while no leader answers."""
    try:
        queues = await services.leader.queues()
    except LeaderAway:
        return None
    return {
        name: {resource: to_units(resource, amount) for resource, amount in (status.get("allocated") or {}).items()}
        for name, status in queues.items()
    }


async def usable_names(services: Services, caller: Caller) -> list[str]:
    """The names of the queues that the caller may use in any namespace: suggestions for a misspelt name."""
    nowhere = await Place.of(services, caller, None)
    return [one.name for one, _ in usable(caller, [nowhere])]
