"""What becomes of the queues of other schedulers, field by field, and what is refused."""

from typing import Any

import pytest

from t9ksched.importing.objects import Document
from t9ksched.importing.report import Choices, Report, scaled
from t9ksched.importing.systems import SYSTEMS, translate
from t9ksched.model.queue import parse_queue_spec

Json = dict[str, Any]
KUEUE = "kueue.x-k8s.io/v1beta2"
VOLCANO = "scheduling.volcano.sh/v1beta1"
KAI = "scheduling.run.ai/v2"
GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
NAMESPACE = "kubernetes.io/metadata.name"


def obj(api: str, kind: str, name: str, spec: Json | None = None, **more: Any) -> Json:
    metadata = {"name": name, **more.pop("metadata", {})}
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": metadata,
        **({"spec": spec} if spec is not None else {}),
        **more,
    }


def imported(system: str, *objects: Any, **choices: Any) -> Report:
    documents = [Document(f"q.yaml[{index}]", one) for index, one in enumerate(objects)]
    return translate(SYSTEMS[system], documents, Choices(**choices))[0]


def specs(report: Report) -> Json:
    assert report.faults == []
    for queue in report.queues.values():
        parse_queue_spec(queue["spec"])
    return {name: queue["spec"] for name, queue in report.queues.items()}


def outcomes(report: Report) -> set[tuple[str, str, str]]:
    return {(line.object, line.path, line.outcome) for line in report.lines}


def flavor(name: str, product: str = "", **spec: Any) -> Json:
    return obj(KUEUE, "ResourceFlavor", name, ({"nodeLabels": {PRODUCT: product}} if product else {}) | spec)


def group(**flavors: Json) -> Json:
    """A group of resources: amounts by flavor, such as `a100={GPU: (8, 4, None)}`."""
    rows = []
    for name, resources in flavors.items():
        row = []
        for resource, (nominal, borrowing, lending) in resources.items():
            amounts = {"name": resource, "nominalQuota": nominal, "borrowingLimit": borrowing, "lendingLimit": lending}
            row.append({key: value for key, value in amounts.items() if value is not None})
        rows.append({"name": name, "resources": row})
    return {"coveredResources": list(next(iter(flavors.values()))), "flavors": rows}


def cluster_queue(name: str, *groups: Json, **spec: Any) -> Json:
    return obj(KUEUE, "ClusterQueue", name, {"resourceGroups": list(groups), "namespaceSelector": {}, **spec})


def local_queue(name: str, namespace: str, queue: str, **spec: Any) -> Json:
    return obj(KUEUE, "LocalQueue", name, {"clusterQueue": queue, **spec}, metadata={"namespace": namespace})


def test_a_cluster_queue_with_one_flavor() -> None:
    report = imported(
        "kueue",
        flavor("a100", "A100", tolerations=[{"key": "gpu", "operator": "Exists"}]),
        cluster_queue(
            "vision", group(a100={"cpu": (64, None, None), GPU: (8, None, None)}), queueingStrategy="StrictFIFO"
        ),
        local_queue("lq", "team-v", "vision"),
        local_queue("lq", "team-w", "vision", stopPolicy="Hold"),
    )
    assert specs(report) == {
        "vision": {
            "ordering": "Strict",
            "namespaceSelector": {"matchExpressions": [{"key": NAMESPACE, "operator": "In", "values": ["team-v"]}]},
            "quota": {"requests": {"cpu": "64", GPU: "8"}},
            "nodeSelector": {"matchLabels": {PRODUCT: "A100"}},
        }
    }
    assert report.queues["vision"]["labels"] == {"scheduler.tensorstack.dev/imported-from": "kueue"}
    assert {
        ("ClusterQueue vision", "spec.queueingStrategy", "same"),
        ("ClusterQueue vision", "spec.resourceGroups[0].flavors[0].resources[1].nominalQuota", "same"),
        ("ResourceFlavor a100", "spec.tolerations", "none"),
        ("LocalQueue team-v/lq", "spec.clusterQueue", "same"),
        ("LocalQueue team-w/lq", "spec.stopPolicy", "changed"),
    } <= outcomes(report)


