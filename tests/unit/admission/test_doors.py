"""One rule, two doors: the same pod is submitted by REST and created past it, and both say the same.

Every row is a rule of admission. REST refuses the submission with a code, a message and a remedy; the scheduler gives
the pod that a user created with kubectl the same three as the reason for which it does not start.
"""

import copy
import re
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from t9ksched.admission.access import parse_members
from t9ksched.admission.judge import PHASES
from t9ksched.api.allowances import Limits
from t9ksched.api.http.problems import PUBLISHED
from t9ksched.engine.planner import plan
from t9ksched.engine.scheduler_conf import Policy
from t9ksched.kube.resources import PODGROUPS
from t9ksched.model.names import (
    GPU_MODE_ANNOTATION,
    GPU_MODEL_PREFIX,
    START_AFTER_ANNOTATION,
    TIME_LIMIT_ANNOTATION,
)
from t9ksched.model.pod import decode_pod
from t9ksched.model.queue import Queue, parse_queue_spec
from t9ksched.model.reasons import Reason
from t9ksched.scheduler.observe.informers import decoder
from t9ksched.scheduler.state.admission_gate import NAMING_NS
from t9ksched.scheduler.state.objects import PodGroupObject
from t9ksched.scheduler.state.refusals import CODES
from t9ksched.scheduler.state.state import ClusterState
from t9ksched.scheduler.state.waitinglimits import WaitingLimits
from t9ksched.store.acceptances import Acceptance
from tests.builders import GPU
from tests.unit.api.world import World, pod, pod_group
from tests.unit.scheduler.state.test_state import NOW, decide, node

Json = dict[str, Any]
WORKLOADS, SPACE, EVERYONE = "/apis/v1/workloads", "default", {"everyone": True}


class Told(NamedTuple):
    """What a user is told."""

    code: str
    message: str
    remedy: str


@dataclass(frozen=True)
class Case:
    """A rule, the queue `q`, and what is asked of it.

    Attributes:
        rule: its name in the table of phases.
        code: of the verdict.
        says: part of the message.
        spec: of the queue; the pod names the queue `asks`.
        pod: fields of the pod's spec that differ from a sound pod's, `container` fields of its container.
        held: cards that pods of the queue hold already.
    """

    rule: str
    code: str
    says: str
    spec: Json = field(default_factory=dict)
    asks: str = "q"
    pod: Json = field(default_factory=dict)
    container: Json = field(default_factory=dict)
    draining: bool = False
    held: int = 0
    annotations: dict[str, str] = field(default_factory=dict)

    @property
    def object(self) -> Json:
        made = pod("p", queue=self.asks)
        made["spec"] |= self.pod
        made["spec"]["containers"][0] |= self.container
        made["metadata"] |= {"annotations": self.annotations} if self.annotations else {}
        return made


def quota(over: str = "Wait", **amounts: str) -> Json:
    return {
        "overQuota": over,
        "quota": {"requests": {name.replace("gpu", GPU): text for name, text in amounts.items()}},
    }


def asks(**resources: Any) -> Json:
    return {"resources": {"requests": resources, "limits": resources}}


