"""Each answer to a binding has one outcome, and an open result is read, never guessed."""

from __future__ import annotations

from typing import Any

import pytest

from t9ksched.kube import errors
from t9ksched.kube.errors import ApiError, Conflict, NotFound, ServerError, TimedOut, Unreachable
from t9ksched.kube.write.binding import (
    AgentAnswer,
    Binding,
    Bound,
    Busy,
    Conflicted,
    Direct,
    Gone,
    Outcome,
    Protocol,
    Refused,
    Throttled,
    Unknown,
    resolve,
    run,
)

INDEX = "scheduler.tensorstack.dev/gpu-index-container-"
ANNOTATIONS = {INDEX + "main": "0,3", "x/y": "z"}
BINDING = Binding("ns", "p", "u1", "n1", cards={"main": (0, 3)}, annotations=ANNOTATIONS)


def pod(node: str = "", uid: str = "u1", annotations: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "ns", "uid": uid, "annotations": annotations}
    if more.pop("terminating", False):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"  # type: ignore[assignment]
    return {"metadata": metadata, "spec": {"nodeName": node} | more}


class FakePort:
    """Answers bindings and reads in turn; the last answer repeats. An exception is raised."""

    def __init__(self, binds: list[Any], reads: list[Any] | None = None) -> None:
        self.binds, self.reads = binds, reads or []
        self.calls: list[str] = []
        self.sent: list[dict[str, Any]] = []

    @staticmethod
    def _next(script: list[Any]) -> Any:
        answer = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def bind(self, namespace: str, name: str, binding: dict[str, Any]) -> None:
        self.calls.append("bind")
        self.sent.append(binding)
        self._next(self.binds)

    async def get(self, *_: Any) -> Any:
        self.calls.append("get")
        return self._next(self.reads)


async def test_one_call_carries_node_uid_and_cards() -> None:
    port = FakePort([None])
    assert await run(port, BINDING) == Bound()  # type: ignore[arg-type]
    assert port.calls == ["bind"]
    assert port.sent == [
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "p", "namespace": "ns", "uid": "u1", "annotations": ANNOTATIONS},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
        }
    ]


CONFLICT = Conflict(409, "Conflict", "no")
LOST = TimedOut("no answer")
BROKEN = Unreachable("reset", sent=True)
HERE = pod("n1", annotations={**ANNOTATIONS, "other": "1"})
EDITED = pod("n1", annotations={**ANNOTATIONS, INDEX + "main": "6,7"})


@pytest.mark.parametrize(
    ("binds", "reads", "expected", "calls"),
    [
        # Answers that are plain.
        ([NotFound(404, "NotFound")], [], Gone(), "bind"),
        ([errors.TooManyRequests(429, retry_after=2.0)], [], Throttled(2.0, "429"), "bind"),
        ([ServerError(503, "Busy", retry_after=1.0)], [], Throttled(1.0, "503 Busy"), "bind"),
        ([Unreachable("no route")], [], Throttled(None, "Unreachable: no route"), "bind"),
        # A conflict says why only by reading.
        ([CONFLICT], [HERE], Bound(found=True), "bind get"),
        ([CONFLICT], [pod("n2")], Conflicted("bound", "409 Conflict: no", "n2"), "bind get"),
        ([CONFLICT], [pod("n1")], Conflicted("bound", "409 Conflict: no", "n1"), "bind get"),
        (
            [CONFLICT],
            [pod("n1", annotations={**ANNOTATIONS, INDEX + "main": "1,2"})],
            Conflicted("bound", "409 Conflict: no", "n1"),
            "bind get",
        ),
        ([CONFLICT], [pod(uid="u2")], Gone(replaced=True), "bind get"),
        ([CONFLICT], [pod("n1", uid="u2", annotations=ANNOTATIONS)], Gone(replaced=True), "bind get"),
        ([CONFLICT], [NotFound(404)], Gone(), "bind get"),
        ([CONFLICT], [pod(terminating=True)], Conflicted("terminating", "409 Conflict: no"), "bind get"),
        (
            [CONFLICT],
            [pod(schedulingGates=[{"name": "g"}])],
            Conflicted("gated", "409 Conflict: no"),
            "bind get",
        ),
        ([CONFLICT], [pod()], Conflicted("unclear", "409 Conflict: no"), "bind get"),
        # An open result.
        ([LOST], [HERE], Bound(found=True), "bind get"),
        ([BROKEN], [HERE], Bound(found=True), "bind get"),
        ([ServerError(504, "Timeout")], [HERE], Bound(found=True), "bind get"),
        ([LOST, None], [pod()], Bound(), "bind get bind"),
        ([LOST, CONFLICT], [pod(), HERE], Bound(found=True), "bind get bind get"),
        # A user edited the annotation since: on its node it is by this binding, for no other scheduler was asked.
        ([LOST], [EDITED], Bound(found=True), "bind get"),
        ([LOST], [pod("n1")], Bound(found=True), "bind get"),
        ([LOST, CONFLICT], [pod(), EDITED], Bound(found=True), "bind get bind get"),
        ([LOST], [pod("n2", annotations=ANNOTATIONS)], Conflicted("bound", "TimedOut: no answer", "n2"), "bind get"),
        ([LOST, NotFound(404)], [pod()], Gone(), "bind get bind"),
        ([LOST], [pod()], Unknown("TimedOut: no answer"), "bind get bind get"),
        ([LOST], [BROKEN], Unknown("TimedOut: no answer; reading the pod: Unreachable: reset"), "bind get"),
        ([ServerError(500, "Etcd")], [pod()], Throttled(None, "500 Etcd"), "bind get"),
        ([ServerError(500, "Etcd")], [HERE], Bound(found=True), "bind get"),
    ],
)
async def test_each_answer_has_its_outcome(binds: list[Any], reads: list[Any], expected: Outcome, calls: str) -> None:
    port = FakePort(list(binds), list(reads))
    assert await run(port, BINDING) == expected  # type: ignore[arg-type]
    assert " ".join(port.calls) == calls


