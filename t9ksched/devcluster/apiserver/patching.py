"""A patch applied to an object, in one of three languages; what comes of it is checked by the update that stores it."""

from typing import Any, Final

from t9ksched.devcluster.apiserver import patch, strategic
from t9ksched.devcluster.apiserver.kinds import Kind
from t9ksched.devcluster.apiserver.status import (
    StatusError,
    bad_request,
)

Object = dict[str, Any]

MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"


def apply_patch(kind: Kind | None, current: Object, body: Any, content_type: str) -> Any:
    """An object with a patch applied, not yet checked; `kind` None: a shape without merge keys."""
    if content_type == JSON_PATCH:
        if not isinstance(body, list):
            raise bad_request("error decoding patch: a JSON patch is a list of operations")
        try:
            return patch.apply(current, body)
        except patch.PatchFailed:
            raise general_refusal() from None
    if not isinstance(body, dict):
        raise bad_request("error decoding patch: a merge patch is an object")
    if content_type == MERGE_PATCH:
        return patch.merge(current, body)
    if content_type == STRATEGIC_PATCH and (kind is None or kind.model):
        try:
            return strategic.merge(current, body, kind.model if kind else "")
        except strategic.BadDirective as error:
            raise bad_request(str(error)) from None
    accepted = f"{JSON_PATCH}, {MERGE_PATCH}, {APPLY_PATCH}"
    text = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
    raise StatusError(415, "UnsupportedMediaType", text)


def general_refusal() -> StatusError:
    """The refusal of a patch that cannot be applied, or that leaves no object."""
    return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", {})
