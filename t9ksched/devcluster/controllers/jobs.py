"""The batch/v1 Job controller of the dev cluster.

It keeps `parallelism` pods at work until `completions` have succeeded, makes failed ones anew up to `backoffLimit`, and
writes counts and conditions as Kubernetes 1.31 and newer do: `SuccessCriteriaMet` then `Complete`, `FailureTarget` then
`Failed`, the second once no pod is left. Honoured too: `suspend`, `activeDeadlineSeconds`, `ttlSecondsAfterFinished`,
Indexed completion. A failed pod is replaced after 1 s, doubling to 60 s. Pods carry no tracking finalizers: successes
are remembered in `status.succeeded`.
"""

from typing import Any, Final

from t9ksched.devcluster.controllers.follow import Follower, Reconciler, split_key
from t9ksched.devcluster.controllers.podset import (
    Owned,
    expendable_first,
    from_template,
    is_active,
    is_ready,
    owner_key,
    still_wanted,
)
from t9ksched.devcluster.controllers.timers import Timers, to_seconds, to_text
from t9ksched.devcluster.nodes.podstatus import is_terminal, phase_of
from t9ksched.kube.errors import Conflict, NotFound
from t9ksched.kube.port import ClusterPort
from t9ksched.kube.resources import JOBS, PODS
from t9ksched.model.whole import whole_number

Object = dict[str, Any]

INDEX: Final = "batch.kubernetes.io/job-completion-index"
_OMITTED: Final = ("active", "succeeded", "failed", "conditions", "completedIndexes")
"""Left out of the status when empty or zero, as the server does."""
BURST: Final = 500
"""Pods made before the job is looked at again."""