@pytest.mark.parametrize("error", [errors.Unprocessable(422, "Invalid", "bad"), errors.Forbidden(403), ApiError(415)])
async def test_a_refusal_keeps_the_servers_words(error: ApiError) -> None:
    outcome = await run(FakePort([error]), BINDING)  # type: ignore[arg-type]
    assert isinstance(outcome, Refused)
    assert (outcome.refusal.status, outcome.refusal.message) == (error.status, error.message)


@pytest.mark.parametrize(("length", "refused"), [(43, False), (44, True)])
async def test_a_key_that_would_spoil_the_pod_is_not_sent(length: int, refused: bool) -> None:
    port = FakePort([None])
    outcome = await run(port, Binding("ns", "p", "u", "n", annotations={INDEX + "c" * length: "0"}))  # type: ignore[arg-type]
    assert isinstance(outcome, Refused) is refused
    assert port.calls == ([] if refused else ["bind"])


@pytest.mark.parametrize("binding", [Binding("ns", "p", "", "n"), Binding("ns", "p", "u", "")])
async def test_a_binding_without_uid_or_node_is_not_sent(binding: Binding) -> None:
    port = FakePort([None])
    assert isinstance(await run(port, binding), Refused)  # type: ignore[arg-type]
    assert port.calls == []


async def test_a_free_pod_resolves_to_nothing() -> None:
    assert await resolve(FakePort([], [pod()]), BINDING) is None  # type: ignore[arg-type]


async def test_an_edited_annotation_does_not_hide_a_binding_that_was_sent() -> None:
    """Without one that was sent, another bound the pod, and to other cards."""
    found = Bound(found=True)
    assert await resolve(FakePort([], [EDITED]), BINDING, sent=True) == found  # type: ignore[arg-type]
    assert await run(FakePort([CONFLICT], [EDITED]), BINDING, sent=True) == found  # type: ignore[arg-type]
    other = await resolve(FakePort([], [EDITED]), BINDING)  # type: ignore[arg-type]
    assert other == Conflicted("bound", "", "n1")


class Steps(Protocol):
    """A protocol whose steps do as told, and which writes down what was asked of it."""

    name = "steps"

    def __init__(self, prepare: Any = None, bind: Any = None, undo: Any = None) -> None:
        self.script = {"prepare": prepare, "bind": bind or Bound(), "undo": undo}
        self.done: list[str] = []

    def _step(self, name: str) -> Any:
        self.done.append(name)
        if isinstance(self.script[name], Exception):
            raise self.script[name]
        return self.script[name]

    async def prepare(self, port: Any, binding: Binding) -> Outcome | None:
        return self._step("prepare")  # type: ignore[no-any-return]

    async def bind(self, port: Any, binding: Binding, *, sent: bool = False) -> Outcome:
        return self._step("bind")  # type: ignore[no-any-return]

    async def undo(self, port: Any, binding: Binding) -> None:
        self._step("undo")


@pytest.mark.parametrize(
    ("steps", "expected", "done"),
    [
        (Steps(), Bound(), "prepare bind"),
        (Steps(prepare=Busy("m")), Busy("m"), "prepare"),
        (Steps(prepare=Gone()), Gone(), "prepare"),
        (Steps(prepare=NotFound(404)), Gone(), "prepare undo"),
        (Steps(bind=Gone()), Gone(), "prepare bind undo"),
        (Steps(bind=Unknown("?")), Unknown("?"), "prepare bind"),
        (Steps(bind=LOST), Unknown("TimedOut: no answer"), "prepare bind"),
        (Steps(bind=NotFound(404)), Gone(), "prepare bind undo"),
        (Steps(bind=Conflicted("unclear", "m")), Conflicted("unclear", "m"), "prepare bind undo"),
        (Steps(bind=Gone(), undo=ServerError(500)), Gone(), "prepare bind undo"),
    ],
)
async def test_the_machine_undoes_what_it_prepared_unless_the_result_is_open(
    steps: Steps, expected: Outcome, done: str
) -> None:
    assert await run(FakePort([None]), BINDING, steps) == expected  # type: ignore[arg-type]
    assert " ".join(steps.done) == done


async def test_direct_asks_nothing_before_and_after() -> None:
    assert Direct().name == "direct"
    assert await Direct().prepare(FakePort([]), BINDING) is None  # type: ignore[arg-type]
    assert await Direct().confirm(FakePort([]), BINDING) is AgentAnswer.GIVEN  # type: ignore[arg-type]
