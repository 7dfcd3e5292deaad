"""The submitter, the place of the workload, and what the credential permits: three values that rules keep apart. An
`Identity` names the submitter and grants nothing. `Rights` come with the credential of a request, or are recorded at
acceptance; without any, an identity may do what the queue's members and namespaces grant.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from t9ksched.model.names import PLATFORM_GROUP

OWNER_ANNOTATION: Final = f"{PLATFORM_GROUP}/owner"
"""Annotation of a namespace: the user it belongs to. It admits that user: RBAC must restrict writing it."""

ADMINISTRATOR: Final = "administrator"
MANAGER: Final = "manager"
ROLE_RULES: Final = frozenset({ADMINISTRATOR, MANAGER})
"""Rules by which a role, not a membership, permits; recorded at acceptance, so that the last gate knows them."""


class Identity(msgspec.Struct, frozen=True):
    """The submitter of a workload.

    Attributes:
        user: the name that REST authenticated or that is on record, None if it is unknown. A service account has the
            name that Kubernetes gives it, `system:serviceaccount:NAMESPACE:NAME`.
        groups: the groups of that user.
    """

    user: str | None = None
    groups: frozenset[str] = frozenset()


UNKNOWN: Final = Identity()
"""The identity of an unknown submitter."""


class Rights(msgspec.Struct, frozen=True):
    """What a credential permits in a queue, whatever the queue's members are.

    Attributes:
        role: one of `ROLE_RULES` if its holder has that role over the queue, else empty.
        queues: the only queues that the credential is good for; all if empty.
        credential: its name, for sentences.
    """

    role: str = ""
    queues: frozenset[str] = frozenset()
    credential: str = ""


NO_RIGHTS: Final = Rights()
"""A credential that permits nothing by itself and is good for every queue."""


class Namespace(msgspec.Struct, frozen=True):
    """A namespace by name, as access rules see it."""

    name: str
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def owner(self) -> str | None:
        """The user it belongs to; None if its annotation names none."""
        return self.annotations.get(OWNER_ANNOTATION) or None


class Place(msgspec.Struct, frozen=True):
    """Where a workload would be: a namespace, and the groups of its owner."""

    namespace: Namespace
    owner_groups: frozenset[str] = frozenset()
