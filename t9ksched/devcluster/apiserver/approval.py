"""Groups that are Kubernetes' own: a definition in one says who approved it, or that nobody did."""

from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from t9ksched.devcluster.apiserver.status import Cause, bad_value, required

Object = dict[str, Any]

_NOTE: Final = "api-approved.kubernetes.io"
_CONDITION: Final = "KubernetesAPIApprovalPolicyConformant"
_OWNERS: Final = ("k8s.io", "kubernetes.io")
_LACKS: Final = f'protected groups must have approval annotation "{_NOTE}"'
_SEE: Final = ", see https://github.com/kubernetes/enhancements/pull/1111"


def approval_causes(new: Object, old: Object | None = None) -> list[Cause]:
    """What is wrong with the approval of a definition, unless it was so before."""
    given = _given(new)
    state = _state(given)
    if not _protected(new) or state in ("approved", "bypassed") or (old is not None and state == _state(_given(old))):
        return []
    field = f"metadata.annotations[{_NOTE}]"
    if state == "missing":
        return [required(field, _LACKS + _SEE)]
    return [bad_value(field, given, f'{_LACKS} with either a URL or a reason starting with "unapproved"{_SEE}')]


class ApprovalWords(NamedTuple):
    """What a condition says about an approval."""

    type: str
    status: bool
    reason: str
    message: str


def approval_words(definition: Object) -> ApprovalWords | None:
    """The condition of a definition about its approval; None where none is needed."""
    given = _given(definition)
    if not _protected(definition) or not given:
        return None
    if _state(given) == "approved":
        return ApprovalWords(_CONDITION, True, "ApprovedAnnotation", f"approved in {given}")
    return ApprovalWords(_CONDITION, False, "UnapprovedAnnotation", f'not approved: "{given}"')


def _given(definition: Object) -> str:
    return str((definition["metadata"].get("annotations") or {}).get(_NOTE, ""))


def _protected(definition: Object) -> bool:
    group = str(definition["spec"].get("group", ""))
    return any(group == owner or group.endswith(f".{owner}") for owner in _OWNERS)


def _state(given: str) -> str:
    if not given:
        return "missing"
    if given.startswith("unapproved"):
        return "bypassed"
    try:
        parts = urlsplit(given)
    except ValueError:
        return "invalid"
    return "approved" if parts.scheme and parts.netloc else "invalid"
