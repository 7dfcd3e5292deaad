"""Warnings about what is accepted: fields and names that are probably misspelt.

The leader knows which names exist in the cluster; while no leader answers, only fields, labels and annotations are
checked.
"""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

import yaml

from api.auth import Caller
from api.authorization import rules_of
from api.http.aside import FEW
from api.http.responses import Json
from api.leader import LeaderAway
from api.services import Services
from api.submission.submission import Item
from t9ksched.admission.misspelt import misspelt_fields, misspelt_metadata
from t9ksched.admission.oddities import Vocabulary, odd_pods, odd_queue
from t9ksched.admission.podfields import POD_SPEC
from t9ksched.model.api_resource import Resource
from t9ksched.model.errors import FieldWarning
from t9ksched.packaged import folder
from t9ksched.workloads.registry import KINDS


async def about_queue(services: Services, spec: Json) -> list[Json]:
    """What is odd about a queue's spec."""
    known = await _known(services)
    return [] if known is None else [warning.to_dict() for warning in odd_queue(spec, known)]


async def about_jobs(services: Services, caller: Caller, items: Iterable[Item]) -> list[Json]:
    """What is odd about the objects of a submission, document by document."""
    known = await _known(services)
    if known is not None:
        named = {name for record in caller.decided.queues.values() for name in rules_of(record)[0].spec.quota}
        known = known.and_quotas(sorted(named))
    found: list[FieldWarning] = []
    for place, item in enumerate(items):
        if place % FEW == FEW - 1:
            await asyncio.sleep(0)
        schema = await asyncio.to_thread(_schema, item.resource)  # the first look at a kind reads a file
        found += (replace(one, path=f"{item.prefix}{one.path}") for one in _misspelt(item, schema))
        if known is not None:
            for template in item.workload.templates:
                found += odd_pods(template.spec, f"{item.prefix}{template.path}", known)
    return [warning.to_dict() for warning in dict.fromkeys(found)]


def _misspelt(item: Item, schema: Json) -> Iterator[FieldWarning]:
    yield from misspelt_metadata(item.obj.get("metadata"), "metadata")
    yield from misspelt_fields(item.obj, schema)
    for template in item.workload.templates:
        yield from misspelt_fields(template.spec, POD_SPEC, template.path)
        if not template.path.endswith("template.spec"):
            continue  # a Pod's metadata is its own; of what is generated nothing was written
        yield from misspelt_metadata(template.metadata, f"{template.path.removesuffix('spec')}metadata")


@lru_cache(maxsize=len(KINDS))
def _schema(resource: Resource) -> Json:
    """The schema of a kind that is defined here; of others, and without the files, one that judges nothing."""
    try:
        text = (folder("crds") / f"{resource}.yaml").read_bytes()
    except OSError:
        return {}
    definition = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    (version,) = (one for one in definition["spec"]["versions"] if one["name"] == resource.version)
    return dict(version["schema"]["openAPIV3Schema"])


async def _known(services: Services) -> Vocabulary | None:
    try:
        return await services.leader.names()
    except LeaderAway:
        return None