FLAVORS = (
    flavor("any"),
    flavor("a100", "A100"),
    flavor("a40", "A40"),
    cluster_queue(
        "vision",
        group(any={"cpu": (100, None, None)}),
        group(a100={GPU: (8, None, None)}, a40={GPU: (4, None, None)}),
    ),
    local_queue("lq", "team-v", "vision"),
)


def test_several_flavors_are_several_queues_or_one_with_their_sum() -> None:
    apart = specs(imported("kueue", *FLAVORS))
    assert {name: (spec["quota"]["requests"], spec["nodeSelector"]) for name, spec in apart.items()} == {
        "vision-a100": ({"cpu": "100", GPU: "8"}, {"matchLabels": {PRODUCT: "A100"}}),
        "vision-a40": ({"cpu": "100", GPU: "4"}, {"matchLabels": {PRODUCT: "A40"}}),
    }
    together = imported("kueue", *FLAVORS, together=True)
    assert specs(together)["vision"]["quota"] == {"requests": {"cpu": "100", GPU: "12"}}
    assert specs(together)["vision"]["nodeSelector"] == {
        "matchExpressions": [{"key": PRODUCT, "operator": "In", "values": ["A100", "A40"]}]
    }
    path = "spec.resourceGroups[1].flavors[0].resources[0].nominalQuota"
    assert ("ClusterQueue vision", path, "changed") in outcomes(together)


COHORT = (
    flavor("a100", "A100"),
    cluster_queue("a", group(a100={GPU: (8, None, None)}), cohortName="left"),
    cluster_queue("b", group(a100={GPU: (6, 3, 2)}), cohortName="right", fairSharing={"weight": 2}),
    cluster_queue("c", group(a100={GPU: (5, None, None)})),
    obj(KUEUE, "Cohort", "left", {"parentName": "top"}),
    obj(KUEUE, "Cohort", "right", {"parentName": "top"}),
    obj(KUEUE, "Cohort", "top", {"resourceGroups": [group(a100={GPU: (1, None, None)})]}),
)


def test_what_a_cohort_lends_is_in_the_quota_or_not() -> None:
    """Of a tree of cohorts: a may borrow 2 of b and 1 of the tree; b 3 of the 9 that are lent; c is in none."""
    quotas = {name: int(spec["quota"]["requests"][GPU]) for name, spec in specs(imported("kueue", *COHORT)).items()}
    assert quotas == {"a": 8 + 2 + 1, "b": 6 + 3, "c": 5}
    own = imported("kueue", *COHORT, own=True)
    assert {name: int(spec["quota"]["requests"][GPU]) for name, spec in specs(own).items()} == {"a": 8, "b": 6, "c": 5}
    assert {
        ("ClusterQueue a", "spec.cohortName", "none"),
        ("ClusterQueue b", "spec.fairSharing", "none"),
        ("ClusterQueue b", "spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit", "none"),
        ("Cohort left", "spec.parentName", "none"),
    } <= outcomes(own)


