"""Each outcome of a binding has its reaction."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from t9ksched.engine.planner import Assignment
from t9ksched.kube.write import binding as protocol
from t9ksched.kube.write.binding import Binding, Bound, Conflicted, Gone, Outcome, Refusal, Refused, Throttled, Unknown
from t9ksched.kube.write.dialects.hami import ALLOCATED, VGPU_NODE
from t9ksched.model.card_size import CardSize
from t9ksched.model.card_table import CardTable
from t9ksched.model.cards import CardGrant, CardPart, SharedCards
from t9ksched.model.podclass import PodClass
from t9ksched.scheduler.act import batching
from t9ksched.scheduler.act import executor as module
from t9ksched.scheduler.act.executor import Executor
from t9ksched.scheduler.state.change_feed import ChangeFeed
from t9ksched.scheduler.state.meters import Meters
from t9ksched.scheduler.state.progress import Progress
from t9ksched.scheduler.state.records import GangRecord, PodRecord
from t9ksched.scheduler.state.waiting_gangs import WaitingGangs
from tests.builders import divided_node

GPU = "nvidia.com/gpu"


class State:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.pods: dict[str, PodRecord] = {}
        self.refused: list[tuple[str, bool]] = []
        self.node_objects: dict[str, Any] = {}
        self.meters = Meters()
        self.progress = Progress(ChangeFeed(), WaitingGangs({}), self.meters)

    def refuse(self, uid: str, reason: Any, now: int, *, keep_place: bool) -> None:
        self.refused.append((uid, keep_place))
        self.pods[uid].assumed = ""


class HistoryRecorder:
    def __init__(self) -> None:
        self.told: list[str] = []

    def bound(self, gang: Any, record: Any, node: str, cards: Any, now: int) -> None:
        self.told.append(f"{record.name} on {node} {dict(cards)}")

    def waits(self, uid: str, reasons: Any, position: Any, now: int) -> None:
        self.told.append(f"{uid} waits: {reasons[0].code}: {reasons[0].message}")


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Outcome]:
    """What the server will answer, one by one; pauses are skipped."""
    script: list[Outcome] = []

    async def run(_: Any, binding: Binding, *, sent: bool = False) -> Outcome:
        return script.pop(0)

    async def resolve(_: Any, binding: Binding, *, sent: bool = False) -> Outcome | None:
        return script.pop(0)

    async def sleep(_: float) -> None:
        await yielding(0)

    yielding = asyncio.sleep
    monkeypatch.setattr(protocol, "run", run)
    monkeypatch.setattr(protocol, "resolve", resolve)
    monkeypatch.setattr(module.asyncio, "sleep", sleep)
    return script


async def carry_out(script: list[Outcome], outcomes: list[Outcome]) -> tuple[State, HistoryRecorder, Executor]:
    script.extend(outcomes)
    state, recorder = State(), HistoryRecorder()
    gang = GangRecord("ns", "g", "g")
    state.pods["p"] = PodRecord("p", "ns", "p", True, None, assumed="n1", gang=gang)
    woken: list[None] = []
    executor = Executor(None, state, recorder, lambda: 1, lambda: woken.append(None))  # type: ignore[arg-type]
    executor.submit([Assignment("g", "p", "n1", 1, (("main", "nvidia.com/gpu", (0, 3)),))])
    await asyncio.gather(*executor._tasks)
    assert bool(woken) == bool(state.refused), "a refusal wakes the loop"
    return state, recorder, executor


@pytest.mark.parametrize(
    ("outcomes", "refused"),
    [
        ([Bound()], []),
        ([Bound(found=True)], []),
        ([Gone()], [("p", False)]),
        ([Conflicted("bound", "m", "n2")], [("p", False)]),
        ([Conflicted("gated", "m")], [("p", False)]),
        ([Conflicted("terminating", "m")], [("p", False)]),
        ([Conflicted("unclear", "m")], [("p", True)]),
        ([Refused(Refusal(422, "Invalid", "m"))], [("p", False)]),
        ([Throttled(0.1, "m"), Bound()], []),
        ([Throttled(None, "m"), Throttled(None, "m"), Refused(Refusal(403, "Forbidden", "m"))], [("p", False)]),
        ([Unknown("m"), Bound(found=True)], []),
        ([Unknown("m"), Unknown("m"), Gone()], [("p", False)]),
    ],
)
async def test_reactions(answers: list[Outcome], outcomes: list[Outcome], refused: list[tuple[str, bool]]) -> None:
    state, recorder, executor = await carry_out(answers, outcomes)
    assert state.refused == refused
    why = "g waits: BindRefused: binding pod p was refused: "
    said = [why + f"{last.refusal.reason}: m"] if isinstance(last := outcomes[-1], Refused) else []
    assert recorder.told == (said if refused else ["p on n1 {'main': (0, 3)}"])
    assert executor.stats.bound == (0 if refused else 1)


async def test_a_volume_that_cannot_be_bound_is_the_reason_of_its_gang(answers: list[Outcome]) -> None:
    refusal = Refusal(0, "VolumeNotBound", "the volume claim 'data' got no volume for node n1")
    _, recorder, _ = await carry_out(answers, [Refused(refusal)])
    assert recorder.told == [f"g waits: VolumeNotBound: {refusal.message}"]


async def test_an_unknown_result_that_did_not_happen_is_sent_again(answers: list[Any]) -> None:
    _, recorder, executor = await carry_out(answers, [Unknown("m"), None, Bound()])  # type: ignore[list-item]
    assert recorder.told
    assert executor.stats.unknown == 1


async def test_the_number_in_flight_follows_the_server(answers: list[Outcome]) -> None:
    _, _, executor = await carry_out(answers, [Throttled(None, "m"), Bound()])
    assert executor._limit < module.START_IN_FLIGHT


@pytest.mark.parametrize(
    ("uuids", "outcome"), [("ba", Bound(found=True)), ("ab", Bound(found=True)), ("ac", Conflicted("bound", "", "n1"))]
)
async def test_a_pod_that_a_scheduler_before_bound_to_the_same_cards_is_bound(uuids: str, outcome: Outcome) -> None:
    """HAMi's cards had other indices when that one wrote them, so that they stand in another order."""
    state, node = State(), divided_node("n1", 2)
    sizes = {GPU: (CardSize(16_000, 10, 1000, "a"), CardSize(16_000, 10, 1000, "b"))}
    state.node_objects["n1"] = None, replace(node, layout="HAMi", cards=CardTable({GPU: 2}, divided=sizes))
    executor = Executor(None, state, HistoryRecorder(), lambda: 1, lambda: None)  # type: ignore[arg-type]
    grant = CardGrant.of_parts([CardPart(GPU, 0, 500, 9), CardPart(GPU, 1, 500, 9)])
    pod_class = PodClass(cards=(SharedCards("main", GPU, 2, "main", 500, 9),), containers=("main",))
    record = PodRecord("p", "ns", "p", True, pod_class, assumed="n1")
    binding = executor._binding(Assignment("g", "p", "n1", 1, (("main", GPU, (0, 1)),), grant), record)

    class Port:
        async def get(self, *_: Any) -> Any:
            said = "".join(f"{uuid},NVIDIA,9,50:" for uuid in uuids) + ";"
            notes = {VGPU_NODE: "n1", ALLOCATED: said}
            return {"metadata": {"uid": "p", "annotations": notes}, "spec": {"nodeName": "n1"}}

    assert await protocol.resolve(Port(), binding) == outcome  # type: ignore[arg-type]


def test_the_pace_follows_the_answers_while_many_are_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many in flight as there may be no new binding begins, and the pace is set anew all the same."""
    seen: list[float] = []

    async def run(_: Any, binding: Binding, *, sent: bool = False) -> Outcome:
        seen.append(asyncio.get_running_loop().pace)  # type: ignore[attr-defined]
        await asyncio.sleep(0.004)
        return Bound()

    monkeypatch.setattr(protocol, "run", run)

    async def main() -> None:
        state = State()
        gang = GangRecord("ns", "g", "g")
        names = [f"p{at}" for at in range(6 * module.MOST_IN_FLIGHT)]
        state.pods = {name: PodRecord(name, "ns", name, True, None, assumed="n1", gang=gang) for name in names}
        executor = Executor(None, state, HistoryRecorder(), lambda: 1, lambda: None)  # type: ignore[arg-type]
        executor._limit = module.MOST_IN_FLIGHT
        executor.submit([Assignment("g", name, "n1", 1) for name in names])
        while tasks := set(executor._tasks):
            await asyncio.wait(tasks)
        assert asyncio.get_running_loop().pace == 0  # type: ignore[attr-defined]

    batching.run(main())
    assert seen[0] == 0
    assert max(seen) > 0
