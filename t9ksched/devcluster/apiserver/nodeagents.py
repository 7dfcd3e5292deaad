"""What kube-apiserver does before it passes a request about a container on to the kubelet of the pod's node."""

from typing import Any

from t9ksched.devcluster.apiserver.api import Api
from t9ksched.devcluster.apiserver.cells import node_address
from t9ksched.devcluster.apiserver.status import bad_request, internal, not_found
from t9ksched.devcluster.faults.faults import Faults

Object = dict[str, Any]
_KUBELET_PORT = 10250


def container_of(pod: Object, name: str) -> str:
    """The container that is meant; without a name the only one.

    Raises:
        StatusError: 400, there is none of that name, or several and none is named.
    """
    spec, title = pod["spec"], pod["metadata"]["name"]
    main = [str(one["name"]) for one in spec.get("containers") or ()]
    before = [str(one["name"]) for one in spec.get("initContainers") or ()]
    if name:
        if name in (*main, *before):
            return name
        raise bad_request(f"container {name} is not valid for pod {title}")
    if len(main) == 1:
        return main[0]
    choice = f"choose one of: [{' '.join(main)}]"
    if before:
        choice += f" or one of the init containers: [{' '.join(before)}]"
    raise bad_request(f"a container name must be specified for pod {title}, {choice}")


def reach_node(api: Api, faults: Faults, pod: Object, path: str) -> None:
    """Check that the pod's node answers.

    Raises:
        StatusError: 500, its kubelet is silent; 404, there is no such node.
    """
    name = pod["spec"]["nodeName"]
    nodes = api.kind("", "v1", "nodes")
    entry = api.collection(nodes).entries.get(name)
    if entry is None:
        raise not_found("nodes", "", name)
    if name in faults.silent:
        address = f"{node_address('InternalIP')(entry.object)}:{_KUBELET_PORT}"
        raise internal(f'Get "https://{address}{path}": dial tcp {address}: connect: connection refused', "")
