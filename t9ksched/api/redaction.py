"""Hides other users' jobs in answers: how much they hold is shown, their names are not. The caller may see the name of
a holder of cards if its job is among the jobs that the caller may see.
"""

from t9ksched.api.authorization import JobAccess
from t9ksched.api.http.responses import Json
from t9ksched.api.leader import LeaderAway
from t9ksched.api.services import Services

_HIDDEN = ("namespace", "pod", "container", "job")


class Redaction:
    """Hides the names of jobs that one caller may not see."""

    def __init__(self, job_access: JobAccess, seen: frozenset[tuple[str, str]]) -> None:
        self._job_access = job_access
        self._seen = seen

    @classmethod
    async def of(cls, services: Services, job_access: JobAccess) -> "Redaction":
        """For this caller, by the jobs there are now."""
        if job_access.caller.is_admin:
            return cls(job_access, frozenset())
        try:
            jobs = await services.leader.jobs(job_access.visibility)
        except LeaderAway:
            jobs = []
        seen = {(str(job.get("namespace")), f"{job.get('kind')}/{job.get('name')}") for job in job_access.those(jobs)}
        return cls(job_access, frozenset(seen))

    def holder(self, holder: Json) -> Json:
        """A holder of cards; without names if the caller may not see its job."""
        if self._known(holder):
            return holder
        return holder | {key: None for key in _HIDDEN if key in holder} | {"job": None}

    def preemptor(self, detail: Json) -> Json:
        """Details that `name_others`, without the name of the job that got the room if the caller may not see it."""
        if not name_others(detail) or self._known({"job": detail.get("by"), "queue": detail["byQueue"]}):
            return detail
        return detail | {"by": None}

    def node(self, node: Json) -> Json:
        """A node whose cards and plans show only known jobs by name."""
        cards = [
            card | {"holders": [self.holder(one) for one in card.get("holders") or ()]}
            for card in node.get("gpus") or ()
        ]
        hidden: Json = {"gpus": cards}
        if misheld := node.get("cardsMisheld"):
            hidden["cardsMisheld"] = [self.holder(one) for one in misheld]
        if planned := node.get("planned"):
            hidden["planned"] = [self.holder(one) for one in planned]
        return node | hidden

    def _known(self, holder: Json) -> bool:
        if self._job_access.caller.rules(holder.get("queue")) or holder.get("namespace") in self._job_access.namespaces:
            return True
        job, namespace = str(holder.get("job")), str(holder.get("namespace"))
        # An explanation's holder names its job in full, a node's within the namespace beside it.
        space, _, rest = job.partition("/")
        return (namespace, job) in self._seen or (space, rest) in self._seen


def name_others(detail: Json) -> bool:
    """Whether details of history say which job got the room of this one."""
    return "byQueue" in detail