def test_volcano() -> None:
    tree = (
        obj(VOLCANO, "Queue", "root"),
        obj(VOLCANO, "Queue", "eng", {"capability": {GPU: 12, "memory": "1Ti"}}),
        obj(
            VOLCANO,
            "Queue",
            "dev",
            {
                "parent": "eng",
                "weight": 3,
                "reclaimable": False,
                "priority": 200,
                "dequeueStrategy": "fifo",
                "guarantee": {"resource": {GPU: 2}},
                "deserved": {GPU: 4},
                "capability": {GPU: 16, "cpu": 100},
                "affinity": {
                    "nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["g1"]},
                    "nodeGroupAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": ["g2"]},
                },
                "bogus": 1,
            },
            status={"state": "Closing"},
        ),
        obj("scheduling.k8s.io/v1", "PriorityClass", "urgent", value=5000),
        obj("scheduling.k8s.io/v1", "PriorityClass", "low", value=-5),
        obj("scheduling.k8s.io/v1", "PriorityClass", "system-node-critical", value=2000001000),
    )
    report = imported("volcano", *tree)
    assert specs(report) == {
        "dev": {
            "priority": 10,
            "ordering": "Strict",
            "quota": {"requests": {"cpu": "100", "memory": "1Ti", GPU: "12"}},
            "preemptible": False,
            "closed": True,
            "nodeSelector": {
                "matchExpressions": [{"key": "volcano.sh/nodegroup-name", "operator": "In", "values": ["g1"]}]
            },
        }
    }
    assert {(one.name, one.priority) for one in report.priorities} == {("urgent", 10), ("low", 0)}
    assert {
        ("Queue dev", "spec.weight", "none"),
        ("Queue dev", "spec.deserved", "none"),
        ("Queue dev", "spec.guarantee.resource", "none"),
        ("Queue dev", "spec.parent", "none"),
        ("Queue dev", "spec.bogus", "none"),
        ("Queue dev", "spec.capability", "same"),
        ("Queue dev", "status.state", "same"),
        ("Queue eng", "", "none"),
    } <= outcomes(report)
    assert specs(imported("volcano", *tree, own=True))["dev"]["quota"] == {"requests": {"memory": "1Ti", GPU: "4"}}


def test_kai() -> None:
    tree = (
        obj(
            KAI,
            "Queue",
            "dept",
            {"resources": {"gpu": {"quota": 8, "limit": 12}, "cpu": {"quota": -1}, "memory": {"limit": -1}}},
        ),
        obj(
            KAI,
            "Queue",
            "team",
            {
                "parentQueue": "dept",
                "displayName": "Team",
                "preemptMinRuntime": "5m",
                "resources": {
                    "gpu": {"quota": 2.5, "limit": -1, "overQuotaWeight": 2},
                    "cpu": {"quota": 2000, "limit": 4000},
                    "memory": {"quota": 1024, "limit": 0},
                },
            },
            metadata={"labels": {"kai.scheduler/node-pool": "p1"}},
        ),
        obj("scheduling.k8s.io/v1", "PriorityClass", "build", value=100),
    )
    report = imported("kai", *tree)
    assert specs(report) == {
        "team": {
            "priority": 100,
            "quota": {"requests": {"cards": "12", "cpu": "4", "memory": "1000000Ki"}},
            "nodeSelector": {"matchLabels": {"kai.scheduler/node-pool": "p1"}},
        }
    }
    assert {
        ("Queue team", "spec.resources.gpu.overQuotaWeight", "none"),
        ("Queue team", "spec.resources.memory.limit", "changed"),
        ("Queue team", "spec.displayName", "none"),
        ("Queue team", "spec.preemptMinRuntime", "none"),
        ("PriorityClass build", "value", "none"),
    } <= outcomes(report)
    own = specs(imported("kai", *tree, own=True))["team"]["quota"]["requests"]
    assert own == {"cards": "2.5", "cpu": "2", "memory": "1000000Ki"}
    assert specs(imported("kai", obj(KAI, "Queue", "none")))["none"]["quota"] == {
        "requests": {"cards": "0", "cpu": "0", "memory": "0"}
    }