CASES = [
    Case("claims_supported", "UnsupportedClaim", "resource claims", pod={"resourceClaims": [{"name": "gpu"}]}),
    Case(
        "claims_supported",
        "UnsupportedClaim",
        "is a DeviceClass",
        container=asks(**{"deviceclass.resource.kubernetes.io/gpu.nvidia.com": "1"}),
    ),
    Case(
        "card_shares_supported",
        "UnsupportedClaim",
        "aliyun.com/gpu-core.percentage",
        container=asks(**{"aliyun.com/gpu-core.percentage": "50"}),
    ),
    Case(
        "card_parts_meaningful",
        "InvalidField",
        "needs vke.volcengine.com/mgpu-core beside it",
        container=asks(**{"vke.volcengine.com/mgpu-memory": "4096"}),
    ),
    Case(
        "card_parts_meaningful",
        "InvalidField",
        "metadata.annotations[scheduler.tensorstack.dev/gpu-memory]: 'much' is no quantity",
        annotations={"scheduler.tensorstack.dev/gpu-memory": "much"},
        container=asks(**{GPU: "1"}),
    ),
    Case(
        "card_parts_meaningful",
        "InvalidField",
        "at least 256 MiB, this has 100",
        container=asks(**{"vke.volcengine.com/mgpu-core": "30", "vke.volcengine.com/mgpu-memory": "100"}),
    ),
    Case(
        "cards_chosen_well",
        "InvalidField",
        "metadata.annotations[vke.volcengine.com/mgpu-compute-policy]: 'half' is none of fixed-share, guaranteed-",
        annotations={"vke.volcengine.com/mgpu-compute-policy": "half"},
    ),
    Case("card_names_fit", "InvalidField", "44 characters", container={"name": "c" * 44}),
    Case(
        "cards_chosen_well",
        "InvalidField",
        f"metadata.annotations[{GPU_MODE_ANNOTATION}]: 'half' is none of whole, slice, shared, any",
        annotations={GPU_MODE_ANNOTATION: "half"},
    ),
    Case(
        "cards_chosen_well",
        "InvalidField",
        f"metadata.annotations[{GPU_MODEL_PREFIX}nobody]: there is no container 'nobody'",
        annotations={f"{GPU_MODEL_PREFIX}nobody": "A100"},
    ),
    Case("requests_declared", "InvalidField", "quota of cpu", quota(cpu="9"), container={"resources": {}}),
    Case("requests_declared", "InvalidField", "(and 1 more)", quota(cpu="9", memory="9Gi"), container=asks()),
    Case("within_quota", "OverQuota", "the whole quota is 0", quota(gpu="0")),
    Case("within_quota", "OverQuota", "is 3", quota(gpu="3", cpu="9"), container=asks(cpu="1", **{GPU: "4"})),
    Case("within_quota", "OverQuota", "left of its quota", quota("Reject", gpu="4"), held=4),
    Case("queue_open", "QueueClosed", "is closed", {"closed": True}),
    Case("queue_open", "QueueClosed", "is draining", {"closed": True}, draining=True),
    Case("queue_exists", "QueueNotFound", "'r' does not exist", asks="r"),
]


_DIFFER = (
    (
        re.compile(r"what was left of its quota when it was judged at [\d:]{8} UTC was"),
        "what is left of its quota now is",
    ),
    (re.compile(r"(does not exist): .*"), r"\1"),
)
"""What one door alone can say: when a refusal that stands was made, and which queues the submitter may use."""


def plain(told: Told) -> Told:
    message = told.message
    for pattern, text in _DIFFER:
        message = pattern.sub(text, message)
    return told._replace(message=message)


async def submitted(world: World, obj: Json) -> Told:
    """What REST answers to the pod."""
    answer = await world.user("POST", f"{WORKLOADS}?namespace={SPACE}", obj)
    assert answer.status >= 400, answer.body
    return Told(answer.body["code"], answer.body["detail"], answer.body.get("remedy", ""))


def past_rest(state: ClusterState, obj: Json) -> None:
    """The same pod, created with kubectl."""
    obj = copy.deepcopy(obj)
    name = obj["metadata"]["name"]
    meta = {"namespace": SPACE, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    obj["metadata"] = meta | obj["metadata"]
    state.upsert_pod(decode_pod(obj | {"status": {"phase": "Pending"}}))


def reasons(state: ClusterState, uid: str) -> tuple[Reason, ...]:
    """Why the group waits, as the state or the engine says."""
    gang = state.gangs_by_uid[uid]
    waiting = plan(state.view(NOW + NAMING_NS), Policy(), NOW + NAMING_NS).waiting
    return tuple(gang.reasons) or tuple(reason for one in waiting if one.gang == uid for reason in one.reasons)


def told_by(reason: Reason, name: str) -> Told:
    (remedy, *_) = reason.unblocks or ("",)
    return Told(str(reason.code), reason.message.removeprefix(f"pod {name}: "), remedy)


def created(state: ClusterState, obj: Json) -> Told:
    """What the scheduler says of the pod."""
    past_rest(state, obj)
    decide(state)
    (reason,) = reasons(state, obj["metadata"]["name"])
    return told_by(reason, obj["metadata"]["name"])


def with_queue(case: Case, members: Json) -> ClusterState:
    state = ClusterState()
    state.set_queues([Queue("q", parse_queue_spec(case.spec), draining=case.draining)])
    state.permit({"q": parse_members(members)})
    state.upsert_node(node())
    if case.held:
        past_rest(state, pod("held", queue="q", gpus=case.held))
        decide(state)
    return state


async def both(world: World, case: Case, members: Json = EVERYONE) -> ClusterState:
    """The queue of the case at both doors; what is returned is the scheduler's."""
    spec = {**case.spec, "closed": False} if case.draining else case.spec
    await world.store.queues.create("q", {}, spec, members)
    if case.draining:
        await world.admin("POST", "/apis/v1/admin/queues/q/actions/drain")
    world.leader.queue_status = {"q": {"allocated": {GPU: str(case.held)}}}
    return with_queue(case, members)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.says}")