class JobController(Reconciler):
    """Reconciles jobs by key."""

    def __init__(self, port: ClusterPort, follower: Follower, timers: Timers) -> None:
        super().__init__(timers)
        self._port = port
        self._jobs = follower.cache(JOBS)
        self._pods = follower.cache(PODS)
        self._owned = Owned(self._pods)
        self._jobs.listen(lambda key, old, new: self.mark(key) if new is not None else None)
        self._pods.listen(self._pod_changed)

    def _pod_changed(self, key: str, old: Object | None, new: Object | None) -> None:
        if owner := owner_key(new or old, "Job"):
            self.mark(owner)

    async def reconcile(self, key: str) -> None:
        """Make or take away pods, and write the job's status."""
        job = self._jobs.get(key)
        if job is None or job["metadata"].get("deletionTimestamp"):
            return
        now = self.timers.clock()
        if _condition(job, "Complete") or _condition(job, "Failed"):
            await self._clean_up(key, job, now)
            return
        state = _Count(job, self._owned.of(job))
        status = dict(job.get("status") or {})
        conditions = {entry["type"]: entry for entry in status.get("conditions") or []}
        suspended = bool(job["spec"].get("suspend"))
        if suspended != (conditions.get("Suspended", {}).get("status") == "True") and (
            suspended or "Suspended" in conditions
        ):
            reason = "JobSuspended" if suspended else "JobResumed"
            conditions["Suspended"] = _new_condition("Suspended", suspended, reason, "", now)
            status.pop("startTime", None)
        if not suspended:
            status.setdefault("startTime", to_text(now))
        verdict = self._verdict(key, job, state, status, conditions, now)
        if verdict:
            conditions.setdefault(verdict["type"], verdict)
        await self._fit(key, job, state, 0 if verdict or suspended else state.wanted, now)
        state = _Count(job, self._owned.of(job))
        if verdict and not state.active and not state.terminating:
            final = "Complete" if verdict["type"] == "SuccessCriteriaMet" else "Failed"
            conditions[final] = _new_condition(final, True, verdict["reason"], verdict["message"], now)
            if final == "Complete":
                status["completionTime"] = to_text(now)
        status |= state.numbers()
        status["conditions"] = list(conditions.values())
        await self._write(key, job, status)

    def _verdict(
        self, key: str, job: Object, state: "_Count", status: Object, conditions: dict[str, Object], now: float
    ) -> Object | None:
        """The condition that ends the job, if it is at its end."""
        for kind in ("SuccessCriteriaMet", "FailureTarget"):
            if kind in conditions:
                return conditions[kind]
        if state.complete:
            text = f"{state.succeeded} pods succeeded"
            return _new_condition("SuccessCriteriaMet", True, "CompletionsReached", text, now)
        limit = job["spec"].get("backoffLimit", 6)
        if state.failed > limit:
            text = f"{state.failed} pods failed, more than the backoffLimit of {limit}"
            return _new_condition("FailureTarget", True, "BackoffLimitExceeded", text, now)
        seconds, started = job["spec"].get("activeDeadlineSeconds"), to_seconds(status.get("startTime"))
        if seconds is not None and started is not None:
            if started + seconds <= now:
                text = f"the job was active longer than its activeDeadlineSeconds of {seconds}"
                return _new_condition("FailureTarget", True, "DeadlineExceeded", text, now)
            self.timers.at(started + seconds, (type(self).__name__, "deadline", key), lambda: self.mark(key))
        return None

    async def _fit(self, key: str, job: Object, state: "_Count", wanted: int, now: float) -> None:
        """Bring the number of working pods to `wanted`, or a step towards it."""
        if state.active > wanted:
            for pod in expendable_first(pod for pod in state.pods if is_active(pod))[: state.active - wanted]:
                await self._delete(PODS, pod)
            return
        missing = wanted - state.active - state.terminating
        if missing <= 0:
            return
        wait = state.pause_until()
        if wait > now:
            self.mark_at(wait, key)
            return
        if not await still_wanted(self._port, JOBS, job):
            return
        labels = {
            "batch.kubernetes.io/job-name": job["metadata"]["name"],
            "job-name": job["metadata"]["name"],
            "batch.kubernetes.io/controller-uid": job["metadata"]["uid"],
            "controller-uid": job["metadata"]["uid"],
        }
        indices = state.free_indices() if state.indexed else [None] * missing
        for index in indices[: min(missing, BURST)]:
            pod = from_template(job, JOBS, labels)
            if index is not None:
                _stamp(pod, job, index)
            self._pods.learn(await self._port.create(PODS, pod))
        if missing > BURST:
            self.mark(key)

    async def _clean_up(self, key: str, job: Object, now: float) -> None:
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None:
            return
        ended = _condition(job, "Complete") or _condition(job, "Failed") or {}
        due = (to_seconds(ended.get("lastTransitionTime")) or now) + ttl
        if due > now:
            self.mark_at(due, key)
        else:
            await self._delete(JOBS, job)

    async def _delete(self, res: Any, obj: Object) -> None:
        metadata = obj["metadata"]
        try:
            await self._port.delete(
                res, metadata["name"], metadata["namespace"], uid=metadata["uid"], propagation="Background"
            )
        except (NotFound, Conflict):
            return  # gone already, or another of its name

    async def _write(self, key: str, job: Object, status: Object) -> None:
        before = job.get("status") or {}
        status = {name: value for name, value in status.items() if value or name not in _OMITTED}
        if status == before:
            return
        body = {"metadata": {"uid": job["metadata"]["uid"]}, "status": {**dict.fromkeys(before), **status}}
        namespace, name = split_key(key)
        try:
            self._jobs.learn(await self._port.patch(JOBS, name, namespace, body, subresource="status"))
        except NotFound:
            return


