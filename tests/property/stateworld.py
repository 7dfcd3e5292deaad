"""A small cluster with every kind of object that the scheduler's state reads, and what may happen to it, drawn by dice.

The world keeps the objects as the API server has them and what SQL took, and sends the state what watches would send:
late, twice, in any order, with deletions that are missed. What must be true afterwards is in `statemodel.py`.
"""

from typing import Any

from msgspec import structs

from t9ksched.admission.access import Members
from t9ksched.model import names
from t9ksched.model.node import decode_node
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.objects import PodGroupObject
from t9ksched.store.acceptances import Acceptance
from t9ksched.store.job_overrides import JobControl
from tests.property.statecycle import Cycles
from tests.property.stateobjects import (
    ENDED,
    GPU,
    GROUPS,
    NODES,
    QUEUES,
    REFUSED,
    SECOND,
    against,
    moment,
    row_time,
    stamp,
)
from tests.property.stateseldom import CLAIMS

_HAPPENINGS = {
    "node": 2,
    "node_goes": 1,
    "group": 4,
    "group_goes": 1,
    "pod": 14,
    "pod_goes": 4,
    "pod_changes": 12,
    "pod_moves_on": 10,
    "again": 2,
    "owner": 3,
    "owner_goes": 1,
    "queue": 2,
    "joins": 1,
    "namespace": 1,
    "named": 3,
    "control": 1,
    "start_again": 1,
    "forfeit": 1,
    "database": 1,
    "withdraw": 1,
    "time": 6,
    "restart": 2,
    "volume": 3,
    "claimed": 1,
    "alone": 1,
    "bound_late": 2,
    "limit_reached": 1,
    "did_not_start": 1,
    "promise": 1,
    "promises_end": 2,
    "given_up": 1,
}


