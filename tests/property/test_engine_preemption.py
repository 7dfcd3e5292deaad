"""What must always hold when room is taken from those who run (invariants 5 and 6), by an oracle of its own.

A cycle decides; the victims go; the next cycle decides with what was held. The oracle knows the rules of who may be a
victim by heart, and a preemptor that does not start once its victims are gone is a broken promise.
"""

import random
from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from t9ksched.engine.memory import Memory
from t9ksched.engine.nodes import NodeTable
from t9ksched.engine.planner import Plan, plan
from t9ksched.engine.policy import Policy, Preemption
from t9ksched.engine.view import QueueState, View, dump, load
from t9ksched.model.cards import CardGrant
from t9ksched.model.gang import Running, RunningPod
from t9ksched.model.node import NodeFacts
from t9ksched.model.podclass import PodClass
from tests.builders import GPU, gang, member, node, pod_class, queue, running
from tests.property.test_engine import NOW, RELAXED, check

SECOND = 10**9
LATER = NOW + 100 * SECOND
RULES = st.sampled_from(
    [
        Preemption(),
        Preemption(inside_queue=True),
        Preemption(minimum_run_seconds=50, most_evictions_a_day=2),
        Preemption(surplus_yields=False),
    ]
)
DICE = st.randoms(use_true_random=True)
SHAPES = [pod_class(gpu=1), pod_class(gpu=2), pod_class(gpu=4), pod_class(cpu=4), pod_class(cpu=2, ports=[80])]


def group(rng: random.Random, at: int, table: NodeTable) -> Running | None:
    """Pods where there is room for them, charged on the table."""
    of = rng.choice(SHAPES)
    pods: list[RunningPod] = []
    for nth in range(rng.choice([1, 1, 2, 3, 4])):
        name = rng.choice(table.names)
        free = {**table.facts(name).allocatable}
        for resource, units in table.used(name).items():
            free[resource] = free.get(resource, 0) - units
        if any(units > free.get(resource, 0) for resource, units in of.requests) or of.host_ports:
            continue
        chosen: dict[str, list[int]] = {}
        for resource, count in of.card_counts.items():
            idle = [
                i
                for i in range(table.facts(name).cards.counts[resource])
                if not table.cards_used(name).has(resource, i)
            ]
            chosen[resource] = rng.sample(idle, count)
        cards = CardGrant.of(chosen)
        table.charge(table.row(name), of, cards)
        role = rng.choice(["", "worker"])
        leaving = rng.random() < 0.05
        pods.append(RunningPod(f"r{at}-{nth}", f"test/r{at}-{nth}", role, of, name, cards, leaving))
    if not pods:
        return None
    return structs.replace(
        running(f"r{at}", rng.choice(["low", "mid", "peer", "safe", "high"]), of=of),
        pods=tuple(pods),
        min_member=rng.randint(1, len(pods)),
        roles=rng.choice([(), (("worker", 1),), (("worker", 2),)]),
        priority=rng.randrange(3),
        created=rng.randrange(4),
        started=LATER - rng.choice([10, 30, 90]) * SECOND,
        evictions=rng.randrange(4),
        guarded=rng.random() < 0.1,
    )


def facts(rng: random.Random, name: str) -> NodeFacts:
    gpu = rng.choice([0, 4, 8])
    broken = {GPU: 1} if gpu and rng.random() < 0.1 else {}
    return node(name, cpu=rng.choice([8, 16]), gpu=gpu, ready=rng.random() > 0.05, unusable=broken)


@st.composite
def worlds(draw: st.DrawFn) -> View:
    """Crowded clusters with a few who wait."""
    rng = draw(DICE)
    table = NodeTable()
    for at in range(rng.randint(1, draw(st.sampled_from([6, 3])))):
        table.upsert(facts(rng, f"n{at}"))
    groups = [one for at in range(draw(st.integers(1, 14))) if (one := group(rng, at, table)) is not None]
    used: dict[str, Counter[str]] = {name: Counter() for name in ("low", "mid", "peer", "safe", "high")}
    for one in groups:
        for pod in one.pods:
            used[one.queue].update(dict(pod.pod_class.requests))

    def state(name: str, priority: int, preemptible: bool = True) -> QueueState:
        quota = {GPU: used[name][GPU] + rng.choice([0, 2, 8])} if rng.random() < 0.3 else {}
        return queue(priority=priority, preemptible=preemptible, quota=quota, used=used[name])

    queues = {
        "low": state("low", 0),
        "mid": state("mid", 1),
        "peer": state("peer", 1),
        "safe": state("safe", 0, preemptible=False),
        "high": state("high", 5),
    }
    asked = []
    for at in range(draw(st.integers(1, 4))):
        shapes: list[PodClass] = rng.choices(SHAPES, k=rng.choice([1, 1, 2]))
        members = [member(f"w{at}-{nth}", rng.choice(shapes)) for nth in range(rng.randint(1, 5))]
        minimum = rng.choice([None, None, 1])
        asked.append(
            gang(f"w{at}", rng.choice(["mid", "high", "low"]), members=members, min_member=minimum, priority=1)
        )
    return View(table.freeze(), queues, tuple(asked), running=tuple(groups))


def may(view: View, by: str, victim: Running, rules: Preemption) -> bool:
    """By the letter of the policy."""
    preemptor = next(one for one in view.gangs if one.uid == by)
    spec, theirs = view.queues[preemptor.queue].spec, view.queues[victim.queue].spec
    if not theirs.preemptible or LATER - victim.started < rules.minimum_run_seconds * SECOND:
        return False
    if rules.most_evictions_a_day and victim.evictions >= rules.most_evictions_a_day:
        return False
    inside = rules.inside_queue and victim.queue == preemptor.queue and victim.priority < preemptor.priority
    return theirs.priority < spec.priority or inside


