"""Pods and groups by queue, counted as events come, so that a status never walks the whole cluster."""

from collections import Counter, defaultdict
from typing import Final

from t9ksched.scheduler.state.records import GangRecord, PodRecord

PHASES: Final = ("Pending", "Running", "Succeeded", "Failed", "Unknown")


class Counts:
    """`groups[queue]` and `pods[queue][phase]`; each group and pod is counted once, where it was last seen."""

    def __init__(self) -> None:
        self.groups: Counter[str] = Counter()
        self.pods: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._places: dict[tuple[str, str], tuple[str, str]] = {}
        """One copy of each queue and phase."""

    def group(self, gang: GangRecord) -> str | None:
        """Count a group where it is now; the queue that it left, if it did."""
        known, queue = gang.counted, gang.queue
        if known == queue:
            return None
        if known is not None:
            self.groups[known] -= 1
        self.groups[queue] += 1
        gang.counted = queue
        for pod in gang.members.values():
            self.pod(pod)
        return known

    def pod(self, pod: PodRecord) -> None:
        """Count a member where it is now."""
        if pod.gang is None:
            return
        now = (pod.gang.queue, pod.phase if pod.phase in PHASES else "Unknown")
        known = pod.counted
        if known != now:
            self._uncount(known)
            self.pods[now[0]][now[1]] += 1
            pod.counted = self._places.setdefault(now, now)

    def group_gone(self, gang: GangRecord) -> None:
        """The group is no more."""
        if gang.counted is not None:
            self.groups[gang.counted] -= 1
            gang.counted = None

    def pod_gone(self, pod: PodRecord) -> None:
        """The pod is no more."""
        self._uncount(pod.counted)
        pod.counted = None

    def _uncount(self, known: tuple[str, str] | None) -> None:
        if known is not None:
            self.pods[known[0]][known[1]] -= 1