class World(Cycles):
    """What happens to the objects, one thing a `step`, and what a scheduler then does."""

    def step(self) -> str:
        """One thing happens; its name."""
        what = self.rng.choices(list(_HAPPENINGS), list(_HAPPENINGS.values()))[0]
        self.log.append(what)
        self.back = set()
        getattr(self, what)()
        return what

    def begin(self) -> None:
        """In a steady world two groups with their pods, some of which have no submitter."""
        if self.steady:
            for name in ("g0", "g1"):
                owned = self._owned(0.3)
                self.groups[name] = self._group(name, f"{name}-{self._number()}", stamp(self.rng), owned)
                self._send_group(name)
                for _ in range(3):
                    self.pod(name, owned)

    def node(self, name: str = "") -> None:
        rng, name = self.rng, name or self.rng.choice(NODES)
        old = self.nodes.get(name)
        uid = old["metadata"]["uid"] if old and rng.random() < 0.8 else f"{name}-{self._number()}"
        meta = {"name": name, "uid": uid, "labels": {"kubernetes.io/hostname": name, "zone": rng.choice("ab")}}
        mode = {names.CARD_MODE_ANNOTATION: names.HONOURS_INDEX} if name != "n2" else {}
        self.nodes[name] = {
            "metadata": meta | {"annotations": mode},
            "spec": {"unschedulable": rng.random() < 0.1},
            "status": {
                "allocatable": {"cpu": "8", "pods": "10", GPU: "4"},
                "conditions": [{"type": "Ready", "status": "True" if rng.random() < 0.95 else "False"}],
            },
        }
        self.state.upsert_node(decode_node(self.nodes[name]))

    def node_goes(self) -> None:
        name = self.rng.choice(NODES)
        self.nodes.pop(name, None)
        self.state.remove_node(name)

    def group(self) -> None:
        """A group comes, is edited, or comes anew under its name."""
        rng, name = self.rng, self.rng.choice(GROUPS)
        old = self.groups.get(name)
        if old is None or rng.random() < 0.2:
            uid, owned = f"{name}-{self._number()}", self._owned(0.3)
            self.groups[name] = self._group(name, uid, stamp(rng), owned)
        else:
            meta = old["metadata"]
            self.groups[name] = self._group(name, meta["uid"], meta["creationTimestamp"], meta.get("ownerReferences"))
            if rng.random() < 0.1:
                self.groups[name]["metadata"]["deletionTimestamp"] = stamp(rng)
        self._send_group(name)

    def group_goes(self) -> None:
        name = self.rng.choice(GROUPS)
        if (group := self.groups.pop(name, None)) is not None:
            self.state.remove_group(decoder(PodGroupObject)(group))
            self.state.remove_group(decoder(PodGroupObject)(group))

    def pod(self, group: str = "", owned: Any = None) -> None:
        """A pod is made, of a group if one is named; the deletion of another of its name may have been missed."""
        rng, number = self.rng, self._number()
        name, uid = f"p{rng.randrange(12)}", f"u{number}"
        for old in [old for old, one in self.pods.items() if one["metadata"]["name"] == name]:
            self._forget(old)
        cards = rng.choice((0, 0, 1, 1, 2))
        amounts = {"cpu": "1"} | ({GPU: str(cards)} if cards else {})
        if rng.random() < 0.03:
            amounts["cpu"] = "one"
        labels = {key: value for key, value in self._labels().items() if value}
        labels |= {names.GROUP_LABEL: group} if group else {}
        if not group:
            mine = self.groups.get(labels.get(names.GROUP_LABEL, ""), {}).get("metadata", {}).get("ownerReferences")
            owned = mine if self.steady and rng.random() < 0.7 else self._owned(0.5)
        ours = rng.random() < 0.85
        meta = {"name": name, "namespace": "ns", "uid": uid, "labels": labels, "annotations": {}}
        meta |= {"creationTimestamp": stamp(rng)} | ({"ownerReferences": owned} if owned else {})
        spec: dict[str, Any] = {
            "schedulerName": names.SCHEDULER_NAME if ours else "default-scheduler",
            "containers": [{"name": "m", "resources": {"requests": amounts, "limits": amounts}}],
        }
        spec |= {"schedulingGates": [{"name": "x"}]} if rng.random() < 0.1 else {}
        spec |= {"priority": rng.choice((5, 2_000_000_000))} if rng.random() < 0.2 else {}
        spec |= {"activeDeadlineSeconds": 60} if rng.random() < 0.1 else {}
        spec |= {"nodeSelector": {"zone": "a"}} if rng.random() < 0.15 else {}
        spec |= {"affinity": against(rng.choice("xy"))} if rng.random() < self.apart else {}
        if rng.random() < self.stored:
            spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": rng.choice(CLAIMS)}}]
        self.pods[uid] = {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}
        if rng.random() < (0.04 if ours else 0.5):
            spec["nodeName"] = rng.choice(NODES)  # by its creator, or by another scheduler
            if rng.random() < 0.2:
                self.pods[uid]["status"]["phase"] = rng.choice(("Running", *ENDED))
        self.send(uid)

    def pod_goes(self) -> None:
        if uid := self._some():
            self._forget(uid)
            self.state.remove_pod(uid)
            self.state.remove_pod(uid)

    def pod_changes(self) -> None:
        """Something of a pod is written that neither binds it nor ends it."""
        if not (uid := self._some()):
            return
        rng, pod = self.rng, self.pods[uid]
        meta = pod["metadata"]
        match rng.choice(("delete", "delete", "evict", "label", "limit", "begin", "gate", "orphan", "deadline")):
            case "delete":
                meta["deletionTimestamp"] = stamp(rng)
                self._ends_unbound(uid)
            case "evict":
                why = rng.choice(("PreemptionByScheduler", "PreemptionByScheduler", "EvictionByEvictionAPI"))
                condition = {"type": "DisruptionTarget", "status": "True", "reason": why}
                pod["status"]["conditions"] = [*pod["status"].get("conditions", ()), condition]
                if rng.random() < 0.7:
                    meta["deletionTimestamp"] = stamp(rng)
                    self._ends_unbound(uid)
            case "label":
                meta["labels"] = {key: value for key, value in self._labels().items() if value}
            case "limit":
                meta["annotations"] = meta["annotations"] | {names.TIME_LIMIT_ANNOTATION: rng.choice(("1h", "2h"))}
            case "begin":
                meta["annotations"] = meta["annotations"] | {names.START_AFTER_ANNOTATION: moment(rng, self.now)}
            case "gate":
                pod["spec"]["schedulingGates"] = rng.choice(([], [{"name": "y"}]))
            case "orphan":
                meta.pop("ownerReferences", None)
            case "deadline":
                pod["spec"]["activeDeadlineSeconds"] = rng.randint(1, 99)
        self.send(uid)

    def pod_moves_on(self) -> None:
        """A pod runs or ends, or another scheduler binds it, unless it is being deleted."""
        rng = self.rng
        if not (uid := self._some(bound=True) if rng.random() < 0.8 else self._some(bound=False)):
            return
        pod = self.pods[uid]
        status, node = pod["status"], pod["spec"].get("nodeName")
        if not node and status["phase"] not in ENDED and rng.random() < 0.5:
            if not self.contested(uid, at := rng.choice(NODES)) and "deletionTimestamp" not in pod["metadata"]:
                self.bind(uid, at)
            return
        if status["phase"] in ENDED:
            return
        running = ["Running"] * (6 if self.steady else 2)
        status["phase"] = rng.choice((*running, *ENDED, "Unknown")) if node else "Failed"
        if node:
            status.setdefault("startTime", stamp(rng))
        if status["phase"] in ENDED:
            at = stamp(rng)
            state = {"terminated": {"exitCode": 1, "finishedAt": at, "message": "bye"}}
            status["containerStatuses"] = [{"name": "m", "state": state}]
            if status["phase"] == "Failed" and rng.random() < 0.5:
                status |= {"reason": "OutOfcpu", "message": "no room"}
                gang = self.state.pods[uid].gang
                if node and gang is not None:
                    self.views.turned.append((gang, pod["metadata"]["name"], node, "OutOfcpu: no room"))
            self._ends_unbound(uid)
        self.send(uid)

    def again(self) -> None:
        """What was told is told once more: that is no reason to look at anything."""
        for uid in list(self.pods):
            self.send(uid)
        woken, self.woken = self.woken, False
        for uid in list(self.pods):
            self.send(uid)
        for name in self.groups:
            self._send_group(name)
        for node in self.nodes.values():
            self.state.upsert_node(decode_node(node))
        assert not self.woken, "what is known already wakes the loop"
        self.woken = woken

    def owner(self) -> None:
        rng, uid = self.rng, self.rng.choice(("job-0", "job-1", "rs-0", "rs-1", "web-0"))
        amounts = {"cpu": "1"} | ({GPU: "1"} if rng.random() < 0.5 else {})
        container = {"name": "m", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
        template = {"spec": {"schedulerName": names.SCHEDULER_NAME, "containers": [container]}}
        meta: dict[str, Any] = {"name": uid, "namespace": "ns", "uid": uid}
        notes = {names.TIME_LIMIT_ANNOTATION: "3h"} if rng.random() < 0.2 else {}
        notes |= {names.START_AFTER_ANNOTATION: moment(rng, self.now)} if rng.random() < 0.1 else {}
        meta |= {"annotations": notes} if notes else {}
        if uid in ("rs-1", "web-0"):
            kind, over = ("Deployment", "web-0") if uid == "rs-1" else ("App", "app-0")
            above = {"apiVersion": "apps/v1", "kind": kind, "name": over, "uid": over}
            meta["ownerReferences"] = [above | {"controller": True}]
        count = rng.randrange(4)
        spec: dict[str, Any] = {"template": template, "replicas": count, "parallelism": count, "completions": count}
        if uid.startswith("job"):
            spec = {key: value for key, value in spec.items() if key != "replicas"} | {"suspend": rng.random() < 0.2}
            meta |= {"deletionTimestamp": stamp(rng)} if rng.random() < 0.1 else {}
        ended = [{"type": "Complete", "status": "True"}] if rng.random() < 0.1 and uid.startswith("job") else []
        self.owners[uid] = {"metadata": meta, "spec": spec, "status": {"conditions": ended}}
        self._send_owner(uid)

    def owner_goes(self) -> None:
        if self.owners:
            uid = self.rng.choice(sorted(self.owners))
            del self.owners[uid]
            (self.state.remove_job if uid.startswith("job") else self.state.remove_owner)(uid)

    def queue(self) -> None:
        rng = self.rng
        self.queues.pop(rng.choice(QUEUES), None) if rng.random() < 0.2 else None
        spec: dict[str, Any] = {"closed": rng.random() < 0.15, "priority": rng.randrange(3)}
        spec |= {"quota": {"requests": {GPU: str(rng.randrange(6))}}} if rng.random() < 0.5 else {}
        spec |= {"overQuota": rng.choice(("Wait", "Reject")), "maxDuration": rng.choice(("", "30m", "5h"))}
        spec |= {"nodeSelector": {"matchLabels": {"zone": "a"}}} if rng.random() < 0.2 else {}
        self.queues[rng.choice(QUEUES)] = spec
        self._send_queues()

    def joins(self) -> None:
        rng = self.rng
        users = frozenset(rng.sample(("ann", "bob"), rng.randrange(3)))
        self.members[rng.choice(QUEUES)] = Members(everyone=rng.random() < 0.4, users=users)
        self.state.permit(dict(self.members))

    def namespace(self) -> None:
        owner = self.rng.choice(("ann", "bob", ""))
        labels = {"kubernetes.io/metadata.name": "ns", "team": self.rng.choice("ab")}
        self.spaces["ns"] = labels, {"tensorstack.dev/owner": owner} if owner else {}
        self._send_space()

    def named(self) -> None:
        """A service that made an object records whose it is; of what has an owner, that is the owner."""
        metas = [group["metadata"] for group in self.groups.values()]
        groups = [meta["uid"] for meta in metas if "ownerReferences" not in meta]
        uid = self.rng.choice([*self.pods, *groups, *self.owners, "x"])
        who, queue = self.rng.choice(("ann", "bob")), self.rng.choice((None, "q", "r"))
        of = self.pods.get(uid, {}).get("metadata", {}).get("labels", {}).get(names.GROUP_LABEL)
        told = Acceptance(
            uid=uid,
            kind="Pod" if uid in self.pods else "Job",
            namespace="ns",
            name=uid,
            submitter=who,
            queue=queue,
            group_name=of,
            accepted_at=row_time(self.now),
        )
        if uid in self.acceptances:
            told = structs.replace(self.acceptances[uid], submitter=self.acceptances[uid].submitter or who)
        self.acceptances[uid] = told
        self.state.accept(told)

    def control(self) -> None:
        rng = self.rng
        uid = rng.choice(["job-0", "web-0", *(group["metadata"]["uid"] for group in self.groups.values()), *self.pods])
        decided = JobControl(uid=uid, held=rng.random() < 0.5, priority=rng.choice((None, 7)), at=row_time(self.now))
        self.controls = {**self.controls, uid: decided} if rng.random() < 0.7 else {}
        self.state.direct(self.controls)

    def start_again(self) -> None:
        if (gang := self._gang()) is not None:
            self.back = {gang.uid}
            self.state.start_again(gang, "Why", "for that")

    def forfeit(self) -> None:
        if (gang := self._gang()) is not None:
            self.back = {gang.uid}
            self.state.forfeit(gang)

    def database(self) -> None:
        outage = self.state.outage
        if outage.unread:
            outage.read()
        elif outage.away:
            outage.end()
        else:
            known = sorted(self.state.gangs_by_uid)
            outage.begin(row_time(self.now), self.rng.sample(known, min(len(known), self.rng.randrange(3))))

    def withdraw(self) -> None:
        """A decision about a gang is not carried out."""
        gangs = {gang.uid for uid in self.assumed if (gang := self.state.pods[uid].gang) is not None}
        gangs.discard("")
        if gangs:
            gang = self.state.gangs_by_uid[self.rng.choice(sorted(gangs))]
            mine = [uid for uid in gang.members if uid in self.assumed]
            for uid in mine:
                self.undecided(uid)
            self.state.withdraw([*mine, "nobody"], REFUSED)

    def time(self) -> None:
        """Until something is due, or a while."""
        due = self.state.next_retry()
        if due is not None and self.rng.random() < 0.6:
            self.now = max(self.now, due)
        else:
            self.now += self.rng.choice((1, 3, 20, 61, 400)) * SECOND
