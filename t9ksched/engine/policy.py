"""The scheduling policy as a value: which actions run, what orders queues, how nodes are scored.

Defaults are the values that the product's documentation recommends for `scheduler.conf`.
"""

from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from t9ksched.engine.plugins import PluginUse
from t9ksched.model.podclass import PodClass

Strategy = Literal["MostAllocated", "LeastAllocated"]
PlanningMode = Literal["Conservative", "EASY"]
PackingRule = Literal["usable", "fragmentation", "best-fit", "spread"]
CARDLESS_WEIGHT: Final = 5
"""More than binpack's default weight of 1, less than the 10 of what a pod itself prefers."""


@dataclass(frozen=True, slots=True)
class Binpack:
    """How nodes are ranked by what is allocated on them.

    Attributes:
        strategy: MostAllocated keeps whole nodes free for large jobs, LeastAllocated spreads load.
        weight: of this plugin in a node's total, 0 to 10.
        resources: weight by resource, 0 to 10; cpu and memory count with weight 1 when not named.
    """

    strategy: Strategy = "MostAllocated"
    weight: int = 1
    resources: tuple[tuple[str, int], ...] = (
        ("cpu", 2),
        ("memory", 1),
        ("nvidia.com/gpu", 5),
        ("nvidia.com/gpu.shared", 5),
    )

    def weights(self) -> dict[str, int]:
        """Weight by resource with cpu and memory always in."""
        return {"cpu": 1, "memory": 1} | dict(self.resources)


@dataclass(frozen=True, slots=True)
class Preemption:
    """Which gangs may be evicted for a waiting one, beyond the rule that its queue must have the larger priority.

    Attributes:
        minimum_run_seconds: a job that was placed less than this ago is no victim; 0 sets no limit.
        most_evictions_a_day: a job evicted so often in 24 hours is no victim; 0 sets no limit.
        inside_queue: a gang may also take from gangs of its own queue with a smaller PodGroup priority.
        surplus_yields: members above a gang's minimum yield to a waiting minimum of their own queue.
        max_grace_seconds: longest time a victim gets to end; its own grace period counts when it is shorter.
    """

    minimum_run_seconds: int = 0
    most_evictions_a_day: int = 0
    inside_queue: bool = False
    surplus_yields: bool = True
    max_grace_seconds: int = 600


class Planning(msgspec.Struct, frozen=True):
    """How far ahead starts are planned for gangs that wait.

    Attributes:
        mode: which plans a gang behind may not delay: `Conservative` all of them, `EASY` that of the first gang of each
            queue, which alone gets one. (The names are those of Mu'alem and Feitelson, 2001.)
        gangs, per_queue, per_user: how many gangs have a plan at most, in the order in which they are judged.
        horizon_seconds: no start is planned later than that.
        resolution_seconds: an end that is overdue is expected so much later.
    """

    mode: PlanningMode = "Conservative"
    gangs: int = 100
    per_queue: int = 10
    per_user: int = 3
    horizon_seconds: int = 14 * 86_400
    resolution_seconds: int = 60


@dataclass(frozen=True, slots=True)
class Starvation:
    """When gangs that have no planned start collect the room that comes free.

    Attributes:
        after_seconds: how long a gang waits before it does.
        most_held_percent: how much of what a queue may use its gangs hold so, besides the oldest of them.
    """

    after_seconds: int = 1800
    most_held_percent: int = 20


class Packing(msgspec.Struct, frozen=True):
    """How nodes are ranked by their cards (`engine.placement.packing`).

    Attributes:
        rule: `usable` and `fragmentation` (FGD) by what usual pods could still use of them, `best-fit` and `spread` by
            how much of cpu and cards is allocated.
        shapes: the usual pods and how often each is asked for; where there are none, those of `View.usual`.
        weight: of this ranking in a node's total, 0 to 10.
    """

    rule: PackingRule = "usable"
    shapes: tuple[tuple[PodClass, int], ...] = ()
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Policy:
    """What a cycle follows.

    Attributes:
        actions: `allocate` places pods; `preempt` lets gangs of higher queues take room from lower ones.
        queue_order: comparators of queues, first asked first: `basic` (larger priority), `resource` (smaller dominant
            share), and names of plugins that order queues.
        gang_order: the same for gangs of one queue: `basic` (larger priority), and names of plugins that order gangs.
        affinity_weight: of all preferences of a pod together in a node's total.
        cardless_weight: how strongly pods that ask for no accelerators are kept off nodes that have some; 0: not.
        binpack: None when the plugin is off; nodes then tie and the first by name is taken.
        preemption: the rules of `preempt`.
        plugins: plugins of installed packages, in the order in which they are listed.
        start_timeout_seconds: a gang whose minimum does not run so long after it was bound is evicted; 0: never.
        planning: None while no starts are planned.
        starvation: None where no gang collects room.
        packing: None where cards are not looked at one by one.
        model_weight: how strongly pods that any model of cards will do for are kept off large and scarce ones; 0: not.
    """

    actions: tuple[str, ...] = ("allocate",)
    queue_order: tuple[str, ...] = ("basic", "resource")
    affinity_weight: int = 10
    binpack: Binpack | None = Binpack()
    preemption: Preemption = Preemption()
    gang_order: tuple[str, ...] = ("basic",)
    plugins: tuple[PluginUse, ...] = ()
    cardless_weight: int = CARDLESS_WEIGHT
    start_timeout_seconds: int = 900
    planning: Planning | None = None
    starvation: Starvation | None = Starvation()
    packing: Packing | None = None
    model_weight: int = 0
