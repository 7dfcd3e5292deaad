"""Random histories of nodes that divide cards as mGPU does. Those of other systems are in `part_systems.py`.

The oracle keeps pods as an API server would, with the cards that their bindings named, and adds up what they hold from
their own limits. The scheduler decides; it must charge exactly that, never give more of a card than there is, and know
the same after a restart, from rows or, before there are any, from annotations.
"""

import random
from collections import defaultdict
from typing import Any, ClassVar

import msgspec

from t9ksched.engine.planner import plan
from t9ksched.engine.policy import Policy
from t9ksched.kube.write.dialects.table import dialect_of
from t9ksched.model import names
from t9ksched.model.cards import CardGrant
from t9ksched.model.node import decode_node
from t9ksched.model.pod import decode_pod
from t9ksched.scheduler.report.node_shape import node_shape
from t9ksched.scheduler.state.card_rows import row_of
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.store.bindings import CardBinding
from tests.unit.scheduler.state.test_state import CREATED, NOW, state_with

CORE, MEMORY, COUNTS = (f"vke.volcengine.com/{name}" for name in ("mgpu-core", "mgpu-memory", "container-multiple-gpu"))
INDEX = "vke.volcengine.com/gpu-index-container-"
Amounts = tuple[int, int]
"""Percent of cores and MiB on one card."""


