"""Jobs that wait for others: at submission these are there, and none waits for itself in the end.

What is refused here can still come about by the annotation alone; then the job waits, and says why it will not start.
"""

from collections.abc import Iterator, Sequence

from t9ksched.api.auth import Caller
from t9ksched.api.authorization import JobAccess
from t9ksched.api.http.problems import Problem, invalid
from t9ksched.api.services import Services
from t9ksched.api.submission.lookup import from_cluster, see
from t9ksched.api.submission.submission import Item
from t9ksched.model.errors import FieldError, child
from t9ksched.model.names import AFTER_ANNOTATION
from t9ksched.workloads.dependencies import Dependency, circle, read_after
from t9ksched.workloads.registry import KINDS

_Name = tuple[str, str, str]
"""Namespace, kind and name."""


async def see_dependencies(services: Services, caller: Caller, items: Sequence[Item]) -> None:
    """See that what the jobs of a submission wait for is there, in it or before it, and that they do not wait for one
    another.

    Raises:
        Problem: InvalidField: a job that is waited for does not exist, or the caller may not see it; or some wait for
            one another. Or the cluster does not answer.
    """
    waits = {_name(item): list(_waits_for(item)) for item in items if item.is_job}
    own = {_name(item) for item in items}
    faults: list[FieldError] = []
    known: dict[_Name, bool] = {}
    for item in items:
        for one in waits.get(_name(item), ()):
            name = (item.workload.namespace, one.kind, one.name)
            if name in own:
                continue
            if name not in known:
                known[name] = await _is_there(services, caller, name)
            if not known[name]:
                text = f"there is no {one.title} in the namespace {name[0]!r} that you may see: submit it first"
                faults.append(FieldError(_path(item), text))
    ways = {_key(*name): [_key(name[0], one.kind, one.name) for one in found] for name, found in waits.items()}
    for item in items:
        if way := circle(ways, _key(*_name(item))):
            named = [each.partition(" ")[2] for each in (*way, way[0])]
            text = f"{item.what} would wait for itself: {' waits for '.join(named)}"
            faults.append(FieldError(_path(item), text))
            break
    if faults:
        raise invalid(dict.fromkeys(faults))


def _waits_for(item: Item) -> Iterator[Dependency]:
    annotations = item.obj["metadata"].get("annotations") or {}
    yield from read_after(str(annotations.get(AFTER_ANNOTATION) or ""))


def _key(namespace: str, kind: str, name: str) -> str:
    return f"{namespace} {kind}/{name}"


def _path(item: Item) -> str:
    return child(f"{item.prefix}metadata.annotations", AFTER_ANNOTATION)


def _name(item: Item) -> _Name:
    return item.workload.namespace, item.workload.kind, item.workload.name


async def _is_there(services: Services, caller: Caller, name: _Name) -> bool:
    """Whether the caller may see a job of that name, or an element of the array of that name."""
    namespace, kind, called = name
    resource = KINDS[kind].resource
    try:
        job, _ = await from_cluster(services, resource, namespace, called)
        await see(services, caller, job, resource, called)
    except Problem as problem:
        if problem.code != "NotFound":
            raise
        access = await JobAccess.of(services, caller)
        return any(access.see(row.shape) for row in await services.store.jobs.elements(namespace, kind, called))
    return True
