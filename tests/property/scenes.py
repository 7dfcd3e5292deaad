"""Small clusters at one moment, in which everything that decides comes up: kinds of nodes and pods, quotas that are hit
exactly, domains, rules about pods, lost members, strict queues, gangs with members above their minimum.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.planner import Plan
from t9ksched.engine.policy import Binpack, Policy
from t9ksched.engine.view import QueueState, View
from t9ksched.model.card_table import CardTable
from t9ksched.model.cardmode import NOT_READY
from t9ksched.model.cards import CardGrant, WholeCards
from t9ksched.model.gang import Gang, Member, Neighbours
from t9ksched.model.labels import LabelSelector, NodeSelector
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import HostPort, PodClass
from t9ksched.model.podrules import parse_rules
from t9ksched.model.queue import QueueSpec
from t9ksched.model.readiness import Unready
from t9ksched.model.reasons import Code, Reason
from t9ksched.model.reservation import Reservation, ReservationKind
from t9ksched.model.taints import Taint, Toleration
from tests.builders import GPU, gang, node, pod_class
from tests.property.extras import PLUGINS

AMD = "amd.com/gpu"
NOW = 10**12
RACK, HOST = "rack", "kubernetes.io/hostname"
APPS = ("web", "db", "job")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
POLICIES = (
    Policy(),
    Policy(),
    Policy(binpack=None),
    Policy(binpack=Binpack(weight=0)),
    Policy(binpack=Binpack(strategy="LeastAllocated", weight=3)),
    Policy(queue_order=("basic",), binpack=Binpack(resources=(("cpu", 0), ("memory", 10))), affinity_weight=1),
    Policy(queue_order=("resource", "basic"), affinity_weight=0, cardless_weight=0),
    Policy(plugins=PLUGINS[:2]),
    Policy(plugins=PLUGINS, queue_order=("basic", "by-letter", "resource"), gang_order=("smallest", "basic")),
)


def _within(key: str, *values: str, operator: str = "In") -> NodeSelector | None:
    return NodeSelector.parse([{"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}])


def facts(rng: random.Random, name: str, plain: bool) -> NodeFacts:
    """A node; a plain one has nothing odd."""
    gpu = rng.choice([0, 2, 4, 8])
    labels = {"zone": rng.choice("ab"), RACK: f"{rng.choice('xyz')}"}
    if rng.random() < 0.15:
        del labels[RACK]
    found = node(
        name,
        cpu=rng.choice([4, 8, 16]),
        memory=rng.choice(["8Gi", "16Gi"]),
        gpu=gpu,
        pods=rng.choice([4, 20]),
        labels=labels,
        **({AMD: 2} if rng.random() < 0.3 else {}),
    )
    if plain:
        return found
    odd = rng.choice(["taint", "soft", "cordon", "unready", "deleting", "unusable", "counted", "mode", "unsure", ""])
    match odd:
        case "taint":
            return replace(found, taints=(Taint("team", "red", rng.choice(["NoSchedule", "NoExecute"])),))
        case "soft":
            soft = Taint("soft", "", "PreferNoSchedule")
            return replace(found, taints=(soft, *rng.choice([(), (Taint("team", "red"),)])))
        case "cordon":
            taint = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
            return replace(found, unschedulable=True, taints=rng.choice([(), (taint,)]))
        case "unready":
            return replace(found, ready=False)
        case "deleting":
            return replace(found, deleting=True)
        case "unusable":
            broken = CardGrant.packed({GPU: rng.randrange(1 << gpu)} if gpu else {})
            return replace(found, cards=CardTable(found.cards.counts, broken))
        case "counted":
            cards = CardTable({resource: count for resource, count in found.cards.counts.items() if resource != GPU})
            return replace(found, cards=cards, cordoned={GPU: rng.choice([0, 1])} if gpu else {}, mode="Sharing")
        case "mode":
            changing = Unready("nvidia.com/mig.config.state=pending", "its layout is being changed", "wait")
            return replace(found, **rng.choice([{"mode": NOT_READY}, {"unready": changing}]))
        case "unsure":
            return replace(found, unsure=True)
    return found


def rules(rng: random.Random, app: str) -> Any:
    """Rules about pods, or preferences about nodes, of a pod with that app."""
    affinity: dict[str, Any] = {}
    spread: list[dict[str, Any]] = []

    def term() -> dict[str, Any]:
        spoken = rng.choice([app, app, *APPS])
        found: dict[str, Any] = {"labelSelector": {"matchLabels": {"app": spoken}}}
        if rng.random() < 0.15:
            found["namespaceSelector"] = {"matchLabels": {"team": "x"}}
        return found | {"topologyKey": rng.choice(["zone", RACK, HOST])}

    def weighted() -> dict[str, Any]:
        return {"weight": rng.choice([1, 50, 100]), "podAffinityTerm": term()}

    for _ in range(rng.choice([1, 1, 2])):
        match rng.choice(["near", "apart", "like", "shun", "nodes", "hard", "soft"]):
            case "near":
                affinity.setdefault("podAffinity", {}).setdefault(REQUIRED, []).append(term())
            case "apart":
                affinity.setdefault("podAntiAffinity", {}).setdefault(REQUIRED, []).append(term())
            case "like":
                affinity.setdefault("podAffinity", {}).setdefault(PREFERRED, []).append(weighted())
            case "shun":
                affinity.setdefault("podAntiAffinity", {}).setdefault(PREFERRED, []).append(weighted())
            case "nodes":
                key, values = rng.choice([("zone", "ab"), (RACK, "xyz")])
                one = {"key": key, "operator": "In", "values": [rng.choice(values)]}
                part = affinity.setdefault("nodeAffinity", {})
                part.setdefault(PREFERRED, []).append({"weight": 7, "preference": {"matchExpressions": [one]}})
            case hardness:
                one = {"maxSkew": rng.choice([1, 1, 2]), **term()}
                one.pop("namespaceSelector", None)
                if hardness == "soft":
                    one["whenUnsatisfiable"] = "ScheduleAnyway"
                elif rng.random() < 0.5:
                    one |= {"minDomains": rng.choice([1, 2, 3])}
                one["nodeAffinityPolicy"] = rng.choice(["Honor", "Ignore"])
                one["nodeTaintsPolicy"] = rng.choice(["Honor", "Ignore"])
                spread.append(one)
    return parse_rules(affinity, spread, "test", {"app": app})


def shape(rng: random.Random, app: str, *, ruled: bool) -> PodClass:
    """A kind of pod."""
    found = pod_class(
        cpu=rng.choice([0, "500m", 1, 2, 3, 6]),
        memory=rng.choice([0, "1Gi", "3Gi"]),
        gpu=rng.choice([0, 0, 1, 1, 2, 3, 4]),
    )
    if ruled:
        found = replace(found, rules=rules(rng, app))
    if rng.random() > 0.35:
        return found
    match rng.choice(["selector", "affinity", "tolerates", "port", "volume", "amd", "init", "unrecorded", "big"]):
        case "selector":
            return replace(found, node_selector=(("zone", rng.choice("abc")),))
        case "affinity":
            return replace(found, node_affinity=_within(RACK, "x", "y", operator=rng.choice(["In", "NotIn"])))
        case "tolerates":
            return replace(found, tolerations=(Toleration(rng.choice(["team", "", "soft"]), "Exists"),))
        case "port":
            ports = rng.choice([(HostPort(80),), (HostPort(80), HostPort(443)), (HostPort(80, ip="10.0.0.1"),)])
            return replace(found, host_ports=ports)
        case "volume":
            return replace(found, volume_affinity=tuple(filter(None, (_within("zone", "b"),))))
        case "amd":
            requests = dict(found.requests) | {AMD: rng.choice([1, 2])}
            more = WholeCards("side", AMD, requests[AMD], "sidecar")
            return replace(found, requests=tuple(sorted(requests.items())), cards=(*found.cards, more))
        case "init" if GPU in dict(found.requests):
            whole = dict(found.requests)[GPU]
            parts = [WholeCards("side", GPU, 1, "sidecar"), WholeCards("first", GPU, 1, "init")]
            parts = parts[rng.choice([0, 1]) if whole > 1 else 1 :]
            rest = [WholeCards("main", GPU, whole - sum(one.kind == "sidecar" for one in parts))]
            return replace(found, cards=tuple(rng.sample([*parts, *rest], len(parts) + 1)))
        case "unrecorded":
            return replace(found, unrecorded=True)
        case "big":
            return replace(found, requests=tuple(sorted((dict(found.requests) | {"cpu": 17_000}).items())))
    return found


def asking(rng: random.Random, shapes: Sequence[tuple[str, PodClass]], at: int, names: Sequence[str]) -> Gang:
    """A gang that waits, with some of it standing perhaps."""
    kinds = [rng.choice(shapes) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
    members: list[Member] = []
    for app, of in kinds:
        role = rng.choice(["", "", "master", "worker"])
        for _ in range(rng.choice([1, 1, 2, 2, 3])):
            uid = f"g{at}-{len(members)}"
            members.append(Member(uid, f"test/{uid}", role, of, (("app", app),)))
    rng.shuffle(members)
    placed = rng.choice([{}, {}, {}, {}, {"worker": 2}, {"": 1}])
    there = len(members) + sum(placed.values())
    least = rng.choice([there, there, max(1, there - 1), max(1, there // 2), 1])
    homes = tuple(sorted(rng.sample(list(names), min(len(names), rng.choice([0, 1, 2]))))) if placed else ()
    topology = rng.choice(["None"] * 6 + ["Required", "Required", "Preferred"])
    found = gang(
        f"g{at}",
        queue=rng.choice(["low", "low2", "high", "strict"] * 5 + ["gone"]),
        members=members,
        min_member=least + (rng.random() < 0.05),
        roles=rng.choice([{}] * 9 + [{"master": 1}, {"master": 1, "worker": 2}, {"worker": 2}]),
        placed=placed,
        priority=rng.choice([0, 0, 1, 2]),
        created=rng.randrange(4),
        refilling=bool(placed) or rng.random() < 0.1,
        accepted=rng.random() < 0.1,
        ran=rng.random() < 0.1,
        blocked=[Reason(Code.SCHEDULING_GATED, "a gate")] if rng.random() < 0.05 else [],
        total=there - (rng.random() < 0.05),
    )
    return structs.replace(
        found, topology=topology, levels=rng.choice([(RACK,), (HOST, RACK), (RACK, "zone"), (HOST,)]), nodes=homes
    )


def queues(rng: random.Random, size: int) -> dict[str, QueueState]:
    """Queues, of which some have quotas and use something."""

    def one(priority: int, strict: bool = False) -> QueueState:
        quota = {GPU: rng.randrange(12), "cpu": 1000 * rng.randrange(8 * size + 1), "memory": rng.randrange(40) << 30}
        spec = QueueSpec(
            quota={name: units for name, units in quota.items() if rng.random() < 0.3},
            priority=priority,
            closed=rng.random() < 0.1,
            node_selector=LabelSelector.parse({"matchLabels": {"zone": "b"}}) if rng.random() < 0.15 else None,
            ordering="Strict" if strict else "BestEffort",
        )
        used = {GPU: rng.randrange(6), "cpu": 1000 * rng.randrange(6), "memory": rng.randrange(8) << 30}
        return QueueState(spec, used if rng.random() < 0.5 else {}, spec.closed and rng.random() < 0.5)

    return {"low": one(0), "low2": one(0), "high": one(5), "strict": one(rng.choice([0, 5]), strict=True)}


class Scene:
    """A cluster that changes, and what is asked of it."""

    def __init__(self, seed: object, *, ruled: bool = False, kept: bool = False, many: bool = False) -> None:
        self.rng = rng = random.Random(f"scene {seed}")
        self.ruled, self.kept = ruled, kept
        apps = [rng.choice(APPS) for _ in range(rng.choice([1, 2, 2, 3]))]
        self.shapes = [(app, shape(rng, app, ruled=ruled and rng.random() < 0.6)) for app in apps]
        self.table, self.names = NodeTable(), [f"n{at}" for at in range(rng.choice([1, 2, 3, 3, 4, 5]))]
        self.standing: list[tuple[str, str, PodClass, dict[str, int], Neighbours]] = []
        """Name of the node, app, class, cards and the pod as a neighbour of others."""
        for name in rng.sample(self.names, len(self.names)):
            self.table.upsert(facts(rng, name, rng.random() < 0.75))
        for name in self.names[1:] if rng.random() < 0.3 else ():
            like = self.table.facts(self.names[0])
            self.table.upsert(replace(like, name=name, labels=self.table.facts(name).labels | {HOST: name}))
        for name in self.names:
            for _ in range(rng.choice([0, 0, 0, 1, 2])):
                self._foreign(name)
        self.gangs = [asking(rng, self.shapes, at, self.names) for at in range(rng.choice([1, 2, 3, 5, 7]))]
        if many:
            self.gangs = [*self.gangs[:2], self._large()]
        self.queues = queues(rng, len(self.names))
        self.holds: list[Reservation] = []
        for at in range(len(self.gangs)) if kept else ():
            self._lost(at)
        self.namespaces = {"other": {"team": "x"}} if rng.random() < 0.5 else {}
        self.policy = rng.choice(POLICIES)

    def _large(self) -> Gang:
        of = pod_class(cpu=0, memory=0)
        members = [Member(f"gl-{at}", f"test/gl-{at}", "", of, (("app", "job"),)) for at in range(130)]
        for at, name in enumerate(self.names):
            now = self.table.facts(name)
            self.table.upsert(replace(now, allocatable={**now.allocatable, "pods": 60 + 7 * at}))
        return gang("gl", "high", members=members, min_member=self.rng.choice([1, 128, 130]), created=2)

    def _foreign(self, name: str) -> None:
        """A pod stands on a node; its cards are known or not."""
        rng = self.rng
        app, of = rng.choice(self.shapes)
        known = rng.random() < 0.6
        here = self.table.facts(name).cards
        cards = CardGrant.of({card: range(count) for card, count in of.card_counts.items() if known and card in here})
        self.table.charge(self.table.row(name), of, cards)
        theirs = of.rules
        beside = Neighbours(
            rng.choice(["test", "test", "other"]),
            (("app", app),),
            ((name, rng.choice([1, 1, 2])),),
            theirs.apart if theirs else (),
            theirs.prefer_pods if theirs else (),
            rng.random() < 0.2,
        )
        self.standing.append((name, app, of, cards, beside))

    def _lost(self, at: int) -> None:
        """Room is kept for members that a gang lost."""
        rng, one = self.rng, self.gangs[at]
        if rng.random() < 0.5 or one.queue in ("strict", "gone") or any(one.uid == hold.owner for hold in self.holds):
            return
        self.gangs[at] = structs.replace(one, refilling=True, ran=True)
        for _ in range(rng.choice([1, 1, 2])):
            of = rng.choice(self.shapes)[1]
            where = rng.choice([*self.names, ""])
            avoid = tuple(rng.sample(self.names, rng.randrange(len(self.names)))) if not where else ()
            since, until = NOW - rng.choice([0, 1, 5]), rng.choice([NOW + 1, NOW + 1, NOW, 0])
            named = {card: rng.randrange(256) for card in of.card_counts} if where and rng.random() < 0.4 else {}
            cards = CardGrant.packed(named)
            self.holds.append(
                Reservation(
                    one.uid,
                    where,
                    of,
                    ReservationKind.REFILL,
                    cards,
                    since=since,
                    until=until,
                    queue=one.queue,
                    avoid=avoid,
                )
            )

    def view(self) -> View:
        """The moment as the engine sees it."""
        return View(
            self.table.freeze(),
            dict(self.queues),
            tuple(self.gangs),
            tuple(self.holds),
            neighbours=tuple(one[-1] for one in self.standing) if self.ruled else (),
            namespaces=self.namespaces,
        )

    def carry_out(self, plan: Plan) -> None:
        """What was decided is done; here nothing is."""

    def step(self) -> None:
        """Something happens, or nothing."""
        rng = self.rng
        name = rng.choice(self.names)
        match rng.choice(
            ["ends", "ends", "comes", "comes", "node", "lost", "queue", "asked", "alike", "hold", "policy", ""]
        ):
            case "ends" if self.standing:
                where, _, of, cards, _ = self.standing.pop(rng.randrange(len(self.standing)))
                self.table.discharge(self.table.row(where), of, cards)
            case "comes":
                self._foreign(name)
            case "node":
                self.table.upsert(facts(rng, name, rng.random() < 0.6))
            case "lost" if len(self.names) > 1:
                self.names.remove(name)
                self.table.remove(name)
                self.standing = [one for one in self.standing if one[0] != name]
                if rng.random() < 0.7:
                    self.names.append(f"m{len(self.standing)}{name}")
                    self.table.upsert(facts(rng, self.names[-1], True))
            case "queue":
                self.queues = queues(rng, len(self.names))
            case "asked":
                rng.shuffle(self.gangs)
                self.gangs = self.gangs[: max(1, len(self.gangs) - 1)]
            case "alike":
                like, at = rng.choice(self.gangs), len(self.gangs) + rng.randrange(10, 1000)
                members = tuple(structs.replace(one, uid=f"a{at}-{one.uid}") for one in like.waiting)
                self.gangs.append(structs.replace(like, uid=f"a{at}", name=f"test/a{at}", waiting=members))
            case "hold" if self.kept:
                self.holds = [one for one in self.holds if rng.random() < 0.6]
                self._lost(rng.randrange(len(self.gangs)))
            case "policy":
                self.policy = rng.choice(POLICIES)