class History:
    """The objects of a cluster whose nodes divide cards as mGPU does, and the scheduler that follows them."""

    resource = CORE
    cores = 1
    """Whether parts have cores."""
    shapes: tuple[str, ...] = ("part", "part", "part", "whole", "several", "two", "init", "unequal", "unequal")
    forged: tuple[str, ...] = (INDEX + "a", "vke.volcengine.com/assumed", COUNTS)
    texts: tuple[str, ...] = ("0", "1", "63", "x", "0,1", "", "2,1,3")

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"parts {seed}")
        self.sizes = {f"n{at}": (self.rng.choice((1, 2, 4)), self.rng.choice((1000, 32510))) for at in range(2)}
        self.pods: dict[str, dict[str, Any]] = {}
        self.held: dict[str, dict[int, Amounts]] = {}
        """Of bound pods, by UID, what they have of each card."""
        self.rows: dict[str, CardBinding] = {}
        self.genuine: dict[str, dict[str, str]] = {}
        """All annotations, as they were after the binding."""
        self.serial = 0
        self.refused = 0
        self.state = self.begin()

    def begin(self) -> ClusterState:
        return state_with(*(self.node(name) for name in self.sizes))

    def node(self, name: str) -> Any:
        cards, memory = self.sizes[name]
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
        amounts |= {CORE: str(100 * cards), MEMORY: str(cards * memory)}
        status = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        return decode_node({"metadata": {"name": name, "uid": name, "labels": {}}, "spec": {}, "status": status})

    # What happens

    def submit(self) -> None:
        rng, annotations = self.rng, {}
        containers = []
        shape = rng.choice(self.shapes)
        core, memory = rng.choice((1, 10, 30, 50, 60, 99)), rng.choice((256, 300, 500, 1000))
        if shape == "whole":
            containers = [self.whole("a", rng.choice((1, 1, 2)))]
        elif shape == "several":
            annotations |= self.several
            containers = [self.part("a", core, memory, 2)]
        else:
            containers = [self.part("a", core, memory)] + ([self.part("b", core, memory)] if shape == "two" else [])
        if rng.random() < 0.2:
            containers.insert(rng.randrange(len(containers) + 1), self.container("log", {}))
        first = [self.part("first", core, memory)] if shape == "init" else []
        if shape == "unequal":
            sizes = [(rng.choice((1, 10, 30, 50, 60)), rng.choice((256, 300, 500))) for _ in range(4)]
            named = [self.part(name, *size) for name, size in zip("abcd", sizes, strict=True)]
            containers = named[: rng.choice((1, 2, 2))]
            first = rng.choice(([], [], [named[2]], [named[3] | {"restartPolicy": "Always"}, named[2]], named[2:]))
        self.serial += 1
        uid = f"p{self.serial}"
        self.pods[uid] = {
            "metadata": {
                "name": uid,
                "namespace": "ns",
                "uid": uid,
                "labels": {names.QUEUE_LABEL: "q"},
                "creationTimestamp": CREATED,
                "annotations": annotations,
            },
            "spec": {
                "schedulerName": names.SCHEDULER_NAME,
                "containers": containers,
                "initContainers": first,
            },
            "status": {"phase": "Pending"},
        }
        self.tell(uid)

    several: ClassVar[dict[str, str]] = {COUNTS: "2"}

    @staticmethod
    def container(name: str, asked: dict[str, int]) -> dict[str, Any]:
        amounts = {"cpu": "100m"} | {resource: str(amount) for resource, amount in asked.items()}
        return {"name": name, "resources": {"requests": amounts, "limits": amounts}}

    def part(self, name: str, core: int, memory: int, cards: int = 1) -> dict[str, Any]:
        return self.container(name, {CORE: core * cards, MEMORY: memory * cards})

    def whole(self, name: str, cards: int) -> dict[str, Any]:
        return self.container(name, {CORE: 100 * cards})

    def tell(self, uid: str) -> None:
        self.state.upsert_pod(decode_pod(self.pods[uid]))

    def decide(self) -> None:
        decided = plan(self.state.view(NOW), Policy(), NOW)
        self.refused += len(decided.waiting)
        for gang in dict.fromkeys(one.gang for one in decided.assignments):
            for done in self.state.assume(gang, [one for one in decided.assignments if one.gang == gang], NOW):
                record, charge = self.state.pods[done.pod], self.state.charges.get(done.pod)
                row = row_of(record, charge, NOW)
                self.rows[done.pod] = msgspec.json.decode(msgspec.json.encode(row), type=CardBinding)
                assert record.pod_class is not None
                dialect = dialect_of(self.state.node_objects[done.node][1])
                self.bind(done.pod, done.node, dialect.write(record.pod_class, done.grant))

    def bind(self, uid: str, node: str, written: dict[str, str]) -> None:
        pod = self.pods[uid]
        self.genuine[uid] = pod["metadata"]["annotations"] | written
        pod["metadata"] = pod["metadata"] | {"annotations": self.genuine[uid]}
        pod["spec"] = pod["spec"] | {"nodeName": node}
        pod["status"] = {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}]}
        self.held[uid] = self.what_it_holds(pod, node)
        self.tell(uid)

    def what_it_holds(self, pod: dict[str, Any], node: str) -> dict[int, Amounts]:
        has = []
        for container in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
            limits, own = container["resources"]["limits"], {}
            if CORE in limits:
                text = pod["metadata"]["annotations"][INDEX + container["name"]]
                indices = [int(at) for at in text.split(",")]
                core, memory = int(limits[CORE]) // len(indices), int(limits.get(MEMORY, 0)) // len(indices)
                own = dict.fromkeys(indices, (core, memory or self.sizes[node][1]))
                assert len(own) == len(indices), "cards of one container are different ones"
            has.append(own)
        return self.peak(pod, has)

    @staticmethod
    def peak(pod: dict[str, Any], has: list[dict[int, Amounts]]) -> dict[int, Amounts]:
        """The most that a pod has of each card at one time; `has` is by container, init containers first."""
        steps = pod["spec"]["initContainers"]
        moments, beside, together = [], [], has[len(steps) :]
        for step, own in zip(steps, has, strict=False):
            if step.get("restartPolicy") == "Always":
                beside.append(own)
            else:
                moments.append([*beside, own])
        moments.append([*together, *beside])
        found: dict[int, Amounts] = {}
        for moment in moments:
            now: dict[int, Amounts] = {}
            for own in moment:
                for index, (core, memory) in own.items():
                    known = now.get(index, (0, 0))
                    now[index] = known[0] + core, known[1] + memory
            for index, (core, memory) in now.items():
                known = found.get(index, (0, 0))
                found[index] = max(known[0], core), max(known[1], memory)
        return found

    def foreign(self) -> None:
        """Another scheduler binds a pod to a card that has room, and says which."""
        node = self.rng.choice(sorted(self.sizes))
        cards, size = self.sizes[node]
        taken = self.taken()
        for index in range(cards):
            core, memory = taken[node, index]
            if core <= 70 and memory <= size - 256:
                self.serial += 1
                uid = f"p{self.serial}"
                annotations = self.named(node, index, 30, 256)
                self.pods[uid] = {
                    "metadata": {"name": uid, "namespace": "ns", "uid": uid, "annotations": annotations},
                    "spec": {
                        "schedulerName": "volcano",
                        "nodeName": node,
                        "containers": [self.part("a", 30, 256)],
                        "initContainers": [],
                    },
                    "status": {"phase": "Pending"},
                }
                self.held[uid] = {index: (30 * self.cores, 256)}
                self.tell(uid)
                return

    def named(self, node: str, index: int, core: int, memory: int) -> dict[str, str]:
        """What another scheduler writes on a pod that gets this part of a card."""
        return {INDEX + "a": str(index), "vke.volcengine.com/assumed": "true"}

    def end(self) -> None:
        if self.held:
            uid = self.rng.choice(sorted(self.held))
            del self.held[uid]
            if self.rng.random() < 0.5:
                self.pods[uid]["status"] = {"phase": "Succeeded"}
                self.tell(uid)
            else:
                del self.pods[uid]
                self.rows.pop(uid, None)
                self.state.remove_pod(uid)

    def forge(self) -> None:
        ours = [uid for uid in self.held if uid in self.rows]
        if ours:
            pod = self.pods[self.rng.choice(sorted(ours))]
            key = self.rng.choice(self.forged)
            text = self.rng.choice(self.texts)
            pod["metadata"] = pod["metadata"] | {"annotations": pod["metadata"]["annotations"] | {key: text}}
            self.tell(pod["metadata"]["uid"])

    def restart(self) -> None:
        self.state = self.begin()
        self.state.cards.restore(self.rows, complete=True)
        self.follow()

    def upgrade(self) -> None:
        """A scheduler starts that finds no rows: annotations, which nobody forged, are all that is known."""
        for uid, genuine in self.genuine.items():
            if uid in self.pods:
                meta = self.pods[uid]["metadata"]
                self.pods[uid]["metadata"] = meta | {"annotations": genuine}
        self.state = self.begin()
        self.follow()
        adopted = {row.pod_uid: row for row in self.state.cards.adopt(NOW)}
        bound = {uid for uid in self.held if uid in self.rows}
        assert {uid: self.known(adopted[uid]) for uid in bound} == {uid: self.known(self.rows[uid]) for uid in bound}
        assert adopted.keys() == bound

    def known(self, row: CardBinding) -> Any:
        """What a row says that the pod has."""
        return row.grant

    def at(self, node: str, card: int) -> int:
        """The index of a card on its node now."""
        return card

    def renumber(self) -> None:
        """The cards of a node get other indices, where they have names besides."""

    def follow(self) -> None:
        order = sorted(self.pods)
        self.rng.shuffle(order)
        for uid in order:
            self.tell(uid)

    # What must hold

    def taken(self) -> dict[tuple[str, int], Amounts]:
        found: defaultdict[tuple[str, int], Amounts] = defaultdict(lambda: (0, 0))
        for uid, held in self.held.items():
            for index, (core, memory) in held.items():
                key = (self.pods[uid]["spec"]["nodeName"], index)
                found[key] = (found[key][0] + core, found[key][1] + memory)
        return found

    def check(self) -> None:
        taken = self.taken()
        for (node, index), (core, memory) in taken.items():
            assert core <= 100, (node, index)
            assert memory <= self.sizes[node][1], (node, index)
        for node, (cards, _) in self.sizes.items():
            used = self.state.nodes.used(node)
            for index in range(cards):
                row = f"{self.resource}#{self.at(node, index):02}"
                counted = [used.get(f"{row}/{what}", 0) for what in ("cores", "memory")]
                core, memory = taken.get((node, index), (0, 0))
                assert counted == [core * 10, memory], (node, index)
            assert not self.state.node_objects[node][1].unsure
        for uid, held in self.held.items():
            charge = self.state.charges.get(uid)
            assert charge is not None
            there = {self.at(self.pods[uid]["spec"]["nodeName"], card): amounts for card, amounts in held.items()}
            assert charge.cards.masks == CardGrant.of({self.resource: there}).masks
            assert {part.index: (part.cores // 10, part.memory) for part in charge.cards.parts} == there
        self.check_what_is_told()

    def check_what_is_told(self) -> None:
        """The holders of a card that people see have together what is charged of it."""
        for name in self.sizes:
            shape = node_shape(self.state, name)
            assert shape is not None
            told: defaultdict[tuple[str, int], Amounts] = defaultdict(lambda: (0, 0))
            for card in shape["gpus"]:
                for one in card["holders"]:
                    core, memory = told[one["pod"], card["index"]]
                    told[one["pod"], card["index"]] = core + one["cores"], memory + one["memoryMiB"]
            there = [uid for uid in self.held if self.pods[uid]["spec"]["nodeName"] == name]
            assert told == {(uid, self.at(name, card)): has for uid in there for card, has in self.held[uid].items()}
