"""What the cluster itself lets a user do: SubjectAccessReviews, asked with the service's own right to ask them."""

from t9ksched.api.auth import Caller
from t9ksched.api.services import Services
from t9ksched.kube.errors import NotFound
from t9ksched.kube.resources import SUBJECTACCESSREVIEWS
from t9ksched.model.api_resource import Resource


async def cluster_allows(
    services: Services,
    caller: Caller,
    verb: str,
    resource: Resource,
    namespace: str,
    name: str = "",
    subresource: str = "",
) -> bool:
    """Whether the cluster lets the caller do this to the object of that name, or to a part of it; without a name, to
    any of the namespace.

    A cluster without authorisation lets every user do everything.

    Raises:
        ApiError: the cluster did not answer.
    """
    attributes = {"namespace": namespace, "verb": verb, "group": resource.group, "resource": resource.plural}
    named = {"name": name, "subresource": subresource}
    review = {
        "apiVersion": SUBJECTACCESSREVIEWS.api_version,
        "kind": SUBJECTACCESSREVIEWS.kind,
        "metadata": {},
        "spec": {
            "user": caller.user,
            "groups": [*sorted(caller.groups), "system:authenticated"],
            "resourceAttributes": attributes | {key: value for key, value in named.items() if value},
        },
    }
    try:
        answer = await services.kube.create(SUBJECTACCESSREVIEWS, review)
    except NotFound:
        return True
    return bool((answer.get("status") or {}).get("allowed"))
