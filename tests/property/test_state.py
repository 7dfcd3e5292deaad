"""Random histories of events: what is charged is what the pods of the moment hold, whatever came twice or late."""

from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from t9ksched.admission.access import Members
from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.model import names
from t9ksched.model.node import decode_node
from t9ksched.model.pod import decode_pod
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.model.reasons import Code, Reason
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.card_rows import row_of
from t9ksched.scheduler.state.cardbook import CardBook
from t9ksched.scheduler.state.objects import PodGroupObject
from t9ksched.scheduler.state.pod_events import PodEvents
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.bindings import CardBinding

GPU = "nvidia.com/gpu"
SECOND = 1_000_000_000
NODES = ("n0", "n1", "n2")
GROUPS = ("g0", "g1")
APPS = ("x", "y")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def against(app: str) -> dict[str, Any]:
    """A required anti-affinity: no pod of that app on the node."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {REQUIRED: [term]}}


def shunned(pod: dict[str, Any]) -> set[str]:
    """The apps that a pod wants away from its node."""
    terms = (pod["spec"].get("affinity") or {}).get("podAntiAffinity", {}).get(REQUIRED, ())
    return {term["labelSelector"]["matchLabels"]["app"] for term in terms}


class Cluster(RuleBasedStateMachine):
    """The machine keeps the objects as an API server would, and sends the state what a watch would send."""

    def __init__(self) -> None:
        super().__init__()
        self._start()
        self.rows: dict[str, CardBinding] = {}
        """What was decided about cards, as it is written before a pod is bound."""
        self.pods: dict[str, dict[str, Any]] = {}
        self.nodes: set[str] = set()
        self.serial = 0
        self.now = 1_700_000_000 * SECOND
        for name in GROUPS:
            self._group(name)
        self.node_appears("n0")

    def _start(self) -> None:
        self.state = ClusterState()
        self.state.set_queues([Queue("q", parse_queue_spec({"quota": {"requests": {GPU: "10"}}}))])
        self.state.permit({"q": Members(everyone=True)})

    @rule()
    def scheduler_starts_again(self) -> None:
        self._start()
        self.state.cards.restore(self.rows, complete=True)
        self.state.places.restore(self.rows)
        for name in GROUPS:
            self._group(name)
        for name in sorted(self.nodes):
            self.node_appears(name)
        for uid in self.pods:
            self._send(uid)
        assert self.state.cards.adopt(self.now) == [], "annotations are taken although there are rows"

    @rule(data=st.data(), text=st.sampled_from(("other", "other", "62", "zero", "")), again=st.booleans())
    def annotation_is_forged(self, data: st.DataObject, text: str, again: bool) -> None:
        """To cards that the pod does not hold, as many as it asks for, or to nonsense."""
        placed = sorted(self.rows.keys() & self.pods.keys())
        if placed:
            uid = data.draw(st.sampled_from(placed))
            if text == "other":
                held = dict(self.rows[uid].grant.masks)[GPU]
                others = [card for card in range(4) if not held >> card & 1]
                text = ",".join(map(str, (others * 4)[: held.bit_count()]))
            self.pods[uid]["metadata"]["annotations"][f"{names.GPU_INDEX_PREFIX}m"] = text
            self._send(uid)
            if again:
                self.scheduler_starts_again()

    def _group(self, name: str, uid: str = "") -> None:
        meta = {"name": name, "namespace": "ns", "uid": uid or f"u-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        group = {"metadata": meta, "spec": {"minMember": 2, "queue": "q"}}
        self.state.upsert_group(decoder(PodGroupObject)(group))

    def _send(self, uid: str) -> None:
        self.state.upsert_pod(decode_pod(self.pods[uid]))

    @rule(name=st.sampled_from(NODES))
    def node_appears(self, name: str) -> None:
        self.nodes.add(name)
        status = {
            "allocatable": {"cpu": "8", "pods": "10", GPU: "4"},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        mode = {names.CARD_MODE_ANNOTATION: names.HONOURS_INDEX}
        meta = {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}, "annotations": mode}
        self.state.upsert_node(decode_node({"metadata": meta, "status": status}))

    @rule(name=st.sampled_from(NODES))
    def node_goes(self, name: str) -> None:
        self.nodes.discard(name)
        self.state.remove_node(name)

    @rule(
        group=st.sampled_from((*GROUPS, "")),
        cards=st.integers(0, 3),
        ours=st.booleans(),
        app=st.sampled_from(APPS),
        shuns=st.sampled_from(("", "", *APPS)),
    )
    def pod_is_created(self, group: str, cards: int, ours: bool, app: str, shuns: str) -> None:
        self.serial += 1
        name = f"p{self.serial}"
        amounts = {"cpu": "1"} | ({GPU: str(cards)} if cards else {})
        labels = {names.QUEUE_LABEL: "q", "app": app} | ({names.GROUP_LABEL: group} if group else {})
        self.pods[name] = {
            "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": labels, "annotations": {}},
            "spec": {
                "schedulerName": names.SCHEDULER_NAME if ours else "default-scheduler",
                "containers": [{"name": "m", "resources": {"requests": amounts, "limits": amounts}}],
                "affinity": against(shuns) if shuns else None,
            },
            "status": {"phase": "Pending"},
        }
        self._send(name)

    @rule(data=st.data(), app=st.sampled_from((*APPS, "z")))
    def label_changes(self, data: st.DataObject, app: str) -> None:
        if self.pods:
            uid = data.draw(st.sampled_from(sorted(self.pods)))
            labels = self.pods[uid]["metadata"]["labels"]
            self.pods[uid]["metadata"]["labels"] = labels | {"app": app}
            self._send(uid)

    @rule(data=st.data())
    def event_is_repeated(self, data: st.DataObject) -> None:
        if self.pods:
            self._send(data.draw(st.sampled_from(sorted(self.pods))))

    @rule(data=st.data(), phase=st.sampled_from(["Running", "Succeeded", "Failed"]))
    def bound_pod_moves_on(self, data: st.DataObject, phase: str) -> None:
        bound = sorted(uid for uid, pod in self.pods.items() if pod["spec"].get("nodeName"))
        if bound:
            uid = data.draw(st.sampled_from(bound))
            if self.pods[uid]["status"]["phase"] in ("Pending", "Running"):
                self.pods[uid]["status"]["phase"] = phase
                self._send(uid)

    @rule(data=st.data())
    def pod_goes(self, data: st.DataObject) -> None:
        if self.pods:
            uid = data.draw(st.sampled_from(sorted(self.pods)))
            del self.pods[uid]
            self.state.remove_pod(uid)
            self.state.remove_pod(uid)

    @rule(data=st.data())
    def foreign_pod_is_bound(self, data: st.DataObject) -> None:
        free = sorted(
            uid
            for uid, pod in self.pods.items()
            if pod["spec"]["schedulerName"] != names.SCHEDULER_NAME and not pod["spec"].get("nodeName")
        )
        if free:
            uid = data.draw(st.sampled_from(free))
            self.pods[uid]["spec"]["nodeName"] = data.draw(st.sampled_from(NODES))
            self._send(uid)

    def _something_is_faster(self, pods: list[str]) -> None:
        """Before a decision is taken up, one of its pods is gone."""
        uid = pods[-1]
        del self.pods[uid]
        self.state.remove_pod(uid)

    @rule(data=st.data(), seconds=st.integers(0, 90), late=st.booleans())
    def cycle(self, data: st.DataObject, seconds: int, late: bool) -> None:
        self.now += seconds * SECOND
        self.state.reservations.sweep(self.now)
        decided = plan(self.state.view(self.now), Policy(), self.now)
        for gang in dict.fromkeys(assignment.gang for assignment in decided.assignments):
            mine = [assignment for assignment in decided.assignments if assignment.gang == gang]
            if late and len(mine) > 1:
                self._something_is_faster([assignment.pod for assignment in mine])
                assert self.state.assume(gang, mine, self.now) == [], "a decision of which a part holds is taken up"
                continue
            for assignment in mine:
                self._stands_there(assignment.pod, assignment.node)
            for assignment in self.state.assume(gang, mine, self.now):
                charge = self.state.charges.get(assignment.pod)
                if charge is not None and charge.cards:
                    self.rows[assignment.pod] = row_of(self.state.pods[assignment.pod], charge, self.now)
                outcome = data.draw(st.sampled_from(["bound", "refused", "open"]))
                if outcome == "bound":
                    pod = self.pods[assignment.pod]
                    pod["spec"]["nodeName"] = assignment.node
                    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}]
                    for container, _, indices in assignment.cards:
                        key = names.GPU_INDEX_PREFIX + container
                        pod["metadata"]["annotations"][key] = ",".join(map(str, indices))
                    self._send(assignment.pod)
                elif outcome == "refused":
                    why = Reason(Code.BIND_REFUSED, "refused")
                    self.state.refuse(assignment.pod, why, self.now, keep_place=data.draw(st.booleans()))

    def _places(self) -> dict[str, str]:
        """Where the pods are that have a place and have not ended, bound or decided."""
        found = {}
        for uid, pod in self.pods.items():
            place = pod["spec"].get("nodeName") or self.state.pods[uid].assumed
            if place and pod["status"]["phase"] not in ("Succeeded", "Failed"):
                found[uid] = place
        return found

    def _stands_there(self, uid: str, node: str) -> None:
        """No pod on the node is of an app that the newcomer's anti-affinity selects, as labelled now, and no pod there
        has anti-affinity to its own."""
        new = self.pods[uid]
        for other, place in self._places().items():
            if place == node and other != uid:
                there = self.pods[other]
                assert there["metadata"]["labels"]["app"] not in shunned(new), f"{uid} shuns {other} on {node}"
                assert new["metadata"]["labels"]["app"] not in shunned(there), f"{other} on {node} shuns {uid}"


class Histories(Cluster):
    """What must hold after each event."""

    @invariant()
    def rules_see_the_labels_of_the_moment(self) -> None:
        spoken = {
            app
            for uid, pod in self.pods.items()
            if pod["status"]["phase"] not in ("Succeeded", "Failed")
            for app in shunned(pod)
        }
        expected = Counter(
            (app, place)
            for uid, place in self._places().items()
            if (app := self.pods[uid]["metadata"]["labels"]["app"]) in spoken
        )
        told: Counter[tuple[str, str]] = Counter()
        for group in self.state.affinity_index.present():
            for place, count in group.nodes:
                told[dict(group.labels)["app"], place] += count
        assert {key: count for key, count in told.items() if key[0] in spoken} == dict(expected)

    @invariant()
    def charges_are_what_pods_hold(self) -> None:
        expected: dict[str, Counter[str]] = {name: Counter() for name in self.nodes}
        queue: Counter[str] = Counter()
        for uid, pod in self.pods.items():
            record = self.state.pods[uid]
            where = pod["spec"].get("nodeName") or record.assumed
            if not where or pod["status"]["phase"] in ("Succeeded", "Failed"):
                continue
            amounts = {"cpu": 1000, "pods": 1}
            if cards := pod["spec"]["containers"][0]["resources"]["requests"].get(GPU):
                amounts[GPU] = int(cards)
            if where in self.nodes:
                expected[where].update(amounts)
            if record.ours:
                queue.update(amounts)
        for name, amounts in expected.items():
            assert self.state.nodes.used(name) == dict(amounts), name
        assert {r: n for r, n in self.state.charges.queue_used["q"].items() if n} == dict(queue)
        assert queue[GPU] <= 10

    @invariant()
    def cards_are_whose_the_decisions_say(self) -> None:
        """Whatever annotations say by now, and however often the scheduler started: no card is given twice."""
        taken: dict[str, int] = {}
        for uid, pod in self.pods.items():
            where = pod["spec"].get("nodeName")
            if not where or pod["status"]["phase"] in ("Succeeded", "Failed") or not self.state.pods[uid].ours:
                continue
            charge, row = self.state.charges.get(uid), self.rows.get(uid)
            assert charge is not None
            assert dict(charge.cards.masks) == (dict(row.grant.masks) if row else {}), uid
            mask = dict(charge.cards.masks).get(GPU, 0)
            assert not taken.get(where, 0) & mask, f"a card of {where} is given twice"
            taken[where] = taken.get(where, 0) | mask

    @invariant()
    def counts_are_what_pods_are(self) -> None:
        phases = Counter(pod["status"]["phase"] for uid, pod in self.pods.items() if self.state.pods[uid].ours)
        assert {p: n for p, n in self.state.counts.pods["q"].items() if n} == dict(phases)

    @invariant()
    def holds_belong_to_living_gangs(self) -> None:
        for uid, hold in self.state.reservations.refused.items():
            assert uid in self.state.pods
            assert hold.owner in self.state.gangs_by_uid
            assert hold.node in self.state.nodes


Histories.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestHistories = Histories.TestCase


class Answers:
    """In place of dice: the answers to what the rules draw, in order."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)

    def draw(self, among: st.SearchStrategy[str]) -> str:
        """The next answer, whatever there was to choose among."""
        return self._answers.pop(0)