@pytest.mark.parametrize("own", [False, True])
def test_a_limit_of_kai_holds_whatever_the_quota(own: bool) -> None:
    """Below the quota, beside none, and for the queues below."""
    free = {"quota": -1, "limit": -1}
    resources = {"gpu": {"quota": 8, "limit": 6}, "cpu": {"quota": -1, "limit": 1500}, "memory": {"quota": -1}}
    dept = obj(KAI, "Queue", "dept", {"resources": resources})
    leaf = obj(
        KAI, "Queue", "leaf", {"parentQueue": "dept", "resources": dict.fromkeys(("gpu", "cpu", "memory"), free)}
    )
    bound = {"cards": "6", "cpu": "1500m"}
    assert specs(imported("kai", dept, leaf, own=own))["leaf"]["quota"]["requests"] == bound
    report = imported("kai", dept, own=own)
    assert specs(report)["dept"]["quota"]["requests"] == bound
    assert {
        ("Queue dept", "spec.resources.gpu.quota", "changed"),
        ("Queue dept", "spec.resources.gpu.limit", "same"),
        ("Queue dept", "spec.resources.cpu.quota", "changed"),
        ("Queue dept", "spec.resources.cpu.limit", "same"),
        ("Queue dept", "spec.resources.memory.quota", "same"),
    } <= outcomes(report)


@pytest.mark.parametrize(
    ("system", "objects", "told"),
    [
        (
            "kueue",
            [obj("kueue.x-k8s.io/v1alpha1", "ClusterQueue", "q")],
            "q.yaml[0]: apiVersion: 'kueue.x-k8s.io/v1alpha1'",
        ),
        ("kueue", ["text"], "q.yaml[0]: is no object"),
        ("kueue", [{"apiVersion": KUEUE, "kind": "ClusterQueue"}], "metadata.name: is missing"),
        ("kueue", [obj(KUEUE, "ClusterQueue", "q", [])], "spec: must be a mapping, not a list"),  # type: ignore[arg-type]
        ("kueue", [cluster_queue("q", group(gone={GPU: (1, None, None)}))], "the ResourceFlavor 'gone' was not read"),
        (
            "kueue",
            [flavor("a"), cluster_queue("q", group(a={GPU: ("x", None, None)}))],
            "resources[0].nominalQuota: 'x'",
        ),
        ("kueue", [flavor("a"), cluster_queue("q", group(a={GPU: (-1, None, None)}))], "-1 is negative"),
        ("kueue", [flavor("a"), cluster_queue("q.x", group(a={GPU: (1, None, None)}))], "--rename q.x=NAME"),
        ("kueue", [flavor("a"), flavor("a")], "q.yaml[1]: ResourceFlavor a: is in q.yaml[0] too"),
        ("kueue", [cluster_queue("q", queueingStrategy="Fast")], "spec.queueingStrategy: 'Fast' is unknown"),
        (
            "kueue",
            [cluster_queue("q", namespaceSelector={"matchLabel": {}}), local_queue("l", "n", "q")],
            "spec.namespaceSelector.matchLabel: is unknown",
        ),
        (
            "volcano",
            [obj(VOLCANO, "Queue", "q", {"capability": {GPU: "many"}})],
            "spec.capability[nvidia.com/gpu]: 'many'",
        ),
        ("volcano", [obj(VOLCANO, "Queue", "q", {"priority": "high"})], "spec.priority: must be a whole number"),
        ("volcano", [obj(VOLCANO, "Queue", "q", {"affinity": []})], "spec.affinity: must be a mapping"),
        (
            "kai",
            [obj(KAI, "Queue", "q", {"resources": {"gpu": {"limit": -2}}})],
            "spec.resources.gpu.limit: -2 is no amount",
        ),
        ("kai", [obj("scheduling.k8s.io/v1", "PriorityClass", "p")], "PriorityClass p: value: is missing"),
        ("volcano", [obj(VOLCANO, "Queue", "q", {"parent": "gone"})], "Queue q: spec.parent: 'gone' was not read"),
        ("kai", [obj(KAI, "Queue", "q", {"parentQueue": "gone"})], "Queue q: spec.parentQueue: 'gone' was not read"),
        ("kai", [obj(KAI, "Queue", "q", {"parentQueue": "q"})], "spec.parentQueue: it is above itself: q below q"),
        (
            "volcano",
            [obj(VOLCANO, "Queue", "a", {"parent": "b"}), obj(VOLCANO, "Queue", "b", {"parent": "a"})],
            "Queue a: spec.parent: it is above itself: a below b below a",
        ),
        (
            "kueue",
            [obj(KUEUE, "Cohort", "a", {"parentName": "b"}), obj(KUEUE, "Cohort", "b", {"parentName": "a"})],
            "Cohort b: spec.parentName: it is above itself: b below a below b",
        ),
    ],
)
def test_what_is_refused_says_where(system: str, objects: list[Any], told: str) -> None:
    report = imported(system, *objects)
    assert any(told in fault for fault in report.faults), report.faults
    assert all(fault.startswith("q.yaml[") for fault in report.faults)


