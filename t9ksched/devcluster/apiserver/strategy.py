"""What distinguishes one kind from another: defaults, rules at create and update, and how it is deleted.

`Strategy` is the default; a kind with rules of its own overrides what differs. The methods get objects that are
the caller's own and may change them in place; `old` is a stored object and must not be changed.
"""

from collections.abc import Callable
from typing import Any

from t9ksched.devcluster.apiserver import metadata, names
from t9ksched.devcluster.apiserver.selectors import METADATA_FIELDS, Fields
from t9ksched.devcluster.apiserver.status import Cause, StatusError

Object = dict[str, Any]


class Context:
    """What a strategy may look up in the rest of the cluster while it admits an object."""

    def priority_class(self, name: str) -> Object | None:
        """The PriorityClass of that name; with an empty name, the default one."""
        raise NotImplementedError

    def allocate_ip(self, wanted: str) -> str:
        """A service address that no other service has: the wanted one, or a free one when that is empty."""
        raise NotImplementedError

    def allocate_port(self, wanted: int) -> int:
        """A node port that no other service has."""
        raise NotImplementedError


class Strategy:
    """A kind without rules of its own: everything outside metadata is stored as given."""

    has_status = False
    """Whether status is written through its own subresource."""
    counts_generation = False
    create_on_update = False
    """Whether a PUT of an absent object creates it."""
    unconditional_update = True
    """Whether a PUT may leave out the resourceVersion."""
    answers_object = False
    """Whether a delete answers with the object instead of a Status."""
    twice = True
    """Built-in kinds check changed metadata twice, so each fault is listed twice."""
    fields: Fields = METADATA_FIELDS
    name_fault: Callable[[str], str] = staticmethod(names.subdomain_fault)

    def default(self, obj: Object) -> None:
        """Fill in what a client may leave out; runs after each decoding, so it must not undo a user's choice."""

    def admit(self, obj: Object, context: Context) -> StatusError | None:
        """Set or check what depends on other objects, at create; an error refuses the object."""
        return None

    def prepare_create(self, obj: Object) -> None:
        """Bring a new object to its first state."""
        if self.counts_generation:
            obj["metadata"]["generation"] = 1
        if self.has_status:
            obj["status"] = {}

    def validate(self, obj: Object) -> list[Cause]:
        """The faults of the object's content (metadata is checked elsewhere)."""
        return []

    def prepare_update(self, new: Object, old: Object) -> None:
        """Put back what a main write may not change."""
        if self.has_status:
            _take(new, old, "status")
        if self.counts_generation:
            self.count_generation(new, old)

    def count_generation(self, new: Object, old: Object) -> None:
        """Set the generation of a main write: one more when the spec differs."""
        before = old["metadata"].get("generation", 0)
        new["metadata"]["generation"] = before + (new.get("spec") != old.get("spec"))

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """The faults of a changed object."""
        return self.validate(new)

    def admit_update(self, new: Object, context: Context) -> StatusError | None:
        """Set or check what depends on other objects, at a main update without faults; an error refuses the update."""
        return None

    def prepare_status(self, new: Object, old: Object) -> Object:
        """What a status write stores: the old object with the new status and metadata."""
        result = {**old, "metadata": new["metadata"]}
        _take(result, new, "status")
        if "generation" in old["metadata"]:
            result["metadata"]["generation"] = old["metadata"]["generation"]
        return result

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        """The faults of a status write."""
        return []

    def deletion_grace(self, obj: Object, asked: int | None) -> int | None:
        """The seconds that the object stays after a delete; None: it is removed at once and without notice."""
        return None

    def mark_deleted(self, obj: Object) -> None:
        """Change what a first delete leaves behind of an object that stays for now (its top level is a copy)."""


class StatusStrategy(Strategy):
    """A plain kind with a status subresource."""

    has_status = True


def _take(target: Object, source: Object, field: str) -> None:
    if field in source:
        target[field] = source[field]
    else:
        target.pop(field, None)


def check_metadata(strategy: Strategy, obj: Object) -> list[Cause]:
    """The faults of a new object's metadata under the kind's rule for names."""
    return metadata.validate(obj["metadata"], type(strategy).name_fault)