def a_pod_is_bound(machine: Histories, shuns: str = "") -> None:
    """A pod of its own with one card gets it."""
    machine.pod_is_created(group="", cards=1, ours=True, app="x", shuns=shuns)
    machine.cycle(data=Answers("bound"), seconds=0, late=False)


def a_label_changes_beside_an_anti_affinity() -> None:
    """The pod that another one shuns is of another app by now."""
    machine = Histories()
    a_pod_is_bound(machine, shuns="y")
    machine.label_changes(data=Answers("p1"), app="y")
    machine.rules_see_the_labels_of_the_moment()


def annotations_are_forged_before_a_start() -> None:
    """A pod's annotation names a card that it does not hold, and a scheduler that starts reads it."""
    machine = Histories()
    a_pod_is_bound(machine)
    machine.annotation_is_forged(data=Answers("p1"), text="other", again=True)
    machine.cards_are_whose_the_decisions_say()


def believed(self: CardBook, record: Any, pod_class: Any, annotations: Any, row: Any) -> Any:
    """The cards that the annotations name, whatever is on record."""
    return self._read(pod_class, annotations, self._dialect(record.node)), True


FAULTS: dict[str, tuple[type, str, Any, Callable[[], None]]] = {
    "labels of creation": (
        PodEvents,
        "_relabel",
        lambda self, record, labels: False,
        a_label_changes_beside_an_anti_affinity,
    ),
    "annotations that win over the record": (CardBook, "_held", believed, annotations_are_forged_before_a_start),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_noticed(fault: str) -> None:
    where, name, broken, history = FAULTS[fault]
    history()
    with patch.object(where, name, broken), pytest.raises(AssertionError):
        history()


@pytest.mark.soak
@pytest.mark.parametrize("fault", FAULTS)
def test_random_histories_notice_a_fault(fault: str) -> None:
    dice = settings(max_examples=3000, stateful_step_count=30, deadline=None, derandomize=True, database=None)
    where, name, broken, _ = FAULTS[fault]
    with patch.object(where, name, broken), pytest.raises(AssertionError):
        run_state_machine_as_test(Histories, settings=settings(dice, phases=[Phase.generate]))
