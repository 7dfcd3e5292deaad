"""The pods with which the GPU operator tries nodes, as the watch shows them."""

from t9ksched.model.pod import Pod
from t9ksched.model.readiness import Failing
from t9ksched.model.validators import Validation, failing, validation


class Validations:
    """Each change answers the nodes of which other validations fail now."""

    def __init__(self) -> None:
        self._nodes: dict[str, str] = {}
        """By UID of the pod."""
        self._of: dict[str, dict[str, Validation]] = {}
        """By node and UID of the pod."""

    def on(self, node: str) -> tuple[Failing, ...]:
        """Those that fail on a node."""
        those = self._of.get(node)
        return failing(those.values()) if those else ()

    def seen(self, pod: Pod) -> list[str]:
        """A pod appeared or changed."""
        uid, found = pod.metadata.uid, validation(pod)
        if found is None:
            return self.gone(uid)
        node = pod.spec.node_name
        before = self.on(node)
        changed = self.gone(uid) if self._nodes.get(uid, node) != node else []
        self._nodes[uid] = node
        self._of.setdefault(node, {})[uid] = found
        return [*changed, node] if self.on(node) != before else changed

    def gone(self, uid: str) -> list[str]:
        """A pod is gone, or tries no node any more."""
        node = self._nodes.pop(uid, None)
        if node is None:
            return []
        before = self.on(node)
        del self._of[node][uid]
        if not self._of[node]:
            del self._of[node]
        return [node] if self.on(node) != before else []
