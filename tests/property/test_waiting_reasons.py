"""Every job that waits has a reason whose numbers are true, and what the reason says would help does help.

Random histories of jobs, nodes, quotas, closures, members, holds, stops and outages. The truth is counted from the
objects that this test keeps itself; of the scheduler only the decision and the explanation are asked.
"""

import asyncio
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from msgspec.structs import replace

from t9ksched.admission.access import Members
from t9ksched.engine import explain
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.model import names
from t9ksched.model.node import decode_node
from t9ksched.model.pod import decode_pod
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.scheduler.decide.standstill import stopped
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.report.observed_job import observed_job
from t9ksched.scheduler.serve.explaining import explanation
from t9ksched.scheduler.state.objects import PodGroupObject
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.job_overrides import SCHEDULING, JobControl, Stop

GPU = "nvidia.com/gpu"
CARDS = 4
SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
NODES = {"n0": "a", "n1": "a", "n2": "b"}
Json = dict[str, Any]


class Waiting(RuleBasedStateMachine):
    """A cluster of three nodes, one queue, and gangs of pods alike."""

    def __init__(self) -> None:
        super().__init__()
        self.state = ClusterState()
        self.now = START
        self.quota = 8
        self.zone = ""
        self.ordering = "BestEffort"
        self.closed = self.draining = self.away = self.stopped = False
        self.everyone = True
        self.cordoned: dict[str, bool] = {}
        self.held: set[str] = set()
        self.sizes: dict[str, tuple[int, int]] = {}
        """Minimum and cards a pod, by gang."""
        self.pods: dict[str, Json] = {}
        self.serial = 0
        for name in NODES:
            self._node(name, cordoned=False)
        self._queue()
        self._members()

    # The world

    def _node(self, name: str, *, cordoned: bool) -> None:
        self.cordoned[name] = cordoned
        meta = {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name, "zone": NODES[name]}}
        ready = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": {"cpu": "64", "pods": "50", GPU: str(CARDS)}, "conditions": ready}
        spec = {"unschedulable": cordoned}
        self.state.upsert_node(decode_node({"metadata": meta, "spec": spec, "status": status}))

    def _queue(self) -> None:
        spec: Json = {"quota": {"requests": {GPU: str(self.quota)}}, "closed": self.closed, "ordering": self.ordering}
        if self.zone:
            spec["nodeSelector"] = {"matchLabels": {"zone": self.zone}}
        self.state.set_queues([Queue("q", parse_queue_spec(spec), draining=self.draining)])

    def _members(self) -> None:
        self.state.permit({"q": Members(everyone=self.everyone)})

    def _pod(self, gang: str) -> None:
        self.serial += 1
        uid = f"{gang}-{self.serial}"
        amounts = {"cpu": "1", GPU: str(self.sizes[gang][1])}
        self.pods[uid] = {
            "metadata": {"name": uid, "namespace": "ns", "uid": uid, "labels": {names.GROUP_LABEL: gang}},
            "spec": {
                "schedulerName": names.SCHEDULER_NAME,
                "containers": [{"name": "m", "resources": {"requests": amounts, "limits": amounts}}],
            },
            "status": {"phase": "Pending"},
        }
        self.state.upsert_pod(decode_pod(self.pods[uid]))

    def _group(self, name: str) -> PodGroupObject:
        meta = {"name": name, "namespace": "ns", "uid": f"u-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        return decoder(PodGroupObject)({"metadata": meta, "spec": {"minMember": self.sizes[name][0], "queue": "q"}})

    def _of(self, gang: str) -> list[Json]:
        return [pod for pod in self.pods.values() if pod["metadata"]["labels"][names.GROUP_LABEL] == gang]

    def _leave(self, gang: str) -> None:
        for pod in self._of(gang):
            del self.pods[pod["metadata"]["uid"]]
            self.state.remove_pod(pod["metadata"]["uid"])
        self.state.remove_group(self._group(gang))
        del self.sizes[gang]
        self.held.discard(gang)

    # What happens

    @rule(pods=st.integers(1, 4), cards=st.integers(1, CARDS), missing=st.sampled_from([0, 0, 0, 1]))
    def a_gang_comes(self, pods: int, cards: int, missing: int) -> None:
        self.serial += 1
        name = f"g{self.serial}"
        self.sizes[name] = (pods, cards)
        self.state.upsert_group(self._group(name))
        for _ in range(pods - missing):
            self._pod(name)
        self.cycle()

    @rule(data=st.data())
    def a_gang_leaves(self, data: st.DataObject) -> None:
        if self.sizes:
            self._leave(data.draw(st.sampled_from(sorted(self.sizes))))
            self.cycle()

    @rule(name=st.sampled_from(sorted(NODES)), cordoned=st.booleans())
    def a_node_is_cordoned(self, name: str, cordoned: bool) -> None:
        self._node(name, cordoned=cordoned)
        self.cycle()

    @rule(
        quota=st.integers(0, 12),
        zone=st.sampled_from(["", "a", "b", "c"]),
        closed=st.booleans(),
        draining=st.booleans(),
        ordering=st.sampled_from(["BestEffort", "Strict"]),
    )
    def the_queue_changes(self, quota: int, zone: str, closed: bool, draining: bool, ordering: str) -> None:
        self.quota, self.zone, self.closed, self.ordering = quota, zone, closed, ordering
        self.draining = draining and closed
        self._queue()
        self.cycle()

    @rule(everyone=st.booleans())
    def members_change(self, everyone: bool) -> None:
        self.everyone = everyone
        self._members()
        self.cycle()

    @rule(data=st.data())
    def a_job_is_held(self, data: st.DataObject) -> None:
        if self.sizes:
            gang = data.draw(st.sampled_from(sorted(self.sizes)))
            self._hold(gang, held=gang not in self.held)
            self.cycle()

    def _hold(self, gang: str, *, held: bool) -> None:
        (self.held.add if held else self.held.discard)(gang)
        at = datetime.fromtimestamp(self.now / SECOND, UTC)
        self.state.direct(
            {f"u-{one}": JobControl(f"u-{one}", held=True, priority=None, by="ann", at=at) for one in self.held}
        )

    @rule(stopped=st.booleans())
    def scheduling_is_stopped(self, stopped: bool) -> None:
        self._stop(stopped)
        self.cycle()

    def _stop(self, stopped: bool) -> None:
        self.stopped = stopped
        self.state.stops = (Stop(SCHEDULING, None, "ann", datetime.now(UTC)),) if stopped else ()

    @rule(away=st.booleans())
    def the_database_goes_or_answers(self, away: bool) -> None:
        self._away(away)
        self.cycle()

    def _away(self, away: bool) -> None:
        if away and not self.away:
            self.state.outage.begin(datetime.fromtimestamp(self.now / SECOND, UTC), ())
        elif self.away and not away:
            self.state.outage.end()
        self.away = away

    def cycle(self) -> None:
        """What the loop does, with bindings that succeed at once; twice, for whose submitter is asked for first."""
        for _ in range(2):
            self.now += 5 * SECOND
            view = self.state.view(self.now)
            if self.stopped:
                for waiting in view.gangs:
                    self._tell(waiting.uid, (stopped(self.state.stops),))
                continue
            decided = plan(view, Policy(), self.now)
            for gang in dict.fromkeys(one.gang for one in decided.assignments):
                mine = [one for one in decided.assignments if one.gang == gang]
                for one in self.state.assume(gang, mine, self.now):
                    self.pods[one.pod]["spec"]["nodeName"] = one.node
                    self.pods[one.pod]["status"]["phase"] = "Running"
                    self.state.upsert_pod(decode_pod(self.pods[one.pod]))
                self._tell(gang, ())
            for entry in (*decided.waiting, *decided.surplus):
                self._tell(entry.gang, entry.reasons)

    def _tell(self, uid: str, reasons: tuple[Any, ...]) -> None:
        self.state.gangs_by_uid[uid].reasons = reasons

    # What must hold

    def _record(self, gang: str) -> GangRecord:
        return self.state.gangs_by_uid[f"u-{gang}"]

    def _waiting(self) -> list[str]:
        return [name for name in self.sizes if any(not pod["spec"].get("nodeName") for pod in self._of(name))]

    def _explained(self, gang: str) -> Json:
        view = observed_job(self.state, f"u-{gang}")
        assert view is not None
        return asyncio.run(explanation(view, self.state))

    def _free(self) -> dict[str, int]:
        """Free cards of each node that a pod of the queue may be placed on."""
        found = {name: CARDS for name, zone in NODES.items() if self.zone in ("", zone) and not self.cordoned[name]}
        for pod in self.pods.values():
            node = pod["spec"].get("nodeName")
            if node in found:
                found[node] -= int(pod["spec"]["containers"][0]["resources"]["requests"][GPU])
        return found

    def _used(self) -> int:
        return sum(
            int(pod["spec"]["containers"][0]["resources"]["requests"][GPU])
            for pod in self.pods.values()
            if pod["spec"].get("nodeName")
        )

    @invariant()
    def every_job_that_waits_has_a_true_reason(self) -> None:
        for gang in self._waiting():
            told = self._explained(gang)
            assert told["verdict"] in ("Waiting", "Refused"), (gang, told)
            assert told["reasons"], f"{gang} waits and no reason is told"
            for reason in told["reasons"]:
                fault = self._false(gang, reason)
                assert not fault, f"{gang}: {reason['code']}: {reason['message']}: {fault}"

    def _false(self, gang: str, reason: Json) -> str:
        """What is untrue of a reason; empty when nothing is."""
        minimum, cards = self.sizes[gang]
        free, needs, has = self._free(), reason["needs"], reason["has"]
        missing = minimum - sum(bool(pod["spec"].get("nodeName")) for pod in self._of(gang))
        match reason["code"]:
            case "QuotaExceeded" | "OverQuota":
                left = max(0, self.quota - self._used())
                if minimum * cards > self.quota and reason["code"] == "OverQuota":
                    return ""
                true = {"needs": missing * cards, "has": left}
                return "" if (int(needs[GPU]), int(has[GPU])) == tuple(true.values()) else f"it is {true}"
            case "InsufficientResources":
                best = max(free.values(), default=0)
                if cards <= best:  # all together
                    fits = sum(room // cards for room in free.values())
                    return "" if fits < missing else f"{missing} pods of {cards} fit into {free}"
                wrong = int(has[GPU]) != best or reason["nodes"].get("match") != len(free)
                return f"the best of {len(free)} has {best}" if wrong else ""
            case "NoNodeMatches":
                return f"{len(free)} match" if free else ""
            case "NeverFits":
                ever = [name for name, zone in NODES.items() if self.zone in ("", zone)]
                return "" if CARDS // cards * len(ever) < minimum else f"it would fit {ever} when empty"
            case "GangIncomplete":
                return "" if len(self._of(gang)) < minimum else "all pods are there"
            case "QueueClosed":
                if ("draining" in reason["message"]) != self.draining:
                    return f"draining: {self.draining}"
                return "" if self.closed or self.draining else "the queue is open"
            case "NotPermitted" | "SubmitterUnknown" | "QueueNotPermitted":
                return "" if not self.everyone else "everyone may"
            case "SchedulingGated":
                return "" if gang in self.held else "it is not held"
            case "SchedulingStopped":
                return "" if self.stopped else "scheduling is not stopped"
            case "DatabaseAway":
                return "" if self.away else "the database answers"
            case "Behind":
                ahead = [one for one in self._waiting() if one != gang]
                return "" if self.ordering == "Strict" and ahead else "nothing is ahead of it"
        return "a reason that this world does not have"

    @rule(data=st.data())
    def what_would_help_is_done(self, data: st.DataObject) -> None:
        """Each cause that the reasons name is taken away: the gang starts, or waits for another reason."""
        waiting = self._waiting()
        if not waiting:
            return
        gang = data.draw(st.sampled_from(sorted(waiting)))
        before = self._explained(gang)
        assert before["unblocks"], before["reasons"]
        for code in {reason["code"] for reason in before["reasons"]}:
            if gang in self.sizes:  # one that can never fit was replaced by a smaller one
                self._help(gang, code)
        self.cycle()
        if gang in self.sizes and gang in self._waiting():
            after = self._explained(gang)
            assert _said(after) != _said(before), f"{gang} still waits for {_said(before)}"

    def _help(self, gang: str, code: str) -> None:
        minimum, cards = self.sizes[gang]
        match code:
            case "QuotaExceeded" | "OverQuota":
                self.quota = self._used() + minimum * cards
                self._queue()
            case "InsufficientResources" | "Behind" | "NeverFits":
                for other in [one for one in self.sizes if one != gang]:
                    self._leave(other)
                for name in NODES:
                    self._node(name, cordoned=False)
                if code == "NeverFits":
                    self._leave(gang)
                    self.a_gang_comes(1, 1, 0)
            case "NoNodeMatches":
                self.zone = ""
                for name in NODES:
                    self._node(name, cordoned=False)
                self._queue()
            case "GangIncomplete":
                for _ in range(minimum - len(self._of(gang))):
                    self._pod(gang)
            case "QueueClosed":
                self.closed = self.draining = False
                self._queue()
            case "NotPermitted" | "SubmitterUnknown" | "QueueNotPermitted":
                self.everyone = True
                self._members()
            case "SchedulingGated":
                self._hold(gang, held=False)
            case "SchedulingStopped":
                self._stop(False)
            case "DatabaseAway":
                self._away(False)


def _said(answer: Json) -> list[tuple[str, str]]:
    return [(reason["code"], reason["message"]) for reason in answer["reasons"]]


SETTINGS = settings(
    max_examples=30, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def test_every_job_that_waits_has_a_true_reason() -> None:
    run_state_machine_as_test(Waiting, settings=SETTINGS)  # type: ignore[no-untyped-call]


@pytest.mark.soak
def test_many_histories() -> None:
    many = settings(SETTINGS, max_examples=2000, stateful_step_count=60)
    run_state_machine_as_test(Waiting, settings=many)  # type: ignore[no-untyped-call]


QUOTA = explain.quota_exceeded


def whole_quota(shortfalls: Any, *more: Any) -> Any:
    """Tells the quota where what is left of it should stand."""
    return replace(QUOTA(shortfalls, *more), has={one.resource: one.nominal for one in shortfalls})


MUTANTS = {
    "refused gangs are not told why": (ClusterState, "refused", lambda self, gang, reason: None),
    "what is left of a quota is the whole quota": (explain, "quota_exceeded", whole_quota),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_it_can_fail(name: str) -> None:
    owner, attribute, new = MUTANTS[name]
    quick = settings(SETTINGS, max_examples=300, phases=[Phase.generate], database=None)
    with patch.object(owner, attribute, new), pytest.raises(AssertionError):
        run_state_machine_as_test(Waiting, settings=quick)  # type: ignore[no-untyped-call]
