"""What a scheduler that takes over reads of pods that its watches have not told of yet."""

from typing import Any

import pytest
from msgspec import structs

from t9ksched.kube.errors import ApiError, Forbidden, NotFound, ServerError
from t9ksched.kube.watch.reflector import Reflector
from t9ksched.scheduler.observe.unheard import read_unheard
from tests.unit.kube.mirrored import FakeServer, following
from tests.unit.scheduler.state.test_places import row
from tests.unit.scheduler.state.test_state import node, pod, state_with


class Heard:
    """A handler of pods, to which older states may come again."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.gone: list[str] = []

    def on_replace(self, items: list[Any]) -> None:
        for item in items:
            self.on_upsert(item)

    def on_upsert(self, obj: Any) -> None:
        self.objects[obj["metadata"]["uid"]] = obj

    def on_delete(self, obj: Any) -> None:
        self.gone.append(obj["metadata"]["uid"])
        del self.objects[obj["metadata"]["uid"]]


class Answers:
    """A cluster that answers reads of one pod in turn."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    async def get(self, *_: Any) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, ApiError):
            raise answer
        return answer


def seen(uid: str = "u", node: str = "n1", phase: str = "Running") -> dict[str, Any]:
    meta = {"namespace": "ns", "name": "p", "uid": uid, "resourceVersion": "7"}
    return {"metadata": meta, "spec": {"nodeName": node} if node else {}, "status": {"phase": phase}}


CASES: dict[str, tuple[tuple[Any, ...], bool]] = {
    "bound": ((seen(),), True),
    "bound and not yet running": ((seen(phase="Pending"),), True),
    "the server is busy at first": ((ServerError(503), ServerError(500), seen()), True),
    "not bound": ((seen(node=""),), False),
    "ended": ((seen(phase="Failed"),), False),
    "another of its name": ((seen(uid="other"),), False),
    "gone": ((NotFound(404),), False),
    "may not be read": ((Forbidden(403),), False),
}


@pytest.mark.parametrize(("answers", "learned"), CASES.values(), ids=CASES)
async def test_pods_that_hold_a_place_are_told_of(answers: Any, learned: bool, monkeypatch: Any) -> None:
    monkeypatch.setattr("t9ksched.scheduler.observe.unheard._PAUSE", 0.0)
    heard, port = Heard(), Answers(*answers)
    pods: Reflector[Any] = following(FakeServer(), heard)[0]  # type: ignore[arg-type]
    await read_unheard(port, pods, [structs.replace(row("u", None), name="p")])  # type: ignore[arg-type]
    assert (list(heard.objects), port.answers) == (["u"] if learned else [], [])


def test_rows_of_pods_that_are_not_seen_bound_are_asked_for() -> None:
    state = state_with(node("n1"))
    state.cards.restore({uid: row(uid, None) for uid in ("pod-bound", "pod-waits", "pod-unknown")}, complete=True)
    state.upsert_pod(pod("bound", node="n1"))
    state.upsert_pod(pod("waits"))
    assert [one.pod_uid for one in state.cards.unheard()] == ["pod-waits", "pod-unknown"]


def change(server: FakeServer, name: str) -> dict[str, Any]:
    """The newest state of an object, of which the stream has not told yet."""
    server.apply("put", name)
    server.apply("put", name)
    return server.objects[name]


async def test_what_was_learned_beside_the_stream_is_followed_by_it() -> None:
    """An object that the stream does not know yet, one that it has in an older state, and a deletion of each."""
    server, heard = FakeServer(), Heard()
    server.apply("put", "known")
    reflector, _ = following(server, heard)  # type: ignore[arg-type]
    for _ in range(3):
        await reflector.step()
    for name in ("known", "new"):
        reflector.learn(change(server, name))
    assert {uid: obj["count"] for uid, obj in heard.objects.items()} == {"uid-1": 3, "uid-2": 2}
    await reflector.step()
    assert {uid: obj["count"] for uid, obj in heard.objects.items()} == {"uid-1": 3, "uid-2": 2}
    assert (server.lists, len(reflector)) == (1, 2)
    late = server.objects["new"]
    for name in ("known", "new"):
        server.apply("delete", name)
    await reflector.step()
    reflector.learn(late)
    assert (heard.objects, heard.gone, len(reflector)) == ({}, ["uid-1", "uid-2"], 0)


async def test_a_list_that_began_before_does_not_prove_that_what_was_learned_is_gone() -> None:
    server, heard = FakeServer(), Heard()
    for name in "ab":
        server.apply("put", name)
    reflector, _ = following(server, heard, page_size=1)  # type: ignore[arg-type]
    for _ in range(3):
        await reflector.step()
    server.forget()
    server.apply("put", "a")
    server.forget()
    await reflector.step()  # the version is forgotten: everything is read again
    await reflector.step()
    await reflector.step()
    reflector.learn(change(server, "c"))
    await reflector.step()
    assert "uid-3" in heard.objects
    assert heard.gone == []
    await reflector.step()
    assert heard.objects == {obj["metadata"]["uid"]: obj for obj in server.objects.values()}


async def test_the_former_one_of_its_name_is_gone_when_the_next_is_learned() -> None:
    server, heard = FakeServer(), Heard()
    server.apply("put", "a")
    reflector, _ = following(server, heard)  # type: ignore[arg-type]
    for _ in range(3):
        await reflector.step()
    server.apply("put", "a")
    server.apply("delete", "a")
    reflector.learn(change(server, "a"))
    assert (list(heard.objects), heard.gone) == (["uid-2"], ["uid-1"])
    await reflector.step()
    assert (list(heard.objects), heard.gone, server.lists) == (["uid-2"], ["uid-1"], 1)
