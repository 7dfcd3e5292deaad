"""Checks a submission against all rules before anything is created."""

from collections import Counter
from dataclasses import replace

from t9ksched import admission
from t9ksched.admission.judge import ENTRY
from t9ksched.admission.request import JoinedGroup
from t9ksched.api.auth import Caller
from t9ksched.api.authorization import NOWHERE, may_caller_use, place_of, rules_of, usable
from t9ksched.api.http.aside import aside
from t9ksched.api.http.problems import refused
from t9ksched.api.leader import LeaderAway
from t9ksched.api.services import Services
from t9ksched.api.submission.creation import may_create
from t9ksched.api.submission.kinds import owner_reference
from t9ksched.api.submission.submission import Item, Object, check, entering
from t9ksched.kube.errors import NotFound
from t9ksched.kube.resources import CONFIGMAPS, PODGROUPS
from t9ksched.model.errors import child
from t9ksched.model.names import DEFAULT_QUEUE, GROUP_LABEL
from t9ksched.model.quantity import to_units


async def judge(services: Services, caller: Caller, items: list[Item]) -> None:
    """Check the submission against all rules.

    Raises:
        Problem: a rule refuses it.
    """
    await services.allowances.waiting(
        caller.user, Counter(item.workload.queue for item in items if item.is_job and item.workload.queue)
    )
    created = {(item.resource, item.workload.namespace) for item in items}
    created |= {(CONFIGMAPS, item.workload.namespace) for item in items if item.files}
    for resource, namespace in created:
        await may_create(services, caller, resource, namespace)
    await _join_existing_groups(services, caller, items)
    named = {item.workload.queue for item in items if item.ours}
    records = {name: caller.decided.queues[name] for name in named if name in caller.decided.queues}
    for item in items:
        if item.ours and item.group is None and item.workload.queue in records:
            place = await place_of(services, caller, item.workload.namespace)
            item.access = may_caller_use(caller, records[item.workload.queue], place)
            verdict = admission.judge(entering(item, caller.identity), ENTRY)
            if not verdict.allowed:
                raise refused(verdict)
    queues = {name: rules_of(record)[0] for name, record in records.items()}
    wanted = [queues[item.workload.queue] for item in items if item.workload.queue in queues]
    held = await _held(services) if any(queue.spec.over_quota == "Reject" for queue in wanted) else None
    await aside(
        services,
        len(items),
        check,
        items,
        caller.identity,
        queues,
        held,
        () if named <= records.keys() else await usable_names(services, caller),
    )


async def _join_existing_groups(services: Services, caller: Caller, items: list[Item]) -> None:
    """Look up the PodGroups of the cluster that pods name. A pod that joins one is charged to that group's queue. Into
    the group of a job only the job's own submitter may submit pods, and the last gate admits them.

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
        item.joins = await _joined(services, caller, item, group)
        verdict = admission.judge(entering(item, caller.identity), ENTRY)
        if not verdict.allowed:
            raise refused(verdict)
        queue = (group.get("spec") or {}).get("queue") or DEFAULT_QUEUE
        item.workload = replace(item.workload, queue=queue)


async def _joined(services: Services, caller: Caller, item: Item, group: Object) -> JoinedGroup:
    """What decides whether a pod may join the group."""
    key = f"{item.workload.namespace}/{item.workload.group}"
    path = child(f"{item.prefix}metadata.labels", GROUP_LABEL)
    above = owner_reference(group)
    if above is None:
        return JoinedGroup(key, path)
    record = await services.store.acceptances.get(str(above.get("uid")))
    together = record is not None and record.submitter == caller.user
    return JoinedGroup(key, path, f"{above.get('kind')}/{above.get('name')}", together)


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
    return [one.name for one, _ in usable(caller, [NOWHERE])]