async def test_both_doors_say_the_same(world: World, case: Case) -> None:
    state = await both(world, case)
    rest, gate = await submitted(world, case.object), created(state, case.object)
    assert world.kube.objects == {}
    assert gate.code == case.code
    assert rest.code == PUBLISHED.get(case.code, case.code)
    assert case.says in gate.message
    assert plain(rest).message == plain(gate).message
    if case.rule not in ("queue_exists", "card_names_fit"):  # read before there is a remedy; told by the engine
        assert rest.remedy == gate.remedy


async def test_a_sound_pod_passes_both_doors(world: World) -> None:
    case = Case("", "", "", quota("Reject", gpu="4", cpu="9"))
    state = await both(world, case)
    assert (await world.user("POST", WORKLOADS, case.object)).status == 201
    past_rest(state, case.object)
    assert [one.pod for one in decide(state)] == ["p"]


def recorded(state: ClusterState, uid: str, submitter: str = "ann") -> None:
    """A job of that submitter, whose pods are to be judged."""
    state.accept(Acceptance(uid=uid, kind="Job", namespace=SPACE, name=uid, submitter=submitter))


def owned(obj: Json, uid: str) -> Json:
    """The object, made by the controller of the job."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": uid, "uid": uid, "controller": True}
    return obj | {"metadata": obj["metadata"] | {"ownerReferences": [owner]}}


def group_past_rest(state: ClusterState, obj: Json) -> None:
    obj = obj | {"metadata": obj["metadata"] | {"namespace": SPACE, "uid": f"group-{obj['metadata']['name']}"}}
    state.upsert_group(decoder(PodGroupObject)(obj))


@pytest.mark.parametrize(
    ("limits", "whose"),
    [
        ((Limits(queued=1), WaitingLimits(per_queue=1)), "in the queue 'q'"),
        ((Limits(waiting=1), WaitingLimits(per_user=1)), "of 'ann'"),
        ((Limits(waiting=1, queued=1), WaitingLimits(1, 1)), "of 'ann'"),
    ],
    ids=["queue", "user", "both"],
)
async def test_no_more_jobs_wait_than_may(world: World, limits: tuple[Limits, WaitingLimits], whose: str) -> None:
    state = await both(world, Case("jobs_may_wait", "RateLimited", ""))
    world.app.state.services = replace(world.app.state.services, limits=limits[0])
    state.waiting_jobs.limits = limits[1]
    for name in ("job-a", "job-b"):
        recorded(state, name)
    assert (await world.user("POST", WORKLOADS, pod("a", queue="q", gpus=9))).status == 201
    past_rest(state, owned(pod("a", queue="q", gpus=9), "job-a"))
    state.view(NOW)
    rest = await submitted(world, pod("b", queue="q", gpus=9))
    gate = created(state, owned(pod("b", queue="q", gpus=9), "job-b"))
    message = f"1 jobs {whose} wait already, and at most 1 may wait"
    assert rest == gate == Told("RateLimited", message, "wait until some have started, or cancel some")


async def test_who_may_not_use_the_queue(world: World) -> None:
    state = await both(world, Case("queue_permitted", "QueueNotPermitted", ""), {"users": ["bob"]})
    recorded(state, "job")
    asked = pod("p", queue="q")
    rest, gate = await submitted(world, asked), created(state, owned(asked, "job"))
    assert rest == gate
    assert (rest.code, rest.message.split(":")[0]) == (
        "QueueNotPermitted",
        "the user 'ann' may not use the queue 'q'",
    )
    unknown = created(state, pod("by-hand", queue="q"))
    assert unknown.code == "SubmitterUnknown", "REST knows every submitter"


async def test_what_is_too_much_is_refused_or_reduced(world: World) -> None:
    """REST refuses; what is there already gets as much as it may have."""
    case = Case("priority_permitted", "PriorityAboveMaximum", "", {"maxDuration": "1h"})
    state = await both(world, case, {"everyone": True, "maxPriority": 7})
    group = pod_group("g", queue="q", minimum=1)
    group["spec"]["priority"] = 90
    rest = await submitted(world, group)
    assert (rest.code, rest.message) == (
        case.code,
        "the priority 90 is above 7, the highest you may ask for in queue 'q'",
    )
    group["spec"]["priority"] = 7
    group["metadata"]["annotations"] = {TIME_LIMIT_ANNOTATION: "5h"}
    rest = await submitted(world, group)
    assert (rest.code, "'5h' is too long: queue 'q' lets jobs run for 1h" in rest.message) == ("InvalidField", True)
    group["spec"]["priority"] = 90
    group_past_rest(state, group)
    past_rest(state, pod("p", group="g"))
    assert [one.pod for one in decide(state)] == ["p"]
    accepted = state.acceptances["group-g"]
    assert (accepted.priority, accepted.time_limit) == (7, timedelta(hours=1))


@pytest.mark.parametrize(
    ("annotation", "text"), [(TIME_LIMIT_ANNOTATION, "soon"), (START_AFTER_ANNOTATION, "tomorrow")]
)
async def test_times_that_cannot_be_read_are_refused_or_ignored(world: World, annotation: str, text: str) -> None:
    state = await both(world, Case("start_time_readable", "InvalidField", ""))
    asked = pod("p", queue="q")
    asked["metadata"]["annotations"] = {annotation: text}
    rest = await submitted(world, asked)
    assert (rest.code, f"metadata.annotations[{annotation}]: {text!r} is not a" in rest.message) == (
        "InvalidField",
        True,
    )
    past_rest(state, asked)
    assert [one.pod for one in decide(state)] == ["p"]


async def test_a_pod_joins_a_group_that_it_may_join(world: World) -> None:
    state = await both(world, Case("group_joinable", "Forbidden", ""), {"users": ["bob"]})
    theirs, by_hand = pod_group("theirs", queue="q"), pod_group("by-hand", queue="q")
    for obj in (owned(theirs, "of-bob"), by_hand):
        obj["metadata"]["namespace"] = SPACE
        await world.kube.create(PODGROUPS, obj, SPACE)
        group_past_rest(state, obj)
    recorded(state, "of-bob", "bob")
    recorded(state, "of-ann")
    recorded(state, "group-by-hand", "bob")
    for group, code, says in (
        ("theirs", "Forbidden", "that is the group of Job/of-bob"),
        ("by-hand", "QueueNotPermitted", "the user 'ann' may not use the queue 'q'"),
    ):
        rest = await submitted(world, pod(group[0], group=group))
        past_rest(state, owned(pod(group[0], group=group), "of-ann"))
        decide(state)
        state.view(NOW + NAMING_NS)
        (reason,) = reasons(state, group[0])
        gate = told_by(reason, group[0])
        assert rest.message.startswith(f"it names the PodGroup {SPACE}/{group} and may not join it: {says}")
        assert (rest.message, rest.remedy) == (gate.message, gate.remedy)
        assert (rest.code, reason.code) == (code, CODES[code])


@pytest.mark.parametrize(("space", "node", "code"), [("kube-system", "", "Forbidden"), (SPACE, "n1", "InvalidField")])
async def test_rest_refuses_what_the_scheduler_leaves_alone(world: World, space: str, node: str, code: str) -> None:
    """It creates objects by its own rights; the scheduler does not refuse what the cluster let a user create."""
    state = await both(world, Case("namespace_for_users", code, ""))
    asked = pod("p", queue="q")
    asked["metadata"]["namespace"] = space
    asked["spec"] |= {"nodeName": node} if node else {}
    assert (await submitted(world, asked)).code == code
    past_rest(state, asked)
    assert bool(decide(state)) is not bool(node), "a pod on a node bypasses the scheduler, which counts it to no queue"
    assert ("p" in state.gangs_by_uid) is not bool(node)


@pytest.mark.parametrize(("turns", "refused"), [("1", False), ("2", True), ("2k", True)])
async def test_rest_refuses_more_than_one_turn_on_a_card_and_the_scheduler_takes_them(
    world: World, turns: str, refused: bool
) -> None:
    state, shared = await both(world, Case("shared_cards_one_each", "InvalidField", "")), "nvidia.com/gpu.shared"
    asked = pod("p", queue="q")
    asked["spec"]["containers"][0]["resources"] = {"limits": {shared: turns}}
    answer = await world.user("POST", f"{WORKLOADS}?namespace={SPACE}", asked)
    assert (answer.status == 422) is refused
    if refused:
        assert answer.body["errors"][0]["path"] == f"spec.containers[0].resources.limits[{shared}]"
        assert "a container has at most 1" in answer.body["errors"][0]["message"]
    past_rest(state, asked)
    assert "p" in state.gangs_by_uid


def test_every_rule_has_a_row() -> None:
    """Rules about annotations are in `test_rules.py`: the scheduler tells their faults as warnings."""
    elsewhere = {"jobs_could_wait", "time_limit_allowed", "signal_readable", "start_time_readable", "node_left_open"}
    elsewhere |= {"dependencies_readable", "array_readable"}
    elsewhere |= {"shared_cards_one_each"}
    rows = {case.rule for case in CASES} | elsewhere
    rows |= {"jobs_may_wait", "queue_permitted", "priority_permitted", "group_joinable", "namespace_for_users"}
    assert {rule.__name__ for phase in PHASES for rule in phase} == rows