class _Count:
    """How many of a job's pods are in which state."""

    def __init__(self, job: Object, pods: list[Object]) -> None:
        self._job = job
        self.pods = pods
        spec, status = job["spec"], job.get("status") or {}
        self.indexed = spec.get("completionMode") == "Indexed"
        self.active = sum(is_active(pod) for pod in pods)
        self.terminating = sum(bool(p["metadata"].get("deletionTimestamp")) and not is_terminal(p) for p in pods)
        self.ready = sum(is_ready(pod) for pod in pods if is_active(pod))
        done = [pod for pod in pods if phase_of(pod) == "Succeeded"]
        self.done_indices = {_index(pod) for pod in done} if self.indexed else set()
        ended = len(self.done_indices) if self.indexed else len(done)
        self.succeeded = max(ended, int(status.get("succeeded") or 0))
        self.failures = [pod for pod in pods if phase_of(pod) == "Failed"]
        self.failed = max(len(self.failures), int(status.get("failed") or 0))
        self.parallelism = int(spec.get("parallelism", 1))
        self.completions = spec.get("completions")

    @property
    def complete(self) -> bool:
        """Whether the job has succeeded. Without `completions`: once one pod has succeeded and all others have
        ended.
        """
        if self.completions is None:
            return self.succeeded > 0 and not self.active
        return self.succeeded >= int(self.completions)

    @property
    def wanted(self) -> int:
        """How many pods should be at work."""
        if self.completions is None:
            return self.active if self.succeeded else self.parallelism
        return min(self.parallelism, max(0, int(self.completions) - self.succeeded))

    def free_indices(self) -> list[int | None]:
        """Completion indices that are neither done nor at work, the lowest first."""
        taken = self.done_indices | {_index(pod) for pod in self.pods if not is_terminal(pod)}
        return [index for index in range(int(self.completions or 0)) if index not in taken]

    def pause_until(self) -> float:
        """When the next pod may be made: a while after the last failure, longer the more there were."""
        if not self.failures:
            return 0.0
        last = max(_ended(pod) for pod in self.failures)
        return last + min(60.0, 2.0 ** min(len(self.failures) - 1, 6))

    def numbers(self) -> Object:
        """The counts for the status."""
        numbers: Object = {"ready": self.ready, "terminating": self.terminating}
        for name in ("active", "succeeded", "failed"):
            numbers[name] = getattr(self, name)
        if self.indexed:
            numbers["completedIndexes"] = _ranges(sorted(self.done_indices))
        return numbers


def _ranges(indices: list[int]) -> str:
    """Sorted indices as a Job's status writes them: `0,2-5`."""
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(
        str(run[0]) if len(run) == 1 else f"{run[0]}{',' if len(run) == 2 else '-'}{run[-1]}" for run in runs
    )


def _ended(pod: Object) -> float:
    for container in (pod.get("status") or {}).get("containerStatuses") or []:
        finished = to_seconds(((container.get("state") or {}).get("terminated") or {}).get("finishedAt"))
        if finished is not None:
            return finished
    status = pod.get("status") or {}
    return to_seconds(status.get("startTime")) or to_seconds(pod["metadata"].get("creationTimestamp")) or 0.0


def _index(pod: Object) -> int:
    """The completion index of an indexed Job's pod; -1 if the annotation is missing or was overwritten."""
    index = whole_number((pod["metadata"].get("annotations") or {}).get(INDEX, ""))
    return -1 if index is None else index


def _stamp(pod: Object, job: Object, index: int) -> None:
    """Make a pod the one of an index: label, annotation, host name, environment and name prefix."""
    metadata, text = pod["metadata"], str(index)
    metadata["generateName"] = f"{job['metadata']['name']}-{text}-"
    metadata["labels"][INDEX] = text
    metadata.setdefault("annotations", {})[INDEX] = text
    pod["spec"]["hostname"] = f"{job['metadata']['name']}-{text}"
    for container in (*pod["spec"].get("containers", ()), *(pod["spec"].get("initContainers") or ())):
        container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "value": text})


def _condition(job: Object, kind: str) -> Object | None:
    conditions = (job.get("status") or {}).get("conditions") or []
    return next((entry for entry in conditions if entry["type"] == kind and entry["status"] == "True"), None)


def _new_condition(kind: str, status: bool, reason: str, message: str, now: float) -> Object:
    time = to_text(now)
    return {
        "type": kind,
        "status": str(status),
        "reason": reason,
        "message": message,
        "lastProbeTime": time,
        "lastTransitionTime": time,
    }
