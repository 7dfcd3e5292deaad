"""Random histories of jobs, groups and pods: the index finds what walking over everything would find."""

import asyncio
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.report.observed_job import identity
from t9ksched.scheduler.serve.jobindex import JobIndex
from t9ksched.scheduler.state.job_record import JobRecord
from t9ksched.scheduler.state.objects import PodGroupObject
from t9ksched.scheduler.state.records import GangRecord
from t9ksched.store.acceptances import Acceptance
from tests.property.test_state import GROUPS, Cluster

PEOPLE = ("ann", "bob")
Found = tuple[str, str, str, str | None, frozenset[str | None]]
"""Namespace, kind, name, queue, and who submitted it or pods that were placed in an earlier group."""


class Jobs(Cluster):
    """Beside pods, the objects above them come and go, and names are put to them."""

    def __init__(self) -> None:
        super().__init__()
        self.index = JobIndex(self.state)

    def _start(self) -> None:
        """A scheduler that starts has an index of its own."""
        super()._start()
        self.index = JobIndex(self.state)

    @rule(number=st.integers(0, 2))
    def job_is_seen(self, number: int) -> None:
        self.state.upsert_job(JobRecord(f"job-{number}", "batch/v1", "Job", "ns", f"j{number % 2}", 1, "q", 0, ""))

    @rule(number=st.integers(0, 2))
    def job_goes(self, number: int) -> None:
        self.state.remove_job(f"job-{number}")

    @rule(number=st.integers(0, 2), group=st.sampled_from(("", "g2")))
    def pod_of_a_job_is_created(self, number: int, group: str) -> None:
        self.pod_is_created(group, 0, True, "x", "")
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"j{number % 2}", "uid": f"job-{number}"}
        name = f"p{self.serial}"
        self.state.remove_pod(name)
        self.pods[name]["metadata"]["ownerReferences"] = [owner | {"controller": True}]
        self._send(name)

    @rule(name=st.sampled_from(GROUPS))
    def group_comes_anew(self, name: str) -> None:
        self.serial += 1
        self._group(name, f"u-{name}-{self.serial}")

    @rule(name=st.sampled_from(GROUPS))
    def group_goes(self, name: str) -> None:
        known = self.state.gangs.get(("ns", name))
        if known is not None:
            meta = {"name": name, "namespace": "ns", "uid": known.uid}
            self.state.remove_group(decoder(PodGroupObject)({"metadata": meta}))

    @rule(data=st.data(), submitter=st.sampled_from(PEOPLE))
    def a_name_is_put_to_something(self, data: st.DataObject, submitter: str) -> None:
        uids = sorted({*self.state.pods, *self.state.gangs_by_uid, *self.state.jobs})
        if uids:
            uid = data.draw(st.sampled_from(uids))
            self.state.accept(Acceptance(uid=uid, kind="Pod", namespace="ns", name=uid, submitter=submitter, queue="q"))

    @rule()
    def somebody_asks(self) -> None:
        asyncio.run(self._ask())

    def teardown(self) -> None:
        asyncio.run(self._ask())

    async def _ask(self) -> None:
        expected = self._walk()
        assert set(await self.index.all()) == expected.keys()
        for at, what in ((3, "queues"), (4, "submitters"), (0, "namespaces")):
            told_of = {uid: found[at] if at == 4 else {found[at]} for uid, found in expected.items()}
            for value in {one for those in told_of.values() for one in those} | {"nobody"}:
                told: dict[str, Any] = {what: [value]}
                mine = {uid for uid, those in told_of.items() if value in those}
                assert set(await self.index.of(**told)) == mine, told
        for namespace, kind, name, *_ in {found[:3] for found in expected.values()}:
            alike = {uid for uid, found in expected.items() if found[:3] == (namespace, kind, name)}
            view = await self.index.find(namespace, kind.upper(), name)
            assert view is not None
            assert view.uid in (alike & self.state.jobs.keys() or alike)
        assert await self.index.find("ns", "Pod", "nobody") is None

    def _walk(self) -> dict[str, Found]:
        state = self.state
        of: dict[str, list[GangRecord]] = {}
        for gang in state.gangs.values():
            of.setdefault(identity(gang)[0], []).append(gang)
        found: dict[str, Found] = {}
        for uid in of.keys() | state.jobs.keys():
            gangs, job = of.get(uid, []), state.jobs.get(uid)
            namespace = job.namespace if job else gangs[0].namespace
            kind, name = (job.kind, job.name) if job else identity(gangs[0])[1::2]
            agreed = state.acceptances.get(uid) or (gangs[0].acceptance if gangs else None)
            queue = gangs[0].queue if gangs else job.queue if job else None
            found[uid] = (namespace, kind, name, queue, self._whose(gangs, agreed))
        return found

    def _whose(self, gangs: list[GangRecord], agreed: Acceptance | None) -> frozenset[str | None]:
        """Who submitted a job, and the pods in a PodGroup that no job owns; of a group that is gone, any pod."""
        pods = [(gang, pod) for gang in gangs for pod in gang.members.values()]
        named = {pod.uid: self._named(pod.owner and pod.owner.uid, pod.uid) for _, pod in pods}
        gone = bool(gangs) and not gangs[0].uid and agreed is None
        own = agreed.submitter if agreed else None
        if own is None and gangs:  # a job that was let in without one has that of its first group
            own = self._named(gangs[0].owner and gangs[0].owner.uid, gangs[0].uid)
        if gone and len(set(named.values())) == 1:
            own = next(iter(named.values()))
        others = {named[pod.uid] for gang, pod in pods if gang.owner is None and not gang.virtual}
        return frozenset({own} | (others - {None}))

    def _named(self, owner: str | None, uid: str) -> str | None:
        records = [self.state.acceptances.get(one or "") for one in (owner, uid)]
        return next((one.submitter for one in records if one and one.submitter and one.namespace == "ns"), None)


Jobs.TestCase.settings = settings(max_examples=120, stateful_step_count=30, deadline=None)
TestJobs = Jobs.TestCase
