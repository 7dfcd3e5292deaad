"""Files of a job that is submitted again: its own ConfigMaps go with it, so the new job gets copies of its own."""

import secrets
from typing import Any

from t9ksched.api.http.problems import from_kube
from t9ksched.api.services import Services
from t9ksched.api.submission.configmaps import KIND, sources
from t9ksched.kube.errors import ApiError, NotFound
from t9ksched.kube.resources import CONFIGMAPS
from t9ksched.workloads.resubmission import another_name

Object = dict[str, Any]


async def with_files(services: Services, obj: Object, document: Object) -> list[Object]:
    """The document, made of the object, and copies of the ConfigMaps that the object owns, which it names then. Others
    stay as they are: they belong to somebody else.

    Raises:
        Problem: the cluster does not answer.
    """
    namespace, copies, names = obj["metadata"]["namespace"], list[Object](), dict[str, str]()
    for name in sorted({one["name"] for one in sources(document)}):
        try:
            found = await services.kube.get(CONFIGMAPS, name, namespace)
        except NotFound:
            continue
        except ApiError as error:
            raise from_kube(error, f"{KIND}/{name}") from error
        meta = found["metadata"]
        if not any(one.get("uid") == obj["metadata"]["uid"] for one in meta.get("ownerReferences") or ()):
            continue
        names[name] = another_name(name, secrets.randbits(64))
        kept = {key: meta[key] for key in ("labels", "annotations") if meta.get(key)}
        body = {key: found[key] for key in ("data", "binaryData", "immutable") if found.get(key) is not None}
        named = kept | {"namespace": namespace, "name": names[name]}
        copies.append({"apiVersion": "v1", "kind": KIND, "metadata": named, **body})
    for source in sources(document):
        source["name"] = names.get(source["name"], source["name"])
    return [document, *copies]
