"""Runs the auditor on a running cluster: every change is audited as it comes, and all findings are kept."""

from t9ksched.devcluster.audit.auditor import AuditReport, Books, Object, partial_gangs, placed
from t9ksched.devcluster.controllers.follow import Follower
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import NODES, PODGROUPS, PODS

_GROUP = "scheduler.tensorstack.dev/group-name"


class AuditWatcher:
    """Audits what a follower sees. `report()` has all findings since the start.

    Gangs are judged when a report is requested: in the middle of binding any gang is partial for a moment. A gang that
    was seen whole once may lose members later.
    """

    def __init__(self, follower: Follower) -> None:
        self._books = Books()
        self._pods = follower.cache(PODS)
        self._groups = follower.cache(PODGROUPS)
        self._placed: dict[str, set[str]] = {}
        self._ran: set[str] = set()
        follower.cache(NODES).listen(self._node)
        self._pods.listen(self._pod)

    @classmethod
    def on(cls, port: ClusterPort) -> tuple["AuditWatcher", Follower]:
        """A watcher with a follower of its own, which the caller runs."""
        follower = Follower(port)
        return cls(follower), follower

    def report(self) -> AuditReport:
        """All findings so far, and the present state of gangs and nodes."""
        partial, whole = partial_gangs(self._pods.objects.values(), self._groups.objects.values(), self._ran)
        self._ran |= whole
        return AuditReport((*self._books.findings, *self._books.missing_nodes()), tuple(partial))

    def _node(self, name: str, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._books.node_gone(name)
        else:
            self._books.node(new)

    def _pod(self, key: str, old: Object | None, new: Object | None) -> None:
        gone = new is None
        pod = old if gone else new
        assert pod is not None
        if group := (pod["metadata"].get("labels") or {}).get(_GROUP):
            self._note(f"{pod['metadata'].get('namespace', '')}/{group}", key, not gone and placed(pod))
        if new is None:
            self._books.leave(pod["metadata"]["uid"])
        elif old is None or _matters(old) != _matters(new):
            self._books.enter(new)

    def _note(self, group: str, key: str, has_place: bool) -> None:
        """Remember a gang that is whole, before it loses members again."""
        having = self._placed.setdefault(group, set())
        if not has_place:
            having.discard(key)
            return
        having.add(key)
        podgroup = self._groups.get(group)
        if podgroup is None or group in self._ran or len(having) < ((podgroup.get("spec") or {}).get("minMember") or 1):
            return
        pods = [self._pods.objects[member] for member in having if member in self._pods.objects]
        self._ran |= partial_gangs(pods, [podgroup])[1]


def _matters(pod: Object) -> tuple[object, ...]:
    """The fields of a pod that can change what its node holds."""
    return (pod.get("status") or {}).get("phase"), pod["metadata"].get("annotations"), pod["spec"]