def test_queues_that_would_have_one_name() -> None:
    both = (
        flavor("a", "A"),
        flavor("b", "B"),
        cluster_queue("q", group(a={GPU: (1, None, None)}, b={GPU: (1, None, None)})),
        cluster_queue("q-a", group(a={GPU: (1, None, None)})),
    )
    assert "the queue 'q-a' comes from q.yaml[2]: ClusterQueue q too" in imported("kueue", *both).faults[0]
    renamed = imported("kueue", *both, names={"q-a": "other"}, without=frozenset({"q-b"}))
    assert "comes from" in renamed.faults[0]
    assert list(specs(imported("kueue", *both, without=frozenset({"q-a"})))) == ["q-b"]
    assert imported("kueue", *both, names={"none": "x"}).unused_names() == ["none"]


def test_lists_and_objects_of_others() -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [obj(VOLCANO, "Queue", "a", {}), obj("v1", "Pod", "p")]}
    documents = [Document("q.json", listed), Document("p.yaml", obj("apps/v1", "Deployment", "d"))]
    report, others = translate(SYSTEMS["volcano"], documents)
    assert (list(report.queues), others) == (["a"], 2)
    assert report.lines[0].place == "q.json.items[0]"


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({0, 50, 100}, {0: 0, 50: 50, 100: 100}),
        ({-3, 0, 7, 1000}, {-3: 0, 0: 0, 7: 10, 1000: 20}),
        ({101}, {101: 10}),
    ],
)
def test_priorities_keep_their_order(values: set[int], found: dict[int, int]) -> None:
    assert scaled(values) == found


def test_many_priorities_stay_in_order() -> None:
    found = scaled(set(range(1000, 1090)))
    ordered = [found[value] for value in sorted(found)]
    assert ordered == sorted(ordered)
    assert (min(ordered), max(ordered), len(set(ordered))) == (1, 100, 90)


def test_a_local_queue_without_a_namespace_is_in_default() -> None:
    """Kueue's own examples name none: kubectl creates them in `default`."""
    queue = obj(KUEUE, "ClusterQueue", "q", {"namespaceSelector": {}})
    report = imported("kueue", queue, obj(KUEUE, "LocalQueue", "door", {"clusterQueue": "q"}))
    (expression,) = specs(report)["q"]["namespaceSelector"]["matchExpressions"]
    assert expression["values"] == ["default"]
    assert ("LocalQueue default/door", "metadata.namespace", "same") in outcomes(report)


def test_what_is_above_a_cohort_and_was_not_read_is_said() -> None:
    report = imported("kueue", obj(KUEUE, "Cohort", "team", {"parentName": "gone"}))
    (line,) = [one for one in report.lines if one.path == "spec.parentName"]
    assert "no Cohort gone was read" in line.here
    assert report.faults == []


def test_the_hierarchy_of_volcano_is_said_to_be_left_out() -> None:
    marked = obj(VOLCANO, "Queue", "q", metadata={"annotations": {"volcano.sh/hierarchy": "root/q"}})
    assert ("Queue q", "metadata.annotations[volcano.sh/hierarchy]", "none") in outcomes(imported("volcano", marked))