def check_victims(view: View, found: Plan, rules: Preemption) -> None:
    """Everybody who goes may go; gangs go whole or keep their minimum, their roles and their first member."""
    groups = {one.uid: one for one in view.running}
    assert len({one.pod for one in found.evictions}) == len(found.evictions), "no pod is evicted twice"
    started = {one.gang for one in found.assignments}
    for uid in {one.gang for one in found.evictions}:
        group = groups[uid]
        mine = [one for one in found.evictions if one.gang == uid]
        here = [pod for pod in group.pods if not pod.leaving]
        left = [pod for pod in here if pod.uid not in {one.pod for one in mine}]
        assert {one.pod for one in mine} <= {pod.uid for pod in here}
        for one in mine:
            assert one.by not in started, "a gang that starts evicts no other"
            preemptor = next(g for g in view.gangs if g.uid == one.by)
            if not may(view, one.by, group, rules):
                assert rules.surplus_yields, "only who may be a victim goes"
                assert preemptor.queue == group.queue
                assert view.queues[group.queue].spec.preemptible
                assert left, "only surplus yields inside a queue"
        if left:
            roles, before = Counter(pod.role for pod in left), Counter(pod.role for pod in here)
            assert len(left) >= group.min_member
            assert all(roles[role] >= min(minimum, before[role]) for role, minimum in group.roles)
            if not group.pods[0].leaving:
                assert group.pods[0] in left, "never the first member"


def without(view: View, found: Plan) -> View:
    """The same moment with the victims, and those who were leaving anyway, gone."""
    table = NodeTable()
    for facts_of in view.nodes.static.facts:
        table.upsert(facts_of)
    going = {one.pod for one in found.evictions}
    groups = []
    used: dict[str, Counter[str]] = {name: Counter(state.used) for name, state in view.queues.items()}
    for one in view.running:
        stays = []
        for pod in one.pods:
            if pod.uid in going or pod.leaving:
                used[one.queue].subtract(dict(pod.pod_class.requests))
            else:
                table.charge(table.row(pod.node), pod.pod_class, pod.cards)
                stays.append(pod)
        if stays:
            groups.append(structs.replace(one, pods=tuple(stays)))
    queues = {name: replace(state, used=dict(used[name])) for name, state in view.queues.items()}
    frozen = table.freeze()
    static = structs.replace(frozen.static, generation=view.nodes.static.generation)
    return View(structs.replace(frozen, static=static), queues, view.gangs, found.reservations, tuple(groups))


@given(worlds(), RULES)
@RELAXED
def test_victims_may_be_victims_and_their_room_is_enough(view: View, rules: Preemption) -> None:
    policy = Policy(actions=("allocate", "preempt"), preemption=rules)
    found = plan(view, policy, LATER)
    check(view, found)
    check_victims(view, found, rules)
    assert {one.by for one in found.evictions} == {hold.owner for hold in found.reservations}
    if not found.evictions:
        return
    started = {one.gang for one in found.assignments}
    after = without(view, found)
    # Those who started in the same cycle hold their places now.
    table_view = replace(after, gangs=tuple(one for one in after.gangs if one.uid not in started))
    if not started:
        then = plan(table_view, policy, LATER + 1)
        check(table_view, then)
        assert {hold.owner for hold in found.reservations} <= {one.gang for one in then.assignments}
        assert not [one for one in then.evictions if one.by in {hold.owner for hold in found.reservations}]
    waiting = replace(view, reservations=found.reservations)
    again = plan(waiting, policy, LATER + 1)
    assert not {one.by for one in again.evictions} & {one.by for one in found.evictions}, "one preemption a preemptor"


@given(worlds(), RULES, st.integers(1, 3))
@RELAXED
def test_preemption_repeats_to_the_byte(view: View, rules: Preemption, step: int) -> None:
    policy = Policy(actions=("allocate", "preempt"), preemption=rules)
    memory = Memory()
    whole = plan(view, policy, LATER, memory)
    shuffled = replace(view, running=tuple(reversed(view.running)))
    assert plan(shuffled, policy, LATER, memory).to_bytes() == whole.to_bytes()
    assert plan(load(dump(view)), policy, LATER).to_bytes() == whole.to_bytes()


@given(worlds(), RULES)
@RELAXED
def test_time_alone_helps_nobody_before_the_moment_that_the_plan_names(view: View, rules: Preemption) -> None:
    """So that a plan need not be made again until then, and with what is remembered it is made anew at that moment."""
    policy = Policy(actions=("allocate", "preempt"), preemption=rules)
    memory, now = Memory(), LATER
    found = plan(view, policy, now, memory)
    for _ in range(3):
        later = plan(view, policy, now + 1000 * SECOND if found.again is None else found.again - 1, memory)
        assert (later.assignments, later.waiting, later.evictions, later.again) == (
            found.assignments,
            found.waiting,
            found.evictions,
            found.again,
        )
        if found.again is None:
            assert not rules.minimum_run_seconds or all(
                now - one.started >= rules.minimum_run_seconds * SECOND
                for one in view.running
                if any(may(view, gang.gang, structs.replace(one, started=0), rules) for gang in found.waiting)
            ), "nobody who may go later"
            return
        assert found.again > now
        now = found.again
        found = plan(view, policy, now, memory)
        assert found.to_bytes() == plan(view, policy, now).to_bytes()
