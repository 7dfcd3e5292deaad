"""Finding and removing the objects of a submission in progress, in the cluster.

The submission's entry in the outbox decides which objects there can be: of that kind, namespace and name. Of these one
is the submission's if its UID was written down; else if it carries the submission's secret text, was created during the
submission, and no other user is on record as its submitter. A user who copies that text to an object of another name,
time or submitter gains nothing.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import structlog

from t9ksched.api.services import Services
from t9ksched.api.submission.kinds import ACCEPTED
from t9ksched.api.submission.submission import Object
from t9ksched.kube.errors import ApiError, Conflict, NotFound
from t9ksched.model.names import SUBMISSION_ANNOTATION
from t9ksched.store.outbox import Entry

log = structlog.get_logger(__name__)

SKEW: Final = timedelta(minutes=1)
"""How far the clocks of service and cluster may differ, plus how long a request may be under way."""


def carries(obj: Object, mark: str) -> bool:
    """Whether an object that is not being deleted carries the mark of its submission."""
    meta = obj["metadata"]
    return not meta.get("deletionTimestamp") and (meta.get("annotations") or {}).get(SUBMISSION_ANNOTATION) == mark


def is_of(entry: Entry, place: int, obj: Object) -> bool:
    """Whether an object is the one that the entry created at that place, as far as the object says."""
    meta = obj["metadata"]
    if meta.get("deletionTimestamp"):
        return False
    if (uid := entry.uids[place]) is not None:
        return bool(meta.get("uid") == uid)
    if not carries(obj, entry.mark(place)):
        return False
    try:
        created = datetime.fromisoformat(str(meta.get("creationTimestamp")))
    except ValueError:
        return False
    return entry.at - SKEW <= created <= entry.latest + SKEW


async def find(services: Services, entry: Entry) -> list[Object | None]:
    """The objects of an entry that are there, in its order.

    Raises:
        ApiError: the cluster does not answer.
        StoreError: the record of their submitters cannot be read.
    """
    found: list[Object | None] = []
    for place, intent in enumerate(entry.objects):
        resource = ACCEPTED[intent.kind]
        try:
            obj = await services.kube.get(resource, intent.name, intent.namespace)
        except NotFound:
            obj = None
        found.append(obj if obj is not None and is_of(entry, place, obj) else None)
    known = await services.store.acceptances.of(obj["metadata"]["uid"] for obj in found if obj is not None)
    others = {uid for uid, one in known.items() if one.submitter not in (None, entry.owner)}
    return [None if obj is None or obj["metadata"]["uid"] in others else obj for obj in found]


async def remove(services: Services, entry: Entry, made: Sequence[Object | None]) -> list[str]:
    """Delete objects, those created last first, each by its UID; what could not be deleted, for sentences."""
    left = []
    for intent, obj in reversed(list(zip(entry.objects, made, strict=True))):
        if obj is None:
            continue
        meta: dict[str, Any] = obj["metadata"]
        try:
            await services.kube.delete(
                ACCEPTED[intent.kind], intent.name, intent.namespace, uid=meta["uid"], propagation="Background"
            )
        except (NotFound, Conflict):
            continue  # it is gone; what has its name now is another
        except ApiError as error:
            what = f"{intent.kind}/{intent.name}"
            log.warning("an object of a half-made submission could not be deleted", what=what, error=str(error))
            left.append(what)
    return left
